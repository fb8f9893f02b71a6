"""Carry out requests as their header ``Prefer`` asks: wait for acceptance, then for the end.

A request with ``Prefer: wait=N`` is handled several times, without a thread in between
(`api.wire.later`): until the conductor accepts it, and then until its run or operation has ended.
`request.Call.notes` keeps the progress between the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.api.resources import run_documents
from ironic_lite.api.service import Service
from ironic_lite.api.watching import prefer
from ironic_lite.api.wire.later import Suspension
from ironic_lite.api.wire.request import Request
from ironic_lite.db.queries import events, runs

_ACCEPTED = "accepted"
_RETRY_SECONDS = 0.5
_OPEN = ("running", "waiting")
_APPLIED = "Preference-Applied"


class Accepted(NamedTuple):
    """A request that the conductor has accepted: the UUIDs of its node and of its run, if any."""

    node: str
    run: str | None = None


Act = Callable[[], Accepted]
"""Sends a request to the conductor."""


def verb(service: Service, request: Request, act: Act) -> Any:
    """Carry out a request for a verb; its answer links to the run."""
    accepted, preference = _accept(service, request, act)
    node = accepted.node
    if accepted.run is not None:
        href = f"/v1/nodes/{node}/runs/{accepted.run}"
        request.answer.headers.append(("Link", f'<{href}>; rel="monitor"'))
    if preference is None:
        return None
    # A verb such as abort or unhold opens no run: it concerns the run that is under way.
    run = service.database.read(
        lambda conn: runs.get(conn, accepted.run) if accepted.run else runs.latest(conn, node)
    )
    if run is None:
        return None
    if run["state"] in _OPEN:
        _suspend(request, preference, node)
        return run_documents.show(service, request, node, run)
    aborted = accepted.run is None and run["state"] == "aborted"
    if run["state"] != "done" and not aborted:
        text = (run["error"] or {}).get("text", "")
        message = f"Run {run['uuid']} of node {node} has ended as {run['state']}. {text}"
        raise errors.EndedOtherwise(message.rstrip(), node=node, run=run["uuid"])
    request.answer.status = HTTPStatus.OK
    return run_documents.show(service, request, node, run)


def operation(service: Service, request: Request, act: Act) -> Any:
    """Carry out a request whose end is an event and not a run: power, boot mode, console."""
    accepted, preference = _accept(service, request, act)
    if preference is None:
        return None
    node, request_id = accepted.node, request.who.request_id
    ended = service.database.read(lambda conn: events.end_of(conn, node, request_id))
    if ended is None:
        _suspend(request, preference, node)
        return None
    if ended["event"] == "fail":
        text = (ended["data"] or {}).get("error") or "See last_error of the node."
        text = text.get("text", text) if isinstance(text, dict) else text
        raise errors.EndedOtherwise(f"The operation on node {node} has failed. {text}", node=node)
    request.answer.status = HTTPStatus.OK
    data = ended["data"] or {}
    return {"node": node, "kind": ended["kind"], "event": ended["event"], "data": data}


def _accept(
    service: Service, request: Request, act: Act
) -> tuple[Accepted, prefer.Preference | None]:
    """Send the request until it is accepted; return how to wait for its end, None not to wait.

    :raises errors.NodeLocked, errors.Unavailable: not accepted now; suspended while time is left.
    """
    notes = request.call.notes
    preference = prefer.read(request, service.conf)
    if preference is not None:
        request.answer.headers.append((_APPLIED, preference.applied))
    if _ACCEPTED not in notes:
        try:
            notes[_ACCEPTED] = act()
        except errors.ConductorUnresponsive:
            raise  # the work may have begun
        except (errors.NodeLocked, errors.Unavailable):
            if preference is not None:
                _suspend_for_retry(request, preference)
            raise
        notes["headers"] = [pair for pair in request.answer.headers if pair[0] != _APPLIED]
    else:
        request.answer.headers.extend(notes["headers"])
    waits = preference is not None and not preference.asynchronous
    return notes[_ACCEPTED], preference if waits else None


def _suspend_for_retry(request: Request, preference: prefer.Preference) -> None:
    left = preference.seconds - request.call.watch.seconds
    if left > 0:
        request.call.later = Suspension(min(left, _RETRY_SECONDS))


def _suspend(request: Request, preference: prefer.Preference, node: str) -> None:
    left = preference.seconds - request.call.watch.seconds
    if left > 0:
        request.call.later = Suspension(left, node=node)
