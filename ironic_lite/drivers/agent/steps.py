"""Execution of steps by a ramdisk's agent: each step is sent once and polled until its end.

A timer polls with pauses that grow with the elapsed time, and each heartbeat polls too: the agent
sends a heartbeat within 5 s of a step's end. After two minutes only heartbeats poll. No thread
waits, and all data about a command is stored on the node, so any conductor can continue.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import activities, step_lists, steps
from ironic_lite.domain.steps import Effects
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import client as agent_client
from ironic_lite.drivers.agent import ramdisk
from ironic_lite.drivers.agent.client import STEP_EXTENSIONS, AgentClient, Command, CommandStatus

LOG = logging.getLogger(__name__)

# Effects of the agent's own steps, by name: the agent does not report them.
#
# The names are those of ironic-python-agent's generic hardware manager. Steps of other hardware
# managers are unknown, unless they have one of these names.

_DATA, _VOLUMES = ("data",), ("data", "volumes")
_DESTROYS: Mapping[str, tuple[str, ...]] = {
    "deploy.erase_devices": _DATA,
    "deploy.erase_devices_metadata": _DATA,
    "deploy.erase_devices_express": _DATA,
    "deploy.erase_pstore": _DATA,
    "deploy.clean_uefi_nvram": ("settings",),
    "deploy.burnin_cpu": (),
    "deploy.burnin_gpu": (),
    "deploy.burnin_disk": _DATA,
    "deploy.burnin_memory": (),
    "deploy.burnin_network": (),
    "deploy.write_image": _DATA,
    "deploy.execute_bootc_install": _DATA,
    "deploy.inject_files": (),
    "raid.create_configuration": _VOLUMES,
    "raid.apply_configuration": _VOLUMES,
    "raid.delete_configuration": _VOLUMES,
}
"""Names of steps, and what they destroy. A burn-in of disks writes to them."""


def agent_effects(kind: base.StepKind, step: base.StoredStep) -> Effects:
    """Return the effects of a step that the agent carries out.

    :param step: with ``reboot_requested`` if the agent asks for a restart after it.
    """
    lasting = kind is not base.StepKind.DEPLOY
    destroys = _DESTROYS.get(f"{step['interface']}.{step['step']}")
    if destroys is None:
        return Effects(lasting=lasting)
    return Effects(destroys, 1 if step.get("reboot_requested") else 0, lasting)


def is_agent_step(step: base.StoredStep) -> bool:
    """Return whether the agent has a step of this name."""
    return f"{step['interface']}.{step['step']}" in _DESTROYS


def image_effects(found: Effects, *, whole_disk: bool) -> Effects:
    """Return the effects of writing an image.

    A whole-disk image lasts. Of a partition image the agent keeps in memory what the boot loader
    needs, so a new ramdisk must write the image again.
    """
    return dataclasses.replace(found, lasting=whole_disk)


COMMAND = "agent_command"
"""Key of the running command: ``step`` (its ``Task.step_id``), ``id`` (None while the agent is
busy), ``since`` (epoch seconds), ``boots``: "wanted", then "begun"."""
SOON = 0.5  # seconds to the first poll; each doubles the elapsed time
LONGEST = 30.0  # seconds between two polls
_POLLED = 120.0  # seconds; beyond, only heartbeats poll
_LOST = (2.0, 5.0)
"""Pauses in seconds after a failed poll; after them the service waits for a heartbeat."""


class InBand(base.Interface):
    """An interface that runs an agent's steps beside its own."""

    in_band = True

    def execute_clean_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Run a clean step, or let the agent run it.

        :raises errors.HardwareError: the agent is unreachable, or refuses.
        """
        return self._run(task, base.StepKind.CLEAN, step)

    def execute_deploy_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Run a deploy step, or let the agent run it.

        :raises errors.HardwareError: the agent is unreachable, or refuses.
        """
        return self._run(task, base.StepKind.DEPLOY, step)

    def execute_service_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Run a service step, or let the agent run it.

        :raises errors.HardwareError: the agent is unreachable, or refuses.
        """
        return self._run(task, base.StepKind.SERVICE, step)

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Check whether the agent's step has ended.

        :raises errors.AgentCommandFailed: the step failed, or was lost with its agent.
        :raises errors.AgentChanged: the agent refused it.
        """
        if self.owns(kind, step):
            return super().poll_step(task, kind, step)
        found = follow(task, kind, lambda: begin(task, kind, step))
        if isinstance(found, base.Outcome):
            return found
        self.after_step(task, kind, step, found)
        return _end_step(task, step)

    def may_repeat(self, task: base.Task, kind: base.StepKind, step: base.StoredStep) -> bool:
        """Return whether a step may run again after a conductor died in the middle of it.

        A step that waits for its ramdisk to boot may, because no agent has received it. An agent's
        step may, if the same agent still runs, because its command list shows whether it received
        the step. An agent that was started since has no list and was not asked for its steps.
        """
        if self.owns(kind, step):
            return super().may_repeat(task, kind, step)
        if _is_booting(task):
            return True
        try:
            return bool(AgentClient(task).commands())
        except errors.HardwareError:
            return False

    def effects(self, task: base.Task, kind: base.StepKind, step: base.StoredStep) -> base.Effects:
        """Return the declared effects of an own step, else those of the agent's step."""
        if self.owns(kind, step):
            return super().effects(task, kind, step)
        return agent_effects(kind, step)

    def by_ramdisk(self, kind: base.StepKind, step: base.StoredStep) -> bool:
        """Return whether the agent carries out a step, also for an own step of the same name."""
        return not self.owns(kind, step) or is_agent_step(step)

    def owns(self, kind: base.StepKind, step: base.StoredStep) -> bool:
        """Return whether the step belongs to the interface itself, not to the agent."""
        return step["step"] in _own_steps(type(self), kind)  # type: ignore[arg-type]  # a class has a hash

    def after_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep, value: Json
    ) -> None:
        """Process the result ``value`` of an agent's step."""

    def heartbeat_ends_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> bool:
        """Return whether a heartbeat ends this waiting step of the interface itself."""
        return False

    def _run(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome | None:
        if self.owns(kind, step):
            return self._execute(task, step)
        return begin(task, kind, step)


@functools.cache
def _own_steps(owner: type[InBand], kind: base.StepKind) -> frozenset[str]:
    """Return the names of an interface's own steps; cached, as each heartbeat needs them."""
    return frozenset(step.name for step in steps.collect(owner.kind, owner, kind))


# -- one command ------------------------------------------------------------------------------


def begin(task: base.Task, kind: base.StepKind, step: base.StoredStep) -> base.Outcome:
    """Let the agent run a step; a step already started by a dead conductor continues.

    :raises errors.AgentUnreachable, errors.AgentRefused: the step was not started.
    """
    known = task.recall(COMMAND) or {}
    if known.get("step") == task.step_id and known.get("boots"):
        return _schedule_poll(
            task, SOON
        )  # the step has ended, but a conductor died while it rebooted
    if _is_booting(task):
        return _until_it_speaks(task)
    client = AgentClient(task)
    before = client.commands()
    found = agent_client.begun_command(before, kind, task.step_id)
    try:
        if found is None:
            name = f"{STEP_EXTENSIONS[kind]}.{agent_client.step_command(kind)}"
            found = client.start(name, _step_arguments(task, kind, step), before=before)
    except errors.AgentBusy as why:
        LOG.info(
            "Node %s: sending %s to the agent later: %s", task.node.uuid, steps.title(step), why
        )
        return _poll_later(task)
    _keep_command(task, id=found.id, since=clock.stamp())
    return _schedule_poll(task, SOON)


def _step_arguments(task: base.Task, kind: base.StepKind, step: base.StoredStep) -> Json:
    version = dict(task.manager_version) if task.manager_version else None
    return {
        "step": {**step, "args": steps.arguments(step), agent_client.STEP_ID: task.step_id},
        **agent_client.node_and_ports(task),
        f"{kind}_version": version,
    }


def order(task: base.Task, name: str, params: Callable[[AgentClient], JsonView]) -> base.Outcome:
    """Let the agent start an idempotent command that is not one of its steps.

    A command already started by a dead conductor continues.

    :param name: ``extension.command``.
    :param params: returns its arguments; it may ask the agent for some of them.
    :raises errors.AgentUnreachable, errors.AgentRefused: the command was not started.
    """
    if _is_booting(task):
        return _until_it_speaks(task)
    client = AgentClient(task)
    before = client.commands()
    found = agent_client.running_command(before, name.rpartition(".")[2])
    try:
        if found is None:
            found = client.start(name, params(client), before=before)
    except errors.AgentBusy as why:
        LOG.info("Node %s: sending %s to the agent later: %s", task.node.uuid, name, why)
        return _poll_later(task)
    _keep_command(task, id=found.id, since=clock.stamp())
    return _schedule_poll(task, SOON)


def _is_booting(task: base.Task) -> bool:
    """Return whether the ramdisk is booting, as after a step that restarted the machine."""
    on = task.node.power_state != base.POWER_OFF
    return on and task.agent is None and ramdisk.at_work(task)


def _until_it_speaks(task: base.Task) -> base.Outcome:
    """Start the command at the first heartbeat; without a heartbeat the timeout ends it."""
    LOG.info("Node %s: waiting for its ramdisk to boot, to send the next step", task.node.uuid)
    _keep_command(task, id=None, since=clock.stamp())
    return base.WAIT


def _poll_later(task: base.Task) -> base.Outcome:
    """Retry when the agent may be free: after growing pauses, or at once at a heartbeat."""
    known, now = task.recall(COMMAND) or {}, clock.stamp()
    waits = known.get("step") == task.step_id and known.get("id") is None
    since = known["since"] if waits else now
    _keep_command(task, id=None, since=since)
    return _schedule_poll(task, _pause(since))


def _pause(since: float) -> float:
    return min(max(SOON, clock.lived_since(since)), LONGEST)


def follow(
    task: base.Task, kind: base.StepKind, again: Callable[[], base.Outcome]
) -> base.Outcome | Json:
    """Return WAIT, DONE after a reboot that the step requested, or the command's result.

    :param again: starts the command, for an agent that has not received it yet.
    :raises errors.AgentCommandFailed: it failed, or was lost with its agent.
    :raises errors.AgentChanged: the agent refused it.
    """
    known = task.recall(COMMAND) or {}
    if known.get("step") != task.step_id:
        return again()
    if known.get("boots"):
        return _after_boot(task, known["boots"])
    if known["id"] is None:
        return again()
    try:
        found = AgentClient(task).result(known["id"])
    except errors.AgentUnreachable as why:
        # The agent may answer soon or send a heartbeat; otherwise the timeout ends the step.
        LOG.info("Node %s: %s", task.node.uuid, why)
        return _poll_lost_agent(task, known)
    return _step_result(task, kind, found, known["since"])


def _poll_lost_agent(task: base.Task, known: Json) -> base.Outcome:
    """Poll a lost agent only a few times, because each poll extends the timeout."""
    times = known.get("lost", 0)
    if times >= len(_LOST):
        return base.WAIT
    task.keep(COMMAND, {**known, "lost": times + 1})
    return _schedule_poll(task, _LOST[times])


def _step_result(
    task: base.Task, kind: base.StepKind, found: Command | None, since: float
) -> base.Outcome | Json:
    if found is None:
        task.keep(COMMAND, None)
        why = "the agent was restarted during this step and does not know the step any more"
        raise errors.AgentCommandFailed(
            why, node=task.node.uuid, command=agent_client.step_command(kind)
        )
    if found.status is CommandStatus.RUNNING:
        polls = clock.lived_since(since) < _POLLED
        return _schedule_poll(task, _pause(since)) if polls else base.WAIT
    if found.status is not CommandStatus.SUCCEEDED:
        task.keep(COMMAND, None)
        if found.erasure is not None:
            task.report_erasure(found.erasure)
    return dict(AgentClient(task).value(found))


def ended(task: base.Task) -> base.Outcome:
    """Forget the command, because the step is done."""
    task.keep(COMMAND, None)
    return base.DONE


def _end_step(task: base.Task, step: base.StoredStep) -> base.Outcome:
    """End a successful step, by a reboot if the step requests one."""
    if not step.get("reboot_requested"):
        return ended(task)
    # Noted first, so that after a conductor's death the reboot is repeated.
    _keep_command(task, boots="wanted")
    return _schedule_poll(task, 0)


def _after_boot(task: base.Task, boots: str) -> base.Outcome:
    if boots == "wanted":
        ramdisk.boot(task)
        _keep_command(task, boots="begun")
        return base.WAIT
    if task.agent is None:
        return base.WAIT
    task.keep(COMMAND, None)
    return base.DONE


def _keep_command(task: base.Task, **about_it: object) -> None:
    task.keep(COMMAND, {"step": task.step_id, **about_it})


def _schedule_poll(task: base.Task, seconds: float) -> base.Outcome:
    task.wake_after(seconds)
    return base.WAIT


# -- heartbeats -------------------------------------------------------------------------------


def _waiting_step(task: base.Task) -> tuple[base.StepKind, base.StoredStep] | None:
    """Return the kind of a waiting node's steps and the step under way; None without a wait."""
    activity = activities.stepping(task.node.provision_state)
    if activity is None or task.node.provision_state != activity.waiting:
        return None
    return activity.kind, activity.step_of(task.node)


def concerns(task: base.Task) -> bool:
    """Return whether `heard` would act on a heartbeat, which matters to a waiting node."""
    place = _waiting_step(task)
    if place is None:
        return False
    _, step = place
    if not step or step["step"] in step_lists.RESERVED:
        return True
    return isinstance(task.driver.interface(step["interface"]), InBand)


def heard(task: base.Task) -> bool:
    """Handle a heartbeat while a node waits during its steps; True ends the step.

    An agent's step is polled at once. A BMC's step ends by itself.
    """
    place = _waiting_step(task)
    if place is None or not concerns(task):
        return False
    kind, step = place
    if not step or step["step"] in step_lists.RESERVED:
        return True
    interface = task.driver.interface(step["interface"])
    assert isinstance(interface, InBand)  # that is what concerns heartbeats
    if interface.owns(kind, step):
        return interface.heartbeat_ends_step(task, kind, step)
    task.wake_after(0)
    return False
