"""Statements that are compiled once: they write what SQLAlchemy's own execution writes."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.engine.prepared import Write
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models

_NODE = models.nodes.c
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


def get_node(database: Database, node: str) -> dict[str, Any]:
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
    found, expected = get_node(database, node), get_node(database, other)
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
    before = get_node(database, node)
    with pytest.raises(ValueError, match="parameter k_uuid of"):
        database.write(lambda conn: _EDIT.execute(conn, {"name": "x"}))
    delete = Write(
        models.nodes.delete().where(
            sa.or_(_NODE.uuid == sa.bindparam("k_uuid"), sa.bindparam("k_all", type_=sa.Text) == "")
        )
    )
    with pytest.raises(ValueError, match="parameter k_all of"):
        database.write(lambda conn: delete.execute(conn, {"k_uuid": node}))
    assert get_node(database, node) == before


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
