"""Engines of tests: they share compiled statements, and let no SQLite file be flushed to the disk.

A test has a database of its own, so it has an engine of its own, too. Each engine would compile all
statements again, which takes a third of the time of many tests.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Database


class _CompiledStatements(dict[Any, Any]):
    """Compiled statements of all engines of one kind; SQLAlchemy's keys name one engine's dialect.

    Engines with encryption keys must not share them, because a compiled statement encrypts.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_of_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_of_kind(key), compiled)


def _of_kind(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(part.name if isinstance(part, sa.Dialect) else part for part in key)


_COMPILED = _CompiledStatements()
_PREPARED: dict[str, prepared.Statements] = {}


def quicken(database: Database) -> Database:
    """Let a database that was just opened, without encryption keys, cost less; return it."""
    shared = _PREPARED.setdefault(database.kind, {})
    options = {"compiled_cache": _COMPILED, prepared.OPTION: shared}
    database.engine.update_execution_options(**options)
    if database.kind == "sqlite":
        sa.event.listen(database.engine, "connect", _without_flushes)
    return database


def _without_flushes(connection: Any, _record: object) -> None:
    """Leave writing to the system, as no test outlives a power loss."""
    connection.execute("PRAGMA synchronous=OFF")
