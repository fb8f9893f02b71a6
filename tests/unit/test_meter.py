"""Runs and steps are counted when they end, each once, and timed where their begin was seen."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.conductor.work import run_metrics
from ironic_lite.core import metrics

NOON = datetime.datetime(2026, 1, 31, 12)


def later(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


@pytest.fixture
def board() -> metrics.Board:
    return metrics.Board()


def counted(board: metrics.Board, name: str) -> dict[tuple[str, ...], Any]:
    """Return values by labels: a number, or (count, sum) of durations."""
    found = {}
    for one in board.snapshot().get(name, ()):
        labels = tuple(one[label] for label in metrics.FAMILIES[name].labels)
        found[labels] = one.get("value", (one.get("count"), one.get("sum")))
    return found


def test_a_run_and_its_steps_are_counted_and_timed(board: metrics.Board) -> None:
    made = run_metrics.RunMetrics(board)
    made.run("r", {"verb": "clean", "started_at": NOON, "state": "running", "ended_at": None})
    for ordinal in (0, 1):
        made.step("r", "clean", ordinal, {"state": "running", "started_at": later(ordinal)})
        made.step("r", "clean", ordinal, {"state": "done", "ended_at": later(ordinal + 1)})
    made.run("r", {"state": "waiting"})
    made.run("r", {"state": "done", "ended_at": later(30)})
    assert counted(board, "runs_total") == {("clean", "done"): 1}
    assert counted(board, "run_seconds") == {("clean",): (1, 30.0)}
    assert counted(board, "steps_total") == {("clean", "done"): 2}
    assert counted(board, "step_seconds") == {("clean",): (2, 2.0)}


def test_a_step_that_goes_on_when_its_run_ends_has_ended_with_it(board: metrics.Board) -> None:
    made = run_metrics.RunMetrics(board)
    made.step("r", "clean", 0, {"started_at": NOON})
    made.run("r", {"verb": "clean", "started_at": NOON})
    made.run("r", {"state": "aborted", "ended_at": later(5)})
    assert counted(board, "steps_total") == {("clean", "aborted"): 1}
    assert counted(board, "step_seconds") == {("clean",): (1, 5.0)}


def test_run_begun_by_an_earlier_process_is_counted_but_not_timed(board: metrics.Board) -> None:
    made = run_metrics.RunMetrics(board)
    made.step("r", "deploy", 3, {"state": "failed", "ended_at": NOON})
    made.run("r", {"state": "failed", "ended_at": NOON})
    assert counted(board, "runs_total") == {("unknown", "failed"): 1}
    assert counted(board, "steps_total") == {("deploy", "failed"): 1}
    assert counted(board, "run_seconds") == counted(board, "step_seconds") == {}


def test_a_clock_set_back_makes_no_negative_time(board: metrics.Board) -> None:
    made = run_metrics.RunMetrics(board)
    made.run("r", {"verb": "clean", "started_at": later(9)})
    made.run("r", {"state": "done", "ended_at": NOON})
    assert counted(board, "run_seconds") == {("clean",): (1, 0.0)}


def test_runs_that_never_end_are_forgotten(
    board: metrics.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_metrics, "_MOST", 2)
    made = run_metrics.RunMetrics(board)
    for name in "abc":
        made.run(name, {"verb": "clean", "started_at": NOON})
    for name in "abc":
        made.run(name, {"state": "done", "ended_at": later(1)})
    assert counted(board, "runs_total") == {("unknown", "done"): 1, ("clean", "done"): 2}
