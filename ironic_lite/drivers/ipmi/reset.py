"""Restarting a BMC by IPMI; some are gone before they answer."""

from __future__ import annotations

import logging

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import tool

LOG = logging.getLogger(__name__)

_UNANSWERED = "MC reset command failed"
"""What ipmitool says if the command was sent and nothing came back; of a cold one it is content."""


def reset(task: base.Task, *, warm: bool = False) -> None:
    """Tell the BMC to restart, and do not wait for it.

    :raises errors.HardwareError: it refuses, or could not be told.
    """
    try:
        tool.run(task, ("mc", "reset", "warm" if warm else "cold"), once=True)
    except errors.BmcUnreachable as gone:
        if _UNANSWERED not in str(gone.facts.get("reason")):
            raise
        LOG.info("Node %s: its BMC was gone before it answered; it restarts.", task.node.uuid)
