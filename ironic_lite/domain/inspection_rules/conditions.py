"""The conditions of rules: a table of operators, and their evaluation."""

from __future__ import annotations

import functools
import ipaddress
import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView

# Regular expressions of rules, with a time limit that protects the conductor.
#
# Python's ``re`` holds the interpreter's lock while it searches and has no time limit; some
# expressions take it years. The library ``regex`` takes a time limit and releases the lock. It
# supports everything that ``re`` does, so the rules of Ironic mean the same. RE2 needs no limit,
# but it lacks look-around and references to groups, and would refuse some of these rules.

EXPRESSION_SECONDS = 1.0
"""Time limit of a search; a sound expression takes microseconds."""

LONGEST_EXPRESSION = 4096
"""Limit of an expression and of the searched text, in characters."""

MOST_ITEMS = 16 * LONGEST_EXPRESSION
"""Limit of an expression's items with its repetitions written out.

``regex`` keeps repeated items in this form, so a short expression could otherwise take all memory.
An expression with more required items than the text has characters never matches.
"""

_EXPRESSION_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\()|(?P<close>\))"
    r"|\{(?P<least>\d+)(?:,\d*)?\}|.",
    re.DOTALL,
)

_BRACE = re.compile(r"\\N\{[^{}]*\}|\\.|\{(?!\d*,?\d*\})", re.DOTALL)
"""A backslash pair, or a brace that begins no repetition.

``regex`` reads some of these braces as "approximately", where ``re`` means the brace itself.
"""


def matches(expression: object, value: object) -> bool:
    """Return whether an expression matches the whole text of a value.

    :raises errors.InvalidParameter: it is not a regular expression, or takes too long.
    """
    return _search_text("fullmatch", expression, value)


def contains(expression: object, value: object) -> bool:
    """Return whether an expression matches a part of the text of a value.

    :raises errors.InvalidParameter: as `matches`.
    """
    return _search_text("search", expression, value)


def check_expression(expression: object) -> None:
    """Refuse an expression that Python's syntax does not allow.

    :raises errors.InvalidParameter: for the path ``regex``.
    """
    if not isinstance(expression, str):
        raise _wrong_regex(f"is no regular expression but {type(expression).__name__}")
    if len(expression) > LONGEST_EXPRESSION:
        raise _wrong_regex(f"has {len(expression)} characters, and may have {LONGEST_EXPRESSION}")
    if _expanded_items(expression) > MOST_ITEMS:
        raise _wrong_regex(f"has more than {MOST_ITEMS} items with its repetitions written out")
    _compile_regex(expression)


def _expanded_items(expression: str) -> int:
    """Return about how many items an expression has with its repetitions written out."""
    last, totals = 0, [0]
    for token in _EXPRESSION_TOKEN.finditer(expression):
        if token["least"]:
            totals[-1] += last * (max(1, int(token["least"])) - 1)
            last = 0
        elif token["open"]:
            totals.append(0)
        else:
            last = totals.pop() if token["close"] and len(totals) > 1 else 1
            totals[-1] += last
    return sum(totals)


def _search_text(how: str, expression: Any, value: Any) -> bool:
    check_expression(expression)
    look = getattr(_compile_regex(expression), how)
    try:
        return (
            look(str(value)[:LONGEST_EXPRESSION], timeout=EXPRESSION_SECONDS, concurrent=True)
            is not None
        )
    except TimeoutError:
        shown = expression[:_SHOWN]
        raise _wrong_regex(
            f"{shown!r} was given up after {EXPRESSION_SECONDS:g} s on a text of {len(str(value))} "
            "characters. Write it without repetitions inside of repetitions"
        ) from None


@functools.lru_cache(maxsize=64)
def _compile_regex(expression: str) -> Any:
    # Imported late, because few conductors need it, and the API does not: 10 ms and 2 MiB.
    import regex  # noqa: PLC0415

    try:
        re.compile(expression)
        return regex.compile(_BRACE.sub(_literal_brace, expression), regex.VERSION0)
    except (re.error, regex.error, OverflowError, RecursionError) as why:
        raise _wrong_regex(f"is no regular expression: {why}") from None


def _literal_brace(found: re.Match[str]) -> str:
    return "\\{" if found[0] == "{" else found[0]


_SHOWN = 80


def _wrong_regex(reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path="regex", reason=reason)


# Templates in texts: ``{node.name}``, ``{inventory[cpu][count]}``, ``{item}``.
#
# ``{{`` is a literal brace. Only keys and list indexes are followed, never attributes of objects.
# Other content in braces, such as ``{3}`` in a regular expression, is text.

