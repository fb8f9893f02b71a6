"""Restart of a BMC by IPMI; some BMCs go down before they answer."""

from __future__ import annotations

import logging

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import tool

LOG = logging.getLogger(__name__)

_UNANSWERED = "MC reset command failed"
"""Message of ipmitool after a warm reset without an answer; a cold one needs no answer."""


def reset(task: base.Task, *, warm: bool = False) -> None:
    """Tell the BMC to restart, without waiting for it.

    :raises errors.HardwareError: the BMC refuses, or is unreachable.
    """
    try:
        tool.run(task, ("mc", "reset", "warm" if warm else "cold"), once=True)
    except errors.BmcUnreachable as gone:
        if _UNANSWERED not in str(gone.facts.get("reason")):
            raise
        LOG.info("Node %s: its BMC restarts without having answered.", task.node.uuid)
