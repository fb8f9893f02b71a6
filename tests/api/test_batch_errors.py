"""Batches, as callers with different rights begin, change and see them, and refused ones."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.features.batches import api as batches_api
from ironic_lite.features.batches import rules
from tests.support.api_rows import AddNode
from tests.support.callers import As, Callers
from tests.support.conductor_recorder import Recorder

pytestmark = pytest.mark.feature("batches")

ERROR = {"code": "TimedOut", "text": "the disk of ann"}


def fail(conn: Connection, project: str) -> None:
    """Let all nodes of all batches fail; the newest batch is of this project."""
    # The clients of this folder have roles and projects, but send requests as nobody.
    mine = models.batches.update().where(models.batches.c.project.is_(None))
    conn.execute(mine.values(project=project))
    values = {"state": "failed", "error": ERROR, "open_uuid": None}
    conn.execute(models.batch_nodes.update().values(values))


def test_lessee_sees_the_code_of_an_error_and_its_owner_the_text(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    add_node(name="n1", owner="p-owner", lessee="p-lessee", provision_state="active")
    told = {}
    for project in ("p-owner", "p-lessee"):
        api = callers("admin", project)
        answer = api.post("/v1/batches", {"nodes": ["n1"], "request": {"target": "rebuild"}})
        assert answer.status == 201, answer.text
        database.write(functools.partial(fail, project=project))
        listed = api.get(f"/v1/batches/{answer.json['uuid']}/nodes")
        assert listed.status == 200, listed.text
        (shown,) = listed.json["nodes"]
        told[project] = shown["error"]
    assert told["p-owner"] == ERROR
    assert told["p-lessee"] == {"code": "TimedOut", "text": "See the runs of the node."}


@pytest.mark.parametrize(
    ("request_", "rule"),
    [
        ({"target": "rebuild"}, "baremetal:node:set_provision_state"),
        (
            {"target": "clean", "clean_steps": [{"interface": "raid", "step": "no_such"}]},
            "baremetal:node:set_provision_state",
        ),
    ],
    ids=["verb", "steps"],
)
def test_first_node_without_the_right_is_named_and_nothing_begins(
    callers: Callers, add_node: AddNode, request_: dict[str, Any], rule: str
) -> None:
    own = add_node(name="n1", owner="p-owner", provision_state="manageable")
    theirs = add_node(name="n2", owner="p-else", lessee="p-owner", provision_state="manageable")
    more = add_node(name="n3", owner="p-else", lessee="p-owner", provision_state="manageable")
    api = callers("reader", "p-owner")
    refused = api.post("/v1/batches", {"nodes": ["n1"], "request": request_})
    assert refused.status == 403
    api = callers("member", "p-owner")
    body = {"nodes": ["n1", "n2", "n3"], "request": request_}
    refused = api.post("/v1/batches", body)
    assert (refused.status, theirs["uuid"] in refused.text) == (403, True), refused.text
    assert rule in refused.text
    assert own["uuid"] not in refused.text
    assert more["uuid"] not in refused.text
    assert callers("admin").get("/v1/batches").json["batches"] == []


def test_nodes_without_the_right_are_left_out_with_their_reason(
    callers: Callers, add_node: AddNode
) -> None:
    own = add_node(name="n1", owner="p-owner", provision_state="manageable")
    theirs = add_node(name="n2", owner="p-else", lessee="p-owner", provision_state="manageable")
    mine = add_node(name="n4", owner="p-owner", provision_state="manageable")
    begun = callers("admin").post(
        "/v1/batches", {"nodes": ["n4"], "request": {"target": "inspect"}}
    )
    api = callers("member", "p-owner")
    request_ = {"target": "clean", "clean_steps": [{"interface": "raid", "step": "no_such"}]}
    body = {"nodes": ["n1", "n2", "n4"], "request": request_, "unfit": "leave out"}
    planned = api.post("/v1/batches?plan=true", body)
    assert planned.status == 200, planned.text
    reasons = {one["uuid"]: (one["code"], one["text"]) for one in planned.json["unfit"]["nodes"]}
    assert reasons.keys() == {theirs["uuid"], mine["uuid"]}
    assert reasons[theirs["uuid"]][0] == "Forbidden"
    assert reasons[mine["uuid"]][0] == "Conflict"
    assert begun.json["uuid"] not in planned.body.decode()
    made = api.post("/v1/batches", body)
    assert (made.status, made.json["waves"]) == (201, [1]), made.text
    assert made.json["fit"]["count"] == 1
    assert own["uuid"] not in str(made.json["unfit"])


def test_node_that_the_caller_may_not_see_is_not_found(callers: Callers, add_node: AddNode) -> None:
    add_node(name="n1", owner="p-else", provision_state="manageable")
    body = {"nodes": ["n1"], "request": {"target": "provide"}}
    assert callers("admin", "p-owner").post("/v1/batches", body).status == 404


@pytest.mark.parametrize(
    ("who", "status"),
    [
        (("member", "p-owner"), 200),
        (("reader", "p-owner"), 403),
        (("member", "p-else"), 404),
        (("member", None), 200),
    ],
)
def test_members_of_the_project_pause_a_batch(
    callers: Callers,
    add_node: AddNode,
    database: Database,
    who: tuple[str, str | None],
    status: int,
) -> None:
    add_node(name="n1", owner="p-owner", provision_state="active")
    begun = callers("admin", "p-owner").post(
        "/v1/batches", {"nodes": ["n1"], "request": {"target": "rebuild"}}
    )
    own = models.batches.update().values(project="p-owner")
    database.write(lambda conn: conn.execute(own))
    path = f"/v1/batches/{begun.json['uuid']}/state"
    for target in ("pause", "resume"):
        answer = callers(*who).put(path, {"target": target})
        assert answer.status == status, answer.text


@pytest.mark.feature("events")
def test_project_sees_the_events_of_its_own_batches(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    add_node(name="n1", owner="p-owner", provision_state="active")
    begun = callers("admin", "p-owner").post(
        "/v1/batches", {"nodes": ["n1"], "request": {"target": "rebuild"}}
    )
    own = models.events.update().values(owner="p-owner")
    database.write(lambda conn: conn.execute(own))
    told = {}
    for project in ("p-owner", "p-else", None):
        answer = callers("admin", project).get("/v1/events?kind=batch_started")
        assert answer.status == 200, answer.text
        told[project] = [one["data"]["batch"] for one in answer.json["events"]]
    mine = [begun.json["uuid"]]
    assert told == {"p-owner": mine, "p-else": [], None: mine}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"request": {}}, "request: Missing mandatory parameter: target"),
        ({"request": {"target": "clean"}}, "request: Missing mandatory parameter: clean_steps"),
        ({"request": {"target": "manage", "colour": 1}}, "request: Unexpected arguments: colour"),
        ({"request": {"power": "power on", "target": "x"}}, "request: Unexpected arguments: tar"),
        (
            {"request": {"target": "clean", "clean_steps": [{"interface": "x", "step": "y"}]}},
            "request: Invalid clean_steps: clean_steps/0/interface",
        ),
        ({"request": {"target": "no"}}, "request/target: 'no' is not a target"),
        ({"nodes": {"colour": "red"}, "expect": 1}, "nodes: Unexpected arguments: colour"),
        ({"nodes": {"maintenance": "x"}, "expect": 1}, "nodes: maintenance: 'x' is not"),
        ({"nodes": {"driver": 5}, "expect": 1}, "nodes/driver: 5 is not"),
        ({"nodes": {"driver": "x"}}, "expect: is mandatory"),
    ],
)
def test_refusal_names_the_part_of_the_body(
    callers: Callers, add_node: AddNode, body: dict[str, Any], named: str
) -> None:
    add_node(name="n1")
    whole = {"nodes": ["n1"], "request": {"target": "manage"}, **body}
    refused = callers("admin").post("/v1/batches", whole)
    text = json.loads(refused.json["error_message"])["faultstring"]
    assert (refused.status, text[: len(named)]) == (400, named)


def begin_as(database: Database, client: As, nodes: list[str], **request: Any) -> str:
    """Begin a batch of the project p-lessee; return its UUID."""
    answer = client.post("/v1/batches", {"nodes": nodes, "request": request})
    assert answer.status == 201, answer.text
    own = models.batches.update().where(models.batches.c.uuid == answer.json["uuid"])
    database.write(lambda conn: conn.execute(own.values(project="p-lessee")))
    return str(answer.json["uuid"])


def results_of(callers: Callers, batch: str) -> list[tuple[str, Any]]:
    nodes = callers("admin").get(f"/v1/batches/{batch}/nodes").json["nodes"]
    return [(one["result"], (one["error"] or {}).get("code")) for one in nodes]


def test_resume_needs_the_rights_of_the_request_for_each_node(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    add_node(name="n1", owner="p-lessee", provision_state="active")
    add_node(name="n2", owner="p-else", lessee="p-lessee", provision_state="active")
    manager = callers("manager", "p-lessee")
    batch = begin_as(database, manager, ["n1", "n2"], target="rebuild")
    path = f"/v1/batches/{batch}/state"
    assert manager.put(path, {"target": "pause"}).status == 200
    resumed = callers("member", "p-lessee").put(path, {"target": "resume"})
    assert (resumed.status, resumed.json["counts"]["skipped"]) == (200, 1), resumed.text
    assert results_of(callers, batch) == [("pending", None), ("skipped", "RightsLost")]


def test_resume_waits_for_nodes_that_start_with_the_rights_of_others(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    add_node(name="n1", owner="p-lessee", provision_state="active")
    add_node(name="n2", owner="p-else", lessee="p-lessee", provision_state="active")
    batch = begin_as(database, callers("manager", "p-lessee"), ["n1", "n2"], target="rebuild")
    path = f"/v1/batches/{batch}/state"
    assert callers("manager", "p-lessee").put(path, {"target": "pause"}).status == 200
    starting = models.batch_nodes.update().values(state="starting")
    database.write(lambda conn: conn.execute(starting))
    refused = callers("member", "p-lessee").put(path, {"target": "resume"})
    assert (refused.status, "is starting" in refused.text) == (409, True), refused.text
    assert callers("admin").get(f"/v1/batches/{batch}").json["state"] == "paused"
    assert callers("manager", "p-lessee").put(path, {"target": "resume"}).status == 200


def test_resume_of_a_batch_that_is_paused_meanwhile_checks_the_rights(
    callers: Callers,
    add_node: AddNode,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_node(name="n2", owner="p-else", lessee="p-lessee", provision_state="active")
    batch = begin_as(database, callers("manager", "p-lessee"), ["n2"], target="rebuild")
    checked = batches_api.without_right

    def pause_after(*args: Any) -> rules.Lost:
        found = checked(*args)
        paused = models.batches.update().values(state="paused")
        database.write(lambda conn: conn.execute(paused))
        return found

    monkeypatch.setattr(batches_api, "without_right", pause_after)
    path = f"/v1/batches/{batch}/state"
    resumed = callers("member", "p-lessee").put(path, {"target": "resume"})
    assert (resumed.status, resumed.json["counts"]["skipped"]) == (200, 1), resumed.text


def test_abort_leaves_the_runs_that_the_caller_may_not_stop(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    add_node(name="n1", owner="p-lessee", provision_state="active")
    add_node(name="n2", owner="p-else", lessee="p-lessee", provision_state="active")
    batch = begin_as(database, callers("manager", "p-lessee"), ["n1", "n2"], target="rebuild")
    running = models.batch_nodes.update().values(state="running")
    database.write(lambda conn: conn.execute(running))
    body = {"target": "abort", "runs": "abort"}
    aborted = callers("member", "p-lessee").put(f"/v1/batches/{batch}/state", body)
    assert (aborted.status, aborted.json["refused"]) == (200, {"count": 1}), aborted.text
    kept = models.batch_nodes.select().order_by(models.batch_nodes.c.place)
    found = database.read(lambda conn: [row.keeps_run for row in conn.execute(kept)])
    assert found == [None, True]


@pytest.mark.parametrize("plan", ["", "?plan=true"])
def test_refusal_names_no_batch_that_the_caller_may_not_see(
    callers: Callers, add_node: AddNode, database: Database, plan: str
) -> None:
    add_node(name="n1", owner="p-owner", lessee="p-lessee", provision_state="active")
    batch = begin_as(database, callers("manager", "p-lessee"), ["n1"], target="rebuild")
    body = {"nodes": ["n1"], "request": {"target": "rebuild"}}
    for project, named in (("p-owner", False), ("p-lessee", True), (None, True)):
        refused = callers("manager", project).post(f"/v1/batches{plan}", body)
        assert (refused.status, batch in refused.text) == (409, named), refused.text


def test_conductor_is_told_the_owners_that_were_checked(
    callers: Callers, add_node: AddNode, recorder: Recorder
) -> None:
    node = add_node(name="n1", owner="p-owner", lessee="p-lessee", provision_state="active")
    for who in (callers("manager", "p-lessee"), callers("admin")):
        answer = who.put("/v1/nodes/n1/states/provision", {"target": "rebuild"})
        assert answer.status == 202, answer.text
    owners = (node["uuid"], "p-owner", "p-lessee")
    assert [one.owners for one in recorder.contexts] == [owners, owners]


@pytest.mark.parametrize(
    ("patch", "kept"),
    [({"lessee": "p-b"}, False), ({"owner": "p-b"}, False), ({"name": "x"}, True)],
)
def test_node_that_changes_hands_is_not_retried_by_the_service(
    callers: Callers, add_node: AddNode, database: Database, patch: dict[str, str], kept: bool
) -> None:
    node = add_node(owner="p-a", lessee="p-a", provision_state="clean failed", wake_at=clock.now())
    body = [{"op": "add", "path": f"/{name}", "value": value} for name, value in patch.items()]
    answer = callers("admin").patch(f"/v1/nodes/{node['uuid']}", body)
    assert answer.status == 200, answer.text
    stored = database.read(lambda conn: nodes.get(conn, node["uuid"], ("wake_at",)))
    assert (stored["wake_at"] is not None) is kept
