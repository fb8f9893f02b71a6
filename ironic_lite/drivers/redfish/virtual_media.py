"""Virtual drives: images that a BMC reads over the network and presents to its machine.

They belong to the system on newer BMCs, to the managers on older ones, and to both on some. All of
them are emptied, but the system's drives are filled first.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import medium
from ironic_lite.drivers.redfish.bmc import connection, faults, jobs, quirks, resources, transport
from ironic_lite.drivers.redfish.bmc import library as sushy
from ironic_lite.images import configdrive, published

LOG = logging.getLogger(__name__)


T = TypeVar("T")

TYPES: Mapping[str, tuple[str, ...]] = {
    "cdrom": ("CD", "DVD"),
    "disk": ("USBStick",),
    "floppy": ("Floppy",),
}
"""Redfish's MediaTypes for each of our device types, best first."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "cdrom": ("cd", "dvd"),
    "disk": ("usb", "stick"),
    "floppy": ("floppy", "fdd"),
}
"""Words in Id and Name of a drive that lists no MediaTypes, for each of our device types."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word, also of a joined name such as VirtualCD1."""

PROTOCOLS: Mapping[str, str] = {
    "http": "HTTP",
    "https": "HTTPS",
    "nfs": "NFS",
    "cifs": "CIFS",
    "smb": "CIFS",
}
"""Redfish's TransferProtocolType by the scheme of an image URL."""

SHOWN: Mapping[str, str] = {
    "id": "Id",
    "name": "Name",
    "image_name": "ImageName",
    "connected_via": "ConnectedVia",
    "write_protected": "WriteProtected",
}

TRIES, RETRY_PAUSE = 3, 3.0
"""Attempts and pause in seconds after a 5xx answer; see `quirks.SLOW_EJECTION`."""

LOOKS, LOOK_PAUSE = 15, 2.0
"""Number and interval of the checks whether a drive has reached its requested state."""

TASK_SECONDS = 900.0
"""Time limit of a task that fills or empties a drive; a BMC may load the whole image first."""

_NEXT = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.METHOD_NOT_ALLOWED})
"""Refusals of a drive that only the BMC's web page can fill, after which the next drive is
tried."""


@dataclasses.dataclass(frozen=True, slots=True)
class Drive:
    """A virtual drive as it was read."""

    path: str
    document: Json
    boots: bool = True
    """False for a drive that the machine does not boot from."""

    @property
    def types(self) -> list[str]:
        """Return the drive's own MediaTypes."""
        found = self.document.get("MediaTypes")
        return [str(word) for word in found] if isinstance(found, list) else []

    @property
    def devices(self) -> list[str]:
        """Return the device types that it is used for."""
        return self.supported if self.boots else []

    @property
    def supported(self) -> list[str]:
        """Return the device types it supports, by its name if it lists no MediaTypes."""
        if self.types:
            return [device for device, words in TYPES.items() if set(words) & set(self.types)]
        called = " ".join(resources.text(self.document, name) or "" for name in ("Id", "Name"))
        found = {word.lower() for word in _WORD.findall(called)}
        return [device for device, words in NAMES.items() if found & set(words)]

    @property
    def full(self) -> bool | None:
        """Return whether it holds a medium, judged by its image if unsaid; None if unknown.

        Some BMCs of Supermicro say Inserted of an empty drive, and refuse to eject it.
        """
        inserted = self.document.get("Inserted")
        if inserted is True and not self.image:
            return self.document.get("ConnectedVia") != "NotConnected"
        if isinstance(inserted, bool):
            return inserted
        return True if self.image else None

    @property
    def image(self) -> str | None:
        """Return the image in it; some BMCs write None as a word."""
        found = resources.text(self.document, "Image")
        return None if found == "None" else found

    @property
    def protocols(self) -> list[str] | None:
        """Return the transfer protocols it supports, None if unknown."""
        action = resources.value(self.document, "Actions", "#VirtualMedia.InsertMedia")
        found = resources.value(action, "TransferProtocolType@Redfish.AllowableValues")
        return [str(word) for word in found] if isinstance(found, list) else None


