"""S2.24: a conductor dies while it cleans, and the one that comes after runs the step again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.cleaning_fixture import AUTOMATED, begun, stored, sweep
from tests.support.conductor_fixture import drivers, listed, wait_for
from tests.support.operator import Json, Operator

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
Serve = Callable[..., Operator]


def forget(database: Database) -> None:
    """Let so much time pass that the conductor ``here`` counts as dead, its leases as ended."""
    past = clock.after(-3600)

    def write(conn: Connection) -> None:
        conn.execute(
            models.conductors.update().where(models.conductors.c.hostname == "here"),
            {"updated_at": past},
        )
        held = models.nodes.c.reservation == "here"
        conn.execute(models.nodes.update().where(held), {"lock_expires": nodes.ENDED})

    database.write(write)


class Stage:
    """Where the conductor ``here`` dies after a call of a driver, and another goes on."""

    def __init__(self, database: Database, serve: Serve) -> None:
        self._database = database
        self._serve = serve

    def die(
        self, name: str, count: int, target: str, *, told: Json | None = None, **body: Any
    ) -> str:
        """Start a clean, end the conductor after the n-th call of this name; return the node.

        :param told: what steers the fake machine.
        """
        life = crashes.Life()

        def around(_kind: str, called: str, call: Callable[[], Any]) -> Any:
            life.check()
            found = call()
            if called == name:
                life.spend("call")
            return found

        registry = cast(Registry, crashes.Drivers(drivers(), around))
        first = Operator(crashes.database(self._database, life), registry=registry)
        node = first.enroll()
        assert first.patches(node, driver_info=told or {}).status == 200
        life.arm(call=count)
        with contextlib.suppress(crashes.Died):
            first.asks(node, target, **body)
        wait_for(lambda: life.dead)
        first.rig.bury()
        assert first.rig.service.runtime.workers.wait_idle(5)
        return node

    def restarted(self) -> Operator:
        """Start the same conductor again: it takes back what it held."""
        return self._serve()

    def survived(self) -> Operator:
        """Let another conductor find out."""
        forget(self._database)
        other = self._serve(DEFAULT__host="there")
        sweep(other, "orphans")
        return other


@pytest.fixture
def stage(sqlite_database: Database, serve: Serve) -> Stage:
    """A stage on the test's database."""
    return Stage(sqlite_database, serve)


MANUAL = ["bios.factory_reset", "raid.delete_configuration", "power.cycle"]
ENDINGS: dict[str, tuple[str, Json, list[str]]] = {
    "provide": ("available", {}, AUTOMATED),
    "clean": ("manageable", {"clean_steps": listed(*MANUAL)}, MANUAL),
}


@pytest.mark.parametrize("successor", [Stage.restarted, Stage.survived])
@pytest.mark.parametrize("target", ENDINGS)
def test_s2_24_a_conductor_that_takes_over_runs_the_step_again(
    stage: Stage, target: str, successor: Callable[[Stage], Operator]
) -> None:
    end, body, steps = ENDINGS[target]
    # The second step has had its effect when the conductor dies, and nobody knows.
    node = stage.die("execute_clean_step", 2, target, **body)
    operator = successor(stage)
    row = operator.rig.reaches(node, end)
    assert stored(row) == (end, None)
    assert begun(operator, node) == [steps[0], steps[1], *steps[1:]]
    (run,) = operator.rig.runs(node)[-1:]
    assert (run["state"], row["maintenance"], row["last_error"]) == ("done", False, None)
    assert [(one["state"], one["attempt"]) for one in run["steps"]] == [
        ("done", 2 if place == 1 else 1) for place in range(len(steps))
    ]


def test_s2_24_step_that_only_an_agent_knows_is_run_again(stage: Stage) -> None:
    """Nobody has marked it as one that may be run twice: in a clean every step may."""
    ours = {"interface": "deploy", "step": "burn_in", "priority": 50}
    told = {"fake_agent": [{"version": "1", "clean_steps": [ours]}]}
    node = stage.die("execute_clean_step", 2, "provide", told=told)
    operator = stage.survived()
    operator.rig.reaches(node, "available")
    first, last = AUTOMATED
    assert begun(operator, node) == [first, "deploy.burn_in", "deploy.burn_in", last]


MOMENTS = [
    ("prepare_cleaning", 1),
    *(("execute_clean_step", count) for count in range(1, 4)),
    ("tear_down_cleaning", 1),
]


@pytest.mark.parametrize(("name", "count"), MOMENTS)
def test_s2_24_death_repeats_one_step_at_most(stage: Stage, name: str, count: int) -> None:
    wanted = [*MANUAL[:2], "deploy.erase_devices"]  # which needs a ramdisk
    node = stage.die(name, count, "clean", clean_steps=listed(*wanted))
    operator = stage.survived()
    operator.rig.reaches(node, "manageable")
    done = begun(operator, node)
    assert len(done) <= len(wanted) + 1
    assert list(dict.fromkeys(done)) == wanted
