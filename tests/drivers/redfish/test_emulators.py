"""Our own BMC is what it claims to be: a client that knows nothing of us finds its way."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import sushy
import sushy.auth
import sushy.connector
import sushy.exceptions

from demo import emulator
from tests.emulators import bmc
from tests.emulators.bmc import shapes

GB = shapes.GB


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


def client(machine: bmc.Machine) -> Any:
    return sushy.Sushy(machine.url, auth=sushy.auth.BasicAuth("nobody", ""))


def connector(machine: bmc.Machine) -> Any:
    """Return sushy's HTTP client, which does not repeat what failed."""
    return sushy.connector.Connector(machine.url, server_side_retries=0)


def system_of(machine: bmc.Machine) -> Any:
    return client(machine).get_system(machine.system)


def post(machine: bmc.Machine, path: str, **body: Any) -> Any:
    return connector(machine).post(path, data=body)


def drives(machine: bmc.Machine, count: int) -> dict[str, Any]:
    return {"Drives": machine.tree[machine.places.storage]["Drives"][:count]}


@pytest.mark.parametrize("make", list(shapes.MAKES))
def test_every_link_leads_somewhere(make: str) -> None:
    with bmc.serve(make=make) as machine:
        wanted = {"@odata.id": None}
        seen: set[str] = set()

        def walk(part: Any) -> None:
            if isinstance(part, dict):
                if part.keys() == wanted.keys():
                    seen.add(part["@odata.id"])
                for value in part.values():
                    walk(value)
            for value in part if isinstance(part, list) else ():
                walk(value)

        walk(machine.tree)
        assert {path for path in seen if path not in machine.tree} == set()


# -- volumes --------------------------------------------------------------------------------------


def test_a_volume_made_at_once_is_there_when_its_task_has_ended(machine: bmc.Machine) -> None:
    machine.habits.task_polls = 2
    answer = post(
        machine,
        machine.places.volumes,
        RAIDType="RAID1",
        CapacityBytes=100 * GB,
        Links=drives(machine, 2),
        **{"@Redfish.OperationApplyTime": "Immediate"},
    )
    assert answer.status_code == 202
    monitor = client(machine).get_task_monitor(answer.headers["Location"])
    assert monitor.is_processing
    assert machine["Volumes"]["Members"] == []
    assert monitor.check_is_processing
    assert not monitor.check_is_processing
    storage = system_of(machine).storage.get_members()[0]
    (volume,) = storage.volumes.get_members()
    assert (volume.raid_type, volume.capacity_bytes) == (sushy.RAIDType.RAID1, 100 * GB)
    assert [len(drive.volumes) for drive in storage.drives[:2]] == [1, 1]
    machine.habits.tasks = frozenset()
    assert volume.delete() is None
    assert machine["Volumes"]["Members"] == []
    assert machine["Drives/0"]["Links"]["Volumes"] == []


def test_a_volume_for_the_next_boot_waits_for_it(machine: bmc.Machine) -> None:
    answer = post(
        machine,
        machine.places.volumes,
        RAIDType="RAID5",
        Links=drives(machine, 3),
        **{"@Redfish.OperationApplyTime": "OnReset"},
    )
    monitor = client(machine).get_task_monitor(answer.headers["Location"])
    for _ in range(5):
        assert monitor.check_is_processing
    assert machine.tasks[0].document()["TaskState"] == "Pending"
    system_of(machine).reset_system(sushy.ResetType.ON)
    assert monitor.check_is_processing
    assert not monitor.check_is_processing
    assert machine["Volumes/1"]["CapacityBytes"] == 2 * 1200 * GB


@pytest.mark.parametrize(
    ("count", "body"),
    [
        (2, {"RAIDType": "RAID5"}),
        (2, {"RAIDType": "RAID1", "CapacityBytes": 1201 * GB}),
        (2, {"RAIDType": "RAID9"}),
        (2, {"RAIDType": "RAID1", "@Redfish.OperationApplyTime": "Tomorrow"}),
    ],
)
def test_a_volume_that_cannot_be_is_refused(
    machine: bmc.Machine, count: int, body: dict[str, Any]
) -> None:
    with pytest.raises(sushy.exceptions.BadRequestError):
        post(machine, machine.places.volumes, Links=drives(machine, count), **body)
    assert machine.tasks == []


def test_two_volumes_share_the_room_of_their_drives(machine: bmc.Machine) -> None:
    machine.habits.tasks = frozenset()
    for size in (1000, 200):
        body = {"CapacityBytes": size * GB, "Links": drives(machine, 2)}
        post(machine, machine.places.volumes, RAIDType="RAID1", **body)
    with pytest.raises(sushy.exceptions.BadRequestError, match="room for 0 bytes"):
        post(
            machine,
            machine.places.volumes,
            RAIDType="RAID1",
            CapacityBytes=GB,
            Links=drives(machine, 2),
        )


