"""The view from outside finds what attacks may leave behind."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.attack import outside

_PROCESS = """
import os, sqlite3, sys
path = sys.argv[1]
opened = sqlite3.connect(path)
opened.execute("PRAGMA journal_mode=WAL")
opened.execute("CREATE TABLE IF NOT EXISTS one (two)")
opened.commit()
print("open", flush=True)
for _ in sys.stdin:
    for name in (path, path + "-shm"):
        os.close(os.open(name, os.O_RDWR))
    print("closed", flush=True)
"""


@pytest.fixture
def database(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "one.sqlite"


@pytest.fixture
def user(database: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the database open; each line it is sent has it drop its locks."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROCESS, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_lost_locks_of_a_process_are_seen(
    user: subprocess.Popen[str], database: pathlib.Path
) -> None:
    assert outside.look([user.pid], database)[user.pid].unlocked == ()
    assert user.stdin is not None
    assert user.stdout is not None
    print("drop", file=user.stdin, flush=True)
    assert user.stdout.readline() == "closed\n"
    found = outside.look([user.pid], database)[user.pid].unlocked
    assert found == ("one.sqlite", "one.sqlite-shm")


def test_descriptors_of_a_process_are_counted() -> None:
    before = outside.look([os.getpid()], None)[os.getpid()]
    with contextlib.ExitStack() as opened:
        for _ in range(7):
            opened.enter_context(open(os.devnull, "rb"))
        assert outside.look([os.getpid()], None)[os.getpid()].descriptors == before.descriptors + 7


def test_a_process_that_has_ended_is_left_out() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    assert outside.look([ended.pid], None) == {}


@pytest.mark.parametrize("line", [f"{outside.FORGED}x", "2026 INFO a \x1b[31m", "a\rb"])
def test_forged_lines_are_found(line: str) -> None:
    honest = "2026-11-22 17:43:10.585 26038 INFO ironic_lite.cmd Listening\n"
    assert outside.odd_lines(f"{honest}{line}\n{honest}") == [line]
