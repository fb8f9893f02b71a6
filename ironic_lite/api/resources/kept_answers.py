"""Answers that are kept for repetitions of a request."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from ironic_lite import errors
from ironic_lite.api.wire import refusals, request, routes
from ironic_lite.api.wire.request import Call, Environ, StartResponse
from ironic_lite.core.json_types import Json

LARGEST = 64 * 1024
"""Bytes of a kept body. In place of a larger one, a repetition gets the resource as it is."""
_KEPT = frozenset({"Location", "Link", "ETag", "Content-Type"})
_CONDITIONS = frozenset({"HTTP_PREFER", "HTTP_IF_MATCH", "HTTP_IDEMPOTENCY_KEY"})
_TEXT = "text"
Headers = list[tuple[str, str]]


class Kept(NamedTuple):
    """An answer: its status, the headers that are kept, its body."""

    status: int
    headers: Headers
    body: bytes


class Captured:
    """The beginning of an answer that is not yet sent; used as ``start_response``."""

    def __init__(self) -> None:
        self._line = "500 Internal Server Error"
        self.headers: Headers = []

    @property
    def status(self) -> int:
        """The status code."""
        return int(self._line[:3])

    def __call__(self, status: str, headers: Headers, _info: Any = None) -> None:
        self._line, self.headers = status, headers

    def send(self, start_response: StartResponse) -> None:
        """Begin the answer."""
        start_response(self._line, self.headers)


def headers_of(given: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers that are kept."""
    return [pair for pair in given if pair[0] in _KEPT]


def stored_body(body: bytes) -> Json:
    """Return the JSON value stored for a body."""
    return {_TEXT: body.decode("utf-8", "replace")} if len(body) <= LARGEST else {"size": len(body)}


def body_of(stored: Json | None) -> bytes | None:
    """Return a kept body, None for one that was too large."""
    if stored is None:
        return b""
    return str(stored[_TEXT]).encode() if _TEXT in stored else None


def show_subject(
    table: routes.Table,
    environ: Environ,
    act: Callable[[Environ, StartResponse], Iterable[bytes]],
    subject: str,
) -> Kept | None:
    """Return the answer to a POST or PATCH with the resource as it is now.

    :param subject: UUID of what a POST without a UUID has made.
    :return: None if there is no such resource, or the caller may not see it.
    """
    call: Call = environ[request.CALL]
    made = environ["REQUEST_METHOD"] == "POST"
    uuid = _named_uuid(call.body) or subject
    path = f"{call.path}/{uuid}" if made else call.path
    caught = Captured()
    try:
        found = table.find("GET", path, call.version.minor)
        shown = dataclasses.replace(call, path=path, found=found, claim=None, body=b"")
        shown.access.enter(found.rule)
        asked = {name: value for name, value in environ.items() if name not in _CONDITIONS}
        asked.update({"REQUEST_METHOD": "GET", "QUERY_STRING": "", request.CALL: shown})
        body = b"".join(act(asked, caught))
    except (errors.Error, refusals.Refusal):
        return None
    if caught.status != HTTPStatus.OK:
        return None
    headers = headers_of(caught.headers)
    if made:
        headers.append(("Location", f"{request.Request(asked).base}/v1{path}"))
    return Kept(call.found.route.status, headers, body)


def _named_uuid(body: bytes) -> str | None:
    """Return the UUID that the body of a POST contains."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    named = given.get("uuid") if isinstance(given, dict) else None
    return named if isinstance(named, str) else None
