"""Boot device of a machine, and boot from a medium with all files that the machine needs.

Its BMC reads the medium by HTTP and presents it, or its firmware reads the medium by HTTP itself.
No DHCP server has to name a file, and no TFTP server is needed.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import time
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base, deadline, settings
from ironic_lite.drivers.boot import medium, modes, sources
from ironic_lite.drivers.redfish import hardware, virtual_media
from ironic_lite.drivers.redfish.bmc import connection, faults, info, jobs, quirks, resources
from ironic_lite.drivers.redfish.bmc import library as sushy
from ironic_lite.images import cache, published

LOG = logging.getLogger(__name__)

# Boot source override, set again before each boot for BMCs that cannot persist it.

OVERRIDE_NOTE = "redfish_boot_device"
"""Key of the device that must be set again before each boot."""

TARGETS: Mapping[str, str] = {
    "pxe": "Pxe",
    "disk": "Hdd",
    "cdrom": "Cd",
    "bios": "BiosSetup",
    "uefihttp": "UefiHttp",
}
"""Redfish's words for devices."""
# The virtual CD of Supermicro: sushy sets it for Cd if both are offered, and an X10 offers no Cd.
INSTEAD: Mapping[str, str] = {"cdrom": "UsbCd"}
DEVICES = {word: device for table in (TARGETS, INSTEAD) for device, word in table.items()} | {
    "CD/DVD": "cdrom"
}

MODES: Mapping[str, str] = {"bios": "Legacy", "uefi": "UEFI"}
MODE_NAMES = {mode: name for name, mode in MODES.items()}

HTTP = "uefihttp"
ONCE, ALWAYS, NEVER = "Once", "Continuous", "Disabled"
_STICK = "Usb"
_CHECK_SECONDS = 10.0
"""Limit of a request by which the settings of a node are checked."""
_FRESH_SECONDS, _REMEMBERED = 300.0, 10_000
_REFUSING: dict[tuple[str, str, str | None], float] = {}
"""Systems that take no URL, by their last document -> its time.monotonic.

A key has the address and the service root of the BMC, and the path of the system.
"""


def supported_devices(link: connection.Link) -> list[str]:
    """Return the devices that the system offers; all known ones if it does not list them."""
    return list(_offered_devices(_fresh_system(link)))


def read_override(link: connection.Link) -> Json:
    """Return ``{"boot_device": str | None, "persistent": bool | None}`` from the BMC.

    It is the device of the next boot, also if the change waits in the settings resource.
    """
    boot = _next_boot(link, _fresh_system(link))
    enabled = boot.get("BootSourceOverrideEnabled")
    if enabled in {None, NEVER}:
        return {"boot_device": None, "persistent": None}
    device = DEVICES.get(str(boot.get("BootSourceOverrideTarget")))
    return {"boot_device": device, "persistent": enabled == ALWAYS}


def choose_device(
    task: base.Task, device: str, *, persistent: bool, url: str | None = None
) -> None:
    """Set the device; if the BMC cannot persist it, keep it in a note.

    :param url: of the image that firmware boots with ``uefihttp``; None if DHCP names one.
    :raises errors.InvalidParameter: the system does not offer that device.
    :raises errors.HardwareError: see `connection.call`.
    """
    kept = True

    def choose_it(link: connection.Link) -> None:
        nonlocal kept
        kept = _request_device(link, device, persistent=persistent, url=url)

    _change_boot(task, choose_it, f"set the boot device {device}", url)
    if persistent:
        task.keep(OVERRIDE_NOTE, None if kept else device)


def _change_boot(
    task: base.Task, change: Callable[[connection.Link], None], what: str, url: str | None = None
) -> None:
    """Change the Boot object, and follow the BMC's task, which may wait for the next boot.

    :param url: that is sent; BMCs repeat it, so its secrets are hidden in errors.
    :raises errors.HardwareError: the task failed; see `connection.call`.
    """
    try:
        uris = connection.call(
            task, lambda link: jobs.begun(link, lambda: change(link)), read=False
        )
        jobs.follow(task, uris, what, jobs.SHORT_SECONDS, waits=True)
    except errors.HardwareError as why:
        if url is None:
            raise
        raise virtual_media.without_secrets(why, url) from None


