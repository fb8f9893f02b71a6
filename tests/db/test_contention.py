"""Many writers at once: each gets a turn, in their order, and a lost race is run again."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine import fair_lock as module
from ironic_lite.db.engine import faults, session
from ironic_lite.db.engine.fair_lock import FairLock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import conductors, nodes, sweeps
from ironic_lite.db.tables import models
from tests.support import database_servers
from tests.support.database_rows import NOON, add_node, get_node

# Many writers at once: everyone gets a turn, and whoever loses a race is served again.

WRITERS = 10
ROUNDS = 15


def grow(conn: Connection, uuid: str) -> None:
    """Read, then write what was read: the transaction that a plain BEGIN cannot carry out."""
    row = nodes.get(conn, uuid, ("extra", "generation"))
    count = (row["extra"] or {"count": 0})["count"] + 1
    nodes.edit(conn, uuid, {"extra": {"count": count}}, generation=row["generation"])


def race(databases: list[Database], uuid: str) -> tuple[int, int]:
    """Let each database's thread grow the node; return how far it came, in how many attempts."""
    ready = threading.Barrier(len(databases))
    attempts: list[str] = []

    def work(conn: Connection) -> None:
        attempts.append(uuid)
        grow(conn, uuid)

    def run(database: Database) -> None:
        ready.wait(timeout=30)
        for _ in range(ROUNDS):
            database.write(work)

    with ThreadPoolExecutor(len(databases)) as pool:
        list(pool.map(run, databases))
    return int(get_node(databases[0], uuid)["extra"]["count"]), len(attempts)


def test_ten_threads_write_one_sqlite_database_and_none_is_refused(
    sqlite_database: Database,
) -> None:
    node = add_node(sqlite_database)
    assert race([sqlite_database] * WRITERS, node) == (WRITERS * ROUNDS, WRITERS * ROUNDS)


def test_ten_processes_worth_of_writers_share_one_sqlite_file(
    make_sqlite: Callable[[], Database],
) -> None:
    databases = [make_sqlite() for _ in range(WRITERS)]
    node = add_node(databases[0])
    assert race(databases, node) == (WRITERS * ROUNDS, WRITERS * ROUNDS)


def test_readers_do_not_wait_for_a_writer_of_sqlite(make_sqlite: Callable[[], Database]) -> None:
    writer, reader = make_sqlite(), make_sqlite()
    node = add_node(writer)

    def work(conn: Connection) -> int:
        nodes.edit(conn, node, {"name": "new"}, generation=0)
        return int(get_node(reader, node)["generation"])

    assert writer.write(work) == 0
    assert get_node(reader, node)["generation"] == 1


def test_a_writer_of_sqlite_that_waits_too_long_is_told_to_come_back(
    make_sqlite: Callable[[], Database],
) -> None:
    holder = make_sqlite()
    hasty = session.open_database(holder.url, sqlite_busy_timeout=0.01)

    def work(_conn: Connection) -> None:
        with pytest.raises(errors.Unavailable, match=r"too busy .*locked.* Retry later"):
            add_node(hasty)

    holder.write(work)
    add_node(hasty)
    hasty.close()


def test_a_locked_sqlite_file_delays_a_writer_by_its_busy_timeout_and_no_multiple_of_it(
    make_sqlite: Callable[[], Database],
) -> None:
    holder = make_sqlite()
    waiting = session.open_database(holder.url, sqlite_busy_timeout=2)

    def work(_conn: Connection) -> float:
        begun = time.monotonic()
        with pytest.raises(errors.Unavailable, match="too busy"):
            add_node(waiting)
        return time.monotonic() - begun

    assert 2 <= holder.write(work) < 8
    waiting.close()


def test_writers_in_a_deadlock_both_succeed(server_database: Database) -> None:
    left, right = add_node(server_database), add_node(server_database)
    both_began = threading.Barrier(2)
    began: list[str] = []

    def swap(first: str, second: str) -> None:
        once = iter([True])

        def work(conn: Connection) -> None:
            began.append(first)
            statement = models.nodes.update().values(generation=models.nodes.c.generation + 1)
            conn.execute(statement.where(models.nodes.c.uuid == first))
            if next(once, False):
                both_began.wait(timeout=30)
            conn.execute(statement.where(models.nodes.c.uuid == second))

        server_database.write(work)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(swap, (left, right), (right, left)))
    assert len(began) > 2, "there was no deadlock"
    assert [get_node(server_database, node)["generation"] for node in (left, right)] == [2, 2]


