"""Base of all fake interfaces, which plays each step as the node's driver_info says.

Nothing is kept in memory. The state of a fake machine is stored on its node, so it survives a
restart and is the same on every conductor.
"""

from __future__ import annotations

from collections.abc import Mapping

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import steps
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import behaviour

RAMDISK = "fake_ramdisk"
"""Key of the running ramdisk's index in driver_info/fake_agent; absent without a ramdisk."""
BOOTS = "deploy.deploy"
"""The deploy step that boots the ramdisk, and so does not go to its agent."""
MANAGER = "fake"
"""The agent's only hardware manager."""
FAILURES: Mapping[base.StepKind, type[errors.StepFailed]] = {
    base.StepKind.CLEAN: errors.CleanStepFailed,
    base.StepKind.DEPLOY: errors.DeployStepFailed,
    base.StepKind.SERVICE: errors.StepFailed,
    base.StepKind.VERIFY: errors.StepFailed,
}


def told(task: base.Task) -> behaviour.Behaviour:
    """Parse the node's driver_info.

    :raises errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    return behaviour.parse(task.node.driver_info)


def seconds(script: behaviour.Behaviour) -> float:
    """Return the duration of a step on this node."""
    if script.step_seconds is not None:
        return script.step_seconds
    return float(config.CONF.fake.step_seconds)


def fail_verb(task: base.Task, verb: str) -> None:
    """Fail if driver_info requests it for ``verb`` (one of ``behaviour.VERBS``).

    :raises errors.HardwareError: with the operator's message.
    """
    message = told(task).fail_verbs.get(verb)
    if message is not None:
        raise errors.HardwareError(reason=message)


def play_call(task: base.Task, title: str) -> None:
    """Take a step's time for a call (one of ``behaviour.CALLS``); fail if requested.

    :raises errors.HardwareError: with the operator's message.
    """
    script = told(task)
    if seconds(script):
        task.pause(seconds(script))
    if title in script.fail_calls:
        raise errors.HardwareError(reason=script.fail_calls[title])


def waits(task: base.Task, verb: str) -> bool:
    """Set the timer and return True if ``verb`` is to pass through its wait state."""
    script = told(task)
    if verb not in script.async_verbs:
        return False
    task.wake_after(seconds(script))
    return True


def meet_agent(task: base.Task, title: str) -> None:
    """Give a step to the running agent, if there is one.

    :raises errors.AgentChanged: the agent is not the one that listed its steps (S2.29).
    """
    running, disks = task.recall(RAMDISK), told(task).agent
    if running is None or not disks or title == BOOTS:
        return
    if running + 1 < len(disks) and disks[running + 1].at == title:
        running += 1
        task.keep(RAMDISK, running)
    version = disks[min(running, len(disks) - 1)].version
    if task.manager_version != {MANAGER: version}:
        raise errors.AgentChanged(reason=f"now it is version {version}")


class Staged(base.Interface):
    """Base of all fake interfaces: the keys, their checks, and the play of a step.

    A step takes its time, then fails if requested, and only then has its effect. A waiting step
    does the same at the end of its wait.
    """

    def get_properties(self) -> dict[str, str]:
        """Return the ``fake_`` keys that control this interface."""
        return behaviour.properties(self.kind, with_steps=bool(self._own_steps()))

    def validate(self, task: base.Task) -> None:
        """Check the ``fake_`` keys.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        self.check_driver_info(task.node.driver_info)

    def check_driver_info(self, driver_info: JsonView) -> None:
        """Reject invalid values of the ``fake_`` keys.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        behaviour.check(driver_info, self.kind, self._own_steps)

    def _own_steps(self) -> set[str]:
        kinds = (steps.collect(self.kind, self, kind) for kind in base.StepKind)
        return {step.name for listed in kinds for step in listed}

    def uses_agent(self, task: base.Task) -> bool:
        """Return whether the machine has a ramdisk with an agent (driver_info/fake_agent)."""
        return bool(told(task).agent)

    def execute_clean_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a clean step.

        :raises errors.CleanStepFailed: told to, or an argument is wrong (S1.17).
        """
        return self._play_step(task, base.StepKind.CLEAN, step)

    def execute_deploy_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a deploy step.

        :raises errors.DeployStepFailed: told to, or an argument is wrong (S3.17).
        """
        return self._play_step(task, base.StepKind.DEPLOY, step)

    def execute_service_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a service step.

        :raises errors.StepFailed: told to, or an argument is wrong.
        """
        return self._play_step(task, base.StepKind.SERVICE, step)

    def execute_verify_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a verify step, never waiting.

        :raises errors.StepFailed: told to.
        """
        return self._play_step(task, base.StepKind.VERIFY, step)

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """End a waiting step, because its time is over.

        :raises errors.StepFailed: or its child of this kind, as when the step had not waited.
        """
        return self._end_step(task, kind, step) or base.DONE

    def _play_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome | None:
        script = told(task)
        time = seconds(script)
        if kind is not base.StepKind.VERIFY and script.waits(self._step_title(step)):
            task.wake_after(time)
            return base.WAIT
        if time:
            task.pause(time)
        return self._end_step(task, kind, step)

    def _end_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome | None:
        title = self._step_title(step)
        meet_agent(task, title)
        message = told(task).fail_steps.get(title)
        if message is not None:
            raise FAILURES[kind](step=title, reason=message)
        if title in told(task).agents and step["step"] not in self._own_steps():
            return None  # the agent has done it
        try:
            return self._execute(task, step)
        except errors.InvalidParameter as why:
            # A step does not know for which list it runs; here it is known.
            raise FAILURES[kind](step=title, reason=why.message) from why

    def _step_title(self, step: base.StoredStep) -> str:
        return f"{self.kind}.{step['step']}"
