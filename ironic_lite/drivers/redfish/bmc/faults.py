"""Translation of exceptions from sushy, http.client and sockets into errors with advice.

Each fault states facts (address, HTTP status, the BMC's own message, never a password) and whether
a retry may help.
"""

from __future__ import annotations

import dataclasses
import enum
import http.client
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.core import bounded_http
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import deadline
from ironic_lite.drivers.redfish.bmc import info, quirks, transport
from ironic_lite.drivers.redfish.bmc import library as sushy

_Build = Callable[[info.RedfishInfo, str], errors.HardwareError]


class BmcRetry(enum.Enum):
    """Kinds of calls that may be retried after a fault."""

    NEVER = "never"
    ANY = "any"
    """The request was not delivered or not begun, so even a change may be sent again."""
    READ = "read"
    """The request may have been carried out, so only a read is sent again."""
    BUSY = "busy"
    """The BMC is busy: reads and changes are retried after a long pause."""
    LOGIN = "login"
    """The BMC refused the login: an old session is replaced and the call retried at once."""


@dataclasses.dataclass(frozen=True, slots=True)
class BmcFault:
    """An error of this service and the actions before it is raised."""

    error: errors.Error
    again: BmcRetry
    stale: bool = True
    """The cached state of this BMC may be wrong: drop the session and the resources."""
    denied: bool = False
    """The BMC refused user and password; repeated attempts may lock the user out."""
    after: float | None = None
    """Seconds after which the BMC, which has not begun the request, wants it again."""

    @property
    def silent(self) -> bool:
        """Return whether no answer came; a BMC that answers with an error is not silent."""
        unreachable = isinstance(self.error, errors.BmcUnreachable)
        return unreachable and "http_status" not in self.error.facts


NONSENSE = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""Exceptions of sushy's parser for an answer that is JSON but not Redfish."""

_WORDS = 400
"""Length limit of a BMC's own message in an error."""
_LONGEST_ID = 120
_MOST_IDS = 10


def expected() -> tuple[type[Exception], ...]:
    """Return all exceptions that a call by sushy can raise; any other one is a bug here."""
    return (sushy.exceptions.SushyError, OSError, *NONSENSE)


def explain(error: Exception, node: info.RedfishInfo, *, connect: float, read: float) -> BmcFault:
    """Return the fault that an exception of a call stands for.

    :param connect, read: the timeouts of the call in seconds.
    """
    fault = _kind_of_fault(error, node, connect, read)
    fault.error.facts = {**facts(error), **fault.error.facts}
    return fault


def facts(error: Exception) -> Json:
    """Return the facts of a failed request, as far as known.

    Keys: method, path, http_status, message_id (a list: of each entry of the BMC's answer).
    """
    found: Json = {}
    asked = getattr(error, "asked", None)
    if isinstance(asked, transport.BmcRequest):
        found |= {"method": asked.method, "path": asked.path}
    if isinstance(error, sushy.exceptions.HTTPError):
        found["http_status"] = error.status_code
        found["message_id"] = _message_ids(error)
    return {name: fact for name, fact in found.items() if fact}


def refused(error: sushy.exceptions.HTTPError, node: info.RedfishInfo) -> errors.BmcBadAnswer:
    """Return the error for a request that the BMC refuses; the cause of a longer sentence."""
    why = _request_refused(node, detail(error, node))
    why.facts |= facts(error)
    return why


def _message_ids(error: sushy.exceptions.HTTPError) -> list[str]:
    entries = error.extended_info if isinstance(error.extended_info, list) else []
    found = [entry.get("MessageId") for entry in entries if isinstance(entry, dict)]
    listed = [*found, error.code if isinstance(error.body, dict) and error.body else None]
    words = [word[:_LONGEST_ID] for word in listed if isinstance(word, str) and word]
    return list(dict.fromkeys(words))[:_MOST_IDS]


