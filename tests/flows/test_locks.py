"""The lock: who holds it is told, whoever loses it stops, and a refusal changes nothing."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.conductor.engine import locks
from ironic_lite.core import clock, context
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.drivers.registry import Registry
from ironic_lite.membership import FailureDetector
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for


class Gate:
    """Drivers whose clean steps wait at a gate."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def registry(self, *names: str) -> Registry:
        """Return the drivers; ``names`` are the calls that wait, clean steps if none."""

        def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
            if name in (names or ("execute_clean_step",)):
                self.reached.set()
                assert self.opened.wait(60)
            return call()

        return cast(Registry, crashes.Drivers(drivers(), around))


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.opened.set()


def seize(database: Database, node: str, token: str) -> None:
    """Take the lock away from its holder, as the owner after an expired lease does."""

    def write(conn: Connection) -> None:
        held = nodes.Lease.seen(nodes.get(conn, node))
        assert nodes.lock(
            conn, node, host="there", token=token, expires=clock.after(60), steal=held
        )

    database.write(write)


def test_a_locked_node_names_its_holder_after_some_tries(rig: ConductorFixture) -> None:
    node = rig.node()
    rig.service.runtime.conf.set_override("node_locked_retry_interval", 0, "conductor")
    seize(rig.database, node, "other")
    before = rig.get(node)
    with pytest.raises(errors.NodeLocked, match="there"):
        rig.act("provide", node)
    assert rig.get(node) == before
    assert rig.service.runtime.workers.busy == 0
    assert rig.tasks.locks.held == frozenset()


def test_refusal_names_the_run_and_its_step(
    gate: Gate, build: Callable[..., ConductorFixture]
) -> None:
    rig = build(registry=gate.registry(), conductor__node_locked_retry_attempts=1)
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed("deploy.erase_devices"))
    assert gate.reached.wait(60)
    assert rig.get(node)["lock_note"].startswith("req-test")
    run = rig.get(node)["run_uuid"]
    with pytest.raises(errors.NodeLocked, match=f"for the run {run}, step deploy.erase_devices"):
        rig.ask("inspect", node)
    with pytest.raises(errors.NodeLocked, match=f"for the run {run}, step deploy.erase_devices"):
        rig.edit(node, description="new")
    gate.opened.set()
    row = rig.settled(node)
    assert (row["locked_at"], row["lock_note"]) == (None, None)


def test_refusal_names_the_sweep_that_holds_the_lock(rig: ConductorFixture) -> None:
    rig.service.runtime.conf.set_override("node_locked_retry_attempts", 1, "conductor")
    node = rig.node()
    with (
        rig.tasks.lock(context.internal("power sync"), node),
        pytest.raises(errors.NodeLocked, match=r"UTC for the power sync\.") as caught,
    ):
        rig.act("inspect", node)
    assert caught.value.facts["run"] is None


def test_a_lock_given_back_meanwhile_is_taken(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.service.runtime.conf.set_override("node_locked_retry_interval", 0, "conductor")
    rig.service.runtime.conf.set_override("node_locked_retry_attempts", 2, "conductor")
    node = rig.node()
    seize(rig.database, node, "other")
    tries: list[int] = []
    take = nodes.lock

    def second_time(conn: Connection, **lock: Any) -> bool:
        tries.append(1)
        if len(tries) == 2:
            nodes.unlock(conn, node, token="other")
        return take(conn, **lock)

    monkeypatch.setattr(nodes, "lock", second_time)
    assert rig.act("provide", node)["provision_state"] == "available"


def test_waiters_for_locks_leave_threads_for_other_calls(rig: ConductorFixture) -> None:
    rig.service.runtime.conf.set_override("node_locked_retry_interval", 600, "conductor")
    node = rig.node()
    seize(rig.database, node, "other")
    refused: list[errors.NodeLocked] = []

    def ask() -> None:
        try:
            with rig.tasks.lock(context.Context("req-1"), node):
                raise AssertionError("the lock is another's")
        except errors.NodeLocked as why:
            refused.append(why)

    waiters = [threading.Thread(target=ask) for _ in range(locks.MOST_WAITING_CALLS + 1)]
    for waiter in waiters:
        waiter.start()
    wait_for(lambda: len(refused) == 1)  # the one too many
    rig.service.runtime.stopping.set()
    for waiter in waiters:
        waiter.join()
    assert len(refused) == len(waiters)


def test_a_node_that_is_not_there_is_told_at_once(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    take = nodes.lock

    def counted(*args: Any, **more: Any) -> Any:
        asked.append(args)
        return take(*args, **more)

    monkeypatch.setattr(nodes, "lock", counted)
    with pytest.raises(errors.NodeNotFound):
        rig.act("provide", "7b6c1a54-3d0c-4a39-9f6d-6a3f0f4f3d55")
    assert len(asked) == 1


def test_a_worker_that_lost_its_lock_stops_and_writes_nothing_more(
    build: Callable[..., ConductorFixture], gate: Gate
) -> None:
    rig = build(registry=gate.registry())
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed("bios.factory_reset", "power.cycle"))
    assert gate.reached.wait(60)
    seize(rig.database, node, "new owner")
    before, events = rig.get(node), rig.events(node)
    steps = rig.run(node)
    gate.opened.set()
    assert rig.service.runtime.workers.wait_idle(60)
    assert rig.get(node) == before
    assert rig.events(node) == events
    assert rig.run(node) == steps


def test_a_worker_that_lost_its_lock_does_not_tear_down_what_another_works_on(
    build: Callable[..., ConductorFixture],
) -> None:
    called: list[str] = []

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        called.append(name)
        if name == "execute_clean_step":
            seize(rig.database, node, "other")
            raise errors.HardwareError(reason="the connection broke while we slept")
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed("power.cycle"))
    wait_for(lambda: rig.service.runtime.workers.busy == 0)
    assert called[-1] == "execute_clean_step"
    row = rig.get(node)
    assert (row["provision_state"], row["lock_token"]) == ("cleaning", "other")
    assert (row["last_error"], row["maintenance"]) == (None, False)


