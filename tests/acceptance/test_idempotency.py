"""Requests with an Idempotency-Key while the API is killed: nothing twice, nothing lost."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support import service
from tests.support.service import API_UP, CONDUCTOR_UP, Program, Service

SETTINGS = "[DEFAULT]\nrpc_response_timeout = 1\n"
REQUESTS = int(os.environ.get("IDEMPOTENT_REQUESTS", "200"))
CLIENTS = 8
PER_NODE = 4
PAUSE = 0.5
"""Seconds that each process of the API lives."""
PASSING = {409, 503}
Rows = list[tuple[Any, ...]]

# A trigger cannot contain a recursive query, but can read such a view.
ENDLESS = """
CREATE VIEW endless AS
WITH RECURSIVE number(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM number) SELECT x FROM number;
CREATE TRIGGER stuck BEFORE UPDATE ON idempotency WHEN NEW.state = 'done'
BEGIN SELECT count(*) FROM endless; END;
"""
ENDED = "DROP TRIGGER stuck; DROP VIEW endless;"


@pytest.fixture
def running() -> Iterator[tuple[Service, Program]]:
    """A service, and its program."""
    with service.service(SETTINGS) as found:
        program = found.start()
        found.up()
        yield found, program


@pytest.fixture
def separate() -> Iterator[Service]:
    """A conductor, and no API yet."""
    with service.service(SETTINGS) as found:
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        conductor = found.start("ironic-lite-conductor")
        service.until(lambda: conductor.pids(CONDUCTOR_UP), "the conductor")
        yield found


def database(found: Service) -> contextlib.closing[sqlite3.Connection]:
    """Open the database of a service."""
    path = found.folder / "state" / "ironic-lite.sqlite"
    return contextlib.closing(sqlite3.connect(path, timeout=60, isolation_level=None))


def rows(found: Service, question: str) -> Rows:
    """Return what the database contains."""
    with database(found) as conn:
        return conn.execute(question).fetchall()


def locked_long(found: Service) -> bool:
    """Return whether a transaction holds the write lock for a second."""
    path = found.folder / "state" / "ironic-lite.sqlite"
    with contextlib.closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as conn:
        try:
            conn.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        conn.execute("ROLLBACK")
        return False


def kill_api(program: Program) -> None:
    """Kill the process of the API that came last."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(program.pids(API_UP)[-1], signal.SIGKILL)


class Repeater:
    """A client that repeats each request with its key until it is carried out."""

    def __init__(self, found: Service) -> None:
        self._url = found.url
        self._session = requests.Session()
        self._session.trust_env = False
        self.tries: Counter[str] = Counter()

    def once(self, method: str, path: str, body: Any, key: str) -> requests.Response:
        """Send a request once."""
        headers = {"Idempotency-Key": key}
        url = self._url + path
        return self._session.request(method, url, json=body, headers=headers, timeout=60)

    def send(self, method: str, path: str, body: Any, key: str) -> requests.Response:
        """Return the first answer that is neither lost nor a request to try again."""
        end = time.monotonic() + 2 * service.PATIENCE
        while time.monotonic() < end:
            try:
                answer = self.once(method, path, body, key)
            except requests.RequestException:
                self.tries["lost"] += 1
                self._session.close()
                time.sleep(0.02)
                continue
            self.tries[str(answer.status_code)] += 1
            if "Idempotent-Replay" in answer.headers:
                self.tries["replayed"] += 1
            if answer.status_code not in PASSING:
                return answer
            time.sleep(0.1)
        raise AssertionError(f"{method} {path}: {dict(self.tries)}")

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


# -- one death, exactly between the work and the kept answer ---------------------------------


def die_before_the_answer(running: tuple[Service, Program], *request: Any, done: str) -> Any:
    """Send a request whose API dies when its work is done; return the answer to a repetition.

    :param done: the query that finds a row when the work is done.
    """
    found, program = running
    client = Repeater(found)
    with database(found) as conn:
        conn.executescript(ENDLESS)
    outcome: list[object] = []

    def first() -> None:
        try:
            outcome.append(client.once(*request))
        except requests.RequestException as why:
            outcome.append(why)

    thread = threading.Thread(target=first)
    thread.start()
    service.until(lambda: rows(found, done), "the work")
    service.until(lambda: locked_long(found), "the answer that cannot be kept")
    assert outcome == []
    kill_api(program)
    with database(found) as conn:
        conn.executescript(ENDED)
    thread.join(service.PATIENCE)
    assert isinstance(outcome[0], requests.RequestException)
    answer = client.send(*request)
    assert client.tries["409"] > 0  # until the first counts as dead
    client.close()
    return answer


