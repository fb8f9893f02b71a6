"""Taking a machine under management: is it there, and do the credentials work? (S5.5)"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ironic_lite import errors, plans, texts
from ironic_lite.conductor import findings, stepper
from ironic_lite.conductor.flows import faults, offers
from ironic_lite.conductor.phases import Phase
from ironic_lite.conductor.task import Task
from ironic_lite.drivers import base
from ironic_lite.steps import StepKind

LOG = logging.getLogger(__name__)
_VENDOR = "vendor"
_PAUSES = (0.5, 1.0, 2.0, 0.0)  # seconds between the tries to read a power state


def start(task: Task) -> None:
    """Really ask the machine for its power state, then run the drivers' verify steps."""
    task.driver.power.validate(task)
    task.node.power_state = _power_state(task)
    begin(task)


def _power_state(task: Task) -> str:
    """Return the power state; a machine on its way from one to the other is given a moment.

    :raises errors.HardwareError: it does not say.
    """
    for pause in _PAUSES:
        state = task.driver.power.get_power_state(task)
        if state is not None:
            return state
        task.pause(pause)
    raise errors.HardwareError(
        reason="its BMC answers, but does not say whether the machine is on or off. Look at the "
        "machine and try again."
    )


def begin(task: Task) -> None:
    """Run the verify steps by priority."""
    overrides = task.desk.verify_priorities
    chosen = plans.automated(
        offers.offered(task, StepKind.VERIFY), StepKind.VERIFY, overrides=overrides
    )
    stepper.start(task, PHASE, plans.as_stored(chosen, StepKind.VERIFY))


def finish(task: Task) -> None:
    """Manageable; what else the machine tells is noted, and it is switched off if so configured."""
    _note(task)
    may = not (task.node.disable_power_off or task.driver.power.in_band)
    if may and task.desk.conf.conductor.power_off_after_verify:
        task.driver.power.set_power_state(task, base.POWER_OFF)
        task.node.power_state = base.POWER_OFF
    findings.refresh(task)
    task.notes.forget_steps(StepKind.VERIFY)
    task.move("done")


def _note(task: Task) -> None:
    """Note how the machine boots, and who made it if nobody has said so yet.

    :raises errors.LockLost, errors.Stopping: nothing more is to be done here.
    """
    node, management = task.node, task.driver.management
    asked: dict[str, Callable[[Task], Any]] = {
        "boot_mode": management.get_boot_mode,
        "secure_boot": management.get_secure_boot_state,
    }
    properties = node.properties or {}
    if not properties.get(_VENDOR):
        asked[_VENDOR] = management.detect_vendor
    told: dict[str, Any] = {}
    for name, ask in asked.items():
        try:
            told[name] = ask(task)
        except (errors.LockLost, errors.Stopping):
            raise  # no fault of the BMC: this machine is for the node's next owner
        except Exception as why:  # not every BMC can tell; nothing depends on it
            LOG.debug("Node %s: its %s is not known", node.uuid, name, exc_info=why)
    if vendor := told.pop(_VENDOR, None):
        node.properties = {**properties, _VENDOR: texts.cleaned(vendor)}
    for column, value in told.items():
        setattr(node, column, value)


def give_up(task: Task, why: errors.Error) -> None:
    """Back to enroll with the reason (C1)."""
    task.notes.forget_steps(StepKind.VERIFY)
    task.move("fail", error=faults.led_by(f"Failed to verify node {task.node.uuid}", why))


def call_off(task: Task) -> None:
    """Verification cannot be aborted; the table has no such row."""
    raise errors.InvalidState(verb="abort", node=task.node.uuid, state=str(task.state))


PHASE = Phase(
    kind=StepKind.VERIFY,
    column=None,
    failure=errors.StepFailed,
    action="verifying",
    waiting=None,
    prepare=start,
    begin=begin,
    finish=finish,
    give_up=give_up,
    call_off=call_off,
    tidy=call_off,
)
