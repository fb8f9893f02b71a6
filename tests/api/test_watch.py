"""GET /v1/events and waits in one process: statements, rights, removed nodes, trimmed history."""

from __future__ import annotations

import datetime
import json
import threading
import time

import pytest
from oslo_config import cfg

from ironic_lite.api import middleware
from ironic_lite.api.http import request
from ironic_lite.api.policy import enforcement
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events, nodes, retention
from ironic_lite.domain import notifications
from ironic_lite.features.events import rows as event_rows
from ironic_lite.feed import Tail
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.callers import Callers, Known
from tests.support.conductor_recorder import Recorder
from tests.support.database_rows import insert_run
from tests.support.statements import count_statements
from tests.support.waiting_client import WaitingApplication, waiting_client
from tests.support.wsgi_client import Client

GONE = "99999999-9999-4999-8999-999999999999"


def add_events(database: Database, node: str, count: int, **more: object) -> None:
    row = {"at": clock.now(), "node_uuid": node, "kind": "power", "event": "end", **more}
    database.write(lambda conn: events.add(conn, [dict(row) for _ in range(count)]))


@pytest.mark.feature("events")
def test_page_of_events_costs_three_statements(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1")
    add_events(database, node["uuid"], 100)
    api.get("/v1/events")  # the first look reads the end of the table
    with count_statements(database) as sent:
        assert len(api.get("/v1/events?since=0").json["events"]) == 100
    assert len(sent) == 3, sent
    with count_statements(database) as sent:
        assert len(api.get("/v1/events?since=1h").json["events"]) == 100
    assert len(sent) <= 3 + 1 + 7, "a bisection of about a hundred events beside the three"


@pytest.mark.feature("events")
@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("since=x", "since"),
        ("since=-1", "since"),
        ("since=P5M", "since"),
        ("since=h", "since"),
        ("before=now", "before"),
        ("before=1&wait=5", "before"),
        ("before=1h&follow=true", "before"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("kind=nothing", "kind"),
        ("run=1", "run"),
        ("node=", "node"),
        ("follow=true&wait=5", "wait"),
        ("wait=0", "wait"),
        ("unknown=1", "unknown"),
        ("node=" + ",".join("n" * 51), "node"),
    ],
)
def test_malformed_query_is_refused_by_its_name(api: Client, query: str, named: str) -> None:
    answer = api.get(f"/v1/events?{query}")
    assert (answer.status, named in answer.text) == (400, True), answer.text


@pytest.mark.feature("events")
def test_all_kinds_can_be_named(api: Client) -> None:
    kinds = ",".join(notifications.KINDS)
    assert api.get(f"/v1/events?kind={kinds}").status == 200
    assert api.get(f"/v1/events?kind={kinds},power").status == 400


@pytest.mark.feature("events")
def test_events_are_chosen_by_times(api: Client, add_node: AddNode, database: Database) -> None:
    node = add_node(name="n1")
    for hours, event in ((50, "old"), (10, "night"), (2, "morning"), (0, "now")):
        add_events(database, node["uuid"], 3, at=clock.ago(hours * 3600 + 60), event=event)

    def found(query: str) -> list[str]:
        answer = api.get(f"/v1/events?node=n1&kind=power&{query}")
        assert answer.status == 200, answer.text
        return list(dict.fromkeys(event["event"] for event in answer.json["events"]))

    assert found("since=12h") == found("since=PT12H") == ["night", "morning", "now"]
    assert found("since=0d12h") == found("since=720m") == ["night", "morning", "now"]
    assert found("since=12h&before=3h") == ["night"]
    assert found("before=3h") == ["old", "night"]
    assert found("since=0&before=1d") == ["old"]
    assert found("since=9d&before=8d") == []
    at = clock.ago(3 * 3600).isoformat()
    assert found(f"since={at}Z") == ["morning", "now"]
    assert found(f"since=0&before={at}Z") == ["old", "night"]
    assert found("since=2099-01-01T00:00:00Z") == []
    page = api.get("/v1/events?node=n1&kind=power&since=12h&before=3h&limit=2").json
    rest = api.get(f"/v1/events?node=n1&kind=power&since={page['cursor']}&before=3h").json
    assert [len(one["events"]) for one in (page, rest)] == [2, 1]
    last = int(rest["events"][-1]["cursor"])
    assert found(f"since=0&before={last}") == ["old", "night"]


