"""What those who have no login can do to the processes: nothing that lasts or keeps others out."""

from __future__ import annotations

import base64
import http.client
import itertools
import pathlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import bcrypt
import pytest

from tests.support import service
from tests.support.service import HOST, Service

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
