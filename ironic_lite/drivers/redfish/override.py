"""Boot source override: what a machine boots from, kept for BMCs that cannot keep it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sushy
import sushy.exceptions

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import connection, faults

NOTE = "redfish_boot_device"
"""Where the device is kept that must be set anew before each boot."""

TARGETS: Mapping[str, sushy.BootSource] = {
    "pxe": sushy.BootSource.PXE,
    "disk": sushy.BootSource.HDD,
    "cdrom": sushy.BootSource.CD,
    "bios": sushy.BootSource.BIOS_SETUP,
    "uefihttp": sushy.BootSource.UEFI_HTTP,
}
DEVICES = {source.value: device for device, source in TARGETS.items()}
# Virtual media of Supermicro; sushy sets it when Cd is asked for there.
DEVICES[sushy.BootSource.USB_CD.value] = "cdrom"

MODES: Mapping[str, sushy.BootSourceOverrideMode] = {
    "bios": sushy.BootSourceOverrideMode.LEGACY,
    "uefi": sushy.BootSourceOverrideMode.UEFI,
}
MODE_NAMES = {mode.value: name for name, mode in MODES.items()}

WHOLE_BOOT = ("ami", "asrockrack")
"""Manufacturers whose BMCs want mode, duration and target in one request."""

ONCE = sushy.BootSourceOverrideEnabled.ONCE
ALWAYS = sushy.BootSourceOverrideEnabled.CONTINUOUS


def devices(link: connection.Link) -> list[str]:
    """Return the devices the system offers; all we know if it does not say."""
    allowed = link.system().get_allowed_system_boot_source_values()
    return [device for device, source in TARGETS.items() if source in allowed]


def read(link: connection.Link) -> dict[str, Any]:
    """Return ``{"boot_device": str | None, "persistent": bool | None}`` as the BMC has it."""
    boot = _boot(link.system())
    enabled = boot.get("BootSourceOverrideEnabled")
    if enabled in {None, "Disabled"}:
        return {"boot_device": None, "persistent": None}
    device = DEVICES.get(str(boot.get("BootSourceOverrideTarget")))
    return {"boot_device": device, "persistent": enabled == ALWAYS.value}


def choose(task: base.Task, device: str, *, persistent: bool) -> None:
    """Set the device; one the BMC will not keep for good is kept in a note instead.

    :raises errors.InvalidParameter: the system does not offer that device.
    :raises errors.HardwareError: see `connection.call`.
    """
    kept = connection.call(
        task, lambda link: _choose(link, device, persistent=persistent), read=False
    )
    if persistent:
        task.keep(NOTE, None if kept else device)


def restore(task: base.Task) -> None:
    """Set a device kept in a note for the coming boot, unless another was chosen for that one."""
    device = task.recall(NOTE)
    if device is not None:
        connection.call(task, lambda link: _restore(link, device), read=False)


def set_mode(link: connection.Link, mode: str) -> None:
    """Set the boot mode; nothing is sent if it is so already."""
    system = link.system()
    boot = _boot(system)
    if boot.get("BootSourceOverrideMode") == MODES[mode].value:
        return
    rest: dict[str, Any] = {}
    if _wants_all(system):
        rest = {
            "enabled": sushy.BootSourceOverrideEnabled(boot["BootSourceOverrideEnabled"]),
            "target": sushy.BootSource(boot["BootSourceOverrideTarget"]),
        }
    system.set_system_boot_options(mode=MODES[mode], **rest)


def mode_of(link: connection.Link) -> str | None:
    """Return ``bios``, ``uefi`` or None if the system does not say."""
    return MODE_NAMES.get(str(_boot(link.system()).get("BootSourceOverrideMode")))


def modes(link: connection.Link) -> list[str]:
    """Return the modes the system offers; both if it has a mode and does not say which."""
    boot = _boot(link.system())
    allowed = boot.get("BootSourceOverrideMode@Redfish.AllowableValues")
    if not isinstance(allowed, list):
        return list(MODES) if "BootSourceOverrideMode" in boot else []
    return [name for name, mode in MODES.items() if mode.value in allowed]


def _choose(link: connection.Link, device: str, *, persistent: bool) -> bool:
    """Set the device, if need be for one boot only; tell whether the BMC keeps it as asked."""
    system = link.system()
    offered = system.get_allowed_system_boot_source_values()
    if TARGETS[device] not in offered:
        names = ", ".join(name for name, source in TARGETS.items() if source in offered)
        reason = f"{device} is not offered by this machine, only {names or 'nothing'}"
        raise errors.InvalidParameter(path="boot_device", reason=reason)
    try:
        _send(system, device, ALWAYS if persistent else ONCE)
    except sushy.exceptions.HTTPError as error:
        if not (persistent and faults.is_refusal(error)):
            raise
        _send(link.system(), device, ONCE)
        return False
    return True


def _restore(link: connection.Link, device: str) -> None:
    system = link.system()
    if _boot(system).get("BootSourceOverrideEnabled") != ONCE.value:
        _send(system, device, ONCE)


def _send(system: Any, device: str, enabled: sushy.BootSourceOverrideEnabled) -> None:
    mode = _boot(system).get("BootSourceOverrideMode") if _wants_all(system) else None
    system.set_system_boot_options(
        target=TARGETS[device],
        enabled=enabled,
        mode=sushy.BootSourceOverrideMode(mode) if mode else None,
    )


def _boot(system: Any) -> dict[str, Any]:
    """Return the Boot object, with what a BMC only shows in its settings (sushy reads both)."""
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


def _wants_all(system: Any) -> bool:
    return str(system.manufacturer or "").lower() in WHOLE_BOOT
