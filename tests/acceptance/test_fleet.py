"""Several conductors and APIs on one machine: one is killed, each is restarted, nothing is lost."""

from __future__ import annotations

import contextlib
import functools
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support import service
from tests.support.ports import free_port
from tests.support.service import Program, Service

SETTINGS = """
heartbeat_interval = 1
heartbeat_timeout = 3
hash_ring_reset_interval = 1
node_locked_retry_interval = 1
"""
NODES = 50
STEPS = ("deploy.erase_devices_metadata", "bios.factory_reset", "power.cycle")
Rows = list[tuple[Any, ...]]


@pytest.fixture
def fleet() -> Iterator[Service]:
    """A configuration for two conductors, the database made."""
    with service.service(SETTINGS) as found:
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        yield found


def ask(fleet: Service, question: str) -> Rows:
    """Return what the database says; nothing while it has no time."""
    path = fleet.folder / "state" / "ironic-lite.sqlite"
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as database:
        return database.execute(question).fetchall()


def living(fleet: Service) -> set[str]:
    """Return the conductors alive."""
    listed = (fleet.get("/v1/conductors") or {}).get("conductors", [])
    return {row["hostname"] for row in listed if row["alive"]}


def held(fleet: Service, host: str) -> int:
    """Return how many nodes a conductor has locked."""
    question = f"SELECT count(*) FROM nodes WHERE reservation = '{host}'"
    return int(ask(fleet, question)[0][0])


def clean(fleet: Service) -> None:
    """Put all nodes into a manual clean."""
    steps = [dict(zip(("interface", "step"), title.split("."), strict=True)) for title in STEPS]
    for number in range(NODES):
        body = {"target": "clean", "clean_steps": steps}
        answer = fleet.ask("PUT", f"/v1/nodes/n{number}/states/provision", body)
        assert answer.status_code == 202, answer.text


def enrol(fleet: Service) -> None:
    """Bring all nodes to manageable."""
    for number in range(NODES):
        fleet.create(f"n{number}", driver_info={"fake_step_seconds": 1})
        fleet.ask("PUT", f"/v1/nodes/n{number}/states/provision", {"target": "manage"})
    resting = "SELECT count(*) FROM nodes WHERE provision_state = 'manageable'"
    service.until(lambda: ask(fleet, resting) == [(NODES,)], "all manageable")
    service.until(lambda: not held(fleet, "first") + held(fleet, "second"), "no lock")


def test_surviving_conductors_finish_all_cleans_of_killed_ones(
    fleet: Service,
) -> None:
    fleet.start("ironic-lite-api")
    first = fleet.start("ironic-lite-conductor", host="first")
    fleet.start("ironic-lite-conductor", host="second")
    service.until(lambda: living(fleet) == {"first", "second"}, "two conductors")
    enrol(fleet)
    clean(fleet)
    lost = service.until(lambda: held(fleet, "first"), "some in its hands")
    first.process.send_signal(signal.SIGKILL)
    died = time.monotonic()
    lost = held(fleet, "first")
    service.until(lambda: held(fleet, "first") == 0, "taken over")
    took = time.monotonic() - died
    ends = "SELECT provision_state, last_error, reservation, count(*) FROM nodes GROUP BY 1, 2, 3"
    service.until(lambda: ask(fleet, ends) == [("manageable", None, None, NODES)], "all cleaned")
    print(f"{lost} nodes were taken over within {took:.1f} s")
    begun: Counter[tuple[str, str]] = Counter()
    for node, step in ask(
        fleet,
        "SELECT node_uuid, json_extract(data, '$.step') FROM events WHERE kind = 'step_started'"
        " AND json_extract(data, '$.step') NOT LIKE '%verify%'",
    ):
        begun[node, step] += 1
    assert {step for _, step in begun} == set(STEPS)
    assert len(begun) == NODES * len(STEPS)
    again = Counter(node for (node, _), times in begun.items() for _ in range(times - 1))
    assert max(again.values(), default=0) <= 1
    assert len(again) <= lost
    runs = "SELECT DISTINCT state FROM runs WHERE verb = 'clean'"
    assert ask(fleet, runs) == [("done",)]


def test_requests_for_the_nodes_of_a_dead_conductor_do_not_wait_until_it_is_missed(
    fleet: Service,
) -> None:
    text = fleet.settings.read_text(encoding="utf-8")
    fleet.settings.write_text(text.replace("heartbeat_timeout = 3", "heartbeat_timeout = 600"))
    fleet.start("ironic-lite-api")
    first = fleet.start("ironic-lite-conductor", host="first")
    fleet.start("ironic-lite-conductor", host="second")
    service.until(lambda: living(fleet) == {"first", "second"}, "two conductors")
    names = [f"n{number}" for number in range(12)]
    for name in names:
        fleet.create(name)
    assert "first" in {fleet.get(f"/v1/nodes/{name}")["conductor"] for name in names}
    first.clear()
    for name in names:
        fleet.provision(name, "manage", "manageable")
    fleet.create("new")
    assert living(fleet) == {"first", "second"}, "nobody has missed it yet"
    assert ask(fleet, "SELECT DISTINCT conductor, state FROM runs") == [("second", "done")]


# -- rolling restart -------------------------------------------------------------------------


