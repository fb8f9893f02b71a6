"""Holds: what they refuse, under the lock too, when they end, and what goes on in spite of them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.queries import holds as rows
from ironic_lite.domain import holds, states, verbs
from ironic_lite.domain.states import State
from tests.support.conductor_fixture import ConductorFixture, listed, wait_for
from tests.support.operator import Json, Operator
from tests.support.wsgi_client import Client, Response

Serve = Callable[..., Operator]
BODIES: dict[str, Json] = {
    "clean": {"clean_steps": listed("deploy.erase_devices")},
    "service": {"service_steps": listed("vendor.log_passthrough")},
    "rescue": {"rescue_password": "sesame"},
}


def hold(operator: Operator, node: str, *blocks: str, **body: Any) -> Json:
    """Hold a node."""
    given: Json = {"kind": "audit", "reason": "case 7", **body}
    if blocks:
        given["blocks"] = list(blocks)
    answer = operator.api.post(f"/v1/nodes/{node}/holds", given)
    assert answer.status == 201, answer.text
    return dict(answer.json)


def end(operator: Operator, node: str, held: Json, query: str = "") -> None:
    """End a hold."""
    answer = operator.api.delete(f"/v1/nodes/{node}/holds/{held['uuid']}{query}")
    assert (answer.status, answer.body) == (204, b"")


def in_force(operator: Operator, node: str, query: str = "") -> list[Json]:
    """Return the holds of a node as the list shows them."""
    answer = operator.api.get(f"/v1/nodes/{node}/holds{query}")
    assert answer.status == 200, answer.text
    return list(answer.json["holds"])


def stored(node: str, kind: str, blocks: str) -> Json:
    """Return the row of a hold."""
    about = {"kind": kind, "reason": "late", "blocks": blocks}
    return {"uuid": node, "node_uuid": node, "created_at": clock.now(), **about}


def parked(rig: ConductorFixture, target: str) -> str:
    """Add a node in a state from which the verb starts."""
    verb = verbs.BY_TARGET[target]
    state = next(state for state in State if verbs.possible(verb, state))
    goal = states.STATES[state].target
    return rig.node(str(state), target_provision_state=str(goal) if goal else None)


def refuses(block: str, target: str) -> bool:
    """Return whether a block refuses a verb."""
    return verbs.BY_TARGET[target].event in holds.REFUSED[holds.Block(block)]


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize("block", list(holds.Block))
def test_api_and_conductor_refuse_the_verbs_of_a_block(operator: Operator, block: str) -> None:
    for target in verbs.BY_TARGET:
        node = parked(operator.rig, target)
        hold(operator, node, block)
        answer = operator.asks(node, target, **BODIES.get(target, {}))
        said = answer.status == 409 and "is held (audit, " in answer.text
        assert said is refuses(block, target), (target, answer.body)
        if said:
            assert "Retry-After" not in answer.headers
            assert f"It blocks {block}, and so {target}." in answer.text
        assert operator.rig.service.runtime.workers.wait_idle(60)


SENT: dict[str, dict[str, Any]] = {
    "rescue": {"rescue_password": "sesame"},
    "clean": {"clean_steps": listed("deploy.erase_devices")},
    "service": {"service_steps": listed("vendor.log_passthrough")},
    **{
        target: {}
        for target in (
            *("active", "rebuild", "deleted", "retry", "manage", "provide", "available", "inspect"),
            *("adopt", "unrescue"),
        )
    },
}
"""Bodies of verbs as a conductor receives them from an API that has not seen the hold."""


@pytest.mark.parametrize("target", SENT)
def test_conductor_refuses_a_hold_that_the_api_has_not_seen(
    operator: Operator, target: str
) -> None:
    node = parked(operator.rig, target)
    block = next(block for block in holds.Block if refuses(block, target))
    hold(operator, node, block)
    before = operator.rig.get(node)
    with pytest.raises(errors.NodeHeld, match=f"and so {target}"):
        operator.rig.ask(verbs.BY_TARGET[target].event, node, **SENT[target])
    assert operator.rig.get(node) == before


def test_hold_that_is_set_between_check_and_lock_counts(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = operator.enroll("active")
    lock = operator.rig.tasks.lock

    def late(*given: Any, **named: Any) -> Any:
        monkeypatch.undo()
        operator.rig.database.write(lambda conn: rows.add(conn, stored(node, "legal", "erase")))
        return lock(*given, **named)

    monkeypatch.setattr(operator.rig.tasks, "lock", late)
    said = operator.asks(node, "deleted")
    assert (said.status, "is held (legal, " in said.text) == (409, True)
    assert operator.shows(node)["provision_state"] == "active"


def test_power_is_not_switched_by_request(operator: Operator) -> None:
    node = operator.enroll("active")
    held = hold(operator, node, kind="freeze")
    path = f"/v1/nodes/{node}/states/power"
    answer = operator.api.put(path, {"target": "power off"})
    assert (answer.status, "It blocks power, and so power off." in answer.text) == (409, True)
    with pytest.raises(errors.NodeHeld):
        operator.rig.endpoints.change_node_power_state(
            operator.rig.who, node_uuid=node, target="power off"
        )
    end(operator, node, held)
    assert operator.api.put(path, {"target": "power off"}).status == 202
    operator.rig.settled(node)
    assert operator.shows(node)["power_state"] == "power off"


@pytest.mark.parametrize("block", ["power", "use"])
def test_power_sweep_takes_the_power_of_a_held_node_as_it_is(serve: Serve, block: str) -> None:
    operator = serve(conductor__force_power_state_during_sync=True)
    node = operator.enroll("active")
    hold(operator, node, block)
    before = operator.shows(node)["power_state"]
    operator.rig.edit(node, power_state="power off" if before == "power on" else "power on")
    wanted = operator.shows(node)["power_state"]
    operator.sweep()
    operator.sweep()
    assert operator.shows(node)["power_state"] == (before if block == "power" else wanted)


def test_node_is_not_deleted(operator: Operator) -> None:
    node = operator.enroll("manageable")
    held = hold(operator, node, kind="legal")
    answer = operator.api.delete(f"/v1/nodes/{node}")
    assert (answer.status, "and so deletion of the node." in answer.text) == (409, True)
    with pytest.raises(errors.NodeHeld):
        operator.rig.endpoints.destroy_node(operator.rig.who, node_uuid=node)
    end(operator, node, held)
    assert operator.api.delete(f"/v1/nodes/{node}").status == 204


def test_plan_has_the_hold_once(operator: Operator) -> None:
    node = operator.enroll("manageable")
    hold(operator, node, "erase")
    answer = operator.api.post(f"/v1/nodes/{node}/plan", {"target": "provide"})
    assert answer.status == 422, answer.text
    (fault,) = answer.json["faults"]
    assert (fault["path"], fault["code"]) == (None, "NodeHeld")
    assert fault["text"] == operator.refused(node, "provide", 409)
    assert operator.api.post(f"/v1/nodes/{node}/plan", {"target": "inspect"}).status == 200


# -- what goes on ----------------------------------------------------------------------------


def test_cleaning_after_a_deletion_goes_on(operator: Operator) -> None:
    node = operator.enroll("active")
    steps = ["deploy.erase_devices_metadata", "deploy.erase_devices"]
    operator.patches(node, driver_info__fake_async_steps=steps)
    operator.patches(node, driver_info__fake_step_seconds=1)
    assert operator.asks(node, "deleted").status == 202
    wait_for(lambda: operator.shows(node)["provision_state"] == "clean wait")
    hold(operator, node, "erase", "verbs", "use", "power")
    wait_for(lambda: operator.shows(node)["provision_state"] == "available")
    assert "is held" in operator.refused(node, "active", 409)


def test_abort_is_never_refused(operator: Operator) -> None:
    node = operator.enroll("manageable")
    operator.clean(node, "deploy.hold")
    hold(operator, node, *holds.Block)
    assert operator.provision(node, "abort")["provision_state"] == "clean failed"
    assert "is held" in operator.refused(node, "retry", 409)


def test_automatic_retries_end_at_a_hold(serve: Serve) -> None:
    operator = serve(conductor__automatic_retries=3)
    node = operator.enroll("manageable")
    rig = operator.rig
    rig.edit(node, provision_state="clean failed", wake_at=clock.now())
    hold(operator, node, "erase")
    rig.service.timers.wake(rig.tasks, node)
    assert rig.service.runtime.workers.wait_idle(60)
    row = rig.get(node)
    assert (row["provision_state"], row["wake_at"]) == ("clean failed", None)


def test_allocation_takes_a_free_node(operator: Operator) -> None:
    nodes = [operator.enroll("available", resource_class="gold") for _ in range(2)]
    held = hold(operator, nodes[0], kind="hardware")

    def allocate() -> Json:
        answer = operator.api.post("/v1/allocations", {"resource_class": "gold"})
        assert answer.status == 201, answer.text
        assert operator.rig.service.runtime.workers.wait_idle(60)
        return dict(operator.api.get(f"/v1/allocations/{answer.json['uuid']}").json)

    assert allocate()["node_uuid"] == nodes[1]
    failed = allocate()
    assert (failed["state"], "or held" in failed["last_error"]) == ("error", True)
    end(operator, nodes[0], held)
    assert allocate()["node_uuid"] == nodes[0]


def test_allocation_meets_a_hold_that_is_set_after_its_search(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = operator.enroll("available", resource_class="gold")
    refuse = rows.refuse

    def late(conn: Any, uuid: str, *given: str) -> None:
        rows.add(conn, stored(uuid, "hardware", "use"))
        refuse(conn, uuid, *given)

    monkeypatch.setattr(rows, "refuse", late)
    answer = operator.api.post("/v1/allocations", {"resource_class": "gold"})
    assert operator.rig.service.runtime.workers.wait_idle(60)
    found = operator.api.get(f"/v1/allocations/{answer.json['uuid']}").json
    assert (found["state"], found["node_uuid"]) == ("error", None)
    assert operator.shows(node)["instance_uuid"] is None


# -- begin and end ---------------------------------------------------------------------------


def test_hold_is_shown_as_it_was_made(operator: Operator) -> None:
    node = operator.enroll("manageable")
    made = hold(operator, node, kind="legal", until="2037-01-31T02:00:00+02:00")
    assert (made["kind"], made["reason"], made["blocks"]) == (
        "legal",
        "case 7",
        ["erase", "forget"],
    )
    assert (made["until"], made["ended_at"]) == ("2037-01-31T00:00:00+00:00", None)
    assert in_force(operator, node) == [made]
    assert operator.api.get("/v1/holds").json["holds"] == [made]
    assert operator.api.get(f"/v1/holds?kind=freeze&node={node}").json["holds"] == []
    shown = operator.api.get("/v1/nodes?held=true").json["nodes"]
    assert [one["uuid"] for one in shown] == [node]
    assert operator.api.get("/v1/nodes?held=false").json["nodes"] == []
    assert operator.api.get("/v1/holds?fields=uuid,reason").json["holds"] == [
        {"uuid": made["uuid"], "reason": "case 7"}
    ]


def test_ended_hold_stays_readable(operator: Operator) -> None:
    node = operator.enroll("manageable")
    first, second = hold(operator, node, "verbs"), hold(operator, node, "use")
    assert "is held" in operator.refused(node, "inspect", 409)
    end(operator, node, first, "?reason=open+again")
    assert operator.provision(node, "inspect")["provision_state"] == "manageable"
    assert [one["uuid"] for one in in_force(operator, node)] == [second["uuid"]]
    ended = in_force(operator, node, "?ended=true")[0]
    assert (ended["uuid"], ended["end_reason"]) == (first["uuid"], "open again")
    assert ended["ended_at"] is not None
    end(operator, node, first, "?reason=twice")
    assert in_force(operator, node, "?ended=true")[0] == ended


def test_hold_ends_with_its_time(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    node = operator.enroll("manageable")
    made = hold(operator, node, kind="freeze", until="2037-01-31T00:00:00Z")
    assert "until 2037-01-31 00:00:00 UTC" in operator.refused(node, "inspect", 409)
    after = datetime.datetime(2037, 1, 31)
    monkeypatch.setattr(clock, "now", lambda: after)
    assert in_force(operator, node) == []
    (ended,) = in_force(operator, node, "?ended=true")
    assert (ended["ended_at"], ended["ended_by"]) == (made["until"], None)
    assert operator.api.post(f"/v1/nodes/{node}/plan", {"target": "inspect"}).status == 200
    end(operator, node, made)
    assert in_force(operator, node, "?ended=true") == [ended]


@pytest.mark.feature("events")
def test_begin_and_end_are_entries_of_history(operator: Operator) -> None:
    node = operator.enroll("manageable")
    made = hold(operator, node, kind="hardware", reason="fan 3", until="2037-01-31T00:00:00Z")
    end(operator, node, made, "?reason=replaced")
    told = [
        (one["event_type"], one["event"], one["state"])
        for one in operator.api.get(f"/v1/nodes/{node}/history/?detail=true").json["history"]
        if one["event_type"] == "hold"
    ]
    assert told == [
        ("hold", "A hold (hardware) blocks use until 2037-01-31T00:00:00: fan 3", "manageable"),
        ("hold", "A hold (hardware) was ended: replaced", "manageable"),
    ]
    path = f"/v1/events?node={node}&kind=hold_added,hold_ended"
    found = operator.api.get(path).json["events"]
    assert [(one["kind"], one["event"]) for one in found] == [
        ("hold_added", "hardware"),
        ("hold_ended", "hardware"),
    ]
    assert found[0]["data"]["hold"] == made["uuid"]


def test_locked_node_can_be_held(operator: Operator) -> None:
    node = operator.enroll("manageable")
    with operator.rig.tasks.lock(operator.rig.who, node):
        end(operator, node, hold(operator, node, "verbs"))


BAD: dict[str, tuple[Json | list[int], str]] = {
    "no kind": ({"reason": "x", "blocks": ["use"]}, "kind"),
    "no reason": ({"kind": "legal"}, "reason"),
    "blank reason": ({"kind": "legal", "reason": "  "}, "reason"),
    "long reason": ({"kind": "legal", "reason": "x" * 256}, "reason"),
    "bad kind": ({"kind": "Legal", "reason": "x"}, "kind"),
    "kind with a line end": ({"kind": "legal\n", "reason": "x"}, "kind"),
    "long kind": ({"kind": "x" * 33, "reason": "x", "blocks": ["use"]}, "kind"),
    "no blocks": ({"kind": "audit", "reason": "x"}, "blocks"),
    "empty blocks": ({"kind": "audit", "reason": "x", "blocks": []}, "blocks"),
    "bad block": ({"kind": "audit", "reason": "x", "blocks": ["all"]}, "blocks"),
    "other blocks": ({"kind": "legal", "reason": "x", "blocks": ["use"]}, "blocks"),
    "past": ({"kind": "legal", "reason": "x", "until": "2020-01-01T00:00:00Z"}, "until"),
    "no time": ({"kind": "legal", "reason": "x", "until": "tomorrow"}, "until"),
    "too late": ({"kind": "legal", "reason": "x", "until": "9999-12-31T23:59:59-10:00"}, "until"),
    "other key": ({"kind": "legal", "reason": "x", "by": "ann"}, "by"),
    "no object": ([1], ""),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_hold_is_refused_by_its_path(operator: Operator, fault: str) -> None:
    node = operator.enroll("enroll")
    body, path = BAD[fault]
    answer = operator.api.post(f"/v1/nodes/{node}/holds", body)
    assert (answer.status, path in answer.text) == (400, True), answer.text
    assert in_force(operator, node, "?ended=true") == []


def test_node_has_twenty_holds_at_most(operator: Operator) -> None:
    node = operator.enroll("enroll")
    for _ in range(holds.MOST):
        hold(operator, node, "use")
    answer = operator.api.post(f"/v1/nodes/{node}/holds", {"kind": "legal", "reason": "one more"})
    assert (answer.status, "20 holds in force" in answer.text) == (409, True)
    assert "Retry-After" not in answer.headers


def test_unknown_hold_and_node_are_not_found(operator: Operator) -> None:
    node, other = operator.enroll("enroll"), operator.enroll("enroll")
    held = hold(operator, node, "use")
    for path in (
        f"/v1/nodes/{other}/holds/{held['uuid']}",
        f"/v1/nodes/{node}/holds/{other}",
        f"/v1/nodes/{node}/holds/legal",
        f"/v1/nodes/no-such/holds/{held['uuid']}",
    ):
        assert operator.api.delete(path).status == 404, path
    body = {"kind": "legal", "reason": "x"}
    assert operator.api.post("/v1/nodes/no-such/holds", body).status == 404
    assert operator.api.get("/v1/nodes/no-such/holds").status == 404
    assert operator.api.get("/v1/holds?node=no-such").status == 404
    assert in_force(operator, node) == [held]


# -- cost ------------------------------------------------------------------------------------


def test_free_node_costs_no_statement_of_its_own(operator: Operator) -> None:
    node = operator.enroll("manageable")
    path = f"/v1/nodes/{node}/states/provision"
    sent = operator.whole.sent(lambda api: api.put(path, {"target": "inspect"}), 202)
    about = [one for one in sent if "FROM holds" in one]
    assert len(about) == 2, about  # of the API and the conductor, which read the node
    assert all("FROM nodes" in one for one in about)
    sent = operator.whole.sent(lambda api: api.get(f"/v1/nodes/{node}"))
    assert not any("holds" in one for one in sent)


def test_power_sweep_reads_no_holds_of_nodes_as_they_should_be(operator: Operator) -> None:
    operator.enroll("active")

    def sweep(api: Client) -> Response:
        operator.sweep()
        return api.get("/v1/nodes")

    sent = operator.whole.sent(sweep)
    assert not any("holds" in one for one in sent if "FROM nodes" not in one)
