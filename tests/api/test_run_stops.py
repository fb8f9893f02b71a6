"""Stops of runs by HTTP: bodies, rights, versions, and the answers of each case."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, runs
from tests.support.api_rows import AddNode, set_node
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.database_rows import insert_run
from tests.support.wsgi_client import Client

BODY = {"how": "hold", "reason": "look at disk 3"}
LIST = ["done", "running", "pending", "pending"]


def begin(
    database: Database, node: dict[str, Any], states: list[str], *, active: bool = True
) -> str:
    """Add a run with steps in these states, and return its UUID."""
    run = str(uuid.uuid4())
    row = {
        **dict.fromkeys(runs.COLUMNS[1:]),
        "uuid": run,
        "node_uuid": node["uuid"],
        "verb": "clean",
        "state": "running" if active else "done",
        "started_at": clock.now(),
    }
    steps = [
        {
            "run_uuid": run,
            "ordinal": at,
            "kind": "clean",
            "interface": "deploy",
            "step": f"s{at}",
            "state": state,
        }
        for at, state in enumerate(states)
    ]

    def write(conn: Any) -> None:
        insert_run(conn, row)
        runs.insert_steps(conn, steps)

    database.write(write)
    if active:
        set_node(database, node, run_uuid=run)
    return run


@pytest.fixture
def node(add_node: AddNode, database: Database) -> dict[str, Any]:
    row = add_node(owner=OWNER, lessee=LESSEE, provision_state="cleaning", reservation="c1")
    return {**row, "run": begin(database, row, LIST)}


@pytest.fixture
def stage(api: Client, add_node: AddNode, database: Database) -> tuple[Client, AddNode, Database]:
    return api, add_node, database


def path_of(node: dict[str, Any], run: str = "current") -> str:
    return f"/v1/nodes/{node['uuid']}/runs/{run}/stop"


@pytest.mark.feature("why", "events")
@pytest.mark.parametrize("name", ["current", "run"])
def test_stop_is_accepted_while_a_conductor_works(
    api: Client, recorder: Recorder, node: dict[str, Any], name: str
) -> None:
    path = path_of(node, node.get(name, name))
    told = api.put(path, BODY)
    assert told.status == 202
    about = {**told.json, "at": None}
    assert about == {
        "how": "hold",
        "after": None,
        "reason": "look at disk 3",
        "requester": None,
        "at": None,
        "progress": "asked",
    }
    why = api.get(f"/v1/nodes/{node['uuid']}/why").json
    assert why["run"]["stop"]["reason"] == "look at disk 3"
    assert "A stop (hold) before its next step is requested: look at disk 3." in why["says"]
    assert recorder.calls == []
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404
    assert api.get(f"/v1/nodes/{node['uuid']}/why").json["run"]["stop"] is None
    kinds = [one["kind"] for one in api.get("/v1/events?since=0").json["events"]]
    assert kinds == ["stop_requested", "stop_withdrawn"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "how"),
        ({"how": "pause"}, "how"),
        ({"how": "hold", "after": -1}, "after"),
        ({"how": "hold", "after": "1"}, "after"),
        ({"how": "hold", "after": 9}, "after"),
        ({"how": "hold", "after": True}, "after"),
        ({"how": "hold", "reason": "x" * 256}, "reason"),
        ({"how": "hold", "when": "now"}, "when"),
        ([], "object"),
        (None, ""),
    ],
)
def test_bad_body_names_its_path_and_changes_nothing(
    api: Client, node: dict[str, Any], body: Any, words: str
) -> None:
    told = api.put(path_of(node), body)
    assert (told.status, words in told.text) == (400, True), told.text
    assert api.delete(path_of(node)).status == 404


@pytest.mark.parametrize(
    ("states", "after", "status"),
    [
        ([], None, 202),
        (["pending"] * 2, None, 202),
        (LIST, 1, 202),
        (LIST, 2, 202),
        (LIST, 0, 409),
        (LIST, 3, 409),
        (["done", "running"], None, 409),
        (["done", "done"], None, 409),
        (["done", "waiting", "waived"], None, 409),
        ([], 0, 400),
    ],
)
def test_stop_needs_a_step_that_follows(  # noqa: PLR0917  # the facts of a row
    api: Client,
    add_node: AddNode,
    database: Database,
    states: list[str],
    after: int | None,
    status: int,
) -> None:
    node = add_node(provision_state="deploying", reservation="c1")
    begin(database, node, states)
    assert api.put(path_of(node), {**BODY, "after": after}).status == status


def test_list_to_which_an_agent_may_add_steps_can_be_stopped(
    api: Client, add_node: AddNode, database: Database
) -> None:
    notes = {"step_list": {"inputs_secret": None, "complete": False}}
    node = add_node(provision_state="deploying", driver_internal_info=notes)
    begin(database, node, ["running"])
    assert api.put(path_of(node), BODY).status == 202


@pytest.mark.parametrize("state", ["verifying", "inspecting", "rescue wait", "adopting"])
def test_runs_without_such_steps_are_refused(
    api: Client, add_node: AddNode, database: Database, state: str
) -> None:
    node = add_node(provision_state=state)
    begin(database, node, ["running", "pending"])
    told = api.put(path_of(node), BODY)
    assert (told.status, state in told.text) == (409, True)


def test_run_that_has_ended_or_is_unknown(
    api: Client, add_node: AddNode, database: Database, node: dict[str, Any]
) -> None:
    rests = add_node(provision_state="manageable")
    ended = begin(database, rests, ["done"], active=False)
    for call in (lambda path: api.put(path, BODY), api.delete):
        assert call(path_of(rests)).status == 404
        assert call(path_of(rests, ended)).status == 409
        assert call(path_of(node, ended)).status == 404
        assert call(path_of(node, str(uuid.uuid4()))).status == 404
        assert call(path_of(node, "latest")).status == 404
        assert call(path_of({"uuid": "nobody"})).status == 404


@pytest.mark.parametrize(
    ("state", "body", "cast"),
    [
        ("clean wait", {"how": "abort"}, True),
        ("clean wait", {"how": "abort", "after": 2}, False),
        ("clean wait", {"how": "hold"}, False),
        ("cleaning", {"how": "abort"}, False),
    ],
)
def test_conductor_is_asked_to_abort_a_wait(  # noqa: PLR0917  # the facts of a row
    api: Client,
    recorder: Recorder,
    add_node: AddNode,
    database: Database,
    state: str,
    body: dict[str, Any],
    cast: bool,
) -> None:
    node = add_node(provision_state=state)
    run = begin(database, node, ["done", "waiting", "pending", "pending"])
    assert api.put(path_of(node), body).status == 202
    assert [call[0] for call in recorder.calls] == (["stop_run"] if cast else [])
    assert run in str(recorder.calls) or not cast


@pytest.mark.parametrize("version", [1, 50, 115])
def test_every_version_has_stops(api: Client, node: dict[str, Any], version: int) -> None:
    assert api.at(version).put(path_of(node), BODY).status == 202


RIGHTS = {
    ("admin", None): 202,
    ("member", None): 202,
    ("reader", None): 403,
    ("admin", OWNER): 202,
    ("member", OWNER): 202,
    ("reader", OWNER): 403,
    ("admin", LESSEE): 202,
    ("member", LESSEE): 403,
    ("reader", LESSEE): 403,
    ("admin", STRANGER): 404,
}


@pytest.mark.parametrize("role, project", RIGHTS)
def test_rights_are_those_of_verbs(
    callers: Callers, node: dict[str, Any], role: str, project: str | None
) -> None:
    path, caller = path_of(node), callers(role, project)
    status = RIGHTS[role, project]
    verb = caller.put(f"/v1/nodes/{node['uuid']}/states/provision", {"target": "abort"})
    assert (verb.status in (403, 404)) is (status != 202)
    assert caller.put(path, BODY).status == status
    callers("admin").put(path, BODY)
    assert caller.delete(path).status == (204 if status == 202 else status)


def test_documents_of_nodes_do_not_change(api: Client, node: dict[str, Any]) -> None:
    before = api.get(f"/v1/nodes/{node['uuid']}")
    assert api.put(path_of(node), BODY).status == 202
    after = api.get(f"/v1/nodes/{node['uuid']}")
    assert after.json == before.json
    assert after.headers.get("ETag") == before.headers.get("ETag")


@pytest.mark.parametrize(
    ("settings", "status"),
    [((None, True), 202), ((None, False), 409), ((True, False), 202), ((False, True), 409)],
    ids=["enabled", "disabled", "own true", "own false"],
)
def test_stop_of_a_deletion_without_cleaning_is_refused(
    stage: tuple[Client, AddNode, Database],
    conf: cfg.ConfigOpts,
    settings: tuple[bool | None, bool],
    status: int,
) -> None:
    (own, cleans), (api, add_node, database) = settings, stage
    conf.set_override("automated_clean_enable", cleans, "conductor")
    row = add_node(provision_state="deleting", reservation="c1", automated_clean=own)
    begin(database, row, [])
    answer = api.put(path_of(row), BODY)
    assert answer.status == status, answer.text
    if status == 409:
        assert "without cleaning" in answer.text


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/nodes/{node}/runs"])
@pytest.mark.parametrize("steps", [LIST, []], ids=["steps", "no steps yet"])
def test_list_of_runs_shows_stops_where_they_are_named(
    stage: tuple[Client, AddNode, Database], path: str, steps: list[str]
) -> None:
    api, add_node, database = stage
    row = add_node(provision_state="cleaning", reservation="c1")
    earlier = begin(database, row, ["done"], active=False)
    run = begin(database, row, steps)
    place = f"/v1/nodes/{row['uuid']}/runs/current/stop"
    asked = api.put(place, BODY).json
    listed = path.format(node=row["uuid"])
    found = {one["uuid"]: one["stop"] for one in api.get(f"{listed}?fields=uuid,stop").json["runs"]}
    assert found == {run: asked, earlier: None}
    assert "stop" not in api.get(listed).json["runs"][0]
    assert api.delete(place).status == 204
    shown = api.get(f"{listed}?fields=stop,place").json["runs"]
    assert [one["stop"] for one in shown] == [None, None]


@pytest.mark.feature("events")
@pytest.mark.parametrize(("field", "kept"), [("owner", False), ("lessee", False), ("name", True)])
def test_change_of_hands_takes_a_stop_back(
    callers: Callers, add_node: AddNode, database: Database, field: str, kept: bool
) -> None:
    row = add_node(owner=OWNER, lessee=LESSEE, provision_state="clean wait")
    node = {**row, "run": begin(database, row, LIST)}
    asked = callers("manager", OWNER).put(path_of(node), {"how": "abort", "after": 2})
    assert asked.status == 202, asked.text
    body = [{"op": "replace", "path": f"/{field}", "value": STRANGER}]
    moved = callers("admin").patch(f"/v1/nodes/{node['uuid']}", body)
    assert moved.status == 200, moved.text
    stored = database.read(lambda conn: nodes.get(conn, node["uuid"], ("run_stop",)))
    assert (stored["run_stop"] is not None) is kept
    told = callers("admin").get("/v1/events?kind=stop_withdrawn").json["events"]
    assert len(told) == (0 if kept else 1)