def choose_stick(task: base.Task) -> None:
    """Boot once from USB, for BMCs that present media only as USB sticks.

    :raises errors.HardwareError: see `connection.call`.
    """

    def choose_it(link: connection.Link) -> None:
        _send_override(link, _fresh_system(link), _STICK, ONCE)

    _change_boot(task, choose_it, f"set the boot device {_STICK}")


def restore_override(task: base.Task) -> None:
    """Set a noted device for the next boot, unless another device was chosen for that boot."""
    device = task.recall(OVERRIDE_NOTE)
    if device is not None:
        what, note = f"set the boot device {device}", task.recall(MEDIUM_NOTE) or {}
        url = note.get("url") if device == HTTP == note.get("device") else None
        _change_boot(task, lambda link: _resend_override(link, device, url), what, url)


def drop_override(task: base.Task, device: str) -> None:
    """Let the firmware choose again if this device is set for the next boots.

    :raises errors.HardwareError: see `connection.call`.
    """
    if task.recall(OVERRIDE_NOTE) == device:
        task.keep(OVERRIDE_NOTE, None)

    def drop(link: connection.Link) -> None:
        system = _fresh_system(link)
        boot = _next_boot(link, system)
        if boot.get("BootSourceOverrideTarget") != TARGETS[device]:
            return
        if boot.get("BootSourceOverrideEnabled") not in {None, NEVER}:
            rest = _whole_boot(link, system, boot)
            system.set_system_boot_options(
                **{**rest, "enabled": sushy.BootSourceOverrideEnabled(NEVER)}
            )

    _change_boot(task, drop, f"drop the boot device {device}")


def note_system(node: info.RedfishInfo, system: JsonView) -> None:
    """Note whether the BMC takes a URL, if the document says so; the power sweep reads it."""
    boot = system.get("Boot")
    boot = boot if isinstance(boot, dict) else {}
    listed = boot.get("BootSourceOverrideTarget@Redfish.AllowableValues")
    lacks = bool(listed) and isinstance(listed, list) and TARGETS[HTTP] not in listed
    if lacks or "HttpBootUri" in boot or "@Redfish.Settings" not in system:
        _note_url(node, taken=not lacks and "HttpBootUri" in boot)


def _url_key(node: info.RedfishInfo) -> tuple[str, str, str | None]:
    return node.address, node.root_prefix, node.system_id


def _note_url(node: info.RedfishInfo, *, taken: bool) -> None:
    _REFUSING.pop(_url_key(node), None)
    if not taken:
        if len(_REFUSING) >= _REMEMBERED:
            _REFUSING.clear()  # the next sweep fills it again
        _REFUSING[_url_key(node)] = time.monotonic()


def _require_url(*, taken: bool) -> None:
    if not taken:
        reason = "this BMC takes no HttpBootUri: use redfish-virtual-media or http-ipxe"
        raise errors.InvalidParameter(path="boot_interface", reason=reason)


def takes_url(link: connection.Link, system: Any) -> bool:
    """Return whether firmware boots an image whose URL the BMC takes."""
    boot = system.json.get("Boot")
    here = isinstance(boot, dict) and "HttpBootUri" in boot
    known = here or "HttpBootUri" in _pending_boot(link, system)
    return known and HTTP in _offered_devices(system)


def set_boot_mode(link: connection.Link, mode: str) -> list[str] | None:
    """Set the boot mode; nothing is sent if the mode is already set.

    :returns: the addresses of the BMC's task, or None if the system does not support this; some
        systems show no mode but accept one.
    :raises errors.InvalidParameter: the system offers only other modes.
    """
    system = _fresh_system(link)
    boot = _boot_object(system)
    before = boot.get("BootSourceOverrideMode")
    if before == MODES[mode]:
        return []
    offered = _boot_modes(boot)
    if before is not None and mode not in offered:
        names = ", ".join(offered) or "nothing"
        reason = f"{mode} is not offered by this machine, only {names}"
        raise errors.InvalidParameter(path="boot_mode", reason=reason)
    rest = _whole_boot(link, system, _next_boot(link, system))
    try:
        rest["mode"] = sushy.BootSourceOverrideMode(MODES[mode])
        return jobs.begun(link, lambda: system.set_system_boot_options(**rest))
    except sushy.exceptions.HTTPError as error:
        if before is None and faults.is_refusal(error):
            return None
        raise


