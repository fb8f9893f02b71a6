"""Limit for waits that only polls keep alive.

A poll that finds the step still running counts as a heartbeat: it restarts the time-out of the wait
state. A driver could give this answer for ever, so all polls of one wait have a limit, too.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock


def note_still_running(task: Task) -> None:
    """Record, for the next save, that the driver reports the step as still running.

    :raises errors.HardwareError: it has done so for ``[conductor]poll_timeout`` seconds.
    """
    limit = task.runtime.conf.conductor.poll_timeout
    # A clock that was set forward must not end a wait.
    since = task.notes.polled_since(clock.now())
    if limit and clock.lived(since) >= limit:
        reason = (
            f"it has not ended within {limit} s of being asked about ([conductor]poll_timeout), "
            "though nothing has failed. Look at the machine before you repeat the request"
        )
        option = "[conductor]poll_timeout"
        raise errors.HardwareError(reason=reason, option=option, limit=limit, since=since)
    task.node.provision_updated_at = clock.now()
