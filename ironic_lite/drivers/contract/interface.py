"""What all kinds of interfaces have in common: properties, validation and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_lite import errors, steps
from ironic_lite.drivers.contract.task import Task
from ironic_lite.steps import DONE, Outcome, StepKind


class Interface:
    """The part common to all interface kinds: properties, validation and steps (S2.6, S2.8,
    S3.16).
    """

    kind: ClassVar[str] = ""
    # True if a ramdisk's agent has steps for this interface, and its heartbeats end them.
    in_band: ClassVar[bool] = False

    def uses_agent(self, task: Task) -> bool:
        """Tell whether an agent adds steps to this interface's own on this node.

        They join the list once ``Deploy.agent_steps`` has told them; ``execute_<kind>_step`` is
        then called with them, too. A step of the interface's own hides one of the same name.
        """
        return self.in_band

    def get_properties(self) -> dict[str, str]:
        """Return ``{driver_info key: description}``; "Required." ends a description if it is."""
        return {}

    def close(self) -> None:
        """End what is kept open at machines; the conductor stops, and waits for it.

        Called once for each interface that is enabled, after all work; it may take some seconds.
        """

    def validate(self, task: Task) -> None:
        """Check the node's settings without touching hardware.

        :raises errors.InvalidParameter, errors.MissingParameter: naming ``driver_info/<key>``.
        """

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        """Refuse nonsense at the moment it is written (node create and PATCH), missing keys
        allowed.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """

    # -- steps -------------------------------------------------------------------------------

    def get_clean_steps(self, task: Task) -> list[dict[str, Any]]:
        """Return all clean steps as wire dictionaries, highest priority first (S2.6, S2.7).

        :raises errors.StepsUnavailable: the list comes from an agent that has not run yet (S1.26).
        """
        return self._steps(StepKind.CLEAN)

    def get_deploy_steps(self, task: Task) -> list[dict[str, Any]]:
        """Return all deploy steps as wire dictionaries, highest priority first (S3.16)."""
        return self._steps(StepKind.DEPLOY)

    def get_service_steps(self, task: Task) -> list[dict[str, Any]]:
        """Return all service steps as wire dictionaries, highest priority first."""
        return self._steps(StepKind.SERVICE)

    def get_verify_steps(self, task: Task) -> list[dict[str, Any]]:
        """Return all verify steps as wire dictionaries, highest priority first."""
        return self._steps(StepKind.VERIFY)

    def execute_clean_step(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        """Run the named clean step; ``step`` is a wire dictionary, its args become keywords
        (S1.19).

        :raises errors.CleanStepFailed: or any other error of ours: the clean fails with it (S2.8).
        :raises errors.AgentChanged: the agent has other hardware managers than
            ``task.manager_version``, and has not begun the step. It is asked for its steps anew;
            then an automated clean begins again, anything else runs this step again (S2.29).
        """
        return self._execute(task, step)

    def execute_deploy_step(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        """Run the named deploy step (S3.17).

        :raises errors.DeployStepFailed: or any other error of ours: the deploy fails with it.
        """
        return self._execute(task, step)

    def execute_service_step(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        """Run the named service step."""
        return self._execute(task, step)

    def execute_verify_step(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        """Run the named verify step."""
        return self._execute(task, step)

    def poll_step(self, task: Task, kind: StepKind, step: Mapping[str, Any]) -> Outcome:
        """Say whether a waiting step has ended; called when the time given to ``wake_after`` is
        over.

        Return WAIT after another ``wake_after`` to be asked again; raise to fail the step;
        ``errors.AgentChanged`` is as in ``execute_clean_step``.
        """
        return DONE

    def may_repeat(self, task: Task, kind: StepKind, step: Mapping[str, Any]) -> bool:
        """Tell whether a step may be run again after a conductor died in the middle of it (S2.24).

        Those that are marked ``rerunnable`` may. Clean steps are not asked about: all of them may.
        """
        marked = steps.collect(self.kind, self, kind)
        return any(one.rerunnable for one in marked if one.name == step["step"])

    def _steps(self, kind: StepKind) -> list[dict[str, Any]]:
        found = steps.collect(self.kind, self, kind)
        found.sort(key=lambda step: -step.priority)
        return [steps.as_driver_dict(step, kind) for step in found]

    def _execute(self, task: Task, step: Mapping[str, Any]) -> Outcome | None:
        method = getattr(self, step["step"])
        outcome: Outcome | None = method(task, **(step.get("args") or {}))
        return outcome

    def unsupported(self, task: Task, extension: str) -> errors.UnsupportedDriverExtension:
        """Return the error for something this driver cannot do."""
        return errors.UnsupportedDriverExtension(driver=task.node.driver, extension=extension)
