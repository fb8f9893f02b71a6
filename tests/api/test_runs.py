"""Runs on the wire: what was done to a node, by whom, step by step."""

from __future__ import annotations

import datetime
import math
import urllib.parse
import uuid
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import runs
from ironic_lite.db.tables import models
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.database_rows import insert_run
from tests.support.statements import count_statements
from tests.support.waiting_client import waiting_client
from tests.support.wsgi_client import Client

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 250000)
LATER = NOON + datetime.timedelta(seconds=90, milliseconds=125)
WHY = {"code": "CleanStepFailed", "text": "no", "step": "raid.step-1", "retryable": False}
TIMES = {"started_at", "ended_at", "duration_seconds"}
WHO = {"requester", "project", "request_id", "conductor"}
FIELDS = {"uuid", "node_uuid", "verb", "state", "error", "retry_of", "cause", "links"}
FIELDS |= {*WHO, *TIMES}
CAUSE = "c41f0be9a7d2"
STEP = {"ordinal", "kind", "interface", "step", "args", "priority", "abortable"}
STEP_FIELDS = {*STEP, "state", "attempt", "error", "usual_seconds", "overdue", *TIMES}
STEP_FIELDS |= {"done_in", "waiver"}


@pytest.fixture
def node(add_node: AddNode) -> str:
    """The UUID of a manageable node called metal-7."""
    return str(add_node(name="metal-7", provision_state="manageable")["uuid"])


def add_run(database: Database, node: str, steps: int = 0, **values: Any) -> str:
    """Put a run with pending steps into the database; it has ended unless values say else."""
    run = str(uuid.uuid4())
    row = {
        "uuid": run,
        "node_uuid": node,
        "verb": "clean",
        "requester": "alice",
        "project": "metal",
        "request_id": "req-1",
        "conductor": "conductor-1",
        "state": "done",
        "started_at": NOON,
        "ended_at": LATER,
        **values,
    }
    step = {"run_uuid": run, "kind": "clean", "interface": "raid", "priority": 10.0}
    listed = [{**step, "ordinal": at, "step": f"step-{at}"} for at in range(steps)]
    database.write(lambda conn: insert_run(conn, row))
    database.write(lambda conn: runs.insert_steps(conn, listed))
    return run


def test_a_run_tells_who_asked_for_what_when_and_what_became_of_it(
    api: Client, database: Database, node: str
) -> None:
    run = add_run(database, node, state="failed", error=WHY, cause=CAUSE)
    [shown] = api.get(f"/v1/nodes/{node}/runs").json["runs"]
    assert shown.keys() == FIELDS
    assert shown == {
        "uuid": run,
        "node_uuid": node,
        "verb": "clean",
        "state": "failed",
        "requester": "alice",
        "project": "metal",
        "request_id": "req-1",
        "conductor": "conductor-1",
        "started_at": "2026-01-31T12:00:00.250000+00:00",
        "ended_at": "2026-01-31T12:01:30.375000+00:00",
        "duration_seconds": 90.125,
        "error": WHY,
        "retry_of": None,
        "cause": CAUSE,
        "links": [
            {"href": f"http://localhost:6385/v1/nodes/{node}/runs/{run}", "rel": "self"},
            {"href": f"http://localhost:6385/nodes/{node}/runs/{run}", "rel": "bookmark"},
        ],
    }


def test_one_run_has_its_steps_in_their_order(api: Client, database: Database, node: str) -> None:
    run = add_run(database, node, steps=3, state="running", ended_at=None)
    change = {
        "kind": "clean",
        "ordinal": 1,
        "state": "failed",
        "attempt": 2,
        "started_at": NOON,
        "ended_at": LATER,
        "error": WHY,
    }
    database.write(lambda conn: runs.update_steps(conn, run, [change]))
    shown = api.get(f"/v1/nodes/metal-7/runs/{run}").json
    assert shown.keys() == {*FIELDS, "steps", "eta", "batch"}
    assert [step["step"] for step in shown["steps"]] == ["step-0", "step-1", "step-2"]
    assert shown["steps"][1].keys() == STEP_FIELDS
    assert shown["steps"][1] == {
        "ordinal": 1,
        "kind": "clean",
        "interface": "raid",
        "step": "step-1",
        "args": None,
        "priority": 10,
        "abortable": False,
        "state": "failed",
        "attempt": 2,
        "started_at": "2026-01-31T12:00:00.250000+00:00",
        "ended_at": "2026-01-31T12:01:30.375000+00:00",
        "duration_seconds": 90.125,
        "error": WHY,
        "usual_seconds": None,
        "overdue": None,
        "done_in": None,
        "waiver": None,
    }
    assert shown["eta"] is None
    assert shown["steps"][2]["duration_seconds"] is None
    assert shown["duration_seconds"] > 0


