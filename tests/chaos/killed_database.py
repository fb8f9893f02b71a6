"""A database server that is killed in mid-run and away for longer than any lease lasts.

``make outage`` runs this: it takes too long for the default suite.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.db.engine import session
from tests.support import private_servers, service
from tests.support.service import Service

LEASE = 2
SETTINGS = f"""heartbeat_interval = 1
heartbeat_timeout = {LEASE}
check_provision_state_interval = 1
hash_ring_reset_interval = 1

[database]
connect_timeout = 3
"""
NODES = [f"n{number}" for number in range(6)]
STEPS = [
    {"interface": "management", "step": "reset_bmc"},
    {"interface": "power", "step": "cycle"},
]
Server = private_servers.PostgreSQL | private_servers.MariaDB


@pytest.fixture(params=sorted(private_servers.DATABASES))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of our own."""
    with service.short_folder() as folder, contextlib.ExitStack() as made:
        folder.chmod(0o755)  # it runs as another user
        try:
            found = made.enter_context(private_servers.database(request.param, folder))
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        yield found


@pytest.fixture
def fleet(server: Server) -> Iterator[Service]:
    """A configuration for two conductors, the tables made."""
    with service.service(f"{SETTINGS}connection = {server.url(server.port)}\n") as found:
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        yield found


def alive(fleet: Service) -> int:
    """Return how many conductors live."""
    listed = (fleet.get("/v1/conductors") or {}).get("conductors", [])
    return sum(row["alive"] for row in listed)


def ask(server: Server, question: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(session.open_database(server.url(server.port))) as database:
        return database.read(lambda conn: [tuple(row) for row in conn.execute(sa.text(question))])


def test_no_run_fails_and_nobody_takes_what_nobody_could_renew(
    fleet: Service, server: Server
) -> None:
    fleet.start("ironic-lite-api")
    conductors = [fleet.start("ironic-lite-conductor", host=host) for host in ("first", "second")]
    service.until(lambda: alive(fleet) == len(conductors), "two conductors")
    for name in NODES:
        fleet.create(name, driver_info={"fake_step_seconds": 1})
        path = f"/v1/nodes/{name}/states/provision"
        assert fleet.ask("PUT", path, {"target": "manage"}).ok
    for name in NODES:
        fleet.settled(name, "manageable")
        wanted = {"target": "clean", "clean_steps": STEPS}
        answer = fleet.ask("PUT", f"/v1/nodes/{name}/states/provision", wanted)
        assert answer.status_code == 202, answer.text
    service.until(lambda: fleet.get(f"/v1/nodes/{NODES[-1]}")["clean_step"], "a step")
    server.stop(signal.SIGKILL)
    end = time.monotonic() + 2.5 * LEASE
    while time.monotonic() < end:
        for path in ("/v1/nodes", f"/v1/nodes/{NODES[0]}", "/v1/conductors"):
            answer = fleet.ask("GET", path)
            assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
        time.sleep(0.1)
    server.start()
    for name in NODES:
        fleet.settled(name, "manageable")
    service.until(lambda: alive(fleet) == len(conductors), "both are alive again")
    assert ask(server, "SELECT DISTINCT state FROM runs") == [("done",)]
    assert ask(server, "SELECT max(attempt) FROM run_steps") == [(1,)], "no step was run again"
    assert ask(server, "SELECT count(*) FROM events WHERE kind = 'taken_over'") == [(0,)]
    locked = "SELECT count(*) FROM nodes WHERE reservation IS NOT NULL"
    service.until(lambda: ask(server, locked) == [(0,)], "no lock")
    for conductor in conductors:
        assert "Traceback" not in conductor.said()
        assert conductor.stop(signal.SIGTERM) == 0
