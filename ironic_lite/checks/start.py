"""Open the configured database and transports, or name the wrong option."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import sqlite3
from collections.abc import Iterator

from ironic_lite import errors, membership
from ironic_lite.core import config
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import migrate, reencryption
from ironic_lite.rpc import contract, notifier, server, transport


def open_database(conf: Configuration, *, create: bool = False) -> Database:
    """Return the database, not yet connected.

    :param create: create a missing SQLite file, without tables.
    :raises config.ConfigError: its URL cannot be used, or names a file that is not a database.
    :raises errors.OpenError: the file is missing, cannot be opened, or is damaged.
    """
    found = session.configured(conf, create=create)
    _try_file(found, create=create)
    return found


def _try_file(found: Database, *, create: bool) -> None:
    """Refuse a file that SQLite cannot use, with its path and the reason."""
    path = found.url.database
    if found.kind != "sqlite" or not path or path.startswith((":", "file:")):
        return
    if not create and not os.path.lexists(path):
        raise errors.OpenError(
            reason=f"[database]connection: the file {path} does not exist: start ironic-lite, or "
            "run ironic-lite-dbsync upgrade, which create it. Put a file back that was moved away."
        )
    try:
        existing = f"{pathlib.Path(path).absolute().as_uri()}?mode=rw"
        with contextlib.closing(sqlite3.connect(existing, uri=True)) as opened:
            opened.execute("PRAGMA schema_version").fetchone()
    except sqlite3.DatabaseError as why:
        kind = why.sqlite_errorcode & 0xFF  # drops the extended part of the code
        reason = f"[database]connection: {path}: {why}"
        if kind == sqlite3.SQLITE_NOTADB:
            raise config.ConfigError(reason=reason) from None
        if kind not in _PASSING:
            advice = "check the folder, its rights and its free space"
            raise errors.OpenError(reason=f"{reason}; {advice}") from None


_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
"""Another process uses the file; later uses wait by themselves."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Disable logging: one exception reports the fault, as one line."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def check(conf: Configuration) -> None:
    """Check that database and transports can be used; close all, ready for a fork.

    :raises config.ConfigError: a URL, a pin, or the notification options cannot be used.
    :raises errors.Error: the database is away, has no tables, or tables of another release, or
        needs other keys.
    """
    with contextlib.ExitStack() as opened:
        with quiet():
            found = opened.enter_context(contextlib.closing(open_database(conf)))
            check_transports(conf)
            migrate.check(found)
        reencryption.check(found)


def check_transports(conf: Configuration) -> None:
    """Check that calls and notifications can be sent as configured, without connecting.

    :raises config.ConfigError: a URL, a pin, or the notification options cannot be used.
    """
    transport.build()
    notifier.build(conf, "", lambda _: ())
    contract.pinned_release(conf)


def check_servers(conf: Configuration) -> None:
    """Check that conductors could answer calls, as far as it can be seen while they run.

    :raises config.ConfigError: an address or certificate cannot be used.
    """
    found = transport.build()
    for host in membership.process_names(conf.host, conf.conductor.processes):
        server.check(found, host)


def claim(conf: Configuration) -> None:
    """Check that the conductor's addresses are free and usable, without a broker.

    Call it in a process that ends soon, because only its end frees the addresses again.

    :raises config.ConfigError: the path is too long for a socket, or notifications cannot be sent
        as configured.
    :raises errors.Unavailable: another conductor uses it, or the system refuses it at present.
    """
    found = transport.build()
    notifier.build(conf, "", lambda _: ())
    if found.brokerless:
        for host in membership.process_names(conf.host, conf.conductor.processes):
            server.Server(found, host, object()).start()
