"""Ironic's database, read in one transaction that changes nothing."""

from __future__ import annotations

import contextlib
import datetime
import functools
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db import copy
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.features.move_in import rules
from ironic_lite.features.move_in.tables import TABLES, ColumnForm, IronicTable

_MANY = 500
_LARGE = frozenset({"node_inventory"})
_FEW = 50
_REVISIONS = "alembic_version"
_NUL, _HAS_NUL = re.compile(r"(?<!\\)(\\\\)*\\u0000"), "has a NUL character"
_PERHAPS_NUL = r"\u0000"


def open_database(
    target: Database, place: str, *, option: str = "--from", write: bool = False
) -> Database:
    """Return Ironic's database by its URL, or by the ironic.conf that names it; not yet read.

    :param option: that has named it.
    :param write: for the way back, else a SQLite file is opened read-only.
    :raises config.ConfigError: the URL or the file cannot be used.
    """
    text = place
    if "://" not in place:
        try:
            found, _ = config.judge_files([pathlib.Path(place)])
        except config.ConfigError:  # its text may show a line with a password
            reason = f"{option}: {place} cannot be read as an ironic.conf"
            do = "ironic-lite-status check-ironic-conf names its lines"
            raise config.ConfigError(reason=f"{reason}; {do}") from None
        text = str(found.database.connection or "")
        if not text:
            raise config.ConfigError(reason=f"{option}: {place} has no [database]connection")
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # The messages of these errors would show a part of the URL, perhaps of the password.
        reason = f"{option}: neither a URL such as mysql+pymysql://user:password@host/ironic"
        raise config.ConfigError(reason=f"{reason}, nor a file") from None
    query = {name: value for name, value in url.query.items() if name != "charset"}
    url = url.set(drivername=url.get_backend_name(), query=query)
    return copy.open_file(target, url, option=option, mode="rw" if write else "ro")


class Unknown(NamedTuple):
    """A table, or a column of a known one, that no release has."""

    table: str
    column: str | None


class IronicRow(NamedTuple):
    """A row there with JSON decoded, and the columns that cannot be used, each with the reason."""

    values: Json
    faults: dict[str, str]


def together(table: str) -> int:
    """Return the number of rows that are read at once."""
    return _FEW if table in _LARGE else _MANY


class Snapshot(NamedTuple):
    """Ironic's database at one moment.

    :ivar unknown: what a patched Ironic has added.
    """

    database: Database
    conn: Connection
    head: str
    unknown: tuple[Unknown, ...]

    def rows(
        self, name: str, *, order: Iterable[str] = ("id",), columns: Iterable[str] | None = None
    ) -> Iterator[IronicRow]:
        """Yield the rows of a table; none if the head does not have it.

        :param order: columns that they are sorted by.
        :param columns: the chosen ones, all by default.
        """
        table = TABLES[name]
        if not table.of_head(self.head):
            return
        mapped = table_of(name, self.head)
        chosen = tuple(columns or mapped.c.keys())
        query = sa.select(*(mapped.c[one] for one in chosen))
        query = query.order_by(*(mapped.c[one] for one in order if one in mapped.c))
        documents: list[tuple[str, Any]] = [
            (one.name, list if _is_list(table, one.name) else dict)
            for one in table.columns
            if one.form is ColumnForm.JSON and one.name in chosen
        ]
        size = together(name)
        with copy.reading(self.database, "Ironic"):
            found = self.conn.execute(query, execution_options={"yield_per": size})
            for row in found.mappings():
                yield _decoded(dict(row), documents)

    def count(self, one: Unknown) -> int:
        """Return the number of values of an unknown column, or of rows of an unknown table."""
        query = sa.select(sa.func.count()).select_from(sa.table(one.table))
        if one.column is not None:
            query = query.where(sa.column(one.column).is_not(None))
        with copy.reading(self.database, "Ironic"):
            return int(self.conn.execute(query).scalar_one())


def _is_list(table: IronicTable, column: str) -> bool:
    return (table.name, column) in _LISTS


_LISTS = frozenset(
    {
        *(("bios_settings", "allowable_values"), ("conductors", "drivers")),
        *(("allocations", "traits"), ("allocations", "candidate_nodes")),
        *(("inspection_rules", "conditions"), ("inspection_rules", "actions")),
    }
)
"""Columns with JSON lists; the others have objects."""


def _decoded(row: Json, documents: Sequence[tuple[str, Any]]) -> IronicRow:
    faults = {name: _HAS_NUL for name, one in row.items() if isinstance(one, str) and "\0" in one}
    for name, kind in documents:
        if row[name] is None:
            continue
        row[name], fault = _document(row[name], kind)
        if fault:
            faults[name] = fault
    return IronicRow(row, faults)


def _document(text: Any, kind: Any) -> tuple[Any, str]:
    """Return the value of JSON text, and the reason if it cannot be used."""
    try:
        value = orjson.loads(text)
    except (ValueError, TypeError):
        return None, "is no JSON"
    if value is not None and not isinstance(value, kind):
        return None, f"is JSON, but no {'list' if kind is list else 'object'}"
    has_nul = _PERHAPS_NUL in text and _NUL.search(text)
    return (None, _HAS_NUL) if has_nul else (value, "")


