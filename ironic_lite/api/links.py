"""The link lists of resources, as JSON that orjson takes over without looking into it.

A list of a thousand nodes has two thousand links; building them as dictionaries would cost as much
as everything else in the list.
"""

from __future__ import annotations

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

    def of(self, ident: str, below: str = "") -> Links:
        """Return self and bookmark of a member.

        :param ident: its UUID or another name that needs no escaping in JSON.
        :param below: the sub-resource, such as ``/ports``.
        """
        place = f"{ident}{below}"
        return Links(f'{self._self}{place}{self._bookmark}{place}","rel":"bookmark"}}]')


def pair(base: str, path: str) -> list[dict[str, str]]:
    """Return self and bookmark of ``path``, such as ``nodes/``, as plain values."""
    return [
        {"href": f"{base}/v1/{path}", "rel": "self"},
        {"href": f"{base}/{path}", "rel": "bookmark"},
    ]


def escaped(base: str, collection: str, ident: str, below: str = "") -> list[dict[str, str]]:
    """Return self and bookmark of a member whose name may need escaping."""
    return pair(base, f"{collection}/{ident}{below}")
