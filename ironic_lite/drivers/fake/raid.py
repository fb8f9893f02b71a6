"""Fake raid interface, without hardware."""

from __future__ import annotations

from ironic_lite.core.json_types import Json
from ironic_lite.domain import raid
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeRAID(stage.Staged, base.RAID):
    """Writes the volumes to the node; its disks have unlimited capacity."""

    def validate(self, task: base.Task) -> None:
        """Check the ``fake_`` keys and, if there is one, the node's target_raid_config.

        :raises errors.InvalidParameter: naming the path.
        """
        super().validate(task)
        if task.node.target_raid_config:
            raid.check(task.node.target_raid_config, "target_raid_config")

    @base.clean_step(
        priority=0,
        abortable=True,
        requires_ramdisk=False,
        argsinfo=raid.CREATE_ARGS,
        destroys=("data", "volumes"),
        restarts=0,
    )
    def create_configuration(
        self,
        task: base.Task,
        *,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> None:
        """Build the volumes of the node's ``target_raid_config``; without one, build nothing.

        :raises errors.InvalidParameter: an argument is wrong.
        """
        raid.flag("delete_existing", delete_existing)
        target = task.node.target_raid_config
        if not target:
            return
        disks = raid.wanted(
            raid.check(target, "target_raid_config"),
            create_root_volume=create_root_volume,
            create_nonroot_volumes=create_nonroot_volumes,
        )
        self.show_raid(task, disks)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=("data", "volumes"), restarts=0)
    @base.deploy_step(
        priority=0, rerunnable=True, destroys=("data", "volumes"), restarts=0, lasting=True
    )
    @base.service_step(
        requires_ramdisk=False, rerunnable=True, destroys=("data", "volumes"), restarts=0
    )
    def delete_configuration(self, task: base.Task) -> None:
        """Remove all volumes."""
        self.show_raid(task, [])

    @base.deploy_step(
        priority=0,
        argsinfo=raid.APPLY_ARGS,
        rerunnable=True,
        destroys=("data", "volumes"),
        restarts=0,
        lasting=True,
    )
    @base.service_step(
        argsinfo=raid.APPLY_ARGS,
        requires_ramdisk=False,
        rerunnable=True,
        destroys=("data", "volumes"),
        restarts=0,
    )
    def apply_configuration(
        self,
        task: base.Task,
        *,
        raid_config: Json,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> None:
        """Build the volumes of ``raid_config``.

        :raises errors.InvalidParameter: naming ``raid_config``, or another argument.
        """
        disks = raid.wanted(
            raid.check(raid_config, "raid_config"),
            create_root_volume=create_root_volume,
            create_nonroot_volumes=create_nonroot_volumes,
        )
        raid.flag("delete_existing", delete_existing)
        self.show_raid(task, disks)
