"""SQLite files: the preparation of connections, the log, and the identity of the open file."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.db.engine import faults
from ironic_lite.db.engine.faults import DatabaseFault

LOG_BYTES = 256 * 1024 * 1024
"""Size from which a writer shortens the write-ahead log."""
_LOG_WAIT = 5000
"""Milliseconds for which it waits for reads under way."""
_LOG, _INDEX = _BESIDE = "-wal", "-shm"
_LOG_HEADER, _FRAME_HEADER = 32, 24
"""Bytes before all pages of the log, and before each."""
_DAMAGED = (
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
)
"""Results of a question that reads past the end of a file; others are no sign of damage."""
_LOOKS = 3
_LOOK_PAUSE = 0.02
"""Seconds between two looks at a file that has become smaller."""


def prepare(
    busy_timeout: float, *, foreign_keys: bool = True, log: bool = True
) -> Callable[[Any, Any], None]:
    """Return a listener that prepares each new connection.

    :param busy_timeout: seconds that a statement waits for locks of others.
    :param foreign_keys: enforce references between tables; see `session.open_database`.
    :param log: use a write-ahead log; Ironic's file keeps its own kind.
    """

    def listener(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA busy_timeout={int(busy_timeout * 1000)}")
        if log:
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
            if faults.classify(error) is not DatabaseFault.CONTENTION or time.monotonic() > end:
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
        self._path = None if path.startswith("file:") else f"{path}{_LOG}"
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


class _Identity(NamedTuple):
    """Device and inode of a file, and its size in bytes."""

    device: int
    inode: int
    size: int

    def is_file(self, other: _Identity) -> bool:
        return (self.device, self.inode) == (other.device, other.inode)


class OpenFile:
    """The file that the connections of a process have open, with its log and its index.

    A removed or replaced file lives on for the processes that have it open. They would continue to
    write where no other process reads, and lose the rows at their end. A file that was cut lacks
    rows, which the next checkpoint replaces by zeros; it stays refused, because the next write of
    another process makes it large again. So each transaction first checks that the
    paths still lead to the same files, and that none has become smaller, which takes about five
    microseconds. A checkpoint or VACUUM makes a file smaller, too; the connection tells which.

    The files are never opened for this: closing one would drop the locks of all connections.

    :param path: from the URL; a ``file:`` URI is not checked.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = not path.startswith("file:")
        self._file: _Identity | None = None
        self._beside: dict[str, _Identity] = {}
        """The log and the index, while a connection is open; the last one to close removes them."""
        self._connections = 0
        self._cut: str | None = None
        """The suffix of a file that was cut."""
        self._guard = threading.RLock()  # a question may open a connection

    def remember(self, _connection: object, _record: object) -> None:
        """Record the files that the first connection has opened."""
        if not self._seen:
            return
        with self._guard, contextlib.suppress(OSError):
            self._connections += 1
            if self._file is None:
                self._file = _identity(self._path)
            self._remember_beside()

    def forget(self, _connection: object, _record: object) -> None:
        """Record that a connection is closed."""
        with self._guard:
            self._connections -= 1
            if self._connections <= 0:
                self._beside = {}

    def confirm(self, ask: Callable[[Sequence[str]], list[Any]]) -> None:
        """Check that the paths lead to the open files.

        :param ask: runs pragmas over one open connection; returns the first row of each.
        :raises errors.Unavailable: they do not; the message says what to do.
        """
        if self._file is None:
            return
        if self._cut is not None:
            raise self._fault(self._cut, "cut")
        found = self._found("", self._file)
        if len(self._beside) < len(_BESIDE):  # a new file has none before its first transaction
            with self._guard, contextlib.suppress(FileNotFoundError):
                self._remember_beside()
        known_beside = self._beside.copy()
        looks = [(name, each, self._found(name, each)) for name, each in known_beside.items()]
        if found.size < self._file.size:
            self._confirm_size(ask)
        elif found.size > self._file.size:
            self._file = found
        for suffix, known, present in looks:
            if suffix == _LOG and present.size < known.size:
                self._confirm_log(ask)
            elif present.size > known.size and suffix in self._beside:
                self._beside[suffix] = present

    # -- inside ------------------------------------------------------------------------------

    def _remember_beside(self) -> None:
        for suffix in _BESIDE if self._connections > 0 else ():
            if suffix not in self._beside:
                self._beside[suffix] = _identity(self._path + suffix)

    def _found(self, suffix: str, known: _Identity) -> _Identity:
        """Return what is at a path, which must be the known file."""
        changed = "replaced"
        try:
            found = _identity(self._path + suffix)
            if found.is_file(known):
                return found
        except FileNotFoundError:
            changed = "removed"
        except OSError as why:
            changed = f"made unreachable ({why.strerror})"
        if suffix and suffix not in self._beside:
            return known  # the last connection was closed meanwhile
        raise self._fault(suffix, changed)

    def _raise_cut(self, suffix: str, why: Exception) -> None:
        """Raise what an error of a question means; a full disk answers none, and cuts no file."""
        code = getattr(getattr(why, "orig", why), "sqlite_errorcode", 0)
        if code in _DAMAGED:
            raise self._cut_fault(suffix) from why
        if code != sqlite3.SQLITE_FULL:
            raise why

    def _cut_fault(self, suffix: str) -> errors.Unavailable:
        """Refuse a file that was cut from now on; return the error."""
        self._cut = suffix
        return self._fault(suffix, "cut")

    def _fault(self, suffix: str, changed: str) -> errors.Unavailable:
        path = self._path + suffix
        cut = changed == "cut"
        what = {"": "database file", _LOG: "write-ahead log", _INDEX: "index of the log"}[suffix]
        advice = (
            " Stop every process of the service in order, not by force: the last one writes what "
            "the log holds into the database."
            if suffix
            else ""
        )
        return errors.Unavailable(
            f"The {what} {path} has been {changed} while it was in use. "
            f"{'Stop' if cut else 'Put it back, or stop'} every process of the service before you "
            f"restore another.{advice}",
            url=path,
        )

    def _confirm_size(self, ask: Callable[[Sequence[str]], list[Any]]) -> None:
        """Accept a file that a VACUUM has made smaller.

        A file that was cut still has all pages in its header. Pages that are only in the log are no
        sign: the file never had them.
        """
        with self._guard:
            assert self._file is not None
            for _ in range(_LOOKS):
                try:
                    (size,), (pages,) = ask(("PRAGMA page_size", "PRAGMA page_count"))
                except faults.DRIVER_ERRORS as why:
                    return self._raise_cut("", why)
                found = self._found("", self._file)
                if found.size >= self._file.size or size * pages < self._file.size:
                    self._file = found
                    return
                time.sleep(_LOOK_PAUSE)  # another process may be in the middle of its change
            raise self._cut_fault("")

    def _confirm_log(self, ask: Callable[[Sequence[str]], list[Any]]) -> None:
        """Accept a log that a checkpoint has made smaller: it has room for all its frames."""
        with self._guard:
            for _ in range(_LOOKS):
                known = self._beside.get(_LOG)
                if known is None:
                    return
                try:
                    (size,), (_busy, frames, _done) = ask(
                        ("PRAGMA page_size", "PRAGMA wal_checkpoint(PASSIVE)")
                    )
                except faults.DRIVER_ERRORS as why:
                    return self._raise_cut(_LOG, why)
                found = self._found(_LOG, known)
                if frames <= 0 or found.size >= _LOG_HEADER + frames * (_FRAME_HEADER + size):
                    self._beside[_LOG] = found
                    return
                time.sleep(_LOOK_PAUSE)
            raise self._cut_fault(_LOG)


def _identity(path: str) -> _Identity:
    found = os.stat(path)
    return _Identity(found.st_dev, found.st_ino, found.st_size)
