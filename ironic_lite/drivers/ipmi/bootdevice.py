"""What a machine boots from: sent to its BMC, and for forgetful BMCs kept and sent again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ironic_lite import config, errors
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import flags, tool, vendors

LOG = logging.getLogger(__name__)

NOTE = "ipmi_boot_device"
"""Where the devices are kept that a forgetful BMC is told before a power on: ``{"always": ...,
"next": ...}``, each a device or missing."""

MODES = ("bios", "uefi")


def choose(task: base.Task, device: str, *, persistent: bool) -> None:
    """Tell the BMC; with ipmi_force_boot_device, also keep it for the coming power on.

    :param device: one of ``flags.DEVICES``.
    :raises errors.HardwareError: see `tool.run`.
    """
    _send(task, device, persistent=persistent)
    if not tool.settings(task).force_boot_device:
        task.keep(NOTE, None)
    elif persistent:
        task.keep(NOTE, {"always": device})
    else:
        task.keep(NOTE, {**task.recall(NOTE, {}), "next": device})


def restore(task: base.Task) -> None:
    """Tell a forgetful BMC again, before a power on, what was chosen; for one boot, only once."""
    kept: Mapping[str, str] = task.recall(NOTE, {})
    if not kept or not tool.settings(task).force_boot_device:
        return
    coming, always = kept.get("next"), kept.get("always")
    device = coming or always
    if device is not None:
        _send(task, device, persistent=coming is None)
    if coming is not None:
        task.keep(NOTE, {"always": always} if always is not None else None)


def read(task: base.Task) -> dict[str, Any]:
    """Return ``{"boot_device": str | None, "persistent": bool | None}``."""
    kept: Mapping[str, str] = task.recall(NOTE, {})
    if kept and tool.settings(task).force_boot_device:
        coming = kept.get("next")
        return {"boot_device": coming or kept.get("always"), "persistent": coming is None}
    try:
        return flags.read(tool.run(task, flags.READ))
    except ValueError as why:
        raise errors.BmcBadAnswer(address=tool.settings(task).address, reason=str(why)) from None


def mode(node: base.Node) -> str:
    """Return in which mode the machine boots: ``bios`` or ``uefi``.

    The capability ``boot_mode`` of instance_info comes first, then that of properties, then the
    node's boot_mode, then [deploy]default_boot_mode.

    :raises errors.InvalidParameter: a capability is neither.
    """
    for field in ("instance_info", "properties"):
        value = _capability(getattr(node, field) or {}, "boot_mode")
        if value is None:
            continue
        if value not in MODES:
            reason = f"boot_mode {value!r} is not one of {', '.join(MODES)}"
            raise errors.InvalidParameter(path=f"{field}/capabilities", reason=reason)
        return value
    return node.boot_mode or str(config.CONF.deploy.default_boot_mode)


def _capability(values: Mapping[str, Any], name: str) -> str | None:
    """Return a capability from ``{"a": "x"}``, or from ``"a:x,b:y"``."""
    given = values.get("capabilities")
    if isinstance(given, str):
        pairs = (item.partition(":") for item in given.split(","))
        given = {key.strip(): value.strip() for key, _, value in pairs}
    value = given.get(name) if isinstance(given, Mapping) else None
    return None if value is None else str(value).lower()


def _send(task: base.Task, device: str, *, persistent: bool) -> None:
    node = tool.settings(task)
    chosen = mode(task.node)
    maker = vendors.known(task) if flags.quirky(chosen, device) else None
    keep = node.disable_boot_timeout
    if config.CONF.ipmi.disable_boot_timeout if keep is None else keep:
        _disable_timeout(task)
    tool.run(task, flags.write(device, mode=chosen, persistent=persistent, vendor=maker))


def _disable_timeout(task: base.Task) -> None:
    """Ask that the device be kept until the next boot, however late; not every BMC knows how."""
    try:
        tool.run(task, flags.KEEP)
    except (errors.BmcUnreachable, errors.BmcAccessDenied):
        raise
    except errors.HardwareError as refusal:
        LOG.warning(
            "Node %s: its BMC may forget the boot device within a minute; set "
            "ipmi_disable_boot_timeout to false if that is known. %s",
            task.node.uuid,
            refusal,
        )
