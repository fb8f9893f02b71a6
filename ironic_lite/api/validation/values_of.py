"""Rules of single fields beyond type and length: one function for each.

``schemas`` gets the function of each field from `rule`. A function takes the value, its path and
the request's minor API version, and returns the value in stored form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.api.validation import rules, shapes, step_lists
from ironic_lite.core.json_types import Json
from ironic_lite.domain import fields, inspection_rules, runbooks
from ironic_lite.domain.fields import Field
from ironic_lite.records import StoredStep

Check = Callable[[Any, str, int], Any]

_NETWORK_TYPE_SINCE = 64


def rule(field: Field) -> Check | None:
    """Return the rule of a field, or None for a field without one."""
    return _OWN.get(field) or _SPECIAL.get(field.name)


def _read_uuid(value: object, path: str, _version: int) -> str:
    return rules.uuid(value, path)


def _not_empty(value: object, path: str, _version: int) -> str:
    return rules.text(value, path, least=1)


def _read_name(value: object, path: str, version: int) -> str:
    return rules.name(value, path, version=version)


def _network_data(value: object, path: str, _version: int) -> Any:
    if value:  # an empty object removes the data
        shapes.check("network_data", value, path, "Invalid network_data")
    return value


def _local_link(value: Any, path: str, version: int) -> Json:
    """Return a checked connection: empty, a switch port, a smart NIC, or unmanaged."""
    shapes.check("local_link_connection", value, path, f"Invalid {path}")
    found: Json = dict(value)
    if "network_type" in found and version < _NETWORK_TYPE_SINCE:
        raise errors.NotAcceptable(what=f"{path}/network_type", since=_NETWORK_TYPE_SINCE)
    if "switch_id" in found:
        found["switch_id"] = rules.switch_id(found["switch_id"], f"{path}/switch_id")
    complete = found.keys() >= {"switch_id", "port_id"} or found.keys() >= {"port_id", "hostname"}
    if found and not complete and found.get("network_type") != "unmanaged":
        reason = "needs switch_id and port_id, or port_id and hostname of a smart NIC"
        raise errors.InvalidParameter(path=path, reason=reason)
    return found


def _read_properties(value: Any, path: str, _version: int) -> Any:
    """Return properties with checked sizes, which allocation and deployment use."""
    for name in _SIZES & (value or {}).keys():
        if value[name] is not None:
            rules.count(value[name], f"{path}/{name}")
    return value


_SIZES = frozenset({"local_gb", "memory_mb"})


def _read_group(value: object, path: str, _version: int) -> str:
    return rules.conductor_group(value, path)


def _read_mac(value: object, path: str, _version: int) -> str:
    return rules.mac(value, path)


_SPECIAL: Mapping[str, Check] = {
    "uuid": _read_uuid,
    "instance_uuid": _read_uuid,
    "chassis_uuid": _read_uuid,
    "node_uuid": _read_uuid,
    "portgroup_uuid": _read_uuid,
    "name": _read_name,
    "driver": _not_empty,
    "instance_name": _not_empty,
    "shard": _not_empty,
    "parent_node": _not_empty,
    "physical_network": _not_empty,
    "conductor_group": _read_group,
    "network_data": _network_data,
    "address": _read_mac,
    "local_link_connection": _local_link,
    **{f"{kind}_interface": _not_empty for kind in fields.INTERFACE_KINDS},
}


def _read_trait(value: object, path: str, _version: int) -> str:
    return rules.trait(value, path)


def _template_steps(value: object, path: str, _version: int) -> list[StoredStep]:
    return step_lists.of_template(value, path, "Schema error for deploy template")


def _plain_name(value: object, path: str, version: int) -> str:
    """Return a name without reserved names, because the resource has no sub-resources."""
    return rules.name(value, path, version=version, reserved=frozenset())


def _part_name(value: object, path: str, version: int) -> str:
    """Return the name of a port or portgroup, whose collections have the path ``detail`` alone."""
    return rules.name(value, path, version=version, reserved=_DETAIL)


def _runbook_name(value: object, path: str, version: int) -> str:
    plain = version >= runbooks.TRAITS_SINCE
    return _plain_name(value, path, version) if plain else rules.trait(value, path)


def _runbook_steps(value: object, path: str, _version: int) -> list[StoredStep]:
    return step_lists.of_runbook(value, path, "Schema error for runbook")


def _read_operations(value: Any, path: str, _version: int) -> list[Json]:
    """Return the checked conditions or actions of an inspection rule; ``path`` says which."""
    shapes.check(path, value, path, _OF_RULE)
    inspection_rules.check(**{"conditions": (), "actions": (), path: value})
    listed: list[Json] = value
    return listed


def _read_phase(value: Any, path: str, _version: int) -> str:
    if value not in inspection_rules.PHASES:
        reason = f"{value[:_SHOWN]!r} is not one of {', '.join(inspection_rules.PHASES)}"
        raise errors.InvalidParameter(path=path, reason=reason)
    return str(value)


def _read_priority(value: Any, path: str, _version: int) -> int:
    if not 0 <= value <= _HIGHEST:
        raise errors.InvalidParameter(path=path, reason=f"must be from 0 to {_HIGHEST}")
    return int(value)


_OF_RULE = "Schema error for inspection rule"
_HIGHEST = 9999
_SHOWN = 80


def _read_traits(value: object, path: str, _version: int) -> list[str]:
    return rules.traits(value, path)


def _read_idents(value: Any, path: str, _version: int) -> list[str]:
    """Return UUIDs or names in their order, without duplicates."""
    if len(value) > _MOST_IDENTS:
        raise errors.InvalidParameter(path=path, reason=f"has more than {_MOST_IDENTS} entries")
    return list(
        dict.fromkeys(
            rules.text(each, f"{path}/{place}", least=1, length=255)
            for place, each in enumerate(value)
        )
    )


_DETAIL = frozenset({"detail"})
_MOST_IDENTS = 10_000
"""The largest number of values in one statement that all databases accept."""

# Fields whose rule differs from that of fields with the same name in other resources.
_OWN: Mapping[Field, Check] = {
    fields.by_name(fields.NODE)["properties"]: _read_properties,
    fields.by_name(fields.PORT)["name"]: _part_name,
    fields.by_name(fields.PORTGROUP)["name"]: _part_name,
    fields.by_name(fields.DEPLOY_TEMPLATE)["name"]: _read_trait,
    fields.by_name(fields.DEPLOY_TEMPLATE)["steps"]: _template_steps,
    fields.by_name(fields.RUNBOOK)["name"]: _runbook_name,
    fields.by_name(fields.RUNBOOK)["steps"]: _runbook_steps,
    fields.by_name(fields.INSPECTION_RULE)["phase"]: _read_phase,
    fields.by_name(fields.INSPECTION_RULE)["priority"]: _read_priority,
    fields.by_name(fields.INSPECTION_RULE)["conditions"]: _read_operations,
    fields.by_name(fields.INSPECTION_RULE)["actions"]: _read_operations,
    fields.by_name(fields.ALLOCATION)["name"]: _plain_name,
    fields.by_name(fields.ALLOCATION)["traits"]: _read_traits,
    fields.by_name(fields.ALLOCATION)["candidate_nodes"]: _read_idents,
}
