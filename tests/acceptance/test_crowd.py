"""More clients than an API has places for, bodies that never come whole, and a conductor that has
stopped: nobody hangs.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
from concurrent import futures

import psutil
import requests

from tests.support import service
from tests.support.service import API_UP, CONDUCTOR_UP, HOST, Service

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
