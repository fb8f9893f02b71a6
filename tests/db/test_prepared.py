"""Statements that are compiled once do what SQLAlchemy's own execution does."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import subprocess
import sys
import threading
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine import prepared, session
from ironic_lite.db.engine.prepared import Write
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events, holds, nodes
from ironic_lite.db.tables import models
from tests.db.test_connections import end_connection
from tests.support import service
from tests.support.database_rows import NOON, add_node, get_node, new_uuid
from tests.support.statements import count_statements

# Prepared selects: the values, the errors and the listeners of Connection.execute.

_NODE = models.nodes.c


def _by_uuid(*names: str) -> sa.Select[Any]:
    chosen = (_NODE[name] for name in names)
    return sa.select(*chosen).where(_NODE.uuid == sa.bindparam("k_uuid"))


def _changed_since() -> sa.Select[Any]:
    return sa.select(_NODE.uuid).where(_NODE.updated_at > sa.bindparam("k_since"))


def _missing() -> sa.Select[Any]:
    return sa.select(sa.column("secret")).select_from(sa.table("not_a_table"))


def first(database: Database, *arguments: Any) -> Any:
    """Return the first row of a prepared select."""
    return database.read(lambda conn: prepared.first(conn, *arguments))


def test_each_column_has_the_value_that_execute_returns(database: Database) -> None:
    node = add_node(
        database,
        driver_info={"address": "192.0.2.1"},
        driver_internal_info={"$fernet": "a client's own"},
        extra={"list": [1, None, "\N{SNOWMAN}"]},
        instance_info={},
        maintenance=True,
        automated_clean=False,
        provision_updated_at=NOON,
        description="",
    )
    statement = _by_uuid(*nodes.COLUMNS)
    expected = database.read(lambda conn: conn.execute(statement, {"k_uuid": node}).one())
    for _ in range(2):  # the second time, it is prepared
        assert first(database, _by_uuid, nodes.COLUMNS, {"k_uuid": node}) == list(expected)


def _of_states() -> sa.Select[Any]:
    """Return a select whose text depends on its values."""
    chosen = sa.select(_NODE.name, _NODE.extra, _NODE.provision_updated_at).order_by(_NODE.name)
    return chosen.where(_NODE.provision_state.in_(sa.bindparam("states", expanding=True)))


def _of_state() -> sa.Select[Any]:
    chosen = sa.select(_NODE.name, _NODE.extra, _NODE.provision_updated_at).order_by(_NODE.name)
    return chosen.where(_NODE.provision_state == sa.bindparam("state"))


@pytest.mark.parametrize(
    ("make", "values"),
    [(_of_state, {"state": "manageable"}), (_of_states, {"states": ["manageable", "active"]})],
)
def test_rows_come_in_parts(
    database: Database, make: prepared.Make, values: dict[str, Any]
) -> None:
    for number in range(4):
        add_node(database, name=f"n{number}", extra={"n": number}, provision_updated_at=NOON)
    names = ("name", "extra", "provision_updated_at")

    def sizes(conn: Connection, size: int) -> list[int]:
        found = list(prepared.parts(conn, make, (), values, names=names, size=size))
        assert [row for some in found for row in some] == [
            {"name": f"n{number}", "extra": {"n": number}, "provision_updated_at": NOON}
            for number in range(4)
        ]
        return [len(some) for some in found]

    assert database.read(lambda conn: sizes(conn, 2)) == [2, 2]
    assert database.read(lambda conn: sizes(conn, 3)) == [3, 1]


def _extras() -> sa.Select[Any]:
    return sa.select(_NODE.extra)


def test_connection_is_free_when_a_reader_stops_after_some_rows(database: Database) -> None:
    for number in range(40):
        add_node(database, extra={"n": number})

    def stop(conn: Connection, fault: bool) -> None:
        with contextlib.closing(
            prepared.parts(conn, _extras, (), {}, names=("extra",), size=20)
        ) as rows:
            next(rows)
            if fault:
                raise ValueError
        assert prepared.first(conn, _extras, (), {}) is not None

    database.read(lambda conn: stop(conn, False))
    with pytest.raises(ValueError):
        database.read(lambda conn: stop(conn, True))
    assert len(database.read(lambda conn: nodes.page(conn, columns=("uuid",)))) == 40


_READ_FIRST_PART = """
import pathlib, sys
import sqlalchemy as sa
from ironic_lite.db.engine import prepared, session
from ironic_lite.db.tables import models

