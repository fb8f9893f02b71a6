"""Apply a JSON PATCH (RFC 6902: add, replace, remove) to a resource: all operations or none.

The result is a map from changed columns to new values, checked by the rules of ``guards``. The
caller writes it; this module does not use the database.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

import jsonpatch
import jsonpointer

from ironic_lite import errors
from ironic_lite.api.http import request
from ironic_lite.api.resources import guards
from ironic_lite.api.validation import schemas
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, steps
from ironic_lite.domain.fields import Field, Type

Table = tuple[Field, ...]
Operations = Sequence["Operation"]
"""Of `read`, with the fields of the resource."""

OPERATIONS = ("add", "replace", "remove")
_KEYS = frozenset({"op", "path", "value"})
_ANY_KEY_SINCE = 98
_PLAIN_PATH = re.compile(r"(/[\w-]+)+")
_ANY_PATH = re.compile(r"(/([^/~\x00]|~[01])+)+")
_CHASSIS_UNSET_SINCE = 25
KIB = 1024
MOST_KIB = 1024
"""Largest size of a field as JSON after patches; every list with details contains it."""
_DRIVE = "configdrive"
_MOST_WORK = 500_000_000
_LOOKED_AT = 2000
"""Nanoseconds for one examined item; `_MOST_WORK` limits a whole patch (`_operation_cost`)."""
# Errors of the libraries for a path that does not exist, or leads into a string or a number.
_LOST = (
    jsonpatch.JsonPatchException,
    jsonpointer.JsonPointerException,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One checked operation; ``root`` is its field, ``whole`` means that it is on all of it."""

    op: str
    path: str
    root: str
    whole: bool
    value: Any = None

    def as_dict(self) -> Json:
        """Return the operation as in RFC 6902."""
        plain = {"op": self.op, "path": self.path}
        return plain if self.op == "remove" else {**plain, "value": self.value}


# -- the resources ---------------------------------------------------------------------------


def rules_of_node(operations: Operations) -> tuple[str, ...]:
    """Return the names of the rules that a caller must pass for a PATCH of a node."""
    needed = (
        guards.rule_of_field(each.root, None if each.op == "remove" else each.value)
        for each in operations
    )
    return tuple(dict.fromkeys(needed)) or (guards.UPDATE,)


def node(before: JsonView, operations: Operations, *, version: int) -> Json:
    """Return column -> new value for a PATCH of a node.

    :param before: all columns of the node, secrets unmasked.
    :raises errors.InvalidParameter: a value is invalid.
    :raises errors.Conflict: the node's state does not allow it (states.TABLE and ``guards``).
    """
    if not operations:
        return {}
    after = _apply_operations(fields.NODE, before, operations, version=version, what="node")
    _restore_secrets(fields.NODE, before, after)
    _add_dependent_changes(before, after)
    changed = _changed_fields(before, after)
    guards.check_node(
        guards.Change(
            before=before,
            after={**before, **after},
            changed=frozenset(changed),
            touched=tuple(f"{each.op} {each.path}" for each in operations),
            version=version,
        )
    )
    return changed


def port(before: JsonView, operations: Operations, *, version: int, owner: JsonView) -> Json:
    """Return column -> new value for a PATCH of a port.

    :param before: the port's columns.
    :param owner: its node's uuid, provision_state, maintenance and instance_uuid.
    :raises errors.InvalidParameter: a value is invalid.
    :raises errors.Conflict: the node's state does not allow it.
    """
    after = _apply_operations(fields.PORT, before, operations, version=version, what="port")
    changed = _changed_fields(before, after)
    schemas.smart_nic({**before, **after})
    guards.check_port(frozenset(changed), owner, version=version)
    return changed


def resource(
    table: Table, before: JsonView, operations: Operations, *, version: int, what: str
) -> Json:
    """Return column -> new value for a PATCH of a resource without rules of its own.

    :param what: ``chassis``, ``allocation`` and so on, for messages.
    :raises errors.InvalidParameter: a value is invalid.
    """
    after = _apply_operations(table, before, operations, version=version, what=what)
    _restore_secrets(table, before, after)
    return _changed_fields(before, after)


def _restore_secrets(table: Table, before: JsonView, after: Json) -> None:
    """Restore secrets whose mask came back, in place, and refuse a mask that stands for none."""
    for each in table:
        if each.secret and each.name in after:
            after[each.name] = masking.restore(each.name, after[each.name], before[each.name])
            request.refuse_mask(after[each.name], each.name)


def deploy_template(before: JsonView, operations: Operations, *, version: int) -> Json:
    """Return column -> new value for a PATCH of a deploy template.

    Step arguments that come back masked, as clients see them, keep their stored values.

    :raises errors.InvalidParameter: a value is invalid.
    """
    return _of_steps(fields.DEPLOY_TEMPLATE, before, operations, version, "deploy template")


