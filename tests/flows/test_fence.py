"""A conductor that was paused for longer than its leases touches no machine that it has lost."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import clock
from ironic_lite.conductor import fence
from ironic_lite.db import nodes
from ironic_lite.drivers.registry import Registry
from tests.flows import mortal
from tests.flows.rig import Rig, drivers

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
            later = fence.steady() + self._seconds
            self._meanwhile()
            self._patch.setattr(fence, "steady", lambda: later)
        return found


def paused(
    build: Callable[..., Rig],
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Rig], None],
    seconds: float = HOUR,
) -> tuple[Rig, str, Pause]:
    """Delete an instance with a conductor that is paused in it; return what it did."""
    pause = Pause(monkeypatch, lambda: meanwhile(rig), seconds)
    registry = cast(Registry, mortal.Drivers(drivers(), pause.around))
    rig = build(registry=registry, conductor__heartbeat_interval=1000)
    node = rig.node("active")
    rig.ask("do_node_tear_down", node)
    assert rig.service.desk.workers.wait_idle(10)
    return rig, node, pause


def seize(rig: Rig) -> None:
    """Let another conductor have all locks."""
    expires = clock.after(60)

    def write(conn: Any) -> None:
        for row in nodes.held(conn, limit=10):
            seize = functools.partial(nodes.lock, conn, row["uuid"], host="other", token="theirs")
            assert seize(expires=expires, steal=nodes.Lease.seen(row))

    rig.database.write(write)


def test_nothing_is_begun_on_a_machine_that_another_conductor_has(
    build: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, node, pause = paused(build, monkeypatch, seize)
    assert pause.called == ["rescue.clean_up"]
    row = rig.get(node)
    assert (row["provision_state"], row["lock_token"]) == ("deleting", "theirs")


def test_the_keepalive_of_who_has_lost_a_lock_does_not_vouch_for_it(
    build: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(rig: Rig) -> None:
        seize(rig)
        with monkeypatch.context() as patch:
            later = fence.steady() + HOUR
            patch.setattr(fence, "steady", lambda: later)
            rig.service._keepalive.beat()

    _, _, pause = paused(build, monkeypatch, meanwhile)
    assert pause.called == ["rescue.clean_up"]


def test_a_clock_that_stood_still_is_found_out_by_the_keepalive(
    build: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a virtual machine that was paused with all that is in it."""

    def meanwhile(rig: Rig) -> None:
        seize(rig)
        rig.service._keepalive.beat()

    _, _, pause = paused(build, monkeypatch, meanwhile, seconds=0)
    assert pause.called == ["rescue.clean_up"]


def test_a_pause_in_which_nobody_took_over_costs_nothing(
    build: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, node, pause = paused(build, monkeypatch, lambda _: None)
    assert rig.reaches(node, "available")["last_error"] is None
    assert len(pause.called) > 3


def test_who_was_not_paused_does_not_ask(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(fence.Hold, "confirm", lambda self: asked.append("a statement"))
    node = rig.node()
    rig.clean(node, "bios.factory_reset")
    assert asked == []
