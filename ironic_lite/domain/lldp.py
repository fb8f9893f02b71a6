"""LLDP frames of switches that a ramdisk has received (IEEE 802.1AB). Pure.

A frame is a list of TLVs: a type, and a value in hexadecimal digits. The names are Ironic's.
"""

from __future__ import annotations

import binascii
import ipaddress
from collections.abc import Callable, Mapping, Sequence

from ironic_lite.core.json_types import Json

_ORGANIZATION = 127
MOST = 1000  # TLVs: more than fit into a frame of 1500 octets, each has two at least
_MAC = 6  # octets
_CHASSIS_MAC, _CHASSIS_ADDRESS = 4, 5  # IEEE 802.1AB 8.5.2.2
_PORT_MAC, _PORT_ADDRESS = 3, 4  # IEEE 802.1AB 8.5.3.2
_FAMILIES = {1: 4, 2: 16}
"""Numbers of address families (IANA), and the lengths of their addresses."""

_CAPABILITIES = (
    *("Other", "Repeater", "Bridge", "WLAN", "Router", "Telephone"),
    *("DOCSIS cable device", "Station only", "C-Vlan", "S-Vlan", "TPMR"),
)
"""IEEE 802.1AB 8.5.8.1, the first bit first."""


def parse(tlvs: object) -> Json:
    """Return the content of a frame by name, without unreadable or excess parts.

    :param tlvs: ``[[type, hexadecimal digits], ...]``, as ironic-python-agent gives them.
    """
    found: Json = {}
    for one in tlvs[:MOST] if isinstance(tlvs, list) else ():
        kind, value = _read_tlv(one)
        read = _organization_reader(value) if kind == _ORGANIZATION else _READERS.get(kind)
        if read is None:
            continue
        body = value[_PREFIX:] if kind == _ORGANIZATION else value
        try:
            _add_facts(found, read(body))
        except (ValueError, IndexError):
            continue
    return found


def _read_tlv(one: object) -> tuple[int, bytes]:
    if not isinstance(one, Sequence) or isinstance(one, str) or len(one) != 2:  # noqa: PLR2004
        return -1, b""
    kind, digits = one
    if not isinstance(kind, int) or not isinstance(digits, str):
        return -1, b""
    try:
        return kind, binascii.unhexlify(digits)
    except (binascii.Error, ValueError):
        return -1, b""


def _add_facts(found: Json, more: Json) -> None:
    """Add the content of a TLV; repeated ones give lists."""
    for name, value in more.items():
        if isinstance(value, list):
            found[name] = [*found.get(name, []), *value]
        else:
            found[name] = value


# -- one TLV -------------------------------------------------------------------------------------


def _text_reader(name: str) -> Callable[[bytes], Json]:
    return lambda value: {name: _decoded_text(value)}


def _decoded_text(value: bytes) -> str:
    return value.decode("utf-8", "replace").replace("\0", "").strip()


def _number_reader(name: str, *, at: int, size: int) -> Callable[[bytes], Json]:
    def read(value: bytes) -> Json:
        part = value[at : at + size]
        if len(part) != size:
            raise ValueError(name)
        return {name: int.from_bytes(part)}

    return read


def _identity_reader(name: str, mac: int, network: int) -> Callable[[bytes], Json]:
    def read(value: bytes) -> Json:
        subtype, rest = value[0], value[1:]
        if subtype == mac and len(rest) == _MAC:
            return {name: rest.hex(":")}
        return {name: _read_address(rest) if subtype == network else _decoded_text(rest)}

    return read


def _read_address(value: bytes) -> str:
    """Return a network address, which begins with the number of its family."""
    size = _FAMILIES.get(value[0])
    if size is None or len(value) < 1 + size:
        raise ValueError(value[0])
    return str(ipaddress.ip_address(value[1 : 1 + size]))


def _read_management(value: bytes) -> Json:
    return {"switch_mgmt_addresses": [_read_address(value[1 : 1 + value[0]])]}


def _read_capabilities(value: bytes) -> Json:
    known, enabled = int.from_bytes(value[0:2]), int.from_bytes(value[2:4])
    return {
        "switch_capabilities_support": _capability_names(known),
        "switch_capabilities_enabled": _capability_names(enabled),
    }


def _capability_names(bits: int) -> list[str]:
    return [name for place, name in enumerate(_CAPABILITIES) if bits & 1 << place]


def _read_vlan(value: bytes) -> Json:
    size = value[2]
    name = _decoded_text(value[3 : 3 + size])
    return {"switch_port_vlans": [{"id": int.from_bytes(value[:2]), "name": name}]}


def _read_aggregation(value: bytes) -> Json:
    bits, number = value[0], int.from_bytes(value[1:5])
    return {
        "switch_port_link_aggregation_support": bool(bits & 1),
        "switch_port_link_aggregation_enabled": bool(bits & 2),
        "switch_port_link_aggregation_id": number,
    }


_READERS: Mapping[int, Callable[[bytes], Json]] = {
    1: _identity_reader("switch_chassis_id", _CHASSIS_MAC, _CHASSIS_ADDRESS),
    2: _identity_reader("switch_port_id", _PORT_MAC, _PORT_ADDRESS),
    4: _text_reader("switch_port_description"),
    5: _text_reader("switch_system_name"),
    6: _text_reader("switch_system_description"),
    7: _read_capabilities,
    8: _read_management,
}
_PREFIX = 4  # octets: the organization and its subtype
_ORGANIZED: Mapping[bytes, Callable[[bytes], Json]] = {
    # IEEE 802.1Q D.2 and IEEE 802.3 79.3
    b"\x00\x80\xc2\x01": _number_reader("switch_port_untagged_vlan_id", at=0, size=2),
    b"\x00\x80\xc2\x03": _read_vlan,
    b"\x00\x80\xc2\x07": _read_aggregation,
    b"\x00\x12\x0f\x03": _read_aggregation,
    b"\x00\x12\x0f\x04": _number_reader("switch_port_mtu", at=0, size=2),
}


def _organization_reader(value: bytes) -> Callable[[bytes], Json] | None:
    return _ORGANIZED.get(value[:_PREFIX])
