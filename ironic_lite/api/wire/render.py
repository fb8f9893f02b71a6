"""JSON answers by orjson, in place of the renderers of Pecan and WSME."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

NAME = "orjson"
TEMPLATE = f"{NAME}:"
_OPTIONS = orjson.OPT_NAIVE_UTC


def items(values: list[Any]) -> bytes:
    """Return JSON values as the inside of a list, without its brackets."""
    return orjson.dumps(values, option=_OPTIONS)[1:-1]


def joined(parts: Iterable[bytes]) -> orjson.Fragment:
    """Return the list of all values in parts made by `items`, as a JSON fragment."""
    return orjson.Fragment(b"[" + b",".join(parts) + b"]")


class Renderer:
    """Pecan's renderer interface; there are no templates."""

    def __init__(self, _path: str, _extra: object) -> None:
        pass

    @staticmethod
    def render(_template: str, value: object) -> bytes:
        """Return ``value`` as JSON, nothing for None; naive datetimes become UTC."""
        return b"" if value is None else orjson.dumps(value, option=_OPTIONS)