def boot_mode_of(link: connection.Link) -> str | None:
    """Return ``bios``, ``uefi``, or None if the system does not report it."""
    return MODE_NAMES.get(str(_boot_object(_fresh_system(link)).get("BootSourceOverrideMode")))


def supported_modes(link: connection.Link) -> list[str]:
    """Return the modes that the system offers; both if it has a mode and does not list them."""
    return _boot_modes(_next_boot(link, _fresh_system(link)))


def _boot_modes(boot: JsonView) -> list[str]:
    allowed = boot.get("BootSourceOverrideMode@Redfish.AllowableValues")
    if not isinstance(allowed, list):
        return list(MODES) if "BootSourceOverrideMode" in boot else []
    return [name for name, mode in MODES.items() if mode in allowed]


def _request_device(
    link: connection.Link, device: str, *, persistent: bool, url: str | None
) -> bool:
    """Set the device, if need be for one boot only; return whether the BMC persists it as asked."""
    system = _fresh_system(link)
    _require_url(taken=url is None or takes_url(link, system))
    offered = _offered_devices(system)
    if device not in offered:
        names = ", ".join(offered) or "nothing"
        reason = f"{device} is not offered by this machine, only {names}"
        raise errors.InvalidParameter(path="boot_device", reason=reason)
    if offered[device] != TARGETS[device]:
        quirks.USB_CD.log(f"BMC {link.node.address}")
    try:
        _send_override(link, system, offered[device], ALWAYS if persistent else ONCE, url)
    except sushy.exceptions.HTTPError as error:
        if not (persistent and _refuses_persistence(error)):
            raise
        quirks.DEVICE_FOR_ONE_BOOT.log(f"BMC {link.node.address}")
        _send_override(link, _fresh_system(link), offered[device], ONCE, url)
        return False
    return True


def _refuses_persistence(error: sushy.exceptions.HTTPError) -> bool:
    """Return whether the BMC may accept the device for one boot; some answer 500 to Continuous."""
    broken = error.status_code in {HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.NOT_IMPLEMENTED}
    return faults.is_refusal(error) or (broken and not faults.is_busy(error))


def _resend_override(link: connection.Link, device: str, url: str | None) -> None:
    system = _fresh_system(link)
    if _boot_object(system).get("BootSourceOverrideEnabled") == ONCE:
        return
    boot = _next_boot(link, system)
    chosen = DEVICES.get(str(boot.get("BootSourceOverrideTarget")))
    if boot.get("BootSourceOverrideEnabled") != ONCE or chosen == device:
        word = _offered_devices(system).get(device, TARGETS[device])
        _send_override(link, system, word, ONCE, url)


def _offered_devices(system: Any) -> dict[str, str]:
    """Return the devices that the system offers, each with the word for it."""
    allowed = {source.value for source in system.get_allowed_system_boot_source_values()}
    words = {device: (word, INSTEAD.get(device, word)) for device, word in TARGETS.items()}
    return {
        device: next(word for word in each if word in allowed)
        for device, each in words.items()
        if not allowed.isdisjoint(each)
    }


def _send_override(
    link: connection.Link, system: Any, target: str, enabled: str, url: str | None = None
) -> None:
    boot = _next_boot(link, system)
    rest = _whole_boot(link, system, boot)
    same = boot.get("BootSourceOverrideEnabled") == enabled
    if rest or not same or _has_quirk(quirks.REPEATED_DURATION, link, system):
        rest["enabled"] = sushy.BootSourceOverrideEnabled(enabled)
    system.set_system_boot_options(
        **{**rest, "target": sushy.BootSource(target)}, http_boot_uri=url
    )
    mode = boot.get("BootSourceOverrideMode")
    if mode in MODE_NAMES and _fits(quirks.FORGOTTEN_MODE, link, system):
        _keep_mode(link, mode)


