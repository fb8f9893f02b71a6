"""The conditions of rules: a table of operators, and their evaluation."""

from __future__ import annotations

import ipaddress
import itertools
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain.inspection_rules import expressions, templates

REGEX = "regex"
"""The argument in which braces are literal."""

MULTIPLE = ("any", "all", "first", "last")
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_TRUE = frozenset({"yes", "true"})
_FALSE = frozenset({"no", "false"})


class Operation(NamedTuple):
    """An operation with its required and optional arguments.

    A condition whose operation returns None is false, inverted or not.
    """

    act: Callable[..., Any]
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()


def _pairwise_operation(compare: Callable[[Any, Any], bool]) -> Operation:
    def holds(*, values: object, force_strings: bool = False) -> bool:
        listed = values if isinstance(values, list) else [values]
        if force_strings:
            listed = [str(each) for each in listed]
        return all(
            compare(*_comparable_values(one, two)) for one, two in itertools.pairwise(listed)
        )

    return Operation(holds, ("values",), ("force_strings",))


def _comparable_values(one: Any, two: Any) -> tuple[Any, Any]:
    """Return two comparable values: both numbers, else both texts."""
    kinds = (int, float)
    if isinstance(one, kinds) and isinstance(two, kinds):
        return one, two
    if type(one) is type(two):
        return one, two
    try:
        return float(one), float(two)
    except (TypeError, ValueError):
        return str(one), str(two)


def _ordering(compare: Callable[[Any, Any], bool]) -> Operation:
    """Return an operation that orders values, None if two of them have no order.

    Numbers have an order, also against texts of numbers, and two values of one type.
    """

    def holds(*, values: object, force_strings: bool = False) -> bool | None:
        listed = values if isinstance(values, list) else [values]
        if not listed or None in listed:
            return None
        if force_strings:
            listed = [str(each) for each in listed]
        try:
            found = [compare(*_ordered(one, two)) for one, two in itertools.pairwise(listed)]
        except (TypeError, ValueError, OverflowError):  # also two lists of different types
            return None
        return all(found)

    return Operation(holds, ("values",), ("force_strings",))


def _ordered(one: Any, two: Any) -> tuple[Any, Any]:
    """Return two values as they are ordered; raises ValueError or TypeError if they are not."""
    if type(one) is not type(two):
        return _number(one), _number(two)
    return (_number(one), _number(two)) if isinstance(one, float) else (one, two)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    found = value if isinstance(value, int) else float(value)
    if not math.isfinite(found):
        raise ValueError
    return found


def _in_net(*, address: object, subnet: object) -> bool | None:
    try:
        return ipaddress.ip_address(str(address)) in ipaddress.ip_network(str(subnet), strict=False)
    except ValueError:
        return None


def _is_true(*, value: object) -> bool:
    return value.lower() in _TRUE if isinstance(value, str) else _is_nonzero_number(value)


def _is_false(*, value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in _FALSE
    return value is None or (isinstance(value, int | float) and not value)


def _is_nonzero_number(value: object) -> bool:
    return isinstance(value, int | float) and bool(value)


def _one_of(*, value: object, values: object) -> bool:
    listed = values if isinstance(values, list) else [values]
    return any(operator.eq(*_comparable_values(value, each)) for each in listed)


def _matches_regex(*, value: object, regex: str) -> bool:
    return expressions.matches(regex, value)


def _contains_regex(*, value: object, regex: str) -> bool:
    return expressions.contains(regex, value)


OPERATORS: Mapping[str, Operation] = MappingProxyType(
    {
        "eq": _pairwise_operation(operator.eq),
        "ne": _pairwise_operation(operator.ne),
        "lt": _ordering(operator.lt),
        "le": _ordering(operator.le),
        "gt": _ordering(operator.gt),
        "ge": _ordering(operator.ge),
        "is-empty": Operation(lambda *, value: value in _EMPTY, ("value",)),
        "is-none": Operation(lambda *, value: value is None, ("value",)),
        "is-true": Operation(_is_true, ("value",)),
        "is-false": Operation(_is_false, ("value",)),
        "in-net": Operation(_in_net, ("address", "subnet")),
        "one-of": Operation(_one_of, ("value", "values")),
        "matches": Operation(_matches_regex, ("value", "regex")),
        "contains": Operation(_contains_regex, ("value", "regex")),
    }
)


def named(text: str) -> tuple[str, bool]:
    """Return the operator of a condition, and whether it is inverted (``!eq``)."""
    word = text.strip()
    return (word[1:].strip(), True) if word.startswith("!") else (word, False)


def arguments(operation: Operation, given: Any) -> Json:
    """Return arguments by name; those in a list are in the order of the table."""
    if isinstance(given, list):
        return dict(zip((*operation.needs, *operation.takes), given, strict=False))
    return dict(given)


def looped(one: JsonView) -> list[Any] | None:
    """Return the items of the loop of a condition or action, None without a loop."""
    items = one.get("loop")
    if not items:
        return None
    return list(items) if isinstance(items, list) else [items]


def holds(condition: JsonView, view: JsonView) -> bool:
    """Return whether a condition holds.

    :param condition: checked by `checks.check`.
    :param view: of `Subject.view`.
    :raises errors.InvalidParameter: it cannot be evaluated, as filled in.
    """
    items = looped(condition)
    if items is None:
        return _condition_holds(condition, view)
    found = [
        _condition_holds(condition, {**view, "item": templates.fill(item, view)}) for item in items
    ]
    multiple = condition.get("multiple", "any")
    if multiple == "last":
        return found[-1]
    return all(found) if multiple == "all" else any(found)


def _condition_holds(condition: JsonView, view: JsonView) -> bool:
    name, inverted = named(condition["op"])
    operation = OPERATORS[name]
    told = {
        key: (templates.pattern if key == REGEX else templates.fill)(value, view)
        for key, value in arguments(operation, condition["args"]).items()
    }
    found = operation.act(**told)
    return found is not None and bool(found) is not inverted
