"""The lock: one conditional statement, a token that every write must know, a lease that ends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events, nodes
from tests.support.database_rows import NOON, add_node, get_node, lock_node, new_uuid
from tests.support.statements import count_statements

THREADS = 8


def test_of_eight_threads_that_lock_a_node_at_once_exactly_one_wins(database: Database) -> None:
    node = add_node(database)
    ready = threading.Barrier(THREADS)

    def take(number: int) -> bool:
        ready.wait(timeout=30)
        return lock_node(database, node, f"token-{number}", host=f"host-{number}")

    with ThreadPoolExecutor(THREADS) as pool:
        won = list(pool.map(take, range(THREADS)))
    assert won.count(True) == 1
    row = get_node(database, node)
    assert row["lock_token"] == f"token-{won.index(True)}"
    assert row["reservation"] == f"host-{won.index(True)}"


def test_locking_is_one_statement_and_leaves_the_generation_alone(database: Database) -> None:
    node = add_node(database)
    with count_statements(database) as sent:
        assert lock_node(database, node, "token")
    assert len(sent) == 1, sent
    assert get_node(database, node)["generation"] == 0


def test_lock_and_release_write_time_and_note_by_the_same_statement(database: Database) -> None:
    node, before = add_node(database), clock.now()
    expires = clock.after(60)
    with count_statements(database) as sent:
        database.write(
            lambda conn: nodes.lock(
                conn, node, host="host-1", token="mine", expires=expires, note="req-1 ann"
            )
        )
    assert len(sent) == 1, sent
    row = get_node(database, node)
    assert (row["lock_note"], row["locked_at"] >= before) == ("req-1 ann", True)
    with pytest.raises(errors.NodeLocked, match=r"It is held since .* for the request req-1\."):
        database.write(lambda conn: nodes.edit(conn, node, {}, generation=0))
    database.write(lambda conn: nodes.unlock(conn, node, token="mine"))
    assert {get_node(database, node)[name] for name in nodes.FREE} == {None}


def test_release_with_the_last_save_clears_the_note(database: Database) -> None:
    node, expires = add_node(database), clock.after(60)
    database.write(
        lambda conn: nodes.lock(conn, node, host="h", token="mine", expires=expires, note="req-1")
    )
    database.write(lambda conn: nodes.save(conn, node, {**nodes.FREE}, token="mine"))
    assert {get_node(database, node)[name] for name in nodes.FREE} == {None}


def steals(database: Database, node: str, lock: nodes.Lease) -> bool:
    """Tell whether another host may replace this lock."""
    expires = clock.after(60)
    return database.write(
        lambda conn: nodes.lock(
            conn, node, host="host-2", token="mine", expires=expires, steal=lock
        )
    )


def test_a_dead_holders_lock_is_stolen_only_with_its_token(database: Database) -> None:
    node = add_node(database)
    assert lock_node(database, node, "dead")
    seen = nodes.Lease.seen(get_node(database, node))
    assert seen is not None
    assert not steals(database, node, seen._replace(token="other"))
    assert steals(database, node, seen)
    assert get_node(database, node)["reservation"] == "host-2"


def test_a_lock_that_was_renewed_since_it_was_seen_is_not_stolen(database: Database) -> None:
    node = add_node(database)
    assert lock_node(database, node, "slow", host="host-1")
    seen = nodes.Lease.seen(get_node(database, node))
    assert seen is not None
    again = {"host": "host-1", "tokens": ["slow"], "expires": clock.after(90)}
    assert database.write(lambda conn: nodes.renew(conn, **again)) == 1  # type: ignore[arg-type]
    assert not steals(database, node, seen)
    assert get_node(database, node)["lock_token"] == "slow"


def test_a_free_node_can_be_locked_also_by_who_came_to_steal(database: Database) -> None:
    node = add_node(database)
    assert steals(database, node, nodes.Lease("gone", None))


def test_a_save_without_the_lock_raises_lock_lost_and_writes_nothing(database: Database) -> None:
    node = add_node(database)
    lock_node(database, node, "mine")

    def work(conn: Connection) -> None:
        row = {"at": NOON, "node_uuid": node, "kind": "provision"}
        events.add(conn, [row])
        nodes.save(conn, node, {"provision_state": "cleaning"}, token="another")

    with pytest.raises(errors.LockLost):
        database.write(work)
    assert get_node(database, node)["provision_state"] == "manageable"
    assert database.read(events.page) == []


def test_a_save_raises_the_generation_and_notes_the_time(database: Database) -> None:
    node = add_node(database)
    lock_node(database, node, "mine")
    before = clock.now()
    for state in ("cleaning", "clean wait"):
        database.write(
            lambda conn, state=state: nodes.save(  # type: ignore[misc]
                conn, node, {"provision_state": state}, token="mine"
            )
        )
    row = get_node(database, node)
    assert (row["generation"], row["provision_state"]) == (2, "clean wait")
    assert row["updated_at"] >= before


def test_only_the_holder_gives_a_lock_back(database: Database) -> None:
    node = add_node(database)
    lock_node(database, node, "mine")
    database.write(lambda conn: nodes.unlock(conn, node, token="another"))
    assert get_node(database, node)["lock_token"] == "mine"
    database.write(lambda conn: nodes.unlock(conn, node, token="mine"))
    row = get_node(database, node)
    assert (row["reservation"], row["lock_token"], row["lock_expires"]) == (None, None, None)


def test_only_the_holder_deletes_a_node(database: Database) -> None:
    node = add_node(database)
    lock_node(database, node, "mine")
    with pytest.raises(errors.LockLost):
        database.write(lambda conn: nodes.delete(conn, node, token="another"))
    database.write(lambda conn: nodes.delete(conn, node, token="mine"))
    with pytest.raises(errors.NodeNotFound):
        get_node(database, node)


def test_renewing_extends_the_leases_that_are_still_ours(database: Database) -> None:
    mine, stolen = add_node(database), add_node(database)
    lock_node(database, mine, "mine")
    lock_node(database, stolen, "mine-too", host="host-2")
    tokens = ["mine", "mine-too", *(new_uuid() for _ in range(1200))]
    count = database.write(
        lambda conn: nodes.renew(conn, host="host-1", tokens=tokens, expires=NOON)
    )
    assert count == 1
    assert get_node(database, mine)["lock_expires"] == NOON
    assert get_node(database, stolen)["lock_expires"] != NOON
