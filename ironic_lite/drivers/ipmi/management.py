"""Boot device, sensors, and the reset of the BMC itself, by IPMI."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterator, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base, bmc_bases
from ironic_lite.drivers.boot import modes
from ironic_lite.drivers.ipmi import hardware, tool

# Detection of a machine's vendor by its BMC.

VENDOR_NOTE = "ipmi_vendor"
"""Key of the vendor's name; empty if the BMC reports none."""

IDS: Mapping[int, str] = {
    11: "hewlett-packard",
    42: "sun microsystems",
    343: "intel corporation",
    674: "dell inc.",
    2011: "huawei technologies co., ltd",
    5771: "cisco systems, inc.",
    7244: "quanta computer inc.",
    10368: "fujitsu limited",
    10876: "super micro computer inc.",
    15370: "giga-byte technology co., ltd",
    19046: "lenovo",
    20301: "ibm",
    47196: "hewlett packard enterprise",
    47488: "super micro computer inc.",
}
"""Names of vendors by their number at IANA, for an ipmitool without its list of numbers."""

_ID = re.compile(r"^Manufacturer ID[ \t]*:[ \t]*(\d+)", re.MULTILINE)
_NAME = re.compile(r"^Manufacturer Name[ \t]*:[ \t]*(\S.*?)\s*$", re.MULTILINE)


def detect(task: base.Task) -> str | None:
    """Ask the BMC and store the answer: the vendor in lower case, None if it reports none.

    :raises errors.HardwareError: see `tool.run`.
    """
    found = parse_vendor(tool.run(task, ("mc", "info")))
    task.keep(VENDOR_NOTE, found or "")
    return found


def known(task: base.Task) -> str | None:
    """Return the name in properties/vendor, or the stored one; ask the BMC if both are missing."""
    told = (task.node.properties or {}).get("vendor")
    if told:
        return str(told)
    kept = task.recall(VENDOR_NOTE)
    return detect(task) if kept is None else str(kept) or None


def parse_vendor(answer: str) -> str | None:
    """Return the vendor's name in an answer to ``mc info``, in lower case.

    For an unlisted vendor, or without a list of vendors, ipmitool prints ``Unknown``; the number of
    the vendor tells then. Version 1.8.19 of many distributions comes without the list.
    """
    found, number = _NAME.search(answer), _ID.search(answer)
    if found is not None and not found[1].lower().startswith("unknown"):
        return found[1].lower()
    return IDS.get(int(number[1])) if number else None


# Boot flags of a BMC (IPMI 2.0, table 28-14, parameter 5), with vendors' differences.

VALID, PERSISTENT, UEFI = 0x80, 0x40, 0x20
"""Bits of the first byte."""

DEVICES: Mapping[str, int] = {
    "pxe": 0x04,
    "disk": 0x08,
    "safe": 0x0C,
    "cdrom": 0x14,
    "bios": 0x18,
}
"""The second byte for each boot device."""

_READ: Mapping[int, str] = {
    **{code: device for device, code in DEVICES.items()},
    0x20: "cdrom",  # remote
    0x24: "disk",  # remote; and the disk of the quirk below
}
_DEVICE_BITS = 0x3C
_PARAMETER = 5
_LEAST_BYTES = 4

SET_FLAGS: Sequence[str] = ("raw", "0x00", "0x08", "0x05")
"""Set System Boot Options, the boot flags; their five bytes follow."""

KEEP: Sequence[str] = ("raw", "0x00", "0x08", "0x03", "0x08")
"""Set System Boot Options: keep the flags although the machine does not restart in a minute."""


@dataclasses.dataclass(frozen=True, slots=True)
class IpmiQuirk:
    """A vendor whose machines need another byte for a device in one boot mode.

    ``makers`` are parts of the name in ``mc info`` or properties/vendor, in lower case.
    """

    makers: tuple[str, ...]
    mode: str
    device: str
    code: int


QUIRKS: Sequence[IpmiQuirk] = (
    # With 0x08 in UEFI mode, it selects the disk's boot sector and then boots something else.
    IpmiQuirk(("supermicro", "super micro"), mode="uefi", device="disk", code=0x24),
)


def quirky(mode: str, device: str) -> bool:
    """Return whether choosing this device depends on the vendor."""
    return any((quirk.mode, quirk.device) == (mode, device) for quirk in QUIRKS)


def write(device: str, *, mode: str, persistent: bool, vendor: str | None) -> list[str]:
    """Return the command that sets a boot device.

    :param device: one of ``DEVICES``.
    :param mode: ``bios`` or ``uefi``.
    :param vendor: the vendor's name, if known.
    """
    if mode == "bios":
        words = ["chassis", "bootdev", device]
        return [*words, "options=persistent"] if persistent else words
    code = next(
        (q.code for q in QUIRKS if _quirk_applies(q, mode, device, vendor)), DEVICES[device]
    )
    first = VALID | UEFI | (PERSISTENT if persistent else 0)
    return [*SET_FLAGS, f"0x{first:02x}", f"0x{code:02x}", "0x00", "0x00", "0x00"]


