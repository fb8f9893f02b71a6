"""Boot source override, set again before each boot for BMCs that cannot persist it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import connection, faults, jobs, quirks, resources
from ironic_lite.drivers.redfish.bmc import library as sushy

NOTE = "redfish_boot_device"
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

ONCE, ALWAYS = "Once", "Continuous"
_STICK = "Usb"


def devices(link: connection.Link) -> list[str]:
    """Return the devices that the system offers; all known ones if it does not list them."""
    return list(_offered_devices(_fresh_system(link)))


def read(link: connection.Link) -> Json:
    """Return ``{"boot_device": str | None, "persistent": bool | None}`` from the BMC.

    It is the device of the next boot, also if the change waits in the settings resource.
    """
    boot = _next_boot(link, _fresh_system(link))
    enabled = boot.get("BootSourceOverrideEnabled")
    if enabled in {None, "Disabled"}:
        return {"boot_device": None, "persistent": None}
    device = DEVICES.get(str(boot.get("BootSourceOverrideTarget")))
    return {"boot_device": device, "persistent": enabled == ALWAYS}


def choose(task: base.Task, device: str, *, persistent: bool) -> None:
    """Set the device; if the BMC cannot persist it, keep it in a note.

    :raises errors.InvalidParameter: the system does not offer that device.
    :raises errors.HardwareError: see `connection.call`.
    """
    kept = True

    def choose_it(link: connection.Link) -> None:
        nonlocal kept
        kept = _choose_device(link, device, persistent=persistent)

    _change_boot(task, choose_it, f"set the boot device {device}")
    if persistent:
        task.keep(NOTE, None if kept else device)


def _change_boot(task: base.Task, change: Callable[[connection.Link], None], what: str) -> None:
    """Change the Boot object, and follow the BMC's task, which may wait for the next boot.

    :raises errors.HardwareError: the task failed; see `connection.call`.
    """
    uris = connection.call(task, lambda link: jobs.begun(link, lambda: change(link)), read=False)
    jobs.follow(task, uris, what, jobs.SHORT_SECONDS, waits=True)


def choose_stick(task: base.Task) -> None:
    """Boot once from USB, for BMCs that present media only as USB sticks.

    :raises errors.HardwareError: see `connection.call`.
    """

    def choose_it(link: connection.Link) -> None:
        _send_override(link, _fresh_system(link), _STICK, ONCE)

    _change_boot(task, choose_it, f"set the boot device {_STICK}")


def restore(task: base.Task) -> None:
    """Set a noted device for the next boot, unless another device was chosen for that boot."""
    device = task.recall(NOTE)
    if device is not None:
        what = f"set the boot device {device}"
        _change_boot(task, lambda link: _restore_override(link, device), what)


def set_mode(link: connection.Link, mode: str) -> list[str] | None:
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
    rest = (
        _companion_values(_next_boot(link, system))
        if _has_quirk(quirks.WHOLE_BOOT, link, system)
        else {}
    )
    try:
        rest["mode"] = sushy.BootSourceOverrideMode(MODES[mode])
        return jobs.begun(link, lambda: system.set_system_boot_options(**rest))
    except sushy.exceptions.HTTPError as error:
        if before is None and faults.is_refusal(error):
            return None
        raise


def mode_of(link: connection.Link) -> str | None:
    """Return ``bios``, ``uefi``, or None if the system does not report it."""
    return MODE_NAMES.get(str(_boot_object(_fresh_system(link)).get("BootSourceOverrideMode")))


def modes(link: connection.Link) -> list[str]:
    """Return the modes that the system offers; both if it has a mode and does not list them."""
    return _boot_modes(_next_boot(link, _fresh_system(link)))


def _boot_modes(boot: JsonView) -> list[str]:
    allowed = boot.get("BootSourceOverrideMode@Redfish.AllowableValues")
    if not isinstance(allowed, list):
        return list(MODES) if "BootSourceOverrideMode" in boot else []
    return [name for name, mode in MODES.items() if mode in allowed]


def _choose_device(link: connection.Link, device: str, *, persistent: bool) -> bool:
    """Set the device, if need be for one boot only; return whether the BMC persists it as asked."""
    system = _fresh_system(link)
    offered = _offered_devices(system)
    if device not in offered:
        names = ", ".join(offered) or "nothing"
        reason = f"{device} is not offered by this machine, only {names}"
        raise errors.InvalidParameter(path="boot_device", reason=reason)
    if offered[device] != TARGETS[device]:
        quirks.USB_CD.log(f"BMC {link.node.address}")
    try:
        _send_override(link, system, offered[device], ALWAYS if persistent else ONCE)
    except sushy.exceptions.HTTPError as error:
        if not (persistent and _refuses_persistence(error)):
            raise
        quirks.DEVICE_FOR_ONE_BOOT.log(f"BMC {link.node.address}")
        _send_override(link, _fresh_system(link), offered[device], ONCE)
        return False
    return True


def _refuses_persistence(error: sushy.exceptions.HTTPError) -> bool:
    """Return whether the BMC may accept the device for one boot; some answer 500 to Continuous."""
    broken = error.status_code in {HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.NOT_IMPLEMENTED}
    return faults.is_refusal(error) or (broken and not faults.is_busy(error))


def _restore_override(link: connection.Link, device: str) -> None:
    system = _fresh_system(link)
    if _boot_object(system).get("BootSourceOverrideEnabled") == ONCE:
        return
    boot = _next_boot(link, system)
    chosen = DEVICES.get(str(boot.get("BootSourceOverrideTarget")))
    if boot.get("BootSourceOverrideEnabled") != ONCE or chosen == device:
        _send_override(link, system, _offered_devices(system).get(device, TARGETS[device]), ONCE)


def _offered_devices(system: Any) -> dict[str, str]:
    """Return the devices that the system offers, each with the word for it."""
    allowed = {source.value for source in system.get_allowed_system_boot_source_values()}
    words = {device: (word, INSTEAD.get(device, word)) for device, word in TARGETS.items()}
    return {
        device: next(word for word in each if word in allowed)
        for device, each in words.items()
        if not allowed.isdisjoint(each)
    }


def _send_override(link: connection.Link, system: Any, target: str, enabled: str) -> None:
    boot = _next_boot(link, system)
    rest = _companion_values(boot) if _has_quirk(quirks.WHOLE_BOOT, link, system) else {}
    same = boot.get("BootSourceOverrideEnabled") == enabled
    if rest or not same or _has_quirk(quirks.REPEATED_DURATION, link, system):
        rest["enabled"] = sushy.BootSourceOverrideEnabled(enabled)
    system.set_system_boot_options(**{**rest, "target": sushy.BootSource(target)})
    mode = boot.get("BootSourceOverrideMode")
    if mode in MODE_NAMES and _fits(quirks.FORGOTTEN_MODE, link, system):
        _keep_mode(link, mode)


def _keep_mode(link: connection.Link, mode: str) -> None:
    """Set a boot mode again if it has changed with the boot device."""
    system = _fresh_system(link)
    if _next_boot(link, system).get("BootSourceOverrideMode") != mode:
        quirks.FORGOTTEN_MODE.log(f"BMC {link.node.address}")
        system.set_system_boot_options(mode=sushy.BootSourceOverrideMode(mode))


def _companion_values(boot: JsonView) -> Json:
    """Return the values of a Boot object that must accompany any change of it.

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
    place = resources.link(system.json, "@Redfish.Settings", "SettingsObject")
    if place is not None:
        with contextlib.suppress(sushy.exceptions.ResourceNotFoundError):
            waiting = resources.value(link.wire.document(place), "Boot")
            known = waiting.items() if isinstance(waiting, dict) else ()
            news = {name: value for name, value in known if value is not None}
            if any(boot.get(name, value) != value for name, value in news.items()):
                quirks.DEFERRED_BOOT.log(f"BMC {link.node.address}")
            boot.update(news)
    return boot


def _fresh_system(link: connection.Link) -> Any:
    """Return sushy's view of the system, read now."""
    system = link.system()
    if system.boot is not None and system.boot.allowed_values is None:
        # Sushy looks for a word in this list, and fails without a list.
        quirks.UNLISTED_DEVICES.log(f"BMC {link.node.address}")
        system.boot.allowed_values = []
    return system
