"""The settled part of the event table, for each kind of database; no I/O."""

from __future__ import annotations

import random

import pytest

from ironic_lite.feed.horizon import MYSQL, POSTGRESQL, SQLITE, Horizon, Snapshot


def test_sqlite_settles_every_visible_id_at_once() -> None:
    horizon = Horizon(SQLITE, 0)
    assert horizon.advance([1, 2, 5], 0.0) == 5
    assert (horizon.passed, horizon.forced) == (0, 0)


@pytest.mark.parametrize("kind", [POSTGRESQL, MYSQL])
def test_missing_id_holds_the_cursor_until_it_appears(kind: str) -> None:
    horizon = Horizon(kind, 10)
    assert horizon.advance([11, 13], 0.0, Snapshot(5, 8)) == 11
    assert horizon.advance([13, 14], 0.5, Snapshot(5, 9)) == 11
    assert horizon.advance([12, 13, 14], 0.6, Snapshot(9, 9)) == 14
    assert horizon.passed == 0


def test_postgresql_passes_a_missing_id_once_its_transaction_has_ended() -> None:
    horizon = Horizon(POSTGRESQL, 0)
    assert horizon.advance([1, 3], 0.0, Snapshot(5, 8)) == 1
    assert horizon.advance([3], 2.0, Snapshot(7, 9)) == 1, "transaction 7 is older than the mark"
    assert horizon.advance([3], 2.1, Snapshot(8, 9)) == 3
    assert (horizon.passed, horizon.forced) == (1, 0)


def test_postgresql_waits_a_second_in_any_case() -> None:
    horizon = Horizon(POSTGRESQL, 0)
    assert horizon.advance([1, 3], 0.0, Snapshot(8, 8)) == 1
    assert horizon.advance([3], 0.9, Snapshot(9, 9)) == 1
    assert horizon.advance([3], 1.0, Snapshot(9, 9)) == 3


def test_postgresql_passes_by_force_after_a_minute_of_a_foreign_transaction() -> None:
    horizon = Horizon(POSTGRESQL, 0)
    assert horizon.advance([1, 3], 0.0, Snapshot(2, 8)) == 1
    assert horizon.advance([3], 59.9, Snapshot(2, 99)) == 1
    assert horizon.advance([3], 60.0, Snapshot(2, 99)) == 3
    assert (horizon.passed, horizon.forced) == (0, 1)


def test_mariadb_passes_a_missing_id_after_ten_seconds() -> None:
    horizon = Horizon(MYSQL, 0)
    assert horizon.advance([2], 0.0) == 0
    assert horizon.advance([2], 9.9) == 0
    assert horizon.advance([2], 10.0) == 2


def test_later_hole_waits_for_its_own_mark() -> None:
    horizon = Horizon(MYSQL, 0)
    assert horizon.advance([2], 0.0) == 0
    assert horizon.advance([2, 4], 5.0) == 0
    assert horizon.advance([2, 4], 10.0) == 2
    assert horizon.advance([4], 14.9) == 2
    assert horizon.advance([4], 15.0) == 4


def test_ids_off_the_increment_are_no_holes() -> None:
    horizon = Horizon(MYSQL, 0, step=3)
    assert horizon.advance([1, 4, 7], 0.0) == 7
    assert horizon.advance([13], 0.1) == 7, "10 is missing"
    assert horizon.advance([10, 13], 0.2) == 13


def test_backwards_clock_only_delays() -> None:
    horizon = Horizon(MYSQL, 0)
    assert horizon.advance([2], 100.0) == 0
    assert horizon.advance([2], 50.0) == 0
    assert horizon.advance([2], 110.0) == 2


@pytest.mark.parametrize("seed", range(200))
def test_no_order_of_commits_loses_an_event_on_postgresql(seed: int) -> None:
    """Model: transactions take a number and an id, then commit or abort in any order."""
    rng = random.Random(seed)
    horizon = Horizon(POSTGRESQL, 0)
    next_xid, next_id, now = 100, 1, 0.0
    running: dict[int, int] = {}
    visible: set[int] = set()
    told: list[int] = []
    for _ in range(400):
        now += rng.random()
        act = rng.random()
        if act < 0.45:
            running[next_xid] = next_id
            next_xid, next_id = next_xid + 1, next_id + 1
        elif act < 0.75 and running:
            ident = running.pop(rng.choice(list(running)))
            if rng.random() < 0.8:
                visible.add(ident)
        else:
            before = horizon.settled
            ids = sorted(ident for ident in visible if ident > before)[: rng.choice((3, 1000))]
            snapshot = Snapshot(min(running, default=next_xid), next_xid)
            settled = horizon.advance(ids, now, snapshot)
            assert settled >= before
            told += [ident for ident in ids if before < ident <= settled]
            if horizon.forced:
                return  # a transaction of a minute: some may be lost, and that is counted
    assert sorted(visible & set(range(horizon.settled + 1))) == told
