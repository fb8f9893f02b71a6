"""Volumes of a machine that is not there."""

from __future__ import annotations

import datetime
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeRAID(stage.Staged, base.RAID):
    """Building volumes is writing them into the node's ``raid_config``."""

    @base.clean_step(
        priority=0,
        abortable=True,
        requires_ramdisk=False,
        argsinfo={
            "create_root_volume": base.Arg(
                "true or false: whether the root volume is built. Default: true."
            ),
            "create_nonroot_volumes": base.Arg(
                "true or false: whether all other volumes are built. Default: true."
            ),
        },
    )
    def create_configuration(
        self,
        task: base.Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
    ) -> None:
        """Build the volumes of the node's ``target_raid_config``.

        :raises errors.MissingParameter: the node has no target_raid_config.
        :raises errors.InvalidParameter: an argument is wrong.
        """
        wanted = {
            True: _flag("create_root_volume", create_root_volume),
            False: _flag("create_nonroot_volumes", create_nonroot_volumes),
        }
        target = task.node.target_raid_config
        if not target:
            raise errors.MissingParameter(path="target_raid_config")
        disks = [
            disk
            for disk in _disks("target_raid_config", target)
            if wanted[bool(disk.get("is_root_volume"))]
        ]
        if not disks:
            raise errors.InvalidParameter(
                path="create_root_volume, create_nonroot_volumes",
                reason="they leave no volume of target_raid_config to build",
            )
        _build(task, disks)

    @base.clean_step(priority=0, requires_ramdisk=False)
    def delete_configuration(self, task: base.Task) -> None:
        """Remove all volumes."""
        task.node.raid_config = {}

    @base.deploy_step(
        priority=0,
        argsinfo={"raid_config": base.Arg('{"logical_disks": [...]}, the volumes', required=True)},
        rerunnable=True,
    )
    @base.service_step(
        argsinfo={"raid_config": base.Arg('{"logical_disks": [...]}, the volumes', required=True)},
        requires_ramdisk=False,
        rerunnable=True,
    )
    def apply_configuration(self, task: base.Task, raid_config: dict[str, Any]) -> None:
        """Build the volumes of ``raid_config``.

        :raises errors.InvalidParameter: naming ``raid_config``.
        """
        _build(task, _disks("raid_config", raid_config))


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise errors.InvalidParameter(path=name, reason=f"{value!r} is not true or false")
    return value


def _disks(name: str, wanted: object) -> list[dict[str, Any]]:
    disks = wanted.get("logical_disks") if isinstance(wanted, dict) else None
    if not isinstance(disks, list) or not disks:
        raise errors.InvalidParameter(path=name, reason="has no list of logical_disks")
    for position, disk in enumerate(disks):
        if not isinstance(disk, dict):
            raise errors.InvalidParameter(
                path=f"{name}/logical_disks/{position}", reason="is not a dictionary"
            )
    return disks


def _build(task: base.Task, disks: list[dict[str, Any]]) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    task.node.raid_config = {"logical_disks": disks, "last_updated": now}
