"""The settled part of the event table, for each kind of database; no I/O."""

from __future__ import annotations

import random

import pytest

from ironic_lite.db.queries.events import OpenWriters
from ironic_lite.feed import FORCED_SECONDS, MYSQL, POSTGRESQL, SQLITE, Horizon

QUIET = OpenWriters(frozenset())
LOCKED = OpenWriters(frozenset(), locked=True)


def busy(*writers: int) -> OpenWriters:
    """Return the answer of a server with these transactions."""
    return OpenWriters(frozenset(map(str, writers)))


def test_sqlite_settles_every_visible_id_at_once() -> None:
    horizon = Horizon(SQLITE, 0)
    assert horizon.advance([1, 2, 5], 0.0) == 5
    assert (horizon.passed, horizon.forced) == (0, 0)


@pytest.mark.parametrize("kind", [POSTGRESQL, MYSQL])
def test_missing_id_holds_the_cursor_until_it_appears(kind: str) -> None:
    horizon = Horizon(kind, 10)
    assert horizon.advance([11, 13], 0.0) == 11
    assert horizon.advance([13, 14], 0.5, busy(5)) == 11
    assert horizon.advance([12, 13, 14], 0.6, busy(9)) == 14
    assert horizon.passed == 0


def test_postgresql_passes_a_missing_id_once_the_writers_of_its_time_have_ended() -> None:
    horizon = Horizon(POSTGRESQL, 0)
    assert horizon.advance([1, 3], 0.0) == 1
    assert horizon.advance([3], 0.5, busy(7, 8)) == 1
    assert horizon.advance([3], 1.0, busy(8, 9)) == 1
    assert horizon.advance([3], 1.5, busy(9, 10)) == 3, "9 has begun after the mark"
    assert (horizon.passed, horizon.forced) == (1, 0)


def test_mariadb_passes_a_missing_id_without_a_row_after_ten_seconds() -> None:
    horizon = Horizon(MYSQL, 0)
    assert horizon.advance([2], 0.0) == 0
    assert horizon.advance([2], 9.9, QUIET) == 0
    assert horizon.advance([2], 10.0, QUIET) == 2
    assert (horizon.passed, horizon.forced) == (1, 0)


@pytest.mark.parametrize(
    ("kind", "answer"), [(POSTGRESQL, busy(7)), (MYSQL, busy(7)), (MYSQL, LOCKED)]
)
def test_id_of_an_open_transaction_is_not_passed_by_age(kind: str, answer: OpenWriters) -> None:
    horizon = Horizon(kind, 0)
    for second in range(0, int(FORCED_SECONDS), 10):
        assert horizon.advance([2], float(second), answer) == 0
    assert horizon.waited(FORCED_SECONDS) == FORCED_SECONDS
    assert horizon.advance([2], FORCED_SECONDS, answer) == 2
    assert (horizon.passed, horizon.forced) == (0, 1)


@pytest.mark.parametrize("kind", [POSTGRESQL, MYSQL])
def test_server_that_cannot_be_asked_lets_ids_pass_by_force_after_a_minute(kind: str) -> None:
    horizon = Horizon(kind, 0)
    assert horizon.advance([1, 3], 0.0) == 1
    assert horizon.advance([3], 59.9) == 1
    assert horizon.advance([3], 60.0) == 3
    assert (horizon.passed, horizon.forced) == (0, 1)


def test_only_marks_of_sufficient_age_are_asked_for() -> None:
    horizon = Horizon(MYSQL, 5)
    assert horizon.question(0.0) is None
    horizon.advance([7], 0.0)
    assert horizon.question(5.0) == 5, "for the INSERTs of the time of the mark"
    horizon.advance([7, 9], 5.0, QUIET)
    assert horizon.question(10.0) == 7
    assert horizon.question(15.0) == 9


def test_later_hole_waits_for_its_own_mark() -> None:
    horizon = Horizon(MYSQL, 0)
    assert horizon.advance([2], 0.0) == 0
    assert horizon.advance([2, 4], 5.0, QUIET) == 0
    assert horizon.advance([2, 4], 10.0, QUIET) == 2
    assert horizon.advance([4], 14.9, QUIET) == 2
    assert horizon.advance([4], 15.0, QUIET) == 4


def test_ids_that_the_look_has_not_read_again_are_not_passed() -> None:
    horizon = Horizon(POSTGRESQL, 0)
    horizon.advance([2, 4, 6], 0.0)
    assert horizon.advance([2, 4, 6], 1.0, QUIET, upto=3) == 4


def test_ids_off_the_increment_are_no_holes() -> None:
    horizon = Horizon(MYSQL, 0, step=3)
    assert horizon.advance([1, 4, 7], 0.0) == 7
    assert horizon.advance([13], 0.1) == 7, "10 is missing"
    assert horizon.advance([10, 13], 0.2) == 13


def test_backwards_clock_only_delays() -> None:
    horizon = Horizon(MYSQL, 0)
    assert horizon.advance([2], 100.0) == 0
    assert horizon.advance([2], 50.0, QUIET) == 0
    assert horizon.advance([2], 110.0, QUIET) == 2


def _move(one: set[int], other: set[int], rng: random.Random) -> None:
    ident = rng.choice(list(one))
    one.discard(ident)
    other.add(ident)


def _answer(kind: str, asked: int, inserting: set[int], written: set[int]) -> OpenWriters:
    """Return what a server knows: of rows that are written, MariaDB shows only the lock."""
    if kind == POSTGRESQL:
        return busy(*inserting, *written)
    return OpenWriters(busy(*inserting).writers, any(ident < asked for ident in written))


@pytest.mark.parametrize("kind", [POSTGRESQL, MYSQL])
@pytest.mark.parametrize("seed", range(100))
def test_no_order_of_commits_loses_an_event(kind: str, seed: int) -> None:
    """Model: transactions take an id and write its row, then commit or abort in any order."""
    rng = random.Random(seed)
    horizon = Horizon(kind, 0)
    next_id, now = 1, 0.0
    inserting: set[int] = set()
    written: set[int] = set()
    visible: set[int] = set()
    told: list[int] = []
    for _ in range(600):
        now += rng.random()
        act = rng.random()
        if act < 0.3:
            inserting.add(next_id)
            next_id += 1
        elif act < 0.5 and inserting:
            _move(inserting, written, rng)
        elif act < 0.7 and written:
            _move(written, visible if rng.random() < 0.8 else set(), rng)
        else:
            before, asked = horizon.settled, horizon.question(now)
            answer = None if asked is None else _answer(kind, asked, inserting, written)
            if rng.random() < 0.5 and written:  # commits between the question and the look
                visible.add(written.pop())
            ids = sorted(ident for ident in visible if ident > before)
            settled = horizon.advance(ids, now, answer)
            assert settled >= before
            told += [ident for ident in ids if before < ident <= settled]
    assert horizon.forced == 0
    assert sorted(visible & set(range(horizon.settled + 1))) == told
