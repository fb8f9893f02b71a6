"""The one place that turns what sushy, requests and sockets raise into errors to act on.

Each fault says what happened in facts (address, HTTP status, the BMC's own words; never a
password), and whether asking again may help.
"""

from __future__ import annotations

import dataclasses
import enum
import http.client
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import requests.exceptions as http_errors
import sushy.exceptions as redfish_errors
import urllib3.exceptions as pool_errors

from ironic_lite import errors
from ironic_lite.drivers import patience
from ironic_lite.drivers.redfish import info, quirks, transport

_Build = Callable[[info.Info, str], errors.HardwareError]


class Again(enum.Enum):
    """Which calls may be repeated after a fault."""

    NEVER = "never"
    ANY = "any"
    """It was not delivered: even a change may be sent again."""
    READ = "read"
    """It may have been carried out: only a read is sent again."""
    BUSY = "busy"
    """The BMC said it cannot just now: again after a long pause, also a change."""
    LOGIN = "login"
    """Refused: if the session was an old one, again at once with a new one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """An error of ours, and what to do about it before it is raised."""

    error: errors.Error
    again: Again
    stale: bool = True
    """What we know of this BMC may be wrong: forget the session and the resources read before."""
    denied: bool = False
    """User and password were refused: a BMC lets nobody guess for long."""


NONSENSE = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""What sushy's parsing trips over when an answer is JSON, and no Redfish."""

EXPECTED = (redfish_errors.SushyError, OSError, *NONSENSE)
"""All that a call by sushy can raise; anything else is a fault of ours and passes."""

_WORDS = 400
"""Characters of a BMC's own words that go into an error."""


def explain(error: Exception, node: info.Info, *, connect: float, read: float) -> Fault:
    """Say what an exception of a call means.

    :param connect, read: the time-outs the call had, in seconds.
    """
    if isinstance(error, redfish_errors.HTTPError):
        return _status(error, node)
    if isinstance(error, transport.NotJson):
        return Fault(_bad(node, scrub(error.what, node)), Again.READ)
    if isinstance(error, redfish_errors.ConnectionError | OSError):
        return _network(error, node, connect, read)
    return Fault(_bad(node, f"it is no Redfish ({_words(error, node)})"), Again.READ)


def scrub(text: str, node: info.Info) -> str:
    """Return ``text`` on one line, bounded, and without the password should a BMC echo it."""
    for secret in filter(None, (node.password,)):
        text = text.replace(secret, "***")
    text = re.sub(r"[\x00-\x20\x7f]+", " ", text).strip().rstrip(".")
    return text if len(text) <= _WORDS else f"{text[:_WORDS]}..."


def detail(error: redfish_errors.HTTPError, node: info.Info) -> str:
    """Return ``HTTP 409 (the BMC's words)``: its extended messages, or the plain one (DSP0266)."""
    status = f"HTTP {error.status_code}"
    entries = error.extended_info or ()
    for found in (
        [entry.get("Message") for entry in entries],
        [error.detail],
        [entry.get("MessageId") for entry in entries],
    ):
        # Several entries may say the same; a dict keeps their order.
        words = dict.fromkeys(word for word in found if isinstance(word, str) and word)
        if words:
            return f"{status} ({scrub(' '.join(words), node)})"
    return status


def is_busy(error: redfish_errors.HTTPError) -> bool:
    """Tell whether the BMC only wants to be asked later."""
    return says(error, quirks.BUSY)


def says(error: redfish_errors.HTTPError, words: Iterable[str]) -> bool:
    """Tell whether the BMC's answer has one of these words anywhere."""
    return any(word in str(error.body) for word in words)


def is_answer_lost(error: Exception) -> bool:
    """Tell whether a request was sent and only its answer is missing: it may have been obeyed."""
    return any(isinstance(part, _LOST) for part in _chain(error))


_LOST = (
    http_errors.ReadTimeout,
    pool_errors.ReadTimeoutError,
    http.client.RemoteDisconnected,
    http.client.IncompleteRead,
    ConnectionResetError,
)


