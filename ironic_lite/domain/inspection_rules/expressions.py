"""Regular expressions of rules, with a time limit that protects the conductor.

Python's ``re`` holds the interpreter's lock while it searches and has no time limit; some
expressions take it years. The library ``regex`` takes a time limit and releases the lock. It
supports everything that ``re`` does, so the rules of Ironic mean the same. RE2 needs no limit, but
it lacks look-around and references to groups, and would refuse some of these rules.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from ironic_lite import errors

SECONDS = 1.0
"""Time limit of a search; a sound expression takes microseconds."""

LONGEST = 4096
"""Limit of an expression and of the searched text, in characters."""

MOST_ITEMS = 16 * LONGEST
"""Limit of an expression's items with its repetitions written out.

``regex`` keeps repeated items in this form, so a short expression could otherwise take all memory.
An expression with more required items than the text has characters never matches.
"""

_TOKEN = re.compile(
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


def check(expression: object) -> None:
    """Refuse an expression that Python's syntax does not allow.

    :raises errors.InvalidParameter: for the path ``regex``.
    """
    if not isinstance(expression, str):
        raise _wrong_regex(f"is no regular expression but {type(expression).__name__}")
    if len(expression) > LONGEST:
        raise _wrong_regex(f"has {len(expression)} characters, and may have {LONGEST}")
    if _expanded_items(expression) > MOST_ITEMS:
        raise _wrong_regex(f"has more than {MOST_ITEMS} items with its repetitions written out")
    _compile_regex(expression)


def _expanded_items(expression: str) -> int:
    """Return about how many items an expression has with its repetitions written out."""
    last, totals = 0, [0]
    for token in _TOKEN.finditer(expression):
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
    check(expression)
    look = getattr(_compile_regex(expression), how)
    try:
        return look(str(value)[:LONGEST], timeout=SECONDS, concurrent=True) is not None
    except TimeoutError:
        shown = expression[:_SHOWN]
        raise _wrong_regex(
            f"{shown!r} was given up after {SECONDS:g} s on a text of {len(str(value))} "
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
