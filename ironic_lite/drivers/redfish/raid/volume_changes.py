"""Changes of volumes, sent one by one and followed by their tasks, if need be for hours.

The whole state is one JSON document on the node (`Work`), so that a restarted or another conductor
can continue. A request that may have been sent already, before a conductor died or a connection
broke, is searched for before it is sent again.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import connection, faults, jobs, quirks, resources, transport
from ironic_lite.drivers.redfish.bmc import library as sushy
from ironic_lite.drivers.redfish.raid import storage

LOG = logging.getLogger(__name__)

CREATE, DELETE = "create", "delete"
NEW, SENT, DONE = "new", "sent", "done"
IMMEDIATE, ON_RESET = "Immediate", "OnReset"

FIRST_PAUSE = 5.0
"""Seconds before the first poll of a task; doubles up to raid_config_status_interval."""
FORGOTTEN_LOOKS = 5
"""Checks whether a change took effect after its task has ended or is forgotten."""
UNSEEN_LOOKS = 20
"""Checks whether a change without a task took effect: about a quarter of an hour."""
CONFLICTS = 10
"""Requests refused by 409 in a row, after which the step fails: about six minutes. Other work on
the controller or a drive is not over yet."""
PATIENT_LOOKS = 5
"""Polls of a waiting task before a restart that the BMC did not request: two minutes."""


@dataclasses.dataclass(slots=True)
class Order:
    """A volume to create or delete.

    ``path`` is the collection or the volume; ``name`` is for sentences. ``when`` is the requested
    apply time. ``uris`` are the addresses of the task, ``volume`` is the created volume, ``by`` is
    the claim of the process that sends the request. ``found``: the task was found after a crash and
    may be of other work.
    """

    do: str
    path: str
    name: str
    body: Json = dataclasses.field(default_factory=dict)
    when: str | None = None
    state: str = NEW
    uris: list[str] = dataclasses.field(default_factory=list)
    volume: str | None = None
    by: str | None = None
    found: bool = False


@dataclasses.dataclass(slots=True)
class Work:
    """All changes of a step. ``until`` and ``silent`` are seconds since the epoch.

    ``before`` are existing volumes that stay; ``disks`` are the logical disks, one for each volume
    to create. ``conflicts`` counts the refusals of the next request by 409.
    """

    orders: list[Order]
    until: float
    before: list[str]
    disks: list[Json]
    make: str = ""
    silent: float | None = None
    rebooted: bool = False
    looks: int = 0
    conflicts: int = 0

    def saved(self) -> Json:
        """Return the state as JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, saved: JsonView) -> Work:
        """Return the saved state."""
        return cls(**{**saved, "orders": [Order(**one) for one in saved["orders"]]})

    @property
    def stage(self) -> list[Order]:
        """The changes to carry out now: first all deletions, then the creations."""
        left = [one for one in self.orders if one.state != DONE]
        return [one for one in left if one.do == left[0].do]


def timeout() -> float:
    """Return the time limit of a step in seconds."""
    return float(config.CONF.redfish.raid_config_timeout)


def go_on(task: base.Task, work: Work) -> float | None:
    """Do what is possible now; return the seconds to wait, or None when all is done.

    :raises errors.StepFailed: the BMC refused, a task failed, or the time limit was exceeded.
    :raises errors.HardwareError: no answer; the state is noted, retry later.
    """
    stage = work.stage
    if not stage:
        return None
    if clock.over(work.until, timeout()):
        raise _order_timed_out(stage)
    coming = [one for one in stage if one.state == NEW]
    under_way = [one for one in stage if one.state == SENT]
    if coming and (not under_way or coming[0].when == ON_RESET):
        return _send_next(task, work, coming)
    seen = [_poll_order(task, work, one) for one in under_way]
    if any(one.state == NEW for one in under_way):
        return 0.0
    if not all(word == DONE for word in seen):
        return _wait_for_tasks(task, work, under_way, seen)
    work.rebooted = False
    _hand_to_us(work)
    return 0.0


def _send_next(task: base.Task, work: Work, coming: list[Order]) -> float:
    """Send a request; others that wait for the same restart follow at once."""
    order = coming[0]
    claim, order.by = order.by, None

    def send(link: connection.Link) -> None:
        # The call may repeat this, for example after 503: then the request is searched for, too.
        _send_order(link, work, order, unsure=not jobs.CLAIMS.use(claim))

    connection.call(task, send, read=False)
    if order.state == NEW:
        work.looks = work.conflicts
        _hand_to_us(work)
        return _poll_pause(work)
    work.looks = work.conflicts = 0
    # Without a task the work may still be going on, whatever the answer: the volumes show its end.
    blind = order.state == SENT and not order.uris and order.when != ON_RESET
    if blind and connection.call(task, lambda link: _is_there(link, work, order)):
        order.state = DONE
    _hand_to_us(work)
    more = len(coming) > 1 and coming[1].when == ON_RESET
    return 0.0 if more or order.state == DONE else _poll_pause(work)


