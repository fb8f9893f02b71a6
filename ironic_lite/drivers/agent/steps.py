"""Steps that a ramdisk's agent runs: given to it once, followed until they end.

A step is asked about by a timer whose pauses grow with the time it takes, and by each heartbeat;
the agent sends one as soon as a step ends. After two minutes heartbeats alone tell. Nothing here
waits in a thread, and all that is known of a command is kept on the node: any conductor goes on.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import clock, errors, plans, steps
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import about, ramdisk, results
from ironic_lite.drivers.agent.client import Client
from ironic_lite.drivers.agent.results import LISTED, Result, Status
from ironic_lite.states import State

LOG = logging.getLogger(__name__)

Json = dict[str, Any]

COMMAND = "agent_command"
"""What is kept of the command under way: ``step`` (its ``Task.step_id``), ``id`` (None while the
agent is busy), ``since`` (epoch seconds), ``boots``: "wanted", then "begun"."""
SOON = 0.1  # seconds to the first question
SHARE = 0.25  # of the time a step has taken: the next pause
LONGEST = 30.0  # seconds; beyond, heartbeats alone tell
_LOST = (2.0, 5.0)
"""Seconds until an agent that did not answer is asked again; then it must speak itself."""


class InBand(base.Interface):
    """An interface with steps of an agent beside its own."""

    in_band = True

    def execute_clean_step(self, task: base.Task, step: Mapping[str, Any]) -> base.Outcome | None:
        """Run a clean step, or have the agent run it.

        :raises errors.HardwareError: the agent cannot be spoken to, or refuses.
        """
        return self._run(task, base.StepKind.CLEAN, step)

    def execute_deploy_step(self, task: base.Task, step: Mapping[str, Any]) -> base.Outcome | None:
        """Run a deploy step, or have the agent run it.

        :raises errors.HardwareError: the agent cannot be spoken to, or refuses.
        """
        return self._run(task, base.StepKind.DEPLOY, step)

    def execute_service_step(self, task: base.Task, step: Mapping[str, Any]) -> base.Outcome | None:
        """Run a service step, or have the agent run it.

        :raises errors.HardwareError: the agent cannot be spoken to, or refuses.
        """
        return self._run(task, base.StepKind.SERVICE, step)

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome:
        """Ask the agent whether its step has ended.

        :raises errors.AgentCommandFailed: the step failed, or was lost with its agent.
        :raises errors.AgentChanged: the agent refused it.
        """
        if self.owns(kind, step):
            return super().poll_step(task, kind, step)
        found = follow(task, kind, lambda: begin(task, kind, step))
        if isinstance(found, base.Outcome):
            return found
        self.after_step(task, kind, step, found)
        return _end(task, step)

    def may_repeat(self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]) -> bool:
        """Tell whether a step may be run again after a conductor died in the middle of it.

        One that waits for its ramdisk to boot may: nobody has got it yet. An agent's may, if the
        agent still lives that it was meant for: it knows whether it got the step. One that was
        started meanwhile has no list, not even that it was asked for its steps.
        """
        if self.owns(kind, step):
            return super().may_repeat(task, kind, step)
        if _boots(task):
            return True
        try:
            return bool(Client(task).commands())
        except errors.HardwareError:
            return False

    def owns(self, kind: base.StepKind, step: Mapping[str, Any]) -> bool:
        """Tell whether this is a step of the interface itself, and not one of the agent's."""
        return step["step"] in _own(type(self), kind)  # type: ignore[arg-type]  # a class has a hash

    def after_step(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any], value: Json
    ) -> None:
        """Make of an agent's step what follows from it; ``value`` is what the step returned."""

    def agent_came(self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]) -> bool:
        """Tell whether a heartbeat ends this step of the interface's own, which waits."""
        return False

    def _run(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome | None:
        if self.owns(kind, step):
            return self._execute(task, step)
        return begin(task, kind, step)


@functools.cache
def _own(owner: type[InBand], kind: base.StepKind) -> frozenset[str]:
    """Return the names of an interface's own steps: each heartbeat asks for them."""
    return frozenset(step.name for step in steps.collect(owner.kind, owner, kind))


# -- one command ------------------------------------------------------------------------------


def begin(task: base.Task, kind: base.StepKind, step: Mapping[str, Any]) -> base.Outcome:
    """Have the agent run a step; one that it runs already, for a conductor that died, goes on.

    :raises errors.AgentUnreachable, errors.AgentRefused: it was not begun.
    """
    known = task.recall(COMMAND) or {}
    if known.get("step") == task.step_id and known.get("boots"):
        return _wait(task, SOON)  # it has ended, and a conductor died while it rebooted
    if _boots(task):
        return _until_it_speaks(task)
    client = Client(task)
    before = client.commands()
    found = results.begun(before, kind, task.step_id)
    try:
        if found is None:
            name = f"{LISTED[kind]}.{results.execute(kind)}"
            found = client.start(name, _arguments(task, kind, step), before=before)
    except errors.AgentBusy as why:
        LOG.info("Node %s: %s is given to it later: %s", task.node.uuid, steps.title(step), why)
        return _later(task)
    _keep(task, id=found.id, since=clock.stamp())
    return _wait(task, SOON)


def _arguments(task: base.Task, kind: base.StepKind, step: Mapping[str, Any]) -> Json:
    version = dict(task.manager_version) if task.manager_version else None
    return {
        "step": {**step, "args": step.get("args") or {}, results.MARK: task.step_id},
        **about.both(task),
        f"{kind}_version": version,
    }


def order(
    task: base.Task, name: str, params: Callable[[Client], Mapping[str, Any]]
) -> base.Outcome:
    """Have the agent begin a command that is no step of its own, and may be given twice.

    One that it carries out already, for a conductor that died, goes on.

    :param name: ``extension.command``.
    :param params: returns its arguments; it may ask the agent for some of them.
    :raises errors.AgentUnreachable, errors.AgentRefused: it was not begun.
    """
    if _boots(task):
        return _until_it_speaks(task)
    client = Client(task)
    before = client.commands()
    found = results.running(before, name.rpartition(".")[2])
    try:
        if found is None:
            found = client.start(name, params(client), before=before)
    except errors.AgentBusy as why:
        LOG.info("Node %s: %s is given to it later: %s", task.node.uuid, name, why)
        return _later(task)
    _keep(task, id=found.id, since=clock.stamp())
    return _wait(task, SOON)


def _boots(task: base.Task) -> bool:
    """Tell whether the ramdisk boots just now, as after a step that has restarted the machine."""
    on = task.node.power_state != base.POWER_OFF
    return on and task.agent is None and ramdisk.at_work(task)


def _until_it_speaks(task: base.Task) -> base.Outcome:
    """Begin what is wanted with the first heartbeat; if none comes, the time-out ends this."""
    LOG.info("Node %s: its ramdisk boots, and has the next step when it speaks", task.node.uuid)
    _keep(task, id=None, since=clock.stamp())
    return base.WAIT


def _later(task: base.Task) -> base.Outcome:
    """Try again when the agent may have ended what it does: in pauses that grow, or at once when
    it sends a heartbeat.
    """
    known, now = task.recall(COMMAND) or {}, clock.stamp()
    waits = known.get("step") == task.step_id and known.get("id") is None
    since = known["since"] if waits else now
    _keep(task, id=None, since=since)
    return _wait(task, min(max(SOON, clock.lived_since(since) * SHARE), LONGEST))


def follow(
    task: base.Task, kind: base.StepKind, again: Callable[[], base.Outcome]
) -> base.Outcome | Json:
    """Return WAIT, DONE after a reboot that the step wanted, or what the command has returned.

    :param again: begins the command, for an agent that has not got it yet.
    :raises errors.AgentCommandFailed: it failed, or was lost with its agent.
    :raises errors.AgentChanged: the agent refused it.
    """
    known = task.recall(COMMAND) or {}
    if known.get("step") != task.step_id:
        return again()
    if known.get("boots"):
        return _booted(task, known["boots"])
    if known["id"] is None:
        return again()
    try:
        found = Client(task).result(known["id"])
    except errors.AgentUnreachable as why:
        # It may be back soon, or with its next heartbeat; if none comes, the time-out ends this.
        LOG.info("Node %s: %s", task.node.uuid, why)
        return _lost(task, known)
    return _judged(task, kind, found, known["since"])


def _ask_again(task: base.Task, since: float) -> base.Outcome:
    pause = max(SOON, clock.lived_since(since) * SHARE)
    return _wait(task, pause) if pause <= LONGEST else base.WAIT


def _lost(task: base.Task, known: Json) -> base.Outcome:
    """Ask a lost agent a few times only: each question puts the time-out off."""
    times = known.get("lost", 0)
    if times >= len(_LOST):
        return base.WAIT
    task.keep(COMMAND, {**known, "lost": times + 1})
    return _wait(task, _LOST[times])


def _judged(
    task: base.Task, kind: base.StepKind, found: Result | None, since: float
) -> base.Outcome | Json:
    if found is None:
        task.keep(COMMAND, None)
        why = "the agent was started anew while it ran this step, and does not know it any more"
        raise errors.AgentCommandFailed(why, node=task.node.uuid, command=results.execute(kind))
    if found.status is Status.RUNNING:
        return _ask_again(task, since)
    if found.status is not Status.SUCCEEDED:
        task.keep(COMMAND, None)
    return dict(Client(task).value(found))


def ended(task: base.Task) -> base.Outcome:
    """Forget the command: the step is done."""
    task.keep(COMMAND, None)
    return base.DONE


def _end(task: base.Task, step: Mapping[str, Any]) -> base.Outcome:
    """End a step that has succeeded: by a reboot, if it wants one."""
    if not step.get("reboot_requested"):
        return ended(task)
    # Written down first: a conductor that dies in the middle of a reboot leaves it to be repeated.
    _keep(task, boots="wanted")
    return _wait(task, 0)


def _booted(task: base.Task, boots: str) -> base.Outcome:
    if boots == "wanted":
        ramdisk.boot(task)
        _keep(task, boots="begun")
        return base.WAIT
    if task.agent is None:
        return base.WAIT
    task.keep(COMMAND, None)
    return base.DONE


def _keep(task: base.Task, **about_it: Any) -> None:
    task.keep(COMMAND, {"step": task.step_id, **about_it})


def _wait(task: base.Task, seconds: float) -> base.Outcome:
    task.wake_after(seconds)
    return base.WAIT


# -- heartbeats -------------------------------------------------------------------------------

WAITING: Mapping[State, tuple[base.StepKind, str]] = {
    # state: kind of its steps, column of the step under way
    State.CLEANWAIT: (base.StepKind.CLEAN, "clean_step"),
    State.DEPLOYWAIT: (base.StepKind.DEPLOY, "deploy_step"),
    State.SERVICEWAIT: (base.StepKind.SERVICE, "service_step"),
}


def concerns(task: base.Task) -> bool:
    """Tell whether a heartbeat has to do with what a node waits for: whether `heard` would act."""
    place = WAITING.get(State(task.node.provision_state))
    if place is None:
        return False
    step = getattr(task.node, place[1])
    if not step or step["step"] in plans.RESERVED:
        return True
    return isinstance(task.driver.interface(step["interface"]), InBand)


def heard(task: base.Task) -> bool:
    """Act on a heartbeat while a node waits in the middle of steps; True ends the step.

    A step of the agent's is asked about at once. One of a BMC's waits for its own end.
    """
    if not concerns(task):
        return False
    kind, column = WAITING[State(task.node.provision_state)]
    step = getattr(task.node, column)
    if not step or step["step"] in plans.RESERVED:
        return True
    interface = task.driver.interface(step["interface"])
    assert isinstance(interface, InBand)  # that is what concerns heartbeats
    if interface.owns(kind, step):
        return interface.agent_came(task, kind, step)
    task.wake_after(0)
    return False
