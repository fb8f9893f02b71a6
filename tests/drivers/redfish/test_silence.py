"""A BMC that gave no answer is noted as silent until it answers; an error is an answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_lite import errors
from ironic_lite.drivers import deadline, silence
from ironic_lite.drivers.redfish import power
from tests.emulators import bmc
from tests.support.bmc_tasks import BmcTask, task_of, wait_for_answers

POWER = power.RedfishPower()


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


@pytest.fixture
def task(machine: bmc.Machine) -> Iterator[BmcTask]:
    made = task_of(machine)
    silence.SILENT.note(made.node.uuid, silent=False)
    yield made
    silence.SILENT.note(made.node.uuid, silent=False)


def test_a_bmc_without_an_answer_is_silent_until_its_next_one(
    machine: bmc.Machine, task: BmcTask
) -> None:
    wait_for_answers(1)
    machine.tricks["*"] = bmc.silent
    with pytest.raises(errors.BmcUnreachable), deadline.limit(deadline.UNHURRIED):
        POWER.get_power_state(task)
    assert task.node.uuid in silence.SILENT
    wait_for_answers(60)
    machine.tricks.clear()
    POWER.get_power_state(task)
    assert task.node.uuid not in silence.SILENT


def test_a_bmc_that_was_hurried_is_not_silent(machine: bmc.Machine, task: BmcTask) -> None:
    machine.tricks["*"] = bmc.silent
    with pytest.raises(errors.BmcUnreachable), deadline.limit(silence.LEAST_SECONDS / 2):
        POWER.get_power_state(task)
    assert task.node.uuid not in silence.SILENT


def test_an_error_is_an_answer(machine: bmc.Machine, task: BmcTask) -> None:
    silence.SILENT.note(task.node.uuid, silent=True)
    machine.tricks["*"] = bmc.says(503)
    with pytest.raises(errors.BmcUnreachable), deadline.limit(deadline.UNHURRIED):
        POWER.get_power_state(task)
    assert task.node.uuid not in silence.SILENT