def read_flags(answer: str) -> Json:
    """Return ``{"boot_device": str | None, "persistent": bool | None}`` from `tool.BOOT_FLAGS`.

    BMCs differ in when they clear the flags, so the result shows what was last written.

    :raises ValueError: the answer is invalid.
    """
    try:
        data = bytes.fromhex(" ".join(answer.split()))
    except ValueError:
        raise ValueError(f"{answer.strip()[:60]!r} is not a list of hexadecimal bytes") from None
    if len(data) < _LEAST_BYTES or data[1] & 0x7F != _PARAMETER:
        raise ValueError(f"{answer.strip()[:60]!r} is too short for boot flags")
    device = _READ.get(data[3] & _DEVICE_BITS)
    persistent = bool(data[2] & PERSISTENT) if device is not None else None
    return {"boot_device": device, "persistent": persistent}


def _quirk_applies(quirk: IpmiQuirk, mode: str, device: str, vendor: str | None) -> bool:
    name = (vendor or "").lower()
    return (quirk.mode, quirk.device) == (mode, device) and any(
        maker in name for maker in quirk.makers
    )


# Boot device by IPMI, stored and sent again for BMCs that forget it.

LOG = logging.getLogger(__name__)

NOTE = "ipmi_boot_device"
"""Key of the devices to send to a forgetful BMC before a power on: ``{"always": ..., "next":
...}``, each a device or missing."""


def choose(task: base.Task, device: str, *, persistent: bool) -> None:
    """Set the boot device; with ipmi_force_boot_device also store it for the next power on.

    :param device: one of ``DEVICES``.
    :raises errors.HardwareError: see `tool.run`.
    """
    _send_flags(task, device, persistent=persistent)
    if not tool.settings(task).force_boot_device:
        task.keep(NOTE, None)
    elif persistent:
        task.keep(NOTE, {"always": device})
    else:
        task.keep(NOTE, {**task.recall(NOTE, {}), "next": device})


def restore(task: base.Task) -> None:
    """Send a forgetful BMC the stored boot device again, before a power on."""
    kept: Mapping[str, str] = task.recall(NOTE, {})
    if not kept or not tool.settings(task).force_boot_device:
        return
    coming = kept.get("next")
    device = coming or kept.get("always")
    if device is not None:
        _send_flags(task, device, persistent=coming is None)


def is_kept_for_one_boot(task: base.Task) -> bool:
    """Return whether a device is stored for the next boot alone."""
    return "next" in task.recall(NOTE, {})


def spend(task: base.Task) -> None:
    """Forget a device that was stored for one boot, after a power on."""
    kept: Mapping[str, str] = task.recall(NOTE, {})
    if "next" in kept:
        always = kept.get("always")
        task.keep(NOTE, None if always is None else {"always": always})


def read(task: base.Task) -> Json:
    """Return ``{"boot_device": str | None, "persistent": bool | None}``."""
    kept: Mapping[str, str] = task.recall(NOTE, {})
    if kept and tool.settings(task).force_boot_device:
        coming = kept.get("next")
        return {"boot_device": coming or kept.get("always"), "persistent": coming is None}
    try:
        return read_flags(tool.run(task, tool.BOOT_FLAGS))
    except ValueError as why:
        raise errors.BmcBadAnswer(address=tool.settings(task).address, reason=str(why)) from None


def _send_flags(task: base.Task, device: str, *, persistent: bool) -> None:
    node = tool.settings(task)
    chosen = modes.wanted(task.node)
    maker = known(task) if quirky(chosen, device) else None
    keep = node.disable_boot_timeout
    if config.CONF.ipmi.disable_boot_timeout if keep is None else keep:
        _disable_timeout(task)
    words = write(device, mode=chosen, persistent=persistent, vendor=maker)
    tool.run(task, words, patient=True)


def _disable_timeout(task: base.Task) -> None:
    """Ask the BMC to keep the device until the next boot; not every BMC supports this."""
    try:
        tool.run(task, KEEP, patient=True)
    except (errors.BmcUnreachable, errors.BmcAccessDenied):
        raise
    except errors.HardwareError as refusal:
        LOG.warning(
            "Node %s: its BMC may forget the boot device within a minute; if that is fine, set "
            "ipmi_disable_boot_timeout to false. %s",
            task.node.uuid,
            refusal,
        )


# Restart of a BMC by IPMI; some BMCs go down before they answer.


