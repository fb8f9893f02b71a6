"""Boot mode and boot device of a machine, as its node has them."""

from __future__ import annotations

import logging
import re

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import vocabulary
from ironic_lite.drivers import base, settings

LOG = logging.getLogger(__name__)

PLACES = ("instance_info", "properties")
"""Fields with capabilities, in order of precedence."""

_OWN_ORDER = re.compile(r"\blenovo\b", re.IGNORECASE)


def capability(values: JsonView, name: str) -> str | None:
    """Return a capability of ``instance_info`` or ``properties``, in lower case."""
    found = vocabulary.get_capability(values.get("capabilities"), name)
    return None if found is None else found.lower()


def wanted(node: base.Node) -> str:
    """Return the boot mode of a node: ``bios`` or ``uefi``.

    Precedence: the capability ``boot_mode`` of ``instance_info``, that of ``properties``, the
    node's ``boot_mode``, ``[deploy]default_boot_mode``. Secure boot needs UEFI.

    :raises errors.InvalidParameter: a capability is invalid, or the two differ.
    """
    said = {place: _stated_mode(place, getattr(node, place) or {}) for place in PLACES}
    first, second = (said[place] for place in PLACES)
    if first and second and first != second:
        reason = (
            f"boot_mode {first} differs from the {second} of properties/capabilities; "
            "change or remove one of them"
        )
        raise errors.InvalidParameter(path="instance_info/capabilities", reason=reason)
    recorded = node.boot_mode if node.boot_mode in base.BOOT_MODES else None
    return first or second or recorded or str(config.CONF.deploy.default_boot_mode)


def require_uefi(node: base.Node, *, instead: str) -> None:
    """Reject a node in BIOS mode, whose boot interface needs UEFI.

    :param instead: a boot interface for BIOS mode.
    :raises errors.InvalidParameter: naming ``properties/capabilities``.
    """
    if wanted(node) != "uefi":
        reason = (
            f"{node.boot_interface} boots in UEFI mode only: set boot_mode:uefi in "
            f"properties/capabilities, or boot_interface {instead}"
        )
        raise errors.InvalidParameter(path="properties/capabilities", reason=reason)


def _stated_mode(place: str, values: JsonView) -> str | None:
    mode = capability(values, "boot_mode")
    secure = capability(values, "secure_boot") == "true"
    if mode is None:
        return "uefi" if secure else None
    if mode not in base.BOOT_MODES:
        reason = f"boot_mode {mode!r} is not one of {', '.join(base.BOOT_MODES)}"
        raise errors.InvalidParameter(path=f"{place}/capabilities", reason=reason)
    if mode == "bios" and secure:
        raise errors.InvalidParameter(
            path=f"{place}/capabilities", reason="secure_boot needs boot_mode uefi"
        )
    return mode


def bring(task: base.Task, mode: str) -> None:
    """Set the machine's boot mode if it reports a different one.

    :raises errors.HardwareError: the BMC refused, or did not apply it in time.
    """
    management = task.driver.management
    try:
        now = management.get_boot_mode(task)
    except errors.UnsupportedDriverExtension:
        return
    if now is None or now == mode:
        return
    LOG.info("Node %s: changing its boot mode from %s to %s", task.node.uuid, now, mode)
    management.set_boot_mode(task, mode)
    task.node.boot_mode = mode


def secure(task: base.Task, *, on: bool) -> None:
    """Switch secure boot for an instance that requires it: ``secure_boot`` of its capabilities.

    A machine whose instance does not require it keeps its setting.

    :raises errors.HardwareError: the BMC refused, or did not apply it in time.
    """
    if capability(task.node.instance_info or {}, "secure_boot") != "true":
        return
    management = task.driver.management
    try:
        if not on and management.get_secure_boot_state(task) is not True:
            return  # so an instance that could not be started for lack of a licence can be deleted
        management.set_secure_boot_state(task, on)
    except errors.UnsupportedDriverExtension as why:
        LOG.warning("Node %s: switch secure boot by hand: %s", task.node.uuid, why)
        return
    task.node.secure_boot = on


def keeps_own_order(node: base.Node, vendor: object) -> bool:
    """Return whether the firmware of a machine finds an installed system only by its own order.

    In UEFI mode, a persistent boot device hides the entry of an installed system on Lenovo.

    :param vendor: of the machine, if known.
    """
    return wanted(node) == "uefi" and _OWN_ORDER.search(str(vendor)) is not None


_PERSISTENCE = {"Always": True, "Never": False, "Default": None}


def _read_persistence(value: object) -> bool | None:
    if isinstance(value, str) and value in _PERSISTENCE:
        return _PERSISTENCE[value]
    try:
        return settings.flag(value) or None  # false has never had an effect in Ironic
    except ValueError:
        raise ValueError(f"must be one of {', '.join(_PERSISTENCE)}") from None


_FORCED = "force_persistent_boot_device"
FIELDS: settings.DriverFields = {
    _FORCED: settings.DriverField(
        _read_persistence,
        "Whether the service sets boot devices for all boots: Always, Never, or Default, which "
        "sets the device of the instance for all boots and each other one for the next boot.",
    ),
}
"""The key of driver_info about boot devices."""


def persists(node: base.Node, persistent: bool) -> bool:
    """Return whether to set a boot device for all boots, where the node may decide otherwise."""
    forced: bool | None = settings.values(FIELDS, node.driver_info).get(_FORCED)
    return persistent if forced is None else forced


def settle(task: base.Task, device: str, *, persistent: bool) -> None:
    """Set a boot device, unless the machine's devices are set by hand."""
    persistent = persists(task.node, persistent)
    try:
        task.driver.management.set_boot_device(task, device, persistent=persistent)
    except errors.UnsupportedDriverExtension:
        LOG.info("Node %s: make sure by hand that it boots from %s", task.node.uuid, device)
