"""Machines that write down what is done to them: interfaces beside those of ``fake-hardware``.

A conductor loads them by the entry points of a folder that `site` makes; the journal is the file
that the environment names. A line is one write, so no crash leaves half of one.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import pathlib
import random
import time
from collections.abc import Iterator
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake.hardware import FakeDeploy, FakePower

JOURNAL = "CHAOS_JOURNAL"
AGENT = "chaos_agent"
"""Key of driver_info: the step ``by_agent`` of this node waits for an agent's heartbeat."""
UNSTEADY = "chaos_unsteady"
"""Key of driver_info: the BMC of this node answers no more in the middle of some steps."""
LOST = 0.3
"""Share of the steps in which it does so."""
ENTRY_POINTS = """\
[ironic_lite.hardware.interfaces.deploy]
chaos = tests.chaos.machine:ChaosDeploy
[ironic_lite.hardware.interfaces.power]
chaos = tests.chaos.machine:ChaosPower
"""
_NUMBERS = itertools.count()


def site(folder: pathlib.Path) -> pathlib.Path:
    """Make the folder on PYTHONPATH by which conductors find these interfaces."""
    about = folder / "site" / "chaos_machine-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: chaos-machine\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return about.parent


@functools.cache
def _journal() -> int:
    return os.open(os.environ[JOURNAL], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(what: str, **facts: Any) -> None:
    """Write a line."""
    row = {"what": what, "at": time.monotonic(), "pid": os.getpid(), **facts}
    os.write(_journal(), json.dumps(row).encode() + b"\n")


@contextlib.contextmanager
def act(
    task: base.Task, call: str, *, step: str | None = None, again: bool = True
) -> Iterator[None]:
    """Write down when a call begins and when it ends."""
    ident = f"{os.getpid()}-{next(_NUMBERS)}"
    token = getattr(task, "_token", None)
    facts = {"node": task.node.uuid, "call": call, "token": token, "step": step, "again": again}
    note("begin", id=ident, **facts)
    try:
        yield
    finally:
        note("end", id=ident)


def finished(step: str) -> pathlib.Path:
    """Return the file that says that an agent is done with a step."""
    return pathlib.Path(os.environ[JOURNAL]).parent / "done" / step.replace("/", "-")


class ChaosPower(FakePower):
    """Power that is written down."""

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        """Remember the state."""
        with act(task, "set_power_state"):
            super().set_power_state(task, target, timeout)


class ChaosDeploy(FakeDeploy):
    """Steps that are written down, one that must not be run twice, one that an agent ends."""

    def execute_clean_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a clean step."""
        with self._step(task, step):
            return super().execute_clean_step(task, step)

    def execute_deploy_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a deploy step."""
        with self._step(task, step, again=step["step"] != "stamp"):
            return super().execute_deploy_step(task, step)

    def execute_service_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a service step."""
        with self._step(task, step):
            return super().execute_service_step(task, step)

    @contextlib.contextmanager
    def _step(
        self, task: base.Task, step: base.StoredStep, *, again: bool = True
    ) -> Iterator[None]:
        with act(task, str(step["step"]), step=task.step_id, again=again):
            yield
            if task.node.driver_info.get(UNSTEADY) and random.random() < LOST:
                raise errors.BmcUnreachable(address="192.0.2.1", reason="no answer")

    def prepare(self, task: base.Task) -> None:
        """Get ready for a deployment."""
        with act(task, "prepare"):
            super().prepare(task)

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off."""
        with act(task, "tear_down"):
            super().tear_down(task)

    def prepare_cleaning(self, task: base.Task) -> base.Outcome:
        """Get ready to clean."""
        with act(task, "prepare_cleaning"):
            return super().prepare_cleaning(task)

    def heartbeat(self, task: base.Task) -> bool:
        """Go on if the agent is done with the step that waits for it."""
        if not finished(task.step_id).exists():
            return False
        with act(task, "heartbeat"):
            return True

    @base.clean_step(priority=5, abortable=True)
    def by_agent(self, task: base.Task) -> base.Outcome | None:
        """Have an agent do something, on machines that have one."""
        if not task.node.driver_info.get(AGENT):
            return None
        token = task.new_agent_token()
        note("agent", node=task.node.uuid, step=task.step_id, token=token)
        return base.WAIT

    @base.deploy_step(priority=90)
    def stamp(self, task: base.Task) -> None:
        """Do what must never be done twice."""