class Load:
    """Clients that go on and on, and remember what failed."""

    def __init__(self, fleet: Service) -> None:
        self._url = f"{fleet.url}/v1/nodes"
        self._stopped = threading.Event()
        self.wrong: list[str] = []
        self.done = Counter[str]()
        self.other = free_port()
        self._other = self._url.replace(str(fleet.port), str(self.other))
        jobs = [self._live] * 3 + [self._read, self._balanced]
        self._threads = [
            threading.Thread(target=job, args=(number,)) for number, job in enumerate(jobs)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(service.PATIENCE)

    def _request(self, session: Any, method: str, path: str, body: Any) -> requests.Response:
        """Ask as a load balancer does: the other API, in turns, if one refuses the connection or
        ends it without an answer. An API that stops has not begun such a request.
        """
        for place in (self._url, self._other) * 2:
            with contextlib.suppress(requests.ConnectionError):
                answer: requests.Response = session.request(
                    method, place + path, json=body, timeout=60
                )
                return answer
        return session.request(method, self._url + path, json=body, timeout=60)  # type: ignore[no-any-return]

    def _ask(self, session: Any, method: str, path: str, wanted: int, body: Any = None) -> Any:
        try:
            answer = self._request(session, method, path, body)
        except requests.RequestException as why:
            self.wrong.append(f"{method} {path}: {why!r}")
            return {}
        if answer.status_code != wanted:
            self.wrong.append(f"{method} {path}: {answer.status_code} {answer.text}")
            return {}
        self.done[method] += 1
        return answer.json() if answer.content else {}

    def _live(self, number: int) -> None:
        """Make nodes and bring them to available, each request on a connection of its own."""
        count = 0
        while not self._stopped.is_set():
            name, count = f"/load-{number}-{count}", count + 1
            new = {"name": name[1:], "driver": "fake-hardware"}
            self._ask(requests, "POST", "", 201, new)
            for target, state in (("manage", "manageable"), ("provide", "available")):
                self._ask(requests, "PUT", f"{name}/states/provision", 202, {"target": target})
                self._reach(name, state)

    def _reach(self, name: str, state: str) -> None:
        end = time.monotonic() + service.PATIENCE
        while time.monotonic() < end and not self.wrong:
            node = self._ask(requests, "GET", name, 200)
            if node.get("provision_state") == state and node["reservation"] is None:
                return
            time.sleep(0.05)
        self.wrong.append(f"{name} does not become {state}: {node}")

    def _balanced(self, _: int) -> None:
        """Read as a load balancer does: if one refuses the connection, ask the other."""
        while not self._stopped.is_set():
            try:
                answer = requests.get(self._other, timeout=60)
                self.done["balanced"] += 1
                if answer.status_code != 200:
                    self.wrong.append(f"{answer.status_code} {answer.text}")
            except requests.ConnectionError:
                self._ask(requests, "GET", "", 200)

    def _read(self, _: int) -> None:
        """Read over one connection for as long as it lasts."""
        with requests.Session() as session:
            while not self._stopped.is_set():
                self._ask(session, "GET", "", 200)


def test_every_process_is_restarted_under_load_and_no_request_and_no_run_fails(
    fleet: Service,
) -> None:
    api = fleet.start("ironic-lite-api")
    conductors = {
        host: fleet.start("ironic-lite-conductor", host=host) for host in ("first", "second")
    }
    service.until(lambda: living(fleet) == {"first", "second"}, "two conductors")
    with Load(fleet) as load:
        for _ in range(3):
            beyond(load, 20)
            one_of_two = second(fleet, load.other)
            answered = load.done["balanced"]
            service.until(functools.partial(reached, load, answered), "the other API")
            assert api.stop() == 0
            beyond(load, 5)
            api = fleet.start("ironic-lite-api")
            service.until(lambda: fleet.get("/v1/nodes"), "the API again")
            fleet.session.close()
            assert one_of_two.stop() == 0
        ways = (signal.SIGTERM, signal.SIGUSR2)
        for (host, conductor), way in zip(conductors.items(), ways, strict=True):
            beyond(load, 20)
            assert conductor.stop(way) == 0
            fleet.start("ironic-lite-conductor", host=host)
            service.until(lambda: living(fleet) == {"first", "second"}, f"{host} again")
        beyond(load, 20)
    assert load.wrong == []
    print(f"answered: {dict(load.done)}")
    assert ask(fleet, "SELECT DISTINCT state FROM runs") == [("done",)]
    assert {row[0] for row in ask(fleet, "SELECT DISTINCT provision_state FROM nodes")} <= {
        *("available", "enroll", "manageable"),
    }


def second(fleet: Service, port: int) -> Program:
    """Start another API, on a socket of its own."""
    settings = fleet.folder / "second.conf"
    settings.write_text(f"[api]\nport = {port}\n", encoding="utf-8")
    return fleet.start("ironic-lite-api", "--config-file", str(settings))


def reached(load: Load, before: int) -> bool:
    """Tell whether some have been answered since by the API that a balancer asks first."""
    return load.done["balanced"] >= before + 20 or bool(load.wrong)


def beyond(load: Load, more: int) -> None:
    """Wait until so many more changes have been accepted."""
    wanted = load.done["PUT"] + more
    service.until(lambda: load.wrong or load.done["PUT"] >= wanted, "some more changes")
