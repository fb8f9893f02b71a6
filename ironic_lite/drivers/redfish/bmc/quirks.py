"""Ways of BMCs that differ from the standard, as one table.

A row applies by the vendor, the model and the firmware of a machine, or by what the BMC answers.
The table has only facts; the modules of the normal case ask it and act. docs/redfish-machines.rst
shows it.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
from collections.abc import Mapping

LOG = logging.getLogger(__name__)

_REMEMBERED = 8192
"""Limit of remembered log lines: the most recent machines and quirks."""


@dataclasses.dataclass(frozen=True, slots=True)
class Quirk:
    """A way of some BMCs, and what the driver does about it.

    ``vendors`` are keys of ``VENDORS`` if the vendor decides. Where the answer decides
    (``by_answer``), they only name the BMCs that are known for it.
    """

    name: str
    vendors: tuple[str, ...]
    symptom: str
    cure: str
    source: str
    model: str = ""
    """Pattern of the system's Model that decides, too; empty: any."""
    firmware: str = ""
    """Pattern at the begin of the BMC's firmware version that decides, too; empty: any."""
    words: tuple[str, ...] = ()
    """Words in an error of the BMC that decide; each belongs to one vendor."""
    place: tuple[str, ...] = ()
    """Path of a property whose value is one of ``words``, instead of words in an error."""
    by_answer: bool = False

    def fits(self, *names: str | None, model: str | None = None, firmware: str = "") -> bool:
        """Return whether a machine has this quirk.

        :param names: Manufacturer and Vendor; the first one of a known vendor decides.
        """
        return (
            vendor(*names) in self.vendors
            and re.search(self.model, model or "", re.IGNORECASE) is not None
            and re.match(self.firmware, firmware) is not None
        )

    def log(self, machine: str) -> None:
        """Log that the cure is applied, once for each machine.

        :param machine: ``Node <uuid>`` or ``BMC <address>``.
        """
        _log_quirk(machine, self)


@functools.lru_cache(maxsize=_REMEMBERED)
def _log_quirk(machine: str, quirk: Quirk) -> None:
    LOG.info("%s: quirk %s (%s): %s", machine, quirk.name, quirk.symptom, quirk.cure)


VENDORS: Mapping[str, tuple[str, ...]] = {
    "AMI": ("ami", "american megatrends"),
    "ASRockRack": ("asrockrack",),
    "Dell": ("dell",),
    "HPE": ("hpe", "hewlett packard enterprise"),
    "Lenovo": ("lenovo",),
    "Supermicro": ("supermicro",),
}
"""Words of Manufacturer or Vendor in lower case; only whole words match."""


def vendor(*names: str | None) -> str | None:
    """Return the key of ``VENDORS`` that one of these names contains; earlier names win."""
    for name in names:
        words = f" {' '.join(re.findall(r'[a-z0-9]+', (name or '').lower()))} "
        for found, makers in VENDORS.items():
            if any(f" {maker} " in words for maker in makers):
                return found
    return None


# -- decided by vendor -------------------------------------------------------------------------

WHOLE_BOOT = Quirk(
    "whole-boot",
    ("AMI", "ASRockRack"),
    "refuses a change of the boot device or mode alone",
    "mode, duration and target are sent together; UEFI if the BMC shows no mode",
    "Ironic: management; NVIDIA DGX H100",
)
REPEATED_DURATION = Quirk(
    "repeated-duration",
    ("Supermicro",),
    "forgets the duration of a boot device that is set without it",
    "the duration is always sent; other vendors refuse an unchanged one",
    "OpenStack stories 2007355 and 2008547",
)
FORGOTTEN_MODE = Quirk(
    "forgotten-mode",
    ("Supermicro",),
    "returns to its default boot mode when a boot device is set",
    "the former mode is set again",
    "OpenStack story 2008712",
)
OWN_BOOT_ORDER = Quirk(
    "own-boot-order",
    ("Lenovo",),
    "in UEFI mode a persistent boot device hides the entry of an installed system",
    "the firmware keeps its own order after a deployment",
    "Ironic: pxe_base",
)
CD_IS_NO_MEDIUM = Quirk(
    "cd-is-no-medium",
    ("Dell",),
    "the boot device Cd is not the virtual drive",
    "idrac-redfish-virtual-media has the BMC import a configuration; others log a warning",
    "Ironic: boot",
    firmware=r"(?!0*[67]\D|0*[67]$)\d",
)
DELETED_WITHOUT_TIME = Quirk(
    "deleted-without-time",
    ("Dell",),
    "refuses the apply time of a deleted volume, although it lists such times",
    "the deletion is sent again without a time",
    "sushy: volume",
    words=("SYS029",),
)
UNNAMED_VOLUME = Quirk(
    "unnamed-volume",
    ("Lenovo",),
    "refuses a volume without a name",
    "a volume without volume_name gets a name such as volume1",
    "Lenovo: REST API of XCC and XCC2",
)

# -- decided by words of one vendor ------------------------------------------------------------

