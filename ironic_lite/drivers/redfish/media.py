"""Virtual drives: images that a BMC reads over the network and shows to its machine.

They belong to the system on newer BMCs, to the managers on older ones, and to both on some: all
are emptied, the system's are filled first.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import sushy.exceptions
from sushy.resources.manager import virtual_media

from ironic_lite import errors, masking
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import connection, documents, faults, quirks

LOG = logging.getLogger(__name__)

T = TypeVar("T")

TYPES: Mapping[str, tuple[str, ...]] = {
    "cdrom": ("CD", "DVD"),
    "disk": ("USBStick",),
    "floppy": ("Floppy",),
}
"""Redfish's words for what a drive of our type may call itself, the best first."""

PROTOCOLS: Mapping[str, str] = {
    "http": "HTTP",
    "https": "HTTPS",
    "nfs": "NFS",
    "cifs": "CIFS",
    "smb": "CIFS",
}
"""Redfish's TransferProtocolType for the scheme of an image's address."""

SHOWN: Mapping[str, str] = {
    "id": "Id",
    "name": "Name",
    "image_name": "ImageName",
    "connected_via": "ConnectedVia",
    "write_protected": "WriteProtected",
}

TRIES, RETRY_PAUSE = 3, 3.0
"""How often a BMC is told that answers 5xx: an iDRAC may still be at the last ejection."""

LOOKS, LOOK_PAUSE = 15, 2.0
"""How often and how far apart is looked whether the drive is as it was told to be."""

