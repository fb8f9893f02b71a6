"""Selects that are compiled once for each engine and run by the driver's cursor.

SQLAlchemy writes the SQL text and supplies the conversion of values. ``Connection.execute`` does
more for each execution: it looks the text up by a key of the whole statement, begins a transaction
object, and describes a result. For one row this takes more than twice the time of the database.

Errors of the driver are raised as SQLAlchemy raises them. Listeners of ``before_cursor_execute``
are called, without an execution context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

import sqlalchemy as sa

from ironic_lite.core.json_types import Row, RowView

OPTION = "ironic_lite_prepared"
"""The execution option of an engine that holds its `Statements`."""
_REMEMBERED = 512

Make = Callable[..., sa.Select[Any]]
Convert = Callable[[Any], Any]


def first(
    conn: sa.Connection, make: Make, form: tuple[Any, ...], values: RowView
) -> list[Any] | None:
    """Return the first row of a select, None without a row.

    :param make: returns the statement for the arguments ``form``, which are hashable.
    :param values: of the parameters without a value or a function of their own.
    """
    return _prepared(conn, make, form).first(conn, values)


def parts(
    conn: sa.Connection,
    make: Make,
    form: tuple[Any, ...],
    values: RowView,
    *,
    names: Sequence[str],
    size: int,
) -> Iterator[list[Row]]:
    """Yield the rows of a select as dictionaries, ``size`` at a time.

    ``conn`` must not be used otherwise meanwhile.

    :param make: as for `first`, like ``form`` and ``values``.
    :param names: of the selected columns, in their order.
    """
    return _prepared(conn, make, form).parts(conn, values, names, size)


def attach(engine: sa.Engine) -> None:
    """Let an engine remember its prepared statements."""
    engine.update_execution_options(**{OPTION: Statements(engine.dialect)})


class Statements:
    """The prepared statements of one engine."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self.of = lru_cache(maxsize=_REMEMBERED)(self._prepare)

    def _prepare(self, make: Make, form: tuple[Any, ...]) -> _Prepared:
        return _Prepared(make(*form), self._dialect)


def _prepared(conn: sa.Connection, make: Make, form: tuple[Any, ...]) -> _Prepared:
    known = conn.get_execution_options().get(OPTION) or Statements(conn.dialect)
    found: _Prepared = known.of(make, form)
    return found


class _Prepared:
    """One select for one dialect."""

    def __init__(self, statement: sa.Select[Any], dialect: sa.Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        # The text then depends on the values, as that of IN does.
        self._unsteady = bool(compiled.post_compile_params or compiled.literal_execute_params)
        self._statement = statement
        self._dialect = dialect
        self._error = dialect.loaded_dbapi.Error
        self._text: str = compiled.string
        self._positional: bool = compiled.positional
        self._parameters: list[tuple[str, sa.BindParameter[Any], Convert | None]] = [
            (name, bind, bind.type.dialect_impl(dialect).bind_processor(dialect))
            for name in (compiled.positiontup if compiled.positional else compiled.binds)
            for bind in (compiled.binds[name],)
        ]
        made = (
            column.type.dialect_impl(dialect).result_processor(dialect, None)
            for column in statement.selected_columns
        )
        self._convert: list[tuple[int, Convert]] = [
            (place, convert) for place, convert in enumerate(made) if convert is not None
        ]

    def first(self, conn: sa.Connection, values: RowView) -> list[Any] | None:
        """Execute the select; see the function `first`."""
        if self._unsteady:
            whole = conn.execute(self._statement, values).first()
            return None if whole is None else list(whole)
        try:
            cursor = self._execute(conn, values)
            found = cursor.fetchone()
            cursor.close()
        except self._error as why:
            raise self._wrapped(conn, why) from why
        if found is None:
            return None
        row = list(found)
        for place, convert in self._convert:
            if row[place] is not None:
                row[place] = convert(row[place])
        return row

    def parts(
        self, conn: sa.Connection, values: RowView, names: Sequence[str], size: int
    ) -> Iterator[list[Row]]:
        """Execute the select; see the function `parts`."""
        if self._unsteady:
            for some in conn.execute(self._statement, values).partitions(size):
                yield _dictionaries(names, some)
            return
        changed = [(names[place], convert) for place, convert in self._convert]
        for fetched in self._fetch(conn, values, size):
            rows = _dictionaries(names, fetched)
            for name, convert in changed:
                for row in rows:
                    if row[name] is not None:
                        row[name] = convert(row[name])
            yield rows

    def _fetch(self, conn: sa.Connection, values: RowView, size: int) -> Iterator[Any]:
        try:
            cursor = self._execute(conn, values)
            try:
                while some := cursor.fetchmany(size):
                    yield some
                    if len(some) < size:
                        break
            finally:
                cursor.close()
        except self._error as why:
            raise self._wrapped(conn, why) from why

    def _execute(self, conn: sa.Connection, values: RowView) -> Any:
        given = self._arguments(values)
        driver: Any = conn.connection
        cursor = driver.cursor()
        for listener in conn.engine.dispatch.before_cursor_execute:
            listener(conn, cursor, self._text, given, None, False)
        self._dialect.do_execute(cursor, self._text, given)
        return cursor

    def _arguments(self, values: RowView) -> Any:
        given: Sequence[tuple[str, Any]] = [
            (name, value if convert is None else convert(value))
            for name, bind, convert in self._parameters
            for value in (values[name] if bind.required else bind.effective_value,)
        ]
        return tuple(value for _, value in given) if self._positional else dict(given)

    def _wrapped(self, conn: sa.Connection, why: Any) -> sa.exc.DBAPIError:
        """Return the error that ``Connection.execute`` raises; replace dead connections."""
        lost = self._dialect.is_disconnect(why, conn.connection, None)
        if lost:
            conn.invalidate(why)
            conn.engine.dispose()  # the others are most probably dead, too
        return sa.exc.DBAPIError(
            self._text, None, why, hide_parameters=True, connection_invalidated=lost
        )


def _dictionaries(names: Sequence[str], rows: Iterable[Any]) -> list[Row]:
    """Return rows as dictionaries; all in C, because a page spends much of its time here."""
    return list(map(dict, map(zip, repeat(names), rows)))
