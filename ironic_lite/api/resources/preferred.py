"""Carry out requests as their header ``Prefer`` asks: wait for acceptance, then for the end.

A request with ``Prefer: wait=N`` is handled several times, without a thread in between
(`request.Later`): until the conductor accepts it, and then until its run or operation has ended.
`request.Call.notes` keeps the progress between the calls.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Call, Request, Suspension
from ironic_lite.api.resources import guards, run_documents
from ironic_lite.api.service import Service
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import Configuration
from ironic_lite.db.queries import events, nodes, runs
from ironic_lite.domain import node_locks
from ironic_lite.records import Run

# The header ``Prefer`` of requests (RFC 7240): ``wait=N`` and ``respond-async``.

_LONGEST_HEADER = 1024
"""Characters; a longer header is ignored as a whole."""
_ITEM = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*(?:"|\\?\Z))+', re.DOTALL)
"""One preference; a comma inside quotes does not end it.

Quotes that nothing closes extend to the end of the text. So every character is read once, and
the time is proportional to the length.
"""
_WAIT = re.compile(r'wait\s*=\s*("?)([0-9]{1,9})\1\s*(;.*)?', re.IGNORECASE | re.DOTALL)
_RESPOND_ASYNC = re.compile(r"respond-async\s*(;.*)?", re.IGNORECASE | re.DOTALL)
_ASYNC = "respond-async"


class Preference(NamedTuple):
    """The preference of a client.

    :ivar seconds: to wait for acceptance and for the end.
    :ivar asynchronous: answer as soon as the request is accepted.
    """

    seconds: int
    asynchronous: bool

    @property
    def applied(self) -> str:
        """The value of Preference-Applied."""
        words = [_ASYNC] if self.asynchronous else []
        return ", ".join([*words, *([f"wait={self.seconds}"] if self.seconds else [])])


def read_preference(request: Request, conf: Configuration) -> Preference | None:
    """Return the preference of a request, None without one."""
    given = request.environ.get("HTTP_PREFER")
    return parse_preference(str(given), int(conf.api.max_wait)) if given else None


def parse_preference(text: str, longest: int) -> Preference | None:
    """Return the preference of a header, None without one.

    Unknown and broken preferences, all parameters and very long headers are ignored (RFC 7240, 2).
    The first of several values counts.

    :param longest: the largest number of seconds; more are cut to it.
    """
    if len(text) > _LONGEST_HEADER:
        return None
    seconds, asynchronous = 0, False
    for item in map(str.strip, _ITEM.findall(text)):
        found = _WAIT.fullmatch(item)
        if found is not None and not seconds:
            seconds = min(int(found[2]), longest)
        asynchronous = asynchronous or _RESPOND_ASYNC.fullmatch(item) is not None
    return Preference(seconds, asynchronous) if seconds or asynchronous else None


_OPEN = ("running", "waiting")
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
"""Seconds between two tries to have a request accepted."""
_SHARE = 20
"""A pause is this part of the time that has passed, so long waits cost little."""

# keys of `request.Call.notes`
_ACCEPTED = "accepted"
_HEADERS = "headers"
_LOCKED = "locked"
_DUE = "due"


class Accepted(NamedTuple):
    """A request that has been accepted.

    :ivar node: UUID of the node, "" for a request without one.
    :ivar run: UUID of the run that the request has opened.
    :ivar ended: the work has ended, and ``body`` is its result.
    """

    node: str
    run: str | None = None
    ended: bool = False
    body: Any = None


Act = Callable[[], Any]
"""Sends a request to the conductor; returns an `Accepted`, or None for a request without a body."""


def verb(service: Service, request: Request, act: Act) -> Any:
    """Carry out a request for a verb; its answer links to the run."""
    accepted, preference = _accept(service, request, act)
    node = accepted.node
    if accepted.run is not None:
        request.answer.headers.append(_link_to_run(node, accepted.run))
    if preference is None:
        return None
    # A verb such as abort or unhold opens no run: it concerns the run that is under way.
    run = service.database.read(
        lambda conn: runs.get(conn, accepted.run) if accepted.run else runs.latest(conn, node)
    )
    if run is None:
        return None
    shown = request.access.reads(run_documents.READ, run)
    if run["state"] in _OPEN:
        _suspend(request, preference, node)
        return _run_document(service, request, run, whole=shown)
    wanted = "aborted" if accepted.run is None and request.json["target"] == "abort" else "done"
    if run["state"] not in (wanted, "done"):
        text = (run["error"] or {}).get("text", "") if shown else ""
        message = f"Run {run['uuid']} of node {node} has ended as {run['state']}. {text}"
        raise errors.EndedOtherwise(message.rstrip(), node=node, run=run["uuid"])
    request.answer.status = HTTPStatus.OK
    return _run_document(service, request, run, whole=shown)


def _run_document(service: Service, request: Request, run: Run, *, whole: bool) -> Json:
    """Return a run, or only its state for a caller who may not read the node's runs."""
    if whole:
        return run_documents.show(service, request, run["node_uuid"], run)
    return {"uuid": run["uuid"], "verb": run["verb"], "state": run["state"]}


