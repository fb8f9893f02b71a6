"""Waits and streams of one event loop, with a table that the test writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ironic_lite import errors
from ironic_lite.api.feed.events import Event, Filter
from ironic_lite.api.feed.tail import Tail
from ironic_lite.api.watching import watchers
from ironic_lite.api.wire.later import Stream, Suspension
from ironic_lite.core import clock, config
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events

T = TypeVar("T")
NODE, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def add(database: Database, node: str, count: int = 1, **data: object) -> None:
    row = {"at": clock.now(), "node_uuid": node, "kind": "power", "data": data or None}
    database.write(lambda conn: events.add(conn, [row] * count))


async def run(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


class Lines:
    """Takes the chunks of a stream."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    async def send_bytes(self, data: bytes) -> None:
        self.found += map(json.loads, data.splitlines())


def watch(database: Database, act: Callable[[watchers.Watchers, Tail], Awaitable[T]]) -> T:
    """Run a coroutine with the watchers of one loop."""

    async def main() -> T:
        tail = Tail(database)
        return await act(watchers.Watchers(tail, run, config.CONF), tail)

    return asyncio.run(main())


def test_look_of_another_thread_wakes_those_who_wait(sqlite_database: Database) -> None:
    """A request for a page also looks, and its look is the one that returns the event."""

    async def act(found: watchers.Watchers, tail: Tail) -> float:
        calls = 0

        async def again() -> Suspension | None:
            nonlocal calls
            calls += 1
            return Suspension(60, node=NODE) if calls < 2 else None

        with found.place("wait", ""):
            waiting = asyncio.ensure_future(found.wait(Suspension(60, node=NODE), again))
            while calls < 1:
                await asyncio.sleep(0.01)
            began = asyncio.get_running_loop().time()
            add(sqlite_database, NODE)
            tail.look()
            assert await asyncio.wait_for(waiting, 20)
        return asyncio.get_running_loop().time() - began

    assert watch(sqlite_database, act) < 20 < watchers.LONGEST_LOOK


def test_request_that_begins_to_wait_for_a_node_is_woken_by_it(sqlite_database: Database) -> None:
    """As one that has waited for a lock and was then accepted."""

    async def act(found: watchers.Watchers, _tail: Tail) -> list[float]:
        calls: list[float] = []

        async def again() -> Suspension | None:
            calls.append(asyncio.get_running_loop().time())
            if len(calls) == 2:
                add(sqlite_database, NODE)
            return Suspension(60, node=NODE) if len(calls) < 3 else None

        with found.place("wait", ""):
            assert await asyncio.wait_for(found.wait(Suspension(0.2), again), 20)
        return calls

    calls = watch(sqlite_database, act)
    assert len(calls) == 3
    assert calls[-1] - calls[0] < 20 < watchers.LONGEST_LOOK


def test_full_stream_ends_before_the_line_that_it_has_not_sent(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "STREAM_BYTES", 1000)
    add(sqlite_database, NODE, 300, text="x" * 1000)

    async def act(found: watchers.Watchers, tail: Tail) -> list[int]:
        tail.look()
        read: list[int] = []
        cursor = 0
        while len(read) < 300:
            lines = Lines()
            with found.place("stream", ""):
                await found.stream(Stream(cursor, Filter()), lines)
            assert lines.found[-1]["end"] == "size"
            cursor = int(lines.found[-1]["cursor"])
            read += [int(line["cursor"]) for line in lines.found[:-1] if "kind" in line]
        return read

    assert watch(sqlite_database, act) == list(range(1, 301))


def test_one_address_has_a_share_of_the_places(sqlite_database: Database) -> None:
    async def act(found: watchers.Watchers, _tail: Tail) -> None:
        with pytest.raises(errors.TooManyRequests):
            fill(found, "192.0.2.1")
        with found.place("wait", "192.0.2.2"):
            pass

    def fill(found: watchers.Watchers, source: str) -> None:
        with found.place("wait", source):
            fill(found, source)

    config.CONF.set_override("max_watchers", 80, group="api")
    try:
        watch(sqlite_database, act)
    finally:
        config.CONF.clear_override("max_watchers", group="api")


def test_filter_of_events_accepts_what_its_query_finds() -> None:
    row = {"id": 1, "node_uuid": NODE, "run_uuid": None, "kind": "power", "owner": "p"}
    event = Event(row)
    assert Filter().accepts(event)
    assert Filter(nodes=frozenset({NODE}), kinds=frozenset({"power"}), owner="p").accepts(event)
    for other in (
        Filter(nodes=frozenset({OTHER})),
        Filter(kinds=frozenset({"fault"})),
        Filter(runs=frozenset({NODE})),
        Filter(owner="q"),
    ):
        assert not other.accepts(event)
