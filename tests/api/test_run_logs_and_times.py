"""What runs tell beside their steps: lines of their log, usual durations and expected ends."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ironic_lite.api.controllers import runs as controllers_runs
from ironic_lite.api.resources import run_documents
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events, retention, runs
from ironic_lite.db.tables import models
from ironic_lite.domain import run_log
from ironic_lite.features.why import rows
from tests.support.api_rows import AddNode
from tests.support.callers import OWNER, STRANGER, Callers
from tests.support.database_rows import insert_run
from tests.support.statements import count_statements
from tests.support.waiting_client import waiting_client
from tests.support.wsgi_client import Client

# GET /v1/nodes/{node}/runs/{run}/log: rights, runs of other nodes, order, bounds.

T = TypeVar("T")


def add_run(database: Database, node: str, state: str = "failed", **more: object) -> str:
    """Add a run with an event each second and a line between them; return its UUID."""
    run, now = str(uuid.uuid4()), clock.now()
    row = {
        "uuid": run,
        "node_uuid": node,
        "verb": "clean",
        "state": state,
        "started_at": now,
        "ended_at": None if state == "running" else now,
        **more,
    }

    def write(conn: Connection) -> None:
        insert_run(conn, row)
        for second in range(3):
            at = now + datetime.timedelta(seconds=second)
            event = {"at": at, "node_uuid": node, "run_uuid": run, "kind": "step_started"}
            events.add(conn, [{**event, "data": {"step": f"deploy.s{second}"}}])
            text = run_log.line(at, run_log.BMC, f"GET /redfish/v1/{second} 200 0.010 s")
            runs.append_lines(conn, run, at=at, text=text)

    database.write(write)
    return run


def texts(body: bytes) -> list[str]:
    return [line[28:] for line in body.decode().splitlines()]


EXPECTED = [
    one
    for second in range(3)
    for one in (
        f"run      deploy.s{second} begins",
        f"bmc      GET /redfish/v1/{second} 200 0.010 s",
    )
]


def test_log_joins_events_and_lines_by_time(
    api: Client, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"])
    add_run(database, add_node(name="n2")["uuid"])
    with count_statements(database) as sent:
        answer = api.get(f"/v1/nodes/n1/runs/{run}/log")
    assert (answer.status, texts(answer.body)) == (200, EXPECTED)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert len(sent) == 4, sent


@pytest.mark.parametrize("version", ["1.1", "latest"])
def test_every_version_has_the_log(
    api: Client, add_node: AddNode, database: Database, version: str
) -> None:
    run = add_run(database, add_node()["uuid"])
    node = api.get("/v1/nodes").json["nodes"][0]["uuid"]
    assert api.at(version).get(f"/v1/nodes/{node}/runs/{run}/log").status == 200


def test_current_is_the_active_or_the_newest_run(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1")["uuid"]
    assert api.get("/v1/nodes/n1/runs/current/log").status == 404
    add_run(database, node)
    assert texts(api.get("/v1/nodes/n1/runs/current/log").body) == EXPECTED


def test_run_of_another_node_is_not_found(
    api: Client, add_node: AddNode, database: Database
) -> None:
    add_node(name="n1")
    run = add_run(database, add_node(name="n2")["uuid"])
    for ident in (run, str(uuid.uuid4()), "nonsense", run.upper()):
        assert api.get(f"/v1/nodes/n1/runs/{ident}/log").status == 404
    assert api.get(f"/v1/nodes/n2/runs/{run.upper()}/log").status == 200
    assert api.get(f"/v1/nodes/nobody/runs/{run}/log").status == 404


@pytest.mark.parametrize("query", ["follow=perhaps", "tail=3", "wait=5"])
def test_malformed_query_is_refused(
    api: Client, add_node: AddNode, database: Database, query: str
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"])
    answer = api.get(f"/v1/nodes/n1/runs/{run}/log?{query}")
    assert (answer.status, query.partition("=")[0] in answer.text) == (400, True)


def test_owner_sees_the_log_and_the_lessee_does_not(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1", owner="p-owner", lessee="p-lessee")["uuid"])
    path = f"/v1/nodes/n1/runs/{run}/log"
    seen = {
        "system reader": callers("reader").get(path).status,
        "owner": callers("reader", "p-owner").get(path).status,
        "lessee": callers("admin", "p-lessee").get(path).status,
        "stranger": callers("admin", "p-stranger").get(path).status,
    }
    assert seen == {"system reader": 200, "owner": 200, "lessee": 404, "stranger": 404}
    followed = callers("admin", "p-lessee").get(f"{path}?follow=true").status
    assert followed == 404


def test_log_goes_with_its_run(api: Client, add_node: AddNode, database: Database) -> None:
    node = add_node(name="n1")["uuid"]
    run, later = add_run(database, node), clock.after(60)

    def remove(conn: Connection) -> None:
        excess = retention.Excess(entries=0, others=0, runs=1 << 40)
        assert retention.remove_runs(conn, node, excess, before=later, limit=9) == 1
        assert runs.log_rows(conn, run) == []
        runs.append_lines(conn, run, at=later, text="too late")
        assert runs.log_rows(conn, run) == []

    database.write(remove)
    assert api.get(f"/v1/nodes/n1/runs/{run}/log").status == 404


@pytest.mark.feature("why")
def test_tail_is_the_end_of_the_stored_lines(
    api: Client, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"])
    row = database.read(lambda conn: runs.get(conn, run))
    with count_statements(database) as sent:
        found = database.read(lambda conn: rows.log_tail(conn, row, 2))
    stored = [one for one in EXPECTED if one.startswith("bmc")]
    assert [line[28:] for line in found] == stored[-2:]
    assert len(sent) == 1, sent
    assert len(database.read(lambda conn: rows.log_tail(conn, row, 99))) == len(stored)


def test_log_of_very_many_events_lacks_the_middle(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1")["uuid"]
    run, now = add_run(database, node), clock.now()
    row = {"at": now, "node_uuid": node, "run_uuid": run, "kind": "step_started"}
    many = [
        {**row, "data": {"step": f"deploy.m{n}"}} for n in range(3 * run_documents.MOST_LOG_EVENTS)
    ]
    database.write(lambda conn: events.add(conn, many))
    text = api.get(f"/v1/nodes/n1/runs/{run}/log").body.decode()
    assert text.count("\n") == 2 * run_documents.MOST_LOG_EVENTS + 3 + 1
    assert "(events left out here)" in text
    assert "deploy.s0 begins" in text
    assert f"deploy.m{len(many) - 1} begins" in text


def test_stream_of_an_ended_run_is_its_log(
    api: Client, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"])
    waiting = waiting_client(api.app, database)
    answer = waiting.get(f"/v1/nodes/n1/runs/{run}/log?follow=true")
    assert texts(answer.body) == EXPECTED
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_reader_returns_each_line_once(api: Client, add_node: AddNode, database: Database) -> None:
    node = add_node(name="n1")["uuid"]
    run = add_run(database, node, "running")
    reader = run_documents.LogReader(database, database.read(lambda conn: runs.get(conn, run)))
    first = reader.piece()
    assert (texts(first.text.encode()), first.last) == (EXPECTED, False)
    assert reader.piece() == ("", False)
    database.write(lambda c: runs.append_lines(c, run, at=clock.now(), text="one more"))
    assert reader.piece() == ("one more\n", False)
    late = {"at": clock.now(), "node_uuid": node, "run_uuid": run, "kind": "overdue"}
    database.write(lambda conn: events.add(conn, [{**late, "data": {"step": "deploy.s2"}}]))
    again = reader.piece()
    assert texts(again.text.encode()) == ["run      deploy.s2 takes longer than usual"]
    ended = {"state": "done", "ended_at": clock.now()}
    database.write(lambda conn: runs.update(conn, run, ended))
    assert reader.piece() == ("", True)


class Repeated:
    """A database whose every read is repeated, as after the loss of its connection."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return the result of the second try."""

        def twice(conn: Connection) -> T:
            work(conn)
            return work(conn)

        return self._database.read(twice)


