"""SIGHUP: the configuration is read again, checked, and used while requests are answered."""

from __future__ import annotations

import functools
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from ironic_lite.core import certificate_files
from tests.support import certificates, service
from tests.support.ports import free_port
from tests.support.service import API_UP, CONDUCTOR_UP, HOST, PATIENCE, Program, Service, until

READ = "SIGHUP: the configuration was read again"
SIGNALS = 5
PAUSE = 0.05  # seconds between two requests of a client


def change(found: Service, group: str, line: str) -> None:
    """Add a line to a group, or replace the line with the same name."""
    name = line.partition(" ")[0]
    lines = [one for one in found.settings.read_text().splitlines() if one.split(" ")[0] != name]
    lines.insert(lines.index(f"[{group}]") + 1, line)
    new = found.settings.with_suffix(".new")
    new.write_text("\n".join([*lines, ""]))
    os.replace(new, found.settings)


def reload(program: Program) -> str:
    """Send SIGHUP and return the lines of its outcome."""
    before = len(program.said())
    program.process.send_signal(signal.SIGHUP)

    def outcome() -> str:
        said = program.said()[before:]
        return said if READ in said or "SIGHUP: the configuration is refused" in said else ""

    return until(outcome, "the outcome of SIGHUP")


def has_said(program: Program, line: str) -> bool:
    return line in program.said()


