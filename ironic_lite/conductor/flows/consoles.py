"""Restart of a console that was lost, for ``watch/local_state``, or stopped with an instance."""

from __future__ import annotations

import logging

from ironic_lite import errors
from ironic_lite.conductor.engine.notes import Notes
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import error_text
from ironic_lite.core import masking
from ironic_lite.domain import failures
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)

LEAST_SECONDS = 10.0
"""A program that ended sooner than this is not restarted, because it would end again."""


def wanted(node: Node) -> bool:
    """Return whether the console of a node must be reachable now."""
    return bool(node.console_enabled) and not Notes(node).console_paused


def resume(task: Task) -> None:
    """Start the console that was stopped with the last instance; the caller saves the node.

    A console that cannot be started is stored as stopped, and fails no deployment.
    """
    if not task.notes.console_paused:
        return
    task.notes.console_paused = False
    if not task.node.console_enabled:
        return
    try:
        task.driver.console.start_console(task)
    except (errors.LockLost, errors.Stopping):
        raise
    except Exception as why:  # drivers may raise anything
        LOG.warning("Node %s: its console cannot be started", task.node.uuid, exc_info=why)
        _note_failure(task, error_text.as_error(why))


def end(task: Task) -> None:
    """End the console, which its users must not keep; the caller saves the node.

    If a driver cannot end it now, the sweep of consoles ends its program.
    """
    if wanted(task.node):
        try:
            task.driver.console.stop_console(task)
        except (errors.LockLost, errors.Stopping):
            raise
        except Exception as why:  # drivers may raise anything
            LOG.warning("Node %s: its console is ended later", task.node.uuid, exc_info=why)
    task.node.console_enabled = False
    task.notes.console_paused = False


def restore(task: Task) -> None:
    """Restart a console whose program has ended, or ran on another conductor.

    A console that cannot be started is stored as stopped, with the reason in ``last_error``.

    :raises errors.Error: a retry may succeed later; nothing has changed.
    """
    console = task.driver.console
    proxy = console.proxies().get(task.node.uuid)
    if not (wanted(task.node) and console.by_program) or (proxy and proxy.running):
        return
    if proxy is not None and proxy.lived < LEAST_SECONDS:
        console.let_go(task.node.uuid, proxy)
        said = proxy.said or "no reason given"
        reason = f"its program ended after {proxy.lived:.0f} s: {said}"
        _give_up(task, errors.HardwareError(reason=reason, seconds=round(proxy.lived)))
        return
    try:
        console.start_console(task)
    except Exception as why:  # drivers may raise anything
        if isinstance(why, errors.NodeHeld) or (isinstance(why, errors.Error) and why.retryable):
            raise
        LOG.warning("Node %s: its console cannot be started", task.node.uuid, exc_info=why)
        _give_up(task, error_text.as_error(why))
        return
    LOG.info("Node %s: its console was restarted", task.node.uuid)
    task.journal.event("management", event="end", data={"order": "console", "target": True})
    task.save()


def _give_up(task: Task, why: errors.Error) -> None:
    _note_failure(task, why)
    task.save()


def _note_failure(task: Task, why: errors.Error) -> None:
    text = masking.mask(f"The console was stopped: {why.message}")
    task.node.console_enabled = False
    task.node.last_error = text
    cause = failures.of(why, task.journal.hide)
    task.journal.event("management", event="fail", data={"error": text, "cause": cause})
