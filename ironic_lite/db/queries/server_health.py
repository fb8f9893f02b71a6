"""Questions about the database server itself, for examinations of the service."""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

_VERSIONS = {
    "sqlite": ("SQLite", "SELECT sqlite_version()"),
    "postgresql": ("PostgreSQL", "SHOW server_version"),
}
_MYSQL = "SELECT version()"
_CLOCKS = {"postgresql": "SELECT clock_timestamp() AT TIME ZONE 'UTC'"}
_MYSQL_CLOCK = "SELECT utc_timestamp(6)"
_MARK = models.marks.c
_INSERT = models.marks.insert().inline()
_DELETE = models.marks.delete().where(_MARK.name == sa.bindparam("k_name"))
_NODE = models.nodes.c
_GROUPS = (
    sa.select(_NODE.conductor_group, _NODE.driver, sa.func.count())
    .group_by(_NODE.conductor_group, _NODE.driver)
    .order_by(_NODE.conductor_group, _NODE.driver)
)


def version(conn: Connection) -> str:
    """Return the product and its version, such as ``PostgreSQL 16.4``."""
    product, statement = _VERSIONS.get(conn.dialect.name, ("", _MYSQL))
    found = str(conn.execute(sa.text(statement)).scalar_one()).split()[0]
    return f"{product or ('MariaDB' if 'MariaDB' in found else 'MySQL')} {found.split('-')[0]}"


def present_time(conn: Connection) -> datetime.datetime | None:
    """Return the time of the server's clock (naive UTC), None for SQLite, which has no server."""
    if conn.dialect.name == "sqlite":
        return None
    statement = _CLOCKS.get(conn.dialect.name, _MYSQL_CLOCK)
    found: datetime.datetime = conn.execute(sa.text(statement)).scalar_one()
    return found


def try_write(conn: Connection, name: str) -> None:
    """Write a row and remove it again, in a transaction whose end reaches the disk.

    :param name: of the row, at most 32 characters, which no other writer uses.
    """
    conn.execute(_INSERT, {"name": name, "value": 0})
    conn.execute(_DELETE, {"k_name": name})


def node_groups(conn: Connection) -> list[tuple[str, str, int]]:
    """Return (conductor group, hardware type, number of nodes), by one statement."""
    return [(group or "", driver, int(count)) for group, driver, count in conn.execute(_GROUPS)]


_ANY = sa.select(models.erasures.c.id).limit(1)


def has_erasures(conn: Connection) -> bool:
    """Return whether there is an erasure record of any node."""
    return conn.execute(_ANY).first() is not None