_UNANSWERED = "MC reset command failed"
"""Message of ipmitool after a warm reset without an answer; a cold one needs no answer."""


def reset(task: base.Task, *, warm: bool = False) -> None:
    """Tell the BMC to restart, without waiting for it.

    :raises errors.HardwareError: the BMC refuses, or is unreachable.
    """
    try:
        tool.run(task, ("mc", "reset", "warm" if warm else "cold"), once=True)
    except errors.BmcUnreachable as gone:
        if _UNANSWERED not in str(gone.facts.get("reason")):
            raise
        LOG.info("Node %s: its BMC restarts without having answered.", task.node.uuid)


# Parsing of sensor values from the output of ``ipmitool -v sdr``.

_LINE = re.compile(r"^ ?(?P<name>[A-Z][^:]*?)\s*:\s*(?P<value>.*?)\s*$")
_MORE = re.compile(r"^ {2,}\[(?P<text>.+)\]\s*$")
_TYPE = re.compile(r"^(?P<type>.+?)(?: \(0x[0-9A-Fa-f]+\))?$")
_TYPES = ("Sensor Type (Threshold)", "Sensor Type (Discrete)", "Sensor Type (Analog)")
"""Up to version 1.8.11, ipmitool writes Analog for Threshold."""
_STATES = "States Asserted"


def parse_sensors(text: str) -> dict[str, dict[str, Json]]:
    """Return the sensors by type: ``{type: {sensor: {fact: value}}}``, in ipmitool's words.

    Other records, and sensors without a type, are left out. The current states of a discrete sensor
    are in ``"States Asserted"``, separated by commas.
    """
    found: dict[str, dict[str, Json]] = {}
    for facts in _sensor_records(text):
        sensor, kind = facts.get("Sensor ID"), next((facts[t] for t in _TYPES if t in facts), "")
        named = _TYPE.match(kind)
        if sensor and named:
            found.setdefault(named["type"], {})[sensor] = facts
    return found


def _sensor_records(text: str) -> Iterator[dict[str, str]]:
    """Split at empty lines and before each sensor, and join the states of a sensor.

    A sensor that cannot be read may have no empty line after it.
    """
    for block in re.split(r"\n\s*\n|\n(?=Sensor ID )", text):
        facts: dict[str, str] = {}
        states: list[str] = []
        last = ""
        for line in block.splitlines():
            named, more = _LINE.match(line), _MORE.match(line)
            if named:
                last = named["name"]
                facts[last] = named["value"]
            elif more and last == _STATES:
                states.append(more["text"].strip())
        if states:
            # The line of the name only has the kind of the states.
            facts[_STATES] = ", ".join(states)
        if facts:
            yield facts


SENSOR_SECONDS = 300.0
"""Time limit for reading all sensors, as each is a command and a machine has hundreds."""


class IpmiManagement(hardware.IpmiInterface, bmc_bases.RestartingManagement):
    """The management interface ``ipmitool``.

    IPMI has no separate boot mode. The mode is a bit sent with the boot device, taken from the
    node's capabilities (see `modes.wanted`).
    """

    # -- boot device ----------------------------------------------------------------------

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return IPMI's devices; a BMC does not report which of them its machine supports."""
        return list(DEVICES)

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Set the device of the next boot, or of all boots.

        :raises errors.InvalidParameter: IPMI does not have that device, or the boot mode in the
            node's capabilities is invalid.
        """
        if device not in DEVICES:
            reason = f"{device!r} is not one of {', '.join(DEVICES)}"
            raise errors.InvalidParameter(path="boot_device", reason=reason)
        choose(task, device, persistent=persistent)

    def get_boot_device(self, task: base.Task) -> Json:
        """Return the last chosen device; for a forgetful BMC, the stored one."""
        return read(task)

    # -- reports of the machine -----------------------------------------------------------

    def get_sensors_data(self, task: base.Task) -> dict[str, dict[str, Json]]:
        """Return the sensors by type, in ipmitool's words."""
        return parse_sensors(tool.run(task, ("sdr",), seconds=SENSOR_SECONDS))

    def detect_vendor(self, task: base.Task) -> str | None:
        """Return the vendor's name in lower case, None if the BMC reports none."""
        return detect(task)

    def inject_nmi(self, task: base.Task) -> None:
        """Send the machine a diagnostic interrupt."""
        tool.run(task, ("power", "diag"), once=True)

    # -- the BMC itself -------------------------------------------------------------------

    def restart_bmc(self, task: base.Task) -> None:
        """Tell the BMC to restart; `RestartingManagement` waits for it."""
        reset(task)

    def ask_bmc(self, task: base.Task, seconds: float) -> None:
        """Read the BMC's own description."""
        tool.run(task, ("mc", "info"), seconds=seconds)
