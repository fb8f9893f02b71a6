"""The processes run apart, as on several machines: a database server, a broker, two conductors."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import pytest
import requests

from tests.support import database_servers, rabbit, service
from tests.support.ports import free_port
from tests.support.service import Service

NODES = 6
QUORUM = """
[oslo_messaging_rabbit]
rabbit_quorum_queue = true
rabbit_transient_quorum_queue = true
"""


@pytest.fixture(params=database_servers.SERVERS)
def fleet(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A configuration with a database server and a broker, the database upgraded."""
    with contextlib.ExitStack() as made:
        database = made.enter_context(database_servers.own_database(request.param, "fleet"))
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
    another = listen_elsewhere(fleet)
    assert first.stop() == 0  # which it does when every API knows
    for name in names:
        fleet.provision(name, "deleted", "available")
    assert conductors(fleet) == {"second"}
    assert api.stop(signal.SIGTERM) == 0
    fleet.url = another
    assert {name for name in names if fleet.provision(name, "manage", "manageable")} == set(names)
    assert second.stop() == 0


def listen_elsewhere(fleet: Service) -> str:
    """Start one more API, as on another machine, and return its URL when it answers."""
    port = free_port()
    settings = fleet.folder / "another.conf"
    settings.write_text(f"[api]\nport = {port}\n", encoding="utf-8")
    fleet.start("ironic-lite-api", "--config-file", str(settings))
    url = f"http://{service.HOST}:{port}"
    service.until(lambda: requests.get(f"{url}/v1", timeout=60).ok, "another API")
    return url


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
