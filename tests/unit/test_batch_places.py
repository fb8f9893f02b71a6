"""The place of a wave up to which a conductor has no node to start."""

from __future__ import annotations

import time

import pytest

from ironic_lite.conductor.watch.batch_places import Passed, own_places
from ironic_lite.membership.ring import Member

HERE = Member("here", "Edge", frozenset({"ipmi", "redfish"}))
THERE = Member("there", "", frozenset({"ipmi"}))


def test_place_is_kept_for_a_wave_of_the_same_conductors() -> None:
    passed = Passed()
    assert passed.place("b", 0, (HERE,)) == -1
    passed.note("b", 7)
    assert passed.place("b", 0, (HERE,)) == 7
    assert passed.place("c", 0, (HERE,)) == -1
    assert passed.place("b", 0, (HERE, THERE)) == -1
    passed.note("b", 7)
    assert passed.place("b", 1, (HERE, THERE)) == -1


def test_place_of_an_ended_batch_is_forgotten() -> None:
    passed = Passed()
    for batch in ("b", "c"):
        passed.place(batch, 0, (HERE,))
        passed.note(batch, 7)
    passed.keep(["c"])
    assert [passed.place(batch, 0, (HERE,)) for batch in ("b", "c")] == [-1, 7]


def test_wave_is_read_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    passed, began = Passed(), time.monotonic()
    passed.place("b", 0, (HERE,))
    passed.note("b", 7)
    monkeypatch.setattr(time, "monotonic", lambda: began + 61)
    assert passed.place("b", 0, (HERE,)) == -1


def test_own_places_are_pairs_of_group_and_driver() -> None:
    assert own_places((HERE, THERE), "here") == {("edge", "ipmi"), ("edge", "redfish")}
    assert own_places((HERE, THERE), "gone") == set()
