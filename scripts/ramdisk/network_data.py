#!/usr/bin/env python3
"""Configure the network of the ramdisk by the network_data on its virtual medium.

network-data.service runs this before systemd-networkd. The medium is the one whose publisher is the
kernel parameter ``ir_pub_id``, because any other disk may have its label. Cards that network_data
does not name use DHCP, as all do without it.

Usage: network_data.py [ROOT]; ROOT is a folder to use as / (in tests).
"""

from __future__ import annotations

import ipaddress
import json
import pathlib
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

Json = dict[str, Any]

SECTOR = 2048
PUBLISHER = (16 * SECTOR + 318, 128)
"""Place and length of the publisher in a medium (ECMA-119, 8.4.20)."""
FILE = "OPENSTACK/LATEST/NETWORK_DATA.JSON"
MOST_BYTES = 1024 * 1024
LOOKS, PAUSE = 15, 1.0
"""Number and interval in seconds of the looks for the medium: USB drives come late."""
FOLDER, RESOLVER = "run/systemd/network", "etc/resolv.conf"

_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
_WORD = re.compile(r"[A-Za-z0-9+.-]+")
_BOND_OPTIONS = {
    "bond_mode": "Mode",
    "bond_miimon": "MIIMonitorSec",
    "bond_xmit_hash_policy": "TransmitHashPolicy",
}
_DHCP = {"ipv4_dhcp": 4, "ipv6_dhcp": 6, "ipv6_dhcpv6-stateful": 6}
_ROUTER = {"ipv6_dhcp", "ipv6_slaac", "ipv6_dhcpv6-stateful", "ipv6_dhcpv6-stateless"}
"""Types of networks whose router announces itself."""


# -- the medium -------------------------------------------------------------------------------


def read_medium(root: pathlib.Path, publisher: str) -> bytes | None:
    """Return network_data.json of the medium with this publisher, empty without the file.

    None: there is no such medium, or it cannot be read.
    """
    for device in sorted((root / "sys/class/block").glob("*")):
        try:
            with (root / "dev" / device.name).open("rb") as medium:
                medium.seek(PUBLISHER[0])
                if medium.read(PUBLISHER[1]).decode("ascii", "replace").rstrip() == publisher:
                    return _read_file(medium, FILE)
        except (OSError, IndexError):  # a drive without a medium, or a part of one
            continue
    return None


def _read_file(medium: BinaryIO, path: str) -> bytes:
    """Return a file of an ISO 9660 file system (ECMA-119, 9.1), by its plain path."""
    medium.seek(16 * SECTOR + 156)
    place, length = _extent(medium.read(34))
    for name in path.split("/"):
        found = dict(_entries(medium, place, length))
        if name not in found:
            return b""
        place, length = found[name]
    medium.seek(place * SECTOR)
    return medium.read(min(length, MOST_BYTES))


def _entries(medium: BinaryIO, place: int, length: int) -> Iterator[tuple[str, tuple[int, int]]]:
    medium.seek(place * SECTOR)
    data, at = medium.read(min(length, MOST_BYTES)), 0
    while at < len(data):
        record = data[at : at + data[at]]
        if not record:  # records do not cross sectors
            at += SECTOR - at % SECTOR
            continue
        name = record[33 : 33 + record[32]].decode("ascii", "replace")
        yield name.partition(";")[0], _extent(record)
        at += len(record)


def _extent(record: bytes) -> tuple[int, int]:
    return int.from_bytes(record[2:6], "little"), int.from_bytes(record[10:14], "little")


# -- files of systemd-networkd ----------------------------------------------------------------


def files(data: Json) -> dict[str, str]:
    """Return the files for systemd-networkd: name -> text.

    :raises ValueError, KeyError, TypeError: the data are not of the form of network_data.json.
    """
    links = {str(link["id"]): link for link in data.get("links") or ()}
    names = {ident: f"link{number}" for number, ident in enumerate(links)}
    found = {}
    for ident, link in links.items():
        name, kind = names[ident], link.get("type")
        virtual = kind in {"bond", "vlan"}
        if virtual:
            found[f"10-{name}.netdev"] = _device(name, link)
        match = f"Name={name}" if virtual else f"PermanentMACAddress={_mac(link)}"
        used = _uses(ident, links, names)
        own = [one for one in data.get("networks") or () if str(one.get("link")) == ident]
        text = f"[Match]\n{match}\n"
        if link.get("mtu"):
            text += f"[Link]\nMTUBytes={int(link['mtu'])}\n"
        found[f"10-{name}.network"] = text + _network_text(own, used)
    return found


def nameservers(data: Json) -> list[str]:
    """Return the addresses of the DNS servers."""
    services = [*(data.get("services") or ())]
    for network in data.get("networks") or ():
        services += network.get("services") or ()
    found = [one["address"] for one in services if one.get("type") == "dns"]
    return [str(ipaddress.ip_address(address)) for address in dict.fromkeys(found)]


