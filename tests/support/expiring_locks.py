"""Driver methods whose task loses its lock before a chosen BMC operation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ironic_lite import errors
from tests.support import fake_task

Act = Callable[[fake_task.FakeTask], object]

MOST = 200
"""Orders of one method; more is a method that never ends."""


class LeasedTask(fake_task.FakeTask):
    """A task that answers so many questions for its lock, and has lost it from then on.

    Its pauses take no time: each may as well have been longer than the lease.
    """

    def __init__(self, *args: Any, answers: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answers = answers
        self.lost = False

    def confirm_lock(self, *, changes: bool = False) -> None:
        super().confirm_lock(changes=changes)
        self.lost = self.lost or self.confirmed > self._answers
        if self.lost:
            raise errors.LockLost(node=self.node.uuid)

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        self.confirm_lock()


def interrupt(
    act: Act, make: Callable[[int], LeasedTask], orders: Callable[[], Sequence[object]]
) -> int:
    """Carry out ``act`` until it ends, the lock being lost before its first, second ... order.

    :param make: returns a task that answers so many questions for its lock.
    :param orders: returns all that the machine has been sent.
    :returns: how often the lock was lost: the number of questions.
    """
    for answers in itertools.count():
        assert answers < MOST, "it never ends"
        task, before = make(answers), len(orders())
        try:
            act(task)
        except errors.LockLost:
            assert task.lost
        sent = list(orders()[before:])
        assert len(sent) <= min(task.confirmed, answers), f"{answers} answers allowed {sent}"
        if not task.lost:
            return answers
    raise AssertionError("count never ends")
