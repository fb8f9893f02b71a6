"""Turn what handlers return into bytes, by orjson, in place of the renderers of Pecan and WSME."""

from __future__ import annotations

from typing import Any

import orjson

NAME = "orjson"
TEMPLATE = f"{NAME}:"
_OPTIONS = orjson.OPT_NAIVE_UTC


class Renderer:
    """Pecan's interface of a renderer; there are no templates."""

    def __init__(self, _path: str, _extra: Any) -> None:
        pass

    @staticmethod
    def render(_template: str, value: Any) -> bytes:
        """Return ``value`` as JSON, or nothing for None; naive datetimes are UTC and say so."""
        return b"" if value is None else orjson.dumps(value, option=_OPTIONS)
