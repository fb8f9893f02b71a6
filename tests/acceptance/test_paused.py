"""Conductors that are stopped, paused, cut off, or whose name another one takes."""

from __future__ import annotations

import contextlib
import copy
import pathlib
import signal
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.chaos.proxy import Proxy
from tests.emulators import bmc
from tests.support import balancer, database_servers, rabbit, service
from tests.support.service import CONDUCTOR_UP, Program, Service

# A conductor that is stopped and goes on: it has lost its node, and begins nothing late.

LEASES = """heartbeat_interval = 1
heartbeat_timeout = 3
check_provision_state_interval = 1
hash_ring_reset_interval = 1
"""
STEPS = [{"interface": "management", "step": "reset_bmc"}, {"interface": "power", "step": "cycle"}]
# The responsible conductor of a node changes when a conductor goes and comes back.
RESPONSIBLE = {"conductor": None}
LOST = "the lock was lost, its new owner continues"


@pytest.fixture
def fleet() -> Iterator[Service]:
    """APIs behind haproxy, for two conductors on one machine, with short leases."""
    with service.service(LEASES) as found:
        upgrade = found.start("ironic-lite-dbsync", "upgrade")
        assert upgrade.process.wait(service.PATIENCE) == 0
        with balancer.before(found):
            yield found


def runs(fleet: Service) -> list[dict[str, Any]]:
    """Return the runs of the node, the newest first, each with its steps."""
    found: list[dict[str, Any]] = (fleet.get("/v1/nodes/cleaned/runs") or {})["runs"]
    return found


def test_conductor_that_was_paused_writes_nothing_and_touches_no_machine(fleet: Service) -> None:
    programs: dict[str, Program] = {
        host: fleet.start("ironic-lite-conductor", host=host) for host in ("first", "second")
    }
    service.until(lambda: len(conductors(fleet)) == 2, "two conductors")
    fleet.create("cleaned", driver_info={"fake_step_seconds": 2})
    fleet.provision("cleaned", "manage", "manageable")
    body = {"target": "clean", "clean_steps": STEPS}
    assert fleet.ask("PUT", "/v1/nodes/cleaned/states/provision", body).status_code == 202

    def in_a_step() -> Any:
        node = fleet.get("/v1/nodes/cleaned")
        return node["clean_step"] and node["reservation"]

    holder = str(service.until(in_a_step, "a step"))
    programs[holder].process.send_signal(signal.SIGSTOP)
    (other,) = programs.keys() - {holder}
    node = fleet.settled("cleaned", "manageable") | RESPONSIBLE
    before = runs(fleet)
    assert (node["last_error"], before[0]["state"], before[0]["conductor"]) == (None, "done", other)
    programs[holder].process.send_signal(signal.SIGCONT)
    service.until(lambda: LOST in programs[holder].said(), "the end of its worker")
    service.until(lambda: len(conductors(fleet)) == 2, "its sign of life")
    assert fleet.get("/v1/nodes/cleaned") | RESPONSIBLE == node
    assert runs(fleet) == before


def conductors(fleet: Service) -> list[str]:
    """Return the host names of the conductors alive."""
    listed = (fleet.get("/v1/conductors") or {}).get("conductors", [])
    return [row["hostname"] for row in listed if row["alive"]]


LATE = "is not begun unless its caller repeats it"


@pytest.fixture
def brokered() -> Iterator[Service]:
    """APIs behind haproxy, with a broker, the database upgraded."""
    with rabbit.own_url() as broker, service.service() as found:
        text = found.settings.read_text(encoding="utf-8")
        with_broker = text.replace("[DEFAULT]\n", f"[DEFAULT]\ntransport_url = {broker}\n")
        found.settings.write_text(with_broker, encoding="utf-8")
        upgrade = found.start("ironic-lite-dbsync", "upgrade")
        assert upgrade.process.wait(service.PATIENCE) == 0
        with balancer.before(found):
            yield found


def test_conductor_that_was_paused_does_not_begin_a_call_answered_503(brokered: Service) -> None:
    conductor = brokered.start("ironic-lite-conductor", host="only")
    service.until(lambda: conductors(brokered) == ["only"], "the conductor")
    brokered.create("idle")
    brokered.provision("idle", "manage", "manageable")
    before = brokered.get("/v1/nodes/idle")
    conductor.process.send_signal(signal.SIGSTOP)
    stopped = psutil.STATUS_STOPPED
    service.until(lambda: psutil.Process(conductor.process.pid).status() == stopped, "its stop")
    late = brokered.ask("PUT", "/v1/nodes/idle/states/provision", {"target": "provide"})
    assert late.status_code == 503
    conductor.process.send_signal(signal.SIGCONT)
    service.until(lambda: LATE in conductor.said(), "the end of the late call")
    assert brokered.get("/v1/nodes/idle") == before
    brokered.provision("idle", "provide", "available")


