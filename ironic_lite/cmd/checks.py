"""Open what the configuration names, or say which option is wrong."""

from __future__ import annotations

import contextlib
from typing import Any

from ironic_lite import config, errors
from ironic_lite.db import migrate, session
from ironic_lite.db.session import Database
from ironic_lite.rpc import transport


def database(conf: Any) -> Database:
    """Return the database; nothing is connected yet.

    :raises config.ConfigError: its URL cannot be used.
    """
    try:
        return session.configured(conf)
    except errors.InvalidParameter as why:
        raise config.ConfigError(reason=f"[database]connection: {why.message}") from None


def run(conf: Any) -> None:
    """Make sure that database and transport can be used, and leave both closed, fit for a fork.

    :raises config.ConfigError: a URL cannot be used.
    :raises errors.Error: the database is away, has no tables, or those of another release.
    """
    transport.build()
    with contextlib.closing(database(conf)) as found:
        migrate.check(found)
