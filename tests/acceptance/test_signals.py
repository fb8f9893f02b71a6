"""Signals of every number to every process: it goes on serving, or ends in order and comes back."""

from __future__ import annotations

import os
import pathlib
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from ironic_lite.cmd import signals
from tests.support import service
from tests.support.service import API_UP, CONDUCTOR_UP, Program, Service

FATAL = {
    # A fault of the program, and what cannot be caught: the kernel's own effect stays.
    *(signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE),
    *(signal.SIGKILL, signal.SIGSEGV, signal.SIGXCPU, signal.SIGSYS),
}
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2}
PAUSES = {signal.SIGSTOP}
"""It cannot be caught either. What a paused process may do to others: see test_paused.py."""
OURS = {int(number) for number in signal.valid_signals()} - FATAL - PAUSES


@pytest.fixture
def running() -> Iterator[tuple[Service, Program]]:
    """The whole service with two workers of the API."""
    with service.service("[api]\nworkers = 2\n") as found:
        program = found.start()
        found.up()
        service.until(lambda: len(program.pids(API_UP)) == 2, "two workers")
        yield found, program


def works(found: Service, name: str) -> None:
    """Check that API and conductor do what they are asked."""
    found.session.close()
    found.create(name)
    assert found.provision(name, "manage", "manageable")["last_error"] is None


def test_signals_that_ask_for_nothing_change_nothing(running: tuple[Service, Program]) -> None:
    found, program = running
    workers, (conductor,) = program.pids(API_UP), program.pids(CONDUCTOR_UP)
    family = sorted(one.pid for one in service.family(program.pid))
    sent = {program.pid: OURS - STOPS, conductor: OURS - {signal.SIGTERM, signal.SIGUSR2}}
    sent |= {worker: OURS - {signal.SIGTERM, signal.SIGUSR1} for worker in workers}
    for pid, numbers in sent.items():
        for number in numbers:
            os.kill(pid, number)
    works(found, "unharmed")
    assert sorted(one.pid for one in service.family(program.pid)) == family
    assert "started again" not in program.said()
    assert "SIGHUP changes nothing: restart the service" in program.said()
    assert program.stop() == 0


def again(program: Program, line: str, pid: int) -> None:
    """Wait until another process logs what the one of this number has logged."""
    service.until(lambda: pid != program.pids(line)[-1], "another process")


def test_a_child_that_a_signal_ends_is_started_again(running: tuple[Service, Program]) -> None:
    found, program = running
    for number, how in ((signal.SIGABRT, "by SIGABRT"), (signal.SIGTERM, "with status 0")):
        for line in (API_UP, CONDUCTOR_UP):
            last = program.pids(line)[-1]
            os.kill(last, number)
            again(program, line, last)
        assert f"conductor ended {how}; it is restarted" in program.said()
        works(found, f"after-{number}")
    last = program.pids(CONDUCTOR_UP)[-1]
    os.kill(last, signals.DRAIN)
    again(program, CONDUCTOR_UP, last)
    works(found, "drained")
    assert program.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_supervisor_that_a_fault_ends_takes_its_children_along(
    running: tuple[Service, Program], number: signal.Signals
) -> None:
    _, program = running
    processes = service.family(program.pid)
    assert len(processes) == 4
    assert program.stop(number) == -number
    service.until(lambda: service.gone(processes), "all of them gone")


def test_a_conductor_apart_goes_on_after_a_hangup_and_stops_when_asked(
    running: tuple[Service, Program],
) -> None:
    found, _ = running
    apart = found.start("ironic-lite-conductor", host="apart")
    service.until(lambda: apart.pids(CONDUCTOR_UP), "a conductor")
    for number in OURS - STOPS:
        apart.process.send_signal(number)
    assert apart.stop(signal.SIGQUIT) == 0
    assert "apart has stopped" in apart.said()


# -- the log level ---------------------------------------------------------------------------

DEBUG = r"^\S+ \S+ (?P<pid>\d+) DEBUG "


def debuggers(found: Service, program: Program, wanted: set[int]) -> None:
    """Ask until these processes have logged at DEBUG."""

    def look() -> bool:
        found.session.close()  # the next connection may reach another worker
        found.get("/v1/nodes")
        return wanted <= set(program.pids(DEBUG))

    service.until(look, f"lines of {wanted}")


def test_sigusr1_switches_the_log_level_of_a_program_and_its_children(
    running: tuple[Service, Program],
) -> None:
    found, program = running
    workers = set(program.pids(API_UP))
    found.get("/v1/nodes")
    assert program.pids(DEBUG) == []
    # A service manager may send a signal to all processes of a unit, and in any order.
    for one in service.family(program.pid):
        os.kill(one.pid, signal.SIGUSR1)
    service.until(lambda: "SIGUSR1: the log level is DEBUG" in program.said(), "the level")
    debuggers(found, program, workers)

    last = program.pids(API_UP)[-1]
    os.kill(last, signal.SIGKILL)
    again(program, API_UP, last)
    debuggers(found, program, {program.pids(API_UP)[-1]})

    os.kill(program.pid, signal.SIGUSR1)
    service.until(lambda: "SIGUSR1: the log level is INFO again" in program.said(), "the level")
    assert program.said().count("SIGUSR1: ") == 2

    def quiet() -> bool:
        before = len(program.pids(DEBUG))
        for _ in range(20):
            found.session.close()
            found.get("/v1/nodes")
        return len(program.pids(DEBUG)) == before

    service.until(quiet, "an end of the lines")
    assert program.stop() == 0


