"""Conductors that die at a chosen moment, after a commit or a call of a driver, and their heirs.

Death is a ``BaseException`` in the thread that reaches the moment. From then on the database
accepts no statement of the dead conductor, so nothing is cleaned up.

A test of each moment is a loop over `Stage.moments`: play the flow, then judge the node::

    for moment in stage.moments("commit"):
        rig, node = moment.play(scene.begin, scene.ask, host="there")
        assert rig.get(node)["provision_state"] == scene.end
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry
from tests.support import conductor_fixture
from tests.support.conductor_fixture import ConductorFixture, wait_for

_IDLE_SECONDS = 10.0
_LONG = 200_000.0  # seconds: more than a heartbeat timeout of any test


class Died(BaseException):
    """The death of a conductor; no ``except Exception`` catches it."""


class Life:
    """The number of commits or driver calls until a conductor dies; unlimited until armed."""

    def __init__(self) -> None:
        self.dead = False
        self.doom: Callable[[str], bool] = lambda _what: False
        """Asked after each ``commit`` or ``call`` whether it was the last."""
        self._left: dict[str, int | None] = {"commit": None, "call": None}
        self._guard = threading.Lock()

    def arm(self, **left: int) -> None:
        """Die after so many commits (``commit``) or driver calls (``call``) from now on."""
        self._left.update(left)

    def disarm(self) -> None:
        """Live for ever again."""
        with self._guard:
            self._left = {"commit": None, "call": None}

    def check(self) -> None:
        """Stop a thread of a dead conductor."""
        if self.dead:
            raise Died

    def spend(self, what: str) -> None:
        """Count one commit or call, and die after the last."""
        with self._guard:
            left = self._left[what]
            if left is not None:
                self._left[what] = left - 1
                if left == 1:
                    self.dead = True
        if self.doom(what):
            self.dead = True  # by whatever thread; one that goes on must not bring it to life
        self.check()


class MortalDatabase:
    """A database as one mortal conductor sees it."""

    def __init__(self, inner: Database, life: Life) -> None:
        self._inner = inner
        self._life = life
        self.engine = inner.engine

    def read(self, work: Callable[[Connection], Any]) -> Any:
        """Read, if alive."""
        self._life.check()
        return self._inner.read(work)

    def write(self, work: Callable[[Connection], Any], **more: Any) -> Any:
        """Write, if alive; and perhaps die."""
        self._life.check()
        found = self._inner.write(work, **more)
        self._life.spend("commit")
        return found


def database(inner: Database, life: Life) -> Database:
    """Return ``inner`` for a conductor with this life."""
    return cast(Database, MortalDatabase(inner, life))


_CALLS = (
    "get_power_state",
    "set_power_state",
    "reboot",
    "prepare",
    "tear_down",
    "clean_up",
    "adopt",
    "prepare_cleaning",
    "agent_steps",
    "tear_down_cleaning",
    "prepare_service",
    "tear_down_service",
    "inspect_hardware",
    "poll_inspection",
    "rescue",
    "poll_rescue",
    "unrescue",
    "poll_step",
    "execute_clean_step",
    "execute_deploy_step",
    "execute_service_step",
    "execute_verify_step",
    "abort",
)


class Drivers:
    """The drivers of a registry with something to do after, or instead of, every call.

    :param around: called with the interface kind, the method's name and the call itself; what it
        returns is what the conductor sees.
    :param more: names of further methods.
    """

    def __init__(
        self,
        inner: Registry,
        around: Callable[[str, str, Callable[[], Any]], Any],
        *,
        more: tuple[str, ...] = (),
    ) -> None:
        self._inner = inner
        self._around = around
        self._names = (*_CALLS, *more)
        self._twins: dict[tuple[str, base.Interface], base.Interface] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def driver_for(self, *args: Any) -> base.Driver:
        """Return the node's driver, each of its interfaces wrapped."""
        driver = self._inner.driver_for(*args)
        wrapped = {kind: self._wrap(kind, driver.interface(kind)) for kind in base.KINDS}
        return dataclasses.replace(driver, **cast(Any, wrapped))

    def _wrap(self, kind: str, interface: base.Interface) -> base.Interface:
        found = self._twins.get((kind, interface))
        if found is not None:
            return found
        twin = copy.copy(interface)
        for name in self._names:
            method = getattr(interface, name, None)
            if method is not None:
                object.__setattr__(twin, name, self._wrapped(kind, name, method))
        # Stored when complete: another thread would call methods that are not wrapped yet.
        return self._twins.setdefault((kind, interface), twin)

    def _wrapped(self, kind: str, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._around(kind, name, functools.partial(method, *args, **kwargs))

        return call


class Replaced:
    """The drivers of a registry with other interfaces, such as ``deploy``."""

    def __init__(self, inner: Registry, **interfaces: base.Interface) -> None:
        self._inner, self._interfaces = inner, interfaces

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def driver_for(self, *args: Any) -> base.Driver:
        """Return the node's driver with the other interfaces."""
        driver = self._inner.driver_for(*args)
        return dataclasses.replace(driver, **cast(Any, self._interfaces))


class Held:
    """A clean step that waits until it is let go.

    ``reached`` is set when it has begun; set ``opened`` to let it go on.
    """

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def drivers(self, inner: Registry) -> Registry:
        """Return drivers each clean step of which is held."""
        return cast(Registry, Drivers(inner, self._around))

    def _around(self, _kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "execute_clean_step":
            self.reached.set()
            assert self.opened.wait(60)
        return call()


def drivers(
    inner: Registry, life: Life, *, more: tuple[str, ...] = (), called: list[str] | None = None
) -> Registry:
    """Return drivers after whose calls, ``more`` among them, the conductor may die.

    :param called: to this list each call is added as ``kind.name``.
    """

    def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
        life.check()
        found = call()
        if called is not None:
            called.append(f"{kind}.{name}")
        life.spend("call")
        return found

    return cast(Registry, Drivers(inner, around, more=more))


# -- deaths and heirs ------------------------------------------------------------------------

Rig = ConductorFixture
Act = Callable[[Rig, str], object]
"""An act of a conductor on a node."""
Ended = Callable[[Rig, str], bool]
"""A condition that is true when the act has ended."""


class Scene(NamedTuple):
    """A verb: the state before it, its arguments, the state after it, and its steps.

    :param columns: columns of the node; ``fake_`` keys steer its machine.
    """

    before: str
    method: str
    args: Mapping[str, Any]
    end: str
    steps: Sequence[str] = ()
    columns: Mapping[str, Any] = MappingProxyType({})

    def begin(self, rig: Rig) -> str:
        """Add the node."""
        return rig.node(self.before, **self.columns)

    def ask(self, rig: Rig, node: str) -> None:
        """Start the verb."""
        rig.ask(self.method, node, **self.args)


def at_rest(rig: Rig, node: str) -> bool:
    """Return whether a flow of the node has ended."""
    row = rig.get(node)
    kind = states.kind(states.State(row["provision_state"]))
    return row["reservation"] is None and kind in (Kind.STABLE, Kind.FAIL)


def idle(rig: Rig, node: str) -> bool:
    """Return whether no worker of the conductor works, on this node or another."""
    return rig.service.runtime.workers.busy == 0 and rig.get(node)["reservation"] is None


def rests(rig: Rig, node: str, ended: Ended = at_rest) -> dict[str, Any]:
    """Wait until a flow of the node has ended, and return the node."""
    wait_for(lambda: ended(rig, node), lambda: rig.about(node))
    assert rig.service.runtime.workers.wait_idle(_IDLE_SECONDS)
    return rig.get(node)


def forget(database: Database, but: str = "", *, dead: str = "silent") -> None:
    """Let all conductors but one be dead, and their leases ended.

    :param dead: what the table of conductors shows: ``silent`` ones, ``offline`` ones, or none
        (``removed``).
    """
    conductors, table = models.conductors, models.nodes
    others = conductors.c.hostname != but
    gone = {
        "silent": conductors.update().where(others).values(updated_at=clock.after(-_LONG)),
        "offline": conductors.update().where(others).values(online=False),
        "removed": conductors.delete().where(others),
    }[dead]
    held = table.update().where(table.c.reservation.is_not(None) & (table.c.reservation != but))

    def write(conn: Connection) -> None:
        conn.execute(gone)
        conn.execute(held, {"lock_expires": nodes.ENDED})

    database.write(write)


class Stage:
    """Conductors that die on one database, and conductors that continue their work.

    :param build: the fixture ``build``.
    :param registry: returns the drivers of a conductor with this life.
    :param started: called with each conductor, before it sweeps.
    :param dead: how other conductors find the dead; see `forget`.
    :param options: options of each conductor.
    """

    def __init__(
        self,
        build: Callable[..., Rig],
        database: Database,
        registry: Callable[[Life], Registry] | None = None,
        started: Callable[[Rig], object] | None = None,
        *,
        dead: str = "silent",
        **options: Any,
    ) -> None:
        self._build, self._options, self._dead = build, options, dead
        self._started = started or (lambda _rig: None)
        self._registry = registry or self._fake_drivers
        self.database = database
        self.called: list[str] = []
        """Calls of the fake drivers, by all conductors."""

    def _fake_drivers(self, life: Life) -> Registry:
        return drivers(conductor_fixture.drivers(), life, called=self.called)

    def moments(
        self, what: str, *, first: int = 1, step: int = 1, least: int = 1
    ) -> Iterator[Moment]:
        """Give each moment until a conductor has lived to the end; end the conductors of each.

        :param what: the cause of death, ``commit`` or ``call``.
        :param step: more than 1 leaves out moments.
        :param least: the number of moments that must be passed, left out or not.
        """
        for number in itertools.count(first, step):
            moment = Moment(self, what, number)
            yield moment
            self.bury(moment.rig)
            if not moment.died:
                break
        assert number - first >= least, f"only {number - first} moments of death"

    def start(self, life: Life, host: str = "here") -> Rig:
        """Start a conductor when all other hosts are dead."""
        forget(self.database, host, dead=self._dead)
        rig = self._build(
            database(self.database, life),
            registry=self._registry(life),
            DEFAULT__host=host,
            **self._options,
        )
        rig.database = self.database
        self._started(rig)
        return rig

    def run(self, rig: Rig, life: Life, node: str, act: Act, ended: Ended = at_rest) -> bool:
        """Let a conductor act until it is dead or the flow has ended; return whether it is dead."""
        with contextlib.suppress(Died):
            act(rig, node)
        wait_for(lambda: life.dead or ended(rig, node), lambda: rig.about(node))
        if life.dead:
            rig.bury()
        # A commit that ends a flow is seen before it is counted: wait for its worker.
        assert rig.service.runtime.workers.wait_idle(_IDLE_SECONDS)
        life.disarm()
        if life.dead:
            rig.bury()
        return life.dead

    def heir(self, host: str = "here") -> Rig:
        """Start the conductor that continues: the dead host itself, or another one."""
        rig = self.start(Life(), host)
        if host != "here":
            rig.service.orphans.sweep()
        return rig

    def bury(self, rig: Rig) -> None:
        """End the threads of a conductor, dead or not."""
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(_IDLE_SECONDS)


class Moment:
    """The moment of a flow after which its conductor dies: a commit or a call, by its number."""

    rig: Rig
    """The conductor that has died or lived; later its heir."""
    life: Life
    """The life of the conductor that may die; armed when the act begins."""
    died = False

    def __init__(self, stage: Stage, what: str, number: int) -> None:
        self._stage, self.what, self.number = stage, what, number

    def die(self, begin: Callable[[Rig], str], act: Act, ended: Ended = at_rest) -> str:
        """Begin with a node, and act on it until the conductor is dead; return the node."""
        self.life = Life()
        self.rig = self._stage.start(self.life)
        node = begin(self.rig)
        self.life.arm(**{self.what: self.number})
        self.died = self._stage.run(self.rig, self.life, node, act, ended)
        return node

    def heir(self, host: str = "here") -> Rig:
        """Return the conductor that continues: an heir, or the one that did not die."""
        if self.died:
            self.rig = self._stage.heir(host)
        return self.rig

    def play(
        self,
        begin: Callable[[Rig], str],
        act: Act,
        host: str = "here",
        ended: Ended = at_rest,
    ) -> tuple[Rig, str]:
        """Let a conductor die and another one continue until the flow has ended."""
        node = self.die(begin, act, ended)
        rig = self.heir(host)
        rests(rig, node, ended)
        return rig, node
