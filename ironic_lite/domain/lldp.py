"""LLDP frames of switches that a ramdisk has received (IEEE 802.1AB).

A frame is a list of TLVs: a type, and a value in hexadecimal digits. The names are Ironic's.
"""

from __future__ import annotations

import binascii
import ipaddress
from collections.abc import Callable, Mapping, Sequence

from ironic_lite.core.json_types import Json

_ORGANIZATION = 127
LONGEST = 511  # octets of a value (IEEE 802.1AB 8.4)
MOST = 1000  # TLVs: more than fit into a frame of 1500 octets, each has two at least
_LLDP_MAC = 6  # octets
_CHASSIS_MAC, _CHASSIS_ADDRESS = 4, 5  # IEEE 802.1AB 8.5.2.2
_PORT_MAC, _PORT_ADDRESS = 3, 4  # IEEE 802.1AB 8.5.3.2
_MAC_FAMILY = 6
_FAMILIES = {1: 4, 2: 16, _MAC_FAMILY: _LLDP_MAC}
"""Numbers of address families (IANA), and the lengths of their addresses."""

_CAPABILITIES = (
    *("Other", "Repeater", "Bridge", "WLAN", "Router", "Telephone"),
    *("DOCSIS cable device", "Station only", "C-Vlan", "S-Vlan", "TPMR"),
)
"""IEEE 802.1AB 8.5.8.1, the first bit first."""
_PHYSICAL = (
    *("1000BASE-T fdx", "1000BASE-T hdx", "1000BASE-X fdx", "1000BASE-X hdx"),
    *("Asym and Sym PAUSE fdx", "Sym PAUSE fdx", "Asym PAUSE fdx", "PAUSE fdx"),
    *("100BASE-T2 fdx", "100BASE-T2 hdx", "100BASE-TX fdx", "100BASE-TX hdx"),
    *("10BASE-T4", "10BASE-T fdx", "10BASE-T hdx"),
)
"""IANAifMauAutoNegCapBits of RFC 4836, the last bit first."""
_HALF_AND_FULL = (
    *("100BASE-TX", "100BASE-FX", "100BASE-T2", "1000BASE-X", "1000BASE-LX"),
    *("1000BASE-SX", "1000BASE-CX", "1000BASE-T"),
)
_MEDIA = (
    *("Unknown", "AUI", "10BASE-5", "FOIRL", "10BASE-2", "10BASE-T duplex mode unknown"),
    *("10BASE-FP", "10BASE-FB", "10BASE-FL duplex mode unknown", "10BROAD36"),
    *("10BASE-T half duplex", "10BASE-T full duplex"),
    *("10BASE-FL half duplex", "10BASE-FL full duplex", "100 BASE-T4"),
    *(f"{medium} {half} duplex" for medium in _HALF_AND_FULL for half in ("half", "full")),
    *("10GBASE-X", "10GBASE-LX4", "10GBASE-R", "10GBASE-ER", "10GBASE-LR", "10GBASE-SR"),
    *("10GBASE-W", "10GBASE-EW", "10GBASE-LW", "10GBASE-SW", "10GBASE-CX4"),
    *("2BASE-TL", "10PASS-TS", "100BASE-BX10D", "100BASE-BX10U", "100BASE-LX10"),
    *("1000BASE-BX10D", "1000BASE-BX10U", "1000BASE-LX10"),
    *("1000BASE-PX10D", "1000BASE-PX10U", "1000BASE-PX20D", "1000BASE-PX20U"),
)
"""Media attachment units by their number in IANAifMauTypeListBits of RFC 4836."""


def parse(tlvs: object) -> Json:
    """Return the content of a frame by name, without unreadable or excess parts.

    :param tlvs: ``[[type, hexadecimal digits], ...]``, as ironic-python-agent gives them.
    """
    found: Json = {}
    for one in tlvs[:MOST] if isinstance(tlvs, list) else ():
        kind, value = _read_tlv(one)
        read = _ORGANIZED.get(value[:_PREFIX]) if kind == _ORGANIZATION else _READERS.get(kind)
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
        if subtype == mac:
            return {name: _exactly(rest, _LLDP_MAC).hex(":")}
        return {name: _read_address(rest) if subtype == network else _decoded_text(rest)}

    return read


def _exactly(value: bytes, size: int) -> bytes:
    """Return the first octets of a value; raises ValueError if there are fewer."""
    if len(value) < size:
        raise ValueError(value)
    return value[:size]


def _read_address(value: bytes) -> str:
    """Return a network or MAC address, which begins with the number of its family."""
    found = _exactly(value[1:], _FAMILIES.get(value[0], len(value)))
    return found.hex(":") if value[0] == _MAC_FAMILY else str(ipaddress.ip_address(found))


def _read_management(value: bytes) -> Json:
    return {"switch_mgmt_addresses": [_read_address(value[1 : 1 + value[0]])]}


def _read_capabilities(value: bytes) -> Json:
    whole = _exactly(value, 4)
    known, enabled = int.from_bytes(whole[:2]), int.from_bytes(whole[2:])
    return {
        "switch_capabilities_support": _capability_names(known),
        "switch_capabilities_enabled": _capability_names(enabled),
    }


def _capability_names(bits: int) -> list[str]:
    return [name for place, name in enumerate(_CAPABILITIES) if bits & 1 << place]


def _read_vlan(value: bytes) -> Json:
    name = _decoded_text(_exactly(value[3:], value[2]))
    return {"switch_port_vlans": [{"id": int.from_bytes(value[:2]), "name": name}]}


def _read_aggregation(value: bytes) -> Json:
    bits, number = value[0], int.from_bytes(_exactly(value[1:], 4))
    return {
        "switch_port_link_aggregation_support": bool(bits & 1),
        "switch_port_link_aggregation_enabled": bool(bits & 2),
        "switch_port_link_aggregation_id": number,
    }


def _read_protocol_vlan(value: bytes) -> Json:
    bits = value[0]
    return {
        "switch_port_protocol_vlan_support": bool(bits & 2),
        "switch_port_protocol_vlan_enabled": bool(bits & 4),
        "switch_port_protocol_vlan_ids": [int.from_bytes(_exactly(value[1:], 2))],
    }


def _read_protocol(value: bytes) -> Json:
    return {"switch_protocol_identities": [_exactly(value[1:], value[0]).hex()]}


def _read_physical(value: bytes) -> Json:
    """Read the configuration of MAC and PHY; an unknown medium has no name."""
    whole = _exactly(value, 5)
    offers, medium = int.from_bytes(whole[1:3]), int.from_bytes(whole[3:])
    found: Json = {
        "switch_port_autonegotiation_support": bool(whole[0] & 1),
        "switch_port_autonegotiation_enabled": bool(whole[0] & 2),
    }
    named = sorted(name for place, name in enumerate(_PHYSICAL) if offers & 1 << place)
    found["switch_port_physical_capabilities"] = named
    if medium < len(_MEDIA):
        found["switch_port_mau_type"] = _MEDIA[medium]
    return found


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
    b"\x00\x80\xc2\x02": _read_protocol_vlan,
    b"\x00\x80\xc2\x03": _read_vlan,
    b"\x00\x80\xc2\x04": _read_protocol,
    b"\x00\x80\xc2\x06": _number_reader("switch_port_management_vlan_id", at=0, size=2),
    b"\x00\x80\xc2\x07": _read_aggregation,
    b"\x00\x12\x0f\x01": _read_physical,
    b"\x00\x12\x0f\x03": _read_aggregation,
    b"\x00\x12\x0f\x04": _number_reader("switch_port_mtu", at=0, size=2),
}
