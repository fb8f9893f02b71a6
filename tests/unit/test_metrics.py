"""What processes count: requests, calls to BMCs, runs and steps."""

from __future__ import annotations

import datetime
import json
import os
import threading
from typing import Any

import pytest

from ironic_lite.conductor.engine import history
from ironic_lite.core import metrics

# What processes count: nothing is lost, in memory of one's own or in memory that is shared.

REQUEST = ("http_requests_total", "GET", "/nodes", "200")


def test_counts_and_durations_are_told_by_labels() -> None:
    board = metrics.Board()
    board.count(*REQUEST)
    board.count(*REQUEST)
    for seconds in (0.005, 0.2, 99.0):
        board.observe("http_request_seconds", seconds, "GET", "/nodes")
    told = board.snapshot()
    assert told["http_requests_total"] == [
        {"method": "GET", "route": "/nodes", "code": "200", "value": 2}
    ]
    (found,) = told["http_request_seconds"]
    assert (found["count"], found["sum"]) == (3, 99.205)
    counts = {one["le"]: one["value"] for one in found["buckets"]}
    assert (counts["0.005"], counts["0.1"], counts["0.25"], counts["30"], counts["+Inf"]) == (
        *(1, 1, 2, 2),
        3,
    )
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize("shared", [False, True])
def test_threads_lose_no_count(shared: bool) -> None:
    board = metrics.Board()
    if shared:
        board.share(metrics.Pool(2), 1)
    together = threading.Barrier(8)

    def count() -> None:
        together.wait(30)
        for _ in range(500):
            board.count(*REQUEST)
            board.observe("run_seconds", 2.0, "clean")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = board.snapshot()
    assert told["http_requests_total"][0]["value"] == 4000
    assert (told["run_seconds"][0]["count"], told["run_seconds"][0]["sum"]) == (4000, 8000.0)


def test_forked_processes_tell_one_sum_and_another_life_counts_on() -> None:
    pool = metrics.Pool(2)

    def live(place: int, times: int) -> None:
        pid = os.fork()
        if pid == 0:
            board = metrics.Board()
            board.share(pool, place)
            for _ in range(times):
                board.count(*REQUEST)
                board.observe("rpc_call_seconds", 0.5, "heartbeat")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0

    for place, times in ((0, 3), (1, 4), (1, 5)):
        live(place, times)
    ours = metrics.Board()
    ours.share(pool, 0)
    ours.count(*REQUEST)
    told = ours.snapshot()
    assert told["http_requests_total"][0]["value"] == 13
    assert (told["rpc_call_seconds"][0]["count"], told["rpc_call_seconds"][0]["sum"]) == (12, 6.0)


def test_series_without_room_in_shared_memory_are_counted_together() -> None:
    board = metrics.Board()
    board.share(metrics.Pool(1), 0)
    for number in range(3000):
        board.count("http_requests_total", "GET", f"/{number}", "200")
        board.observe("http_request_seconds", 0.1, "GET", f"/{number}")
    told = board.snapshot()
    assert sum(one["value"] for one in told["http_requests_total"]) == 3000
    assert sum(one["count"] for one in told["http_request_seconds"]) == 3000
    assert any(one["route"] == "other" for one in told["http_requests_total"])


def test_a_label_longer_than_a_record_is_cut() -> None:
    board = metrics.Board()
    board.share(metrics.Pool(1), 0)
    board.count("http_requests_total", "GET", "/" + "x" * 300, "200")
    board.count("workers_refused_total")
    told = board.snapshot()
    assert told["http_requests_total"][0]["value"] == 1
    assert told["workers_refused_total"] == [{"value": 1}]


def test_every_family_fits_into_a_record() -> None:
    for name, family in metrics.FAMILIES.items():
        assert metrics.size_of(name) <= metrics.VALUES, name
        assert list(family.buckets) == sorted(set(family.buckets))
        assert name.endswith("_seconds") == bool(family.buckets), name


