"""Ramdisks that do not report: machines that are restarted, those left alone, and deaths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.core import clock, config
from ironic_lite.domain import vocabulary
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import deploy, ramdisk, rescue
from ironic_lite.drivers.fake.hardware import FakeBoot
from ironic_lite.drivers.redfish import firmware, management, power
from ironic_lite.drivers.redfish.bmc import connection
from tests.recorded import acts, facts, recordings
from tests.recorded.strict_bmc import StrictBmc
from tests.support import scripted_agent
from tests.support.conductor_fixture import ConductorFixture, listed, wait_for
from tests.support.crashes import Life, Scene, Stage
from tests.support.statements import count_statements

pytestmark = pytest.mark.usefixtures("quick_agents")

LONG_AGO = -3600
IMAGE = {
    "image_source": "http://192.0.2.80/jammy.raw",
    "image_checksum": "a" * 64,
    "image_disk_format": "raw",
    "capabilities": {"boot_mode": "uefi"},
}
STEP = {"step": "check", "interface": "deploy", "priority": 0}
SERVICE = {"service_steps": listed("deploy.check")}
CASES = {
    "clean wait": Scene("manageable", "provide", {}, "available"),
    "wait call-back": Scene("available", "deploy", {}, "active"),
    "service wait": Scene("active", "service", SERVICE, "active"),
    "rescue wait": Scene("active", "rescue", {"rescue_password": "sesame"}, "rescue"),
}
"""The wait for the first lookup of each verb."""


class NetworkBoot(FakeBoot):
    """Boots by DHCP, as ``ipxe``."""

    over_network = True


class Hanging(scripted_agent.Machine):
    """A machine whose loader hangs at its first starts; it counts power orders."""

    hangs = 1

    def __init__(self) -> None:
        super().__init__(clean=[STEP], service=[STEP])
        self.orders: list[str] = []
        self.ramdisks: list[str] = []

    def around(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        args: tuple[Any, ...] = getattr(call, "args", ())
        if name == "set_power_state":
            self.orders.append(args[1])
        elif name == "reboot":
            self.orders.append(base.REBOOT)
        elif name == "prepare_ramdisk":
            self.ramdisks.append(args[2] if len(args) > 2 else "deploy")
        return super().around(kind, name, call)

    @property
    def agent(self) -> bool:
        """Return whether the loader came so far."""
        return super().agent and len(self.ramdisks) > self.hangs

    def fresh(self, node: str) -> None:
        super().fresh(node)
        self.orders.clear()
        self.ramdisks.clear()


@pytest.fixture
def machine() -> Iterator[Hanging]:
    with scripted_agent.running(Hanging()) as found:
        assert isinstance(found, Hanging)
        yield found


@pytest.fixture
def stage(stages: Callable[..., Stage], machine: Hanging) -> Stage:
    """A stage with one machine, which boots over the network."""
    interfaces: dict[str, Any] = {"boot": NetworkBoot(), "rescue": rescue.AgentRescue()}
    interfaces["firmware"] = firmware.RedfishFirmware()
    drivers = functools.partial(
        scripted_agent.registry, machine, deploy.DirectDeploy(), **interfaces
    )
    options = {"agent__require_tls": False, "pxe__boot_retry_timeout": 60}
    return stages(drivers, machine.serve, dead="removed", **options)


@pytest.fixture
def rig(stage: Stage) -> Iterator[ConductorFixture]:
    found = stage.start(Life())
    yield found
    stage.bury(found)


def begin(rig: ConductorFixture, machine: Hanging, state: str, **values: Any) -> str:
    """Return a node that waits for the first lookup of its ramdisk."""
    scene = CASES[state]
    node = rig.node(scene.before, instance_info=IMAGE, **values)
    machine.fresh(node)
    scene.ask(rig, node)
    assert rig.settled(node)["provision_state"] == state
    machine.orders.clear()
    return node


def let_pass(rig: ConductorFixture, node: str, seconds: int = LONG_AGO, **note: Any) -> None:
    """Let the wait and the boot have begun earlier."""

    def earlier(row: dict[str, Any]) -> dict[str, Any]:
        notes = row["driver_internal_info"]
        known = notes["driver_notes"][vocabulary.RAMDISK_BOOT]
        at = {"at": clock.stamp() + seconds} if known["at"] is not None else {}
        fresh = {**known, **at, **note}
        notes["driver_notes"] = {**notes["driver_notes"], vocabulary.RAMDISK_BOOT: fresh}
        return {"driver_internal_info": notes, "provision_updated_at": clock.after(seconds)}

    rig.revise(node, earlier)


def sweep(rig: ConductorFixture) -> None:
    rig.sweep("boot retries")
    assert rig.service.runtime.workers.wait_idle(60)


def restarts(rig: ConductorFixture, node: str) -> list[int]:
    """Return the numbers in the events of restarts."""
    return [event["data"]["restarts"] for event in rig.events(node, "boot_retry")]


@pytest.mark.parametrize("state", CASES)
def test_machine_whose_loader_hangs_is_restarted_once(
    rig: ConductorFixture, machine: Hanging, state: str
) -> None:
    node = begin(rig, machine, state)
    sweep(rig)
    let_pass(rig, node, -59)
    sweep(rig)
    assert (machine.orders, restarts(rig, node)) == ([], [])
    let_pass(rig, node, -61)
    rig.sweep("boot retries")
    row = rig.reaches(node, CASES[state].end)
    assert row["last_error"] is None
    kind = "rescue" if state == "rescue wait" else "deploy"
    assert machine.ramdisks[:2] == [kind, kind]
    assert machine.orders[:2] == [base.POWER_OFF, base.POWER_ON]
    (event,) = rig.events(node, "boot_retry")
    assert event["run_uuid"] == rig.run(node)["uuid"]
    assert event["data"] == {"reason": "no lookup of its ramdisk for 60 s", "restarts": 1}


def test_machine_whose_power_stays_on_is_rebooted(rig: ConductorFixture, machine: Hanging) -> None:
    node = begin(rig, machine, "clean wait", disable_power_off=True)
    let_pass(rig, node)
    rig.sweep("boot retries")
    rig.reaches(node, "available")
    assert base.POWER_OFF not in machine.orders
    assert machine.orders[0] == base.REBOOT


def test_machine_is_restarted_ten_times_in_a_wait(rig: ConductorFixture, machine: Hanging) -> None:
    machine.hangs = 100
    node = begin(rig, machine, "wait call-back")
    for _ in range(12):
        sweep(rig)
        let_pass(rig, node)
        sweep(rig)
    assert restarts(rig, node) == list(range(1, ramdisk.MOST_RESTARTS + 1))
    assert machine.orders.count(base.POWER_ON) == ramdisk.MOST_RESTARTS
    row = rig.get(node)
    assert (row["provision_state"], row["reservation"]) == ("wait call-back", None)


def test_restart_that_fails_leaves_the_node_waiting(
    rig: ConductorFixture, machine: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = begin(rig, machine, "clean wait")
    let_pass(rig, node)

    def broken(*_args: Any) -> None:
        raise RuntimeError("no such BMC")

    monkeypatch.setattr(ramdisk, "boot", broken)
    sweep(rig)
    row = rig.get(node)
    assert (row["provision_state"], row["last_error"], restarts(rig, node)) == (
        *("clean wait", None),
        [1],
    )
    monkeypatch.undo()
    let_pass(rig, node)
    rig.sweep("boot retries")
    rig.reaches(node, "available")
    assert restarts(rig, node) == [1, 2]


SPARED: dict[str, dict[str, Any]] = {
    "maintenance": {"maintenance": True},
    "maintenance of a fault": {"maintenance": True, "fault": "clean failure"},
    "a poll": {"wake_at": clock.after(LONG_AGO)},
    "another state": {"provision_state": "inspect wait"},
    "no run": {"run_uuid": None},
}


@pytest.mark.parametrize("why", SPARED)
def test_machine_of_such_a_node_is_left_alone(
    rig: ConductorFixture, machine: Hanging, why: str
) -> None:
    node = begin(rig, machine, "clean wait")
    rig.service.timers.stop()
    let_pass(rig, node)
    rig.edit(node, **SPARED[why])
    sweep(rig)
    assert (machine.orders, restarts(rig, node)) == ([], [])


@pytest.mark.parametrize(
    "note",
    [{"by": "elsewhere"}, {"run": "another"}, {"restarts": ramdisk.MOST_RESTARTS}],
    ids=lambda note: next(iter(note)),
)
def test_boot_of_another_conductor_or_run_is_not_repeated(
    rig: ConductorFixture, machine: Hanging, note: dict[str, Any]
) -> None:
    node = begin(rig, machine, "clean wait")
    let_pass(rig, node, **note)
    sweep(rig)
    assert (machine.orders, restarts(rig, node)) == ([], [])


def test_machine_is_left_alone_while_its_firmware_is_written(
    rig: ConductorFixture, machine: Hanging
) -> None:
    node = begin(rig, machine, "clean wait")
    let_pass(rig, node)
    notes = rig.get(node)["driver_internal_info"]
    held = {**notes["driver_notes"], firmware.NOTE: {"index": 0}}
    rig.edit(node, driver_internal_info={**notes, "driver_notes": held})
    sweep(rig)
    assert (machine.orders, restarts(rig, node)) == ([], [])


def test_machine_is_left_alone_after_the_lookup_of_its_ramdisk(
    rig: ConductorFixture, machine: Hanging
) -> None:
    node = begin(rig, machine, "clean wait")
    rig.endpoints.get_node_with_token(rig.who, node_uuid=node)
    let_pass(rig, node)
    sweep(rig)
    assert (machine.orders, restarts(rig, node)) == ([], [])
    # A restart by an operator forgets the token, but is no first boot of the run.
    notes = rig.get(node)["driver_internal_info"]
    left = {key: value for key, value in notes.items() if "secret" not in key}
    rig.edit(node, driver_internal_info=left, provision_updated_at=clock.after(LONG_AGO))
    sweep(rig)
    assert (machine.orders, restarts(rig, node)) == ([], [])


def test_late_boot_in_a_long_wait_has_its_own_time(rig: ConductorFixture, machine: Hanging) -> None:
    node = begin(rig, machine, "clean wait")
    let_pass(rig, node, at=clock.stamp() - 55)
    sweep(rig)
    assert (machine.orders, restarts(rig, node)) == ([], [])
    let_pass(rig, node, at=clock.stamp() - 61)
    rig.sweep("boot retries")
    rig.reaches(node, "available")
    assert restarts(rig, node) == [1]


def test_wait_that_began_anew_has_its_time_too(rig: ConductorFixture, machine: Hanging) -> None:
    node = begin(rig, machine, "clean wait")
    let_pass(rig, node)
    rig.edit(node, provision_updated_at=clock.now())
    sweep(rig)
    assert (machine.orders, restarts(rig, node)) == ([], [])


def test_sweep_reads_no_node_whose_ramdisk_has_looked_it_up(
    rig: ConductorFixture, machine: Hanging
) -> None:
    for _ in range(3):
        node = begin(rig, machine, "clean wait")
        rig.endpoints.get_node_with_token(rig.who, node_uuid=node)
        let_pass(rig, node)
    polled = begin(rig, machine, "clean wait")
    rig.service.timers.stop()
    let_pass(rig, polled)
    rig.edit(polled, wake_at=clock.after(LONG_AGO))
    with count_statements(rig.database) as sent:
        sweep(rig)
    read = [one for one in sent if "FROM nodes" in one]
    assert len(read) == len(CASES) + 1, read  # a page of each state, and notes
    noted = [one for one in read if "driver_internal_info" in one]
    assert len(noted) == 1


def test_time_outs_read_no_notes_of_waiting_nodes(rig: ConductorFixture, machine: Hanging) -> None:
    let_pass(rig, begin(rig, machine, "clean wait"), -61)
    with count_statements(rig.database) as sent:
        rig.sweep("time-outs")
    assert [one for one in sent if "FROM nodes" in one]
    assert "driver_internal_info" not in str([*sent])


def test_boot_noted_by_a_newer_release_is_repeated(rig: ConductorFixture, machine: Hanging) -> None:
    node = begin(rig, machine, "clean wait")
    let_pass(rig, node, ways=["of a newer release"])
    rig.sweep("boot retries")
    rig.reaches(node, "available")
    assert restarts(rig, node) == [1]


@pytest.mark.parametrize("interface", ["management", "deploy"])
def test_machine_is_restarted_beside_a_step_of_its_agent_alone(
    rig: ConductorFixture, machine: Hanging, interface: str
) -> None:
    """A BMC may work on the step of another interface, whether or not that sets a timer."""
    node = begin(rig, machine, "clean wait")
    let_pass(rig, node)
    rig.edit(node, clean_step={"interface": interface, "step": "check", "priority": 0})
    sweep(rig)
    assert len(restarts(rig, node)) == (interface == "deploy")
    assert bool(machine.orders) is (interface == "deploy")


def test_locked_node_is_looked_at_later(rig: ConductorFixture, machine: Hanging) -> None:
    node = begin(rig, machine, "clean wait")
    let_pass(rig, node)
    with rig.tasks.lock(rig.who, node):
        rig.sweep("boot retries")
    assert (machine.orders, restarts(rig, node)) == ([], [])


def test_medium_is_not_restarted(stages: Callable[..., Stage], machine: Hanging) -> None:
    """Boot media have another way to fail: their BMC reports it."""
    drivers = functools.partial(scripted_agent.registry, machine, deploy.DirectDeploy())
    stage = stages(drivers, machine.serve, dead="removed", pxe__boot_retry_timeout=60)
    rig = stage.start(Life())
    node = begin(rig, machine, "clean wait")
    rig.edit(node, provision_updated_at=clock.after(LONG_AGO))
    sweep(rig)
    assert machine.orders == []
    assert vocabulary.RAMDISK_BOOT not in str(rig.get(node)["driver_internal_info"])
    stage.bury(rig)


def test_machines_are_looked_at_only_with_the_option(
    rig: ConductorFixture, build: Callable[..., ConductorFixture]
) -> None:
    assert rig.service.sweeps.plan["boot retries"].interval == 90
    assert build(DEFAULT__host="there").service.sweeps.plan["boot retries"].interval == 0


@pytest.mark.parametrize("what", ["commit", "call"])
def test_machine_boots_whenever_a_conductor_dies_in_a_restart(
    stage: Stage, machine: Hanging, what: str
) -> None:
    """A restart that was counted is not repeated at once; the next one comes in its time."""

    def wait(rig: ConductorFixture) -> str:
        node = begin(rig, machine, "clean wait")
        let_pass(rig, node)
        return node

    def act(rig: ConductorFixture, _node: str) -> None:
        rig.sweep("boot retries")

    for moment in stage.moments(what, least=3):
        node = moment.die(wait, act, lambda rig, node: bool(restarts(rig, node)))
        rig = moment.heir()
        rig.settled(node)
        if rig.get(node)["provision_state"] == "clean wait" and not machine.agent:
            let_pass(rig, node)
            rig.sweep("boot retries")
        row = rig.reaches(node, "available")
        assert row["last_error"] is None, moment.number
        assert 1 <= len(restarts(rig, node)) <= 2
        assert machine.clashes == []


# -- firmware ---------------------------------------------------------------------------------


@pytest.fixture
def strict() -> Iterator[StrictBmc]:
    """A BMC that takes up a new BIOS at the next boot of its machine."""
    documents = recordings.load("emulated-dell").documents
    config.CONF.set_override("firmware_update_required_successes", 0, group="redfish")
    with StrictBmc(documents, facts.systems(documents)[0]) as running:
        yield running
    config.CONF.clear_override("firmware_update_required_successes", group="redfish")


def test_update_of_ten_minutes_gets_no_power_order(
    stages: Callable[..., Stage],
    machine: Hanging,
    strict: StrictBmc,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The update restarts the machine itself, and the ramdisk is silent until its end."""
    monkeypatch.setattr(firmware, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())
    drivers = functools.partial(
        scripted_agent.registry,
        machine,
        deploy.DirectDeploy(),
        boot=NetworkBoot(),
        firmware=firmware.RedfishFirmware(),
        management=management.RedfishManagement(),
        power=power.RedfishPower(),
    )
    options = {"agent__require_tls": False, "pxe__boot_retry_timeout": 60}
    rig = stages(drivers, machine.serve, dead="removed", **options).start(Life())
    machine.hangs = 0
    image = {"component": "bios", "url": "https://192.0.2.80/bios-2.bin"}
    update = {"interface": "firmware", "step": "update", "args": {"settings": [image]}}
    node = rig.node("manageable", driver_info=strict.driver_info)
    machine.fresh(node)
    rig.ask("clean", node, clean_steps=[update, *listed("deploy.check")])
    wait_for(
        lambda: machine.orders.count(base.REBOOT) == 1 and rig.settled(node),
        lambda: (rig.about(node), machine.orders, strict.changes),
    )
    machine.hangs = 100
    strict.stands_still = True
    orders, resets = [*machine.orders], [*strict.resets]
    for _minute in range(10):
        let_pass(rig, node, -600)
        sweep(rig)
    assert rig.get(node)["provision_state"] == "clean wait"
    assert (machine.orders, strict.resets, restarts(rig, node)) == (orders, resets, [])
    strict.stands_still, machine.hangs = False, 0
    monkeypatch.setattr(firmware, "_poll_interval", lambda: 0.02)
    rig.ring(node)
    row = rig.reaches(node, "manageable")
    assert (row["last_error"], restarts(rig, node)) == (None, [])
    assert strict.tree[strict.system]["BiosVersion"] == acts.NEW_VERSION
    rig.bury()