def _uses(ident: str, links: dict[str, Json], names: dict[str, str]) -> list[str]:
    """Return the lines about the devices that are made of a link."""
    bonds = [
        f"Bond={names[other]}"
        for other, link in links.items()
        if link.get("type") == "bond" and ident in map(str, link.get("bond_links") or ())
    ]
    vlans = [
        f"VLAN={names[other]}"
        for other, link in links.items()
        if link.get("type") == "vlan" and str(link.get("vlan_link")) == ident
    ]
    return bonds + vlans


def _device(name: str, link: Json) -> str:
    kind = link["type"]
    address = f"MACAddress={_mac(link)}\n" if _has_mac(link) else ""
    text = f"[NetDev]\nName={name}\nKind={kind}\n{address}"
    if kind == "vlan":
        return f"{text}[VLAN]\nId={int(link['vlan_id'])}\n"
    lines = []
    for key, option in _BOND_OPTIONS.items():
        if link.get(key) is not None:
            value = str(link[key])
            if not _WORD.fullmatch(value):
                raise ValueError(f"{key} {value!r} is no word")
            lines.append(f"{option}={value}{'ms' if key == 'bond_miimon' else ''}\n")
    return f"{text}[Bond]\n{''.join(lines)}"


def _has_mac(link: Json) -> bool:
    return bool(link.get("ethernet_mac_address") or link.get("vlan_mac_address"))


def _mac(link: Json) -> str:
    given = str(link.get("ethernet_mac_address") or link.get("vlan_mac_address"))
    found = given.lower().replace("-", ":")
    if not _MAC.fullmatch(found):
        raise ValueError(f"{given!r} is no MAC address")
    return found


def _network_text(networks: list[Json], used: list[str]) -> str:
    types = [str(one.get("type")) for one in networks]
    families = {_DHCP[one] for one in types if one in _DHCP}
    dhcp = {0: "no", 4: "ipv4", 6: "ipv6", 10: "yes"}[sum(families)]
    routers = "yes" if _ROUTER & {*types} else "no"
    bonded = any(line.startswith("Bond=") for line in used)
    lines = ["[Network]", *used]
    lines += [] if bonded else [f"DHCP={dhcp}", f"IPv6AcceptRA={routers}"]
    # As for cards without network_data: work goes on without the server, and the address stays.
    lines += ["KeepConfiguration=dhcp", "[DHCPv4]", "ClientIdentifier=mac"] if families else []
    for network in networks:
        if network.get("ip_address"):
            lines += ["[Address]", f"Address={_interface(network['ip_address'], network)}"]
        routes = [*(network.get("routes") or ())]
        if network.get("gateway"):
            routes.append({"network": None, "gateway": network["gateway"]})
        for route in routes:
            lines += ["[Route]", f"Gateway={ipaddress.ip_address(route['gateway'])}"]
            if route.get("network"):
                place = _interface(route["network"], route).network
                lines.append(f"Destination={place}")
    return "".join(f"{line}\n" for line in lines)


def _interface(address: str, beside: Json) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """Return an address with its prefix, which stands beside it or behind it."""
    mask = beside.get("netmask")
    if mask is None or "/" in str(address):
        return ipaddress.ip_interface(address)
    if ":" in str(mask):
        mask = int(ipaddress.IPv6Address(mask)).bit_count()
    return ipaddress.ip_interface(f"{address}/{mask}")


_UNUSABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError),
    OSError,
)
"""Errors of data of another form, and of files that cannot be written."""


# -- the program ------------------------------------------------------------------------------


def main(root: pathlib.Path, looks: int = LOOKS) -> int:
    """Configure the network; return the exit status."""
    words = (root / "proc/cmdline").read_text(encoding="ascii", errors="replace").split()
    told = dict(word.split("=", 1) for word in words if "=" in word)
    publisher = told.get("ir_pub_id", "")
    found = None
    for look in range(looks if publisher else 0):
        if look:
            time.sleep(PAUSE)
        found = read_medium(root, publisher)
        if found is not None:
            break
    if not found:
        print("no network_data: DHCP on all cards" if publisher else "no virtual medium")
        return 0
    try:
        data = json.loads(found)
        texts, servers = files(data), nameservers(data)
        _write(root, texts, servers)
    except _UNUSABLE as why:
        for left in (root / FOLDER).glob("10-link*"):
            left.unlink(missing_ok=True)
        print(f"network_data cannot be used, DHCP on all cards: {type(why).__name__} {why}")
        return 1
    print(f"network_data: {', '.join(texts)}")
    return 0


def _write(root: pathlib.Path, texts: dict[str, str], servers: list[str]) -> None:
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    if servers:
        lines = "".join(f"nameserver {server}\n" for server in servers)
        (root / RESOLVER).write_text(lines)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(*sys.argv[1:2] or ("/",))))
