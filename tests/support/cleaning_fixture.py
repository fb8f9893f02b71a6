"""Drivers that record and hold clean steps, and functions that let time pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from ironic_lite.core import clock
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import crashes
from tests.support.conductor_fixture import configure, drivers
from tests.support.operator import Json, Operator

AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]


class Gate:
    """Drivers that stop before their calls of one name until they are let go."""

    def __init__(self, name: str = "execute_clean_step") -> None:
        self._name = name
        self.reached = threading.Event()
        self.opened = threading.Event()

    def registry(self) -> Registry:
        """Return the drivers."""

        def before(_kind: str, name: str) -> None:
            if name == self._name:
                self.reached.set()
                assert self.opened.wait(30)

        return watched(before)

    def wait(self) -> None:
        """Return when a driver stands before such a call."""
        assert self.reached.wait(60)


def watched(before: Callable[[str, str], object]) -> Registry:
    """Return drivers whose calls are told first: interface kind and name of the method."""

    def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
        before(kind, name)
        return call()

    return cast(Registry, crashes.Drivers(drivers(), around))


def loading(**options: Any) -> dict[str, Any]:
    """Return options of a service whose conductor loads its drivers by them, as ours does."""
    return {**options, "registry": Registry.load(Settings.read(configure(**options)))}


def begun(operator: Operator, node: str) -> list[str]:
    """Return the clean steps that were begun on a node, in their order."""
    events = operator.rig.events(node, "step_started")
    return [row["data"]["step"] for row in events if row["event"] == "clean"]


def stored(row: Json) -> tuple[str, Any]:
    """Return state and target of a node."""
    return row["provision_state"], row["target_provision_state"]


def enroll_waiting(operator: Operator, **fields: Any) -> str:
    """Return a manageable node whose steps wait until somebody rings."""
    node = operator.enroll(**fields)
    told = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
    assert operator.patches(node, driver_info=told).status == 200
    return node


def ring(operator: Operator, node: str) -> None:
    """Let the timer of the step under way ring; the next one waits again."""
    with operator.rig.tasks.lock(operator.rig.who, node) as task:
        task.wake_after(0)
        task.save()


def sweep(operator: Operator, *names: str) -> None:
    """Run the conductor's sweeps of these names now; without names, all of them."""
    for name in names or operator.rig.service.sweeps.plan:
        operator.rig.sweep(name)
    assert operator.rig.service.power.settle(10)


def overdue(operator: Operator, node: str) -> None:
    """Let a waiting node have waited for a year without a sign of life, and look at it."""
    operator.rig.edit(node, wake_at=None, provision_updated_at=clock.after(-365 * 86400))
    sweep(operator, "time-outs")
