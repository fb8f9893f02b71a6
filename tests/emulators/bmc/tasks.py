"""Long work of a BMC: a task, its monitor, and how it ends (DSP0266, asynchronous operations)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from tests.emulators.bmc import shapes
from tests.emulators.bmc.server import Reply

Json = dict[str, Any]
MONITORS = f"{shapes.ROOT}/TaskService/TaskMonitors"
ENDED = frozenset({"Completed", "Exception", "Cancelled"})


@dataclasses.dataclass
class Task:
    """Some work under way. ``effect`` is what there is when it is done."""

    number: int
    name: str
    effect: Callable[[], None]
    polls: int
    ends: float | None
    fails: str | None
    state: str = "Running"

    @property
    def path(self) -> str:
        return f"{shapes.ROOT}/TaskService/Tasks/{self.number}"

    @property
    def monitor(self) -> str:
        return f"{MONITORS}/{self.number}"

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def look(self) -> None:
        """Go on a bit: this much happens between two looks of a client."""
        if self.state != "Running":
            return
        if time.monotonic() < self.ends if self.ends is not None else self.polls > 0:
            self.polls -= 1
            return
        self.finish()

    def finish(self) -> None:
        """Be done, well or badly."""
        if self.ended:
            return
        if self.fails is None:
            self.effect()
        self.state = "Completed" if self.fails is None else "Exception"

    def document(self) -> Json:
        """Return it as a Task resource."""
        end = {"EndTime": "2026-01-01T00:00:10+00:00"} if self.ended else {}
        return shapes.document(
            self.path,
            "Task.v1_5_1",
            self.name,
            TaskState=self.state,
            TaskStatus="Critical" if self.fails and self.ended else "OK",
            TaskMonitor=self.monitor,
            PercentComplete=100 if self.state == "Completed" else 0,
            StartTime="2026-01-01T00:00:00+00:00",
            Messages=self._messages(),
            **end,
        )

    def _messages(self) -> list[Json]:
        if not (self.ended and self.fails):
            return []
        return [
            {
                "MessageId": "Base.1.8.GeneralError",
                "Message": self.fails,
                "MessageArgs": [],
                "Severity": "Critical",
                "Resolution": "None.",
            }
        ]

    def accepted(self, *, body: bool) -> Reply:
        """Return the answer to the request that started it, or to a look at a monitor too early."""
        headers = {"Location": self.monitor, "Retry-After": "1"}
        return Reply(202, self.document() if body else None, headers)
