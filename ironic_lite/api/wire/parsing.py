"""Parse body and query: JSON of limited depth, text that databases can store.

Input that a later part could not handle is refused here; the refusal names its place.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

import orjson

from ironic_lite import errors
from ironic_lite.api.wire import refusals
from ironic_lite.core import masking

MAX_DEPTH = 25
MAX_MARKS = 200_000
"""Most ``{``, ``[`` and ``,`` outside of strings that a body may have.

Each may take up to 200 bytes once parsed, so a limit on the body's size alone does not limit the
memory: ``{"":0},`` becomes 37 times as large.
"""
MAX_ARGUMENTS = 200
LISTED = frozenset({"addresses", "conductor_groups", "device_types", "fields", "shard", "state"})
"""Query arguments whose values are ``a,b,c``; ``x=a&x=b`` means the same."""

_JSON_TYPES = re.compile(r"application/(json|[\w.+-]+\+json)", re.ASCII)
_CHARSET = re.compile(r"""charset\s*=\s*"?([^";\s]+)""", re.IGNORECASE)
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
# A string without an end matches to the end of the text, and nothing is tried twice. Otherwise the
# time for a broken text would grow with the square of its length.
_MARKS = re.compile(rb'[\[\]{}]|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
# Text between strings, and strings; each match ends where the next begins.
_SPANS = re.compile(rb'[^"]++|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NUL_ESCAPE = b"\\u0000"
_LOOKED_THROUGH = 1 << 20
_MANY_DIGITS = re.compile(rb"[:,\[\s]-?[0-9]{19}")
_LEAST, _MOST, _DIGITS = -(2**63), 2**64 - 1, 20
_TOO_LONG = object()
_TOO_MANY = (
    f"The request body has more than {MAX_MARKS} of the characters {{, [ and , outside of strings. "
    "Send fewer values at once."
)
_TOO_DEEP = f"The request body is nested more than {MAX_DEPTH} levels deep."


def parse(body: bytes, content_type: str, *, exact: bool = True) -> Any:
    """Return the JSON value of a body; None for an empty one, whatever its type.

    :param content_type: value of the Content-Type header, "" if there was none.
    :param exact: refuse whole numbers that would be rounded, in a body of at most 1 MiB. Larger
        bodies hold images and inventories; to search them would take seconds.
    :raises errors.InvalidRequest: not sent as JSON, not JSON, or with NUL characters or numbers of
        more than 64 bits.
    :raises refusals.Refusal: nested too deeply, or too many values.
    """
    if not body:
        return None
    _check_type(content_type)
    if _too_many_marks(body):
        raise refusals.guarded(HTTPStatus.BAD_REQUEST, _TOO_MANY)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as why:
        # A more exact message is not worth the time to search the rest of a larger body.
        if _marks_too_deep(body[:_LOOKED_THROUGH]):
            raise refusals.guarded(HTTPStatus.BAD_REQUEST, _TOO_DEEP) from None
        raise errors.InvalidRequest(f"The request body is not valid JSON: {why}.") from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and deeper(value, MAX_DEPTH):
        raise refusals.guarded(HTTPStatus.BAD_REQUEST, _TOO_DEEP)
    if _NUL_ESCAPE in body:
        place = nul_place(value)
        if place is not None:
            raise errors.InvalidParameter(
                path=place or "/", reason="holds a NUL character, which is no text"
            )
    if exact and len(body) <= _LOOKED_THROUGH and _MANY_DIGITS.search(body):
        _refuse_rounded(body)
    return value


def _refuse_rounded(body: bytes) -> None:
    """Refuse whole numbers that do not fit in 64 bits, because they would be rounded."""
    place = _place_of_bad_value(
        json.loads(body, parse_int=_bounded_integer), lambda one: one is _TOO_LONG
    )
    if place is not None:
        reason = "is a whole number of more than 64 bits; send it as a string"
        raise errors.InvalidParameter(path=place or "/", reason=reason)


def _bounded_integer(digits: str) -> Any:
    # The time of int() grows with the square of the number of digits.
    return int(digits) if len(digits) <= _DIGITS and _LEAST <= int(digits) <= _MOST else _TOO_LONG


def _check_type(content_type: str) -> None:
    kind = content_type.split(";", maxsplit=1)[0].strip().lower()
    if not _JSON_TYPES.fullmatch(kind):
        sent = f"not {kind[:80]}" if kind else "and this one has no such header"
        raise errors.InvalidRequest(
            f"The request body must be sent with the header Content-Type: application/json, {sent}."
        )
    charset = _CHARSET.search(content_type)
    if charset and charset[1].lower() not in _CHARSETS:
        raise errors.InvalidRequest(f"The request body must be sent in UTF-8, not {charset[1]}.")


def _too_many_marks(body: bytes) -> bool:
    """Return whether a body has more than `MAX_MARKS`, in time linear in its size."""
    if _count_marks(body) <= MAX_MARKS:
        return False
    found = strings = 0
    for span in _SPANS.finditer(body):
        text = span[0]
        if text[:1] == b'"':
            strings += 1
        else:
            found += _count_marks(text)
        # Only a key and its value have no mark between them.
        if found > MAX_MARKS or strings > 2 * MAX_MARKS + 1:
            return True
    return False


def _count_marks(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[") + text.count(b",")


def _marks_too_deep(body: bytes) -> bool:
    """Return whether a text that could not be parsed is nested too deeply."""
    depth = 0
    for found in _MARKS.finditer(body):
        mark = found[0]
        if mark in {b"[", b"{"}:
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif mark in {b"]", b"}"}:
            depth -= 1
    return False


def deeper(value: object, most: int) -> bool:
    """Return whether lists and objects nest more than ``most`` levels."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        level = [
            inner
            for held in level
            for inner in (held.values() if isinstance(held, dict) else held)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def nul_place(value: object, place: str = "") -> str | None:
    """Return the JSON pointer of the first string or key with a NUL.

    ``parse`` checks the depth first, so recursion is limited.
    """
    return _place_of_bad_value(value, lambda one: isinstance(one, str) and "\0" in one, place)


