"""Connections that are used before those of the pool.

Checkout from SQLAlchemy's pool and return take up to half of the time of a small read.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import sqlalchemy as sa

from ironic_lite.db.engine import prepared

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
        pool = prepared.pool_of(conn)
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
                if prepared.pool_of(conn) is not self._engine.pool:
                    conn.invalidate()
                conn.close()


def _note_time(_connection: object, record: Any) -> None:
    record.info[_OPENED] = time.monotonic()