TALKATIVE = """\
import logging, os, threading, time
from ironic_lite.cmd import processes, signals

logging.basicConfig(level=logging.INFO, format="%(process)d %(levelname)s %(message)s")


def talk():
    while True:
        logging.debug("more")
        time.sleep(0.05)


def body():
    stop = signals.StopRequest()
    threading.Thread(target=talk, daemon=True).start()
    logging.info("begun")
    stop.wait()
    return 0


processes.supervise([processes.Child("one", body), processes.Child("other", body)])
"""


def test_children_that_read_signals_take_over_the_level(tmp_path: pathlib.Path) -> None:
    program = Program([sys.executable, "-c", TALKATIVE], tmp_path / "log", cwd=service.ROOT)
    more = r"^(?P<pid>\d+) DEBUG more"
    try:
        begun = r"^(?P<pid>\d+) INFO begun"
        service.until(lambda: len(program.pids(begun)) == 2, "two children")
        children = set(program.pids(begun))
        assert program.pids(more) == []
        for child in children:
            os.kill(child, signal.SIGUSR1)  # the level is the parent's
        os.kill(program.pid, signal.SIGUSR1)
        service.until(lambda: set(program.pids(more)) == children, "their lines")
        os.kill(program.pid, signal.SIGUSR1)
        service.until(lambda: "the log level is INFO again" in program.said(), "the level")

        def quiet() -> bool:
            before = len(program.pids(more))
            time.sleep(0.5)
            return len(program.pids(more)) == before

        service.until(quiet, "an end of the lines")
        assert program.said().count("SIGUSR1: ") == 2
        assert program.stop() == 0
    finally:
        program.clear()


@pytest.mark.parametrize("processes", [1, 2])
def test_sigusr1_switches_the_log_level_of_a_conductor(processes: int) -> None:
    with service.service(f"[conductor]\nprocesses = {processes}\n") as found:
        found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE)
        program = found.start("ironic-lite-conductor")
        service.until(lambda: len(program.pids(CONDUCTOR_UP)) == processes, "the conductors")
        for words in ("the log level is DEBUG", "the log level is INFO again"):
            program.process.send_signal(signal.SIGUSR1)
            service.until(lambda: words in program.said(), words)  # noqa: B023
        assert program.said().count("SIGUSR1: ") == 2
        assert program.stop() == 0


# -- a terminal ------------------------------------------------------------------------------


def test_a_service_ends_in_order_with_the_terminal_that_it_was_started_from() -> None:
    with service.service(warm=False) as found:
        script = str(service.SCRIPTS / "ironic-lite")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(script, [script, "--config-file", str(found.settings)])
        said = b""
        while b" is up" not in said or b"Listening" not in said:
            said += os.read(terminal, 4096)
        processes = [one for one in service.family(pid) if one.pid != pid]
        os.close(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        service.until(lambda: service.gone(processes), "all of them gone")


# -- threads ---------------------------------------------------------------------------------

GREEDY = """\
import os, pathlib, signal, sys, threading, time
from ironic_lite.cmd import signals

stop = signals.StopRequest()


def read(path):
    try:
        with open(path, "rb") as stream:
            stream.read()
    except OSError:
        pass


for path in pathlib.Path("/proc/self/fd").iterdir():
    if int(path.name) > 2:
        threading.Thread(target=read, args=(path,), daemon=True).start()
time.sleep(0.5)
print("ready", flush=True)
assert stop.wait() is signal.SIGTERM
os._exit(7)
"""


def test_a_stop_is_heard_though_threads_read_all_that_can_be_opened() -> None:
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", GREEDY], cwd=service.ROOT, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.terminate()
            try:
                assert process.wait(service.PATIENCE) == 7
            finally:
                process.kill()


def test_programs_that_a_conductor_starts_have_no_signal_blocked_or_ignored() -> None:
    script = (
        "import subprocess; from ironic_lite.cmd import signals; signals.StopRequest();"
        "subprocess.run(['cat', '/proc/self/status'], check=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=service.ROOT, capture_output=True, check=True, text=True
    )
    found = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)
    own = dict(
        line.split(":\t", 1)
        for line in pathlib.Path(f"/proc/{psutil.Process().ppid()}/status").read_text().splitlines()
        if line.startswith("SigIgn")
    )
    assert int(found["SigBlk"], 16) == 0
    assert int(found["SigIgn"], 16) & ~int(own.get("SigIgn", "0"), 16) == 0
