"""Fake management interface, without hardware."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage

DEVICE = "fake_boot_device"
MODE = "fake_boot_mode"
DEVICES = ("pxe", "disk", "cdrom", "bios", "safe", "wanboot", "iscsiboot", "floppy", "uefihttp")
MODES = base.BOOT_MODES
SECURE = "fake_secure_boot"
NMIS = "fake_nmis"
LAMPS = "fake_indicators"
MEDIA = "fake_virtual_media"
INDICATORS: Mapping[str, Mapping[str, JsonView]] = {
    "chassis": {"led-0": {"readonly": True, "states": ["off", "on"]}},
    "system": {"led": {"readonly": False, "states": ["blinking", "off", "on"]}},
}
"""The lamps of every fake machine."""


class FakeManagement(stage.Staged, base.Management):
    """Stores requested values on the node. A new machine boots from the network."""

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return all devices there are."""
        return list(DEVICES)

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Remember the device.

        :raises errors.InvalidParameter: naming ``boot_device``.
        """
        _one_of("boot_device", device, DEVICES)
        task.keep(DEVICE, {"boot_device": device, "persistent": persistent})

    def get_boot_device(self, task: base.Task) -> Json:
        """Return what was set last."""
        return dict(task.recall(DEVICE) or {"boot_device": "pxe", "persistent": False})

    def get_supported_boot_modes(self, task: base.Task) -> list[str]:
        """Return both."""
        return list(MODES)

    def set_boot_mode(self, task: base.Task, mode: str) -> None:
        """Remember the mode.

        :raises errors.InvalidParameter: naming ``boot_mode``.
        """
        _one_of("boot_mode", mode, MODES)
        stage.play_call(task, "management.set_boot_mode")
        task.keep(MODE, mode)

    def get_boot_mode(self, task: base.Task) -> str | None:
        """Return what was set last, None if nothing was."""
        mode: str | None = task.recall(MODE)
        return mode

    def get_secure_boot_state(self, task: base.Task) -> bool | None:
        """Return what was set last; a new machine does not check signatures."""
        state: bool = task.recall(SECURE, False)
        return state

    def set_secure_boot_state(self, task: base.Task, state: bool) -> None:
        """Remember the state.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        stage.play_call(task, "management.set_secure_boot_state")
        task.keep(SECURE, state)

    def inject_nmi(self, task: base.Task) -> None:
        """Count the interrupts.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        stage.play_call(task, "management.inject_nmi")
        task.keep(NMIS, task.recall(NMIS, 0) + 1)

    def get_supported_indicators(
        self, task: base.Task, component: str | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return a lamp that can be switched, and one that cannot."""
        return {
            part: {name: dict(facts) for name, facts in lamps.items()}
            for part, lamps in INDICATORS.items()
            if component in (None, part)
        }

    def get_indicator_state(self, task: base.Task, component: str, indicator: str) -> str:
        """Return what was set last, ``off`` at first.

        :raises errors.InvalidParameter: naming ``component`` or ``indicator``.
        """
        _indicator_facts(component, indicator)
        state: str = (task.recall(LAMPS) or {}).get(f"{indicator}@{component}", "off")
        return state

    def set_indicator_state(
        self, task: base.Task, component: str, indicator: str, state: str
    ) -> None:
        """Remember the state.

        :raises errors.InvalidParameter: naming ``component``, ``indicator`` or ``state``.
        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        lamp = _indicator_facts(component, indicator)
        if lamp["readonly"]:
            reason = f"{indicator} of {component} cannot be switched"
            raise errors.InvalidParameter(path="indicator", reason=reason)
        _one_of("state", state, lamp["states"])
        stage.play_call(task, "management.set_indicator_state")
        task.keep(LAMPS, {**(task.recall(LAMPS) or {}), f"{indicator}@{component}": state})

    def get_sensors_data(self, task: base.Task) -> dict[str, dict[str, Json]]:
        """Return one temperature.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        stage.play_call(task, "management.get_sensors_data")
        return {"Temperature": {"Inlet": {"Sensor Reading": "21 degrees C", "Status": "ok"}}}

    def detect_vendor(self, task: base.Task) -> str | None:
        """Return driver_info/fake_vendor."""
        return stage.told(task).vendor

    def get_mac_addresses(self, task: base.Task) -> list[str]:
        """Return what an inspection would find, too: driver_info/fake_ports."""
        return sorted(stage.told(task).ports)

    def get_virtual_media(self, task: base.Task) -> list[Json]:
        """Return one drive of each type, and what is in it."""
        held = task.recall(MEDIA) or {}
        return [
            {"media_types": [kind], "inserted": kind in held, "image": held.get(kind)}
            for kind in base.VIRTUAL_MEDIA
        ]

    def attach_virtual_media(self, task: base.Task, device_type: str, image_url: str) -> None:
        """Remember the image, but nothing secret of its address.

        :raises errors.InvalidParameter: naming ``device_type``.
        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        _one_of("device_type", device_type, base.VIRTUAL_MEDIA)
        stage.play_call(task, "management.attach_virtual_media")
        held = {**(task.recall(MEDIA) or {}), device_type: masking.address(image_url)}
        task.keep(MEDIA, held)

    def detach_virtual_media(
        self, task: base.Task, device_types: Sequence[str] | None = None
    ) -> None:
        """Forget the images.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        stage.play_call(task, "management.detach_virtual_media")
        gone = base.VIRTUAL_MEDIA if device_types is None else device_types
        held = task.recall(MEDIA) or {}
        task.keep(MEDIA, {kind: url for kind, url in held.items() if kind not in gone} or None)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=(), restarts=0)
    def reset_bmc(self, task: base.Task) -> None:
        """Restart the BMC; its settings for the machine stay."""

    @base.verify_step(priority=10, destroys=(), restarts=0)
    def verify_access(self, task: base.Task) -> None:
        """Show that the BMC can be spoken to.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``verify``.
        """
        stage.fail_verb(task, "verify")


def _indicator_facts(component: str, indicator: str) -> JsonView:
    _one_of("component", component, INDICATORS)
    _one_of("indicator", indicator, INDICATORS[component])
    return INDICATORS[component][indicator]


def _one_of(path: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        reason = f"{value!r} is not one of {', '.join(known)}"
        raise errors.InvalidParameter(path=path, reason=reason)
