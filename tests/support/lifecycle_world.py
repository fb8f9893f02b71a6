"""An API, and a conductor that may die and be replaced, for the lifecycle of one node."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from ironic_lite.conductor.watch.timeouts import Timeouts
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import sweeps
from ironic_lite.db.tables import models
from ironic_lite.domain.steps import WAIT
from ironic_lite.drivers.registry import Registry
from ironic_lite.rpc import stub
from tests.support import conductor_fixture, crashes, whole_api
from tests.support.conductor_fixture import ConductorFixture, wait_for
from tests.support.wsgi_client import Client, Response

_LONG = 3600.0
_OPTIONS = {
    # No sign of life is due while a test runs: only the one that is wanted dies.
    "conductor__heartbeat_interval": 40_000,
    "conductor__heartbeat_timeout": 90_000,
    "conductor__workers_pool_size": 5,
}


class LifecycleWorld:
    """One API, one living conductor at a time, all on one database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.names = (f"host-{n}" for n in itertools.count(1))
        self.host = next(self.names)
        self.deaths = 0
        self.accepted: Counter[str] = Counter()  # verbs, by name
        self.rested: Counter[str] = Counter()  # states found after each act
        self.begin(self.host)
        self.api = Client(whole_api.build(database, self, self.rig.service.runtime.conf))

    def send(self, call: stub.RpcCall) -> Any:
        """Stand for ``rpc.client.RpcClient``: call the living conductor."""
        return stub.to(self.rig.endpoints)(call)

    # -- conductors --------------------------------------------------------------------------

    def begin(self, host: str) -> None:
        """Start a conductor."""
        self.host, self.life = host, crashes.Life()
        drivers = crashes.drivers(_patient(conductor_fixture.drivers()), self.life)
        own = crashes.database(self.database, self.life)
        self.rig: ConductorFixture = conductor_fixture.build(
            own, drivers, DEFAULT__host=host, **_OPTIONS
        )
        self.rig.database = self.database

    def bury(self) -> None:
        """End the threads of the conductor, dead or not."""
        self.rig.bury()
        assert self.rig.service.runtime.workers.wait_idle(60)

    def inherit(self, *, elsewhere: bool) -> None:
        """Let the dead conductor be followed by itself, or by another after its leases ended."""
        self.bury()
        self.deaths += 1
        if elsewhere:
            crashes.forget(self.database)
        self.begin(next(self.names) if elsewhere else self.host)
        self.rig.service.orphans.sweep()

    # -- one node ----------------------------------------------------------------------------

    def row(self, node: str) -> dict[str, Any]:
        """Return the node's row."""
        return self.rig.get(node)

    def act(self, node: str, do: Callable[[], Response | None]) -> Response | None:
        """Do something, and wait until the node rests or its conductor is dead."""
        answer = None
        with contextlib.suppress(crashes.Died):
            answer = do()
        self.settle(node)
        return answer

    def settle(self, node: str) -> None:
        """Wait until nobody works on the node, or everybody is dead."""
        wait_for(lambda: self.life.dead or self._rests(node), lambda: self.row(node))

    def _rests(self, node: str) -> bool:
        idle = self.rig.service.runtime.workers.busy == 0
        row = self.row(node)
        due = row["wake_at"] is not None and row["wake_at"] <= clock.after(_LONG / 2)
        return idle and row["reservation"] is None and not due

    def write(self, node: str, **values: Any) -> None:
        """Change a node behind everybody's back."""
        change = models.nodes.update().where(models.nodes.c.uuid == node)
        self.database.write(lambda conn: conn.execute(change, values))

    def ring(self, node: str) -> None:
        """Let the node's timer ring."""
        with self.rig.tasks.lock(self.rig.who, node) as task:
            task.wake_after(0)
            task.save()

    def age(self, node: str) -> None:
        """Let so much time pass that no wait is in time any more, and no timer is left."""
        self.write(node, provision_updated_at=clock.after(-_LONG * 24), wake_at=None)
        Timeouts(self.rig.tasks, self.rig.service.ownership).sweep()

    def remove(self, node: str) -> None:
        """Forget a node."""
        gone = models.nodes.delete().where(models.nodes.c.uuid == node)
        self.database.write(lambda conn: conn.execute(gone))

    def abandoned(self, node: str) -> bool:
        """Return whether a conductor will find this node in its busy state."""
        row = self.row(node)
        found = self.database.read(
            lambda conn: [
                *sweeps.unheld(conn, states=[row["provision_state"]], limit=100),
                *sweeps.held(conn, limit=100),
            ]
        )
        return node in {one["uuid"] for one in found}


def _patient(inner: Registry) -> Registry:
    """Return drivers whose waits last until a test ends them, though their steps take no time."""

    def around(_kind: str, _name: str, call: Callable[[], Any]) -> Any:
        found = call()
        if found is WAIT:
            call.args[0].wake_after(_LONG)  # type: ignore[attr-defined]
        return found

    return cast(Registry, crashes.Drivers(inner, around))