def test_reader_loses_no_line_if_a_read_is_repeated(
    api: Client, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"], "running")
    row = database.read(lambda conn: runs.get(conn, run))
    reader = run_documents.LogReader(Repeated(database), row)  # type: ignore[arg-type]  # only reads
    assert texts(reader.piece().text.encode()) == EXPECTED
    assert reader.piece() == ("", False)


def test_event_that_becomes_visible_late_is_read(
    api: Client, add_node: AddNode, database: Database
) -> None:
    """A sweep's transaction may end after that of a later event."""
    run = add_run(database, add_node(name="n1")["uuid"], "running")
    step = models.events.c.data["step"].as_string()

    def place(where: str | None) -> None:
        change = models.events.update().where(step == "deploy.s1").values(run_uuid=where)
        database.write(lambda conn: conn.execute(change))

    place(None)
    reader = run_documents.LogReader(database, database.read(lambda conn: runs.get(conn, run)))
    assert "deploy.s1" not in reader.text()
    place(run)
    assert texts(reader.text().encode()) == ["run      deploy.s1 begins"]
    assert reader.text() == ""


# Usual durations, the expected end of a run, and overdue steps on the wire.

HOUR = 3600.0


@pytest.fixture
def node(add_node: AddNode) -> str:
    """The UUID of a node of the class gpu."""
    return str(add_node(name="metal-7", resource_class="gpu")["uuid"])


def add_timed_run(database: Database, node: str, *steps: tuple[str, str, float], state: str) -> str:
    """Add a run; a step is its name, its state, and the seconds since it began, or it took."""
    run = str(uuid.uuid4())
    now = clock.now()
    row = {"uuid": run, "node_uuid": node, "verb": "clean", "state": state, "started_at": now}
    rows: list[dict[str, Any]] = []
    for ordinal, (name, each, seconds) in enumerate(steps):
        begun = now - datetime.timedelta(seconds=seconds)
        rows.append(
            {
                "run_uuid": run,
                "kind": "clean",
                "ordinal": ordinal,
                "interface": "deploy",
                "step": name,
                "state": each,
                "attempt": 1,
                "started_at": None if each == "pending" else begun,
                "ended_at": now if each == "done" else None,
            }
        )
    database.write(lambda conn: insert_run(conn, row))
    database.write(lambda conn: runs.insert_steps(conn, rows))
    return run


def add_past_runs(database: Database, node: str, name: str, *seconds: float) -> None:
    """Add runs with one step that has ended well, and has taken so long."""
    for one in seconds:
        add_timed_run(database, node, (name, "done", one), state="done")


def seconds_from_now(text: str) -> float:
    moment = datetime.datetime.fromisoformat(text)
    return (moment - datetime.datetime.now(datetime.UTC)).total_seconds()


def test_run_under_way_has_an_expected_end(api: Client, database: Database, node: str) -> None:
    add_past_runs(database, node, "erase_devices", HOUR, HOUR, 2 * HOUR, HOUR, 3 * HOUR)
    add_past_runs(database, node, "burnin_cpu", 60, 60, 60, 60, 60, 60)
    add_timed_run(
        database,
        node,
        ("burnin_cpu", "done", 50),
        ("erase_devices", "waiting", HOUR / 2),
        ("burnin_cpu", "pending", 0),
        state="waiting",
    )
    shown = api.get(f"/v1/nodes/{node}/runs/current").json
    eta = shown["eta"]
    assert {"samples": eta["samples"], "of": eta["of"]} == {
        "samples": 5,
        "of": "step, driver, resource_class",
    }
    assert seconds_from_now(eta["ends_at"]) == pytest.approx(HOUR / 2 + 60, abs=60)
    assert seconds_from_now(eta["late_at"]) == pytest.approx(2.5 * HOUR + 60, abs=60)
    usual = [step["usual_seconds"] for step in shown["steps"]]
    assert usual[1] == {"p50": HOUR, "p90": 3 * HOUR, "samples": 5}
    assert usual[0] == usual[2] == {"p50": 60, "p90": 60, "samples": 7}
    assert [step["overdue"] for step in shown["steps"]] == [None, None, None]


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/nodes/metal-7/runs"])
def test_lists_show_place_and_end_of_runs_under_way(
    api: Client, database: Database, node: str, path: str
) -> None:
    add_past_runs(database, node, "erase_devices", *[HOUR] * 5)
    steps = (("burnin_cpu", "done", 50), ("erase_devices", "waiting", HOUR / 2))
    run = add_timed_run(database, node, *steps, state="waiting")
    with count_statements(database) as sent:
        listed = api.get(f"{path}?fields=uuid,place,eta,stop").json["runs"]
    assert len(sent) <= 4, sent  # node, runs, steps, usual durations
    shown = {one["uuid"]: one for one in listed}[run]
    assert seconds_from_now(shown["place"].pop("since")) == pytest.approx(-HOUR / 2, abs=60)
    place = {"ordinal": 1, "of": 2, "interface": "deploy", "step": "erase_devices", "attempt": 1}
    assert shown["place"] == place
    single = api.get(f"/v1/nodes/{node}/runs/{run}").json
    assert shown["eta"].keys() == single["eta"].keys()
    assert seconds_from_now(shown["eta"]["ends_at"]) == pytest.approx(HOUR / 2, abs=60)
    assert [one["place"] for one in listed if one["uuid"] != run] == [None] * 5
    assert "place" not in single
    for query in ("", "?detail=true") if "nodes" in path else ("",):
        assert not {"place", "eta", "stop"} & api.get(path + query).json["runs"][0].keys()


def test_usual_times_of_all_steps_cost_one_statement(
    api: Client, database: Database, node: str
) -> None:
    names = [(f"step_{number}", "pending", 0.0) for number in range(20)]
    run = add_timed_run(database, node, *names, state="running")
    with count_statements(database) as sent:
        assert len(api.get(f"/v1/nodes/{node}/runs/{run}").json["steps"]) == 20
    assert len(sent) <= 5, sent  # node, run, steps, usual durations, batch


def test_run_with_an_unknown_step_has_no_expected_end(
    api: Client, database: Database, node: str
) -> None:
    add_past_runs(database, node, "burnin_cpu", 60, 60, 60, 60, 60, 60)
    run = add_timed_run(
        database, node, ("burnin_cpu", "running", 1), ("new_step", "pending", 0), state="running"
    )
    shown = api.get(f"/v1/nodes/{node}/runs/{run}").json
    assert shown["eta"] is None
    assert shown["steps"][1]["usual_seconds"] is None


@pytest.mark.parametrize("reserved", ["hold", "wait"])
def test_steps_that_last_as_long_as_requested_are_not_usual(
    api: Client, database: Database, node: str, reserved: str
) -> None:
    add_past_runs(database, node, reserved, 60, 60, 60, 60, 60, 60)
    run = add_timed_run(database, node, (reserved, "waiting", 9 * HOUR), state="waiting")
    shown = api.get(f"/v1/nodes/{node}/runs/{run}").json
    assert shown["eta"] is None
    assert shown["steps"][0]["usual_seconds"] is None
    assert shown["steps"][0]["overdue"] is None


@pytest.mark.parametrize("state", ["done", "failed", "aborted"])
def test_run_that_has_ended_has_usual_times_and_no_predictions(
    api: Client, database: Database, node: str, state: str
) -> None:
    add_past_runs(database, node, "burnin_cpu", 60, 60, 60, 60, 60)
    run = add_timed_run(database, node, ("burnin_cpu", "done", 9 * HOUR), state=state)
    with count_statements(database) as sent:
        shown = api.get(f"/v1/nodes/{node}/runs/{run}").json
    assert len(sent) <= 5, sent  # node, run, steps, usual durations, batch
    assert shown["eta"] is None
    assert shown["steps"][0]["usual_seconds"] == {"p50": 60, "p90": 9 * HOUR, "samples": 6}
    assert shown["steps"][0]["overdue"] is None


def test_step_that_takes_too_long_is_overdue(api: Client, database: Database, node: str) -> None:
    add_past_runs(database, node, "erase_devices", 600, 600, 600, 600, 600)
    run = add_timed_run(
        database,
        node,
        ("erase_devices", "waiting", HOUR),
        ("erase_devices", "pending", 0),
        state="waiting",
    )
    first, second = api.get(f"/v1/nodes/{node}/runs/{run}").json["steps"]
    assert first["overdue"]["usual_p90"] == 600
    assert seconds_from_now(first["overdue"]["since"]) == pytest.approx(1800 - HOUR, abs=60)
    assert second["overdue"] is None


def test_step_that_its_conductor_has_marked_is_overdue(
    api: Client, database: Database, node: str
) -> None:
    run = add_timed_run(database, node, ("erase_devices", "running", HOUR), state="running")
    step = models.run_steps.c
    for minutes, marked in ((90, False), (30, True)):
        at = clock.after(-60 * minutes)
        change = models.run_steps.update().where(step.run_uuid == run).values(overdue_at=at)
        database.write(lambda conn, change=change: conn.execute(change))  # type: ignore[misc]
        [shown] = api.get(f"/v1/nodes/{node}/runs/{run}").json["steps"]
        known = {"since": f"{at.isoformat()}+00:00", "usual_p90": None}
        assert shown["overdue"] == (known if marked else None)


def test_fields_choose_the_expected_end_alone(api: Client, database: Database, node: str) -> None:
    add_past_runs(database, node, "burnin_cpu", 60, 60, 60, 60, 60)
    run = add_timed_run(database, node, ("burnin_cpu", "running", 1), state="running")
    shown = api.get(f"/v1/nodes/{node}/runs/{run}?fields=eta").json
    assert shown.keys() == {"eta", "links"}
    assert shown["eta"]["samples"] == 5


def test_lists_of_runs_do_not_have_steps(api: Client, node: str) -> None:
    assert api.get(f"/v1/nodes/{node}/runs?fields=steps").status == 400


# -- overdue runs of the fleet ---------------------------------------------------------------


@pytest.fixture
def overdue(database: Database, node: str, add_node: AddNode) -> dict[str, str]:
    """Runs by a word: two that are overdue by their usual time, one that is marked, and others."""
    add_past_runs(database, node, "erase_devices", 600, 600, 600, 600, 600)
    other = str(add_node(resource_class="gpu", owner=OWNER)["uuid"])
    runs_of = {
        "hour": add_timed_run(database, node, ("erase_devices", "waiting", HOUR), state="waiting"),
        "day": add_timed_run(
            database, other, ("erase_devices", "waiting", 24 * HOUR), state="waiting"
        ),
        "marked": add_timed_run(database, node, ("other", "running", 120), state="running"),
        "usual": add_timed_run(database, node, ("erase_devices", "waiting", 1200), state="waiting"),
        "unknown": add_timed_run(database, node, ("other", "running", 9 * HOUR), state="running"),
        "ended": add_timed_run(database, node, ("other", "done", 9 * HOUR), state="done"),
    }
    mine = models.run_steps.c.run_uuid == runs_of["marked"]
    change = models.run_steps.update().where(mine).values(overdue_at=clock.after(-60))
    database.write(lambda conn: conn.execute(change))
    return runs_of


def listed(client: Client, known: dict[str, str], query: str) -> list[str]:
    answer = client.get(f"/v1/runs?{query}")
    assert answer.status == 200, answer.text
    words = {uuid: word for word, uuid in known.items()}
    return [words[run["uuid"]] for run in answer.json["runs"]]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("overdue=true", ["day", "hour", "marked"]),
        ("overdue=true&fields=state", ["day", "hour", "marked"]),
        ("overdue=true&sort_dir=asc", ["marked", "hour", "day"]),
        ("overdue=true&node=metal-7", ["hour", "marked"]),
        ("overdue=true&state=running", ["marked"]),
        ("overdue=true&state=done", []),
    ],
)
def test_overdue_runs_are_listed_by_their_excess(
    api: Client, overdue: dict[str, str], query: str, words: list[str]
) -> None:
    if "fields" in query:
        query += ",uuid"
    assert listed(api, overdue, query) == words


