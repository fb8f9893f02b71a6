"""Power by the outlet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base

from . import rack

RESTS = "outlet_rests"


class OutletPower(rack.Racked, base.Power):
    """Switches the outlet, and lets the machine rest."""

    def get_power_state(self, task: base.Task) -> str:
        """Ask the rack."""
        return base.POWER_ON if rack.call(task)["on"] else base.POWER_OFF

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        """Switch the outlet."""
        if target not in {base.POWER_ON, base.POWER_OFF}:
            raise self.unsupported(task, target)
        rack.call(task, on=target == base.POWER_ON)

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Off and on."""
        self.set_power_state(task, base.POWER_OFF)
        self.set_power_state(task, base.POWER_ON)

    @base.clean_step(
        priority=0,
        requires_ramdisk=False,
        argsinfo={"seconds": base.Arg("How long, a number from 0 to 600.", required=True)},
    )
    def rest(self, task: base.Task, seconds: float) -> base.Outcome:
        """Leave the machine without power for a while, and no thread waiting for it."""
        if not isinstance(seconds, int | float) or not 0 <= seconds <= 600:
            raise errors.CleanStepFailed(
                step="power.rest", reason=f"seconds: {seconds!r} is not from 0 to 600"
            )
        self.set_power_state(task, base.POWER_OFF)
        task.keep(RESTS, task.recall(RESTS, 0) + 1)
        task.wake_after(seconds)
        return base.WAIT

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome:
        """The rest is over."""
        self.set_power_state(task, base.POWER_ON)
        task.node.power_state = base.POWER_ON
        return base.DONE