def test_a_transaction_that_always_loses_ends_as_unavailable(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    monkeypatch.setattr(faults, "classify", lambda _error: faults.DatabaseFault.CONTENTION)
    monkeypatch.setattr(session, "_FIRST_PAUSE", 0.0)

    def work(conn: Connection) -> Any:
        tries.append(1)
        return conn.execute(sa.text("SELECT nothing FROM nowhere"))

    with pytest.raises(errors.Unavailable, match="too busy"):
        database.write(work)
    assert len(tries) == 9


def test_errors_of_ours_end_a_transaction_at_once_and_undo_it(database: Database) -> None:
    node = add_node(database)
    tries: list[int] = []

    def work(conn: Connection) -> None:
        tries.append(1)
        nodes.edit(conn, node, {"name": "new"}, generation=0)
        raise errors.Conflict(node=node, reason="of a test")

    with pytest.raises(errors.Conflict):
        database.write(work)
    assert tries == [1]
    assert get_node(database, node)["name"] is None


def test_a_connection_serves_on_after_a_failed_transaction(database: Database) -> None:
    node = add_node(database, name="taken")
    for _ in range(3):
        with pytest.raises(errors.Duplicate):
            add_node(database, name="taken")
    assert get_node(database, "taken")["uuid"] == node


def test_count_and_insert_are_not_overtaken(database: Database) -> None:
    """Two conductors at the last free place of max_concurrent_clean."""
    nodes_ = [add_node(database, provision_state="manageable") for _ in range(2)]
    add_conductor = functools.partial(
        conductors.register, host="host-1", group="", version=None, now=NOON
    )
    database.write(add_conductor)
    counted = [threading.Event(), threading.Event()]
    other = session.open_database(database.url, **database.options)

    def clean(opened: Database, turn: int) -> int:
        def work(conn: Connection) -> int:
            found = sweeps.count_alone(conn, ["cleaning"])
            counted[turn].set()
            counted[1 - turn].wait(0.3)  # which it is not to be, while we are here
            if not found:
                change = models.nodes.update().where(models.nodes.c.uuid == nodes_[turn])
                conn.execute(change.values(provision_state="cleaning"))
            return found

        return opened.write(work)

    with contextlib.closing(other), ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(clean, [database, other], range(2))) == [0, 1]
    assert database.read(lambda conn: sweeps.count_in(conn, ["cleaning"])) == 1


def test_writers_that_all_wait_leave_connections_to_readers(server_database: Database) -> None:
    node = add_node(server_database)
    url = server_database.url
    options: dict[str, Any] = {"max_pool_size": 3, "max_overflow": 1, "pool_timeout": 1}
    held = threading.Event()
    with (
        contextlib.closing(session.open_database(url, **options)) as small,
        ThreadPoolExecutor(6) as pool,
        database_servers.transactional(server_database).begin() as holder,
    ):
        holder.execute(models.nodes.update().where(models.nodes.c.uuid == node).values(extra={}))

        def change(conn: Connection) -> None:
            held.set()
            nodes.edit(conn, node, {"extra": {}}, generation=0)

        waiting = [pool.submit(small.write, change) for _ in range(6)]
        assert held.wait(60)
        refused = list(itertools.islice(as_completed(waiting, timeout=30), 3))
        assert {type(each.exception()) for each in refused} == {errors.Unavailable}
        assert small.read(lambda conn: nodes.get(conn, node, ("uuid",)))["uuid"] == node
        holder.rollback()


@pytest.mark.parametrize("size", [2, 3])
def test_concurrent_changes_of_parents_never_make_a_ring(database: Database, size: int) -> None:
    uuids = [add_node(database) for _ in range(size)]
    barrier = threading.Barrier(size)

    def adopt(n: int) -> bool:
        parent = uuids[(n + 1) % size]
        first = itertools.count()

        def work(conn: Connection) -> None:
            nodes.check_parent(conn, uuids[n], parent)
            if next(first) == 0 and database.engine.dialect.name != "sqlite":
                with contextlib.suppress(threading.BrokenBarrierError):
                    barrier.wait(2)  # both have looked; SQLite has one writer at a time
            nodes.edit(conn, uuids[n], {"parent_node": parent}, generation=generations[n])

        try:
            database.write(work)
        except errors.InvalidParameter:
            return False
        return True

    generations = [get_node(database, uuid)["generation"] for uuid in uuids]
    with ThreadPoolExecutor(size) as pool:
        done = list(pool.map(adopt, range(size)))
    assert done.count(False) == 1


# Turns to write come to all who wait, in their order, and none is lost.


