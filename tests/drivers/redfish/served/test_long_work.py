"""Work that takes a BMC minutes: it is followed over restarts and lost sessions, on either side.

Whatever happens in the middle, the machine is in the end as it was asked for, and the node
manageable; or the node has failed, and says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.conductor.work.task import Task
from ironic_lite.core import config
from tests.emulators import bmc
from tests.emulators.bmc import shapes
from tests.support.redfish_faults import USERS, Spoil, nothing_held, says
from tests.support.redfish_jobs import CARD, JOBS, Job
from tests.support.redfish_service import RedfishOperator

INTERFACES = {f"{kind}_interface": "redfish" for kind in ("bios", "firmware", "raid")}
each_job = pytest.mark.parametrize("title", JOBS)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers that ring after fractions of a second."""
    wake_after = Task.wake_after

    def wake_soon(task: Task, seconds: float) -> None:
        wake_after(task, min(seconds, 0.02))

    monkeypatch.setattr(Task, "wake_after", wake_soon)


def starts(operator: RedfishOperator, machine: bmc.Machine, job: Job) -> str:
    """Enroll the machine's node, and ask for the work."""
    body = {"driver_info": machine.driver_info, **INTERFACES}
    node = operator.enroll("manageable", driver="redfish", **body)
    job.prepare(operator, node, machine)
    answer = operator.asks(node, "clean", clean_steps=[job.step])
    assert answer.status == 202, answer.text
    return node


def succeeds(operator: RedfishOperator, node: str, machine: bmc.Machine, job: Job) -> None:
    """Wait for the good end."""
    operator.rig.reaches(node, "manageable")
    shown = operator.shows(node)
    assert (shown["last_error"], shown["maintenance"], nothing_held(shown)) == (None, False, True)
    assert job.done(machine)
    assert "clean wait" in operator.rig.path(node)


def after_first(machine: bmc.Machine, title: str, spoil: Spoil) -> None:
    """Spoil the machine when it has answered the first request of this title."""

    def play(handler: bmc.Handler) -> None:
        machine.tricks.pop(title, None)
        reply = machine.answer(handler.request_read)
        spoil(machine)
        handler.say(reply.status, reply.document, **reply.headers)

    machine.tricks[title] = play


# -- what is followed -----------------------------------------------------------------------------

HABITS: dict[str, dict[str, Any]] = {
    "at once": {"tasks": frozenset()},
    "slow": {"task_polls": 6},
    "collections given whole": {"expands": True},
    "without the task in its answer": {"task_body": False},
    "monitor ends as the operation": {"monitor_end": "operation", "task_body": False},
    "monitor is gone at the end": {"monitor_end": "gone", "task_body": False},
    "tasks vanish": {"tasks_vanish": True},
    "changes volumes without a task": {"task_hidden": 204, "task_polls": 12},
    "redirected": {"redirects": 301},
    "too early": {"early": 2},
    "settings as a task": {"tasks": frozenset({"create", "delete", "bios"})},
}


@each_job
@pytest.mark.parametrize("habit", HABITS)
def test_work_is_followed_however_the_bmc_shows_it(
    operator: RedfishOperator, machine: bmc.Machine, title: str, habit: str
) -> None:
    for name, value in HABITS[habit].items():
        setattr(machine.habits, name, value)
    succeeds(operator, starts(operator, machine, JOBS[title]), machine, JOBS[title])


@pytest.mark.parametrize("title", [f"firmware.update of {part}" for part in ("bios", CARD)])
@pytest.mark.parametrize("shown", ["service", "inventory"])
def test_machine_keeps_its_power_while_firmware_is_written_without_a_task(
    operator: RedfishOperator, machine: bmc.Machine, title: str, shown: str
) -> None:
    machine.habits.update_shown, machine.habits.task_polls = shown, 60
    succeeds(operator, starts(operator, machine, JOBS[title]), machine, JOBS[title])
    assert (machine.ruined, machine.sent) == (False, ["On"])


