"""Base of all interface kinds: properties, validation and steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import steps
from ironic_lite.domain.examination import Check
from ironic_lite.domain.steps import DONE, Effects, Outcome, StepKind
from ironic_lite.drivers import settings
from ironic_lite.drivers.contract.task import Task
from ironic_lite.records import StoredStep


class Interface:
    """The common part of all interface kinds.

    Source: S2.6, S2.8, S3.16.
    """

    kind: ClassVar[str] = ""
    # True if a ramdisk's agent has steps for this interface, and its heartbeats end them.
    in_band: ClassVar[bool] = False
    work_notes: ClassVar[Sequence[str]] = ()
    """Keys that are kept while a BMC works on a step, which a power change would disturb."""
    connection_checks: ClassVar[Sequence[Check[Any]]] = ()
    """Checks of the way to the machine's BMC, for ``GET /v1/doctor``, in the order of the way.

    Their subject is a read-only task. They only read, and limit the time of each request.
    """

    def uses_agent(self, task: Task) -> bool:
        """Return whether an agent adds steps to this interface's own on this node.

        These steps join the list after ``Deploy.agent_steps`` has reported them;
        ``execute_<kind>_step`` then runs them too. An own step hides an agent's step of the same
        name.
        """
        return self.in_band

    def property_groups(self) -> settings.GroupedFields:
        """Return the keys of driver_info that this interface reads, by their groups in forms."""
        return {}

    def get_properties(self) -> dict[str, str]:
        """Return ``{driver_info key: description}``; a required key's description ends
        "Required."."""
        return settings.properties(self.property_groups())

    def close(self) -> None:
        """Close everything that is open at machines; the stopping conductor waits for it.

        Called once for each enabled interface, after all work. It may take some seconds; the
        conductor waits 10 s for all interfaces together.
        """

    def validate(self, task: Task) -> None:
        """Check the node's settings without touching hardware.

        :raises errors.InvalidParameter, errors.MissingParameter: naming ``driver_info/<key>``.
        """

    def check_driver_info(self, driver_info: JsonView) -> None:
        """Reject invalid values when they are written (node create and PATCH); keys may be missing.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        for fields in self.property_groups().values():
            settings.values(fields, driver_info)

    # -- steps -------------------------------------------------------------------------------

    def get_clean_steps(self, task: Task) -> list[StoredStep]:
        """Return all clean steps as wire dictionaries, highest priority first.

        :raises errors.StepsUnavailable: the list comes from an agent that has not run yet (S1.26).

        Source: S2.6, S2.7.
        """
        return self._steps(StepKind.CLEAN)

    def get_deploy_steps(self, task: Task) -> list[StoredStep]:
        """Return all deploy steps as wire dictionaries, highest priority first.

        Source: S3.16.
        """
        return self._steps(StepKind.DEPLOY)

    def get_service_steps(self, task: Task) -> list[StoredStep]:
        """Return all service steps as wire dictionaries, highest priority first."""
        return self._steps(StepKind.SERVICE)

    def get_verify_steps(self, task: Task) -> list[StoredStep]:
        """Return all verify steps as wire dictionaries, highest priority first."""
        return self._steps(StepKind.VERIFY)

    def execute_clean_step(self, task: Task, step: StoredStep) -> Outcome | None:
        """Run the named clean step; ``step`` is a wire dictionary, its args become keywords.

        :raises errors.CleanStepFailed: or another error of ours: the clean fails with it (S1.19,
            S2.8).
        :raises errors.AgentChanged: the agent has other hardware managers than
            ``task.manager_version``, and has not begun the step. The conductor asks for its steps
            again; then an automated clean starts over, and any other run repeats this step (S2.29).
        """
        return self._execute(task, step)

    def execute_deploy_step(self, task: Task, step: StoredStep) -> Outcome | None:
        """Run the named deploy step.

        :raises errors.DeployStepFailed: or another error of ours: the deploy fails with it.

        Source: S3.17.
        """
        return self._execute(task, step)

    def execute_service_step(self, task: Task, step: StoredStep) -> Outcome | None:
        """Run the named service step."""
        return self._execute(task, step)

    def execute_verify_step(self, task: Task, step: StoredStep) -> Outcome | None:
        """Run the named verify step."""
        return self._execute(task, step)

    def poll_step(self, task: Task, kind: StepKind, step: StoredStep) -> Outcome:
        """Check whether a waiting step has ended, after the time of ``wake_after``.

        Return WAIT after another ``wake_after`` to be polled again; raise to fail the step.
        ``errors.AgentChanged`` is as in ``execute_clean_step``.
        """
        return DONE

    def may_repeat(self, task: Task, kind: StepKind, step: StoredStep) -> bool:
        """Return whether a step may run again after a conductor died in the middle of it.

        Steps marked ``rerunnable`` may. Clean steps may always run again and are not checked.

        Source: S2.24.
        """
        marked = steps.collect(self.kind, self, kind)
        return any(one.rerunnable for one in marked if one.name == step["step"])

    def effects(self, task: Task, kind: StepKind, step: StoredStep) -> Effects:
        """Return what a step of this interface does to the machine, without asking the machine.

        Without a declaration the effects are unknown.
        """
        marked = steps.collect(self.kind, self, kind)
        found = (one.effects for one in marked if one.name == step["step"])
        return next(found, Effects(lasting=kind is not StepKind.DEPLOY))

    def by_ramdisk(self, kind: StepKind, step: StoredStep) -> bool:
        """Return whether a ramdisk's agent carries out a step, instead of the conductor."""
        return False

    def lasts(self, task: Task, kind: StepKind, step: StoredStep) -> bool:
        """Return whether the effect of a done step outlives a restart of the machine.

        A retry keeps such steps and runs the others again.
        """
        return self.effects(task, kind, step).lasting

    def _steps(self, kind: StepKind) -> list[StoredStep]:
        found = steps.collect(self.kind, self, kind)
        found.sort(key=lambda step: -step.priority)
        return [steps.as_driver_dict(step, kind) for step in found]

    def _execute(self, task: Task, step: StoredStep) -> Outcome | None:
        method = getattr(self, step["step"])
        outcome: Outcome | None = method(task, **steps.arguments(step))
        return outcome

    def unsupported(self, task: Task, extension: str) -> errors.UnsupportedDriverExtension:
        """Return the error for an operation that this driver does not support."""
        return errors.UnsupportedDriverExtension(driver=task.node.driver, extension=extension)
