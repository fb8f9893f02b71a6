"""Runs on the wire: what was done to a node, by whom, step by step."""

from __future__ import annotations

import datetime
import math
import uuid
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import runs
from tests.support.api_rows import AddNode
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 250000)
LATER = NOON + datetime.timedelta(seconds=90, milliseconds=125)
WHY = {"code": "CleanStepFailed", "text": "no", "step": "raid.step-1", "retryable": False}
TIMES = {"started_at", "ended_at", "duration_seconds"}
WHO = {"requester", "project", "request_id", "conductor"}
FIELDS = {"uuid", "node_uuid", "verb", "state", "error", "retry_of", "links", *WHO, *TIMES}
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
    database.write(lambda conn: runs.insert(conn, row))
    database.write(lambda conn: runs.insert_steps(conn, listed))
    return run


def test_a_run_tells_who_asked_for_what_when_and_what_became_of_it(
    api: Client, database: Database, node: str
) -> None:
    run = add_run(database, node, state="failed", error=WHY)
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
    assert shown.keys() == {*FIELDS, "steps", "eta"}
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
def test_one_run_costs_three_statements_and_its_usual_times(
    api: Client, database: Database, node: str, steps: int, which: str
) -> None:
    run = add_run(database, node, steps=steps, state="running")
    with count_statements(database) as sent:
        answer = api.get(f"/v1/nodes/{node}/runs/{which.format(run=run)}")
    assert len(answer.json["steps"]) == steps
    assert len(sent) == 3 + math.ceil(steps / 50), sent  # and the usual times, once in a while
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
