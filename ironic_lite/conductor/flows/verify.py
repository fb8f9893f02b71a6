"""Verification of a new machine: is it reachable, and do the credentials work?

Requirement S5.5.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.engine import firmware_cache, lists, stepper
from ironic_lite.conductor.engine.phases import Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import error_text, planning
from ironic_lite.conductor.flows.planning import Findings, Listed
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import activities, root_device, states, step_lists
from ironic_lite.domain.steps import StepKind
from ironic_lite.domain.verbs import Verb
from ironic_lite.drivers import base

_VENDOR = "vendor"
_PAUSES = (0.5, 1.0, 2.0, 0.0)  # seconds between the attempts to read a power state


def start(task: Task) -> None:
    """Read the machine's power state, then run the drivers' verify steps."""
    task.driver.power.validate(task)
    task.node.power_state = _power_state(task)
    confirm_machine(task)
    begin(task)


def _power_state(task: Task) -> str:
    """Return the power state; wait a moment for a machine that is switching.

    :raises errors.HardwareError: the BMC does not report a state.
    """
    for pause in _PAUSES:
        state = task.driver.power.get_power_state(task)
        if state is not None:
            return state
        task.pause(pause)
    raise errors.HardwareError(
        reason="its BMC replies, but does not report whether the machine is on or off. Check the "
        "machine and try again."
    )


def confirm_machine(task: Task) -> None:
    """Refuse a BMC that answers for another machine than the node's, before it is erased.

    The first answer after the verb ``manage`` is the node's; see `root_device.bare_number` for
    values that tell no machine from another.

    :raises errors.OtherMachine: a value differs.
    :raises errors.HardwareError: the BMC does not answer.
    """
    bare, known = root_device.bare_number, task.notes.machine_identity
    try:
        said = task.driver.management.get_identity(task)
    except errors.UnsupportedDriverExtension:
        return
    told = {key: value for key, value in said.items() if bare(value)}
    differences = [
        f"its {key} is {value}, that of the node's machine {known[key]}"
        for key, value in told.items()
        if key in known and bare(value) != bare(known[key])
    ]
    if differences:
        raise errors.OtherMachine(node=task.node.uuid, differences="; ".join(differences))
    if new := {key: value for key, value in told.items() if key not in known}:
        task.notes.machine_identity = {**known, **new}


def plan(task: Task, verb: Verb, _body: JsonView, found: Findings) -> Listed | None:
    """Plan the verification of a machine that was enrolled."""
    if not states.allows(task.state, verb.event):
        return None
    expected = planning.expected_steps(task, StepKind.VERIFY, found, ramdisk=False)
    overrides = task.runtime.verify_priorities
    chosen = step_lists.automated(expected.steps, StepKind.VERIFY, overrides=overrides)
    return planning.list_chosen(task, PHASE, chosen, expected, boots=False, fixed=True)


def begin(task: Task) -> None:
    """Run the verify steps by priority."""
    overrides = task.runtime.verify_priorities
    chosen = step_lists.automated(
        lists.offered_steps(task, StepKind.VERIFY), StepKind.VERIFY, overrides=overrides
    )
    stepper.start(task, PHASE, step_lists.as_stored(chosen, StepKind.VERIFY))


def finish(task: Task) -> None:
    """Move to manageable, record machine facts, and switch off if configured."""
    _note_machine(task)
    may = not (task.node.disable_power_off or task.driver.power.in_band)
    if may and task.runtime.conf.conductor.power_off_after_verify:
        task.switch_power(base.POWER_OFF)
        task.node.power_state = base.POWER_OFF
    firmware_cache.refresh(task)
    task.notes.forget_steps(StepKind.VERIFY)
    task.move("done", last=True)


def _note_machine(task: Task) -> None:
    """Record the boot mode, and the vendor if it is not yet known.

    :raises errors.LockLost, errors.Stopping: the work ends here.
    """
    node, management = task.node, task.driver.management
    properties = node.properties or {}
    readers = dict(firmware_cache.BOOT)
    if not properties.get(_VENDOR):
        readers[_VENDOR] = management.detect_vendor
    values = firmware_cache.read_each(task, readers)
    if vendor := values.pop(_VENDOR, None):
        node.properties = {**properties, _VENDOR: errors.cleaned(vendor)}
    for column, value in values.items():
        setattr(node, column, value)


def give_up(task: Task, why: errors.Error) -> None:
    """Move back to enroll with the reason.

    Requirement C1.
    """
    task.notes.forget_steps(StepKind.VERIFY)
    task.move("fail", error=error_text.led_by(f"Failed to verify node {task.node.uuid}", why))


PHASE = Phase(
    activity=activities.VERIFY,
    plan=plan,
    prepare=start,
    begin=begin,
    finish=finish,
    give_up=give_up,
)
