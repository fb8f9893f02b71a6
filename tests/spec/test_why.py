"""GET /v1/nodes/{node}/why: what it explains, and that its verbs are those that a PUT accepts."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.queries import events as db_events
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.domain import fields, states, verbs
from ironic_lite.domain.states import State
from ironic_lite.features.why import rules
from tests.support.conductor_fixture import ConductorFixture, listed
from tests.support.operator import Json, Operator

pytestmark = pytest.mark.feature("why")

Serve = Callable[..., Operator]

BODIES: dict[str, Json] = {
    "clean": {"clean_steps": listed("deploy.erase_devices")},
    "service": {"service_steps": listed("vendor.log_passthrough")},
    "rescue": {"rescue_password": "sesame"},
}
RESCUED = {"rescue_interface": "fake"}
REMOVE_FAULT = [{"op": "remove", "path": "/driver_info/fake_fail_steps"}]


def why(operator: Operator, node: str) -> Json:
    """Return the explanation, which is small."""
    answer = operator.api.get(f"/v1/nodes/{node}/why")
    assert answer.status == 200, answer.text
    assert len(answer.body) <= rules.MOST_BYTES
    assert answer.json["says"]
    return dict(answer.json)


def parked(rig: ConductorFixture, state: State, **values: Any) -> str:
    """Add a node that is in ``state``."""
    target = states.STATES[state].target
    return rig.node(str(state), target_provision_state=str(target) if target else None, **values)


def hold(rig: ConductorFixture, node: str) -> None:
    """Lock a node as the power sync of a conductor called ``there``."""
    until, note = clock.after(3600), "conductor:power sync"
    rig.database.write(
        lambda conn: nodes.lock(
            conn, node, host="there", token="of there", expires=until, note=note
        )
    )


def hold_back(operator: Operator, node: str, *blocks: str) -> Json:
    """Add a hold with these blocks to a node."""
    body = {"kind": "audit", "reason": "case 7", "blocks": list(blocks)}
    answer = operator.api.post(f"/v1/nodes/{node}/holds", body)
    assert answer.status == 201, answer.text
    return dict(answer.json)


# -- why is the same as PUT ------------------------------------------------------------------


def compare(operator: Operator, make: Callable[[], str]) -> set[str]:
    """Send each verb to a node, compare with the explanation; return the codes.

    A refused verb changes nothing, so its node serves the next verb with the same explanation.

    :param make: makes one more node of the same kind.
    """
    codes = set()
    node, explained = "", dict[str, Json]()
    for verb in verbs.TABLE:
        if not node:
            node = make()
            explained = {one["target"]: one for one in why(operator, node)["verbs"]}
        told = explained.get(verb.target)
        answer = operator.asks(node, verb.target, **BODIES.get(verb.target, {}))
        if told is None:
            synonym = any(verbs.BY_TARGET[name].event == verb.event for name in explained)
            assert synonym or answer.status in (400, 409), (verb.target, answer.text)
        elif told["refused"] is None:
            assert answer.status == 202, (verb.target, answer.text)
        else:
            assert told["refused"]["text"] == answer.text, verb.target
            status = int(getattr(errors, told["refused"]["code"]).status)
            assert status == answer.status, verb.target
            codes.add(told["refused"]["code"])
        if answer.status == 202:
            node = ""
        assert operator.rig.service.runtime.workers.wait_idle(60)
    return codes


FLAGS: dict[str, tuple[Json, set[str]]] = {
    "plain": ({}, {"NothingToRetry"}),
    "maintenance": ({"maintenance": True}, {"NodeInMaintenance", "Conflict"}),
    "protected": ({"protected": True}, {"NodeProtected", "NothingToRetry"}),
    "retired": ({"retired": True}, {"NodeRetired", "NothingToRetry"}),
    "all": (
        {"maintenance": True, "protected": True, "retired": True},
        {"NodeInMaintenance", "NodeProtected", "NodeRetired", "Conflict"},
    ),
    "erase held": ({"protected": True}, {"NodeHeld"}),
    "use held": ({}, {"NodeHeld", "NothingToRetry"}),
    "verbs held": ({"retired": True}, {"NodeHeld", "NodeRetired"}),
    "verbs held in maintenance": (
        {"maintenance": True},
        {"NodeHeld", "NodeInMaintenance", "Conflict"},
    ),
    "locked": ({}, {"NodeLocked"}),
    "locked in maintenance": ({"maintenance": True}, {"NodeLocked", "NodeInMaintenance"}),
}


@pytest.mark.parametrize("flags", FLAGS)
def test_verbs_are_refused_as_by_a_put(serve: Serve, flags: str) -> None:
    operator = serve(
        conductor__node_locked_retry_attempts=1,
        conductor__max_concurrent_clean=10_000,
        conductor__max_concurrent_deploy=10_000,
    )
    values, expected = FLAGS[flags]
    found: set[str] = set()
    for state in State:

        def make(state: State = state) -> str:
            node = parked(operator.rig, state, **values)
            if flags.startswith("locked"):
                hold(operator.rig, node)
            if "held" in flags:
                hold_back(operator, node, flags.partition(" ")[0])
            return node

        found |= compare(operator, make)
    assert found == expected


def test_cleaning_in_maintenance_is_refused_as_by_a_put(serve: Serve) -> None:
    operator = serve(conductor__allow_provisioning_in_maintenance=False)
    make = functools.partial(parked, operator.rig, State.MANAGEABLE, maintenance=True)
    assert compare(operator, make) == {"NodeInMaintenance"}
    (told,) = (one for one in why(operator, make())["verbs"] if one["target"] == "provide")
    assert told["refused"]["code"] == "NodeInMaintenance"


def test_required_proof_is_explained_and_refused_as_by_a_put(serve: Serve) -> None:
    operator = serve(conductor__require_clean_data=True)
    skips = functools.partial(parked, operator.rig, State.CLEANFAIL)
    assert compare(operator, skips) == {"Conflict", "NothingToRetry"}
    told = why(operator, skips())
    assert told["data_state"] == "unknown"
    assert "(data_state is unknown), so the verb available is refused" in told["says"]
    clean = skips(data_state="clean")
    assert compare(operator, lambda: skips(data_state="clean")) == {"NothingToRetry"}
    assert "data_state" not in why(operator, clean)["says"]
    passed_by = parked(operator.rig, State.AVAILABLE, data_state="dirty")
    assert "so allocations pass it by" in why(operator, passed_by)["says"]


def test_clean_without_a_proof_is_explained_once(serve: Serve) -> None:
    operator = serve(conductor__require_clean_data=True)
    node = operator.enroll("manageable")
    assert "only by a clean that proves their erasure" in why(operator, node)["says"]
    operator.asks(node, "provide")
    operator.rig.settled(node)
    told = why(operator, node)
    assert told["failure"]["code"] == "DataNotProven"
    assert told["says"].count("data_state is unknown") == 1


def test_data_state_is_shown_without_being_required(operator: Operator) -> None:
    told = why(operator, parked(operator.rig, State.CLEANFAIL, data_state="dirty"))
    assert told["data_state"] == "dirty"
    assert "data_state" not in told["says"]


@pytest.mark.parametrize("state", State)
def test_verbs_lead_to_the_state_at_their_end(operator: Operator, state: State) -> None:
    node = parked(operator.rig, state)
    for told in why(operator, node)["verbs"]:
        assert states.kind(State(told["leads_to"])) in (states.Kind.STABLE, states.Kind.FAIL)
    retired = parked(operator.rig, State.ACTIVE, retired=True)
    (told,) = (one for one in why(operator, retired)["verbs"] if one["target"] == "deleted")
    assert told["leads_to"] == "manageable"


# -- failures of the fake driver -------------------------------------------------------------

Steps = tuple[str, ...]
FAULTS: dict[str, tuple[str, Json, Steps, str, str, str | None]] = {
    # name: state to begin in, driver_info, verbs, state at the end, code, step
    "power": ("enroll", {"fake_fail_power": "no link"}, ("manage",), "enroll", "", None),
    "verify": (
        "enroll",
        {"fake_fail_verbs": {"verify": "no key"}},
        ("manage",),
        "enroll",
        "",
        None,
    ),
    "inspect": (
        "manageable",
        {"fake_fail_verbs": {"inspect": "no answer"}},
        ("inspect",),
        "inspect failed",
        "",
        None,
    ),
    "adopt": (
        "manageable",
        {"fake_fail_verbs": {"adopt": "no"}},
        ("adopt",),
        "adopt failed",
        "",
        None,
    ),
    "clean": (
        "manageable",
        {"fake_fail_steps": {"deploy.erase_devices": "disk 3"}},
        ("provide",),
        "clean failed",
        "CleanStepFailed",
        "deploy.erase_devices",
    ),
    "manual clean": (
        "manageable",
        {"fake_fail_steps": {"deploy.erase_devices": "disk 3"}},
        ("clean",),
        "clean failed",
        "CleanStepFailed",
        "deploy.erase_devices",
    ),
    "deploy": (
        "available",
        {"fake_fail_steps": {"deploy.deploy": "no image"}},
        ("active",),
        "deploy failed",
        "DeployStepFailed",
        "deploy.deploy",
    ),
    "service": (
        "active",
        {"fake_fail_steps": {"vendor.log_passthrough": "no log"}},
        ("service",),
        "service failed",
        "StepFailed",
        "vendor.log_passthrough",
    ),
    "delete": ("active", {"fake_fail_verbs": {"delete": "stuck"}}, ("deleted",), "error", "", None),
    "rescue": (
        "active",
        {"fake_fail_verbs": {"rescue": "no media"}},
        ("rescue",),
        "rescue failed",
        "",
        None,
    ),
    "unrescue": (
        "active",
        {"fake_fail_verbs": {"unrescue": "no media"}},
        ("rescue", "unrescue"),
        "unrescue failed",
        "",
        None,
    ),
}


def fail(operator: Operator, fault: str) -> str:
    """Return a node that stands in this fault."""
    begin, info, targets, end, _code, _step = FAULTS[fault]
    node = operator.enroll(begin, **(RESCUED if "rescue" in targets else {}))
    for name, value in info.items():
        assert operator.patches(node, **{f"driver_info__{name}": value}).status == 200
    for target in targets:
        assert operator.asks(node, target, **BODIES.get(target, {})).status == 202
        operator.rig.settled(node)
    assert operator.rig.get(node)["provision_state"] == end
    return node


@pytest.mark.parametrize("fault", FAULTS)
def test_failure_has_its_cause_and_verbs_that_a_put_accepts(serve: Serve, fault: str) -> None:
    operator = serve(DEFAULT__enabled_rescue_interfaces=["no-rescue", "fake"])
    _begin, info, targets, end, code, step = FAULTS[fault]
    node = fail(operator, fault)
    told = why(operator, node)
    failure, run = told["failure"], operator.rig.run(node)
    assert (told["run"]["uuid"], told["run"]["verb"]) == (run["uuid"], targets[-1])
    assert failure["text"] == operator.shows(node)["last_error"]
    assert failure["code"] == (code or run["error"]["code"])
    assert failure["cause"] == run["error"]["cause"]
    message = next(iter(info.values()))
    message = message if isinstance(message, str) else next(iter(message.values()))
    assert message in failure["cause"]["text"]
    assert message in told["says"]
    if step:
        assert (failure["step"], failure["attempt"]) == (step, 1)
        assert f"failed at {step}, just now: {message}" in told["says"]
    (log,) = (one for one in failure["evidence"] if one["kind"] == "log")
    assert operator.api.get(log["href"]).status == 200
    assert any(one["refused"] is None for one in told["verbs"]) or end == "error"
    compare(operator, lambda: fail(operator, fault))


LEFT = {
    "inspect": ("manage", "manageable"),
    "adopt": ("manage", "manageable"),
    "clean": ("manage", "manageable"),
    "manual clean": ("manage", "manageable"),
}
"""Verbs that leave the state of a failure without a run of steps, and the state after them."""


@pytest.mark.parametrize("fault", LEFT)
def test_failed_run_is_told_after_a_verb_that_leaves_its_state(
    operator: Operator, fault: str
) -> None:
    begin, _info, targets, _end, code, step = FAULTS[fault]
    node = fail(operator, fault)
    before = why(operator, node)
    target, state = LEFT[fault]
    assert operator.provision(node, target)["provision_state"] == state, begin
    why(operator, node)  # reads the methods of the interfaces, which are kept for a minute
    sent = operator.whole.sent(lambda api: api.get(f"/v1/nodes/{node}/why"))
    assert len(sent) <= 4, sent
    told = why(operator, node)
    same = ("code", "step", "at", "retryable", "text", "cause")
    assert {key: told["failure"][key] for key in same} == {
        key: before["failure"][key] for key in same
    }
    assert code in ("", told["failure"]["code"])
    assert step in (None, told["failure"]["step"])
    assert "outside of a run" not in told["says"]
    (log,) = (one for one in told["failure"]["evidence"] if one["kind"] == "log")
    assert operator.api.get(log["href"]).status == 200
    assert told["run"]["verb"] == "manage"
    assert f"An earlier {targets[-1]} failed" in told["says"]


def test_many_power_changes_do_not_hide_an_earlier_failure(operator: Operator) -> None:
    node = fail(operator, "clean")
    operator.provision(node, "manage")
    row = {"node_uuid": node, "at": clock.now(), "kind": "power", "event": "changed"}
    operator.rig.database.write(lambda conn: db_events.add(conn, [row] * 20))
    assert "An earlier provide failed" in why(operator, node)["says"]


def test_retry_is_offered_and_continues_the_run(operator: Operator) -> None:
    node = fail(operator, "clean")
    retry = next(one for one in why(operator, node)["verbs"] if one["target"] == "retry")
    assert (retry["refused"], retry["leads_to"]) == (None, "available")
    assert operator.api.patch(f"/v1/nodes/{node}", REMOVE_FAULT).status == 200
    assert operator.provision(node, "retry")["provision_state"] == "available"
    assert why(operator, node)["failure"] is None


def test_power_failure_is_explained_by_the_sweep(serve: Serve) -> None:
    operator = serve(conductor__power_failure_recovery_interval=300)
    node = operator.enroll("manageable")
    operator.patches(node, driver_info__fake_fail_power="no link to the BMC")
    for _ in range(10):
        operator.sweep()
    told = why(operator, node)
    assert told["maintenance"]["fault"] == "power failure"
    assert told["failure"]["code"] == "HardwareError"
    assert told["failure"]["cause"]["text"] == "no link to the BMC"
    assert told["failure"]["at"] is not None
    assert "no link to the BMC" in told["says"]
    assert "It is in maintenance because of the fault power failure." in told["says"]


# -- waits, holds, locks ---------------------------------------------------------------------


def waiting_node(operator: Operator, *steps: str, **info: Any) -> str:
    """Return a node that waits in a manual clean."""
    node = operator.enroll("manageable")
    for name, value in info.items():
        assert operator.patches(node, **{f"driver_info__{name}": value}).status == 200
    operator.clean(node, *steps)
    return node


def test_polled_step_waits_for_the_machine(operator: Operator) -> None:
    node = waiting_node(
        operator,
        *("bios.factory_reset", "deploy.erase_devices"),
        fake_async_steps=["bios.factory_reset"],
        fake_step_seconds=300,
    )
    told = why(operator, node)
    assert (told["provision_state"], told["kind"]) == ("clean wait", "wait")
    wait = told["waits_for"]
    assert (wait["what"], wait["limit"]) == ("machine", "[conductor]clean_callback_timeout")
    assert wait["wakes_at"] > told["since"]
    assert wait["given_up_at"] > wait["wakes_at"]
    assert (told["run"]["step"], told["run"]["of"], told["run"]["title"]) == (
        1,
        2,
        "bios.factory_reset",
    )
    assert "at step 1 of 2, bios.factory_reset" in told["says"]
    assert told["failure"] is None


def _execute(change: sa.Update, conn: sa.Connection) -> None:
    conn.execute(change)


def test_deadline_of_the_step_ends_the_wait_at_the_time_that_was_given(serve: Serve) -> None:
    operator = serve(conductor__step_deadline=[{"bios.factory_reset": 600}])
    info = {"fake_async_steps": ["bios.factory_reset"], "fake_step_seconds": 3000}
    node = waiting_node(operator, "bios.factory_reset", **info)
    told = why(operator, node)
    wait = told["waits_for"]
    assert wait["limit"] == "[conductor]step_deadline"
    assert "At the latest it fails at " in told["says"]
    moment = datetime.datetime.fromisoformat
    assert moment(wait["given_up_at"]) - moment(wait["since"]) == datetime.timedelta(seconds=600)
    for seconds, state in ((590, "clean wait"), (601, "clean failed")):
        change = sa.update(models.run_steps).values(started_at=clock.ago(seconds))
        operator.rig.database.write(functools.partial(_execute, change))
        operator.rig.sweep("overdue steps")
        assert operator.rig.service.runtime.workers.wait_idle(60)
        assert operator.shows(node)["provision_state"] == state


def test_abort_of_a_step_that_must_end_names_the_step(operator: Operator) -> None:
    node = waiting_node(
        operator,
        "deploy.erase_devices",
        fake_async_steps=["deploy.erase_devices"],
        fake_step_seconds=300,
    )
    operator.rig.edit(node, clean_step={**listed("deploy.erase_devices")[0], "abortable": False})
    abort = next(one for one in why(operator, node)["verbs"] if one["target"] == "abort")
    assert (abort["after"], abort["refused"]) == ("deploy.erase_devices", None)
    assert operator.provision(node, "abort")["provision_state"] == "clean wait"
    operator.rig.edit(node, clean_step={**listed("deploy.erase_devices")[0], "abortable": True})
    abort = next(one for one in why(operator, node)["verbs"] if one["target"] == "abort")
    assert (abort["after"], abort["leads_to"]) == (None, "clean failed")


def test_hold_waits_for_the_operator(operator: Operator) -> None:
    node = waiting_node(operator, "deploy.hold", "deploy.erase_devices")
    told = why(operator, node)
    assert (told["kind"], told["waits_for"]["what"]) == ("held", "operator")
    assert "unhold continues it, abort ends it" in told["says"]
    leads = {one["target"]: one["leads_to"] for one in told["verbs"]}
    assert leads == {"abort": "clean failed", "unhold": "manageable"}


def test_sleep_waits_for_its_timer(operator: Operator) -> None:
    node = operator.enroll("manageable")
    step = {"interface": "deploy", "step": "wait", "args": {"seconds": 60}}
    operator.provision(node, "clean", clean_steps=[step])
    told = why(operator, node)
    assert told["waits_for"]["what"] == "timer"
    assert "waits for a timer, which ends at" in told["says"]


def test_lock_names_its_work(operator: Operator) -> None:
    node = operator.enroll("manageable")
    hold(operator.rig, node)
    lock = why(operator, node)["lock"]
    assert (lock["host"], lock["for"], lock["run"]) == ("there", "the power sync", None)
    assert lock["since"] is not None


@pytest.mark.parametrize("looked_up", [False, True])
def test_time_out_has_its_option_and_the_silence_of_the_agent(
    serve: Serve, *, looked_up: bool
) -> None:
    operator = serve(conductor__clean_callback_timeout=1)
    notes = {"agent_secret_token": "t"} if looked_up else {}
    run = parked_in_wait(operator.rig, notes)
    operator.rig.sweep("time-outs")
    assert operator.rig.service.runtime.workers.wait_idle(60)
    told = why(operator, run)
    failure = told["failure"]
    assert (failure["code"], failure["cause"]["code"]) == ("TimedOut", "AgentUnreachable")
    assert failure["cause"]["facts"]["option"] == "[conductor]clean_callback_timeout"
    (lookup,) = (one for one in failure["evidence"] if one["kind"] == "lookup")
    assert ("has looked" in lookup["text"]) is looked_up
    assert ("its ramdisk has looked the node up" in told["says"]) is looked_up
    assert ("no ramdisk has sent a heartbeat" in told["says"]) is not looked_up


def parked_in_wait(rig: ConductorFixture, notes: Json) -> str:
    """Add a node whose run has waited for a ramdisk for a minute."""
    node = rig.node("available", target_provision_state="available")
    with rig.tasks.lock(rig.who, node) as task:
        task.node.provision_state = "manageable"
        task.move("clean", verb="clean", goal=State.MANAGEABLE)
        task.move("wait")
        task.node.driver_internal_info = {**task.node.driver_internal_info, **notes}
        task.node.provision_updated_at = clock.ago(60)
        task.save()
    return node


@pytest.mark.parametrize("fault", ["clean", "power", None])
def test_explanation_costs_four_statements_at_most(operator: Operator, fault: str | None) -> None:
    node = fail(operator, fault) if fault else operator.enroll("active")
    assert operator.rig.service.runtime.workers.wait_idle(60)
    why(operator, node)  # reads the methods of the interfaces, which are kept for a minute
    sent = operator.whole.sent(lambda api: api.get(f"/v1/nodes/{node}/why"))
    assert len(sent) <= 4, sent


def test_holds_are_shown_and_cost_one_statement(operator: Operator) -> None:
    node = operator.enroll("active")
    assert why(operator, node)["holds"] == []
    held = hold_back(operator, node, "erase")
    for _ in range(19):
        hold_back(operator, node, "use", "power")
    told = why(operator, node)
    assert told["holds"][0]["uuid"] == held["uuid"]
    assert (len(told["holds"]), told["holds"][0]["blocks"]) == (20, ["erase"])
    assert "It is held (audit), which blocks erase: case 7. 19 more: see holds." in told["says"]
    sent = operator.whole.sent(lambda api: api.get(f"/v1/nodes/{node}/why"))
    assert len(sent) <= 5, sent


# -- the resource ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.1", "1.60", "latest"])
def test_resource_is_in_every_version(operator: Operator, version: str) -> None:
    node = operator.enroll("manageable", name="rack3-21")
    answer = operator.api.at(version).get(f"/v1/nodes/{node}/why")
    assert (answer.status, answer.json["name"]) == (200, "rack3-21")
    offered = {one["target"] for one in answer.json["verbs"]}
    assert ("clean" in offered) is (version != "1.1")


def test_unknown_node_is_not_found(operator: Operator) -> None:
    assert operator.api.get("/v1/nodes/no-such/why").status == 404


def test_all_columns_of_the_explanation_exist() -> None:
    assert set(rules.COLUMNS) <= set(nodes.COLUMNS)
    assert len(fields.INTERFACE_KINDS) > 1