def refuse_mask(value: object, place: str) -> None:
    """Refuse a text that answers show in place of a secret; stored, it would replace the secret.

    :param value: the value at ``place``, the JSON path without a slash in front.
    :raises errors.InvalidParameter: with the path of the text.
    """
    found = masking.mask_path(value, place)
    if found is not None:
        reason = f"holds {masking.MASK}, as answers show a secret; send the secret itself"
        raise errors.InvalidParameter(path=found, reason=reason)


def _place_of_bad_value(value: object, bad: Callable[[Any], bool], place: str = "") -> str | None:
    """Return the JSON pointer of the first bad value, or value with a bad key."""
    if isinstance(value, dict):
        if any(map(bad, value)):
            return place
        pairs: Any = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        return place if bad(value) else None
    for key, held in pairs:
        found = _place_of_bad_value(held, bad, f"{place}/{key}")
        if found is not None:
            return found
    return None


def query(text: str) -> dict[str, str]:
    """Return the arguments of a query string; a list may be in several arguments.

    :param text: QUERY_STRING, its bytes as latin-1 characters as in WSGI.
    :raises errors.InvalidRequest: not UTF-8, too many arguments, a NUL, or an argument twice.
    """
    if not text:
        return {}
    try:
        decoded = text if text.isascii() else text.encode("latin-1").decode()
        pairs = urllib.parse.parse_qsl(
            decoded, keep_blank_values=True, errors="strict", max_num_fields=MAX_ARGUMENTS
        )
    except UnicodeError:
        raise errors.InvalidRequest("The query string is not UTF-8.") from None
    except ValueError:
        raise errors.InvalidRequest(
            f"The query string has more than {MAX_ARGUMENTS} arguments."
        ) from None
    if "\0" in decoded or "%00" in decoded:
        raise errors.InvalidRequest("The query string holds a NUL character.")
    found = dict(pairs)
    return found if len(found) == len(pairs) else _join_repeated(pairs)


def _join_repeated(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the arguments of a query in which a name occurs more than once.

    To use only one of several values would answer another question than the client's.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif name in LISTED:
            found[name] += f",{value}"
        else:
            raise errors.InvalidParameter(path=name, reason="is given more than once")
    return found
