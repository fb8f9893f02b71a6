"""HTTP calls of inspection rules: GET requests, with retries."""

from __future__ import annotations

import urllib.parse
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import networks
from ironic_lite.domain.inspection_rules import Call
from ironic_lite.images import reach

_LONGEST_PAUSE = 60.0  # seconds
_SIZE = 1024 * 1024  # bytes of a reply, which is not used
_AGAIN = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


def make(task: Task, call: Call) -> None:
    """Make a call while this conductor has the node.

    A conductor that takes over the inspection makes the call again.

    :raises errors.HardwareError: the server does not reply, or replies with an error.
    :raises errors.LockLost: another conductor now has the node.
    :raises errors.Stopping: this conductor stops.
    """
    said = ""
    for left in range(call.retries, -1, -1):
        task.renew_lock()
        again, said = _try_call(task, call)
        if not said:
            return
        if not again or not left:
            break
        task.pause(min(_LONGEST_PAUSE, call.backoff * 2 ** (call.retries - left)))
    place = urllib.parse.urlsplit(call.url)
    # Without the path, which may be the only secret of a webhook.
    where = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
    raise errors.HardwareError(f"{where} cannot be called: {said}")


def _try_call(task: Task, call: Call) -> tuple[bool, str]:
    """Return whether a retry may help, and the error, "" if there is no error."""
    conf = task.runtime.conf
    terms = reach.Terms(
        blocked=networks.parse(conf.conductor.image_blocked_networks),
        tls=reach.trusted(conf.webserver_verify_ca),
        connect=call.timeout,
        silence=call.timeout,
        seconds=call.timeout,
        size=_SIZE,
    )
    try:
        with reach.get(call.url, terms, dict(call.headers)) as answer:
            status = answer.status
    except reach.FetchFailed as why:
        return True, str(why)
    if status < HTTPStatus.BAD_REQUEST:
        return False, ""
    return status in _AGAIN, f"the server replies {status}"
