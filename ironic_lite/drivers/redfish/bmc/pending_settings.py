"""Waiting for settings that may take effect only at the next boot.

Most BMCs apply a setting at once or some seconds after they accepted it (202). Some create a job
that runs at the next boot. For them the machine is restarted and then returned to its former power
state.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.domain import states
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import jobs

LOG = logging.getLogger(__name__)

PAUSE = 15.0
"""Seconds between two checks; a job of firmware settings takes minutes."""

LOOKS, LOOK_PAUSE = 4, 2.0
"""Number and interval in seconds of the checks before the machine is restarted."""

OCCUPIED = frozenset({states.State.ACTIVE, states.State.RESCUE})
"""States of machines with an instance, which are not restarted automatically (S5.24)."""

Look = Callable[[base.Task], bool]


def see_through(task: base.Task, what: str, is_so: Look, uris: Sequence[str] = ()) -> None:
    """Wait until a sent setting has taken effect; restart the machine if it needs that.

    :param what: the setting in words, such as ``boot mode uefi``.
    :param uris: the addresses of the BMC's task, empty without one.
    :raises errors.HardwareError: the setting has no effect after [redfish]boot_mode_config_timeout
        seconds, its task failed, or the machine has an instance.
    """
    left = list(uris)

    def is_done(task: base.Task) -> bool:
        done = is_so(task)
        if left and not done and jobs.check(task, left, f"apply {what}") in jobs.ENDED:
            left.clear()
        return done

    _restart_until(task, what, is_done)


def _restart_until(task: base.Task, what: str, is_so: Look) -> None:
    if _takes_effect_soon(task, is_so):
        return
    if task.node.provision_state in OCCUPIED:
        raise errors.HardwareError(
            reason=f"The BMC applies {what} at the next boot. The machine has an instance "
            "and is not restarted automatically: reboot it, then repeat the request."
        )
    LOG.info("Node %s: restarting the machine for %s.", task.node.uuid, what)
    before = task.driver.power.get_power_state(task)
    task.switch_power(base.REBOOT)
    task.node.power_state = base.POWER_ON
    done = _took_effect(task, is_so)
    if before == base.POWER_OFF:
        task.switch_power(base.POWER_OFF)
        task.node.power_state = base.POWER_OFF
    if not done:
        raise errors.HardwareError(
            reason=f"The machine was restarted for {what}, but its BMC does not show it after "
            f"{_effect_limit()} s. Check the job queue and the firmware settings on the BMC, or "
            "raise [redfish]boot_mode_config_timeout."
        )


def _takes_effect_soon(task: base.Task, is_so: Look) -> bool:
    for _ in range(LOOKS - 1):
        if is_so(task):
            return True
        task.pause(LOOK_PAUSE)
    return is_so(task)


def _took_effect(task: base.Task, is_so: Look) -> bool:
    """Return whether the setting took effect in time; a limit of 0 seconds skips the check."""
    seconds = _effect_limit()
    end = time.monotonic() + seconds
    while seconds and not _check_setting(task, is_so):
        if time.monotonic() >= end:
            return False
        task.pause(PAUSE)
    return True


def _check_setting(task: base.Task, is_so: Look) -> bool:
    """Check a BMC that may be busy with the change; an unusable answer counts as not yet
    applied."""
    try:
        return is_so(task)
    except (errors.BmcUnreachable, errors.BmcBadAnswer) as why:
        LOG.info("Node %s: %s Asking again.", task.node.uuid, why)
        return False


def _effect_limit() -> int:
    seconds: int = config.CONF.redfish.boot_mode_config_timeout
    return seconds
