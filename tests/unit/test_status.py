"""``ironic-lite-status upgrade check``: its lines, and its exit status."""

from __future__ import annotations

import base64
import contextlib
import datetime
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from ironic_lite.cmd import status
from ironic_lite.core import clock, config
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import conductors
from ironic_lite.db.tables import online_migrations
from tests.support import database_rows

Check = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def check(
    sqlite_database: Database, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> Check:
    """Check with lines of [DEFAULT]; return the exit status, and what is printed."""

    def run(*lines: str) -> tuple[int, list[str]]:
        conf = config.load("test", _files(tmp_path, sqlite_database, *lines), conf=cfg.ConfigOpts())
        return status.check(conf, sqlite_database), capsys.readouterr().out.splitlines()

    return run


def _files(folder: pathlib.Path, database: Database, *lines: str) -> list[str]:
    path = folder / "ironic-lite.conf"
    said = "\n".join(lines)
    path.write_text(f"[DEFAULT]\n{said}\n[database]\nconnection = {database.url}\n")
    return ["--config-file", str(path)]


def test_the_program(sqlite_database: Database, tmp_path: pathlib.Path) -> None:
    asked = [*_files(tmp_path, sqlite_database), "upgrade", "check"]
    done = subprocess.run(
        [sys.executable, "-m", "ironic_lite.cmd.status", *asked],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(status.CHECKS)


def _add(database: Database, host: str, version: str, *, age: float = 0) -> None:
    at = clock.now() - datetime.timedelta(seconds=age)
    database.write(
        lambda conn: conductors.register(conn, host=host, group="", version=version, now=at)
    )


def test_all_is_well(sqlite_database: Database, check: Check) -> None:
    _add(sqlite_database, "one", config.version())
    _add(sqlite_database, "long gone", "0.0.1", age=3600)
    code, lines = check()
    assert (code, len(lines)) == (0, len(status.CHECKS))
    assert all(line.startswith("Success ") for line in lines)


def test_conductors_of_another_version_are_named(sqlite_database: Database, check: Check) -> None:
    _add(sqlite_database, "old", "0.0.1")
    code, lines = check()
    assert code == 1
    assert next(line for line in lines if "old (0.0.1)" in line).startswith("Warning  conductors")
    code, lines = check("pin_release_version = 0.1")
    assert lines[-1] == "Success  pin_release_version: 0.1 is pinned while conductors are upgraded"


def test_a_pin_that_is_left_over_is_told(sqlite_database: Database, check: Check) -> None:
    _add(sqlite_database, "one", config.version())
    code, lines = check("pin_release_version = 0.1")
    assert (code, "remove the pin" in lines[-1]) == (1, True)


def test_rows_that_are_left_are_told(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    change = online_migrations.Change("capitals", "0999", lambda _: 3, lambda *_: 0)
    monkeypatch.setattr(online_migrations, "CHANGES", (change,))
    code, lines = check()
    assert (code, "(capitals: 3)" in lines[1]) == (1, True)


def test_keys_that_are_needed_are_told(sqlite_database: Database, check: Check) -> None:
    old, new = (base64.urlsafe_b64encode(byte * 32).decode() for byte in (b"o", b"n"))
    with contextlib.closing(
        session.open_database(sqlite_database.url, encryption_keys=[old])
    ) as sealed:
        database_rows.add_node(sealed, driver_info={"password": "s"})
    code, lines = check()
    assert (code, lines[-1][:50]) == (2, "Failure  encryption keys: The database has values ")
    with contextlib.closing(
        session.open_database(sqlite_database.url, encryption_keys=[new, old])
    ) as both:
        said = status.encryption_keys_in_use(config.CONF, both)
    assert said[0] is status.Result.SUCCESS
    assert said[1].startswith("older ones are still needed (")


def test_another_schema_ends_the_checks(sqlite_database: Database, check: Check) -> None:
    stamp = sa.text("UPDATE alembic_version SET version_num = '9999'")
    sqlite_database.write(lambda conn: conn.execute(stamp))
    code, lines = check()
    assert (code, len(lines)) == (2, 1)
    assert lines[0].startswith("Failure  database schema: The database ")
    assert "newer release" in lines[0]
