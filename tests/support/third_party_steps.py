"""Drivers of other projects with clean steps of their own, installed by entry points."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import behaviour

POINTS = """
[ironic_lite.hardware.interfaces.raid]
ordered = tests.support.third_party_steps:Ordered
bare = tests.support.third_party_steps:Bare
tied = tests.support.third_party_steps:Tied
broken = tests.support.third_party_steps:Broken

[ironic_lite.hardware.interfaces.vendor]
polished = tests.support.third_party_steps:Polished

[ironic_lite.hardware.interfaces.firmware]
checked = tests.support.third_party_steps:Checked
"""


class Ordered(behaviour.Staged, base.RAID):
    """Steps whose names do not tell their order."""

    @base.clean_step(priority=5)
    def a_low(self, task: base.Task) -> None:
        """Run last."""

    @base.clean_step(priority=50)
    def b_high(self, task: base.Task) -> None:
        """Run first."""

    @base.clean_step(priority=7.5)
    def c_middle(self, task: base.Task) -> None:
        """Run between them."""

    @base.clean_step(priority=0)
    def d_never(self, task: base.Task, colour: str = "red") -> None:
        """Run on request only."""
        task.keep("colour", colour)


class Bare(base.RAID):
    """Implements nothing at all."""


class Tied(behaviour.Staged, base.RAID):
    """Two steps that have no order."""

    @base.clean_step(priority=10)
    def one(self, task: base.Task) -> None:
        """Run first, or second."""

    @base.clean_step(priority=10.0)
    def other(self, task: base.Task) -> None:
        """Run second, or first."""


class Broken(base.RAID):
    """Steps that do not end well."""

    @base.clean_step(priority=0, requires_ramdisk=False)
    def refuses(self, task: base.Task) -> None:
        """Fail as the contract says."""
        raise errors.CleanStepFailed(step="raid.refuses", reason="disk on fire")

    @base.clean_step(priority=0, requires_ramdisk=False)
    def stumbles(self, task: base.Task) -> None:
        """Fail by a bug."""
        raise ZeroDivisionError("a bug")


class Polished(behaviour.Staged, base.Vendor):
    """A vendor's step."""

    @base.clean_step(priority=0)
    def polish(self, task: base.Task) -> None:
        """Do nothing."""


class Checked(behaviour.Staged, base.Firmware):
    """A step about firmware."""

    @base.clean_step(priority=0)
    def check(self, task: base.Task) -> None:
        """Do nothing."""
