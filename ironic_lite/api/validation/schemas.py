"""Check the bodies of requests: resources by the rows of ``fields``, verbs by ``shapes``.

The functions return values in stored form. Errors name the JSON path, such as
``clean_steps/0/interface``.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.api.validation import rules, shapes
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, inspection_rules, step_lists, steps, verbs
from ironic_lite.domain.fields import Field, Type
from ironic_lite.domain.steps import StepKind
from ironic_lite.images import iso
from ironic_lite.records import StoredStep

# Check lists of steps of requests, deploy templates and runbooks.
#
# Errors name the JSON path, such as ``deploy_steps/0/priority``.


def request_steps(
    kind: StepKind, given: Any, *, disallowed: Collection[str] = ()
) -> list[StoredStep]:
    """Check the steps of a request and return them unchanged.

    :raises errors.InvalidParameter: the first of `refusals`.
    """
    for refusal in step_refusals(kind, given, disallowed=disallowed):
        raise refusal
    listed: list[StoredStep] = given
    return listed


def are_steps_well_formed(kind: StepKind, given: Any) -> bool:
    """Return whether the steps of a request have the right form, whatever their values."""
    root = f"{kind}_steps"
    return not any(shapes.refusals_of_list(root, given, root, ""))


def step_refusals(
    kind: StepKind, given: Any, *, disallowed: Collection[str] = ()
) -> Iterator[errors.InvalidParameter]:
    """Yield the refusals of the steps of a request.

    They are: not a list of steps, an empty list of clean or service steps, and steps that are
    not allowed. The other checks are left out if the form is wrong.

    :param kind: clean, service or deploy.
    :param disallowed: ``interface.step`` of the steps that the configuration forbids.

    Source: S1.14, S1.15.
    """
    root = f"{kind}_steps"
    lead = f"Invalid {root}"
    if not given and kind is not StepKind.DEPLOY:
        reason = "must be a list of at least one step"
        yield errors.InvalidParameter(f"{lead}: {reason}", path=root, reason=reason)
    malformed = False
    for refusal in shapes.refusals_of_list(root, given, root, lead):
        malformed = True
        yield refusal
    if malformed:
        return
    for position, step in enumerate(given):
        path = f"{root}/{position}"
        yield from _reserved_refusals(kind, step, path, lead)
        for place, child in enumerate(step.get("limit_child_node_execution", ())):
            try:
                rules.uuid(child, f"{path}/limit_child_node_execution/{place}")
            except errors.InvalidParameter as why:
                yield why
    yield from _disallowed_refusals(given, disallowed, root, lead)


def template_steps(given: Any, root: str, lead: str) -> list[StoredStep]:
    """Return the checked steps of a deploy template, priorities as integers.

    :param root: the path of the list.
    :param lead: the start of error messages.
    :raises errors.InvalidParameter: not a list of deploy steps, an empty list, or a repeated step.
    """
    shapes.check("steps", given, root, lead)
    _check_each_once(StepKind.DEPLOY, given, root, lead)
    listed: list[StoredStep] = given
    return [{**step, "priority": int(step["priority"] or 0)} for step in listed]


def runbook_steps(given: Any, root: str, lead: str) -> list[StoredStep]:
    """Return the checked steps of a runbook, each with ``args`` and an integer ``order``.

    :raises errors.InvalidParameter: as `of_template`.
    """
    shapes.check("runbook_steps", given, root, lead)
    _check_each_once(StepKind.CLEAN, given, root, lead)
    listed: list[StoredStep] = given
    return [{**step, "args": step.get("args", {}), "order": int(step["order"])} for step in listed]


def _check_each_once(kind: StepKind, given: list[StoredStep], root: str, lead: str) -> None:
    seen: set[str] = set()
    for position, step in enumerate(given):
        title = steps.title(step)
        if title in seen:
            raise _steps_refused(
                f"{root}/{position}", f"step {title} is given more than once", lead
            )
        seen.add(title)
        for refusal in _reserved_refusals(kind, step, f"{root}/{position}", lead):
            raise refusal


def refuse_disallowed_steps(
    given: Collection[StoredStep], disallowed: Collection[str], root: str, lead: str
) -> None:
    """Refuse steps that the operator's configuration forbids.

    :param lead: the start of error messages.
    :raises errors.InvalidParameter: a step is in ``disallowed``.
    """
    for refusal in _disallowed_refusals(given, disallowed, root, lead):
        raise refusal


def _disallowed_refusals(
    given: Collection[StoredStep], disallowed: Collection[str], root: str, lead: str
) -> Iterator[errors.InvalidParameter]:
    for position, step in enumerate(given):
        title = steps.title(step)
        if title in disallowed:
            reason = f"step {title} is not allowed by the operator's configuration"
            yield _steps_refused(f"{root}/{position}/step", reason, lead)


def _reserved_refusals(
    kind: StepKind, step: StoredStep, path: str, lead: str
) -> Iterator[errors.InvalidParameter]:
    """Check the arguments of steps without a driver, which need no conductor for the check."""
    reserved = step["step"] in step_lists.RESERVED
    faults = step_lists.faults_of_reserved(step, kind, path) if reserved else []
    if faults:
        reason = "; ".join(fault.text for fault in faults)
        yield _steps_refused(f"{path}/args", reason, lead)


def _steps_refused(path: str, reason: str, lead: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(f"{lead}: {path}: {reason}", path=path, reason=reason)


# Rules of single fields beyond type and length: one function for each.
#
# ``schemas`` gets the function of each field from `rule`. A function takes the value, its path and
# the request's minor API version, and returns the value in stored form.

Check = Callable[[Any, str, int], Any]

_NETWORK_TYPE_SINCE = 64


def _read_uuid(value: object, path: str, _version: int) -> str:
    return rules.uuid(value, path)


def _not_empty(value: object, path: str, _version: int) -> str:
    return rules.text(value, path, least=1)


def _read_name(value: object, path: str, version: int) -> str:
    return rules.name(value, path, version=version)


def _network_data(value: Any, path: str, _version: int) -> Any:
    if value:  # an empty object removes the data
        shapes.check("network_data", value, path, "Invalid network_data")
        iso.networks_file(value)
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
    return template_steps(value, path, "Schema error for deploy template")


def _plain_name(value: object, path: str, version: int) -> str:
    """Return a name without reserved names, because the resource has no sub-resources."""
    return rules.name(value, path, version=version, reserved=frozenset())


def _part_name(value: object, path: str, version: int) -> str:
    """Return the name of a port or portgroup, whose collections have the path ``detail`` alone."""
    return rules.name(value, path, version=version, reserved=_DETAIL)


def _runbook_name(value: object, path: str, version: int) -> str:
    plain = version >= step_lists.TRAITS_SINCE
    return _plain_name(value, path, version) if plain else rules.trait(value, path)


def _runbook_steps(value: object, path: str, _version: int) -> list[StoredStep]:
    return runbook_steps(value, path, "Schema error for runbook")


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


_CONFIGDRIVE_OBJECT_SINCE = 56
_VENDOR_DATA_SINCE = 59
_NODE_IDENT_SINCE = 94

# -- values of fields ------------------------------------------------------------------------


def values(table: tuple[Field, ...], given: JsonView, *, version: int, what: str) -> Json:
    """Check values of fields and return them in stored form.

    Null becomes the field's default. The caller checks whether the fields may be written.

    :param given: field name -> value.
    :param what: ``node``, ``port`` and so on, for messages.
    :raises errors.InvalidParameter: a value of the wrong type, or one that breaks the field's rule.
    """
    lead = f"Schema error for {what}"
    shapes.check_fields(table, given, lead)
    known = fields.by_name(table)
    try:
        return {name: _stored_value(known[name], value, version) for name, value in given.items()}
    except errors.InvalidParameter as fault:
        if fault.message.startswith("Schema error"):
            raise
        raise errors.InvalidParameter(f"{lead}: {fault.message}", **fault.facts) from None


def _stored_value(field: Field, value: object, version: int) -> Any:
    if value is None:
        if field.required and field.default is None:
            raise errors.InvalidParameter(path=field.name, reason="must not be null")
        return field.default if field.type is not Type.OBJECT else {}
    if field.type is Type.BOOLEAN:
        return rules.boolean(value, field.name)
    if field.type is Type.STRING:
        rules.text(value, field.name)
    if field.type is Type.INTEGER:
        value = rules.integer(value, field.name)
    special = _OWN.get(field) or _SPECIAL.get(field.name)
    return special(value, field.name, version) if special else value


# -- bodies of POST --------------------------------------------------------------------------


def node(body: object, *, version: int) -> Json:
    """Return the column values that a POST /v1/nodes contains.

    :raises errors.InvalidParameter: an unknown or unwritable key, or an invalid value.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    given = _writable_values(fields.NODE, body, version=version, what="node")
    if given.get("driver") is None:
        raise errors.InvalidParameter(
            "Schema error for node: driver: is required", path="driver", reason="is required"
        )
    if given.get("retired_reason") and not given.get("retired"):
        raise errors.InvalidParameter(path="retired_reason", reason="needs retired to be true")
    named = display_name(given.get("instance_info"))
    if named is not None and given.get("instance_name") is None:
        given["instance_name"] = named
    return given