def operation(service: Service, request: Request, act: Act) -> Any:
    """Carry out a request whose end is an event: power, boot mode, console, virtual media."""
    accepted, preference = _accept(service, request, act)
    return _wait_for_event(service, request, accepted.node, preference)


def vendor(service: Service, request: Request, act: Act) -> Any:
    """Carry out a call of a vendor method.

    Only an asynchronous method of a node has an end to wait for: the asynchronous methods of a
    hardware type leave no record.
    """
    accepted, preference = _accept(service, request, act)
    if accepted.ended:
        return accepted.body
    if not accepted.node:
        asked = read_preference(request, service.conf)
        request.call.heeded = asked._replace(seconds=0).applied if asked is not None else ""
        return None
    return _wait_for_event(service, request, accepted.node, preference)


def at_once(service: Service, request: Request, act: Act) -> Any:
    """Carry out a request that has ended when it is answered; a preference waits for the lock."""
    accepted, preference = _accept(service, request, act)
    if accepted is None or preference is None:
        return None
    request.answer.status = HTTPStatus.OK
    return accepted.body


def change(service: Service, request: Request, act: Act) -> Any:
    """Carry out a change that the API itself writes; without a preference it waits briefly."""
    asked = read_preference(request, service.conf)
    if asked is None or not asked.seconds:
        return at_once(service, request, lambda: service.lock_waiters.until_free(act))
    return at_once(service, request, act)


def steps(service: Service, request: Request, act: Act) -> Any:
    """Answer a request for a list that may not be known yet (202 with the seconds to wait)."""
    asked = read_preference(request, service.conf)
    found = act()
    if asked is None or not asked.seconds:
        return found
    request.call.heeded = f"wait={asked.seconds}"
    left = asked.seconds - request.call.watch.seconds
    if request.answer.status == HTTPStatus.ACCEPTED and left > 0:
        request.call.later = Suspension(left, pause=_next_pause(request.call))
    return found


def _wait_for_event(
    service: Service, request: Request, node: str, preference: Preference | None
) -> Any:
    """Answer with the event that ends an operation, or 202 while there is no such event."""
    if preference is None:
        return None
    request_id = request.who.request_id
    ended = service.database.read(lambda conn: events.end_of(conn, node, request_id))
    if ended is None:
        request.answer.status = HTTPStatus.ACCEPTED
        _suspend(request, preference, node)
        return None
    if ended["event"] == "fail":
        text = (ended["data"] or {}).get("error") or ""
        text = text.get("text", text) if isinstance(text, dict) else text
        if not request.access.reads("baremetal:node:get:last_error", ended):
            text = "See last_error of the node."
        raise errors.EndedOtherwise(f"The operation on node {node} has failed. {text}", node=node)
    request.answer.status = HTTPStatus.OK
    return {"node": node, "kind": ended["kind"], "event": ended["event"]}


# -- repetitions -----------------------------------------------------------------------------


def resume(call: Call, accepted: Accepted, headers: list[tuple[str, str]]) -> None:
    """Go on with a request that an earlier attempt has had accepted.

    :param headers: of the acceptance.
    """
    call.notes.update({_ACCEPTED: accepted, _HEADERS: headers})
    call.accepted = True