# The counts of calls to BMCs: nothing is lost between threads, and buckets are cumulative.


def test_each_call_is_counted_by_kind_operation_and_result() -> None:
    made = metrics.BmcCounters()
    with made.call("redfish", "GET") as call:
        call.result = metrics.OK
    with pytest.raises(OSError, match="gone"), made.call("redfish", "GET"):
        raise OSError("gone")
    made.note("ipmi", "power", metrics.ERROR, 0.2)
    made.retried("ipmi")
    told = made.snapshot()
    assert told["bmc_calls_total"] == [
        {"kind": "ipmi", "operation": "power", "result": "error", "value": 1},
        {"kind": "redfish", "operation": "GET", "result": "ok", "value": 1},
        {"kind": "redfish", "operation": "GET", "result": "silence", "value": 1},
    ]
    assert told["bmc_retries_total"] == [{"kind": "ipmi", "value": 1}]
    assert json.loads(json.dumps(told)) == told
    assert told["since"].endswith("+00:00")


def test_a_bucket_holds_all_calls_that_took_no_longer() -> None:
    made = metrics.BmcCounters()
    for seconds in (0.01, 0.05, 0.06, 3.0, 61.0):
        made.note("redfish", "GET", metrics.OK, seconds)
    (found,) = made.snapshot()["bmc_call_seconds"]
    assert {one["le"]: one["value"] for one in found["buckets"]} == {
        **{"0.05": 2, "0.1": 3, "0.25": 3, "0.5": 3, "1": 3, "2.5": 3},
        **{"5": 4, "10": 4, "30": 4, "60": 4, "+Inf": 5},
    }
    assert (found["count"], found["sum"]) == (5, 64.12)


def test_threads_lose_no_count_of_calls() -> None:
    made = metrics.BmcCounters()
    together = threading.Barrier(8)

    def count() -> None:
        together.wait(30)
        for _ in range(500):
            made.note("redfish", "GET", metrics.OK, 0.01)
            made.retried("redfish")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = made.snapshot()
    assert told["bmc_calls_total"][0]["value"] == 4000
    assert told["bmc_retries_total"][0]["value"] == 4000


# Runs and steps are counted when they end, each once, and timed where their begin was seen.

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
    made = history.RunMetrics(board)
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
    made = history.RunMetrics(board)
    made.step("r", "clean", 0, {"started_at": NOON})
    made.run("r", {"verb": "clean", "started_at": NOON})
    made.run("r", {"state": "aborted", "ended_at": later(5)})
    assert counted(board, "steps_total") == {("clean", "aborted"): 1}
    assert counted(board, "step_seconds") == {("clean",): (1, 5.0)}


def test_run_begun_by_an_earlier_process_is_counted_but_not_timed(board: metrics.Board) -> None:
    made = history.RunMetrics(board)
    made.step("r", "deploy", 3, {"state": "failed", "ended_at": NOON})
    made.run("r", {"state": "failed", "ended_at": NOON})
    assert counted(board, "runs_total") == {("unknown", "failed"): 1}
    assert counted(board, "steps_total") == {("deploy", "failed"): 1}
    assert counted(board, "run_seconds") == counted(board, "step_seconds") == {}


def test_a_clock_set_back_makes_no_negative_time(board: metrics.Board) -> None:
    made = history.RunMetrics(board)
    made.run("r", {"verb": "clean", "started_at": later(9)})
    made.run("r", {"state": "done", "ended_at": NOON})
    assert counted(board, "run_seconds") == {("clean",): (1, 0.0)}


def test_runs_that_never_end_are_forgotten(
    board: metrics.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_REMEMBERED_RUNS", 2)
    made = history.RunMetrics(board)
    for name in "abc":
        made.run(name, {"verb": "clean", "started_at": NOON})
    for name in "abc":
        made.run(name, {"state": "done", "ended_at": later(1)})
    assert counted(board, "runs_total") == {("unknown", "done"): 1, ("clean", "done"): 2}