_NEXT = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.METHOD_NOT_ALLOWED})
"""Refusals of a drive that only a person at the BMC's web page can fill: another one may do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Drive:
    """A virtual drive as it was when it was read."""

    path: str
    document: documents.Json

    @property
    def types(self) -> list[str]:
        """Return what it calls itself."""
        found = self.document.get("MediaTypes")
        return [str(word) for word in found] if isinstance(found, list) else []

    @property
    def devices(self) -> list[str]:
        """Return what it can be, in our words."""
        return [device for device, words in TYPES.items() if set(words) & set(self.types)]

    @property
    def full(self) -> bool | None:
        """Tell whether something is in it, by the image where it does not say; None: unknown."""
        inserted = self.document.get("Inserted")
        if isinstance(inserted, bool):
            return inserted
        return True if self.document.get("Image") else None

    @property
    def protocols(self) -> list[str] | None:
        """Return what it reads images by, None if it does not say."""
        action = documents.value(self.document, "Actions", "#VirtualMedia.InsertMedia")
        found = documents.value(action, "TransferProtocolType@Redfish.AllowableValues")
        return [str(word) for word in found] if isinstance(found, list) else None


def get(task: base.Task) -> list[documents.Json]:
    """Return the drives, see `base.Management.get_virtual_media`."""
    return [
        {
            "media_types": drive.types,
            "device_types": drive.devices,
            "inserted": bool(drive.full),
            "image": masking.address(documents.text(drive.document, "Image") or "") or None,
            **{name: _shown(drive.document.get(key)) for name, key in SHOWN.items()},
        }
        for drive in drives(task)
    ]


def _shown(value: Any) -> Any:
    # BMCs call an image by the end of its address.
    return masking.address(value) if isinstance(value, str) else value


def drives(task: base.Task) -> list[Drive]:
    """Return the drives as they are.

    :raises errors.UnsupportedDriverExtension: the machine has none.
    """
    return _drives(task, "get_virtual_media")


def attach(
    task: base.Task, device: str, image_url: str, seen: Sequence[Drive] | None = None
) -> Drive:
    """Put an image into the first drive of a type that takes it, in place of what it holds.

    :param seen: the drives, by one who has just read them.
    :returns: that drive, as it was before.
    :raises errors.InvalidParameter: no such drive, or it cannot read this address.
    :raises errors.UnsupportedDriverExtension: the machine has no virtual drives.
    :raises errors.HardwareError: the BMC refused, or does not show the image in time.
    """
    image = _Image.parse(image_url)
    _known(device)
    found = _drives(task, "attach_virtual_media") if seen is None else seen
    fit = [drive for drive in found if device in drive.devices]
    if not fit:
        has = ", ".join(sorted({word for drive in found for word in drive.devices}))
        reason = f"this machine has no virtual {device}, only {has or 'none'}"
        raise errors.InvalidParameter(path="device_type", reason=reason)
    _readers(fit, image)
    _warn(task, device)
    try:
        for drive in fit:
            _empty(task, drive)
    except errors.HardwareError as why:
        raise image.hide(why) from None
    return fill(task, fit, image_url)


def fill(task: base.Task, empty: Sequence[Drive], image_url: str) -> Drive:
    """Put an image into the first of some drives that takes it; return that one.

    :raises errors.InvalidParameter, errors.HardwareError: none does, as `attach`.
    """
    image = _Image.parse(image_url)
    try:
        return _fill(task, _readers(empty, image), image)
    except errors.HardwareError as why:
        raise image.hide(why) from None


def detach(task: base.Task, devices: Sequence[str] | None = None) -> None:
    """Empty the drives of these types, None for all.

    :raises errors.UnsupportedDriverExtension: the machine has no virtual drives.
    :raises errors.HardwareError: the BMC refused, or shows the image still.
    """
    for device in devices or ():
        _known(device)
    for drive in _drives(task, "detach_virtual_media"):
        wanted = devices is None or not set(devices).isdisjoint(drive.devices)
        if wanted and not _empty(task, drive):
            reason = f"The BMC ejected {drive.path}, and shows an image in it still. Look at it."
            raise errors.HardwareError(reason=reason)


def _known(device: str) -> None:
    if device not in TYPES:
        reason = f"{device!r} is not one of {', '.join(TYPES)}"
        raise errors.InvalidParameter(path="device_type", reason=reason)


# -- addresses ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Image:
    """Where an image is; user and password go apart, for BMCs do not look for them in it."""

    url: str
    scheme: str
    user: str | None
    password: str | None = dataclasses.field(repr=False)

    @classmethod
    def parse(cls, url: str) -> _Image:
        """Read an address.

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
            reason = "must name a host and the path of an image there"
            raise errors.InvalidParameter(path="image_url", reason=reason)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        user, password = (
            urllib.parse.unquote(part) if part else None
            for part in (parts.username, parts.password)
        )
        return cls(bare.geturl(), parts.scheme, user, password)

    @property
    def protocol(self) -> str | None:
        """Return the TransferProtocolType; None where sushy finds it out, if a BMC wants it."""
        return None if self.scheme in {"http", "https"} else PROTOCOLS[self.scheme]

    def hide(self, error: errors.HardwareError) -> errors.HardwareError:
        """Return an error without the password, a signed address's key, and what of a medium's
        name nobody can guess: BMCs repeat them.
        """
        query = urllib.parse.urlsplit(self.url).query
        for secret in filter(None, (self.password, query, masking.unguessable(self.url))):
            facts = {
                name: fact.replace(secret, masking.MASK) if isinstance(fact, str) else fact
                for name, fact in error.facts.items()
            }
            error = type(error)(error.message.replace(secret, masking.MASK), **facts)
        return error


def _readers(drives: Sequence[Drive], image: _Image) -> list[Drive]:
    """Return the drives that can read the image, as far as they say.

    :raises errors.InvalidParameter: none.
    """
    word = PROTOCOLS[image.scheme]
    found = [drive for drive in drives if drive.protocols is None or word in drive.protocols]
    if not found:
        known = ", ".join(sorted({word for drive in drives for word in drive.protocols or ()}))
        reason = f"the BMC cannot read images by {word}, only by {known or 'nothing'}"
        raise errors.InvalidParameter(path="image_url", reason=reason)
    return found


# -- finding them ---------------------------------------------------------------------------------


def _drives(task: base.Task, method: str) -> list[Drive]:
    """Return all drives, the system's first.

    :raises errors.UnsupportedDriverExtension: there are none.
    """
    system = documents.system(task)
    paths = [documents.link(system, "VirtualMedia")]
    paths += [documents.link(manager, "VirtualMedia") for manager in _managers(task, system)]
    found: dict[str, Drive] = {}
    for path in dict.fromkeys(paths):
        for document in documents.members(task, path):
            place = documents.text(document, "@odata.id")
            if place is not None:
                found[place] = Drive(place, document)
    if not found:
        raise documents.lacking(task, method, "it has no VirtualMedia")
    return list(found.values())