def _kind_of_fault(
    error: Exception, node: info.RedfishInfo, connect: float, read: float
) -> BmcFault:
    if isinstance(error, sushy.exceptions.HTTPError):
        return _status_fault(error, node)
    what = getattr(error, "what", None)  # of NotJson
    if what is not None:
        return BmcFault(_bad_answer(node, scrub(what, node)), BmcRetry.READ)
    if isinstance(error, sushy.exceptions.ConnectionError | OSError):
        return _network_fault(error, node, connect, read)
    return BmcFault(
        _bad_answer(node, f"it is not Redfish ({_error_text(error, node)})"), BmcRetry.READ
    )


def scrub(text: str, node: info.RedfishInfo) -> str:
    """Return ``text`` on one line, shortened, and without the password if a BMC repeats it."""
    text = errors.blanked(text, node.password)
    text = re.sub(r"[\x00-\x20\x7f]+", " ", text).strip().rstrip(".")
    return text if len(text) <= _WORDS else f"{text[:_WORDS]}..."


def detail(error: sushy.exceptions.HTTPError, node: info.RedfishInfo) -> str:
    """Return ``HTTP 409 (message)`` with the extended messages or the plain message (DSP0266).

    An entry without a message, as of HPE, is shown by its id and arguments.
    """
    body = error.body if isinstance(error.body, dict) else {}
    given = body.get(transport.EXTENDED_INFO)
    listed = (
        [entry for entry in given if isinstance(entry, dict)] if isinstance(given, list) else []
    )
    found = [transport.entry_text(entry) for entry in listed]
    plain = body.get("message")
    if isinstance(plain, str) and not transport.is_pointer(plain):
        # It only repeats the entries, unless they have no text of their own.
        has_text = any(isinstance(entry.get("Message"), str) for entry in listed)
        found = found if has_text else [plain, *found]
    # Several entries may be equal; a dict removes duplicates and keeps the order.
    words = dict.fromkeys(word for word in found or [body.get("code")] if word)
    status = f"HTTP {error.status_code}"
    return f"{status} ({scrub(' '.join(words), node)})" if words else status


def is_busy(error: sushy.exceptions.HTTPError) -> bool:
    """Return whether the BMC asks for a later retry."""
    return quirks.said(error.body, *quirks.BUSY) is not None


def retry_after(error: Exception) -> float | None:
    """Return the seconds after which a BMC that is not ready wants a request again, or None."""
    found: float | None = getattr(error, "retry_after", None)
    ready = getattr(error, "status_code", None) not in _NOT_READY
    return None if ready else found


_NOT_READY = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS})


def is_answer_lost(error: Exception) -> bool:
    """Return whether a request was sent but its answer is missing, so it may have taken effect."""
    chain = list(_error_chain(error))
    if any(isinstance(part, bounded_http.ConnectTimeout) for part in chain):
        return False
    return any(isinstance(part, _LOST) for part in chain)


_LOST = (
    TimeoutError,
    http.client.RemoteDisconnected,
    http.client.IncompleteRead,
    bounded_http.AnswerCutOff,
    ConnectionResetError,
)