def runbook(before: JsonView, operations: Operations, *, version: int) -> Json:
    """Return column -> new value for a PATCH of a runbook, as `deploy_template`.

    A runbook that becomes public loses its owner.

    :raises errors.InvalidParameter: also if the patch gives a public runbook an owner.
    """
    after = _of_steps(fields.RUNBOOK, before, operations, version, "runbook")
    if after.get("public") and before.get("owner") and "owner" not in after:
        after["owner"] = None
    whole = {**before, **after}
    if whole.get("public") and whole.get("owner"):
        raise errors.InvalidParameter(path="owner", reason="a public runbook has no owner")
    return after


def _of_steps(
    table: Table, before: JsonView, operations: Operations, version: int, what: str
) -> Json:
    after = _apply_operations(table, before, operations, version=version, what=what)
    if "steps" in after:
        held = {steps.title(step): step["args"] for step in before["steps"]}
        for step in after["steps"]:
            step["args"] = masking.restore("args", step["args"], held.get(steps.title(step)))
        request.refuse_mask(after["steps"], "steps")
    return _changed_fields(before, after)


# -- reading a patch -------------------------------------------------------------------------


def read(table: Table, patch: object, *, version: int) -> Operations:
    """Check the form of a patch and whether its fields may be written.

    :raises errors.InvalidParameter: malformed, an unknown operation, or a field without PATCH.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    operations = check_form(patch, version=version)
    for place, each in enumerate(operations):
        _check_root(table, each, str(place), version)
    return operations


def check_form(patch: object, *, version: int) -> Operations:
    """Check the form of a patch, independently of the resource.

    :raises errors.InvalidParameter: malformed, or an unknown operation.
    """
    if not isinstance(patch, list):
        raise _patch_refused("", "a patch is a list of operations")
    return tuple(_read_operation(each, str(place), version) for place, each in enumerate(patch))


def _read_operation(given: object, place: str, version: int) -> Operation:
    if not isinstance(given, dict):
        raise _patch_refused(place, "an operation is an object with op, path and value")
    op, path = given.get("op"), given.get("path")
    if op not in OPERATIONS:
        raise _patch_refused(f"{place}/op", f"must be one of {', '.join(OPERATIONS)}")
    syntax = _ANY_PATH if version >= _ANY_KEY_SINCE else _PLAIN_PATH
    if not isinstance(path, str) or not syntax.fullmatch(path):
        raise _patch_refused(f"{place}/path", "must be a path such as /extra/key")
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise _patch_refused(f"{place}/{unknown[0]}", "is not part of an operation")
    if op != "remove" and "value" not in given:
        raise _patch_refused(f"{place}/value", f"is required to {op}")
    parts: list[str] = jsonpointer.JsonPointer(path).parts
    return Operation(op, path, parts[0], len(parts) == 1, given.get("value"))


def _check_root(table: Table, operation: Operation, place: str, version: int) -> None:
    field = fields.by_name(table).get(operation.root)
    if field is None or not field.patchable:
        listed = ", ".join(
            f"/{each.name}" for each in fields.visible(table, version) if each.patchable
        )
        raise errors.InvalidParameter(
            f"Cannot patch {operation.path}. Only the following can be patched: {listed}",
            path=f"{place}/path",
            reason="cannot be patched",
        )
    if field.secret and not operation.whole and masking.secret(operation.path):
        request.refuse_mask(operation.value, f"{place}/value")
    if field.since > version:
        raise errors.NotAcceptable(what=f"Field {field.name}", since=field.since)
    gone = operation.whole and (operation.op == "remove" or operation.value is None)
    if gone and field.required and field.default is None:
        raise _patch_refused(
            f"{place}/path", f"{operation.path} is mandatory and cannot be removed"
        )
    if gone and field.name == "chassis_uuid" and version < _CHASSIS_UNSET_SINCE:
        raise errors.NotAcceptable(what="Unsetting chassis_uuid", since=_CHASSIS_UNSET_SINCE)
    if not operation.whole and field.type not in (Type.OBJECT, Type.LIST):
        raise _patch_refused(f"{place}/path", f"/{field.name} is not an object")


def _patch_refused(path: str, reason: str) -> errors.InvalidParameter:
    place = f"{path}: " if path else ""
    return errors.InvalidParameter(f"Invalid patch: {place}{reason}", path=path, reason=reason)


# -- applying it -----------------------------------------------------------------------------


def _apply_operations(
    table: Table,
    before: JsonView,
    operations: Operations,
    *,
    version: int,
    what: str,
) -> Json:
    """Return the patched fields after all operations, checked and in the stored form."""
    known = fields.by_name(table)
    document: Json = {}
    for operation in operations:
        if operation.root not in document:
            held = before.get(operation.root)
            empty = known[operation.root].empty if held is None else None
            document[operation.root] = copy.deepcopy(held if empty is None else empty)
    touched = tuple(document)
    left = _MOST_WORK
    for operation in operations:
        left -= _apply_operation(document, operation, left)
    _check_extent(before, document)
    return schemas.values(
        table, {name: document.get(name) for name in touched}, version=version, what=what
    )


def _check_extent(before: JsonView, document: Json) -> None:
    """Refuse values that grew too large or too deep by many small patches."""
    for name, value in document.items():
        if request.is_deeper(value, request.MAX_DEPTH):
            raise errors.InvalidParameter(
                path=name, reason=f"would be nested more than {request.MAX_DEPTH} levels deep"
            )
        size = _json_size(value)
        if size > MOST_KIB * KIB and size > _json_size(before.get(name)):
            raise errors.InvalidParameter(
                path=name,
                reason=f"would take {size // KIB} KiB; the limit is {MOST_KIB} KiB. Remove keys "
                "that are no longer needed.",
            )


def _json_size(value: object) -> int:
    """Return the bytes of a field as JSON, without a configdrive, which has its own limit."""
    if isinstance(value, dict) and _DRIVE in value:
        value = {name: held for name, held in value.items() if name != _DRIVE}
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _apply_operation(document: Json, operation: Operation, most: int) -> int:
    """Apply one operation in place and return its cost.

    A field always exists, possibly as null, so that it can be removed twice.

    :param most: the largest cost allowed; see `_operation_cost`.
    """
    if operation.whole:
        document[operation.root] = copy.deepcopy(operation.value)
        return 0
    try:
        pointer = jsonpointer.JsonPointer(operation.path)
        around, last = pointer.to_last(document)
        cost = _operation_cost(operation.op, around, last)
        if cost > most:
            reason = "the patch changes long lists too often; replace the lists as a whole"
            raise errors.InvalidParameter(path=operation.path, reason=reason)
        former = copy.copy(around) if _may_name_secret(around, last) else None
        jsonpatch.apply_patch(document, [operation.as_dict()], in_place=True)
        if former is not None:
            masking.forget_renamed(pointer.parts[-2], around, former)
    except jsonpatch.JsonPatchConflict as fault:
        reason = str(fault)
    except _LOST:
        # The messages of the libraries repeat values, which may be secret.
        reason = "the path leads through a missing key, or a value that is not an object or list"
    else:
        return cost
    what = f"{operation.op} {operation.path}"
    raise errors.InvalidParameter(
        f"Couldn't apply patch '{what}'. Reason: {reason}", path=operation.path, reason=reason
    )


def _may_name_secret(around: object, last: object) -> bool:
    """Return whether a key or index may name the value beside it (`masking.forget_renamed`).

    :param last: the last part of a path: a key of an object, or an index of a list.
    """
    if isinstance(around, list):
        return last in {0, 1} or (last == "-" and len(around) <= 1)
    return last in {"name", "path"}


def _operation_cost(op: str, around: Any, last: Any) -> int:
    """Return the approximate nanoseconds of an operation beyond those for its own size.

    Later items of a list are moved; a list whose items may be names is examined as a whole.
    """
    if _may_name_secret(around, last):
        items = around if isinstance(around, list) else [around.get("name"), around.get("path")]
        texts = sum(len(text) for text in items[:2] if isinstance(text, str))
        return _LOOKED_AT * (len(around) + texts)
    moved = isinstance(around, list) and isinstance(last, int) and op != "replace"
    return max(0, len(around) - last) if moved else 0


def _changed_fields(before: JsonView, after: Json) -> Json:
    return {
        name: value
        for name, value in after.items()
        if not _same_json(value, before.get(name)) and (value != {} or before.get(name))
    }


def _same_json(one: object, other: object) -> bool:
    """Return whether two values are equal as JSON, where True differs from 1 at any depth."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_json, one, other))
    return type(one) is type(other) and bool(one == other)


def _add_dependent_changes(before: JsonView, after: Json) -> None:
    """Add dependent changes: clear reasons with their cause, and keep instance_name in step."""
    if after.get("retired") is False:
        after.setdefault("retired_reason", None)  # S4.8
    if after.get("protected") is False:
        after.setdefault("protected_reason", None)
    if after.get("maintenance") is False and before.get("maintenance"):
        after.update(maintenance_reason=None, fault=None)
    if "instance_uuid" in after and after["instance_uuid"] is None:
        after["allocation_uuid"] = None  # the allocation ends with the instance
    if "instance_info" in after and "instance_name" not in after:
        named = schemas.display_name(after["instance_info"])
        former = schemas.display_name(before.get("instance_info"))
        if named != former and before.get("instance_name") in (None, former):
            after["instance_name"] = named
