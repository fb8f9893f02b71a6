"""Parts of a machine: processors, memory, network cards, PCIe devices."""

from __future__ import annotations

from tests.emulators.bmc import shapes
from tests.emulators.bmc.shapes import OK, Json, Places, collection, document, link


def documents(at: Places) -> dict[str, Json]:
    """Return the documents by path."""
    parts = (
        group(at.system, "Processors", "Processor", [_processor(n) for n in (1, 2)]),
        group(at.system, "Memory", "Memory", [_module(n) for n in range(1, 5)]),
        group(at.system, "EthernetInterfaces", "EthernetInterface", [_port(n) for n in (1, 2)]),
        _adapters(at),
        _devices(at),
        _simple_storage(at),
    )
    return {path: each for part in parts for path, each in part.items()}


def links(at: Places) -> Json:
    """Return what the system says of them."""
    names = ("Processors", "Memory", "EthernetInterfaces", "NetworkInterfaces", "SimpleStorage")
    found: Json = {name: link(f"{at.system}/{name}") for name in names}
    found["PCIeDevices"] = [link(f"{at.chassis}/PCIeDevices/NIC1")]
    return found


def keep_macs_in(tree: dict[str, Json], at: Places, source: str) -> None:
    """Show the MAC addresses of the cards at one place alone.

    :param source: ``PermanentMACAddress``, beside addresses of zeros; ``NetworkDeviceFunctions``;
        ``Ports``, as on Lenovo XCC; ``NetworkPorts``, as on older ones; ``nothing``.
    """
    adapter = f"{at.chassis}/NetworkAdapters/NIC1"
    if source == "NetworkPorts":
        old = [{"@version": "v1_4_1", "Id": str(n), "LinkStatus": "Up"} for n in (1, 2)]
        tree.update(group(adapter, "NetworkPorts", "NetworkPort", old))
        tree[adapter]["NetworkPorts"] = link(f"{adapter}/NetworkPorts")
    for number in (1, 2):
        card = tree[f"{at.system}/EthernetInterfaces/NIC1-{number}"]
        mac, zeros = card["MACAddress"], "00:00:00:00:00:00"
        permanent = mac if source == "PermanentMACAddress" else zeros
        card.update(MACAddress=zeros, PermanentMACAddress=permanent)
        function = tree[f"{adapter}/NetworkDeviceFunctions/NIC1-{number}"]["Ethernet"]
        function.update(MACAddress=mac if source == "NetworkDeviceFunctions" else zeros)
        if source == "Ports":
            tree[f"{adapter}/Ports/{number}"]["Ethernet"] = {"AssociatedMACAddresses": [mac]}
        if source == "NetworkPorts":
            tree[f"{adapter}/NetworkPorts/{number}"]["AssociatedNetworkAddresses"] = [mac]


def group(parent: str, name: str, kind: str, members: list[Json]) -> dict[str, Json]:
    """Return a collection below ``parent``, and its members; each has ``Id`` and ``@version``."""
    place = f"{parent}/{name}"
    found = {place: collection(place, kind, [f"{place}/{one['Id']}" for one in members])}
    for one in members:
        rest = dict(one)
        version, path = rest.pop("@version"), f"{place}/{one['Id']}"
        found[path] = document(path, f"{kind}.{version}", rest.pop("Name", one["Id"]), **rest)
    return found


def _processor(number: int) -> Json:
    return {
        "@version": "v1_13_0",
        "Id": f"CPU{number}",
        "Name": f"Processor {number}",
        "Socket": f"CPU {number}",
        "ProcessorType": "CPU",
        "ProcessorArchitecture": "x86",
        "InstructionSet": "x86-64",
        "Manufacturer": "Intel(R) Corporation",
        "Model": "Multi-Core Intel(R) Xeon(R) processor 7xxx Series",
        "ProcessorId": {"VendorID": "GenuineIntel", "EffectiveFamily": "0x42", "Step": "0x1"},
        "MaxSpeedMHz": 3700,
        "TotalCores": 8,
        "TotalThreads": 16,
        "Status": dict(OK),
    }


