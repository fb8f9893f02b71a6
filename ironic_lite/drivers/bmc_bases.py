"""Bases of interfaces that work through a BMC of any protocol: power changes, and its restart."""

from __future__ import annotations

import abc
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base

# Power changes common to all BMCs: a request, then polls until the state is reached.

LOG = logging.getLogger(__name__)

PAUSE_GROWTH, LONGEST_PAUSE = 1.5, 2.0
"""Growth of the pauses between two polls of the power state, and their limit in seconds."""

RESEND_SECONDS = 10.0
"""Seconds after which a request is sent again to a BMC that still shows the state before it: some
BMCs accept a power on right after a power off, and ignore it."""

PowerRequest = TypeVar("PowerRequest")

PowerCheck = Callable[[], None]
"""A check of a sent power request: raises PowerFailure if the BMC reports that it has failed."""


def no_check() -> None:
    """Check nothing, for BMCs that report no progress of requests."""


@dataclasses.dataclass(frozen=True, slots=True)
class PowerChange(Generic[PowerRequest]):
    """A power change: the request to the BMC, and its word for the reached state."""

    target: str
    order: PowerRequest
    reached: str
    soft: bool = False

    @property
    def repeatable(self) -> bool:
        """Return whether sending the request twice has the effect of sending it once."""
        return self.target in {base.POWER_ON, base.POWER_OFF}

    @property
    def restarts(self) -> bool:
        """Return whether the machine is in the same state before and after."""
        return self.target in {base.REBOOT, base.SOFT_REBOOT}

    def seconds(self, timeout: float | None) -> float:
        """Return the timeout, or the configured one if it is None."""
        if timeout is not None:
            return timeout
        options = config.CONF.conductor
        return float(
            options.soft_power_off_timeout if self.soft else options.power_state_change_timeout
        )


class SwitchingPower(base.Power, abc.ABC):
    """A power interface that sends a BMC a request, and polls until the state is reached."""

    ways: ClassVar[Mapping[str, PowerChange[Any]]]
    """The changes by target: on, off and softly off."""

    first_pause: ClassVar[float] = 0.1
    """Seconds between the first two polls of the power state."""

    settle_seconds: ClassVar[float]
    """Seconds before the first poll after a restart, because the state may read on all the time."""

    @abc.abstractmethod
    def restore_boot_device(self, task: base.Task) -> None:
        """Tell a forgetful BMC its boot device again, before a power on."""

    @abc.abstractmethod
    def tell(self, task: base.Task, way: PowerChange[Any], deadline: float) -> PowerCheck | None:
        """Send the power request; return its check, None if the state is already reached.

        :param deadline: on the monotonic clock.
        :raises errors.PowerFailure: the BMC refuses, and the state is not reached.
        """

    @abc.abstractmethod
    def look(self, task: base.Task, seconds: float) -> str | None:
        """Return the BMC's word for the power state.

        :param seconds: the time left, possibly less than the request takes.
        """

    def get_supported_power_states(self, task: base.Task) -> tuple[str, ...]:
        """Return all targets: on, off, reboot, and the two soft ones."""
        return (*self.ways, base.REBOOT, base.SOFT_REBOOT)

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        """Switch the machine on, off or softly off, and return when the state is reached.

        :param timeout: seconds; None takes [conductor]power_state_change_timeout, or
            soft_power_off_timeout for a soft power off.
        :raises errors.PowerFailure: the BMC refused, or the state was not reached in time.
        :raises errors.InvalidParameter: there is no such target.
        """
        way = self.ways.get(target)
        if way is None:
            reason = f"{target!r} is not one of {', '.join(self.ways)}"
            raise errors.InvalidParameter(path="target", reason=reason)
        if target == base.POWER_ON:
            self.restore_boot_device(task)
        seconds, start = way.seconds(timeout), time.monotonic()
        check = self.tell(task, way, start + seconds)
        if check is not None:
            self._await_state(task, way, seconds, start, check)

    def off_and_on(self, task: base.Task, timeout: float | None, *, soft: bool) -> None:
        """Reboot by power off and on; ``timeout`` applies to each half, or to a soft first half."""
        down = base.SOFT_POWER_OFF if soft else base.POWER_OFF
        self.set_power_state(task, down, timeout)
        self.set_power_state(task, base.POWER_ON, None if soft else timeout)

    def restart(self, task: base.Task, way: PowerChange[Any], timeout: float | None) -> None:
        """Reboot by one request; ``timeout`` applies to the request and to the start."""
        self.restore_boot_device(task)
        check = self.tell(task, way, time.monotonic() + way.seconds(timeout)) or no_check
        task.pause(self.settle_seconds)
        try:
            check()
        except errors.PowerFailure:
            raise
        except errors.HardwareError as silence:
            LOG.info("Node %s: %s", task.node.uuid, silence)
        on = self.ways[base.POWER_ON]
        self._await_state(task, on, on.seconds(timeout), time.monotonic(), check)

    def _await_state(
        self,
        task: base.Task,
        way: PowerChange[Any],
        seconds: float,
        start: float,
        check: PowerCheck,
    ) -> None:
        """Poll until the state is reached; a BMC may be silent in between.

        :raises errors.PowerFailure: the state was not reached in time; has the last state seen. Or
            the BMC reports that the request has failed.
        """
        pause, end = self.first_pause, start + seconds
        resend = time.monotonic() + RESEND_SECONDS
        while True:
            fault = None
            try:
                word = self.look(task, end - time.monotonic())
                if word != way.reached:
                    check()
            except (errors.BmcAccessDenied, errors.PowerFailure):
                # Many BMCs lock a user out after repeated attempts.
                raise
            except errors.HardwareError as silence:
                seen, fault, word = f"this: {silence}", silence, None
            else:
                if word == way.reached:
                    return
                seen = f"the state {word}"
                if time.monotonic() >= resend and self._is_ignored(way, word):
                    check = self._tell_again(task, way, end) or check
                    resend = time.monotonic() + RESEND_SECONDS
            left = end - time.monotonic()
            if left <= 0:
                raise errors.PowerFailure(
                    target=way.target,
                    reason=f"not reached within {seconds:g} s; the BMC last showed {seen}",
                    seconds=seconds,
                    power_state=word,
                ) from fault
            task.pause(min(pause, left))
            pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)

    def _is_ignored(self, way: PowerChange[Any], word: str | None) -> bool:
        """Return whether the machine rests in the other state, and the request may be repeated."""
        return way.repeatable and word in {other.reached for other in self.ways.values()}

    def _tell_again(self, task: base.Task, way: PowerChange[Any], end: float) -> PowerCheck | None:
        """Send a request again that a BMC may have ignored; return its check.

        A refusal shows that it has not. After any other fault the first request may still count.
        """
        LOG.warning(
            "Node %s: the BMC accepted %s and shows no effect; it is sent again.",
            task.node.uuid,
            way.target,
        )
        try:
            return self.tell(task, way, end)
        except errors.BmcAccessDenied:
            raise
        except errors.HardwareError as fault:
            LOG.info("Node %s: %s", task.node.uuid, fault)
            return None