class Address:
    """The API of a service at its port or its unix socket, for one client.

    A worker that stops drops the TLS handshakes under way, and its client connects again.
    """

    def __init__(self, found: Service, path: pathlib.Path | None) -> None:
        self._found, self._path = found, path
        self.dropped = 0
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def connect(self) -> http.client.HTTPConnection:
        if self._path is None:
            return http.client.HTTPSConnection(
                HOST, self._found.port, timeout=PATIENCE, context=self._tls
            )
        made = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        made.sock = socket.socket(socket.AF_UNIX)
        made.sock.settimeout(PATIENCE)
        made.sock.connect(str(self._path))
        return made

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send one request on a connection of its own; on another one if it is dropped."""
        while True:
            try:
                return self._ask(method, path, body)
            except (ssl.SSLError, ConnectionResetError):
                self.dropped += 1

    def _ask(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        made = self.connect()
        try:
            headers = {"Content-Type": "application/json"}
            made.request(method, path, None if body is None else json.dumps(body), headers)
            answer = made.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            made.close()


class Asker(threading.Thread):
    """Sends twenty requests a second until it is stopped, and counts what fails."""

    def __init__(self, address: Address) -> None:
        super().__init__(daemon=True)
        self.address, self._over = address, threading.Event()
        self.answered = 0
        self.faults: list[str] = []

    def run(self) -> None:
        while not self._over.wait(PAUSE):
            try:
                status, _ = self.address.ask("GET", "/v1/nodes?limit=1")
            except OSError as why:
                self.faults.append(repr(why))
            else:
                self.answered += 1
                if status != 200:
                    self.faults.append(str(status))

    def stop(self) -> None:
        self._over.set()
        self.join(PATIENCE)


LAST = "the-last"


class Follower(threading.Thread):
    """Follows the events of new nodes, and goes on from its cursor when its stream ends."""

    def __init__(self, address: Address) -> None:
        super().__init__(daemon=True)
        self._address = address
        self.names: list[str] = []
        self.streams = 0

    def run(self) -> None:
        cursor = "0"
        while LAST not in self.names:
            made = self._address.connect()
            try:
                made.request("GET", f"/v1/events?follow=true&kind=node_created&since={cursor}")
                answer = made.getresponse()
            except OSError:  # as `Address`
                made.close()
                continue
            self.streams += 1
            while line := answer.readline():
                told = json.loads(line)
                cursor = told.get("cursor", cursor)
                if "kind" in told:
                    self.names.append(told["name"])
                if LAST in self.names:
                    break
            made.close()

    def stop(self) -> None:
        """Leave with the next event, in a stream that may be a new one."""
        body = {"driver": "fake-hardware", "name": LAST}
        assert self._address.ask("POST", "/v1/nodes", body)[0] == 201
        self.join(PATIENCE)


@pytest.fixture(params=["https", "unix"])
def served(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Any]:
    """A service with its address, and the certificate and key of its API, if any."""
    with service.service("", "https") as found:
        path = found.folder / "api.sock" if request.param == "unix" else None
        pair = certificates.write(tmp_path, 100)
        if path is not None:
            change(found, "api", f"unix_socket = {path}")
        else:
            change(found, "api", f"ssl_key_file = {pair[1]}")
            change(found, "api", f"ssl_cert_file = {pair[0]}")
            change(found, "api", "workers = 2")
        program = found.start()
        client = functools.partial(Address, found, path)
        until(lambda: client().ask("GET", "/v1/nodes")[0] == 200, "the API")
        yield found, program, client, None if path else pair


def put(source: pathlib.Path, target: pathlib.Path) -> None:
    new = target.with_suffix(".new")
    shutil.copy(source, new)
    os.replace(new, target)


@pytest.mark.feature("events")
def test_no_request_fails_and_no_event_is_missed_under_five_signals(
    served: Any, tmp_path: pathlib.Path
) -> None:
    found, program, client, pair = served
    workers = len(program.pids(API_UP))
    address, asker, follower = client(), Asker(client()), Follower(client())
    asker.start()
    follower.start()
    names = []
    if pair is not None:
        (tmp_path / "new").mkdir()
        renewed = certificates.write(tmp_path / "new", 200)
        put(renewed[0], pair[0])
        put(renewed[1], pair[1])
    for number in range(SIGNALS):
        change(found, "api", f"max_limit = {100 + number}")
        assert "[api]max_limit" in reload(program)
        names.append(f"node-{number}")
        body = {"driver": "fake-hardware", "name": names[-1]}
        assert address.ask("POST", "/v1/nodes", body)[0] == 201
    until(lambda: len(program.pids(API_UP)) >= 2 * workers, "new processes of the API")
    if pair is not None:
        wanted = certificate_files.serial_number(renewed[0].read_bytes())
        until(
            lambda: all(certificates.served_serial(found.port) == wanted for _ in range(12)),
            "the new certificate of both workers",
        )
    until(lambda: follower.streams > 1, "the end of a stream")
    until(lambda: len(follower.names) >= len(names), "the last event")
    asker.stop()
    follower.stop()
    assert follower.names == [*names, LAST]
    assert asker.faults == []
    # A client has one connection at a time, so each process that stops drops one at most.
    assert asker.address.dropped <= (len(program.pids(API_UP)) - workers if pair else 0)
    assert asker.answered > 50


@pytest.fixture
def up() -> Iterator[tuple[Service, Program]]:
    with service.service("[database]\n") as found:
        program = found.start()
        found.up()
        until(lambda: program.pids(CONDUCTOR_UP), "the conductor")
        yield found, program


def test_refused_configuration_changes_nothing(up: tuple[Service, Program]) -> None:
    found, program = up
    before = sorted(one.pid for one in service.family(program.pid))
    change(found, "api", "max_limit = 7")
    change(found, "api", "default_version = 0.1")
    said = reload(program)
    assert "nothing changes" in said
    assert "default_version: '0.1' is not of the form" in said
    change(found, "api", "default_version = latest")
    change(found, "database", "encryption_keys = hunter2")
    said = reload(program)
    assert "nothing changes" in said
    assert "hunter2" not in said
    assert sorted(one.pid for one in service.family(program.pid)) == before
    assert found.ask("GET", "/v1/nodes").ok


def test_conductor_uses_new_values_and_the_rest_is_named(up: tuple[Service, Program]) -> None:
    found, program = up
    (conductor,) = program.pids(CONDUCTOR_UP)
    for group, line in (
        ("conductor", "automated_clean_enable = false"),
        ("conductor", "workers_pool_size = 50"),
        ("api", "max_limit = 1"),
        ("DEFAULT", "debug = true"),
        ("DEFAULT", "host = other"),
        ("DEFAULT", "log_date_format = %H"),
        ("redfish", "tls_ciphers = HIGH"),
    ):
        change(found, group, line)
    said = reload(program)
    assert "changed: [api]max_limit, [conductor]automated_clean_enable, [DEFAULT]debug\n" in said
    late = "[conductor]workers_pool_size, [redfish]tls_ciphers, [DEFAULT]log_date_format"
    until(lambda: ": takes effect at a restart" in program.said(), "the options that are late")
    (line,) = [one for one in program.said().splitlines() if "takes effect at a restart" in one]
    assert {*late.split(", "), "[DEFAULT]host"} == {
        *line.split(" ", 5)[5].split(":")[0].split(", ")
    }
    until(lambda: len(program.pids(API_UP)) == 2, "the new process of the API")
    found.create("quick")
    found.create("other")
    until(lambda: len((found.get("/v1/nodes") or {})["nodes"]) == 1, "the new limit")
    found.provision("quick", "manage", "manageable")
    found.provision("quick", "provide", "available")
    assert "clean" not in str(found.get("/v1/nodes/quick/runs")["runs"])
    assert program.pids(CONDUCTOR_UP) == [conductor]


def test_options_of_the_api_wait_together_for_a_restart(up: tuple[Service, Program]) -> None:
    found, program = up
    change(found, "api", "host = 127.0.0.2")
    change(found, "api", "max_limit = 1")
    change(found, "conductor", "automated_clean_enable = false")
    said = reload(program)
    assert "changed: [conductor]automated_clean_enable\n" in said
    until(lambda: ": takes effect at a restart" in program.said(), "the options that are late")
    assert "[api]host, [api]max_limit: takes effect at a restart" in program.said()
    found.create("quick")
    found.create("other")
    assert len((found.get("/v1/nodes") or {})["nodes"]) == 2


def test_conductor_without_a_supervisor_reads_its_configuration_again() -> None:
    with service.service() as found:
        found.put_database()
        program = found.start("ironic-lite-conductor")
        until(lambda: program.pids(CONDUCTOR_UP), "the conductor")
        change(found, "DEFAULT", "debug = true")
        change(found, "conductor", "max_concurrent_clean = 3")
        change(found, "conductor", "heartbeat_timeout = 50")
        said = reload(program)
        assert "changed: [conductor]max_concurrent_clean, [DEFAULT]debug\n" in said
        until(lambda: "[conductor]heartbeat_timeout: takes effect" in program.said(), "the rest")
        for line in ("the log level is DEBUG until", "the log level is DEBUG again, as configured"):
            program.process.send_signal(signal.SIGUSR1)
            until(functools.partial(has_said, program, line), line)
        change(found, "conductor", "max_concurrent_clean = none")
        assert "'none' is not a whole number" in reload(program)
        assert program.stop() == 0


PROCESSES = """\
processes = 2
[deploy]
http_host = 127.0.0.1
http_port = {port}
"""
LATE = "[conductor]workers_pool_size: takes effect at a restart"
DEBUG = r"^\S+ \S+ (?P<pid>\d+) DEBUG "


def are_up(program: Program, count: int) -> bool:
    return len(program.pids(CONDUCTOR_UP)) == count


def logs_debug(program: Program, pid: int) -> bool:
    return pid in program.pids(DEBUG)


def test_processes_of_a_conductor_and_their_file_server_use_new_values() -> None:
    port = free_port()
    with service.service(PROCESSES.format(port=port)) as found:
        found.put_database()
        program = found.start("ironic-lite-conductor")
        until(lambda: len(program.pids(CONDUCTOR_UP)) == 2, "both conductors")
        change(found, "DEFAULT", "debug = true")
        change(found, "conductor", "workers_pool_size = 50")
        assert "changed: [DEFAULT]debug\n" in reload(program)
        until(lambda: LATE in program.said(), "the option that is late")
        requests.get(f"http://127.0.0.1:{port}/missing", timeout=PATIENCE)
        until(lambda: "GET /missing" in program.said(), "the log of the file server")
        # A process that a crash ends starts with the values that were read last.
        for number in (0, 1):
            killed, other = (program.pids(CONDUCTOR_UP)[place] for place in (number, number + 1))
            os.kill(killed, signal.SIGKILL)
            until(functools.partial(are_up, program, number + 3), "another one")
            until(functools.partial(logs_debug, program, other), "the end of a connection")
        last = program.pids(CONDUCTOR_UP)[2:]
        family = service.family(program.pid)
        (files,) = [one.pid for one in family if one.pid not in {program.pid, *last}]
        os.kill(files, signal.SIGKILL)
        until(lambda: "file server ended by SIGKILL" in program.said(), "its death")
        assert "changed: nothing\n" in reload(program)
        change(found, "conductor", "workers_pool_size = 100")
        reload(program)
        until(lambda: program.said().count(LATE) == 2, "an option that differs from the last start")
        assert program.stop() == 0
