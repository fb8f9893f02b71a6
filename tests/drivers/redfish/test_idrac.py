"""Steps, boot, inspection and RAID of Dell machines, against an emulated iDRAC."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.drivers import base, bmc_bases
from ironic_lite.drivers.boot import medium
from ironic_lite.drivers.redfish import idrac, virtual_media
from ironic_lite.drivers.redfish.bmc import transport
from tests.emulators import bmc
from tests.emulators.bmc import dell, shapes
from tests.support import bmc_tasks, fake_task

Json = dict[str, Any]

MANAGEMENT = idrac.IdracManagement()
DRIVER = dataclasses.replace(bmc_tasks.REDFISH, hardware_type="idrac", management=MANAGEMENT)


@pytest.fixture
def server() -> Iterator[bmc.Machine]:
    with bmc.serve(make="dell", users={"root": "calvin"}) as running:
        yield running


def task_of(server: bmc.Machine, **values: Any) -> bmc_tasks.BmcTask:
    """Return a task on a node of the machine."""
    run = {"run_uuid": "5a1b9c2e-0000-4000-8000-000000000001", **values}
    found = fake_task.node(driver="idrac", driver_info=server.driver_info, **run)
    return bmc_tasks.BmcTask(found, driver=DRIVER)


def start(task: bmc_tasks.BmcTask, name: str, **args: Any) -> base.Outcome | None:
    return MANAGEMENT.execute_clean_step(task, fake_task.step(f"management.{name}", **args))


def poll(task: fake_task.FakeTask, name: str, *, times: int = 20) -> int:
    """Poll a step to its end; return how often."""
    for number in range(1, times + 1):
        step = fake_task.step(f"management.{name}")
        if MANAGEMENT.poll_step(task, base.StepKind.CLEAN, step) is base.DONE:
            return number
    raise AssertionError(f"not done after {times} polls")


def verify(task: bmc_tasks.BmcTask, name: str) -> None:
    step = fake_task.step(f"management.{name}")
    assert MANAGEMENT.execute_verify_step(task, step) is base.DONE
    assert task.recall(idrac.RECOVERY_NOTE) is None


# -- the job queue --------------------------------------------------------------------------------


def test_verification_sends_nothing_for_an_empty_queue(server: bmc.Machine) -> None:
    dell.put_job(server, "Completed")
    verify(task_of(server), "clear_job_queue")
    assert server.changes() == []


def test_verification_clears_a_queue_with_a_scheduled_job(server: bmc.Machine) -> None:
    dell.put_job(server)
    task = task_of(server)
    verify(task, "clear_job_queue")
    assert server.idrac.cleared == ["JID_CLEARALL"]
    assert task.pauses == [idrac.RECOVERY_PAUSE] * idrac.CLEAR_LOOKS


def test_cleaning_clears_the_queue_and_waits_for_two_answers(server: bmc.Machine) -> None:
    task = task_of(server)
    assert start(task, "clear_job_queue") is base.WAIT
    assert poll(task, "clear_job_queue") == idrac.CLEAR_LOOKS
    assert server.idrac.cleared == ["JID_CLEARALL"]
    assert task.recall(idrac.RECOVERY_NOTE) is None


def test_a_silence_after_the_clear_is_waited_for(server: bmc.Machine) -> None:
    task = task_of(server)
    start(task, "clear_job_queue")
    server.silent_for = 5
    assert poll(task, "clear_job_queue") > idrac.CLEAR_LOOKS
    assert server.idrac.cleared == ["JID_CLEARALL"]


def test_a_job_that_runs_needs_force(server: bmc.Machine) -> None:
    job = dell.put_job(server, dell.RUNNING)
    task = task_of(server)
    start(task, "clear_job_queue")
    step = fake_task.step("management.clear_job_queue")
    assert MANAGEMENT.poll_step(task, base.StepKind.CLEAN, step) is base.WAIT
    _expire(task)
    with pytest.raises(errors.StepFailed, match=rf"queue still holds {job} \(Running\), 300 s"):
        MANAGEMENT.poll_step(task, base.StepKind.CLEAN, step)
    assert task.recall(idrac.RECOVERY_NOTE) is None

    start(task, "clear_job_queue", force=True)
    poll(task, "clear_job_queue")
    assert server.idrac.cleared == ["JID_CLEARALL", "JID_CLEARALL_FORCE"]


def test_an_error_names_five_jobs_at_most(server: bmc.Machine) -> None:
    jobs = [dell.put_job(server, "A New State") for _ in range(7)]
    server.idrac.stuck = True
    task = task_of(server)
    start(task, "clear_job_queue")
    _expire(task)
    with pytest.raises(errors.StepFailed) as why:
        poll(task, "clear_job_queue")
    assert jobs[4] in why.value.message
    assert jobs[5] not in why.value.message


def test_nonsense_in_the_queue_is_no_empty_queue(server: bmc.Machine) -> None:
    job = server.tree[f"{dell.jobs_of(server.tree)}/{dell.put_job(server)}"]
    job.update(Id=["JID"], JobState={"a": "b"})
    verify(task_of(server), "clear_job_queue")
    assert server.idrac.cleared == ["JID_CLEARALL"]


def test_force_that_is_not_offered_is_refused(server: bmc.Machine) -> None:
    action = server["DellJobService"]["Actions"]["#DellJobService.DeleteJobQueue"]
    action["JobID@Redfish.AllowableValues"] = ["JID_CLEARALL"]
    with pytest.raises(errors.InvalidParameter, match=r"force: .* not offer JID_CLEARALL_FORCE"):
        start(task_of(server), "clear_job_queue", force=True)
    with pytest.raises(errors.InvalidParameter, match="force"):
        start(task_of(server), "clear_job_queue", force="yes")
    assert server.idrac.cleared == []


def test_an_old_idrac_is_named(server: bmc.Machine, caplog: pytest.LogCaptureFixture) -> None:
    del server.tree[server.places.manager]["Links"]["Oem"]
    sentence = "this BMC offers no Oem/Dell/DellJobService; update the firmware of the iDRAC"
    with pytest.raises(errors.HardwareError, match=sentence):
        start(task_of(server), "clear_job_queue")
    with caplog.at_level(logging.WARNING):
        verify(task_of(server), "clear_job_queue")
    assert f"the verification goes on: {sentence}" in caplog.text


def _expire(task: bmc_tasks.BmcTask) -> None:
    note = task.recall(idrac.RECOVERY_NOTE)
    task.keep(idrac.RECOVERY_NOTE, {**note, "until": clock.stamp() - 1000})


# -- the reset ------------------------------------------------------------------------------------


def test_a_reset_waits_until_the_idrac_is_ready(server: bmc.Machine) -> None:
    server.idrac.lc_status = ["Initializing", "Reloading", "Ready"]
    task = task_of(server)
    assert start(task, "reset_idrac") is base.WAIT
    assert server.idrac.resets == ["Graceful"]
    poll(task, "reset_idrac")
    assert server.idrac.lc_status == ["Ready"]
    assert (server.idrac.resets, server.idrac.cleared) == (["Graceful"], [])


def test_an_idrac_that_does_not_come_back_fails_the_step(server: bmc.Machine) -> None:
    task = task_of(server)
    start(task, "reset_idrac")
    server.silent_for = 10_000
    _expire(task)
    with pytest.raises(errors.StepFailed, match=r"no usable answer of the iDRAC: .* 900 s after"):
        poll(task, "reset_idrac")
    server.silent_for = 0
    server.idrac.lc_status = ["Initializing"]
    start(task, "reset_idrac")
    step = fake_task.step("management.reset_idrac")
    with pytest.raises(errors.StepFailed, match="LCStatus of the iDRAC is Initializing, 900 s"):
        for _ in range(bmc_bases.RESET_LOOKS + 2):
            _expire(task)
            assert MANAGEMENT.poll_step(task, base.StepKind.CLEAN, step) is base.WAIT


def test_an_idrac_without_that_service_is_reset_by_the_standard(server: bmc.Machine) -> None:
    del server.tree[server.places.manager]["Links"]["Oem"]
    task = task_of(server)
    start(task, "reset_idrac")
    poll(task, "reset_idrac")
    assert server.restarts == ["GracefulRestart"]


@pytest.mark.parametrize(
    ("step", "action"), [("reset_idrac", "iDRACReset"), ("clear_job_queue", "DeleteJobQueue")]
)
def test_an_idrac_that_goes_silent_before_it_answers_has_obeyed(
    server: bmc.Machine, step: str, action: str
) -> None:
    server.tricks[f"POST *{action}"] = bmc.hangs_up
    task = task_of(server)
    assert start(task, step) is base.WAIT
    poll(task, step)
    assert sum(action in title for title in server.changes()) == 1


def test_an_order_is_not_lost_on_a_kept_connection(
    server: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bmc.Handler, "protocol_version", "HTTP/1.1")
    known: list[int] = []

    def note(handler: bmc.Handler) -> None:
        known.append(handler.client_address[1])
        handler.truth()

    def hang_up_if_kept(handler: bmc.Handler) -> None:
        kept = handler.client_address[1] in known
        (bmc.hangs_up if kept else bmc.Handler.truth)(handler)

    server.tricks.update({"POST *DeleteJobQueue": hang_up_if_kept, "*": note})
    start(task_of(server), "clear_job_queue")
    transport.KEPT.close()
    assert server.idrac.cleared == ["JID_CLEARALL"]
    assert len(known) > len(set(known))


def test_a_known_good_state_is_a_reset_and_an_empty_queue(server: bmc.Machine) -> None:
    dell.put_job(server)
    task = task_of(server)
    assert start(task, "known_good_state") is base.WAIT
    assert server.idrac.cleared == []
    poll(task, "known_good_state")
    assert (server.idrac.resets, server.idrac.cleared) == (["Graceful"], ["JID_CLEARALL"])


def test_verification_brings_the_known_good_state(server: bmc.Machine) -> None:
    verify(task_of(server), "known_good_state")
    assert (server.idrac.resets, server.idrac.cleared) == (["Graceful"], [])


@pytest.mark.parametrize("verifying", [True, False])
def test_another_conductor_does_not_reset_again(server: bmc.Machine, verifying: bool) -> None:
    task = task_of(server)
    start(task, "known_good_state")
    for sent in (True, False):  # the first conductor died after, or before, it saved the reset
        note = {**task.recall(idrac.RECOVERY_NOTE), "sent": sent, "of_a_later_release": 1}
        task.keep(idrac.RECOVERY_NOTE, note)
        other = _elsewhere(task)
        if verifying:
            verify(other, "known_good_state")
        else:
            assert start(other, "known_good_state") is base.WAIT
            poll(other, "known_good_state")
        assert server.idrac.resets == ["Graceful"]


def test_a_reset_that_was_noted_and_not_sent_is_sent(server: bmc.Machine) -> None:
    task = task_of(server)
    told = server.tree[server.places.manager]["LastResetTime"]
    lost = idrac.Recovery(f"{task.step_id}/reset_idrac", ["reset"], reset_before=told)
    lost.until = clock.stamp() + bmc_bases.RESET_SECONDS
    task.keep(idrac.RECOVERY_NOTE, dataclasses.asdict(lost))
    verify(task, "reset_idrac")
    assert server.idrac.resets == ["Graceful"]


def test_the_note_of_another_step_is_no_progress(server: bmc.Machine) -> None:
    task = task_of(server)
    task.keep(idrac.RECOVERY_NOTE, dataclasses.asdict(idrac.Recovery("other", [], until=1.0)))
    start(task, "reset_idrac")
    assert server.idrac.resets == ["Graceful"]


def test_a_step_on_a_child_node_is_never_a_continued_one(server: bmc.Machine) -> None:
    task = task_of(server, run_uuid=None)
    for _ in range(2):
        assert start(task, "reset_idrac") is base.WAIT
        server.silent_for = 0
    assert server.idrac.resets == ["Graceful", "Graceful"]


def _elsewhere(task: bmc_tasks.BmcTask) -> bmc_tasks.BmcTask:
    other = bmc_tasks.BmcTask(task.node, driver=DRIVER)
    other.notes = dict(task.notes)
    return other


def test_other_steps_are_those_of_redfish(server: bmc.Machine) -> None:
    task = task_of(server)
    assert start(task, "reset_bmc") is base.WAIT
    assert poll(task, "reset_bmc") > 1
    assert server.restarts == ["GracefulRestart"]
    names = {step["step"]: step["priority"] for step in MANAGEMENT.get_verify_steps(task)}
    assert names.items() >= dict.fromkeys(idrac._PHASES, 0).items()


# -- boot from virtual media ----------------------------------------------------------------------

BOOT = idrac.IdracVirtualMediaBoot()


@pytest.mark.parametrize(
    ("device", "persistent", "told"),
    [
        ("cdrom", False, {"once": "Enabled", "device": "VCD-DVD"}),
        ("cdrom", True, {"once": "Disabled", "device": "VCD-DVD"}),
        ("disk", False, {"once": "Enabled", "device": "VFDD"}),
    ],
)
def test_an_old_idrac_imports_its_boot_device(
    server: bmc.Machine, device: str, persistent: bool, told: dict[str, str]
) -> None:
    BOOT.boot_from(task_of(server), device, persistent=persistent)
    assert server.idrac.imports == [{"fqdd": "iDRAC.Embedded.1", **told}]
    assert server.idrac.first_boot == (told["device"], not persistent)
    assert not any(title.startswith("PATCH") for title in server.changes())


@pytest.mark.parametrize(("forced", "once"), [("Always", False), ("Never", True)])
def test_node_decides_how_often_an_old_idrac_boots_its_drive(
    server: bmc.Machine, forced: str, once: bool
) -> None:
    task = task_of(server)
    task.node.driver_info = {**task.node.driver_info, "force_persistent_boot_device": forced}
    BOOT.boot_from(task, "cdrom", persistent=once)
    assert server.idrac.first_boot == ("VCD-DVD", once)


@pytest.mark.parametrize("firmware", ["6.00.30.00", "7.10.30.00"])
def test_an_idrac_that_boots_from_its_virtual_drive_is_told_by_the_standard(
    server: bmc.Machine, firmware: str
) -> None:
    server.tree[server.places.manager]["FirmwareVersion"] = firmware
    BOOT.boot_from(task_of(server), "cdrom", persistent=False)
    assert server.idrac.imports == []
    assert server.tree[server.system]["Boot"]["BootSourceOverrideTarget"] == "Cd"


def test_an_import_waits_while_another_job_runs(server: bmc.Machine) -> None:
    server.idrac.refusals = ["IDRAC.2.8.RAC0679"] * 3
    task = task_of(server)
    BOOT.boot_from(task, "cdrom", persistent=False)
    assert task.pauses[:3] == [idrac.IMPORT_PAUSE] * 3
    assert len(server.idrac.imports) == 1


def test_an_import_is_given_up_after_many_attempts(server: bmc.Machine) -> None:
    server.idrac.refusals = ["IDRAC.2.8.RAC0679"] * 100
    task = task_of(server)
    with pytest.raises(errors.BmcBadAnswer, match="does not take it now"):
        BOOT.boot_from(task, "cdrom", persistent=False)
    assert task.pauses == [idrac.IMPORT_PAUSE] * idrac.IMPORT_TRIES


def test_a_pending_configuration_is_named_with_its_cure(server: bmc.Machine) -> None:
    server.idrac.refusals = ["IDRAC.2.8.LC068"]
    sentence = "a configuration job is pending; run the step management.clear_job_queue"
    with pytest.raises(errors.HardwareError, match=sentence):
        BOOT.boot_from(task_of(server), "cdrom", persistent=False)
    assert (server.sent, server.restarts) == ([], [])


def test_a_job_that_fails_or_takes_too_long_fails_the_boot(server: bmc.Machine) -> None:
    server.idrac.job_fails = "Unable to apply the configuration."
    with pytest.raises(errors.HardwareError, match=r"VCD-DVD \(Exception\): Unable to apply"):
        BOOT.boot_from(task_of(server), "cdrom", persistent=False)
    server.idrac.job_fails, server.idrac.job_seconds = None, 3600
    config.CONF.set_override("boot_device_job_status_timeout", 1, group="drac")
    with pytest.raises(errors.HardwareError, match="did not set the boot device VCD-DVD within 1"):
        BOOT.boot_from(task_of(server), "cdrom", persistent=False)
    config.CONF.clear_override("boot_device_job_status_timeout", group="drac")


def test_an_idrac_that_imports_nothing_is_named(server: bmc.Machine) -> None:
    del server.tree[server.places.manager]["Actions"]["Oem"]
    with pytest.raises(errors.HardwareError, match="offers no ImportSystemConfiguration"):
        BOOT.boot_from(task_of(server), "cdrom", persistent=False)


def test_the_name_of_a_manager_is_quoted_in_the_configuration() -> None:
    told = idrac._boot_configuration('<"&>', "VFDD", once=True)
    assert "<Component FQDD='&lt;\"&amp;&gt;'>" in told


@pytest.mark.parametrize(("model", "names"), [("16G Monolithic", 4), ("17G Monolithic", 1)])
def test_an_idrac_10_uses_the_first_drive_of_the_system(
    server: bmc.Machine, model: str, names: int
) -> None:
    media = f"{server.system}/VirtualMedia"
    server.tree[server.system]["VirtualMedia"] = shapes.link(media)
    paths = [f"{media}/{number}" for number in (1, 2)]
    server.tree[media] = shapes.collection(media, "VirtualMedia", paths)
    for path in paths:
        server.tree[path] = {**server["VirtualMedia/Cd"], "@odata.id": path, "Id": path[-1]}
    server.tree[server.places.manager]["Model"] = model
    found = [drive.path for drive in BOOT.list_drives(task_of(server)) if drive.devices]
    assert (len(found), found[0]) == (names, paths[0])


@pytest.mark.parametrize("full", [True, False])
def test_an_idrac_10_keeps_the_note_of_an_image_in_another_drive(
    server: bmc.Machine, full: bool
) -> None:
    media = f"{server.system}/VirtualMedia"
    server.tree[server.system]["VirtualMedia"] = shapes.link(media)
    paths = [f"{media}/{number}" for number in (1, 2)]
    server.tree[media] = shapes.collection(media, "VirtualMedia", paths)
    for path in paths:
        server.tree[path] = {**server["VirtualMedia/Cd"], "@odata.id": path, "Id": path[-1]}
    if full:
        server.tree[paths[1]] |= {"Image": "http://192.0.2.1/media/a", "Inserted": True}
    server.tree[server.places.manager]["Model"] = "17G Monolithic"
    task = task_of(server)
    note = {"cdrom": {"name": "media/a", "url": "http://192.0.2.1/media/a", "image": "http://h/a"}}
    task.keep(medium.ATTACHED_NOTE, note)
    with pytest.raises(errors.HardwareError, match="does not show it"):  # it shows another drive
        virtual_media.attach_image(task, "cdrom", "http://192.0.2.1/b.iso", BOOT.list_drives(task))
    assert task.recall(medium.ATTACHED_NOTE) == (note if full else None)


# -- inspection -----------------------------------------------------------------------------------

INSPECT = idrac.IdracInspect()
FIRST, SECOND = "12:44:6a:3b:04:01", "12:44:6a:3b:04:02"


def inspected(server: bmc.Machine) -> tuple[bmc_tasks.BmcTask, Json, Json]:
    """Return the task of an inspection, the inventory and the plug-in data."""
    task = task_of(server)
    assert INSPECT.inspect_hardware(task) is base.DONE
    assert task.inventory is not None
    return task, dict(task.inventory[0]), dict(task.inventory[1])


def test_the_serial_number_is_the_service_tag(server: bmc.Machine) -> None:
    assert inspected(server)[1]["system_vendor"]["serial_number"] == "8675309"
    server.tree[server.system]["SKU"] = None
    assert inspected(server)[1]["system_vendor"]["serial_number"] == "2M220100SL"


@pytest.mark.parametrize(
    ("settings", "mode", "ports", "booting"),
    [
        ({}, "UEFI", [FIRST, SECOND], None),
        ({1: ("Disabled", "NIC1-1"), 2: ("Enabled", "NIC1-2")}, "UEFI", [SECOND], SECOND),
        ({2: ("Enabled", "NIC1-2"), 4: ("Enabled", "NIC1-1")}, "UEFI", [FIRST, SECOND], None),
        ({1: ("Disabled", "NIC1-1")}, "UEFI", [FIRST, SECOND], None),
        ({1: ("Enabled", "NIC.Other")}, "UEFI", [FIRST, SECOND], None),
        ({5: ("Enabled", "NIC1-1")}, "UEFI", [FIRST, SECOND], None),
        ({1: ("Enabled", "NIC1-1")}, "Legacy", [FIRST, SECOND], None),
        ({1: ("Enabled", ["NIC1-1"])}, "UEFI", [FIRST, SECOND], None),
    ],
)
def test_only_the_cards_that_the_bios_boots_from_get_ports(
    server: bmc.Machine, settings: Json, mode: str, ports: list[str], booting: str | None
) -> None:
    for number, (state, card) in settings.items():
        told = {f"PxeDev{number}EnDis": state, f"PxeDev{number}Interface": card}
        server.tree[server.places.bios]["Attributes"].update(told)
    server.tree[server.system]["Boot"]["BootSourceOverrideMode"] = mode
    task, inventory, _plugin_data = inspected(server)
    assert sorted(task.added) == ports
    assert inventory["boot"]["pxe_interface"] == booting


def test_all_cards_are_shown_with_what_they_boot(server: bmc.Machine) -> None:
    told = {"PxeDev1EnDis": "Enabled", "PxeDev1Interface": "NIC1-2"}
    server.tree[server.places.bios]["Attributes"].update(told)
    every = inspected(server)[2]["all_interfaces"]
    assert {name: one["pxe_enabled"] for name, one in every.items()} == {
        "NIC1-1": False,
        "NIC1-2": True,
    }


@pytest.mark.parametrize("linked", [True, False])
def test_switches_are_those_of_the_idrac(server: bmc.Machine, linked: bool) -> None:
    if not linked:
        own = server.tree[server.places.manager]["Links"]["Oem"]["Dell"]
        del own["DellSwitchConnectionCollection"]
    assert inspected(server)[2]["parsed_lldp"] == {
        "NIC1-1": {"switch_chassis_id": "b0:4f:13:31:dc:40", "switch_port_id": "swp20"}
    }


def test_without_that_list_switches_are_those_of_the_ports(server: bmc.Machine) -> None:
    server["DellSwitchConnections"]["Members"] = []
    port = server[f"{server.places.chassis}/NetworkAdapters/NIC1/Ports/1"]
    port["Ethernet"] = {"LLDPReceive": {"ChassisId": "00:11:22", "PortId": "Eth1/7"}}
    heard = inspected(server)[2]["parsed_lldp"]
    assert heard == {"1": {"switch_chassis_id": "00:11:22", "switch_port_id": "Eth1/7"}}


@pytest.mark.parametrize("answer", [{}, {"Attributes": []}, {"Attributes": None}, []])
def test_nonsense_of_the_bios_loses_only_itself(server: bmc.Machine, answer: Any) -> None:
    server.tricks[f"GET {server.places.bios}"] = bmc.says(200, answer)
    task, _inventory, _plugin_data = inspected(server)
    assert sorted(task.added) == [FIRST, SECOND]


def test_nonsense_of_the_switches_loses_only_itself() -> None:
    odd: list[Json] = [{}, {"FQDD": 7}, {"FQDD": "A", "SwitchConnectionID": None}, {"FQDD": "B"}]
    assert idrac.parse_switches(odd) == {}
