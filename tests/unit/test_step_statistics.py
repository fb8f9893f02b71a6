"""Statistics of ended steps: groups, percentiles, failures by code."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.features.statistics.rules import Ended, StepFigures

pytestmark = pytest.mark.feature("statistics")

NOON = datetime.datetime(2026, 1, 31, 12)


def ended(seconds: float, state: str = "done", code: str | None = None, **values: Any) -> Ended:
    """Return a step that ended so many seconds after noon, and began at noon."""
    known = {"step": "erase_devices", "driver": "redfish", "resource_class": "gpu", **values}
    end = NOON + datetime.timedelta(seconds=seconds)
    machine = (known["driver"], known["resource_class"])
    return ("deploy", known["step"], "clean", state, NOON, end, code, *machine)


def test_group_has_counts_and_durations() -> None:
    steps = [ended(number) for number in range(1, 101)]
    steps += [ended(5000, "failed", "AgentUnreachable")] * 2
    steps += [ended(5000, "failed", "DeadlinePassed"), ended(5000, "aborted")]
    steps += [ended(5000, "failed")]
    statistics = StepFigures(steps)
    assert statistics.grouped() == [
        {
            "interface": "deploy",
            "step": "erase_devices",
            "kind": "clean",
            "driver": "redfish",
            "resource_class": "gpu",
            "count": 105,
            "failed": 4,
            "aborted": 1,
            "codes": {"AgentUnreachable": 2, "DeadlinePassed": 1, "unknown": 1},
            "p50": 50,
            "p90": 90,
            "p99": 99,
            "longest": 100,
        }
    ]
    assert (statistics.count, statistics.first) == (105, NOON + datetime.timedelta(seconds=1))


def test_group_without_a_step_that_ended_well_has_no_durations() -> None:
    [group] = StepFigures([ended(5, "failed", "X")]).grouped()
    assert [group[name] for name in ("p50", "p90", "p99", "longest")] == [None] * 4


def test_no_steps_have_no_groups() -> None:
    statistics = StepFigures([])
    assert (statistics.grouped(), statistics.count, statistics.first) == ([], 0, None)


def test_clock_that_was_set_back_gives_no_negative_duration() -> None:
    [group] = StepFigures([ended(-5)]).grouped()
    assert group["p50"] == 0


MIXED = [
    ended(1),
    ended(2, driver="ipmi"),
    ended(3, resource_class=None),
    ended(4, step="burnin_cpu"),
    ended(10),
]


@pytest.mark.parametrize(
    ("where", "counts"),
    [
        ({}, [1, 1, 1, 2]),
        ({"driver": "redfish"}, [1, 1, 2]),
        ({"driver": "redfish", "resource_class": "gpu"}, [1, 2]),
        ({"interface": "deploy", "step": "erase_devices"}, [1, 1, 2]),
        ({"step": "none"}, []),
        ({"since": NOON + datetime.timedelta(seconds=3)}, [1, 1, 1]),
        ({"since": NOON + datetime.timedelta(seconds=10)}, [1]),
        ({"since": NOON + datetime.timedelta(seconds=11)}, []),
        ({"since": datetime.datetime.min}, [1, 1, 1, 2]),
    ],
)
def test_groups_are_chosen_by_column_and_time(where: dict[str, Any], counts: list[int]) -> None:
    assert [group["count"] for group in StepFigures(MIXED).grouped(**where)] == counts


def test_groups_are_in_the_order_of_their_names() -> None:
    found = StepFigures(MIXED).grouped()
    names = [(group["step"], group["driver"], group["resource_class"]) for group in found]
    assert names == [
        ("burnin_cpu", "redfish", "gpu"),
        ("erase_devices", "ipmi", "gpu"),
        ("erase_devices", "redfish", None),
        ("erase_devices", "redfish", "gpu"),
    ]
