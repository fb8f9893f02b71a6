"""Starting again a console that should be there and is not, from ``watch/consoles``."""

from __future__ import annotations

import logging

from ironic_lite import errors, masking
from ironic_lite.conductor.flows import faults
from ironic_lite.conductor.task import Task

LOG = logging.getLogger(__name__)

LEAST_SECONDS = 10.0
"""A program that ends by itself sooner would do so again, and is not started anew."""


def restore(task: Task) -> None:
    """Start a console whose program has ended, or ran on another conductor.

    What cannot be started is taken for stopped, and ``last_error`` says why.

    :raises errors.Error: one that says that it may go better later: nothing has changed.
    """
    console = task.driver.console
    proxy = console.proxies().get(task.node.uuid)
    if not (task.node.console_enabled and console.by_program) or (proxy and proxy.running):
        return
    if proxy is not None and proxy.lived < LEAST_SECONDS:
        console.let_go(task.node.uuid, proxy)
        said = proxy.said or "it did not say why"
        _give_up(task, f"its program ended after {proxy.lived:.0f} s: {said}")
        return
    try:
        console.start_console(task)
    except Exception as why:  # drivers may raise anything
        if isinstance(why, errors.Error) and why.retryable:
            raise
        LOG.warning("Node %s: its console cannot be started", task.node.uuid, exc_info=why)
        _give_up(task, faults.as_error(why).message)
        return
    LOG.info("Node %s: its console is started again", task.node.uuid)
    task.journal.event("management", event="end", data={"order": "console", "target": True})
    task.save()


def _give_up(task: Task, reason: str) -> None:
    text = masking.mask(f"The console was stopped: {reason}")
    task.node.console_enabled = False
    task.node.last_error = text
    task.journal.event("management", event="fail", data={"error": text})
    task.save()