def test_arguments_that_are_secret_are_masked(api: Client, database: Database, node: str) -> None:
    run = add_run(database, node)
    args = {"password": "sesame", "url": "https://u:sesame@h/", "deep": [{"api_key": "sesame"}]}
    step = {"run_uuid": run, "ordinal": 0, "kind": "clean", "interface": "raid", "step": "x"}
    database.write(lambda conn: runs.insert_steps(conn, [{**step, "args": args}]))
    answer = api.get(f"/v1/nodes/{node}/runs/{run}")
    assert b"sesame" not in answer.body
    assert answer.json["steps"][0]["args"]["password"] == "******"


def test_current_is_the_run_under_way(api: Client, database: Database, node: str) -> None:
    add_run(database, node)
    run = add_run(database, node, state="waiting", ended_at=None, steps=1)
    answer = api.get(f"/v1/nodes/{node}/runs/current")
    assert (answer.status, answer.json["uuid"]) == (200, run)
    assert len(answer.json["steps"]) == 1


def test_without_a_run_under_way_current_says_where_to_look(api: Client, node: str) -> None:
    answer = api.get("/v1/nodes/metal-7/runs/current")
    assert answer.status == 404
    assert answer.text == (
        f'Node {node} has no active run; it is in the state "manageable". '
        f"GET /v1/nodes/{node}/runs lists its earlier runs."
    )


# -- lists -----------------------------------------------------------------------------------


def test_runs_come_newest_first_and_page_by_page(
    api: Client, database: Database, node: str, add_node: AddNode
) -> None:
    added = [add_run(database, node) for _ in range(5)]
    add_run(database, add_node()["uuid"])
    found, path = [], f"/v1/nodes/{node}/runs?limit=2"
    while path:
        page = api.get(path).json
        found.append([run["uuid"] for run in page["runs"]])
        path = page.get("next", "").removeprefix("http://localhost:6385")
    newest = added[::-1]
    assert found == [newest[:2], newest[2:4], newest[4:]]
    oldest = api.get(f"/v1/nodes/{node}/runs?sort_dir=asc").json
    assert [run["uuid"] for run in oldest["runs"]] == added
    assert "next" not in oldest


def test_the_next_page_keeps_order_and_filters(api: Client, database: Database, node: str) -> None:
    first = add_run(database, node)
    for verb in ("manage", "clean"):
        add_run(database, node, verb=verb)
    page = api.get("/v1/nodes/metal-7/runs?limit=1&sort_dir=asc&verb=clean").json
    assert page["next"] == (
        "http://localhost:6385/v1/nodes/metal-7/runs?"
        f"sort_dir=asc&verb=clean&limit=1&marker={first}"
    )


def test_runs_are_picked_by_state_and_verb(api: Client, database: Database, node: str) -> None:
    done = add_run(database, node)
    failed = add_run(database, node, state="failed", verb="active")
    aborted = add_run(database, node, state="aborted")

    def found(query: str) -> list[str]:
        page = api.get(f"/v1/nodes/{node}/runs?sort_dir=asc&{query}").json
        return [run["uuid"] for run in page["runs"]]

    assert found("state=failed") == [failed]
    assert found("state=failed,aborted") == [failed, aborted]
    assert found("verb=clean") == [done, aborted]
    assert found("verb=clean&state=done") == [done]
    assert found("state=running") == []


@pytest.mark.parametrize(
    ("asked", "known"), [("deploy", "active"), ("undeploy", "deleted"), ("cleaned", "provide")]
)
def test_another_name_of_a_verb_finds_the_same_runs(
    api: Client, database: Database, node: str, asked: str, known: str
) -> None:
    run = add_run(database, node, verb=known)
    [found] = api.get(f"/v1/nodes/{node}/runs?verb={asked}").json["runs"]
    assert (found["uuid"], found["verb"]) == (run, known)


def test_fields_are_chosen(api: Client, database: Database, node: str) -> None:
    run = add_run(database, node, steps=1)
    [listed] = api.get(f"/v1/nodes/{node}/runs?fields=verb,duration_seconds").json["runs"]
    assert sorted(listed) == ["duration_seconds", "links", "verb"]
    one = api.get(f"/v1/nodes/{node}/runs/{run}?fields=state,steps").json
    assert sorted(one) == ["links", "state", "steps"]


