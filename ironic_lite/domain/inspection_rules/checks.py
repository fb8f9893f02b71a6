"""Checks of rules that refuse impossible ones, by the paths of their faults."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.domain.inspection_rules import calls, expressions
from ironic_lite.domain.inspection_rules.actions import ACTIONS, LEVELS
from ironic_lite.domain.inspection_rules.conditions import (
    OPERATORS,
    REGEX,
    Operation,
    arguments,
    named,
)
from ironic_lite.domain.inspection_rules.subject import NODE, PORT, path, writable


def check(conditions: Any, actions: Any) -> None:
    """Check the conditions and actions of a rule, which match the schema.

    :raises errors.InvalidParameter: an unknown operation, or arguments that it does not take.
    """
    for place, condition in enumerate(conditions or ()):
        name, _inverted = named(condition["op"])
        _check_operation(OPERATORS, name, condition, f"conditions/{place}")
    for place, action in enumerate(actions or ()):
        _check_operation(ACTIONS, action["op"].strip(), action, f"actions/{place}")


def _check_operation(table: Mapping[str, Operation], name: str, one: Json, where: str) -> None:
    operation = table.get(name)
    if operation is None:
        reason = f"{name[:80]!r} is not one of {', '.join(table)}"
        raise errors.InvalidParameter(path=f"{where}/op", reason=reason)
    given = one["args"]
    most = len(operation.needs) + len(operation.takes)
    if isinstance(given, list) and len(given) > most:
        reason = f"{name} takes {most} arguments at most"
        raise errors.InvalidParameter(path=f"{where}/args", reason=reason)
    told = arguments(operation, given)
    for key in operation.needs:
        if key not in told:
            raise errors.InvalidParameter(path=f"{where}/args/{key}", reason="is required")
    for key, value in told.items():
        if key not in (*operation.needs, *operation.takes):
            reason = f"{name} has no such argument"
            raise errors.InvalidParameter(path=f"{where}/args/{key}", reason=reason)
        _check_value(name, key, value, f"{where}/args/{key}")


def _check_value(name: str, key: str, value: object, where: str) -> None:
    """Refuse a value that is wrong before it is filled in."""
    judge = _JUDGES.get(key)
    if judge is None or (isinstance(value, str) and "{" in value and key != REGEX):
        return
    try:
        judge(name, value)
    except errors.InvalidParameter as why:
        raise errors.InvalidParameter(path=where, reason=why.facts["reason"]) from None


def _check_regex(_name: str, value: object) -> None:
    expressions.check(value)


def _check_level(_name: str, value: object) -> None:
    if str(value).lower() not in LEVELS:
        raise errors.InvalidParameter(path="level", reason=f"is not one of {', '.join(LEVELS)}")


def _check_path(name: str, value: object) -> None:
    if name.endswith("plugin-data"):
        path(value)
    else:
        writable(value, PORT if "port" in name else NODE)


def _of_call(judge: Callable[[Any], object], _name: str, value: object) -> None:
    judge(value)


_JUDGES: Mapping[str, Callable[[str, Any], None]] = {
    REGEX: _check_regex,
    "level": _check_level,
    "path": _check_path,
    **{key: functools.partial(_of_call, judge) for key, judge in calls.JUDGES.items()},
}