def is_refusal(error: redfish_errors.HTTPError) -> bool:
    """Tell whether the BMC will not do this: mostly 400 or 409, about this request."""
    other = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
    ours = HTTPStatus.BAD_REQUEST <= error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    return ours and error.status_code not in other and not is_busy(error)


def _words(error: BaseException, node: info.Info) -> str:
    return scrub(f"{type(error).__name__}: {error}", node)


def _bad(node: info.Info, reason: str) -> errors.BmcBadAnswer:
    return errors.BmcBadAnswer(address=node.address, reason=reason)


def _unreachable(node: info.Info, reason: str) -> errors.BmcUnreachable:
    return errors.BmcUnreachable(address=node.address, reason=reason)


# -- it answered, with an error ----------------------------------------------------------------


def _status(error: redfish_errors.HTTPError, node: info.Info) -> Fault:
    said = detail(error, node)
    if is_busy(error):
        return Fault(_not_ready(node, said), Again.BUSY, stale=False)
    if isinstance(error, redfish_errors.MissingXAuthToken):
        reason = "its session service gives no token; set redfish_auth_type to basic"
        return Fault(_bad(node, reason), Again.NEVER)
    server = error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    other = (_broken, Again.READ) if server else (_refusal, Again.NEVER)
    word, again = _STATUS.get(error.status_code, other)
    denied = error.status_code == HTTPStatus.UNAUTHORIZED and node.username is not None
    return Fault(word(node, said), again, denied=denied)


def _not_ready(node: info.Info, said: str) -> errors.BmcUnreachable:
    return errors.BmcUnreachable(
        f"The BMC at {node.address} is not ready: {said}. It may be starting; retry later.",
        address=node.address,
        reason=said,
    )


def check_time(node: info.Info) -> None:
    """Give a BMC up that may answer yet, when nobody waits for it any more.

    :raises errors.BmcUnreachable: the time of `patience.until` is over.
    """
    if not patience.left():
        raise errors.BmcUnreachable(
            f"The BMC at {node.address} is slow: it took more than the {patience.given():g} s for "
            "which an answer of it is waited. Retry later; if it stays, reset the BMC.",
            address=node.address,
            reason="slow",
        )


def _denied(node: info.Info, said: str) -> errors.BmcAccessDenied:
    if node.username is None:
        return errors.BmcAccessDenied(
            f"The BMC at {node.address} wants a login: {said}. Set redfish_username and "
            "redfish_password in driver_info.",
            address=node.address,
            user=None,
        )
    return errors.BmcAccessDenied(
        f"The BMC at {node.address} refused the credentials of user {node.username}: {said}. "
        "Check redfish_username and redfish_password in driver_info.",
        address=node.address,
        user=node.username,
    )


def _forbidden(node: info.Info, said: str) -> errors.BmcAccessDenied:
    who = f"user {node.username}" if node.username else "users without login"
    return errors.BmcAccessDenied(
        f"The BMC at {node.address} does not allow this to {who}: {said}. "
        "Give that user the rights of an administrator on the BMC.",
        address=node.address,
        user=node.username,
    )


def _broken(node: info.Info, said: str) -> errors.BmcBadAnswer:
    return errors.BmcBadAnswer(
        f"The BMC at {node.address} has an internal error: {said}. If it stays, reset the BMC.",
        address=node.address,
        reason=said,
    )


def _refusal(node: info.Info, said: str) -> errors.BmcBadAnswer:
    return errors.BmcBadAnswer(
        f"The BMC at {node.address} refused the request: {said}.",
        address=node.address,
        reason=said,
    )


_STATUS: Mapping[int, tuple[_Build, Again]] = {
    HTTPStatus.UNAUTHORIZED: (_denied, Again.LOGIN),
    HTTPStatus.FORBIDDEN: (_forbidden, Again.LOGIN),
    HTTPStatus.BAD_GATEWAY: (_not_ready, Again.READ),
    HTTPStatus.SERVICE_UNAVAILABLE: (_not_ready, Again.READ),
    HTTPStatus.GATEWAY_TIMEOUT: (_not_ready, Again.READ),
}


