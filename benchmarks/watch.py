"""Cost and speed of waiting and following: latency, events a second, idle followers."""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import sys
import time
from collections.abc import Iterator

from benchmarks import stage
from benchmarks.figures import Figure, report
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events

ROUNDS = 60
BACKLOG = 50_000
FOLLOWERS = 100
MANY_FOLLOWERS = 1000
IDLE_SECONDS = 10.0
REQUESTS = 500


def main() -> int:
    """Measure and print; return the exit status."""
    with stage.folder() as folder:
        opened = stage.database(folder)
        (node,) = stage.fill(opened, 1)
        with stage.service(folder, "max_watchers = 5000\n") as ours:
            figures = [*_latency(ours, opened, node), _speed(ours, opened, node)]
            figures += _followers(ours, node)
        opened.close()
    return report(figures)


def _add(opened: Database, node: str, count: int = 1) -> None:
    row = {"at": clock.now(), "node_uuid": node, "kind": "power", "event": "end"}
    opened.write(lambda conn: events.add(conn, [row] * count))


def _latency(ours: stage.Service, opened: Database, node: str) -> list[Figure]:
    """Measure from the commit of an event to the answer of a request that waits for it."""
    found = []
    for _ in range(ROUNDS):
        cursor = _get(ours, "/v1/events?since=now")["cursor"]
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", ours.port)) as waiting:
            waiting.request("GET", f"/v1/events?since={cursor}&wait=50")
            time.sleep(0.25)
            _add(opened, node)
            began = time.monotonic()
            waiting.getresponse().read()
            found.append(1000 * (time.monotonic() - began))
    found.sort()
    return [
        Figure("from commit to the waiter's answer, p50", statistics.median(found), "ms", 100),
        Figure("from commit to the waiter's answer, p99", found[int(len(found) * 0.99)], "ms"),
    ]


def _speed(ours: stage.Service, opened: Database, node: str) -> Figure:
    """Measure how fast one follower reads a backlog; higher is better, so seconds are budgeted."""
    cursor, count = _get(ours, "/v1/events?since=now")["cursor"], 0
    _add(opened, node, BACKLOG)
    began = time.monotonic()
    while count < BACKLOG:
        with _stream(ours, f"since={cursor}") as lines:
            for line in lines:
                told = json.loads(line)
                cursor = told["cursor"]
                if "end" in told:
                    break
                count += 1
                if count == BACKLOG:
                    break
    seconds = time.monotonic() - began
    print(f"{BACKLOG / seconds:.0f} events a second by one follower")
    return Figure("reading 1000 events by one follower", 1e6 * seconds / BACKLOG, "ms", 200)


def _followers(ours: stage.Service, node: str) -> Iterator[Figure]:
    """Measure GETs and memory beside followers, and the CPU of followers of a quiet table."""
    path = f"/v1/nodes/{node}"
    for count in (0, FOLLOWERS, MANY_FOLLOWERS):
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(_stream(ours, "since=now"))
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


def _timed(ours: stage.Service, path: str) -> float:
    began = time.monotonic()
    _get(ours, path)
    return time.monotonic() - began


def _get(ours: stage.Service, path: str) -> dict[str, str]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", ours.port)) as line:
        line.request("GET", path)
        found: dict[str, str] = json.loads(line.getresponse().read())
        return found


@contextlib.contextmanager
def _stream(ours: stage.Service, query: str) -> Iterator[http.client.HTTPResponse]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", ours.port)) as line:
        line.request("GET", f"/v1/events?follow=true&{query}")
        yield line.getresponse()


if __name__ == "__main__":
    sys.exit(main())
