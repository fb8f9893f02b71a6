"""Inspection of machines by their BMCs: whole ones, odd ones, broken ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers.redfish import inspect
from tests.emulators import bmc
from tests.emulators.bmc import inventory as shown
from tests.emulators.bmc import volumes
from tests.support import bmc_tasks
from tests.support.bmc_tasks import BmcTask, task_of

Json = dict[str, Any]
A, B = "12:44:6a:3b:04:01", "12:44:6a:3b:04:02"
FOUND = {
    "memory_mb": 98304,
    "cpu_arch": "x86_64",
    "cpus": 32,
    "local_gb": 1116,
    "capabilities": "boot_mode:uefi",
}


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


def inspected(machine: bmc.Machine, **properties: Any) -> BmcTask:
    task = task_of(machine)
    task.node.properties = properties
    inspect.RedfishInspect().inspect_hardware(task)
    return task


def inventory(task: BmcTask) -> Json:
    assert task.inventory is not None
    return dict(task.inventory[0])


def plugin_data(task: BmcTask) -> Json:
    assert task.inventory is not None
    return dict(task.inventory[1])


def fails(machine: bmc.Machine, *words: str, **properties: Any) -> None:
    """Inspect a machine in vain: the reason has these words, and nothing is changed."""
    task = task_of(machine)
    task.node.properties = dict(properties)
    with pytest.raises(errors.HardwareError) as caught:
        inspect.RedfishInspect().inspect_hardware(task)
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
    assert (task.node.properties, task.added, task.inventory) == (properties, [], None)


def forget(machine: bmc.Machine, end: str, *names: str) -> None:
    document = machine[end]
    for name in names:
        del document[name]


# -- what is found ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", ["contoso", "dell", "hpe", "lenovo", "supermicro"])
@pytest.mark.parametrize("expands", [False, True], ids=["one by one", "whole collections"])
def test_machines_of_all_makes_are_told_alike(make: str, expands: bool) -> None:
    with bmc.serve(make=make, users={"root": "secret"}) as machine:
        machine.habits.expands = expands
        task = inspected(machine)
        assert FOUND.items() <= task.node.properties.items()
        assert task.node.properties["vendor"] == machine.places.make.manufacturer
        assert task.added == [A, B]
        found = inventory(task)
        assert set(found) >= {"interfaces", "cpu", "disks", "memory", "system_vendor", "boot"}
        assert (len(found["disks"]), len(found["pci_devices"])) == (6, 2)
        assert found["bmc_address"] == "127.0.0.1"
        assert found["system_vendor"]["firmware"] == {"version": "P79 v1.45"}
        assert plugin_data(task)["macs"] == [A, B]
        assert (machine.changes(), "faults" in plugin_data(task)) == ([], False)


def test_properties_of_the_operator_stay_unless_the_bmc_reports_them(machine: bmc.Machine) -> None:
    kept = {"capabilities": "boot_mode:bios,rack:7", "room": "7"}
    task = inspected(machine, memory_mb=1, **kept)
    assert task.node.properties == {**FOUND, **kept, "vendor": "Contoso"}


def test_volumes_and_names_are_told(machine: bmc.Machine) -> None:
    drives = machine[machine.places.storage]["Drives"][:3]
    volumes.put(machine, "RAID5", 500 * 1024**3, drives)
    machine[machine.system]["HostName"] = "metal-7"
    task = inspected(machine)
    (controller,) = inventory(task)["storage_controllers"]
    assert [one["size"] for one in controller["volumes"]] == [500 * 1024**3]
    assert len(controller["drives"]) == 6
    (one,) = controller["volumes"]
    serials = [machine.tree[drive["@odata.id"]]["SerialNumber"] for drive in drives]
    assert [member["serial"] for member in one["members"]] == serials
    assert (task.node.properties["local_gb"], inventory(task)["hostname"]) == (499, "metal-7")


def test_switches_that_are_heard_are_told(machine: bmc.Machine) -> None:
    port = machine["NetworkAdapters/NIC1/Ports/2"]
    port["Ethernet"] = {"LLDPReceive": {"ChassisId": "00:11:22", "PortId": "Eth1/7"}}
    heard = plugin_data(inspected(machine))["parsed_lldp"]
    assert heard == {"2": {"switch_chassis_id": "00:11:22", "switch_port_id": "Eth1/7"}}


def test_cards_are_found_at_their_adapters_too(machine: bmc.Machine) -> None:
    forget(machine, machine.system, "EthernetInterfaces")
    task = inspected(machine)
    assert task.added == [A, B]
    assert [one["name"] for one in inventory(task)["interfaces"]] == ["NIC1-1", "NIC1-2"]


@pytest.mark.parametrize("listed", [True, False], ids=["cards", "no cards"])
@pytest.mark.parametrize(
    "source", ["PermanentMACAddress", "NetworkDeviceFunctions", "Ports", "NetworkPorts"]
)
def test_addresses_of_cards_are_taken_from_the_next_source(
    machine: bmc.Machine, source: str, listed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    shown.keep_macs_in(machine.tree, machine.places, source)
    if not listed and source != "PermanentMACAddress":
        forget(machine, machine.system, "EthernetInterfaces")
    task = inspected(machine)
    assert task.added == [A, B]
    assert [one["mac_address"] for one in inventory(task)["interfaces"]] == [A, B]
    assert "no possible MAC address" not in caplog.text


@pytest.mark.parametrize("nothing", ["00:00:00:00:00:00", "01:00:5E:00:00:01", "N/A", "", None])
def test_card_without_an_address_gets_that_of_its_adapter(
    machine: bmc.Machine, nothing: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    card = {"MACAddress": nothing, "PermanentMACAddress": nothing}
    machine["EthernetInterfaces/NIC1-2"].update(card)
    assert inspected(machine).added == [A, B]
    assert caplog.text == ""
    machine["NetworkDeviceFunctions/NIC1-2"]["Ethernet"] = card
    assert inspected(machine).added == [A]
    assert "EthernetInterfaces: the BMC reports no possible MAC address of NIC1-2" in caplog.text


def test_cards_without_any_address_are_named_in_the_refusal(machine: bmc.Machine) -> None:
    shown.keep_macs_in(machine.tree, machine.places, "nothing")
    fails(machine, "no network interface", "no possible MAC address of NIC1-1, NIC1-2.")
    forget(machine, machine.system, "EthernetInterfaces")
    fails(machine, "no network interface", "NetworkAdapters: ", "no possible MAC address of NIC1.")


def test_adapters_of_a_system_without_a_chassis_are_found(machine: bmc.Machine) -> None:
    """The lists of its NetworkInterfaces lead to the same documents."""
    adapter = machine["NetworkAdapters/NIC1"]
    machine["NetworkInterfaces/NIC1"]["Ports"] = adapter["Ports"]
    shown.keep_macs_in(machine.tree, machine.places, "Ports")
    forget(machine, machine.places.chassis, "NetworkAdapters")
    assert inspected(machine).added == [A, B]


def test_a_bmc_that_has_a_name_tells_its_address_itself(machine: bmc.Machine) -> None:
    card = {"Id": "1", "IPv4Addresses": [{"Address": "192.0.2.9"}], "IPv6Addresses": []}
    path = f"{machine.places.manager}/EthernetInterfaces"
    machine.tree[path] = {"Members": [{"@odata.id": f"{path}/1"}]}
    machine.tree[f"{path}/1"] = card
    machine[machine.places.manager]["EthernetInterfaces"] = {"@odata.id": path}
    task = task_of(machine, redfish_address=machine.url.replace("127.0.0.1", "localhost"))
    inspect.RedfishInspect().inspect_hardware(task)
    assert inventory(task)["bmc_address"] == "192.0.2.9"


def test_hooks_are_those_that_were_chosen(machine: bmc.Machine) -> None:
    machine[machine.system].pop("EthernetInterfaces")
    machine[machine.places.chassis].pop("NetworkAdapters")
    fails(machine, "no network interface")
    config.CONF.set_override("inspection_hooks", ["cpus"], group="redfish")
    try:
        task = inspected(machine)
    finally:
        config.CONF.clear_override("inspection_hooks", group="redfish")
    assert (task.added, plugin_data(task)) == ([], {})
    assert FOUND.items() <= task.node.properties.items()


# -- what is not told ------------------------------------------------------------------------


def test_a_machine_that_is_off_is_inspected_and_stays_off(machine: bmc.Machine) -> None:
    machine[machine.system]["PowerState"] = "Off"
    inspected(machine)
    assert machine[machine.system]["PowerState"] == "Off"


def test_cards_that_are_disabled_because_the_machine_is_off_become_ports(
    machine: bmc.Machine,
) -> None:
    forget(machine, machine.places.chassis, "NetworkAdapters")
    for entry in machine["EthernetInterfaces"]["Members"]:
        machine.tree[entry["@odata.id"]]["Status"] = {"State": "Disabled"}
    assert inspected(machine).added == [A, B]


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (("MemorySummary", "Memory"), "memory_mb"),
        (("Processors",), "cpu_arch"),
        (("Processors", "MemorySummary", "Memory"), "memory_mb, cpu_arch"),
    ],
    ids=["memory", "processors", "both"],
)
def test_missing_property_is_named(
    machine: bmc.Machine, names: tuple[str, ...], missing: str
) -> None:
    forget(machine, machine.system, *names)
    fails(machine, f"does not report {missing}.", "node's properties")
    known = {"memory_mb": 1024, "cpu_arch": "aarch64"}
    task = inspected(machine, **known)
    wanted = {name: known[name] for name in missing.split(", ")}
    assert wanted.items() <= task.node.properties.items()


def test_modules_tell_of_memory_without_a_summary(machine: bmc.Machine) -> None:
    forget(machine, machine.system, "MemorySummary")
    assert inspected(machine).node.properties["memory_mb"] == 4 * 24 * 1024


def test_a_machine_without_disks_has_none(
    machine: bmc.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    forget(machine, machine.system, "Storage", "SimpleStorage")
    task = inspected(machine)
    assert (task.node.properties["local_gb"], inventory(task)["disks"]) == (0, [])
    assert "shows no disk" in caplog.text
    assert inspected(machine, local_gb=70).node.properties["local_gb"] == 70


@pytest.mark.parametrize("broken", ["Storage", "SimpleStorage"])
def test_disks_that_cannot_be_read_are_not_none(machine: bmc.Machine, broken: str) -> None:
    forget(machine, machine.system, "SimpleStorage" if broken == "Storage" else "Storage")
    machine.tricks[f"GET {machine.system}/{broken}"] = bmc.says(500)
    fails(machine, "does not report local_gb", f"could not be read: {broken}", "500")
    assert inspected(machine, local_gb=70).node.properties["local_gb"] == 70


SPOILS: dict[str, Callable[[bmc.Machine], Any]] = {
    "answers 500 for a card": lambda m: m.tricks.update(
        {f"GET {m.system}/PCIeDevices*": bmc.says(500), f"GET {m.places.chassis}/*": bmc.says(500)}
    ),
    "gives half a document": lambda m: m.tricks.update(
        {f"GET {m.places.chassis}/NetworkAdapters": bmc.cuts_short}
    ),
    "speaks HTML": lambda m: m.tricks.update(
        {f"GET {m.places.chassis}/NetworkAdapters": bmc.speaks_html}
    ),
    "wants a licence": lambda m: m.tricks.update(
        {f"GET {m.places.chassis}/NetworkAdapters": bmc.says(403)}
    ),
    "leads to nothing": lambda m: m.tricks.update(
        {f"GET {m.places.chassis}/NetworkAdapters": bmc.says(404)}
    ),
    "has a list for a link": lambda m: m[m.places.chassis].update(NetworkAdapters=[]),
    "has null members": lambda m: m["NetworkAdapters"].update(Members=None),
    "has odd members": lambda m: m["NetworkAdapters"].update(Members=[None, 7, {}, "x"]),
    "has null everywhere": lambda m: m["CPU1"].update(
        Status=None, MaxSpeedMHz=None, ProcessorId=None, Model=None
    ),
    "has texts for numbers": lambda m: m[m.system]["MemorySummary"].update(
        TotalSystemMemoryGiB="96"
    ),
}


@pytest.mark.parametrize("spoilt", SPOILS)
def test_one_bad_part_costs_no_inspection(machine: bmc.Machine, spoilt: str) -> None:
    SPOILS[spoilt](machine)
    task = inspected(machine)
    assert FOUND.items() <= task.node.properties.items()
    assert task.added == [A, B]
    broken = {"answers", "gives", "speaks", "wants"}
    assert ("faults" in plugin_data(task)) is (spoilt.partition(" ")[0] in broken)


def test_one_bad_document_does_not_hide_the_next(machine: bmc.Machine) -> None:
    first, second = (one["@odata.id"] for one in machine["EthernetInterfaces"]["Members"])
    machine.tricks[f"GET {first}"] = bmc.says(500)
    task = inspected(machine)
    assert task.added == [B]
    (fault,) = plugin_data(task)["faults"]
    assert fault.startswith("EthernetInterfaces: ") and "500" in fault
    assert f"GET {second}" in machine.log


UNREADABLE = {
    "503": bmc.says(503),
    "503 with a pause": bmc.says(503, Retry_After="1000"),
    "429": bmc.says(429),
    "silent": bmc.silent,
    "null": bmc.says(200, b"null"),
    "empty": bmc.says(200, b""),
    "closed": bmc.hangs_up,
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_drive_that_cannot_be_read_loses_only_itself(machine: bmc.Machine, name: str) -> None:
    if name == "silent":
        bmc_tasks.wait_for_answers(1)
    drives = [one["@odata.id"] for one in machine[machine.places.storage]["Drives"]]
    machine.tricks[f"GET {drives[1]}"] = UNREADABLE[name]
    task = inspected(machine, local_gb=70)
    assert len(inventory(task)["disks"]) == len(drives) - 1
    (fault,) = plugin_data(task)["faults"]
    assert fault.startswith("Drives: ")


def test_expanded_collection_that_hangs_is_read_without_and_not_tried_again(
    machine: bmc.Machine,
) -> None:
    bmc_tasks.wait_for_answers(1)
    machine.habits.expands = True
    machine.tricks["GET *expand*"] = bmc.silent
    task = inspected(machine)
    assert FOUND.items() <= task.node.properties.items()
    assert (task.added, "faults" in plugin_data(task)) == ([A, B], False)
    assert len([title for title in machine.log if "expand" in title]) == 1


@pytest.mark.parametrize("members", [None, [{}], [None], [{"error": {}}]], ids=repr)
def test_expanded_collection_without_its_members_is_read_without(
    machine: bmc.Machine, members: Any
) -> None:
    machine.habits.expands = True
    machine.tricks["GET *expand*"] = bmc.says(200, {"Members": members})
    assert inspected(machine).added == [A, B]


def test_a_list_of_bad_documents_is_left_after_some(machine: bmc.Machine) -> None:
    drives = [one["@odata.id"] for one in machine[machine.places.storage]["Drives"]]
    machine.tricks.update({f"GET {path}": bmc.says(500) for path in drives})
    task = inspected(machine, local_gb=70)
    assert {path for path in drives if f"GET {path}" in machine.log} == set(
        drives[: inspect.MOST_FAILURES]
    )
    assert len(plugin_data(task)["faults"]) == 1  # the same is said once


def silences(machine: bmc.Machine, title: str) -> None:
    """Let a request have no answer."""
    bmc_tasks.wait_for_answers(1)
    machine.tricks[title] = bmc.silent


def falls_silent(machine: bmc.Machine) -> None:
    """Answer no request from the first one about processors on."""

    def fall_silent(handler: bmc.Handler) -> None:
        machine.tricks["*"] = bmc.silent
        bmc.silent(handler)

    silences(machine, "GET nothing")
    machine.tricks[f"GET {machine.system}/Processors"] = fall_silent


TROUBLES: dict[str, tuple[Callable[[bmc.Machine], Any], tuple[str, ...]]] = {
    "is broken": (lambda m: m.tricks.update({"GET *": bmc.says(500)}), ("500",)),
    "breaks in the middle": (
        lambda m: m.tricks.update({f"GET {m.system}/*": bmc.says(500)}),
        ("does not report local_gb, cpu_arch", "Processors:", "500"),
    ),
    "falls silent for one part": (
        lambda m: silences(m, f"GET {m.system}/Processors"),
        ("does not report cpu_arch", "Processors:", "no complete answer within 1 s"),
    ),
    "falls silent in the middle": (falls_silent, ("Cannot reach the BMC",)),
    "refuses in the middle": (
        lambda m: m.tricks.update({f"GET {m.system}*": bmc.says(401)}),
        ("requires a login", "401"),
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_bmc_in_trouble_fails_the_inspection(machine: bmc.Machine, trouble: str) -> None:
    spoil, words = TROUBLES[trouble]
    spoil(machine)
    fails(machine, *words)


def test_a_bmc_that_leads_on_for_ever_is_left(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect, "MOST_DOCUMENTS", 20)
    members = machine[f"{machine.system}/Processors"]["Members"]
    machine[f"{machine.system}/Processors"]["Members"] = members * 100
    before = len(machine.log)
    fails(machine, "lists more than 20 parts")
    assert len(machine.log) - before < 40


def test_bmc_whose_parts_take_too_much_memory_is_left(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these documents is small on the wire, and takes 24 MiB once it is read."""
    monkeypatch.setattr(inspect, "MOST_BYTES", 64 * 1024 * 1024)
    body = b'{"Id": "1", "Oem": [' + b'{"a":1},' * 100_000 + b"{}]}"
    path = f"{machine.system}/Processors"
    machine.tree[path]["Members"] = [{"@odata.id": f"{path}/{number}"} for number in range(20)]
    machine.tricks[f"GET {path}/*"] = lambda handler: handler.say(200, body)
    fails(machine, "its parts take more than 64 MiB of memory")
    assert len([title for title in machine.log if f"{path}/" in title]) == 3


