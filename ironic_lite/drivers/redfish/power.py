"""Power control by ComputerSystem.Reset; `power_switching` polls for the result."""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

from ironic_lite import errors
from ironic_lite.drivers import base, power_switching
from ironic_lite.drivers.power_switching import Check, Way
from ironic_lite.drivers.redfish import interface, override
from ironic_lite.drivers.redfish.bmc import connection, connection_checks, faults, jobs
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

T = TypeVar("T")

ON, OFF = "On", "Off"
STATES: Mapping[str, str] = {ON: base.POWER_ON, OFF: base.POWER_OFF}
BETWEEN = frozenset({"PoweringOn", "PoweringOff", "Paused"})
"""The other values of Resource.PowerState (DSP0268), for machines in transition."""

CONFLICT_TRIES = 6
CONFLICT_SECONDS = 5.0
"""Retries and pause for a BMC that refuses a change with 409, because another one is running."""

SILENCE_SECONDS = 2.0
"""Pause in seconds before a power request is sent again to a silent BMC."""

# The orders list the reset types for each target, best first.
TURN_ON = Way(base.POWER_ON, ("On", "ForceOn"), ON)
TURN_OFF = Way(base.POWER_OFF, ("ForceOff",), OFF)
SHUT_DOWN = Way(base.SOFT_POWER_OFF, ("GracefulShutdown",), OFF, soft=True)
RESTART = Way(base.REBOOT, ("ForceRestart", "PowerCycle"), ON)
SOFT_RESTART = Way(base.SOFT_REBOOT, ("GracefulRestart",), ON, soft=True)
Resets = tuple[str, ...]


class RedfishPower(interface.RedfishInterface, power_switching.SwitchingPower):
    """The power interface ``redfish``."""

    ways: ClassVar[Mapping[str, Way[Any]]] = {
        way.target: way for way in (TURN_ON, TURN_OFF, SHUT_DOWN)
    }
    settle_seconds = 15.0
    connection_checks = connection_checks.TABLE

    def get_power_state(self, task: base.Task) -> str | None:
        """Return the power state with one GET on a warm session; None between on and off.

        :raises errors.HardwareError: see `connection.call`; or the state is not one of Redfish.
        """
        return connection.call(task, _power_state)

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Power off, softly if asked, and on again; a machine that is off is only powered on.

        With ``disable_power_off``, or a BMC that cannot power off, the BMC restarts it in one
        request.

        :param timeout: seconds for each half; of a soft reboot, for the first half.
        :raises errors.PowerFailure: the BMC refused, or the state was not reached in time; or it
            cannot restart a machine with ``disable_power_off`` in one request.
        """
        deadline = time.monotonic() + RESTART.seconds(timeout)
        word, known = _await_answer(task, lambda: connection.call(task, _read_power), deadline)
        down, restart = (SHUT_DOWN, SOFT_RESTART) if soft else (TURN_OFF, RESTART)
        at_once = bool(known.intersection(restart.order))
        if word == OFF:
            self.off_and_on(task, timeout, soft=soft)
        elif task.node.disable_power_off or (at_once and not known.intersection(down.order)):
            self.restart(task, restart, timeout)
        else:
            self.off_and_on(task, timeout, soft=soft)

    def restore_boot_device(self, task: base.Task) -> None:
        """See `override.restore`."""
        override.restore(task)

    def tell(self, task: base.Task, way: Way[Resets], deadline: float) -> Check | None:
        """Send the reset type; retry while the BMC is busy with another change.

        :raises errors.PowerFailure: the BMC refuses, or does not have such a reset type.
        """
        for left in reversed(range(CONFLICT_TRIES)):
            uris: list[str] = []
            refusal = _insist_on_reset(task, way, deadline, uris)
            if refusal is _ALREADY:
                return None
            if refusal is None:
                return functools.partial(_check_request, task, way, uris)
            later = time.monotonic() + CONFLICT_SECONDS < deadline
            if not (refusal.retry and left and later):
                failed = errors.PowerFailure(target=way.target, reason=refusal.reason)
                raise failed from refusal.cause
            LOG.info("Node %s: %s; trying again.", task.node.uuid, refusal.reason)
            task.pause(CONFLICT_SECONDS)
        raise errors.PowerFailure(target=way.target, reason="the BMC stays busy")

    def look(self, task: base.Task, seconds: float) -> str | None:
        """Read the power state, within the time limit of any request."""
        return connection.call(task, connection.Link.power_word)


def _read_power(link: connection.Link) -> tuple[str | None, set[str]]:
    """Return the power state in Redfish's word and the reset types of the system."""
    system = link.system()
    return system.json.get("PowerState"), _reset_types(system)


