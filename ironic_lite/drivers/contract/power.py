"""Interface for power control."""

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
    """Power control of machines.

    A step that calls these methods also sets ``task.node.power_state``, because the power sync
    restores the state in the database.
    """

    kind = "power"

    @abc.abstractmethod
    def get_power_state(self, task: Task) -> str | None:
        """Read ``power on`` or ``power off`` from the hardware; never guess.

        None: the machine answered, but is between the two or does not report its state. The power
        sync then leaves node and machine unchanged. A missing answer is an error, which the power
        sync counts.

        :raises errors.HardwareError: no answer, or an unusable one.
        """

    @abc.abstractmethod
    def set_power_state(self, task: Task, target: str, timeout: float | None = None) -> None:
        """Switch the power to ``target`` (on, off, soft power off) and wait until it is reached.

        :param timeout: seconds; None takes the configured one.
        :raises errors.PowerFailure: the target was not reached in time.
        """

    @abc.abstractmethod
    def reboot(self, task: Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Power off (softly if asked) and on again; ends with the power on."""

    def get_supported_power_states(self, task: Task) -> tuple[str, ...]:
        """Return the targets this driver accepts."""
        return (POWER_ON, POWER_OFF, REBOOT)

    def supports_power_sync(self, task: Task) -> bool:
        """Return whether the power sync applies to this machine."""
        return True
