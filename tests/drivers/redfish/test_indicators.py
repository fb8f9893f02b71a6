"""Lamps, the interrupt, the maker's name and the addresses of cards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import deadline
from ironic_lite.drivers.redfish import management
from tests.emulators import bmc, redfish
from tests.emulators.bmc import shapes
from tests.support import bmc_tasks

MANAGEMENT = management.RedfishManagement()
UUID = "38947555-7742-3448-3784-823347823834"
LED = {"readonly": False, "states": ["blinking", "off", "on"]}


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve(drives=2) as running:
        yield running


@pytest.fixture
def task(machine: bmc.Machine) -> bmc_tasks.BmcTask:
    return bmc_tasks.task_of(machine)


# -- lamps ----------------------------------------------------------------------------------------


def test_the_lamps_of_the_emulator_are_switched(emulated: bmc_tasks.BmcTask) -> None:
    found = MANAGEMENT.get_supported_indicators(emulated)
    for component in ("system", "chassis"):
        (lamp,) = found[component]
        assert found[component][lamp] == LED
        for state in ("on", "blinking", "off"):
            MANAGEMENT.set_indicator_state(emulated, component, lamp, state)
            assert MANAGEMENT.get_indicator_state(emulated, component, lamp) == state


def test_system_chassis_and_disks_have_lamps(task: bmc_tasks.BmcTask) -> None:
    found = MANAGEMENT.get_supported_indicators(task)
    assert found["system"] == {UUID: LED}
    assert found["chassis"] == {"1": LED}
    assert [name.partition(":")[0] for name in found["disk"]] == ["RAID1", "RAID1"]
    assert set(found) == {"system", "chassis", "disk"}


@pytest.mark.parametrize("component", ["system", "chassis", "disk"])
def test_one_component_is_asked_for_alone_and_its_lamp_is_switched(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, component: str
) -> None:
    found = MANAGEMENT.get_supported_indicators(task, component)
    assert list(found) == [component]
    lamp = list(found[component])[-1]
    MANAGEMENT.set_indicator_state(task, component, lamp, "blinking")
    assert MANAGEMENT.get_indicator_state(task, component, lamp) == "blinking"
    assert len(machine.changes()) == 1


def test_a_lamp_that_only_finds_the_place_cannot_blink(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    system = machine.tree[machine.system]
    del system["IndicatorLED"]
    system["LocationIndicatorActive"] = False
    found = MANAGEMENT.get_supported_indicators(task, "system")
    assert found == {"system": {UUID: {"readonly": False, "states": ["off", "on"]}}}
    MANAGEMENT.set_indicator_state(task, "system", UUID, "on")
    assert system["LocationIndicatorActive"] is True
    assert MANAGEMENT.get_indicator_state(task, "system", UUID) == "on"
    with pytest.raises(errors.InvalidParameter, match="cannot be 'blinking', only off, on"):
        MANAGEMENT.set_indicator_state(task, "system", UUID, "blinking")


def test_the_states_that_a_lamp_lists_are_the_only_ones(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.tree[machine.system]["IndicatorLED@Redfish.AllowableValues"] = ["Off", "Blinking"]
    found = MANAGEMENT.get_supported_indicators(task, "system")
    assert found["system"][UUID]["states"] == ["blinking", "off"]
    with pytest.raises(errors.InvalidParameter, match="cannot be 'on', only blinking, off"):
        MANAGEMENT.set_indicator_state(task, "system", UUID, "on")


def test_a_state_that_is_no_word_of_redfish_is_unknown(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.tree[machine.system]["IndicatorLED"] = "Unknown"
    assert MANAGEMENT.get_indicator_state(task, "system", UUID) == "unknown"


def test_a_machine_without_lamps_has_none(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    del machine.tree[machine.system]["IndicatorLED"]
    assert MANAGEMENT.get_supported_indicators(task, "system") == {}


@pytest.mark.parametrize(
    ("component", "lamp", "words"),
    [
        ("nic", "1", "component: 'nic' has no lamps here, only system, chassis, disk"),
        ("system", "2", f"indicator: system has no lamp '2', only {UUID}"),
        ("disk", "RAID1:99", "indicator: disk has no lamp 'RAID1:99', only RAID1:"),
    ],
)
def test_component_without_a_lamp_is_refused_with_the_possible_ones(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, component: str, lamp: str, words: str
) -> None:
    with pytest.raises(errors.InvalidParameter, match=words):
        MANAGEMENT.get_indicator_state(task, component, lamp)
    with pytest.raises(errors.InvalidParameter, match=words):
        MANAGEMENT.set_indicator_state(task, component, lamp, "on")
    assert machine.changes() == []


@pytest.mark.parametrize(
    ("status", "words"), [(400, "refused the request: HTTP 400"), (500, "has an internal error")]
)
def test_a_bmc_that_does_not_switch_a_lamp_says_why(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, status: int, words: str
) -> None:
    machine.tricks[f"PATCH {machine.system}"] = bmc.says(status)
    with pytest.raises(errors.BmcBadAnswer, match=words):
        MANAGEMENT.set_indicator_state(task, "system", UUID, "on")


# -- the interrupt --------------------------------------------------------------------------------


def test_an_interrupt_is_given(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    MANAGEMENT.inject_nmi(task)
    assert (machine.nmis, machine.sent) == (1, ["Nmi"])


def test_an_interrupt_that_the_machine_does_not_know_is_not_sent(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    action = machine.tree[machine.system]["Actions"]["#ComputerSystem.Reset"]
    action["ResetType@Redfish.AllowableValues"].remove("Nmi")
    with pytest.raises(errors.UnsupportedDriverExtension, match="offers no reset of type Nmi"):
        MANAGEMENT.inject_nmi(task)
    assert machine.sent == []


def test_an_interrupt_is_not_given_twice_when_the_answer_is_lost(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.tricks["POST *ComputerSystem.Reset"] = bmc.hangs_up
    with pytest.raises(errors.BmcUnreachable):
        MANAGEMENT.inject_nmi(task)
    assert len(machine.changes()) == 1


# -- maker and cards ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vendor", "manufacturer", "told"),
    [
        ("HPE", "Contoso", "HPE"),
        (None, " Contoso ", "Contoso"),
        ("", "Contoso", "Contoso"),
        (None, None, None),
    ],
)
def test_the_maker_of_the_service_counts_before_that_of_the_machine(
    machine: bmc.Machine,
    task: bmc_tasks.BmcTask,
    vendor: str | None,
    manufacturer: str | None,
    told: str | None,
) -> None:
    machine.tree["/redfish/v1"]["Vendor"] = vendor
    machine.tree[machine.system]["Manufacturer"] = manufacturer
    assert MANAGEMENT.detect_vendor(task) == told


def test_the_emulator_tells_its_maker_and_its_card(
    emulator: redfish.Emulator, emulated: bmc_tasks.BmcTask
) -> None:
    assert MANAGEMENT.detect_vendor(emulated) == "Sushy Emulator"
    system = emulated.node.driver_info["redfish_system_id"]
    (mac,) = [machine.mac for machine in emulator.machines if machine.system_id == system]
    assert MANAGEMENT.get_mac_addresses(emulated) == [mac]


def test_cards_that_are_off_or_without_an_address_are_left_out(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    cards: dict[str, dict[str, Any]] = {
        "1": {"MACAddress": "52:54:00:AA:00:01", "Status": {"State": "Enabled"}},
        "2": {"MACAddress": "52-54-00-aa-00-02"},
        "3": {"MACAddress": None, "PermanentMACAddress": "52:54:00:aa:00:03"},
        "4": {"MACAddress": "52:54:00:aa:00:04", "Status": {"State": "Disabled"}},
        "5": {"MACAddress": "52:54:00:AA:00:01"},
        "6": {"MACAddress": ""},
    }
    del machine[machine.places.chassis]["NetworkAdapters"]
    path = f"{machine.system}/EthernetInterfaces"
    machine.tree[machine.system]["EthernetInterfaces"] = shapes.link(path)
    places = [f"{path}/{name}" for name in cards]
    machine.tree[path] = shapes.collection(path, "EthernetInterface", places)
    for name, card in cards.items():
        machine.tree[f"{path}/{name}"] = {"Id": name, **card}
    found = MANAGEMENT.get_mac_addresses(task)
    assert found == [f"52:54:00:aa:00:0{number}" for number in (1, 2, 3)]


def test_cards_of_adapters_count_and_a_bmc_without_any_says_so(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.tree[machine.system].pop("EthernetInterfaces", None)
    assert MANAGEMENT.get_mac_addresses(task) == [f"12:44:6a:3b:04:0{n}" for n in (1, 2)]
    del machine[machine.places.chassis]["NetworkAdapters"]
    with pytest.raises(errors.UnsupportedDriverExtension, match="lists no MAC address of a card"):
        MANAGEMENT.get_mac_addresses(task)


# -- changes that the BMC answers with a task ------------------------------------------------------


def _switch_lamp(task: bmc_tasks.BmcTask) -> None:
    (lamp,) = MANAGEMENT.get_supported_indicators(task, "system")["system"]
    MANAGEMENT.set_indicator_state(task, "system", lamp, "on")


CHANGES: dict[str, Callable[[bmc_tasks.BmcTask], None]] = {
    "boot device": lambda task: MANAGEMENT.set_boot_device(task, "pxe", persistent=True),
    "boot mode": lambda task: MANAGEMENT.set_boot_mode(task, "bios"),
    "secure boot": lambda task: MANAGEMENT.set_secure_boot_state(task, True),
    "lamp": _switch_lamp,
}


@pytest.mark.parametrize("what", CHANGES)
def test_task_of_a_small_change_is_followed(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, what: str
) -> None:
    machine.habits.tasks = frozenset({"change"})
    CHANGES[what](task)
    assert [one.state for one in machine.tasks] == ["Completed"]
    assert machine.sent == []


@pytest.mark.parametrize("what", CHANGES)
def test_failed_task_of_a_small_change_is_the_error_of_the_request(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, what: str
) -> None:
    machine.habits.tasks = frozenset({"change"})
    machine.habits.task_fails = "Lockdown is on."
    with pytest.raises(errors.HardwareError, match=r"\(Exception\): Lockdown is on") as caught:
        CHANGES[what](task)
    assert isinstance(caught.value.__cause__, errors.BmcTaskFailed)
    assert machine.sent == []


@pytest.mark.parametrize("status", [403, 405, 500])
@pytest.mark.parametrize("what", CHANGES)
def test_change_whose_task_is_not_shown_is_done_as_far_as_known(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, what: str, status: int
) -> None:
    machine.habits.tasks = frozenset({"change"})
    machine.habits.task_seconds, machine.habits.task_status = 0.01, status
    CHANGES[what](task)
    assert machine.sent == []


def test_task_of_a_small_change_may_take_more_than_ten_seconds(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.habits.tasks, machine.habits.task_seconds = frozenset({"change"}), 10.5
    MANAGEMENT.set_boot_device(task, "pxe", persistent=True)
    assert [one.state for one in machine.tasks] == ["Completed"]


def test_task_of_a_small_change_keeps_no_client_waiting_too_long(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    machine.habits.tasks, machine.habits.task_polls = frozenset({"change"}), 10**9
    with deadline.until(0.5), pytest.raises(errors.HardwareError):
        MANAGEMENT.set_boot_device(task, "pxe", persistent=True)
    assert max(task.pauses) <= 0.5
