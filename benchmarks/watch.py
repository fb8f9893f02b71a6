"""Latency and rate of waits and event streams, and the cost of idle followers."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator

from benchmarks import harness, wait_latency
from benchmarks.figures import Figure, quantile, report, size
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events
from tests.support.service import short_folder

BACKLOG = size(50_000, smoke=500)
FOLLOWERS = size(100, smoke=5)
MANY_FOLLOWERS = size(1000, smoke=10)
QUIET = size(12.0, smoke=0.5)
"""Seconds after the last event until the API polls the database at its slower pace."""
IDLE_SECONDS = size(10.0, smoke=0.5)
REQUESTS = size(500, smoke=5)


def main() -> int:
    """Measure and print; return the exit status."""
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        (node,) = harness.fill(opened, 1)
        with harness.service(folder, "[api]\nmax_watchers = 5000\n") as service:
            ports = [service.port]
            return report(
                [
                    *wait_latency.waits_for_node(ports, opened, node),
                    wait_latency.after_silence(ports, opened, node),
                    *_backlog(service, opened, node),
                    *_followers(service, node),
                ]
            )


def _add_events(opened: Database, node: str, count: int) -> None:
    row = {"at": clock.now(), "node_uuid": node, "kind": "power", "event": "end"}
    opened.write(lambda conn: events.add(conn, [row] * count))


def _backlog(service: harness.Service, opened: Database, node: str) -> list[Figure]:
    """Measure how fast one follower reads a backlog."""
    cursor, count = wait_latency.fetch(service.port, "/v1/events?since=now")["cursor"], 0
    _add_events(opened, node, BACKLOG)
    begin = time.monotonic()
    while count < BACKLOG:
        with wait_latency.stream(service.port, f"since={cursor}") as lines:
            for line in lines:
                event = json.loads(line)
                cursor = event["cursor"]
                if "end" in event:
                    break
                count += "kind" in event
                if count == BACKLOG:
                    break
    seconds = time.monotonic() - begin
    return [
        Figure("one follower reads 1000 events", 1e6 * seconds / BACKLOG, "ms", 200),
        Figure("... events in a second", BACKLOG / seconds),
    ]


def _followers(service: harness.Service, node: str) -> Iterator[Figure]:
    """Measure GETs and memory beside followers, and the CPU of followers without events."""
    path = f"/v1/nodes/{node}"
    for count in (0, FOLLOWERS, MANY_FOLLOWERS):
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(wait_latency.stream(service.port, "since=now"))
            time.sleep(1)
            memory = service.memory() / 2**20
            yield Figure(f"memory of the service beside {count} followers", memory, "MiB")
            times = [_seconds(service, path) for _ in range(REQUESTS)]
            p99 = 1000 * quantile(times, 0.99)
            yield Figure(f"GET a node beside {count} followers, p99", p99, "ms")
            if count == FOLLOWERS:
                time.sleep(QUIET)
                before = service.cpu()
                time.sleep(IDLE_SECONDS)
                share = 100 * (service.cpu() - before) / IDLE_SECONDS
                yield Figure(f"CPU of the idle service with {count} followers", share, "%", 2)


def _seconds(service: harness.Service, path: str) -> float:
    begin = time.monotonic()
    wait_latency.fetch(service.port, path)
    return time.monotonic() - begin


if __name__ == "__main__":
    sys.exit(main())
