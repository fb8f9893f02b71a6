"""Decisions of a retry, as tables: the fate of each step by its record and the request."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.domain import retries
from ironic_lite.domain.retries import Action, Effects, FailedRun, Request, Stored
from ironic_lite.records import RunStep, StoredStep

BY = {"requester": "ann", "at": "2026-01-31T12:00:00"}


def effects(*, lasts: bool = True, rerunnable: bool = True, spoils: bool = False) -> Effects:
    """Return the same effects for each step."""
    return Effects(lambda _at: lasts, lambda _at: rerunnable, lambda _at: spoils)


LASTING, PASSING, ONCE = effects(), effects(lasts=False), effects(rerunnable=False)
KEEP, RUN, WAIVE = Action.KEEP, Action.RUN, Action.WAIVE


def failed_run(*states: str, first: int = 0, **error: Any) -> FailedRun:
    """Return a run whose steps have these states; its failed step has this error."""
    steps: list[StoredStep] = [
        {"interface": "deploy", "step": f"step_{at}"} for at in range(len(states))
    ]
    rows = [
        cast(
            RunStep,
            {
                "run_uuid": "old",
                "kind": "clean",
                "ordinal": first + at,
                "state": state,
                "attempt": 0 if state in ("skipped", "pending", "waived") else 1,
                "started_at": None,
                "ended_at": None,
                "error": error or None if state == "failed" else None,
                "done_in": None,
                "waiver": {"reason": "of then"} if state == "waived" else None,
            },
        )
        for at, state in enumerate(states)
    ]
    return FailedRun("old", Stored("clean", steps, first=first), rows)


def actions(run: FailedRun, declared: Effects = LASTING, **wanted: Any) -> list[Action]:
    """Return the fates of the steps."""
    return [one.action for one in retries.decide(run, Request.from_json(wanted), declared, by=BY)]


STATES = ("done", "done", "failed", "skipped")


@pytest.mark.parametrize(
    ("wanted", "declared", "expected"),
    [
        ({}, LASTING, [KEEP, KEEP, RUN, RUN]),
        ({}, PASSING, [RUN, RUN, RUN, RUN]),
        ({"from": 2}, LASTING, [KEEP, KEEP, RUN, RUN]),
        ({"from": 1}, LASTING, [KEEP, RUN, RUN, RUN]),
        ({"from": 0}, LASTING, [RUN, RUN, RUN, RUN]),
        ({"waive": [{"reason": "x"}]}, LASTING, [KEEP, KEEP, WAIVE, RUN]),
        ({"waive": [{"ordinal": 3, "reason": "x"}]}, LASTING, [KEEP, KEEP, RUN, WAIVE]),
        ({"waive": [{"ordinal": 0, "reason": "x"}]}, PASSING, [WAIVE, RUN, RUN, RUN]),
        ({"from": 0, "waive": [{"ordinal": 1, "reason": "x"}]}, LASTING, [RUN, WAIVE, RUN, RUN]),
    ],
)
def test_request_and_effects_decide_about_each_step(
    wanted: Any, declared: Effects, expected: list[Action]
) -> None:
    assert actions(failed_run(*STATES), declared, **wanted) == expected
    shifted = {
        **wanted,
        **({"from": wanted["from"] + 5} if "from" in wanted else {}),
        "waive": [
            {**one, **({"ordinal": one["ordinal"] + 5} if "ordinal" in one else {})}
            for one in wanted.get("waive", ())
        ],
    }
    assert actions(failed_run(*STATES, first=5), declared, **shifted) == expected


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        ({"from": 3}, "retry/from"),
        ({"from": 4}, "retry/from"),
        ({"waive": [{"ordinal": 4, "reason": "x"}]}, "retry/waive/0/ordinal"),
        ({"waive": [{"reason": "x"}, {"ordinal": 0, "reason": "x"}]}, "retry/waive/1/ordinal"),
    ],
)
def test_choice_of_a_wrong_step_is_refused_by_its_path(wanted: Any, path: str) -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        actions(failed_run(*STATES), **wanted)
    assert caught.value.facts["path"] == path


def test_step_waived_once_stays_waived_with_its_reason() -> None:
    run = failed_run("done", "waived", "failed")
    decided = retries.decide(run, Request(), PASSING, by=BY)
    assert [one.action for one in decided] == [RUN, WAIVE, RUN]
    assert decided[1].facts == {"waiver": {"reason": "of then"}}


def test_run_that_failed_after_its_last_step_keeps_all_of_them() -> None:
    assert actions(failed_run("done", "done")) == [KEEP, KEEP]


@pytest.mark.parametrize("code", sorted(retries.IN_DOUBT))
@pytest.mark.parametrize("nested", [False, True])
def test_step_in_doubt_runs_again_only_if_it_may_or_must(code: str, nested: bool) -> None:
    error = {"code": "StepFailed", "cause": {"code": code}} if nested else {"code": code}
    run = failed_run("done", "failed", **error)
    assert actions(run, LASTING) == [KEEP, RUN]
    assert actions(run, ONCE, force=True) == [KEEP, RUN]
    assert actions(run, ONCE, waive=[{"reason": "x"}]) == [KEEP, WAIVE]
    with pytest.raises(errors.StepInDoubt, match=r"deploy\.step_1 \(ordinal 1 of the run old\)"):
        actions(run, ONCE)


def test_step_that_reported_its_failure_is_not_in_doubt() -> None:
    assert actions(failed_run("failed", code="AgentCommandFailed"), ONCE) == [RUN]


@given(
    states=st.lists(st.sampled_from(["done", "waived"]), max_size=5),
    rest=st.lists(st.just("skipped"), max_size=4),
    lasting=st.booleans(),
)
def test_every_step_has_one_fate_and_none_that_never_ran_is_kept(
    states: list[str], rest: list[str], lasting: bool
) -> None:
    run = failed_run(*states, "failed", *rest)
    found = actions(run, LASTING if lasting else PASSING)
    assert len(found) == len(states) + 1 + len(rest)
    assert set(found[len(states) :]) == {RUN}
    done = KEEP if lasting else RUN
    assert found[: len(states)] == [WAIVE if state == "waived" else done for state in states]


@pytest.mark.parametrize(
    ("made", "most", "pause"),
    [(0, 0, None), (0, 1, 60), (1, 1, None), (1, 3, 300), (2, 3, 900), (3, 3, None), (3, 9, None)],
)
def test_automatic_retries_have_growing_pauses_and_an_end(
    made: int, most: int, pause: float | None
) -> None:
    assert retries.automatic_pause(made, most) == pause


# -- what makes a kept step worthless --------------------------------------------------------


def test_nothing_is_kept_behind_a_step_that_destroys_and_runs_again() -> None:
    spoiling = Effects(lambda at: at == 1, lambda _at: True, lambda at: at == 0)
    assert actions(failed_run("done", "done", "failed"), spoiling) == [RUN, RUN, RUN]
    harmless = Effects(lambda at: at == 1, lambda _at: True, lambda _at: False)
    assert actions(failed_run("done", "done", "failed"), harmless) == [RUN, KEEP, RUN]


def test_nothing_is_kept_if_the_inputs_have_changed() -> None:
    run = failed_run("done", "waived", "failed")
    decided = retries.decide(run, Request(), LASTING, by=BY, inputs="others")
    assert [one.action for one in decided] == [RUN, RUN, RUN]


def test_doubt_lasts_until_the_step_begins_again() -> None:
    run = failed_run("failed", "skipped", code="TimedOut")
    decided = retries.decide(run, Request(force=True), ONCE, by=BY)
    stored = run.continued(decided)
    assert stored.doubt == [0]
    row = {**cast(Any, run.row(0)), "state": "skipped", "attempt": 1, "error": None}
    again = FailedRun("new", Stored.from_json(stored.as_json()), [cast(RunStep, row)])
    with pytest.raises(errors.StepInDoubt):
        actions(again, ONCE)
    begun = {**row, "state": "failed", "error": {"code": "AgentCommandFailed"}}
    over = FailedRun("new", stored, [cast(RunStep, begun)])
    assert actions(over, ONCE) == [RUN, RUN]


def test_doubt_lasts_if_the_forced_retry_fails_in_an_earlier_step() -> None:
    run = failed_run("done", "failed", code="BmcUnreachable")
    stored = run.continued(retries.decide(run, Request(start=0, force=True), ONCE, by=BY))
    assert stored.doubt == [1]
    first = {**cast(Any, run.row(0)), "state": "failed", "error": {"code": "AgentCommandFailed"}}
    second = {**cast(Any, run.row(1)), "state": "skipped", "error": None}
    again = FailedRun("new", stored, [cast(RunStep, first), cast(RunStep, second)])
    with pytest.raises(errors.StepInDoubt, match=r"deploy\.step_1 \(ordinal 1 of the run new\)"):
        actions(again, ONCE)
    assert actions(again, ONCE, force=True) == [RUN, RUN]


def test_list_of_a_later_release_is_read_without_its_new_keys() -> None:
    stored = Stored("clean", [{"interface": "deploy", "step": "x"}])
    assert Stored.from_json({**stored.as_json(), "of_tomorrow": 1}) == dataclasses.replace(
        stored, doubt=[]
    )


def test_two_waivers_of_one_step_are_refused_at_the_second() -> None:
    wanted = [{"reason": "x"}, {"ordinal": 2, "reason": "y"}]
    with pytest.raises(errors.InvalidParameter) as caught:
        actions(failed_run(*STATES), waive=wanted)
    assert caught.value.facts["path"] == "retry/waive/1/ordinal"