def acceptance(call: Call) -> list[tuple[str, str]]:
    """Return the headers of the answer that an accepted request has without a preference."""
    accepted, headers = call.notes.get(_ACCEPTED), list(call.notes.get(_HEADERS, ()))
    if accepted is not None and accepted.run is not None:
        headers.append(_link_to_run(accepted.node, accepted.run))
    return headers


def _link_to_run(node: str, run: str) -> tuple[str, str]:
    return ("Link", f'</v1/nodes/{node}/runs/{run}>; rel="monitor"')


# -- acceptance ------------------------------------------------------------------------------


def _accept(service: Service, request: Request, act: Act) -> tuple[Any, Preference | None]:
    """Send the request until it is accepted; return how to wait for its end, None not to wait.

    :raises errors.NodeLocked, errors.Unavailable: not accepted now; suspended while time is left.
    """
    notes = request.call.notes
    preference = read_preference(request, service.conf)
    if _ACCEPTED in notes:
        request.answer.headers.extend(notes[_HEADERS])
    else:
        try:
            _refuse_while_locked(service, notes.get(_LOCKED))
            notes[_ACCEPTED] = act()
        except (errors.NodeLocked, errors.Unavailable) as why:
            if preference is not None:
                _suspend_until_next_try(request, preference, why)
            raise
        request.call.accepted = True
        notes[_HEADERS] = list(request.answer.headers)
    request.call.heeded = preference.applied if preference is not None else ""
    waits = preference is not None and not preference.asynchronous
    return notes[_ACCEPTED], preference if waits else None


def _refuse_while_locked(service: Service, node: str | None) -> None:
    """Refuse a request whose node is still locked, without a call of the conductor.

    :param node: UUID of the node whose lock has refused the request before, None without one.
    :raises errors.NodeLocked: it is still locked.
    """
    if node is None:
        return
    with contextlib.suppress(errors.NotFound):  # the handler itself refuses a removed node
        row = service.database.read(lambda conn: nodes.get(conn, node, node_locks.COLUMNS))
        guards.check_unlocked(row)


def _suspend_until_next_try(request: Request, preference: Preference, why: errors.Error) -> None:
    """Suspend a refused request while time is left, unless its work may have begun.

    Another try would then be refused as a repetition.
    """
    call = request.call
    left = preference.seconds - call.watch.seconds
    begun = isinstance(why, errors.ConductorUnresponsive) or why.facts.get("doubtful")
    if begun or left <= 0:
        return
    call.heeded = preference.applied
    if isinstance(why, errors.NodeLocked):
        call.notes[_LOCKED] = why.facts.get("node")
    call.later = Suspension(left, node=call.notes.get(_LOCKED), pause=_next_pause(call))


def _next_pause(call: Call) -> float:
    """Return the seconds after which a request is tried again at the latest.

    They grow with the time that has passed. After a change of the node they are short again,
    because a conductor records the end of its work shortly before it releases the lock.
    """
    waited = call.watch.seconds
    woken = waited < call.notes.get(_DUE, 0.0)
    pause = _SHORTEST_PAUSE if woken else waited / _SHARE
    pause = min(max(pause, _SHORTEST_PAUSE), _LONGEST_PAUSE)
    call.notes[_DUE] = waited + pause - 0.1
    return pause


def _suspend(request: Request, preference: Preference, node: str) -> None:
    left = preference.seconds - request.call.watch.seconds
    # Without a login the accepted work goes on, and its end is not shown.
    left = min(left, request.access.login_seconds)
    if left > 0:
        request.call.later = Suspension(left, node=node)


ordered = functools.partial(
    expose.expose, status=HTTPStatus.NO_CONTENT, body=expose.TYPED, around=at_once
)
"""The decorator of an order that has ended when it is answered."""
started = functools.partial(
    expose.expose, status=HTTPStatus.ACCEPTED, body=expose.TYPED, around=operation
)
"""The decorator of an operation that a worker carries out after the answer."""
