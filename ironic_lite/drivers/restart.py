"""The step that restarts a BMC and waits until it answers again, whatever the BMC speaks."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from ironic_lite import clock, errors
from ironic_lite.drivers import base

NOTE = "bmc_reset"
"""What is kept of a restart: ``until`` (seconds since the epoch) the BMC must be back; ``looks``,
how often it has answered since without having been seen silent."""

SECONDS = 900.0
"""A BMC that starts takes one to five minutes; after this long it will not come."""

PAUSE = 15.0
"""Seconds before the first and between further looks whether it is back; it takes some to go."""

LOOKS = 4
"""A BMC that was never seen silent is back once it has answered so often: one may go down a minute
after it was told to, or so shortly that nobody sees it."""

_STEP = "reset_bmc"


class RestartingManagement(base.Management, abc.ABC):
    """A management interface with the step ``reset_bmc``."""

    @abc.abstractmethod
    def restart_bmc(self, task: base.Task) -> None:
        """Tell the BMC to restart, and do not wait for it.

        :raises errors.HardwareError: it does not take that.
        :raises errors.UnsupportedDriverExtension: it cannot be told to.
        """

    @abc.abstractmethod
    def ask_bmc(self, task: base.Task, seconds: float) -> None:
        """Ask the BMC anything, in so many seconds.

        :raises errors.HardwareError: it does not answer, or not yet as it should.
        """

    @base.clean_step(priority=0, requires_ramdisk=False)
    @base.service_step(requires_ramdisk=False, rerunnable=True)
    def reset_bmc(self, task: base.Task) -> base.Outcome:
        """Restart the BMC and wait until it answers again; the machine itself keeps running.

        :raises errors.HardwareError, errors.UnsupportedDriverExtension: see ``restart_bmc``.
        """
        self.restart_bmc(task)
        task.keep(NOTE, {"until": clock.stamp() + SECONDS, "looks": 0})
        task.wake_after(PAUSE)
        return base.WAIT

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome:
        """Say whether the BMC is back.

        :raises errors.StepFailed: it is not, and had time enough.
        """
        if step["step"] != _STEP:
            return super().poll_step(task, kind, step)
        known = task.recall(NOTE) or {"until": 0.0, "looks": 0}
        try:
            self.ask_bmc(task, PAUSE)
        except (errors.HardwareError, errors.InvalidParameter) as why:
            # One that starts may list no system yet, or not the one that driver_info names.
            if clock.over(known["until"], SECONDS):
                reason = f"the BMC did not come back within {SECONDS:g} s: {why}"
                raise errors.StepFailed(step=f"{self.kind}.{_STEP}", reason=reason) from None
            return _look_again(task, {**known, "looks": LOOKS})
        if known["looks"] + 1 < LOOKS:
            return _look_again(task, {**known, "looks": known["looks"] + 1})
        task.keep(NOTE, None)
        return base.DONE


def _look_again(task: base.Task, known: dict[str, Any]) -> base.Outcome:
    task.keep(NOTE, known)
    task.wake_after(PAUSE)
    return base.WAIT
