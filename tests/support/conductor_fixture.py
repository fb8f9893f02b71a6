"""A conductor in this process: real database, real workers, fake hardware, no RPC."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from ironic_lite import errors, features
from ironic_lite.conductor.service import ConductorService
from ironic_lite.conductor.watch.sweep_threads import Sweeps
from ironic_lite.core import context
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events as db_events
from ironic_lite.db.queries import nodes, runs
from ironic_lite.domain import verbs
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.rpc import stub
from tests.support import configurations

_PATIENCE = 60.0  # seconds before a condition that does not come true fails the test
_LONGEST_PAUSE = 0.03  # seconds
_RARE = 600.0  # seconds between two sweeps
_ASKED = itertools.count(1)
EVENTS = frozenset(verb.event for verb in verbs.TABLE)


def wait_for(what: Callable[[], Any], about: object = None) -> Any:
    """Return the first true value of ``what()``; fail when it never comes."""
    end, pause = time.monotonic() + _PATIENCE, 0.001
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 1.3)  # what takes long is not slowed down by questions
    raise AssertionError(f"never became true: {about() if callable(about) else about}")


@dataclasses.dataclass
class ConductorFixture:
    """One conductor and the nodes of one test."""

    database: Database
    service: ConductorService
    who: context.Context = dataclasses.field(
        default_factory=lambda: context.Context("req-test", user="tester")
    )

    @property
    def endpoints(self) -> Any:
        """The methods that the API calls."""
        return self.service.endpoints

    @property
    def tasks(self) -> Any:
        """The conductor's locks."""
        return self.service.tasks

    # -- nodes -------------------------------------------------------------------------------

    def node(self, state: str = "manageable", **values: Any) -> str:
        """Add a node and return its UUID; ``fake_`` keys go into driver_info."""
        node_uuid = str(uuid.uuid4())
        told = {key: values.pop(key) for key in list(values) if key.startswith("fake_")}
        row = {
            "uuid": node_uuid,
            "driver": "fake-hardware",
            "provision_state": state,
            "driver_info": told,
            "properties": {},
            "extra": {},
            "instance_info": {},
            "driver_internal_info": {},
            **values,
        }
        self.database.write(lambda conn: nodes.insert(conn, row))
        return node_uuid

    def get(self, node_uuid: str) -> dict[str, Any]:
        """Return the node's row."""
        return self.database.read(lambda conn: nodes.get(conn, node_uuid))

    def edit(self, node_uuid: str, **values: Any) -> None:
        """Change columns of a node nobody works on, as a PATCH would."""
        generation = self.get(node_uuid)["generation"]
        self.database.write(lambda conn: nodes.edit(conn, node_uuid, values, generation=generation))

    def revise(self, node_uuid: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Change columns of a node by its row, between the writes of its polls."""

        def done() -> bool:
            row = self.get(node_uuid)
            values, generation = change(row), row["generation"]
            with contextlib.suppress(errors.ConcurrentUpdate, errors.NodeLocked):
                self.database.write(
                    lambda conn: nodes.edit(conn, node_uuid, values, generation=generation)
                )
                return True
            return False

        wait_for(done, lambda: self.about(node_uuid))

    # -- verbs -------------------------------------------------------------------------------

    def ask(self, method: str, node_uuid: str, **args: Any) -> None:
        """Call `send` by a request of its own."""
        who = dataclasses.replace(self.who, request_id=f"{self.who.request_id}-{next(_ASKED)}")
        self.send(who, method, node_uuid, **args)

    def send(self, who: context.Context, method: str, node_uuid: str, **args: Any) -> Any:
        """Call an endpoint, or start the verb of an event or target with the body ``args``."""
        if method in EVENTS:
            return self.endpoints.start_verb(who, node_uuid=node_uuid, event=method, body=args)
        if method in verbs.BY_TARGET:
            event, body = verbs.BY_TARGET[method].event, {"target": method, **args}
            return self.endpoints.start_verb(who, node_uuid=node_uuid, event=event, body=body)
        return getattr(self.endpoints, method)(who, node_uuid=node_uuid, **args)

    def call(self, method: str, node_uuid: str, **args: Any) -> dict[str, Any]:
        """Call an endpoint, wait for the worker, return the node."""
        self.ask(method, node_uuid, **args)
        return self.settled(node_uuid)

    def act(self, action: str, node_uuid: str) -> dict[str, Any]:
        """Carry out a verb without a body."""
        return self.call(action, node_uuid)

    def clean(self, node_uuid: str, *titles: str, **args: Any) -> dict[str, Any]:
        """Start a manual clean with these ``interface.step`` and wait for the worker."""
        return self.call("clean", node_uuid, clean_steps=listed(*titles), **args)

    # -- waiting -----------------------------------------------------------------------------

    def settled(self, node_uuid: str) -> dict[str, Any]:
        """Wait until nobody holds the node, and return it."""
        found: dict[str, Any] = wait_for(
            lambda: self._free(node_uuid), lambda: self.about(node_uuid)
        )
        return found

    def reaches(self, node_uuid: str, state: str) -> dict[str, Any]:
        """Wait until the node rests in ``state``, and return it."""
        found: dict[str, Any] = wait_for(
            lambda: (row := self._free(node_uuid)) and row["provision_state"] == state and row,
            lambda: self.about(node_uuid),
        )
        return found

    def enters(self, node_uuid: str, state: str) -> dict[str, Any]:
        """Wait until the node is in ``state``, worked on or not, and return it."""
        found: dict[str, Any] = wait_for(
            lambda: (row := self.get(node_uuid))["provision_state"] == state and row,
            lambda: self.about(node_uuid),
        )
        return found

    def about(self, node_uuid: str) -> dict[str, Any]:
        row = self.get(node_uuid)
        told = ("provision_state", "reservation", "last_error", "wake_at", "clean_step")
        return {name: row[name] for name in told} | {"path": self.path(node_uuid)}

    def _free(self, node_uuid: str) -> dict[str, Any] | None:
        row = self.get(node_uuid)
        return row if row["reservation"] is None else None

    def ring(self, node_uuid: str) -> None:
        """Let a waiting node's timer ring now; steps take no time from here on."""
        with self.tasks.lock(self.who, node_uuid) as task:
            told = task.node.driver_info
            task.node.driver_info = {k: told[k] for k in told if k != "fake_step_seconds"}
            task.wake_after(0)
            task.save()

    def sweep(self, name: str) -> None:
        """Run a periodic sweep now, in this thread."""
        self.service.sweeps.plan[name].act()

    # -- history -----------------------------------------------------------------------------

    def events(self, node_uuid: str, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the node's history."""
        kinds = [kind] if kind else None
        found = self.database.read(
            lambda conn: db_events.page(conn, node_uuid=node_uuid, limit=1000, kinds=kinds)
        )
        return [dict(row) for row in found]

    def path(self, node_uuid: str) -> list[str]:
        """Return the provision states the node went through."""
        return [row["after"] for row in self.events(node_uuid, "provision")]

    def started(self, node_uuid: str) -> list[str]:
        """Return the steps begun, in order, each as often as it was begun."""
        return [row["data"]["step"] for row in self.events(node_uuid, "step_started")]

    def runs(self, node_uuid: str) -> list[dict[str, Any]]:
        """Return the node's runs, oldest first, each with its steps."""
        found = self.database.read(
            lambda conn: runs.page(conn, node_uuid, direction="asc", limit=100)
        )
        for run in found:
            run["steps"] = self.database.read(functools.partial(runs.steps, run_uuid=run["uuid"]))
        return found

    def run(self, node_uuid: str) -> dict[str, Any]:
        """Return the node's newest run with its steps."""
        return self.runs(node_uuid)[-1]

    def step_states(self, node_uuid: str) -> list[str]:
        """Return the states of the newest run's steps."""
        return [step["state"] for step in self.run(node_uuid)["steps"]]

    # -- the end -----------------------------------------------------------------------------

    def bury(self) -> None:
        """End the threads of a conductor that died: without a word to the database."""
        self.service.runtime.draining.set()
        self.service.runtime.run_ends.end()
        self.service.runtime.stopping.set()
        self.service.keepalive.stop()
        self.service.timers.stop()
        self.service.runtime.workers.close()


def listed(*titles: str) -> list[dict[str, Any]]:
    """Return a request's steps from ``interface.step``."""
    split = (title.split(".") for title in titles)
    return [{"interface": interface, "step": step} for interface, step in split]


def configure(**values: Any) -> Any:
    """Return the configuration of a test conductor; keys are ``group__option``.

    Conductors with the same values share it.
    """
    return configurations.shared(
        {
            "DEFAULT__host": "here",
            "DEFAULT__enabled_hardware_types": ["fake-hardware"],
            "conductor__workers_pool_size": 20,
            "conductor__node_locked_retry_interval": 1,
            "conductor__check_provision_state_interval": 0,
            "conductor__sync_power_state_interval": 0,
            "conductor__power_failure_recovery_interval": 0,
            "conductor__hash_ring_reset_interval": 0,
            "conductor__sync_local_state_interval": 0,
            "conductor__batch_interval": 0,
            "webhooks__enabled": False,
            **values,
        }
    )


@functools.cache
def drivers() -> Registry:
    """Return the drivers of the default configuration: they hold no state, so all may share."""
    return Registry.load(Settings.read(configure()))


def build(database: Database, registry: Registry | None = None, **values: Any) -> ConductorFixture:
    """Return a rig whose conductor is registered, listens to timers, and runs no sweep.

    :param values: options as ``group__option``.
    """
    conf = configure(**values)
    work = features.work(conf)
    service = ConductorService(conf, database, registry or drivers(), None, extensions=work)
    # A sweep that no test can wait for needs no thread.
    sweeps = service.sweeps
    frequent = [one for one in sweeps.plan.values() if one.wakeup or one.interval < _RARE]
    service.sweeps = Sweeps(service.runtime.draining, frequent)
    service.start()
    service.sweeps = sweeps
    service.recovery.join(_PATIENCE)
    return ConductorFixture(database, service)


def connect(rigs: Sequence[ConductorFixture]) -> None:
    """Let conductors call each other as by RPC; those that are buried do not listen."""

    def send(call: stub.RpcCall) -> Any:
        for rig in rigs:
            runtime = rig.service.runtime
            if runtime.host == call.host and not runtime.draining.is_set():
                return stub.to(rig.service.peers.own)(call)
        raise errors.ConductorNotListening(host=call.host)

    for rig in rigs:
        rig.service.peers.send = send
