"""Runs on machines whose BMC goes away in the middle: what passes is not noticed, the rest is said.

Each run ends in its own fail state, with the step and the reason in last_error, and nothing locked.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ironic_lite.conductor.engine.task import Task
from ironic_lite.core import config
from ironic_lite.drivers import bmc_bases
from tests.emulators import bmc
from tests.emulators.bmc import shapes
from tests.support import bmc_tasks
from tests.support.redfish_faults import (
    BAD_POWER,
    PASSING,
    USERS,
    Spoil,
    at_reset,
    nothing_held,
    repair,
    says,
)
from tests.support.redfish_jobs import CARD, JOBS, SETTINGS, Job
from tests.support.redfish_service import RedfishOperator

POWER_CYCLE = [{"interface": "power", "step": name} for name in ("power_on", "power_off")]
RESET_BMC = [{"interface": "management", "step": "reset_bmc"}]


@pytest.mark.parametrize("what", PASSING)
def test_passing_bmc_fault_does_not_fail_a_run(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    node = operator.at(machine)
    at_reset(machine, "ForceOff", PASSING[what])
    shown = operator.provision(node, "clean", clean_steps=POWER_CYCLE)
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    assert (shown["power_state"], shown["maintenance"]) == ("power off", False)
    assert machine.sent == ["On", "ForceOff"]


@pytest.mark.parametrize("what", PASSING)
def test_a_life_goes_on_over_what_passes(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    node = operator.at(machine, "available")
    at_reset(machine, "On", PASSING[what])
    assert operator.provision(node, "active")["provision_state"] == "active"
    at_reset(machine, "ForceOff", PASSING[what])
    shown = operator.provision(node, "deleted")
    assert (shown["provision_state"], shown["last_error"]) == ("available", None)
    assert machine.sent == ["On", "ForceOff"]


@pytest.mark.parametrize("what", BAD_POWER)
def test_a_clean_ends_in_its_fail_state_and_can_be_tried_again(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    spoil, words = BAD_POWER[what]
    node = operator.at(machine)
    bmc_tasks.wait_for_answers(10)  # also of the request that is spoiled
    at_reset(machine, "On", spoil)
    shown = operator.provision(node, "clean", clean_steps=POWER_CYCLE)
    assert shown["provision_state"] == "clean failed"
    assert (shown["maintenance"], shown["fault"]) == (True, "clean failure")
    assert shown["maintenance_reason"] == shown["last_error"]
    assert nothing_held(shown)
    assert says(shown, "power.power_on", *words)
    repair(machine)
    assert operator.provision(node, "manage")["provision_state"] == "manageable"
    assert operator.api.delete(f"/v1/nodes/{node}/maintenance").status == 202
    shown = operator.provision(node, "clean", clean_steps=POWER_CYCLE)
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)


@pytest.mark.parametrize("what", BAD_POWER)
def test_a_deployment_ends_in_its_fail_state_and_can_be_tried_again(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    spoil, words = BAD_POWER[what]
    node = operator.at(machine, "available")
    bmc_tasks.wait_for_answers(10)  # also of the request that is spoiled
    at_reset(machine, "On", spoil)
    shown = operator.provision(node, "active")
    assert (shown["provision_state"], shown["target_provision_state"]) == (
        "deploy failed",
        "active",
    )
    assert shown["deploy_step"]["step"] == "boot_instance"
    assert not shown["maintenance"]
    assert nothing_held(shown)
    assert says(shown, "deploy.boot_instance", *words)
    repair(machine)
    shown = operator.provision(node, "active")
    assert (shown["provision_state"], shown["last_error"]) == ("active", None)


@pytest.mark.parametrize("what", ["breaks the BMC", "silences the BMC", "is forbidden"])
def test_a_tear_down_ends_in_error_and_can_be_tried_again(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    spoil, words = BAD_POWER[what]
    node = operator.at(machine, "active")
    spoil(machine)
    shown = operator.provision(node, "deleted")
    assert (shown["provision_state"], nothing_held(shown)) == ("error", True)
    assert says(shown, "Failed to tear down node", *words)
    repair(machine)
    shown = operator.provision(node, "deleted")
    assert (shown["provision_state"], shown["last_error"]) == ("available", None)
    assert machine[machine.system]["PowerState"] == "Off"


# -- restarting the BMC ourselves -----------------------------------------------------------------


@pytest.mark.parametrize("status", [503, 0, 401, 500])
def test_a_bmc_that_is_restarted_is_waited_for(
    operator: RedfishOperator, machine: bmc.Machine, status: int
) -> None:
    machine.habits.restart_status = status
    machine.habits.restart_requests = 15
    node = operator.at(machine)
    operator.asks(node, "clean", clean_steps=RESET_BMC)
    shown = operator.rig.reaches(node, "manageable")
    assert (shown["last_error"], shown["maintenance"]) == (None, False)
    assert "clean wait" in operator.rig.path(node)
    assert machine.silent_for == 0


def test_a_bmc_that_does_not_come_back_fails_the_clean(
    operator: RedfishOperator, machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bmc_bases, "RESET_SECONDS", 0.1)
    machine.habits.restart_requests = 1_000_000
    node = operator.at(machine)
    operator.asks(node, "clean", clean_steps=RESET_BMC)
    shown = operator.rig.reaches(node, "clean failed")
    assert (shown["maintenance"], shown["fault"]) == (True, "clean failure")
    assert says(operator.shows(node), "management.reset_bmc", "did not come back", "HTTP 503")


# -- the power comparison -------------------------------------------------------------------------

UNREADABLE: dict[str, tuple[Spoil, tuple[str, ...]]] = {
    what: BAD_POWER[what] for what in ("breaks the BMC", "silences the BMC", "is forbidden")
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_machine_in_use_that_falls_silent_gets_a_fault_and_recovers_by_itself(
    serve: Callable[..., RedfishOperator], machine: bmc.Machine, what: str
) -> None:
    operator = serve(conductor__power_state_sync_max_retries=1)
    spoil, words = UNREADABLE[what]
    node = operator.at(machine, "active")
    spoil(machine)
    operator.sweeps("power sync")
    assert operator.shows(node)["maintenance"] is False
    operator.sweeps("power sync")
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["fault"]) == ("active", "power failure")
    assert (shown["maintenance"], shown["power_state"], nothing_held(shown)) == (True, None, True)
    assert says(shown, "Power state could not be read 2 times in a row", *words)
    repair(machine)
    operator.sweeps("power recovery")
    shown = operator.shows(node)
    assert (shown["maintenance"], shown["fault"], shown["last_error"]) == (False, None, None)
    assert shown["power_state"] == "power on"


# Retries on a machine with Redfish: each step fails in turn, and kept steps run once.

Json = dict[str, Any]
REFUSED = {"error": {"message": "The door is open."}}
RESET = "POST */ComputerSystem.Reset"


class Step(NamedTuple):
    """A clean step.

    :ivar title: pattern of the request by which the step changes the machine.
    :ivar word: the reset type of this request, if others have the same title.
    :ivar lasts: False if the step runs again in every retry.
    """

    listed: Json
    title: str
    word: str | None = None
    lasts: bool = True


def _step(interface: str, step: str, **args: Any) -> Json:
    return {"interface": interface, "step": step, "args": args}


STEPS = (
    Step(_step("power", "power_on"), RESET, "On", lasts=False),
    Step(_step("power", "power_off"), RESET, "ForceOff", lasts=False),
    Step(_step("bios", "apply_configuration", settings=SETTINGS), "PATCH */Bios*"),
    Step(_step("management", "reset_bmc"), "POST */Manager.Reset"),
    Step(_step("management", "set_bmc_clock"), "PATCH */Managers/*"),
    Step(_step("bios", "factory_reset"), "POST */Bios.ResetBios"),
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers that ring after fractions of a second."""
    wake_after = Task.wake_after

    def wake_soon(task: Task, seconds: float) -> None:
        wake_after(task, min(seconds, 0.02))

    monkeypatch.setattr(Task, "wake_after", wake_soon)


