"""Column types, alike on all three databases.

Times are naive UTC with microseconds. JSON columns hold free-form objects; everything that a filter
or the engine selects by is a column of its own with an index.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite

from ironic_lite.core.json_types import Row
from ironic_lite.db.engine import encryption

_TIME_LENGTH = len("2000-01-01 00:00:00.000000")


class _SqliteTime(sqlite.DATETIME):
    """A time in SQLAlchemy's own form, made in less than half of its time."""

    def bind_processor(self, dialect: sa.Dialect) -> Callable[[Any], str | None]:
        """Return the conversion of a value."""
        return _time_text


def _time_text(value: datetime.datetime | None) -> str | None:
    # Without the zone of an aware time, as SQLAlchemy's own.
    return None if value is None else value.isoformat(" ", "microseconds")[:_TIME_LENGTH]


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite auto-increments only a column whose type is exactly INTEGER.
Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = (
    sa.DateTime()
    .with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    .with_variant(_SqliteTime(), "sqlite")  # type: ignore[no-untyped-call]  # of SQLAlchemy
)
# Text is ordered by code points, so that a list has the same order on all three databases: SQLite
# does it by default, MariaDB by the tables' collation, PostgreSQL by the columns'.
LongText = (
    sa.Text()
    .with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
    .with_variant(sa.Text(collation="C"), "postgresql")
)
JsonColumn = sa.JSON(none_as_null=True)
_OPTIONS: Row = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def table(name: str, *parts: sa.schema.SchemaItem, **more: Any) -> sa.Table:
    """Return a table of the service: the same text in the same order on all databases."""
    return sa.Table(name, metadata, *parts, **_OPTIONS, **more)


def string(length: int) -> sa.types.TypeEngine[str]:
    """Return a text of so many characters, ordered by code points."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def id_() -> sa.Column[int]:
    """Return the primary key of a table whose rows have an order."""
    return sa.Column("id", Id, primary_key=True, autoincrement=True)


def keys() -> tuple[sa.Column[Any], ...]:
    """Return the primary key, and the UUID that clients name rows by."""
    return (id_(), uuid("uuid", unique=True, nullable=False))


def uuid(name: str, **more: Any) -> sa.Column[str]:
    """Return a column of UUIDs."""
    return sa.Column(name, string(36), **more)


def text(name: str, length: int = 255, **more: Any) -> sa.Column[str]:
    """Return a column of short texts."""
    return sa.Column(name, string(length), **more)


def flag(name: str, **more: Any) -> sa.Column[bool]:
    """Return a boolean column that is never NULL, false by default."""
    default = sa.false() if more.pop("default_false", True) else sa.true()
    return sa.Column(name, sa.Boolean, nullable=False, server_default=default, **more)


def json(name: str, **more: Any) -> sa.Column[Any]:
    """Return a column of JSON values."""
    return sa.Column(name, JsonColumn, **more)


def encrypted_json(name: str, **more: Any) -> sa.Column[Any]:
    """Return a column of JSON values that are encrypted if there are keys."""
    return sa.Column(name, encryption.EncryptedJSON(none_as_null=True), **more)


def time(name: str, **more: Any) -> sa.Column[Any]:
    """Return a column of times, naive UTC."""
    return sa.Column(name, Time, **more)


def made() -> tuple[sa.Column[Any], ...]:
    """Return the columns of a row's creation and last change."""
    return (time("created_at", nullable=False), time("updated_at"))


def reference(name: str, other: str, **more: Any) -> sa.Column[str]:
    """Return a column with the UUID of another row, with which this row is deleted."""
    return sa.Column(name, string(36), sa.ForeignKey(other, ondelete="CASCADE"), **more)


def owner() -> sa.Column[str]:
    """Return the column with the node of rows that have keys of their own."""
    return reference("node_uuid", "nodes.uuid", nullable=False, index=True)


def of_node() -> sa.Column[str]:
    """Return the first half of the key of rows that belong to a node."""
    return reference("node_uuid", "nodes.uuid", primary_key=True)
