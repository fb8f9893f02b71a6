"""Statements that are compiled once for each engine.

SQLAlchemy writes the SQL text and supplies the conversion of values. ``Connection.execute`` does
more for each execution: it looks the text up by a key of the whole statement, prepares parameters
and result anew, and begins a transaction object. For short statements this takes more time than the
database.

Here, the driver's cursor runs them: listeners of ``before_cursor_execute`` are called, without an
execution context. Errors of the driver are raised as SQLAlchemy raises them. Writes need a
transaction that has begun, as in ``session.Database.write``.

CPU milliseconds of one call with SQLite and 1000 nodes, the best of seven runs. A GET of one node
takes 0.2 ms in all, so it would need half as much again without this module:

========================================= ========= ============ ==========================
Call                                      this file by execute() and by SQLAlchemy's pool
========================================= ========= ============ ==========================
read of one node                          0.05      0.16         0.18
page of 10 nodes, all columns             0.29      0.37         0.40
page of 1000 nodes, all columns           19.0      20.1         19.6
lock, save and unlock: three transactions 0.29      0.44         0.50
========================================= ========= ============ ==========================
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from itertools import islice, repeat
from typing import Any, TypeVar

import orjson
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView

# Rows as one JSON text each, for a driver written in Python.
#
# With each result, PyMySQL reads a description of each column. For a row of sixty columns this
# takes most of the time of a read, so the server makes one text of them, which orjson reads.

_DRIVER = "pymysql"
_TYPES = (sa.String, sa.Integer, sa.Boolean, sa.DateTime, sa.JSON)
"""Types whose values are the same in a JSON text, or are made from it."""


def can_pack(statement: sa.Select[Any], dialect: sa.Dialect) -> bool:
    """Return whether the rows of a select can be JSON texts, and are better so.

    Numbers and booleans that are no columns become texts, depending on the server.
    """
    return dialect.driver == _DRIVER and all(
        isinstance(_stored_type(one), _TYPES if isinstance(one, sa.Column) else sa.String)
        for one in statement.selected_columns
    )


def pack_rows(statement: sa.Select[Any]) -> sa.Select[Any]:
    """Return the select of each row as one JSON text, a list."""
    values = (
        sa.cast(one, sa.Text) if isinstance(_stored_type(one), sa.JSON) else one
        for one in statement.selected_columns
    )
    return statement.with_only_columns(sa.func.json_array(*values), maintain_column_froms=True)


def unpack_rows(rows: Iterable[Any]) -> list[list[Any]]:
    """Return the values of packed rows.

    :raises errors.RowTooLarge: the server refuses texts as large as a row.
    """
    texts = [text for (text,) in rows]
    if None in texts:
        raise errors.RowTooLarge
    return list(map(orjson.loads, texts))


def conversion(
    column: sa.ColumnElement[Any], dialect: sa.Dialect, *, packed: bool
) -> Callable[[Any], Any] | None:
    """Return the conversion of a value that is not NULL, None if there is nothing to convert."""
    if packed and isinstance(column.type, sa.DateTime):
        return datetime.datetime.fromisoformat
    return column.type.dialect_impl(dialect).result_processor(dialect, None)


def _stored_type(column: sa.ColumnElement[Any]) -> Any:
    """Return the type of a selected value without its decorators."""
    kind = column.type
    return kind.impl if isinstance(kind, sa.types.TypeDecorator) else kind


LOG = logging.getLogger(__name__)

OPTION = "ironic_lite_prepared"
"""The execution option of an engine that holds its prepared statements."""
_POOL = "ironic_lite_pool"
"""The key in a connection's ``info`` of a reference to the pool that has made the connection."""
_REPLACING = threading.Lock()
_MOST = 1000
"""Statements of one engine; each set of columns that a node's save writes is one."""
_TOGETHER = 12
"""Rows that one INSERT has at most; each number of rows is a statement of its own."""

_FEWEST, _FETCHED = 4, 256 * 1024
"""Rows that are fetched together at least, and bytes of large rows."""

_CHUNK, _LIBPQ_WITH_CHUNKS = 16, 17_00_00
"""Rows that PostgreSQL's library receives together, and its first version that can do this."""

