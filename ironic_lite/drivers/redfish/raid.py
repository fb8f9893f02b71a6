"""The RAID interface of Redfish: volumes created and deleted through the BMC.

A step first reads the controllers, chooses the disks and saves its plan on the node without
changing anything. Each later poll does the next part of the plan.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json, JsonView, restored
from ironic_lite.domain import raid
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.redfish import disk_selection, hardware, storage
from ironic_lite.drivers.redfish.bmc import connection, faults, jobs, quirks, resources, transport
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

# Changes of volumes, sent one by one and followed by their tasks, if need be for hours.
#
# The whole state is one JSON document on the node (`VolumeWork`), so that a restarted or another
# conductor can continue. A request that may have been sent already, before a conductor died or a
# connection broke, is searched for before it is sent again.


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
class VolumeOrder:
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
class VolumeWork:
    """All changes of a step. ``until`` and ``silent`` are seconds since the epoch.

    ``before`` are existing volumes that stay; ``disks`` are the logical disks, one for each volume
    to create. ``conflicts`` counts the refusals of the next request by 409.
    """

    orders: list[VolumeOrder]
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
    def of(cls, saved: JsonView) -> VolumeWork:
        """Return the saved state."""
        orders = [restored(VolumeOrder, one) for one in saved["orders"]]
        return restored(cls, {**saved, "orders": orders})

    @property
    def stage(self) -> list[VolumeOrder]:
        """The changes to carry out now: first all deletions, then the creations."""
        left = [one for one in self.orders if one.state != DONE]
        return [one for one in left if one.do == left[0].do]


def order_timeout() -> float:
    """Return the time limit of a step in seconds."""
    return float(config.CONF.redfish.raid_config_timeout)


def advance(task: base.Task, work: VolumeWork) -> float | None:
    """Do what is possible now; return the seconds to wait, or None when all is done.

    :raises errors.StepFailed: the BMC refused, a task failed, or the time limit was exceeded.
    :raises errors.HardwareError: no answer; the state is noted, retry later.
    """
    stage = work.stage
    if not stage:
        return None
    if clock.over(work.until, order_timeout()):
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


def _send_next(task: base.Task, work: VolumeWork, coming: list[VolumeOrder]) -> float:
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


def _hand_to_us(work: VolumeWork) -> None:
    """Claim the requests that this process will send, so that no other process sends them."""
    for order in work.orders:
        if order.state == NEW and not jobs.CLAIMS.holds(order.by):
            order.by = jobs.CLAIMS.make()


def _wait_for_tasks(
    task: base.Task, work: VolumeWork, under_way: list[VolumeOrder], seen: list[str]
) -> float:
    """Wait for tasks; restart the machine if they wait for a boot."""
    # A BMC that does not report apply times may still need a restart.
    late = work.looks >= PATIENT_LOOKS and not set(seen) - jobs.WAITING
    asked = any(one.when == ON_RESET or (late and one.when is None) for one in under_way)
    begun = any(word in {DONE, "Running"} for word in seen)
    if asked and not begun and not work.rebooted:
        restart_machine(task)
        work.looks = 0
    work.rebooted = work.rebooted or asked
    work.looks += 1
    return _poll_pause(work)


def _poll_pause(work: VolumeWork) -> float:
    longest = float(config.CONF.redfish.raid_config_status_interval)
    return min(longest, FIRST_PAUSE * 2.0 ** min(work.looks, 10))


def retry_pause(why: errors.HardwareError) -> float:
    """Return the seconds before a silent BMC is asked again.

    After a refused login the pause is long, because the BMC may lock the user after some attempts.
    """
    longest = float(config.CONF.redfish.raid_config_status_interval)
    return longest if isinstance(why, errors.BmcAccessDenied) else min(longest, 2 * FIRST_PAUSE)


def restart_machine(task: base.Task) -> None:
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


def _send_order(
    link: connection.Link, work: VolumeWork, order: VolumeOrder, *, unsure: bool
) -> None:
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


def _post_order(link: connection.Link, order: VolumeOrder, make: str) -> transport.Response:
    body = dict(order.body)
    if order.when is not None:
        body[storage.APPLY_TIME] = order.when
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


def _was_sent(link: connection.Link, work: VolumeWork, order: VolumeOrder) -> bool:
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


def _poll_order(task: base.Task, work: VolumeWork, order: VolumeOrder) -> str:
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


def _order_state(link: connection.Link, work: VolumeWork, order: VolumeOrder) -> tuple[str, str]:
    """Return DONE, a TaskState, or an empty word if the task has ended; and the BMC's message."""
    word, said = jobs.look(link, order.uris)
    if word == jobs.DONE and order.do == CREATE and not order.found:
        return DONE, said  # all created volumes are compared at the end
    if word in {jobs.DONE, jobs.FORGOTTEN}:
        return (DONE if _is_there(link, work, order) else ""), said
    return word, said