# -- no answer, or a broken one ---------------------------------------------------------------


def _network(error: Exception, node: info.Info, connect: float, read: float) -> Fault:
    chain = list(_chain(error))
    tls = _first(chain, ssl.SSLError)
    if tls is not None:
        return Fault(_tls(tls, node), Again.NEVER)
    missing = _first(chain, transport.WrongTurn)
    if missing is not None:
        return Fault(_bad(node, str(missing)), Again.NEVER)
    for kind, again, build, sentence in _CAUSES:
        cause = _first(chain, kind)
        if cause is not None:
            said = _system_words(cause) or _words(cause, node)
            reason = sentence.format(connect=f"{connect:g}", read=f"{read:g}", said=said)
            return Fault(build(node, reason), again)
    return Fault(_bad(node, _words(chain[0], node)), Again.READ)


_CAUSES: tuple[tuple[type[BaseException], Again, _Build, str], ...] = (
    (socket.gaierror, Again.ANY, _unreachable, "its name cannot be resolved ({said})"),
    (http_errors.ConnectTimeout, Again.ANY, _unreachable, "no connection within {connect} s"),
    (http_errors.ReadTimeout, Again.NEVER, _unreachable, "no complete answer within {read} s"),
    (pool_errors.ReadTimeoutError, Again.NEVER, _unreachable, "no complete answer within {read} s"),
    (ConnectionRefusedError, Again.ANY, _unreachable, "connection refused, nothing listens there"),
    (pool_errors.NewConnectionError, Again.ANY, _unreachable, "no connection ({said})"),
    (http.client.RemoteDisconnected, Again.READ, _unreachable, "it hung up without an answer"),
    (ConnectionResetError, Again.READ, _unreachable, "it broke the connection off"),
    (http.client.BadStatusLine, Again.NEVER, _bad, "it does not speak HTTP ({said})"),
    (http.client.IncompleteRead, Again.READ, _bad, "it ends in the middle"),
    (pool_errors.IncompleteRead, Again.READ, _bad, "it ends in the middle"),
    (http_errors.ContentDecodingError, Again.NEVER, _bad, "{said}"),
    (http.client.HTTPException, Again.NEVER, _bad, "{said}"),
    (http_errors.ConnectionError, Again.READ, _unreachable, "{said}"),
    (http_errors.ChunkedEncodingError, Again.READ, _bad, "{said}"),
)
"""What the chain of an exception may hold, most telling first; whether to retry; what to raise."""


def _tls(error: ssl.SSLError, node: info.Info) -> errors.BmcBadAnswer:
    reason = getattr(error, "verify_message", "") or error.reason or str(error)
    words = str(reason).replace("_", " ").lower().rstrip(".")
    if isinstance(error, ssl.SSLCertVerificationError):
        return errors.BmcBadAnswer(
            f"The certificate of the BMC at {node.address} is not trusted: {words}. Set "
            "redfish_verify_ca in driver_info to the file of its authority, or to false.",
            address=node.address,
            reason=words,
        )
    return errors.BmcBadAnswer(
        f"No TLS with the BMC at {node.address}: {words}. Check the scheme and port of "
        "redfish_address, redfish_verify_ca, and the TLS settings in driver_info.",
        address=node.address,
        reason=words,
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Go through all that led to an error: causes, contexts, and what urllib3 puts into it."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        here = waiting.pop(0)
        if not isinstance(here, BaseException) or id(here) in seen:
            continue
        seen.add(id(here))
        yield here
        waiting += [getattr(here, "reason", None), *here.args, here.__cause__, here.__context__]


def _first(chain: list[BaseException], kind: type[BaseException]) -> Any:
    return next((error for error in chain if isinstance(error, kind)), None)


def _system_words(error: BaseException) -> str | None:
    words = (part.strerror for part in _chain(error) if isinstance(part, OSError))
    return next((word.lower() for word in words if word), None)