def test_clean_fails_if_nothing_shows_the_end_of_an_update(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    config.CONF.set_override("firmware_update_unseen_wait", 0, group="redfish")
    machine.habits.update_shown, machine.habits.task_polls = "nothing", 60
    node = starts(operator, machine, JOBS["firmware.update of bios"])
    operator.rig.reaches(node, "clean failed")
    assert "need a restart of the machine by hand" in operator.shows(node)["last_error"]
    assert (machine.ruined, machine.sent) == (False, [])


def test_deployment_that_fails_meanwhile_leaves_the_machine_on(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    """[deploy]power_off_after_deploy_failure would switch it off while its BMC writes."""
    config.CONF.set_override("firmware_update_unseen_wait", 0, group="redfish")
    machine.habits.update_shown, machine.habits.task_polls = "nothing", 200
    machine[machine.system]["PowerState"] = "On"
    body = {"driver_info": machine.driver_info, **INTERFACES}
    node = operator.enroll("available", driver="redfish", **body)
    step = {**JOBS["firmware.update of bios"].step, "priority": 150}
    assert operator.asks(node, "active", deploy_steps=[step]).status == 202
    operator.rig.reaches(node, "deploy failed")
    assert "need a restart of the machine by hand" in operator.shows(node)["last_error"]
    assert (machine.ruined, machine.sent) == (False, [])


@each_job
@pytest.mark.parametrize("make", [name for name in shapes.MAKES if name != "contoso"])
def test_work_is_done_on_machines_of_each_make(
    operator: RedfishOperator, title: str, make: str
) -> None:
    with bmc.serve(make=make, users=USERS) as machine:
        succeeds(operator, starts(operator, machine, JOBS[title]), machine, JOBS[title])


# -- what passes in the middle --------------------------------------------------------------------


def restarts(status: int) -> Spoil:
    """Return a restart of the BMC that is noticed for ten requests."""

    def spoil(machine: bmc.Machine) -> None:
        machine.habits.restart_requests = 10
        machine.habits.restart_status = status
        machine.restart()

    return spoil


MIDDLE: dict[str, Spoil] = {
    "sessions run out": lambda machine: machine.forget_sessions(),
    "the BMC restarts": restarts(503),
    "the BMC restarts and breaks connections": restarts(0),
    "the BMC restarts and finds nothing": restarts(404),
}


@each_job
@pytest.mark.parametrize("what", MIDDLE)
def test_passing_bmc_fault_does_not_fail_a_long_job(
    operator: RedfishOperator, machine: bmc.Machine, title: str, what: str
) -> None:
    machine.habits.task_seconds = 0.1
    after_first(machine, JOBS[title].asked, MIDDLE[what])
    node = starts(operator, machine, JOBS[title])
    succeeds(operator, node, machine, JOBS[title])
    assert machine.silent_for == 0


@each_job
def test_another_conductor_goes_on_with_it(
    serve: Callable[..., RedfishOperator], machine: bmc.Machine, title: str
) -> None:
    machine.habits.task_polls = 1_000_000
    machine.habits.power_polls = 2
    first = serve()
    after_first(
        machine, JOBS[title].asked, lambda machine: first.rig.service.runtime.stopping.set()
    )
    node = starts(first, machine, JOBS[title])
    first.rig.bury()
    assert first.rig.service.runtime.workers.wait_idle(10)
    machine.habits.task_polls = 1
    for task in machine.tasks:
        task.polls = 1
    second = serve()
    succeeds(second, node, machine, JOBS[title])


# -- what does not pass ---------------------------------------------------------------------------


@pytest.mark.parametrize("title", [title for title, job in JOBS.items() if job.tasks])
def test_work_that_fails_says_what_the_bmc_says(
    operator: RedfishOperator, machine: bmc.Machine, title: str
) -> None:
    machine.habits.tasks |= {"bios"}
    machine.habits.task_fails = "The controller is on fire."
    node = starts(operator, machine, JOBS[title])
    operator.rig.reaches(node, "clean failed")
    shown = operator.shows(node)
    assert (shown["maintenance"], shown["fault"]) == (True, "clean failure")
    assert nothing_held(shown)
    assert says(shown, JOBS[title].title, "The controller is on fire")


@each_job
def test_work_that_is_refused_says_so_and_nothing_is_changed(
    operator: RedfishOperator, machine: bmc.Machine, title: str
) -> None:
    machine.tricks[JOBS[title].asked] = bmc.says(400, {"error": {"message": "Not licensed."}})
    node = starts(operator, machine, JOBS[title])
    operator.rig.reaches(node, "clean failed")
    assert says(operator.shows(node), JOBS[title].title, "Not licensed")
    assert machine.sent == []
