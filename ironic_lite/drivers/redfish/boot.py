"""Boot by virtual media: the BMC presents an image with all files the machine needs.

The machine needs no DHCP or TFTP server to boot; its BMC reads the image by HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import medium, modes, sources
from ironic_lite.drivers.redfish import interface, override
from ironic_lite.drivers.redfish.bmc import quirks, resources
from ironic_lite.drivers.redfish.media import configdrive_media, virtual_drives
from ironic_lite.images import cache, published

LOG = logging.getLogger(__name__)

NOTE = "redfish_boot_secret_medium"
"""Key of the inserted medium: ``{"params": {...}, "mode": ..., "name": ..., "url": ..., "device":
..., "drive": ...}``. ``name`` is the file made here, None for a foreign medium. ``drive`` has
``name`` and ``url`` of a configuration drive beside it, or is None. ``of`` is the `medium.mark`.
The word secret in the key hides the value, because the medium holds the ramdisk's token."""
PREPARED = "redfish_boot_secret_prepared"
"""Key of the same note about the medium of the instance before it is inserted."""

_CHECKED = (*sources.MEDIA, *sources.DESCRIPTIONS)
_URLS = tuple(name for name in _CHECKED if name != "kernel_append_params")


class RedfishVirtualMediaBoot(interface.RedfishInterface, base.Boot):
    """The boot interface ``redfish-virtual-media``."""

    device: ClassVar[str] = "cdrom"
    brings_configdrive: ClassVar[bool] = True

    def get_properties(self) -> dict[str, str]:
        """Return ``{driver_info key: description}``."""
        return {**super().get_properties(), **sources.DESCRIPTIONS, **sources.MEDIA}

    def check_driver_info(self, driver_info: JsonView) -> None:
        """Reject invalid values in driver_info.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        super().check_driver_info(driver_info)
        sources.check(driver_info, _URLS)

    def validate(self, task: base.Task) -> None:
        """Check that a deploy ramdisk can be booted; see `check_ramdisk`."""
        super().validate(task)
        medium.check(task.node, "deploy")

    def check_ramdisk(self, task: base.Task, mode: str) -> None:
        """Check that a ramdisk can be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming all faults.
        """
        super().validate(task)
        medium.check(task.node, mode)

    def carries_parameters(self, task: base.Task, mode: str = "deploy") -> bool:
        """Return whether the medium is made here, for this node alone."""
        return sources.parts(task.node, mode, whole=True).iso is None

    # -- ramdisk --------------------------------------------------------------------------

    def prepare_ramdisk(
        self, task: base.Task, params: Mapping[str, str], mode: str = "deploy"
    ) -> None:
        """Make the medium, insert it into the virtual drive, and boot from it next.

        :raises errors.Error: a part of the medium is not available, or the BMC refused.
        """
        self._prepare_medium(task, params, mode)

    def clean_up_ramdisk(self, task: base.Task, mode: str = "deploy") -> None:
        """Empty the virtual drive and remove the medium."""
        note = task.recall(NOTE) or {}
        try:
            virtual_drives.detach(task, [note.get("device", self.device), *_other_drives(note)])
        except errors.UnsupportedDriverExtension:
            LOG.debug("Node %s has no virtual drive to empty", task.node.uuid)
        finally:  # also without the BMC, because the medium holds a secret
            medium.remove(task)
        task.keep(NOTE, None)
        task.keep(PREPARED, None)

    # -- instance -------------------------------------------------------------------------

    @cache.holding()
    def check_instance(self, task: base.Task) -> None:
        """Publish the medium and the configuration drive, and check the virtual stick for it.

        :raises errors.Error: the instance could not be booted.
        """
        note = self._published_note(task, sources.INSTANCE)
        if note is None:
            medium.remove(task, *_names(task.recall(NOTE) or {}))
            note = self._publish_instance(task)
            task.keep(PREPARED, note)
        if note["drive"]:
            configdrive_media.check(virtual_drives.drives(task))

    def prepare_instance(self, task: base.Task) -> None:
        """Boot from the disk from now on, and empty the virtual drive.

        An instance that is a ramdisk boots from a medium that stays inserted, with its
        configuration drive beside it.
        """
        if task.driver.deploy.boots_ramdisk:
            self._prepare_medium(task, {}, sources.INSTANCE)
            return
        self.clean_up_ramdisk(task)
        maker = resources.text(resources.system(task), "Manufacturer")
        if modes.keeps_own_order(task.node, maker):
            quirks.OWN_BOOT_ORDER.log(f"Node {task.node.uuid}")
            return
        modes.settle(task, "disk", persistent=True)

    def clean_up_instance(self, task: base.Task) -> None:
        """Empty the virtual drive and remove the medium."""
        self.clean_up_ramdisk(task)

    # -- another conductor ----------------------------------------------------------------

    def lacks_files(self, task: base.Task) -> bool:
        """Return whether the machine's medium is missing on this conductor."""
        note = task.recall(NOTE) or {}
        return not all(map(medium.is_here, _names(note)))

    def take_over(self, task: base.Task) -> None:
        """Make the medium again if this conductor lacks it; reinsert it if its URL has changed.

        :raises errors.Error: as `prepare_ramdisk`.
        """
        if not self.lacks_files(task):
            return
        note = task.recall(NOTE)
        fresh, drive = dict(note), note.get("drive")
        if note["name"] and not medium.is_here(note["name"]):
            fresh = self._publish_medium(task, note["params"], note["mode"], note["name"])
            fresh["drive"] = drive
        if drive and not medium.is_here(drive["name"]):
            fresh["drive"] = configdrive_media.publish(task, drive["name"])
        fresh = _with_urls(fresh, task.node)
        LOG.info("Node %s: its boot medium was made again on this conductor", task.node.uuid)
        task.keep(NOTE, {**note, "url": fresh["url"], "drive": fresh["drive"]})
        if drive and fresh["drive"] != drive:
            self._fill_both(task, fresh)
        elif fresh["url"] != note["url"]:
            virtual_drives.attach(task, note.get("device", self.device), fresh["url"])

    # -- details --------------------------------------------------------------------------

    def _prepare_medium(self, task: base.Task, params: Mapping[str, str], mode: str) -> None:
        held = _other_drives(task.recall(NOTE) or {})
        if held:
            virtual_drives.detach(task, held)
        last = self._published_note(task, mode)
        if mode == sources.INSTANCE and last is not None:
            note = _with_urls(last, task.node)
            medium.remove(task, *_names(note))
        else:
            last_name = last["name"] if last else None
            medium.remove(task, last_name)  # the others first, as their room may be needed
            if mode == sources.INSTANCE:
                note = self._publish_instance(task)
            else:
                name = medium.new_name(task)
                note = self._publish_medium(task, dict(params), mode, name, last_name)
            medium.remove(task, *_names(note))
        modes.bring(task, modes.wanted(task.node))
        task.keep(NOTE, note)
        task.keep(PREPARED, None)
        self._insert_medium(task, note)

    def _published_note(self, task: base.Task, mode: str) -> Json | None:
        """Return the note about what this run has published for this boot, None if it is gone."""
        of = medium.mark(task, sources.parts(task.node, mode, whole=True), mode)
        for key in (PREPARED, NOTE):
            note: Json = task.recall(key) or {}
            if note.get("of") == of and all(map(medium.is_here, _names(note))):
                return note
        return None

    def _publish_instance(self, task: base.Task) -> Json:
        note = self._publish_medium(task, {}, sources.INSTANCE, medium.new_name(task))
        note["drive"] = configdrive_media.publish(task, medium.new_name(task, medium.DRIVE_SUFFIX))
        return note

    def _publish_medium(
        self,
        task: base.Task,
        params: dict[str, str],
        mode: str,
        name: str,
        last_name: str | None = None,
    ) -> Json:
        """Publish the medium for the BMC; return the note about it.

        :param last_name: of a published medium with the same parts.
        """
        node = task.node
        parts = sources.parts(node, mode, whole=True)
        note: Json = {"params": params, "mode": mode, "name": name, "device": self.device}
        note |= {"drive": None, "of": medium.mark(task, parts, mode)}
        if medium.handed_on(node, parts):
            return {**note, "name": None, "url": parts.iso}
        last = published.root() / last_name if last_name else None
        if parts.iso is None:
            medium.make(task, parts, medium.words(task, params, mode), name, last)
        else:
            medium.publish(task, parts, name, last)
        return {**note, "url": published.url(name, node.driver_info)}

    def _insert_medium(self, task: base.Task, note: Json) -> None:
        """Fill a virtual CD, or a stick where there is no CD, and boot from it next."""
        if note["drive"]:
            self._fill_both(task, note)
            task.driver.management.set_boot_device(task, self.device, persistent=True)
            return
        seen = virtual_drives.drives(task)
        found = {kind for drive in seen for kind in drive.devices}
        if "cdrom" in found or "disk" not in found:
            virtual_drives.attach(task, self.device, note["url"], seen)
            always = note["mode"] == sources.INSTANCE
            task.driver.management.set_boot_device(task, self.device, persistent=always)
            return
        task.keep(NOTE, {**note, "device": "disk"})
        virtual_drives.attach(task, "disk", note["url"], seen)
        override.choose_stick(task)

    def _fill_both(self, task: base.Task, note: Json) -> None:
        """Fill a virtual CD with the image, and a stick with the configuration drive."""
        configdrive_media.check(virtual_drives.drives(task))
        virtual_drives.detach(task, configdrive_media.BOTH)
        seen = configdrive_media.by_choice(virtual_drives.drives(task))
        disc = virtual_drives.attach(task, self.device, note["url"], seen)
        configdrive_media.insert(task, note["drive"]["url"], disc)


def _names(note: JsonView) -> list[str]:
    """Return the names of the files of a note."""
    names = [one.get("name") for one in (note, note.get("drive") or {})]
    return [name for name in names if name]


def _with_urls(note: Json, node: base.Node) -> Json:
    """Return a note with the URLs at which its files are published now."""
    drive, found = note.get("drive"), dict(note)
    if note["name"]:
        found["url"] = published.url(note["name"], node.driver_info)
    if drive:
        found["drive"] = {**drive, "url": published.url(drive["name"], node.driver_info)}
    return found


def _other_drives(note: JsonView) -> tuple[str, ...]:
    """Return the drives that hold more than the boot medium."""
    return configdrive_media.BOTH if note.get("drive") else ()
