"""The link lists of resources, as JSON fragments that orjson copies unchanged.

A list of a thousand nodes has two thousand links; building them as dictionaries would take as much
time as the rest of the list.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from ironic_lite.core.json_types import Json

Links = orjson.Fragment


def _json_quoted(text: str) -> str:
    """Return ``text`` escaped for the inside of a JSON string."""
    return orjson.dumps(text).decode()[1:-1]


class Linker:
    """Builds the links of one collection for one request."""

    __slots__ = ("_bookmark", "_self")

    def __init__(self, base: str, collection: str) -> None:
        """``base`` is ``Request.base``; ``collection`` such as ``nodes``."""
        plain = _json_quoted(base)
        self._self = f'[{{"href":"{plain}/v1/{collection}/'
        self._bookmark = f'","rel":"self"}},{{"href":"{plain}/{collection}/'

    def fill(self, rows: list[Json], key: str, below: Iterable[str] = ()) -> None:
        """Add ``links`` to each row: self and bookmark of the member.

        :param key: the row's key of its UUID, or of a name that needs no escaping in JSON.
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
