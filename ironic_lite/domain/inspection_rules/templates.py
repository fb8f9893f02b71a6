"""Templates in texts: ``{node.name}``, ``{inventory[cpu][count]}``, ``{item}``.

``{{`` is a literal brace. Only keys and list indexes are followed, never attributes of objects.
Other content in braces, such as ``{3}`` in a regular expression, is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView

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


def fill(value: object, view: JsonView) -> Any:
    """Return a JSON value with all texts in it filled in.

    A text of exactly one field becomes the field's value, a number or a list too. A missing field
    is null, and empty in the middle of a text. With a format as for Python's ``format``
    (``{inventory[cpu][count]:03d}``), a field is text.

    :raises errors.InvalidParameter: a field's value does not fit its format.
    """
    if isinstance(value, str):
        return _fill_text(value, view)
    if isinstance(value, list):
        return [fill(each, view) for each in value]
    if isinstance(value, dict):
        return {str(_fill_text(key, view)): fill(each, view) for key, each in value.items()}
    return value


def pattern(value: object, view: JsonView) -> str:
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
