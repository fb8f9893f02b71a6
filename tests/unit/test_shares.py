"""Shares of worker slots: silent machines have a quarter, a project its percentage."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.work.workers import Holder, Shares, Workers
from ironic_lite.drivers import deadline, silence
from ironic_lite.drivers.ipmi import process
from ironic_lite.drivers.silence import SilentMachines


def held(count: int, name: str, owner: str | None = None) -> list[Holder]:
    """Return so many holders."""
    return [Holder(f"{name}{number}", owner) for number in range(count)]


def shares(percent: int = 50, silent: tuple[str, ...] = ("s", "s0", "s1", "s2", "s3")) -> Shares:
    """Return the shares of 16 slots: 4 for silent machines, 8 for one project by default."""
    return Shares(16, "workers", percent, frozenset(silent))


@pytest.mark.parametrize(
    ("holders", "one", "share"),
    [
        (held(3, "s"), Holder("s"), None),
        (held(4, "s"), Holder("s"), "silent machines"),
        (held(4, "s"), Holder("answers"), None),
        (held(15, "n"), Holder("s"), None),
        (held(7, "n", "p"), Holder("n", "p"), None),
        (held(8, "n", "p"), Holder("n", "p"), "project"),
        (held(8, "n", "p"), Holder("n", "q"), None),
        (held(8, "n", "p"), Holder("n"), None),
        (held(15, "n"), Holder("n"), None),
        (held(2, "s", "p"), Holder("s", "p"), "project"),
        (held(2, "s", "p"), Holder("s", "q"), None),
        (held(2, "s", "p"), Holder("n", "p"), None),
    ],
)
def test_a_holder_is_refused_when_its_share_is_full(
    holders: list[Holder], one: Holder, share: str | None
) -> None:
    refusal = shares().refusal(holders, one)
    assert (refusal and refusal.facts["share"]) == share


def test_a_machine_that_answers_again_leaves_the_share_of_silent_ones() -> None:
    assert shares(silent=("s", "s0", "s1", "s2")).refusal(held(4, "s"), Holder("s")) is None


def test_100_percent_set_no_limit() -> None:
    assert shares(100).refusal(held(15, "n", "p"), Holder("n", "p")) is None


def test_even_the_smallest_share_has_a_slot() -> None:
    least = Shares(3, "workers", 1, frozenset({"s"}))
    assert least.refusal([], Holder("s", "p")) is None


def test_a_refusal_names_the_share_and_no_project() -> None:
    silent = shares().refusal(held(4, "s"), Holder("s"))
    project = shares().refusal(held(8, "n", "secret"), Holder("n", "secret"))
    assert silent is not None
    assert silent.message == (
        "Requested action cannot be performed due to lack of free conductor workers: 4 of 16 "
        "workers are at work for nodes whose machine did not answer last time, their share. "
        "Retry later. Check these machines."
    )
    assert project is not None
    assert "8 of 16 workers are at work for nodes of the project that owns node n" in str(project)
    assert "secret" not in str(project)


def test_slots_are_charged_to_an_owner_once_it_is_known() -> None:
    workers = Workers(4, reserve_percent=0, project_percent=50)
    first, second, third = (Holder(name) for name in "abc")
    for one in (first, second, third):
        workers.claim(holder=one)
    assert workers.asks_for_owner
    charged = workers.charge(first, "p")
    assert workers.charge(second, "p") == Holder("b", "p")
    with pytest.raises(errors.NoFreeWorker):
        workers.charge(third, "p")
    workers.leave(third)
    with pytest.raises(errors.NoFreeWorker):
        workers.claim(holder=Holder("d", "p"))
    workers.leave(charged)
    workers.claim(holder=Holder("d", "p"))
    workers.close()


def test_ended_and_hanging_work_leaves_its_share() -> None:
    workers = Workers(4, reserve_percent=0, project_percent=25)
    one = Holder("a", "p")
    workers.claim(holder=one)
    workers.run(lambda: None, one)
    assert workers.wait_idle(10)
    workers.claim(holder=one)
    opened = threading.Event()
    place = workers.run(lambda: cast(None, opened.wait(30)), one)
    place.free_slot()
    workers.claim(holder=one)
    workers.leave(one)
    assert workers.busy == 0
    opened.set()
    workers.close()


def test_silence_lasts_until_the_next_answer() -> None:
    machines = SilentMachines(most=2)
    machines.note("a", silent=False)
    assert "a" not in machines
    machines.note("a", silent=True)
    machines.note("b", silent=True)
    assert "a" in machines
    machines.note("a", silent=False)
    assert "a" not in machines
    machines.note("c", silent=True)
    machines.note("d", silent=True)
    assert [one in machines for one in "bcd"] == [False, True, True]


def test_a_machine_without_its_time_is_not_called_silent() -> None:
    machines = SilentMachines()
    with deadline.limit(0.3):
        machines.note("a", silent=True)
    assert "a" not in machines
    with deadline.limit(deadline.UNHURRIED), deadline.until(10):
        machines.note("a", silent=True)
    assert "a" in machines


def test_programs_for_silent_bmcs_leave_slots_to_others() -> None:
    slots = process.Slots()
    assert silence.share_of(8) == 2
    with (
        slots.held(8, 0, silent=True) as first,
        slots.held(8, 0, silent=True) as second,
        slots.held(8, 0, silent=True) as third,
        slots.held(8, 0) as other,
    ):
        assert (first, second, third, other) == (True, True, False, True)
    with slots.held(8, 0, silent=True) as again:
        assert again