@pytest.mark.feature("events")
def test_events_are_chosen_by_requester(
    api: Client, callers: Callers, add_node: AddNode, database: Database
) -> None:
    for name, owner in (("n1", "p-owner"), ("n2", "p-other")):
        node = add_node(name=name, owner=owner)["uuid"]
        for number, user in enumerate(("ann", "ben", "ann", None, "ann, the second")):
            add_events(database, node, 1, event=str(number), requester=user, owner=owner)

    def found(query: str, client: Client = api) -> list[str]:
        answer = client.get(f"/v1/events?kind=power&{query}")
        assert answer.status == 200, answer.text
        return [event["name"] + event["event"] for event in answer.json["events"]]

    assert found("requester=ann&since=0") == ["n10", "n12", "n20", "n22"]
    assert found("requester=ann&limit=1") == ["n22"]
    assert found("requester=ann&node=n1") == ["n10", "n12"]
    assert found("requester=ann, the second&node=n1") == ["n14"]
    assert found("requester=Ann") == found("requester=") == found("requester=nobody") == []
    page = api.get("/v1/events?requester=ann&since=0&limit=3&kind=power").json
    assert found(f"requester=ann&since={page['cursor']}") == ["n22"]
    assert found("requester=ann", callers("reader", "p-owner")) == ["n10", "n12"]
    following = waiting_client(api.app, database)
    answer = following.get("/v1/events?requester=ben&kind=power&since=0&follow=true&limit=2")
    told = [json.loads(line) for line in answer.body.splitlines()]
    assert [line["requester"] for line in told if "kind" in line] == ["ben", "ben"]


@pytest.mark.feature("events")
@pytest.mark.parametrize("hours", [-13, 13])
def test_times_choose_the_events_of_a_conductor_with_another_clock(
    api: Client, add_node: AddNode, database: Database, hours: int
) -> None:
    node = add_node(name="n1")
    for number in range(60):
        off = hours if number % 3 == 0 else 0
        at = clock.ago((60 - number + off) * 3600 - 60)
        add_events(database, node["uuid"], 1, at=at)
    times = [
        (event["cursor"], event["at"])
        for event in api.get("/v1/events?node=n1&kind=power&since=0&limit=1000").json["events"]
    ]
    since, before = (clock.ago(ago * 3600).isoformat() for ago in (30, 9))

    def chosen(query: str) -> list[str]:
        answer = api.get(f"/v1/events?node=n1&kind=power&limit=1000&{query}")
        return [event["cursor"] for event in answer.json["events"]]

    assert chosen("since=30h&before=9h") == [one for one, at in times if since <= at < before]
    assert chosen("since=30h") == [one for one, at in times if at >= since]
    assert chosen("before=9h") == [one for one, at in times if at < before]
    following = waiting_client(api.app, database)
    path = "/v1/events?node=n1&kind=power&since=30h&follow=true&limit=9"
    lines = [json.loads(line) for line in following.get(path).body.splitlines()]
    sent = [line["cursor"] for line in lines if "at" in line]
    assert sent == [one for one, at in times if at >= since][:9]


