"""Waits and streams of one event loop, with a table that the test writes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ironic_lite import errors
from ironic_lite.api.http import watchers
from ironic_lite.api.http.request import Piece, Stream, Suspension, TextStream
from ironic_lite.core import clock, config, log_lines
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models
from ironic_lite.feed import Event, Filter, NewEvents, Tail
from tests.support.statements import count_statements

T = TypeVar("T")
NODE, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
_KILOBYTE = Piece("x" * 1000, last=False)


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


class Text:
    """Takes the chunks of a stream of text."""

    def __init__(self) -> None:
        self.found = ""

    async def send_bytes(self, data: bytes) -> None:
        self.found += data.decode()


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


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


def remove(database: Database, count: int) -> None:
    """Remove the oldest events, as the retention of history does."""

    def write(conn: Connection) -> None:
        conn.execute(models.events.delete().where(models.events.c.id <= count))
        events.note_removed(conn, count)

    database.write(write)


async def told(found: watchers.Watchers, stream: Stream) -> list[dict[str, Any]]:
    """Return the lines of a stream that ends by its limit."""
    lines = Lines()
    with found.place("stream", ""):
        await asyncio.wait_for(found.stream(stream, lines), 20)
    return lines.found


@pytest.mark.parametrize(("since", "trimmed"), [(0, True), (4, True), (5, False), (9, False)])
def test_stream_after_a_removed_cursor_begins_with_a_bookmark(
    sqlite_database: Database, since: int, trimmed: bool
) -> None:
    add(sqlite_database, NODE, 10)
    remove(sqlite_database, 5)

    async def act(found: watchers.Watchers, tail: Tail) -> list[dict[str, Any]]:
        tail.look()
        return await told(found, Stream(since, Filter(), 1, removed=tail.removed()))

    lines = watch(sqlite_database, act)
    mark = {"cursor": str(since), "trimmed": True} if trimmed else {"cursor": str(since)}
    assert lines[0] == mark
    rest = lines[1:]
    assert [line.get("kind", line.get("end")) for line in rest] == ["power", "limit"]
    assert int(rest[0]["cursor"]) == max(5, since) + 1
    assert not any("trimmed" in line for line in rest)


def test_stream_is_told_of_events_that_are_removed_while_it_reads_older_ones(
    sqlite_database: Database,
) -> None:
    add(sqlite_database, NODE, 20)

    async def act(found: watchers.Watchers, _tail: Tail) -> list[dict[str, Any]]:
        small = Tail(sqlite_database, kept=5)
        small.look()
        late = watchers.Watchers(small, run, config.CONF)
        remove(sqlite_database, 10)
        return await told(late, Stream(3, Filter(), 2, removed=0))

    lines = watch(sqlite_database, act)
    assert lines[:2] == [{"cursor": "3"}, {"cursor": "3", "trimmed": True}]
    assert [line["cursor"] for line in lines[2:]] == ["11", "12", "12"]


def test_bytes_of_ended_streams_do_not_count(sqlite_database: Database) -> None:
    """Bookmarks and last lines count as well, or the sum would sink below that of the streams."""
    add(sqlite_database, NODE, 10)

    async def act(found: watchers.Watchers, tail: Tail) -> int:
        tail.look()
        for _ in range(3):
            await told(found, Stream(0, Filter(), 5, removed=1))
        return found.sent

    assert watch(sqlite_database, act) == 0


def test_bytes_of_logs_count_among_those_of_all_streams(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The larger one of two streams of logs ends; the smaller one goes on."""
    monkeypatch.setattr(watchers, "ALL_BYTES", 5000)
    monkeypatch.setattr(watchers, "LOOK_SECONDS", 0.01)

    async def act(found: watchers.Watchers, _tail: Tail) -> tuple[str, str]:
        small, large = Text(), Text()
        ended = asyncio.Event()
        pieces = iter([Piece("s" * 500, last=False)])

        def read_small() -> Piece:
            return next(
                pieces, Piece("end", last=True) if ended.is_set() else Piece("", last=False)
            )

        follower = asyncio.ensure_future(found.stream_text(TextStream(read_small, NODE), small))
        await asyncio.wait_for(_until(lambda: found.sent >= 500), 60)
        more = iter(range(20))
        last = Piece("", last=True)
        grow = TextStream(lambda: last if next(more, None) is None else _KILOBYTE, OTHER)
        await found.stream_text(grow, large)
        assert found.sent == 500
        ended.set()
        await asyncio.wait_for(follower, 60)
        assert found.sent == 0
        return small.found, large.found

    small, large = watch(sqlite_database, act)
    assert small == "s" * 500 + "end"
    assert large.startswith("x" * 5000)
    assert ("ends: size" in large, len(large) < 6000) == (True, True)


