"""Work that a BMC has accepted and carries out by itself: where it stands, and how it ended."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
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


class Claims:
    """Orders that this process is about to send, each for the first time.

    A claim is saved before its order is sent. Whoever finds one that is not his, because a
    conductor died, or that he has used, because its end could not be saved, has to look whether
    the order was sent.
    """

    MOST = 10_000
    """Beyond, the oldest are forgotten: then it is looked once for nothing."""

    def __init__(self) -> None:
        self._unused: dict[str, None] = {}

    def make(self) -> str:
        """Return a new claim."""
        word = secrets.token_hex(8)
        self._unused[word] = None
        if len(self._unused) > self.MOST:
            self._unused.pop(next(iter(self._unused)), None)
        return word

    def holds(self, word: str | None) -> bool:
        """Tell whether it is ours, and unused."""
        return word in self._unused

    def use(self, word: str | None) -> bool:
        """Tell whether it was ours and unused; it is used now."""
        held = self.holds(word)
        self._unused.pop(word or "", None)
        return held


CLAIMS = Claims()


def places(response: requests.Response) -> list[str]:
    """Return where the work can be followed that a BMC has accepted; nowhere if it is done.

    The task is asked before its monitor, which some BMCs throw away at the end. A body may also be
    what is going to be changed, which knows nothing of the work.
    """
    if response.status_code != HTTPStatus.ACCEPTED:
        return []
    document = _document(response)
    task = document.get("@odata.id") if "TaskState" in document else None
    found = (task, response.headers.get("Location"))
    return [place for place in found if isinstance(place, str) and place]


def begun(link: connection.Link, response: requests.Response, target: str) -> list[str]:
    """Return where the work can be followed that this answer to a request to ``target`` accepts.

    Where the answer does not say, its task is looked for: what was only accepted is not done.
    """
    found = places(response)
    lost = response.status_code == HTTPStatus.ACCEPTED and not found
    return running(link, target) if lost else found


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


def running(link: connection.Link, target: str, known: Collection[str] = ()) -> list[str]:
    """Return where the newest work can be followed that was begun by a request to ``target``.

    A task that does not say what began it counts; one that has ended does not.

    :param known: tasks of other work.
    """
    root = link.wire.document(link.node.root_prefix)
    service = documents.link(root, "Tasks")
    tasks = documents.link(link.wire.document(service), "Tasks") if service else None
    members = documents.entries(link.wire.document(tasks), "Members") if tasks else []
    for path in [documents.link(entry) for entry in reversed(members[-_RECENT:])]:
        task = link.wire.document(path) if path and path not in known else {}
        state, told = task.get("TaskState"), documents.text(task, "Payload", "TargetUri")
        ended = not state or state == "Completed" or state in FAILED
        ours = told is None or told.rstrip("/").endswith(target.rstrip("/"))
        if path and not ended and ours:
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