_FIELD = (
    r"\{(?P<root>node|inventory|plugin_data|item)(?P<rest>(?:\.[\w-]+|\[[^\[\]{}]+\])*)"
    r"(?:!(?P<as>[rsa]))?(?::(?P<form>[^{}]*))?\}"
)
_TOKEN = re.compile(r"\{\{|\}\}|" + _FIELD, re.ASCII)
_FIELD_ALONE = re.compile(_FIELD, re.ASCII)
_PART = re.compile(r"\.([\w-]+)|\[([^\[\]]+)\]")
_BRACES = {"{{": "{", "}}": "}"}
_AS: Mapping[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
_WIDE = re.compile(r"\d{4}")  # a format that makes a text of megabytes


def fill_template(value: object, view: JsonView) -> Any:
    """Return a JSON value with all texts in it filled in.

    A text of exactly one field becomes the field's value, a number or a list too. A missing field
    is null, and empty in the middle of a text. With a format as for Python's ``format``
    (``{inventory[cpu][count]:03d}``), a field is text.

    :raises errors.InvalidParameter: a field's value does not fit its format.
    """
    if isinstance(value, str):
        return _fill_text(value, view)
    if isinstance(value, list):
        return [fill_template(each, view) for each in value]
    if isinstance(value, dict):
        return {
            str(_fill_text(key, view)): fill_template(each, view) for key, each in value.items()
        }
    return value


def filled_pattern(value: object, view: JsonView) -> str:
    """Return a regular expression with its fields filled in; other braces stay.

    :raises errors.InvalidParameter: as `fill`.
    """
    return _FIELD_ALONE.sub(lambda token: _token_text(token, view), str(value))


def _fill_text(text: str, view: JsonView) -> Any:
    whole = _FIELD_ALONE.fullmatch(text)
    if whole is not None and whole["as"] is None and whole["form"] is None:
        return _token_value(whole, view)
    return _TOKEN.sub(lambda token: _token_text(token, view), text)


def _token_text(token: re.Match[str], view: JsonView) -> str:
    if token[0] in _BRACES:
        return _BRACES[token[0]]
    value = _token_value(token, view)
    if value is None:
        return ""
    if token["as"] is not None:
        value = _AS[token["as"]](value)
    form = token["form"] or ""
    try:
        if _WIDE.search(form):
            raise ValueError("it is too wide")
        return format(value, form) if form else str(value)
    except (TypeError, ValueError, OverflowError) as why:
        reason = f"{token[0][:80]!r} cannot be filled in: {why}"
        raise errors.InvalidParameter(path="args", reason=reason) from None


def _token_value(token: re.Match[str], view: JsonView) -> Any:
    value: Any = view.get(token["root"])
    for dotted, bracketed in _PART.findall(token["rest"]):
        key = dotted or bracketed
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


REGEX = "regex"
"""The argument in which braces are literal."""

MULTIPLE = ("any", "all", "first", "last")
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_TRUE = frozenset({"yes", "true"})
_FALSE = frozenset({"no", "false"})


class RuleOperation(NamedTuple):
    """An operation with its required and optional arguments.

    A condition whose operation returns None is false, inverted or not.
    """

    act: Callable[..., Any]
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()


def _pairwise_operation(compare: Callable[[Any, Any], bool]) -> RuleOperation:
    def holds(*, values: object, force_strings: bool = False) -> bool:
        listed = values if isinstance(values, list) else [values]
        if force_strings:
            listed = [str(each) for each in listed]
        return all(
            compare(*_comparable_values(one, two)) for one, two in itertools.pairwise(listed)
        )

    return RuleOperation(holds, ("values",), ("force_strings",))


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


def _ordering(compare: Callable[[Any, Any], bool]) -> RuleOperation:
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

    return RuleOperation(holds, ("values",), ("force_strings",))


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
    return matches(regex, value)


def _contains_regex(*, value: object, regex: str) -> bool:
    return contains(regex, value)


OPERATORS: Mapping[str, RuleOperation] = {
    "eq": _pairwise_operation(operator.eq),
    "ne": _pairwise_operation(operator.ne),
    "lt": _ordering(operator.lt),
    "le": _ordering(operator.le),
    "gt": _ordering(operator.gt),
    "ge": _ordering(operator.ge),
    "is-empty": RuleOperation(lambda *, value: value in _EMPTY, ("value",)),
    "is-none": RuleOperation(lambda *, value: value is None, ("value",)),
    "is-true": RuleOperation(_is_true, ("value",)),
    "is-false": RuleOperation(_is_false, ("value",)),
    "in-net": RuleOperation(_in_net, ("address", "subnet")),
    "one-of": RuleOperation(_one_of, ("value", "values")),
    "matches": RuleOperation(_matches_regex, ("value", "regex")),
    "contains": RuleOperation(_contains_regex, ("value", "regex")),
}


def named(text: str) -> tuple[str, bool]:
    """Return the operator of a condition, and whether it is inverted (``!eq``)."""
    word = text.strip()
    return (word[1:].strip(), True) if word.startswith("!") else (word, False)


def arguments(operation: RuleOperation, given: Any) -> Json:
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
        _condition_holds(condition, {**view, "item": fill_template(item, view)}) for item in items
    ]
    multiple = condition.get("multiple", "any")
    if multiple == "last":
        return found[-1]
    return all(found) if multiple == "all" else any(found)


def _condition_holds(condition: JsonView, view: JsonView) -> bool:
    name, inverted = named(condition["op"])
    operation = OPERATORS[name]
    told = {
        key: (filled_pattern if key == REGEX else fill_template)(value, view)
        for key, value in arguments(operation, condition["args"]).items()
    }
    found = operation.act(**told)
    return found is not None and bool(found) is not inverted