def test_streams_end_with_the_login_of_their_caller(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "LOOK_SECONDS", 0.01)
    add(sqlite_database, NODE, 2)

    async def act(found: watchers.Watchers, tail: Tail) -> tuple[list[dict[str, Any]], str]:
        tail.look()
        lines = await told(found, Stream(0, Filter(), login_seconds=0.3))
        text = Text()
        endless = TextStream(lambda: Piece("", last=False), NODE, login_seconds=0.3)
        await asyncio.wait_for(found.stream_text(endless, text), 60)
        return lines, text.found

    lines, text = watch(sqlite_database, act)
    assert [line.get("end") for line in lines] == [None, None, None, "login"]
    assert "this stream ends: login" in text


def test_database_that_is_away_is_logged_once_until_it_answers(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watchers, "FAULT_PAUSE", 0.01)
    monkeypatch.setattr(watchers, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(log_lines, "CALM", 0)  # seconds
    away: list[int] = []

    class Failing(Tail):
        """Fails five times, answers, and fails again."""

        def look(self) -> NewEvents:
            away.append(len(away))
            if len(away) == 6:
                return super().look()
            raise errors.Unavailable(f"away {len(away)}")

    async def act(_found: watchers.Watchers, _tail: Tail) -> None:
        failing = watchers.Watchers(Failing(sqlite_database), run, config.CONF)
        with failing.place("wait", ""):
            while len(away) < 12:
                await asyncio.sleep(0.01)
        await failing.close()

    watch(sqlite_database, act)
    logged = [one.getMessage() for one in caplog.records if "Cannot follow" in one.getMessage()]
    assert [text.rpartition(" ")[2] for text in logged] == ["1", "7"]


def test_event_table_is_read_only_while_clients_watch(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "QUIET_SECONDS", 0.01)

    async def act(found: watchers.Watchers, _tail: Tail) -> list[int]:
        looks = []
        for watched in (False, True, False):
            with contextlib.ExitStack() as stack:
                if watched:
                    stack.enter_context(found.place("wait", ""))
                await asyncio.sleep(0.3)
                with count_statements(sqlite_database) as sent:
                    await asyncio.sleep(0.3)
                looks.append(len(sent))
        return looks

    before, during, after = watch(sqlite_database, act)
    assert (before, after) == (0, 0)
    assert during > 1


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


def test_projects_leave_places_to_each_other_and_to_the_system(
    sqlite_database: Database,
) -> None:
    def fill(found: watchers.Watchers, project: str | None, stack: contextlib.ExitStack) -> int:
        for count in range(1000):
            try:
                stack.enter_context(found.place("wait", "", project))
            except errors.TooManyRequests as why:
                assert "max_watchers" in why.message
                return count
        raise AssertionError("no limit")

    async def act(found: watchers.Watchers, _tail: Tail) -> list[int]:
        with contextlib.ExitStack() as stack:
            taken = [fill(found, one, stack) for one in ("p1", "p2", "p3", None, "p1")]
        with contextlib.ExitStack() as stack:
            return [*taken, fill(found, "p1", stack)]

    config.CONF.set_override("max_watchers", 80, group="api")
    try:
        assert watch(sqlite_database, act) == [40, 20, 0, 20, 0, 40]
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
