"""Changes of power as every BMC has them: tell it, then look until the machine is there."""

from __future__ import annotations

import abc
import dataclasses
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from ironic_lite import config, errors
from ironic_lite.drivers import base

FIRST_PAUSE, PAUSE_GROWTH, LONGEST_PAUSE = 0.1, 1.5, 2.0
"""Seconds between two looks at the power state, and how they grow."""

Order = TypeVar("Order")


@dataclasses.dataclass(frozen=True, slots=True)
class Way(Generic[Order]):
    """How to get to a power state: what the BMC is told, and the word it then has for the state."""

    target: str
    order: Order
    reached: str
    soft: bool = False

    @property
    def repeatable(self) -> bool:
        """Tell whether a machine that was told twice is where it would be had it been told once."""
        return self.target in {base.POWER_ON, base.POWER_OFF}

    @property
    def restarts(self) -> bool:
        """Tell whether the machine is in the same state before and after."""
        return self.target in {base.REBOOT, base.SOFT_REBOOT}

    def seconds(self, timeout: float | None) -> float:
        """Return the time-out, or the configured one if it is None."""
        if timeout is not None:
            return timeout
        options = config.CONF.conductor
        return float(
            options.soft_power_off_timeout if self.soft else options.power_state_change_timeout
        )


class SwitchingPower(base.Power, abc.ABC):
    """A power interface that tells a BMC where to go, and looks until the machine got there."""

    ways: ClassVar[Mapping[str, Way[Any]]]
    """The ways by their targets: on, off and softly off."""

    settle_seconds: ClassVar[float]
    """After a restart in one go the state may read on all the time; when it is read first, so late.
    """

    @abc.abstractmethod
    def restore_boot_device(self, task: base.Task) -> None:
        """Tell a BMC that forgets it again, before a power on, what the machine boots from."""

    @abc.abstractmethod
    def tell(self, task: base.Task, way: Way[Any], deadline: float) -> bool:
        """Tell the BMC to go; False if the machine is there already.

        :param deadline: on the monotonic clock.
        :raises errors.PowerFailure: the BMC refuses, and the machine is not there either.
        """

    @abc.abstractmethod
    def look(self, task: base.Task, seconds: float) -> str | None:
        """Return the BMC's word for the power state.

        :param seconds: what is left; less than it takes to ask, perhaps.
        """

    def get_supported_power_states(self, task: base.Task) -> tuple[str, ...]:
        """Return all targets: on, off, reboot, and the two soft ones."""
        return (*self.ways, base.REBOOT, base.SOFT_REBOOT)

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        """Bring the machine on, off or softly off, and return when it is there.

        :param timeout: seconds; None takes [conductor]power_state_change_timeout, or
            soft_power_off_timeout for a soft power off.
        :raises errors.PowerFailure: refused by the BMC, or not there in time.
        :raises errors.InvalidParameter: no such target.
        """
        way = self.ways.get(target)
        if way is None:
            reason = f"{target!r} is not one of {', '.join(self.ways)}"
            raise errors.InvalidParameter(path="target", reason=reason)
        if target == base.POWER_ON:
            self.restore_boot_device(task)
        seconds, start = way.seconds(timeout), time.monotonic()
        if self.tell(task, way, start + seconds):
            self._watch(task, way, seconds, start)

    def off_and_on(self, task: base.Task, timeout: float | None, *, soft: bool) -> None:
        """Reboot by the two halves; `timeout` is for each, and for the first of a soft one."""
        down = base.SOFT_POWER_OFF if soft else base.POWER_OFF
        self.set_power_state(task, down, timeout)
        self.set_power_state(task, base.POWER_ON, None if soft else timeout)

    def restart(self, task: base.Task, way: Way[Any], timeout: float | None) -> None:
        """Reboot in one go; `timeout` is for the order, and for getting up again."""
        self.restore_boot_device(task)
        self.tell(task, way, time.monotonic() + way.seconds(timeout))
        task.pause(self.settle_seconds)
        on = self.ways[base.POWER_ON]
        self._watch(task, on, on.seconds(timeout), time.monotonic())

    def _watch(self, task: base.Task, way: Way[Any], seconds: float, start: float) -> None:
        """Look until the machine is there. A BMC that does not tell for a while is no failure yet.

        :raises errors.PowerFailure: it was not there in time; tells the last state seen.
        """
        pause, end = FIRST_PAUSE, start + seconds
        while True:
            try:
                word = self.look(task, end - time.monotonic())
            except errors.BmcAccessDenied:
                # Many BMCs lock a user out who comes again and again.
                raise
            except errors.HardwareError as silence:
                seen = f"this: {silence}"
            else:
                if word == way.reached:
                    return
                seen = f"the state {word}"
            left = end - time.monotonic()
            if left <= 0:
                raise errors.PowerFailure(
                    target=way.target,
                    reason=f"not reached within {seconds:g} s; the BMC last showed {seen}",
                    seconds=seconds,
                )
            task.pause(min(pause, left))
            pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)
