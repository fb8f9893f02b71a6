"""One run: everything is started, loaded, broken, repaired, left to settle, and judged."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.domain import states
from ironic_lite.domain.states import State
from ironic_lite.rpc import client, transport
from tests.chaos import batches, checker, clock, cluster, faults, machine, proxy, records
from tests.chaos.faults import World
from tests.chaos.fleet import Fleet
from tests.chaos.load import Agents, Load
from tests.chaos.observers import CATCHES_UP, Observers
from tests.chaos.receiver import Receiver
from tests.chaos.records import EVERYBODY, Fault, History
from tests.chaos.watch import EVERY, Watch
from tests.chaos.whole_fleet import WholeFleet
from tests.support import direct_rpc, private_servers
from tests.support.configurations import FEATURES
from tests.support.service import ROOT

DISK_MIB = 96
SETTLES = 150.0
"""Seconds that the last run may take to its end after the last fault. A batch tries a node that was
locked again after a minute."""
APIS = 2
CALMER = 10
"""How much longer the pauses between faults are while a fleet is cleaned, whose runs are longer."""
QUIET = 4
"""Looks in a row at which all nodes are at rest, until all is taken to be over."""


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What a run is to be like.

    :ivar faults: groups of `faults.TABLE`.
    :ivar most: faults of each of both sorts.
    :ivar rate: requests in a second.
    :ivar settings: further lines of the configuration of all processes.
    :ivar login: of the load: see `fleet.Ports`.
    :ivar fleet: clean all nodes by a batch and by requests, in ``seconds`` at most; no other load.
    """

    seconds: float
    seed: int
    database: str = "sqlite"
    rpc: str = "local"
    faults: tuple[str, ...] = faults.GROUPS
    nodes: int = 200
    conductors: int = 2
    apis: int = APIS
    rate: float = 15.0
    most: int = 500
    settings: str = ""
    login: str = ""
    fleet: bool = False
    step_seconds: float = 0.15


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of it."""

    wishes: Wishes
    history: History
    violations: list[checker.Violation]
    recoveries: list[float]
    settled: float
    beats: Mapping[str, int]
    lacking: list[str]
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """The length of each part, if the whole fleet was cleaned."""


def run(wishes: Wishes, folder: pathlib.Path) -> Outcome:
    """Run it; ``folder`` has a short name and keeps the logs.

    :raises servers.Lacking: a server that was asked for is not installed.
    """
    receiver = Receiver(wishes.seed)
    with receiver.listening(), world_of(wishes, folder) as world:
        if "webhooks" in FEATURES:
            batches.add_hook(world.ports, receiver)
        operator = batches.Operator(world.ports, world.watch, wishes.seed)
        observers = Observers(world.ports, world.watch, wishes.seed, follow="events" in FEATURES)
        whole = WholeFleet(world, wishes.seconds)
        observers.start()
        try:
            if wishes.fleet:
                broken = _break(world, wishes, whole.clean)
            else:
                if "batches" in FEATURES:
                    operator.start()
                with world.load.running():
                    broken = _break(world, wishes, lambda: time.sleep(wishes.seconds))
                operator.stop()
            begun = time.monotonic()
            batches.resume_all(world.ports, world.watch)
            settle(world)
            settled = time.monotonic() - begun
            observers.finish()
            _until_told(world, observers.upto)
        finally:
            operator.stop()
            observers.stop()
        world.agents.stop()
        if world.brokers is not None:
            world.fleet.left.extend(world.brokers.flaws())
        world.fleet.end()
        found = history_of(world, folder, broken)
        found = dataclasses.replace(
            found,
            requests=(*found.requests, *operator.requests, *whole.requests),
            deliveries=tuple(receiver.deliveries),
            waits=tuple(observers.waits),
            followed=tuple(observers.follower.told),
            upto=observers.upto,
            connections=observers.follower.connections,
            refusals=tuple(observers.follower.refusals),
        )
        left = [kind for kind in faults.TABLE if kind.group in wishes.faults]
        return Outcome(
            wishes,
            found,
            checker.check(found, FEATURES),
            world.watch.recoveries,
            settled,
            world.agents.heard,
            [kind.name for kind in left if not faults.able(kind, world.has)],
            whole.seconds,
        )


# -- what there is ---------------------------------------------------------------------------


@contextlib.contextmanager
def world_of(wishes: Wishes, folder: pathlib.Path) -> Iterator[World]:
    """Start everything; the load has not begun."""
    with contextlib.ExitStack() as stack:
        folder.chmod(0o755)  # servers run as other users
        has = {wishes.database}
        parts: dict[str, Any] = {}
        state = folder / "state"
        state.mkdir()
        if "disk" in wishes.faults:
            with contextlib.suppress(private_servers.Lacking):
                stack.enter_context(private_servers.small_disk(state, DISK_MIB))
                has.add("small disk")
                parts["disk"] = state
        database, direct = _database(wishes, folder, stack, parts)
        url = _broker(wishes, folder, stack, parts, has)
        parts["clocks"] = _clocks(wishes, folder, has)
        more = functools.partial(_environment, folder, parts["clocks"])
        settings = wishes.settings + (cluster.SETTINGS if "cluster" in has else "")
        host: Callable[[int], str] = "conductor-{}".format
        if wishes.rpc == "direct":
            settings += direct_rpc.settings(direct_rpc.options(folder))
            host = direct_rpc.host
        fleet = Fleet(folder, database, url, more, settings=settings, host=host)
        stack.callback(fleet.clear)
        fleet.migrate()
        watch = Watch(direct)
        stack.callback(watch.close)
        watch.fill(wishes.nodes, wishes.step_seconds, alike=wishes.fleet)
        watch.start()
        ports = fleet.begin(wishes.apis, wishes.conductors, wishes.login)
        watch.pid_of = lambda host: fleet.conductor(host).pid
        load = Load(ports, watch, wishes.seed, wishes.rate, threads=8)
        agents = Agents(ports, watch, folder / "journal")
        agents.start()
        parts["call"] = _caller(url or f"local://{state}/rpc", fleet.settings)
        yield World(fleet, watch, load, agents, ports, has, **parts)


def _database(
    wishes: Wishes, folder: pathlib.Path, stack: contextlib.ExitStack, parts: dict[str, Any]
) -> tuple[str, str]:
    """Return the URL for our processes, and one by which no fault is met."""
    if wishes.database == "sqlite":
        url = f"sqlite:///{folder}/state/chaos.sqlite"
        return url, url
    server = stack.enter_context(private_servers.database(wishes.database, folder))
    way = stack.enter_context(proxy.before(server.port))
    parts.update(database=server, database_way=way)
    return server.url(way.port), server.url(server.port)


def _broker(
    wishes: Wishes,
    folder: pathlib.Path,
    stack: contextlib.ExitStack,
    parts: dict[str, Any],
    has: set[str],
) -> str | None:
    if wishes.rpc == "local":
        return None
    if wishes.rpc == "direct":
        return direct_rpc.URL
    if wishes.rpc == "cluster":
        parts["brokers"] = brokers = stack.enter_context(cluster.cluster(folder))
        has.add("cluster")
        return brokers.url()
    server = stack.enter_context(private_servers.broker(folder))
    way = stack.enter_context(proxy.before(server.port))
    parts.update(broker=server, broker_way=way)
    has.add("rabbit")
    return server.url(way.port)


def _clocks(wishes: Wishes, folder: pathlib.Path, has: set[str]) -> pathlib.Path | None:
    """Return the folder of the clocks that processes read, if they can be turned."""
    clocks = folder / "clocks"
    clocks.mkdir()
    try:
        if "clock" not in wishes.faults:
            return None
        clock.build(clocks)
    except private_servers.Lacking:
        return None
    has.add("clocks")
    return clocks


def _environment(folder: pathlib.Path, clocks: pathlib.Path | None, name: str) -> Mapping[str, str]:
    site = folder / "site"
    if not site.exists():
        machine.site(folder)
    more = {
        machine.JOURNAL: str(folder / "journal"),
        "PYTHONPATH": os.pathsep.join((str(site), str(ROOT))),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    if clocks is not None:
        more |= clock.environment(clocks, name)
    return more


def _caller(url: str, settings: pathlib.Path) -> Any:
    """Return what sends a message to a conductor, as the API does."""
    config.CONF([], default_config_files=[str(settings)], default_config_dirs=[])
    ours = client.RpcClient(transport.build(url))

    def call(host: str, context: Context, method: str, facts: dict[str, Any]) -> None:
        ours.call(context, method, host=host, timeout=5, **facts)

    return call


# -- what happens ----------------------------------------------------------------------------


def _break(world: World, wishes: Wishes, work: Callable[[], None]) -> list[Fault]:
    """Let faults come during some work, both sorts at once; return those that struck."""
    broken: list[Fault] = []
    over = threading.Event()
    lanes = [
        threading.Thread(target=_lane, args=(world, wishes, around, over, broken))
        for around in (False, True)
    ]
    try:
        for lane in lanes:
            lane.start()
        work()
    finally:
        over.set()
        for lane in lanes:
            if lane.ident is not None:
                lane.join()
    return sorted(broken, key=lambda one: one.begin)


def _lane(
    world: World,
    wishes: Wishes,
    around: bool,
    over: threading.Event,
    broken: list[Fault],
) -> None:
    end = time.monotonic() + wishes.seconds
    planned = faults.plan(wishes.seed, wishes.faults, world.has, around=around, count=wishes.most)
    for one in planned:
        pause = one.pause * (CALMER if wishes.fleet else 1)
        left = end - time.monotonic() - pause
        if left <= 0 or over.wait(pause):
            return
        begin = time.monotonic()
        dice = random.Random(one.seed)
        try:
            with one.kind.inject(world, dice, min(one.lasts, left)) as struck:
                pass
        except Exception as why:  # the rest is to be broken all the same
            world.fleet.left.append(f"{one.kind.name} could not be repaired: {why!r}")
            struck = EVERYBODY
        if struck != faults.NOTHING:
            broken.append(Fault(one.kind.name, begin, time.monotonic(), struck))


def settle(world: World) -> None:
    """Return when all nodes are at rest, or when they have had time enough."""
    end = time.monotonic() + SETTLES
    quiet = seen = 0.0
    while time.monotonic() < end and quiet < QUIET:
        time.sleep(EVERY)
        look = world.watch.look
        if look.at > seen:  # not the same look again: the watch may have lost its connection
            rests = all(map(_rests, look.rows.values())) and not world.watch.open_batches
            quiet = quiet + 1 if rests else 0
        seen = look.at


def _until_told(world: World, upto: int) -> None:
    """Return when the webhooks have told of all events, or have had time enough."""
    end = time.monotonic() + CATCHES_UP
    while time.monotonic() < end and any(one.cursor < upto for one in world.watch.hooks()):
        time.sleep(EVERY)


def _rests(row: Mapping[str, Any]) -> bool:
    rests = states.kind(State(row["provision_state"])) in checker.REST
    return rests and row["lock_token"] is None and row["run_uuid"] is None


def history_of(world: World, folder: pathlib.Path, broken: list[Fault]) -> History:
    """Return all that was recorded."""
    return History(
        requests=tuple(world.load.requests),
        faults=(*broken, *world.watch.starved),
        acts=records.read_acts(folder / "journal"),
        events=world.watch.events(),
        runs=world.watch.runs(),
        nodes=world.watch.nodes(),
        left=tuple(world.fleet.left),
        batches=world.watch.batches(),
        members=world.watch.members(),
        glances=tuple(world.watch.glances),
        hooks=world.watch.hooks(),
        erasures=world.watch.erasures(),
    )