def _is_there(link: connection.Link, work: VolumeWork, order: VolumeOrder) -> bool:
    """Return whether a change has taken effect."""
    if order.do == CREATE:
        found = find_volume(work, order, storage.read_volumes(link, order.path))
        order.volume = found.path if found else order.volume
        return found is not None
    # Not by reading the volume, because a starting BMC finds none of its volumes.
    volume = storage.plain_path(order.path)
    page = link.wire.document(volume.rpartition("/")[0])
    left = map(storage.plain_path, storage.listed_paths(link, page))
    return isinstance(page.get("Members"), list) and volume not in left


def find_volume(
    work: VolumeWork, order: VolumeOrder, there: Iterable[storage.RaidVolume]
) -> storage.RaidVolume | None:
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


def _order_timed_out(stage: list[VolumeOrder]) -> errors.StepFailed:
    order = stage[0]
    where = f"task {order.uris[0]}" if order.uris else "it was not begun"
    return _raid_failed(
        f"the BMC did not {order.name} within {order_timeout():g} s ({where}). Check its task "
        "queue; if it is only slow, raise [redfish]raid_config_timeout",
        option="[redfish]raid_config_timeout",
        limit=order_timeout(),
        task=where,
    )


NOTE = "redfish_raid"
"""Key of the plan on the node while a step is running."""

_INTERFACES = ("sata", "sas")