def refuse(machine: bmc.Machine, step: Step) -> None:
    """Let the BMC refuse the request of a step."""

    def play(handler: bmc.Handler) -> None:
        word = (handler.request_read.body or {}).get("ResetType")
        if step.word in (None, word):
            handler.say(400, REFUSED)
        else:
            handler.truth()

    machine.tricks[step.title] = play


def count(requests: list[Any], step: Step) -> int:
    """Return how often a step has changed the machine, or tried to."""
    return sum(
        fnmatch.fnmatchcase(one.title, step.title)
        and step.word in (None, (one.body or {}).get("ResetType"))
        for one in requests
    )


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_retry_runs_no_kept_step_again(
    operator: RedfishOperator, machine: bmc.Machine, at: int
) -> None:
    kinds = {f"{kind}_interface": "redfish" for kind in ("bios", "management")}
    node = operator.enroll("manageable", driver="redfish", driver_info=machine.driver_info, **kinds)
    refuse(machine, STEPS[at])
    operator.asks(node, "clean", clean_steps=[step.listed for step in STEPS])
    operator.rig.reaches(node, "clean failed")
    failed = operator.rig.run(node)
    assert [step["state"] for step in failed["steps"]][: at + 1] == ["done"] * at + ["failed"]
    before = list(machine.requests)

    machine.tricks.clear()
    operator.asks(node, "retry")
    operator.rig.reaches(node, "manageable")
    assert operator.shows(node)["last_error"] is None
    retried = operator.rig.run(node)
    after = machine.requests[len(before) :]
    for place, (step, row) in enumerate(zip(STEPS, retried["steps"], strict=True)):
        kept = place < at and step.lasts
        assert row["state"] == "done"
        assert row["done_in"] == (failed["uuid"] if kept else None)
        if step.lasts:
            assert (count(before, step) > 0, count(after, step) > 0) == (place <= at, not kept)
        if kept:
            assert count(machine.requests, step) == 1


# Work that takes a BMC minutes: it is followed over restarts and lost sessions, on either side.
#
# Whatever happens in the middle, the machine is in the end as it was asked for, and the node
# manageable; or the node has failed, and says why.

INTERFACES = {f"{kind}_interface": "redfish" for kind in ("bios", "firmware", "raid")}
each_job = pytest.mark.parametrize("title", JOBS)


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
    assert first.rig.service.runtime.workers.wait_idle(60)
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