def test_overdue_runs_are_filtered_before_they_are_cut_off(
    api: Client, overdue: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controllers_runs, "MOST_OVERDUE", 1)
    assert listed(api, overdue, "overdue=true") == ["day"]
    assert listed(api, overdue, "overdue=true&node=metal-7") == ["hour"]
    assert listed(api, overdue, "overdue=true&state=running") == ["marked"]


def test_overdue_runs_are_paged(api: Client, overdue: dict[str, str]) -> None:
    first = api.get("/v1/runs?overdue=true&limit=2").json
    assert [run["uuid"] for run in first["runs"]] == [overdue["day"], overdue["hour"]]
    second = api.get(first["next"].removeprefix("http://localhost:6385")).json
    assert [run["uuid"] for run in second["runs"]] == [overdue["marked"]]
    assert "next" not in second
    assert api.get(f"/v1/runs?overdue=true&marker={overdue['ended']}").status == 404


def test_runs_that_are_not_overdue_are_listed_as_ever(api: Client, overdue: dict[str, str]) -> None:
    assert len(api.get("/v1/runs?overdue=false").json["runs"]) == len(overdue) + 5


def test_no_run_is_overdue_without_samples(api: Client, database: Database, node: str) -> None:
    add_timed_run(database, node, ("erase_devices", "waiting", 24 * HOUR), state="waiting")
    with count_statements(database) as sent:
        assert api.get("/v1/runs?overdue=true").json == {"runs": []}
    assert len(sent) <= 3, sent


def test_owner_sees_overdue_runs_of_own_nodes(callers: Callers, overdue: dict[str, str]) -> None:
    assert listed(callers("reader", OWNER), overdue, "overdue=true") == ["day"]
    assert listed(callers("reader", STRANGER), overdue, "overdue=true") == []


@pytest.mark.feature("why")
def test_explanation_of_a_node_names_its_overdue_step(
    api: Client, database: Database, add_node: AddNode
) -> None:
    node = str(add_node(name="w1", provision_state="clean wait")["uuid"])
    add_past_runs(database, node, "erase_devices", 600, 600, 600, 600, 600)
    add_timed_run(database, node, ("erase_devices", "waiting", HOUR), state="waiting")
    found = api.get("/v1/nodes/w1/why").json["overdue"]
    since = seconds_from_now(found.pop("since"))
    assert since == pytest.approx(1800 - HOUR, abs=60)
    assert found == {"step": "deploy.erase_devices", "usual_p90": 600}
