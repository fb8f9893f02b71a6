"""The order of tests for parallel workers, and the tests that one worker runs together.

Tests with real processes wait most of their time, and all others compute. Side by side they keep
the processors busy until the end, so the tests that wait are spread over the run. Tests that
compute stay together by module: a worker makes only once what the tests of a module share.
Without workers the order is the usual one.
"""

from __future__ import annotations

import pathlib

import pytest
from xdist.scheduler import LoadGroupScheduling

COMPUTING = {
    "recorded": 300,
    "spec": 100,
    "flows": 90,
    "db": 50,
    "rpc": 50,
    "images": 20,
    "drivers": 50,
    "api": 45,
    "lint": 200,
    "unit": 10,
}
"""Folders whose tests compute, with milliseconds of one; in their order, so short ones end the run.

Tests of all other folders wait for processes.
"""
LAST_WAIT = 0.8
"""Share of the run after which no test that waits begins."""


class Scheduler(LoadGroupScheduling):  # type: ignore[misc]
    """Gives a worker a group, a module of tests that compute, or one test that waits."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(super()._split_scope(nodeid))


def folder_of(nodeid: str) -> str:
    """Return the folder of a test, below ``tests``."""
    return pathlib.PurePosixPath(nodeid.partition("::")[0]).parts[1]


def unit_of(scope: str) -> str:
    """Return what runs on one worker: a group as it is, or the module of a test that computes.

    The rules of ``lint`` run together, as they parse the same files.
    """
    module, test, _ = scope.partition("::")
    if not test or folder_of(scope) not in COMPUTING:
        return scope
    return "lint" if folder_of(scope) == "lint" else module


def arrange(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return all tests in the order in which workers get them."""
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        name = str(mark.args[0]) if mark is not None else unit_of(item.nodeid)
        units.setdefault(name, []).append(item)
    waiting: list[list[pytest.Item]] = []
    computing: list[list[pytest.Item]] = []
    for unit in units.values():
        (computing if folder_of(unit[0].nodeid) in COMPUTING else waiting).append(unit)
    waiting.sort(key=len, reverse=True)
    computing.sort(key=lambda unit: [*COMPUTING].index(folder_of(unit[0].nodeid)))
    placed = [(LAST_WAIT * number / len(waiting), unit) for number, unit in enumerate(waiting)]
    lengths = [COMPUTING[folder_of(unit[0].nodeid)] * len(unit) for unit in computing]
    begin = 0
    for length, unit in zip(lengths, computing, strict=True):
        placed.append((begin / sum(lengths), unit))
        begin += length
    placed.sort(key=lambda place: place[0])
    return [item for _, unit in placed for item in unit]