def inspect_with_architecture(machine: bmc.Machine) -> None:
    """Inspect a machine whose processors need not say what they are."""
    task = task_of(machine)
    task.node.properties = {"cpu_arch": "x86_64"}
    inspect.RedfishInspect().inspect_hardware(task)


def test_large_machines_leave_memory_to_the_others(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One owner may have many machines that list as much as each of them may."""
    monkeypatch.setattr(inspect, "FREE_BYTES", 16 * 1024 * 1024)
    monkeypatch.setattr(inspect, "MOST_TOGETHER", 64 * 1024 * 1024)
    body = b'{"Id": "1", "Oem": [' + b'{"a":1},' * 100_000 + b"{}]}"
    path = f"{machine.system}/Processors"
    members = [{"@odata.id": f"{path}/{number}"} for number in range(3)]
    machine.tree[path]["Members"] = members
    machine.tricks[f"GET {path}/*"] = lambda handler: handler.say(200, body)
    with inspect.Survey(task_of(machine)) as first:
        first.take()
        fails(machine, "those of other machines take the memory for them; retry later")
        machine.tree[path]["Members"] = []
        inspect_with_architecture(machine)
    machine.tree[path]["Members"] = members
    inspect_with_architecture(machine)


def test_a_bmc_that_takes_for_ever_is_left(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect, "SURVEY_SECONDS", -1.0)
    fails(machine, "took more than")


def test_a_service_that_stops_does_not_wait_for_the_end(
    machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(task: BmcTask, seconds: float) -> None:
        raise errors.Stopping(host="here")

    monkeypatch.setattr(BmcTask, "pause", stop)
    task = task_of(machine)
    with pytest.raises(errors.Stopping):
        inspect.RedfishInspect().inspect_hardware(task)
    assert (task.node.properties, task.added, task.inventory) == ({}, [], None)


def test_the_emulator_tells_little_and_the_rest_may_be_known(emulated: BmcTask) -> None:
    with pytest.raises(errors.HardwareError, match="memory_mb, local_gb, cpu_arch"):
        inspect.RedfishInspect().inspect_hardware(emulated)
    assert emulated.added == []
    emulated.node.properties = {"memory_mb": 1024, "local_gb": 10, "cpu_arch": "x86_64"}
    inspect.RedfishInspect().inspect_hardware(emulated)
    assert [address[:6] for address in emulated.added] == ["52:54:"]
    assert emulated.node.properties["vendor"] == "Sushy Emulator"
    assert inventory(emulated)["boot"]["current_boot_mode"] == "uefi"


# Parts of machines, out of documents as DMTF's schemas have them, and as BMCs spoil them.

GIB = 1024**3
CPU: Json = {
    "ProcessorType": "CPU",
    "InstructionSet": "x86-64",
    "Model": "Xeon",
    "MaxSpeedMHz": 3700,
    "TotalCores": 8,
    "TotalThreads": 16,
}
DRIVE: Json = {
    "Id": "0",
    "Name": "Drive 0",
    "CapacityBytes": 1000 * GIB,
    "MediaType": "SSD",
    "Model": "C123",
    "Manufacturer": "Drives Ltd",
    "SerialNumber": "SN1",
    "Identifiers": [{"DurableName": "5000C50000000001", "DurableNameFormat": "NAA"}],
}
CARD: Json = {"Id": "NIC1", "MACAddress": "52:54:00:00:00:0A", "SpeedMbps": 10000}
ABSENT: Json = {"Status": {"State": "Absent"}}


# -- processors and memory -------------------------------------------------------------------


def test_processors_are_counted_by_their_threads() -> None:
    found = inspect.parse_cpu({}, [CPU, CPU, {**CPU, **ABSENT}, {**CPU, "ProcessorType": "GPU"}])
    assert found == {
        "count": 32,
        "architecture": "x86_64",
        "model_name": "Xeon",
        "frequency": 3700,
    }


@pytest.mark.parametrize(
    ("summary", "processors", "count"),
    [
        ({}, [{**CPU, "TotalThreads": "16"}], 16),
        ({}, [CPU, {**CPU, "TotalThreads": None}], 16),
        ({"LogicalProcessorCount": 64, "Count": 2}, [], 64),
        ({"CoreCount": 32, "Count": 2}, [{"TotalCores": "many"}], 32),
        ({"Count": 2}, [], 2),
        ({"Count": -1}, [], None),
    ],
    ids=str,
)
def test_processors_are_counted_by_what_is_told(
    summary: Json, processors: list[Json], count: int | None
) -> None:
    assert inspect.parse_cpu({"ProcessorSummary": summary}, processors).get("count") == count


@pytest.mark.parametrize(
    ("word", "name"),
    [("x86-64", "x86_64"), ("x86", "i686"), ("ARM-A64", "aarch64"), ("OEM", None), (None, None)],
)
def test_architectures_have_the_names_of_images(word: str | None, name: str | None) -> None:
    assert inspect.parse_cpu({}, [{"InstructionSet": word}]).get("architecture") == name


@pytest.mark.parametrize(
    ("word", "name"), [("x86", "x86_64"), ("ARM", "aarch64"), ("Power", None), (None, None)]
)
def test_the_architecture_of_a_dgx_without_instruction_set_is_found(
    word: str | None, name: str | None
) -> None:
    processor = {"InstructionSet": None, "ProcessorArchitecture": word, "ProcessorType": "CPU"}
    assert inspect.parse_cpu({}, [processor]).get("architecture") == name


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("AMD EPYC 7763 64-Core Processor", "x86_64"),
        ("Intel(R) Xeon(R) Gold 6354 CPU @ 3.00GHz", "x86_64"),
        ("ARMv9", "aarch64"),
        ("Grace A02", "aarch64"),
        ("Multi-Core Processor", None),
        (None, None),
    ],
)
def test_the_model_tells_the_architecture_if_nothing_else_does(
    model: str | None, name: str | None
) -> None:
    assert inspect.parse_cpu({}, [{"Model": model}]).get("architecture") == name
    summary = {"ProcessorSummary": {"Model": model}}
    assert inspect.parse_cpu(summary, [{"Id": "CPU_0"}]).get("architecture") == name
    assert (
        inspect.parse_cpu({}, [{"Model": model, "InstructionSet": "RV64"}])["architecture"]
        == "riscv64"
    )


@pytest.mark.parametrize(
    ("size", "modules", "megabytes"),
    [
        (96, [], 98304),
        (0.5, [], 512),
        ("32", [], 32768),
        (None, [{"CapacityMiB": 1024}, {"CapacityMiB": 512, **ABSENT}, {}], 1024),
        (0, [{"CapacityMiB": 1024}], 1024),
    ],
    ids=str,
)
def test_memory_is_that_of_the_summary_or_of_the_modules(
    size: Any, modules: list[Json], megabytes: int
) -> None:
    system = {"MemorySummary": {"TotalSystemMemoryGiB": size}}
    found = {"physical_mb": megabytes, "total": megabytes * 1024**2}
    assert inspect.parse_memory(system, modules) == found


def test_memory_that_is_not_told_is_none() -> None:
    assert inspect.parse_memory({}, []) == {}
    assert inspect.parse_memory({"MemorySummary": None}, [{"CapacityMiB": True}]) == {}


# -- network cards ---------------------------------------------------------------------------


def test_cards_are_told_once_and_only_with_an_address() -> None:
    cards = [
        {**CARD, "LinkStatus": "LinkDown", "IPv4Addresses": [{"Address": "0.0.0.0"}, None]},
        {**CARD, "Id": "again"},
        {"Id": "off", "MACAddress": "52:54:00:00:00:0b", "Status": {"State": "Disabled"}},
        {"Id": "null", "MACAddress": None, "PermanentMACAddress": "52-54-00-00-00-0C"},
        {"Id": "zero", "MACAddress": "00:00:00:00:00:00"},
        {"Id": "na", "MACAddress": "N/A"},
        {"Id": "group", "MACAddress": "01:00:5E:00:00:01"},
        {"Id": "all", "MACAddress": "FF:FF:FF:FF:FF:FF"},
        {"Id": "both", "MACAddress": "00:00:00:00:00:00", "PermanentMACAddress": "52540000000D"},
    ]
    assert inspect.cards_without_address(cards) == ["zero", "na", "group", "all"]
    assert inspect.parse_interfaces(cards) == [
        {
            "name": "NIC1",
            "mac_address": "52:54:00:00:00:0a",
            "speed_mbps": 10000,
            "has_carrier": False,
        },
        {"name": "null", "mac_address": "52:54:00:00:00:0c"},
        {"name": "both", "mac_address": "52:54:00:00:00:0d"},
    ]


def test_disabled_cards_count_unless_a_setting_has_disabled_them() -> None:
    cards = [
        {**CARD, "Status": {"State": "Disabled"}},
        {**CARD, "MACAddress": "52:54:00:00:00:0b", "Status": {"State": "Disabled"}},
        {**CARD, "MACAddress": "52:54:00:00:00:0c", "Status": {"State": "Absent"}},
    ]
    cards[1]["InterfaceEnabled"] = False
    found = inspect.parse_interfaces(cards, disabled=True)
    assert [one["mac_address"] for one in found] == ["52:54:00:00:00:0a"]
    assert inspect.parse_interfaces(cards) == []


def test_a_card_may_have_addresses_of_ip() -> None:
    card = {
        **CARD,
        "IPv4Addresses": [{"Address": "192.0.2.7"}],
        "IPv6Addresses": [{"Address": "::"}, {"Address": "fe80::1"}],
    }
    (found,) = inspect.parse_interfaces([card])
    assert (found["ipv4_address"], found["ipv6_address"]) == ("192.0.2.7", "fe80::1")


def test_functions_of_adapters_are_cards() -> None:
    inside = {"MACAddress": "52:54:00:00:00:0A"}
    found = inspect.parse_functions(
        [{"Id": "f1", "Ethernet": inside}, {"Id": "f2", "Ethernet": None}]
    )
    assert found == [{"name": "f1", "mac_address": "52:54:00:00:00:0a"}]


def test_ports_of_adapters_are_cards() -> None:
    port = {
        "Id": "1",
        "CurrentSpeedGbps": 25,
        "LinkStatus": "LinkUp",
        "Ethernet": {"AssociatedMACAddresses": [None, "00:00:00:00:00:00", "52:54:00:00:00:0A"]},
    }
    old = {"Id": "2", "LinkStatus": "Up", "AssociatedNetworkAddresses": ["52-54-00-00-00-0B"]}
    odd = {"Id": "3", "AssociatedMACAddresses": "52540000000C"}
    wwn = {"Id": "4", "AssociatedNetworkAddresses": ["20:00:00:25:b5:00:00:01"]}
    assert inspect.parse_functions([port, old, odd, wwn]) == [
        {"name": "1", "mac_address": "52:54:00:00:00:0a", "speed_mbps": 25000, "has_carrier": True},
        {"name": "2", "mac_address": "52:54:00:00:00:0b", "has_carrier": True},
        {"name": "3", "mac_address": "52:54:00:00:00:0c"},
    ]


def test_functions_of_two_adapters_with_one_name_are_kept_apart() -> None:
    cards = [
        ("slot-1", {"name": "1", "mac_address": "52:54:00:00:00:0a"}),
        ("slot-2", {"name": "1", "mac_address": "52:54:00:00:00:0b"}),
        ("slot-3", {"name": "2", "mac_address": "52:54:00:00:00:0b"}),
    ]
    assert inspect.number_equal_names(cards) == [
        {"name": "1", "mac_address": "52:54:00:00:00:0a"},
        {"name": "slot-2 1", "mac_address": "52:54:00:00:00:0b"},
    ]


def test_a_port_tells_of_its_switch() -> None:
    heard = {"ChassisId": "00:11", "PortId": "Eth1/7", "ManagementVlanId": 7, "SystemName": ""}
    wanted = {"switch_chassis_id": "00:11", "switch_port_id": "Eth1/7", "switch_vlan_id": 7}
    assert inspect.parse_neighbour({"Ethernet": {"LLDPReceive": heard}}) == wanted
    assert inspect.parse_neighbour({"Ethernet": {"LLDPReceive": None}}) == {}
    assert inspect.parse_neighbour({}) == {}


# -- disks -----------------------------------------------------------------------------------


def test_a_disk_is_told_as_agents_do() -> None:
    assert inspect.parse_disk(DRIVE) == {
        "name": "Drive 0",
        "size": 1000 * GIB,
        "model": "C123",
        "vendor": "Drives Ltd",
        "serial": "SN1",
        "rotational": False,
        "wwn": "0x5000c50000000001",
    }
    assert inspect.parse_disk({"CapacityBytes": 5}) == {"name": "disk", "size": 5}


@pytest.mark.parametrize("spoilt", [ABSENT, {"CapacityBytes": None}, {"CapacityBytes": 0}], ids=str)
def test_an_empty_place_is_no_disk(spoilt: Json) -> None:
    assert inspect.parse_disk({**DRIVE, **spoilt}) is None
    assert inspect.parse_volume({**DRIVE, **spoilt}, {}) is None


@pytest.mark.parametrize(
    ("devices", "drives", "volumes", "size"),
    [
        ([], [], [], None),
        ([], [3], [], None),
        ([], [500, 100], [], 99),
        ([], [100], [400, 2], 399),
        ([50], [100], [400], 49),
        ([1], [100], [], 99),
        ([5], [], [], 4),
    ],
    ids=str,
)
def test_the_disk_for_an_image_is_the_smallest_that_is_large_enough(
    devices: list[int], drives: list[int], volumes: list[int], size: int | None
) -> None:
    sizes = ([each * GIB for each in some] for some in (devices, drives, volumes))
    assert inspect.local_gb(*sizes) == size


# -- the rest --------------------------------------------------------------------------------


def test_the_machine_has_names_and_a_mode() -> None:
    system = {
        "Manufacturer": " Contoso ",
        "Model": "3500RX",
        "SerialNumber": "N7",
        "UUID": "38947555",
        "BiosVersion": "P79",
        "Boot": {"BootSourceOverrideMode": "Legacy"},
    }
    assert inspect.parse_maker(system) == {
        "product_name": "3500RX",
        "serial_number": "N7",
        "manufacturer": "Contoso",
        "system_uuid": "38947555",
        "firmware": {"version": "P79"},
    }
    assert inspect.parse_boot(system) == {"current_boot_mode": "bios", "pxe_interface": None}
    assert (inspect.parse_maker({}), inspect.parse_boot({})["current_boot_mode"]) == ({}, None)


def test_functions_of_pci_have_numbers_as_agents_send_them() -> None:
    function = {"VendorId": "0x8086", "DeviceId": "0X1572", "RevisionId": "01", "DeviceClass": "N"}
    wanted = {"vendor_id": "8086", "product_id": "1572", "revision": "01", "class": "N"}
    assert inspect.parse_pci(function) == wanted
    assert inspect.parse_pci({"VendorId": 32902}) == {}


ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        2**80,
        0.5,
        float("nan"),
        float("inf"),
        "",
        " ",
        "x",
        "7",
        "-1e999",
    ),
    *("\0", "52:54:00:00:00:0a", [], [None], [[]], ["x"], [7], [{}], {}, {"State": None}),
    *({"State": ["Absent"]}, {"Count": "x"}, {"TotalSystemMemoryGiB": {}}, {"MACAddress": 7}),
    *({"LLDPReceive": []}, {"LLDPReceive": {"ChassisId": {}}}, [{"Address": 7}]),
    *([{"DurableName": 7, "DurableNameFormat": "NAA"}], {"BootSourceOverrideMode": []}),
]
NAMES = (
    *("Status", "Boot", "MemorySummary", "ProcessorSummary", "ProcessorType", "InstructionSet"),
    *("TotalThreads", "TotalCores", "MaxSpeedMHz", "Model", "MACAddress", "SpeedMbps"),
    *("IPv4Addresses", "LinkStatus", "Ethernet", "CapacityBytes", "CapacityMiB", "MediaType"),
    *("Identifiers", "VendorId", "DeviceClass", "Manufacturer", "BiosVersion", "Id", "Name"),
)


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD), max_size=8))
def test_no_document_is_too_odd(document: Json) -> None:
    inspect.parse_cpu(document, [document])
    inspect.parse_memory(document, [document])
    inspect.parse_interfaces([document])
    inspect.parse_functions([document])
    inspect.parse_neighbour(document)
    inspect.parse_disk(document)
    inspect.parse_volume(document, {"/d": document})
    inspect.parse_maker(document)
    inspect.parse_boot(document)
    inspect.parse_pci(document)
