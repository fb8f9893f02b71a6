"""JSON schemas of request bodies, and error messages with JSON paths.

Schemas are compiled at their first use and cached; a check of ten steps then takes microseconds.
"""

from __future__ import annotations

import ipaddress
import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any

import fastjsonschema

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import holds, run_stops
from ironic_lite.domain.erasure_records import DataState
from ironic_lite.domain.fields import Field, Type

# Faults that compiled JSON schemas find, as refusals with the path and a reason in words.

_SHOWN = 80
_DESCRIBED = frozenset({"pattern", "minProperties", "maxProperties"})
"""Rules whose faults are reported in the words of the schema's ``description``, if it has one."""
TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}
"""JSON's names of types."""


def run_check(check: Callable[[Any], object], value: object, root: str, lead: str) -> None:
    """Run a compiled check of ``value`` at path ``root``.

    :param lead: the start of error messages.
    :raises errors.InvalidParameter: with the path of the invalid value.
    """
    try:
        check(value)
    except fastjsonschema.JsonSchemaValueException as fault:
        below, reason = _fault_reason(fault)
        path = "/".join((*filter(None, (root,)), *fault.path[1:], *below))
        place = f"{path}: " if path else ""
        raise errors.InvalidParameter(
            f"{lead}: {place}{reason}", path=path, reason=reason
        ) from None


def _fault_reason(fault: fastjsonschema.JsonSchemaValueException) -> tuple[tuple[str, ...], str]:
    """Return the path below the fault's own path, and the reason.

    The reason repeats only words of enumerations: other values may be secret, and errors are
    logged.
    """
    known = ", ".join(fault.definition.get("properties", ()))
    if fault.rule == "additionalProperties":
        unknown = sorted(set(fault.value) - set(fault.definition["properties"]))
        return (unknown[0],), f"unknown key; known are {known}"
    if fault.rule == "required":
        missing = [key for key in fault.definition["required"] if key not in fault.value]
        return (missing[0],), "is required"
    if fault.rule == "anyOf":
        return (), "is not an integer of 0 or more"
    if fault.rule in _DESCRIBED and "description" in fault.definition:
        return (), f"must be {fault.definition['description']}"
    said = (fault.message or "").removeprefix(fault.name or "").strip()
    if fault.rule == "enum" and isinstance(fault.value, str):
        return (), f"{fault.value[:_SHOWN]!r} {said}"
    return (), f"{said}, not {TYPES[type(fault.value)]}" if fault.rule == "type" else said


STEP_INTERFACES = ("vendor", "power", "management", "firmware", "deploy", "bios", "raid")

MOST_STEPS = 1000
"""Largest number of steps in a list: the conductor writes the whole list with the node at each
step, and cannot be interrupted until a step waits."""

_OBJECT = {"type": "object"}
MOST_HELD = 1000
"""Largest number of nodes whose holds one request sets or ends."""


def text(pattern: str, words: str) -> Json:
    """Return the schema of a text; ``words`` stand for the pattern in errors."""
    return {"type": "string", "pattern": pattern, "description": words}


def opened(required: Collection[str] = (), /, **properties: Json) -> Json:
    """Return the schema of an object with these keys, some of them required, and any others."""
    found: Json = {"type": "object", "properties": properties}
    return {**found, "required": list(required)} if required else found


def closed(required: Collection[str] = (), /, **properties: Json) -> Json:
    """Return the schema of an object with these keys, some of them required, and no others."""
    return {**opened(required, **properties), "additionalProperties": False}


_STEP: Json = {
    "interface": {"enum": list(STEP_INTERFACES)},
    "step": {"type": "string", "minLength": 1, "maxLength": 255},
    "args": _OBJECT,
}
_PLACE: Json = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": sys.maxsize},  # 64 bits: JSON's
        {"type": "string", "pattern": "^[0-9]{1,18}$"},
    ]
}
_LISTED_STEP = closed(
    ("interface", "step"),
    **_STEP,
    order={"type": "integer", "minimum": 0},
    execute_on_child_nodes={"type": "boolean"},
    limit_child_node_execution={"type": "array", "items": {"type": "string"}},
)
_DEPLOY_STEP = closed(("interface", "step", "args", "priority"), **_STEP, priority=_PLACE)
_RUNBOOK_STEP = closed(("interface", "step", "order"), **_STEP, order=_PLACE)