# Step that restarts a BMC and waits until it answers again, for any protocol.

RESET_NOTE = "bmc_reset"
"""Key of a running restart: ``until`` is the deadline (seconds since the epoch), ``looks`` the
number of answers if the BMC was never seen silent."""

RESET_SECONDS = 900.0
"""Time limit; a BMC takes one to five minutes to start."""

RESET_PAUSE = 15.0
"""Seconds before the first poll and between polls, as a BMC takes some time to go down."""

RESET_LOOKS = 4
"""Answers after which a BMC that was never seen silent counts as restarted. It may go down a minute
after the request, or too briefly for a poll to see it."""

_RESET_STEP = "reset_bmc"


class RestartingManagement(base.Management, abc.ABC):
    """A management interface with the step ``reset_bmc``."""

    work_notes: ClassVar[Sequence[str]] = (RESET_NOTE,)

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
        task.keep(RESET_NOTE, {"until": clock.stamp() + RESET_SECONDS, "looks": 0})
        task.wake_after(RESET_PAUSE)
        return base.WAIT

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Check whether the BMC answers again.

        :raises errors.StepFailed: the BMC does not answer within the time limit.
        """
        if step["step"] != _RESET_STEP:
            return super().poll_step(task, kind, step)
        known = task.recall(RESET_NOTE) or {"until": 0.0, "looks": 0}
        try:
            self.ask_bmc(task, RESET_PAUSE)
        except (errors.HardwareError, errors.InvalidParameter) as why:
            # A starting BMC may not list its systems yet, or not the one named in driver_info.
            if clock.over(known["until"], RESET_SECONDS):
                reason = f"the BMC did not come back within {RESET_SECONDS:g} s: {why}"
                raise errors.StepFailed(step=f"{self.kind}.{_RESET_STEP}", reason=reason) from why
            return _look_again(task, {**known, "looks": RESET_LOOKS})
        if known["looks"] + 1 < RESET_LOOKS:
            return _look_again(task, {**known, "looks": known["looks"] + 1})
        task.keep(RESET_NOTE, None)
        return base.DONE


def _look_again(task: base.Task, known: Json) -> base.Outcome:
    task.keep(RESET_NOTE, known)
    task.wake_after(RESET_PAUSE)
    return base.WAIT
