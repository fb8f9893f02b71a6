"""Power by Redfish: on the emulator nobody here wrote, and on a BMC that misbehaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base, bmc_bases, deadline
from ironic_lite.drivers.redfish import management, power
from tests.emulators import bmc, redfish
from tests.emulators import liar as liars
from tests.emulators.bmc import shapes
from tests.support import bmc_tasks

POWER = power.RedfishPower()


def test_a_new_machine_of_the_emulator_is_off(machine: bmc_tasks.BmcTask) -> None:
    assert POWER.get_power_state(machine) == base.POWER_OFF


@pytest.mark.parametrize("off", [base.POWER_OFF, base.SOFT_POWER_OFF])
def test_a_machine_goes_on_and_off(machine: bmc_tasks.BmcTask, off: str) -> None:
    POWER.set_power_state(machine, base.POWER_ON)
    assert POWER.get_power_state(machine) == base.POWER_ON
    POWER.set_power_state(machine, off)
    assert POWER.get_power_state(machine) == base.POWER_OFF


@pytest.mark.parametrize("soft", [False, True])
def test_a_reboot_ends_with_the_power_on(machine: bmc_tasks.BmcTask, soft: bool) -> None:
    POWER.set_power_state(machine, base.POWER_ON)
    POWER.reboot(machine, soft=soft)
    assert POWER.get_power_state(machine) == base.POWER_ON


def test_a_reboot_of_a_machine_that_is_off_switches_it_on(machine: bmc_tasks.BmcTask) -> None:
    POWER.reboot(machine)
    assert POWER.get_power_state(machine) == base.POWER_ON


def test_a_change_that_takes_seconds_is_waited_for_with_growing_pauses() -> None:
    with redfish.Emulator(power_delay=2) as slow:
        task = bmc_tasks.task_at(slow.address)
        POWER.set_power_state(task, base.POWER_ON)
        assert POWER.get_power_state(task) == base.POWER_ON
        assert task.pauses[:3] == [1.0, 1.5, bmc_bases.LONGEST_PAUSE]
        assert max(task.pauses) <= bmc_bases.LONGEST_PAUSE


@pytest.mark.parametrize("target", [base.POWER_ON, base.POWER_OFF, base.SOFT_POWER_OFF])
def test_failed_task_of_a_power_change_is_its_error(target: str) -> None:
    with bmc.serve() as machine:
        machine.habits.tasks = frozenset({"power"})
        machine.go("Off" if target == base.POWER_ON else "On", boots=False)
        machine.habits.task_fails = "The cover is open."
        begun = time.monotonic()
        with pytest.raises(errors.PowerFailure, match="set node power state to") as caught:
            POWER.set_power_state(bmc_tasks.task_of(machine), target)
        assert f"{target}: The BMC could not" in str(caught.value)
        assert "(Exception): The cover is open" in str(caught.value)
        assert time.monotonic() - begun < config.CONF.conductor.power_state_change_timeout
        assert len(machine.sent) == 1
        machine.habits.task_fails = None
        POWER.set_power_state(bmc_tasks.task_of(machine), target)


@pytest.mark.parametrize("status", [403, 405, 500])
def test_power_change_whose_task_is_not_shown_is_seen_by_the_state(status: int) -> None:
    with bmc.serve() as machine:
        machine.habits.tasks = frozenset({"power"})
        machine.go("On", boots=False)
        machine.habits.task_polls, machine.habits.task_status = 0, status
        POWER.reboot(bmc_tasks.task_of(machine))
        assert machine.sent == ["ForceOff", "On"]
        assert machine.tree[machine.system]["PowerState"] == "On"


def test_failed_task_of_a_restart_is_its_error() -> None:
    """The machine shows that it is on all the time."""
    with bmc.serve() as machine:
        machine.habits.tasks = frozenset({"power"})
        machine.go("On", boots=False)
        machine.habits.task_polls, machine.habits.task_fails = 0, "The cover is open."
        task = bmc_tasks.task_of(machine)
        task.node.disable_power_off = True
        with pytest.raises(errors.PowerFailure, match="The cover is open"):
            POWER.reboot(task)


def test_nothing_is_sent_to_a_machine_that_is_there_already(liar: liars.Liar) -> None:
    POWER.set_power_state(bmc_tasks.task_at(liar.address), base.POWER_OFF)
    assert liar.sent == []


def test_a_machine_that_never_changes_fails_with_target_state_and_seconds(
    liar: liars.Liar,
) -> None:
    liar.stuck = True
    with pytest.raises(errors.PowerFailure) as caught:
        POWER.set_power_state(bmc_tasks.task_at(liar.address), base.POWER_ON, timeout=0.3)
    assert caught.value.message == (
        "Failed to set node power state to power on: not reached within 0.3 s; "
        "the BMC last showed the state Off"
    )


@pytest.mark.parametrize("second", [None, 409, 500], ids=["accepted", "refused", "broken"])
def test_power_on_that_the_bmc_accepts_and_ignores_is_sent_again(
    liar: liars.Liar, monkeypatch: pytest.MonkeyPatch, second: int | None
) -> None:
    monkeypatch.setattr(bmc_bases, "RESEND_SECONDS", 0.2)
    sent = []

    def accept(handler: liars.Handler) -> None:
        sent.append(1)
        if len(sent) == 1:
            handler.say(204)
        elif len(sent) == 2 and second is not None:  # it has begun, after all
            liar.power = "On"
            handler.say(second, {"error": {"message": "A reset is under way."}})
        else:
            handler.truth()

    liar.tricks[f"POST {liars.RESET}"] = accept
    POWER.set_power_state(bmc_tasks.task_at(liar.address), base.POWER_ON)
    assert (liar.power, len(sent)) == ("On", 2)


def test_soft_power_off_is_sent_once(liar: liars.Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bmc_bases, "RESEND_SECONDS", 0.1)
    liar.power, liar.stuck = "On", True
    with pytest.raises(errors.PowerFailure):
        POWER.set_power_state(bmc_tasks.task_at(liar.address), base.SOFT_POWER_OFF, timeout=1.5)
    assert len(liar.sent) == 1


def test_the_configured_time_out_holds_for_callers_that_name_none(liar: liars.Liar) -> None:
    liar.stuck = True
    config.CONF.set_override("power_state_change_timeout", 2, group="conductor")
    try:
        with pytest.raises(errors.PowerFailure, match="within 2 s"):
            POWER.set_power_state(bmc_tasks.task_at(liar.address), base.POWER_ON)
    finally:
        config.CONF.clear_override("power_state_change_timeout", group="conductor")


@pytest.mark.parametrize("status", [400, 409])
def test_a_refusal_counts_as_success_when_the_machine_got_there_by_itself(
    liar: liars.Liar, status: int
) -> None:
    def refuse(handler: liars.Handler) -> None:
        liar.power = "On"
        handler.say(status, {"error": {"message": "Already on."}})

    liar.tricks[f"POST {liars.RESET}"] = refuse
    POWER.set_power_state(bmc_tasks.task_at(liar.address), base.POWER_ON)


def test_a_refusal_shows_what_the_bmc_said(liar: liars.Liar) -> None:
    said = {"error": {"@Message.ExtendedInfo": [{"Message": "The door is open."}]}}
    liar.tricks[f"POST {liars.RESET}"] = liars.says(400, said)
    with pytest.raises(errors.PowerFailure, match=r"refused On: HTTP 400 \(The door is open\)"):
        POWER.set_power_state(bmc_tasks.task_at(liar.address), base.POWER_ON)


def test_a_conflict_is_tried_again(liar: liars.Liar) -> None:
    conflict = liars.says(409, {"error": {"message": "ActionParameterValueConflict"}})
    liar.tricks[f"POST {liars.RESET}"] = liars.says_first(2, conflict)
    task = bmc_tasks.task_at(liar.address)
    POWER.set_power_state(task, base.POWER_ON)
    assert liar.power == "On"
    assert task.pauses.count(power.CONFLICT_SECONDS) == 2


def test_a_bmc_that_is_not_ready_is_asked_again_even_for_a_change(liar: liars.Liar) -> None:
    not_ready = liars.says(503, {"error": {"message": "SYS518: not ready"}})
    liar.tricks[f"POST {liars.RESET}"] = liars.says_first(2, not_ready)
    task = bmc_tasks.task_at(liar.address)
    POWER.set_power_state(task, base.POWER_ON)
    assert liar.power == "On"
    assert task.pauses[:2] == [5.0, 10.0]


def test_a_bmc_that_breaks_off_while_the_power_changes_is_looked_at_again(
    liar: liars.Liar,
) -> None:
    def reset_then_break(handler: liars.Handler) -> None:
        handler.truth()
        liar.tricks[f"GET {liars.SYSTEM}"] = liars.says_first(7, liars.hangs_up)

    liar.tricks[f"POST {liars.RESET}"] = reset_then_break
    POWER.set_power_state(bmc_tasks.task_at(liar.address), base.POWER_ON)
    assert liar.power == "On"


def test_a_machine_between_states_has_none_that_could_be_told(liar: liars.Liar) -> None:
    for word in ("PoweringOff", "PoweringOn", "Paused", None):
        liar.power = word
        assert POWER.get_power_state(bmc_tasks.task_at(liar.address)) is None


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ({"Health": "OK"}, "OK"),
        ({"HealthRollup": "Warning"}, "Warning"),
        ({"Health": "OK", "HealthRollup": "Critical"}, "Critical"),
        ({"Health": "Critical", "HealthRollup": "OK"}, "Critical"),
        ({"Health": None, "HealthRollup": "OK"}, "OK"),
        ({"Health": "Ill", "HealthRollup": ["OK"]}, None),
        ({"State": "Enabled"}, None),
        ("Critical", None),
        (None, None),
    ],
)
def test_health_is_the_worse_of_two_and_needs_no_request_of_its_own(
    status: Any, health: str | None
) -> None:
    with bmc.serve() as machine:
        machine.tree[machine.system]["Status"] = status
        task = bmc_tasks.task_of(machine)
        state = POWER.get_power_state(task)
        before = len(machine.log)
        assert POWER.get_power_and_health(task) == (state, health)
        assert machine.log[before:] == [f"GET {machine.system}"]


def test_health_is_read_between_on_and_off() -> None:
    with bmc.serve() as machine:
        machine.tree[machine.system] |= {"PowerState": "PoweringOn", "Status": {"Health": "OK"}}
        assert POWER.get_power_and_health(bmc_tasks.task_of(machine)) == (None, "OK")


def test_a_word_that_redfish_does_not_have_is_a_bad_answer(liar: liars.Liar) -> None:
    liar.power = "Bogus"
    with pytest.raises(errors.BmcBadAnswer, match="'Bogus' is not one of Redfish"):
        POWER.get_power_state(bmc_tasks.task_at(liar.address))


def test_a_machine_without_soft_power_off_says_which_resets_it_knows(liar: liars.Liar) -> None:
    liar.power, liar.resets = "On", ["On", "ForceOff"]
    with pytest.raises(errors.PowerFailure, match="has ForceOff, On, not GracefulShutdown"):
        POWER.set_power_state(bmc_tasks.task_at(liar.address), base.SOFT_POWER_OFF)


def test_an_unknown_target_is_refused_before_the_bmc_is_asked(liar: liars.Liar) -> None:
    with pytest.raises(errors.InvalidParameter, match="'up' is not one of power on"):
        POWER.set_power_state(bmc_tasks.task_at(liar.address), "up")
    assert liar.log == []


@pytest.mark.parametrize(
    ("soft", "resets", "sent"),
    [
        (False, ["On", "ForceOff", "ForceRestart"], ["ForceOff", "On"]),
        (True, ["On", "GracefulShutdown", "GracefulRestart"], ["GracefulShutdown", "On"]),
        (False, ["On", "ForceRestart"], ["ForceRestart"]),
        (True, ["On", "GracefulRestart"], ["GracefulRestart"]),
    ],
)
def test_a_reboot_takes_the_way_the_machine_offers(
    liar: liars.Liar, soft: bool, resets: list[str], sent: list[str]
) -> None:
    liar.power, liar.resets = "On", resets
    POWER.reboot(bmc_tasks.task_at(liar.address), soft=soft)
    assert liar.sent == sent
    assert liar.power == "On"


def test_a_node_that_must_not_lose_power_is_restarted_in_one_go(liar: liars.Liar) -> None:
    liar.power = "On"
    task = bmc_tasks.task_at(liar.address)
    task.node.disable_power_off = True
    POWER.reboot(task)
    assert liar.sent == ["ForceRestart"]
    assert task.pauses[:2] == [power.FIRST_SECONDS, POWER.settle_seconds]


@pytest.mark.parametrize(
    ("soft", "missing"), [(False, "not ForceRestart or PowerCycle"), (True, "not GracefulRestart")]
)
def test_node_that_must_not_lose_power_is_not_switched_off_for_a_restart(
    liar: liars.Liar, soft: bool, missing: str
) -> None:
    liar.power, liar.resets = "On", ["On", "ForceOff", "GracefulShutdown"]
    task = bmc_tasks.task_at(liar.address)
    task.node.disable_power_off = True
    with pytest.raises(errors.PowerFailure, match=missing):
        POWER.reboot(task, soft=soft)
    assert (liar.sent, liar.power) == ([], "On")


def test_validate_names_all_that_is_missing_at_once() -> None:
    task = bmc_tasks.task_at("", redfish_password="secret")
    with pytest.raises(errors.MissingParameter) as caught:
        POWER.validate(task)
    assert caught.value.message == (
        "Missing mandatory parameter: driver_info/redfish_address, driver_info/redfish_username"
    )


def test_nonsense_is_refused_when_it_is_written_and_gaps_are_not() -> None:
    POWER.check_driver_info({})
    with pytest.raises(errors.InvalidParameter, match="driver_info/redfish_auth_type: must be one"):
        POWER.check_driver_info({"redfish_auth_type": "magic"})


def test_the_properties_name_every_key_and_which_is_required() -> None:
    about: dict[str, Any] = POWER.get_properties()
    assert about["redfish_address"].endswith("Required.")
    assert len(about) == 10


# Lamps, the interrupt, the maker's name and the addresses of cards.

MANAGEMENT = management.RedfishManagement()
UUID = "38947555-7742-3448-3784-823347823834"
LED = {"readonly": False, "states": ["blinking", "off", "on"]}


@pytest.fixture
def lit_machine() -> Iterator[bmc.Machine]:
    with bmc.serve(drives=2) as running:
        yield running


@pytest.fixture
def task(lit_machine: bmc.Machine) -> bmc_tasks.BmcTask:
    return bmc_tasks.task_of(lit_machine)


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
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask, component: str
) -> None:
    found = MANAGEMENT.get_supported_indicators(task, component)
    assert list(found) == [component]
    lamp = list(found[component])[-1]
    MANAGEMENT.set_indicator_state(task, component, lamp, "blinking")
    assert MANAGEMENT.get_indicator_state(task, component, lamp) == "blinking"
    assert len(lit_machine.changes()) == 1


def test_a_lamp_that_only_finds_the_place_cannot_blink(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    system = lit_machine.tree[lit_machine.system]
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
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    lit_machine.tree[lit_machine.system]["IndicatorLED@Redfish.AllowableValues"] = [
        "Off",
        "Blinking",
    ]
    found = MANAGEMENT.get_supported_indicators(task, "system")
    assert found["system"][UUID]["states"] == ["blinking", "off"]
    with pytest.raises(errors.InvalidParameter, match="cannot be 'on', only blinking, off"):
        MANAGEMENT.set_indicator_state(task, "system", UUID, "on")


def test_a_state_that_is_no_word_of_redfish_is_unknown(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    lit_machine.tree[lit_machine.system]["IndicatorLED"] = "Unknown"
    assert MANAGEMENT.get_indicator_state(task, "system", UUID) == "unknown"


def test_a_machine_without_lamps_has_none(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    del lit_machine.tree[lit_machine.system]["IndicatorLED"]
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
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask, component: str, lamp: str, words: str
) -> None:
    with pytest.raises(errors.InvalidParameter, match=words):
        MANAGEMENT.get_indicator_state(task, component, lamp)
    with pytest.raises(errors.InvalidParameter, match=words):
        MANAGEMENT.set_indicator_state(task, component, lamp, "on")
    assert lit_machine.changes() == []


@pytest.mark.parametrize(
    ("status", "words"), [(400, "refused the request: HTTP 400"), (500, "has an internal error")]
)
def test_a_bmc_that_does_not_switch_a_lamp_says_why(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask, status: int, words: str
) -> None:
    lit_machine.tricks[f"PATCH {lit_machine.system}"] = bmc.says(status)
    with pytest.raises(errors.BmcBadAnswer, match=words):
        MANAGEMENT.set_indicator_state(task, "system", UUID, "on")


# -- the interrupt --------------------------------------------------------------------------------


def test_an_interrupt_is_given(lit_machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    MANAGEMENT.inject_nmi(task)
    assert (lit_machine.nmis, lit_machine.sent) == (1, ["Nmi"])


def test_an_interrupt_that_the_machine_does_not_know_is_not_sent(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    action = lit_machine.tree[lit_machine.system]["Actions"]["#ComputerSystem.Reset"]
    action["ResetType@Redfish.AllowableValues"].remove("Nmi")
    with pytest.raises(errors.UnsupportedDriverExtension, match="offers no reset of type Nmi"):
        MANAGEMENT.inject_nmi(task)
    assert lit_machine.sent == []


def test_an_interrupt_is_not_given_twice_when_the_answer_is_lost(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    lit_machine.tricks["POST *ComputerSystem.Reset"] = bmc.hangs_up
    with pytest.raises(errors.BmcUnreachable):
        MANAGEMENT.inject_nmi(task)
    assert len(lit_machine.changes()) == 1


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
    lit_machine: bmc.Machine,
    task: bmc_tasks.BmcTask,
    vendor: str | None,
    manufacturer: str | None,
    told: str | None,
) -> None:
    lit_machine.tree["/redfish/v1"]["Vendor"] = vendor
    lit_machine.tree[lit_machine.system]["Manufacturer"] = manufacturer
    assert MANAGEMENT.detect_vendor(task) == told


def test_the_emulator_tells_its_maker_and_its_card(
    emulator: redfish.Emulator, emulated: bmc_tasks.BmcTask
) -> None:
    assert MANAGEMENT.detect_vendor(emulated) == "Sushy Emulator"
    system = emulated.node.driver_info["redfish_system_id"]
    (mac,) = [machine.mac for machine in emulator.machines if machine.system_id == system]
    assert MANAGEMENT.get_mac_addresses(emulated) == [mac]


def test_cards_that_are_off_or_without_an_address_are_left_out(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    cards: dict[str, dict[str, Any]] = {
        "1": {"MACAddress": "52:54:00:AA:00:01", "Status": {"State": "Enabled"}},
        "2": {"MACAddress": "52-54-00-aa-00-02"},
        "3": {"MACAddress": None, "PermanentMACAddress": "52:54:00:aa:00:03"},
        "4": {"MACAddress": "52:54:00:aa:00:04", "Status": {"State": "Disabled"}},
        "5": {"MACAddress": "52:54:00:AA:00:01"},
        "6": {"MACAddress": ""},
    }
    del lit_machine[lit_machine.places.chassis]["NetworkAdapters"]
    path = f"{lit_machine.system}/EthernetInterfaces"
    lit_machine.tree[lit_machine.system]["EthernetInterfaces"] = shapes.link(path)
    places = [f"{path}/{name}" for name in cards]
    lit_machine.tree[path] = shapes.collection(path, "EthernetInterface", places)
    for name, card in cards.items():
        lit_machine.tree[f"{path}/{name}"] = {"Id": name, **card}
    found = MANAGEMENT.get_mac_addresses(task)
    assert found == [f"52:54:00:aa:00:0{number}" for number in (1, 2, 3)]


def test_cards_of_adapters_count_and_a_bmc_without_any_says_so(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    lit_machine.tree[lit_machine.system].pop("EthernetInterfaces", None)
    assert MANAGEMENT.get_mac_addresses(task) == [f"12:44:6a:3b:04:0{n}" for n in (1, 2)]
    del lit_machine[lit_machine.places.chassis]["NetworkAdapters"]
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
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask, what: str
) -> None:
    lit_machine.habits.tasks = frozenset({"change"})
    CHANGES[what](task)
    assert [one.state for one in lit_machine.tasks] == ["Completed"]
    assert lit_machine.sent == []


@pytest.mark.parametrize("what", CHANGES)
def test_failed_task_of_a_small_change_is_the_error_of_the_request(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask, what: str
) -> None:
    lit_machine.habits.tasks = frozenset({"change"})
    lit_machine.habits.task_fails = "Lockdown is on."
    with pytest.raises(errors.HardwareError, match=r"\(Exception\): Lockdown is on") as caught:
        CHANGES[what](task)
    assert isinstance(caught.value.__cause__, errors.BmcTaskFailed)
    assert lit_machine.sent == []


@pytest.mark.parametrize("status", [403, 405, 500])
@pytest.mark.parametrize("what", CHANGES)
def test_change_whose_task_is_not_shown_is_done_as_far_as_known(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask, what: str, status: int
) -> None:
    lit_machine.habits.tasks = frozenset({"change"})
    lit_machine.habits.task_seconds, lit_machine.habits.task_status = 0.01, status
    CHANGES[what](task)
    assert lit_machine.sent == []


def test_task_of_a_small_change_may_take_more_than_ten_seconds(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    lit_machine.habits.tasks, lit_machine.habits.task_seconds = frozenset({"change"}), 10.5
    MANAGEMENT.set_boot_device(task, "pxe", persistent=True)
    assert [one.state for one in lit_machine.tasks] == ["Completed"]


def test_task_of_a_small_change_keeps_no_client_waiting_too_long(
    lit_machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    lit_machine.habits.tasks, lit_machine.habits.task_polls = frozenset({"change"}), 10**9
    with deadline.until(0.5), pytest.raises(errors.HardwareError):
        MANAGEMENT.set_boot_device(task, "pxe", persistent=True)
    assert max(task.pauses) <= 0.5
