"""Rewrite the assertions of all tests once, on all processors, before parallel workers start.

In a fresh checkout each worker would rewrite all of them, at the same time as the others. pytest
keeps the result beside the bytecode, but all workers look for it before one has written it. This
module uses private functions of pytest; ``make lint`` fails when they change.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator

import pytest
from _pytest.assertion import AssertionState, rewrite


def before_workers(config: pytest.Config) -> None:
    """Rewrite what this run is going to load, if it is going to have workers."""
    parallel = getattr(config.option, "numprocesses", None)
    if hasattr(config, "workerinput") or not parallel or sys.dont_write_bytecode:
        return
    files = sorted(found(config))
    shares = [files[number :: os.cpu_count() or 1] for number in range(os.cpu_count() or 1)]
    children = [forked(config, share) for share in shares if share]
    for child in children:
        os.waitpid(child, 0)


def found(config: pytest.Config) -> Iterator[pathlib.Path]:
    """Yield the files that pytest loads and rewrites: tests, and what is beside them for them."""
    for word in config.args:
        place = pathlib.Path(word.partition("::")[0])
        for pattern in ("test_*.py", "conftest.py") if place.is_dir() else ():
            yield from place.resolve().rglob(pattern)


def forked(config: pytest.Config, files: list[pathlib.Path]) -> int:
    """Rewrite files in a process of its own, and return its number."""
    child = os.fork()
    if child:
        return child
    try:
        for file in files:
            keep(config, file)
    finally:
        os._exit(0)


def keep(config: pytest.Config, file: pathlib.Path) -> None:
    """Rewrite one file and keep that where `rewrite.AssertionRewritingHook` looks for it."""
    folder = rewrite.get_cache_dir(file)
    place = folder / f"{file.stem}{rewrite.PYC_TAIL}"
    if rewrite.try_makedirs(folder) and rewrite._read_pyc(file, place) is None:
        state, (source, code) = (
            AssertionState(config, "rewrite"),
            rewrite._rewrite_test(file, config),
        )
        rewrite._write_pyc(state, code, source, place)
