"""Oddities that machines of some makers have, added to the trees of others."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.recorded import day as days
from tests.recorded import facts, recordings
from tests.recorded.strict_bmc import StrictBmc
from tests.support.operator import Operator

Tree = dict[str, facts.Json]

TARGETS = "BootSourceOverrideTarget@Redfish.AllowableValues"


def run(
    operator: Operator, name: str, operation: str, change: Callable[[Tree, str], None], **odd: bool
) -> None:
    """Carry out an operation on a recorded machine with an oddity, which must pass."""
    tree = copy.deepcopy(recordings.load(name).documents)
    system = facts.systems(tree)[0]
    change(tree, system)
    with StrictBmc(tree, system) as bmc:
        for habit, value in odd.items():
            setattr(bmc, habit, value)
        day = days.Day(operator, bmc)
        day.enroll()
        day.goes("manage")
        assert days.OPERATIONS[operation](day) == days.PASS


def passing(operation: str) -> list[str]:
    """Return the machines of this run on which an operation passes."""
    return [name for name in recordings.names() if recordings.verdict(name, operation) == days.PASS]


@pytest.mark.parametrize("name", passing("boot_device"))
def test_a_bmc_that_lists_no_boot_devices(operator: Operator, name: str) -> None:
    def change(tree: Tree, system: str) -> None:
        tree[system]["Manufacturer"] = "Supermicro"
        for path in (system, facts.settings(tree, system) or system):
            tree[path]["Boot"].pop(TARGETS, None)

    run(operator, name, "boot_device", change)


def in_one_place(name: str) -> bool:
    """Return whether a machine has all properties of Boot in one document."""
    tree = recordings.load(name).documents
    place = facts.settings(tree, facts.systems(tree)[0])
    return place is None or "BootSourceOverrideTarget" in tree[place]["Boot"]


@pytest.mark.parametrize("name", [one for one in passing("boot_device") if in_one_place(one)])
def test_a_bmc_that_wants_target_duration_and_mode_together(operator: Operator, name: str) -> None:
    def change(tree: Tree, system: str) -> None:
        tree[facts.ROOT]["Vendor"] = tree[system]["Manufacturer"] = "AMI"
        for path in (system, facts.settings(tree, system) or system):
            boot = tree[path]["Boot"]
            boot["BootSourceOverrideMode"] = None
            boot["BootSourceOverrideMode@Redfish.AllowableValues"] = ["UEFI"]

    run(operator, name, "boot_device", change, wants_whole_boot=True)


@pytest.mark.parametrize("name", passing("virtual_media"))
def test_empty_drives_that_say_they_are_full(operator: Operator, name: str) -> None:
    def change(tree: Tree, system: str) -> None:
        for path in facts.drives(tree, system):
            drive = tree[path]
            drive.update(Inserted=True, Image=None, ConnectedVia="NotConnected")
            actions = drive.get("Actions") or {}
            if "#VirtualMedia.InsertMedia" in actions:
                actions.pop("#VirtualMedia.EjectMedia", None)

    run(operator, name, "virtual_media", change)


@pytest.mark.parametrize("name", passing("manage"))
def test_a_bmc_without_sessions(operator: Operator, name: str) -> None:
    def change(tree: Tree, system: str) -> None:
        tree[facts.ROOT].pop("Links", None)
        tree[facts.ROOT].pop("SessionService", None)

    run(operator, name, "power", change)
