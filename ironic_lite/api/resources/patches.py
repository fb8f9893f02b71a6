"""Apply a JSON PATCH (RFC 6902: add, replace, remove) to a resource: all operations or none.

The outcome is the columns that change and their new values, after the rules of ``guards``; the
caller writes them. Nothing here touches the database.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import jsonpatch
import jsonpointer

from ironic_lite import errors, fields, masking, steps
from ironic_lite.api.resources import guards
from ironic_lite.api.validation import schemas
from ironic_lite.api.wire import intake
from ironic_lite.fields import Field, Type

Json = dict[str, Any]
Table = tuple[Field, ...]

_OPERATIONS = ("add", "replace", "remove")
_KEYS = frozenset({"op", "path", "value"})
_ANY_KEY_SINCE = 98
_PLAIN_PATH = re.compile(r"(/[\w-]+)+")
_ANY_PATH = re.compile(r"(/([^/~\x00]|~[01])+)+")
_CHASSIS_UNSET_SINCE = 25
# How the libraries complain of a path that leads nowhere, or into a string or a number.
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
    """One operation, checked; ``root`` is the field it touches, ``whole`` that it means all."""

    op: str
    path: str
    root: str
    whole: bool
    value: Any = None

    def as_dict(self) -> Json:
        """Return RFC 6902's form."""
        plain = {"op": self.op, "path": self.path}
        return plain if self.op == "remove" else {**plain, "value": self.value}


# -- the resources ---------------------------------------------------------------------------


def node(before: Mapping[str, Any], patch: Any, *, version: int) -> Json:
    """Return column -> new value of what a PATCH changes on a node.

    :param before: the node's columns, all of them, secrets unmasked.
    :param patch: the request's body.
    :raises errors.InvalidParameter: the patch is malformed, or a value is wrong.
    :raises errors.NotAcceptable: a field newer than ``version``.
    :raises errors.Conflict: the node's state does not allow it (states.TABLE and ``guards``).
    """
    operations = read(fields.NODE, patch, version=version)
    if not operations:
        return {}
    after = _apply(fields.NODE, before, operations, version=version, what="node")
    for each in fields.NODE:
        if each.secret and each.name in after:
            after[each.name] = masking.restore(each.name, after[each.name], before[each.name])
    _follow(before, after)
    changed = _differences(before, after)
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


def port(before: Mapping[str, Any], patch: Any, *, version: int, owner: Mapping[str, Any]) -> Json:
    """Return column -> new value of what a PATCH changes on a port.

    :param before: the port's columns.
    :param owner: its node's uuid, provision_state, maintenance and instance_uuid.
    :raises errors.InvalidParameter: the patch is malformed, or a value is wrong.
    :raises errors.NotAcceptable: a field newer than ``version``.
    :raises errors.Conflict: the node's state does not allow it.
    """
    operations = read(fields.PORT, patch, version=version)
    after = _apply(fields.PORT, before, operations, version=version, what="port")
    changed = _differences(before, after)
    schemas.smart_nic({**before, **after})
    guards.check_port(frozenset(changed), owner, version=version)
    return changed


def resource(
    table: Table, before: Mapping[str, Any], patch: Any, *, version: int, what: str
) -> Json:
    """Return column -> new value of what a PATCH changes on a resource without rules of its own.

    :param what: ``chassis``, ``allocation`` and so on, for the sentence.
    :raises errors.InvalidParameter: the patch is malformed, or a value is wrong.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    operations = read(table, patch, version=version)
    after = _apply(table, before, operations, version=version, what=what)
    for each in table:
        if each.secret and each.name in after:
            after[each.name] = masking.restore(each.name, after[each.name], before[each.name])
    return _differences(before, after)


def deploy_template(before: Mapping[str, Any], patch: Any, *, version: int) -> Json:
    """Return column -> new value of what a PATCH changes on a deploy template.

    Arguments of a step that come back as they are shown, masked, stay what they were.

    :raises errors.InvalidParameter: the patch is malformed, or a value is wrong.
    """
    return _of_steps(fields.DEPLOY_TEMPLATE, before, patch, version, "deploy template")


def runbook(before: Mapping[str, Any], patch: Any, *, version: int) -> Json:
    """Return column -> new value of what a PATCH changes on a runbook; as `deploy_template`.

    Who makes a runbook public takes it from its owner.

    :raises errors.InvalidParameter: also for a public runbook that shall have an owner.
    """
    after = _of_steps(fields.RUNBOOK, before, patch, version, "runbook")
    if after.get("public") and before.get("owner") and "owner" not in after:
        after["owner"] = None
    whole = {**before, **after}
    if whole.get("public") and whole.get("owner"):
        raise errors.InvalidParameter(path="owner", reason="a public runbook has no owner")
    return after


def _of_steps(table: Table, before: Mapping[str, Any], patch: Any, version: int, what: str) -> Json:
    operations = read(table, patch, version=version)
    after = _apply(table, before, operations, version=version, what=what)
    if "steps" in after:
        held = {steps.title(step): step["args"] for step in before["steps"]}
        for step in after["steps"]:
            step["args"] = masking.restore("args", step["args"], held.get(steps.title(step)))
    return _differences(before, after)


# -- reading a patch -------------------------------------------------------------------------


def read(table: Table, patch: Any, *, version: int) -> tuple[Operation, ...]:
    """Check the form of a patch and whether its fields may be written.

    :raises errors.InvalidParameter: malformed, another operation, or a field nobody may patch.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    if not isinstance(patch, list):
        raise _refused("", "a patch is a list of operations")
    operations = tuple(_operation(each, str(place), version) for place, each in enumerate(patch))
    for place, each in enumerate(operations):
        _check_root(table, each, str(place), version)
    return operations


