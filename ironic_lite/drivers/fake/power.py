"""Fake power interface, without hardware."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage

STATE = "fake_power_state"

_ENDS = {
    base.POWER_ON: base.POWER_ON,
    base.POWER_OFF: base.POWER_OFF,
    base.SOFT_POWER_OFF: base.POWER_OFF,
    base.REBOOT: base.POWER_ON,
    base.SOFT_REBOOT: base.POWER_ON,
}
"""Targets, and the states in which they end."""


class FakePower(stage.Staged, base.Power):
    """Stores the power state on the node. A new machine is off (conflict C36)."""

    def get_power_state(self, task: base.Task) -> str | None:
        """Return what was last set, ``power off`` at first.

        :raises errors.HardwareError: driver_info/fake_fail_power says so.
        """
        message = stage.told(task).fail_power
        if message is not None:
            raise errors.HardwareError(reason=message)
        state: str = task.recall(STATE, base.POWER_OFF)
        return state

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        """Remember the state that ``target`` ends in.

        :raises errors.InvalidParameter: there is no such target.
        :raises errors.PowerFailure: driver_info/fake_fail_power says so.
        """
        if target not in _ENDS:
            raise errors.InvalidParameter(
                path="target", reason=f"{target!r} is not one of {', '.join(_ENDS)}"
            )
        message = stage.told(task).fail_power
        if message is not None:
            raise errors.PowerFailure(target=target, reason=message)
        task.keep(STATE, _ENDS[target])

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """End with the power on.

        :raises errors.PowerFailure: driver_info/fake_fail_power says so.
        """
        self.set_power_state(task, base.SOFT_REBOOT if soft else base.REBOOT, timeout)

    def get_supported_power_states(self, task: base.Task) -> tuple[str, ...]:
        """Return all targets there are."""
        return tuple(_ENDS)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=(), restarts=1)
    def cycle(self, task: base.Task) -> None:
        """Switch the machine off and on again."""
        self.reboot(task)
        task.node.power_state = base.POWER_ON
