"""Faults that compiled JSON schemas find, as refusals with the path and a reason in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import fastjsonschema

from ironic_lite import errors

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


def run(check: Callable[[Any], object], value: object, root: str, lead: str) -> None:
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
