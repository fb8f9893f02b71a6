"""What a batch does next: a table of cases. Also the sizes of waves and the failures allowed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.features.batches import rules
from ironic_lite.features.batches.rules import Batch, BatchDecision, BatchState, NodeState

pytestmark = pytest.mark.feature("batches")

RUNNING, PAUSED, DONE, ABORTED = BatchState
BASE = Batch("running", 0, waves=1, concurrency=2, max_failures=0, forgiven=0)


def counts(*waves: str) -> dict[tuple[int, str], int]:
    """Return the counts of waves in which each node is one letter of its state.

    r stands for running, R for refused, s for starting and S for skipped.
    """
    names = {
        **{"p": "pending", "s": "starting", "r": "running", "d": "done", "f": "failed"},
        **{"a": "aborted", "R": "refused", "S": "skipped"},
    }
    return dict(
        Counter((wave, names[letter]) for wave, all_of in enumerate(waves) for letter in all_of)
    )


CASES: dict[str, tuple[dict[str, Any], tuple[str, ...], BatchDecision]] = {
    # name: values of the batch, its nodes by wave, the decision
    "starts as many as may run": ({}, ("ppppp",), BatchDecision(RUNNING, 0, 2)),
    "starts what is left": ({}, ("pd",), BatchDecision(RUNNING, 0, 1)),
    "counts what is under way": ({}, ("srp",), BatchDecision(RUNNING, 0, 0)),
    "starts one for one that ended": ({}, ("rpd",), BatchDecision(RUNNING, 0, 1)),
    "never starts a negative number": ({"concurrency": 1}, ("rrrp",), BatchDecision(RUNNING, 0, 0)),
    "ends when all have ended": ({}, ("ddS",), BatchDecision(DONE, 0, ended=True)),
    "ends though too many have failed": ({}, ("ff",), BatchDecision(DONE, 0, ended=True)),
    "ends though it is paused": ({"state": "paused"}, ("da",), BatchDecision(DONE, 0, ended=True)),
    "waits for the end of a wave": ({"waves": 2}, ("r", "pp"), BatchDecision(RUNNING, 0, 0)),
    "begins the next wave": ({"waves": 2}, ("d", "ppp"), BatchDecision(RUNNING, 1, 2)),
    "skipped nodes complete a wave": ({"waves": 2}, ("S", "p"), BatchDecision(RUNNING, 1, 1)),
    "aborted nodes complete a wave": ({"waves": 2}, ("a", "p"), BatchDecision(RUNNING, 1, 1)),
    "goes through an empty wave next time": (
        {"waves": 3},
        ("d", "S", "p"),
        BatchDecision(RUNNING, 1, 0),
    ),
    "pauses between waves": (
        {"waves": 2, "between_waves": "pause"},
        ("d", "pp"),
        BatchDecision(PAUSED, 1, by="end of a wave"),
    ),
    "goes on after that pause": (
        {"waves": 2, "wave": 1, "between_waves": "pause"},
        ("d", "pp"),
        BatchDecision(RUNNING, 1, 2),
    ),
    "does not pause after the last wave": (
        {"between_waves": "pause"},
        ("dd",),
        BatchDecision(DONE, 0, ended=True),
    ),
    "one failure too many pauses": ({}, ("fpp",), BatchDecision(PAUSED, 0, by="failures")),
    "a refusal is a failure": ({}, ("Rpp",), BatchDecision(PAUSED, 0, by="failures")),
    "aborted and skipped nodes are no failures": ({}, ("aSp",), BatchDecision(RUNNING, 0, 1)),
    "failures within the limit": ({"max_failures": 2}, ("fRp",), BatchDecision(RUNNING, 0, 1)),
    "failures of all waves count": (
        {"max_failures": 1, "waves": 2, "wave": 1},
        ("f", "fp"),
        BatchDecision(PAUSED, 1, by="failures"),
    ),
    "failures come before the next wave": (
        {"waves": 2},
        ("f", "p"),
        BatchDecision(PAUSED, 0, by="failures"),
    ),
    "failures before the resume do not count": (
        {"forgiven": 2},
        ("ffp",),
        BatchDecision(RUNNING, 0, 1),
    ),
    "failures after the resume do": (
        {"forgiven": 2},
        ("fffp",),
        BatchDecision(PAUSED, 0, by="failures"),
    ),
    "failures abort": (
        {"on_failures": "abort"},
        ("fpp",),
        BatchDecision(ABORTED, 0, by="failures", ended=True),
    ),
    "failures abort, and runs go on": (
        {"on_failures": "abort"},
        ("frp",),
        BatchDecision(ABORTED, 0, by="failures"),
    ),
    "a pause starts nothing": ({"state": "paused"}, ("pp",), BatchDecision(PAUSED, 0)),
    "a pause begins no wave": (
        {"state": "paused", "waves": 2},
        ("d", "p"),
        BatchDecision(PAUSED, 0),
    ),
    "a pause of weeks aborts": (
        {"state": "paused", "forgotten": True},
        ("pr",),
        BatchDecision(ABORTED, 0, by="pause of 30 days"),
    ),
    "only a pause is too old": ({"forgotten": True}, ("p",), BatchDecision(RUNNING, 0, 1)),
    "an abort waits for runs": ({"state": "aborted"}, ("rS",), BatchDecision(ABORTED, 0)),
    "an abort ends with the last run": (
        {"state": "aborted"},
        ("dS",),
        BatchDecision(ABORTED, 0, ended=True),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_turn(name: str) -> None:
    values, waves, expected = CASES[name]
    assert rules.turn(BASE._replace(**values), counts(*waves)) == expected


def test_only_a_paused_batch_is_forgotten() -> None:
    row = {
        **{"wave": 0, "max_failures": 0, "forgiven": 0},
        "updated_at": clock.ago((rules.PAUSED_DAYS + 1) * 24 * 3600),
        "options": {
            **{"waves": [1], "concurrency": 1},
            **{"on_failures": "pause", "between_waves": "go on"},
        },
    }
    found = {state: rules.of_row({**row, "state": state}).forgotten for state in BatchState}
    assert [state for state, forgotten in found.items() if forgotten] == [PAUSED]


BATCHES = st.builds(
    Batch,
    state=st.sampled_from(["running", "paused", "aborted"]),
    wave=st.just(0),
    waves=st.just(1),
    concurrency=st.integers(1, 5),
    max_failures=st.integers(0, 5),
    forgiven=st.just(0),
    on_failures=st.sampled_from(["pause", "abort"]),
    between_waves=st.sampled_from(["go on", "pause"]),
)


@given(
    waves=st.lists(st.text("psrdfaRS", min_size=1, max_size=6), min_size=1, max_size=4),
    batch=BATCHES,
    data=st.data(),
)
def test_no_turn_starts_too_much(waves: list[str], batch: Batch, data: st.DataObject) -> None:
    wave = data.draw(st.integers(0, len(waves) - 1))
    batch = batch._replace(wave=wave, waves=len(waves))
    known = counts(*waves)
    decided = rules.turn(batch, known)
    under_way = rules.total(known, rules.UNDER_WAY)
    assert decided.wave in (wave, wave + 1)
    assert decided.wave < len(waves)
    if decided.start:
        assert decided.state is RUNNING
        assert batch.state == "running"
        assert decided.start + under_way <= batch.concurrency
        assert decided.start <= known.get((decided.wave, NodeState.PENDING), 0)
        assert rules.total(known, rules.FAILURES) <= batch.max_failures
    if decided.wave > wave:
        begun = {each for (at, each) in known if at <= wave}
        assert not begun & set(rules.UNENDED)
    if decided.ended:
        assert not under_way


@pytest.mark.parametrize(
    ("given_waves", "count", "sizes"),
    [
        ([], 7, [7]),
        ([1, "10%", "100%"], 40, [1, 4, 35]),
        ([1, "100%"], 1, [1]),
        (["10%"], 5, [5]),
        (["0.5%", "100%"], 10_000, [50, 9950]),
        (["1%", "1%", "100%"], 3, [1, 1, 1]),
        ([2, 2], 10, [2, 8]),
        ([50, 50], 10, [10]),
        (["0%", "100%"], 4, [1, 3]),
    ],
)
def test_sizes_of_waves(given_waves: list[Any], count: int, sizes: list[int]) -> None:
    assert rules.wave_sizes(given_waves, count) == sizes


@given(
    given_waves=st.lists(st.integers(1, 50) | st.integers(0, 100).map("{}%".format), max_size=10),
    count=st.integers(1, 10_000),
)
def test_waves_have_each_node_once(given_waves: list[Any], count: int) -> None:
    sizes = rules.wave_sizes(given_waves, count)
    assert sum(sizes) == count
    assert min(sizes) >= 1


@pytest.mark.parametrize("entry", [0, -1, True, 1.5, "ten", "101%", "-1%", "5", None])
def test_bad_entry_of_waves_is_refused(entry: object) -> None:
    with pytest.raises(errors.InvalidParameter, match="waves/1"):
        rules.wave_sizes([1, entry], 10)


@pytest.mark.parametrize(
    ("allowed", "count", "number"),
    [(0, 9, 0), (3, 9, 3), ("5%", 40, 2), ("5%", 19, 0), ("64.1%", 1000, 641)],
)
def test_failures_allowed(allowed: object, count: int, number: int) -> None:
    assert rules.failures_allowed(allowed, count) == number


@pytest.mark.parametrize("allowed", [-1, True, 0.5, "x", "200%", None])
def test_bad_number_of_failures_is_refused(allowed: object) -> None:
    with pytest.raises(errors.InvalidParameter, match="max_failures"):
        rules.failures_allowed(allowed, 10)


def test_request_id_is_the_same_at_each_try_and_of_one_node() -> None:
    assert rules.request_id("b", "n") == rules.request_id("b", "n")
    assert len({rules.request_id(*words) for words in ("bn", "bm", "cn", "bna")}) == 4


def test_tries_last_an_hour() -> None:
    pauses = [rules.pause_seconds(tries) for tries in range(1, rules.MOST_TRIES)]
    assert 3600 <= sum(pauses) < 3660


def test_pauses_between_tries() -> None:
    assert [rules.pause_seconds(n) for n in (0, 1, 2, 3, 4, 5, 99)] == [5, 5, 10, 20, 40, 60, 60]
