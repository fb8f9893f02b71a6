"""Switching machines on and off."""

from __future__ import annotations

import abc

from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task

POWER_ON = "power on"
POWER_OFF = "power off"
REBOOT = "rebooting"
SOFT_REBOOT = "soft rebooting"
SOFT_POWER_OFF = "soft power off"


class Power(Interface, abc.ABC):
    """Switching machines on and off.

    A step that calls these also sets ``task.node.power_state``: what the database says is what the
    power sync brings the machine back to.
    """

    kind = "power"

    @abc.abstractmethod
    def get_power_state(self, task: Task) -> str | None:
        """Ask the hardware: ``power on`` or ``power off``; never guess.

        None: the machine answered, and is between the two or does not say which. The power sync
        then leaves node and machine as they are; silence is an error, which it counts.

        :raises errors.HardwareError: no answer, or not a usable one.
        """

    @abc.abstractmethod
    def set_power_state(self, task: Task, target: str, timeout: float | None = None) -> None:
        """Bring the power to ``target`` (on, off, soft power off) and return when it is there.

        :param timeout: seconds; None takes the configured one.
        :raises errors.PowerFailure: it did not get there in time.
        """

    @abc.abstractmethod
    def reboot(self, task: Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Power off (softly if asked) and on again; ends with the power on."""

    def get_supported_power_states(self, task: Task) -> tuple[str, ...]:
        """Return the targets this driver accepts."""
        return (POWER_ON, POWER_OFF, REBOOT)

    def supports_power_sync(self, task: Task) -> bool:
        """Tell whether the periodic power comparison makes sense."""
        return True
