"""The parts of benchmarks/site that need no service: mixes, faults, and the judge of ends."""

from __future__ import annotations

import collections
import types
from typing import Any, cast

import pytest

from benchmarks.site import bmc, drive, faults, report, trees

Json = dict[str, Any]


def test_models_are_mixed_evenly_by_their_shares() -> None:
    found = list(trees.mix({"dell": 60, "hpe": 25, "supermicro": 15}, 100))
    assert collections.Counter(found) == {"dell": 60, "hpe": 25, "supermicro": 15}
    assert {"dell", "hpe", "supermicro"} == set(found[:8])


def test_unknown_model_is_named() -> None:
    with pytest.raises(ValueError, match="no tree of 'vax'"):
        trees.load("vax")


@pytest.mark.parametrize("number", [0, 249, 250, 62_499, 62_500, 100_000])
def test_address_leads_to_its_machine(number: int) -> None:
    for first in (1, 65):
        assert bmc.number_of(bmc.address(number, first), first) == number


def test_machines_have_addresses_and_names_of_their_own() -> None:
    found = []
    for number in (0, 1):
        machine = bmc.Machine(number, trees.load("dell"), bmc.Times())
        machine.identify()
        system = machine.document(machine.tree.system)
        cards = [machine.page(path)[0] for path in sorted(machine.tree.with_macs)]
        assert machine.macs[0].encode() in b"".join(cards)
        assert machine.tree.macs[0].encode() not in b"".join(cards)
        found.append((system["UUID"], system["SerialNumber"], tuple(machine.macs)))
    assert len({*found[0], *found[1]}) == 6


def test_faults_are_assigned_by_their_shares_and_the_seed() -> None:
    shares = {"bmc_slow": 0.1, "step_error": 0.05}
    found = faults.assign(shares, 100, 1)
    assert collections.Counter(found) == {"bmc_slow": 10, "step_error": 5, None: 85}
    assert faults.assign(shares, 100, 1) == found
    assert faults.assign(shares, 100, 2) != found
    with pytest.raises(ValueError, match="gremlins"):
        faults.assign({"gremlins": 0.1}, 100, 1)


@pytest.mark.parametrize(
    ("fault", "state", "cause", "erasures", "said"),
    [
        (None, "available", "", 1, None),
        (None, "available", "", 2, "erased 2 times"),
        (None, "available", "", 0, "erased 0 times"),
        (None, "clean failed", "a reason", 1, "clean failed instead of available: a reason"),
        ("step_error", "clean failed", "disk sda is on fire", 0, None),
        ("step_error", "clean failed", "a reason", 0, "no 'disk sda is on fire' in: a reason"),
        ("step_error", "available", "", 1, "available instead of clean failed: "),
    ],
)
def test_end_is_judged_by_state_cause_and_erasures(
    fault: str | None, state: str, cause: str, erasures: int, said: str | None
) -> None:
    assert faults.wrong_end(fault, state, cause, erasures) == said


def test_lost_and_locked_nodes_are_wrong_ends() -> None:
    nodes = [drive.Node(number) for number in range(3)]
    driver = cast(drive.Driver, types.SimpleNamespace(faults=["x"], nodes=nodes))
    rest: Json = {"provision_state": "available", "last_error": None, "reservation": None}
    machine = {"fault": None, "erasures": 1, "booted": ["Pxe"], "notes": []}
    listed = {0: rest, 1: {**rest, "reservation": "conductor-1"}}
    found = report.wrong_ends(driver, listed, {"machines": [machine] * 3})
    assert found == [
        "x",
        "site-1 (healthy): still locked by conductor-1; boots ['Pxe'], []",
        "site-2: lost",
    ]
