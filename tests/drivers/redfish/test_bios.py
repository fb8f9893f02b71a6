"""BIOS settings by Redfish: what is refused, what is sent, what is seen after the boot."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import bios
from ironic_lite.drivers.redfish.bmc import connection
from tests.emulators import bmc
from tests.emulators.bmc import firmware, shapes
from tests.support import bmc_tasks, fake_task

BIOS = bios.RedfishBIOS()
CLEAN = base.StepKind.CLEAN
RESET = fake_task.step("bios.factory_reset")
SECRET = "geheim"


@pytest.fixture
def served() -> Iterator[bmc.Machine]:
    with bmc.serve() as machine:
        yield machine


def settings(**values: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def apply(task: fake_task.FakeTask, **values: Any) -> base.Outcome | None:
    return BIOS.execute_clean_step(task, step(**values))


def step(**values: Any) -> Any:
    return fake_task.step("bios.apply_configuration", settings=settings(**values))


def poll(task: fake_task.FakeTask, wanted: Any) -> base.Outcome:
    return BIOS.poll_step(task, CLEAN, wanted)


def shown(machine: bmc.Machine) -> dict[str, Any]:
    return dict(machine[machine.places.bios]["Attributes"])


# -- applying -----------------------------------------------------------------------------------


def test_settings_are_sent_for_the_next_boot_and_seen_after_it(served: bmc.Machine) -> None:
    task = bmc_tasks.task_of(served)
    wanted = {"ProcTurboMode": "Disabled", "NumberOfCores": "8", "SriovEnabled": "true"}
    assert apply(task, **wanted) is base.WAIT
    [patch] = [request for request in served.requests if request.method == "PATCH"]
    assert patch.path == f"{served.places.bios}/Settings"
    typed = {"ProcTurboMode": "Disabled", "NumberOfCores": 8, "SriovEnabled": True}
    assert patch.body["Attributes"] == typed
    assert patch.body["@Redfish.SettingsApplyTime"]["ApplyTime"] == "OnReset"
    assert patch.headers["If-Match"]
    assert (served.sent, task.node.power_state) == (["On"], "power on")
    assert task.timers == [config.CONF.redfish.bios_config_status_interval]
    assert poll(task, step(**wanted)) is base.DONE
    assert shown(served).items() >= typed.items()
    assert task.recall(bios.NOTE) is None


def test_settings_are_put_where_a_bmc_does_not_patch_them(served: bmc.Machine) -> None:
    served.tricks[f"PATCH {served.places.bios}/Settings"] = bmc.says(405)
    task = bmc_tasks.task_of(served)
    assert apply(task, BootMode="Bios") is base.WAIT
    assert poll(task, step(BootMode="Bios")) is base.DONE
    assert shown(served)["BootMode"] == "Bios"


def test_a_machine_that_is_on_is_restarted(served: bmc.Machine) -> None:
    served[served.system]["PowerState"] = "On"
    task = bmc_tasks.task_of(served)
    assert apply(task, BootMode="Bios") is base.WAIT
    assert served.sent == ["ForceOff", "On"]
    assert poll(task, step(BootMode="Bios")) is base.DONE


def test_current_bios_settings_need_no_boot(served: bmc.Machine) -> None:
    task = bmc_tasks.task_of(served)
    assert apply(task, BootMode="Uefi", NumberOfCores="0", SriovEnabled="False") is base.DONE
    assert served.changes() == []
    # Unless something else waits for the next boot.
    served[f"{served.places.bios}/Settings"]["Attributes"]["BootMode"] = "Bios"
    assert apply(task, BootMode="Uefi") is base.WAIT


def test_pending_bios_settings_are_not_sent_twice(served: bmc.Machine) -> None:
    """As when the conductor died after it had sent them: iDRACs refuse a second job."""
    powerless = bmc_tasks.task_of(served, fake_fail_power="no power")
    powerless.driver = dataclasses.replace(bmc_tasks.REDFISH, power=fake_task.FAKE.power)
    with pytest.raises(errors.HardwareError, match="no power"):
        apply(powerless, BootMode="Bios")
    task = bmc_tasks.task_of(served)
    assert apply(task, BootMode="Bios") is base.WAIT
    assert len([title for title in served.changes() if title.startswith("PATCH")]) == 1
    assert poll(task, step(BootMode="Bios")) is base.DONE


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"Turbo": 1}, "Turbo is no setting of this machine"),
        ({"SystemSerialNumber": "1"}, "SystemSerialNumber is read-only"),
        ({"BootMode": SECRET}, "BootMode must be one of Bios, Uefi"),
        ({"NumberOfCores": 25}, "NumberOfCores must be 24 at most"),
        ({"NumberOfCores": -1}, "NumberOfCores must be 0 at least"),
        ({"NumberOfCores": SECRET}, "NumberOfCores must be a whole number"),
        ({"NumberOfCores": 1.5}, "NumberOfCores must be a whole number"),
        ({"NumberOfCores": True}, "NumberOfCores must be a whole number"),
        ({"SriovEnabled": SECRET}, "SriovEnabled must be true or false"),
        ({"AdminPhone": "1" * 17}, "AdminPhone must have a length of 16 at most"),
        ({"AdminPhone": 7}, "AdminPhone must be text"),
        ({"BootMode": None, "X": 1}, "Uefi; X is no setting"),
    ],
)
def test_impossible_bios_setting_is_refused_by_name_before_any_request(
    served: bmc.Machine, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(errors.InvalidParameter) as found:
        apply(bmc_tasks.task_of(served), **values)
    assert said in str(found.value)
    assert SECRET not in str(found.value)
    assert served.changes() == []


def entry_of(machine: bmc.Machine, name: str) -> dict[str, Any]:
    registry = machine[f"{shapes.REGISTRY}.json"]["RegistryEntries"]["Attributes"]
    return next(entry for entry in registry if entry["AttributeName"] == name)


def test_setting_that_another_requested_setting_unlocks_is_sent(served: bmc.Machine) -> None:
    entry_of(served, "ProcTurboMode")["ReadOnly"] = True
    firmware.depend(served, "ProcTurboMode", "ReadOnly", False, on="BootMode", word="Bios")
    firmware.depend(served, "NumberOfCores", "UpperBound", 64, on="BootMode", word="Bios")
    task = bmc_tasks.task_of(served)
    wanted = {"BootMode": "Bios", "ProcTurboMode": "Disabled", "NumberOfCores": 32}
    assert apply(task, **wanted) is base.WAIT
    assert poll(task, step(**wanted)) is base.DONE
    assert shown(served).items() >= wanted.items()


def test_setting_that_stays_locked_is_refused_in_the_words_of_the_bmc(served: bmc.Machine) -> None:
    entry_of(served, "ProcTurboMode")["ReadOnly"] = True
    firmware.depend(served, "ProcTurboMode", "ReadOnly", False, on="BootMode", word="Bios")
    with pytest.raises(errors.BmcBadAnswer, match="The property ProcTurboMode is read-only"):
        apply(bmc_tasks.task_of(served), ProcTurboMode="Disabled")
    assert served.sent == []


def test_type_of_a_setting_with_a_dependency_is_still_checked(served: bmc.Machine) -> None:
    firmware.depend(served, "NumberOfCores", "UpperBound", 64, on="BootMode", word="Bios")
    with pytest.raises(errors.InvalidParameter, match="must be a whole number"):
        apply(bmc_tasks.task_of(served), NumberOfCores="many")
    assert served.changes() == []


def test_without_a_registry_the_machine_s_own_values_are_the_measure(served: bmc.Machine) -> None:
    del served.tree["/redfish/v1"]["Registries"]
    task = bmc_tasks.task_of(served)
    with pytest.raises(errors.InvalidParameter, match="Turbo is no setting"):
        apply(task, Turbo=1)
    with pytest.raises(errors.InvalidParameter, match="NumberOfCores must be a whole"):
        apply(task, NumberOfCores="many")
    assert apply(task, NumberOfCores="4", SriovEnabled="yes") is base.WAIT
    [patch] = [request for request in served.requests if request.method == "PATCH"]
    assert patch.body["Attributes"] == {"NumberOfCores": 4, "SriovEnabled": True}


@pytest.mark.parametrize("method", ["apply_configuration", "factory_reset", "cache_bios_settings"])
def test_a_machine_without_settings_says_so(served: bmc.Machine, method: str) -> None:
    del served[served.system]["Bios"]
    args = {"settings": settings(BootMode="Bios")} if method == "apply_configuration" else {}
    with pytest.raises(errors.UnsupportedDriverExtension, match="shows no BIOS settings"):
        getattr(BIOS, method)(bmc_tasks.task_of(served), **args)


def test_refusal_of_the_bmc_is_reported_in_its_words(served: bmc.Machine) -> None:
    words = {"error": {"@Message.ExtendedInfo": [{"Message": "A job is pending for BootMode."}]}}
    served.tricks["PATCH */Bios/Settings"] = bmc.says(400, words)
    with pytest.raises(errors.BmcBadAnswer, match="A job is pending for BootMode"):
        apply(bmc_tasks.task_of(served), BootMode="Bios")
    assert served.sent == []


# -- after the boot -----------------------------------------------------------------------------


def test_a_machine_that_ignores_a_setting_fails_the_step_by_name(served: bmc.Machine) -> None:
    served.habits.ignored_settings = frozenset({"BootMode"})
    task = bmc_tasks.task_of(served)
    wanted = {"BootMode": "Bios", "ProcTurboMode": "Disabled"}
    apply(task, **wanted)
    # It may still show the boot before the restart; and a setting a little later than the boot.
    for _ in range(bios.STALE_LOOKS):
        assert poll(task, step(**wanted)) is base.WAIT
    with pytest.raises(
        errors.StepFailed, match=r"these settings differ from the request: BootMode$"
    ):
        poll(task, step(**wanted))
    assert task.recall(bios.NOTE) is None


def test_a_machine_that_boots_for_long_is_waited_for_on_any_conductor(served: bmc.Machine) -> None:
    task: fake_task.FakeTask = bmc_tasks.task_of(served)
    before = dict(shown(served))
    apply(task, BootMode="Bios")
    booted = dict(shown(served))
    served[served.places.bios]["Attributes"] = before
    served[served.system]["BootProgress"] = {"LastState": "MemoryInitializationStarted"}
    for _ in range(5):
        assert poll(task, step(BootMode="Bios")) is base.WAIT
        task = task.elsewhere()
    served[served.places.bios]["Attributes"] = booted
    assert poll(task, step(BootMode="Bios")) is base.DONE


def test_a_boot_that_never_ends_fails(served: bmc.Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    task = bmc_tasks.task_of(served)
    served.habits.ignored_settings = frozenset({"BootMode"})
    apply(task, BootMode="Bios")
    served[served.system]["BootProgress"] = {"LastState": "MemoryInitializationStarted"}
    assert poll(task, step(BootMode="Bios")) is base.WAIT
    pass_time(monkeypatch)
    with pytest.raises(errors.StepFailed, match="from the request: BootMode"):
        poll(task, step(BootMode="Bios"))


@pytest.mark.parametrize("status", [401, 403, 503])
def test_a_bmc_that_is_silent_or_knows_no_users_for_a_while_is_no_failure(
    served: bmc.Machine, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    task = bmc_tasks.task_of(served)
    apply(task, BootMode="Bios")
    served.tricks["GET *"] = bmc.says(status)
    assert poll(task, step(BootMode="Bios")) is base.WAIT
    if status != 503:
        assert task.timers[-1] >= bios.DENIED_PAUSE  # lest it locks us out
    served.tricks.clear()
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())  # as after a while
    assert poll(task, step(BootMode="Bios")) is base.DONE
    apply(task, BootMode="Uefi")
    served.tricks["GET *"] = bmc.says(status)
    pass_time(monkeypatch)
    with pytest.raises(errors.StepFailed, match=f"no usable answer of the BMC: .*{status}"):
        poll(task, step(BootMode="Uefi"))


def pass_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all time pass that the machine has to boot."""
    later = time.time() + config.CONF.redfish.bios_config_timeout + 1
    monkeypatch.setattr(clock, "lived_since", lambda stamp: later - stamp)


