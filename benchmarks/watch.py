"""Cost and speed of waiting and following: latency, events a second, idle followers."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator

from benchmarks import harness, wait_latency
from benchmarks.figures import Figure, report
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events

BACKLOG = 50_000
FOLLOWERS = 100
MANY_FOLLOWERS = 1000
IDLE_SECONDS = 10.0
REQUESTS = 500


def main() -> int:
    """Measure and print; return the exit status."""
    with harness.folder() as folder:
        opened = harness.database(folder)
        (node,) = harness.fill(opened, 1)
        with harness.service(folder, "max_watchers = 5000\n") as ours:
            ports = [ours.port]
            figures = wait_latency.waits(ports, opened, node)
            figures += [wait_latency.after_silence(ports, opened, node), _speed(ours, opened, node)]
            figures += _followers(ours, node)
        opened.close()
    return report(figures)


def _add(opened: Database, node: str, count: int = 1) -> None:
    row = {"at": clock.now(), "node_uuid": node, "kind": "power", "event": "end"}
    opened.write(lambda conn: events.add(conn, [row] * count))


def _speed(ours: harness.Service, opened: Database, node: str) -> Figure:
    """Measure how fast one follower reads a backlog; higher is better, so seconds are budgeted."""
    cursor, count = wait_latency.ask(ours.port, "/v1/events?since=now")["cursor"], 0
    _add(opened, node, BACKLOG)
    began = time.monotonic()
    while count < BACKLOG:
        with wait_latency.stream(ours.port, f"since={cursor}") as lines:
            for line in lines:
                told = json.loads(line)
                cursor = told["cursor"]
                if "end" in told:
                    break
                count += "kind" in told
                if count == BACKLOG:
                    break
    seconds = time.monotonic() - began
    print(f"{BACKLOG / seconds:.0f} events a second by one follower")
    return Figure("reading 1000 events by one follower", 1e6 * seconds / BACKLOG, "ms", 200)


def _followers(ours: harness.Service, node: str) -> Iterator[Figure]:
    """Measure GETs and memory beside followers, and the CPU of followers of a quiet table."""
    path = f"/v1/nodes/{node}"
    for count in (0, FOLLOWERS, MANY_FOLLOWERS):
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(wait_latency.stream(ours.port, "since=now"))
            time.sleep(1)
            memory = sum(one.memory_info().rss for one in ours.family()) / 2**20
            yield Figure(f"memory of the service beside {count} followers", memory, "MiB")
            times = sorted(_timed(ours, path) for _ in range(REQUESTS))
            p99 = 1000 * times[int(REQUESTS * 0.99)]
            yield Figure(f"GET a node beside {count} followers, p99", p99, "ms")
            if count == FOLLOWERS:
                time.sleep(12)  # the pace after the last event
                before = ours.cpu()
                time.sleep(IDLE_SECONDS)
                share = 100 * (ours.cpu() - before) / IDLE_SECONDS
                yield Figure(f"CPU of the quiet service with {count} followers", share, "%", 2)


def _timed(ours: harness.Service, path: str) -> float:
    began = time.monotonic()
    wait_latency.ask(ours.port, path)
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