def _keep_mode(link: connection.Link, mode: str) -> None:
    """Set a boot mode again if it has changed with the boot device."""
    system = _fresh_system(link)
    if _next_boot(link, system).get("BootSourceOverrideMode") != mode:
        quirks.FORGOTTEN_MODE.log(f"BMC {link.node.address}")
        system.set_system_boot_options(mode=sushy.BootSourceOverrideMode(mode))


def _whole_boot(link: connection.Link, system: Any, boot: JsonView) -> Json:
    """Return the values of a Boot object that must accompany any change of it on this machine."""
    return _companion_values(boot) if _has_quirk(quirks.WHOLE_BOOT, link, system) else {}


def _companion_values(boot: JsonView) -> Json:
    """Return the values of a Boot object with which some machines want any change of it.

    A BMC that shows no mode gets UEFI, unless it offers only another mode.
    """
    offered = _boot_modes(boot)
    mode = sushy.BootSourceOverrideMode(
        MODES["uefi" if "uefi" in offered or not offered else offered[0]]
    )
    kinds = {
        "mode": (sushy.BootSourceOverrideMode, "BootSourceOverrideMode", mode),
        "enabled": (sushy.BootSourceOverrideEnabled, "BootSourceOverrideEnabled", None),
        "target": (sushy.BootSource, "BootSourceOverrideTarget", None),
    }
    found = {}
    for name, (kind, key, default) in kinds.items():
        try:
            value = kind(boot.get(key))
        except ValueError:
            value = default
        if value is not None:
            found[name] = value
    return found


def _has_quirk(quirk: quirks.Quirk, link: connection.Link, system: Any) -> bool:
    """Return whether the machine has a quirk, which is logged then."""
    fits = _fits(quirk, link, system)
    if fits:
        quirk.log(f"BMC {link.node.address}")
    return fits


def _fits(quirk: quirks.Quirk, link: connection.Link, system: Any) -> bool:
    vendor = resources.text(link.root_document, "Vendor")
    return quirk.fits(system.manufacturer, vendor, model=system.model)


def _boot_object(system: Any) -> Json:
    """Return the Boot object, completed from the BMC's pending settings (sushy reads both)."""
    boot = dict(system.json.get("Boot") or {})
    seen = system.boot
    for name, value in (
        ("BootSourceOverrideEnabled", seen and seen.enabled),
        ("BootSourceOverrideTarget", seen and seen.target),
        ("BootSourceOverrideMode", seen and seen.mode),
    ):
        if value is not None:
            boot[name] = value.value
    return boot


def _next_boot(link: connection.Link, system: Any) -> Json:
    """Return the Boot object of the next boot: what waits in the settings resource comes first."""
    boot = _boot_object(system)
    news = {name: value for name, value in _pending_boot(link, system).items() if value is not None}
    if any(boot.get(name, value) != value for name, value in news.items()):
        quirks.DEFERRED_BOOT.log(f"BMC {link.node.address}")
    return {**boot, **news}


def _pending_boot(link: connection.Link, system: Any) -> Json:
    """Return the Boot object of the settings resource, empty if the system has no such resource."""
    place = resources.link(system.json, "@Redfish.Settings", "SettingsObject")
    found = None
    if place is not None:
        with contextlib.suppress(sushy.exceptions.ResourceNotFoundError):
            found = resources.value(link.wire.document(place), "Boot")
    return found if isinstance(found, dict) else {}


def _fresh_system(link: connection.Link) -> Any:
    """Return sushy's view of the system, read now."""
    system = link.system()
    if system.boot is not None and system.boot.allowed_values is None:
        # Sushy looks for a word in this list, and fails without a list.
        quirks.UNLISTED_DEVICES.log(f"BMC {link.node.address}")
        system.boot.allowed_values = []
    return system


MEDIUM_NOTE = "redfish_boot_secret_medium"
"""Key of the inserted medium: ``{"params": {...}, "mode": ..., "name": ..., "url": ..., "device":
..., "drive": ...}``. ``name`` is the file made here, None for a foreign medium. ``drive`` has
``name`` and ``url`` of a configuration drive beside it, or is None. ``of`` is the `medium.mark`.
The word secret in the key hides the value, because the medium holds the ramdisk's token."""
PREPARED_NOTE = "redfish_boot_secret_prepared"
"""Key of the same note about the medium of the instance before it is inserted."""