def test_history_too_is_written_by_the_holder_only(rig: ConductorFixture) -> None:
    node = rig.node()
    with rig.tasks.lock(rig.who, node) as task:
        seize(rig.database, node, "new owner")
        task.journal.event("power", event="reset")
        with pytest.raises(errors.LockLost):
            task.save()
    assert rig.events(node) == []
    assert rig.get(node)["lock_token"] == "new owner"


def test_a_task_that_only_looks_cannot_write(rig: ConductorFixture) -> None:
    task = rig.tasks.look(rig.who, rig.node())
    task.node.power_state = "power on"
    with pytest.raises(errors.LockLost):
        task.save()
    with pytest.raises(errors.LockLost):
        task.transaction.destroy()


VERBS = [
    ("enroll", "manage", {}),
    ("manageable", "provide", {}),
    ("manageable", "clean", {"clean_steps": listed("power.cycle")}),
    ("available", "deploy", {}),
    ("active", "delete", {}),
    ("active", "rescue", {"rescue_password": "x"}),
    ("active", "change_node_power_state", {"target": "power on"}),
    ("manageable", "inspect", {}),
]


@pytest.mark.parametrize(("state", "method", "args"), VERBS)
def test_a_full_pool_refuses_and_nothing_has_changed(
    rig: ConductorFixture, state: str, method: str, args: dict[str, Any]
) -> None:
    workers = rig.service.runtime.workers
    node = rig.node(state)
    before = rig.get(node)
    for _ in range(20):
        workers.claim(reserved=True)
    with pytest.raises(errors.NoFreeWorker):
        rig.ask(method, node, **args)
    assert rig.get(node) == before
    assert rig.events(node) == []
    for _ in range(20):
        workers.leave()


def test_the_reserve_is_for_callers(build: Callable[..., ConductorFixture]) -> None:
    rig = build(
        conductor__workers_pool_size=10,
        conductor__reserved_workers_pool_percentage=20,
        conductor__periodic_max_workers=1,
    )
    workers = rig.service.runtime.workers
    for _ in range(8):
        workers.claim()
    with pytest.raises(errors.NoFreeWorker):
        workers.claim()
    assert not workers.wait_for_slot(0)
    node = rig.node()
    assert rig.act("provide", node)["provision_state"] == "available"
    for _ in range(8):
        workers.leave()


