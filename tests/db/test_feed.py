"""Followers of the event table on the three databases: no order of commits loses an event."""

from __future__ import annotations

import contextlib
import datetime
import functools
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.core import clock, metrics
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events
from ironic_lite.features.events import rows as event_rows
from ironic_lite.feed import Filter, Tail
from tests.support import database_servers
from tests.support.database_rows import new_uuid
from tests.support.service import until
from tests.support.sqlite_instructions import count_instructions

BOUNDS = {"postgresql": 0.0, "mysql": 10.0}
"""Seconds after which a number that nobody can write any more is passed."""


_SECOND = datetime.timedelta(seconds=1)


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def add(conn: Connection, node: str, event: str) -> None:
    row: dict[str, Any] = {"at": clock.now(), "node_uuid": node, "kind": "power", "event": event}
    events.add(conn, [row])


_PATIENT = {
    "postgresql": "SET SESSION idle_in_transaction_session_timeout = 0",
    "mysql": "SET SESSION idle_write_transaction_timeout = 0",
}


@contextlib.contextmanager
def open_transaction(database: Database) -> Iterator[sa.Connection]:
    """A session of its own; whatever it has not committed is gone at the end."""
    with database_servers.transactional(database).connect() as conn:
        # A slow machine must not end it.
        conn.exec_driver_sql(_PATIENT[database.kind])
        conn.commit()
        transaction = conn.begin()
        try:
            yield conn
        finally:
            if transaction.is_active:
                transaction.rollback()


def started(database: Database, time: Clock) -> Tail:
    """Return a reader that has passed the numbers of rows that earlier tests have removed."""
    database.write(lambda conn: add(conn, new_uuid(), "before"))
    tail = Tail(database, now=time)
    tail.look()
    time.now += 61.0  # in any case: transactions of other tests on the server may be open
    tail.look()
    assert tail.settled == tail.head
    return tail


def names(tail: Tail, node: str, after: int) -> list[str]:
    found = tail.page(Filter(nodes=frozenset({node})), after=after, upto=tail.settled)
    return [event.row["event"] for event in found]


def test_late_commit_of_a_smaller_number_is_waited_for(server_database: Database) -> None:
    node, tail = new_uuid(), started(server_database, Clock())
    begun = tail.settled
    with open_transaction(server_database) as slow:
        add(slow, node, "slow")
        server_database.write(lambda conn: add(conn, node, "quick"))
        news = tail.look()
        assert [event.row["event"] for event in news.seen] == ["quick"], "seen, for waits"
        assert (tail.settled, list(news.settled)) == (begun, [])
        slow.commit()
    settled = tail.look().settled
    assert [event.row["event"] for event in settled] == ["slow", "quick"]
    assert names(tail, node, begun) == ["slow", "quick"]


def test_number_of_a_killed_session_is_passed_within_the_bound(server_database: Database) -> None:
    time, node = Clock(), new_uuid()
    tail = started(server_database, time)
    begun = tail.settled
    with open_transaction(server_database) as killed:
        add(killed, node, "never")
        server_database.write(lambda conn: add(conn, node, "quick"))
        assert list(tail.look().settled) == []
        killed.rollback()
    if BOUNDS[server_database.kind]:
        time.now += BOUNDS[server_database.kind] * 0.9
        assert list(tail.look().settled) == []
        time.now += BOUNDS[server_database.kind] * 0.2
    settled = until(lambda: tail.look().settled, "the number is passed")
    assert [event.row["event"] for event in settled] == ["quick"]
    assert names(tail, node, begun) == ["quick"]


