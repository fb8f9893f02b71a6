"""A conductor that was away in the middle of a reboot leaves the machine to its new owner."""

from __future__ import annotations

import contextlib
import copy
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.test_paused import LEASES, LOST, conductors
from tests.chaos.proxy import Proxy
from tests.emulators import bmc
from tests.support import database_servers, service
from tests.support.service import Program, Service

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
    service.until(lambda: fleet.get("/v1/nodes/m1")["power_state"] == "power off", "power off")
    before, shown = len(machine.log), fleet.get("/v1/nodes/m1")
    reboot.away.close()
    service.until(lambda: LOST in first.said(), "the end of the worker")
    assert machine.log[before:] == []
    assert machine.tree[machine.system]["PowerState"] == "Off"
    assert fleet.get("/v1/nodes/m1") == shown


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