class MediumBoot(hardware.RedfishInterface, base.Boot, abc.ABC):
    """Boots from a medium that is made for one boot of one node."""

    device: ClassVar[str]
    """The boot device."""
    brings_networks: ClassVar[bool] = False
    """True if Linux sees the medium, from which it can read the networks of its node."""

    # -- overridden by interfaces ---------------------------------------------------------

    @abc.abstractmethod
    def present(self, task: base.Task, note: Json) -> None:
        """Let the machine boot next from the medium of a note; always from an instance.

        :raises errors.HardwareError: the BMC refused.
        """

    @abc.abstractmethod
    def move(self, task: base.Task, note: Json, moved: Json) -> None:
        """Tell the BMC that media have other URLs now.

        :raises errors.HardwareError: the BMC refused.
        """

    @abc.abstractmethod
    def withdraw(self, task: base.Task, note: Json) -> None:
        """Undo `present`; the media are removed afterwards.

        :raises errors.HardwareError: the BMC refused.
        """

    def property_groups(self) -> settings.GroupedFields:
        """Return the keys about BMC, ramdisks and media."""
        ramdisk = {**sources.FIELDS, **sources.MEDIA}
        return {**super().property_groups(), **sources.GROUPS, settings.RAMDISK: ramdisk}

    def validate(self, task: base.Task) -> None:
        """Check that a deploy ramdisk can be booted; see `check_ramdisk`."""
        self.check_ramdisk(task, "deploy")

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
        """Make the medium, and boot from it next.

        :raises errors.Error: a part of the medium is not available, or the BMC refused.
        """
        self._prepare_medium(task, params, mode)

    def clean_up_ramdisk(self, task: base.Task, mode: str = "deploy") -> None:
        """Let the machine boot without the medium, and remove the medium."""
        try:
            self.withdraw(task, task.recall(MEDIUM_NOTE) or {})
        finally:  # also without the BMC, because the medium holds a secret
            medium.remove(task)
        task.keep(MEDIUM_NOTE, None)
        task.keep(PREPARED_NOTE, None)

    # -- instance -------------------------------------------------------------------------

    def check_instance(self, task: base.Task) -> None:
        """Publish the medium.

        :raises errors.Error: the instance could not be booted.
        """
        self._prepare_instance_medium(task)

    def prepare_instance(self, task: base.Task) -> None:
        """Boot from the disk from now on, without a medium.

        An instance that is a ramdisk boots from a medium that stays, with its configuration drive
        beside it.
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
        """Remove the medium."""
        self.clean_up_ramdisk(task)

    # -- another conductor ----------------------------------------------------------------

    def lacks_files(self, task: base.Task) -> bool:
        """Return whether the machine's medium is missing here, or its BMC has another URL."""
        note = task.recall(MEDIUM_NOTE)
        if not note:
            return False
        return _with_urls(note, task.node) != note or not all(map(medium.is_here, _names(note)))

    def take_over(self, task: base.Task) -> None:
        """Make the medium again if this conductor lacks it; tell the BMC of a changed URL.

        :raises errors.Error: as `prepare_ramdisk`.
        """
        if not self.lacks_files(task):
            return
        note = task.recall(MEDIUM_NOTE)
        fresh, drive = dict(note), note.get("drive")
        here = [name for name in _names(note) if medium.is_here(name)]
        if note["name"] and note["name"] not in here:
            fresh = self._publish_medium(task, note["params"], note["mode"], note["name"])
            fresh["drive"] = drive
        if drive and drive["name"] not in here:
            fresh["drive"] = virtual_media.publish_configdrive(task, drive["name"])
        fresh = _with_urls(fresh, task.node)
        LOG.info("Node %s: its boot medium is on this conductor now", task.node.uuid)
        if (fresh["url"], fresh["drive"]) != (note["url"], drive):
            self.move(task, note, fresh)
        task.keep(MEDIUM_NOTE, {**note, "url": fresh["url"], "drive": fresh["drive"]})

    # -- details --------------------------------------------------------------------------

    def _prepare_medium(self, task: base.Task, params: Mapping[str, str], mode: str) -> None:
        held = _other_drives(task.recall(MEDIUM_NOTE) or {})
        if held:
            virtual_media.empty_drives(task, held)
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
        task.keep(MEDIUM_NOTE, note)
        task.keep(PREPARED_NOTE, None)
        self.present(task, note)

    def _published_note(self, task: base.Task, mode: str) -> Json | None:
        """Return the note about what this run has published for this boot, None if it is gone."""
        of = medium.mark(task, sources.parts(task.node, mode, whole=True), mode)
        for key in (PREPARED_NOTE, MEDIUM_NOTE):
            note: Json = task.recall(key) or {}
            if note.get("of") == of and all(map(medium.is_here, _names(note))):
                return note
        return None

    @cache.holding()
    def _prepare_instance_medium(self, task: base.Task) -> Json:
        """Return the note about the media of the instance, published unless they are there."""
        note = self._published_note(task, sources.INSTANCE)
        if note is None:
            medium.remove(task, *_names(task.recall(MEDIUM_NOTE) or {}))
            note = self._publish_instance(task)
            task.keep(PREPARED_NOTE, note)
        return note

    def _publish_instance(self, task: base.Task) -> Json:
        note = self._publish_medium(task, {}, sources.INSTANCE, medium.new_name(task))
        if self.brings_configdrive:
            name = medium.new_name(task, medium.DRIVE_SUFFIX)
            note["drive"] = virtual_media.publish_configdrive(task, name)
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
            networks = medium.networks_of(node, mode)
            if networks is not None and not self.brings_networks:
                networks = None
                LOG.warning(
                    "Node %s: its ramdisk gets no network_data, because it may not see the medium",
                    node.uuid,
                )
            words = medium.words(task, params, mode)
            medium.make(task, parts, words, name, last, networks=networks)
        else:
            medium.publish(task, parts, name, last)
        return {**note, "url": published.url(name, node.driver_info)}


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
    return virtual_media._BOTH_DEVICES if note.get("drive") else ()