@pytest.mark.parametrize("version", ["1.1", "1.77", "latest"])
def test_every_version_has_runs_and_none_shows_them_in_a_node(
    api: Client, database: Database, node: str, version: str
) -> None:
    run = add_run(database, node)
    old = api.at(version)
    assert old.get(f"/v1/nodes/{node}/runs/{run}").status == 200
    assert len(old.get(f"/v1/nodes/{node}/runs").json["runs"]) == 1
    assert not any("runs" in name for name in old.get(f"/v1/nodes/{node}").json)


@pytest.mark.parametrize("rows", [1, 100])
def test_a_list_costs_two_statements_however_long_it_is(
    api: Client, database: Database, node: str, rows: int
) -> None:
    for _ in range(rows):
        add_run(database, node)
    with count_statements(database) as sent:
        answer = api.get(f"/v1/nodes/{node}/runs?state=done&verb=clean")
    assert len(answer.json["runs"]) == rows
    assert len(sent) == 2, sent


@pytest.mark.parametrize("which", ["{run}", "current"])
@pytest.mark.parametrize("steps", [1, 100])
def test_one_run_costs_four_statements_and_its_usual_times(
    api: Client, database: Database, node: str, steps: int, which: str
) -> None:
    run = add_run(database, node, steps=steps, state="running")
    with count_statements(database) as sent:
        answer = api.get(f"/v1/nodes/{node}/runs/{which.format(run=run)}")
    assert len(answer.json["steps"]) == steps
    # And the batch, and the usual times once in a while.
    assert len(sent) <= 4 + math.ceil(steps / 50), sent
    with count_statements(database) as sent:
        api.get(f"/v1/nodes/{node}/runs/{which.format(run=run)}?fields=state")
    assert len(sent) == 2, sent


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "status", "named"),
    [
        ("limit=0", 400, "limit"),
        ("limit=-1", 400, "limit"),
        ("limit=many", 400, "limit"),
        ("marker=first", 400, "marker"),
        ("marker=11111111-1111-1111-1111-111111111111", 404, "Marker"),
        ("sort_dir=up", 400, "sort_dir"),
        ("sort_key=verb", 400, "sort_key"),
        ("state=pending", 400, "state"),
        ("state=", 400, "state"),
        ("state=done,ended", 400, "'ended'"),
        ("verb=clean,manage", 400, "verb"),
        ("verb=explode", 400, "verb"),
        ("fields=steps", 400, "steps"),
        ("fields=id", 400, "fields"),
        ("detail=maybe", 400, "detail"),
        ("since=yesterday", 400, "since"),
    ],
)
def test_invalid_query_is_refused_by_its_name(
    api: Client, node: str, query: str, status: int, named: str
) -> None:
    answer = api.get(f"/v1/nodes/{node}/runs?{query}")
    assert answer.status == status, answer.body
    assert named in answer.text


@pytest.mark.parametrize("query", ["limit=1", "detail=true", "fields=nothing"])
def test_one_run_takes_no_argument_but_its_fields(
    api: Client, database: Database, node: str, query: str
) -> None:
    run = add_run(database, node)
    answer = api.get(f"/v1/nodes/{node}/runs/{run}?{query}")
    assert answer.status == 400
    assert query.split("=", maxsplit=1)[0] in answer.text


@pytest.mark.parametrize("run", ["latest", "11111111-1111-1111-1111-111111111111", "%FF"])
def test_a_run_that_does_not_exist_is_not_found(api: Client, node: str, run: str) -> None:
    assert api.get(f"/v1/nodes/{node}/runs/{run}").status == 404


def test_the_run_of_another_node_is_not_found(
    api: Client, database: Database, node: str, add_node: AddNode
) -> None:
    run = add_run(database, add_node()["uuid"])
    answer = api.get(f"/v1/nodes/{node}/runs/{run}")
    assert (answer.status, answer.text) == (404, f"Run {run} could not be found.")


@pytest.mark.parametrize("path", ["runs", "runs/current"])
def test_a_node_that_does_not_exist_is_not_found(api: Client, path: str) -> None:
    answer = api.get(f"/v1/nodes/nobody/{path}")
    assert (answer.status, answer.text) == (404, "Node nobody could not be found.")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["runs", "runs/current"])
