"""The three forms of error body that Ironic's clients parse.

Most bodies are a string inside a string: clients parse the text under ``error_message`` again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import orjson

from ironic_lite import errors
from ironic_lite.core.json_types import Json

# JSON answers by orjson, in place of the renderers of Pecan and WSME, and lists of links.

# The link lists of resources, as JSON fragments that orjson copies unchanged.
#
# A list of a thousand nodes has two thousand links; building them as dictionaries would take as
# much time as the rest of the list.

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


LinkList = list[dict[str, str]]
"""Links as plain values, for the answers that are made once."""


def link_pair(base: str, path: str) -> LinkList:
    """Return self and bookmark of ``path``, such as ``nodes/``, as plain values."""
    return [
        {"href": f"{base}/v1/{path}", "rel": "self"},
        {"href": f"{base}/{path}", "rel": "bookmark"},
    ]


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


Headers = tuple[tuple[str, str], ...]
NO_HEADERS: Headers = ()
_LOCK_SECONDS, _RUN_SECONDS = (1, 2), (5, 10)
"""Delays in seconds after which a lock may be free: of short work, and of a run's step."""


class Refusal(Exception):
    """An answer that ends the request: status, body and additional headers."""

    def __init__(self, status: int, body: bytes, headers: Headers = NO_HEADERS) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = headers


def _wrap_fault(content: Json) -> bytes:
    return orjson.dumps({"error_message": orjson.dumps(content).decode()})


def handled(status: int, text: str, headers: Headers = NO_HEADERS) -> Refusal:
    """Return the form of refusals by handlers: faultcode, faultstring, debuginfo."""
    code = "Client" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "Server"
    content = {"faultcode": code, "faultstring": printable(text), "debuginfo": None}
    return Refusal(status, _wrap_fault(content), headers)


def routed(status: int, description: str = "", headers: Headers = NO_HEADERS) -> Refusal:
    """Return the form of refusals by routing and version: code, title, description."""
    title = HTTPStatus(status).phrase
    content = {"code": int(status), "title": title, "description": printable(description)}
    return Refusal(status, _wrap_fault(content), headers)


def guarded(status: int, text: str) -> Refusal:
    """Return the form of refusals by the body guards, which is not wrapped."""
    return Refusal(status, orjson.dumps({"faultcode": "Client", "faultstring": printable(text)}))


def login(status: int, text: str, headers: Headers = NO_HEADERS) -> Refusal:
    """Return the unwrapped form of refusals for a missing or wrong login."""
    content = {"error": {"message": printable(text), "code": int(status)}}
    return Refusal(status, orjson.dumps(content), headers)


def of(why: errors.Error) -> Refusal:
    """Return the refusal for an error of the service."""
    if isinstance(why, errors.EndedOtherwise) and why.facts.get("run"):
        href = f"/v1/nodes/{why.facts['node']}/runs/{why.facts['run']}"
        return handled(int(why.status), why.message, (("Link", f'<{href}>; rel="monitor"'),))
    if isinstance(why, errors.NotYet | errors.KeyInUse):
        return handled(int(why.status), why.message, (("Retry-After", "1"),))
    if isinstance(why, errors.TooManyKeys):
        return handled(int(why.status), why.message, (("Retry-After", _spread(60, 120)),))
    if isinstance(why, errors.NodeLocked):
        seconds = _RUN_SECONDS if why.facts.get("run") else _LOCK_SECONDS
        return handled(int(why.status), why.message, (("Retry-After", _spread(*seconds)),))
    if not isinstance(why, errors.Unavailable):
        return handled(int(why.status), why.message)
    headers: Headers = (("Retry-After", _spread(why.retry_after, 2 * why.retry_after)),)
    if isinstance(why, errors.TooManyRequests):
        headers += (("Connection", "close"),)
    return handled(int(why.status), why.message, headers)


def _spread(least: int, most: int) -> str:
    """Return a random delay, which spreads the retries of clients that were refused together."""
    return str(random.randint(least, most))


def printable(text: str) -> str:
    """Return ``text`` without lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


UNEXPECTED = (
    "An unexpected fault of the service stopped this request. Its log has the details under the "
    "request id of this answer's headers."
)