_WORD = {"type": "string", "maxLength": 255}
_WORD_OR_NULL = {"type": ["string", "null"], "maxLength": 255}
_EVENT = closed(
    ("event", "port_id", "mac_address", "status"),
    event={"enum": ["network.bind_port", "network.unbind_port", "network.delete_port"]},
    **dict.fromkeys(("port_id", "mac_address", "status"), _WORD),
    **dict.fromkeys(("device_id", "binding:host_id", "binding:vnic_type"), _WORD_OR_NULL),
)
_OPERATION = closed(
    ("op", "args"),
    op={"type": "string", "minLength": 1, "maxLength": 255},
    args={"type": ["object", "array"]},
    loop={"type": ["array", "object", "null"], "maxItems": 1000},
)
_ORDINAL = {"type": "integer", "minimum": 0, "maximum": sys.maxsize}
_WAIVER = closed(
    ("reason",),
    ordinal=_ORDINAL,
    reason={**text(r"\S", "a text that is not blank"), "minLength": 1, "maxLength": 255},
)
_MULTIPLE = {"enum": ["any", "all", "first", "last"]}
_REASON = {"type": "string", "minLength": 1, "maxLength": 255}
KIND = text(r"^[a-z0-9-]{1,32}\Z", "a word of a-z, 0-9 and -, of 1 to 32 characters")
_MANY_HOLDS: Json = {
    "kind": KIND,
    "reason": _REASON,
    "all": {"enum": [True]},
    "conductor_group": {"type": "string", "maxLength": 255},
    "nodes": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST_HELD},
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_HELD},
}
_CONDITION = {
    **_OPERATION,
    "properties": {**_OPERATION["properties"], "multiple": _MULTIPLE},
}


def _steps_schema(one: Json) -> Json:
    return {"type": "array", "items": one, "maxItems": MOST_STEPS}


# -- the networks of a node -------------------------------------------------------------------
# OpenStack's network_data.json, as far as Ironic checks it; other keys are allowed.

_NETMASKS = frozenset(str(ipaddress.ip_network(f"0.0.0.0/{bits}").netmask) for bits in range(33))
_MAC_ADDRESS = text(r"^([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}\Z", "a MAC address")


_V4, _V6 = "an IPv4 address", "an IPv6 address"
_V6_HOST = "an IPv6 address, with a prefix or without"
_HOST = "an IP address"
_MASK = "an IPv4 netmask"