def test_runs_are_only_read(api: Client, node: str, method: str, path: str) -> None:
    answer = api.request(method, f"/v1/nodes/{node}/{path}", {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


# GET /v1/runs: runs of all nodes, their filters, order, rights and costs.

FLEET_FIELDS = {*FIELDS, "node_name", "code"}
GONE = "99999999-9999-4999-8999-999999999999"


def hours(number: float) -> datetime.datetime:
    return NOON + datetime.timedelta(hours=number)


@pytest.fixture
def fleet(database: Database, add_node: AddNode) -> dict[str, str]:
    """Runs by a word, of three nodes; their starts are in the order of the words."""
    a = add_node(name="a", driver="redfish", resource_class="gpu", owner=OWNER)["uuid"]
    b = add_node(name="b", resource_class="cpu", owner=STRANGER)["uuid"]
    c = add_node(resource_class="cpu", owner="p-other", lessee=LESSEE)["uuid"]
    failed: dict[str, Any] = {"state": "failed", "error": WHY, "code": "BmcUnreachable"}
    failed["cause"] = CAUSE
    found = {
        "a1": add_run(database, a, started_at=hours(0), **failed),
        "b1": add_run(database, b, started_at=hours(1), verb="manage", requester="bob"),
        "a2": add_run(database, a, started_at=hours(2), verb="provide", state="aborted"),
        "c1": add_run(database, c, started_at=hours(3), project="p-other", state="running"),
    }
    found["b2"] = add_run(database, b, started_at=hours(4), retry_of=found["b1"], **failed)
    return found


def listed(client: Client, fleet: dict[str, str], query: str = "") -> list[str]:
    """Return the words of the runs in a list."""
    answer = client.get(f"/v1/runs?{query}")
    assert answer.status == 200, answer.text
    words = {uuid: word for word, uuid in fleet.items()}
    return [words[run["uuid"]] for run in answer.json["runs"]]


def test_run_of_the_fleet_names_its_node_and_cause(api: Client, fleet: dict[str, str]) -> None:
    shown = api.get("/v1/runs").json["runs"][0]
    assert shown.keys() == FLEET_FIELDS
    assert (shown["uuid"], shown["node_name"], shown["code"]) == (
        fleet["b2"],
        "b",
        "BmcUnreachable",
    )
    assert shown["retry_of"] == fleet["b1"]
    assert shown["duration_seconds"] == 0  # the clock was set back
    assert shown["links"][0]["href"] == f"http://localhost:6385/v1/runs/{fleet['b2']}"
    assert api.get(shown["links"][0]["href"].removeprefix("http://localhost:6385")).status == 200


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "b2 c1 a2 b1 a1"),
        ("sort_dir=asc", "a1 b1 a2 c1 b2"),
        ("state=failed", "b2 a1"),
        ("state=failed,aborted", "b2 a2 a1"),
        ("verb=manage", "b1"),
        ("verb=manage,cleaned", "a2 b1"),
        ("node=a", "a2 a1"),
        ("requester=bob", "b1"),
        ("project=p-other", "c1"),
        ("driver=redfish", "a2 a1"),
        ("driver=redfish,ipmi", "a2 a1"),
        ("resource_class=cpu", "b2 c1 b1"),
        ("resource_class=cpu,gpu&state=failed", "b2 a1"),
        ("code=BmcUnreachable", "b2 a1"),
        ("code=ImageUnusable", ""),
        (f"cause={CAUSE}", "b2 a1"),
        (f"cause={CAUSE}, 000000000000&driver=redfish", "a1"),
        ("cause=000000000000", ""),
        ("since=2026-01-31T14:00:00.25Z", "b2 c1 a2"),
        ("since=2026-01-31T16:00:00.25%2B02:00", "b2 c1 a2"),
        ("since=2026-01-31T16:00:00.25+02:00", "b2 c1 a2"),
        ("since=2026-01-31&before=2026-01-31T13:00:00", "a1"),
        ("before=20260131T130001Z", "b1 a1"),
        ("latest=true", "b2 c1 a2"),
        ("latest=true&state=failed", "b2"),
        ("latest=true&state=failed,aborted&driver=redfish", "a2"),
        ("latest=false&node=a", "a2 a1"),
        ("limit=2", "b2 c1"),
    ],
)
def test_filters_choose_runs(api: Client, fleet: dict[str, str], query: str, words: str) -> None:
    assert listed(api, fleet, query) == words.split()


def test_runs_are_found_by_the_run_they_repeat(api: Client, fleet: dict[str, str]) -> None:
    assert listed(api, fleet, f"retry_of={fleet['b1']}") == ["b2"]


