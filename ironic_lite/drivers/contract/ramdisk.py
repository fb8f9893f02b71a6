"""What boots a ramdisk and works through it: deploy, boot, inspect and rescue."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task
from ironic_lite.steps import DONE, Outcome, StepKind

RAMDISKS = ("deploy", "inspect", "rescue")
"""What a ramdisk is booted for: to clean, deploy or service, to inspect, to rescue."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentReport:
    """What a ramdisk's agent tells of itself.

    ``steps`` are its steps of each kind it was asked for: hardware manager -> list of steps, as the
    agent gives them; ``version`` maps its hardware managers to their versions.
    """

    steps: Mapping[StepKind, Mapping[str, Sequence[Mapping[str, Any]]]]
    version: Mapping[str, str]


class Deploy(Interface):
    """Putting an instance on a machine, and the ramdisk around cleaning and servicing."""

    kind = "deploy"
    minds_agent: ClassVar[bool] = False
    """Whether ``tear_down_cleaning`` itself says when the agent is gone: one may go on running."""
    # True if an instance is a ramdisk itself, which the machine boots each time: instance_info says
    # where it is, and nothing is written to a disk.
    boots_ramdisk: ClassVar[bool] = False

    def prepare(self, task: Task) -> None:
        """Get ready for a deployment, before its first step."""

    def tear_down(self, task: Task) -> None:
        """Undo what ``prepare`` and the steps added (S5.25); must be repeatable."""

    def clean_up(self, task: Task) -> None:
        """Remove files and caches of a deployment; must be repeatable."""

    def lacks_files(self, task: Task) -> bool:
        """Tell, by a look at this conductor's files alone, whether `take_over` has work to do."""
        return task.driver.boot.lacks_files(task)

    def take_over(self, task: Task) -> None:
        """Rebuild what this conductor needs for a node that another one drove before."""
        task.driver.boot.take_over(task)

    def adopt(self, task: Task) -> None:
        """Take in a machine that already runs an instance."""
        self.take_over(task)

    def check_ramdisk(self, task: Task) -> None:
        """Check, without touching hardware, that what `prepare_cleaning` and `prepare_service`
        boot could be booted; asked before a clean or a service is accepted, and before it begins.

        :raises errors.InvalidParameter, errors.MissingParameter: naming what is wrong.
        """

    def prepare_cleaning(self, task: Task) -> Outcome:
        """Get ready to clean; WAIT if a ramdisk boots first."""
        return DONE

    def tear_down_cleaning(self, task: Task) -> None:
        """Undo ``prepare_cleaning``; must be repeatable."""

    def prepare_service(self, task: Task) -> Outcome:
        """Get ready to service; WAIT if a ramdisk boots first."""
        return DONE

    def prepare_restart(self, task: Task) -> None:
        """Get ready for a restart that a step is about to cause: asked by whoever causes it, right
        before. If the run works with a ramdisk, that is what has to boot, not the disk.

        :raises errors.Error: it cannot be made ready.
        """

    def tear_down_service(self, task: Task) -> None:
        """Undo ``prepare_service``; must be repeatable."""

    def minds_heartbeat(self, task: Task) -> bool:
        """Tell, by a look at the node alone, whether `heartbeat` is to be asked at all.

        Where it is not, a heartbeat costs neither a worker nor the node's lock: it is taken down.
        """
        return getattr(self.heartbeat, "__func__", None) is not Deploy.heartbeat

    def heartbeat(self, task: Task) -> bool:
        """Act on an agent's heartbeat in a wait state; True lets the engine go on to the next
        step.

        :raises errors.AgentChanged: the agent refused the step, as in ``execute_clean_step``.
        """
        return False

    def agent_steps(self, task: Task, kind: StepKind) -> AgentReport | None:
        """Ask the running agent for its steps of a kind, and its hardware managers' versions.

        Asked when the agent may have begun to speak, and when another agent has taken its place.
        Further kinds may be reported: clean steps are shown at any time from then on (S1.25).
        None: there is no agent, or it does not speak yet.

        :raises errors.HardwareError: it does not answer as it should.
        """
        return None


