"""Conductors that die around a rescue: whatever happens, its agent is told the password."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import client, deploy, rescue
from tests.support import scripted_agent
from tests.support.conductor_fixture import ConductorFixture
from tests.support.crashes import Stage, at_rest, rests

CALLS = (*scripted_agent.MORE, "clean_up_ramdisk")


class Rescued(scripted_agent.Machine):
    """A machine whose agent listens no more once it was told a password, as the real one."""

    hashed: str | None = None
    """What it was told since it was switched on."""

    def begin(self, full: str, params: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if full != rescue.COMMAND or self.hashed is not None:
            return super().begin(full, params)
        answer = super().begin(full, params)
        self.hashed = params["rescue_password"]
        return answer

    def _switch(self, to: str) -> None:
        if to != self.power:
            self.hashed = None
        super()._switch(to)

    @property
    def agent(self) -> bool:
        """Whether its agent listens."""
        return super().agent and self.hashed is None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody is waited for longer than need be."""
    monkeypatch.setattr(client, "_PAUSE", 0.02)
    config.CONF([], default_config_files=[], default_config_dirs=[])
    yield
    config.CONF.reset()


@pytest.fixture
def machine() -> Iterator[Rescued]:
    with scripted_agent.running(Rescued()) as found:
        assert isinstance(found, Rescued)
        yield found


@pytest.fixture
def stage(stages: Callable[..., Stage], machine: Rescued) -> Stage:
    """A stage with one machine that is rescued by its agent."""
    drivers = functools.partial(
        scripted_agent.registry,
        machine,
        deploy.CustomAgentDeploy(),
        more=CALLS,
        rescue=rescue.AgentRescue(),
    )
    return stages(drivers, machine.serve, dead="removed", agent__require_tls=False)


def ask(rig: ConductorFixture, node: str) -> None:
    rig.ask("rescue", node, rescue_password="sesame")


@pytest.mark.parametrize("heir", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
def test_rescue_ends_and_can_be_undone_whenever_a_conductor_dies(
    stage: Stage, machine: Rescued, what: str, heir: str
) -> None:
    """Nobody waits for an agent that was told the password and will never speak again."""

    def begin(rig: ConductorFixture) -> str:
        node = rig.node("active", power_state=base.POWER_ON)
        machine.fresh(node)
        return node

    ends = []
    for moment in stage.moments(what, least=7):
        node = moment.die(begin, ask)
        rig = moment.heir(heir)
        row = rests(rig, node, lambda rig, node: machine.lost or at_rest(rig, node))
        ends.append(row["provision_state"])
        if machine.lost:  # who was told the token died before it could pass it on
            assert row["provision_state"] == "rescue wait"
        elif row["provision_state"] == "rescue":
            assert machine.hashed == row["instance_info"]["hashed_rescue_password"]
            assert machine.power == base.POWER_ON
        else:
            assert row["provision_state"] == "active"
        if row["provision_state"] == "rescue":
            row = rig.call("unrescue", node)
            assert (row["provision_state"], row["instance_info"]) == ("active", {})
            assert (machine.power, machine.boots) == (base.POWER_ON, "disk")
            assert "agent_rescue" not in str(row["driver_internal_info"])
    assert ends[-1] == "rescue", ends
    assert ends.count("rescue") >= 4
