"""Tasks whose machine runs a real agent."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from ironic_lite.core import config
from ironic_lite.core.options import Configuration
from ironic_lite.drivers.agent.client import AgentClient, CommandStatus
from tests.emulators.agent import process
from tests.support.fake_task import FakeTask, node
from tests.support.real_agent import Known, running, until

CHANGED = (
    *("command_timeout", "max_command_attempts", "deploy_logs_collect"),
    "enable_bios_bootloader_install",
)


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


@pytest.fixture
def machine(started: Known, conf: cfg.ConfigOpts) -> Iterator[process.Agent]:
    """The machine of `task`; no step of it runs before or after a test."""
    found, agent = started
    found.forget()
    yield found
    found.flag()
    task = FakeTask(node())
    task.agent = agent
    until(
        lambda: all(one.status is not CommandStatus.RUNNING for one in AgentClient(task).commands())
    )
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
