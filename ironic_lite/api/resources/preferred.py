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
from ironic_lite.api.policy import NODE
from ironic_lite.api.policy.access import OWNERS, target
from ironic_lite.api.resources import run_documents
from ironic_lite.api.service import Service
from ironic_lite.api.watching import prefer
from ironic_lite.api.wire.later import Suspension
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import events, nodes, runs
from ironic_lite.records import Run

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
    shown = _may_read(service, request, node, "runs:get")
    if run["state"] in _OPEN:
        _suspend(request, preference, node)
        return _run_document(service, request, run, whole=shown)
    aborted = accepted.run is None and run["state"] == "aborted"
    if run["state"] != "done" and not aborted:
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


def _may_read(service: Service, request: Request, node: str, what: str) -> bool:
    """Return whether the caller passes a rule of reading for a node; lessees may not."""
    if not request.access.limited:
        return True
    owners = service.database.read(lambda conn: nodes.get(conn, node, OWNERS))
    return request.access.allows(f"baremetal:node:{what}", target(NODE, owners))


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
        text = (ended["data"] or {}).get("error") or ""
        text = text.get("text", text) if isinstance(text, dict) else text
        if not _may_read(service, request, node, "get:last_error"):
            text = "See last_error of the node."
        raise errors.EndedOtherwise(f"The operation on node {node} has failed. {text}", node=node)
    request.answer.status = HTTPStatus.OK
    return {"node": node, "kind": ended["kind"], "event": ended["event"]}


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
            request.call.accepted = True
        except (errors.NodeLocked, errors.Unavailable) as why:
            # Another try would be refused as a repetition if the work may have begun.
            begun = isinstance(why, errors.ConductorUnresponsive) or why.facts.get("doubtful")
            if preference is not None and not begun:
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