Make = Callable[..., sa.Select[Any]]
Compute = Callable[[Mapping[str, sa.BindParameter[Any]]], sa.ColumnElement[Any]]
"""Returns the expression of a column from the parameters of its row, by column."""
Convert = Callable[[Any], Any]
T = TypeVar("T")
Statements = dict[tuple[Any, Any], Any]
"""The prepared statements of one engine, by origin and form."""


def first(
    conn: sa.Connection, make: Make, form: tuple[Any, ...], values: RowView
) -> list[Any] | None:
    """Return the first row of a select, None without a row.

    :param make: returns the statement for the arguments ``form``, which are hashable.
    :param values: of the parameters without a value or a function of their own.
    """
    return _prepared(conn, _Select, make, form).first(conn, values)


def parts(
    conn: sa.Connection,
    make: Make,
    form: tuple[Any, ...],
    values: RowView,
    *,
    names: Sequence[str],
    size: int,
) -> Generator[list[Row]]:
    """Yield the rows of a select as dictionaries, at most ``size`` at a time; fewer large ones.

    ``conn`` must not be used otherwise until the generator has ended or is closed.

    :param make: as for `first`, like ``form`` and ``values``.
    :param names: of the selected columns, in their order.
    """
    return _prepared(conn, _Select, make, form).parts(conn, values, names, size)


class Write:
    """A statement that writes, compiled for each set of values that it is given.

    :param statement: an INSERT, UPDATE or DELETE without lists of values, and without columns whose
        default Python computes.
    :param columns: whether values without a parameter of the statement are columns to write.
    :param computed: columns that `insert_all` writes as expressions of the row's values.
    """

    def __init__(
        self,
        statement: sa.Insert | sa.Update | sa.Delete,
        *,
        columns: bool = True,
        computed: Mapping[str, Compute] | None = None,
    ) -> None:
        self.statement = statement
        self.columns = columns
        self.computed = computed or {}

    def execute(self, conn: sa.Connection, values: RowView) -> int:
        """Execute the statement once; return the number of its rows.

        :raises ValueError: a parameter without a value of its own is not given.
        :raises sqlalchemy.exc.DBAPIError: as ``Connection.execute``.
        """
        return _prepared(conn, _Change, self, frozenset(values)).execute(conn, values)

    def insert_all(self, conn: sa.Connection, rows: Sequence[RowView]) -> None:
        """Insert rows, which have the same keys. Raises as `execute`.

        A few rows are one statement: psycopg's ``executemany`` takes longer than a few statements.
        """
        if len(rows) == 1 and not self.computed:
            self.execute(conn, rows[0])
        elif len(rows) <= _TOGETHER:
            form = (frozenset(rows[0]), len(rows))
            _prepared(conn, _Rows, self, form).execute(conn, rows)
        elif self.computed:
            _prepared(conn, _Rows, self, (frozenset(rows[0]), 1)).execute_many(conn, rows)
        else:
            _prepared(conn, _Change, self, frozenset(rows[0])).execute_many(conn, rows)


def command(conn: sa.Connection, sql: str) -> None:
    """Run a text without parameters, such as BEGIN. Raises as `Write.execute`."""
    _prepared(conn, _Command, sql, None).execute(conn)


def attach(engine: sa.Engine) -> None:
    """Let an engine remember its prepared statements, and its connections their pool."""
    engine.update_execution_options(**{OPTION: Statements()})

    def note_pool(_connection: Any, record: Any) -> None:
        record.info[_POOL] = weakref.ref(engine.pool)

    sa.event.listen(engine, "connect", note_pool)


def pool_of(conn: sa.Connection) -> sa.Pool | None:
    """Return the pool that has made a connection, None if it is gone or not attached."""
    reference: Callable[[], sa.Pool | None] | None = conn.info.get(_POOL)
    return None if reference is None else reference()


def _prepared(
    conn: sa.Connection, prepare: Callable[[Any, Any, sa.Dialect], T], origin: Any, form: Any
) -> T:
    """Return what ``prepare`` returns for an origin, a form, and the dialect of the connection."""
    known: Statements | None = conn.get_execution_options().get(OPTION)
    if known is None:
        return prepare(origin, form, conn.dialect)
    found: T | None = known.get((origin, form))
    if found is None:
        if len(known) >= _MOST:
            known.clear()
        found = known[origin, form] = prepare(origin, form, conn.dialect)
    return found


