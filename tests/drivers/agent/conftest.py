"""Tasks whose machine runs a real agent."""

from __future__ import annotations

import contextlib
import datetime
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.core import config
from ironic_lite.core.configuration import Configuration
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.client import Client
from ironic_lite.drivers.agent.results import Status
from tests.emulators.agent import process, service
from tests.support.fake_task import FakeTask, node

MAC = "52:54:00:00:00:01"
AT = datetime.datetime(2026, 1, 1)
CHANGED = (
    *("command_timeout", "max_command_attempts", "deploy_logs_collect"),
    "enable_bios_bootloader_install",
)

Known = tuple[process.Agent, base.Agent]


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> Iterator[Configuration]:
    """Our options, as a test changes them."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    config.CONF.set_override("state_path", str(tmp_path / "state"))
    yield config.CONF
    config.CONF.clear_override("state_path")
    for name in (*CHANGED, "deploy_logs_local_path"):
        config.CONF.clear_override(name, "agent")
    config.CONF.reset()


@pytest.fixture(scope="module")
def started() -> Iterator[Known]:
    """A machine with a real agent that has sent a heartbeat, for all tests that leave it alive."""
    with running() as found:
        yield found


@contextlib.contextmanager
def running(*, loop: bool = False, authority: pathlib.Path | None = None) -> Iterator[Known]:
    """Give a machine whose agent has sent a heartbeat.

    :param loop: whether its disk is a loop device, and there is a second one.
    :param authority: whose certificates the agent trusts.
    """
    with process.agent([MAC], loop=loop) as machine, service.serve(node().uuid) as heard:
        machine.api = heard.url
        if loop:
            machine.add_disk("F2")
        if authority is not None:
            machine.trust(authority)
        machine.start()
        beat = heard.beat()
        yield (
            machine,
            base.Agent(
                url=beat["callback_url"],
                token=beat["agent_token"],
                verify_ca=beat["agent_verify_ca"],
                version=beat["agent_version"],
                heard_at=AT,
            ),
        )
        machine.kill()


@pytest.fixture
def machine(started: Known, conf: cfg.ConfigOpts) -> Iterator[process.Agent]:
    """The machine of `task`; no step of it runs before or after a test."""
    found, agent = started
    found.forget()
    yield found
    found.flag()
    task = FakeTask(node())
    task.agent = agent
    until(lambda: all(one.status is not Status.RUNNING for one in Client(task).commands()))
    found.unflag()


@pytest.fixture
def task(machine: process.Agent, started: Known) -> FakeTask:
    """A task whose machine's agent has sent its first heartbeat."""
    found = FakeTask(node(provision_state="clean wait"))
    found.agent = started[1]
    return found


@pytest.fixture
def mortal(conf: cfg.ConfigOpts) -> Iterator[tuple[process.Agent, FakeTask]]:
    """A machine of a test's own, and its task."""
    with running() as (found, agent):
        about = FakeTask(node(provision_state="clean wait"))
        about.agent = agent
        yield found, about


def until(ask: Callable[[], Any]) -> Any:
    """Return the first true value of ``ask()``."""
    end = time.monotonic() + process.PATIENCE
    while time.monotonic() < end:
        if found := ask():
            return found
        time.sleep(0.02)
    raise AssertionError("never became true")
