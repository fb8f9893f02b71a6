"""The database servers that tests use when they answer, and a database of our own on each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db import session

KINDS = ("sqlite", "postgresql", "mysql")
SERVERS = ("postgresql", "mysql")
# Where a server is; the environment may say otherwise.
_URLS = {
    "postgresql": os.environ.get(
        "IRONIC_LITE_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test"
    ),
    "mysql": os.environ.get("IRONIC_LITE_TEST_MARIADB", "mariadb://root@127.0.0.1:3306/test"),
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


def admin(kind: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements outside of any transaction; return the rows of the last."""
    rows: list[tuple[object, ...]] = []
    with contextlib.closing(session.open_database(_URLS[kind], connect_timeout=3)) as database:
        engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            for statement in statements:
                result = conn.execute(sa.text(statement))
                rows = [tuple(row) for row in result] if result.returns_rows else []
    return rows


def must_answer(kind: str) -> None:
    """Skip the test, saying why, if this server does not answer."""
    try:
        with contextlib.closing(session.open_database(_URLS[kind], connect_timeout=3)) as database:
            database.read(lambda conn: conn.execute(sa.text("SELECT 1")))
    except errors.Error as error:
        pytest.skip(f"NOT TESTED on {kind}: {error.message} `make services` starts it.")


@contextlib.contextmanager
def own_database(kind: str, label: str) -> Iterator[str]:
    """Create an empty database on a server, yield its URL, drop it."""
    must_answer(kind)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    name = f"ironic_lite_test_{worker}_{os.getpid()}_{label}"
    admin(kind, _DROP[kind].format(name), _CREATE[kind].format(name))
    try:
        url = sa.make_url(_URLS[kind]).set(database=name)
        yield url.render_as_string(hide_password=False)
    finally:
        admin(kind, _DROP[kind].format(name))
