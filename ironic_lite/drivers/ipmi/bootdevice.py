"""Boot device by IPMI, stored and sent again for BMCs that forget it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import modes
from ironic_lite.drivers.ipmi import flags, tool, vendors

LOG = logging.getLogger(__name__)

NOTE = "ipmi_boot_device"
"""Key of the devices to send to a forgetful BMC before a power on: ``{"always": ..., "next":
...}``, each a device or missing."""


def choose(task: base.Task, device: str, *, persistent: bool) -> None:
    """Set the boot device; with ipmi_force_boot_device also store it for the next power on.

    :param device: one of ``flags.DEVICES``.
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
        return flags.read(tool.run(task, flags.READ))
    except ValueError as why:
        raise errors.BmcBadAnswer(address=tool.settings(task).address, reason=str(why)) from None


def _send_flags(task: base.Task, device: str, *, persistent: bool) -> None:
    node = tool.settings(task)
    chosen = modes.wanted(task.node)
    maker = vendors.known(task) if flags.quirky(chosen, device) else None
    keep = node.disable_boot_timeout
    if config.CONF.ipmi.disable_boot_timeout if keep is None else keep:
        _disable_timeout(task)
    words = flags.write(device, mode=chosen, persistent=persistent, vendor=maker)
    tool.run(task, words, patient=True)


def _disable_timeout(task: base.Task) -> None:
    """Ask the BMC to keep the device until the next boot; not every BMC supports this."""
    try:
        tool.run(task, flags.KEEP, patient=True)
    except (errors.BmcUnreachable, errors.BmcAccessDenied):
        raise
    except errors.HardwareError as refusal:
        LOG.warning(
            "Node %s: its BMC may forget the boot device within a minute; if that is fine, set "
            "ipmi_disable_boot_timeout to false. %s",
            task.node.uuid,
            refusal,
        )
