"""The API at a unix socket: its mode, its end, and a change of its process without a refusal."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import signal
import socket
import stat
from collections.abc import Iterator

import pytest

from tests.support import service
from tests.support.service import Program, Service, until


class Connection(http.client.HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__("localhost", timeout=service.PATIENCE)
        self._path = path

    def connect(self) -> None:
        """Connect to the path."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def ask(path: pathlib.Path, what: str = "/v1/nodes") -> int:
    connection = Connection(path)
    try:
        connection.request("GET", what)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@pytest.fixture
def up() -> Iterator[Service]:
    with service.service("[database]\n") as found:
        text = found.settings.read_text()
        path = found.folder / "api.sock"
        found.settings.write_text(text.replace("[api]\n", f"[api]\nunix_socket = {path}\n"))
        yield found


def path_of(up: Service) -> pathlib.Path:
    return up.folder / "api.sock"


def started(up: Service) -> Program:
    program = up.start()
    until(lambda: ask(path_of(up)) == 200, "the API at its socket")
    return program


def test_socket_has_its_mode_and_goes_with_the_service(up: Service) -> None:
    program = started(up)
    path = path_of(up)
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert path.stat().st_mode & 0o777 == 0o660
    assert f"Listening on unix:{path}" in program.said()
    with socket.socket() as tried:
        assert tried.connect_ex((service.HOST, up.port)) != 0, "no port is open"
    assert program.stop() == 0
    assert {one.name for one in up.folder.glob("*api.sock*")} == {"api.sock.lock"}


def test_links_have_the_host_of_the_request_or_localhost(up: Service) -> None:
    started(up)
    for head, host in (("", "localhost:80"), ("Host: localhost\r\n", "localhost")):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path_of(up)))
            client.sendall(f"GET /v1/ HTTP/1.0\r\n{head}\r\n".encode())
            with client.makefile("rb") as answer:
                body = json.loads(answer.read().partition(b"\r\n\r\n")[2])
        assert body["links"][0]["href"] == f"http://{host}/v1/"


def test_second_service_is_refused_and_the_first_goes_on(up: Service) -> None:
    started(up)
    second = up.start("ironic-lite-api")
    assert second.process.wait(service.PATIENCE) == 1
    assert "[api]unix_socket: another service listens there" in second.said()
    assert ask(path_of(up)) == 200


def test_new_process_takes_the_socket_over_and_leaves_no_other(up: Service) -> None:
    program = started(up)
    left = path_of(up).with_name(".api.sock.1")
    (worker,) = program.pids(service.API_UP)
    os.kill(worker, signal.SIGKILL)
    until(lambda: len(program.pids(service.API_UP)) == 2, "another process of the API")
    until(lambda: ask(path_of(up)) == 200, "the API at its socket")
    program.clear()  # by SIGKILL: the socket stays
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    assert path_of(up).is_socket()
    started(up)
    assert not left.exists()


def test_other_file_at_the_path_is_not_replaced(up: Service) -> None:
    path_of(up).write_text("mine")
    program = up.start("ironic-lite-api")
    assert program.process.wait(service.PATIENCE) == 1
    assert "exists and is not a socket" in program.said()
    assert path_of(up).read_text() == "mine"


def test_all_clients_of_a_socket_are_one_source(up: Service) -> None:
    text = up.settings.read_text()
    up.settings.write_text(text.replace("[api]\n", "[api]\nmax_requests_per_address = 1\n"))
    started(up)
    path = path_of(up)
    held = Connection(path)
    held.putrequest("POST", "/v1/nodes")
    held.putheader("Content-Length", "10")
    held.endheaders()
    until(lambda: ask(path) == 503, "the refusal of a second request")
    held.close()
    until(lambda: ask(path) == 200, "the end of the first request")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("unix_socket = run/api.sock", "run/api.sock does not begin with /"),
        (f"unix_socket = /{'x' * 98}", "is longer than 98 bytes"),
        ("unix_socket = /no/such/folder/api.sock", "/no/such/folder is no folder"),
        ("unix_socket = /tmp/a.sock\nenable_ssl_api = true", "TLS ends at the proxy"),
        ("unix_socket = /tmp/a.sock\nunix_socket_mode = 0888", "'0888' is not a mode such as 0660"),
    ],
)
def test_socket_that_cannot_be_is_refused(lines: str, said: str) -> None:
    with service.service() as found:
        text = found.settings.read_text()
        found.settings.write_text(text.replace("[api]\n", f"[api]\n{lines}\n"))
        program = found.start("ironic-lite-api")
        assert program.process.wait(service.PATIENCE) in (1, 2)
        assert said in program.said()


def test_open_socket_without_a_login_is_named(up: Service) -> None:
    text = up.settings.read_text()
    more = "[api]\nunix_socket_mode = 0666\nworkers = 3\n"
    up.settings.write_text(text.replace("[api]\n", more))
    program = started(up)
    assert path_of(up).stat().st_mode & 0o777 == 0o666
    assert "Every user of this machine controls the machines" in program.said()
    assert "One process serves [api]unix_socket" in program.said()
    assert len(program.pids(service.API_UP)) == 1
