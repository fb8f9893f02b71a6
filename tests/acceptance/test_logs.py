"""Logs of real processes: rotation, size, and the log of a run."""

from __future__ import annotations

import collections
import gzip
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support import http_nodes, machine_room, rabbit, service
from tests.support.service import PATIENCE, Service

# Log files are rotated as the example for logrotate does, while all processes write.

EXAMPLE = service.ROOT / "etc/ironic-lite/examples/logrotate.conf"
ROTATIONS = 6


@pytest.fixture
def logging() -> Iterator[tuple[Service, pathlib.Path]]:
    """The whole service with two workers of the API, which log to a file."""
    with service.service("[api]\nworkers = 2\n") as found:
        folder = found.folder / "log"
        folder.mkdir()
        log = folder / "ironic-lite.log"
        found.start("ironic-lite", "--log-file", str(log))
        service.until(lambda: found.ask("GET", "/readyz").ok, "the service")
        yield found, log


class Clients:
    """Clients that send requests, each with a path of its own, until they are stopped."""

    def __init__(self, url: str, count: int = 4) -> None:
        self.paths: set[str] = set()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(url, number)) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, url: str, client: int) -> None:
        number = 0
        while not self._over.is_set():
            path, number = f"/v1/none-{client}-{number}", number + 1
            requests.post(f"{url}{path}", timeout=service.PATIENCE)
            self.paths.add(path)

    def stop(self) -> set[str]:
        self._over.set()
        for thread in self._threads:
            thread.join()
        return self.paths


