"""Drivers of a vendor, derived from the fake drivers, for facts that only a driver can show."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake.hardware import FakeBIOS, FakeDeploy, FakePower, FakeRAID

ARGS = [
    {"name": "depth", "description": "How deep, a number from 1 to 9.", "required": True},
    {"name": "label", "description": "Any text. Default: none.", "required": False},
]


class Ledger(base.Interface):
    """Writes down on the node which of its clean steps it was told to execute."""

    def execute_clean_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        line = [self.kind, step["interface"], step["step"]]
        task.keep("workshop_executed", [*task.recall("workshop_executed", ()), line])
        return super().execute_clean_step(task, step)


class Raid(Ledger, FakeRAID):
    """A step with arguments, and two that say nothing about theirs."""

    @base.clean_step(priority=0, abortable=True, args=ARGS)
    def engrave(self, task: base.Task, *, depth: Any, label: Any = "none") -> None:
        """Keep what it was called with."""
        task.keep("workshop_engraved", {"depth": depth, "label": label})

    @base.clean_step(priority=0)
    def polish(self, task: base.Task) -> None:
        """Take no arguments: the default."""

    @base.clean_step(priority=0, args=[])
    def dust(self, task: base.Task) -> None:
        """Say so."""


class Bios(Ledger, FakeBIOS):
    """Another interface with steps of its own."""


class Agent(FakeDeploy):
    """The steps of a ramdisk; tests teach it more of them."""


class Shy(FakePower):
    """An interface other than deploy that knows its steps only later."""

    def get_clean_steps(self, task: base.Task) -> list[base.StoredStep]:
        raise errors.StepsUnavailable(node=task.node.uuid, seconds=77)


class Broken(FakePower):
    """One whose machine does not answer."""

    def get_clean_steps(self, task: base.Task) -> list[base.StoredStep]:
        raise errors.BmcUnreachable(address="bmc.example", reason="no route")
