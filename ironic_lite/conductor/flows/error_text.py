"""Errors of flows: conversion to our own classes, and failures of clean-up."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.conductor.engine.task import Task
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers.base import POWER_OFF
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)

_SENTENCES = (errors.StepFailed, errors.TimedOut, errors.Aborted)


def as_error(why: Exception) -> errors.Error:
    """Return an error of ours for any exception, without internals."""
    if isinstance(why, errors.Error):
        return why
    cause = errors.Unexpected(exception=type(why).__name__)
    return errors.Error(cause.message).because(cause)


def led_by(what: str, why: errors.Error) -> errors.Error:
    """Return the same error with ``what`` before its message; ``why`` is its cause."""
    return type(why)(f"{what}: {why.message}", **why.facts).because(why)


def cannot(verb: str, task: Task, why: errors.Error) -> errors.Error:
    """Return ``why`` as "Cannot <verb> node ...", unless it names a step or a wait."""
    if isinstance(why, _SENTENCES):
        return why
    return led_by(f"Cannot {verb} node {task.node.uuid}", why)


def clean_up_after(
    task: Task, why: errors.Error, what: str, act: Callable[[Task], object]
) -> errors.Error:
    """Clean up after ``why``; add a further failure to its message and continue.

    The cause stays the error before the clean-up.

    :param what: the action's name for the sentence, such as "tearing down cleaning".
    :raises errors.LockLost: another conductor now has the machine.
    :raises errors.Stopping: the service stops, and the next owner finishes an abort, or fails a
        waiting node again. In a busy state it would repeat the step, so the clean-up ends.
    """
    task.renew_lock()
    try:
        act(task)
    except errors.LockLost:
        raise
    except errors.Stopping:
        if states.kind(task.state) is not Kind.BUSY:
            raise
        also = f"{what} was not finished, because the conductor was stopped."
    except Exception as more:  # drivers may raise anything, and the node must reach its fail state
        unknown = None if isinstance(more, errors.Error) else more
        LOG.warning("Node %s: %s failed: %s", task.node.uuid, what, more, exc_info=unknown)
        also = f"{what} failed: {as_error(more).message}"
    else:
        return why
    return type(why)(f"{why.message} Also, {also}", **why.facts).because(why)


def switch_off(task: Task, why: errors.Error, *, wanted: bool) -> errors.Error:
    """Switch a machine off after ``why``, if configuration, node and its step allow it.

    :raises errors.LockLost: as `clean_up_after`.
    """
    spared = task.node.disable_power_off or may_write_firmware(task.node)
    if not wanted or spared or task.driver.power.in_band:
        return why
    return clean_up_after(task, why, "switching the machine off", _switch_off)


def may_write_firmware(node: Node) -> bool:
    """Return whether the step of a node, at which its list may have failed, is of firmware.

    A BMC may still write after its step has failed, whatever the reason.
    """
    current = (node.clean_step, node.deploy_step, node.service_step)
    return any((step or {}).get("interface") == "firmware" for step in current)


def _switch_off(task: Task) -> None:
    task.switch_power(POWER_OFF)
    task.node.power_state = POWER_OFF


def put_into_maintenance(task: Task, fault: str, why: errors.Error) -> None:
    """Put a node into maintenance for a fault; an existing reason stays."""
    reason = task.journal.hide(why.message)
    if not task.node.maintenance:
        task.notes.own_maintenance = reason
    if not task.node.maintenance or task.node.maintenance_reason is None:
        task.node.maintenance_reason = reason
    task.node.maintenance = True
    task.node.fault = fault


def take_back(task: Task) -> None:
    """End the maintenance that a failed run has set.

    :raises errors.NodeInMaintenance: an operator has set the maintenance, or its reason.
    """
    if not task.node.maintenance:
        return
    check_own_maintenance(task)
    task.node.maintenance = False
    task.node.maintenance_reason = None
    task.node.fault = None
    task.notes.own_maintenance = None


def check_own_maintenance(task: Task) -> None:
    """Refuse a retry of a node that is in an operator's maintenance.

    :raises errors.NodeInMaintenance:
    """
    reason = task.notes.own_maintenance
    if task.node.maintenance and (reason is None or reason != task.node.maintenance_reason):
        raise errors.NodeInMaintenance(verb="retry", node=task.node.uuid)


def forget(task: Task) -> None:
    """Forget an earlier failure, unless the node is still in its fail state."""
    if task.state is not State.ERROR and states.kind(task.state) is not Kind.FAIL:
        task.node.last_error = None


def cut_short(why: Exception, look_at: str) -> str:
    """Return the reason of an interrupted request for the sentence in last_error.

    :param look_at: shows how far the request came, such as ``power_state``.
    """
    if isinstance(why, errors.Stopping):
        return f"the conductor was stopped meanwhile. Check {look_at} and repeat the request."
    return as_error(why).message
