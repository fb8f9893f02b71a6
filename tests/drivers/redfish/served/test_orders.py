"""Orders to a Redfish BMC over HTTP: what is done, what is refused at once, what is told later."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.drivers.redfish import management
from tests.emulators import bmc
from tests.support.redfish_faults import BAD_POWER, USERS, repair
from tests.support.redfish_service import RedfishOperator

ISO = "http://images.example.org/boot.iso"


def put(operator: RedfishOperator, node: str, place: str, **body: Any) -> Any:
    return operator.api.put(f"/v1/nodes/{node}/{place}", body)


def test_boot_mode_and_secure_boot_are_switched_and_shown(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = operator.at(machine)
    for place, target in (("boot_mode", "bios"), ("boot_mode", "uefi"), ("secure_boot", True)):
        assert put(operator, node, f"states/{place}", target=target).status == 202
        operator.rig.settled(node)
        shown = operator.shows(node)
        assert (shown[place], shown["last_error"]) == (target, None)
    assert machine["SecureBoot"]["SecureBootEnable"] is True


def test_boot_mode_is_read_again_after_the_boot_that_merges_a_pending_change(
    operator: RedfishOperator, machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine has an instance, so its operator restarts it."""
    monkeypatch.setattr(management, "LOOK_PAUSE", 0.01)
    node = operator.at(machine, "active")
    operator.patches(node, boot_mode="uefi")
    operator.powers(node, "power on")
    machine.defer_boot()
    assert put(operator, node, "states/boot_mode", target="bios").status == 202
    operator.rig.settled(node)
    shown = operator.shows(node)
    assert (shown["boot_mode"], "reboot it" in shown["last_error"]) == ("uefi", True)
    operator.sweeps("power sync")
    assert operator.shows(node)["boot_mode"] == "uefi"
    operator.powers(node, "rebooting")
    operator.sweeps("power sync")
    assert (operator.shows(node)["boot_mode"], operator.shows(node)["reservation"]) == (
        "bios",
        None,
    )


def test_refusal_of_the_bmc_is_in_last_error(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = operator.at(machine)
    said = {"error": {"message": "The keys are locked."}}
    machine.tricks["PATCH */SecureBoot"] = bmc.says(400, said)
    assert put(operator, node, "states/secure_boot", target=True).status == 202
    operator.rig.settled(node)
    shown = operator.shows(node)
    assert "Failed to switch secure boot on: The BMC at" in shown["last_error"]
    assert "(The keys are locked)" in shown["last_error"]
    assert (shown["secure_boot"], shown["reservation"]) == (False, None)


def test_an_interrupt_is_given_or_refused_at_once(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = operator.at(machine)
    assert put(operator, node, "management/inject_nmi").status == 204
    assert machine.nmis == 1
    resets = machine.tree[machine.system]["Actions"]["#ComputerSystem.Reset"]
    resets["ResetType@Redfish.AllowableValues"].remove("Nmi")
    answer = put(operator, node, "management/inject_nmi")
    assert answer.status == 400
    assert "inject_nmi on this BMC: it offers no reset of type Nmi" in answer.text


def test_lamps_are_listed_and_switched(operator: RedfishOperator, machine: bmc.Machine) -> None:
    node = operator.at(machine)
    found = operator.api.get(f"/v1/nodes/{node}/management/indicators").json["indicators"]
    chassis = next(lamp for lamp in found if lamp["component"] == "chassis")
    place = f"management/indicators/{chassis['name']}"
    assert put(operator, node, place, state="blinking").status == 204
    assert machine.tree[machine.places.chassis]["IndicatorLED"] == "Blinking"
    assert operator.api.get(f"/v1/nodes/{node}/{place}").json == {"state": "blinking"}
    answer = put(operator, node, "management/indicators/nothing@chassis", state="on")
    assert answer.status == 400
    assert "chassis has no lamp 'nothing'" in answer.text


def test_virtual_drives_are_filled_shown_and_emptied(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = operator.at(machine)
    place = f"/v1/nodes/{node}/vmedia"
    body = {"device_type": "cdrom", "image_url": ISO}
    assert operator.api.post(place, body).status == 204
    operator.rig.settled(node)
    (cd,) = [drive for drive in operator.api.get(place).json if drive["inserted"]]
    assert (cd["image"], cd["media_types"]) == (ISO, ["CD", "DVD"])
    assert operator.api.delete(place).status == 204
    operator.rig.settled(node)
    assert not [drive for drive in operator.api.get(place).json if drive["inserted"]]
    assert operator.shows(node)["last_error"] is None


def test_an_image_the_bmc_cannot_read_is_told_on_the_node_without_its_password(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = operator.at(machine)
    said = {"error": {"message": "Login ann with hush-hush failed."}}
    machine.tricks["POST *InsertMedia"] = bmc.says(400, said)
    body = {"device_type": "cdrom", "image_url": "cifs://ann:hush-hush@nas/boot.iso"}
    assert operator.api.post(f"/v1/nodes/{node}/vmedia", body).status == 204
    operator.rig.settled(node)
    told = operator.shows(node)["last_error"]
    assert "The BMC refused the image cifs://nas/boot.iso" in told
    assert "Login ann with ****** failed" in told


def test_a_machine_without_virtual_drives_is_no_fault_of_the_service(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = operator.at(machine)
    del machine.tree[machine.places.manager]["VirtualMedia"]
    answer = operator.api.get(f"/v1/nodes/{node}/vmedia")
    assert answer.status == 400
    assert "get_virtual_media on this BMC: it has no VirtualMedia" in answer.text


# Questions and orders to a machine whose BMC is in trouble: who asks is told why, at once.

MANAGEMENT = "/v1/nodes/{}/management"
ASKED: dict[str, tuple[str, str, Any]] = {
    "the boot device": ("GET", f"{MANAGEMENT}/boot_device", None),
    "the boot devices": ("GET", f"{MANAGEMENT}/boot_device/supported", None),
    "another boot device": ("PUT", f"{MANAGEMENT}/boot_device", {"boot_device": "pxe"}),
    "an interrupt": ("PUT", f"{MANAGEMENT}/inject_nmi", {}),
}
TROUBLES = ("breaks the BMC", "silences the BMC", "is forbidden")


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_client_gets_the_reason_of_a_bmc_failure(
    operator: RedfishOperator, machine: bmc.Machine, what: str, trouble: str
) -> None:
    spoil, words = BAD_POWER[trouble]
    method, path, body = ASKED[what]
    node = operator.at(machine)
    spoil(machine)
    before = operator.rig.get(node)
    answer = operator.api.request(method, path.format(node), body)
    assert answer.status == 500, answer.text
    missing = [word for word in words if not re.search(word, answer.text)]
    assert (missing, USERS["root"] in answer.text) == ([], False), answer.text
    assert operator.rig.get(node) == before
    repair(machine)
    answer = operator.api.request(method, path.format(node), body)
    assert answer.status in {200, 204}, answer.text


# A machine whose ramdisk cannot be booted stays as it is; the caller hears what is missing.

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