def _accepted_by(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Return a check that passes the texts that ``parse`` accepts without a ValueError."""

    def accepts(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return accepts


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    # words of errors -> check
    _V4: _accepted_by(ipaddress.IPv4Address),
    _V6: _accepted_by(ipaddress.IPv6Address),
    _V6_HOST: _accepted_by(ipaddress.IPv6Interface),
    _HOST: _accepted_by(ipaddress.ip_interface),
    _MASK: _NETMASKS.__contains__,
}


def _address(words: str) -> Json:
    return {"type": "string", "format": words}


def _object(properties: Json, *, more: Json | None = None) -> Json:
    """Return the schema of an object with these keys, and perhaps ``more``, and any others."""
    return opened(tuple(properties), **properties, **(more or {}))


_LINK_NAME = {"type": "string"}
_LINK_MORE: Json = {
    "mtu": {"type": ["number", "null"], "minimum": 1, "maximum": 65535},
    "vif_id": {"type": "string"},
}
_PLAIN_LINK = _object({"ethernet_mac_address": _MAC_ADDRESS}, more=_LINK_MORE)
_BOND = _object(
    {
        "ethernet_mac_address": _MAC_ADDRESS,
        "bond_mode": {
            "enum": [
                *("802.3ad", "balance-rr", "active-backup", "balance-xor"),
                *("broadcast", "balance-tlb", "balance-alb"),
            ]
        },
        "bond_links": {"type": "array", "items": _LINK_NAME},
    },
    more=_LINK_MORE,
)
_VLAN = _object(
    {"vlan_mac_address": _MAC_ADDRESS, "vlan_link": _LINK_NAME, "vlan_id": {"type": "integer"}},
    more=_LINK_MORE,
)


def _by_type(word: Json, then: Json, other: Json) -> Json:
    return {"if": {"properties": {"type": word}}, "then": then, "else": other}


_LINK = {
    **_object(
        {
            "id": _LINK_NAME,
            "type": {
                "enum": [
                    *("bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif"),
                    *("phy", "bond", "vlan"),
                ]
            },
        }
    ),
    **_by_type({"const": "bond"}, _BOND, _by_type({"const": "vlan"}, _VLAN, _PLAIN_LINK)),
}


def _services(address: str) -> Json:
    service = _object({"type": {"enum": ["dns"]}, "address": _address(address)})
    return {"type": "array", "items": service}


def _addresses(address: str, host: str, netmask: str) -> Json:
    """Return the schema of the addresses of a network."""
    route = _object(
        {"network": _address(address), "netmask": _address(netmask), "gateway": _address(address)},
        more={"services": _services(host)},
    )
    keys = {"ip_address": _address(host), "netmask": _address(netmask)}
    return {"properties": {**keys, "routes": {"type": "array", "items": route}}}


_NETWORK = {
    **_object(
        {
            "id": {"type": "string"},
            "link": _LINK_NAME,
            "network_id": {"type": "string"},
            "type": {"enum": ["ipv4", "ipv4_dhcp", "ipv6", "ipv6_dhcp", "ipv6_slaac"]},
        }
    ),
    **_by_type(
        {"enum": ["ipv4", "ipv4_dhcp"]},
        _addresses(_V4, _V4, _MASK),
        _addresses(_V6, _V6_HOST, _V6),
    ),
}


SCHEMAS: dict[str, Json] = {
    "clean_steps": _steps_schema(_LISTED_STEP),
    "service_steps": _steps_schema(_LISTED_STEP),
    "deploy_steps": _steps_schema(_DEPLOY_STEP),
    "steps": {**_steps_schema(_DEPLOY_STEP), "minItems": 1},  # of a deploy template
    "runbook_steps": {**_steps_schema(_RUNBOOK_STEP), "minItems": 1},
    "retry": closed(
        **{"from": _ORDINAL},
        waive={"type": "array", "items": _WAIVER, "maxItems": MOST_STEPS},
        force={"type": "boolean"},
    ),
    "stop": closed(
        ("how",),
        how={"enum": [str(how) for how in run_stops.How]},
        after={"anyOf": [_ORDINAL, {"type": "null"}]},
        reason={"type": ["string", "null"], "maxLength": 255},
    ),
    "hold": closed(
        ("kind", "reason"),
        kind=KIND,
        reason=_REASON,
        until={"type": ["string", "null"], "maxLength": 40},
        blocks={
            "type": ["array", "null"],
            "items": {"enum": [str(block) for block in holds.Block]},
            "maxItems": len(holds.Block),
        },
    ),
    "holds": closed(("kind", "reason"), **_MANY_HOLDS),
    "holds_end": closed(("kind", "reason"), **_MANY_HOLDS, unread={"type": "boolean"}),
    "data_state": closed(
        ("data_state", "reason"),
        data_state={"enum": [str(state) for state in DataState]},
        reason=_REASON,
    ),
    "configdrive": closed(
        **dict.fromkeys(("meta_data", "network_data", "vendor_data"), _OBJECT),
        user_data={"type": ["object", "array", "string", "null"]},
    ),
    "network_data": _object(
        {
            "links": {"type": "array", "items": _LINK},
            "networks": {"type": "array", "items": _NETWORK},
            "services": _services(_HOST),
        }
    ),
    # Of an inspection rule.
    "conditions": {"type": "array", "items": _CONDITION, "maxItems": 100},
    "actions": {"type": "array", "items": _OPERATION, "minItems": 1, "maxItems": 100},
    # Sent by the network service of OpenStack.
    "events": closed(
        ("events",), events={"type": "array", "items": _EVENT, "minItems": 1, "maxItems": 1000}
    ),
    "local_link_connection": closed(
        switch_id={"type": "string"},
        port_id={"type": "string", "minLength": 1},
        switch_info={"type": ["string", "object", "null"]},
        hostname={"type": "string", "minLength": 1},
        network_type={"enum": ["managed", "unmanaged"]},
    ),
}
"""Schemas by name; features add theirs."""

_WIRE_TYPES: Mapping[Type, list[str]] = {
    Type.STRING: ["string", "null"],
    Type.BOOLEAN: ["boolean", "string", "null"],  # words are read by rules.boolean
    Type.OBJECT: ["object", "null"],
    Type.LIST: ["array", "null"],
    Type.INTEGER: ["integer", "null"],
}


def _of_fields(table: tuple[Field, ...]) -> Json:
    properties: Json = {}
    for field in table:
        if field.creatable or field.patchable:
            properties[field.name] = {"type": _WIRE_TYPES[field.type]}
            if field.type is Type.STRING and field.length is not None:
                properties[field.name]["maxLength"] = field.length
    return {"type": "object", "properties": properties}


# -- compiled checks and messages ------------------------------------------------------------


@cache
def _compiled_check(name: str) -> Callable[[Any], Any]:
    check: Callable[[Any], Any] = fastjsonschema.compile(SCHEMAS[name], formats=_FORMATS)
    return check


@cache
def _compiled_property(name: str, key: str) -> Callable[[Any], Any]:
    """Return the check of one property of the items of a list."""
    check: Callable[[Any], Any] = fastjsonschema.compile(SCHEMAS[name]["items"]["properties"][key])
    return check


@cache
def _compiled_fields(table: tuple[Field, ...]) -> Callable[[Any], Any]:
    check: Callable[[Any], Any] = fastjsonschema.compile(_of_fields(table))
    return check


def schema(name: str) -> Json:
    """Return the schema called ``name``."""
    return dict(SCHEMAS[name])


def check(name: str, value: object, root: str, lead: str) -> None:
    """Check ``value`` at path ``root`` against the schema called ``name``.

    :param lead: the start of error messages.
    :raises errors.InvalidParameter: with the path of the invalid value.
    """
    run_check(_compiled_check(name), value, root, lead)


def refusals_of_list(
    name: str, value: object, root: str, lead: str
) -> Iterator[errors.InvalidParameter]:
    """Yield the refusals of a list of objects; the first is the one that `check` raises.

    :param name: a schema of a list, such as ``clean_steps``.
    """
    try:
        check(name, value, root, lead)
        return
    except errors.InvalidParameter as why:
        first = why
        yield why
    if isinstance(value, list) and len(value) <= MOST_STEPS:
        items = (
            _item_refusals(name, one, f"{root}/{place}", lead) for place, one in enumerate(value)
        )
        for refusal in itertools.chain.from_iterable(items):
            if refusal.message != first.message:
                yield refusal


def _item_refusals(
    name: str, value: object, root: str, lead: str
) -> Iterator[errors.InvalidParameter]:
    schema_of_item = SCHEMAS[name]["items"]
    if not isinstance(value, dict):
        yield _refusal(lead, root, f"must be object, not {TYPES[type(value)]}")
        return
    known = schema_of_item["properties"]
    for key in schema_of_item["required"]:
        if key not in value:
            yield _refusal(lead, f"{root}/{key}", "is required")
    for key, given in sorted(value.items()):
        if key not in known:
            reason = f"unknown key; known are {', '.join(known)}"
            yield _refusal(lead, f"{root}/{key}", reason)
            continue
        try:
            run_check(_compiled_property(name, key), given, f"{root}/{key}", lead)
        except errors.InvalidParameter as why:
            yield why


def _refusal(lead: str, path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(f"{lead}: {path}: {reason}", path=path, reason=reason)


def check_fields(table: tuple[Field, ...], given: JsonView, lead: str) -> None:
    """Check types and lengths of a resource's fields; ``given`` is field name -> value.

    :raises errors.InvalidParameter: with the path of the invalid value.
    """
    run_check(_compiled_fields(table), given, "", lead)
