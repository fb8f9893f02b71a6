"""A conductor dies, and so does the one that takes over, at each moment of that; a third comes."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite.conductor.watch import timers
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.domain import recovery, states
from ironic_lite.domain.recovery import CrashPoint
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers.registry import Registry
from tests.flows.test_recovery import (
    ACT,
    SCENES,
    TIDYING,
    WAITS,
    Stage,
    at_rest,
    cells,
    killed,
    locked,
    possible,
    rests,
)
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
Build = Callable[..., ConductorFixture]
ALL = bool(os.environ.get("ANY_LIFE_EXAMPLES"))
STEP = 1 if ALL else 3
"""At every third moment the second one dies here; at each in `make life`."""

HEIRS = {"itself twice": ("here", "here"), "two others": ("there", "yonder")}
DEATHS = [
    ("itself twice", "call"),
    ("two others", "commit"),
    *((("itself twice", "commit"), ("two others", "call")) if ALL else ()),
]
"""Who comes after, and what the second one dies of."""
S = State


class Short(crashes.Life):
    """The life of who takes over: what the start of a conductor costs is not counted."""

    taking = False
    """Whether the main thread is taking over, too."""

    def spend(self, what: str) -> None:
        """Count one commit or call of the recovery, and die after the last."""
        if self.taking or threading.current_thread() is not threading.main_thread():
            super().spend(what)
        else:
            self.check()


class Heirs:
    """Those who come after a dead conductor, one after the other, all on one database."""

    def __init__(self, build: Build, database: Database) -> None:
        self._build, self._database = build, database
        self.called: list[str] = []

    def die(self, host: str, what: str, m: int) -> tuple[ConductorFixture, Short]:
        """Let one take over that dies at the m-th commit or call of that."""
        life = Short()
        life.arm(**{what: m})
        rig = self._start(host, crashes.database(self._database, life), life)
        life.taking = True
        with contextlib.suppress(crashes.Died):
            rig.service.orphans.sweep()
        return rig, life

    def live(self, host: str) -> ConductorFixture:
        """Let one take over for good."""
        rig = self._start(host, self._database, crashes.Life())
        rig.service.orphans.sweep()
        return rig

    def _start(self, host: str, database: Database, life: crashes.Life) -> ConductorFixture:
        if host != "here":
            self._database.write(_forget)

        def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
            life.check()
            found = call()
            self.called.append(f"{kind}.{name}")
            life.spend("call")
            return found

        registry = cast(Registry, crashes.Drivers(drivers(), around))
        rig = self._build(database, registry=registry, DEFAULT__host=host)
        rig.database = self._database
        return rig

    def bury(self, rig: ConductorFixture) -> None:
        """End a dead one's threads."""
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(5)


def _forget(conn: Connection) -> None:
    """Let all conductors be long gone, and their leases with them."""
    conn.execute(models.conductors.delete())
    held = models.nodes.c.reservation.is_not(None)
    conn.execute(models.nodes.update().where(held), {"lock_expires": nodes.ENDED})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers of dead conductors are looked for without delay."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)


@pytest.fixture
def heirs(build: Build, sqlite_database: Database) -> Heirs:
    return Heirs(build, sqlite_database)


@pytest.fixture
def stage(build: Build, sqlite_database: Database) -> Stage:
    return Stage(build, sqlite_database)


def moments() -> Iterator[tuple[State, CrashPoint, str]]:
    """Give each moment of each state in which somebody works, and by what it is reached."""
    for state, moment in cells():
        for what in ("commit", "call"):
            if possible(state, moment, what):
                yield state, moment, what


