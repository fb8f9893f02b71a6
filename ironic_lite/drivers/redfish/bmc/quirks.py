"""Vendor-specific behaviour of BMCs, as one table looked up by vendor name.

The table has only facts; the modules of the normal case act on them.
"""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True, slots=True)
class Quirk:
    """The facts about one vendor; a vendor without a row has the defaults."""

    makers: tuple[str, ...] = ()
    """Words of Manufacturer or Vendor, in lower case; only whole words match."""

    whole_boot: bool = False
    """A change of boot device or mode must contain all three values: mode, enabled, target."""

    repeats_enabled: bool = False
    """BootSourceOverrideEnabled must always be sent; other vendors refuse an unchanged value."""

    busy: tuple[str, ...] = ()
    """Words in answers of BMCs that are busy with an earlier request; the request is retried
    later."""

    unlicensed: tuple[str, ...] = ()
    """Words in refusals of features that need a licence."""

    installs_own_order: bool = False
    """In UEFI mode, a persistent boot device hides the boot entry of an installed system."""

    media_boots: frozenset[int] | None = None
    """Major versions of BMC firmware under which the boot device Cd means the virtual drive."""

    delete_without_time: str | None = None
    """A word in the error for an apply time at the deletion of a volume, although the BMC lists
    such times; the deletion is then sent without a time."""

    foreign: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Property of a disk with volumes of another controller: (path in its document, word). Such
    volumes can be imported, so only an operator may decide to delete them."""


TABLE: tuple[Quirk, ...] = (
    Quirk(("ami", "american megatrends", "asrockrack"), whole_boot=True),
    Quirk(
        ("dell",),
        busy=("SYS518",),
        media_boots=frozenset({6, 7}),
        delete_without_time="SYS029",
        foreign=((("Oem", "Dell", "DellPhysicalDisk", "RaidStatus"), "Foreign"),),
    ),
    Quirk(
        ("hpe", "hewlett packard enterprise"),
        busy=("InvalidOperationForSystemState", "UnableToModifyDuringSystemPOST"),
    ),
    Quirk(("lenovo",), installs_own_order=True),
    Quirk(("supermicro",), repeats_enabled=True, unlicensed=("OemLicenseNotPassed",)),
)

NONE = Quirk()

BUSY = tuple(word for row in TABLE for word in row.busy)
UNLICENSED = tuple(word for row in TABLE for word in row.unlicensed)
FOREIGN = tuple(place for row in TABLE for place in row.foreign)
"""Each word belongs to one vendor only, so it matches whatever vendor the BMC names."""


def of(*names: str | None) -> Quirk:
    """Return the quirks of the vendor that one of these names contains; earlier names win."""
    for name in names:
        words = f" {' '.join(re.findall(r'[a-z0-9]+', (name or '').lower()))} "
        for row in TABLE:
            if any(f" {maker} " in words for maker in row.makers):
                return row
    return NONE


def media_boots(quirk: Quirk, firmware: str | None) -> bool:
    """Return whether a machine whose BMC has this firmware boots from its virtual drive."""
    major = re.match(r"\d+", firmware or "")
    return quirk.media_boots is None or major is None or int(major[0]) in quirk.media_boots