def _managers(task: base.Task, system: documents.Json) -> Iterator[documents.Json]:
    for name in ("ManagedBy", "Managers"):
        if documents.entries(system, "Links", name):
            yield from documents.listed(task, system, "Links", name)
            return


def _warn(task: base.Task, device: str) -> None:
    """Say that a machine will not start from its virtual CD, which attaching does not show."""
    system = documents.system(task)
    quirk = quirks.of(documents.text(system, "Manufacturer"))
    if device != "cdrom" or quirk.media_boots is None:
        return
    for manager in _managers(task, system):
        version = documents.text(manager, "FirmwareVersion")
        if not quirks.media_boots(quirk, version):
            LOG.warning(
                "Node %s: with firmware %s of its BMC, the boot device cdrom is not the virtual "
                "drive.",
                task.node.uuid,
                version,
            )


# -- filling and emptying -------------------------------------------------------------------------


def _fill(task: base.Task, drives: list[Drive], image: _Image) -> Drive:
    """Insert into the first drive that takes it.

    :raises errors.HardwareError: none does.
    """
    refusals = []
    for drive in drives:
        refusal = _insist(task, functools.partial(_insert, drive=drive, image=image))
        if refusal is None:
            if not _becomes(task, drive, full=True):
                shown = masking.address(image.url)
                reason = (
                    f"The BMC took {shown} and does not show it in {drive.path}. "
                    "Check that the BMC reaches that address, and that it is an image."
                )
                raise errors.HardwareError(reason=reason)
            return drive
        refusals.append(f"{drive.path}: {refusal}")
    reason = f"The BMC refused the image {masking.address(image.url)}: {'; '.join(refusals)}."
    raise errors.HardwareError(reason=reason)


def _insert(link: connection.Link, drive: Drive, image: _Image) -> str | None:
    """Tell the drive; sushy knows what BMCs want along with an image. Return a refusal."""
    try:
        medium = virtual_media.VirtualMedia(link.wire, drive.path)
        medium.insert_media(
            image.url,
            username=image.user,
            password=image.password,
            transfer_protocol=image.protocol,
        )
    except sushy.exceptions.MissingActionError:
        return "it cannot be filled over Redfish"
    except sushy.exceptions.HTTPError as error:
        if error.status_code not in _NEXT or faults.is_busy(error):
            raise
        return faults.detail(error, link.node)
    return None


def _empty(task: base.Task, drive: Drive) -> bool:
    """Eject what a drive holds; tell whether the BMC shows it empty.

    One that was full is looked at again: the same drive may have been emptied by another path.
    """
    if not drive.full:
        return True
    now = documents.read(task, drive.path)
    if now is None or not Drive(drive.path, now).full:
        return True
    _insist(task, lambda link: _eject(link, drive))
    return _becomes(task, drive, full=False)


def _eject(link: connection.Link, drive: Drive) -> None:
    action = documents.value(drive.document, "Actions", "#VirtualMedia.EjectMedia")
    target = documents.text(action, "target")
    if target is None:
        documents.patch(link, drive.path, {"Image": None, "Inserted": False})
        return
    try:
        link.wire.post(target, data={})
    except sushy.exceptions.HTTPError as error:
        if error.status_code not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNSUPPORTED_MEDIA_TYPE}:
            raise
        # An empty object is what most want, and what a few cannot read.
        link.wire.post(target)


def _insist(task: base.Task, work: Callable[[connection.Link], T]) -> T | None:
    """Do it, again after an answer 5xx."""
    for _ in range(TRIES - 1):
        done, result = connection.call(task, functools.partial(_try, work=work), read=False)
        if done:
            return result
        task.pause(RETRY_PAUSE)
    return connection.call(task, work, read=False)


def _try(link: connection.Link, work: Callable[[connection.Link], T]) -> tuple[bool, T | None]:
    try:
        return True, work(link)
    except sushy.exceptions.ServerSideError as error:
        if faults.is_busy(error):
            raise
        return False, None


def _becomes(task: base.Task, drive: Drive, *, full: bool) -> bool:
    """Look until the drive is full or empty; one that does not tell is taken to be so."""
    for _ in range(LOOKS):
        now = documents.read(task, drive.path)
        if now is None or Drive(drive.path, now).full in {full, None}:
            return True
        task.pause(LOOK_PAUSE)
    return False