def test_a_verb_accepted_while_the_pool_closes_is_left_to_the_next_owner(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build()
    busy, powered = rig.node(), rig.node("active")
    rig.service.runtime.workers.close()
    rig.ask("provide", busy)
    with pytest.raises(errors.NoFreeWorker):
        rig.ask("change_node_power_state", powered, target="power on")
    row = rig.get(powered)
    assert (row["target_power_state"], row["reservation"]) == (None, None)
    assert "workers" in row["last_error"]
    assert rig.get(busy)["provision_state"] == "cleaning"
    assert rig.service.runtime.workers.busy == 0
    rig.bury()
    build().reaches(busy, "available")


@pytest.mark.parametrize(
    ("option", "others", "verb"),
    [
        ("clean", "clean wait", VERBS[1]),
        ("clean", "deleting", VERBS[2]),
        ("clean", "cleaning", VERBS[4]),
        ("deploy", "wait call-back", VERBS[3]),
    ],
)
def test_too_many_at_once_are_refused(
    build: Callable[..., ConductorFixture], option: str, others: str, verb: tuple[str, str, Any]
) -> None:
    state, method, args = verb
    rig = build(**{f"conductor__max_concurrent_{option}": 2})
    node = rig.node(state)
    rig.node(others, conductor_group="elsewhere")
    last = rig.node(others, conductor_group="elsewhere")
    before = rig.get(node)
    with pytest.raises(errors.TooManyActions):
        rig.ask(method, node, **args)
    assert rig.get(node) == before
    with rig.database.engine.begin() as conn:
        conn.execute(sa.delete(models.nodes).where(models.nodes.c.uuid == last))
    rig.ask(method, node, **args)
    wait_for(lambda: rig.get(node)["reservation"] is None)


@pytest.mark.parametrize("verb", [VERBS[1], VERBS[2], VERBS[3], VERBS[4]], ids=lambda verb: verb[1])
def test_callers_at_once_of_two_conductors_do_not_exceed_a_limit(
    build: Callable[..., ConductorFixture],
    make_sqlite: Callable[[], Database],
    gate: Gate,
    verb: tuple[str, str, Any],
) -> None:
    state, method, args = verb
    limits = {f"conductor__max_concurrent_{kind}": 2 for kind in ("clean", "deploy")}
    registry = gate.registry("execute_clean_step", "prepare", "tear_down")
    rigs = [build(make_sqlite(), registry=registry, DEFAULT__host=host, **limits) for host in "ab"]
    nodes_ = [rigs[0].node(state) for _ in range(6)]
    asked = dict(zip(nodes_, itertools.cycle(rigs), strict=False))
    ready = threading.Barrier(len(nodes_))
    refused: list[errors.Error] = []

    def ask(node: str) -> None:
        ready.wait()
        try:
            asked[node].ask(method, node, **args)
        except errors.TooManyActions as why:
            refused.append(why)

    threads = [threading.Thread(target=ask, args=(node,)) for node in nodes_]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 4
    gate.opened.set()
    assert all(rig.service.runtime.workers.wait_idle(60) for rig in rigs)


def test_the_keepalive_renews_leases_and_keeps_the_row_alive(
    build: Callable[..., ConductorFixture], gate: Gate
) -> None:
    rig = build(registry=gate.registry())
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed("power.cycle"))
    assert gate.reached.wait(60)
    before = rig.get(node)["lock_expires"]
    rig.service.keepalive.beat()
    assert rig.get(node)["lock_expires"] > before
    gate.opened.set()
    rig.reaches(node, "manageable")
    wait_for(lambda: rig.tasks.locks.held == frozenset())


def test_a_conductor_that_renews_in_the_last_moment_keeps_its_lock(
    build: Callable[..., ConductorFixture], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look that finds a lease ended and the taking over, its holder may wake up."""
    slow, other = build(registry=gate.registry()), build(DEFAULT__host="there")
    node = slow.node()
    slow.ask("clean", node, clean_steps=listed("bios.factory_reset"))
    assert gate.reached.wait(60)
    taken = lease_ends(slow, other, monkeypatch, slow.service.keepalive.beat)
    assert taken == [node]
    row = slow.get(node)
    assert (row["reservation"], row["provision_state"]) == ("here", "cleaning")
    gate.opened.set()
    assert slow.reaches(node, "manageable")["last_error"] is None
    assert slow.events(node, "taken_over") == []
    assert slow.started(node) == ["bios.factory_reset"]


def test_a_conductor_that_renews_too_late_has_lost_its_lock(
    build: Callable[..., ConductorFixture], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, other = build(registry=gate.registry()), build(DEFAULT__host="there")
    node = slow.node()
    slow.ask("clean", node, clean_steps=listed("bios.factory_reset"))
    assert gate.reached.wait(60)
    assert lease_ends(slow, other, monkeypatch, lambda: None) == [node]
    wait_for(lambda: slow.events(node, "taken_over") != [])
    slow.service.keepalive.beat()
    gate.opened.set()
    assert slow.reaches(node, "manageable")["last_error"] is None
    assert slow.started(node) == ["bios.factory_reset"] * 2


def test_a_conductor_that_has_renewed_nothing_since_its_start_takes_nothing_over(
    build: Callable[..., ConductorFixture], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up right after its start keeps it from writing, and the living as well."""
    slow = build(registry=gate.registry())
    other = build(DEFAULT__host="there", conductor__heartbeat_interval=1000)
    node = slow.node()
    slow.ask("clean", node, clean_steps=listed("bios.factory_reset"))
    assert gate.reached.wait(60)
    monkeypatch.setattr(other.tasks.locks.leases, "_steady", lambda: time.monotonic() + 3600)
    assert lease_ends(slow, other, monkeypatch, lambda: None) == []
    gate.opened.set()
    assert slow.reaches(node, "manageable")["last_error"] is None
    assert slow.started(node) == ["bios.factory_reset"]


def lease_ends(
    slow: ConductorFixture,
    other: ConductorFixture,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[], None],
) -> list[str]:
    """Let the other one see the leases of the slow one end; return what it tries to take.

    :param meanwhile: what happens between its look and its taking over.
    """
    passed, tried = [0.0], []
    timeout = other.service.runtime.conf.conductor.heartbeat_timeout
    monkeypatch.setattr(
        other.tasks.locks.leases, "_pulses", FailureDetector(timeout / 4, lambda: passed[0])
    )
    monkeypatch.setattr(other.service.ownership, "mine", lambda _row: True)
    adopt = other.service.orphans._take_over

    def late(row: Any) -> None:
        tried.append(row["uuid"])
        meanwhile()
        adopt(row)

    monkeypatch.setattr(other.service.orphans, "_take_over", late)
    for _ in range(6):  # it looks often enough to believe what it sees
        other.service.orphans.sweep()
        passed[0] += timeout / 5
    return tried[:1]
