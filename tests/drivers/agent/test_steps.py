"""Steps given to a real agent: begun once, followed until they end, whoever asks."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import ramdisk, steps
from ironic_lite.drivers.agent.deploy import CustomAgentDeploy
from tests.emulators.agent import process
from tests.support.fake_task import FakeTask
from tests.support.real_agent import until

CLEAN = base.StepKind.CLEAN
DEPLOY = CustomAgentDeploy()
LINGER: base.StoredStep = {"interface": "deploy", "step": "linger", "args": {"flag": "go"}}
SCRUB: base.StoredStep = {"interface": "deploy", "step": "scrub", "args": {}}


def ended(task: FakeTask, step: base.StoredStep) -> base.Outcome:
    found: base.Outcome = until(lambda: _ended(task, step))
    return found


def _ended(task: FakeTask, step: base.StoredStep) -> base.Outcome | None:
    outcome = DEPLOY.poll_step(task, CLEAN, step)
    return outcome if outcome is base.DONE else None


def test_a_step_is_begun_once_and_waits_in_no_thread(
    task: FakeTask, machine: process.Agent
) -> None:
    assert DEPLOY.execute_clean_step(task, LINGER) is base.WAIT
    assert task.timers == [steps.SOON]
    # A conductor that died here runs the step again.
    task.keep(steps.COMMAND, None)
    assert DEPLOY.execute_clean_step(task, LINGER) is base.WAIT
    assert DEPLOY.poll_step(task, CLEAN, LINGER) is base.WAIT
    machine.flag()
    assert ended(task, LINGER) is base.DONE
    assert machine.ran() == ["linger"]
    assert task.recall(steps.COMMAND) is None


@pytest.mark.parametrize(
    ("taken", "pause"),
    [(0, steps.SOON), (4, 1.0), (100, 25.0), (3600, None)],
    ids=["just now", "seconds", "minutes", "an hour"],
)
def test_pauses_grow_until_heartbeats_alone_tell(
    task: FakeTask, taken: float, pause: float | None
) -> None:
    DEPLOY.execute_clean_step(task, LINGER)
    known = task.recall(steps.COMMAND)
    task.keep(steps.COMMAND, {**known, "since": known["since"] - taken})
    task.timers.clear()
    assert DEPLOY.poll_step(task, CLEAN, LINGER) is base.WAIT
    assert len(task.timers) == (pause is not None)
    if pause is not None:
        assert task.timers[0] == pytest.approx(pause, rel=0.5, abs=0.2)


def test_a_busy_agent_is_given_the_step_later(task: FakeTask, machine: process.Agent) -> None:
    assert DEPLOY.execute_deploy_step(task, LINGER) is base.WAIT
    assert DEPLOY.execute_clean_step(task, SCRUB) is base.WAIT
    known = task.recall(steps.COMMAND)
    assert known["id"] is None
    # The longer it is busy, the less often it is asked.
    for taken, pause in ((40, 10.0), (4000, steps.LONGEST)):
        task.keep(steps.COMMAND, {**known, "since": known["since"] - taken})
        assert DEPLOY.poll_step(task, CLEAN, SCRUB) is base.WAIT
        assert task.timers[-1] == pytest.approx(pause, rel=0.5)
    machine.flag()
    assert ended(task, SCRUB) is base.DONE
    assert machine.ran() == ["linger", "scrub"]


def test_an_agent_that_is_silent_is_asked_again_for_a_while_and_then_by_its_heartbeats(
    mortal: tuple[process.Agent, FakeTask],
) -> None:
    machine, task = mortal
    DEPLOY.execute_clean_step(task, LINGER)
    machine.kill()
    task.timers.clear()
    assert DEPLOY.poll_step(task, CLEAN, LINGER) is base.WAIT
    for _ in range(3):
        assert DEPLOY.poll_step(task, CLEAN, LINGER) is base.WAIT
    assert (task.timers, task.pauses) == ([2.0, 5.0], [])


def test_a_lost_step_fails_and_says_why(task: FakeTask) -> None:
    DEPLOY.execute_clean_step(task, SCRUB)
    task.keep(steps.COMMAND, {**task.recall(steps.COMMAND), "id": "no-such"})
    with pytest.raises(errors.AgentCommandFailed, match="was restarted during this step"):
        DEPLOY.poll_step(task, CLEAN, SCRUB)


def test_a_reboot_is_written_down_before_it_is_begun(
    task: FakeTask, machine: process.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a conductor that dies in the middle of it leaves it to be repeated."""
    boots: list[str] = []

    def boot(task: base.Task, mode: str = "deploy") -> None:
        boots.append(mode)
        task.forget_agent()

    monkeypatch.setattr(ramdisk, "boot", boot)
    agent = task.agent
    renew: base.StoredStep = {"interface": "deploy", "step": "renew", "reboot_requested": True}
    DEPLOY.execute_clean_step(task, renew)
    until(lambda: DEPLOY.poll_step(task, CLEAN, renew) and "boots" in task.recall(steps.COMMAND))
    assert (boots, task.timers[-1]) == ([], 0)
    # The step is run again by a conductor that finds it begun: nothing is given to the agent.
    assert DEPLOY.execute_clean_step(task, renew) is base.WAIT
    assert DEPLOY.poll_step(task, CLEAN, renew) is base.WAIT
    assert boots == ["deploy"]
    assert DEPLOY.poll_step(task, CLEAN, renew) is base.WAIT
    task.agent = agent
    assert DEPLOY.poll_step(task, CLEAN, renew) is base.DONE
    assert (boots, machine.ran()) == (["deploy"], ["renew"])


@pytest.mark.parametrize(
    ("state", "column", "step", "ends", "asks"),
    [
        ("clean wait", "clean_step", {}, True, False),
        ("clean wait", "clean_step", LINGER, False, True),
        ("clean wait", "clean_step", {"interface": "power", "step": "wait"}, True, False),
        ("clean wait", "clean_step", {"interface": "bios", "step": "x"}, False, False),
        ("wait call-back", "deploy_step", {"interface": "deploy", "step": "deploy"}, True, False),
        ("service wait", "service_step", LINGER, False, True),
        ("rescue wait", "clean_step", {}, False, True),
        ("inspect wait", "clean_step", {}, False, False),
    ],
    ids=["came", "agent's", "wait", "BMC's", "boots", "service", "rescue", "inspect"],
)
def test_heartbeat_ends_waits_by_state_and_step(
    state: str, column: str, step: Any, ends: bool, asks: bool
) -> None:
    task = FakeTask()
    columns = {"clean_step": {}, "deploy_step": {}, "service_step": {}, column: step}
    task.node = base.Node({**task.node.as_dict(), "provision_state": state, **columns})
    task.driver = dataclasses.replace(task.driver, deploy=DEPLOY)
    assert DEPLOY.heartbeat(task) is ends
    assert task.timers == ([0] if asks else [])
