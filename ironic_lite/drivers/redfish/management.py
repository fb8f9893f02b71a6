"""The management interface of Redfish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base, bmc_reset
from ironic_lite.drivers.redfish import bmc_clock, indicators, interface, override, secure_boot
from ironic_lite.drivers.redfish.bmc import connection, faults, pending_settings, resources
from ironic_lite.drivers.redfish.bmc import library as sushy
from ironic_lite.drivers.redfish.inventory import survey
from ironic_lite.drivers.redfish.media import virtual_drives
from ironic_lite.drivers.redfish.sensors import reading

_RESETS = ("GracefulRestart", "ForceRestart")


class RedfishManagement(interface.RedfishInterface, bmc_reset.RestartingManagement):
    """The management interface ``redfish``."""

    # -- boot device and mode -------------------------------------------------------------

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return the devices among pxe, disk, cdrom, bios and uefihttp that the machine offers."""
        return connection.call(task, override.devices)

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Set the device of the next boot or of all boots, also if the BMC cannot persist it.

        :raises errors.InvalidParameter: the machine does not offer that device.
        """
        if device not in override.TARGETS:
            reason = f"{device!r} is not one of {', '.join(override.TARGETS)}"
            raise errors.InvalidParameter(path="boot_device", reason=reason)
        override.choose(task, device, persistent=persistent)

    def get_boot_device(self, task: base.Task) -> Json:
        """Return device and persistence; a device set again before each boot is persistent."""
        found = connection.call(task, override.read)
        kept = task.recall(override.NOTE)
        # The BMC of such a node supports only Once, so another device there is meant for one boot.
        if kept is not None and found["boot_device"] in {None, kept}:
            return {"boot_device": kept, "persistent": True}
        return found

    def get_supported_boot_modes(self, task: base.Task) -> list[str]:
        """Return the modes among bios and uefi that the machine offers."""
        return connection.call(task, override.modes)

    def set_boot_mode(self, task: base.Task, mode: str) -> None:
        """Set bios or uefi, and wait until the BMC shows it; see `pending_settings`.

        :raises errors.InvalidParameter: the mode does not exist, or the machine does not offer it.
        :raises errors.UnsupportedDriverExtension: the BMC neither shows nor accepts a mode.
        """
        if mode not in override.MODES:
            reason = f"{mode!r} is not one of {', '.join(override.MODES)}"
            raise errors.InvalidParameter(path="boot_mode", reason=reason)
        uris = connection.call(task, lambda link: override.set_mode(link, mode), read=False)
        if uris is None:
            raise resources.lacking(task, "set_boot_mode", "it does not show or accept a boot mode")
        pending_settings.see_through(
            task, f"boot mode {mode}", lambda task: self.get_boot_mode(task) in {mode, None}, uris
        )

    def get_boot_mode(self, task: base.Task) -> str | None:
        """Return bios or uefi; None if the machine does not report it."""
        return connection.call(task, override.mode_of)

    # -- secure boot ----------------------------------------------------------------------

    def get_secure_boot_state(self, task: base.Task) -> bool | None:
        """Return whether secure boot is on, None if unknown; see `secure_boot.get`."""
        return secure_boot.get(task)

    def set_secure_boot_state(self, task: base.Task, state: bool) -> None:
        """Switch secure boot, and wait until the BMC shows it; see `secure_boot.switch`."""
        secure_boot.switch(task, state)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=("keys",), restarts=0)
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=("keys",), restarts=0)
    def reset_secure_boot_keys_to_default(self, task: base.Task) -> None:
        """Restore the vendor's keys, see `secure_boot.reset_keys`."""
        secure_boot.reset_keys(task, secure_boot.KEYS_DEFAULT)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=("keys",), restarts=0)
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=("keys",), restarts=0)
    def clear_secure_boot_keys(self, task: base.Task) -> None:
        """Delete all keys, see `secure_boot.reset_keys`; no signature is checked until new keys
        come."""
        secure_boot.reset_keys(task, secure_boot.KEYS_DELETE)

    # -- the machine ----------------------------------------------------------------------

    def inject_nmi(self, task: base.Task) -> None:
        """Send the machine a non-maskable interrupt.

        :raises errors.UnsupportedDriverExtension: the BMC offers no reset of type Nmi.
        """
        if not connection.call(task, _inject_nmi, read=False):
            raise resources.lacking(task, "inject_nmi", "it offers no reset of type Nmi")

    def get_supported_indicators(
        self, task: base.Task, component: str | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return the lamps of system, chassis and disks, named by UUID or ``storage:drive``."""
        return indicators.supported(task, component)

    def get_indicator_state(self, task: base.Task, component: str, indicator: str) -> str:
        """Return the state of a lamp, see `indicators.state`."""
        return indicators.state(task, component, indicator)

    def set_indicator_state(
        self, task: base.Task, component: str, indicator: str, state: str
    ) -> None:
        """Switch a lamp, see `indicators.switch`."""
        indicators.switch(task, component, indicator, state)

    def get_sensors_data(self, task: base.Task) -> dict[str, dict[str, Json]]:
        """Return fans, temperatures, power supplies and drives, see `sensors.get`."""
        return reading.get(task)

    def detect_vendor(self, task: base.Task) -> str | None:
        """Return the vendor of the BMC's service, else of the machine; None if unknown."""
        vendor = resources.text(resources.root(task), "Vendor")
        return vendor or resources.text(resources.system(task), "Manufacturer")

    def get_mac_addresses(self, task: base.Task) -> list[str]:
        """Return the MAC addresses in lower case, of disabled cards only if none is enabled.

        :raises errors.UnsupportedDriverExtension: the BMC reports no address.
        """
        with survey.Survey(task) as read:
            found = [card["mac_address"] for card in read.interfaces()]
        if not found:
            why = "; ".join(["it lists no MAC address of a card", *read.remarks, *read.faults])
            raise resources.lacking(task, "get_mac_addresses", why)
        return found

    # -- virtual media --------------------------------------------------------------------

    def get_virtual_media(self, task: base.Task) -> list[Json]:
        """Return the virtual drives, see `virtual_drives.get`."""
        return virtual_drives.get(task)

    def attach_virtual_media(self, task: base.Task, device_type: str, image_url: str) -> None:
        """Put an image into a virtual drive, see `virtual_drives.attach`."""
        virtual_drives.attach(task, device_type, image_url)

    def detach_virtual_media(
        self, task: base.Task, device_types: Sequence[str] | None = None
    ) -> None:
        """Empty virtual drives, see `virtual_drives.detach`."""
        virtual_drives.detach(task, device_types)

    # -- the BMC itself -------------------------------------------------------------------

    def restart_bmc(self, task: base.Task) -> None:
        """Restart the managers of the system; `bmc_reset` waits for them.

        :raises errors.UnsupportedDriverExtension: the BMC offers no restart.
        """
        if not connection.call(task, _reset_bmc, read=False):
            raise self.unsupported(task, "reset_bmc on this BMC: it offers no Manager.Reset")

    @base.clean_step(
        priority=0, argsinfo=bmc_clock.ARGS, requires_ramdisk=False, destroys=(), restarts=0
    )
    def set_bmc_clock(
        self,
        task: base.Task,
        target_datetime: str | None = None,
        datetime_local_offset: str | None = None,
    ) -> None:
        """Set the clock of the BMC, see `bmc_clock.set_time`."""
        bmc_clock.set_time(task, target_datetime, datetime_local_offset)

    def ask_bmc(self, task: base.Task, seconds: float) -> None:
        """Read the machine's power from the BMC, within the time limit of any request."""
        connection.call(task, connection.Link.power_word)


def _inject_nmi(link: connection.Link) -> bool:
    """Send the interrupt; return False if the system does not support it."""
    system = link.system()
    if sushy.ResetType.NMI not in system.get_allowed_reset_system_values():
        return False
    system.reset_system(sushy.ResetType.NMI)
    return True


def _reset_bmc(link: connection.Link) -> bool:
    """Restart the managers of the system; return False if none supports it."""
    done = False
    for manager in link.system().managers:
        if "#Manager.Reset" not in (manager.json.get("Actions") or {}):
            continue
        known = {reset.value for reset in manager.get_allowed_reset_manager_values()}
        best = next((reset for reset in _RESETS if reset in known), None)
        if best is not None:
            done = True
            if not _restart_bmc(manager, sushy.ResetType(best)):
                break
    if done:
        # The sessions of a BMC end with its restart.
        link.forget()
    return done


def _restart_bmc(manager: Any, how: sushy.ResetType) -> bool:
    """Restart a BMC; return False if it went silent before it answered, because it obeyed."""
    try:
        manager.reset_manager(how)
    except (sushy.exceptions.ConnectionError, OSError) as error:
        if not faults.is_answer_lost(error):
            raise
        return False
    return True