def port(body: object, *, version: int) -> Json:
    """Return the column values that a POST /v1/ports contains.

    ``node_ident`` (1.94) stays in the result under its own name; the caller finds the node.

    :raises errors.InvalidParameter: an unknown or unwritable key, an invalid value, no address or
        no node.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    rest = dict(body) if isinstance(body, dict) else body
    ident = rest.pop("node_ident", None) if isinstance(rest, dict) else None
    if ident is not None and version < _NODE_IDENT_SINCE:
        raise errors.NotAcceptable(what="node_ident", since=_NODE_IDENT_SINCE)
    given = _writable_values(fields.PORT, rest, version=version, what="port")
    if given.get("address") is None:
        raise errors.InvalidParameter(
            "Schema error for port: address: is required", path="address", reason="is required"
        )
    if ident is not None:
        given["node_ident"] = rules.text(ident, "node_ident", least=1, length=255)
    if (ident is None) == (given.get("node_uuid") is None):
        raise errors.InvalidParameter(
            path="node_uuid", reason="give exactly one of node_uuid and node_ident"
        )
    smart_nic(given)
    return given


def resource(
    table: tuple[Field, ...],
    body: object,
    *,
    version: int,
    what: str,
    needs: tuple[str, ...] = (),
) -> Json:
    """Return the column values that a POST of a resource contains.

    :param what: ``chassis``, ``deploy template`` and so on, for messages.
    :param needs: names of mandatory fields.
    :raises errors.InvalidParameter: an unknown, unwritable or missing key, or an invalid value.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    given = _writable_values(table, body, version=version, what=what)
    for name in needs:
        if name not in given:
            message = f"Schema error for {what}: {name}: is required"
            raise errors.InvalidParameter(message, path=name, reason="is required")
    return given