database = session.open_database(sys.argv[1])

def extras():
    return sa.select(models.nodes.c.extra)

def peak():
    # getrusage counts the memory of the process that made this one, too.
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024

def read(conn):
    rows = prepared.parts(conn, extras, (), {}, names=("extra",), size=100)
    next(rows)
    print(peak() - before)
    rows.close()

database.read(lambda conn: conn.execute(extras().limit(4)).all())
before = peak()
database.read(read)
"""


def test_large_rows_that_nobody_has_read_take_no_memory(database: Database) -> None:
    for _ in range(100):
        add_node(database, extra={"text": "x" * 1024 * 1024})
    url = database.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", _READ_FIRST_PART, url]
    done = subprocess.run(
        command, env=service.environment(), timeout=300, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 60, "MiB; 16 rows at the most, and copies of some"


def _numbers() -> sa.Select[Any]:
    """Return a select of columns whose conversion depends on the type that the driver reports."""
    exact = sa.cast(_NODE.generation, sa.Numeric(10, 2))
    return sa.select(sa.cast(_NODE.generation, sa.Float), exact).where(
        _NODE.uuid == sa.bindparam("k_uuid")
    )


def test_numbers_have_the_values_that_execute_returns(database: Database) -> None:
    values = {"k_uuid": add_node(database)}
    expected = database.read(lambda conn: conn.execute(_numbers(), values).one())
    found = first(database, _numbers, (), values)
    assert found == list(expected)
    assert [type(one) for one in found] == [float, decimal.Decimal]


def test_select_whose_text_depends_on_its_values_has_its_first_row(database: Database) -> None:
    add_node(database, name="n", extra={"n": 1})
    assert first(database, _of_states, (), {"states": ["active"]}) is None
    assert first(database, _of_states, (), {"states": ["a", "manageable"]}) == ["n", {"n": 1}, None]


def test_no_row_is_none(database: Database) -> None:
    assert first(database, _by_uuid, ("uuid",), {"k_uuid": new_uuid()}) is None


def test_parameters_are_converted_for_the_database(database: Database) -> None:
    node = add_node(database, updated_at=NOON)
    second = datetime.timedelta(seconds=1)
    assert first(database, _changed_since, (), {"k_since": NOON - second}) == [node]
    assert first(database, _changed_since, (), {"k_since": NOON}) is None


def test_parameter_with_a_function_is_computed_for_each_execution(database: Database) -> None:
    node = add_node(database)
    row = {
        "uuid": new_uuid(),
        "node_uuid": node,
        "kind": "operator",
        "reason": "a",
        "blocks": "removal",
        "until": clock.now() + datetime.timedelta(hours=1),
        "created_at": NOON,
    }
    database.write(lambda conn: holds.add(conn, row))

    def held() -> bool:
        return bool(database.read(lambda conn: nodes.get(conn, node, ("held",)))["held"])

    assert held()
    past = {"until": clock.now() - datetime.timedelta(hours=1)}
    database.write(lambda conn: conn.execute(models.holds.update().values(past)))
    assert not held()


def test_listeners_hear_a_prepared_statement(database: Database) -> None:
    node = add_node(database)
    with count_statements(database) as sent:
        get_node(database, node)
        get_node(database, node)
    assert len(sent) == 2


def test_refused_statement_is_reported_as_by_execute(database: Database) -> None:
    with pytest.raises(sa.exc.DBAPIError, match="not_a_table") as expected:
        database.read(lambda conn: conn.execute(_missing()))
    with pytest.raises(sa.exc.DBAPIError, match="not_a_table") as why:
        first(database, _missing, (), {})
    assert type(why.value) is type(expected.value)
    assert str(why.value) == str(expected.value)
    assert not why.value.connection_invalidated
    # The connection is still of use.
    assert get_node(database, add_node(database))


def test_read_after_the_server_closed_all_connections_succeeds(server_database: Database) -> None:
    node = add_node(server_database)
    together = threading.Barrier(3)

    def hold(conn: Connection) -> None:
        together.wait(timeout=30)
        end_connection(server_database, conn)

    threads = [threading.Thread(target=server_database.read, args=(hold,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert get_node(server_database, node)["uuid"] == node


def test_pool_of_dead_connections_is_replaced_once(server_database: Database) -> None:
    node, replaced = add_node(server_database), list[sa.Engine]()
    sa.event.listen(server_database.engine, "engine_disposed", replaced.append)
    together, found = threading.Barrier(3), list[str]()

    def read(tried: list[None]) -> None:
        def work(conn: Connection) -> str:
            if not tried:
                tried.append(None)
                together.wait(timeout=30)
                end_connection(server_database, conn)
                together.wait(timeout=30)
            return str(nodes.get(conn, node)["uuid"])

        found.append(server_database.read(work))

    threads = [threading.Thread(target=read, args=(list[None](),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert found == [node] * 3
    assert replaced == [server_database.engine]


def test_locked_row_of_a_server_is_contention(server_database: Database) -> None:
    node = add_node(server_database)

    def hold(conn: Connection) -> None:
        nodes.get(conn, node, ("uuid",), lock_row=True)
        limit = {
            "postgresql": "SET lock_timeout = 50",
            "mysql": "SET SESSION innodb_lock_wait_timeout = 1",
        }

        def wait(other: Connection) -> None:
            other.execute(sa.text(limit[server_database.kind]))
            nodes.get(other, node, ("uuid",), lock_row=True)

        with pytest.raises(errors.Unavailable, match="too busy"):
            server_database.write(wait, once=True)

    server_database.write(hold)


@pytest.mark.parametrize("count", [1, 2, 12, 13])
def test_inserted_rows_keep_their_values_and_order(database: Database, count: int) -> None:
    node = new_uuid()
    rows = [
        {"node_uuid": node, "kind": f"k{n}", "at": NOON, "data": {"n": n} if n % 2 else None}
        for n in range(count)
    ]
    database.write(lambda conn: events.add(conn, rows))
    found = database.read(lambda conn: events.page(conn, node_uuid=node))
    names = ("node_uuid", "kind", "at", "data")
    assert [{name: dict(row)[name] for name in names} for row in found] == rows


def test_write_whose_connection_dies_within_the_transaction_is_repeated(
    server_database: Database,
) -> None:
    node, died = add_node(server_database), threading.Event()

    def write(conn: Connection) -> None:
        if not died.is_set():
            died.set()
            end_connection(server_database, conn)
        nodes.lock(conn, node, host="here", token="t", expires=NOON)

    server_database.write(write)
    assert get_node(server_database, node)["lock_token"] == "t"


def test_row_too_large_for_one_text_is_refused_by_mariadb_alone(server_database: Database) -> None:
    text = "\x01" * 4_000_000  # six times as long in JSON
    node = add_node(server_database, last_error=text)
    if server_database.kind != "mysql":
        assert get_node(server_database, node)["last_error"] == text
        return
    with pytest.raises(errors.RowTooLarge, match="max_allowed_packet"):
        get_node(server_database, node)
    assert server_database.read(lambda conn: nodes.get(conn, node, ("uuid",)))["uuid"] == node


# Statements that are compiled once: they write what SQLAlchemy's own execution writes.

_EDIT = Write(
    models.nodes.update()
    .where(_NODE.uuid == sa.bindparam("k_uuid"))
    .values(generation=_NODE.generation + 1)
)


def new_node(database: Database) -> str:
    """Add a node and return its UUID."""
    row = {"uuid": str(uuid.uuid4()), "driver": "fake-hardware", "provision_state": "enroll"}
    database.write(lambda conn: nodes.insert(conn, row))
    return row["uuid"]


def read_node(database: Database, node: str) -> dict[str, Any]:
    """Return the row of a node."""
    return database.read(lambda conn: nodes.get(conn, node))


def edit(database: Database, node: str, **values: Any) -> int:
    """Write columns of a node; return the number of rows."""
    return database.write(lambda conn: _EDIT.execute(conn, {**values, "k_uuid": node}))


@pytest.mark.parametrize(
    "values",
    [
        {"driver_info": {"password": "ä'\"%s"}, "maintenance": True},
        {"driver_info": None, "clean_step": {}, "last_error": "100 % ?:x %(name)s"},
        {"wake_at": clock.now(), "name": None, "automated_clean": False},
    ],
    ids="-".join,
)
def test_each_type_of_value_is_stored_as_by_sqlalchemy(
    database: Database, values: dict[str, Any]
) -> None:
    node, other = new_node(database), new_node(database)
    for _ in range(2):  # the second time by the form that is known
        edit(database, node, **values)
    plain = models.nodes.update().where(_NODE.uuid == other).values(**values)
    database.write(lambda conn: conn.execute(plain))
    found, expected = read_node(database, node), read_node(database, other)
    assert {name: found[name] for name in values} == {name: expected[name] for name in values}
    assert {name: found[name] for name in values} == values
    assert found["generation"] == 2


def test_the_number_of_rows_is_returned(database: Database) -> None:
    node = new_node(database)
    assert edit(database, node, name="x") == 1
    assert edit(database, "missing", name="y") == 0


def test_engines_with_keys_do_not_share_forms(sqlite_database: Database) -> None:
    key = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MDA="
    encrypted = session.open_database(sqlite_database.url, encryption_keys=[key])
    node, values = new_node(sqlite_database), {"driver_info": {"password": "open"}}
    stored = sa.select(sa.cast(_NODE.driver_info, sa.Text)).where(_NODE.uuid == node)
    texts = []
    for database in (sqlite_database, encrypted):
        edit(database, node, **values)
        texts.append(sqlite_database.read(lambda conn: conn.execute(stored).scalar_one()))
    encrypted.close()
    assert "open" in texts[0]
    assert "open" not in texts[1]


def test_forgotten_parameter_writes_nothing(database: Database) -> None:
    node = new_node(database)
    before = read_node(database, node)
    with pytest.raises(ValueError, match="parameter k_uuid of"):
        database.write(lambda conn: _EDIT.execute(conn, {"name": "x"}))
    delete = Write(
        models.nodes.delete().where(
            sa.or_(_NODE.uuid == sa.bindparam("k_uuid"), sa.bindparam("k_all", type_=sa.Text) == "")
        )
    )
    with pytest.raises(ValueError, match="parameter k_all of"):
        database.write(lambda conn: delete.execute(conn, {"k_uuid": node}))
    assert read_node(database, node) == before


def _defaults() -> sa.Insert:
    made = sa.Table("made", sa.MetaData(), sa.Column("at", sa.Text, default=str), sa.Column("a"))
    return made.insert().inline()


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (models.nodes.update().where(_NODE.uuid.in_(["a", "b"])), {"name": "x"}),
        (_defaults(), {"a": "x"}),
    ],
    ids=["list", "default"],
)
def test_statement_whose_text_is_not_fixed_is_refused(
    database: Database, statement: Any, values: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="change the text"):
        database.write(lambda conn: Write(statement).execute(conn, values))


def test_several_rows_whose_text_is_not_fixed_are_refused(database: Database) -> None:
    insert = Write(_defaults())
    with pytest.raises(ValueError, match="change the text"):
        database.write(lambda conn: insert.insert_all(conn, [{"a": "x"}, {"a": "y"}]))


def test_several_rows_without_the_value_of_a_parameter_are_refused(database: Database) -> None:
    uuids = sa.bindparam("k_uuid", type_=sa.Text)
    insert = Write(models.nodes.insert().returning(uuids))
    rows = [{"uuid": one, "driver": "x", "provision_state": "enroll"} for one in ("a", "b")]
    with pytest.raises(ValueError, match="parameter k_uuid of"):
        database.write(lambda conn: insert.insert_all(conn, rows))


def test_aware_time_is_stored_as_by_sqlalchemy(sqlite_database: Database) -> None:
    node, other = new_node(sqlite_database), new_node(sqlite_database)
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    edit(sqlite_database, node, wake_at=at)
    plain = sa.table("nodes", sa.column("uuid"), sa.column("wake_at", sa.DateTime()))
    change = plain.update().where(plain.c.uuid == other).values(wake_at=at)
    sqlite_database.write(lambda conn: conn.execute(change))
    stored = sa.select(sa.cast(_NODE.wake_at, sa.Text)).where(_NODE.uuid.in_([node, other]))
    texts = sqlite_database.read(lambda conn: conn.execute(stored).scalars().all())
    assert texts == ["2026-01-02 03:04:05.000006"] * 2
