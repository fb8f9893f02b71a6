"""What a poll that finds a node waiting still says of its wait.

It is a sign of life, as a heartbeat is: the time-outs of the wait states count from it. A driver
that gives the same answer for ever is no sign of life, so all polls of one wait have a limit, too.
"""

from __future__ import annotations

from ironic_lite import clock, errors
from ironic_lite.conductor.task import Task


def goes_on(task: Task) -> None:
    """Note, for the next save, that the driver says of the wait that it goes on.

    :raises errors.HardwareError: it has said so for ``[conductor]poll_timeout`` seconds.
    """
    limit = task.desk.conf.conductor.poll_timeout
    # No clock that was set forward ends a wait.
    if task.notes.polled_since(clock.now()) <= clock.ago(limit) and limit > 0:
        reason = (
            f"it has not ended within {limit} s of being asked about ([conductor]poll_timeout), "
            "though nothing has failed. Look at the machine before you repeat the request"
        )
        raise errors.HardwareError(reason=reason)
    task.node.provision_updated_at = clock.now()
