"""A machine whose ramdisk cannot be booted stays as it is; the caller hears what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.emulators import bmc
from tests.support.redfish_service import RedfishOperator

STEPS = [{"interface": "deploy", "step": "erase_devices_metadata"}]
VERBS: dict[str, tuple[str, dict[str, Any], str]] = {
    "provide": ("manageable", {}, "cleaning"),
    "clean": ("manageable", {"clean_steps": STEPS}, "cleaning"),
    "service": ("active", {"service_steps": STEPS}, "servicing"),
}
BOOTS = ("ipxe", "pxe", "redfish-virtual-media")
DEPLOYS = ("direct", "custom-agent")


def node_at(operator: RedfishOperator, machine: bmc.Machine, state: str, **fields: Any) -> str:
    """Add a node of the machine that has neither kernel nor ramdisk."""
    interfaces = {"boot_interface": "ipxe", "deploy_interface": "direct", **fields}
    info = machine.driver_info
    return operator.rig.node(state, driver="redfish", driver_info=info, **interfaces)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("deploy", DEPLOYS)
@pytest.mark.parametrize("boot", BOOTS)
def test_missing_parameter_is_named_and_the_machine_is_not_touched(
    operator: RedfishOperator, machine: bmc.Machine, boot: str, deploy: str, verb: str
) -> None:
    state, body, action = VERBS[verb]
    interfaces = {"boot_interface": boot, "deploy_interface": deploy}
    node = node_at(operator, machine, state, **interfaces)
    before = operator.shows(node)
    answer = operator.asks(node, verb, **body)
    assert answer.status == 400, answer.text
    for word in ("boot driver interface for " + action, "driver_info/deploy_kernel", "[conductor]"):
        assert word in answer.text
    assert operator.shows(node) == before
    assert machine.sent == []


def test_a_deployment_is_refused_likewise(operator: RedfishOperator, machine: bmc.Machine) -> None:
    for deploy in DEPLOYS:
        node = node_at(operator, machine, "available", deploy_interface=deploy)
        answer = operator.asks(node, "active")
        assert answer.status == 400, answer.text
        assert "driver_info/deploy_kernel" in answer.text
        operator.rig.edit(node, provision_state="enroll")
    assert machine.sent == []


def test_without_a_ramdisk_nothing_is_missing(
    serve: Callable[..., RedfishOperator], machine: bmc.Machine
) -> None:
    operator = serve(conductor__automated_clean_enable=False)
    node = node_at(operator, machine, "manageable")
    steps = [{"interface": "management", "step": "reset_bmc"}]
    answer = operator.asks(node, "clean", clean_steps=steps, disable_ramdisk=True)
    assert answer.status == 202, answer.text
    operator.rig.reaches(node, "manageable")
    assert operator.shows(node)["last_error"] is None
    assert operator.provision(node, "provide")["provision_state"] == "available"


def test_cleaning_after_an_instance_fails_before_it_boots_anything(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = node_at(operator, machine, "active")
    assert operator.asks(node, "deleted").status == 202
    operator.rig.reaches(node, "clean failed")
    assert "driver_info/deploy_kernel" in operator.shows(node)["last_error"]
    assert "On" not in machine.sent