def test_duration_is_counted_back_from_now(
    api: Client, database: Database, fleet: dict[str, str], add_node: AddNode
) -> None:
    fleet["new"] = add_run(database, add_node()["uuid"], started_at=clock.ago(7200))
    assert listed(api, fleet, "since=PT3H") == listed(api, fleet, "since=3h") == ["new"]
    assert listed(api, fleet, "since=1d2h3m4s") == ["new"]
    assert listed(api, fleet, "since=P1DT2H3M4S") == ["new"]
    assert listed(api, fleet, "since=PT1H") == []
    assert listed(api, fleet, "before=PT3H&limit=1") == ["b2"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("state=broken", "state"),
        ("verb=walk", "verb"),
        ("node=a/b", "node"),
        ("since=yesterday", "since"),
        ("since=PT", "since"),
        ("since=P9", "since"),
        ("since=P999999D", "since"),
        ("before=0001-01-01T00:00:00%2B23:00", "before"),
        ("since=", "since"),
        ("code=", "code"),
        ("cause=", "cause"),
        ("cause=C41F0BE9A7D2", "cause"),
        (f"cause={CAUSE},x", "cause"),
        ("retry_of=1", "retry_of"),
        ("latest=perhaps", "latest"),
        ("fields=nothing", "nothing"),
        ("sort_key=verb", "verb"),
        ("unknown=1", "unknown"),
        ("detail=true", "detail"),
        (f"since={'9' * 5000}", "since"),
    ],
)
def test_malformed_query_is_refused_by_its_name(api: Client, query: str, named: str) -> None:
    answer = api.get(f"/v1/runs?{query}")
    assert (answer.status, named in answer.text) == (400, True), answer.text
    assert len(answer.text) < 1000


