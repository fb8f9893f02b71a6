"""Instructions that SQLite executes for statements: a cost without noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ironic_lite.db.engine.session import Connection


def count_instructions(conn: Connection, ask: Callable[[Connection], object]) -> int:
    """Return how many instructions the statements of a function take, once they are prepared."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    ask(conn)  # SQLAlchemy and SQLite prepare the statement
    driver: Any = conn.connection.dbapi_connection
    driver.set_progress_handler(tick, 1)
    try:
        ask(conn)
    finally:
        driver.set_progress_handler(None, 0)
    return count
