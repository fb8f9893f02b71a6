"""Interfaces that boot ramdisks or work through them: deploy, boot, inspect and rescue."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ironic_lite.core.json_types import JsonView
from ironic_lite.domain.steps import DONE, Outcome, StepKind
from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task

RAMDISKS = ("deploy", "inspect", "rescue")
"""Uses of a ramdisk: to clean, deploy or service; to inspect; to rescue."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentReport:
    """The report of a ramdisk's agent.

    ``steps`` maps a step kind to the agent's raw lists: hardware manager -> list of steps.
    ``version`` maps its hardware managers to their versions.
    """

    steps: Mapping[StepKind, Mapping[str, Sequence[JsonView]]]
    version: Mapping[str, str]


class Deploy(Interface):
    """Deployment of instances, and the ramdisk for cleaning and servicing."""

    kind = "deploy"
    minds_agent: ClassVar[bool] = False
    """True if ``tear_down_cleaning`` itself forgets the agent, which may continue to run."""
    # True if the instance is itself a ramdisk, named in instance_info, which the machine boots each
    # time. No disk is written.
    boots_ramdisk: ClassVar[bool] = False

    def prepare(self, task: Task) -> None:
        """Prepare a deployment, before its first step."""

    def tear_down(self, task: Task) -> None:
        """Undo what ``prepare`` and the steps added; must be repeatable.

        Source: S5.25.
        """

    def clean_up(self, task: Task) -> None:
        """Remove files and caches of a deployment; must be repeatable."""

    def lacks_files(self, task: Task) -> bool:
        """Return whether `take_over` has work to do, checking only this conductor's files."""
        return task.driver.boot.lacks_files(task)

    def take_over(self, task: Task) -> None:
        """Rebuild this conductor's files for a node taken over from another conductor."""
        task.driver.boot.take_over(task)

    def adopt(self, task: Task) -> None:
        """Adopt a machine that already runs an instance."""
        self.take_over(task)

    def check_ramdisk(self, task: Task) -> None:
        """Check, without touching hardware, that the ramdisk for cleaning and servicing can boot.

        Called before a clean or a service is accepted, and before it begins.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """

    def prepare_cleaning(self, task: Task) -> Outcome:
        """Prepare a clean; WAIT if a ramdisk boots first."""
        return DONE

    def tear_down_cleaning(self, task: Task) -> None:
        """Undo ``prepare_cleaning``; must be repeatable."""

    def prepare_service(self, task: Task) -> Outcome:
        """Prepare a service; WAIT if a ramdisk boots first."""
        return DONE

    def prepare_restart(self, task: Task) -> None:
        """Prepare a restart; called by the code that restarts, right before.

        If the run uses a ramdisk, that ramdisk must boot next, not the disk.

        :raises errors.Error: the boot files cannot be put in place.
        """

    def tear_down_service(self, task: Task) -> None:
        """Undo ``prepare_service``; must be repeatable."""

    def handles_heartbeat(self, task: Task) -> bool:
        """Return whether `heartbeat` is to be called, judging only by the node.

        If not, a heartbeat is only recorded, without a worker slot or the node's lock.
        """
        return getattr(self.heartbeat, "__func__", None) is not Deploy.heartbeat

    def heartbeat(self, task: Task) -> bool:
        """Handle an agent's heartbeat in a wait state; True continues with the next step.

        :raises errors.AgentChanged: the agent refused the step, as in ``execute_clean_step``.
        """
        return False

    def agent_steps(self, task: Task, kind: StepKind) -> AgentReport | None:
        """Read the running agent's steps of a kind and its hardware managers' versions.

        Called when the agent may have started, and after another agent has replaced it. More kinds
        may be reported: clean steps are then shown at any time (S1.25). None: there is no agent, or
        it does not answer yet.

        :raises errors.HardwareError: its answer is unusable.
        """
        return None


class Boot(Interface):
    """Boot of a machine's ramdisk and instance."""

    kind = "boot"
    brings_configdrive: ClassVar[bool] = False
    """True if `prepare_instance` presents the configuration drive to a ramdisk instance."""

    def prepare_ramdisk(self, task: Task, params: Mapping[str, str], mode: str = "deploy") -> None:
        """Make the next boot start the ramdisk with these kernel parameters.

        :param mode: the kind of ramdisk: one of ``RAMDISKS``.
        """

    def clean_up_ramdisk(self, task: Task, mode: str = "deploy") -> None:
        """Undo ``prepare_ramdisk``; must be repeatable."""

    def check_ramdisk(self, task: Task, mode: str) -> None:
        """Check, without touching hardware, that the ramdisk can be booted.

        :param mode: one of ``RAMDISKS``, or ``instance`` for a ramdisk that is the instance itself.
            `validate` checks ``deploy``.
        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        self.validate(task)

    def carries_parameters(self, task: Task, mode: str = "deploy") -> bool:
        """Return whether the boot medium is for this node alone, so its parameters may be
        secret."""
        return False

    def lacks_files(self, task: Task) -> bool:
        """Return whether `take_over` has work to do, checking only this conductor's files."""
        return False

    def take_over(self, task: Task) -> None:
        """Create the machine's boot files that this conductor lacks. Must be repeatable.

        The machine itself and its power stay unchanged.
        """

    def check_instance(self, task: Task) -> None:
        """Check that `prepare_instance` can boot a ramdisk instance, before the machine is touched.

        This may ask the BMC and file servers.

        :raises errors.Error: the instance cannot be booted, with the reason.
        """

    def prepare_instance(self, task: Task) -> None:
        """Let the machine boot its instance from now on."""

    def clean_up_instance(self, task: Task) -> None:
        """Undo ``prepare_instance``; must be repeatable."""


class Inspect(Interface, abc.ABC):
    """Inspection of a machine's hardware."""

    kind = "inspect"
    takes_reports: ClassVar[bool] = False
    """True if a ramdisk reports by ``POST /v1/continue_inspection``."""

    @abc.abstractmethod
    def inspect_hardware(self, task: Task) -> Outcome:
        """Update ``node.properties``; WAIT if something will report or be polled later.

        Source: S5.8.
        """

    def continue_inspection(
        self, task: Task, inventory: JsonView, plugin_data: JsonView
    ) -> Outcome:
        """Process a ramdisk's report for a waiting inspection; WAIT if more reports must come.

        Called only for an interface with ``takes_reports``.

        :param inventory: in the format of ironic-python-agent, empty if it collected none; only the
            parts that `inspection.check` checks are certain.
        :param plugin_data: all other data of the report by name, such as ``error``.
        """
        return DONE

    def poll_inspection(self, task: Task) -> Outcome:
        """Check whether a waiting inspection has ended, after the time of ``wake_after``."""
        return DONE

    def abort(self, task: Task) -> None:
        """Stop a waiting inspection."""

    def clean_up(self, task: Task) -> None:
        """Clean up after a failed inspection; must be repeatable."""


class Rescue(Interface, abc.ABC):
    """Rescue by a ramdisk that boots beside an instance."""

    kind = "rescue"

    @abc.abstractmethod
    def rescue(self, task: Task) -> Outcome:
        """Boot the rescue ramdisk; WAIT until its agent reports."""

    def poll_rescue(self, task: Task) -> Outcome:
        """Check whether a waiting rescue has ended, after the time of ``wake_after``."""
        return DONE

    @abc.abstractmethod
    def unrescue(self, task: Task) -> None:
        """Boot the instance again."""

    def clean_up(self, task: Task) -> None:
        """Clean up after a rescue; must be repeatable."""