def list_media(task: base.Task) -> list[Json]:
    """Return the drives, see `base.Management.get_virtual_media`."""
    return [
        {
            "media_types": drive.types,
            "device_types": drive.devices,
            "inserted": bool(drive.full),
            "image": masking.address(drive.image or "") or None,
            **{name: _masked_address(drive.document.get(key)) for name, key in SHOWN.items()},
        }
        for drive in list_drives(task)
    ]


def _masked_address(value: object) -> Any:
    # BMCs name an image by the end of its URL.
    return masking.address(value) if isinstance(value, str) else value


def list_drives(task: base.Task) -> list[Drive]:
    """Return the current drives.

    :raises errors.UnsupportedDriverExtension: the machine has no virtual drives.
    """
    return _all_drives(task, "get_virtual_media")


def attach_image(
    task: base.Task, device: str, image_url: str, seen: Sequence[Drive] | None = None
) -> Drive:
    """Put an image into the first drive of a type that accepts it, replacing its medium.

    :param seen: the drives, if the caller has just read them.
    :returns: that drive, as it was before.
    :raises errors.InvalidParameter: no such drive, or it cannot read this URL.
    :raises errors.UnsupportedDriverExtension: the machine has no virtual drives.
    :raises errors.HardwareError: the BMC refused, or does not show the image in time; or it still
        shows the former image in a drive of that type, from which the machine could boot.
    """
    image = _Image.parse(image_url)
    _check_device(device)
    found = _all_drives(task, "attach_virtual_media") if seen is None else seen
    fit = [drive for drive in found if device in drive.devices]
    if not fit:
        has = ", ".join(sorted({word for drive in found for word in drive.devices}))
        reason = f"this machine has no virtual {device}, only {has or 'none'}"
        raise errors.InvalidParameter(path="device_type", reason=reason)
    _drives_for_image(fit, image)
    try:
        _empty_all(task, fit, found)
    except errors.HardwareError as why:
        raise image.hide(why) from None
    return fill_drive(task, fit, image_url)


def fill_drive(task: base.Task, empty: Sequence[Drive], image_url: str) -> Drive:
    """Put an image into the first of some drives that accepts it; return that drive.

    :raises errors.InvalidParameter, errors.HardwareError: no drive accepts it, as `attach`.
    """
    image = _Image.parse(image_url)
    try:
        return _fill_first_drive(task, _drives_for_image(empty, image), image)
    except errors.HardwareError as why:
        raise image.hide(why) from None


def without_secrets(error: errors.HardwareError, image_url: str) -> errors.HardwareError:
    """Return an error without the secrets of an image's URL, which BMCs repeat."""
    return _Image.parse(image_url).hide(error)


def empty_drives(task: base.Task, devices: Sequence[str] | None = None) -> None:
    """Empty the drives of these types, None for all.

    :raises errors.UnsupportedDriverExtension: the machine has no virtual drives.
    :raises errors.HardwareError: the BMC refused, or still shows the image.
    """
    for device in devices or ():
        _check_device(device)
    found = _all_drives(task, "detach_virtual_media")
    fit = [one for one in found if devices is None or not set(devices).isdisjoint(one.devices)]
    _empty_all(task, fit, found)


def _empty_all(task: base.Task, wanted: Sequence[Drive], found: Sequence[Drive]) -> None:
    """Empty some drives, and stop serving the images that were put into them."""
    for drive in wanted:
        _empty_drive(task, drive)
    rest = [drive for drive in found if drive not in wanted and drive.full is not False]
    others = {device for drive in rest for device in drive.supported}
    medium.drop_attached(task, TYPES.keys() - others)


def _check_device(device: str) -> None:
    if device not in TYPES:
        reason = f"{device!r} is not one of {', '.join(TYPES)}"
        raise errors.InvalidParameter(path="device_type", reason=reason)


