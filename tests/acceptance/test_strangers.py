"""Strangers, crowds of clients, and many silent BMCs keep nobody else out."""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import itertools
import pathlib
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bcrypt
import psutil
import pytest
import requests

from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes
from tests.emulators import bmc
from tests.support import service
from tests.support.service import API_UP, CONDUCTOR_UP, HOST, Service, until
from tests.support.silent_bmcs import SETTINGS, row, silent_bmcs

# What those who have no login can do to the processes: nothing that lasts or keeps others out.

FORGED = "2026-11-22 00:00:00.000 1 CRITICAL ironic_lite.conductor.service Conductor is compromised"
ROUNDS = 8
"""Of bcrypt, as ``htpasswd -B`` has 5 and most tools 12: each check takes some 20 ms."""


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A password file."""
    path = tmp_path_factory.mktemp("users") / "htpasswd"
    write(path)
    return path


def write(users: pathlib.Path) -> None:
    """Make the file name ann, whose password is sesame, by another hash each time."""
    users.write_text(f"ann:{bcrypt.hashpw(b'sesame', bcrypt.gensalt(ROUNDS)).decode()}\n")


@pytest.fixture(scope="module")
def guarded(users: pathlib.Path) -> Iterator[Service]:
    """A service with the user ann."""
    options = (
        f"[DEFAULT]\nhttp_basic_auth_user_file = {users}\n[api]\nauth_strategy = http_basic\n"
        "body_timeout = 20\n"
    )
    with service.service(options) as found:
        found.session.auth = ("ann", "sesame")
        found.start()
        found.up()
        yield found


def logs(found: Service) -> list[pathlib.Path]:
    return sorted(found.folder.rglob("*.log"))


def size(found: Service) -> int:
    return sum(path.stat().st_size for path in logs(found))


def raw(port: int, head: bytes) -> bytes:
    """Send the head of a request as it is, and return the first line of the answer."""
    with socket.create_connection((HOST, port), timeout=service.PATIENCE) as line:
        line.sendall(head)
        with line.makefile("rb") as answer:
            return answer.readline()


def test_anonymous_requests_do_not_fill_the_log(guarded: Service) -> None:
    before = size(guarded)
    line = http.client.HTTPConnection(HOST, guarded.port, timeout=service.PATIENCE)
    for _ in range(100):
        line.request("PUT", "/v1/nodes/" + "x" * 30_000)
        answer = line.getresponse()
        answer.read()
        assert answer.status == 401
    line.close()
    assert size(guarded) - before < 4096


def test_a_stranger_writes_no_line_of_the_log(guarded: Service) -> None:
    quoted = FORGED.replace(" ", "%20")
    for middle in ("%0a", "%0d%0a", "%1b[2J%0a", "%e2%80%a8"):
        for path in (f"/v1/heartbeat/abc{middle}{quoted}", f"/v1/nodes/{middle}{quoted}"):
            for method in ("POST", "PUT"):
                head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
                assert raw(guarded.port, head.encode()).split()[1][:1] == b"4"
    assert guarded.ask("PUT", f"/v1/nodes/x%0a{quoted}%1b[2J/maintenance").status_code == 400
    for log in logs(guarded):
        text = log.read_bytes()
        assert b"\x1b" not in text
        assert b"\r" not in text
        assert not any(line.startswith(FORGED[:20].encode()) for line in text.splitlines())


def login(found: Service, password: str) -> int:
    """Send a request over a connection of its own, and return the status of the answer."""
    line = http.client.HTTPConnection(HOST, found.port, timeout=service.PATIENCE)
    token = base64.b64encode(f"ann:{password}".encode()).decode()
    line.request("GET", "/v1/nodes?limit=1", headers={"Authorization": f"Basic {token}"})
    answer = line.getresponse()
    answer.read()
    line.close()
    return answer.status


@pytest.mark.parametrize("name", ["ann", "eve"])
def test_a_flood_of_wrong_passwords_keeps_no_user_out(
    guarded: Service, users: pathlib.Path, name: str
) -> None:
    """Sixteen connections guess, and one user comes: known, and after the file has changed."""
    over = threading.Event()

    def guess(number: int) -> set[int]:
        line = http.client.HTTPConnection(HOST, guarded.port, timeout=service.PATIENCE)
        seen = set()
        tries = itertools.count()
        while not over.is_set():
            token = base64.b64encode(f"{name}:{number}-{next(tries)}".encode()).decode()
            line.request("GET", "/v1/nodes", headers={"Authorization": f"Basic {token}"})
            answer = line.getresponse()
            answer.read()
            seen.add(answer.status)
        line.close()
        return seen

    with ThreadPoolExecutor(16) as pool:
        flood = [pool.submit(guess, number) for number in range(16)]
        try:
            for _ in range(5):
                time.sleep(0.2)
                assert login(guarded, "sesame") == 200
            write(users)
            assert login(guarded, "sesame") == 200
        finally:
            over.set()
        assert set().union(*(each.result(service.PATIENCE) for each in flood)) <= {401, 503}


# More clients than an API has places for, bodies that never come whole, and a conductor that has
# stopped: nobody hangs.

PLACES, CLIENTS, FEW = 16, 40, 2
MORE = f"[api]\nmax_connections = {PLACES}\nmax_changes = {FEW}\n"
HALF, SECONDS = 140, 2  # more than there are places for agents
GET = b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def accepted(found: Service, api: int) -> int:
    """Return how many connections the API holds; those that wait at its socket have no owner."""
    there = psutil.Process(api).net_connections("tcp")
    return sum(one.laddr.port == found.port and bool(one.raddr) for one in there)


def ask(found: Service, node: str) -> tuple[int, str]:
    """Ask for a change of the power over a connection of its own; return status and Retry-After."""
    path = f"{found.url}/v1/nodes/{node}/states/power"
    with requests.Session() as session:
        session.trust_env = False
        answer = session.put(path, json={"target": "power on"}, timeout=service.PATIENCE)
    return answer.status_code, answer.headers.get("Retry-After", "")


def half_a_heartbeat(found: Service, node: str) -> socket.socket:
    line = socket.create_connection((HOST, found.port), service.PATIENCE)
    head = f"POST /v1/heartbeat/{node} HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Type: application/json\r\n"
    line.sendall(f'{head}Content-Length: 300\r\n\r\n{{"callback_url": '.encode())
    return line


def test_client_that_stops_in_mid_body_blocks_no_other_and_is_disconnected() -> None:
    with (
        service.service(f"[api]\nbody_timeout = {SECONDS}\n") as found,
        contextlib.ExitStack() as on,
    ):
        program = found.start()
        found.up()
        node = found.create("node-1")
        found.session.close()
        [api] = program.pids(API_UP)
        lines = [on.enter_context(half_a_heartbeat(found, node)) for _ in range(HALF)]
        whole = {"callback_url": "https://192.0.2.1:9999", "agent_version": "1", "agent_token": "t"}
        answer = found.ask("POST", f"/v1/heartbeat/{node}", whole)
        assert (answer.status_code, "agent_token" in answer.text) == (400, True), answer.text
        found.session.close()
        # They stay connected, all from one address; each is told why, and then closed by the API.
        for line in lines:
            assert line.recv(100).startswith(b"HTTP/1.1 408 ")
        service.until(lambda: accepted(found, api) <= 1, "all of them closed")
        assert found.get(f"/v1/nodes/{node}")["uuid"] == node


def test_requests_beyond_the_limits_wait_or_are_refused_and_reads_go_on() -> None:
    with service.service(MORE) as found, contextlib.ExitStack() as opened:
        program = found.start()
        found.up()
        node = found.create("node-1")
        found.session.close()
        [api], [conductor] = program.pids(API_UP), program.pids(CONDUCTOR_UP)
        lines = [
            opened.enter_context(socket.create_connection((HOST, found.port), service.PATIENCE))
            for _ in range(CLIENTS)
        ]
        service.until(lambda: accepted(found, api) == PLACES, "all places taken")
        for line in lines:
            line.sendall(GET)
        for number, line in enumerate(lines):
            assert line.recv(100).startswith(b"HTTP/1.1 200 ")
            assert number % PLACES or accepted(found, api) <= PLACES
            line.close()

        psutil.Process(conductor).send_signal(signal.SIGSTOP)
        with futures.ThreadPoolExecutor(2 * FEW) as pool:
            said = [pool.submit(ask, found, node) for _ in range(2 * FEW)]
            first = [each.result() for each in itertools.islice(futures.as_completed(said), FEW)]
            assert found.get(f"/v1/nodes/{node}")["uuid"] == node
            psutil.Process(conductor).send_signal(signal.SIGCONT)
        assert {status for status, _ in first} == {503}
        assert all(int(seconds) >= 5 for _, seconds in first)


# Many silent BMCs: nodes of others are switched and watched as if there were none.

SILENT, GOOD = 48, 5
INTERVAL = 4
OPTIONS = f"""\
workers_pool_size = 20
sync_power_state_interval = {INTERVAL}
sync_power_state_workers = 4
power_state_sync_max_retries = 1000
force_power_state_during_sync = false
{SETTINGS}[redfish]
read_timeout = 2
"""
SLACK = 10.0
"""Seconds more than two intervals, on a machine with too little time."""
SILENT_SECONDS = 20.0
"""Within which a power change of an answering machine ends while silent ones are driven."""
ON = {"target": "power on"}


@pytest.fixture
def up() -> Iterator[Service]:
    """The service, whose first comparison of power begins within an interval."""
    # The settings of other tests switch the comparison off.
    options = OPTIONS.replace("[redfish]\n", "[redfish]\nallowed_networks = 127.0.0.0/8\n")
    with service.service() as found:
        text = found.settings.read_text(encoding="utf-8")
        text = text.replace("sync_power_state_interval = 0\n", "")
        text = text.replace("[redfish]\nallowed_networks = 127.0.0.0/8\n", "")
        found.settings.write_text(text + options, encoding="utf-8")
        found.start()
        found.up()
        yield found


def enroll(up: Service, rows: list[dict[str, Any]]) -> None:
    """Add active nodes."""

    def write(conn: Connection) -> None:
        for one in rows:
            nodes.insert(conn, one)

    url = f"sqlite:///{up.folder}/state/ironic-lite.sqlite"
    with contextlib.closing(session.open_database(url)) as database:
        database.write(write)


class Storm:
    """A client that wants the silent machines switched, as often as it is let."""

    def __init__(self, url: str, uuids: list[str]) -> None:
        self._paths = [f"{url}/v1/nodes/{one}/states/power" for one in uuids]
        self._ended = threading.Event()
        self.answers: Counter[int] = Counter()
        self._threads = [
            threading.Thread(target=self._run, args=(first,), daemon=True) for first in range(4)
        ]

    def __enter__(self) -> Storm:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for one in self._threads:
            one.join(service.PATIENCE)

    def _run(self, first: int) -> None:
        with requests.Session() as session:
            session.trust_env = False
            while not self._ended.is_set():
                for path in self._paths[first::4]:
                    with contextlib.suppress(OSError):
                        self.answers[session.put(path, json=ON, timeout=60).status_code] += 1
                    if self._ended.wait(0.05):
                        return


def test_answering_machines_are_served_beside_many_silent_ones(up: Service) -> None:
    with silent_bmcs(SILENT) as infos, contextlib.ExitStack() as stack:
        machines = [stack.enter_context(bmc.serve()) for _ in range(GOOD)]
        for machine in machines:
            machine.tree[machine.system]["PowerState"] = "Off"
        silent = [row(info, power_state=None) for info in infos]
        good = [row(machine.driver_info) for machine in machines]
        enroll(up, [*silent, *good])
        changed = time.monotonic()
        machines[0].tree[machines[0].system]["PowerState"] = "On"
        noticed = functools.partial(_has_power, up, good[0]["uuid"], "power on")
        assert until(noticed, "the power change")
        seconds = time.monotonic() - changed
        print(f"a power change was noticed after {seconds:.1f} s of {INTERVAL} s")
        assert seconds < 2 * INTERVAL + SLACK
        until(lambda: _unread(up) == SILENT, "every silent machine has had its time")
        with Storm(up.url, [one["uuid"] for one in silent]) as storm:
            until(lambda: storm.answers[202] > 3 and storm.answers[503] > 3, "the share is full")
            taken = [_switched(up, one["uuid"]) for one in good[1:]]
        print(f"answering machines were switched in {max(taken):.1f} s; {dict(storm.answers)}")
        assert max(taken) < SILENT_SECONDS


def _unread(up: Service) -> int:
    """Return the number of machines whose power could not be read, by the log."""
    text = up.running()[0].said()
    return len(set(re.findall(r"Node (\S+): power cannot be read", text)))


def _has_power(up: Service, node: str, state: str) -> bool:
    found = up.get(f"/v1/nodes/{node}?fields=power_state,target_power_state")
    return bool(found) and (found["power_state"], found["target_power_state"]) == (state, None)


def _switched(up: Service, node: str) -> float:
    """Switch a machine on by a request that is accepted at once; return the seconds it took."""
    begun = time.monotonic()
    answer = up.ask("PUT", f"/v1/nodes/{node}/states/power", ON)
    assert answer.status_code == 202, answer.text
    until(lambda: _has_power(up, node, "power on"), "the switched machine")
    return time.monotonic() - begun
