"""A conductor that was paused for longer than its leases touches no machine that it has lost."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.engine import locks
from ironic_lite.core import clock, config
from ironic_lite.db.queries import nodes, sweeps
from ironic_lite.drivers.ipmi import tool
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers

HOUR = 3600.0


class Pause:
    """Stops a conductor in the middle of its first driver call, for so long by its clock."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None], seconds: float
    ) -> None:
        self._patch = monkeypatch
        self._meanwhile = meanwhile
        self._seconds = seconds
        self.called: list[str] = []

    def around(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        """Take the place of a driver's call."""
        self.called.append(f"{kind}.{name}")
        found = call()
        if len(self.called) == 1:
            later = locks.steady() + self._seconds
            self._meanwhile()
            self._patch.setattr(locks, "steady", lambda: later)
        return found


def paused(
    build: Callable[..., ConductorFixture],
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[ConductorFixture], None],
    seconds: float = HOUR,
) -> tuple[ConductorFixture, str, Pause]:
    """Delete an instance with a conductor that is paused in it; return what it did."""
    pause = Pause(monkeypatch, lambda: meanwhile(rig), seconds)
    registry = cast(Registry, crashes.Drivers(drivers(), pause.around))
    rig = build(registry=registry, conductor__heartbeat_interval=1000)
    node = rig.node("active")
    rig.ask("delete", node)
    assert rig.service.runtime.workers.wait_idle(60)
    return rig, node, pause


def seize(rig: ConductorFixture) -> None:
    """Let another conductor have all locks."""
    expires = clock.after(60)

    def write(conn: Any) -> None:
        for row in sweeps.held(conn, limit=10):
            seize = functools.partial(nodes.lock, conn, row["uuid"], host="other", token="theirs")
            assert seize(expires=expires, steal=nodes.Lease.seen(row))

    rig.database.write(write)


def test_conductor_begins_nothing_on_a_machine_that_another_has(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, node, pause = paused(build, monkeypatch, seize)
    assert pause.called == ["rescue.clean_up"]
    row = rig.get(node)
    assert (row["provision_state"], row["lock_token"]) == ("deleting", "theirs")


def test_the_keepalive_of_who_has_lost_a_lock_does_not_vouch_for_it(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(rig: ConductorFixture) -> None:
        seize(rig)
        with monkeypatch.context() as patch:
            later = locks.steady() + HOUR
            patch.setattr(locks, "steady", lambda: later)
            rig.service.keepalive.beat()

    _, _, pause = paused(build, monkeypatch, meanwhile)
    assert pause.called == ["rescue.clean_up"]


def test_a_clock_that_stood_still_is_found_out_by_the_keepalive(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a virtual machine that was paused with all that is in it."""

    def meanwhile(rig: ConductorFixture) -> None:
        seize(rig)
        rig.service.keepalive.beat()

    _, _, pause = paused(build, monkeypatch, meanwhile, seconds=0)
    assert pause.called == ["rescue.clean_up"]


def test_a_pause_in_which_nobody_took_over_costs_nothing(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, node, pause = paused(build, monkeypatch, lambda _: None)
    assert rig.reaches(node, "available")["last_error"] is None
    assert len(pause.called) > 3


def test_a_pause_inside_a_driver_method_ends_with_the_lock_lost(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = build(conductor__heartbeat_interval=1000)
    node = rig.node()
    with rig.tasks.lock(rig.who, node) as task:
        task.pause(0)
        seize(rig)
        later = locks.steady() + HOUR
        monkeypatch.setattr(locks, "steady", lambda: later)
        for ask in (task.confirm_lock, lambda: task.pause(0)):
            with pytest.raises(errors.LockLost):
                ask()


def test_a_lease_that_is_asked_for_is_renewed(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who finds the lock as it was a lease ago may take it over at once, whoever has read it."""
    rig = build(conductor__heartbeat_interval=1000)
    node = rig.node()
    with rig.tasks.lock(rig.who, node) as task:
        seen = nodes.Lease.seen(rig.get(node))
        later = locks.steady() + HOUR
        monkeypatch.setattr(locks, "steady", lambda: later)
        task.confirm_lock()

        def steal(conn: Any) -> bool:
            return nodes.lock(
                conn, node, host="other", token="theirs", expires=clock.after(60), steal=seen
            )

        assert not rig.database.write(steal)


def test_conductor_sends_nothing_after_releasing_its_locks(rig: ConductorFixture) -> None:
    node = rig.node()
    with rig.tasks.lock(rig.who, node) as task:
        rig.service.stop(0.01)
        with pytest.raises(errors.Stopping):
            task.confirm_lock()
        assert rig.get(node)["lock_expires"] == nodes.ENDED


def test_no_order_is_begun_shortly_before_a_lease_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    leases, now = locks.Fence(80), locks.steady()
    leases.renewed(now)
    monkeypatch.setattr(locks, "steady", lambda: now + 59)
    assert leases.holds(0)
    monkeypatch.setattr(locks, "steady", lambda: now + 61)
    assert not leases.holds(0)


def test_ipmitool_gives_a_silent_bmc_up_before_a_lease_ends(rig: ConductorFixture) -> None:
    timeout = config.CONF.conductor.heartbeat_timeout
    assert locks.MARGIN * timeout > tool.SILENT_SECONDS


@pytest.mark.parametrize("lost", [seize, lambda rig: rig.service.stop(0.01)])
def test_an_order_under_way_may_not_go_on_when_the_lock_may_be_lost(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch, lost: Callable[[ConductorFixture], None]
) -> None:
    node = rig.node()
    with rig.tasks.lock(rig.who, node) as task:
        assert task.lock_is_sure
        lost(rig)
        later = locks.steady() + HOUR
        monkeypatch.setattr(locks, "steady", lambda: later)
        assert not task.lock_is_sure


def test_a_clock_that_stood_still_counts_when_the_one_on_the_wall_is_put_right() -> None:
    wall, steady = [1000.0], [5.0]
    ahead = clock.Ahead(lambda: wall[0], lambda: steady[0])
    wall[0], steady[0] = 1010.0, 15.0
    assert ahead.read() == 15
    wall[0] = 1310.0
    assert ahead.read() == 315
    wall[0], steady[0] = 10.0, 16.0
    assert ahead.read() == 316


def test_conductor_without_a_pause_sends_no_confirming_statement(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(locks.TaskLock, "confirm", lambda self: asked.append("a statement"))
    node = rig.node()
    rig.clean(node, "bios.factory_reset")
    assert asked == []


def test_node_is_deleted_while_a_renewal_is_in_doubt(rig: ConductorFixture) -> None:
    """The lock ends with its row, so nothing confirms it after the deletion."""
    node = rig.node()
    rig.service.runtime.fence.doubt(0)
    rig.endpoints.destroy_node(rig.who, node_uuid=node)
    with pytest.raises(errors.NodeNotFound):
        rig.get(node)