# -- tasks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "status"), [("task", 200), ("operation", 204), ("gone", None)], ids=str
)
def test_a_monitor_ends_as_its_maker_likes(
    machine: bmc.Machine, end: str, status: int | None
) -> None:
    machine.habits.monitor_end = end
    update = client(machine).get_update_service()
    update.simple_update("http://192.0.2.1/BIOS-2.0.bin")
    machine.finish_tasks()
    http = connector(machine)
    if status is None:
        with pytest.raises(sushy.exceptions.ResourceNotFoundError):
            http.get(machine.tasks[0].monitor)
    else:
        assert http.get(machine.tasks[0].monitor).status_code == status
    assert machine["FirmwareInventory/BIOS"]["Version"] == "2.0"
    assert system_of(machine).bios_version == "2.0"


def test_a_task_that_fails_says_why_and_changes_nothing(machine: bmc.Machine) -> None:
    machine.habits.task_fails = "The image is not signed."
    update = client(machine).get_update_service()
    update.simple_update("http://192.0.2.1/nic1-9.9.bin")
    machine.finish_tasks()
    task = client(machine).get_task_monitor(machine.tasks[0].monitor).get_task()
    assert task.task_state is sushy.TaskState.EXCEPTION
    assert [entry.message for entry in task.messages] == ["The image is not signed."]
    assert machine["FirmwareInventory/NIC1"]["Version"] == shapes.FIRMWARE["NIC1"]


def test_firmware_of_the_bmc_makes_it_silent_for_a_while(machine: bmc.Machine) -> None:
    client(machine).get_update_service().simple_update("http://192.0.2.1/bmc-3.0.bin")
    machine.finish_tasks()
    for _ in range(machine.habits.restart_requests):
        with pytest.raises(sushy.exceptions.ServerSideError, match="503"):
            connector(machine).get("/redfish/v1")
    manager = client(machine).get_manager(machine.places.manager)
    assert manager.firmware_version == "3.0"


# -- BIOS settings --------------------------------------------------------------------------------


def test_settings_wait_for_the_next_boot(machine: bmc.Machine) -> None:
    bios = system_of(machine).bios
    bios.set_attributes({"ProcTurboMode": "Disabled"}, apply_time=sushy.ApplyTime.ON_RESET)
    assert bios.pending_attributes == {"ProcTurboMode": "Disabled"}
    assert machine["Bios"]["Attributes"]["ProcTurboMode"] == "Enabled"
    system_of(machine).reset_system(sushy.ResetType.ON)
    assert machine["Bios"]["Attributes"]["ProcTurboMode"] == "Disabled"
    assert machine["Bios/Settings"]["Attributes"] == {}
    bios.reset_bios()
    system_of(machine).reset_system(sushy.ResetType.FORCE_RESTART)
    assert machine["Bios"]["Attributes"] == shapes.DEFAULTS


