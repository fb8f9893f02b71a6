"""Conductors that die around a ramdisk's agent: its machine is deployed, cleaned and off again."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ironic_lite.conductor.watch import timers
from ironic_lite.core import config
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import client, direct, steps
from tests.support import crashes, scripted_agent
from tests.support.conductor_fixture import ConductorFixture, listed, wait_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
STEPS = {"here": 1, "there": 1} if os.environ.get("ANY_LIFE_EXAMPLES") else {"here": 4, "there": 9}
"""At every fourth moment a conductor dies here, at every ninth if another one comes after it; at
each in `make life`."""
ERASE = {"step": "erase", "interface": "deploy", "priority": 10}
RENEW = {"step": "renew", "interface": "deploy", "priority": 20, "reboot_requested": True}
CHECK = {"step": "check", "interface": "deploy", "priority": 0}
TUNE = {"step": "tune", "interface": "deploy", "priority": 0}
IMAGE = {
    "image_source": "http://192.0.2.80/jammy.raw",
    "image_checksum": "a" * 64,
    "image_disk_format": "raw",
    "capabilities": {"boot_mode": "uefi"},
}


class Case(NamedTuple):
    """State before, endpoint, its arguments, how it ends, and what the agent has done then."""

    before: str
    method: str
    args: dict[str, Any]
    end: str
    did: tuple[str, ...]


CASES = {
    "deploy": Case(
        "available", "do_node_deploy", {}, "active", ("write_image", "install_bootloader")
    ),
    "clean": Case(
        "manageable", "do_provisioning_action", {"action": "provide"}, "available",
        ("renew", "erase"),
    ),
    "service": Case(
        "active", "do_node_service", {"service_steps": listed("deploy.check", "deploy.tune")},
        "active", ("check", "tune"),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody is waited for longer than need be."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(steps, "SOON", 0.02)
    monkeypatch.setattr(direct, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(client, "_PAUSE", 0.02)
    config.CONF([], default_config_files=[], default_config_dirs=[])
    yield
    config.CONF.reset()


@pytest.fixture
def machine() -> Iterator[scripted_agent.Machine]:
    """A machine whose agent has two clean steps, and two for servicing."""
    made = scripted_agent.Machine(clean=[ERASE, RENEW], service=[CHECK, TUNE])
    with scripted_agent.running(made) as found:
        yield found


class Stage:
    """Where conductors called ``here`` die; they, or others, come after."""

    def __init__(
        self,
        build: Callable[..., ConductorFixture],
        database: Database,
        machine: scripted_agent.Machine,
    ) -> None:
        self._build, self._database, self._machine = build, database, machine

    def start(self, life: crashes.Life, host: str = "here") -> ConductorFixture:
        if host != "here":
            self._database.write(forget)
        rig = self._build(
            crashes.database(self._database, life),
            registry=scripted_agent.registry(self._machine, direct.DirectDeploy(), life),
            agent__require_tls=False,
            DEFAULT__host=host,
        )
        rig.database = self._database
        self._machine.service = rig.service
        if host != "here":
            rig.service.orphans.sweep()
        return rig

    def die(self, case: Case, what: str, n: int, heir: str) -> tuple[ConductorFixture, str, bool]:
        """Play the case with a conductor that dies at the n-th; whether it did comes last."""
        life = crashes.Life()
        rig = self.start(life)
        node = rig.node(case.before, instance_info=IMAGE)
        self._machine.fresh(node)
        life.arm(**{what: n})
        with contextlib.suppress(crashes.Died):
            rig.ask(case.method, node, **case.args)
        wait_for(lambda: life.dead or at_rest(rig, node), lambda: rig.get(node))
        if not life.dead:
            return rig, node, False
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(5)
        again = self.start(crashes.Life(), heir)
        wait_for(lambda: at_rest(again, node) or self._machine.lost, lambda: again.about(node))
        return again, node, True


@pytest.fixture
def stage(
    build: Callable[..., ConductorFixture],
    sqlite_database: Database,
    machine: scripted_agent.Machine,
) -> Stage:
    """A stage with one machine."""
    return Stage(build, sqlite_database, machine)


def at_rest(rig: ConductorFixture, node: str) -> bool:
    row = rig.get(node)
    kind = states.kind(states.State(row["provision_state"]))
    return row["reservation"] is None and kind in (Kind.STABLE, Kind.FAIL)


def forget(conn: Connection) -> None:
    """Let all conductors be long gone, and their leases with them."""
    conn.execute(models.conductors.delete())
    held = models.nodes.c.reservation.is_not(None)
    conn.execute(models.nodes.update().where(held), {"lock_expires": nodes.ENDED})


@pytest.mark.parametrize("heir", STEPS)
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_agents_work_ends_whenever_a_conductor_dies(
    stage: Stage, machine: scripted_agent.Machine, name: str, what: str, heir: str
) -> None:
    case, deaths, lost = CASES[name], 0, 0
    for n in itertools.count(1, STEPS[heir]):
        rig, node, died = stage.die(case, what, n, heir)
        row = rig.get(node)
        if machine.lost:  # who was told the token died before it could pass it on
            lost += 1
            assert row["provision_state"] in ("wait call-back", "clean wait", "service wait")
        elif not rig.runs(node):
            assert row["provision_state"] == case.before
            assert died
            assert machine.ran == []
        else:
            assert (row["provision_state"], row["last_error"]) == (case.end, None), (n, machine.ran)
            done = [one for one in machine.ran if one in case.did]
            assert tuple(dict.fromkeys(done)) == case.did
            assert len(done) <= len(case.did) + 1
            assert machine.power == (base.POWER_ON if case.end == "active" else base.POWER_OFF)
            assert machine.boots == "disk" or case.end != "active"
            kept = {"agent_url", "agent_secret_token"} & set(row["driver_internal_info"])
            assert not kept or (machine.cut_off and kept == {"agent_secret_token"})
        rig.bury()
        if not died:
            break
        deaths += 1
    assert deaths * STEPS[heir] >= 10
    assert lost <= 4
