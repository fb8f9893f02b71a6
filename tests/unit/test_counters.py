"""The counts of calls to BMCs: nothing is lost between threads, and buckets are cumulative."""

from __future__ import annotations

import json
import threading

import pytest

from ironic_lite.core import bmc_metrics


def test_each_call_is_counted_by_kind_operation_and_result() -> None:
    made = bmc_metrics.Counters()
    with made.call("redfish", "GET") as call:
        call.result = bmc_metrics.OK
    with pytest.raises(OSError, match="gone"), made.call("redfish", "GET"):
        raise OSError("gone")
    made.note("ipmi", "power", bmc_metrics.ERROR, 0.2)
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
    made = bmc_metrics.Counters()
    for seconds in (0.01, 0.05, 0.06, 3.0, 61.0):
        made.note("redfish", "GET", bmc_metrics.OK, seconds)
    (found,) = made.snapshot()["bmc_call_seconds"]
    assert {one["le"]: one["value"] for one in found["buckets"]} == {
        **{"0.05": 2, "0.1": 3, "0.25": 3, "0.5": 3, "1": 3, "2.5": 3},
        **{"5": 4, "10": 4, "30": 4, "60": 4, "+Inf": 5},
    }
    assert (found["count"], found["sum"]) == (5, 64.12)


def test_threads_lose_no_count() -> None:
    made = bmc_metrics.Counters()
    together = threading.Barrier(8)

    def count() -> None:
        together.wait(30)
        for _ in range(500):
            made.note("redfish", "GET", bmc_metrics.OK, 0.01)
            made.retried("redfish")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = made.snapshot()
    assert told["bmc_calls_total"][0]["value"] == 4000
    assert told["bmc_retries_total"][0]["value"] == 4000