@pytest.mark.parametrize(
    "wanted",
    [
        {"ProcTurboMode": "Sometimes"},
        {"SystemSerialNumber": "1"},
        {"NoSuch": 1},
        {"SriovEnabled": "true"},
        {"NumberOfCores": 25},
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(machine: bmc.Machine, wanted: dict[str, Any]) -> None:
    with pytest.raises(sushy.exceptions.BadRequestError):
        system_of(machine).bios.set_attributes(wanted)
    assert machine["Bios/Settings"]["Attributes"] == {}


def test_the_registry_of_settings_is_found(machine: bmc.Machine) -> None:
    entries = system_of(machine).bios.get_attribute_registry().registry_entries.attributes
    found = {entry.name: entry for entry in entries}
    assert found.keys() == shapes.DEFAULTS.keys()
    assert found["SystemSerialNumber"].read_only
    assert found["NumberOfCores"].upper_bound == 24


# -- power and boot -------------------------------------------------------------------------------


def test_a_power_change_may_take_some_looks(machine: bmc.Machine) -> None:
    machine.habits.power_polls = 2
    system = system_of(machine)
    system.set_system_boot_options(
        sushy.BootSource.PXE, enabled=sushy.BootSourceOverrideEnabled.ONCE
    )
    system.reset_system(sushy.ResetType.ON)
    seen = []
    for _ in range(3):
        system.refresh(force=True)
        seen.append(system.json["PowerState"])
    assert seen == ["PoweringOn", "PoweringOn", "On"]
    assert machine.booted == ["Pxe"]
    assert system.boot.enabled is sushy.BootSourceOverrideEnabled.DISABLED


def test_media_go_in_and_out(machine: bmc.Machine) -> None:
    (medium, _) = client(machine).get_manager(machine.places.manager).virtual_media.get_members()
    medium.insert_media("http://192.0.2.1/a.iso")
    assert machine["VirtualMedia/Cd"]["Image"] == "http://192.0.2.1/a.iso"
    medium.eject_media()
    assert not machine["VirtualMedia/Cd"]["Inserted"]


# -- sessions -------------------------------------------------------------------------------------


def test_a_session_runs_out_and_there_are_so_many() -> None:
    with bmc.serve(users={"root": "secret"}) as machine:
        machine.habits.session_limit = 2
        for _ in range(2):
            post_session(machine, "secret")
        with pytest.raises(sushy.exceptions.ServerSideError, match="too many"):
            post_session(machine, "secret")
        with pytest.raises(sushy.exceptions.AccessError):
            post_session(machine, "wrong")
        machine.habits.session_seconds = 0
        token = post_session(machine, "secret").headers["X-Auth-Token"]
        assert list(machine.sessions) == [token]
        assert len(machine["Sessions"]["Members"]) == 1


def post_session(machine: bmc.Machine, password: str) -> Any:
    body = {"UserName": "root", "Password": password}
    return connector(machine).post(machine.places.sessions, data=body)


# -- what it is made of ---------------------------------------------------------------------------


def test_a_client_finds_all_parts(machine: bmc.Machine) -> None:
    system = system_of(machine)
    assert system.processors.summary == (32, sushy.ProcessorArchitecture.X86)
    assert system.memory_summary.size_gib == 96
    macs = ["12:44:6A:3B:04:01", "12:44:6A:3B:04:02"]
    assert list(system.ethernet_interfaces.summary) == macs
    assert system.simple_storage.max_size_bytes == 8000 * GB
    (chassis,) = system.chassis
    (card,) = chassis.network_adapters.get_members()
    assert card.controllers[0].firmware_package_version == shapes.FIRMWARE["NIC1"]
    functions = card.network_device_functions.get_members()
    assert [one.ethernet.mac_address for one in functions] == macs
    assert len(system.pcie_devices.get_members()[0].pcie_functions.get_members()) == 2


@pytest.mark.parametrize("expands", [True, False])
def test_a_collection_may_come_whole(machine: bmc.Machine, expands: bool) -> None:
    machine.habits.expands = expands
    root = connector(machine).get("/redfish/v1").json()
    assert ("ProtocolFeaturesSupported" in root) is expands
    found = connector(machine).get(f"{machine.system}/Memory?$expand=.($levels=1)").json()
    assert ["CapacityMiB" in one for one in found["Members"]] == [expands] * 4
    assert found["Members@odata.count"] == 4


def test_a_client_reads_all_sensors(machine: bmc.Machine) -> None:
    (chassis,) = system_of(machine).chassis
    temperatures = [one.reading_celsius for one in chassis.thermal.temperatures]
    assert temperatures == [41, 25]
    assert [one.reading for one in chassis.thermal.fans] == [2100, 2101]
    assert [one.power_capacity_watts for one in chassis.power.power_supplies] == [800, 800]


def test_the_leds_can_be_lit_and_nothing_else_be_written(machine: bmc.Machine) -> None:
    system = system_of(machine)
    system.set_indicator_led(sushy.IndicatorLED.LIT)
    assert machine[machine.system]["IndicatorLED"] == "Lit"
    with pytest.raises(sushy.exceptions.BadRequestError, match="read-only"):
        connector(machine).patch(machine.system, data={"PowerState": "On"})
    with pytest.raises(sushy.exceptions.HTTPError, match="412"):
        connector(machine).patch(
            machine.system, data={"AssetTag": "1"}, headers={"If-Match": '"0"'}
        )


def test_secure_boot_is_true_from_the_next_boot_on(machine: bmc.Machine) -> None:
    secure = system_of(machine).secure_boot
    secure.set_enabled(True)
    assert machine["SecureBoot"]["SecureBootCurrentBoot"] == "Disabled"
    system_of(machine).reset_system(sushy.ResetType.ON)
    assert machine["SecureBoot"]["SecureBootCurrentBoot"] == "Enabled"


def test_an_interrupt_is_counted(machine: bmc.Machine) -> None:
    system_of(machine).reset_system(sushy.ResetType.NMI)
    assert (machine.nmis, machine.sent) == (1, ["Nmi"])


# The emulator's launcher: it starts, says why if it cannot, and never outlives its parent.

PARENT = """
import os
from demo import emulator
running = emulator.Emulator(folder=__import__("pathlib").Path(os.environ["FOLDER"])).start()
print(running.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")


def test_emulator_removes_its_files_when_stopped() -> None:
    running = emulator.Emulator(count=2).start()
    pid, folder = running.pid, running.folder
    assert pid
    assert folder
    assert [machine.name for machine in running.machines] == ["machine-0", "machine-1"]
    running.stop()
    running.stop()
    assert not is_there(pid)
    assert not folder.exists()


def test_emulator_ends_when_its_parent_is_killed(tmp_path: pathlib.Path) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", PARENT],
        env={**os.environ, "FOLDER": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    pid = int(parent.stdout)
    end = time.monotonic() + 10
    while is_there(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_there(pid)


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(emulator.EmulatorError, match=f"Port {port} of .* is taken"):
            emulator.Emulator(port=port).start()


def test_emulator_that_does_not_start_reports_its_output(tmp_path: pathlib.Path) -> None:
    with pytest.raises(emulator.EmulatorError, match=r"(?s)does not start.*no-such-file"):
        emulator.Emulator(auth_file=tmp_path / "no-such-file").start()


def test_without_sushy_tools_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(emulator.EmulatorError, match="pip install sushy-tools"):
        emulator.find()
