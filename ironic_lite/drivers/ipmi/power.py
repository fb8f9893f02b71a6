"""Power of machines by IPMI: chassis control, and polling until the machine got there."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping

from ironic_lite import config, errors
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import bootdevice, interface, tool

FIRST_PAUSE, PAUSE_GROWTH, LONGEST_PAUSE = 0.2, 1.5, 3.0
"""Seconds between two looks at the power state, and how they grow."""

SETTLE_SECONDS = 5.0
"""After a restart in one go the state may read on all the time; when it is read first, so late."""

_STATE = re.compile(r"^Chassis Power is (on|off)\s*$", re.MULTILINE)
_STATES: Mapping[str, str] = {"on": base.POWER_ON, "off": base.POWER_OFF}


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """How to get to a power state: ipmitool's word for it, and the state that then is."""

    target: str
    word: str
    reached: str
    soft: bool = False

    @property
    def timeout(self) -> float:
        """Return the configured time-out in seconds."""
        options = config.CONF.conductor
        seconds = (
            options.soft_power_off_timeout if self.soft else options.power_state_change_timeout
        )
        return float(seconds)


TURN_ON = Way(base.POWER_ON, "on", base.POWER_ON)
TURN_OFF = Way(base.POWER_OFF, "off", base.POWER_OFF)
SHUT_DOWN = Way(base.SOFT_POWER_OFF, "soft", base.POWER_OFF, soft=True)
RESTART = Way(base.REBOOT, "reset", base.POWER_ON)
WAYS: Mapping[str, Way] = {way.target: way for way in (TURN_ON, TURN_OFF, SHUT_DOWN)}


class IpmiPower(interface.IpmiInterface, base.Power):
    """The power interface ``ipmitool``."""

    def __init__(self) -> None:
        tool.warn_if_missing()

    def get_supported_power_states(self, task: base.Task) -> tuple[str, ...]:
        """Return all targets: on, off, reboot, and the two soft ones."""
        return (*WAYS, base.REBOOT, base.SOFT_REBOOT)

    def get_power_state(self, task: base.Task) -> str | None:
        """Ask the BMC: one command.

        :raises errors.HardwareError: see `tool.run`; or it says something else than on or off.
        """
        return _state(task)

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        """Bring the machine on, off or softly off, and return when it is there.

        :param timeout: seconds; None takes [conductor]power_state_change_timeout, or
            soft_power_off_timeout for a soft power off.
        :raises errors.PowerFailure: refused by the BMC, or not there in time.
        :raises errors.InvalidParameter: no such target.
        """
        way = WAYS.get(target)
        if way is None:
            reason = f"{target!r} is not one of {', '.join(WAYS)}"
            raise errors.InvalidParameter(path="target", reason=reason)
        if way is TURN_ON:
            bootdevice.restore(task)
        _go(task, way, timeout)

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Power off, softly if asked, and on again; a machine that is off is just powered on.

        With ``disable_power_off`` it is reset in one go.

        :param timeout: seconds for each half; of a soft reboot, for the first half.
        :raises errors.PowerFailure: refused by the BMC, or not there in time.
        """
        if task.node.disable_power_off and _state(task) == base.POWER_ON:
            _reset(task, timeout, soft=soft)
            return
        self.set_power_state(task, (SHUT_DOWN if soft else TURN_OFF).target, timeout)
        self.set_power_state(task, base.POWER_ON, None if soft else timeout)


def _reset(task: base.Task, timeout: float | None, *, soft: bool) -> None:
    if soft:
        reason = "IPMI cannot restart a system softly, and the node's disable_power_off is set"
        raise errors.PowerFailure(target=base.SOFT_REBOOT, reason=reason)
    bootdevice.restore(task)
    seconds = RESTART.timeout if timeout is None else timeout
    start = time.monotonic()
    _send(task, RESTART, seconds)
    task.pause(SETTLE_SECONDS)
    _watch(task, RESTART, seconds, start + SETTLE_SECONDS)


def _go(task: base.Task, way: Way, timeout: float | None) -> None:
    seconds = way.timeout if timeout is None else timeout
    start = time.monotonic()
    # A soft power off of a machine that is off is refused by some; others take it for a press of
    # the button, and power the machine on.
    if way.soft and _state(task) == way.reached:
        return
    _send(task, way, seconds)
    _watch(task, way, seconds, start)


def _send(task: base.Task, way: Way, seconds: float) -> None:
    """Tell the BMC to go. On and off are sent in any state: they do no harm, and asking costs more.

    :raises errors.PowerFailure: it refuses, and the machine is not there either.
    """
    try:
        tool.run(task, ("power", way.word), once=way is RESTART, seconds=_bounded(seconds))
    except (errors.BmcUnreachable, errors.BmcAccessDenied):
        raise
    except errors.HardwareError as refusal:
        if way is not RESTART and _state(task) == way.reached:
            return
        raise errors.PowerFailure(target=way.target, reason=str(refusal)) from None


def _watch(task: base.Task, way: Way, seconds: float, start: float) -> None:
    """Look until the machine is there. A BMC that is silent for a while is no failure yet.

    :raises errors.PowerFailure: it was not there in time; tells the last state seen.
    """
    pause = FIRST_PAUSE
    while True:
        left = start + seconds - time.monotonic()
        try:
            seen = _state(task, _bounded(left))
        except (errors.BmcUnreachable, errors.BmcBadAnswer) as silence:
            seen = f"this: {silence}"
        if seen == way.reached:
            return
        left = start + seconds - time.monotonic()
        if left <= 0:
            raise errors.PowerFailure(
                target=way.target,
                reason=f"not reached within {seconds:g} s; the BMC last showed {seen}",
                seconds=seconds,
            )
        task.pause(min(pause, left))
        pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)


def _bounded(seconds: float) -> float:
    return min(seconds, float(config.CONF.ipmi.command_retry_timeout))


def _state(task: base.Task, seconds: float | None = None) -> str:
    answer = tool.run(task, ("power", "status"), seconds=seconds)
    found = _STATE.search(answer)
    if found is None:
        reason = f"asked for the power state, it says {answer.strip()[:60]!r}"
        address = tool.settings(task).address
        raise errors.BmcBadAnswer(address=address, reason=reason)
    return _STATES[found[1]]
