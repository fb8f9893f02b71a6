"""Batches through the API: which nodes, in which order, how many failures, and what ends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.core import clock, masking
from ironic_lite.db.tables import models
from ironic_lite.features.batches import rows, rules
from ironic_lite.features.batches.rules import NodeState
from tests.support.operator import Json, Operator
from tests.support.statements import count_statements
from tests.support.wsgi_client import Response

pytestmark = pytest.mark.feature("batches")

Serve = Callable[..., Operator]
BROKEN = {"fake_fail_steps": {"deploy.erase_devices": "disk 3"}}


def post(operator: Operator, nodes: Any, request: Json | None = None, **more: Any) -> Response:
    """Ask for a batch."""
    body = {"nodes": nodes, "request": request or {"target": "manage"}, **more}
    return operator.api.post("/v1/batches", body)


def begin(operator: Operator, nodes: Any, request: Json | None = None, **more: Any) -> Json:
    """Begin a batch."""
    answer = post(operator, nodes, request, **more)
    assert answer.status == 201, answer.text
    assert answer.headers["location"].endswith(f"/v1/batches/{answer.json['uuid']}")
    return dict(answer.json)


def look(operator: Operator, batch: Json) -> Json:
    """Return the batch as it is now."""
    answer = operator.api.get(f"/v1/batches/{batch['uuid']}")
    assert answer.status == 200, answer.text
    return dict(answer.json)


def results(operator: Operator, batch: Json) -> list[str]:
    """Return the results of the nodes in their order."""
    return [one["result"] for one in members(operator, batch)]


def members(operator: Operator, batch: Json) -> list[Json]:
    """Return the nodes of a batch in their order."""
    answer = operator.api.get(f"/v1/batches/{batch['uuid']}/nodes")
    assert answer.status == 200, answer.text
    return list(answer.json["nodes"])


def sweep(operator: Operator, times: int = 1) -> None:
    """Let the conductor look at the batches, and wait for the work that it has begun."""
    for _ in range(times):
        operator.rig.sweep("batches")
        assert operator.rig.service.runtime.workers.wait_idle(60)


def fleet(operator: Operator, count: int, state: str = "enroll", **fields: Any) -> list[str]:
    """Add nodes."""
    return [operator.enroll(state, **fields) for _ in range(count)]


def write(operator: Operator, batch: Json, node: str, **values: Any) -> None:
    """Change the row of a node that is pending, as a conductor that was lost has left it."""
    operator.rig.database.write(
        lambda conn: rows.change_node(
            conn, batch["uuid"], node, values, states=(NodeState.PENDING,)
        )
    )


def test_batch_runs_its_request_on_each_node_once(operator: Operator) -> None:
    nodes = fleet(operator, 5)
    batch = begin(operator, nodes, name="all of them", concurrency=2)
    assert (batch["state"], batch["waves"], batch["counts"]["pending"]) == ("running", [5], 5)
    sweep(operator)
    assert results(operator, batch) == ["running"] * 2 + ["pending"] * 3
    sweep(operator, 6)
    shown = look(operator, batch)
    assert (shown["state"], shown["counts"]["done"]) == ("done", 5)
    assert shown["ended_at"] is not None
    found = operator.api.get(f"/v1/runs?batch={batch['uuid']}").json["runs"]
    assert sorted(run["node_uuid"] for run in found) == sorted(nodes)
    assert all(operator.shows(node)["provision_state"] == "manageable" for node in nodes)


def test_node_of_a_batch_starts_before_its_run(operator: Operator) -> None:
    node = operator.enroll("available")
    batch = begin(operator, [node], {"target": "manage"})
    sweep(operator, 2)
    (member,) = members(operator, batch)
    run = operator.api.get(f"/v1/nodes/{node}/runs/{member['run']}").json
    assert member["result"] == "done"
    assert member["started_at"] <= run["started_at"] <= run["ended_at"] == member["ended_at"]


def test_waves_follow_each_other(operator: Operator) -> None:
    nodes = fleet(operator, 6)
    batch = begin(operator, nodes, waves=[1, "50%", "100%"])
    assert batch["waves"] == [1, 3, 2]
    sweep(operator)
    assert results(operator, batch) == ["running"] + ["pending"] * 5
    sweep(operator)
    assert results(operator, batch) == ["done"] + ["running"] * 3 + ["pending"] * 2
    sweep(operator, 3)
    assert look(operator, batch)["state"] == "done"


def test_failing_canary_pauses_the_batch(operator: Operator) -> None:
    nodes = fleet(operator, 3, "manageable")
    operator.patches(nodes[0], driver_info=BROKEN)
    clean = {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
    batch = begin(operator, nodes, clean, waves=[1, "100%"])
    sweep(operator, 3)
    shown = look(operator, batch)
    assert (shown["state"], shown["paused_by"]) == ("paused", "failures")
    assert results(operator, batch) == ["failed", "pending", "pending"]
    failed = operator.api.get(f"/v1/batches/{batch['uuid']}/nodes?result=failed").json["nodes"]
    assert failed[0]["uuid"] == nodes[0]
    assert "disk 3" in failed[0]["error"]["text"]
    path = f"/v1/batches/{batch['uuid']}/state"
    resumed = operator.api.put(path, {"target": "resume"})
    assert (resumed.status, resumed.json["state"]) == (200, "running")
    sweep(operator, 3)
    assert results(operator, batch) == ["failed", "done", "done"]
    # What failed is retried by a batch of its own.
    operator.patches(nodes[0], driver_info={})
    again = {"batch": batch["uuid"], "result": "failed"}
    second = begin(operator, again, {"target": "retry"}, expect=1)
    sweep(operator, 3)
    assert look(operator, second)["counts"]["done"] == 1
    assert operator.shows(nodes[0])["provision_state"] == "manageable"


def test_retry_leaves_a_node_with_another_run_alone(operator: Operator) -> None:
    nodes = fleet(operator, 2, "manageable")
    for node in nodes:
        operator.patches(node, driver_info=BROKEN)
    clean = {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
    first = begin(operator, nodes, clean, max_failures=2)
    sweep(operator, 3)
    assert results(operator, first) == ["failed"] * 2
    batch = begin(operator, nodes, {"target": "retry"}, max_failures=2)
    operator.asks(nodes[0], "retry")
    operator.rig.reaches(nodes[0], "clean failed")
    sweep(operator, 3)
    found = members(operator, batch)
    assert [one["result"] for one in found] == ["skipped", "failed"]
    assert found[0]["error"]["code"] == "StateChanged"
    verbs = [run["verb"] for run in operator.rig.runs(nodes[0])]
    assert verbs[-2:] == ["clean", "clean"]
    assert verbs.count("clean") == 2


def test_too_many_failures_abort_the_batch(operator: Operator) -> None:
    nodes = fleet(operator, 3, "manageable")
    operator.patches(nodes[0], driver_info=BROKEN)
    clean = {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
    batch = begin(operator, nodes, clean, concurrency=1, on_failures="abort")
    sweep(operator, 4)
    shown = look(operator, batch)
    assert shown["state"] == "aborted"
    assert shown["ended_at"] is not None
    assert results(operator, batch) == ["failed", "skipped", "skipped"]


def test_node_in_another_state_is_skipped(operator: Operator) -> None:
    nodes = fleet(operator, 2)
    batch = begin(operator, nodes)
    operator.provision(nodes[1], "manage")
    sweep(operator, 3)
    assert results(operator, batch) == ["done", "skipped"]


def test_refused_request_counts_as_a_failure(operator: Operator) -> None:
    nodes = fleet(operator, 1)
    batch = begin(operator, nodes, {"target": "provide"})
    sweep(operator, 2)
    assert results(operator, batch) == ["refused"]
    member = operator.api.get(f"/v1/batches/{batch['uuid']}/nodes").json["nodes"][0]
    assert member["error"]["code"] == "InvalidState"
    assert look(operator, batch)["failures_left"] == 0


def test_power_of_many_nodes(operator: Operator) -> None:
    nodes = fleet(operator, 3, "manageable")
    batch = begin(operator, nodes, {"power": "power on"})
    sweep(operator, 3)
    assert look(operator, batch)["counts"]["done"] == 3
    assert {operator.shows(node)["power_state"] for node in nodes} == {"power on"}


def test_pause_resume_and_abort(operator: Operator) -> None:
    nodes = fleet(operator, 3)
    batch = begin(operator, nodes, concurrency=1)
    path = f"/v1/batches/{batch['uuid']}/state"
    assert operator.api.put(path, {"target": "pause"}).json["state"] == "paused"
    assert operator.api.put(path, {"target": "pause"}).json["state"] == "paused"
    sweep(operator, 2)
    assert results(operator, batch) == ["pending"] * 3
    assert operator.api.put(path, {"target": "resume"}).json["state"] == "running"
    sweep(operator)
    aborted = operator.api.put(path, {"target": "abort"})
    assert aborted.json["counts"]["skipped"] == 2
    assert operator.api.delete(f"/v1/batches/{batch['uuid']}").status == 409
    sweep(operator, 2)
    assert results(operator, batch) == ["done", "skipped", "skipped"]
    assert operator.api.put(path, {"target": "resume"}).status == 409
    assert operator.api.delete(f"/v1/batches/{batch['uuid']}").status == 204
    assert operator.api.get(f"/v1/batches/{batch['uuid']}").status == 404


def test_change_of_a_batch_is_bound_to_a_version(operator: Operator) -> None:
    api = operator.api
    answer = post(operator, fleet(operator, 3), concurrency=1)
    own = f"/v1/batches/{answer.json['uuid']}"
    first = answer.headers["etag"]
    assert api.get(own).headers["etag"] == first
    sweep(operator)
    assert api.get(own).headers["etag"] == first, "a node that has started is no change of it"
    pause, resume = {"target": "pause"}, {"target": "resume"}
    refused = api.put(f"{own}/state", pause, headers={"If-Match": '"1"'})
    assert refused.status == 412
    assert first in refused.text.replace("\\", "")
    assert look(operator, answer.json)["state"] == "running"
    paused = api.put(f"{own}/state", pause, headers={"If-Match": f'"1", {first}'})
    assert paused.status == 200
    second = paused.headers["etag"]
    assert second != first
    assert api.get(own).headers["etag"] == second
    # Another operator has resumed it, and it has paused again.
    for body in (resume, pause):
        assert api.put(f"{own}/state", body).status == 200
    assert api.put(f"{own}/state", resume, headers={"If-Match": second}).status == 412
    assert api.put(f"{own}/state", {"target": "abort"}, headers={"If-Match": "*"}).status == 200
    sweep(operator, 3)
    assert look(operator, answer.json)["ended_at"] is not None
    assert api.delete(own, headers={"If-Match": second}).status == 412
    assert api.delete(own, headers={"If-Match": api.get(own).headers["etag"]}).status == 204


def test_pause_between_waves(operator: Operator) -> None:
    nodes = fleet(operator, 2)
    batch = begin(operator, nodes, waves=[1, 1], between_waves="pause")
    sweep(operator, 3)
    shown = look(operator, batch)
    assert (shown["state"], shown["paused_by"], shown["wave"]) == ("paused", "end of a wave", 1)
    path = f"/v1/batches/{batch['uuid']}/state"
    operator.api.put(path, {"target": "resume"})
    sweep(operator, 3)
    assert look(operator, batch)["state"] == "done"


def test_filter_needs_the_expected_count(operator: Operator) -> None:
    fleet(operator, 2, resource_class="gpu")
    chosen = {"resource_class": "gpu"}
    assert post(operator, chosen).status == 400
    refused = post(operator, chosen, expect=3)
    assert (refused.status, "2 nodes" in refused.text) == (409, True)
    assert post(operator, {"resource_class": "none"}, expect=0).status == 400
    assert begin(operator, chosen, expect=2)["counts"]["pending"] == 2


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"nodes": []}, 400),
        ({"nodes": ["absent"]}, 404),
        ({"nodes": [7]}, 400),
        ({"nodes": {}, "expect": 1}, 400),
        ({"nodes": {"colour": "red"}, "expect": 1}, 400),
        ({"request": {}}, 400),
        ({"request": {"target": "fly"}}, 400),
        ({"request": {"target": "clean"}}, 400),
        ({"request": {"power": "half"}}, 400),
        ({"waves": [0]}, 400),
        ({"waves": ["101%"]}, 400),
        ({"concurrency": 0}, 400),
        ({"max_failures": -1}, 400),
        ({"max_failures": "x"}, 400),
        ({"on_failures": "sing"}, 400),
        ({"unknown": 1}, 400),
    ],
)
def test_bad_request_changes_nothing(operator: Operator, change: Json, status: int) -> None:
    body = {"nodes": fleet(operator, 1), "request": {"target": "manage"}, **change}
    answer = operator.api.post("/v1/batches", body)
    assert answer.status == status, answer.text
    assert operator.api.get("/v1/batches").json["batches"] == []


def test_node_is_in_one_open_batch(operator: Operator) -> None:
    nodes = fleet(operator, 2)
    first = begin(operator, nodes, name="night shift")
    name = operator.shows(nodes[0])["name"] or nodes[0]
    refused = post(operator, nodes[:1])
    assert refused.status == 409
    assert f"{first['uuid']} (night shift)" in refused.text
    assert f"node {name} does not allow this" in refused.text
    sweep(operator, 3)
    assert look(operator, first)["state"] == "done"
    assert post(operator, nodes[:1], {"target": "provide"}).status == 201


def test_plan_shows_the_batch_and_writes_nothing(operator: Operator) -> None:
    nodes = fleet(operator, 4)
    body = {"nodes": nodes, "request": {"target": "manage"}, "waves": [1, "100%"]}
    answer = operator.api.post("/v1/batches?plan=true", body)
    assert (answer.status, answer.json["waves"], answer.json["uuid"]) == (200, [1, 3], None)
    assert [one["uuid"] for one in answer.json["first_wave"]] == nodes[:1]
    assert operator.api.get("/v1/batches").json["batches"] == []


def test_plan_names_the_nodes_that_would_refuse(operator: Operator) -> None:
    nodes = fleet(operator, 5, "manageable")
    operator.patches(nodes[1], retired=True)
    hold = {"kind": "freeze", "reason": "case 7"}
    assert operator.api.post(f"/v1/nodes/{nodes[2]}/holds", hold).status == 201
    operator.rig.edit(nodes[3], reservation="elsewhere", lock_token="t")
    nodes.append(operator.enroll("enroll"))

    def plan(request: Json) -> dict[str, str]:
        body = {"nodes": nodes, "request": request}
        refused = operator.api.post("/v1/batches?plan=true", body).json["refused"]
        assert refused["count"] == len(refused["first"])
        return {one["uuid"]: one["code"] for one in refused["first"]}

    assert plan({"target": "provide"}) == {
        nodes[1]: "NodeRetired",
        nodes[2]: "NodeHeld",
        nodes[5]: "InvalidState",
    }
    assert plan({"power": "power off"}) == {nodes[2]: "NodeHeld"}


def test_refusal_names_all_nodes_of_open_batches(operator: Operator) -> None:
    nodes = fleet(operator, 5)
    night = begin(operator, nodes[:2], name="night shift")
    other = begin(operator, nodes[2:3])
    names = [operator.shows(node)["name"] or node for node in nodes]
    for path in ("/v1/batches", "/v1/batches?plan=true"):
        body = {"nodes": nodes, "request": {"target": "manage"}}
        refused = operator.api.post(path, body)
        assert refused.status == 409
        assert refused.text.startswith("3 nodes are in open batches; ")
        assert (
            f"in the open batch {night['uuid']} (night shift): {', '.join(names[:2])}"
            in refused.text
        )
        assert f"in the open batch {other['uuid']}: {names[2]}" in refused.text
        assert not any(name in refused.text for name in names[3:])


def test_refusal_names_twenty_nodes_and_counts_the_others(operator: Operator) -> None:
    nodes = fleet(operator, 23)
    begin(operator, nodes)
    refused = post(operator, nodes)
    named = [node for node in nodes if (operator.shows(node)["name"] or node) in refused.text]
    assert (refused.status, len(named)) == (409, 20)
    assert refused.text.startswith("23 nodes are in open batches; ")
    assert refused.text.endswith("; and 3 more.")


def test_batch_leaves_out_unfit_nodes_and_gives_each_reason(operator: Operator) -> None:
    nodes = fleet(operator, 7, "manageable")
    operator.patches(nodes[1], retired=True)
    hold = {"kind": "freeze", "reason": "case 7"}
    assert operator.api.post(f"/v1/nodes/{nodes[2]}/holds", hold).status == 201
    operator.rig.edit(nodes[3], reservation="elsewhere", lock_token="t")
    operator.rig.edit(nodes[6], protected=True)
    nodes.append(operator.enroll("enroll"))
    taken = begin(operator, nodes[4:5], {"target": "inspect"}, name="night shift")
    reasons = {
        nodes[1]: "NodeRetired",
        nodes[2]: "NodeHeld",
        nodes[4]: "Conflict",
        nodes[7]: "InvalidState",
    }
    fit = [node for node in nodes if node not in reasons]
    body = {
        **{"nodes": nodes, "request": {"target": "provide"}, "unfit": "leave out"},
        **{"waves": [1, "100%"], "max_failures": "50%"},
    }
    planned = operator.api.post("/v1/batches?plan=true", body)
    assert planned.status == 200, planned.text
    unfit = planned.json["unfit"]
    assert {one["uuid"]: one["code"] for one in unfit["nodes"]} == reasons
    assert [one["uuid"] for one in unfit["nodes"]] == list(reasons)
    assert unfit["count"] == 4
    texts = {one["uuid"]: one["text"] for one in unfit["nodes"]}
    assert f"in the open batch {taken['uuid']} (night shift)" in texts[nodes[4]]
    assert "case 7" in texts[nodes[2]]
    assert planned.json["fit"] == {
        "count": 4,
        "digest": rules.digest([{"uuid": node} for node in reversed(fit)]),
        "retired": [],
        "protected": [{"uuid": nodes[6], "name": operator.shows(nodes[6])["name"]}],
    }
    assert (planned.json["waves"], planned.json["max_failures"]) == ([1, 3], 2)
    assert planned.json["refused"] == {"count": 0, "first": []}
    begun = operator.api.post("/v1/batches", body)
    assert begun.status == 201, begun.text
    assert (begun.json["unfit"], begun.json["fit"]) == (unfit, planned.json["fit"])
    members = operator.api.get(f"/v1/batches/{begun.json['uuid']}/nodes").json["nodes"]
    assert [one["uuid"] for one in members] == fit


def test_batch_with_another_number_of_fit_nodes_does_not_begin(operator: Operator) -> None:
    nodes = fleet(operator, 3, "manageable")
    hold = {"kind": "freeze", "reason": "case 7"}
    assert operator.api.post(f"/v1/nodes/{nodes[2]}/holds", hold).status == 201
    body = {"nodes": nodes, "request": {"target": "provide"}, "unfit": "leave out"}
    planned = operator.api.post("/v1/batches?plan=true", body).json
    asked = {**body, "expect": 3, "expect_fit": planned["fit"]["count"]}
    assert operator.api.post(f"/v1/nodes/{nodes[1]}/holds", hold).status == 201
    refused = operator.api.post("/v1/batches", asked)
    assert (refused.status, "not 2 as expected" in refused.text) == (409, True)
    assert operator.api.get("/v1/batches").json["batches"] == []
    assert operator.api.post("/v1/batches", {**asked, "expect_fit": 1}).status == 201


def test_batch_with_other_nodes_than_those_of_its_plan_does_not_begin(operator: Operator) -> None:
    nodes = fleet(operator, 3, "manageable")
    hold = {"kind": "freeze", "reason": "case 7"}
    ends = operator.api.post(f"/v1/nodes/{nodes[2]}/holds", hold).json["uuid"]
    body = {"nodes": nodes, "request": {"target": "provide"}, "unfit": "leave out"}
    planned = operator.api.post("/v1/batches?plan=true", body).json
    asked = {**body, "expect": 3, "expect_fit": planned["fit"]["digest"]}
    assert operator.api.post(f"/v1/nodes/{nodes[1]}/holds", hold).status == 201
    assert operator.api.delete(f"/v1/nodes/{nodes[2]}/holds/{ends}").status == 204
    refused = operator.api.post("/v1/batches", asked)
    assert (refused.status, "Other nodes" in refused.text) == (409, True)
    assert operator.api.get("/v1/batches").json["batches"] == []
    now = operator.api.post("/v1/batches?plan=true", body).json
    assert now["fit"]["count"] == planned["fit"]["count"] == 2
    begun = operator.api.post(
        "/v1/batches",
        {**asked, "nodes": nodes[::-1], "expect_fit": now["fit"]["digest"]},
    )
    assert begun.status == 201, begun.text


@pytest.mark.parametrize("count", [-1, "2", "0" * 17, "", True, None])
def test_other_numbers_of_fit_nodes_are_refused(operator: Operator, count: object) -> None:
    body = {"nodes": fleet(operator, 1), "request": {"target": "manage"}, "expect_fit": count}
    answer = operator.api.post("/v1/batches", body)
    assert (answer.status, "expect_fit" in answer.text) == (400, True)


def test_repetition_has_the_unfit_nodes_of_a_large_answer(operator: Operator) -> None:
    nodes = [*fleet(operator, 1, "manageable"), *fleet(operator, 80)]
    request = {"target": "inspect"}
    body = {"nodes": nodes, "request": request, "unfit": "leave out"}
    key = {"Idempotency-Key": "k1"}
    first = operator.api.post("/v1/batches", body, headers=key)
    assert (first.status, len(first.body) > 16 * 1024) == (201, True)
    again = operator.api.post("/v1/batches", body, headers=key)
    assert (again.status, again.headers["idempotent-replay"]) == (201, "true")
    assert again.json["unfit"] == {"count": 80, "nodes": first.json["unfit"]["nodes"][:20]}
    assert {**again.json, "unfit": None} == {**first.json, "unfit": None}


def test_plan_counts_retired_nodes_that_can(operator: Operator) -> None:
    nodes = fleet(operator, 2, "manageable")
    operator.patches(nodes[1], retired=True)
    steps = [{"interface": "deploy", "step": "erase_devices"}]
    request = {"target": "clean", "clean_steps": steps}
    body = {"nodes": nodes, "request": request, "unfit": "leave out"}
    planned = operator.api.post("/v1/batches?plan=true", body).json
    assert planned["unfit"] == {"count": 0, "nodes": []}
    assert [one["uuid"] for one in planned["fit"]["retired"]] == nodes[1:]


def test_batch_that_would_leave_out_every_node_does_not_begin(operator: Operator) -> None:
    nodes = fleet(operator, 2)
    body = {"nodes": nodes, "request": {"target": "provide"}, "unfit": "leave out"}
    planned = operator.api.post("/v1/batches?plan=true", body)
    assert (planned.status, planned.json["fit"]["count"]) == (200, 0)
    assert planned.json["unfit"]["count"] == 2
    assert planned.json["first_wave"] == []
    refused = operator.api.post("/v1/batches", body)
    assert (refused.status, "plan=true" in refused.text) == (409, True)
    assert operator.api.get("/v1/batches").json["batches"] == []


def test_repetition_of_a_batch_with_nodes_left_out_is_the_batch(operator: Operator) -> None:
    nodes = [*fleet(operator, 2), operator.enroll("available")]
    body = {"nodes": nodes, "request": {"target": "manage"}, "unfit": "leave out"}
    headers = {"Idempotency-Key": "once"}
    first, again = (operator.api.post("/v1/batches", body, headers=headers) for _ in range(2))
    assert (first.status, again.status) == (201, 201)
    assert first.json["uuid"] == again.json["uuid"]
    assert len(operator.api.get("/v1/batches").json["batches"]) == 1


@pytest.mark.parametrize("unfit", ["leave", None, True, ["leave out"]])
def test_other_words_for_unfit_nodes_are_refused(operator: Operator, unfit: object) -> None:
    body = {"nodes": fleet(operator, 1), "request": {"target": "manage"}, "unfit": unfit}
    answer = operator.api.post("/v1/batches", body)
    assert (answer.status, "unfit" in answer.text) == (400, True)


def test_unfit_nodes_are_refused_by_default(operator: Operator) -> None:
    nodes = fleet(operator, 1)
    for more in ({}, {"unfit": "refuse"}):
        body = {"nodes": nodes, "request": {"target": "provide"}, **more}
        planned = operator.api.post("/v1/batches?plan=true", body).json
        assert planned["refused"]["count"] == 1
        assert "unfit" not in planned
        assert "fit" not in planned


def test_plan_reads_many_nodes_with_the_statements_of_one(operator: Operator) -> None:
    nodes = fleet(operator, 30)
    sent = []
    for some in (nodes[:1], nodes):
        body = {"nodes": some, "request": {"target": "provide"}}
        with count_statements(operator.rig.database) as seen:
            refused = operator.api.post("/v1/batches?plan=true", body).json["refused"]
        assert (refused["count"], len(refused["first"])) == (len(some), min(len(some), 20))
        sent.append(len(seen))
    assert sent[1] <= sent[0], sent


def test_locked_node_is_tried_again(operator: Operator) -> None:
    nodes = fleet(operator, 1)
    operator.rig.edit(nodes[0], reservation="elsewhere", lock_token="t")
    batch = begin(operator, nodes)
    sweep(operator)
    member = operator.api.get(f"/v1/batches/{batch['uuid']}/nodes").json["nodes"][0]
    assert (member["result"], member["error"]["code"]) == ("pending", "NodeLocked")


def test_aborted_batch_ends_though_a_node_became_pending_again(operator: Operator) -> None:
    nodes = fleet(operator, 2)
    batch = begin(operator, nodes)
    write(operator, batch, nodes[0], state="starting", host="elsewhere")
    path = f"/v1/batches/{batch['uuid']}/state"
    assert operator.api.put(path, {"target": "abort"}).json["counts"]["starting"] == 1
    operator.rig.database.write(
        lambda conn: rows.change_node(
            conn, batch["uuid"], nodes[0], {"state": "pending"}, states=(NodeState.STARTING,)
        )
    )
    sweep(operator)
    shown = look(operator, batch)
    assert (shown["state"], shown["ended_at"] is None) == ("aborted", False)
    assert results(operator, batch) == ["skipped"] * 2


def test_abort_of_runs_ends_them_after_the_step_under_way(operator: Operator) -> None:
    # The first step waits for a timer, so the run is in "clean wait" when it is aborted.
    node = operator.enroll()
    waits = {"fake_async_steps": ["deploy.erase_devices"], "fake_step_seconds": 3600}
    operator.patches(node, driver_info=waits)
    steps = [
        {"interface": "deploy", "step": "erase_devices"},
        {"interface": "management", "step": "reset_bmc"},
    ]
    batch = begin(operator, [node], {"target": "clean", "clean_steps": steps})
    sweep(operator)
    assert results(operator, batch) == ["running"]
    path = f"/v1/batches/{batch['uuid']}/state"
    body = {"target": "abort", "runs": "abort"}
    assert operator.api.put(path, body).json["state"] == "aborted"
    assert look(operator, batch)["ended_at"] is None
    sweep(operator, 3)
    shown = look(operator, batch)
    assert (shown["state"], shown["counts"]["aborted"]) == ("aborted", 1)
    assert shown["ended_at"] is not None
    run = operator.api.get(f"/v1/runs?batch={batch['uuid']}").json["runs"][0]
    assert run["state"] == "aborted"
    asked = [one["data"]["reason"] for one in operator.rig.events(node, "stop_requested")]
    assert asked == ["The batch was aborted."]


def test_stops_of_runs_are_of_the_caller_who_aborts(operator: Operator) -> None:
    node = operator.enroll(fake_step_seconds=1)
    steps = [{"interface": "management", "step": "reset_bmc"}] * 50
    batch = begin(operator, [node], {"target": "clean", "clean_steps": steps})
    of_ann = {"request_id": "req-ann", "user": "ann", "project": "p-ann"}
    operator.rig.database.write(lambda conn: rows.update(conn, batch["uuid"], {"context": of_ann}))
    operator.rig.sweep("batches")
    operator.rig.enters(node, "cleaning")
    path = f"/v1/batches/{batch['uuid']}/state"
    operator.api.put(path, {"target": "abort", "runs": "abort"})
    operator.rig.sweep("batches")
    (stop,) = operator.rig.events(node, "stop_requested")
    assert (stop["requester"], stop["data"]["project"]) == (None, None)
    sweep(operator, 2)
    assert results(operator, batch) == ["aborted"]
    assert {run["requester"] for run in operator.rig.runs(node)} == {"ann", None}


def test_resume_that_changes_a_limit_is_no_event(operator: Operator) -> None:
    batch = begin(operator, fleet(operator, 2))
    path = f"/v1/batches/{batch['uuid']}/state"
    changed = operator.api.put(path, {"target": "resume", "max_failures": 1})
    assert (changed.json["state"], changed.json["max_failures"]) == ("running", 1)
    assert operator.rig.events(batch["uuid"], "batch_resumed") == []
    operator.api.put(path, {"target": "pause"})
    operator.api.put(path, {"target": "resume", "max_failures": 2})
    assert len(operator.rig.events(batch["uuid"], "batch_resumed")) == 1


def test_abort_of_runs_asks_a_busy_run_to_stop(operator: Operator) -> None:
    node = operator.enroll(fake_step_seconds=1)
    steps = [{"interface": "management", "step": "reset_bmc"}] * 50
    batch = begin(operator, [node], {"target": "clean", "clean_steps": steps})
    operator.rig.sweep("batches")
    operator.rig.enters(node, "cleaning")
    path = f"/v1/batches/{batch['uuid']}/state"
    operator.api.put(path, {"target": "abort", "runs": "abort"})
    operator.rig.sweep("batches")
    sweep(operator, 2)
    assert results(operator, batch) == ["aborted"]
    assert operator.rig.step_states(node).count("done") < 50


def test_repeated_key_begins_one_batch(operator: Operator) -> None:
    body = {"nodes": fleet(operator, 2), "request": {"target": "manage"}}
    key = {"Idempotency-Key": "one"}
    first = operator.api.post("/v1/batches", body, headers=key)
    again = operator.api.post("/v1/batches", body, headers=key)
    assert (first.status, again.status) == (201, 201)
    assert again.json["uuid"] == first.json["uuid"]
    assert len(operator.api.get("/v1/batches").json["batches"]) == 1


def set_times(operator: Operator, table: sa.Table, **values: Any) -> None:
    """Write times into all rows, as if the time had passed."""
    operator.rig.database.write(lambda conn: conn.execute(table.update().values(**values)))


def test_locked_node_is_refused_after_an_hour_of_tries(operator: Operator) -> None:
    nodes = fleet(operator, 2)
    operator.rig.edit(nodes[0], reservation="elsewhere", lock_token="t")
    batch = begin(operator, nodes, max_failures=1)
    sweep(operator)
    assert results(operator, batch)[0] == "pending"
    sweep(operator)
    tries = [one["tries"] for one in members(operator, batch)]
    assert tries == [1, 1], "the pause before the next try is not over"
    write(operator, batch, nodes[0], tries=rules.MOST_TRIES - 2, not_before=None)
    sweep(operator)
    assert members(operator, batch)[0]["result"] == "pending"
    write(operator, batch, nodes[0], not_before=None)
    sweep(operator, 2)
    found = members(operator, batch)
    assert [one["result"] for one in found] == ["refused", "done"], found
    assert (found[0]["error"]["code"], found[0]["tries"]) == ("NodeLocked", rules.MOST_TRIES)
    assert look(operator, batch)["state"] == "done"


def test_pause_of_a_batch_uses_up_no_tries(operator: Operator) -> None:
    nodes = fleet(operator, 1)
    operator.rig.edit(nodes[0], reservation="elsewhere", lock_token="t")
    batch = begin(operator, nodes)
    sweep(operator)
    path = f"/v1/batches/{batch['uuid']}/state"
    operator.api.put(path, {"target": "pause"})
    long_ago = clock.ago(7200)
    set_times(operator, models.batch_nodes, not_before=long_ago, started_at=long_ago)
    sweep(operator, 3)
    operator.api.put(path, {"target": "resume"})
    sweep(operator)
    (found,) = members(operator, batch)
    assert (found["result"], found["tries"], found["started_at"]) == ("pending", 2, None)


def test_limit_of_the_service_uses_up_no_tries(serve: Serve) -> None:
    operator = serve(conductor__max_concurrent_clean=1)
    operator.rig.node("clean wait")
    nodes = fleet(operator, 40, "manageable")
    batch = begin(operator, nodes, {"target": "provide"}, concurrency=40)
    sweep(operator)
    found = members(operator, batch)
    assert {(one["result"], one["tries"]) for one in found} == {("pending", 0)}
    met = [one["error"]["code"] for one in found if one["error"]]
    assert met == ["TooManyActions"] * 16, "the sweep goes on after the limit"
    long_ago = clock.ago(7200)
    set_times(operator, models.batch_nodes, not_before=long_ago, started_at=long_ago)
    sweep(operator)
    assert results(operator, batch) == ["pending"] * 40


def test_held_node_is_refused_while_the_limit_of_the_service_is_full(serve: Serve) -> None:
    operator = serve(conductor__max_concurrent_clean=1)
    operator.rig.node("clean wait")
    nodes = fleet(operator, 2, "manageable")
    batch = begin(operator, nodes, {"target": "provide"}, concurrency=2)
    hold = {"kind": "freeze", "reason": "case 7"}
    assert operator.api.post(f"/v1/nodes/{nodes[0]}/holds", hold).status == 201
    sweep(operator)
    found = members(operator, batch)
    assert [one["result"] for one in found] == ["refused", "pending"], found
    assert found[0]["error"]["code"] == "NodeHeld"


def test_secrets_of_a_request_are_removed_when_the_batch_ends(operator: Operator) -> None:
    batch = begin(
        operator, fleet(operator, 1), {"target": "rescue", "rescue_password": "opensesame"}
    )

    def stored() -> Json:
        row = operator.rig.database.read(lambda conn: rows.get(conn, batch["uuid"]))
        return dict(row["request"])

    assert stored()["rescue_password"] == "opensesame"
    sweep(operator, 3)
    shown = look(operator, batch)
    assert shown["ended_at"] is not None
    assert stored() == shown["request"] == {"target": "rescue", "rescue_password": masking.MASK}


def test_list_and_sweep_read_no_request(operator: Operator) -> None:
    batch = begin(operator, fleet(operator, 1))
    operator.api.put(f"/v1/batches/{batch['uuid']}/state", {"target": "pause"})
    with count_statements(operator.rig.database) as sent:
        sweep(operator)
        (shown,) = operator.api.get("/v1/batches").json["batches"]
        operator.api.get(f"/v1/batches/{batch['uuid']}/nodes")
        operator.api.get(f"/v1/batches/{batch['uuid']}?fields=state")
    assert not [one for one in sent if "batches.request," in one or "batches.context" in one]
    assert "request" not in shown
    named = operator.api.get("/v1/batches?fields=uuid,request").json["batches"]
    assert named == [{"uuid": batch["uuid"], "request": {"target": "manage"}}]


def test_batches_are_removed_90_days_after_their_end(operator: Operator) -> None:
    old, new, still = ([operator.enroll("enroll")] for _ in range(3))
    first = begin(operator, old)
    sweep(operator, 2)
    second = begin(operator, new)
    sweep(operator, 2)
    third = begin(operator, still)
    table = models.batches
    days = 24 * 3600

    def age(batch: Json, seconds: int) -> None:
        mine = table.update().where(table.c.uuid == batch["uuid"])
        when = clock.ago(seconds)
        operator.rig.database.write(lambda conn: conn.execute(mine.values(created_at=when)))
        if batch is not third:
            ended = mine.values(ended_at=when)
            operator.rig.database.write(lambda conn: conn.execute(ended))

    age(first, 91 * days)
    age(second, 89 * days)
    age(third, 200 * days)
    operator.rig.sweep("old batches")
    left = [one["uuid"] for one in operator.api.get("/v1/batches").json["batches"]]
    assert sorted(left) == sorted([second["uuid"], third["uuid"]])
    assert operator.api.get(f"/v1/runs?node={old[0]}").json["runs"]


@pytest.mark.parametrize(("target", "result"), [("pause", "pending"), ("abort", "skipped")])
def test_claimed_node_does_not_start_after_a_pause_or_an_abort(
    operator: Operator, target: str, result: str
) -> None:
    nodes = fleet(operator, 1)
    batch = begin(operator, nodes)
    me = operator.rig.service.runtime.host
    ident = rules.request_id(batch["uuid"], nodes[0])
    write(operator, batch, nodes[0], state="starting", host=me, request_id=ident, tries=1)
    path = f"/v1/batches/{batch['uuid']}/state"
    assert operator.api.put(path, {"target": target}).status == 200
    sweep(operator)
    assert results(operator, batch) == [result]
    assert operator.shows(nodes[0])["provision_state"] == "enroll"
    assert operator.api.get(f"/v1/runs?batch={batch['uuid']}").json["runs"] == []


def test_accepted_node_is_taken_after_a_pause(operator: Operator) -> None:
    nodes = fleet(operator, 1)
    batch = begin(operator, nodes)
    me = operator.rig.service.runtime.host
    sweep(operator)
    run = operator.api.get(f"/v1/runs?batch={batch['uuid']}").json["runs"][0]["uuid"]
    operator.rig.database.write(
        lambda conn: rows.change_node(
            conn,
            batch["uuid"],
            nodes[0],
            {"state": "starting", "host": me, "run_uuid": None},
            states=(NodeState.RUNNING,),
        )
    )
    operator.api.put(f"/v1/batches/{batch['uuid']}/state", {"target": "pause"})
    sweep(operator, 2)
    member = operator.api.get(f"/v1/batches/{batch['uuid']}/nodes").json["nodes"][0]
    assert (member["result"], member["run"]) == ("done", run)


def test_sweep_starts_a_wide_batch_in_several_claims(operator: Operator) -> None:
    nodes = fleet(operator, 20)
    batch = begin(operator, nodes, concurrency=18)
    sweep(operator)
    assert results(operator, batch) == ["running"] * 18 + ["pending"] * 2


def test_batch_that_cannot_be_carried_out_does_not_stop_the_others(
    operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    broken, whole = (begin(operator, fleet(operator, 1)) for _ in range(2))
    table = models.batches
    spoil = table.update().where(table.c.uuid == broken["uuid"]).values(options={})
    operator.rig.database.write(lambda conn: conn.execute(spoil))
    sweep(operator, 3)
    assert look(operator, whole)["state"] == "done"
    assert f"Batch {broken['uuid']}: the sweep failed" in caplog.text


def state_of(operator: Operator, batch: Json, target: str, **more: Any) -> Json:
    """Pause, resume or abort a batch."""
    answer = operator.api.put(f"/v1/batches/{batch['uuid']}/state", {"target": target, **more})
    assert answer.status == 200, answer.text
    return dict(answer.json)


@pytest.mark.parametrize("field", ["owner", "lessee"])
def test_node_that_changes_hands_leaves_a_paused_batch(operator: Operator, field: str) -> None:
    moved, kept = fleet(operator, 2, "active", **{field: "p-a"})
    batch = begin(operator, [moved, kept], {"target": "deleted"}, concurrency=1)
    state_of(operator, batch, "pause")
    operator.patches(moved, maintenance=True)  # of an active node; its owner may change then
    assert operator.patches(moved, **{field: "p-b"}).status == 200
    operator.patches(moved, maintenance=False)
    shown = members(operator, batch)[0]
    text = f"The {field} was p-a and is p-b."
    assert (shown["result"], shown["error"]) == ("skipped", {"code": "RightsLost", "text": text})
    assert post(operator, [moved], {"target": "rebuild"}).status == 201
    state_of(operator, batch, "resume")
    sweep(operator, 2)
    assert results(operator, batch) == ["skipped", "done"]
    assert look(operator, batch)["failures_left"] == 0
    assert "deleted" not in {run["verb"] for run in operator.rig.runs(moved)}


def test_node_whose_owner_a_conductor_changed_does_not_start(operator: Operator) -> None:
    nodes = fleet(operator, 2, "manageable", lessee="p-a")
    batch = begin(operator, nodes, {"target": "provide"})
    operator.rig.edit(nodes[0], lessee="p-b")  # as an automatic lessee, without a PATCH
    other = begin(operator, nodes[:1], {"target": "inspect"})
    sweep(operator, 2)
    assert results(operator, batch) == ["skipped", "done"]
    assert results(operator, other) == ["done"]
    operator.rig.edit(nodes[1], lessee=None)
    third = begin(operator, nodes[1:], {"target": "manage"})
    operator.rig.edit(nodes[1], owner="p-c")
    sweep(operator)
    (shown,) = members(operator, third)
    assert shown["error"] == {"code": "RightsLost", "text": "The owner was none and is p-c."}


def test_run_of_a_node_that_changed_hands_is_not_aborted(operator: Operator) -> None:
    waits = {"fake_async_steps": ["deploy.erase_devices"], "fake_step_seconds": 3600}
    nodes = fleet(operator, 2, "manageable", lessee="p-a")
    for node in nodes:
        operator.patches(node, driver_info=waits)
    steps = [{"interface": "deploy", "step": "erase_devices"}] * 2
    batch = begin(operator, nodes, {"target": "clean", "clean_steps": steps})
    sweep(operator)
    assert results(operator, batch) == ["running"] * 2
    state_of(operator, batch, "abort", runs="abort")
    operator.rig.edit(nodes[0], lessee="p-b")
    sweep(operator, 3)
    assert results(operator, batch) == ["running", "aborted"]


@pytest.mark.parametrize(
    ("project", "change", "result"),
    [
        ("p-a", "remove", "skipped"),
        ("p-a", "private", "skipped"),
        ("p-a", "none", "done"),
        (None, "remove", "done"),
    ],
)
def test_batch_of_a_project_needs_its_runbook_when_nodes_start(
    operator: Operator, project: str | None, change: str, result: str
) -> None:
    (node,) = fleet(operator, 1, "manageable")
    operator.api.put(f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_BOOK"]})
    steps = [{"interface": "deploy", "step": "erase_devices_metadata", "args": {}, "order": 1}]
    book = {"name": "CUSTOM_BOOK", "steps": steps, "public": True}
    made = operator.api.post("/v1/runbooks", book)
    assert made.status == 201, made.text
    path = f"/v1/runbooks/{made.json['uuid']}"
    assert operator.api.put(f"{path}/traits", {"traits": ["CUSTOM_BOOK"]}).status == 204
    batch = begin(operator, [node], {"target": "clean", "runbook": "CUSTOM_BOOK"})
    of_project = models.batches.update().values(project=project)
    operator.rig.database.write(lambda conn: conn.execute(of_project))
    if change == "remove":
        assert operator.api.delete(path).status == 204
    elif change == "private":
        patch = [{"op": "replace", "path": "/public", "value": False}]
        assert operator.api.patch(path, patch).status == 200
    sweep(operator, 2)
    assert results(operator, batch) == [result]


@pytest.mark.feature("events")
def test_batch_that_is_paused_for_weeks_is_aborted(operator: Operator) -> None:
    (node,) = fleet(operator, 1)
    batch = begin(operator, [node])
    state_of(operator, batch, "pause")
    sweep(operator)
    assert look(operator, batch)["state"] == "paused"
    long_ago = {"updated_at": clock.ago((rules.PAUSED_DAYS + 1) * 24 * 3600)}
    operator.rig.database.write(lambda conn: rows.update(conn, batch["uuid"], long_ago))
    sweep(operator)
    assert look(operator, batch)["state"] == "aborted"
    assert results(operator, batch) == ["skipped"]
    events = operator.api.get("/v1/events?kind=batch_aborted").json["events"]
    assert [one["data"]["by"] for one in events] == ["pause of 30 days"]
