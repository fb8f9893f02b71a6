"""Makes the calls of inspection rules: each a GET, tried again while its server is busy or away."""

from __future__ import annotations

import urllib.parse
from http import HTTPStatus

import requests
import urllib3.exceptions

from ironic_lite import errors
from ironic_lite.conductor.task import Task
from ironic_lite.images import reach, sources
from ironic_lite.inspection_rules import Call

_LONGEST_PAUSE = 60.0  # seconds
_SIZE = 1024 * 1024  # bytes of an answer; none of it is of use
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
    """Make a call, while the node is this conductor's.

    A conductor that goes on with the inspection of one that died makes it again.

    :raises errors.HardwareError: its server does not answer, or answers with an error.
    :raises errors.LockLost: another conductor has the node now.
    :raises errors.Stopping: this one ends.
    """
    said = ""
    for left in range(call.retries, -1, -1):
        task.confirm()
        again, said = _tried(task, call)
        if not said:
            return
        if not again or not left:
            break
        task.pause(min(_LONGEST_PAUSE, call.backoff * 2 ** (call.retries - left)))
    place = urllib.parse.urlsplit(call.url)
    # Without its path, which may be all that a webhook knows its callers by.
    where = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
    raise errors.HardwareError(f"{where} cannot be called: {said}")


def _tried(task: Task, call: Call) -> tuple[bool, str]:
    """Return whether another try may help, and what is wrong, "" if nothing is."""
    conf = task.desk.conf
    blocked = sources.networks(conf.conductor.image_blocked_networks)
    verify = reach.believed(conf.webserver_verify_ca)
    try:
        with (
            reach.session(blocked, seconds=call.timeout, size=_SIZE) as session,
            session.get(
                call.url,
                headers=dict(call.headers),
                stream=True,
                verify=verify,
                timeout=call.timeout,
            ) as answer,
        ):
            status = answer.status_code
    except (requests.RequestException, urllib3.exceptions.HTTPError) as why:
        return True, reach.reason(why)
    if status < HTTPStatus.BAD_REQUEST:
        return False, ""
    return status in _AGAIN, f"its server answers {status}"
