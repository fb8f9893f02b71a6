"""Booting from a virtual drive: the BMC shows a medium to its machine, which holds all it needs.

The machine needs no DHCP and no TFTP server to start; its BMC reads the medium by HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import medium, modes, sources
from ironic_lite.drivers.redfish import documents, interface, media, override, quirks
from ironic_lite.images import published

LOG = logging.getLogger(__name__)

NOTE = "redfish_boot_secret_medium"
"""What the machine was given to boot: ``{"params": {...}, "mode": ..., "name": ..., "url": ...,
"device": ...}``; ``name`` is that of a file made here, None if the medium is another's. Its own
name keeps it from being shown: the medium holds the ramdisk's token."""

_CHECKED = (*sources.MEDIA, *sources.DESCRIPTIONS)
_URLS = tuple(name for name in _CHECKED if name != "kernel_append_params")


class RedfishVirtualMediaBoot(interface.RedfishInterface, base.Boot):
    """The boot interface ``redfish-virtual-media``."""

    device: ClassVar[str] = "cdrom"

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
            media.detach(task, [note.get("device", self.device)])
        except errors.UnsupportedDriverExtension:
            LOG.debug("Node %s has no virtual drive to be emptied", task.node.uuid)
        finally:  # also if its BMC is gone: the medium holds a secret
            medium.remove(task)
        task.keep(NOTE, None)

    # -- instance -------------------------------------------------------------------------

    def prepare_instance(self, task: base.Task) -> None:
        """Boot from the disk from now on; the virtual drive is emptied. An instance that is a
        ramdisk is booted from a medium that stays in it.
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
        note = task.recall(NOTE)
        return bool(note and note["name"]) and not (published.root() / note["name"]).exists()

    def take_over(self, task: base.Task) -> None:
        """Make the medium anew where this conductor has none; the BMC is told if its address is
        another.

        :raises errors.Error: as `prepare_ramdisk`.
        """
        if not self.lacks_files(task):
            return
        note = task.recall(NOTE)
        fresh = self._publish(task, note["params"], note["mode"], note["name"])
        LOG.info("Node %s: its boot medium has been made here again", task.node.uuid)
        if fresh["url"] != note["url"]:
            fresh["device"] = note.get("device", self.device)
            media.attach(task, fresh["device"], fresh["url"])
        task.keep(NOTE, {**note, "url": fresh["url"]})

    # -- how ------------------------------------------------------------------------------

    def _prepare(self, task: base.Task, params: Mapping[str, str], mode: str) -> None:
        medium.remove(task)
        note = self._publish(task, dict(params), mode, medium.new_name(task))
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
        if parts.iso is None:
            medium.make(task, parts, medium.words(task, params, mode), name)
        elif parts.iso.lower().startswith("file:"):
            medium.publish(task, parts.iso, f"{parts.place}iso", name)
        else:
            return {**note, "name": None, "url": parts.iso}
        return {**note, "url": published.url(name, node.driver_info)}

    def _insert(self, task: base.Task, note: dict[str, Any]) -> None:
        """Fill a virtual CD, or a stick where there is no CD, and choose it for the next boot."""
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
