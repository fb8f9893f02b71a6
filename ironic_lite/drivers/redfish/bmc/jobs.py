"""Tasks of a BMC: claims, addresses, progress and results."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base, deadline
from ironic_lite.drivers.redfish.bmc import connection, faults, resources, transport
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

DONE, FORGOTTEN = "Done", "Forgotten"
FAILED = frozenset({"Exception", "Killed", "Cancelled", "Interrupted"})
ENDED = frozenset({DONE, FORGOTTEN})
NEW = "New"
WAITING = frozenset({NEW, "Pending", "Scheduled", "Starting", "Suspended"})
"""Values of Task.TaskState and Job.JobState (DSP0268): failed tasks, and tasks that mostly wait for
a boot."""

_COMPLETED = frozenset({"completed", "completedok", "complete", "success", "succeeded"})
_NOT_COMPLETED = frozenset({"completedwitherrors", "failed", "error", "aborted", "canceled"})
"""Words in lower case with which BMCs end a task, beside those of the schema."""

_STATE_NAMES = ("TaskState", "JobState")
_STATUS_NAMES = ("TaskStatus", "JobStatus")
_GOOD = frozenset({"OK", "Warning"})
SHORT_SECONDS = 60.0
"""Limit in seconds of the tasks of small changes, such as a boot device or a lamp."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 10.0
"""First and longest pause in seconds between two polls of a short task."""
_UNREADABLE = frozenset({HTTPStatus.GONE, HTTPStatus.METHOD_NOT_ALLOWED})
_RECENT = 10
"""Number of newest tasks searched for a task whose address was lost."""
_KNOWN = 40
"""Number of newest tasks kept to recognize later ones; more than ``_RECENT``, because a BMC may
delete old tasks meanwhile."""
_PAGES = 20
"""Limit of the pages of tasks; an iDRAC has up to six."""
_NUMBERED = re.compile(r"[A-Za-z_-]*([0-9]{1,18})")
"""The names of tasks on most BMCs, such as 12, Task12 and JID_471269252012."""


class Claims:
    """Requests that this process is about to send for the first time.

    A claim is saved before its request is sent. If a process finds a foreign claim (a conductor
    died) or a used one (its end could not be saved), it must check whether the request was sent.
    """

    MOST = 10_000
    """Limit; beyond it the oldest claims are dropped, which costs one needless check each."""

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
        """Return whether the claim is from this process and unused."""
        return word in self._unused

    def use(self, word: str | None) -> bool:
        """Mark a claim as used; return whether it was from this process and unused."""
        held = self.holds(word)
        self._unused.pop(word or "", None)
        return held


CLAIMS = Claims()


def places(response: transport.Response) -> list[str]:
    """Return the addresses of the task that a BMC has accepted; empty if the work is done.

    The task comes before its monitor, because some BMCs delete the monitor at the end. The body may
    also be the changed resource, which does not know the task. Some BMCs answer 200 with a task.
    """
    document = _job_document(response)
    has_task = _state_name(document) is not None
    if response.status_code != HTTPStatus.ACCEPTED and not has_task:
        return []
    task = document.get("@odata.id") if has_task else None
    found = (task, response.headers.get("Location"))
    return [place for place in found if isinstance(place, str) and place]


def begun(link: connection.Link, change: Callable[[], object]) -> list[str]:
    """Make a change through sushy, which drops the answer; return the addresses of its task."""
    link.wire.accepted = None
    change()
    return places(link.wire.accepted) if link.wire.accepted is not None else []


def change(task: base.Task, path: str, body: Json) -> list[str]:
    """Send a PATCH as `resources.change` does; return the addresses of its task.

    :raises errors.HardwareError: see `connection.call`.
    """
    return connection.call(task, lambda link: places(resources.patch(link, path, body)), read=False)


def post(task: base.Task, path: str, body: Json) -> list[str]:
    """Send a POST; return the addresses of the BMC's task.

    :raises errors.HardwareError: see `connection.call`.
    """
    return connection.call(task, lambda link: places(link.wire.post(path, data=body)), read=False)


def look(link: connection.Link, uris: Sequence[str]) -> tuple[str, str]:
    """Return DONE, FORGOTTEN or a TaskState, and the BMC's message.

    :raises Exception: one of `faults.expected`; no answer, or an invalid one.
    """
    for uri in uris:
        try:
            # Not `Wire.get`: the monitor of a finished task may answer without a body.
            response = link.wire.answer(uri)
        except sushy.exceptions.ResourceNotFoundError:
            continue
        except sushy.exceptions.HTTPError as error:
            if error.status_code in _UNREADABLE:
                continue
            # The monitor of a finished task returns the answer to the request itself (DSP0266).
            if not faults.is_refusal(error):
                raise
            return "Exception", faults.detail(error, link.node)
        word, said = _job_result(response.status_code, _job_document(response))
        return word, faults.scrub(said, link.node)
    return FORGOTTEN, ""


