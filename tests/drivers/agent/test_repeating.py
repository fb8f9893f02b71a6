"""A conductor died in the middle of an agent's step: may the next one run it again?"""

from ironic_lite.drivers import base
from ironic_lite.drivers.agent.client import Client
from ironic_lite.drivers.agent.direct import DirectDeploy
from tests.emulators.agent import process
from tests.support.fake_task import FakeTask
from tests.support.real_agent import until

DEPLOY = base.StepKind.DEPLOY
LINGER: base.StoredStep = {"step": "linger", "interface": "deploy", "priority": 0, "args": {}}


def test_a_step_that_its_agent_knows_is_not_run_twice(
    task: FakeTask, machine: process.Agent
) -> None:
    task.node.provision_state = "deploying"
    deploy = DirectDeploy()
    assert deploy.execute_deploy_step(task, LINGER) is base.WAIT
    task.keep("agent_command", None)  # the conductor died before it was written down
    assert deploy.may_repeat(task, DEPLOY, LINGER)
    assert deploy.execute_deploy_step(task, LINGER) is base.WAIT
    machine.flag()
    until(lambda: deploy.poll_step(task, DEPLOY, LINGER) is base.DONE)
    assert machine.ran() == ["linger"]


def test_a_step_of_an_agent_that_was_started_meanwhile_is_not_run_again(
    mortal: tuple[process.Agent, FakeTask],
) -> None:
    machine, task = mortal
    task.node.provision_state = "deploying"
    deploy = DirectDeploy()
    assert deploy.agent_steps(task, DEPLOY)
    assert deploy.execute_deploy_step(task, LINGER) is base.WAIT
    until(lambda: machine.ran() == ["linger"])
    assert deploy.may_repeat(task, DEPLOY, LINGER)
    machine.kill()
    assert not deploy.may_repeat(task, DEPLOY, LINGER)
    machine.environment["MACHINE_KEEPS_TLS"] = "yes"
    machine.parameters["agent_token"] = task.agent.token if task.agent else ""
    machine.start()
    machine.answers()
    assert Client(task).commands() == []
    assert not deploy.may_repeat(task, DEPLOY, LINGER)


def test_a_step_of_the_interface_itself_is_judged_by_its_mark(task: FakeTask) -> None:
    deploy = DirectDeploy()
    for name, again in (("write_image", True), ("no such step", False)):
        step: base.StoredStep = {**LINGER, "step": name}
        task.agent = None
        assert deploy.may_repeat(task, DEPLOY, step) is again
