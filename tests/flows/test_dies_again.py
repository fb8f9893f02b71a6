"""A conductor dies, and so does the one that takes over, at each moment of that; a third comes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import pytest

from ironic_lite.domain import recovery, states
from ironic_lite.domain.recovery import CrashPoint
from ironic_lite.domain.states import Kind, State
from tests.flows.test_recovery import (
    SCENES,
    WAITS,
    cells,
    check_abort,
    killed,
    killed_in_abort,
    locked,
    possible,
)
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture
from tests.support.crashes import Moment, Stage, at_rest, rests

ALL = bool(os.environ.get("ANY_LIFE_EXAMPLES"))
STEP = 1 if ALL else 3
"""At every third moment the second one dies here; at each in `make life`."""

HEIRS = {"itself twice": ("here", "here"), "two others": ("there", "yonder")}
DEATHS = [
    ("itself twice", "call"),
    ("two others", "commit"),
    *((("itself twice", "commit"), ("two others", "call")) if ALL else ()),
]
"""Who comes after, and what the second one dies of."""


class Short(crashes.Life):
    """The life of who takes over: what the start of a conductor costs is not counted."""

    taking = False
    """Whether the main thread is taking over, too."""

    def spend(self, what: str) -> None:
        """Count one commit or call of the recovery, and die after the last."""
        if self.taking or threading.current_thread() is not threading.main_thread():
            super().spend(what)
        else:
            self.check()


@pytest.fixture
def stage(stages: Callable[..., Stage]) -> Stage:
    """A stage whose dead conductors are removed."""
    return stages(dead="removed")


def sweep(rig: ConductorFixture, _node: str) -> None:
    rig.service.orphans.sweep()


def tidied(rig: ConductorFixture, node: str) -> bool:
    return at_rest(rig, node) and "untidied" not in rig.get(node)["driver_internal_info"]


def take_over(stage: Stage, moment: Moment, node: str, who: str) -> ConductorFixture:
    """Let a conductor take over that dies at this moment of that; return the third, if needed."""
    second, third = HEIRS[who]
    life = Short()
    life.arm(**{moment.what: moment.number})
    moment.rig = stage.start(life, second)
    life.taking = True
    moment.died = stage.run(moment.rig, life, node, sweep, tidied)
    return moment.heir(third)


def moments() -> Iterator[tuple[State, CrashPoint, str]]:
    """Give each moment of each state in which somebody works, and by what it is reached."""
    for state, moment in cells():
        for what in ("commit", "call"):
            if possible(state, moment, what):
                yield state, moment, what


@pytest.mark.parametrize(("who", "again"), DEATHS)
@pytest.mark.parametrize("left", list(moments()), ids=lambda left: "-".join(map(str, left)))
def test_work_is_gone_on_with_though_its_recovery_dies_too(
    stage: Stage, left: tuple[State, CrashPoint, str], who: str, again: str
) -> None:
    for moment in stage.moments(again, step=STEP, least=again == "commit"):
        first, node = killed(stage, *left)
        run = first.get(node)["run_uuid"]
        last = take_over(stage, moment, node, who)
        row = rests(last, node)
        end = (row["provision_state"], row["last_error"])
        assert end == (SCENES[left[0]].end, None), moment.number
        assert not {"begun", "untidied", "polled_since"} & row["driver_internal_info"].keys()
        assert (row["lock_token"], row["wake_at"], row["run_uuid"]) == (None, None, None)
        (done,) = last.runs(node)
        assert (done["uuid"], done["state"]) == (run, "done")
        assert max((step["attempt"] for step in done["steps"]), default=1) <= 3
        assert {step["state"] for step in done["steps"]} <= {"done"}


@pytest.mark.parametrize(("who", "again"), DEATHS)
@pytest.mark.parametrize("state", WAITS)
def test_abort_is_cleaned_up_even_if_the_recovery_dies_too(
    stage: Stage, state: State, who: str, again: str
) -> None:
    for moment in stage.moments(again, step=STEP, least=again == "commit"):
        node = killed_in_abort(stage, state)
        check_abort(stage, take_over(stage, moment, node, who), node, state)


@pytest.mark.parametrize("who", HEIRS)
def test_resting_states_lose_their_locks_even_if_the_recovery_dies_too(
    stage: Stage, who: str
) -> None:
    resting = sorted(set(State) - recovery.WORKED_IN)
    rig = stage.heir()
    for moment in stage.moments("commit", step=5, least=len(resting)):
        found = {state: locked(rig, state, target_power_state="power on") for state in resting}
        stage.bury(rig)
        rig = take_over(stage, moment, found[State.ACTIVE], who)
        assert rig.service.runtime.workers.wait_idle(60)
        for state, node in found.items():
            row = rig.get(node)
            assert (row["provision_state"], row["reservation"]) == (state, None)
            assert row["target_power_state"] is None
            assert "interrupted" in row["last_error"]
            assert len(rig.events(node, "power")) == 1
            assert states.kind(state) is not Kind.BUSY
