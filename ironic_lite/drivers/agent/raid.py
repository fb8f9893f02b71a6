"""The raid interface ``agent``: volumes built by hardware managers of a ramdisk's agent.

``create_configuration`` and ``delete_configuration`` are the agent's own steps, with its
priorities. ``apply_configuration`` is known before there is an agent, so that templates may name
it. The node shows the volumes that the agent reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import activities, raid
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.agent import steps

# Check of a configuration for the agent's software RAID. Pure.
#
# The rules are those of ironic-python-agent, which would report a fault only minutes later, after
# the machine has lost its volumes.

SOFTWARE = "software"
"""The ``controller`` of software RAID volumes."""
FIRST_LEVEL = "1"
"""The level of the first volume, from which the machine boots."""
SECOND_LEVELS = ("0", "1", "5", "6", "1+0")
MOST_VOLUMES = 2
"""Limit of the number of volumes."""
_UNREAD = ("number_of_physical_disks", "disk_type", "interface_type")
"""Keys that the agent ignores: without ``physical_disks`` it takes every disk it finds."""


def check_volumes(config: object, root: str = "") -> list[Json]:
    """Return the logical disks of a configuration that an agent may build.

    :param root: the path of the configuration itself, such as ``target_raid_config``.
    :raises errors.InvalidParameter: naming the path.
    """
    disks = raid.check(config, root)
    for fault in volume_faults(disks):
        path = "/".join(filter(None, (root, fault.path)))
        raise errors.InvalidParameter(path=path, reason=fault.reason)
    return disks


def volume_faults(disks: Sequence[JsonView]) -> Iterator[raid.Fault]:
    """Yield faults of software RAID; volumes of hardware controllers have none."""
    if not any(disk.get("controller") == SOFTWARE for disk in disks):
        return
    for place, disk in enumerate(disks):
        yield from _of_disk(f"logical_disks/{place}", disk)
    if len(disks) > MOST_VOLUMES:
        path, reason = (
            f"logical_disks/{MOST_VOLUMES}",
            f"software RAID has at most {MOST_VOLUMES} volumes",
        )
        yield raid.Fault(path, reason)
    if disks[0]["raid_level"] != FIRST_LEVEL:
        reason = f"the first volume of software RAID must be of level {FIRST_LEVEL}"
        yield raid.Fault("logical_disks/0/raid_level", reason)
    for place, disk in enumerate(disks[1:], 1):
        yield from _of_further(f"logical_disks/{place}", disk, disks[:place])


def _of_disk(path: str, disk: JsonView) -> Iterator[raid.Fault]:
    if disk.get("controller") != SOFTWARE:
        reason = f'must be "{SOFTWARE}" for all volumes or for none'
        yield raid.Fault(f"{path}/controller", reason)
    if disk["size_gb"] == 0:
        yield raid.Fault(f"{path}/size_gb", "a volume has at least 1 GiB")
    if any(isinstance(one, str) for one in disk.get("physical_disks", ())):
        reason = 'must be objects with hints, such as {"size": ">= 100"}, for software RAID'
        yield raid.Fault(f"{path}/physical_disks", reason)
    for name in _UNREAD:
        if name in disk:
            reason = (
                "is ignored by software RAID, which would take all disks: choose disks by "
                'hints in physical_disks, such as {"rotational": false}'
            )
            yield raid.Fault(f"{path}/{name}", reason)


def _of_further(path: str, disk: JsonView, before: Sequence[JsonView]) -> Iterator[raid.Fault]:
    if disk["raid_level"] not in SECOND_LEVELS:
        reason = f"{disk['raid_level']} is not one of {', '.join(SECOND_LEVELS)}, for software RAID"
        yield raid.Fault(f"{path}/raid_level", reason)
    if disk["size_gb"] == raid.MAX and any(one["size_gb"] == raid.MAX for one in before):
        yield raid.Fault(f"{path}/size_gb", f'only one volume can have "{raid.MAX}"')
    name = disk.get("volume_name")
    if name is not None and any(one.get("volume_name") == name for one in before):
        yield raid.Fault(f"{path}/volume_name", f"{name!r} is the name of another volume")


CREATE, APPLY, DELETE = "create_configuration", "apply_configuration", "delete_configuration"
_TARGET = "target_raid_config"


class AgentRAID(steps.InBand, base.RAID):
    """Software RAID, and other volumes of the agent's hardware managers."""

    def validate(self, task: base.Task) -> None:
        """Check the node's target_raid_config, if there is one.

        :raises errors.InvalidParameter: naming the path.
        """
        if task.node.target_raid_config:
            check_volumes(task.node.target_raid_config, _TARGET)

    def validate_raid_config(self, task: base.Task, config: JsonView) -> None:
        """Reject a configuration that no agent can build.

        :raises errors.InvalidParameter: naming the path.
        """
        check_volumes(config)

    # -- steps -------------------------------------------------------------------------------

    @arguments.volumes_step(requires_ramdisk=True, restarts=0)
    def apply_configuration(
        self,
        task: base.Task,
        *,
        raid_config: Json,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> base.Outcome:
        """Let the agent build the volumes of ``raid_config``.

        :raises errors.InvalidParameter: an argument is invalid; naming the path.
        :raises errors.HardwareError: the agent is unreachable, or refuses.
        """
        asked = check_volumes(raid_config, "raid_config")
        disks = raid.wanted(asked, create_root_volume, create_nonroot_volumes)
        args = {
            "raid_config": {"logical_disks": disks},
            "delete_existing": raid.flag("delete_existing", delete_existing),
        }
        activity = activities.stepping(task.node.provision_state)
        assert activity is not None  # a step runs
        step: base.StoredStep = {"step": APPLY, "interface": self.kind, "args": args}
        return steps.begin(task, activity.kind, step)

    def heartbeat_ends_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> bool:
        """Poll the agent at once for its running step."""
        task.wake_after(0)
        return False

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Check whether the agent's step has ended.

        :raises errors.HardwareError: it failed, was lost with its agent, or built nothing.
        :raises errors.AgentChanged: the agent refused it.
        """
        if not self.owns(kind, step):
            return super().poll_step(task, kind, step)
        found = steps.follow(task, kind, lambda: self._execute(task, step) or base.DONE)
        if isinstance(found, base.Outcome):
            return found
        self.after_step(task, kind, step, found)
        return steps.ended(task)

    def after_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep, value: Json
    ) -> None:
        """Store on the node the volumes that the agent has built, possibly none.

        :raises errors.StepFailed: the agent does not report the built volumes.
        """
        if step["step"] in (CREATE, APPLY):
            self.show_raid(task, _built_volumes(value.get(f"{kind}_result")))
        elif step["step"] == DELETE:
            self.show_raid(task, [])

    def _run(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome | None:
        if step["step"] == CREATE:
            if not task.node.target_raid_config:
                raise errors.MissingParameter(path=_TARGET)
            check_volumes(task.node.target_raid_config, _TARGET)
        return super()._run(task, kind, step)


def _built_volumes(result: object) -> list[Json]:
    """Return the volumes in a step's result.

    :raises errors.StepFailed: there are none, or their description is incomplete.
    """
    disks = result.get("logical_disks") if isinstance(result, Mapping) else None
    if not disks:
        reason = (
            "the agent has built nothing: none of its hardware managers makes such volumes. "
            f'Volumes with "controller": "{SOFTWARE}" are made by every agent'
        )
        raise errors.StepFailed(step="raid", reason=reason)
    if not (isinstance(disks, list) and all(map(_is_described, disks))):
        reason = "the agent does not report raid_level and size_gb of each volume"
        raise errors.StepFailed(step="raid", reason=reason)
    return [dict(disk) for disk in disks]


def _is_described(disk: object) -> bool:
    if not isinstance(disk, Mapping):
        return False
    size = disk.get("size_gb")
    whole = isinstance(size, int) and not isinstance(size, bool)
    return isinstance(disk.get("raid_level"), str) and (whole or size == raid.MAX)