def is_refusal(error: sushy.exceptions.HTTPError) -> bool:
    """Return whether the BMC rejects this request itself, mostly with 400 or 409."""
    other = {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
    ours = HTTPStatus.BAD_REQUEST <= error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    return ours and error.status_code not in other and not is_busy(error)


def _error_text(error: BaseException, node: info.RedfishInfo) -> str:
    return scrub(f"{type(error).__name__}: {error}", node)


def _bad_answer(node: info.RedfishInfo, reason: str) -> errors.BmcBadAnswer:
    return errors.BmcBadAnswer(address=node.address, reason=reason)


def _bmc_unreachable(node: info.RedfishInfo, reason: str) -> errors.BmcUnreachable:
    return errors.BmcUnreachable(address=node.address, reason=reason)


# -- the BMC answered with an error ------------------------------------------------------------


def _status_fault(error: sushy.exceptions.HTTPError, node: info.RedfishInfo) -> BmcFault:
    said = detail(error, node)
    busy = quirks.said(error.body, *quirks.BUSY)
    if busy is not None:
        busy.log(f"BMC {node.address}")
        return BmcFault(_not_ready(node, said), BmcRetry.BUSY, stale=False)
    if isinstance(error, sushy.exceptions.MissingXAuthToken):
        reason = "its session service gives no token; set redfish_auth_type to basic"
        return BmcFault(_bad_answer(node, reason), BmcRetry.NEVER)
    server = error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    other = (_broken_bmc, BmcRetry.READ) if server else (_request_refused, BmcRetry.NEVER)
    word, again = _STATUS.get(error.status_code, other)
    denied = error.status_code == HTTPStatus.UNAUTHORIZED and node.username is not None
    if again is BmcRetry.ANY or error.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        after = retry_after(error)
        return BmcFault(word(node, said), again, stale=after is None, after=after)
    return BmcFault(word(node, said), again, denied=denied)


def _not_ready(node: info.RedfishInfo, said: str) -> errors.BmcUnreachable:
    return errors.BmcUnreachable(
        f"The BMC at {node.address} is not ready: {said}. It may be starting; retry later.",
        address=node.address,
        reason=said,
    )


def check_time(node: info.RedfishInfo) -> None:
    """Give up a slow BMC once the caller's deadline has passed.

    :raises errors.BmcUnreachable: the time of `deadline.until` is over.
    """
    if not deadline.seconds_left():
        raise errors.BmcUnreachable(
            f"The BMC at {node.address} is slow: it took more than the "
            f"{deadline.seconds_granted():g} s that the service waits for an answer. "
            "Retry later; if it stays slow, reset the BMC.",
            address=node.address,
            reason="slow",
        )


def _access_denied(node: info.RedfishInfo, said: str) -> errors.BmcAccessDenied:
    if node.username is None:
        return errors.BmcAccessDenied(
            f"The BMC at {node.address} requires a login: {said}. Set redfish_username and "
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


def _access_forbidden(node: info.RedfishInfo, said: str) -> errors.BmcAccessDenied:
    who = f"user {node.username}" if node.username else "users without login"
    return errors.BmcAccessDenied(
        f"The BMC at {node.address} does not allow this to {who}: {said}. "
        "Give that user administrator rights on the BMC.",
        address=node.address,
        user=node.username,
    )


def _broken_bmc(node: info.RedfishInfo, said: str) -> errors.BmcBadAnswer:
    return errors.BmcBadAnswer(
        f"The BMC at {node.address} has an internal error: {said}. If it persists, reset the BMC.",
        address=node.address,
        reason=said,
    )


def _request_refused(node: info.RedfishInfo, said: str) -> errors.BmcBadAnswer:
    return errors.BmcBadAnswer(
        f"The BMC at {node.address} refused the request: {said}.",
        address=node.address,
        reason=said,
    )


_STATUS: Mapping[int, tuple[_Build, BmcRetry]] = {
    HTTPStatus.UNAUTHORIZED: (_access_denied, BmcRetry.LOGIN),
    HTTPStatus.FORBIDDEN: (_access_forbidden, BmcRetry.LOGIN),
    HTTPStatus.TOO_MANY_REQUESTS: (_not_ready, BmcRetry.BUSY),  # RFC 6585, 4
    HTTPStatus.BAD_GATEWAY: (_not_ready, BmcRetry.READ),
    HTTPStatus.SERVICE_UNAVAILABLE: (_not_ready, BmcRetry.ANY),  # RFC 9110, 15.6.4
    HTTPStatus.GATEWAY_TIMEOUT: (_not_ready, BmcRetry.READ),
}


# -- no answer, or a broken one ----------------------------------------------------------------


def _network_fault(
    error: Exception, node: info.RedfishInfo, connect: float, read: float
) -> BmcFault:
    chain = list(_error_chain(error))
    tls = _first_of_kind(chain, ssl.SSLError)
    if tls is not None:
        return BmcFault(_tls_failed(tls, node), BmcRetry.NEVER)
    refused = _first_of_kind(chain, bounded_http.AddressRefused)
    if refused is not None:
        wrong = errors.InvalidParameter(path="driver_info/redfish_address", reason=str(refused))
        return BmcFault(wrong, BmcRetry.NEVER)
    missing = _first_of_kind(chain, transport.WrongTurn)
    if missing is not None:
        return BmcFault(_bad_answer(node, str(missing)), BmcRetry.NEVER)
    other = (sushy.exceptions.ConnectionError, BmcRetry.READ, _bmc_unreachable, "{said}")
    for kind, again, build, sentence in (*_CAUSES, other):
        cause = _first_of_kind(chain, kind)
        if cause is not None:
            said = _system_words(cause) or _error_text(cause, node)
            reason = sentence.format(connect=f"{connect:g}", read=f"{read:g}", said=said)
            return BmcFault(build(node, reason), again)
    return BmcFault(_bad_answer(node, _error_text(chain[0], node)), BmcRetry.READ)


_CAUSES: tuple[tuple[type[BaseException], BmcRetry, _Build, str], ...] = (
    (socket.gaierror, BmcRetry.ANY, _bmc_unreachable, "its name cannot be resolved ({said})"),
    (
        bounded_http.ConnectTimeout,
        BmcRetry.ANY,
        _bmc_unreachable,
        "no connection within {connect} s",
    ),
    (
        bounded_http.NoMemory,
        BmcRetry.NEVER,
        _bmc_unreachable,
        "its answer is large, and those of other machines take the memory for them; retry later",
    ),
    (TimeoutError, BmcRetry.NEVER, _bmc_unreachable, "no complete answer within {read} s"),
    (
        ConnectionRefusedError,
        BmcRetry.ANY,
        _bmc_unreachable,
        "connection refused, nothing listens there",
    ),
    (bounded_http.NoConnection, BmcRetry.ANY, _bmc_unreachable, "no connection ({said})"),
    (
        http.client.RemoteDisconnected,
        BmcRetry.READ,
        _bmc_unreachable,
        "it hung up without an answer",
    ),
    (ConnectionError, BmcRetry.READ, _bmc_unreachable, "it broke the connection"),
    (http.client.BadStatusLine, BmcRetry.NEVER, _bad_answer, "it does not speak HTTP ({said})"),
    (http.client.IncompleteRead, BmcRetry.READ, _bad_answer, "its answer is truncated"),
    (bounded_http.AnswerCutOff, BmcRetry.READ, _bad_answer, "its answer is truncated"),
    (http.client.HTTPException, BmcRetry.NEVER, _bad_answer, "{said}"),
)
"""Causes in an exception's chain, the most specific first, with the retry and the error to
raise."""


def _tls_failed(error: ssl.SSLError, node: info.RedfishInfo) -> errors.BmcBadAnswer:
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
        f"TLS with the BMC at {node.address} failed: {words}. Check the scheme and port of "
        "redfish_address, redfish_verify_ca, and the TLS settings in driver_info.",
        address=node.address,
        reason=words,
    )


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and everything that led to it: causes, contexts, and urllib3's reasons."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        here = waiting.pop(0)
        if not isinstance(here, BaseException) or id(here) in seen:
            continue
        seen.add(id(here))
        yield here
        waiting += [getattr(here, "reason", None), *here.args, here.__cause__, here.__context__]


def _first_of_kind(chain: list[BaseException], kind: type[BaseException]) -> Any:
    return next((error for error in chain if isinstance(error, kind)), None)


def _system_words(error: BaseException) -> str | None:
    words = (part.strerror for part in _error_chain(error) if isinstance(part, OSError))
    return next((word.lower() for word in words if word), None)
