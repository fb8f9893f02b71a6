"""``ironic-lite-dbsync`` and a missing SQLite file."""

from __future__ import annotations

import itertools
import pathlib
import subprocess
import time

import pytest

from ironic_lite.core import clock
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import conductors
from ironic_lite.membership import members
from tests.support import prefork, service
from tests.support.database_rows import add_node


def run(path: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program with a configured file."""
    settings = path.with_suffix(".conf")
    settings.write_text(f"[database]\nconnection = sqlite:///{path}\n")
    program = str(service.SCRIPTS / "ironic-lite-dbsync")
    command = [program, "--config-file", str(settings), *words]
    return prefork.run(command, env=service.environment(), timeout=60)


def register(database: Database, host: str, age: float, *, online: bool = True) -> int:
    def write(conn: Connection) -> int:
        at = clock.after(-age)
        made = conductors.register(conn, host=host, group="", version=None, now=at)
        row = {"hardware_type": "fake-hardware", "interface_type": "power", "is_default": True}
        conductors.set_interfaces(conn, made, [{**row, "interface_name": "fake", "methods": None}])
        conductors.touch(conn, host=host, now=at, online=online)
        return made

    return database.write(write)


def test_retired_conductor_is_forgotten(database: Database, tmp_path: pathlib.Path) -> None:
    register(database, "dead", 1000)
    register(database, "signed-off", 1, online=False)
    register(database, "alive", 1)
    register(database, "locked", 1000)
    node = add_node(database, reservation="locked")
    settings = tmp_path / "ironic-lite.conf"
    url = database.url.render_as_string(hide_password=False)
    settings.write_text(f"[database]\nconnection = {url}\n")

    def forget(host: str) -> subprocess.CompletedProcess[str]:
        program = str(service.SCRIPTS / "ironic-lite-dbsync")
        command = [program, "--config-file", str(settings), "forget_conductor", host]
        return prefork.run(command, env=service.environment(), timeout=60)

    for host in ("dead", "signed-off"):
        done = forget(host)
        assert (done.returncode, done.stdout) == (0, f"Conductor {host} is forgotten.\n")
    said = {
        "dead": "could not be found",
        "alive": "Conductor alive is alive. Stop it first.",
        "locked": f"Conductor locked holds the locks of nodes: {node}.",
    }
    for host, text in said.items():
        done = forget(host)
        assert done.returncode == 1
        assert text in done.stderr
    left = database.read(conductors.all)
    assert [row["hostname"] for row in left] == ["alive", "locked"]
    interfaces = database.read(conductors.interfaces)
    assert {row["hostname"] for row in interfaces} == {"alive", "locked"}


def test_heartbeat_ahead_of_the_clock_is_watched(database: Database) -> None:
    """A clock that was ahead by years has written it, or a living conductor whose clock is."""
    register(database, "dead", -2 * 8760 * 3600)

    def read() -> list[Row]:
        return database.read(conductors.all)

    assert members.living_hosts(read, 2) == []
    begun, beats = time.monotonic(), itertools.count()

    def beat() -> list[Row]:
        register(database, "ahead", -8760 * 3600 - next(beats))
        return read()

    assert "ahead" in members.living_hosts(beat, 3600)
    assert time.monotonic() - begun < 60
    register(database, "here", 0)
    assert "here" in members.living_hosts(read, 3600)


def test_conductor_that_starts_meanwhile_is_not_forgotten(database: Database) -> None:
    register(database, "one", 1000)
    row = database.read(lambda conn: conductors.get(conn, "one"))
    register(database, "one", 0)
    assert not database.write(lambda conn: conductors.forget(conn, row))
    assert database.read(lambda conn: conductors.get(conn, "one"))["online"]
    interfaces = database.read(conductors.interfaces)
    assert {one["hostname"] for one in interfaces} == {"one"}


@pytest.mark.parametrize("command", ["version", "history", "reencrypt", "end_runs"])
def test_command_that_makes_no_tables_creates_no_file(tmp_path: pathlib.Path, command: str) -> None:
    path = tmp_path / "moved.sqlite"
    done = run(path, command)
    assert done.returncode == 1
    assert f"the file {path} does not exist" in done.stderr
    assert not path.exists()


def test_upgrade_creates_a_missing_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new.sqlite"
    assert run(path, "upgrade").returncode == 0
    assert path.exists()
