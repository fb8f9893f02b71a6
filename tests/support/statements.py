"""Count the SQL statements that a block sends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from ironic_lite.db.engine.session import Database

FRAMES = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "SAVEPOINT", "RELEASE", "SET ")
CLOCKS = ("timers", "keepalive")


class Statements(list[str]):
    """The statements sent, in order; one for many rows (executemany) counts once."""

    def __str__(self) -> str:
        return "\n".join(f"{number}. {text}" for number, text in enumerate(self, 1))


@contextlib.contextmanager
def count_statements(database: Database) -> Iterator[Statements]:
    """Gather what is sent to ``database`` within the block, by the threads of this process.

    Left out is what only frames statements: BEGIN, COMMIT, ROLLBACK, PRAGMA and their like. Left
    out are timers and keepalive: their statements come every few seconds and belong to no request.
    """
    sent = Statements()

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if threading.current_thread().name in CLOCKS:
            return
        if not statement.lstrip().upper().startswith(FRAMES):
            sent.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", note)
