"""The threads of a test that is stuck are printed."""

from __future__ import annotations

import os
import pathlib

from tests.support import service, stuck


def test_threads_are_printed_while_a_test_is_stuck(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "threads"
    timer = stuck.Timer(0.05, os.open(path, os.O_CREAT | os.O_WRONLY))
    timer.pytest_runtest_protocol()
    service.until(lambda: "test_threads_are_printed" in path.read_text(), "the threads")
    timer.pytest_unconfigure()
