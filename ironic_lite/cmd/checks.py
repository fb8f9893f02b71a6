"""Open what the configuration names, or say which option is wrong."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from typing import Any

from ironic_lite import config
from ironic_lite.db import migrate, resealing, session
from ironic_lite.db.session import Database
from ironic_lite.rpc import notifier, pins, server, transport

_NOT_USABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def database(conf: Any) -> Database:
    """Return the database; nothing is connected yet.

    :raises config.ConfigError: its URL cannot be used, or names a file that is no database.
    """
    found = session.configured(conf)
    _try_file(found)
    return found


def _try_file(found: Database) -> None:
    """Refuse a file that SQLite cannot use: to wait, as for a server that is away, is no help."""
    path = found.url.database
    if found.kind != "sqlite" or not path or path.startswith((":", "file:")):
        return
    try:
        with contextlib.closing(sqlite3.connect(path)) as opened:
            opened.execute("PRAGMA schema_version").fetchone()
    except sqlite3.DatabaseError as why:
        # The low byte is the kind of error, the rest its finer points.
        if why.sqlite_errorcode & 0xFF in _NOT_USABLE:
            raise config.ConfigError(reason=f"[database]connection: {path}: {why}") from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Log nothing: what is wrong is told by one exception, which becomes one line."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def run(conf: Any) -> None:
    """Make sure that database and transports can be used, and leave all closed, fit for a fork.

    :raises config.ConfigError: a URL, a pin, or how notifications are sent, cannot be used.
    :raises errors.Error: the database is away, has no tables, or those of another release, or needs
        other keys.
    """
    with contextlib.ExitStack() as opened:
        with quiet():
            found = opened.enter_context(contextlib.closing(database(conf)))
            transport.build()
            notifier.build(conf, "", lambda _: ())
            pins.pinned(conf)
            migrate.check(found)
        resealing.check(found)


def claim(conf: Any) -> None:
    """Make sure that the conductor's address is free and can be used; a broker is not asked.

    Call it in a process that ends soon: only then the address is free again.

    :raises config.ConfigError: another conductor has it, or the path is too long for a socket; or
        notifications cannot be sent as configured.
    """
    found = transport.build()
    notifier.build(conf, "", lambda _: ())
    if transport.is_local(found):
        server.Server(found, conf.host, object()).start()