_TYPES: dict[ColumnForm, Any] = {
    ColumnForm.NUMBER: sa.BigInteger,
    ColumnForm.TEXT: sa.Text,
    ColumnForm.FLAG: sa.Boolean,
    ColumnForm.TIME: sa.DateTime,
    ColumnForm.JSON: sa.Text,
}


@functools.cache
def table_of(name: str, head: str) -> sa.Table:
    """Return a table as a revision has it."""
    columns = (sa.Column(one.name, _TYPES[one.form]) for one in TABLES[name].of_head(head))
    return sa.Table(name, sa.MetaData(), *columns)


@contextlib.contextmanager
def open_snapshot(source: Database) -> Iterator[Snapshot]:
    """Open a transaction that only reads, and sees the rows of one moment.

    :raises errors.Error: it is not Ironic's database, or of no known release.
    """
    with copy.snapshot(source, "Ironic") as conn:
        yield snapshot_of(source, conn)


def snapshot_of(source: Database, conn: Connection) -> Snapshot:
    """Return what a transaction sees; see `open_snapshot`."""
    with copy.reading(source, "Ironic"):
        inspector = sa.inspect(conn)
        names = set(inspector.get_table_names())
        head = _head(source.name, conn, names)
        unknown = tuple(_compare_columns(source.name, inspector, names, head))
    return Snapshot(source, conn, head, unknown)


def _head(name: str, conn: Connection, names: set[str]) -> str:
    if not {_REVISIONS, "nodes"} <= names:
        raise errors.Error(
            f"{name} is not Ironic's database. Name the one of [database]connection in Ironic's "
            "ironic.conf, or that file."
        )
    if "hardware_interfaces" in names:
        raise errors.Error(f"{name} is a database of ironic_lite: use ironic-lite-dbsync copy")
    query: sa.Select[Any] = sa.select(sa.column("version_num")).select_from(sa.table(_REVISIONS))
    head = ", ".join(map(str, conn.execute(query).scalars()))
    if head not in rules.RELEASES:
        raise errors.Error(
            f"{name}: revision {head[:80] or 'none'} is of no Ironic release from 24.1 to 39. Of a "
            "newer one: upgrade ironic_lite. Of a development state: run ironic-dbsync upgrade of "
            "a release."
        )
    return head


def _compare_columns(
    name: str, inspector: sa.Inspector, names: set[str], head: str
) -> Iterator[Unknown]:
    """Yield what no release has.

    :raises errors.Error: a table or column of the head is missing.
    """
    for table in TABLES.values():
        known = {column.name for column in table.of_head(head)}
        there = (
            {str(column["name"]) for column in inspector.get_columns(table.name)}
            if (table.name in names)
            else set()
        )
        for missing in sorted(known - there):
            what = f"column {table.name}.{missing}" if there else f"table {table.name}"
            raise errors.Error(
                f"{name}: the {what} of revision {head} is missing. Run ironic-dbsync upgrade of "
                "that release."
            )
        if known:
            yield from (Unknown(table.name, one) for one in sorted(there - known))
    of_head = {table.name for table in TABLES.values() if table.of_head(head)}
    yield from (Unknown(one, None) for one in sorted(names - of_head - {_REVISIONS}))


class IronicConductor(NamedTuple):
    """A conductor there; its group in lower case."""

    hostname: str
    group: str
    online: bool
    updated_at: object


def conductors(conn: Connection, head: str) -> list[IronicConductor]:
    """Return all conductors."""
    mapped = table_of("conductors", head)
    names = ("hostname", "conductor_group", "online", "updated_at")
    chosen = (mapped.c[one] for one in names)
    query: sa.Select[Any] = sa.select(*chosen).order_by(mapped.c.hostname)
    return [
        IronicConductor(host, (group or "").lower(), bool(online), at)
        for host, group, online, at in conn.execute(query)
    ]


def lock(there: Snapshot) -> None:
    """Keep others from writing Ironic's tables until the end of a transaction that has begun.

    On SQLite it is the only one that writes.
    """
    conn, kind = there.conn, there.database.kind
    if kind == "postgresql":
        names = (name for name, table in TABLES.items() if table.of_head(there.head))
        conn.exec_driver_sql(f"LOCK TABLE {', '.join(names)} IN SHARE ROW EXCLUSIVE MODE")
    elif kind == "mysql":
        # Each row that is read stays locked, and so do the gaps between them.
        conn.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        conn.exec_driver_sql("SET SESSION net_write_timeout = 3600")  # rows wait for comparisons
        conn.exec_driver_sql("BEGIN")


class Marks:
    """Count, largest id and newest times of some rows of each table."""

    def __init__(self) -> None:
        self._found: dict[str, Json] = {}

    def add(self, table: str, row: JsonView) -> None:
        """Add a row there."""
        mark = self._found.setdefault(table, {"count": 0, **dict.fromkeys(MARKED)})
        mark["count"] += 1
        for name in MARKED:
            value = row.get(name)
            if value is not None and (mark[name] is None or value > mark[name]):
                mark[name] = value

    def documents(self) -> dict[str, Json]:
        """Return the marks by table, with times as text."""
        return {
            table: {
                name: value.isoformat() if isinstance(value, datetime.datetime) else value
                for name, value in mark.items()
            }
            for table, mark in sorted(self._found.items())
        }


MARKED = ("id", "created_at", "updated_at")