def _module(number: int) -> Json:
    return {
        "@version": "v1_13_0",
        "Id": f"DIMM{number}",
        "Name": f"DIMM Slot {number}",
        "MemoryType": "DRAM",
        "MemoryDeviceType": "DDR4",
        "CapacityMiB": 24 * 1024,
        "OperatingSpeedMhz": 2400,
        "Manufacturer": "Memories Ltd",
        "SerialNumber": f"1A2B{number}",
        "PartNumber": "36ASF4G72PZ",
        "Status": dict(OK),
    }


def _port(number: int) -> Json:
    mac = f"12:44:6A:3B:04:{number:02X}"
    return {
        "@version": "v1_6_4",
        "Id": f"NIC1-{number}",
        "Name": "Ethernet Interface",
        "Description": f"System NIC {number}",
        "PermanentMACAddress": mac,
        "MACAddress": mac,
        "SpeedMbps": 10000,
        "LinkStatus": "LinkUp",
        "Status": dict(OK),
    }


def _adapters(at: Places) -> dict[str, Json]:
    """Return the network card: in the chassis, with ports and functions, and as the system's."""
    place = f"{at.chassis}/NetworkAdapters/NIC1"
    ports = [{"@version": "v1_6_0", "Id": str(n), "LinkStatus": "LinkUp"} for n in (1, 2)]
    functions = [
        {
            "@version": "v1_8_0",
            "Id": f"NIC1-{n}",
            "NetDevFuncType": "Ethernet",
            "Ethernet": {"MACAddress": f"12:44:6A:3B:04:{n:02X}", "MTUSize": 1500},
            "Status": dict(OK),
        }
        for n in (1, 2)
    ]
    card: Json = {
        "@version": "v1_9_0",
        "Id": "NIC1",
        "Name": "Network Adapter",
        "Manufacturer": "Cards Ltd",
        "Model": "8402GT",
        "PartNumber": "427-3",
        "SerialNumber": "003BFLRT00023234",
        "Controllers": [{"FirmwarePackageVersion": shapes.FIRMWARE["NIC1"]}],
        "Ports": link(f"{place}/Ports"),
        "NetworkDeviceFunctions": link(f"{place}/NetworkDeviceFunctions"),
        "Status": dict(OK),
    }
    face = {
        "@version": "v1_2_1",
        "Id": "NIC1",
        "Links": {"NetworkAdapter": link(place)},
        "Status": dict(OK),
    }
    return {
        **group(at.chassis, "NetworkAdapters", "NetworkAdapter", [card]),
        **group(place, "Ports", "Port", ports),
        **group(place, "NetworkDeviceFunctions", "NetworkDeviceFunction", functions),
        **group(at.system, "NetworkInterfaces", "NetworkInterface", [face]),
    }


def _devices(at: Places) -> dict[str, Json]:
    place = f"{at.chassis}/PCIeDevices/NIC1"
    device: Json = {
        "@version": "v1_9_0",
        "Id": "NIC1",
        "Name": "Network Adapter",
        "Manufacturer": "Cards Ltd",
        "Model": "8402GT",
        "DeviceType": "MultiFunction",
        "FirmwareVersion": shapes.FIRMWARE["NIC1"],
        "PCIeInterface": {"PCIeType": "Gen3", "MaxPCIeType": "Gen3", "LanesInUse": 8},
        "PCIeFunctions": link(f"{place}/PCIeFunctions"),
        "Status": dict(OK),
    }
    functions = [
        {
            "@version": "v1_4_0",
            "Id": str(n),
            "FunctionId": n,
            "FunctionType": "Physical",
            "DeviceClass": "NetworkController",
            "ClassCode": "0x020000",
            "VendorId": "0x8086",
            "DeviceId": "0x1572",
            "SubsystemVendorId": "0x8086",
            "SubsystemId": "0x0007",
            "RevisionId": "0x01",
            "Status": dict(OK),
        }
        for n in range(2)
    ]
    return {
        **group(at.chassis, "PCIeDevices", "PCIeDevice", [device]),
        **group(place, "PCIeFunctions", "PCIeFunction", functions),
    }


def _simple_storage(at: Places) -> dict[str, Json]:
    disk = {
        "Name": "SATA Disk",
        "Manufacturer": "Disks Ltd",
        "Model": "3000GT8",
        "CapacityBytes": 8000 * shapes.GB,
        "Status": dict(OK),
    }
    one = {"@version": "v1_3_1", "Id": "SATA1", "Devices": [disk], "Status": dict(OK)}
    return group(at.system, "SimpleStorage", "SimpleStorage", [one])
