"""Fast track: whether a machine's ramdisk still runs, so that the next verb can use it."""

from __future__ import annotations

import logging

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.domain import fast_track
from ironic_lite.drivers import base

LOG = logging.getLogger(__name__)

DESCRIPTION = (
    "true or false: whether the next verb uses a ramdisk that still runs; overrides "
    "[deploy]fast_track."
)
"""Description of ``driver_info/fast_track``."""


def wanted(task: base.Task) -> bool:
    """Return whether the node uses fast track."""
    return fast_track.wanted(task.node.driver_info, config.CONF.deploy.fast_track)


def heard(task: base.Task) -> bool:
    """Return whether the agent has sent a heartbeat recently."""
    agent, limit = task.agent, config.CONF.deploy.fast_track_timeout
    return agent is not None and clock.lived(agent.heard_at) <= limit


def ready(task: base.Task) -> bool:
    """Return whether to continue without a reboot: an agent sent a heartbeat recently, nothing
    failed, and the machine has not been switched off meanwhile.
    """
    if not wanted(task) or not heard(task) or task.node.last_error or task.failing:
        return False
    if task.driver.power.in_band:
        return True
    if task.agent is None or task.agent.moved:
        LOG.info("Node %s: its driver_info has changed since its ramdisk booted", task.node.uuid)
        return False
    try:
        return task.driver.power.get_power_state(task) == base.POWER_ON
    except errors.HardwareError as why:
        LOG.info("Node %s: booting its ramdisk again: %s", task.node.uuid, why)
        return False
