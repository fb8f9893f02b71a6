"""Power of machines by Redfish: ComputerSystem.Reset, and polling until the machine got there."""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeVar

import sushy
import sushy.exceptions

from ironic_lite import config, errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import connection, faults, interface, override

LOG = logging.getLogger(__name__)

T = TypeVar("T")

ON, OFF = "On", "Off"
STATES: Mapping[str, str] = {ON: base.POWER_ON, OFF: base.POWER_OFF}
BETWEEN = frozenset({"PoweringOn", "PoweringOff", "Paused"})
"""The other words of DSP0268, Resource.PowerState: the machine is on its way."""
"""Redfish's words that are an answer. PoweringOn, PoweringOff, Paused and null are none yet."""

FIRST_PAUSE, PAUSE_GROWTH, LONGEST_PAUSE = 0.1, 1.5, 2.0
"""Seconds between two looks at the power state, and how they grow."""

CONFLICT_TRIES = 6
CONFLICT_SECONDS = 5.0
"""A BMC may refuse a change with 409 while it is at another one; so often and so far apart."""

SILENCE_SECONDS = 2.0
"""A BMC that does not answer when it is told to switch is told again after so long."""

SETTLE_SECONDS = 15.0
"""After a restart in one go the state reads On all the time; when it is read first, so late."""


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """How to get to a power state: the reset types that lead there, best first, and its word.

    ``repeatable``: a machine that was told twice is where it would be had it been told once.
    """

    target: str
    resets: tuple[sushy.ResetType, ...]
    reached: str
    soft: bool = False
    repeatable: bool = False

    @property
    def timeout(self) -> float:
        """Return the configured time-out in seconds."""
        options = config.CONF.conductor
        seconds = (
            options.soft_power_off_timeout if self.soft else options.power_state_change_timeout
        )
        return float(seconds)


TURN_ON = Way(base.POWER_ON, (sushy.ResetType.ON, sushy.ResetType.FORCE_ON), ON, repeatable=True)
TURN_OFF = Way(base.POWER_OFF, (sushy.ResetType.FORCE_OFF,), OFF, repeatable=True)
SHUT_DOWN = Way(base.SOFT_POWER_OFF, (sushy.ResetType.GRACEFUL_SHUTDOWN,), OFF, soft=True)
RESTART = Way(base.REBOOT, (sushy.ResetType.FORCE_RESTART, sushy.ResetType.POWER_CYCLE), ON)
SOFT_RESTART = Way(base.SOFT_REBOOT, (sushy.ResetType.GRACEFUL_RESTART,), ON, soft=True)
WAYS: Mapping[str, Way] = {way.target: way for way in (TURN_ON, TURN_OFF, SHUT_DOWN)}