@pytest.mark.feature("events")
def test_events_that_come_later_are_sent_whatever_the_clock_of_their_conductor(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1")
    add_events(database, node["uuid"], 1, event="before")
    following = waiting_client(api.app, database)
    path = "/v1/events?node=n1&kind=power&since=2099-01-01&wait=60"

    def late() -> None:
        add_events(database, node["uuid"], 1, at=clock.ago(13 * 3600), event="late")

    timer = threading.Timer(1.0, late)
    timer.start()
    answer = following.get(path).json
    timer.join()
    assert [event["event"] for event in answer["events"]] == ["late"]


@pytest.mark.feature("events")
def test_times_are_looked_up_once_for_a_request_that_waits(
    api: Client, add_node: AddNode, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_events(database, add_node(name="n1")["uuid"], 100, at=clock.ago(9 * 3600))
    asked: list[object] = []
    look_up = event_rows.id_before

    def count(conn: Connection, at: datetime.datetime) -> int:
        asked.append(at)
        return look_up(conn, at)

    monkeypatch.setattr(event_rows, "id_before", count)
    following = waiting_client(api.app, database)
    timer = threading.Timer(0.5, add_events, (database, GONE, 1))
    timer.start()
    answer = following.get("/v1/events?node=n1&kind=power&since=1h&wait=2").json
    timer.join()
    assert (answer["events"], len(asked)) == ([], 1)


@pytest.mark.feature("events")
@pytest.mark.parametrize("query", ["since=0001-01-01", "since=0&before=9999-12-31"])
def test_first_and_last_day_choose_all_events(
    api: Client, add_node: AddNode, database: Database, query: str
) -> None:
    add_events(database, add_node(name="n1")["uuid"], 3)
    assert len(api.get(f"/v1/events?kind=power&{query}").json["events"]) == 3


@pytest.mark.feature("events")
def test_refused_time_names_all_that_is_allowed(api: Client) -> None:
    for name, words in (("since", "answer, 0 or now"), ("before", "cursor of an earlier answer")):
        text = api.get(f"/v1/events?{name}=yesterday").text
        for word in ("ISO 8601", "12h", words):
            assert word in text


@pytest.mark.feature("events")
def test_removed_events_from_before_a_time_do_not_count(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1")
    for hours in (9, 8, 0):
        add_events(database, node["uuid"], 5, at=clock.ago(hours * 3600))

    def trim(conn: Connection) -> int:
        excess = retention.excess(conn, node["uuid"], entries=1, others=6, runs=1)
        return retention.remove(conn, node["uuid"], excess, before=clock.now(), limit=100)

    assert database.write(trim) > 0
    assert api.get("/v1/events?since=9d").json["trimmed"] is True
    assert api.get("/v1/events?since=1h").json["trimmed"] is False
    following = waiting_client(api.app, database)
    for since, trimmed in (("9d", True), ("1h", False)):
        lines = following.get(f"/v1/events?since={since}&follow=true&limit=1").body.splitlines()
        assert ("trimmed" in json.loads(lines[0])) is trimmed


@pytest.mark.feature("events")
def test_cursor_of_an_answer_is_never_below_its_since(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1")
    for hours in (5, 2, 0):
        add_events(database, node["uuid"], 5, at=clock.ago(hours * 3600))
    last = api.get("/v1/events?since=0").json["cursor"]
    for before in ("3h", "1"):
        answer = api.get(f"/v1/events?since={last}&before={before}").json
        assert (answer["events"], answer["cursor"]) == ([], last)
    assert api.get("/v1/events?since=1h&before=3h").json["events"] == []


@pytest.mark.feature("events")
def test_time_after_the_settled_events_gives_their_cursor(
    api: Client, add_node: AddNode, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later event may still get a number between the settled and the newest one."""
    add_events(database, add_node(name="n1")["uuid"], 5)
    settled = int(api.get("/v1/events?since=now").json["cursor"]) - 2
    monkeypatch.setattr(Tail, "settled", property(lambda self: settled))
    for query in ("since=2099-01-01", "since=0&before=2099-01-01", "before=2099-01-01"):
        answer = api.get(f"/v1/events?{query}").json
        assert int(answer["cursor"]) == settled
        assert all(int(event["cursor"]) <= settled for event in answer["events"])


@pytest.mark.feature("events")
def test_owner_sees_the_events_of_own_nodes_only(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    own = add_node(name="own", owner="p-owner")
    leased = add_node(name="leased", owner="p-other", lessee="p-owner")
    for node in (own["uuid"], leased["uuid"], GONE):
        add_events(database, node, 1)
    owner, system = callers("reader", "p-owner"), callers("reader")
    seen = {event["node"] for event in owner.get("/v1/events?since=0").json["events"]}
    assert seen == {own["uuid"]}
    seen = {event["node"] for event in system.get("/v1/events?since=0").json["events"]}
    assert seen == {own["uuid"], leased["uuid"], GONE}
    assert owner.get(f"/v1/events?node={GONE}").json["events"] == []
    assert owner.get("/v1/events?node=leased").json["events"] == []
    assert len(system.get(f"/v1/events?node={GONE}").json["events"]) == 1
    assert system.get("/v1/events?node=nobody").status == 404


@pytest.mark.feature("events")
def test_trimmed_history_is_told_to_those_who_may_lack_events(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1")
    old = clock.ago(datetime.timedelta(days=9).total_seconds())
    add_events(database, node["uuid"], 10, at=old)
    before = api.get("/v1/events?since=0").json
    assert before["trimmed"] is False

    def trim(conn: Connection) -> int:
        excess = retention.excess(conn, node["uuid"], entries=1, others=4, runs=1)
        return retention.remove(conn, node["uuid"], excess, before=clock.now(), limit=100)

    removed = database.write(trim)
    assert removed > 0
    after = api.get("/v1/events?since=0").json
    assert after["trimmed"] is True
    assert len(after["events"]) == len(before["events"]) - removed
    assert api.get(f"/v1/events?since={before['cursor']}").json["trimmed"] is False
    following = waiting_client(api.app, database)
    add_events(database, node["uuid"], 1)
    for since, marks in (("0", 1), (before["cursor"], 0)):
        answer = following.get(f"/v1/events?since={since}&follow=true&limit=1")
        lines = [json.loads(line) for line in answer.body.splitlines()]
        assert lines[0] == {"cursor": since, **({"trimmed": True} if marks else {})}
        assert not any("trimmed" in line for line in lines[1:])


def test_secrets_do_not_stand_in_the_waits_refusal(callers: Callers, add_node: AddNode) -> None:
    failed = {
        "provision_state": "clean failed",
        "last_error": "the disk of ann",
        "owner": "p-owner",
    }
    add_node(name="n1", lessee="p-lessee", **failed)
    path = "/v1/nodes/n1?wait=5&until=available"
    owner, lessee = callers("reader", "p-owner"), callers("reader", "p-lessee")
    assert (owner.get(path).status, "disk of ann" in owner.get(path).text) == (424, True)
    assert (lessee.get(path).status, "disk of ann" in lessee.get(path).text) == (424, False)


@pytest.mark.feature("events")
def test_requests_wait_and_stream(api: Client, add_node: AddNode, database: Database) -> None:
    node = add_node(name="n1")
    waiting = waiting_client(api.app, database)
    assert waiting.get("/v1/nodes/n1?wait=1&until=active").status == 504
    assert waiting.get("/v1/nodes/n1?wait=1&until=idle").status == 200
    add_events(database, node["uuid"], 3)
    answer = waiting.get("/v1/events?since=0&follow=true&limit=2")
    told = [json.loads(line) for line in answer.body.splitlines()]
    assert told[0] == {"cursor": "0"}
    assert [line.get("kind", line.get("end")) for line in told[1:]] == ["power", "power", "limit"]


class Expiring(Known):
    """Callers whose tokens expire in half a second."""

    def __call__(self, environ: request.Environ, request_id: str) -> Context:
        who = super().__call__(environ, request_id)
        environ[request.CALL].access.expires_at = f"{clock.ago(-0.5).isoformat()}+00:00"
        return who


@pytest.mark.feature("events")
def test_wait_and_stream_end_with_the_token(
    database: Database,
    recorder: Recorder,
    conf: cfg.ConfigOpts,
    asker: enforcement.AccessFactory,
    add_node: AddNode,
) -> None:
    add_node(name="n1", owner="p-owner")
    inner = whole_api.routed(database, recorder, conf)
    api = middleware.RequestMiddleware(inner, conf, Expiring(asker))
    waiting = WaitingApplication(api, database)
    caller = Callers(waiting)("reader", "p-owner")
    begun = time.monotonic()
    waited = caller.get("/v1/nodes/n1?wait=50&until=active")
    assert (waited.status, b"login has ended" in waited.body) == (401, True), waited.body
    streamed = caller.get("/v1/events?since=0&follow=true")
    assert json.loads(streamed.body.splitlines()[-1])["end"] == "login"
    assert time.monotonic() - begun < 40


def test_events_are_the_last_statement_of_a_change(
    api: Client, add_node: AddNode, database: Database
) -> None:
    """So followers wait briefly for a number whose transaction is open."""
    add_node(name="n1")
    node = database.read(lambda c: nodes.get(c, "n1", ("uuid",)))["uuid"]
    port = {"node_uuid": node, "address": "52:54:00:00:00:01"}
    requests: list[tuple[str, str, object]] = [
        ("PATCH", "/v1/nodes/n1", [{"op": "add", "path": "/extra/a", "value": 1}]),
        ("PUT", "/v1/nodes/n1/maintenance", {"reason": "r"}),
        ("PUT", "/v1/nodes/n1/traits/CUSTOM_A", None),
        ("POST", "/v1/ports", port),
        ("POST", "/v1/nodes", {"driver": "fake-hardware"}),
    ]
    for method, path, body in requests:
        with count_statements(database) as sent:
            assert api.request(method, path, body).status < 300
        written = [one for one in sent if not one.startswith("SELECT")]
        assert written[-1].startswith("INSERT INTO events"), f"{method} {path}: {written}"


@pytest.mark.feature("events")
def test_preferred_answer_hides_the_error_of_a_run_from_a_lessee(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1", owner="p-owner", lessee="p-lessee", provision_state="active")
    run = {
        "uuid": GONE,
        "node_uuid": node["uuid"],
        "verb": "rebuild",
        "state": "failed",
        "started_at": clock.now(),
        "ended_at": clock.now(),
        "error": {"code": "TimedOut", "text": "the disk of ann", "step": None, "retryable": False},
    }
    database.write(lambda conn: insert_run(conn, run))
    told = {}
    for project in ("p-owner", "p-lessee"):
        answer = callers("admin", project).put(
            "/v1/nodes/n1/states/provision", {"target": "rebuild"}, headers={"Prefer": "wait=5"}
        )
        assert answer.status == 424
        told[project] = "disk of ann" in answer.text
    assert told == {"p-owner": True, "p-lessee": False}


@pytest.mark.feature("events")
@pytest.mark.parametrize(("state", "status"), [("done", 200), ("running", 202)])
def test_preferred_answer_shows_a_lessee_only_the_state_of_a_run(
    callers: Callers, add_node: AddNode, database: Database, state: str, status: int
) -> None:
    node = add_node(name="n1", owner="p-owner", lessee="p-lessee", provision_state="active")
    run = {
        "uuid": GONE,
        "node_uuid": node["uuid"],
        "verb": "rebuild",
        "state": state,
        "started_at": clock.now(),
        "requester": "ann",
    }
    database.write(lambda conn: insert_run(conn, run))
    shown = {}
    for project in ("p-owner", "p-lessee"):
        answer = callers("admin", project).put(
            "/v1/nodes/n1/states/provision", {"target": "rebuild"}, headers={"Prefer": "wait=5"}
        )
        assert answer.status == status
        shown[project] = answer.json
    assert shown["p-owner"]["requester"] == "ann"
    assert shown["p-lessee"] == {"uuid": GONE, "verb": "rebuild", "state": state}


@pytest.mark.parametrize(
    ("verb", "state", "status"),
    [
        ("abort", "aborted", 200),
        ("abort", "done", 200),
        ("abort", "failed", 424),
        ("unhold", "aborted", 424),
        ("unhold", "failed", 424),
        ("unhold", "done", 200),
        ("unhold", "running", 202),
    ],
)
def test_aborted_run_is_the_wanted_end_for_the_verb_abort_only(  # noqa: PLR0917  # fixtures and a row
    callers: Callers, add_node: AddNode, database: Database, verb: str, state: str, status: int
) -> None:
    """The run that an unhold lets go on may be aborted by another operator."""
    waits = "clean hold" if verb == "unhold" else "clean wait"
    node = add_node(name="n1", provision_state=waits)
    run = {
        "uuid": GONE,
        "node_uuid": node["uuid"],
        "verb": "clean",
        "state": state,
        "started_at": clock.now(),
    }
    database.write(lambda conn: insert_run(conn, run))
    path, headers = "/v1/nodes/n1/states/provision", {"Prefer": "wait=5"}
    answer = callers("admin").put(path, {"target": verb}, headers=headers)
    assert (answer.status, f"ended as {state}" in answer.text) == (status, status == 424)


@pytest.mark.parametrize("event", ["end", "fail"])
def test_preferred_answer_of_power_hides_the_event_from_a_lessee(
    callers: Callers, add_node: AddNode, database: Database, recorder: Recorder, event: str
) -> None:
    add_node(name="n1", owner="p-owner", lessee="p-lessee", provision_state="active")

    def ended(node_uuid: str, **_more: object) -> None:
        data = {"error": "the disk of ann", "from": "the rack of ann"}
        request_id = recorder.contexts[-1].request_id
        add_events(database, node_uuid, 1, event=event, request_id=request_id, data=data)

    recorder.answers["change_node_power_state"] = ended
    told = {}
    for project in ("p-owner", "p-lessee"):
        answer = callers("admin", project).put(
            "/v1/nodes/n1/states/power", {"target": "power on"}, headers={"Prefer": "wait=5"}
        )
        assert answer.status == (200 if event == "end" else 424)
        told[project] = answer.text
    assert ("disk of ann" in told["p-owner"]) is (event == "fail")
    assert "of ann" not in told["p-lessee"]


@pytest.mark.parametrize("path", ["/v1/nodes/n1", "/v1/nodes/n1/states"])
def test_waiting_request_shows_the_node_in_the_state_that_ended_the_wait(
    api: Client, add_node: AddNode, database: Database, path: str
) -> None:
    """One statement reads the state to compare and the state to show."""
    add_node(name="n1", provision_state="manageable")
    plain = api.get(path).json
    for until, reads in (("active,manageable", 1), ("idle", 2)):
        with count_statements(database) as sent:
            answer = api.get(f"{path}?wait=5&until={until}")
        assert (answer.status, answer.json) == (200, plain)
        assert sum("WHERE nodes.name" in one for one in sent) == reads, sent