def _reset_types(system: Any) -> set[str]:
    return {reset.value for reset in system.get_allowed_reset_system_values()}


def _check_request(task: base.Task, way: Way[Resets], uris: list[str]) -> None:
    """Raise PowerFailure if the BMC's task for a request has failed; forget a task that has ended.

    :param uris: the addresses of the task, empty without one.
    """
    try:
        if uris and jobs.check(task, uris, "carry out the request") in jobs.ENDED:
            uris.clear()
    except errors.BmcUnreachable:
        raise
    except errors.HardwareError as failed:
        if not isinstance(failed.__cause__, errors.BmcTaskFailed):
            raise
        raise errors.PowerFailure(target=way.target, reason=str(failed)) from failed.__cause__


def _insist_on_reset(
    task: base.Task, way: Way[Resets], deadline: float, uris: list[str]
) -> _Refusal | None:
    """Send the reset; wait for a restarting BMC if the request may be sent twice.

    :raises errors.BmcUnreachable: the BMC does not answer by the deadline.
    """
    send = functools.partial(_send_reset, way=way, uris=uris)
    tell = functools.partial(connection.call, task, send, read=False)
    return _await_answer(task, tell, deadline) if way.repeatable else tell()


def _await_answer(task: base.Task, ask: Callable[[], T], deadline: float) -> T:
    """Retry a request while the BMC is silent, because it may be restarting.

    :raises errors.BmcUnreachable: the BMC does not answer by the deadline.
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
    cause: errors.BmcBadAnswer | None = None


_ALREADY = _Refusal("the machine is already in that state", retry=False)


def _send_reset(link: connection.Link, way: Way[Resets], uris: list[str]) -> _Refusal | None:
    """Send the best reset type; a refusal counts as success if the state is already reached.

    :param uris: gets the addresses of the BMC's task.
    """
    system = link.system()
    already = not way.restarts and system.json.get("PowerState") == way.reached
    if already:
        return _ALREADY
    known = _reset_types(system)
    best = next((reset for reset in way.order if reset in known), None)
    if best is None:
        words = ", ".join(sorted(known))
        wanted = " or ".join(way.order)
        return _Refusal(f"the BMC at {link.node.address} has {words}, not {wanted}", retry=False)
    try:
        uris[:] = jobs.begun(link, lambda: system.reset_system(sushy.ResetType(best)))
    except sushy.exceptions.HTTPError as error:
        if not faults.is_refusal(error):
            raise
        if link.power_word() == way.reached and not way.restarts:
            return _ALREADY
        said = faults.detail(error, link.node)
        reason = f"the BMC at {link.node.address} refused {best}: {said}"
        cause = faults.refused(error, link.node)
        return _Refusal(reason, retry=error.status_code == HTTPStatus.CONFLICT, cause=cause)
    return None


def _power_state(link: connection.Link) -> str | None:
    """Return the power state in our words."""
    word = link.power_word()
    if word is None or word in BETWEEN:
        return None
    if word not in STATES:
        reason = f"the PowerState {word[:64]!r} is not one of Redfish"
        raise errors.BmcBadAnswer(address=link.node.address, reason=reason)
    return STATES[word]
