"""The three forms of error body that Ironic's clients parse.

Most bodies are a string inside a string: clients parse the text under ``error_message`` again.
"""

from __future__ import annotations

import random
from http import HTTPStatus

import orjson

from ironic_lite import errors
from ironic_lite.core.json_types import Json

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
