"""Work that a BMC has accepted and carries out by itself: where it stands, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import orjson
import requests
import sushy.exceptions

from ironic_lite.drivers.redfish import connection, documents, faults

Json = dict[str, Any]

DONE, FORGOTTEN = "Done", "Forgotten"
FAILED = frozenset({"Exception", "Killed", "Cancelled", "Interrupted"})
WAITING = frozenset({"New", "Pending", "Starting", "Suspended"})
"""Words of DSP0268 (Task.TaskState): it has failed; it waits, mostly for the next boot."""

_GOOD = frozenset({"OK", "Warning"})
_RECENT = 10
"""Tasks looked at, the newest first, for one whose address was lost."""


def places(response: requests.Response) -> list[str]:
    """Return where the work can be followed that a BMC has accepted; nowhere if it is done.

    The task is asked before its monitor, which some BMCs throw away at the end.
    """
    if response.status_code != HTTPStatus.ACCEPTED:
        return []
    found = (_document(response).get("@odata.id"), response.headers.get("Location"))
    return [place for place in found if isinstance(place, str) and place]


def look(link: connection.Link, uris: Sequence[str]) -> tuple[str, str]:
    """Return DONE, FORGOTTEN or a TaskState, and what the BMC says of it.

    :raises faults.EXPECTED: no answer, or one that is none.
    """
    for uri in uris:
        try:
            # Not `Wire.get`: the monitor of a task that is done may answer without a body.
            response = link.wire.answer(uri)
        except sushy.exceptions.ResourceNotFoundError:
            continue
        except sushy.exceptions.HTTPError as error:
            # The end of a monitor is the answer to the change itself (DSP0266).
            if not faults.is_refusal(error):
                raise
            return "Exception", faults.detail(error, link.node)
        word, said = _judged(response.status_code, _document(response))
        return word, faults.scrub(said, link.node)
    return FORGOTTEN, ""


def running(link: connection.Link, target: str) -> list[str]:
    """Return where the newest work can be followed that was begun by a POST to ``target``.

    A task that does not say what began it counts; one that has ended does not.
    """
    root = link.wire.document(link.node.root_prefix)
    service = documents.link(root, "Tasks")
    tasks = documents.link(link.wire.document(service), "Tasks") if service else None
    members = documents.entries(link.wire.document(tasks), "Members") if tasks else []
    for path in [documents.link(entry) for entry in reversed(members[-_RECENT:])]:
        task = link.wire.document(path) if path else {}
        state, told = task.get("TaskState"), documents.text(task, "Payload", "TargetUri")
        ended = not state or state == "Completed" or state in FAILED
        if path and not ended and (told is None or told.endswith(target)):
            return [path]
    return []


def _judged(status: int, document: Json) -> tuple[str, str]:
    word = document.get("TaskState")
    if not isinstance(word, str):
        return ("Running" if status == HTTPStatus.ACCEPTED else DONE), ""
    said = " ".join(dict.fromkeys(_words(document)))
    if word == "Completed":
        good = (document.get("TaskStatus") or "OK") in _GOOD
        return (DONE if good else "Exception"), said
    return word, said


def _words(document: Json) -> Iterable[str]:
    for message in documents.entries(document, "Messages"):
        word = documents.text(message, "Message") or documents.text(message, "MessageId")
        if word:
            yield word


def _document(response: requests.Response) -> Json:
    try:
        found = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
