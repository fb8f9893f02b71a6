"""The clock of a BMC: what is sent, in which zone, and what is checked afterwards."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers.redfish import bmc_clock, management
from tests.emulators import bmc
from tests.support import bmc_tasks, fake_task

MANAGEMENT = management.RedfishManagement()


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


def run(machine: bmc.Machine, **args: Any) -> bmc_tasks.BmcTask:
    task = bmc_tasks.task_of(machine)
    MANAGEMENT.execute_clean_step(task, fake_task.step("management.set_bmc_clock", **args))
    return task


def sent(machine: bmc.Machine) -> list[Any]:
    return [request.body for request in machine.requests if request.method == "PATCH"]


def test_the_clock_gets_the_time_of_the_conductor_in_its_own_zone(machine: bmc.Machine) -> None:
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    run(machine)
    [body] = sent(machine)
    assert set(body) == {"DateTime"}
    assert body["DateTime"].endswith("+06:00")
    assert datetime.datetime.fromisoformat(body["DateTime"]) >= before


@pytest.mark.parametrize(
    ("shown", "args", "wanted"),
    [
        (
            "2015-03-13T04:14:33Z",
            {"target_datetime": "2026-01-31T12:00:00"},
            {"DateTime": "2026-01-31T12:00:00+00:00"},
        ),
        (
            "2015-03-13T04:14:33.123-05:00",
            {"target_datetime": "2026-01-31T12:00:00Z"},
            {"DateTime": "2026-01-31T07:00:00.000000-05:00"},
        ),
        (
            "2015-03-13T04:14:33",
            {"target_datetime": "2026-01-31T12:00:00.9+01:00"},
            {"DateTime": "2026-01-31T17:00:00+06:00"},
        ),
        (
            "2015-03-13T04:14:33+00:00",
            {"target_datetime": "2026-01-31T12:00:00Z", "datetime_local_offset": "+02:00"},
            {"DateTime": "2026-01-31T14:00:00+02:00", "DateTimeLocalOffset": "+02:00"},
        ),
    ],
)
def test_a_time_is_sent_as_the_bmc_writes_it(
    machine: bmc.Machine, shown: str, args: dict[str, str], wanted: dict[str, str]
) -> None:
    machine[machine.places.manager]["DateTime"] = shown
    run(machine, **args)
    assert sent(machine) == [wanted]
    assert wanted.items() <= machine[machine.places.manager].items()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"target_datetime": "noon"}, "target_datetime: 'noon' is no time such as 2026"),
        ({"target_datetime": 7}, "target_datetime: '7' is no time"),
        (
            {"datetime_local_offset": "CET"},
            r"datetime_local_offset: 'CET' is no offset such as \+02",
        ),
        ({"datetime_local_offset": "+99:00"}, "is no offset"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    machine: bmc.Machine, args: dict[str, Any], said: str
) -> None:
    with pytest.raises(errors.InvalidParameter, match=said):
        run(machine, **args)
    assert machine.log == []


def test_a_bmc_without_a_clock_says_so(machine: bmc.Machine) -> None:
    del machine[machine.places.manager]["DateTime"]
    with pytest.raises(errors.UnsupportedDriverExtension, match=r"no manager .* shows DateTime"):
        run(machine)


def test_a_clock_that_follows_ntp_fails_the_step(machine: bmc.Machine) -> None:
    machine.tricks[f"PATCH {machine.places.manager}"] = bmc.says(200, {})
    with pytest.raises(errors.HardwareError, match=r"shows 2015-03-13T04:14:33\+06:00 .* NTP"):
        run(machine)


def test_a_clock_that_shows_the_time_late_is_waited_for(machine: bmc.Machine) -> None:
    manager = machine.places.manager
    machine.tricks[f"GET {manager}"] = bmc.says_first(3, lambda handler: handler.truth())
    old = dict(machine[manager])
    reads = iter([old, old, old])

    def late(handler: bmc.Handler) -> None:
        document = next(reads, None) or machine[manager]
        handler.say(200, document)

    machine.tricks[f"GET {manager}"] = late
    task = run(machine, target_datetime="2026-01-31T12:00:00Z")
    assert task.pauses == [bmc_clock.LOOK_PAUSE]


def test_a_refusal_is_told_in_the_bmcs_words(machine: bmc.Machine) -> None:
    refusal = {"error": {"message": "NTP is enabled."}}
    machine.tricks[f"PATCH {machine.places.manager}"] = bmc.says(400, refusal)
    with pytest.raises(errors.BmcBadAnswer, match="NTP is enabled"):
        run(machine)
