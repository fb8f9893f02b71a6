"""Fill in texts: ``{node.name}``, ``{inventory[cpu][count]}``, ``{item}``; ``{{`` is a brace.

Only keys and places of lists are followed, never attributes of objects of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TOKEN = re.compile(r"\{\{|\}\}|\{(?P<root>\w+)(?P<rest>(?:\.[\w-]+|\[[^\[\]{}]+\])*)\}", re.ASCII)
_PART = re.compile(r"\.([\w-]+)|\[([^\[\]]+)\]")
_BRACES = {"{{": "{", "}}": "}"}


def fill(value: Any, view: Mapping[str, Any]) -> Any:
    """Return a JSON value with all texts in it filled in.

    A text that is one field alone becomes what the field has, a number or a list too. A field that
    is not there is null, and in the middle of a text it is empty.
    """
    if isinstance(value, str):
        return _text(value, view)
    if isinstance(value, list):
        return [fill(each, view) for each in value]
    if isinstance(value, dict):
        return {str(_text(key, view)): fill(each, view) for key, each in value.items()}
    return value


def _text(text: str, view: Mapping[str, Any]) -> Any:
    whole = _TOKEN.fullmatch(text)
    if whole is not None and whole["root"] is not None:
        return _found(whole, view)
    return _TOKEN.sub(lambda token: _shown(token, view), text)


def _shown(token: re.Match[str], view: Mapping[str, Any]) -> str:
    if token[0] in _BRACES:
        return _BRACES[token[0]]
    value = _found(token, view)
    return "" if value is None else str(value)


def _found(token: re.Match[str], view: Mapping[str, Any]) -> Any:
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