def display_name(instance_info: object) -> str | None:
    """Return the display_name, which instance_name follows, or None if it is not a valid name."""
    found = instance_info.get("display_name") if isinstance(instance_info, dict) else None
    fits = isinstance(found, str) and 0 < len(found) <= _NAME_LENGTH
    return found if fits else None


_NAME_LENGTH = 255


def smart_nic(port_values: JsonView) -> None:
    """Refuse a smart NIC without the connection data that it needs.

    :raises errors.InvalidParameter: port_id or hostname is missing.
    """
    link = port_values.get("local_link_connection")
    if port_values.get("is_smartnic") and link and not link.keys() >= {"port_id", "hostname"}:
        reason = "needs port_id and hostname for a smart NIC"
        raise errors.InvalidParameter(path="local_link_connection", reason=reason)


_INSTEAD: Mapping[str, str] = {
    "traits": "set traits with PUT /v1/nodes/{node}/traits",
    "target_raid_config": "set it with PUT /v1/nodes/{node}/states/raid",
    "provision_state": "change it with PUT /v1/nodes/{node}/states/provision",
    "power_state": "change it with PUT /v1/nodes/{node}/states/power",
    "protected": "set it with PATCH once the node is active",
}


def _writable_values(table: tuple[Field, ...], body: object, *, version: int, what: str) -> Json:
    if not isinstance(body, dict):
        raise errors.InvalidParameter(
            f"Schema error for {what}: the body must be a JSON object", path="", reason="no object"
        )
    known = fields.by_name(table)
    kept: Json = {}
    for name, value in body.items():
        if name == "uuid" and value is None:  # generated, as if it were left out
            continue
        field = known.get(name)
        if field is None or not field.creatable:
            reason = "cannot be set here" if field else f"is not a property of a {what}"
            hint = f"; {_INSTEAD[name]}" if name in _INSTEAD and what == "node" else ""
            message = f"Schema error for {what}: {name}: {reason}{hint}"
            raise errors.InvalidParameter(message, path=name, reason=reason)
        if field.since <= version:
            kept[name] = value
        elif value is not None:
            raise errors.NotAcceptable(what=f"Field {name}", since=field.since)
    return values(table, kept, version=version, what=what)


