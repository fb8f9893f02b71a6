"""Time from the commit of a change to the answers of requests that wait for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.figures import Figure
from benchmarks.harness import HOST, PATIENCE
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models

ROUNDS = 100
BUDGET = 100
"""Milliseconds of p50."""
QUIET_ROUNDS = 2
QUIET = 11.0
"""Seconds without a change after which a process looks at its slower pace."""
_SETTLES = (0.1, 0.2)
"""Seconds in which all requests have begun to wait. They vary by as much as processes pause between
two looks, so that changes come at any moment of this pause.
"""
STATES = ("available", "manageable")

Change = Callable[[int], None]
"""Commits the change of a round."""
Path = Callable[[int], str]
"""Returns the path that is requested in a round."""


def move(opened: Database, node: str, number: int) -> None:
    """Move a node to the state of a round, as conductors do: row and event in one transaction."""
    after, before = STATES[number % 2], STATES[(number + 1) % 2]
    row = {"at": clock.now(), "node_uuid": node, "kind": "provision", "event": "x"}

    def write(conn: Connection) -> None:
        nodes = models.nodes
        conn.execute(nodes.update().where(nodes.c.uuid == node).values(provision_state=after))
        events.add(conn, [{**row, "before": before, "after": after}])

    opened.write(write)


def hasten(ports: Sequence[int], opened: Database, node: str) -> None:
    """Change a node while a request waits at each port, so that the APIs look at their fast pace.

    `after_silence` measures the pace before.
    """
    with contextlib.ExitStack() as stack:
        for port in ports:
            answer = stack.enter_context(stream(port, "since=now"))
            move(opened, node, 1)
            _take_event(answer, [])


def waits(ports: Sequence[int], opened: Database, node: str) -> list[Figure]:
    """Measure requests that wait for a state of a node, one at each port."""
    hasten(ports, opened, node)
    found = _measure(
        ports,
        lambda number: f"/v1/nodes/{node}?wait=50&until={STATES[number % 2]}",
        lambda number: move(opened, node, number),
    )
    return figures("from a commit to the answer of a wait for a node", found)


def polls(ports: Sequence[int], opened: Database, node: str) -> list[Figure]:
    """Measure requests that wait for events, one at each port."""

    def path(_number: int) -> str:
        return f"/v1/events?since={ask(ports[0], '/v1/events?since=now')['cursor']}&wait=50"

    hasten(ports, opened, node)
    found = _measure(ports, path, lambda number: move(opened, node, number))
    return figures("from a commit to the answer of a wait for events", found)


def after_silence(ports: Sequence[int], opened: Database, node: str) -> Figure:
    """Measure the first change after a pause, when processes look at their slower pace."""
    found = _measure(
        ports,
        lambda number: f"/v1/nodes/{node}?wait=50&until={STATES[number % 2]}",
        lambda number: move(opened, node, number),
        rounds=QUIET_ROUNDS,
        pause=QUIET,
    )
    name = f"... the first change after {QUIET:g} s, longest of {len(found)}"
    return Figure(name, max(found), "ms")


def streams(ports: Sequence[int], opened: Database, node: str) -> list[Figure]:
    """Measure the lines of streams, one at each port."""
    with contextlib.ExitStack() as stack:
        answers = [stack.enter_context(stream(port, "since=now")) for port in ports]
        time.sleep(max(_SETTLES))
        found = []
        for number in range(ROUNDS):
            arrived: list[float] = []
            readers = [
                threading.Thread(target=_take_event, args=(answer, arrived)) for answer in answers
            ]
            found += _round(readers, arrived, lambda number=number: move(opened, node, number))  # type: ignore[misc]
    return figures("from a commit to the line of a stream", found)


def figures(name: str, found: Sequence[float]) -> list[Figure]:
    """Return p50 and p99 of milliseconds."""
    ordered = sorted(found)
    return [
        Figure(f"{name}, p50", statistics.median(ordered), "ms", BUDGET),
        Figure("... p99", ordered[int(len(ordered) * 0.99)], "ms"),
    ]


def _measure(
    ports: Sequence[int], path: Path, change: Change, *, rounds: int = ROUNDS, pause: float = 0.0
) -> list[float]:
    """Return the milliseconds of all rounds at all ports."""
    found = []
    for number in range(rounds):
        arrived: list[float] = []
        where = path(number)
        readers = [threading.Thread(target=_take, args=(port, where, arrived)) for port in ports]
        found += _round(readers, arrived, lambda number=number: change(number), pause)  # type: ignore[misc]
    return found


def _round(
    readers: Sequence[threading.Thread],
    arrived: list[float],
    change: Callable[[], None],
    pause: float = 0.0,
) -> list[float]:
    for one in readers:
        one.start()
    time.sleep(random.uniform(*_SETTLES) + pause)
    if arrived:
        raise RuntimeError("a request did not wait for the change")
    change()
    committed = time.monotonic()
    for one in readers:
        one.join()
    if len(arrived) < len(readers):
        raise RuntimeError("a request was not answered with 200")
    return [1000 * (at - committed) for at in arrived]


def _take(port: int, path: str, arrived: list[float]) -> None:
    with _asked(port, path) as answer:
        answer.read()
        if answer.status == 200:
            arrived.append(time.monotonic())


def _take_event(answer: http.client.HTTPResponse, arrived: list[float]) -> None:
    while "kind" not in json.loads(answer.readline()):
        pass
    arrived.append(time.monotonic())


@contextlib.contextmanager
def _asked(port: int, path: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", path)
        yield connection.getresponse()


def ask(port: int, path: str) -> Json:
    """Return the document of a GET."""
    with _asked(port, path) as answer:
        found: Json = json.loads(answer.read())
        return found


@contextlib.contextmanager
def stream(port: int, query: str) -> Iterator[http.client.HTTPResponse]:
    """Open a stream of events."""
    with _asked(port, f"/v1/events?follow=true&{query}") as answer:
        yield answer