class RedfishVirtualMediaBoot(MediumBoot):
    """The boot interface ``redfish-virtual-media``: the BMC presents the medium in a drive."""

    device: ClassVar[str] = "cdrom"
    brings_configdrive: ClassVar[bool] = True
    brings_networks: ClassVar[bool] = True

    def check_instance(self, task: base.Task) -> None:
        """Publish the medium and the configuration drive, and check the virtual stick for it.

        :raises errors.Error: the instance could not be booted.
        """
        if self._prepare_instance_medium(task)["drive"]:
            virtual_media.check_configdrive_drives(self.list_drives(task))

    def present(self, task: base.Task, note: Json) -> None:
        """Fill a virtual CD, or a stick where there is no CD, and boot from it next.

        :raises errors.HardwareError: the BMC refused.
        """
        if note["drive"]:
            self._fill_both(task, note)
            self.boot_from(task, self.device, persistent=True)
            return
        seen = self.list_drives(task)
        found = {kind for drive in seen for kind in drive.devices}
        if "cdrom" in found or "disk" not in found:
            virtual_media.attach_image(task, self.device, note["url"], seen)
            self.boot_from(task, self.device, persistent=note["mode"] == sources.INSTANCE)
            return
        task.keep(MEDIUM_NOTE, {**note, "device": "disk"})
        virtual_media.attach_image(task, "disk", note["url"], seen)
        self.boot_from(task, "disk", persistent=False)

    def move(self, task: base.Task, note: Json, moved: Json) -> None:
        """Fill the drives again.

        :raises errors.HardwareError: the BMC refused.
        """
        if moved["drive"] != note.get("drive"):
            self._fill_both(task, moved)
            return
        device = note.get("device", self.device)
        virtual_media.attach_image(task, device, moved["url"], self.list_drives(task))

    def withdraw(self, task: base.Task, note: Json) -> None:
        """Empty the drives.

        :raises errors.HardwareError: the BMC refused.
        """
        try:
            virtual_media.empty_drives(
                task, [note.get("device", self.device), *_other_drives(note)]
            )
        except errors.UnsupportedDriverExtension:
            LOG.debug("Node %s has no virtual drive to empty", task.node.uuid)

    # -- virtual drives -------------------------------------------------------------------

    def list_drives(self, task: base.Task) -> list[virtual_media.Drive]:
        """Return the virtual drives that the machine may boot from.

        :raises errors.UnsupportedDriverExtension: the machine has none.
        """
        return virtual_media.list_drives(task)

    def boot_from(self, task: base.Task, device: str, *, persistent: bool) -> None:
        """Let the machine boot from its virtual ``cdrom`` or ``disk``, next or from now on.

        :raises errors.HardwareError: the BMC refused.
        """
        if device == "disk":
            choose_stick(task)
            return
        persistent = modes.persists(task.node, persistent)
        virtual_media.warn_about_cd(task, device)
        task.driver.management.set_boot_device(task, device, persistent=persistent)

    def _fill_both(self, task: base.Task, note: Json) -> None:
        """Fill a virtual CD with the image, and a stick with the configuration drive."""
        virtual_media.check_configdrive_drives(self.list_drives(task))
        virtual_media.empty_drives(task, virtual_media._BOTH_DEVICES)
        seen = virtual_media.drives_for_configdrive(self.list_drives(task))
        disc = virtual_media.attach_image(task, self.device, note["url"], seen)
        virtual_media.insert_configdrive(task, note["drive"]["url"], disc)


