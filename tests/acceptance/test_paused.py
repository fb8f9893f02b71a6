"""A conductor that is stopped and goes on: it has lost its node, and begins nothing late."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.support import balancer, rabbit, service
from tests.support.service import Program, Service

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
