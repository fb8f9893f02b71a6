"""Selects of one row that are compiled once for each engine and run by the driver's cursor.

SQLAlchemy writes the SQL text and supplies the conversion of values. ``Connection.execute`` does
more for each execution: it looks the text up by a key of the whole statement, begins a transaction
object, and describes a result. For one row this takes more than twice the time of the database.

Errors of the driver are raised as SQLAlchemy raises them, and listeners of
``before_cursor_execute`` are called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from ironic_lite.core.json_types import RowView

_OPTION = "ironic_lite_prepared"
"""The execution option of an engine that holds its `Statements`."""
_REMEMBERED = 256

Make = Callable[..., sa.Select[Any]]
Convert = Callable[[Any], Any]


def first(conn: sa.Connection, make: Make, form: tuple[Any, ...], values: RowView) -> Any:
    """Return the first row of a select as a list of values, None without a row.

    :param make: returns the statement for the arguments ``form``, which are hashable. Its text must
        not depend on the values of its parameters, as that of ``IN`` does.
    :param values: of the parameters without a value or a function of their own.
    """
    known = conn.get_execution_options().get(_OPTION) or Statements(conn.dialect)
    return known.of(make, form).first(conn, values)


def attach(engine: sa.Engine) -> None:
    """Let an engine remember its prepared statements."""
    engine.update_execution_options(**{_OPTION: Statements(engine.dialect)})


class Statements:
    """The prepared statements of one engine."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self.of = lru_cache(maxsize=_REMEMBERED)(self._prepare)

    def _prepare(self, make: Make, form: tuple[Any, ...]) -> _Prepared:
        return _Prepared(make(*form), self._dialect)


class _Prepared:
    """One select for one dialect."""

    __slots__ = ("_convert", "_dialect", "_error", "_parameters", "_positional", "_text")

    def __init__(self, statement: sa.Select[Any], dialect: sa.Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
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
        given = self._arguments(values)
        driver: Any = conn.connection
        try:
            cursor = driver.cursor()
            for listener in conn.engine.dispatch.before_cursor_execute:
                listener(conn, cursor, self._text, given, None, False)
            self._dialect.do_execute(cursor, self._text, given)
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