class Boot(Interface):
    """How a machine gets its ramdisk and its instance to boot."""

    kind = "boot"
    brings_configdrive: ClassVar[bool] = False
    """Whether `prepare_instance` shows an instance that is a ramdisk its configuration drive."""

    def prepare_ramdisk(self, task: Task, params: Mapping[str, str], mode: str = "deploy") -> None:
        """Make the next boot start the ramdisk with these kernel parameters.

        :param mode: which ramdisk: one of ``RAMDISKS``.
        """

    def clean_up_ramdisk(self, task: Task, mode: str = "deploy") -> None:
        """Undo ``prepare_ramdisk``; must be repeatable."""

    def check_ramdisk(self, task: Task, mode: str) -> None:
        """Check, without touching hardware, that the ramdisk could be booted.

        :param mode: which ramdisk: one of ``RAMDISKS``, or ``instance`` for one that is the
            instance itself. `validate` speaks for ``deploy``.
        :raises errors.InvalidParameter, errors.MissingParameter: naming what is wrong.
        """
        self.validate(task)

    def carries_parameters(self, task: Task, mode: str = "deploy") -> bool:
        """Tell whether what the ramdisk boots from is for this node alone: only then a secret may
        be among its parameters.
        """
        return False

    def lacks_files(self, task: Task) -> bool:
        """Tell, by a look at this conductor's files alone, whether `take_over` has work to do."""
        return False

    def take_over(self, task: Task) -> None:
        """Make anew, where this conductor has not got them, the files that the machine boots from
        now; the machine itself and its power stay as they are. Must be repeatable.
        """

    def check_instance(self, task: Task) -> None:
        """Check, before the machine is touched, what only its BMC or servers of files know of an
        instance that is a ramdisk: whether `prepare_instance` could boot it.

        :raises errors.Error: saying why it could not.
        """

    def prepare_instance(self, task: Task) -> None:
        """Make the next boots start the instance."""

    def clean_up_instance(self, task: Task) -> None:
        """Undo ``prepare_instance``; must be repeatable."""


class Inspect(Interface, abc.ABC):
    """Finding out what a machine is made of."""

    kind = "inspect"
    takes_reports: ClassVar[bool] = False
    """Whether a ramdisk reports by ``POST /v1/continue_inspection``."""

    @abc.abstractmethod
    def inspect_hardware(self, task: Task) -> Outcome:
        """Update ``node.properties`` (S5.8); WAIT if something will report or be polled later."""

    def continue_inspection(
        self, task: Task, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]
    ) -> Outcome:
        """Take what a ramdisk has sent for a waiting inspection; WAIT if that is not all.

        Only asked of an interface with ``takes_reports``.

        :param inventory: as ironic-python-agent has it, empty if it could collect none; of its
            form only that is sure which `inspection.check` looks at.
        :param plugin_data: all else that it has sent, by name, such as ``error``.
        """
        return DONE

    def poll_inspection(self, task: Task) -> Outcome:
        """Say whether a waiting inspection has ended; asked when ``wake_after`` is over."""
        return DONE

    def abort(self, task: Task) -> None:
        """Stop a waiting inspection."""

    def clean_up(self, task: Task) -> None:
        """Remove what an inspection that has failed left; must be repeatable."""


class Rescue(Interface, abc.ABC):
    """Booting a rescue ramdisk beside an instance."""

    kind = "rescue"

    @abc.abstractmethod
    def rescue(self, task: Task) -> Outcome:
        """Boot the rescue ramdisk; WAIT until its agent reports."""

    def poll_rescue(self, task: Task) -> Outcome:
        """Say whether a waiting rescue has ended; asked when ``wake_after`` is over."""
        return DONE

    @abc.abstractmethod
    def unrescue(self, task: Task) -> None:
        """Boot the instance again."""

    def clean_up(self, task: Task) -> None:
        """Remove what a rescue left; must be repeatable."""
