"""Check the bodies of requests: resources by the rows of ``fields``, verbs by ``shapes``.

The functions return values in stored form. Errors name the JSON path, such as
``clean_steps/0/interface``.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.api.validation import rules, shapes, values_of
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, verbs
from ironic_lite.domain.fields import Field, Type

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
    special = values_of.rule(field)
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