class RedfishPower(interface.RedfishInterface, base.Power):
    """The power interface ``redfish``."""

    def get_supported_power_states(self, task: base.Task) -> tuple[str, ...]:
        """Return all targets: on, off, reboot, and the two soft ones."""
        return (*WAYS, base.REBOOT, base.SOFT_REBOOT)

    def get_power_state(self, task: base.Task) -> str | None:
        """Ask the BMC: one GET on a warm session; None while it is between on and off.

        :raises errors.HardwareError: see `connection.call`; or a word that Redfish does not have.
        """
        return connection.call(task, _state)

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
            override.restore(task)
        _go(task, way, timeout)

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Power off, softly if asked, and on again; a machine that is off is just powered on.

        With ``disable_power_off``, or a BMC that knows no way off, it is restarted in one go.

        :param timeout: seconds for each half; of a soft reboot, for the first half.
        :raises errors.PowerFailure: refused by the BMC, or not there in time.
        """
        deadline = time.monotonic() + (timeout or RESTART.timeout)
        word, known = _awaited(task, lambda: connection.call(task, _look), deadline)
        down, restart = (SHUT_DOWN, SOFT_RESTART) if soft else (TURN_OFF, RESTART)
        one_go = task.node.disable_power_off or not known.intersection(down.resets)
        if word == OFF or not (one_go and known.intersection(restart.resets)):
            self.set_power_state(task, down.target, timeout)
            self.set_power_state(task, base.POWER_ON, None if soft else timeout)
            return
        override.restore(task)
        _send(task, restart, time.monotonic() + (timeout or restart.timeout))
        task.pause(SETTLE_SECONDS)
        _watch(task, TURN_ON, timeout or TURN_ON.timeout)


def _look(link: connection.Link) -> tuple[str | None, set[sushy.ResetType]]:
    """Return the power word and the reset types the system knows."""
    system = link.system()
    return system.json.get("PowerState"), system.get_allowed_reset_system_values()


def _go(task: base.Task, way: Way, timeout: float | None) -> None:
    seconds = way.timeout if timeout is None else timeout
    start = time.monotonic()
    if _send(task, way, start + seconds):
        _watch(task, way, seconds, start=start)


def _send(task: base.Task, way: Way, deadline: float) -> bool:
    """Tell the BMC to go; False if the machine is there already.

    :raises errors.PowerFailure: the BMC refuses, or knows no such reset type.
    """
    for left in reversed(range(CONFLICT_TRIES)):
        refusal = _insist(task, way, deadline)
        if refusal is _ALREADY:
            return False
        if refusal is None:
            return True
        later = time.monotonic() + CONFLICT_SECONDS < deadline
        if not (refusal.retry and left and later):
            raise errors.PowerFailure(target=way.target, reason=refusal.reason)
        LOG.info("Node %s: %s; trying again.", task.node.uuid, refusal.reason)
        task.pause(CONFLICT_SECONDS)
    raise errors.PowerFailure(target=way.target, reason="the BMC stays busy")


def _insist(task: base.Task, way: Way, deadline: float) -> _Refusal | None:
    """Tell the BMC to go; one that is restarting is waited for, if twice is as good as once.

    :raises errors.BmcUnreachable: it is not back at the deadline.
    """
    tell = functools.partial(connection.call, task, lambda link: _reset(link, way), read=False)
    return _awaited(task, tell, deadline) if way.repeatable else tell()


def _awaited(task: base.Task, ask: Callable[[], T], deadline: float) -> T:
    """Ask, again and again while the BMC is silent: it may be restarting.

    :raises errors.BmcUnreachable: it is not back at the deadline.
    """
    while True:
        try:
            return ask()
        except errors.BmcUnreachable as why:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            LOG.info("Node %s: %s Trying again.", task.node.uuid, why)
            task.pause(min(SILENCE_SECONDS, left))


@dataclasses.dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    retry: bool


_ALREADY = _Refusal("the machine is in that state", retry=False)
_RESTARTS = frozenset({RESTART.target, SOFT_RESTART.target})


def _reset(link: connection.Link, way: Way) -> _Refusal | None:
    """Send the best reset type; a BMC that refuses what is so already has done its work."""
    system = link.system()
    already = way.target not in _RESTARTS and system.json.get("PowerState") == way.reached
    if already:
        return _ALREADY
    known = system.get_allowed_reset_system_values()
    best = next((reset for reset in way.resets if reset in known), None)
    if best is None:
        words = ", ".join(sorted(reset.value for reset in known))
        wanted = " or ".join(reset.value for reset in way.resets)
        return _Refusal(f"the BMC at {link.node.address} knows {words}, not {wanted}", retry=False)
    try:
        system.reset_system(best)
    except sushy.exceptions.HTTPError as error:
        if not faults.is_refusal(error):
            raise
        if link.power_word() == way.reached and way.target not in _RESTARTS:
            return _ALREADY
        said = faults.detail(error, link.node)
        reason = f"the BMC at {link.node.address} refused {best.value}: {said}"
        return _Refusal(reason, retry=error.status_code == HTTPStatus.CONFLICT)
    return None


def _watch(task: base.Task, way: Way, seconds: float, *, start: float | None = None) -> None:
    """Look until the machine is there. A BMC that is silent for a while is no failure yet.

    :raises errors.PowerFailure: it was not there in time; tells the last state seen.
    """
    start = time.monotonic() if start is None else start
    pause, seen = FIRST_PAUSE, "nothing"
    while True:
        try:
            word = connection.call(task, connection.Link.power_word)
        except (errors.BmcUnreachable, errors.BmcBadAnswer) as silence:
            word, seen = None, f"this: {silence}"
        else:
            seen = f"the state {word}"
        if word == way.reached:
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


def _state(link: connection.Link) -> str | None:
    """Return the power state in our words."""
    word = link.power_word()
    if word is None or word in BETWEEN:
        return None
    if word not in STATES:
        reason = f"the PowerState {word[:64]!r} is not one of Redfish"
        raise errors.BmcBadAnswer(address=link.node.address, reason=reason)
    return STATES[word]
