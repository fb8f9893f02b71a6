"""The processes run apart, as on several machines: a database server, a broker, two conductors."""

from __future__ import annotations

import contextlib
import functools
import signal
from collections.abc import Iterator

import pytest

from tests import rabbit
from tests.acceptance import service
from tests.acceptance.service import Service
from tests.db import servers
from tests.ports import free_port

NODES = 6
QUORUM = """
[oslo_messaging_rabbit]
rabbit_quorum_queue = true
rabbit_transient_quorum_queue = true
"""


@pytest.fixture(params=servers.SERVERS)
def fleet(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A configuration with a database server and a broker, the database upgraded."""
    with contextlib.ExitStack() as made:
        database = made.enter_context(servers.own_database(request.param, "fleet"))
        broker = made.enter_context(rabbit.own_url())
        found = made.enter_context(service.service())
        text = found.settings.read_text(encoding="utf-8")
        found.settings.write_text(
            text.replace("[DEFAULT]\n", f"[DEFAULT]\ntransport_url = {broker}\n").replace(
                "[conductor]\n", "[conductor]\nhash_ring_reset_interval = 1\n"
            )
            + f"\n[database]\nconnection = {database}\n{QUORUM}",
            encoding="utf-8",
        )
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        yield found


def conductors(fleet: Service) -> set[str]:
    """Return the host names of the conductors alive."""
    listed = (fleet.get("/v1/conductors") or {}).get("conductors", [])
    return {row["hostname"] for row in listed if row["alive"]}


def test_two_conductors_share_the_fleet_over_a_broker(fleet: Service) -> None:
    api = fleet.start("ironic-lite-api")
    first = fleet.start("ironic-lite-conductor", host="first")
    second = fleet.start("ironic-lite-conductor", host="second")
    service.until(lambda: conductors(fleet) == {"first", "second"}, "two conductors")
    names = [f"node-{number}" for number in range(NODES)]
    for name in names:
        fleet.create(name)
        fleet.provision(name, "manage", "manageable")
        fleet.provision(name, "provide", "available")
        fleet.provision(name, "active", "active")
    owners = {fleet.get(f"/v1/nodes/{name}")["conductor"] for name in names}
    assert owners <= {"first", "second"}
    assert first.stop() == 0
    service.until(lambda: conductors(fleet) == {"second"}, "one conductor")
    for name in names:
        service.until(functools.partial(_deleted, fleet, name), f"{name} deleted by the other")
        fleet.settled(name, "available")
    assert [second.stop(), api.stop(signal.SIGTERM)] == [0, 0]


def _deleted(fleet: Service, name: str) -> bool:
    """Ask until the API knows that the first conductor has gone; then the other one says 202."""
    path = f"/v1/nodes/{name}/states/provision"
    return fleet.ask("PUT", path, {"target": "deleted"}).status_code == 202


def test_a_conductor_waiting_for_its_broker_still_stops_on_a_signal() -> None:
    away = f"rabbit://guest:guest@{service.HOST}:{free_port()}/"
    with service.service() as found:
        text = found.settings.read_text(encoding="utf-8")
        settings = text.replace("[DEFAULT]\n", f"[DEFAULT]\ntransport_url = {away}\n")
        found.settings.write_text(settings, encoding="utf-8")
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        conductor = found.start("ironic-lite-conductor")
        service.until(lambda: "rabbit" in conductor.said().lower(), "the broker is missed")
        assert conductor.stop() == 0