def until(what: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_threads_get_the_lock_in_their_order() -> None:
    turns, served = FairLock(), []

    def write(number: int) -> None:
        assert turns.acquire(30)
        served.append(number)
        turns.release()

    assert turns.acquire(0)
    threads = []
    for number in range(20):
        threads.append(threading.Thread(target=write, args=(number,)))
        threads[-1].start()
        until(lambda: turns.waiting == len(threads))
    turns.release()
    for thread in threads:
        thread.join(30)
    assert served == list(range(20))
    assert turns.acquire(0)


def _waits(turns: FairLock) -> tuple[threading.Thread, threading.Event]:
    """Let somebody wait for a turn, take it and give it back."""
    came = threading.Event()

    def wait() -> None:
        assert turns.acquire(30)
        came.set()
        turns.release()

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: turns.waiting == 1)
    return thread, came


def test_thread_that_has_waited_long_is_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BRIEF_PATIENCE", 0.0)
    turns = FairLock()
    assert turns.acquire(0)
    waiting, came = _waits(turns)
    turns.release()
    taken = turns.acquire(0)
    assert not taken or came.is_set()  # the turn was the other's, awake or not
    assert came.wait(30)
    waiting.join(30)
    if taken:
        turns.release()
    assert turns.acquire(0)


def test_overtaken_thread_gets_the_lock_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BRIEF_PATIENCE", 3600.0)
    turns = FairLock()
    assert turns.acquire(0)
    waiting, came = _waits(turns)
    with turns._guard:  # as if who gives it back took it again before the other has woken
        turns._high[0].rung = True
        turns._high[0].bell.release()
    until(lambda: not turns._high[0].rung)
    assert not came.is_set()
    turns.release()
    assert came.wait(30)
    waiting.join(30)
    assert turns.acquire(0)


def _served(turns: FairLock, low: Sequence[bool]) -> list[int]:
    """Let threads wait in this order, low for low priority; return the order of their turns."""
    served: list[int] = []

    def write(number: int) -> None:
        with module.low_priority() if low[number] else contextlib.nullcontext():
            assert turns.acquire(30)
            served.append(number)
            turns.release()

    assert turns.acquire(0)
    threads = []
    for number in range(len(low)):
        threads.append(threading.Thread(target=write, args=(number,)))
        threads[-1].start()
        until(lambda: turns.waiting == len(threads))
    turns.release()
    for thread in threads:
        thread.join(30)
    return served


def test_work_in_the_background_waits_behind_clients() -> None:
    assert _served(FairLock(), [True, True, False, False]) == [2, 3, 0, 1]


def test_work_in_the_background_gets_a_share_beside_many_clients() -> None:
    served = _served(FairLock(), [True, True, *[False] * 10])
    places = [served.index(number) for number in (0, 1)]
    assert places[0] <= module.SHARE and places[1] <= 2 * module.SHARE + 1


def test_several_places_are_handed_on_at_once() -> None:
    turns = FairLock(2)
    assert turns.acquire(0) and turns.acquire(0) and not turns.acquire(0)
    waiting, came = _waits(turns)
    turns.release()
    assert came.wait(30)
    waiting.join(30)
    turns.release()
    assert turns.acquire(0) and turns.acquire(0) and not turns.acquire(0)


def test_work_in_the_background_leaves_places_for_clients() -> None:
    turns = FairLock(3, low_places=2)
    with module.low_priority():
        assert turns.acquire(0) and turns.acquire(0) and not turns.acquire(0)
    assert turns.acquire(0) and not turns.acquire(0)
    with module.low_priority():
        turns.release()
    turns.release()
    assert turns.acquire(0) and turns.acquire(0) and not turns.acquire(0)


def test_place_of_low_priority_goes_to_the_next_of_low_priority() -> None:
    turns, came = FairLock(3, low_places=1), threading.Event()

    def wait() -> None:
        with module.low_priority():
            assert turns.acquire(30)
            came.set()
            turns.release()

    with module.low_priority():
        assert turns.acquire(0)
    assert turns.acquire(0)
    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: turns.waiting == 1)
    turns.release()
    assert not came.wait(0.05)
    with module.low_priority():
        turns.release()
    assert came.wait(30)
    thread.join(30)


def test_thread_that_gives_up_does_not_block_the_lock() -> None:
    turns = FairLock()
    assert turns.acquire(0)
    assert not turns.acquire(0.01)
    turns.release()
    assert turns.acquire(0)


def test_many_writers_exclude_each_other() -> None:
    turns, inside, most, done = FairLock(), [0], [0], []

    def write() -> None:
        for _ in range(50):
            if turns.acquire(0.0005):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1
                turns.release()
        done.append(1)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (most[0], len(done)) == (1, 8)
    assert turns.acquire(0)
