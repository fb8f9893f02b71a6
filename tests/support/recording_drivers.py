"""Drivers that record, at each call, the state and the owner of the node."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ironic_lite.db.queries import nodes
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import drivers


class Call(NamedTuple):
    """One call: ``kind.name`` of the method; the node's row as it is in the database."""

    title: str
    row: dict[str, Any]

    @property
    def state(self) -> str:
        """The provision state at the time of the call."""
        return str(self.row["provision_state"])


class RecordingDrivers:
    """The fake drivers, watched; ``calls`` are in their order.

    A call whose title is in ``stopped`` waits, once begun, until ``go_on`` is set.
    """

    def __init__(self, *stopped: str) -> None:
        self.calls: list[Call] = []
        self.go_on = threading.Event()
        self._stopped = stopped

    @property
    def registry(self) -> Registry:
        """The drivers, for a service to be started with."""
        return cast(Registry, crashes.Drivers(drivers(), self._around))

    def titles(self) -> list[str]:
        """Return what was called."""
        return [call.title for call in self.calls]

    def _around(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        task = cast(Any, call).args[0]
        row = task.runtime.database.read(functools.partial(nodes.get, ident=task.node.uuid))
        title = f"{kind}.{name}"
        self.calls.append(Call(title, row))
        if title in self._stopped:
            assert self.go_on.wait(20)
        return call()