class RedfishHttpsBoot(MediumBoot):
    """The boot interface ``redfish-https``: firmware reads the medium by HTTP.

    The machine needs an address by DHCP, whose boot file is not used.
    """

    device: ClassVar[str] = HTTP

    def validate(self, task: base.Task) -> None:
        """Ask the BMC, too, whether it takes a URL; a silent one is not judged.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        try:
            with deadline.limit(_CHECK_SECONDS):
                taken = connection.call(task, lambda link: takes_url(link, _fresh_system(link)))
            _note_url(connection.settings(task), taken=taken)
        except errors.HardwareError as why:
            LOG.info("Node %s: whether it boots by HTTP is unknown: %s", task.node.uuid, why)
        super().validate(task)

    def check_ramdisk(self, task: base.Task, mode: str) -> None:
        """Check that a ramdisk can be booted, by settings and what its BMC has said lately.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        super().check_ramdisk(task, mode)
        modes.require_uefi(task.node, instead="redfish-virtual-media")
        parts = sources.parts(task.node, mode, whole=True)
        if medium.handed_on(task.node, parts):
            _refuse_login(str(parts.iso), f"{parts.place}iso")
        said = _REFUSING.get(_url_key(connection.settings(task)), -_FRESH_SECONDS)
        _require_url(taken=time.monotonic() - said >= _FRESH_SECONDS)

    def present(self, task: base.Task, note: Json) -> None:
        """Let the firmware boot from the URL of the medium.

        :raises errors.HardwareError: the BMC refused.
        """
        _refuse_login(note["url"], "boot medium")
        persistent = modes.persists(task.node, note["mode"] == sources.INSTANCE)
        choose_device(task, self.device, persistent=persistent, url=note["url"])

    def move(self, task: base.Task, note: Json, moved: Json) -> None:
        """Let the firmware boot from the new URL.

        :raises errors.HardwareError: the BMC refused.
        """
        self.present(task, moved)

    def withdraw(self, task: base.Task, note: Json) -> None:
        """Let the firmware choose; a BMC that refuses is logged."""
        try:
            if note:
                drop_override(task, self.device)
        except errors.HardwareError as why:
            shown = virtual_media.without_secrets(why, note["url"])
            LOG.warning("Node %s: it may look for its medium again: %s", task.node.uuid, shown)


def _refuse_login(url: str, path: str) -> None:
    """Reject a URL with a login, which firmware does not send, and which the BMC would show."""
    if "@" in urllib.parse.urlsplit(url).netloc:
        reason = (
            "has a login, which firmware does not send: set ramdisk_image_download_source to "
            "local, so that the conductor fetches the image, or use redfish-virtual-media"
        )
        raise errors.InvalidParameter(path=path, reason=reason)
