"""Deletion of an instance: undo the deployment, forget it, clean the machine.

Requirements S5.15 and S5.25.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.engine.phases import Flow
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import admission, clean, error_text, owners
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.queries import allocations
from ironic_lite.domain import activities
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import StepKind
from ironic_lite.domain.verbs import Verb


def start(task: Task, verb: Verb, _body: JsonView) -> None:
    """Start deleting the instance, and forget the steps of a deployment that ran or had failed.

    Requirement S2.30.
    """
    admission.keep_limit(task, clean.PHASE)
    task.node.deploy_step = None
    task.node.service_step = None
    task.notes.forget_deploy()
    task.notes.forget_steps(StepKind.SERVICE)
    task.move(verb.event, verb=verb.target)
    task.hand_over(prepare)


def prepare(task: Task) -> None:
    """Tear down, forget the instance, and continue with cleaning in the same run.

    Requirements S2.2 and S2.30.
    """
    _close_console(task)
    task.driver.rescue.clean_up(task)
    task.driver.deploy.tear_down(task)
    task.driver.deploy.clean_up(task)
    _detach_vifs(task)
    _forget_instance(task)
    clean.request(task)
    # A retired machine never becomes available again (S4.5, C22).
    task.move("clean", goal=State.MANAGEABLE if task.node.retired else None)
    clean.prepare(task)


def _detach_vifs(task: Task) -> None:
    for vif in task.driver.network.vif_list(task):
        task.driver.network.vif_detach(task, vif["id"])


def _forget_instance(task: Task) -> None:
    """Remove the instance with the next save, and its lessee if deployment set it."""
    task.node.instance_info = {}
    task.node.instance_uuid = None
    task.node.instance_name = None
    _drop_allocation(task)
    if task.notes.automatic_lessee:
        owners.change(task, (task.node.owner, None))
        task.notes.automatic_lessee = False
    task.notes.forget_agent()


def _close_console(task: Task) -> None:
    """Stop the console until the next deployment, so that the instance's user sees nothing later.

    ``console_enabled`` stays, as in Ironic.
    """
    if task.node.console_enabled:
        task.driver.console.stop_console(task)
        task.notes.console_paused = True


def _drop_allocation(task: Task) -> None:
    """Remove the instance's allocation with the next save."""
    gone = task.node.allocation_uuid
    if gone is not None:
        task.node.allocation_uuid = None
        task.add_write(lambda conn: allocations.forget(conn, task.context, gone))


def give_up(task: Task, why: errors.Error) -> None:
    """Fail to ``error``; ``deleted`` may be tried again.

    Requirement C1. The instance is removed all the same, because its client waits for a null
    ``instance_uuid``. Only the machine still needs clean-up.
    """
    error = error_text.led_by(f"Failed to tear down node {task.node.uuid}", why)
    error = error_text.clean_up_after(task, error, "detaching its VIFs", _detach_vifs)
    _forget_instance(task)
    task.move("fail", error=error)


FLOW = Flow(
    activity=activities.DELETE, start=start, plan=clean.plan, prepare=prepare, give_up=give_up
)
