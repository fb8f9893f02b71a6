"""Settings that a machine may only take up when it starts: seen through to the end.

Most BMCs say at once that a setting is so, or some seconds after they have accepted it (202). Some
make a job of it that runs when the machine starts; then it is started for that, and brought back to
the power state it had.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ironic_lite import config, errors, states
from ironic_lite.drivers import base

LOG = logging.getLogger(__name__)

PAUSE = 15.0
"""Seconds between two looks whether it is so; a job of firmware settings takes minutes."""

LOOKS, LOOK_PAUSE = 4, 2.0
"""How often and how far apart is looked before a machine is restarted for it."""

OCCUPIED = frozenset({states.State.ACTIVE, states.State.RESCUE})
"""Machines with an instance are not restarted unasked (S5.24)."""

Look = Callable[[base.Task], bool]


def see_through(task: base.Task, what: str, is_so: Look) -> None:
    """Return when a setting that was sent is so, restarting the machine if it needs that.

    :param what: the setting in words, such as ``boot mode uefi``.
    :raises errors.HardwareError: it is not so after [redfish]boot_mode_config_timeout seconds; or
        the machine holds an instance.
    """
    if _soon(task, is_so):
        return
    if task.node.provision_state in OCCUPIED:
        raise errors.HardwareError(
            reason=f"The BMC takes {what} up when the machine starts next. It holds an instance "
            "and is not restarted unasked: reboot it, then repeat the request."
        )
    LOG.info("Node %s: restarting the machine for %s.", task.node.uuid, what)
    before = task.driver.power.get_power_state(task)
    task.driver.power.reboot(task)
    task.node.power_state = base.POWER_ON
    done = _watch(task, is_so)
    if before == base.POWER_OFF:
        task.driver.power.set_power_state(task, base.POWER_OFF)
        task.node.power_state = base.POWER_OFF
    if not done:
        raise errors.HardwareError(
            reason=f"The machine was restarted for {what}, and its BMC does not show it after "
            f"{_seconds()} s. Look at the job queue and the firmware settings on the BMC, or "
            "raise [redfish]boot_mode_config_timeout."
        )


def _soon(task: base.Task, is_so: Look) -> bool:
    for _ in range(LOOKS - 1):
        if is_so(task):
            return True
        task.pause(LOOK_PAUSE)
    return is_so(task)


def _watch(task: base.Task, is_so: Look) -> bool:
    """Tell whether it was so in time; 0 seconds ask for no wait, and nobody looks."""
    seconds = _seconds()
    end = time.monotonic() + seconds
    while seconds and not _holds(task, is_so):
        if time.monotonic() >= end:
            return False
        task.pause(PAUSE)
    return True


def _holds(task: base.Task, is_so: Look) -> bool:
    """Ask a BMC that may be busy with that very change: what it cannot say is not so yet."""
    try:
        return is_so(task)
    except (errors.BmcUnreachable, errors.BmcBadAnswer) as why:
        LOG.info("Node %s: %s Asking again.", task.node.uuid, why)
        return False


def _seconds() -> int:
    seconds: int = config.CONF.redfish.boot_mode_config_timeout
    return seconds