def _operation(given: Any, place: str, version: int) -> Operation:
    if not isinstance(given, dict):
        raise _refused(place, "an operation is an object with op, path and value")
    op, path = given.get("op"), given.get("path")
    if op not in _OPERATIONS:
        raise _refused(f"{place}/op", f"must be one of {', '.join(_OPERATIONS)}")
    syntax = _ANY_PATH if version >= _ANY_KEY_SINCE else _PLAIN_PATH
    if not isinstance(path, str) or not syntax.fullmatch(path):
        raise _refused(f"{place}/path", "must be a path such as /extra/key")
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise _refused(f"{place}/{unknown[0]}", "is not part of an operation")
    if op != "remove" and "value" not in given:
        raise _refused(f"{place}/value", f"is required to {op}")
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
    if field.since > version:
        raise errors.NotAcceptable(what=f"Field {field.name}", since=field.since)
    gone = operation.whole and (operation.op == "remove" or operation.value is None)
    if gone and field.required and field.default is None:
        raise _refused(f"{place}/path", f"{operation.path} is mandatory and cannot be removed")
    if gone and field.name == "chassis_uuid" and version < _CHASSIS_UNSET_SINCE:
        raise errors.NotAcceptable(what="Unsetting chassis_uuid", since=_CHASSIS_UNSET_SINCE)
    if not operation.whole and field.type not in (Type.OBJECT, Type.LIST):
        raise _refused(f"{place}/path", f"/{field.name} is no object")


def _refused(path: str, reason: str) -> errors.InvalidParameter:
    place = f"{path}: " if path else ""
    return errors.InvalidParameter(f"Invalid patch: {place}{reason}", path=path, reason=reason)


# -- applying it -----------------------------------------------------------------------------


def _apply(
    table: Table,
    before: Mapping[str, Any],
    operations: tuple[Operation, ...],
    *,
    version: int,
    what: str,
) -> Json:
    """Return the touched fields after all operations, checked and as stored."""
    known = fields.by_name(table)
    document: Json = {}
    for operation in operations:
        if operation.root not in document:
            held = before.get(operation.root)
            empty = known[operation.root].empty if held is None else None
            document[operation.root] = copy.deepcopy(held if empty is None else empty)
    touched = tuple(document)
    for operation in operations:
        _step(document, operation)
    _check_depth(document)
    return schemas.values(
        table, {name: document.get(name) for name in touched}, version=version, what=what
    )


def _check_depth(document: Json) -> None:
    """Refuse what many small patches could pile up and no body could bring at once."""
    for name, value in document.items():
        if intake.deeper(value, intake.MAX_DEPTH):
            raise errors.InvalidParameter(
                path=name, reason=f"would be nested more than {intake.MAX_DEPTH} levels deep"
            )


def _step(document: Json, operation: Operation) -> None:
    """Do one operation in place.

    A field itself is always there, as null if need be, so that removing it twice is no fault.
    """
    if operation.whole:
        document[operation.root] = copy.deepcopy(operation.value)
        return
    try:
        pointer = jsonpointer.JsonPointer(operation.path)
        around, _ = pointer.to_last(document)
        former = copy.copy(around)
        jsonpatch.apply_patch(document, [operation.as_dict()], in_place=True)
        masking.forget_renamed(pointer.parts[-2], around, former)
    except jsonpatch.JsonPatchConflict as fault:
        reason = str(fault)
    except _LOST:
        # Worded here: the libraries repeat what they found on the way, which may be secret.
        reason = "the path leads through something that is not there, or no object or list"
    else:
        return
    what = f"{operation.op} {operation.path}"
    raise errors.InvalidParameter(
        f"Couldn't apply patch '{what}'. Reason: {reason}", path=operation.path, reason=reason
    )


def _differences(before: Mapping[str, Any], after: Json) -> Json:
    return {
        name: value
        for name, value in after.items()
        if not _same(value, before.get(name)) and (value != {} or before.get(name))
    }


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does: True is not 1, at any depth."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _follow(before: Mapping[str, Any], after: Json) -> None:
    """Add the fields that follow others: reasons end with their cause, names are kept alike."""
    if after.get("retired") is False:
        after.setdefault("retired_reason", None)  # S4.8
    if after.get("protected") is False:
        after.setdefault("protected_reason", None)
    if after.get("maintenance") is False and before.get("maintenance"):
        after.update(maintenance_reason=None, fault=None)
    if "instance_uuid" in after and after["instance_uuid"] is None:
        after["allocation_uuid"] = None  # whoever takes the instance takes its allocation, too
    if "instance_info" in after and "instance_name" not in after:
        named = schemas.display_name(after["instance_info"])
        former = schemas.display_name(before.get("instance_info"))
        if named != former and before.get("instance_name") in (None, former):
            after["instance_name"] = named