def test_death_after_a_verb_leaves_one_run(running: tuple[Service, Program]) -> None:
    found, _ = running
    found.create("n1")
    path, body = "/v1/nodes/n1/states/provision", {"target": "manage"}
    answer = die_before_the_answer(running, "PUT", path, body, "k1", done="SELECT uuid FROM runs")
    assert answer.status_code == 202, answer.text
    ((run, state),) = rows(found, "SELECT uuid, state FROM runs")
    assert run in answer.headers["Link"]
    assert found.settled("n1", "manageable")["last_error"] is None
    assert state in {"running", "waiting", "done"}
    assert len(rows(found, "SELECT uuid FROM runs")) == 1


def test_death_after_an_enrolment_leaves_one_node(running: tuple[Service, Program]) -> None:
    found, _ = running
    body = {"driver": "fake-hardware", "name": "n1"}
    answer = die_before_the_answer(
        running, "POST", "/v1/nodes", body, "k1", done="SELECT uuid FROM nodes"
    )
    assert answer.status_code == 201, answer.text
    assert rows(found, "SELECT uuid, name FROM nodes") == [(answer.json()["uuid"], "n1")]
    assert answer.headers["Location"].endswith(answer.json()["uuid"])


# -- many deaths -----------------------------------------------------------------------------


def live(client: Repeater, name: str) -> str:
    """Enroll a node, manage it, change it and switch it on; return its UUID."""
    body = {"driver": "fake-hardware", "name": name, "extra": {"list": []}}
    made = client.send("POST", "/v1/nodes", body, str(uuid.uuid4()))
    assert made.status_code == 201, made.text
    path = f"/v1/nodes/{name}"
    wanted = {"target": "manage"}
    for method, more, sent, status in (
        ("PUT", "/states/provision", wanted, 202),
        ("PATCH", "", [{"op": "add", "path": "/extra/list/-", "value": 1}], 200),
        ("PUT", "/states/power", {"target": "power on"}, 202),
    ):
        answer = client.send(method, path + more, sent, str(uuid.uuid4()))
        assert answer.status_code == status, answer.text
    return str(made.json()["uuid"])


def up_or_ended(program: Program) -> bool:
    """Return whether an API listens, or has ended because another program has its port."""
    return bool(program.pids(API_UP)) or program.process.poll() is not None


def live_and_die(found: Service, threads: list[threading.Thread]) -> int:
    """Start an API and kill it, until the clients have ended; return the number of deaths."""
    deaths = 0
    while any(thread.is_alive() for thread in threads):
        program = found.start("ironic-lite-api")
        service.until(functools.partial(up_or_ended, program), "the API")
        time.sleep(PAUSE * random.uniform(0.5, 1.5))
        program.clear()
        deaths += 1
    return deaths


def test_requests_to_an_api_that_is_killed_all_the_time_are_carried_out_once(
    separate: Service,
) -> None:
    names = [f"n{number}" for number in range(REQUESTS // PER_NODE)]
    left, made, faults = list(names), dict[str, str](), list[BaseException]()
    clients = [Repeater(separate) for _ in range(CLIENTS)]

    def work(client: Repeater) -> None:
        with contextlib.suppress(IndexError):
            while not faults:
                name = left.pop()
                try:
                    made[name] = live(client, name)
                except BaseException as why:
                    faults.append(why)

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    deaths = live_and_die(separate, threads)
    for client in clients:
        client.close()
    assert faults == []
    separate.start("ironic-lite-api")
    service.until(lambda: separate.get("/v1/nodes"), "the API")
    for name in names:
        separate.settled(name, "manageable")
    tries = sum((client.tries for client in clients), Counter[str]())
    resumed = "SELECT count(*) FROM idempotency WHERE attempt > 1"
    ((taken,),) = rows(separate, resumed)
    total = len(names) * PER_NODE
    print(f"{total} requests, {deaths} deaths, {taken} taken over, answers: {dict(tries)}")
    check(separate, made, len(names))
    assert tries["lost"] > 0


def check(found: Service, made: dict[str, str], count: int) -> None:
    """Check that each request was carried out once."""
    assert dict(rows(found, "SELECT name, uuid FROM nodes")) == made
    assert len(made) == count
    assert rows(found, "SELECT extra FROM nodes GROUP BY extra") == [('{"list":[1]}',)]
    query = "SELECT node_uuid, count(*) FROM"
    by_node: dict[str, int] = dict(rows(found, f"{query} runs GROUP BY 1"))
    assert Counter(by_node.values()) == {1: count}
    powered = f"{query} events WHERE kind = 'power' AND event = 'start' GROUP BY 1"
    assert Counter(dict(rows(found, powered)).values()) == {1: count}