def test_a_boot_from_before_the_restart_is_not_taken_for_the_one_after_it(
    served: bmc.Machine,
) -> None:
    """A BMC that restarts a machine in one go shows for a while that its system runs."""
    task = bmc_tasks.task_of(served)
    served.habits.ignored_settings = frozenset({"BootMode"})
    apply(task, BootMode="Bios")
    progress = served[served.system]["BootProgress"]
    for word in ("OSRunning", "OSRunning", "MemoryInitializationStarted", "OSBootStarted"):
        progress["LastState"] = word
        assert poll(task, step(BootMode="Bios")) is base.WAIT
    served[served.places.bios]["Attributes"]["BootMode"] = "Bios"
    assert poll(task, step(BootMode="Bios")) is base.DONE


def test_hidden_bios_setting_counts_as_applied_after_a_boot(served: bmc.Machine) -> None:
    """Passwords are null: there is nothing to compare, and the machine must not be let go early."""
    served[served.places.bios]["Attributes"]["AdminPhone"] = None
    served.habits.ignored_settings = frozenset({"AdminPhone"})
    task = bmc_tasks.task_of(served)
    assert apply(task, AdminPhone="1") is base.WAIT
    progress = served[served.system]["BootProgress"]
    progress["LastState"] = "MemoryInitializationStarted"
    for _ in range(3):
        assert poll(task, step(AdminPhone="1")) is base.WAIT
    progress["LastState"] = "OSRunning"
    assert poll(task, step(AdminPhone="1")) is base.DONE


