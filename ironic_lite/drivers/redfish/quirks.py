"""What makers do in their own way: facts as rows of one table, asked by the name a BMC gives.

Only facts are here; what follows from them is done where the normal way is.
"""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True, slots=True)
class Quirk:
    """The ways of one maker; a maker without a row has none."""

    makers: tuple[str, ...] = ()
    """Words of Manufacturer or Vendor, in lower case; whole words count."""

    whole_boot: bool = False
    """A change of boot device or mode is refused unless all three are sent: mode, enabled,
    target."""

    repeats_enabled: bool = False
    """BootSourceOverrideEnabled must always be sent; others refuse what is so already."""

    busy: tuple[str, ...] = ()
    """In answers of BMCs that are not ready yet, after what they did before: ask again later."""

    unlicensed: tuple[str, ...] = ()
    """In refusals of what is there, and not paid for."""

    installs_own_order: bool = False
    """In UEFI mode, a boot device that is set for good hides the entry of an installed system."""

    media_boots: frozenset[int] | None = None
    """Versions of BMC firmware under which Cd as boot device means the virtual drive."""

    delete_without_time: str | None = None
    """A word of the error with which the BMC refuses an apply time when a volume is deleted,
    though it lists such times; it is then told without."""

    foreign: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Where a disk says that it holds volumes of another controller: (path in its document, word).
    They can be imported there, so nobody but an operator may decide that they go."""


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
"""Words are of no maker but one, so they count whoever says them."""


def of(*names: str | None) -> Quirk:
    """Return the ways of the maker whom one of these names tells, the first name first."""
    for name in names:
        words = f" {' '.join(re.findall(r'[a-z0-9]+', (name or '').lower()))} "
        for row in TABLE:
            if any(f" {maker} " in words for maker in row.makers):
                return row
    return NONE


def media_boots(quirk: Quirk, firmware: str | None) -> bool:
    """Tell whether a machine whose BMC has this firmware starts from its virtual drive."""
    major = re.match(r"\d+", firmware or "")
    return quirk.media_boots is None or major is None or int(major[0]) in quirk.media_boots
