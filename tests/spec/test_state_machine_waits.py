"""S5, the state machine: nodes that wait, and how that ends: by abort, time-out, or well."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.core import clock
from tests.support.conductor_fixture import listed
from tests.support.operator import Json, Operator

HOUR: Json = {
    "fake_step_seconds": 3600,
    "fake_async_steps": ["*"],
    "fake_async_verbs": ["inspect", "rescue"],
}
RAID = {
    "interface": "raid",
    "step": "apply_configuration",
    "args": {"raid_config": {"logical_disks": [{"size_gb": 1, "raid_level": "0"}]}},
}
HOLD = {"interface": "power", "step": "hold"}
PASSWORD = {"rescue_password": "open sesame"}


def begun(operator: Operator, start: str, verb: str, **body: Any) -> tuple[str, Json]:
    """Return a node, and what it shows, on which a verb has begun that takes an hour."""
    node = operator.enroll(start)
    assert operator.patches(node, driver_info=HOUR).status == 200
    return node, operator.provision(node, verb, **body)


# -- abort -----------------------------------------------------------------------------------

# What an abort can cut off at once: from where, the verb and its body, where it waits, its end.
AT_ONCE: dict[str, tuple[str, str, Json, str, str]] = {
    "clean": (
        *("manageable", "clean", {"clean_steps": listed("deploy.erase_devices")}),
        *("clean wait", "clean failed"),
    ),
    "automated clean": ("manageable", "provide", {}, "clean wait", "clean failed"),
    "held clean": (
        *("manageable", "clean", {"clean_steps": [HOLD]}),
        *("clean hold", "clean failed"),
    ),
    "deployment": ("available", "active", {}, "wait call-back", "deploy failed"),
    "held deployment": (
        *("available", "active", {"deploy_steps": [{**HOLD, "args": {}, "priority": 999}]}),
        *("deploy hold", "deploy failed"),
    ),
    "inspection": ("manageable", "inspect", {}, "inspect wait", "inspect failed"),
    "rescue": ("active", "rescue", PASSWORD, "rescue wait", "rescue failed"),
    "held service": ("active", "service", {"service_steps": [HOLD]}, "service hold", "active"),
}


@pytest.mark.parametrize("what", AT_ONCE)
def test_s5_16_abortable_step_ends_at_once_without_a_fault(operator: Operator, what: str) -> None:
    start, verb, body, waits, end = AT_ONCE[what]
    node, shown = begun(operator, start, verb, **body)
    assert shown["provision_state"] == waits
    shown = operator.provision(node, "abort")
    assert (shown["provision_state"], shown["reservation"]) == (end, None)
    assert shown["last_error"].startswith("By request, ")
    assert (shown["maintenance"], shown["fault"]) == (False, None)
    run = operator.rig.run(node)
    assert (run["state"], run["error"]["code"]) == ("aborted", "Aborted")
    assert operator.rig.get(node)["wake_at"] is None


LATER: dict[str, tuple[str, str, Json, str, str]] = {
    "clean": (
        *("manageable", "clean", {"clean_steps": listed("bios.factory_reset", "power.cycle")}),
        *("clean_step", "clean failed"),
    ),
    "deploy": (
        *("available", "active", {"deploy_steps": [{**RAID, "priority": 500}]}),
        *("deploy_step", "deploy failed"),
    ),
    "service": (
        *("active", "service", {"service_steps": [RAID, *listed("vendor.log_passthrough")]}),
        *("service_step", "active"),
    ),
}


@pytest.mark.parametrize("kind", LATER)
def test_s5_16_a_step_that_must_not_be_cut_off_ends_first(operator: Operator, kind: str) -> None:
    start, verb, body, column, end = LATER[kind]
    node, before = begun(operator, start, verb, **body)
    shown = operator.provision(node, "abort")
    assert shown["provision_state"] == before["provision_state"]
    assert shown[column] == {**before[column], "abort_after": True}
    assert shown["last_error"] is None
    operator.rig.ring(node)
    operator.rig.reaches(node, end)
    assert "By request" in operator.shows(node)["last_error"]
    states = operator.rig.step_states(node)
    assert states[0] == "done"
    assert not {"running", "waiting", "done"} & set(states[1:])


# -- time-outs -------------------------------------------------------------------------------

# The verb that waits: from where, its body, where it waits and ends, its option, the fault.
LATE: dict[str, tuple[str, Json, str, str, str, str | None]] = {
    "clean": (
        *("manageable", {"clean_steps": listed("deploy.erase_devices")}),
        *("clean wait", "clean failed", "clean_callback_timeout", "clean failure"),
    ),
    "provide": (
        *("manageable", {}),
        *("clean wait", "clean failed", "clean_callback_timeout", "clean failure"),
    ),
    "active": (
        *("available", {}, "wait call-back", "deploy failed", "deploy_callback_timeout", None),
    ),
    "inspect": (
        *("manageable", {}, "inspect wait", "inspect failed", "inspect_wait_timeout", None),
    ),
    "rescue": (
        *("active", PASSWORD, "rescue wait", "rescue failed", "rescue_callback_timeout", None),
    ),
    "service": (
        *("active", {"service_steps": listed("vendor.log_passthrough")}),
        *("service wait", "service failed", "service_callback_timeout", "service failure"),
    ),
}


def wait_on(operator: Operator, node: str, seconds: int) -> None:
    """Let a wait have lasted so long, and the conductor look."""
    past = clock.after(-seconds)
    operator.rig.edit(node, provision_updated_at=past, wake_at=past)
    operator.sweep()


@pytest.mark.parametrize("verb", LATE)
def test_s5_18_a_wait_that_lasts_too_long_fails(serve: Any, verb: str) -> None:
    start, body, waits, end, option, fault = LATE[verb]
    operator = serve(**{f"conductor__{option}": 900})
    node, shown = begun(operator, start, verb, **body)
    assert shown["provision_state"] == waits
    operator.rig.edit(node, provision_updated_at=clock.after(-800))
    operator.sweep()
    assert operator.shows(node)["provision_state"] == waits
    target = shown["target_provision_state"]
    wait_on(operator, node, 1000)
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["target_provision_state"]) == (end, target)
    assert "Timeout reached while" in shown["last_error"]
    assert (shown["maintenance"], shown["fault"]) == (fault is not None, fault)
    assert operator.rig.run(node)["error"]["code"] == "TimedOut"


def test_s5_18_a_clean_tried_again_may_not_wait_for_ever_either(operator: Operator) -> None:
    """The first failure has set maintenance, which only stops the clock if a person did it."""
    node, _ = begun(operator, "manageable", "provide")
    wait_on(operator, node, 100_000)
    shown = operator.provision(node, "provide")
    assert (shown["provision_state"], shown["fault"]) == ("clean wait", "clean failure")
    wait_on(operator, node, 100_000)
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["maintenance"]) == ("clean failed", True)
    assert [run["state"] for run in operator.rig.runs(node)[-2:]] == ["failed", "failed"]


# -- the password of a rescue ----------------------------------------------------------------


def hidden(operator: Operator, node: str) -> None:
    """Show that nobody can read the password that was given for a rescue."""
    for path in (f"/v1/nodes/{node}", "/v1/nodes/detail", f"/v1/nodes/{node}?fields=instance_info"):
        assert b"sesame" not in operator.api.get(path).body
    shown = operator.shows(node)["instance_info"]
    assert "hashed_rescue_password" in shown
    assert set(shown.values()) == {"******"}
    told = [operator.rig.events(node), operator.rig.runs(node)]
    assert "sesame" not in str(told)


def forgotten(operator: Operator, node: str) -> None:
    """Show that it is not kept any more."""
    assert operator.rig.get(node)["instance_info"] == {}
    assert "sesame" not in str(operator.rig.get(node))


def test_s5_13_the_password_of_a_rescue_is_shown_to_nobody(operator: Operator) -> None:
    node = operator.enroll("active")
    operator.provision(node, "rescue", **PASSWORD)
    hidden(operator, node)


def test_s5_13_a_rescue_needs_a_password_and_another_verb_takes_none(operator: Operator) -> None:
    node = operator.enroll("active")
    for body in ({}, {"rescue_password": ""}, {"rescue_password": " "}, {"rescue_password": 7}):
        said = operator.refused(node, "rescue", 400, **body)
        assert "rescue_password" in said
    operator.refused(node, "rebuild", 400, **PASSWORD)


@pytest.mark.parametrize("end", ["unrescue", "deleted", "abort", "late", "rescue again"])
def test_s5_14_rescue_password_is_removed_when_the_rescue_ends(
    operator: Operator, end: str
) -> None:
    waits = end in ("abort", "late")
    node = operator.enroll("active")
    if waits:
        assert operator.patches(node, driver_info=HOUR).status == 200
    operator.provision(node, "rescue", **PASSWORD)
    hidden(operator, node)
    if end == "late":
        wait_on(operator, node, 100_000)
    elif end == "rescue again":
        operator.provision(node, "rescue", rescue_password="another")
        assert "sesame" not in str(operator.rig.get(node))
        return
    else:
        operator.provision(node, end)
    forgotten(operator, node)


def test_s5_14_rescue_password_is_removed_when_the_rescue_fails(operator: Operator) -> None:
    node = operator.enroll("active")
    operator.patches(node, driver_info={"fake_fail_verbs": {"rescue": "no boot"}})
    shown = operator.provision(node, "rescue", **PASSWORD)
    assert shown["provision_state"] == "rescue failed"
    assert "no boot" in shown["last_error"]
    forgotten(operator, node)
