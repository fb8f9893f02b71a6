"""Answers that are kept for repetitions of a request."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from ironic_lite import errors
from ironic_lite.api.policy.access import Access
from ironic_lite.api.wire import refusals, request, routes
from ironic_lite.api.wire.request import Call, Environ, StartResponse
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Json

LARGEST = 16 * 1024
"""Bytes of a kept body. In place of a larger one, a repetition gets the resource as it is."""
_SECONDS = 10.0
"""Time after which the room is read again from the table."""
_MIB = 1024 * 1024
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


class Room:
    """The room that kept answers take, for each caller and in all.

    The table is read every ten seconds, and sooner after many requests; what this process adds in
    between is counted. So the limits are not exact.

    :param used: reads the table, as `db.queries.idempotency.used`.
    """

    def __init__(self, conf: Configuration, used: Callable[[], Mapping[str, tuple[int, int]]]):
        self._most_rows = int(conf.api.idempotency_max_rows)
        self._most_bytes = int(conf.api.idempotency_max_mib) * _MIB
        self._used = used
        self._guard = threading.Lock()
        self._known: dict[str, list[int]] = {}
        self._added = [0, 0]
        self._due = time.monotonic() + _SECONDS

    def admit(self, caller: str, *, project: bool) -> None:
        """Count one more request of a caller.

        :param caller: its hash.
        :param project: the caller belongs to a project: others find room when projects do not.
        :raises errors.TooManyKeys: there is no room for its answer.
        """
        self._read_again()
        with self._guard:
            rows, size = self._known.get(caller, (0, 0))
            whole = sum(found[1] for found in self._known.values())
            most = self._most_bytes * 3 // 4 if project else self._most_bytes
            if rows >= self._most_rows:
                limit, option = f"{self._most_rows} requests of one caller", "idempotency_max_rows"
            elif size >= self._most_bytes // 4 or whole >= most:
                limit, option = f"{self._most_bytes // _MIB} MiB", "idempotency_max_mib"
            else:
                self._count(caller, 1, 0)
                return
        raise errors.TooManyKeys(limit=limit, option=option)

    def add(self, caller: str, size: int) -> None:
        """Count the bytes of an answer that is kept."""
        with self._guard:
            self._count(caller, 0, size)

    def _count(self, caller: str, rows: int, size: int) -> None:
        for counts in (self._known.setdefault(caller, [0, 0]), self._added):
            counts[0] += rows
            counts[1] += size

    def _read_again(self) -> None:
        with self._guard:
            rows, size = self._added
            many = rows > self._most_rows // 16 or size > self._most_bytes // 16
            if not many and time.monotonic() < self._due:
                return
            self._added, self._due = [0, 0], time.monotonic() + _SECONDS
        known = {caller: list(counts) for caller, counts in self._used().items()}
        with self._guard:
            self._known = known


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


def check_subject(
    table: routes.Table,
    environ: Environ,
    act: Callable[[Environ, StartResponse], Iterable[bytes]],
    subject: str,
) -> None:
    """Refuse a repetition to a caller who may no longer see its resource.

    Nodes are checked with their own rules. A resource that is gone is no secret any more, so the
    kept answer is given.

    :raises errors.NotFound, errors.Forbidden: the resource exists, and the caller may not see it;
        the latter for a POST, whose path has no resource.
    """
    call: Call = environ[request.CALL]
    if not call.access.limited or call.path.startswith("/nodes/"):
        return
    made = environ["REQUEST_METHOD"] == "POST" and "{" not in call.found.route.path
    depth = 3 if call.path.startswith("/volume/") else 2
    path = f"{call.path}/{_named_uuid(call.body) or subject}" if made else call.path
    path = "/".join(path.split("/")[: depth + 1])
    if _shown(table, environ, act, path, call.access) is not None:
        return
    if _shown(table, environ, act, path, Access()) is not None:
        if made:
            raise errors.Forbidden(what=path)
        raise errors.NotFound(f"{path} could not be found.")


def _shown(
    table: routes.Table,
    environ: Environ,
    act: Callable[[Environ, StartResponse], Iterable[bytes]],
    path: str,
    access: Access,
) -> tuple[Environ, Kept] | None:
    """Return the answer to a GET with the rights of ``access``, and its request.

    :return: None if there is no such resource, or the caller may not see it.
    """
    call: Call = environ[request.CALL]
    caught = Captured()
    try:
        found = table.find("GET", path, call.version.minor)
        shown = dataclasses.replace(
            call, path=path, found=found, claim=None, body=b"", access=access
        )
        shown.access.enter(found.rule)
        asked = {name: value for name, value in environ.items() if name not in _CONDITIONS}
        asked.update({"REQUEST_METHOD": "GET", "QUERY_STRING": "", request.CALL: shown})
        body = b"".join(act(asked, caught))
    except (errors.Error, refusals.Refusal):
        return None
    if caught.status != HTTPStatus.OK:
        return None
    return asked, Kept(call.found.route.status, headers_of(caught.headers), body)


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
    found = _shown(table, environ, act, path, call.access)
    if found is None:
        return None
    asked, shown = found
    if made:
        location = f"{request.Request(asked).base}/v1{path}"
        return shown._replace(headers=[*shown.headers, ("Location", location)])
    return shown


def _named_uuid(body: bytes) -> str | None:
    """Return the UUID that the body of a POST contains."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    named = given.get("uuid") if isinstance(given, dict) else None
    return named if isinstance(named, str) else None
