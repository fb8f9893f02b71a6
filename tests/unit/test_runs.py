"""Runs as tables: activities, recovery, retries, stops, and times of steps."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.conductor.engine.phases import Phase
from ironic_lite.conductor.flows import activities as flows
from ironic_lite.core import options
from ironic_lite.domain import activities, recovery, retries, states, step_times, verbs
from ironic_lite.domain.activities import Activity, StepActivity
from ironic_lite.domain.recovery import CrashPoint, RecoveryAction
from ironic_lite.domain.retries import Action, FailedRun, RetryEffects, RetryRequest, Stored
from ironic_lite.domain.run_stops import How, Stop, StopProgress, stoppable
from ironic_lite.domain.states import Kind, State
from ironic_lite.domain.step_times import Remaining, Sample, Usual
from ironic_lite.records import RunStep, StoredStep

# The stop of a run as a value: its text, and the steps it keeps from beginning.

AT = "2026-11-23T10:00:00.000001"


def stop(after: int | None = None, progress: StopProgress = StopProgress.ASKED) -> Stop:
    return Stop("r1", How.HOLD, after, "why", "ann", AT, progress)


@pytest.mark.parametrize("progress", StopProgress)
@pytest.mark.parametrize("after", [None, 0, 7])
def test_text_is_read_again_for_its_run_alone(after: int | None, progress: StopProgress) -> None:
    one = stop(after, progress)
    assert Stop.read(one.text, "r1") == one
    assert Stop.read(one.text, "r2") is None
    assert Stop.read(one.text, None) is None
    assert Stop.read(None, "r1") is None
    later = orjson.dumps({**orjson.loads(one.text), "of_a_later_release": 1})
    assert Stop.read(later.decode(), "r1") == one


@pytest.mark.parametrize(
    ("one", "due"),
    [
        (stop(), [0, 1, 2, 3]),
        (stop(after=1), [2, 3]),
        (stop(after=3), []),
        (stop(after=3, progress=StopProgress.TAKEN), [0, 1, 2, 3]),
        (stop(progress=StopProgress.DONE), []),
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


# Decisions of a retry, as tables: the fate of each step by its record and the request.

BY = {"requester": "ann", "at": "2026-01-31T12:00:00"}


def effects(*, lasts: bool = True, rerunnable: bool = True, spoils: bool = False) -> RetryEffects:
    """Return the same effects for each step."""
    return RetryEffects(lambda _at: lasts, lambda _at: rerunnable, lambda _at: spoils)


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


def actions(run: FailedRun, declared: RetryEffects = LASTING, **wanted: Any) -> list[Action]:
    """Return the fates of the steps."""
    return [
        one.action for one in retries.decide(run, RetryRequest.from_json(wanted), declared, by=BY)
    ]


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
    wanted: Any, declared: RetryEffects, expected: list[Action]
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
    decided = retries.decide(run, RetryRequest(), PASSING, by=BY)
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
    spoiling = RetryEffects(lambda at: at == 1, lambda _at: True, lambda at: at == 0)
    assert actions(failed_run("done", "done", "failed"), spoiling) == [RUN, RUN, RUN]
    harmless = RetryEffects(lambda at: at == 1, lambda _at: True, lambda _at: False)
    assert actions(failed_run("done", "done", "failed"), harmless) == [RUN, KEEP, RUN]


def test_nothing_is_kept_if_the_inputs_have_changed() -> None:
    run = failed_run("done", "waived", "failed")
    decided = retries.decide(run, RetryRequest(), LASTING, by=BY, inputs="others")
    assert [one.action for one in decided] == [RUN, RUN, RUN]


def test_doubt_lasts_until_the_step_begins_again() -> None:
    run = failed_run("failed", "skipped", code="TimedOut")
    decided = retries.decide(run, RetryRequest(force=True), ONCE, by=BY)
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
    stored = run.continued(retries.decide(run, RetryRequest(start=0, force=True), ONCE, by=BY))
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


# The table of what becomes of a node whose conductor is gone: no state without a rule.

KINDS = {
    Kind.STABLE: {RecoveryAction.RELEASE, RecoveryAction.REPORT},
    Kind.FAIL: {RecoveryAction.RELEASE, RecoveryAction.REPORT, RecoveryAction.FINISH_ABORT},
    Kind.WAIT: {RecoveryAction.KEEP_WAITING},
    Kind.HELD: {RecoveryAction.KEEP_HELD},
    Kind.BUSY: {
        RecoveryAction.BEGIN,
        RecoveryAction.REPEAT,
        RecoveryAction.REPEAT_IF_RERUNNABLE,
        RecoveryAction.RUN_NEXT,
    },
}


@pytest.mark.parametrize("state", State)
def test_every_state_has_a_rule_that_fits_what_it_is(state: State) -> None:
    assert set(recovery.TABLE[state]) <= KINDS[states.kind(state)]


def test_worked_in_states_are_the_busy_states() -> None:
    assert states.of_kind(Kind.BUSY) == recovery.WORKED_IN


def test_every_clean_step_is_run_again_and_no_step_of_an_instance_against_its_word() -> None:
    assert recovery.TABLE[State.CLEANING].during is RecoveryAction.REPEAT
    for state in (State.DEPLOYING, State.SERVICING):
        assert recovery.TABLE[state].during is RecoveryAction.REPEAT_IF_RERUNNABLE


def test_steps_are_gone_on_with_where_there_are_steps() -> None:
    stepping = {
        state for state, rule in recovery.TABLE.items() if rule.after is RecoveryAction.RUN_NEXT
    }
    assert stepping == {state for state in recovery.WORKED_IN if activities.stepping(state)}


def test_abort_has_a_recovery_in_every_state_it_leads_to() -> None:
    tidied = {
        state for state, rule in recovery.TABLE.items() if RecoveryAction.FINISH_ABORT in rule
    }
    sources = states.of_kind(Kind.WAIT, Kind.HELD)
    assert tidied == {states.follow(state, "abort") for state in sources}


@pytest.mark.parametrize("moment", CrashPoint)
def test_a_rule_is_read_by_moment(moment: CrashPoint) -> None:
    rule = recovery.TABLE[State.DEPLOYING]
    assert rule.at(moment) is rule[list(CrashPoint).index(moment)]


# The table of activities: no state of work without a row, no row without its functions.

WORK = states.of_kind(Kind.BUSY, Kind.WAIT, Kind.HELD, Kind.FAIL)
MOMENT_KINDS = {"busy": Kind.BUSY, "waiting": Kind.WAIT, "held": Kind.HELD}
named = pytest.mark.parametrize("activity", activities.TABLE, ids=lambda each: each.name)


@pytest.mark.parametrize("state", sorted(WORK))
def test_every_state_of_work_belongs_to_one_activity(state: State) -> None:
    assert [each.name for each in activities.TABLE if state in each.states] != []
    assert len([each for each in activities.TABLE if state in each.states]) == 1


@named
def test_the_states_of_an_activity_have_the_kind_of_their_column(activity: Activity) -> None:
    for column, kind in MOMENT_KINDS.items():
        state = getattr(activity, column)
        assert state is None or states.kind(state) is kind
    if activity.failed is not None:
        assert states.follow(activity.busy, "fail") is activity.failed


@named
def test_an_activity_that_waits_has_a_time_out_and_words_for_it(activity: Activity) -> None:
    waits = activity.waiting is not None
    assert (activity.timeout is not None, bool(activity.overdue)) == (waits, waits)


@named
def test_the_options_of_an_activity_exist(activity: Activity) -> None:
    known = {option.dest for option in options.GROUPS["conductor"]}
    assert {activity.timeout, activity.limit} - {None} <= known


def test_every_activity_has_its_functions() -> None:
    assert set(flows.FLOWS) == set(activities.TABLE)


@named
def test_only_activities_with_steps_have_a_phase(activity: Activity) -> None:
    assert isinstance(flows.FLOWS[activity], Phase) is isinstance(activity, StepActivity)


@named
def test_an_activity_that_waits_can_be_resumed_and_called_off(activity: Activity) -> None:
    flow = flows.FLOWS[activity]
    waits = activity.waiting is not None
    assert (flow.call_off.__name__ == "call_off") is (flow.tidy.__name__ == "tidy") is waits
    assert not waits or flow.resume is not None or isinstance(flow, Phase)


@pytest.mark.parametrize("state", sorted(states.of_kind(Kind.STABLE) - {State.ERROR}))
def test_a_state_of_rest_belongs_to_no_activity(state: State) -> None:
    assert activities.of(state) is None
    assert flows.flow_of(state) is None


# Percentiles, usual durations, expected ends and overdue steps, by tables of cases.

NOON = datetime.datetime(2026, 1, 31, 12)
ALL = ("step",)
NARROWEST = ("step", "driver", "resource_class")


def later(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def known(p50: float, p90: float, samples: int = 5, of: tuple[str, ...] = ALL) -> Usual:
    return Usual(p50, p90, samples, of)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([7], 0.5, 7),
        ([7], 0.99, 7),
        ([1, 2], 0.5, 1),
        ([1, 2, 3], 0.5, 2),
        ([1, 2, 3, 4, 5], 0.9, 5),
        (list(range(1, 11)), 0.9, 9),
        (list(range(1, 101)), 0.5, 50),
        (list(range(1, 101)), 0.9, 90),
        (list(range(1, 101)), 0.99, 99),
        (list(range(1, 101)), 1.0, 100),
    ],
)
def test_percentile_is_the_nearest_rank(values: list[float], share: float, expected: float) -> None:
    assert step_times.percentile(values, share) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_percentile_is_a_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = step_times.percentile(ordered, share)
    assert found in ordered
    assert sum(one <= found for one in ordered) >= share * len(ordered) - 1e-6


def times(driver: str, resource_class: str | None, *seconds: float) -> list[Sample]:
    return [Sample(one, driver, resource_class) for one in seconds]


GPU = times("redfish", "gpu", 1, 2, 3, 4, 5)
CPU = times("redfish", "cpu", 10, 20, 30, 40)
IPMI = times("ipmi", "gpu", 100, 200)


@pytest.mark.parametrize(
    ("samples", "driver", "resource_class", "expected"),
    [
        ([], "redfish", "gpu", None),
        (GPU[:4], "redfish", "gpu", None),
        (GPU, "redfish", "gpu", (3, 5, 5, NARROWEST)),
        (GPU + CPU, "redfish", "cpu", (5, 40, 9, ("step", "driver"))),
        (GPU + CPU + IPMI, "ipmi", "gpu", (10, 100, 11, ALL)),
        (GPU, None, None, (3, 5, 5, ALL)),
        (times("redfish", None, 1, 1, 1, 1, 1), "redfish", None, (1, 1, 5, NARROWEST)),
        (
            times("redfish", "gpu", -5, -5, -5, -5, 0.12345),
            "redfish",
            "gpu",
            (0, 0.123, 5, NARROWEST),
        ),
    ],
)
def test_usual_takes_the_narrowest_kind_with_five_samples(
    samples: list[Sample],
    driver: str | None,
    resource_class: str | None,
    expected: tuple[object, ...] | None,
) -> None:
    found = step_times.usual(samples, driver, resource_class)
    assert found == expected


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [
        ([], None),
        ([Remaining(None)], None),
        ([Remaining(known(10, 20)), Remaining(None, 5)], None),
        ([Remaining(known(10, 20, 7))], (later(10), later(20), 7, ALL)),
        ([Remaining(known(10, 20), 4)], (later(6), later(16), 5, ALL)),
        ([Remaining(known(10, 20), 15)], (NOON, later(5), 5, ALL)),
        ([Remaining(known(10, 20), 80)], (NOON, NOON, 5, ALL)),
        ([Remaining(known(10, 20), 81)], None),
        ([Remaining(known(10, 20), 81), Remaining(known(10, 20))], None),
        (
            [
                Remaining(known(10, 20, 200, NARROWEST), 15),
                Remaining(known(100, 110, 9, ("step", "driver"))),
                Remaining(known(0, 0.5, 40, NARROWEST)),
            ],
            (later(100), later(115.5), 9, ("step", "driver")),
        ),
        ([Remaining(known(1e15, 1e15))], (datetime.datetime.max, datetime.datetime.max, 5, ALL)),
    ],
)
def test_eta_is_the_sum_of_what_remains(
    remaining: list[Remaining], expected: tuple[object, ...] | None
) -> None:
    assert step_times.eta(remaining, NOON) == expected


@pytest.mark.parametrize(
    ("usual", "seconds", "since"),
    [
        (None, 1e9, None),
        (known(1, 1), 900, None),
        (known(1, 1), 901, 900),
        (known(100, 300), 900, None),
        (known(100, 300), 901, 900),
        (known(100, 1000), 2999, None),
        (known(100, 1000), 3001, 3000),
    ],
)
def test_step_is_overdue_after_three_usual_times_and_a_quarter_of_an_hour(
    usual: Usual | None, seconds: float, since: float | None
) -> None:
    found = step_times.overdue_of(usual, NOON, later(seconds))
    assert (found and found.since) == (None if since is None else later(since))
    assert found is None or (usual is not None and found.usual_p90 == usual.p90)


def test_step_that_has_not_begun_is_not_overdue() -> None:
    assert step_times.overdue_of(known(1, 1), None, NOON) is None
