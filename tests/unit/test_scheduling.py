"""Parallel workers run every test once, computing modules whole and waiting tests in between."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import subprocess
import sys
from typing import Any, cast

import pytest

from tests.support import scheduling


class Item:
    def __init__(self, nodeid: str, group: str | None = None) -> None:
        self.nodeid = nodeid
        self._mark = pytest.mark.xdist_group(group) if group else None

    def get_closest_marker(self, _name: str) -> Any:
        return self._mark and self._mark.mark

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        assert self._mark is None, "pytest-xdist joins the names of several groups"
        self._mark = mark


def arranged(*items: Item) -> list[str]:
    listed = cast(Any, list(items))
    scheduling.group(listed)
    return [item.nodeid for item in scheduling.arrange(listed)]


@pytest.mark.parametrize(
    ("nodeid", "named", "group"),
    [
        ("tests/unit/test_a.py::test_a[tests/window/x::y]", None, "unit/test_a"),
        ("tests/drivers/redfish/test_a.py::test_a", None, "drivers/redfish/test_a"),
        ("tests/lint/test_a.py::test_a", None, "lint"),
        ("tests/recorded/test_a.py::test_a", "machine", "machine"),
        ("tests/acceptance/test_a.py::test_a", None, None),
        ("tests/new/test_a.py::test_a", None, None),
    ],
)
def test_tests_that_compute_stay_together(
    nodeid: str, named: str | None, group: str | None
) -> None:
    item = Item(nodeid, named)
    scheduling.group(cast(Any, [item]))
    mark = item.get_closest_marker("xdist_group")
    assert (mark.args[0] if mark else None) == group


def test_modules_that_share_programs_are_dealt_to_a_few_groups() -> None:
    items = [Item(f"tests/window/test_{one}.py::test_{n}") for one in "abcdef" for n in range(2)]
    scheduling.group(cast(Any, items))
    groups: dict[str, list[str]] = {}
    for item in items:
        groups.setdefault(item.get_closest_marker("xdist_group").args[0], []).append(item.nodeid)
    assert len(groups) == scheduling.SHARING["window"] < 6
    modules = [{nodeid.partition("::")[0] for nodeid in nodeids} for nodeids in groups.values()]
    assert sum(len(one) for one in modules) == 6, "a module is in two groups"
    assert {len(one) for one in modules} == {1, 2}


def test_tests_that_wait_are_spread_and_long_groups_come_first() -> None:
    quick = [Item(f"tests/unit/test_{n // 10}.py::test_{n}") for n in range(100)]
    slow = [Item(f"tests/acceptance/test_a.py::test_{n}") for n in range(6)]
    group = [Item(f"tests/window/test_a.py::test_{n}", "window") for n in range(3)]
    order = arranged(*slow, *quick, *group)
    assert sorted(order) == sorted(item.nodeid for item in (*quick, *slow, *group))
    assert order[:3] == [item.nodeid for item in group]
    modules = list(dict.fromkeys(name.partition("::")[0] for name in order if "unit" in name))
    assert [name for name in order if "unit" in name] == [
        item.nodeid for module in modules for item in quick if item.nodeid.startswith(module)
    ]
    places = [order.index(item.nodeid) for item in slow]
    assert places == sorted(places)
    assert all(later - before > 5 for before, later in itertools.pairwise(places))
    assert max(places) < len(order) - 20


def test_modules_of_long_tests_come_before_modules_of_short_ones() -> None:
    order = arranged(Item("tests/unit/test_a.py::test_a"), Item("tests/flows/test_a.py::test_a"))
    assert order == ["tests/flows/test_a.py::test_a", "tests/unit/test_a.py::test_a"]


def test_worker_runs_the_tests_of_a_module_together(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    hook = "pytest_collection_modifyitems"
    (tmp_path / "conftest.py").write_text(f"from tests.support.scheduling import {hook}")
    body = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_worker(number, worker_id):
    print(f"{__name__} ran on {worker_id}")
"""
    for name in "abcd":
        (folder / f"test_{name}.py").write_text(body)
    words = ["-p", "xdist.plugin", "-n2", "--dist=loadgroup", "--no-loadscope-reorder", "-rP"]
    words += ["--import-mode=importlib", f"--rootdir={tmp_path}", "tests"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    lines = re.findall(r"^(\S+) ran on (\S+)$", found.stdout, re.MULTILINE)
    assert len(lines) == 16, found.stdout
    assert {len({worker for module, worker in lines if module == one}) for one, _ in lines} == {1}