# -- addresses ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Image:
    """An image URL; user and password are split off, because BMCs want them as properties."""

    url: str
    scheme: str
    user: str | None
    password: str | None = dataclasses.field(repr=False)

    @classmethod
    def parse(cls, url: str) -> _Image:
        """Parse an image URL.

        :raises errors.InvalidParameter: naming ``image_url``.
        """
        try:
            parts = urllib.parse.urlsplit(url)
            host = parts.hostname
        except ValueError as why:
            raise errors.InvalidParameter(path="image_url", reason=str(why)) from None
        if parts.scheme not in base.IMAGE_SCHEMES:
            schemes = ", ".join(base.IMAGE_SCHEMES)
            reason = f"its scheme is {parts.scheme[:32]!r}, not one of {schemes}"
            raise errors.InvalidParameter(path="image_url", reason=reason)
        if not host or not parts.path.strip("/"):
            reason = "must have a host and the path of an image"
            raise errors.InvalidParameter(path="image_url", reason=reason)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        user, password = (
            urllib.parse.unquote(part) if part else None
            for part in (parts.username, parts.password)
        )
        return cls(bare.geturl(), parts.scheme, user, password)

    @property
    def protocol(self) -> str | None:
        """Return the TransferProtocolType; None if sushy derives it for the BMC."""
        return None if self.scheme in {"http", "https"} else PROTOCOLS[self.scheme]

    def hide(self, error: errors.HardwareError) -> errors.HardwareError:
        """Return an error without secrets: the password, the key of a signed URL, and the random
        part of a medium's name, because BMCs repeat them.
        """
        query = urllib.parse.urlsplit(self.url).query
        for secret in filter(None, (self.password, query, masking.unguessable(self.url))):
            facts = {
                name: fact.replace(secret, masking.MASK) if isinstance(fact, str) else fact
                for name, fact in error.facts.items()
            }
            error = type(error)(error.message.replace(secret, masking.MASK), **facts)
        return error


def _drives_for_image(drives: Sequence[Drive], image: _Image) -> list[Drive]:
    """Return the drives that can read the image, as far as the BMC reports it.

    :raises errors.InvalidParameter: no drive can.
    """
    word = PROTOCOLS[image.scheme]
    found = [drive for drive in drives if drive.protocols is None or word in drive.protocols]
    if not found:
        known = ", ".join(sorted({word for drive in drives for word in drive.protocols or ()}))
        reason = f"the BMC cannot read images by {word}, only by {known or 'nothing'}"
        raise errors.InvalidParameter(path="image_url", reason=reason)
    return found


# -- finding drives -------------------------------------------------------------------------------


def _all_drives(task: base.Task, method: str) -> list[Drive]:
    """Return all drives, the system's first.

    :raises errors.UnsupportedDriverExtension: the machine has no virtual drives.
    """
    system = resources.system(task)
    paths = [resources.link(system, "VirtualMedia")]
    paths += [
        resources.link(manager, "VirtualMedia") for manager in resources.managers(task, system)
    ]
    found: dict[str, Drive] = {}
    for path in dict.fromkeys(paths):
        for document in resources.members(task, path):
            place = resources.text(document, "@odata.id")
            if place is not None:
                found[place] = Drive(place, document)
    if not found:
        raise resources.lacking(task, method, "it has no VirtualMedia")
    for drive in found.values():
        if drive.devices and not drive.types:
            quirks.UNTYPED_DRIVE.log(f"Node {task.node.uuid}")
        if drive.document.get("Inserted") is True and not drive.full:
            quirks.EMPTY_BUT_INSERTED.log(f"Node {task.node.uuid}")
    return list(found.values())


def warn_about_cd(task: base.Task, device: str) -> None:
    """Warn that a machine will not boot from its virtual CD, because attaching succeeds anyway."""
    version = foreign_cd(task) if device == "cdrom" else None
    if version is not None:
        LOG.warning(
            "Node %s: with firmware %s of its BMC, the boot device cdrom is not the virtual drive.",
            task.node.uuid,
            version,
        )


