"""Conductors that die around a rescue: whatever happens, its agent is told the password."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite.conductor.watch import timers
from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import client, deploy, rescue
from ironic_lite.drivers.registry import Registry
from tests.flows.test_agents_die import forget
from tests.support import crashes, scripted_agent
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
CALLS = (*scripted_agent.MORE, "clean_up_ramdisk")
STABLE = (Kind.STABLE, Kind.FAIL)


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


class Drivers:
    """The drivers of nodes that are rescued by agents."""

    def __init__(self, inner: Registry) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def driver_for(self, *args: Any) -> base.Driver:
        driver = self._inner.driver_for(*args)
        agents = {"deploy": deploy.CustomAgentDeploy(), "rescue": rescue.AgentRescue()}
        return dataclasses.replace(driver, **cast(Any, agents))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody is waited for longer than need be."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(client, "_PAUSE", 0.02)
    config.CONF([], default_config_files=[], default_config_dirs=[])
    yield
    config.CONF.reset()


@pytest.fixture
def machine() -> Iterator[Rescued]:
    with scripted_agent.running(Rescued()) as found:
        assert isinstance(found, Rescued)
        yield found


class Stage:
    """Where conductors called ``here`` die; they, or others, come after."""

    def __init__(
        self, build: Callable[..., ConductorFixture], database: Database, machine: Rescued
    ) -> None:
        self._build, self._database, self._machine = build, database, machine

    def start(self, life: crashes.Life, host: str = "here") -> ConductorFixture:
        if host != "here":
            self._database.write(forget)

        def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
            life.check()
            found = self._machine.around(kind, name, call)
            life.spend("call")
            return found

        inner = cast(Registry, Drivers(drivers()))
        registry = cast(Registry, crashes.Drivers(inner, around, more=CALLS))
        database = crashes.database(self._database, life)
        rig = self._build(database, registry=registry, agent__require_tls=False, DEFAULT__host=host)
        rig.database = self._database
        self._machine.service = rig.service
        if host != "here":
            rig.service.orphans.sweep()
        return rig

    def die(self, what: str, n: int, heir: str) -> tuple[ConductorFixture, str, bool]:
        """Rescue with a conductor that dies at the n-th; whether it did comes last."""
        life = crashes.Life()
        rig = self.start(life)
        node = rig.node("active", power_state=base.POWER_ON)
        self._machine.node = node
        self._machine.around("power", "set_power_state", _call(base.POWER_OFF))
        life.arm(**{what: n})
        with contextlib.suppress(crashes.Died):
            rig.ask("do_node_rescue", node, rescue_password="sesame")
        wait_for(lambda: life.dead or at_rest(rig, node), lambda: rig.about(node))
        if not life.dead:
            life.disarm()
            return rig, node, False
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(5)
        again = self.start(crashes.Life(), heir)
        wait_for(lambda: at_rest(again, node) or self._machine.lost, lambda: again.about(node))
        return again, node, True


def _call(power: str) -> Callable[[], Any]:
    def act() -> None:
        """Nothing; the machine looks at the arguments alone."""

    act.args = (None, power)  # type: ignore[attr-defined]  # as functools.partial has them
    return act


def at_rest(rig: ConductorFixture, node: str) -> bool:
    row = rig.get(node)
    kind = states.kind(states.State(row["provision_state"]))
    return row["reservation"] is None and kind in STABLE


@pytest.mark.parametrize("heir", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
def test_rescue_ends_and_can_be_undone_whenever_a_conductor_dies(
    build: Callable[..., ConductorFixture],
    sqlite_database: Database,
    machine: Rescued,
    what: str,
    heir: str,
) -> None:
    """Nobody waits for an agent that was told the password and will never speak again."""
    stage, ends = Stage(build, sqlite_database, machine), []
    for n in itertools.count(1):
        rig, node, died = stage.die(what, n, heir)
        row = rig.get(node)
        ends.append(row["provision_state"])
        if machine.lost:  # who was told the token died before it could pass it on
            assert row["provision_state"] == "rescue wait"
        elif row["provision_state"] == "rescue":
            assert machine.hashed == row["instance_info"]["hashed_rescue_password"]
            assert machine.power == base.POWER_ON
        else:
            assert row["provision_state"] == "active"
        if row["provision_state"] == "rescue":
            row = rig.call("do_node_unrescue", node)
            assert (row["provision_state"], row["instance_info"]) == ("active", {})
            assert (machine.power, machine.boots) == (base.POWER_ON, "disk")
            assert "agent_rescue" not in str(row["driver_internal_info"])
        rig.bury()
        if not died:
            break
    assert ends[-1] == "rescue", ends
    assert ends.count("rescue") >= 4
    assert len(ends) >= 8