@pytest.mark.parametrize(("who", "again"), DEATHS)
@pytest.mark.parametrize("left", list(moments()), ids=lambda left: "-".join(map(str, left)))
def test_work_is_gone_on_with_though_its_recovery_dies_too(
    stage: Stage, heirs: Heirs, left: tuple[State, CrashPoint, str], who: str, again: str
) -> None:
    state, moment, what = left
    second, third = HEIRS[who]
    for m in itertools.count(1, STEP):
        first, node = killed(stage, state, moment, what)
        run = first.get(node)["run_uuid"]
        rig, life = heirs.die(second, again, m)
        wait_for(lambda: life.dead or at_rest(rig, node), lambda: rig.about(node))  # noqa: B023
        dead = life.dead
        heirs.bury(rig)
        last = heirs.live(third) if dead else rig
        row = rests(last, node)
        assert (row["provision_state"], row["last_error"]) == (SCENES[state].end, None), m
        assert not {"begun", "untidied", "polled_since"} & row["driver_internal_info"].keys()
        assert (row["lock_token"], row["wake_at"], row["run_uuid"]) == (None, None, None)
        (done,) = last.runs(node)
        assert (done["uuid"], done["state"]) == (run, "done")
        assert max((step["attempt"] for step in done["steps"]), default=1) <= 3
        assert {step["state"] for step in done["steps"]} <= {"done"}
        heirs.bury(last)
        if not dead:
            break
    assert m >= STEP or again == "call"


@pytest.mark.parametrize(("who", "again"), DEATHS)
@pytest.mark.parametrize("state", WAITS)
def test_abort_is_cleaned_up_even_if_the_recovery_dies_too(
    stage: Stage, heirs: Heirs, state: State, who: str, again: str
) -> None:
    second, third = HEIRS[who]
    scene, failed = WAITS[state], states.follow(state, "abort")
    for m in itertools.count(1, STEP):
        heirs.called.clear()
        first, life = stage.start()
        node = first.node(scene.before, **scene.told)
        assert first.call(scene.method, node, **scene.args)["provision_state"] == state
        stage.doom(life, node, (failed, CrashPoint.DURING), "commit")
        with contextlib.suppress(crashes.Died):
            first.ask(ACT, node, action="abort")
        assert stage.ended(first, life, node)
        rig, short = heirs.die(second, again, m)
        wait_for(lambda: short.dead or tidied(rig, node), lambda: rig.about(node))  # noqa: B023
        dead = short.dead
        heirs.bury(rig)
        last = heirs.live(third) if dead else rig
        wait_for(lambda: tidied(last, node), lambda: last.about(node))  # noqa: B023
        row = rests(last, node)
        assert row["provision_state"] == ("active" if state is S.SERVICEWAIT else failed)
        assert last.run(node)["state"] == "aborted"
        assert TIDYING[state] in (None, *heirs.called)
        heirs.bury(last)
        if not dead:
            break
    assert m >= STEP or again == "call"


def tidied(rig: ConductorFixture, node: str) -> bool:
    row = rig.get(node)
    return row["reservation"] is None and "untidied" not in row["driver_internal_info"]


@pytest.mark.parametrize("who", HEIRS)
def test_resting_states_lose_their_locks_even_if_the_recovery_dies_too(
    build: Build, heirs: Heirs, who: str
) -> None:
    second, third = HEIRS[who]
    resting = sorted(set(State) - recovery.WORKED_IN)
    rig = build()
    for m in itertools.count(1, 5):
        found = {state: locked(rig, state, target_power_state="power on") for state in resting}
        rig.bury()
        heir, life = heirs.die(second, "commit", m)
        assert heir.service.runtime.workers.wait_idle(5)
        dead = life.dead
        heirs.bury(heir)
        rig = heirs.live(third) if dead else heir
        assert rig.service.runtime.workers.wait_idle(5)
        for state, node in found.items():
            row = rig.get(node)
            assert (row["provision_state"], row["reservation"]) == (state, None)
            assert row["target_power_state"] is None
            assert "interrupted" in row["last_error"]
            assert len(rig.events(node, "power")) == 1
            assert states.kind(state) is not Kind.BUSY
        if not dead:
            break
    assert m > len(resting)
