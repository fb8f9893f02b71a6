"""Writes that are compiled once for each engine and set of columns; ``prepared`` has the selects.

SQLAlchemy looks each statement up in its cache, and prepares its parameters and its result anew at
each execution. For short statements this takes longer than the database. A prepared statement goes
to the driver as text; errors and events of SQLAlchemy stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_lite.core.json_types import Row, RowView

OPTION = "ironic_lite_prepared_writes"
"""The execution option of an engine that holds its forms."""
_MOST = 1000
"""Forms of one engine; each set of columns that a node's save writes is one."""

_Processor = Callable[[Any], Any]


class _Form:
    """The text of a statement for one engine, and the conversion of its values."""

    def __init__(
        self, statement: Any, dialect: sa.Dialect, names: Iterable[str], *, columns: bool
    ) -> None:
        given = frozenset(names)
        keys = list(given) if columns else None
        compiled = statement.compile(dialect=dialect, column_keys=keys)
        if compiled.post_compile_params or compiled.literal_execute_params or compiled.prefetch:
            raise ValueError(f"Values or Python's defaults change the text of: {compiled}")
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        self.text = str(compiled)
        self._positional = compiled.positional
        self._parts: list[tuple[str, _Processor | None]] = []
        self._constants: Row = {}
        for name in compiled.positiontup if self._positional else binds:
            bind = binds[name]
            convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
            if name not in given:
                if bind.required or bind.callable is not None:
                    raise ValueError(f"No value for the parameter {name} of: {compiled}")
                value = bind.effective_value
                self._constants[name], convert = convert(value) if convert else value, None
            self._parts.append((name, convert))

    def bound(self, values: RowView) -> Any:
        """Return the parameters as the driver takes them."""
        if self._constants:
            values = {**values, **self._constants}
        if self._positional:
            return tuple(
                [values[name] if made is None else made(values[name]) for name, made in self._parts]
            )
        return {
            name: values[name] if made is None else made(values[name]) for name, made in self._parts
        }


class Prepared:
    """A statement that writes.

    :param statement: an INSERT, UPDATE or DELETE without lists of values.
    :param columns: whether values without a parameter of the statement are columns to write.
    """

    def __init__(
        self, statement: sa.Insert | sa.Update | sa.Delete, *, columns: bool = True
    ) -> None:
        self._statement = statement
        self._columns = columns

    def execute(self, conn: sa.Connection, values: RowView) -> int:
        """Execute the statement once; return the number of its rows.

        :raises ValueError: a parameter without a value of its own is not given.
        :raises sqlalchemy.exc.DBAPIError: as ``Connection.execute``.
        """
        form = self._form(conn, values)
        if form is None:
            return conn.execute(self._statement, dict(values)).rowcount
        return conn.exec_driver_sql(form.text, form.bound(values)).rowcount

    def execute_many(self, conn: sa.Connection, rows: Sequence[RowView]) -> None:
        """Execute the statement for each row; all rows have the same keys. Raises as `execute`."""
        if len(rows) == 1:
            self.execute(conn, rows[0])
            return
        form = self._form(conn, rows[0])
        if form is None:
            conn.execute(self._statement, [dict(row) for row in rows])
        else:
            conn.exec_driver_sql(form.text, [form.bound(row) for row in rows])

    def _form(self, conn: sa.Connection, values: RowView) -> _Form | None:
        """Return the form for these values; None for a connection of an engine without forms."""
        known: dict[Any, _Form] | None = conn.get_execution_options().get(OPTION)
        if known is None:
            return None
        key = (self, *values)
        form = known.get(key)
        if form is None:
            if len(known) >= _MOST:
                known.clear()
            form = known[key] = _Form(self._statement, conn.dialect, values, columns=self._columns)
        return form
