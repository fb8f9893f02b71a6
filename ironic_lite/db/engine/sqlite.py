"""SQLite files: the preparation of connections, the log, and the identity of the open file."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from ironic_lite import errors
from ironic_lite.db.engine import faults
from ironic_lite.db.engine.faults import Fault

LOG_BYTES = 256 * 1024 * 1024
"""Size from which a writer shortens the write-ahead log."""
_LOG_WAIT = 5000
"""Milliseconds for which it waits for reads under way."""


def prepare(busy_timeout: float, *, foreign_keys: bool = True) -> Callable[[Any, Any], None]:
    """Return a listener that prepares each new connection.

    :param busy_timeout: seconds that a statement waits for locks of others.
    :param foreign_keys: enforce references between tables; see `session.open_database`.
    """

    def listener(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA busy_timeout={int(busy_timeout * 1000)}")
        _use_wal(connection, busy_timeout)
        # A commit then costs a write instead of a flush. A power loss may take the last commits
        # with it, never the database.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}")

    return listener


def _use_wal(connection: sqlite3.Connection, patience: float) -> None:
    """Switch the file to a write-ahead log; it stays so.

    SQLite itself does not wait for the busy time-out when two processes try it at once.
    """
    end = time.monotonic() + patience
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if faults.classify(error) is not Fault.CONTENTION or time.monotonic() > end:
                raise
            time.sleep(0.02)


def keep_private(path: str) -> None:
    """Create a new SQLite file readable by its owner only, as it holds BMC passwords."""
    if path.startswith("file:"):
        return
    # The first use reports a missing or forbidden folder, with the path. An existing file must not
    # be opened here: closing it would drop all locks this process has on it, and the next process
    # to close the database would delete the log that our connections still use.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def open_existing(_dialect: Any, _record: Any, args: Any, options: Any) -> None:
    """Let a new connection open an existing file; never create an empty one.

    A listener of SQLAlchemy's ``do_connect``. While the file is moved away, a new file would hide
    its absence, and closing that one would delete the log of the file that was put back.
    """
    path = str(args[0])
    if not path.startswith((":", "file:")):
        args[0] = f"{pathlib.Path(path).absolute().as_uri()}?mode=rw"
        options["uri"] = True


class WriteAheadLog:
    """Bounds the write-ahead log of a file.

    SQLite begins the log anew when no read needs it. Reads that always overlap leave no such
    moment, so under load the log would grow until the disk is full. A writer then waits for the
    reads under way; other writers wait with it, new reads do not.

    :param path: from the URL; the log of a ``file:`` URI is left to SQLite.
    """

    def __init__(self, path: str) -> None:
        self._path = None if path.startswith("file:") else f"{path}-wal"
        self._limit = LOG_BYTES

    def shorten(self, connection: sqlite3.Connection) -> None:
        """Empty a log that is too large; if a read takes too long, try again when it has grown.

        :param connection: without a transaction.
        """
        if self._path is None:
            return
        with contextlib.suppress(OSError, sqlite3.Error):  # the transaction before is complete
            size = os.stat(self._path).st_size
            if size >= self._limit:
                self._limit = size + LOG_BYTES
                if _truncate_log(connection):
                    self._limit = LOG_BYTES


def _truncate_log(connection: sqlite3.Connection) -> bool:
    (usual,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout={_LOG_WAIT}")
    try:
        (busy, *_pages) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
    finally:
        connection.execute(f"PRAGMA busy_timeout={usual}")


class OpenFile:
    """The file that the connections of a process have open.

    A removed or replaced file lives on for the processes that have it open. They would continue to
    write where no other process reads, and lose the rows at their end. So each transaction first
    checks that the path still leads to the same file, which takes about two microseconds.

    :param path: from the URL; a ``file:`` URI is not checked.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = not path.startswith("file:")
        self._file_identity: tuple[int, int] | None = None

    def remember(self, _connection: object, _record: object) -> None:
        """Record the file that the first connection has opened."""
        if self._seen and self._file_identity is None:
            with contextlib.suppress(OSError):
                self._file_identity = _file_identity(self._path)

    def confirm(self) -> None:
        """Check that the path leads to the open file.

        :raises errors.Unavailable: it does not; the message says what to do.
        """
        if self._file_identity is None:
            return
        try:
            changed = "replaced" if _file_identity(self._path) != self._file_identity else None
        except FileNotFoundError:
            changed = "removed"
        except OSError as why:
            changed = f"made unreachable ({why.strerror})"
        if changed is not None:
            raise errors.Unavailable(
                f"The database file {self._path} has been {changed} while it was in use. Put it "
                "back, or stop every process of the service before you restore another.",
                url=self._path,
            )


def _file_identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