def _hand_to_us(work: Work) -> None:
    """Claim the requests that this process will send, so that no other process sends them."""
    for order in work.orders:
        if order.state == NEW and not jobs.CLAIMS.holds(order.by):
            order.by = jobs.CLAIMS.make()


def _wait_for_tasks(task: base.Task, work: Work, under_way: list[Order], seen: list[str]) -> float:
    """Wait for tasks; restart the machine if they wait for a boot."""
    # A BMC that does not report apply times may still need a restart.
    late = work.looks >= PATIENT_LOOKS and not set(seen) - jobs.WAITING
    asked = any(one.when == ON_RESET or (late and one.when is None) for one in under_way)
    begun = any(word in {DONE, "Running"} for word in seen)
    if asked and not begun and not work.rebooted:
        _restart_machine(task)
        work.looks = 0
    work.rebooted = work.rebooted or asked
    work.looks += 1
    return _poll_pause(work)


def _poll_pause(work: Work) -> float:
    longest = float(config.CONF.redfish.raid_config_status_interval)
    return min(longest, FIRST_PAUSE * 2.0 ** min(work.looks, 10))


def retry_pause(why: errors.HardwareError) -> float:
    """Return the seconds before a silent BMC is asked again.

    After a refused login the pause is long, because the BMC may lock the user after some attempts.
    """
    longest = float(config.CONF.redfish.raid_config_status_interval)
    return longest if isinstance(why, errors.BmcAccessDenied) else min(longest, 2 * FIRST_PAUSE)


def _restart_machine(task: base.Task) -> None:
    """Restart the machine, so that tasks waiting for a boot begin."""
    power = task.driver.power
    task.driver.deploy.prepare_restart(task)
    if power.get_power_state(task) == base.POWER_ON:
        task.switch_power(base.REBOOT)
        task.forget_agent(keep_token=True)
    else:
        task.switch_power(base.POWER_ON)
    task.node.power_state = base.POWER_ON


# -- sending ---------------------------------------------------------------------------------


def _send_order(link: connection.Link, work: Work, order: Order, *, unsure: bool) -> None:
    """Send a request, unless the BMC has received it already; it stays NEW after a conflict.

    :raises errors.StepFailed: the BMC refuses.
    """
    if unsure and _was_sent(link, work, order):
        return
    try:
        response = _post_order(link, order, work.make)
    except sushy.exceptions.ResourceNotFoundError:
        if order.do == CREATE or not _is_there(link, work, order):
            raise
        order.state = DONE  # the volume no longer exists
        return
    except sushy.exceptions.HTTPError as error:
        if not faults.is_refusal(error):
            raise
        said = faults.detail(error, link.node)
        if error.status_code == HTTPStatus.CONFLICT and work.conflicts < CONFLICTS:
            work.conflicts += 1
            text = "The BMC at %s cannot %s yet: %s. Trying again."
            LOG.info(text, link.node.address, order.name, said)
            return
        raise _raid_failed(
            f"the BMC at {link.node.address} refused to {order.name}: {said}"
        ) from faults.refused(error, link.node)
    place = response.headers.get("Location")
    if response.status_code == HTTPStatus.CREATED and place:
        order.volume = resources.path(place)
    order.uris = jobs.places(response)
    order.state = SENT


def _post_order(link: connection.Link, order: Order, make: str) -> transport.Response:
    body = dict(order.body)
    if order.when is not None:
        body[storage.APPLY] = order.when
    response: transport.Response
    if order.do == CREATE:
        response = link.wire.post(order.path, data=body)
        return response
    try:
        response = link.wire.delete(order.path, data=body or None)
    except sushy.exceptions.ServerSideError as error:
        quirk = quirks.DELETED_WITHOUT_TIME
        if not body or not quirk.fits(make) or not quirks.said(error.body, quirk):
            raise
        quirk.log(f"BMC {link.node.address}")
        order.when = None
        response = link.wire.delete(order.path)
    return response