def test_pages_have_each_run_once_and_keep_the_filters(
    api: Client, database: Database, add_node: AddNode
) -> None:
    node = add_node()["uuid"]
    same = [add_run(database, node, started_at=hours(n // 3)) for n in range(10)]
    seen, path = [], "/v1/runs?limit=3&state=done&fields=uuid"
    while path:
        page = api.get(path).json
        seen += [run["uuid"] for run in page["runs"]]
        path = page.get("next", "").removeprefix("http://localhost:6385")
        assert not path or "state=done" in urllib.parse.unquote(path)
    assert seen == same[::-1]


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("more", ["", "&driver=redfish"])
def test_list_costs_one_statement_and_one_for_a_driver(
    api: Client, database: Database, add_node: AddNode, rows: int, more: str
) -> None:
    for _ in range(rows):
        add_run(database, add_node(driver="redfish")["uuid"], state="failed", code="X")
    query = f"state=failed&code=X&latest=true&since=2026-01-01{more}"
    with count_statements(database) as sent:
        answer = api.get(f"/v1/runs?{query}")
    assert (len(answer.json["runs"]), len(sent)) == (rows, 2 if more else 1), sent


@pytest.mark.parametrize("rows", [1, 100])
def test_one_run_of_the_fleet_costs_four_statements_and_its_usual_times(
    api: Client, database: Database, add_node: AddNode, rows: int
) -> None:
    run = add_run(database, add_node()["uuid"], steps=rows)
    api.get(f"/v1/runs/{run}")  # the usual times are kept
    with count_statements(database) as sent:
        assert len(api.get(f"/v1/runs/{run}").json["steps"]) == rows
    assert len(sent) <= 4, sent


def test_one_run_is_that_of_its_node_with_the_nodes_name(
    api: Client, database: Database, add_node: AddNode
) -> None:
    node = add_node(name="n7")["uuid"]
    run = add_run(database, node, steps=2)
    shown = api.get(f"/v1/runs/{run}").json
    below = api.get(f"/v1/nodes/{node}/runs/{run}").json
    assert shown.keys() == {*FLEET_FIELDS, "steps", "eta", "batch"}
    assert {**below, "links": shown["links"]}.items() <= shown.items()
    assert shown["node_name"] == "n7"
    assert api.get(f"/v1/runs/{run}?fields=code").json.keys() == {"code", "links"}


@pytest.mark.parametrize("ident", [GONE, "current", "x"])
def test_unknown_run_is_not_listed(api: Client, ident: str) -> None:
    assert api.get(f"/v1/runs/{ident}").status == 404


def test_run_that_has_ended_otherwise_answers_a_wait(
    api: Client, database: Database, add_node: AddNode
) -> None:
    run = add_run(database, add_node()["uuid"], state="failed", error=WHY)
    assert api.get(f"/v1/runs/{run}?wait=5").status == 200
    assert api.get(f"/v1/runs/{run}?wait=5&until=done").status == 424


def test_wait_for_a_run_that_goes_on_ends_in_time(
    api: Client, database: Database, add_node: AddNode
) -> None:
    run = add_run(database, add_node()["uuid"], state="running", ended_at=None)
    waiting = waiting_client(api.app, database)
    assert waiting.get(f"/v1/runs/{run}?wait=1").status == 504
    database.write(lambda conn: runs.update(conn, run, {"state": "done", "ended_at": NOON}))
    assert waiting.get(f"/v1/runs/{run}?wait=1&until=done").json["state"] == "done"


def test_every_version_has_the_runs(api: Client, fleet: dict[str, str]) -> None:
    assert listed(api.at("1.1"), fleet) == ["b2", "c1", "a2", "b1", "a1"]


# -- rights ----------------------------------------------------------------------------------


def test_owner_lists_the_runs_of_own_nodes_only(callers: Callers, fleet: dict[str, str]) -> None:
    owner = callers("reader", OWNER)
    assert listed(owner, fleet) == ["a2", "a1"]
    assert listed(owner, fleet, "latest=true") == ["a2"]
    assert listed(owner, fleet, "node=a") == ["a2", "a1"]
    assert listed(owner, fleet, f"marker={fleet['a2']}") == ["a1"]
    assert owner.get(f"/v1/runs?marker={fleet['b2']}").status in {400, 404}
    assert owner.get("/v1/runs?node=b").status == 404
    assert owner.get(f"/v1/runs/{fleet['a1']}").status == 200
    refused = owner.get(f"/v1/runs/{fleet['b1']}")
    assert (refused.status, refused.text) == (404, f"Run {fleet['b1']} could not be found.")


def test_reader_of_the_system_lists_all_runs(callers: Callers, fleet: dict[str, str]) -> None:
    assert len(listed(callers("reader"), fleet)) == 5
    assert callers("reader").get(f"/v1/runs/{fleet['c1']}").status == 200


def test_lessee_and_stranger_list_no_runs_of_others(
    callers: Callers, fleet: dict[str, str]
) -> None:
    assert listed(callers("admin", LESSEE), fleet) == ["c1"]  # it is under way
    assert listed(callers("admin", STRANGER), fleet) == ["b2", "b1"]
    assert callers("admin", "p-nobody").get(f"/v1/runs/{fleet['a1']}").status == 404


def test_lessee_reads_a_run_while_it_is_under_way(
    callers: Callers, fleet: dict[str, str], api: Client, database: Database
) -> None:
    node = api.get(f"/v1/runs/{fleet['c1']}").json["node_uuid"]
    paths = (f"/v1/nodes/{node}/runs/{fleet['c1']}", f"/v1/runs/{fleet['c1']}")
    lessee = callers("reader", LESSEE)
    assert [lessee.get(path).status for path in paths] == [200, 200]
    database.write(lambda conn: runs.update(conn, fleet["c1"], {"state": "done"}))
    assert [lessee.get(path).status for path in paths] == [404, 404]


@pytest.mark.feature("batches")
def test_run_names_its_batch_to_those_who_may_read_it(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    owners: dict[str, Any] = {"owner": OWNER, "lessee": LESSEE}
    node = add_node(name="n1", provision_state="manageable", **owners)["uuid"]
    run = add_run(database, node, state="running", ended_at=None, **owners)
    body = {
        "nodes": ["n1"],
        "request": {
            "target": "clean",
            "clean_steps": [{"interface": "deploy", "step": "erase_devices"}],
        },
    }
    made = callers("admin", OWNER).post("/v1/batches", body)
    assert made.status == 201, made.text
    for change in (
        models.batches.update().values(project=OWNER),
        models.batch_nodes.update().values(run_uuid=run),
    ):
        database.write(lambda conn, change=change: conn.execute(change))  # type: ignore[misc]
    for path in (f"/v1/runs/{run}", f"/v1/nodes/n1/runs/{run}"):
        for project, shown in ((OWNER, made.json["uuid"]), (LESSEE, None)):
            assert callers("reader", project).get(path).json["batch"] == shown, path
        assert callers("reader").get(path).json["batch"] == made.json["uuid"]
        assert "batch" not in callers("reader").get(f"{path}?fields=state").json
    lone = add_run(database, add_node()["uuid"])
    assert callers("reader").get(f"/v1/runs/{lone}?fields=batch").json["batch"] is None
