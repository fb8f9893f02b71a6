"""Percentiles, usual durations, expected ends and overdue steps, by tables of cases."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite.domain import step_times
from ironic_lite.domain.step_times import Remaining, Sample, Usual

NOON = datetime.datetime(2026, 1, 31, 12)
ALL = ("step",)
NARROWEST = ("step", "driver", "resource_class")


def later(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def known(p50: float, p90: float, samples: int = 5, of: tuple[str, ...] = ALL) -> Usual:
    return Usual(p50, p90, samples, of)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([7], 0.5, 7),
        ([7], 0.99, 7),
        ([1, 2], 0.5, 1),
        ([1, 2, 3], 0.5, 2),
        ([1, 2, 3, 4, 5], 0.9, 5),
        (list(range(1, 11)), 0.9, 9),
        (list(range(1, 101)), 0.5, 50),
        (list(range(1, 101)), 0.9, 90),
        (list(range(1, 101)), 0.99, 99),
        (list(range(1, 101)), 1.0, 100),
    ],
)
def test_percentile_is_the_nearest_rank(values: list[float], share: float, expected: float) -> None:
    assert step_times.percentile(values, share) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_percentile_is_a_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = step_times.percentile(ordered, share)
    assert found in ordered
    assert sum(one <= found for one in ordered) >= share * len(ordered) - 1e-6


def times(driver: str, resource_class: str | None, *seconds: float) -> list[Sample]:
    return [Sample(one, driver, resource_class) for one in seconds]


GPU = times("redfish", "gpu", 1, 2, 3, 4, 5)
CPU = times("redfish", "cpu", 10, 20, 30, 40)
IPMI = times("ipmi", "gpu", 100, 200)


@pytest.mark.parametrize(
    ("samples", "driver", "resource_class", "expected"),
    [
        ([], "redfish", "gpu", None),
        (GPU[:4], "redfish", "gpu", None),
        (GPU, "redfish", "gpu", (3, 5, 5, NARROWEST)),
        (GPU + CPU, "redfish", "cpu", (5, 40, 9, ("step", "driver"))),
        (GPU + CPU + IPMI, "ipmi", "gpu", (10, 100, 11, ALL)),
        (GPU, None, None, (3, 5, 5, ALL)),
        (times("redfish", None, 1, 1, 1, 1, 1), "redfish", None, (1, 1, 5, NARROWEST)),
        (
            times("redfish", "gpu", -5, -5, -5, -5, 0.12345),
            "redfish",
            "gpu",
            (0, 0.123, 5, NARROWEST),
        ),
    ],
)
def test_usual_takes_the_narrowest_kind_with_five_samples(
    samples: list[Sample],
    driver: str | None,
    resource_class: str | None,
    expected: tuple[object, ...] | None,
) -> None:
    found = step_times.usual(samples, driver, resource_class)
    assert found == expected


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [
        ([], None),
        ([Remaining(None)], None),
        ([Remaining(known(10, 20)), Remaining(None, 5)], None),
        ([Remaining(known(10, 20, 7))], (later(10), later(20), 7, ALL)),
        ([Remaining(known(10, 20), 4)], (later(6), later(16), 5, ALL)),
        ([Remaining(known(10, 20), 15)], (NOON, later(5), 5, ALL)),
        ([Remaining(known(10, 20), 80)], (NOON, NOON, 5, ALL)),
        ([Remaining(known(10, 20), 81)], None),
        ([Remaining(known(10, 20), 81), Remaining(known(10, 20))], None),
        (
            [
                Remaining(known(10, 20, 200, NARROWEST), 15),
                Remaining(known(100, 110, 9, ("step", "driver"))),
                Remaining(known(0, 0.5, 40, NARROWEST)),
            ],
            (later(100), later(115.5), 9, ("step", "driver")),
        ),
        ([Remaining(known(1e15, 1e15))], (datetime.datetime.max, datetime.datetime.max, 5, ALL)),
    ],
)
def test_eta_is_the_sum_of_what_remains(
    remaining: list[Remaining], expected: tuple[object, ...] | None
) -> None:
    assert step_times.eta(remaining, NOON) == expected


@pytest.mark.parametrize(
    ("usual", "seconds", "since"),
    [
        (None, 1e9, None),
        (known(1, 1), 900, None),
        (known(1, 1), 901, 900),
        (known(100, 300), 900, None),
        (known(100, 300), 901, 900),
        (known(100, 1000), 2999, None),
        (known(100, 1000), 3001, 3000),
    ],
)
def test_step_is_overdue_after_three_usual_times_and_a_quarter_of_an_hour(
    usual: Usual | None, seconds: float, since: float | None
) -> None:
    found = step_times.overdue_of(usual, NOON, later(seconds))
    assert (found and found.since) == (None if since is None else later(since))
    assert found is None or (usual is not None and found.usual_p90 == usual.p90)


def test_step_that_has_not_begun_is_not_overdue() -> None:
    assert step_times.overdue_of(known(1, 1), None, NOON) is None