class RedfishRAID(hardware.RedfishInterface, base.RAID):
    """The raid interface ``redfish``."""

    work_notes: ClassVar[Sequence[str]] = (NOTE,)

    def validate(self, task: base.Task) -> None:
        """Check driver_info and the node's target_raid_config, if it has one.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the path.
        """
        super().validate(task)
        if task.node.target_raid_config:
            _checked_configuration(task.node.target_raid_config, "target_raid_config")

    def validate_raid_config(self, task: base.Task, config: JsonView) -> None:
        """Reject a configuration that no Redfish controller can build.

        :raises errors.InvalidParameter: naming the path.
        """
        _checked_configuration(config, "")

    # -- steps ----------------------------------------------------------------------------

    @base.clean_step(
        priority=0, requires_ramdisk=False, argsinfo=raid.CREATE_ARGS, destroys=("data", "volumes")
    )
    def create_configuration(
        self,
        task: base.Task,
        *,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> base.Outcome:
        """Build the volumes of the node's ``target_raid_config``.

        :raises errors.MissingParameter: the node has no target_raid_config.
        :raises errors.InvalidParameter: this machine cannot build it; naming the path.
        """
        root = "target_raid_config"
        if not task.node.target_raid_config:
            raise errors.MissingParameter(path=root)
        asked = _checked_configuration(task.node.target_raid_config, root)
        wanted = raid.wanted(asked, create_root_volume, create_nonroot_volumes)
        return self._build_volumes(task, _disks_with_paths(root, asked, wanted), delete_existing)

    @arguments.volumes_step(abortable=False)
    def apply_configuration(
        self,
        task: base.Task,
        *,
        raid_config: Json,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> base.Outcome:
        """Build the volumes of ``raid_config``.

        :raises errors.InvalidParameter: this machine cannot build it; naming the path.
        """
        root = "raid_config"
        asked = _checked_configuration(raid_config, root)
        wanted = raid.wanted(asked, create_root_volume, create_nonroot_volumes)
        return self._build_volumes(task, _disks_with_paths(root, asked, wanted), delete_existing)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=("data", "volumes"))
    @base.deploy_step(
        priority=0, abortable=False, rerunnable=True, destroys=("data", "volumes"), lasting=True
    )
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=("data", "volumes"))
    def delete_configuration(self, task: base.Task) -> base.Outcome:
        """Delete all volumes of all RAID controllers, whatever created them."""
        there = connection.call(task, storage.read_controllers)
        return self._start_changes(task, there, _deletion_orders(there), [])

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Do the next part of the plan.

        :raises errors.StepFailed: the BMC refused, a task failed, or a time limit was exceeded.
        """
        kept = task.recall(NOTE)
        if kept is None:
            raise _raid_failed("the plan of the step is lost; run it again")
        work = VolumeWork.of(kept)
        try:
            pause = advance(task, work)
            built = self._logical_disks(task, work) if pause is None else []
        except (errors.BmcUnreachable, errors.BmcBadAnswer, errors.BmcAccessDenied) as why:
            return self._await_bmc(task, work, why)
        if pause is None:
            self.show_raid(task, built)
            task.keep(NOTE, None)
            return base.DONE
        work.silent = None
        task.keep(NOTE, work.saved())
        task.wake_after(pause)
        return base.WAIT

    # -- the plan -------------------------------------------------------------------------

    def _build_volumes(
        self, task: base.Task, wanted: Sequence[tuple[str, Json]], delete_existing: object
    ) -> base.Outcome:
        emptied = raid.flag("delete_existing", delete_existing)
        there = connection.call(task, storage.read_controllers)
        offered = [one.offered(emptied=emptied) for one in there]
        choices = sorted(disk_selection.choose_disks(wanted, offered), key=lambda one: one.last)
        unnamed = quirks.UNNAMED_VOLUME
        if named := unnamed.fits(connection.call(task, _machine_maker)):
            unnamed.log(f"Node {task.node.uuid}")
        names = _free_names(wanted, there)
        used = {choice.controller.name for choice in choices}
        homes = {one.name: one for one in there if one.name in used}
        properties = {name: _creation_annotations(task, home) for name, home in homes.items()}
        creations = [
            _creation_order(choice, homes, properties, names, named=named) for choice in choices
        ]
        disks = [dict(choice.wanted) for choice in choices]
        deletions = _deletion_orders(there) if emptied else []
        return self._start_changes(task, there, [*deletions, *creations], disks)

    def _start_changes(
        self,
        task: base.Task,
        there: Sequence[storage.RaidController],
        work: list[VolumeOrder],
        disks: list[Json],
    ) -> base.Outcome:
        """Save the plan; the first poll follows at once."""
        if not work:
            self.show_raid(task, [])
            return base.DONE
        going = {one.path for one in work if one.do == DELETE}
        volumes = [one.path for each in there for one in each.volumes]
        for order in work:
            order.by = jobs.CLAIMS.make()
        plan = VolumeWork(
            orders=work,
            until=clock.stamp() + order_timeout(),
            before=[path for path in volumes if path not in going],
            disks=disks,
            make=connection.call(task, _machine_maker),
        )
        task.keep(NOTE, plan.saved())
        task.wake_after(0)
        return base.WAIT

    def _await_bmc(
        self, task: base.Task, work: VolumeWork, why: errors.HardwareError
    ) -> base.Outcome:
        """Wait for a BMC without a usable answer, because it may be restarting.

        A starting BMC may not know its users or its volumes yet.
        """
        work.silent = work.silent or clock.stamp()
        silent, limit = clock.lived_since(work.silent), config.CONF.redfish.bmc_silence_timeout
        if silent >= limit or clock.over(work.until, order_timeout()):
            doing = work.stage[0].name if work.stage else "read the volumes"
            reason = (
                f"no usable answer of the BMC for {silent:.0f} s while it was to "
                f"{doing}: {why} Then check the volumes of the machine, and run the step again"
            )
            raise _raid_failed(reason)
        task.keep(NOTE, work.saved())
        task.wake_after(retry_pause(why))
        return base.WAIT

    # -- the result -----------------------------------------------------------------------

    def _logical_disks(self, task: base.Task, work: VolumeWork) -> list[Json]:
        """Return the node's logical disks: the new ones and those built before.

        :raises errors.StepFailed: a volume is missing or too small, even if its task succeeded.
        """
        there = connection.call(task, storage.read_controllers)
        created = [one for one in work.orders if one.do == CREATE]
        found = [
            _logical_disk(work, order, disk, there)
            for order, disk in zip(created, work.disks, strict=True)
        ]
        new = {(one["controller"], one["id"]) for one in found}
        places = {(each.name, one.ident): one.path for each in there for one in each.volumes}
        known = (task.node.raid_config or {}).get("logical_disks") or []
        if any(map(raid.is_root, found)):
            # There is only one root volume: the one requested last.
            known = [
                {**one, "is_root_volume": False} if raid.is_root(one) else one for one in known
            ]
        kept = [
            one
            for one in known
            if (key := (one.get("controller"), one.get("id"))) not in new
            and places.get(key) in work.before
        ]
        return [*kept, *found]


# -- from configurations to requests and back -------------------------------------------------


def _checked_configuration(config: object, root: str) -> list[Json]:
    """Return the logical disks of a configuration after checking them for Redfish."""
    disks = raid.check(config, root)
    for place, disk in enumerate(disks):
        path = "/".join(filter(None, (root, "logical_disks", str(place))))
        for key, reason in _disk_refusals(disk):
            raise errors.InvalidParameter(path=f"{path}/{key}", reason=reason)
    return disks


def _disk_refusals(disk: Json) -> Sequence[tuple[str, str]]:
    level = disk["raid_level"]
    hints = [one for one in disk.get("physical_disks", ()) if not isinstance(one, str)]
    checks = (
        (
            "raid_level",
            level not in disk_selection.LEVELS,
            f"{level} is not possible by Redfish; possible are {', '.join(disk_selection.LEVELS)}",
        ),
        ("size_gb", disk["size_gb"] == 0, "a volume has at least 1 GiB"),
        (
            "interface_type",
            disk.get("interface_type", "sas") not in _INTERFACES,
            f"Redfish disks are {' or '.join(_INTERFACES)}",
        ),
        ("physical_disks", bool(hints), "must be names; hints are for software RAID"),
    )
    return [(key, reason) for key, wrong, reason in checks if wrong]


def _disks_with_paths(root: str, asked: list[Json], wanted: list[Json]) -> list[tuple[str, Json]]:
    """Return the wanted logical disks, each with its path."""
    return [
        (f"{root}/logical_disks/{place}", disk)
        for place, disk in enumerate(asked)
        if any(disk is one for one in wanted)
    ]


def _deletion_orders(there: Sequence[storage.RaidController]) -> list[VolumeOrder]:
    return [
        VolumeOrder(
            DELETE,
            volume.path,
            f"delete volume {volume.name} of controller {each.name}",
            when=_apply_time(each.times if volume.times is None else volume.times),
        )
        for each in there
        for volume in each.volumes
        if not volume.raw
    ]


def _creation_order(
    choice: disk_selection.DiskChoice,
    homes: Mapping[str, storage.RaidController],
    properties: Mapping[str, Json],
    free_names: Iterator[str],
    *,
    named: bool,
) -> VolumeOrder:
    """Return the request for a volume.

    :param homes: the chosen controllers by name; ``properties`` has their annotations.
    :param free_names: for volumes that need a name but have none.
    :param named: each volume needs a name.
    """
    home, creation = homes[choice.controller.name], properties[choice.controller.name]
    wanted = choice.wanted
    body: Json = {
        "RAIDType": storage.RAID_TYPES[wanted["raid_level"]],
        "Links": {"Drives": [{"@odata.id": disk.path} for disk in choice.disks]},
    }
    if choice.size is not None:
        body["CapacityBytes"] = choice.size
    needed = named or creation.get("Name@Redfish.RequiredOnCreate") is True
    if "volume_name" in wanted or needed:
        body[_name_key(creation)] = wanted.get("volume_name") or next(free_names)
    names = ", ".join(disk.name for disk in choice.disks)
    name = f"create RAID {wanted['raid_level']} on disks {names} of controller {home.name}"
    return VolumeOrder(CREATE, home.volumes_path, name, body, when=_apply_time(home.times))


def _creation_annotations(task: base.Task, home: storage.RaidController) -> Json:
    return connection.call(task, lambda link: storage.creation_annotations(link, home.capabilities))


def _free_names(
    wanted: Sequence[tuple[str, Json]], there: Sequence[storage.RaidController]
) -> Iterator[str]:
    """Yield names that no volume has or will have."""
    used = {disk.get("volume_name") for _, disk in wanted}
    used |= {volume.name for each in there for volume in each.volumes}
    return (name for at in itertools.count(1) if (name := f"volume{at}") not in used)


def _name_key(creation: Json) -> str:
    """Return the property for a volume's name; some controllers take only DisplayName."""
    said = {name: _is_creatable(creation, name) for name in ("Name", "DisplayName")}
    return "DisplayName" if said["DisplayName"] and not said["Name"] else "Name"