class _Text:
    """The text of a statement for one dialect, and the conversion of its values.

    :param given: names of parameters and columns whose values each execution is given, besides the
        parameters that have no value of their own.
    :param columns: whether those without a parameter of the statement are columns to write.
    """

    def __init__(
        self,
        statement: sa.Select[Any] | sa.Insert | sa.Update | sa.Delete,
        dialect: sa.Dialect,
        given: frozenset[str] = frozenset(),
        *,
        columns: bool = False,
    ) -> None:
        keys = list(given) if columns else None
        compiled: Any = statement.compile(dialect=dialect, column_keys=keys)
        self.sql: str = compiled.string
        # The text of IN, for instance, depends on the values.
        depends = compiled.post_compile_params or compiled.literal_execute_params
        self.fixed = not (depends or compiled.prefetch)
        self.required: set[str] = set()
        self._positional: bool = compiled.positional
        self._parameters: list[tuple[str, Convert | None]] = []
        self._constants: Row = {}
        self._computed: list[tuple[str, sa.BindParameter[Any]]] = []
        if not self.fixed:
            return
        for name in compiled.positiontup if self._positional else compiled.binds:
            bind = compiled.binds[name]
            convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
            if bind.required or name in given:
                self.required.add(name)
            elif bind.callable is not None:
                self._computed.append((name, bind))
            else:
                value = bind.effective_value
                self._constants[name], convert = convert(value) if convert else value, None
            self._parameters.append((name, convert))

    def check(self, given: Set[str]) -> None:
        """Check that a write with these values can be prepared.

        :raises ValueError: its text is not fixed, or a parameter has no value.
        """
        if not self.fixed:
            raise ValueError(f"Values or Python's defaults change the text of: {self.sql}")
        if missing := self.required - given:
            raise ValueError(f"No value for the parameter {min(missing)} of: {self.sql}")

    def bound(self, values: RowView) -> Any:
        """Return the parameters as the driver takes them."""
        if self._constants or self._computed:
            computed = {name: bind.effective_value for name, bind in self._computed}
            values = {**values, **self._constants, **computed}
        if self._positional:
            return tuple(
                [
                    values[name] if convert is None else convert(values[name])
                    for name, convert in self._parameters
                ]
            )
        return {
            name: values[name] if convert is None else convert(values[name])
            for name, convert in self._parameters
        }


class _Statement:
    """One statement for one dialect, run by the driver's cursor."""

    def __init__(self, sql: str, dialect: sa.Dialect) -> None:
        self._sql = sql
        self._dialect = dialect
        self._error = dialect.loaded_dbapi.Error

    def _run(self, conn: sa.Connection, given: Any, *, many: bool = False) -> int:
        """Execute the statement; return the number of rows."""
        try:
            cursor = self._cursor(conn)
            try:
                self._execute(conn, cursor, given, many=many)
                count: int = cursor.rowcount
            finally:
                self._close(cursor)
        except self._error as why:
            raise self._wrapped(conn, why) from why
        return count

    def _cursor(self, conn: sa.Connection, *options: Any) -> Any:
        driver: Any = conn.connection
        return driver.cursor(*options)

    def _close(self, cursor: Any) -> None:
        try:
            cursor.close()
        except self._error:
            LOG.debug("Closing a cursor failed", exc_info=True)  # the rows, or another error, count

    def _execute(self, conn: sa.Connection, cursor: Any, given: Any, *, many: bool = False) -> None:
        self._announce(conn, cursor, given, many=many)
        run = self._dialect.do_executemany if many else self._dialect.do_execute
        run(cursor, self._sql, given)

    def _announce(
        self, conn: sa.Connection, cursor: Any, given: Any, *, many: bool = False
    ) -> None:
        for listener in conn.engine.dispatch.before_cursor_execute:
            listener(conn, cursor, self._sql, given, None, many)

    def _wrapped(self, conn: sa.Connection, why: Any) -> BaseException:
        """Return the error that ``Connection.execute`` raises; replace dead connections."""
        lost = self._dialect.is_disconnect(why, conn.connection, None)
        if lost:
            _replace(conn, why)
        raised: BaseException = sa.exc.DBAPIError.instance(
            self._sql,
            None,
            why,
            self._error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=self._dialect,
        )
        return raised


class _Command(_Statement):
    """A text without parameters."""

    def __init__(self, sql: str, _form: None, dialect: sa.Dialect) -> None:
        super().__init__(sql, dialect)

    def execute(self, conn: sa.Connection) -> None:
        """Run the text."""
        self._run(conn, None)


