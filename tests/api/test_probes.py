"""What monitors ask: the health check, liveness, readiness, and what Prometheus reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg
from prometheus_client import parser

from ironic_lite import errors
from ironic_lite.api import health, middleware
from ironic_lite.api.auth import identify
from ironic_lite.api.http import request
from ironic_lite.core import clock, metrics
from ironic_lite.db.engine import session
from ironic_lite.db.queries import conductors
from ironic_lite.rpc import stub
from tests.support import api_rows, configurations, whole_api
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.service import until
from tests.support.statements import count_statements
from tests.support.thread_limit import no_new_threads
from tests.support.wsgi_client import Client

Build = Callable[..., Client]


@pytest.fixture
def build(database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts) -> Build:
    """Make an API anew with options, and perhaps with somebody at its door."""

    def made(
        who: identify.Identify = request.anonymous,
        page: health.ReadinessPage | None = None,
        **options: Any,
    ) -> Client:
        for name, value in options.items():
            group, _, option = name.partition("__")
            conf.set_override(option, value, group=group)
        inner = whole_api.routed(database, recorder, conf)
        table = health.probe_table(conf, lambda: inner.service, page)
        return Client(middleware.RequestMiddleware(inner, conf, who, table))

    return made


def nobody(_environ: Any, _request_id: str) -> Any:
    raise errors.Unauthorized


# -- /healthcheck ----------------------------------------------------------------------------


def test_the_health_check_is_off_by_default(api: Client) -> None:
    assert api.get("/healthcheck").status == 404


def test_the_health_check_answers_nothing_to_anybody(build: Build) -> None:
    api = build(nobody, healthcheck__enabled=True)
    answer = api.get("/healthcheck")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "text/plain; charset=UTF-8"
    assert api.get("/v1/nodes").status == 401
    assert api.get("/healthcheck/").status == 200
    head = api.request("HEAD", "/healthcheck")
    assert (head.status, head.body) == (204, b"")


@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_the_health_check_is_asked_in_any_way(build: Build, method: str) -> None:
    api = build(nobody, healthcheck__enabled=True)
    assert api.request(method, "/healthcheck").status == 200
    assert api.request(method, "/livez").status == 401


def test_the_health_check_speaks_json_with_who_asks_for_it(build: Build, tmp_path: Any) -> None:
    asked = {"headers": {"Accept": "application/json"}}
    answer = build(healthcheck__enabled=True).get("/healthcheck", **asked)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {"detailed": False, "reasons": []}
    off = tmp_path / "off"
    api = build(healthcheck__enabled=True, healthcheck__disable_by_file_path=str(off))
    assert api.get("/healthcheck", **asked).json == {"detailed": False, "reasons": ["OK"]}
    off.touch()
    answer = api.get("/healthcheck", **asked)
    assert (answer.status, answer.json["reasons"]) == (503, ["DISABLED BY FILE"])


def test_a_file_takes_the_api_out_of_service(build: Build, tmp_path: Any) -> None:
    off = tmp_path / "off"
    api = build(healthcheck__enabled=True, healthcheck__disable_by_file_path=str(off))
    answer = api.get("/healthcheck")
    assert (answer.status, answer.body) == (200, b"OK")
    off.touch()
    answer = api.get("/healthcheck")
    assert (answer.status, answer.body) == (503, b"DISABLED BY FILE")
    assert api.request("HEAD", "/healthcheck").status == 503


# -- /livez, /readyz -------------------------------------------------------------------------


def test_livez_answers_without_a_database(build: Build, database: session.Database) -> None:
    api = build(nobody)
    database.close()
    with count_statements(database) as sent:
        answer = api.get("/livez")
    assert (answer.status, answer.json, len(sent)) == (200, {"status": "alive"}, 0)


def test_all_is_well_with_a_database_and_a_conductor_that_answers(
    build: Build, recorder: Recorder, database: session.Database
) -> None:
    api = build(nobody)
    with count_statements(database) as sent:
        answers = [api.get("/readyz") for _ in range(20)]
    assert {answer.status for answer in answers} == {200}
    assert answers[0].json == {
        "status": "ready",
        "checks": {
            "database": {"status": "ok"},
            "conductors": {"status": "ok", "alive": 1},
            "rpc": {"status": "ok"},
        },
    }
    # However many ask within a second.
    assert [name for name, _ in recorder.calls] == ["get_driver_properties"] * len(sent)
    assert recorder.hosts[0] == HOST


def test_readiness_without_a_thread_is_checked_by_the_next_request(build: Build) -> None:
    api = build()
    with no_new_threads():
        assert api.get("/readyz").status == 503
    assert api.get("/readyz").status == 200


def test_a_database_that_cannot_be_read_is_told(
    build: Build, monkeypatch: pytest.MonkeyPatch, database: session.Database
) -> None:
    def away(_work: Any) -> Any:
        raise errors.Unavailable("No route to secret-host.", reason="secret-host")

    api = build()
    monkeypatch.setattr(database, "read", away)
    answer = api.get("/readyz")
    assert (answer.status, answer.json["status"]) == (503, "not ready")
    assert answer.json["checks"] == {
        "database": {"status": "failed", "reason": "the database cannot be read"},
        "conductors": {"status": "unknown"},
        "rpc": {"status": "unknown"},
    }
    assert b"secret" not in answer.body


def test_a_fleet_without_a_living_conductor_is_told(
    build: Build, database: session.Database
) -> None:
    database.write(lambda conn: conductors.offline(conn, HOST, clock.now()))
    answer = build().get("/readyz")
    assert answer.status == 503
    assert answer.json["checks"]["database"] == {"status": "ok"}
    assert answer.json["checks"]["conductors"]["reason"] == "no conductor is alive"


def test_a_conductor_that_does_not_answer_is_told(build: Build, recorder: Recorder) -> None:
    recorder.answers["get_driver_properties"] = errors.NoConductor(host=HOST, reason="silence")
    answer = build().get("/readyz")
    assert answer.status == 503
    assert answer.json["checks"]["conductors"] == {"status": "ok", "alive": 1}
    assert answer.json["checks"]["rpc"]["reason"] == "no living conductor answers calls"


def test_a_conductor_that_refuses_has_answered(build: Build, recorder: Recorder) -> None:
    recorder.answers["get_driver_properties"] = errors.DriverNotFound(driver="x")
    assert build().get("/readyz").status == 200


def test_a_check_that_hangs_costs_one_thread_and_no_asker_more_than_the_limit(
    build: Build, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "READINESS_SECONDS", 0.1)
    go_on = threading.Event()
    recorder.answers["get_driver_properties"] = lambda driver: go_on.wait(60)
    api = build()
    try:
        for _ in range(3):
            answer = api.get("/readyz")
            assert answer.status == 503
            assert answer.json["checks"]["rpc"]["reason"] == "no answer within 0.1 s"
        assert len(recorder.calls) == 1
    finally:
        go_on.set()


@pytest.fixture
def three(database: session.Database) -> tuple[str, ...]:
    """Three living conductors."""
    more = ("second", "third")
    for host in more:
        api_rows.add_conductor(database, host)
    return (HOST, *more)


class Hosts:
    """Conductors of which some are silent: they do not answer before the test ends."""

    def __init__(self, recorder: Recorder) -> None:
        self.silent: set[str | None] = set()
        self.over = threading.Event()
        self._recorder = recorder
        recorder.send = self.send  # type: ignore[method-assign]

    def send(self, call: stub.RpcCall) -> Any:
        self._recorder.hosts.append(call.host)
        if call.host in self.silent:
            self.over.wait(60)
            raise errors.NoConductor(host=str(call.host), reason="silence")
        return {}


@pytest.fixture
def hosts(recorder: Recorder) -> Iterator[Hosts]:
    found = Hosts(recorder)
    yield found
    found.over.set()


def test_silence_of_the_conductor_that_answered_last_leaves_the_api_ready(
    build: Build,
    three: tuple[str, ...],
    hosts: Hosts,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "FRESH_SECONDS", -1.0)
    monkeypatch.setattr(health, "READINESS_SECONDS", 60.0)
    monkeypatch.setattr(health, "SILENT_SECONDS", 60.0)
    api = build()
    assert api.get("/readyz").status == 200
    (last,) = recorder.hosts
    assert api.get("/readyz").status == 200
    assert recorder.hosts == [last, last]  # no other one is called without need
    hosts.silent.add(last)
    monkeypatch.setattr(health, "SILENT_SECONDS", 0.1)
    assert api.get("/readyz").status == 200
    monkeypatch.setattr(health, "SILENT_SECONDS", 60.0)
    until(lambda: set(recorder.hosts) == set(three), "the calls of all conductors")
    asked = recorder.hosts.copy()
    for _ in range(10):
        assert api.get("/readyz").status == 200
    assert last not in recorder.hosts[len(asked) :]
    assert len(recorder.hosts) == len(asked) + 10


def test_api_is_not_ready_when_all_conductors_are_silent(
    build: Build,
    three: tuple[str, ...],
    hosts: Hosts,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "READINESS_SECONDS", 0.3)
    monkeypatch.setattr(health, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(health, "FRESH_SECONDS", -1.0)
    hosts.silent.update(three)
    api = build()
    for _ in range(3):
        answer = api.get("/readyz")
        assert answer.status == 503
        assert answer.json["checks"]["rpc"]["reason"] == "no answer within 0.3 s"
    # Each has one call at a time, however long it is silent.
    until(lambda: len(recorder.hosts) >= len(three), "the calls of all conductors")
    assert sorted(map(str, recorder.hosts)) == sorted(three)


def test_processes_of_an_api_share_their_readiness(
    build: Build,
    three: tuple[str, ...],
    hosts: Hosts,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "FRESH_SECONDS", 60.0)
    page = health.ReadinessPage()
    first, second = build(page=page), build(page=page)
    assert first.get("/readyz").status == 200
    hosts.silent.update(three)
    assert second.get("/readyz").status == 200  # the result of the other
    assert len(recorder.hosts) == 1
    hosts.silent.clear()
    monkeypatch.setattr(health, "FRESH_SECONDS", -1.0)
    assert second.get("/readyz").status == 200
    assert recorder.hosts[0] == recorder.hosts[1]  # the first has found one that answers


def test_mixed_result_of_two_processes_is_not_read() -> None:
    page = health.ReadinessPage()
    assert page.read() is None
    page.write({"begun": 1.0})
    assert page.read() == {"begun": 1.0}
    page.memory[10:12] = b"xx"
    assert page.read() is None


# -- /metrics --------------------------------------------------------------------------------


def samples(body: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return what a scraper reads: value by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def value(body: bytes, name: str, **labels: str) -> float | None:
    return samples(body).get((f"ironic_lite_{name}", frozenset(labels.items())))


def test_requests_are_counted_by_method_route_and_code(api: Client, add_node: AddNode) -> None:
    node = add_node()["uuid"]
    labels = {"method": "GET", "route": "/nodes/{ident}"}
    before = value(api.get("/metrics").body, "http_requests_total", **labels, code="200") or 0
    for _ in range(3):
        assert api.get(f"/v1/nodes/{node}").status == 200
    api.get("/v1/nodes/nobody")
    api.request("BREW", "/v1/nodes")
    answer = api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert value(answer.body, "http_requests_total", **labels, code="200") == before + 3
    assert (value(answer.body, "http_requests_total", **labels, code="404") or 0) >= 1
    assert (value(answer.body, "http_request_seconds_count", **labels) or 0) >= before + 4
    invented = value(answer.body, "http_requests_total", method="other", route="none", code="405")
    assert invented and b"BREW" not in answer.body


def test_nodes_are_counted_by_state(api: Client, add_node: AddNode) -> None:
    for state in ("enroll", "available", "available"):
        add_node(provision_state=state)
    add_node(provision_state="available", maintenance=True)
    body = api.get("/metrics").body
    labels = {"provision_state": "available", "maintenance": "false"}
    assert value(body, "nodes", **labels) == 2
    assert value(body, "nodes", provision_state="available", maintenance="true") == 1
    assert value(body, "database_up") == 1


def test_metrics_of_conductors_have_their_names(api: Client, database: session.Database) -> None:
    board = metrics.Board()
    board.count("runs_total", "clean", "done")
    board.observe("run_seconds", 61.0, "clean")
    told = {
        **board.snapshot(),
        "bmc_retries_total": [{"kind": "redfish", "value": 9}],
        "workers": [{"state": "busy", "value": 3}],
        "of a newer release": [{"value": 1}],
    }
    database.write(lambda c: conductors.touch(c, host=HOST, now=clock.now(), counters=told))
    body = api.get("/metrics").body
    who = {"conductor": HOST}
    assert value(body, "runs_total", verb="clean", result="done", **who) == 1
    assert value(body, "run_seconds_bucket", verb="clean", le="180", **who) == 1
    assert value(body, "run_seconds_bucket", verb="clean", le="60", **who) == 0
    assert value(body, "bmc_retries_total", kind="redfish", **who) == 9
    assert value(body, "workers", state="busy", **who) == 3
    assert value(body, "conductor_up", **who) == 1


def test_a_scrape_costs_five_statements_and_the_part_of_one_api_none(
    api: Client, database: session.Database
) -> None:
    with count_statements(database) as sent:
        mine = api.get("/metrics?only=api")
    assert (mine.status, len(sent)) == (200, 0)
    assert b"conductor_up" not in mine.body
    with count_statements(database) as sent:
        shared = api.get("/metrics?only=fleet")
    # counters, nodes by state, holds; and batches and observed nodes, if they are on
    on = {"batches", "move_in"}.intersection(configurations.FEATURES)
    assert (shared.status, len(sent)) == (200, 3 + len(on))
    assert b"http_requests" not in shared.body
    assert api.get("/metrics?only=everything").status == 400
    assert api.get("/metrics?all=1").status == 400


def test_without_a_database_the_rest_is_told(
    build: Build, monkeypatch: pytest.MonkeyPatch, database: session.Database
) -> None:
    def away(_work: Any) -> Any:
        raise errors.Unavailable("Away.", reason="away")

    api = build()
    api.get("/v1")
    monkeypatch.setattr(database, "read", away)
    answer = api.get("/metrics")
    assert (answer.status, value(answer.body, "database_up")) == (200, 0)
    assert b"ironic_lite_nodes" not in answer.body
    assert b"ironic_lite_http_requests_total" in answer.body


def test_metrics_are_for_those_who_may_log_in_unless_they_are_public(build: Build) -> None:
    assert build(nobody).get("/metrics").status == 401
    assert build(nobody, metrics__public=True).get("/metrics").status == 200
    assert build(metrics__enabled=False).get("/metrics").status == 404


def test_openmetrics_is_spoken_with_those_who_ask_for_it(api: Client) -> None:
    answer = api.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")
