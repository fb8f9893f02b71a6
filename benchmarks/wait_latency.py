"""Time from the commit of a change to the responses to requests that wait for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.figures import Figure, quantile, size
from benchmarks.harness import HOST, PATIENCE
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models

ROUNDS = size(100, smoke=2)
BUDGET = 100
"""Milliseconds of p50."""
QUIET_ROUNDS = size(2, smoke=1)
QUIET = size(11.0, smoke=0.5)
"""Seconds without a change after which a process polls the database at its slower pace."""
_SETTLES = (0.1, 0.2)
"""Seconds in which all requests have begun to wait. They vary by as much as the interval between
two polls of the database, so that changes come at any moment of this interval.
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


def warm_up(ports: Sequence[int], opened: Database, node: str) -> None:
    """Change a node while a request waits at each port, so that the APIs poll at their fast pace.

    `after_silence` measures the slower pace.
    """
    with contextlib.ExitStack() as stack:
        for port in ports:
            response = stack.enter_context(stream(port, "since=now"))
            move(opened, node, 1)
            _receive_event(response, [])


def waits_for_node(ports: Sequence[int], opened: Database, node: str) -> list[Figure]:
    """Measure requests that wait for a state of a node, one at each port."""
    warm_up(ports, opened, node)
    times = _measure(
        ports,
        lambda number: f"/v1/nodes/{node}?wait=50&until={STATES[number % 2]}",
        lambda number: move(opened, node, number),
    )
    return figures("from a commit to the response to a wait for a node", times)


def waits_for_events(ports: Sequence[int], opened: Database, node: str) -> list[Figure]:
    """Measure requests that wait for events, one at each port."""

    def path(_number: int) -> str:
        return f"/v1/events?since={fetch(ports[0], '/v1/events?since=now')['cursor']}&wait=50"

    warm_up(ports, opened, node)
    times = _measure(ports, path, lambda number: move(opened, node, number))
    return figures("from a commit to the response to a wait for events", times)


def after_silence(ports: Sequence[int], opened: Database, node: str) -> Figure:
    """Measure the first change after a pause, when processes poll at their slower pace."""
    times = _measure(
        ports,
        lambda number: f"/v1/nodes/{node}?wait=50&until={STATES[number % 2]}",
        lambda number: move(opened, node, number),
        rounds=QUIET_ROUNDS,
        pause=QUIET,
    )
    name = f"... the first change after {QUIET:g} s, longest of {len(times)}"
    return Figure(name, max(times), "ms")


def streams(ports: Sequence[int], opened: Database, node: str) -> list[Figure]:
    """Measure the lines of streams, one at each port."""
    with contextlib.ExitStack() as stack:
        responses = [stack.enter_context(stream(port, "since=now")) for port in ports]
        time.sleep(max(_SETTLES))
        times = []
        for number in range(ROUNDS):
            received: list[float] = []
            readers = [
                threading.Thread(target=_receive_event, args=(response, received))
                for response in responses
            ]
            times += _round(readers, received, lambda number=number: move(opened, node, number))  # type: ignore[misc]
    return figures("from a commit to the line of a stream", times)


def figures(name: str, times: Sequence[float]) -> list[Figure]:
    """Return p50 and p99 of milliseconds."""
    return [
        Figure(f"{name}, p50", quantile(times, 0.5), "ms", BUDGET),
        Figure("... p99", quantile(times, 0.99), "ms"),
    ]


def _measure(
    ports: Sequence[int], path: Path, change: Change, *, rounds: int = ROUNDS, pause: float = 0.0
) -> list[float]:
    """Return the milliseconds of all rounds at all ports."""
    times = []
    for number in range(rounds):
        received: list[float] = []
        target = path(number)
        readers = [
            threading.Thread(target=_receive, args=(port, target, received)) for port in ports
        ]
        times += _round(readers, received, lambda number=number: change(number), pause)  # type: ignore[misc]
    return times


def _round(
    readers: Sequence[threading.Thread],
    received: list[float],
    change: Callable[[], None],
    pause: float = 0.0,
) -> list[float]:
    for reader in readers:
        reader.start()
    time.sleep(random.uniform(*_SETTLES) + pause)
    if received:
        raise RuntimeError("a request did not wait for the change")
    change()
    committed = time.monotonic()
    for reader in readers:
        reader.join()
    if len(received) < len(readers):
        raise RuntimeError("a response was not 200")
    return [1000 * (at - committed) for at in received]


def _receive(port: int, path: str, received: list[float]) -> None:
    with _get(port, path) as response:
        response.read()
        if response.status == 200:
            received.append(time.monotonic())


def _receive_event(response: http.client.HTTPResponse, received: list[float]) -> None:
    while "kind" not in json.loads(response.readline()):
        pass
    received.append(time.monotonic())


@contextlib.contextmanager
def _get(port: int, path: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", path)
        yield connection.getresponse()


def fetch(port: int, path: str) -> Json:
    """Return the document of a GET."""
    with _get(port, path) as response:
        document: Json = json.loads(response.read())
        return document


@contextlib.contextmanager
def stream(port: int, query: str) -> Iterator[http.client.HTTPResponse]:
    """Open a stream of events."""
    with _get(port, f"/v1/events?follow=true&{query}") as response:
        yield response
