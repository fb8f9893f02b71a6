"""``ironic-lite-dbsync`` and a missing SQLite file."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from tests.support import prefork, service


def run(path: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program with a configured file."""
    settings = path.with_suffix(".conf")
    settings.write_text(f"[database]\nconnection = sqlite:///{path}\n")
    program = str(service.SCRIPTS / "ironic-lite-dbsync")
    command = [program, "--config-file", str(settings), *words]
    return prefork.run(command, env=service.environment(), timeout=60)


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