class _Change(_Statement):
    """A write of values with these names."""

    def __init__(self, write: Write, given: frozenset[str], dialect: sa.Dialect) -> None:
        self._text = text = _Text(write.statement, dialect, given, columns=write.columns)
        text.check(given)
        super().__init__(text.sql, dialect)

    def execute(self, conn: sa.Connection, values: RowView) -> int:
        """Execute the write; return the number of rows."""
        return self._run(conn, self._text.bound(values))

    def execute_many(self, conn: sa.Connection, rows: Sequence[RowView]) -> None:
        """Execute the write for each row."""
        self._run(conn, [self._text.bound(row) for row in rows], many=True)


class _Rows(_Statement):
    """An INSERT of several rows."""

    def __init__(self, write: Write, form: tuple[frozenset[str], int], dialect: sa.Dialect) -> None:
        self._names, count = sorted(form[0]), form[1]
        insert: Any = write.statement
        self._keys = [f"{name}__{place}" for place in range(count) for name in self._names]
        rows = []
        for place in range(count):
            binds = {
                name: sa.bindparam(f"{name}__{place}", type_=insert.table.c[name].type)
                for name in self._names
            }
            computed = {name: make(binds) for name, make in write.computed.items()}
            rows.append({**binds, **computed})
        self._text = _Text(insert.values(rows), dialect)
        self._text.check(set(self._keys))
        super().__init__(self._text.sql, dialect)

    def execute(self, conn: sa.Connection, rows: Sequence[RowView]) -> None:
        """Insert the rows."""
        values = [row[name] for row in rows for name in self._names]
        self._run(conn, self._text.bound(dict(zip(self._keys, values, strict=True))))

    def execute_many(self, conn: sa.Connection, rows: Sequence[RowView]) -> None:
        """Insert rows one by one; prepared for one row."""
        given = [
            self._text.bound({f"{name}__0": row[name] for name in self._names}) for row in rows
        ]
        self._run(conn, given, many=True)


def _text_bytes(row: Sequence[Any]) -> int:
    return sum(len(value) for value in row if isinstance(value, str | bytes))


_REPORTED = (sa.Numeric, sa.Float)


class _Select(_Statement):
    """One select for one dialect.

    ``Connection.execute`` executes a select whose text or conversion is not fixed.
    """

    def __init__(self, make: Make, form: tuple[Any, ...], dialect: sa.Dialect) -> None:
        self._statement = make(*form)
        self._packs = can_pack(self._statement, dialect)
        sent = pack_rows(self._statement) if self._packs else self._statement
        self._text = _Text(sent, dialect)
        super().__init__(self._text.sql, dialect)
        columns = self._statement.selected_columns
        # The conversion of these depends on the type that the driver reports with the rows.
        self._whole = not self._text.fixed or any(
            isinstance(one.type, _REPORTED) for one in columns
        )
        if self._whole:
            return
        made = (conversion(one, dialect, packed=self._packs) for one in columns)
        self._convert: list[tuple[int, Convert]] = [
            (place, convert) for place, convert in enumerate(made) if convert is not None
        ]

    def first(self, conn: sa.Connection, values: RowView) -> list[Any] | None:
        """Execute the select; see the function `first`."""
        if self._whole:
            whole = conn.execute(self._statement, values).first()
            return None if whole is None else list(whole)
        try:
            cursor = self._cursor(conn)
            try:
                self._execute(conn, cursor, self._text.bound(values))
                found = cursor.fetchone()
            finally:
                self._close(cursor)
        except self._error as why:
            raise self._wrapped(conn, why) from why
        if found is None:
            return None
        row = unpack_rows([found])[0] if self._packs else list(found)
        for place, convert in self._convert:
            if row[place] is not None:
                row[place] = convert(row[place])
        return row

    def parts(
        self, conn: sa.Connection, values: RowView, names: Sequence[str], size: int
    ) -> Generator[list[Row]]:
        """Execute the select; see the function `parts`."""
        if self._whole:
            for some in conn.execute(self._statement, values).partitions(size):
                yield _dictionaries(names, some)
            return
        changed = [(names[place], convert) for place, convert in self._convert]
        with contextlib.closing(self._fetch(conn, values, size)) as found:
            for fetched in found:
                rows = _dictionaries(names, unpack_rows(fetched) if self._packs else fetched)
                for name, convert in changed:
                    for row in rows:
                        if row[name] is not None:
                            row[name] = convert(row[name])
                yield rows

    def _fetch(self, conn: sa.Connection, values: RowView, size: int) -> Generator[Any]:
        try:
            cursor = self._cursor(conn, *self._unbuffered)
            try:
                with contextlib.closing(self._rows(conn, cursor, values, size)) as rows:
                    count = min(size, _FEWEST)
                    while some := list(islice(rows, count)):
                        yield some
                        fitting = _FETCHED // (1 + _text_bytes(some[-1]))
                        count = min(size, max(_FEWEST, fitting))
            finally:
                self._close(cursor)
        except self._error as why:
            raise self._wrapped(conn, why) from why

    @property
    def _unbuffered(self) -> tuple[Any, ...]:
        """The arguments of a cursor that does not receive all rows before the first is read."""
        driver: Any = self._dialect.loaded_dbapi
        return (driver.cursors.SSCursor,) if self._dialect.driver == "pymysql" else ()

    def _rows(self, conn: sa.Connection, cursor: Any, values: RowView, size: int) -> Generator[Any]:
        """Yield the rows as the server sends them, so that large ones need not fit into memory."""
        given = self._text.bound(values)
        if self._dialect.driver == "psycopg" and size > _CHUNK:
            self._announce(conn, cursor, given)
            # Older libraries pass no more than a row at a time.
            several = self._dialect.loaded_dbapi.pq.version() >= _LIBPQ_WITH_CHUNKS
            yield from cursor.stream(self._sql, given, size=_CHUNK if several else 1)
        else:
            self._execute(conn, cursor, given)
            yield from cursor