BUSY_DELL = Quirk(
    "busy-dell",
    ("Dell",),
    "refuses requests for a while after a change",
    "the request is repeated, up to six times",
    "sushy: connector",
    words=("SYS518",),
    by_answer=True,
)
BUSY_HPE = Quirk(
    "busy-hpe",
    ("HPE",),
    "refuses changes while the machine starts",
    "the request is repeated, up to six times",
    "Ironic: management",
    words=("InvalidOperationForSystemState", "UnableToModifyDuringSystemPOST"),
    by_answer=True,
)
UNLICENSED = Quirk(
    "unlicensed-secure-boot",
    ("Supermicro",),
    "shows secure boot only with a licence",
    "the state is unknown (null)",
    "Ironic: management",
    words=("OemLicenseNotPassed",),
    by_answer=True,
)
FOREIGN_DISK = Quirk(
    "foreign-disk",
    ("Dell",),
    "marks disks with volumes of another controller in a property of its own",
    "such a disk is never used",
    "Dell: DellPhysicalDisk",
    words=("Foreign",),
    place=("Oem", "Dell", "DellPhysicalDisk", "RaidStatus"),
    by_answer=True,
)

# -- decided by the form of an answer ----------------------------------------------------------

DEFERRED_BOOT = Quirk(
    "deferred-boot",
    ("NVIDIA",),
    "a boot device waits in the settings resource until the next boot",
    "the waiting device is shown",
    "GB300, GH200, DGX H100, BlueField-3",
    by_answer=True,
)
USB_CD = Quirk(
    "usb-cd",
    ("Supermicro",),
    "the virtual CD is the boot device UsbCd",
    "UsbCd is set for cdrom",
    "X10; sushy: system (X11, X12)",
    by_answer=True,
)
UNLISTED_DEVICES = Quirk(
    "unlisted-devices",
    ("Supermicro",),
    "lists no boot devices",
    "all known devices may be set",
    "issue threads of sushy",
    by_answer=True,
)
DEVICE_FOR_ONE_BOOT = Quirk(
    "device-for-one-boot",
    ("Lenovo",),
    "refuses a persistent boot device",
    "the device is set again before each boot",
    "ThinkSystem SR670 V2; Ironic: management",
    by_answer=True,
)
REGISTRY_VERSION = Quirk(
    "registry-version",
    ("Dell", "Supermicro", "NVIDIA"),
    "names an attribute registry of another version than it has, or none",
    "the registry with the same name is used",
    "PowerEdge R750, SYS-821GE, GH200, BlueField-3",
    by_answer=True,
)
NO_INSTRUCTION_SET = Quirk(
    "no-instruction-set",
    ("NVIDIA", "HPE"),
    "reports no InstructionSet of its processors",
    "the architecture follows from ProcessorArchitecture, else from the Model",
    "DGX H100, GH200, Cray EX425",
    by_answer=True,
)
CARDS_OFF = Quirk(
    "cards-off",
    ("Supermicro",),
    "reports all network cards as disabled while the machine is off",
    "cards with a MAC address count, unless a setting disables them",
    "X10",
    by_answer=True,
)
UNTYPED_DRIVE = Quirk(
    "untyped-drive",
    ("GIGABYTE",),
    "lists no MediaTypes of a virtual drive",
    "Id and Name of the drive tell its type",
    "H262",
    by_answer=True,
)
EMPTY_BUT_INSERTED = Quirk(
    "empty-but-inserted",
    ("Supermicro",),
    "says Inserted of an empty virtual drive, and refuses to eject it",
    "a drive that is not connected and has no image counts as empty",
    "issue threads of Ironic",
    by_answer=True,
)
SLOW_EJECTION = Quirk(
    "slow-ejection",
    ("Dell",),
    "has an internal error while it is busy with the last ejection of an image",
    "the request is repeated, up to three times",
    "OpenStack story 2008504",
    by_answer=True,
)
BODILESS_ACTION = Quirk(
    "bodiless-action",
    ("any",),
    "cannot parse the empty object with which an image is ejected or the BIOS is reset",
    "the request is sent again without a body",
    "sushy: virtual_media, bios",
    by_answer=True,
)
PACKED_REGISTRIES = Quirk(
    "packed-registries",
    ("HPE",),
    "sends some registries only compressed",
    "a request answered with 406 is sent again for a compressed answer",
    "sushy: connector",
    by_answer=True,
)
UNUSABLE_ETAG = Quirk(
    "unusable-etag",
    ("any",),
    "refuses its own weak ETags, or any ETag",
    "the change is sent again with the strong form, and last without an ETag",
    "sushy: connector",
    by_answer=True,
)

TABLE = tuple(one for one in list(globals().values()) if isinstance(one, Quirk))
BUSY = (BUSY_DELL, BUSY_HPE)


def said(body: object, *rows: Quirk) -> Quirk | None:
    """Return the quirk one of whose words is in an error of a BMC."""
    text = str(body)
    return next((row for row in rows if any(word in text for word in row.words)), None)
