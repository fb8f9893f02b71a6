"""A conductor dies while it compares, resets, gives up and finds again the power of a machine.

The machine is outside of all conductors: what a dead one has told it stays told. Whoever comes
after, the same host or another one, ends with a record that says what the machine is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import power_sync
from ironic_lite.db.tables import models
from ironic_lite.drivers import deadline
from ironic_lite.drivers.registry import Registry
from tests.flows.test_silent_machines import Clock
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers
from tests.support.crashes import Stage, idle, rests

ON, OFF = "power on", "power off"
SOFT_OFF, REBOOT, SOFT_REBOOT = "soft power off", "rebooting", "soft rebooting"
FAULT = "power failure"


class Machine:
    """One machine, and the lives of those who speak to its BMC."""

    power: str
    silent: bool
    late: Clock | None
    """Set: it answers who has more time than a hurried one, whose time is up by this clock."""
    told: list[tuple[str, float | None]]

    def fresh(self, power: str, *, silent: bool = False, late: Clock | None = None) -> None:
        """Be another machine."""
        self.power, self.silent, self.late, self.told = power, silent, late, []

    def drivers(self, life: crashes.Life) -> Registry:
        """Return drivers that speak to it, for a conductor with this life."""

        def look(_task: object) -> str:
            return self._look()

        def switch(_task: object, target: str, timeout: float | None = None) -> None:
            self._switch(ON if target == ON else OFF, timeout)

        def reboot(_task: object, timeout: float | None = None, *, soft: bool = False) -> None:
            self._switch(OFF, timeout)
            life.spend("call")
            self._switch(ON, None if soft else timeout)

        acts: dict[str, Callable[..., Any]] = {
            "get_power_state": look,
            "set_power_state": switch,
            "reboot": reboot,
        }

        def around(_kind: str, name: str, call: Any) -> Any:
            life.check()
            try:
                return acts[name](*call.args, **call.keywords) if name in acts else call()
            finally:
                life.spend("call")

        return cast(Registry, crashes.Drivers(drivers(), around))

    def _look(self) -> str:
        if self.silent:
            raise errors.BmcUnreachable(address="192.0.2.1", reason="silent")
        if self.late and deadline.within(60.0) <= power_sync.QUICK:
            self.late.wasted += power_sync.QUICK
            raise errors.BmcUnreachable(address="192.0.2.1", reason="late")
        return self.power

    def _switch(self, state: str, timeout: float | None) -> None:
        self.power = state
        self.told.append((state, timeout))


def sweeps(rig: ConductorFixture, count: int = 1) -> None:
    """Compare the power of all machines, to the end of the lanes."""
    for _ in range(count):
        rig.service.power.sweep()
        assert rig.service.power.settle(10)


def recovers(rig: ConductorFixture) -> None:
    """Try the lost machines, to the end of the lane."""
    rig.service.power.recover()
    assert rig.service.power.settle(10)


class Sync(NamedTuple):
    """What the sweeps meet: the record, the machine; what they do; how both end.

    :param traces: what `traces` may tell in the end.
    :param told: how often the machine may have been told to switch, at least and at most.
    """

    act: Callable[[ConductorFixture], None]
    power: str
    node: Mapping[str, Any]
    end: Mapping[str, Any]
    traces: tuple[tuple[str | None, ...], ...]
    silent: bool = False
    late: bool = False
    options: Mapping[str, Any] = MappingProxyType({})
    deaths: Mapping[str, int] = MappingProxyType({"commit": 3, "call": 2})
    told: tuple[int, int] = (0, 0)


WELL = {"maintenance": False, "maintenance_reason": None, "fault": None, "last_error": None}
LOST = {"maintenance": True, "maintenance_reason": "cut", "fault": FAULT, "last_error": "cut"}
SYNCS = {
    "the record follows": Sync(
        sweeps,
        OFF,
        {"power_state": ON},
        {"power_state": OFF, **WELL},
        (("changed",),),
        options={"conductor__force_power_state_during_sync": False},
    ),
    "the record learns": Sync(
        sweeps, ON, {"power_state": None}, {"power_state": ON, **WELL}, (("changed",),)
    ),
    "health changes with the power": Sync(
        sweeps,
        OFF,
        {"power_state": ON, "driver_info": {"fake_health": "Critical"}},
        {"power_state": OFF, "health": "Critical", **WELL},
        ((None, "changed"),),
        options={"conductor__force_power_state_during_sync": False},
    ),
    "health changes": Sync(
        sweeps,
        ON,
        {"power_state": ON, "health": "OK", "driver_info": {"fake_health": "Warning"}},
        {"health": "Warning", **WELL},
        ((None,),),
        deaths={"commit": 2, "call": 1},
    ),
    "the machine is reset": Sync(
        sweeps,
        OFF,
        {"power_state": ON},
        {"power_state": ON, **WELL},
        # The dead one may have told the machine or not; that it was about to is known in any case.
        (("start", "reset"), ("start", "start", "reset"), ("start",)),
        deaths={"commit": 4, "call": 3},
        told=(1, 1),
    ),
    "the machine is given up": Sync(
        lambda rig: sweeps(rig, 3),
        ON,
        {"power_state": ON},
        {"power_state": None, "maintenance": True, "fault": FAULT},
        ((FAULT, "changed"),),
        silent=True,
        options={"conductor__power_state_sync_max_retries": 2},
        deaths={"commit": 3, "call": 3},
    ),
    "a late machine is reset": Sync(
        sweeps,
        OFF,
        {"power_state": ON},
        {"power_state": ON, **WELL},
        (("start", "reset"), ("start", "start", "reset"), ("start",)),
        late=True,
        deaths={"commit": 4, "call": 4},
        told=(1, 1),
    ),
    "a late machine is found again": Sync(
        recovers,
        ON,
        {"power_state": None, **LOST},
        {"power_state": ON, **WELL},
        (("recovered", "changed"),),
        late=True,
        deaths={"commit": 3, "call": 2},
    ),
    "the machine is found again": Sync(
        recovers,
        ON,
        {"power_state": None, **LOST},
        {"power_state": ON, **WELL},
        (("recovered", "changed"),),
        deaths={"commit": 3, "call": 1},
    ),
}


def traces(rig: ConductorFixture, node: str) -> tuple[str | None, ...]:
    """Return what history tells of power, faults and, as None, health."""
    kinds = ("power", "fault", "health")
    return tuple(one["event"] for one in rig.events(node) if one["kind"] in kinds)


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", SYNCS)
def test_power_sync_ends_whenever_a_conductor_dies(
    stages: Callable[..., Stage],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    what: str,
    host: str,
) -> None:
    case, clock = SYNCS[name], Clock()
    monkeypatch.setattr(power_sync, "time", clock)
    machine = Machine()

    def begin(rig: ConductorFixture) -> str:
        node = rig.node("active", **case.node)
        machine.fresh(case.power, silent=case.silent, late=clock if case.late else None)
        return node

    stage = stages(machine.drivers, **case.options)
    for moment in stage.moments(what, least=case.deaths[what]):
        rig, node = moment.play(begin, lambda rig, _node: case.act(rig), host, idle)
        if moment.died:
            case.act(rig)
        check(rig, node, machine, case)
        stage.database.write(lambda conn: conn.execute(models.nodes.delete()))


def check(rig: ConductorFixture, node: str, machine: Machine, case: Sync) -> None:
    """Check what no death may damage."""
    row = rests(rig, node, idle)
    assert {key: row[key] for key in case.end} == case.end, rig.about(node)
    assert (row["provision_state"], row["lock_token"]) == ("active", None)
    assert (row["run_uuid"], row["wake_at"], row["target_power_state"]) == (None, None, None)
    assert row["power_state"] in (machine.power, None)
    assert traces(rig, node) in case.traces
    assert bool(row["last_error"]) == row["maintenance"]
    fewest, most = case.told
    assert fewest <= len(machine.told) <= most


# -- changes on request ----------------------------------------------------------------------

ENDS = {ON: ON, OFF: OFF, SOFT_OFF: OFF, REBOOT: ON, SOFT_REBOOT: ON}


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize(
    ("target", "timeout"),
    [(ON, None), (OFF, 17), (SOFT_OFF, 17), (REBOOT, 17), (SOFT_REBOOT, None)],
    ids=["on", "off", "soft off", "reboot", "soft reboot"],
)
def test_a_power_change_that_dies_with_its_conductor_is_told_and_can_be_asked_for_again(
    stages: Callable[..., Stage], target: str, timeout: int | None, what: str, host: str
) -> None:
    before, end, cut_short = OFF if target == ON else ON, ENDS[target], 0
    change = {"target": target, "timeout": timeout}
    machine = Machine()

    def begin(rig: ConductorFixture) -> str:
        machine.fresh(before)
        return rig.node("active", power_state=before)

    def act(rig: ConductorFixture, node: str) -> None:
        rig.ask("change_node_power_state", node, **change)

    stage = stages(machine.drivers)
    for moment in stage.moments(what, least=4 if what == "commit" else 1):
        rig, node = moment.play(begin, act, host, idle)
        cut_short += judge_request(rig, node, machine, before=before, end=end)
        sweeps(rig)
        assert rig.get(node)["power_state"] == machine.power
        row = rig.call("change_node_power_state", node, **change)
        assert (row["power_state"], row["target_power_state"], machine.power) == (end, None, end)
        assert row["last_error"] is None
        assert machine.told[-1] == (end, None if target == SOFT_REBOOT else timeout)
        stage.database.write(lambda conn: conn.execute(models.nodes.delete()))
    assert cut_short >= 1


def judge_request(
    rig: ConductorFixture, node: str, machine: Machine, *, before: str, end: str
) -> bool:
    """Check what a request has come to: nothing, all, or a failure that is told (True)."""
    row = rig.get(node)
    assert (row["provision_state"], row["lock_token"]) == ("active", None)
    assert row["target_power_state"] is None
    told = [one for one in traces(rig, node) if one != "changed"]
    if row["last_error"] is not None:
        assert "The power change was interrupted: the conductor here was lost" in row["last_error"]
        assert (told, row["power_state"]) == (["start", "fail"], before)
        return True
    assert told in ([], ["start", "end"])
    assert row["power_state"] == machine.power == (end if told else before)
    assert bool(machine.told) == bool(told)
    return False
