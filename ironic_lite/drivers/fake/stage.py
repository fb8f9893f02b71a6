"""The rehearsal stage all fake interfaces stand on: plays each step as the node's driver_info says.

Nothing is held in memory. What a fake machine remembers is kept on its node, so it survives a
restart and is the same on every conductor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_lite import config, errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import behaviour

FAILURES: Mapping[base.StepKind, type[errors.StepFailed]] = {
    base.StepKind.CLEAN: errors.CleanStepFailed,
    base.StepKind.DEPLOY: errors.DeployStepFailed,
    base.StepKind.SERVICE: errors.StepFailed,
    base.StepKind.VERIFY: errors.StepFailed,
}


def told(task: base.Task) -> behaviour.Behaviour:
    """Return what the node's driver_info says.

    :raises errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    return behaviour.parse(task.node.driver_info)


def seconds(script: behaviour.Behaviour) -> float:
    """Return how long a step takes on this node."""
    if script.step_seconds is not None:
        return script.step_seconds
    return float(config.CONF.fake.step_seconds)


def fail_verb(task: base.Task, verb: str) -> None:
    """Fail if the operator wants ``verb`` (one of ``behaviour.VERBS``) to.

    :raises errors.HardwareError: with the operator's message.
    """
    message = told(task).fail_verbs.get(verb)
    if message is not None:
        raise errors.HardwareError(reason=message)


def waits(task: base.Task, verb: str) -> bool:
    """Set the timer and return True if ``verb`` is to go through its wait state."""
    script = told(task)
    if verb not in script.async_verbs:
        return False
    task.wake_after(seconds(script))
    return True


class Staged(base.Interface):
    """What all fake interfaces share: the keys, their checks, and how a step is played.

    A step takes its time, then fails if it is told to, and only then has its effect. One that is to
    wait does the same at the end of its wait.
    """

    def get_properties(self) -> dict[str, str]:
        """Return the ``fake_`` keys."""
        return dict(behaviour.PROPERTIES)

    def validate(self, task: base.Task) -> None:
        """Check the ``fake_`` keys.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        told(task)

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        """Refuse nonsense in the ``fake_`` keys.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        behaviour.parse(driver_info)

    def execute_clean_step(self, task: base.Task, step: Mapping[str, Any]) -> base.Outcome | None:
        """Play a clean step.

        :raises errors.CleanStepFailed: told to, or an argument is wrong (S1.17).
        """
        return self._play(task, base.StepKind.CLEAN, step)

    def execute_deploy_step(self, task: base.Task, step: Mapping[str, Any]) -> base.Outcome | None:
        """Play a deploy step.

        :raises errors.DeployStepFailed: told to, or an argument is wrong (S3.17).
        """
        return self._play(task, base.StepKind.DEPLOY, step)

    def execute_service_step(self, task: base.Task, step: Mapping[str, Any]) -> base.Outcome | None:
        """Play a service step.

        :raises errors.StepFailed: told to, or an argument is wrong.
        """
        return self._play(task, base.StepKind.SERVICE, step)

    def execute_verify_step(self, task: base.Task, step: Mapping[str, Any]) -> base.Outcome | None:
        """Play a verify step, never waiting.

        :raises errors.StepFailed: told to.
        """
        return self._play(task, base.StepKind.VERIFY, step)

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome:
        """End a waiting step: its time is over.

        :raises errors.StepFailed: or its child of this kind, as when the step had not waited.
        """
        return self._end(task, kind, step) or base.DONE

    def _play(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome | None:
        script = told(task)
        time = seconds(script)
        if kind is not base.StepKind.VERIFY and script.waits(self._title(step)):
            task.wake_after(time)
            return base.WAIT
        if time:
            task.pause(time)
        return self._end(task, kind, step)

    def _end(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome | None:
        title = self._title(step)
        message = told(task).fail_steps.get(title)
        if message is not None:
            raise FAILURES[kind](step=title, reason=message)
        try:
            return self._execute(task, step)
        except errors.InvalidParameter as why:
            # A step does not know for which list it runs; here it is known.
            raise FAILURES[kind](step=title, reason=why.message) from why

    def _title(self, step: Mapping[str, Any]) -> str:
        return f"{self.kind}.{step['step']}"
