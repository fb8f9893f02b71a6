"""PostgreSQL and MariaDB servers of this machine, with a new database for each test process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cache

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine import session

KINDS = ("sqlite", "postgresql", "mysql")
SERVERS = ("postgresql", "mysql")
_VARIABLES = {"postgresql": "IRONIC_LITE_TEST_POSTGRESQL", "mysql": "IRONIC_LITE_TEST_MARIADB"}
# The account that `make services` makes, then those of a server that trusts this machine.
_USUAL = {
    "postgresql": (
        "postgresql://ironic_lite:ironic_lite@127.0.0.1:5432/ironic_lite",
        "postgresql://postgres@127.0.0.1:5432/test",
    ),
    "mysql": (
        "mariadb://ironic_lite:ironic_lite@127.0.0.1:3306/ironic_lite",
        "mariadb://root@127.0.0.1:3306/test",
    ),
}
# Unfriendly settings on purpose: the tables must bring their own.
_CREATE = {
    "postgresql": "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' "
    "LOCALE_PROVIDER icu ICU_LOCALE 'en-US'",
    "mysql": "CREATE DATABASE {} CHARACTER SET latin1",
}
_DROP = {
    "postgresql": "DROP DATABASE IF EXISTS {} WITH (FORCE)",
    "mysql": "DROP DATABASE IF EXISTS {}",
}


@cache
def _find(kind: str) -> tuple[str | None, str]:
    """Return the URL of a server that answers, or None and why none does."""
    given = os.environ.get(_VARIABLES[kind])
    reason = ""
    for url in (given,) if given else _USUAL[kind]:
        try:
            with contextlib.closing(session.open_database(url, connect_timeout=3)) as database:
                database.read(lambda conn: conn.execute(sa.text("SELECT 1")))
            return url, ""
        except errors.Error as error:
            reason = error.message
    return None, reason


def url_of(kind: str) -> str:
    """Return the URL of a server; skip the test, saying why, if none answers."""
    url, reason = _find(kind)
    if url is None:
        pytest.skip(f"NOT TESTED on {kind}: {reason} `make services` starts one.")
    return url


def admin(kind: str, *statements: str) -> None:
    """Run statements outside of any transaction."""
    url = url_of(kind)
    with contextlib.closing(session.open_database(url, connect_timeout=3)) as database:
        engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            for statement in statements:
                conn.execute(sa.text(statement))


def transactional(database: session.Database) -> sa.Engine:
    """Return the engine of a database, with transactions that begin by themselves."""
    if database.kind == "sqlite":
        return database.engine
    return database.engine.execution_options(isolation_level="READ COMMITTED")


@contextlib.contextmanager
def own_database(kind: str, label: str) -> Iterator[str]:
    """Create an empty database on a server, yield its URL, drop it."""
    server = url_of(kind)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    name = f"ironic_lite_test_{worker}_{os.getpid()}_{label}"
    admin(kind, _DROP[kind].format(name), _CREATE[kind].format(name))
    try:
        url = sa.make_url(server).set(database=name)
        yield url.render_as_string(hide_password=False)
    finally:
        admin(kind, _DROP[kind].format(name))
