"""Boot flags of a BMC (IPMI 2.0, table 28-14, parameter 5), with vendors' differences."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ironic_lite.core.json_types import Json

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

READ: Sequence[str] = ("raw", "0x00", "0x09", "0x05", "0x00", "0x00")
"""Get System Boot Options, the boot flags."""

SET_FLAGS: Sequence[str] = ("raw", "0x00", "0x08", "0x05")
"""Set System Boot Options, the boot flags; their five bytes follow."""

KEEP: Sequence[str] = ("raw", "0x00", "0x08", "0x03", "0x08")
"""Set System Boot Options: keep the flags although the machine does not restart in a minute."""


@dataclasses.dataclass(frozen=True, slots=True)
class Quirk:
    """A vendor whose machines need another byte for a device in one boot mode.

    ``makers`` are parts of the name in ``mc info`` or properties/vendor, in lower case.
    """

    makers: tuple[str, ...]
    mode: str
    device: str
    code: int


QUIRKS: Sequence[Quirk] = (
    # With 0x08 in UEFI mode, it selects the disk's boot sector and then boots something else.
    Quirk(("supermicro", "super micro"), mode="uefi", device="disk", code=0x24),
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


def read(answer: str) -> Json:
    """Return ``{"boot_device": str | None, "persistent": bool | None}`` from the answer to READ.

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


def _quirk_applies(quirk: Quirk, mode: str, device: str, vendor: str | None) -> bool:
    name = (vendor or "").lower()
    return (quirk.mode, quirk.device) == (mode, device) and any(
        maker in name for maker in quirk.makers
    )