# -- bodies of actions -----------------------------------------------------------------------


def provision(body: object) -> Json:
    """Check the outline of PUT .../states/provision: a target, and only known keys.

    :raises errors.MissingParameter: no target, or a body that is not an object.
    :raises errors.InvalidParameter: unknown keys, or a target that is not a string.
    """
    if not isinstance(body, dict) or body.get("target") is None:
        raise errors.MissingParameter(path="target")
    errors.UnexpectedArguments.check(body, verbs.BODY_KEYS)
    rules.text(body["target"], "target", least=1)
    found: Json = {key: value for key, value in body.items() if value is not None}
    if "disable_ramdisk" in found:
        found["disable_ramdisk"] = rules.boolean(found["disable_ramdisk"], "disable_ramdisk")
    if "runbook" in found:
        rules.text(found["runbook"], "runbook", least=1, length=255)
    if "rescue_password" in found:
        _rescue_password(found["rescue_password"])
    if "retry" in found:
        shapes.check("retry", found["retry"], "retry", "Schema error for retry")
    return found


def _rescue_password(value: object) -> None:
    """Refuse a blank password, without repeating the value in the message."""
    if not isinstance(value, str) or not value.strip():
        reason = "must be a string that is not blank"
        raise errors.InvalidParameter(path="rescue_password", reason=reason)


_BASE64 = re.compile(r"[A-Za-z0-9+/\s]++={0,2}\s*")  # possessive: both parts match blanks
_GZIP = b"\x1f\x8b"
_WEB = re.compile(r"https?://", re.IGNORECASE)


def configdrive(given: object, *, version: int) -> Any:
    """Return a configdrive: an object to build one from, a URL, or a gzipped ISO in base64.

    :raises errors.InvalidParameter: anything else.
    :raises errors.NotAcceptable: an object before 1.56, or its vendor_data before 1.59.
    """
    if isinstance(given, dict):
        if version < _CONFIGDRIVE_OBJECT_SINCE:
            raise errors.NotAcceptable(
                what="A configdrive as an object", since=_CONFIGDRIVE_OBJECT_SINCE
            )
        shapes.check("configdrive", given, "configdrive", "Invalid configdrive")
        if "vendor_data" in given and version < _VENDOR_DATA_SINCE:
            raise errors.NotAcceptable(what="configdrive/vendor_data", since=_VENDOR_DATA_SINCE)
        return given
    if isinstance(given, str) and (_WEB.match(given) or _gzip_in_base64(given)):
        return rules.text(given, "configdrive")
    reason = "must be an object, a URL of http or https, or a gzipped ISO image in base64"
    raise errors.InvalidParameter(
        f"Invalid configdrive: {reason}", path="configdrive", reason=reason
    )


def _gzip_in_base64(text: str) -> bool:
    if not _BASE64.fullmatch(text):
        return False
    try:
        return binascii.a2b_base64("".join(text[:16].split())[:4]).startswith(_GZIP)
    except binascii.Error:
        return False


_TRAIT_KEYS = frozenset({"traits"})


def trait_list(body: object) -> list[str]:
    """Return, sorted, the traits of a PUT that sets all traits of a node or runbook.

    :raises errors.MissingParameter: no traits.
    :raises errors.InvalidParameter: another key, or an item that is not a trait.
    """
    if not isinstance(body, dict) or body.get("traits") is None:
        raise errors.MissingParameter(path="traits")
    errors.UnexpectedArguments.check(body, _TRAIT_KEYS)
    return rules.traits(body["traits"])


def single_trait(body: object, trait: str, place: str) -> str:
    """Return the trait in the path of a PUT.

    :param place: the path of all traits, such as ``/v1/nodes/{node}/traits``.
    :raises errors.InvalidRequest: the request has a body.
    :raises errors.InvalidParameter: not a trait.
    """
    if body:
        raise errors.InvalidRequest(
            f"A single trait is set without a body. To set all, PUT a list to {place}."
        )
    return rules.trait(trait)