def foreign_cd(task: base.Task) -> str | None:
    """Return the firmware of a BMC whose boot device cdrom is not the virtual drive, else None."""
    system = resources.system(task)
    quirk, maker = quirks.CD_IS_NO_MEDIUM, resources.text(system, "Manufacturer")
    if quirks.vendor(maker) not in quirk.vendors:
        return None
    told = (resources.text(one, "FirmwareVersion") for one in resources.managers(task, system))
    return next((one for one in told if quirk.fits(maker, firmware=one or "")), None)


# -- filling and emptying -------------------------------------------------------------------------


def _fill_first_drive(task: base.Task, drives: list[Drive], image: _Image) -> Drive:
    """Insert the image into the first drive that accepts it.

    :raises errors.HardwareError: no drive accepts it.
    """
    refusals, refusal = [], None
    for drive in drives:
        uris: list[str] = []
        refusal = _retry_server_errors(
            task, functools.partial(_insert_image, drive=drive, image=image, uris=uris)
        )
        if refusal is None:
            shown = masking.address(image.url)
            jobs.follow(task, uris, f"insert {shown} into {drive.path}", TASK_SECONDS)
            if not _await_fill_state(task, drive, full=True):
                reason = (
                    f"The BMC accepted {shown} but does not show it in {drive.path}. "
                    "Check that the BMC reaches that address, and that it is an image."
                )
                raise errors.HardwareError(reason=reason)
            return drive
        refusals.append(f"{drive.path}: {refusal.facts['reason']}")
    reason = f"The BMC refused the image {masking.address(image.url)}: {'; '.join(refusals)}."
    raise errors.HardwareError(reason=reason) from refusal


def _insert_image(
    link: connection.Link, drive: Drive, image: _Image, uris: list[str]
) -> errors.HardwareError | None:
    """Insert an image with the properties that sushy knows the BMC needs; return a refusal.

    :param uris: is filled with the addresses of the BMC's task for it.
    """
    seen = transport.Keeper(link.wire)
    try:
        medium = sushy.resources.manager.virtual_media.VirtualMedia(seen, drive.path)
        medium.insert_media(
            image.url,
            username=image.user,
            password=image.password,
            transfer_protocol=image.protocol,
        )
    except sushy.exceptions.MissingActionError:
        return errors.HardwareError(reason="it cannot be filled over Redfish", path=drive.path)
    except sushy.exceptions.HTTPError as error:
        if error.status_code not in _NEXT or faults.is_busy(error):
            raise
        return faults.refused(error, link.node)
    uris[:] = jobs.places(seen.last) if seen.last is not None else []
    return None


def _empty_drive(task: base.Task, drive: Drive) -> None:
    """Eject a drive's medium, and wait until the BMC shows the drive empty.

    A drive that was full is read again, because the same drive may have another path.

    :raises errors.HardwareError: the BMC refused, or still shows the image.
    """
    if not drive.full:
        return
    now = resources.read(task, drive.path)
    if now is None or not Drive(drive.path, now).full:
        return
    uris = _retry_server_errors(task, lambda link: _eject_medium(link, drive))
    jobs.follow(task, uris or (), f"eject {drive.path}", TASK_SECONDS)
    if not _await_fill_state(task, drive, full=False):
        reason = f"The BMC ejected {drive.path} but still shows an image in it. Check it."
        raise errors.HardwareError(reason=reason)


def _eject_medium(link: connection.Link, drive: Drive) -> list[str]:
    """Eject a drive's medium; return the addresses of the BMC's task for it."""
    action = resources.value(drive.document, "Actions", "#VirtualMedia.EjectMedia")
    target = resources.text(action, "target")
    if target is None:
        return jobs.places(resources.patch(link, drive.path, {"Image": None, "Inserted": False}))
    return jobs.places(resources.act(link, target))


