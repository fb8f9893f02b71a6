"""What processes count: nothing is lost, in memory of one's own or in memory that is shared."""

from __future__ import annotations

import json
import os
import threading

import pytest

from ironic_lite.core import metrics

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
