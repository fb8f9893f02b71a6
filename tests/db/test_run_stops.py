"""The stop of a run: one conditional statement decides if a step begins or the stop was faster."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import run_stops
from tests.support.database_rows import add_node, get_node, lock_node, new_uuid
from tests.support.statements import count_statements

STOP = '{"how":"hold","reason":"disk 3, côté A"}'


def save(database: Database, node: str, token: str, known: str | None) -> None:
    values = {"last_error": "begun"}
    database.write(
        lambda conn: run_stops.save(conn, node, values, token=token, at=clock.now(), known=known)
    )


@pytest.mark.parametrize("stop", [None, STOP])
def test_save_with_the_known_stop_is_one_statement(database: Database, stop: str | None) -> None:
    node = add_node(database, run_stop=stop)
    assert lock_node(database, node, "mine")
    with count_statements(database) as sent:
        save(database, node, "mine", stop)
    assert len(sent) == 1, sent
    assert get_node(database, node)["last_error"] == "begun"


@pytest.mark.parametrize(
    ("known", "now"), [(None, STOP), (STOP, None), (STOP, STOP.replace("A", "a"))]
)
def test_save_with_another_stop_writes_nothing(
    database: Database, known: str | None, now: str | None
) -> None:
    node = add_node(database, run_stop=now)
    assert lock_node(database, node, "mine")
    with pytest.raises(run_stops.StopChanged) as caught:
        save(database, node, "mine", known)
    assert caught.value.text == now
    assert get_node(database, node)["last_error"] is None


def test_save_with_a_lost_lock_is_refused_as_ever(database: Database) -> None:
    node = add_node(database)
    assert lock_node(database, node, "mine")
    with pytest.raises(errors.LockLost):
        save(database, node, "another", None)


def test_stop_is_written_without_the_lock_and_for_the_active_run_alone(database: Database) -> None:
    run = new_uuid()
    node = add_node(database, run_uuid=run)
    assert lock_node(database, node, "mine")
    before = get_node(database, node)
    assert not database.write(lambda conn: run_stops.put(conn, node, new_uuid(), STOP))
    assert database.write(lambda conn: run_stops.put(conn, node, run, STOP))
    assert get_node(database, node) == {**before, "run_stop": STOP}
