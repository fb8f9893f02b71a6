"""The link lists of resources, as JSON that orjson takes over without looking into it.

A list of a thousand nodes has two thousand links; building them as dictionaries would cost as much
as everything else in the list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

Links = orjson.Fragment


def _quoted(text: str) -> str:
    """Return ``text`` as it stands inside a JSON string."""
    return orjson.dumps(text).decode()[1:-1]


class Linker:
    """Makes the links of one collection for one request."""

    __slots__ = ("_bookmark", "_self")

    def __init__(self, base: str, collection: str) -> None:
        """``base`` is ``Request.base``; ``collection`` such as ``nodes``."""
        plain = _quoted(base)
        self._self = f'[{{"href":"{plain}/v1/{collection}/'
        self._bookmark = f'","rel":"self"}},{{"href":"{plain}/{collection}/'

    def fill(self, rows: list[dict[str, Any]], key: str, below: Iterable[str] = ()) -> None:
        """Give each row its ``links``: self and bookmark of the member.

        :param key: where a row has its UUID, or another name that needs no escaping in JSON.
        :param below: sub-resources, such as ``ports``; their link lists are added by name.
        """
        start, middle = self._self, self._bookmark
        for name, place in (("links", ""), *((name, f"/{name}") for name in below)):
            joint, end = f"{place}{middle}", f'{place}","rel":"bookmark"}}]'
            for row in rows:
                ident = row[key]
                row[name] = Links(f"{start}{ident}{joint}{ident}{end}")


def pair(base: str, path: str) -> list[dict[str, str]]:
    """Return self and bookmark of ``path``, such as ``nodes/``, as plain values."""
    return [
        {"href": f"{base}/v1/{path}", "rel": "self"},
        {"href": f"{base}/{path}", "rel": "bookmark"},
    ]