# A conductor that was away in the middle of a reboot leaves the machine to its new owner.

REDFISH = """[DEFAULT]
enabled_hardware_types = redfish
enabled_boot_interfaces = fake
enabled_deploy_interfaces = fake
"""
CUT_SHORT = "The power change was interrupted"


class Reboot:
    """A machine that takes its time to go off, and what becomes of its conductor meanwhile."""

    def __init__(self, machine: bmc.Machine) -> None:
        self.machine = machine
        self.away = contextlib.ExitStack()
        """Entered when the machine has been told to go off; closed, the conductor is back."""
        self.leave: Any = None
        self.off = False
        reset = f"{machine.system}/Actions/ComputerSystem.Reset"
        machine.tricks[f"POST {reset}"] = self._told
        machine.tricks[f"GET {machine.system}"] = self._shown

    def _told(self, handler: bmc.Handler) -> None:
        if self.leave is not None:
            self.away.enter_context(self.leave)
            self.leave = None
        handler.truth()

    def _shown(self, handler: bmc.Handler) -> None:
        document = copy.deepcopy(self.machine.tree[self.machine.system])
        if self.machine.sent and not self.off:
            document["PowerState"] = "PoweringOff"
        handler.say(200, document)


@pytest.fixture
def reboot() -> Iterator[Reboot]:
    with bmc.serve() as machine:
        machine.tree[machine.system]["PowerState"] = "On"
        yield Reboot(machine)


@contextlib.contextmanager
def stopped(program: Program) -> Iterator[None]:
    """A process that stands still."""
    program.process.send_signal(signal.SIGSTOP)
    yield
    program.process.send_signal(signal.SIGCONT)


def tell_the_story(fleet: Service, first: Program, reboot: Reboot, leave: Any) -> None:
    """Reboot a machine whose conductor goes away meanwhile, and comes back when all is over."""
    machine = reboot.machine
    fleet.start("ironic-lite-api")
    service.until(lambda: conductors(fleet) == ["first"], "the first conductor")
    fleet.create("m1", driver="redfish", driver_info=machine.driver_info)
    fleet.provision("m1", "manage", "manageable")
    reboot.leave = leave
    asked = fleet.ask("PUT", "/v1/nodes/m1/states/power", {"target": "rebooting"})
    assert asked.status_code == 202, asked.text
    service.until(lambda: machine.sent == ["ForceOff"], "the first half of the reboot")
    fleet.start("ironic-lite-conductor", host="second")

    def taken_over() -> bool:
        node = fleet.get("/v1/nodes/m1")
        return node["reservation"] is None and CUT_SHORT in (node["last_error"] or "")

    service.until(taken_over, "the end of the reboot")
    reboot.off = True
    off = fleet.ask("PUT", "/v1/nodes/m1/states/power", {"target": "power off"})
    assert off.status_code == 202, off.text

    def switched_off() -> bool:
        node = fleet.get("/v1/nodes/m1")
        return node["reservation"] is None and node["power_state"] == "power off"

    service.until(switched_off, "power off")
    before, shown = len(machine.log), fleet.get("/v1/nodes/m1")
    reboot.away.close()
    service.until(lambda: LOST in first.said(), "the end of the worker")
    assert machine.log[before:] == []
    assert machine.tree[machine.system]["PowerState"] == "Off"
    assert fleet.get("/v1/nodes/m1") | RESPONSIBLE == shown | RESPONSIBLE


def test_a_stopped_conductor_does_not_switch_the_machine_on_again(reboot: Reboot) -> None:
    with service.service(LEASES + REDFISH) as fleet:
        upgrade = fleet.start("ironic-lite-dbsync", "upgrade")
        assert upgrade.process.wait(service.PATIENCE) == 0
        first = fleet.start("ironic-lite-conductor", host="first")
        tell_the_story(fleet, first, reboot, stopped(first))


def test_a_conductor_without_database_does_not_switch_the_machine_on_again(
    reboot: Reboot,
) -> None:
    with (
        database_servers.own_database("postgresql", "fence") as url,
        contextlib.ExitStack() as stack,
    ):
        proxy = Proxy(5432)
        proxy.start()
        stack.callback(proxy.close)
        fleet = stack.enter_context(
            service.service(f"{LEASES}{REDFISH}[database]\nconnection = {url}\n")
        )
        upgrade = fleet.start("ironic-lite-dbsync", "upgrade")
        assert upgrade.process.wait(service.PATIENCE) == 0
        behind = fleet.folder / "behind.conf"
        there = url.replace(":5432/", f":{proxy.port}/")
        behind.write_text(f"[database]\nconnection = {there}\n", encoding="utf-8")
        first = fleet.start("ironic-lite-conductor", "--config-file", str(behind), host="first")
        tell_the_story(fleet, first, reboot, proxy.stalled())


# A conductor's name belongs to one process, whatever machine it runs on.