def test_a_job_that_still_runs_is_waited_for_though_all_settings_are_right(
    served: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes next, a RAID job for one, would be refused."""
    served.habits.tasks = frozenset({"bios"})
    served.habits.task_polls = 10**9
    task = bmc_tasks.task_of(served)
    apply(task, BootMode="Bios")
    served[served.places.bios]["Attributes"]["BootMode"] = "Bios"
    assert poll(task, step(BootMode="Bios")) is base.WAIT
    pass_time(monkeypatch)
    assert poll(task, step(BootMode="Bios")) is base.DONE


def test_the_bmc_s_messages_tell_why_by_name_alone(served: bmc.Machine) -> None:
    served.habits.ignored_settings = frozenset({"BootMode"})
    task = bmc_tasks.task_of(served)
    apply(task, BootMode="Bios")
    entry = {"MessageId": "Bios.1.0.Locked", "Message": f"It is not {SECRET}."}
    served[served.places.bios]["@Redfish.Settings"]["Messages"] = [
        {"MessageId": "Base.1.0.Success"},
        entry,
        entry,
    ]
    with pytest.raises(errors.StepFailed, match=r"BootMode\. The BMC says: Bios\.1\.0\.Locked$"):
        for _ in range(9):
            poll(task, step(BootMode="Bios"))


def test_a_job_of_the_bmc_is_followed(served: bmc.Machine) -> None:
    served.habits.tasks = frozenset({"bios"})
    served.habits.task_polls = 2
    task = bmc_tasks.task_of(served)
    assert apply(task, BootMode="Bios") is base.WAIT
    # The machine is up, and the job still runs: that is no mismatch.
    for _ in range(2):
        assert poll(task, step(BootMode="Bios")) is base.WAIT
    assert poll(task, step(BootMode="Bios")) is base.DONE


def test_a_job_that_fails_is_told_in_the_bmc_s_words(served: bmc.Machine) -> None:
    served.habits.tasks = frozenset({"bios"})
    served.habits.task_polls = 0
    served.habits.task_fails = "Lockdown is on."
    task = bmc_tasks.task_of(served)
    apply(task, BootMode="Bios")
    with pytest.raises(errors.StepFailed, match=r"Exception.*Lockdown is on"):
        poll(task, step(BootMode="Bios"))


# -- factory reset, and what is told -------------------------------------------------------------


def test_a_factory_reset_brings_the_defaults_back(served: bmc.Machine) -> None:
    task = bmc_tasks.task_of(served)
    before = shown(served)
    apply(task, BootMode="Bios", NumberOfCores=4)
    poll(task, step(BootMode="Bios", NumberOfCores=4))
    assert shown(served) != before
    assert BIOS.execute_clean_step(task, RESET) is base.WAIT
    for _ in range(bios.STALE_LOOKS - 1):
        assert poll(task, RESET) is base.WAIT
    assert poll(task, RESET) is base.DONE
    assert shown(served) == before


@pytest.mark.parametrize("status", [400, 415])
def test_bmc_that_cannot_parse_an_empty_object_is_reset_without(
    served: bmc.Machine, status: int
) -> None:
    def picky(handler: bmc.Handler) -> None:
        if handler.request_read.raw:
            handler.say(status, {"error": {"message": "MalformedJSON"}})
        else:
            handler.truth()

    served.tricks["POST */Actions/Bios.ResetBios"] = picky
    assert BIOS.execute_clean_step(bmc_tasks.task_of(served), RESET) is base.WAIT
    assert served.sent == ["On"]


def test_a_factory_reset_waits_for_the_boot(served: bmc.Machine) -> None:
    task = bmc_tasks.task_of(served)
    BIOS.execute_clean_step(task, RESET)
    assert poll(task, RESET) is base.WAIT  # it may be the boot before the restart
    served[served.system]["BootProgress"] = {"LastState": "None"}
    assert poll(task, RESET) is base.WAIT
    del served[served.system]["BootProgress"]
    for _ in range(bios.BLIND_LOOKS - 3):
        assert poll(task, RESET) is base.WAIT
    assert poll(task, RESET) is base.DONE


@pytest.mark.parametrize(
    "state",
    [
        "None",
        "OEM",
        "SystemHardwareInitializationComplete",
        "SetupEntered",
        "PCIResourceConfigStarted",
        "Ready",
    ],
)
def test_factory_reset_ends_on_a_bmc_whose_boot_progress_stands_still(
    served: bmc.Machine, state: str
) -> None:
    served.habits.boot_progress = state
    served.go("On", boots=True)
    served[served.system]["BootProgress"] = {"LastState": state}
    task = bmc_tasks.task_of(served)
    BIOS.execute_clean_step(task, RESET)
    for _ in range(bios.BLIND_LOOKS - 1):
        assert poll(task, RESET) is base.WAIT
    assert poll(task, RESET) is base.DONE


def test_factory_reset_ends_where_the_boot_progress_stops(served: bmc.Machine) -> None:
    """A machine without a boot device stays in its setup."""
    task = bmc_tasks.task_of(served)
    BIOS.execute_clean_step(task, RESET)
    for state in ("MemoryInitializationStarted", "PCIResourceConfigStarted"):
        served[served.system]["BootProgress"] = {"LastState": state}
        for _ in range(bios.BLIND_LOOKS + 1):
            assert poll(task, RESET) is base.WAIT
    for number in range(bios.BLIND_LOOKS + 1):
        progress = {"LastState": "OEM", "OemLastState": f"Stage {number}"}
        served[served.system]["BootProgress"] = progress
        assert poll(task, RESET) is base.WAIT
    served[served.system]["BootProgress"] = {"LastState": "SetupEntered"}
    for _ in range(bios.BLIND_LOOKS - 1):
        assert poll(task, RESET) is base.WAIT
    assert poll(task, RESET) is base.DONE


def test_factory_reset_of_a_machine_that_is_off_or_hangs_is_not_done(
    served: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = bmc_tasks.task_of(served)
    BIOS.execute_clean_step(task, RESET)
    for power, state in (("Off", "None"), ("On", "MemoryInitializationStarted")):
        served[served.system].update(PowerState=power, BootProgress={"LastState": state})
        for _ in range(bios.BLIND_LOOKS + 1):
            assert poll(task, RESET) is base.WAIT
    pass_time(monkeypatch)
    with pytest.raises(errors.StepFailed, match=r"BootProgress\) is MemoryInitializationStarted$"):
        poll(task, RESET)


def test_a_bmc_without_factory_reset_says_so(served: bmc.Machine) -> None:
    del served[served.places.bios]["Actions"]["#Bios.ResetBios"]
    with pytest.raises(errors.UnsupportedDriverExtension, match=r"offers no Bios\.ResetBios"):
        BIOS.execute_clean_step(bmc_tasks.task_of(served), RESET)


def test_settings_are_told_with_what_the_registry_knows(served: bmc.Machine) -> None:
    found = {one.name: one for one in BIOS.cache_bios_settings(bmc_tasks.task_of(served))}
    assert set(found) == set(shown(served))
    assert found["BootMode"].allowable_values == ["Bios", "Uefi"]
    assert (found["NumberOfCores"].lower_bound, found["NumberOfCores"].upper_bound) == (0, 24)
    serial = found["SystemSerialNumber"]
    assert (serial.read_only, serial.attribute_type, serial.max_length) == (True, "String", 32)
    assert found["SriovEnabled"].value is False


@pytest.mark.parametrize(
    ("named", "file", "id"),
    [
        # Dell R750
        (
            "BiosAttributeRegistry.v1_0_3",
            "BiosAttributeRegistry1.0",
            "BiosAttributeRegistry.v1_0_0",
        ),
        # Supermicro X13
        ("BiosAttributeRegistry.v1_0_0", "BiosAttributeRegistry.1.0.0", "BiosAttributeRegistry"),
        # NVIDIA GH200 and BlueField-3
        (None, "BiosAttributeRegistry.1.0.0", "BiosAttributeRegistry"),
    ],
)
def test_a_registry_is_found_whatever_its_version(
    served: bmc.Machine, named: str | None, file: str, id: str
) -> None:
    served[served.places.bios]["AttributeRegistry"] = named
    path = "/redfish/v1/Registries/BiosAttributeRegistry.v1_0_0"
    served[path].update(Registry=file, Id=id)
    other = "/redfish/v1/Registries/NetworkAttributesRegistry"
    served.add(other, {**served[path], "Id": "NetworkAttributesRegistry", "Registry": "Other.1.0"})
    found = {one.name: one for one in BIOS.cache_bios_settings(bmc_tasks.task_of(served))}
    assert found["BootMode"].allowable_values == ["Bios", "Uefi"]
    assert f"GET {other}" not in served.log
    with pytest.raises(errors.InvalidParameter, match="BootMode must be one of Bios, Uefi"):
        apply(bmc_tasks.task_of(served), BootMode="Uefy")


def test_the_registry_of_the_exact_version_is_preferred(served: bmc.Machine) -> None:
    path = "/redfish/v1/Registries/BiosAttributeRegistry.v1_0_0"
    older = "/redfish/v1/Registries/BiosAttributeRegistry.v0_9_0"
    served.add(older, {**served[path], "@odata.id": older, "Location": []})
    served[older].update(Id="BiosAttributeRegistry.v0_9_0", Registry="BiosAttributeRegistry.v0_9_0")
    served["/redfish/v1/Registries"]["Members"].reverse()
    found = {one.name: one for one in BIOS.cache_bios_settings(bmc_tasks.task_of(served))}
    assert found["BootMode"].allowable_values == ["Bios", "Uefi"]


def test_registries_of_two_systems_are_told_apart() -> None:
    family = bios.registry_family
    assert family("BiosAttributeRegistryA42.v1_2_60") == "biosattributeregistrya42"
    assert family("BiosAttributeRegistry113.1.1.3") == "biosattributeregistry113"


def test_the_emulator_of_others_has_none_and_that_is_said(machine: bmc_tasks.BmcTask) -> None:
    with pytest.raises(errors.UnsupportedDriverExtension, match="shows no BIOS settings"):
        BIOS.cache_bios_settings(machine)
