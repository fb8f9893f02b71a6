"""Booting from a virtual drive: the BMC shows a medium to its machine, which holds all it needs.

The machine needs no DHCP and no TFTP server to start; its BMC reads the medium by HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import live, medium, modes, sources
from ironic_lite.drivers.redfish import (
    companion,
    documents,
    interface,
    media,
    override,
    quirks,
)
from ironic_lite.images import cache, published

LOG = logging.getLogger(__name__)

NOTE = "redfish_boot_secret_medium"
"""What the machine was given to boot: ``{"params": {...}, "mode": ..., "name": ..., "url": ...,
"device": ..., "drive": ...}``; ``name`` is that of a file made here, None if the medium is
another's; ``drive`` has ``name`` and ``url`` of a configuration drive beside it, None without one.
Its own name keeps it from being shown: the medium holds the ramdisk's token."""

_CHECKED = (*sources.MEDIA, *sources.DESCRIPTIONS)
_URLS = tuple(name for name in _CHECKED if name != "kernel_append_params")


class RedfishVirtualMediaBoot(interface.RedfishInterface, base.Boot):
    """The boot interface ``redfish-virtual-media``."""

    device: ClassVar[str] = "cdrom"
    brings_configdrive: ClassVar[bool] = True

    def get_properties(self) -> dict[str, str]:
        """Return what driver_info may hold."""
        return {**super().get_properties(), **sources.DESCRIPTIONS, **sources.MEDIA}

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        """Refuse nonsense in driver_info.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        super().check_driver_info(driver_info)
        sources.check(driver_info, _URLS)

    def validate(self, task: base.Task) -> None:
        """Check that a ramdisk could be booted to deploy; see `check_ramdisk`."""
        super().validate(task)
        medium.check(task.node, "deploy")

    def check_ramdisk(self, task: base.Task, mode: str) -> None:
        """Check that a ramdisk could be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming all that is wrong.
        """
        super().validate(task)
        medium.check(task.node, mode)

    def carries_parameters(self, task: base.Task, mode: str = "deploy") -> bool:
        """Tell whether the medium is made here, for this node alone."""
        return sources.parts(task.node, mode, whole=True).iso is None

    # -- ramdisk --------------------------------------------------------------------------

    def prepare_ramdisk(
        self, task: base.Task, params: Mapping[str, str], mode: str = "deploy"
    ) -> None:
        """Make the medium, put it into the virtual drive in place of what it holds, and choose it
        for the next boot.

        :raises errors.Error: a part of the medium cannot be had, or the BMC refused.
        """
        self._prepare(task, params, mode)

    def clean_up_ramdisk(self, task: base.Task, mode: str = "deploy") -> None:
        """Empty the virtual drive and remove the medium."""
        note = task.recall(NOTE) or {}
        try:
            media.detach(task, [note.get("device", self.device), *_beside(note)])
        except errors.UnsupportedDriverExtension:
            LOG.debug("Node %s has no virtual drive to be emptied", task.node.uuid)
        finally:  # also if its BMC is gone: the medium holds a secret
            medium.remove(task)
        task.keep(NOTE, None)

    # -- instance -------------------------------------------------------------------------

    @cache.holding()
    def check_instance(self, task: base.Task) -> None:
        """Fetch what has a checksum, read the configuration drive, and look for a place for it.

        :raises errors.Error: the instance could not be booted.
        """
        parts = sources.parts(task.node, sources.INSTANCE, whole=True)
        if parts.iso is not None and not medium.handed_on(task.node, parts):
            live.fetch(task.node.instance_info)
        if medium.drive(task) is not None:
            companion.check(media.drives(task))

    def prepare_instance(self, task: base.Task) -> None:
        """Boot from the disk from now on; the virtual drive is emptied. An instance that is a
        ramdisk is booted from a medium that stays in it, with its configuration drive beside it.
        """
        if task.driver.deploy.boots_ramdisk:
            self._prepare(task, {}, sources.INSTANCE)
            return
        self.clean_up_ramdisk(task)
        maker = documents.text(documents.system(task), "Manufacturer")
        if modes.wanted(task.node) == "uefi" and quirks.of(maker).installs_own_order:
            LOG.info("Node %s: its firmware boots what was installed last", task.node.uuid)
            return
        modes.settle(task, "disk", persistent=True)

    def clean_up_instance(self, task: base.Task) -> None:
        """Empty the virtual drive and remove the medium."""
        self.clean_up_ramdisk(task)

    # -- another conductor ----------------------------------------------------------------

    def lacks_files(self, task: base.Task) -> bool:
        """Tell whether the machine was given a medium that is not here."""
        note = task.recall(NOTE) or {}
        names = [one.get("name") for one in (note, note.get("drive") or {})]
        return any(name and not (published.root() / name).exists() for name in names)

    def take_over(self, task: base.Task) -> None:
        """Make the medium anew where this conductor has none; the BMC is told if its address is
        another.

        :raises errors.Error: as `prepare_ramdisk`.
        """
        if not self.lacks_files(task):
            return
        note = task.recall(NOTE)
        fresh = self._publish(task, note["params"], note["mode"], note["name"])
        drive = note.get("drive")
        if drive:
            fresh["drive"] = companion.publish(task, drive["name"])
        LOG.info("Node %s: its boot medium has been made here again", task.node.uuid)
        task.keep(NOTE, {**note, "url": fresh["url"], "drive": fresh["drive"]})
        if drive and fresh["drive"] != drive:
            self._fill_both(task, fresh)
        elif fresh["url"] != note["url"]:
            media.attach(task, note.get("device", self.device), fresh["url"])

    # -- how ------------------------------------------------------------------------------

    def _prepare(self, task: base.Task, params: Mapping[str, str], mode: str) -> None:
        held = _beside(task.recall(NOTE) or {})
        if held:
            media.detach(task, held)
        medium.remove(task)
        note = self._publish(task, dict(params), mode, medium.new_name(task))
        if mode == sources.INSTANCE:
            name = medium.new_name(task, medium.DRIVE_SUFFIX)
            note["drive"] = companion.publish(task, name)
        modes.bring(task, modes.wanted(task.node))
        task.keep(NOTE, note)
        self._insert(task, note)

    def _publish(
        self, task: base.Task, params: dict[str, str], mode: str, name: str
    ) -> dict[str, Any]:
        """Put the medium where the BMC finds it; return what is to be noted of it."""
        node = task.node
        parts = sources.parts(node, mode, whole=True)
        note: dict[str, Any] = {"params": params, "mode": mode, "name": name, "device": self.device}
        note["drive"] = None
        if medium.handed_on(node, parts):
            return {**note, "name": None, "url": parts.iso}
        if parts.iso is None:
            medium.make(task, parts, medium.words(task, params, mode), name)
        else:
            medium.publish(task, parts, name)
        return {**note, "url": published.url(name, node.driver_info)}

    def _insert(self, task: base.Task, note: dict[str, Any]) -> None:
        """Fill a virtual CD, or a stick where there is no CD, and choose it for the next boot."""
        if note["drive"]:
            self._fill_both(task, note)
            task.driver.management.set_boot_device(task, self.device, persistent=True)
            return
        seen = media.drives(task)
        found = {kind for drive in seen for kind in drive.devices}
        if "cdrom" in found or "disk" not in found:
            media.attach(task, self.device, note["url"], seen)
            always = note["mode"] == sources.INSTANCE
            task.driver.management.set_boot_device(task, self.device, persistent=always)
            return
        task.keep(NOTE, {**note, "device": "disk"})
        media.attach(task, "disk", note["url"], seen)
        override.choose_stick(task)

    def _fill_both(self, task: base.Task, note: dict[str, Any]) -> None:
        """Fill a virtual CD, and a stick beside it with the configuration drive."""
        companion.check(media.drives(task))
        media.detach(task, companion.BOTH)
        seen = companion.by_choice(media.drives(task))
        disc = media.attach(task, self.device, note["url"], seen)
        companion.insert(task, note["drive"]["url"], disc)


def _beside(note: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what else the machine was shown, besides what it boots from."""
    return companion.BOTH if note.get("drive") else ()