CONDUCTOR = "ironic-lite-conductor"
WATCHING = "watching it"


@pytest.fixture
def named_fleet() -> Iterator[Service]:
    """A configuration with a database that does not lie in state_path."""
    with service.short_folder() as folder:
        database = f"[database]\nconnection = sqlite:///{folder}/shared.sqlite\n"
        with service.service(LEASES + database) as found:
            upgrade = found.start("ironic-lite-dbsync", "upgrade")
            assert upgrade.process.wait(service.PATIENCE) == 0
            yield found


def elsewhere(fleet: Service) -> list[str]:
    """Return the words that give a program the state_path of another machine."""
    there = pathlib.Path(fleet.folder) / "elsewhere.conf"
    there.write_text(f"[DEFAULT]\nstate_path = {fleet.folder}/elsewhere\n", encoding="utf-8")
    return ["--config-file", str(there)]


def up(program: Program) -> Program:
    service.until(lambda: program.pids(CONDUCTOR_UP), "the conductor")
    return program


def test_a_second_one_on_the_same_machine_does_not_start(named_fleet: Service) -> None:
    first = up(named_fleet.start(CONDUCTOR))
    second = named_fleet.start(CONDUCTOR)
    assert second.process.wait(service.PATIENCE) == 1
    assert "runs on this machine" in second.said()
    assert "[DEFAULT]host" in second.said()
    assert first.process.poll() is None


def test_a_second_one_on_another_machine_does_not_start(named_fleet: Service) -> None:
    first = up(named_fleet.start(CONDUCTOR))
    second = named_fleet.start(CONDUCTOR, *elsewhere(named_fleet))
    assert second.process.wait(service.PATIENCE) == 1
    assert "tester is alive" in second.said()
    assert first.process.poll() is None


def test_a_killed_one_starts_again_without_a_pause(named_fleet: Service) -> None:
    first = up(named_fleet.start(CONDUCTOR))
    first.stop(signal.SIGKILL)
    second = up(named_fleet.start(CONDUCTOR))
    assert WATCHING not in second.said()


def test_paused_conductor_whose_name_was_taken_stops(named_fleet: Service) -> None:
    first = up(named_fleet.start(CONDUCTOR))
    first.process.send_signal(signal.SIGSTOP)
    second = up(named_fleet.start(CONDUCTOR, *elsewhere(named_fleet)))
    assert WATCHING in second.said()
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(service.PATIENCE) == 1
    assert "has taken the name of conductor tester" in first.said()
    assert "[DEFAULT]host" in service.tail(first.said())[-1]
    assert second.stop() == 0


# A conductor that is stopped while its database is locked: it ends in time and loses nothing.

LIMIT = 4
"""[conductor]graceful_shutdown_timeout of these tests."""
SLACK = 14.0
"""Seconds that a stop may take beside that: its own few, and those of a loaded machine."""
OPTIONS = f"graceful_shutdown_timeout = {LIMIT}\nheartbeat_interval = 1\nheartbeat_timeout = 8\n"
STEP = [{"interface": "management", "step": "reset_bmc"}]


@pytest.fixture
def locked_fleet() -> Iterator[Service]:
    """A migrated database and an API."""
    with service.service(OPTIONS) as found:
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        found.start("ironic-lite-api")
        yield found


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Let nobody write to the database for the length of the block."""
    path = folder / "state" / "ironic-lite.sqlite"
    holder = sqlite3.connect(path, timeout=service.PATIENCE, isolation_level=None)
    with contextlib.closing(holder):
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.execute("ROLLBACK")


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "at work"])
def test_a_stop_ends_in_time_and_the_next_start_continues_the_work(
    locked_fleet: Service, busy: bool
) -> None:
    conductor = locked_fleet.start("ironic-lite-conductor", host="one")
    locked_fleet.up()
    locked_fleet.create("n1", driver_info={"fake_step_seconds": 1})
    locked_fleet.provision("n1", "manage", "manageable")
    if busy:
        body = {"target": "clean", "clean_steps": 3 * STEP}
        answer = locked_fleet.ask("PUT", "/v1/nodes/n1/states/provision", body)
        assert answer.status_code == 202, answer.text
    with locked(locked_fleet.folder):
        begun = time.monotonic()
        conductor.stop(signal.SIGTERM)
        took = time.monotonic() - begun
    assert took < LIMIT + SLACK
    locked_fleet.start("ironic-lite-conductor", host="one")
    locked_fleet.settled("n1", "manageable")
    if busy:
        runs = locked_fleet.get("/v1/nodes/n1/runs")["runs"]
        (run,) = [one for one in runs if one["verb"] == "clean"]
        assert run["state"] == "done"
        shown = locked_fleet.get(f"/v1/nodes/n1/runs/{run['uuid']}")
        assert [step["state"] for step in shown["steps"]] == 3 * ["done"]
    print(f"the stop took {took:.1f} s")
