"""The stop of a run as a value: its text, and the steps it keeps from beginning."""

from __future__ import annotations

import pytest

from ironic_lite.domain import states, verbs
from ironic_lite.domain.run_stops import How, Progress, Stop, stoppable
from ironic_lite.domain.states import State

AT = "2026-11-23T10:00:00.000001"


def stop(after: int | None = None, progress: Progress = Progress.ASKED) -> Stop:
    return Stop("r1", How.HOLD, after, "why", "ann", AT, progress)


@pytest.mark.parametrize("progress", Progress)
@pytest.mark.parametrize("after", [None, 0, 7])
def test_text_is_read_again_for_its_run_alone(after: int | None, progress: Progress) -> None:
    one = stop(after, progress)
    assert Stop.read(one.text, "r1") == one
    assert Stop.read(one.text, "r2") is None
    assert Stop.read(one.text, None) is None
    assert Stop.read(None, "r1") is None


@pytest.mark.parametrize(
    ("one", "due"),
    [
        (stop(), [0, 1, 2, 3]),
        (stop(after=1), [2, 3]),
        (stop(after=3), []),
        (stop(after=3, progress=Progress.TAKEN), [0, 1, 2, 3]),
        (stop(progress=Progress.DONE), []),
    ],
)
def test_stop_keeps_later_steps_from_beginning(one: Stop, due: list[int]) -> None:
    assert [ordinal for ordinal in range(4) if one.due(ordinal)] == due


def test_document_omits_the_run() -> None:
    shown = stop(after=1).document
    assert shown.keys() == {"how", "after", "reason", "requester", "at", "progress"}
    assert (shown["how"], shown["progress"], shown["after"]) == ("hold", "asked", 1)


def test_states_of_runs_with_steps_between_which_they_can_be_held() -> None:
    assert {state for state in State if stoppable(state)} == {
        *(State.CLEANING, State.CLEANWAIT, State.CLEANHOLD),
        *(State.DEPLOYING, State.DEPLOYWAIT, State.DEPLOYHOLD),
        *(State.SERVICING, State.SERVICEWAIT, State.SERVICEHOLD),
        State.DELETING,
    }


def test_clients_cannot_use_the_aborts_of_busy_states() -> None:
    verb = verbs.BY_TARGET["abort"]
    busy = [state for state in State if states.kind(state) is states.Kind.BUSY]
    assert any(states.allows(state, "abort") for state in busy)
    assert not any(verbs.possible(verb, state) for state in busy)