def texts(log: pathlib.Path) -> Iterator[str]:
    for path in log.parent.iterdir():
        raw = path.read_bytes()
        yield (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def test_rotation_by_the_example_loses_no_line(logging: tuple[Service, pathlib.Path]) -> None:
    found, log = logging
    text = EXAMPLE.read_text(encoding="utf-8").replace("/var/log/ironic-lite", str(log.parent))
    text = re.sub(" ironic-lite ironic-lite$", "", text, flags=re.MULTILINE)
    settings = found.folder / "logrotate.conf"
    settings.write_text(re.sub("^ +su$", "", text, flags=re.MULTILINE), encoding="utf-8")
    settings.chmod(0o600)
    program = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")

    def rotate(number: int) -> None:
        if program is None:  # what it does by these settings
            log.rename(log.with_suffix(f".log.{number}"))
            os.close(os.open(log, os.O_CREAT | os.O_WRONLY, 0o640))
            return
        state = found.folder / "logrotate.state"
        command = [program, "--force", "--state", str(state), str(settings)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    clients = Clients(found.url)
    try:
        for number in range(ROTATIONS):
            before = len(clients.paths)
            service.until(lambda: len(clients.paths) > before + 50, "requests")  # noqa: B023
            rotate(number)
    finally:
        paths = clients.stop()
    assert len([*log.parent.iterdir()]) > ROTATIONS
    logged = set(re.findall(r"'POST (/v1/none-\S+)'", "".join(texts(log))))
    assert paths - logged == set()
    assert log.stat().st_mode & 0o777 == 0o640


# The log of programs whose broker refuses them for hours stays small.

MOST_BYTES = 60_000
"""Bytes of a program's log without a virtual host: each statement once, some with a traceback."""
AWAY_SECONDS = 12.0
STATEMENT = re.compile(r" (?:ERROR|WARNING|INFO) (\S+) ")


def test_deleted_virtual_host_fills_no_log() -> None:
    with rabbit.own_url() as broker, service.service() as found:
        text = found.settings.read_text(encoding="utf-8")
        with_broker = text.replace("[DEFAULT]\n", f"[DEFAULT]\ntransport_url = {broker}\n")
        found.settings.write_text(with_broker, encoding="utf-8")
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        programs = [found.start("ironic-lite-api"), found.start("ironic-lite-conductor")]
        service.until(lambda: found.ask("GET", "/readyz").ok, "the service")
        before = [len(one.said()) for one in programs]
        host = broker.rpartition("/")[2]
        subprocess.run(["rabbitmqctl", "delete_vhost", host], check=True, capture_output=True)
        service.until(lambda: not found.ask("GET", "/readyz").ok, "its end")
        end = time.monotonic() + AWAY_SECONDS
        while time.monotonic() < end:
            assert found.ask("GET", "/readyz").status_code == 503
            time.sleep(1)
        for program, known in zip(programs, before, strict=True):
            added = program.said()[known:]
            print(len(added), collections.Counter(STATEMENT.findall(added)))
            assert len(added) <= MOST_BYTES, added[:3000]


# The log of a run on real processes: a Redfish emulator, a real agent, streams.

FAILING = {"fake_fail_steps": {"deploy.erase_devices": "disk 3"}}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Service]:
    """One service for the tests of this module."""
    with service.service() as found:
        found.start()
        found.up()
        yield found


def stream(found: Service, node: str, run: str = "current") -> Any:
    url = f"{found.url}/v1/nodes/{node}/runs/{run}/log?follow=true"
    return found.session.get(url, stream=True, timeout=PATIENCE)


def lines(answer: Any) -> Iterator[str]:
    """Iterate over the lines of a stream that are not empty."""
    for line in answer.iter_lines(chunk_size=None):
        if line:
            yield line.decode()


def test_failed_clean_of_a_redfish_machine_shows_bmc_agent_and_ramdisk() -> None:
    words = "disk sda is on fire"
    with machine_room.serve() as room:
        node = room.enrol(0)
        room.cleans(node, "scrub", "break_down", break_down={"words": f"{words} token=hunter2"})
        with stream(room.up, node) as answer:
            followed = list(lines(answer))
        room.reaches(node, "clean failed")
        answer = room.up.ask("GET", f"/v1/nodes/{node}/runs/current/log")
    log = answer.text.splitlines()
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    texts = [line[28:] for line in log]
    stages = [
        "run      clean, manageable -> cleaning",
        "bmc      POST /redfish/v1/",
        "agent    first heartbeat, version ",
        "agent    command clean.execute_clean_step: ",
        "run      deploy.scrub is done",
        "run      deploy.break_down failed: ",
        "run      fail, ",
    ]
    places = [next((n for n, text in enumerate(texts) if text.startswith(s)), -1) for s in stages]
    assert -1 not in places, (places, log)
    assert places == sorted(places), (places, log)
    assert any(words in text for text in texts)
    assert "hunter2" not in answer.text
    assert "agent_token=" not in answer.text.replace("agent_token=******", "")
    assert any(text.startswith("ramdisk ") for text in texts), log
    assert set(followed) <= set(log)
    assert any(" failed: " in line for line in followed), followed


def test_stream_shows_lines_as_they_come_and_ends_with_the_run(fleet: Service) -> None:
    http_nodes.enrol(fleet, node="l1", driver_info={"fake_step_seconds": 2})
    http_nodes.asks(fleet, "provide", node="l1")
    run = fleet.get("/v1/nodes/l1/runs")["runs"][0]["uuid"]
    with stream(fleet, "l1") as answer:
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert "Content-Length" not in answer.headers
        coming = lines(answer)
        assert "provide, manageable -> cleaning" in next(coming)
        state = fleet.get(f"/v1/nodes/l1/runs/{run}")["state"]
        rest = list(coming)
    assert state == "running"
    assert "Automated cleaning has ended well" in "".join(rest[-2:]), rest
    assert len(rest) == len(set(rest))
    fleet.settled("l1", "available")


def test_stream_of_a_failed_run_ends_with_its_error(fleet: Service) -> None:
    http_nodes.enrol(fleet, node="l2", driver_info={"fake_step_seconds": 1, **FAILING})
    http_nodes.asks(fleet, "provide", node="l2")
    with stream(fleet, "l2") as answer:
        found = list(lines(answer))
    assert "fail, cleaning -> clean failed" in found[-1], found
    assert any("deploy.erase_devices failed: " in line and "disk 3" in line for line in found)


def test_stop_of_the_service_ends_a_stream_politely() -> None:
    with service.service() as found:
        program = found.start()
        found.up()
        info = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
        http_nodes.enrol(found, node="l3")
        patch = [{"op": "add", "path": "/driver_info", "value": info}]
        assert found.ask("PATCH", "/v1/nodes/l3", patch).status_code == 200
        http_nodes.asks(found, "provide", node="l3")
        http_nodes.reaches(found, "clean wait", node="l3")
        with stream(found, "l3") as answer:
            coming = lines(answer)
            next(coming)
            timer = threading.Timer(1.0, lambda: program.process.send_signal(signal.SIGTERM))
            timer.start()
            last = list(coming)
            timer.join()
        assert last[-1].endswith("(this stream ends: closing; ask again to go on)")
        assert program.process.wait(PATIENCE) == 0


def test_log_of_a_run_with_a_killed_conductor_reads_on() -> None:
    with service.service() as found:
        found.start()
        found.up()
        http_nodes.enrol(found, node="l4", driver_info={"fake_step_seconds": 4})
        http_nodes.asks(found, "provide", node="l4")
        service.until(
            lambda: "begins" in found.ask("GET", "/v1/nodes/l4/runs/current/log").text, "a step"
        )
        for one in found.running():
            one.clear()
        found.start()
        found.up()
        found.settled("l4", "available")
        log = found.ask("GET", "/v1/nodes/l4/runs/current/log").text
    texts = [line[37:] for line in log.splitlines()]
    assert texts[0].startswith("provide, manageable -> cleaning")
    assert any(text.startswith("Taken over from the conductor") for text in texts), log
    assert any(text.endswith(" runs again") for text in texts), log
    assert "Automated cleaning has ended well" in texts[-2], log
