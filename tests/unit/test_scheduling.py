"""Parallel workers run every test once, computing modules whole and waiting tests in between."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest

from tests.support import scheduling


class Item:
    def __init__(self, nodeid: str, group: str | None = None) -> None:
        self.nodeid = nodeid
        self._group = group

    def get_closest_marker(self, _name: str) -> Any:
        return self._group and pytest.mark.xdist_group(self._group).mark


def arranged(*items: Item) -> list[str]:
    return [item.nodeid for item in scheduling.arrange(cast(Any, list(items)))]


@pytest.mark.parametrize(
    ("scope", "unit"),
    [
        ("tests/unit/test_a.py::test_a[tests/window/x::y]", "tests/unit/test_a.py"),
        ("tests/drivers/redfish/test_a.py::test_a", "tests/drivers/redfish/test_a.py"),
        ("tests/acceptance/test_a.py::test_a", "tests/acceptance/test_a.py::test_a"),
        ("tests/new/test_a.py::test_a", "tests/new/test_a.py::test_a"),
        ("window", "window"),
    ],
)
def test_tests_that_compute_stay_together(scope: str, unit: str) -> None:
    assert scheduling.unit_of(scope) == unit


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
