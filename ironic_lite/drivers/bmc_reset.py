"""Step that restarts a BMC and waits until it answers again, for any protocol."""

from __future__ import annotations

import abc

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base

NOTE = "bmc_reset"
"""Key of a running restart: ``until`` is the deadline (seconds since the epoch), ``looks`` the
number of answers if the BMC was never seen silent."""

SECONDS = 900.0
"""Time limit; a BMC takes one to five minutes to start."""

PAUSE = 15.0
"""Seconds before the first poll and between polls, as a BMC takes some time to go down."""

LOOKS = 4
"""Answers after which a BMC that was never seen silent counts as restarted. It may go down a minute
after the request, or too briefly for a poll to see it."""

_STEP = "reset_bmc"


class RestartingManagement(base.Management, abc.ABC):
    """A management interface with the step ``reset_bmc``."""

    @abc.abstractmethod
    def restart_bmc(self, task: base.Task) -> None:
        """Tell the BMC to restart, without waiting for it.

        :raises errors.HardwareError: the BMC refuses.
        :raises errors.UnsupportedDriverExtension: the BMC has no such request.
        """

    @abc.abstractmethod
    def ask_bmc(self, task: base.Task, seconds: float) -> None:
        """Send the BMC a read request with this time limit.

        :raises errors.HardwareError: the BMC does not answer, or not usably.
        """

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=(), restarts=0)
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=(), restarts=0)
    def reset_bmc(self, task: base.Task) -> base.Outcome:
        """Restart the BMC and wait until it answers again; the machine itself keeps running.

        :raises errors.HardwareError, errors.UnsupportedDriverExtension: see ``restart_bmc``.
        """
        self.restart_bmc(task)
        task.keep(NOTE, {"until": clock.stamp() + SECONDS, "looks": 0})
        task.wake_after(PAUSE)
        return base.WAIT

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Check whether the BMC answers again.

        :raises errors.StepFailed: the BMC does not answer within the time limit.
        """
        if step["step"] != _STEP:
            return super().poll_step(task, kind, step)
        known = task.recall(NOTE) or {"until": 0.0, "looks": 0}
        try:
            self.ask_bmc(task, PAUSE)
        except (errors.HardwareError, errors.InvalidParameter) as why:
            # A starting BMC may not list its systems yet, or not the one named in driver_info.
            if clock.over(known["until"], SECONDS):
                reason = f"the BMC did not come back within {SECONDS:g} s: {why}"
                raise errors.StepFailed(step=f"{self.kind}.{_STEP}", reason=reason) from why
            return _look_again(task, {**known, "looks": LOOKS})
        if known["looks"] + 1 < LOOKS:
            return _look_again(task, {**known, "looks": known["looks"] + 1})
        task.keep(NOTE, None)
        return base.DONE


def _look_again(task: base.Task, known: Json) -> base.Outcome:
    task.keep(NOTE, known)
    task.wake_after(PAUSE)
    return base.WAIT
