"""Interface for the management functions of a BMC, besides power."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite.core.json_types import Json
from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task


class Management(Interface):
    """Boot device, boot mode, sensors, indicators and virtual media."""

    kind = "management"

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        """Return the names accepted by ``set_boot_device``."""
        raise self.unsupported(task, "get_supported_boot_devices")

    def set_boot_device(self, task: Task, device: str, *, persistent: bool = False) -> None:
        """Set the device of the next boot, or of all boots if ``persistent``."""
        raise self.unsupported(task, "set_boot_device")

    def get_boot_device(self, task: Task) -> Json:
        """Return ``{"boot_device": str | None, "persistent": bool | None}``."""
        raise self.unsupported(task, "get_boot_device")

    def get_supported_boot_modes(self, task: Task) -> list[str]:
        """Return the modes among ``bios`` and ``uefi`` that can be set."""
        raise self.unsupported(task, "get_supported_boot_modes")

    def set_boot_mode(self, task: Task, mode: str) -> None:
        """Set ``bios`` or ``uefi``."""
        raise self.unsupported(task, "set_boot_mode")

    def get_boot_mode(self, task: Task) -> str | None:
        """Return ``bios``, ``uefi`` or None when unknown."""
        raise self.unsupported(task, "get_boot_mode")

    def get_secure_boot_state(self, task: Task) -> bool | None:
        """Return whether the firmware checks signatures, None if unknown."""
        raise self.unsupported(task, "get_secure_boot_state")

    def set_secure_boot_state(self, task: Task, state: bool) -> None:
        """Switch secure boot on (True) or off, and wait until the BMC shows it.

        :raises errors.HardwareError: the BMC refused, or did not apply it in time.
        """
        raise self.unsupported(task, "set_secure_boot_state")

    def inject_nmi(self, task: Task) -> None:
        """Send the machine a non-maskable interrupt at once."""
        raise self.unsupported(task, "inject_nmi")

    def get_supported_indicators(
        self, task: Task, component: str | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return the lamps: ``{component: {indicator: {"readonly": bool, "states": [str]}}}``.

        :param component: one of ``COMPONENTS``, to list only its lamps; None for all. A missing
            component is left out.
        """
        raise self.unsupported(task, "get_supported_indicators")

    def get_indicator_state(self, task: Task, component: str, indicator: str) -> str:
        """Return one of ``INDICATOR_STATES``, or ``unknown``.

        :raises errors.InvalidParameter: there is no such ``component`` or ``indicator``.
        """
        raise self.unsupported(task, "get_indicator_state")

    def set_indicator_state(self, task: Task, component: str, indicator: str, state: str) -> None:
        """Set a lamp to one of ``INDICATOR_STATES``.

        :raises errors.InvalidParameter: no such ``component`` or ``indicator``, or the lamp does
            not have this ``state``.
        """
        raise self.unsupported(task, "set_indicator_state")

    def get_sensors_data(self, task: Task) -> dict[str, dict[str, Json]]:
        """Return the sensor values: ``{type: {sensor: {fact: JSON value}}}``.

        :raises errors.HardwareError: no answer, or an unusable one.
        """
        raise self.unsupported(task, "get_sensors_data")

    def detect_vendor(self, task: Task) -> str | None:
        """Return the vendor's name as the BMC reports it, None if it reports none."""
        raise self.unsupported(task, "detect_vendor")

    def get_mac_addresses(self, task: Task) -> list[str]:
        """Return the addresses of the machine's network cards, ``aa:bb:cc:dd:ee:ff``."""
        raise self.unsupported(task, "get_mac_addresses")

    def get_virtual_media(self, task: Task) -> list[Json]:
        """Return the virtual drives with all facts of the BMC.

        Each is ``{"media_types": [str], "inserted": bool, "image": str | None, ...}``, with keys in
        lower case with underscores. Image URLs come without passwords.
        """
        raise self.unsupported(task, "get_virtual_media")

    def attach_virtual_media(self, task: Task, device_type: str, image_url: str) -> None:
        """Put an image into a virtual drive, replacing its medium.

        :param device_type: one of ``VIRTUAL_MEDIA``.
        :param image_url: of ``IMAGE_SCHEMES``; the BMC reads it, not this service.
        :raises errors.InvalidParameter: the machine has no such ``device_type``, or its BMC cannot
            read this ``image_url``.
        """
        raise self.unsupported(task, "attach_virtual_media")

    def detach_virtual_media(self, task: Task, device_types: Sequence[str] | None = None) -> None:
        """Empty the virtual drives of these types, None for all; empty ones may be skipped.

        :param device_types: of ``VIRTUAL_MEDIA``.
        """
        raise self.unsupported(task, "detach_virtual_media")
