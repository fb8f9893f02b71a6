"""Whether the ramdisk of a machine still runs, so that the next verb can go on with it at once."""

from __future__ import annotations

import logging

from ironic_lite import clock, config, errors, fast_track
from ironic_lite.drivers import base

LOG = logging.getLogger(__name__)

DESCRIPTION = (
    "true or false: whether a ramdisk that runs is used by the next verb, in place of "
    "[deploy]fast_track."
)
"""Of ``driver_info/fast_track``."""


def wanted(task: base.Task) -> bool:
    """Tell whether the node is on the fast track."""
    return fast_track.wanted(task.node.driver_info, config.CONF.deploy.fast_track)


def heard(task: base.Task) -> bool:
    """Tell whether the agent has sent a heartbeat of late."""
    agent, limit = task.agent, config.CONF.deploy.fast_track_timeout
    return agent is not None and clock.lived(agent.heard_at) <= limit


def ready(task: base.Task) -> bool:
    """Tell whether to go on without a reboot: an agent has been heard of late, nothing has failed,
    and the machine has not been switched off meanwhile.
    """
    if not wanted(task) or not heard(task) or task.node.last_error or task.failing:
        return False
    if task.driver.power.in_band:
        return True
    if task.agent is None or task.agent.moved:
        LOG.info("Node %s: its driver_info is another since its ramdisk booted", task.node.uuid)
        return False
    try:
        return task.driver.power.get_power_state(task) == base.POWER_ON
    except errors.HardwareError as why:
        LOG.info("Node %s: its ramdisk is booted anew: %s", task.node.uuid, why)
        return False