def _is_creatable(creation: Json, name: str) -> bool:
    words = ("RequiredOnCreate", "OptionalOnCreate", "SetOnlyOnCreate")
    return any(creation.get(f"{name}@Redfish.{word}") is True for word in words)


def _apply_time(times: Sequence[str] | None) -> str | None:
    """Return the apply time to request; None lets the BMC decide."""
    known = times or ()
    return next((one for one in (IMMEDIATE, ON_RESET) if one in known), None)


def _machine_maker(link: connection.Link) -> str:
    return str(link.system().json.get("Manufacturer") or "")


def _logical_disk(
    work: VolumeWork,
    order: VolumeOrder,
    wanted: Json,
    there: Sequence[storage.RaidController],
) -> Json:
    """Return the entry of a volume in the node's raid_config, from its request and its result."""
    home = next((one for one in there if one.volumes_path == order.path), None)
    volume = find_volume(work, order, home.volumes) if home else None
    if home is None or volume is None:
        raise _raid_failed(
            f"the BMC reported success of: {order.name}, but that volume does not exist. "
            "Check the BMC's log, and run the step again"
        )
    order.volume = volume.path
    asked = order.body.get("CapacityBytes", 0)
    if volume.size < asked * _ROUNDING:
        raise _raid_failed(
            f"volume {volume.name} has {volume.size // disk_selection.GIB} GiB, "
            f"not {wanted['size_gb']}. Request less, or more disks"
        )
    disks = {storage.plain_path(drive["@odata.id"]): str(drive["Id"]) for drive in home.drives}
    drives = volume.drives or tuple(one["@odata.id"] for one in order.body["Links"]["Drives"])
    shown = {
        **wanted,
        "id": volume.ident,
        "controller": home.name,
        "size_gb": volume.size // disk_selection.GIB,
        "volume_name": volume.name,
        "physical_disks": [disks.get(storage.plain_path(path), path) for path in drives],
    }
    if volume.hint is not None:
        shown["root_device_hint"] = dict(volume.hint)
    return shown


_ROUNDING = 0.99
"""Controllers round sizes down to multiples of their stripes."""