def _retry_server_errors(task: base.Task, work: Callable[[connection.Link], T]) -> T | None:
    """Call a function, and retry it after a 5xx answer."""
    for _ in range(TRIES - 1):
        done, result = connection.call(task, functools.partial(_try_once, work=work), read=False)
        if done:
            return result
        task.pause(RETRY_PAUSE)
    return connection.call(task, work, read=False)


def _try_once(link: connection.Link, work: Callable[[connection.Link], T]) -> tuple[bool, T | None]:
    try:
        return True, work(link)
    except sushy.exceptions.ServerSideError as error:
        if faults.is_busy(error) or faults.retry_after(error) is not None:
            raise
        quirks.SLOW_EJECTION.log(f"BMC {link.node.address}")
        return False, None


def _await_fill_state(task: base.Task, drive: Drive, *, full: bool) -> bool:
    """Poll until the drive is full or empty.

    A drive without a state counts as changed, a drive that does not exist as empty.
    """
    for _ in range(LOOKS):
        now = resources.read(task, drive.path)
        if (False if now is None else Drive(drive.path, now).full) in {full, None}:
            return True
        task.pause(LOOK_PAUSE)
    return False


# Configuration drive of a ramdisk instance, as a second virtual medium beside the boot medium.
#
# The machine sees a USB stick, which the instance finds by its label.

CONFIGDRIVE_DEVICE = "disk"
"""The device type of the drive."""
_BOTH_DEVICES = ("cdrom", CONFIGDRIVE_DEVICE)
"""Device types to empty before two media are inserted, because one drive may support both."""


def check_configdrive_drives(drives: Sequence[Drive]) -> None:
    """Reject a machine whose BMC cannot present both media at once.

    :raises errors.InvalidParameter: naming ``instance_info/configdrive``.
    """
    discs = {_drive_name(drive) for drive in drives if "cdrom" in drive.devices}
    sticks = {_drive_name(drive) for drive in drives if CONFIGDRIVE_DEVICE in drive.devices}
    if any(sticks - {disc} for disc in discs):
        return
    has = ", ".join(f"{_drive_name(drive)} ({'/'.join(drive.types)})" for drive in drives)
    reason = (
        "needs a virtual USB stick beside the virtual CD that the machine boots from; its BMC has "
        f"{has}: leave the drive out, and give the instance its parameters in "
        "instance_info/ramdisk_kernel_arguments"
    )
    raise errors.InvalidParameter(path=configdrive.PATH, reason=reason)


def publish_configdrive(task: base.Task, name: str) -> Json | None:
    """Publish the drive for the BMC; return the note about it, None without a drive.

    :param name: from `medium.new_name`.
    :raises errors.Error: the drive is not available, or cannot be written.
    """
    content = medium.drive(task)
    if content is None:
        return None
    task.confirm_lock()
    published.write(published.root() / name, content)
    return {"name": name, "url": published.url(name, task.node.driver_info)}


def drives_for_configdrive(drives: Sequence[Drive]) -> list[Drive]:
    """Sort the drives so that those which cannot be a stick come first for the disc."""
    return sorted(drives, key=lambda drive: CONFIGDRIVE_DEVICE in drive.devices)


def insert_configdrive(task: base.Task, url: str, disc: Drive) -> None:
    """Insert the drive into an empty stick.

    :param disc: the drive with the boot medium, because not all BMCs show it as full.
    :raises errors.InvalidParameter, errors.HardwareError: as `attach_image`, or no stick
        is empty.
    """
    sticks = [drive for drive in list_drives(task) if CONFIGDRIVE_DEVICE in drive.devices]
    left = [drive for drive in sticks if not drive.full and _drive_name(drive) != _drive_name(disc)]
    if not left:
        reason = "The BMC shows no empty virtual USB stick for the configuration drive. Check it."
        raise errors.HardwareError(reason=reason)
    fill_drive(task, left, url)


def _drive_name(drive: Drive) -> str:
    """Return a drive's name, which is equal in the system's list and in the manager's list."""
    return drive.path.rstrip("/").rpartition("/")[2]