def test_writers_of_other_databases_are_not_waited_for(server_database: Database) -> None:
    kind = server_database.kind
    sleep = {"postgresql": "pg_sleep(5)", "mysql": "sleep(5)"}[kind]
    statement = f"INSERT INTO events SELECT 1 FROM (SELECT {sleep}) AS pause"
    with database_servers.own_database(kind, "other") as url, contextlib.ExitStack() as opened:
        other = opened.enter_context(contextlib.closing(session.open_database(url)))
        other.read(lambda conn: conn.exec_driver_sql("CREATE TABLE events (id INTEGER)"))
        insert = functools.partial(other.read, lambda conn: conn.exec_driver_sql(statement))
        writer = threading.Thread(target=insert)
        writer.start()
        opened.callback(writer.join)
        while writer.is_alive():
            assert (
                server_database.read(lambda conn: events.ask_writers(conn, 0, 1)).writers
                == frozenset()
            )
            writer.join(0.2)


def gaps(result: str) -> float:
    return metrics.BOARD.series().get(("events_gaps_total", result), [0.0])[0]


def test_open_transaction_is_waited_for_whatever_its_age(
    server_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    time, node = Clock(), new_uuid()
    tail, forced = started(server_database, time), gaps("forced")
    with open_transaction(server_database) as slow:
        add(slow, node, "slow")
        server_database.write(lambda conn: add(conn, node, "quick"))
        tail.look()
        for _ in range(10):
            time.now += 59.0
            tail.look()
        assert names(tail, node, 0) == []
        slow.commit()
    tail.look()
    assert names(tail, node, 0) == ["slow", "quick"]
    assert gaps("forced") == forced
    assert [one.levelname for one in caplog.records if "Cursors of events wait" in one.message] == [
        "WARNING"
    ]


def test_transaction_of_an_hour_is_passed_by_force(
    server_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    time, node = Clock(), new_uuid()
    tail, forced = started(server_database, time), gaps("forced")
    with open_transaction(server_database) as slow:
        add(slow, node, "slow")
        server_database.write(lambda conn: add(conn, node, "quick"))
        tail.look()
        time.now += 3601.0
        tail.look()
        assert names(tail, node, 0) == ["quick"]
    assert gaps("forced") == forced + 1
    assert any("by their age alone" in one.message for one in caplog.records)


def test_wait_sees_new_events_while_a_transaction_is_open(server_database: Database) -> None:
    """However many they are: a request that waits must not lose its own behind the others."""
    node, tail = new_uuid(), started(server_database, Clock())
    rows = [{"at": clock.now(), "node_uuid": new_uuid(), "kind": "power"} for _ in range(2500)]
    with open_transaction(server_database) as slow:
        add(slow, node, "slow")
        server_database.write(lambda conn: events.add(conn, rows))
        server_database.write(lambda conn: add(conn, node, "last"))
        while tail.look().more:
            pass
        server_database.write(lambda conn: add(conn, node, "next"))
        assert [event.row["event"] for event in tail.look().seen] == ["next"]
        slow.commit()
    news = tail.look()
    assert [event.row["event"] for event in news.seen] == ["slow"]
    assert (len(news.settled), tail.settled) == (2503, tail.head)


def test_events_that_settle_after_a_long_wait_are_left_to_the_table(
    server_database: Database,
) -> None:
    node, tail = new_uuid(), started(server_database, Clock())
    begun = tail.settled
    rows = [{"at": clock.now(), "node_uuid": node, "kind": "power"} for _ in range(5500)]
    with open_transaction(server_database) as slow:
        add(slow, node, "slow")
        server_database.write(lambda conn: events.add(conn, rows))
        while tail.look().more:
            pass
        slow.commit()
    news = tail.look()
    assert news.unread
    assert tail.settled == tail.head
    assert tail.events(begun, tail.settled) is None
    assert len(tail.page(Filter(), after=begun, upto=tail.settled, limit=9999)) == 5501


def test_late_follower_sees_the_event_of_an_open_transaction(
    server_database: Database,
) -> None:
    time, node = Clock(), new_uuid()
    rows = [{"at": clock.now(), "node_uuid": new_uuid(), "kind": "power"} for _ in range(2500)]
    with open_transaction(server_database) as slow:
        add(slow, node, "slow")
        server_database.write(lambda conn: events.add(conn, rows))
        server_database.write(lambda conn: add(conn, node, "quick"))
        tail = Tail(server_database, now=time)
        tail.look()
        time.now += 20.0
        tail.look()
        assert names(tail, node, 0) == []
        slow.commit()
    while tail.look().more:
        pass
    assert names(tail, node, 0) == ["slow", "quick"]


def test_reader_after_a_pause_waits_for_open_transactions(server_database: Database) -> None:
    time, node = Clock(), new_uuid()
    tail = started(server_database, time)
    rows = [{"at": clock.now(), "node_uuid": new_uuid(), "kind": "power"} for _ in range(2500)]
    with open_transaction(server_database) as slow:
        add(slow, node, "slow")
        server_database.write(lambda conn: events.add(conn, rows))
        time.now += 300.0
        while tail.look().more:
            pass
        assert tail.settled < tail.head
        slow.commit()
    tail.look()
    assert (names(tail, node, 0), tail.settled) == (["slow"], tail.head)


def test_database_that_cannot_be_asked_is_waited_for_a_minute(
    server_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "can_ask_writers", lambda _conn: False)
    time, node = Clock(), new_uuid()
    tail = started(server_database, time)
    with open_transaction(server_database) as slow:
        add(slow, node, "slow")
        server_database.write(lambda conn: add(conn, node, "quick"))
        tail.look()
        time.now += 59.0
        tail.look()
        assert names(tail, node, 0) == []
        time.now += 2.0
        tail.look()
        assert names(tail, node, 0) == ["quick"]


@pytest.mark.feature("events")
def test_number_before_a_time_is_found_among_holes(database: Database) -> None:
    node, start = new_uuid(), clock.now() + datetime.timedelta(days=9)

    def write(conn: Connection) -> list[int]:
        for place in range(20):
            row = {"node_uuid": node, "kind": "power", "at": start + place * _SECOND}
            events.add(conn, [row])
        found = [event["id"] for event in events.page(conn, node_uuid=node)]
        conn.execute(sa.text("DELETE FROM events WHERE id = :id"), {"id": found[7]})
        conn.execute(sa.text("DELETE FROM events WHERE id = :id"), {"id": found[0]})
        return found

    numbers = database.write(write)
    for place, number in enumerate(numbers):
        at = start + place * _SECOND
        kept = [other for other in numbers if other not in (numbers[0], numbers[7])]
        before = [other for other in kept if other < number]
        found = database.read(functools.partial(event_rows.id_before, at=at))
        assert found == before[-1] if before else found < numbers[0]
    far = start + datetime.timedelta(days=9)
    assert database.read(functools.partial(event_rows.id_before, at=far)) == numbers[-1]
    past = datetime.datetime(2001, 1, 1)
    assert database.read(functools.partial(event_rows.id_before, at=past)) == 0


def test_page_is_chosen_by_times(database: Database) -> None:
    node, start = new_uuid(), clock.now()
    offsets = (0, 5, -5, 1, 6, 2)
    rows = [
        {"at": start + offset * _SECOND, "node_uuid": node, "kind": "power"} for offset in offsets
    ]
    database.write(lambda conn: events.add(conn, rows))
    ids = [event["id"] for event in database.read(lambda conn: events.page(conn, node_uuid=node))]

    def chosen(**times: Any) -> list[int]:
        where: dict[str, Any] = {"node_uuid": (node,), **times}
        found = database.read(
            lambda conn: events.feed_page(conn, after=0, upto=ids[-1], limit=9, **where)
        )
        return [offsets[ids.index(row["id"])] for row in found]

    one, six = start + _SECOND, start + 6 * _SECOND
    assert chosen(since=one, begun=ids[-1]) == [5, 1, 6, 2]
    assert chosen(since=one, begun=ids[1]) == [5, -5, 1, 6, 2]
    assert chosen(before=six) == [0, 5, -5, 1, 2]
    assert chosen(since=one, begun=ids[-1], before=six) == [5, 1, 2]


def test_page_of_a_requester_passes_no_other_event_by(database: Database) -> None:
    user, node = new_uuid(), new_uuid()

    def add_some(count: int, **more: object) -> None:
        row = {"at": clock.now(), "node_uuid": node, "kind": "power", **more}
        database.write(lambda conn: events.add(conn, [dict(row) for _ in range(count)]))

    add_some(2, requester=user)
    add_some(1, requester=f"{user}, the second")
    add_some(1)

    def page(conn: Connection, **more: Any) -> list[str]:
        where: dict[str, Any] = {"requester": frozenset({user}), **more}
        rows = events.feed_page(conn, after=0, upto=1 << 60, limit=9, newest=True, **where)
        return [row["requester"] for row in rows]

    assert database.read(page) == [user, user]
    assert database.read(functools.partial(page, owner=("absent",))) == []
    if database.kind == "sqlite":
        few = database.read(lambda conn: count_instructions(conn, page))
        add_some(500)
        many = database.read(lambda conn: count_instructions(conn, page))
        assert many <= few * 1.1, f"{few} instructions, {many} beside 500 events of others"


def test_every_event_is_read_once_over_many_pages(database: Database) -> None:
    node, tail = new_uuid(), started(database, Clock())
    begun = tail.settled
    rows = [{"at": clock.now(), "node_uuid": node, "kind": "power"} for _ in range(2500)]
    database.write(lambda conn: events.add(conn, rows))
    read: list[int] = []
    while (news := tail.look()).seen:
        read += [event.id for event in news.settled]
    assert (len(read), read) == (2500, sorted(set(read)))
    kept = tail.events(begun, tail.settled)
    assert kept is not None
    assert [event.id for event in kept] == read


def test_older_events_than_those_kept_are_left_to_the_table(sqlite_database: Database) -> None:
    node, tail = new_uuid(), Tail(sqlite_database, kept=100, now=Clock())
    tail.look()
    rows = [{"at": clock.now(), "node_uuid": node, "kind": "power"} for _ in range(250)]
    sqlite_database.write(lambda conn: events.add(conn, rows))
    tail.look()
    assert tail.events(149, tail.settled) is None
    kept = tail.events(150, tail.settled)
    assert kept is not None
    assert [event.id for event in kept] == list(range(151, 251))


def test_reader_without_followers_keeps_no_events(sqlite_database: Database) -> None:
    """As a conductor, which reads the events of its webhooks from the table."""
    node, tail = new_uuid(), Tail(sqlite_database, kept=0, now=Clock())
    tail.look()
    sqlite_database.write(lambda conn: add(conn, node, "read"))
    event = weakref.ref(tail.look().settled[0])
    gc.collect()
    assert event() is None
    assert tail.events(tail.settled - 1, tail.settled) is None
    assert tail.events(tail.settled, tail.settled) == []


def test_reader_that_looks_rarely_passes_missing_numbers(server_database: Database) -> None:
    """As a script that asks for a page every few minutes."""
    time, node = Clock(), new_uuid()
    tail = started(server_database, time)
    with open_transaction(server_database) as killed:
        add(killed, node, "never")
        server_database.write(lambda conn: add(conn, node, "quick"))
        killed.rollback()
    assert list(tail.look().settled) == []
    time.now += 300.0
    tail.look()
    assert names(tail, node, 0) == ["quick"]


def test_removal_of_old_events_makes_no_hole(database: Database) -> None:
    node, tail = new_uuid(), started(database, Clock())
    rows = [{"at": clock.now(), "node_uuid": node, "kind": "power"} for _ in range(5)]
    database.write(lambda conn: events.add(conn, rows))
    while tail.look().seen:
        pass
    before = tail.settled
    database.write(lambda conn: conn.execute(sa.text("DELETE FROM events")))
    assert list(tail.look().settled) == []
    assert tail.settled == before