def check(task: base.Task, uris: Sequence[str], what: str) -> str:
    """Return the state of a task: DONE, FORGOTTEN or a TaskState.

    A task that the BMC does not show to this user, or in no valid form, counts as forgotten.

    :param what: the work in words, such as ``eject /redfish/v1/...``.
    :raises errors.HardwareError: the task failed; the cause is a BmcTaskFailed.
    """
    try:
        word, said = connection.call(task, lambda link: look(link, uris))
    except (errors.BmcAccessDenied, errors.BmcBadAnswer) as unseen:
        # The BMC has accepted the change itself, which the caller may see by other signs.
        LOG.info("Node %s: the BMC shows no task to %s: %s", task.node.uuid, what, unseen)
        return FORGOTTEN
    if word in FAILED:
        why = said or "it gives no reason"
        cause = errors.BmcTaskFailed(task=uris[0], state=word, reason=why)
        raise errors.HardwareError(reason=f"The BMC could not {what} ({word}): {why}") from cause
    return word


def follow(
    task: base.Task, uris: Sequence[str], what: str, seconds: float, *, waits: bool = False
) -> None:
    """Wait for the end of a short task; a task that has vanished is left to the caller's check.

    :param what: as in `check`; :param seconds: the limit.
    :param waits: a task that waits at the limit, for a boot, is no failure.
    :raises errors.HardwareError: the task failed, or does not end in time.
    """
    seconds = min(seconds, deadline.seconds_left())
    end, pause = time.monotonic() + seconds, _SHORTEST_PAUSE
    while uris:
        word = check(task, uris, what)
        if word in ENDED:
            return
        if time.monotonic() >= end:
            if waits and word in WAITING:
                return
            reason = f"The BMC did not {what} within {seconds:.3g} s: its task is {word}"
            raise errors.HardwareError(reason=reason)
        task.pause(min(pause, max(end - time.monotonic(), 0.0)))
        pause = min(2 * pause, _LONGEST_PAUSE)


def recent(link: connection.Link) -> list[str]:
    """Return the addresses of the newest tasks, the newest last."""
    return list(_by_age(_task_paths(link))[-_KNOWN:])


def running(
    link: connection.Link, target: str, known: Collection[str] = (), *, ended: bool = False
) -> list[str]:
    """Return the address of the newest running task begun by a request to ``target``.

    A task that does not name its request counts; a task that was deleted meanwhile does not.

    :param known: addresses of other tasks, which are skipped.
    :param ended: a finished task counts, too: all tasks from before the request are ``known``.
    """
    for path in reversed(_by_age(_task_paths(link))[-_RECENT:]):
        task = _read_task(link, path) if path not in known else {}
        word, _ = _job_result(HTTPStatus.OK, task)
        address = resources.text(task, "Payload", "TargetUri")
        over = word in {DONE, *FAILED}
        ours = address is None or address.rstrip("/").endswith(target.rstrip("/"))
        if _state_name(task) and (ended or not over) and ours:
            return [path]
    return []


def _read_task(link: connection.Link, path: str) -> Json:
    try:
        return link.wire.document(path)
    except sushy.exceptions.ResourceNotFoundError:
        return {}


def _task_paths(link: connection.Link) -> list[str]:
    """Return the paths of all tasks, in the order of the BMC."""
    root = link.wire.document(link.node.root_prefix)
    service = resources.link(root, "Tasks")
    tasks = resources.link(link.wire.document(service), "Tasks") if service else None
    found: list[str] = []
    for _ in range(_PAGES):
        if tasks is None:
            break
        page = link.wire.document(tasks)
        found += filter(None, map(resources.link, resources.entries(page, "Members")))
        tasks = resources.link(page, "Members@odata.nextLink")
    return found


def _by_age(paths: Sequence[str]) -> Sequence[str]:
    """Return the paths of tasks, the newest last: BMCs list them in any order, but number them."""
    ages: list[tuple[int, str]] = []
    for path in paths:
        name = _NUMBERED.fullmatch(path.rstrip("/").rpartition("/")[2])
        if name is None:
            return paths
        ages.append((int(name[1]), path))
    return [path for _, path in sorted(ages)]


def _job_result(status: int, document: Json) -> tuple[str, str]:
    """Return DONE or a TaskState, and the BMC's messages."""
    name = _state_name(document)
    if name is None:
        if status == HTTPStatus.ACCEPTED:
            return "Running", ""
        # Some monitors return the error of a finished task with the status 200.
        return ("Exception" if transport.is_failure(document) else DONE), _said(document)
    word, said = resources.text(document, name) or "Running", _said(document)
    if word.lower() in _NOT_COMPLETED:
        return "Exception", f"{word}: {said}" if said else word
    if word.lower() in _COMPLETED:
        status_word = next(filter(None, (document.get(key) for key in _STATUS_NAMES)), "OK")
        good = status_word in _GOOD and not transport.is_failure(document)
        return (DONE if good else "Exception"), said
    return word, said


def _state_name(document: Json) -> str | None:
    """Return the property with the state of a task or a job, None if it is neither."""
    return next((name for name in _STATE_NAMES if name in document), None)


def _said(document: Json) -> str:
    words = map(transport.entry_text, transport.message_entries(document))
    return " ".join(dict.fromkeys(word for word in words if word))


def _job_document(response: transport.Response) -> Json:
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