def _replace(conn: sa.Connection, why: BaseException) -> None:
    """Drop a dead connection, and with the first one its pool, whose others are dead, too.

    Connections of the new pool stay, although further ones of the old pool are found dead later.
    """
    pool = pool_of(conn)
    conn.invalidate(why)
    with _REPLACING:
        if pool is conn.engine.pool:
            conn.engine.dispose()


def _dictionaries(names: Sequence[str], rows: Iterable[Any]) -> list[Row]:
    """Return rows as dictionaries; all in C, because a page spends much of its time here."""
    return list(map(dict, map(zip, repeat(names), rows)))


# Connections that are used before those of the pool.
#
# Checkout from SQLAlchemy's pool and return take up to half of the time of a small read.

_OPENED = "ironic_lite_opened"
"""The key in a connection's ``info`` of the monotonic time at which it was made."""


class KeptConnections:
    """A few connections of an engine, given out again; thread-safe.

    :param most: connections; further ones go back to the pool.
    :param seconds: age at which the pool replaces a connection, None for no limit.
    """

    def __init__(self, engine: sa.Engine, most: int, seconds: float | None) -> None:
        self._engine = engine
        self._most = most
        self._seconds = seconds
        self._free: list[sa.Connection] = []
        sa.event.listen(engine, "connect", _note_time)

    def take(self) -> sa.Connection:
        """Return a kept connection, or one of the pool."""
        try:
            conn = self._free.pop()
        except IndexError:
            return self._engine.connect()
        if self._seconds is None or time.monotonic() - conn.info[_OPENED] <= self._seconds:
            return conn
        conn.close()
        return self._engine.connect()

    def give(self, conn: sa.Connection) -> None:
        """Keep a connection for the next use, or return it to the pool.

        A connection of a disposed pool is closed.
        """
        if len(self._free) >= self._most or conn.closed or conn.invalidated:
            conn.close()
            return
        if conn.in_transaction():
            conn.rollback()
        pool = pool_of(conn)
        self._free.append(conn)
        # Tested last, because another thread may close all at any moment.
        if pool is not self._engine.pool:
            self.close()

    def close(self) -> None:
        """Return all connections to the pool.

        Connections of a disposed pool are closed, because that pool would keep them open.
        """
        with contextlib.suppress(IndexError):
            while True:
                conn = self._free.pop()
                if pool_of(conn) is not self._engine.pool:
                    conn.invalidate()
                conn.close()


def _note_time(_connection: object, record: Any) -> None:
    record.info[_OPENED] = time.monotonic()
