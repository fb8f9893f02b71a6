"""What the tests of cleaning share: drivers to watch and to stop, and drivers of other people."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from ironic_lite.drivers.registry import Registry, Settings
from tests.flows import mortal
from tests.flows.rig import configure, drivers
from tests.spec.operator import Json, Operator

AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]

OUTSIDE = """
from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage

class Ordered(stage.Staged, base.RAID):
    @base.clean_step(priority=5)
    def low(self, task):
        pass

    @base.clean_step(priority=50)
    def high(self, task):
        pass

    @base.clean_step(priority=7.5)
    def middle(self, task):
        pass

    @base.clean_step(priority=0)
    def never(self, task):
        pass

class Bare(base.RAID):
    pass

class Tied(stage.Staged, base.RAID):
    @base.clean_step(priority=10)
    def one(self, task):
        pass

    @base.clean_step(priority=10.0)
    def other(self, task):
        pass

class Broken(base.RAID):
    @base.clean_step(priority=0)
    def refuses(self, task):
        raise errors.CleanStepFailed(step="raid.refuses", reason="disk on fire")

    @base.clean_step(priority=0)
    def stumbles(self, task):
        raise ZeroDivisionError("a bug")

class Vendor(stage.Staged, base.Vendor):
    @base.clean_step(priority=10)
    def polish(self, task):
        pass

class Firmware(stage.Staged, base.Firmware):
    @base.clean_step(priority=10)
    def check(self, task):
        pass
"""
POINTS = """
[ironic_lite.hardware.interfaces.raid]
ordered = outside_cleaning:Ordered
bare = outside_cleaning:Bare
tied = outside_cleaning:Tied
broken = outside_cleaning:Broken

[ironic_lite.hardware.interfaces.vendor]
outside = outside_cleaning:Vendor

[ironic_lite.hardware.interfaces.firmware]
outside = outside_cleaning:Firmware
"""
MODULES = {"outside_cleaning": OUTSIDE}


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
        assert self.reached.wait(10)


def watched(before: Callable[[str, str], object]) -> Registry:
    """Return drivers whose calls are told first: interface kind and name of the method."""

    def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
        before(kind, name)
        return call()

    return cast(Registry, mortal.Drivers(drivers(), around))


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