def _was_sent(link: connection.Link, work: Work, order: Order) -> bool:
    """Return whether an earlier request was carried out, or is running."""
    if _is_there(link, work, order):
        order.state = DONE
        return True
    known = {uri for one in work.orders for uri in one.uris}
    order.uris = jobs.running(link, order.path, known)
    order.found = bool(order.uris)
    order.state = SENT if order.found else order.state
    return order.found


# -- following -------------------------------------------------------------------------------


def _poll_order(task: base.Task, work: Work, order: Order) -> str:
    """Return DONE, or the state of a change's task, empty if there is no task.

    :raises errors.StepFailed: the task has failed, or has vanished without a result.
    """
    word, said = connection.call(task, lambda link: _order_state(link, work, order))
    if order.found and (not word or word in jobs.FAILED):
        # The task was of other work: this change was not begun.
        order.state, order.uris, order.found = NEW, [], False
    elif word in jobs.FAILED:
        what = said or "the BMC gives no reason"
        task_failed = errors.BmcTaskFailed(task=order.uris[0], state=word, reason=what)
        raise _raid_failed(
            f"the BMC could not {order.name}: its task {order.uris[0]} ended as {word}: {what}"
        ) from task_failed
    elif word == DONE:
        order.state = DONE
    elif not word and not order.uris and order.when != ON_RESET and work.looks > UNSEEN_LOOKS:
        raise _raid_failed(
            f"the BMC accepted the request to {order.name}, but shows no task and no effect. Check "
            "its log and the volumes of the machine, and run the step again"
        )
    elif not word and order.uris and work.looks > FORGOTTEN_LOOKS:
        raise _raid_failed(
            f"the BMC no longer knows its task {order.uris[0]} to {order.name}, or reports it as "
            "done, but did not do it. Check its log, and run the step again"
        )
    return word


def _order_state(link: connection.Link, work: Work, order: Order) -> tuple[str, str]:
    """Return DONE, a TaskState, or an empty word if the task has ended; and the BMC's message."""
    word, said = jobs.look(link, order.uris)
    if word == jobs.DONE and order.do == CREATE and not order.found:
        return DONE, said  # all created volumes are compared at the end
    if word in {jobs.DONE, jobs.FORGOTTEN}:
        return (DONE if _is_there(link, work, order) else ""), said
    return word, said


def _is_there(link: connection.Link, work: Work, order: Order) -> bool:
    """Return whether a change has taken effect."""
    if order.do == CREATE:
        found = find(work, order, storage.volumes(link, order.path))
        order.volume = found.path if found else order.volume
        return found is not None
    # Not by reading the volume, because a starting BMC finds none of its volumes.
    volume = storage.plain_path(order.path)
    page = link.wire.document(volume.rpartition("/")[0])
    left = map(storage.plain_path, storage.listed(link, page))
    return isinstance(page.get("Members"), list) and volume not in left


def find(work: Work, order: Order, there: Iterable[storage.Volume]) -> storage.Volume | None:
    """Return the volume that a request has created: by its path, or by level, disks and size."""
    sent = {one.volume for one in work.orders if one.volume and one is not order}
    others = _plain_paths({*sent, *work.before})
    drives = _plain_paths(one["@odata.id"] for one in order.body["Links"]["Drives"])
    alike = []
    for volume in there:
        path = storage.plain_path(volume.path)
        if path == storage.plain_path(order.volume or ""):
            return volume
        level = storage.RAID_TYPES.get(volume.level or "")
        if level == order.body["RAIDType"] and path not in others:
            alike += [volume] if _plain_paths(volume.drives) in (drives, set()) else []
    # Several volumes may share disks; a request without a size took all of the space.
    asked = order.body.get("CapacityBytes", sys.maxsize)
    return min(alike, key=lambda one: abs(asked - one.size), default=None)


def _plain_paths(paths: Iterable[str]) -> set[str]:
    return set(map(storage.plain_path, paths))


# -- errors ----------------------------------------------------------------------------------


def _raid_failed(reason: str, **facts: Any) -> errors.StepFailed:
    return errors.StepFailed(step="raid", reason=reason, **facts)


def _order_timed_out(stage: list[Order]) -> errors.StepFailed:
    order = stage[0]
    where = f"task {order.uris[0]}" if order.uris else "it was not begun"
    return _raid_failed(
        f"the BMC did not {order.name} within {timeout():g} s ({where}). Check its task queue; "
        "if it is only slow, raise [redfish]raid_config_timeout",
        option="[redfish]raid_config_timeout",
        limit=timeout(),
        task=where,
    )
