"""The demonstration runs to its end, shows what happens, and never leaves a process behind."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
import requests

from tests.support import service
from tests.support.ports import free_port
from tests.support.service import Program

pytestmark = pytest.mark.feature("batches", "erasures", "statistics", "events", "why", "window")

ROOT = pathlib.Path(__file__).parents[2]
JOURNEY = ["enroll", "manageable", "available", "active", "available"]
STARTED = 6
"""Processes: the demonstration and its watcher, the emulator, supervisor, API and conductor."""
CURL = re.compile(r"^  (curl .*)$", re.MULTILINE)


@contextlib.contextmanager
def demo(*words: str) -> Iterator[Program]:
    """Run the demonstration on a free port, in the plain manner."""
    command = [sys.executable, "-m", "demo", "--port", str(free_port())]
    with service.short_folder() as folder:
        program = Program([*command, *words], folder / "log", cwd=ROOT)
        seen = set(service.family(program.pid))
        try:
            yield program
        finally:
            seen.update(service.family(program.pid))
            program.clear()
            for one in seen:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()


def started(program: Program) -> list[psutil.Process]:
    """Return all processes when the machines are on their way."""
    service.until(lambda: "cleaning" in program.said(), "a clean")
    found = service.family(program.pid)
    assert len(found) == STARTED
    return found


def check_fleet(url: str) -> None:
    """Check that each page of the window has something to show."""
    counts = requests.get(f"{url}/v1/stats/nodes?by=provision_state,retired,data_state", timeout=60)
    found = {tuple(group.values())[:3] for group in counts.json()["counts"]}
    states = {state for state, _, _ in found}
    assert {"available", "active", "manageable", "clean failed", "inspect failed"} <= states
    assert ("manageable", True, "dirty") in found
    assert ("available", False, "clean") in found
    assert counts.json()["of"] == 39
    assert len(requests.get(f"{url}/v1/holds", timeout=60).json()["holds"]) == 2
    records = requests.get(f"{url}/v1/erasures", timeout=60).json()["erasures"]
    assert records
    assert all(one["key"] for one in records)
    of_machine = {one["node_uuid"]: tuple(one["serials"]) for one in records if one["serials"]}
    assert len(of_machine) == len(set(of_machine.values())) > 1
    (late,) = requests.get(f"{url}/v1/runs?overdue=true", timeout=60).json()["runs"]
    assert late["node_name"] == "rack2-04"

    def paused() -> bool:
        (batch,) = requests.get(f"{url}/v1/batches", timeout=60).json()["batches"]
        return (batch["state"], batch["counts"]["failed"]) == ("paused", 1)

    service.until(paused, "a batch that its canary has paused")


def test_three_machines_go_all_the_way_and_kept_running_it_offers_commands_that_work() -> None:
    with demo("--keep") as program:
        processes = started(program)
        service.until(lambda: "until Ctrl-C" in program.said(), "the end of the journey")
        (window,) = re.findall(r"in a browser: (\S+)/ui/", program.said())
        check_fleet(window)
        commands = service.until(lambda: (CURL.findall(program.said()) + [None] * 3)[:3], "curls")
        for command in commands:
            done = subprocess.run(
                [*shlex.split(str(command)), "--silent", "--fail-with-body"],
                capture_output=True,
                text=True,
                timeout=service.PATIENCE,
                check=False,
            )
            assert done.returncode == 0, done.stdout
        assert program.stop(signal.SIGINT) == 0
        assert service.gone(processes)
        said = program.said()
    for name in ("demo-1", "demo-2", "demo-3"):
        path = re.search(rf"^{name} took .* s: (.*)$", said, re.MULTILINE)
        assert path, said
        states = [state for state in path[1].split(", ") if not state.endswith("ing")]
        # Manual cleaning comes back to manageable; whether a look met it there or not.
        assert [s for i, s in enumerate(states) if states[i - 1 : i] != [s]] == JOURNEY, said
        assert f"{name}   cleaning" in said
    assert "power on" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_on_the_way_leaves_nothing(number: signal.Signals) -> None:
    with demo() as program:
        processes = started(program)
        assert program.stop(number) == 130
        assert service.gone(processes)
        assert "Traceback" not in program.said()


def test_ctrl_c_for_the_whole_group_leaves_nothing() -> None:
    with demo() as program:
        processes = started(program)
        os.killpg(program.pid, signal.SIGINT)
        assert program.process.wait(service.PATIENCE) == 130
        assert service.gone(processes)
        assert "Traceback" not in program.said()


def test_killed_it_leaves_nothing() -> None:
    with demo() as program:
        processes = started(program)
        program.stop(signal.SIGKILL)
        service.until(lambda: service.gone(processes), "all of them gone")


def test_a_machine_that_fails_is_told_with_its_reason_and_the_log() -> None:
    with demo() as program:
        processes = started(program)
        (bmc,) = [one for one in processes if "sushy-emulator" in " ".join(one.cmdline())]
        bmc.kill()
        assert program.process.wait(service.PATIENCE) == 1
        assert service.gone(processes)
        said = program.said()
    assert "The end of the log of ironic-lite:" in said
    assert "INFO" in said
    assert re.search(r"^demo-\d is in (deploy|clean) failed: .+", said, re.MULTILINE), said
    assert "Traceback" not in said


def test_a_taken_port_is_told_at_once() -> None:
    with socket.create_server((service.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "demo", "--port", str(port)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=service.PATIENCE,
            check=False,
        )
    assert done.returncode == 1
    assert f"Port {port} of 127.0.0.1 is in use" in done.stdout
    assert "--port" in done.stdout
    assert done.stderr == ""


def test_on_a_terminal_it_shows_a_table_and_leaves_nothing() -> None:
    ours, theirs = pty.openpty()
    other = {"OS_DATABASE__CONNECTION": "nonsense"}  # of a real service: not for the demonstration
    process = subprocess.Popen(
        [sys.executable, "-m", "demo", "--port", str(free_port())],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=service.environment(TERM="xterm", COLUMNS="100", **other),
        start_new_session=True,
    )
    os.close(theirs)
    said, seen = b"", set()
    try:
        # On Linux, reading from a terminal that everybody has closed is an error.
        with contextlib.suppress(OSError):
            while more := os.read(ours, 65536):
                said += more
                seen.update(service.family(process.pid))
        assert process.wait(service.PATIENCE) == 0
        assert len(seen) >= STARTED
        assert service.gone(list(seen))
    finally:
        os.close(ours)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert len(CURL.findall(said.decode().replace("\r", ""))) == 3
    assert b"ARGS=--keep" in said
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode())
    assert re.search(r"machine +state +step +power +elapsed", text)
    assert re.search(r"demo-1 +cleaning +deploy\.erase_devices", text)
    assert "\x1b[1A" in said.decode(), "the table should be drawn over itself"
