"""Processes under their supervisor: signals, deaths, and children that will not behave."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import requests

from ironic_lite.cmd import supervise
from tests.support import service
from tests.support.ports import free_port
from tests.support.service import API_UP, CONDUCTOR_UP, Program, Service

# What the supervisor does with children that will not behave.

SCRIPT = """\
import logging, os, pathlib, signal, sys, time
from ironic_lite.cmd import supervise

logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
folder = pathlib.Path(sys.argv[1])


def note(word):
    with (folder / "notes").open("a") as notes:
        notes.write(f"{word} {os.getpid()} {time.monotonic()}\\n")


def stubborn():
    signal.signal(signal.SIGTERM, lambda *_: note("ignored"))
    note("stubborn")
    while True:
        time.sleep(60)


def polite(name):
    stop = supervise.StopRequest()
    note(name)
    stop.wait()
    note(name + "-stopped")
    return 0


def thorough():
    signal.signal(signal.SIGUSR2, lambda *_: (note("drained"), sys.exit(0)))
    note("thorough")
    while True:
        time.sleep(60)


def misled():
    note("misled")
    return 2


def later_misled():
    note("later")
    return 7 if len((folder / "notes").read_text().splitlines()) < 3 else 2


def short_lived():
    note("short")
    return 7


"""


def supervisor(children: str) -> contextlib.AbstractContextManager[tuple[Program, pathlib.Path]]:
    """Run a supervisor with these children."""
    return running(f"sys.exit(supervise.supervise({children}))\n")


@contextlib.contextmanager
def running(end: str) -> Iterator[tuple[Program, pathlib.Path]]:
    """Run the script with this end."""
    with service.short_folder() as folder:
        script = folder / "script.py"
        script.write_text(f"{SCRIPT}{end}")
        command = [sys.executable, str(script), str(folder)]
        program = Program(command, folder / "log", cwd=service.ROOT)
        try:
            yield program, folder / "notes"
        finally:
            program.clear()


def notes(path: pathlib.Path, word: str) -> list[tuple[int, float]]:
    """Return who has noted a word, and when."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [line.split() for line in lines]
    return [(int(pid), float(moment)) for noted, pid, moment in found if noted == word]


def test_groups_are_stopped_one_after_another() -> None:
    children = ", ".join(
        f"[supervise.Child('{name}', lambda: polite('{name}'))]" for name in ("one", "two", "three")
    )
    with supervisor(children) as (program, path):
        service.until(lambda: notes(path, "three"), "the last child")
        service.until(lambda: notes(path, "one") and notes(path, "two"), "all children")
        assert program.stop() == 0
        moments = [notes(path, f"{name}-stopped")[0][1] for name in ("one", "two", "three")]
    assert moments == sorted(moments)


def test_a_child_that_will_not_stop_is_killed_when_its_time_is_over() -> None:
    with supervisor("[supervise.Child('S', stubborn, stop_seconds=0.3)]") as (program, path):
        service.until(lambda: notes(path, "stubborn"), "the child")
        processes = service.family(program.pid)
        assert program.stop() == 0
        assert service.gone(processes)
        assert notes(path, "ignored")
        assert "S has not stopped in time; it is killed" in program.said()


def test_a_stop_that_drains_is_told_to_children_that_know_it_and_stops_the_others() -> None:
    known = "[supervise.Child('T', thorough, stop_seconds=0.1, drain_seconds=None)]"
    with supervisor(f"[supervise.Child('P', lambda: polite('P'))], {known}") as (program, path):
        service.until(lambda: notes(path, "P") and notes(path, "thorough"), "both children")
        assert program.stop(signal.SIGUSR2) == 0
        assert notes(path, "P-stopped")
        assert notes(path, "drained")
        assert "Stopping, after all work has ended" in program.said()


def test_a_second_signal_does_not_wait_any_longer() -> None:
    with supervisor("[supervise.Child('S', stubborn)]") as (program, path):
        service.until(lambda: notes(path, "stubborn"), "the child")
        program.process.send_signal(signal.SIGTERM)
        service.until(lambda: notes(path, "ignored"), "the first signal")
        assert program.stop() == 0
        assert "S has not stopped before a second signal; it is killed" in program.said()


def test_a_child_with_a_wrong_configuration_ends_everything_at_its_first_start() -> None:
    children = "[supervise.Child('P', lambda: polite('P'))], [supervise.Child('M', misled)]"
    with supervisor(children) as (program, path):
        assert program.process.wait(service.PATIENCE) == 2
        assert len(notes(path, "misled")) == 1


def test_a_child_that_says_so_in_a_later_life_ends_nothing() -> None:
    children = "[supervise.Child('P', lambda: polite('P'))], [supervise.Child('M', later_misled)]"
    with supervisor(children) as (program, path):
        service.until(lambda: len(notes(path, "later")) == 4, "four lives")
        assert "M ended with status 2; it is restarted" in program.said()
        assert len(notes(path, "P")) == 1, "who serves goes on"
        assert program.stop() == 0


def test_a_child_that_keeps_dying_is_started_again_ever_more_seldom() -> None:
    with supervisor("[supervise.Child('D', short_lived)]") as (program, path):
        service.until(lambda: len(notes(path, "short")) == 5, "five lives")
        assert program.stop() == 0
        moments = [moment for _, moment in notes(path, "short")]
        assert "D ended with status 7; it is restarted" in program.said()
    pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert all(pause >= 0.1 * 2**number for number, pause in enumerate(pauses))


REFUSED_ONCE = """\
refused = []


def refuse_once(event, arguments):
    if event == "os.fork" and not refused:
        refused.append(event)
        raise OSError(11, "Resource temporarily unavailable")


supervise.hold_signals()
sys.addaudithook(refuse_once)
child = supervise.Child('S', short_lived)
child.start()
sys.exit(supervise.run_child(child))
"""


def test_a_child_whose_start_the_system_has_refused_is_started_again_and_waited_for() -> None:
    with running(REFUSED_ONCE) as (program, path):
        assert program.process.wait(service.PATIENCE) == 7
        assert "S cannot be started now" in program.said()
        assert len(notes(path, "short")) == 1


def test_a_signal_that_was_ignored_at_the_start_stays_ignored() -> None:
    """So a service started by nohup outlives its terminal."""
    with service.short_folder() as folder:
        script = folder / "script.py"
        child = "[supervise.Child('P', lambda: polite('P'))]"
        script.write_text(f"{SCRIPT}sys.exit(supervise.supervise({child}))\n")
        command = ["nohup", sys.executable, str(script), str(folder)]
        program = Program(command, folder / "log", cwd=service.ROOT)
        try:
            service.until(lambda: notes(folder / "notes", "P"), "the child")
            program.process.send_signal(signal.SIGHUP)
            os.kill(notes(folder / "notes", "P")[0][0], signal.SIGKILL)
            service.until(lambda: len(notes(folder / "notes", "P")) == 2, "its work goes on")
            assert program.stop() == 0
        finally:
            program.clear()


# Replacements of processes that serve.

RENEWED = """\
def body(name):
    child = children[name]
    name = f"{{name}}-{{child.lives}}"
    note(name)
    {life}
    child.ready.set()
    note(f"{{name}}-serves")
    note(f"{{name}}-side-{{child.side}}")
    stop.wait()
    note(f"{{name}}-stopped")
    return 0


supervise.LONGEST_PAUSE = 0.2
children = {{name: supervise.Child(name, lambda name=name: body(name)) for name in ("one", "two")}}
left = ["due"]
renewal = supervise.Renewal(
    [*children.values()], lambda: (folder / "due").exists() and bool(left and left.pop()), 0.1
)
look = renewal.step
renewal.step = lambda: note("looked") or look()
sys.exit(supervise.supervise([*children.values()], renewal=renewal))
"""
DYING = "if {dies}:\n        return 7\n    stop = supervise.StopRequest()"
SLOW_TO_SERVE = """\
stop = supervise.StopRequest()
    if child.name == "one" and child.lives:
        with stop.at_once():
            while not (folder / "open").exists():
                time.sleep(0.1)"""


@contextlib.contextmanager
def renewed(life: str) -> Iterator[tuple[Program, pathlib.Path]]:
    """Run two children of which the first is replaced, and then the second."""
    with running(RENEWED.format(life=life)) as (program, path):
        for name in ("one", "two"):
            service.until(lambda: notes(path, f"{name}-0-serves"), name)  # noqa: B023
        path.with_name("due").touch()
        yield program, path


def test_a_replacement_that_dies_is_followed_by_another() -> None:
    with renewed(DYING.format(dies="child.name == 'one' and 0 < child.lives < 4")) as (
        program,
        path,
    ):
        service.until(lambda: notes(path, "two-0-stopped"), "the end of both former processes")
        assert notes(path, "one-4-serves")
        assert notes(path, "one-0-stopped")
        sides = ("one-0-side-0", "one-4-side-1", "two-0-side-0")
        assert all(notes(path, side) for side in sides), "two processes never share a side"
        assert program.said().count("WARNING one: its replacement ended with status 7") == 3
        assert "ERROR" not in program.said()
        assert program.stop() == 0


def test_a_process_whose_replacements_always_die_stays_and_the_next_is_replaced() -> None:
    with renewed(DYING.format(dies="child.name == 'one' and child.lives")) as (program, path):
        service.until(lambda: notes(path, "two-0-stopped"), "the end of the second process")
        assert "ERROR one is not replaced after 10 tries: correct the cause" in program.said()
        assert notes(path, "one-10")
        assert not notes(path, "one-11")
        assert not notes(path, "one-0-stopped")
        assert program.stop() == 0
        assert notes(path, "one-0-stopped")


def test_restart_of_a_process_does_not_count_for_the_replacement_of_another() -> None:
    with renewed(SLOW_TO_SERVE) as (_, path):
        service.until(lambda: notes(path, "one-1"), "the replacement")
        os.kill(notes(path, "two-0-serves")[0][0], signal.SIGKILL)
        restarted = service.until(lambda: notes(path, "two-1-serves"), "the restart")
        late = restarted[0][1] + 5
        service.until(lambda: notes(path, "looked")[-1][1] > late, "a look after its opening")
        assert not notes(path, "one-0-stopped")
        path.with_name("open").touch()
        service.until(lambda: notes(path, "one-0-stopped"), "the end of the former process")
        assert notes(path, "one-1-serves")


def test_a_stop_during_a_replacement_is_no_error() -> None:
    with renewed(SLOW_TO_SERVE) as (program, path):
        service.until(lambda: notes(path, "one-1"), "the replacement")
        assert program.stop() == 0
        assert notes(path, "one-0-stopped")
        for word in ("ERROR", "WARNING"):
            assert word not in program.said()


# Signals of every number to every process: it goes on serving, or ends in order and comes back.

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
def signalled() -> Iterator[tuple[Service, Program]]:
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


def test_signals_that_ask_for_nothing_change_nothing(signalled: tuple[Service, Program]) -> None:
    found, program = signalled
    workers, (conductor,) = program.pids(API_UP), program.pids(CONDUCTOR_UP)
    family = sorted(one.pid for one in service.family(program.pid))
    sent = {
        program.pid: OURS - STOPS - {signal.SIGHUP},
        conductor: OURS - {signal.SIGTERM, signal.SIGUSR2},
    }
    sent |= {worker: OURS - {signal.SIGTERM, signal.SIGUSR1} for worker in workers}
    for pid, numbers in sent.items():
        for number in numbers:
            os.kill(pid, number)
    works(found, "unharmed")
    assert sorted(one.pid for one in service.family(program.pid)) == family
    assert "started again" not in program.said()
    assert program.stop() == 0


def again(program: Program, line: str, pid: int) -> None:
    """Wait until another process logs what the one of this number has logged."""
    service.until(lambda: pid != program.pids(line)[-1], "another process")


def test_a_child_that_a_signal_ends_is_started_again(signalled: tuple[Service, Program]) -> None:
    found, program = signalled
    for number, how in ((signal.SIGABRT, "by SIGABRT"), (signal.SIGTERM, "with status 0")):
        for line in (API_UP, CONDUCTOR_UP):
            last = program.pids(line)[-1]
            os.kill(last, number)
            again(program, line, last)
        assert f"conductor ended {how}; it is restarted" in program.said()
        works(found, f"after-{number}")
    last = program.pids(CONDUCTOR_UP)[-1]
    os.kill(last, supervise.DRAIN)
    again(program, CONDUCTOR_UP, last)
    works(found, "drained")
    assert program.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_supervisor_that_a_fault_ends_takes_its_children_along(
    signalled: tuple[Service, Program], number: signal.Signals
) -> None:
    _, program = signalled
    processes = service.family(program.pid)
    assert len(processes) == 4
    assert program.stop(number) == -number
    service.until(lambda: service.gone(processes), "all of them gone")


def test_a_conductor_apart_goes_on_after_a_hangup_and_stops_when_asked(
    signalled: tuple[Service, Program],
) -> None:
    found, _ = signalled
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
    signalled: tuple[Service, Program],
) -> None:
    found, program = signalled
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
from ironic_lite.cmd import supervise

logging.basicConfig(level=logging.INFO, format="%(process)d %(levelname)s %(message)s")


def talk():
    while True:
        logging.debug("more")
        time.sleep(0.05)


def body():
    stop = supervise.StopRequest()
    threading.Thread(target=talk, daemon=True).start()
    logging.info("begun")
    stop.wait()
    return 0


supervise.supervise([supervise.Child("one", body), supervise.Child("other", body)])
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
from ironic_lite.cmd import supervise

stop = supervise.StopRequest()


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
        "import subprocess; from ironic_lite.cmd import supervise; supervise.StopRequest();"
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


# A conductor as several processes: each has its own nodes, and the death of one is its own.

NAMES = ("tester", "tester:2")
TWO = """\
processes = 2
heartbeat_interval = 1
hash_ring_reset_interval = 1
[fake]
step_seconds = 0
[deploy]
http_host = 127.0.0.1
http_port = {port}
"""
NODES = 12
SLOW = [{"interface": "management", "step": "reset_bmc"}] * 3


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def two(port: int) -> Iterator[Service]:
    """A configuration of two conductor processes and their file server."""
    with service.service(TWO.format(port=port)) as found:
        yield found


def process_of(program: Program, name: str) -> int:
    """Return the process that is the conductor of this name, in its last life."""
    line = rf"^\S+ \S+ (?P<pid>\d+) INFO ironic_lite\.conductor\.service Conductor {name} is up"
    return program.pids(line)[-1]


def lives(program: Program, name: str) -> int:
    return len(re.findall(rf"Conductor {name} is up", program.said()))


def conductors(two: Service) -> set[str]:
    """Return the names of the conductors alive."""
    listed = (two.get("/v1/conductors") or {}).get("conductors", [])
    return {row["hostname"] for row in listed if row["alive"]}


def started(two: Service) -> Program:
    """Start the service, and wait until the API knows both conductors."""
    program = two.start()
    two.up()
    service.until(lambda: conductors(two) == set(NAMES), "two conductors")
    service.until(lambda: all(lives(program, name) for name in NAMES), "both are up")
    return program


def manageable(two: Service, seconds: float = 0) -> dict[str, str]:
    """Create nodes whose steps take so long; return the owner of each."""
    names = [f"node-{number}" for number in range(NODES)]
    for name in names:
        two.create(name, driver_info={"fake_step_seconds": seconds})
    service.until(lambda: set(owners(two, names).values()) == set(NAMES), "both own nodes")
    for name in names:
        two.provision(name, "manage", "manageable")
    return owners(two, names)


def owners(two: Service, names: list[str]) -> dict[str, str]:
    return {name: two.get(f"/v1/nodes/{name}")["conductor"] for name in names}


def clean(two: Service, name: str) -> None:
    body = {"target": "clean", "clean_steps": SLOW}
    answer = two.ask("PUT", f"/v1/nodes/{name}/states/provision", body)
    assert answer.status_code == 202, answer.text


def cleaned(two: Service, name: str) -> dict[str, Any]:
    """Return the run of a clean that has ended."""
    two.settled(name, "manageable")
    runs = two.get(f"/v1/nodes/{name}/runs")["runs"]
    found: dict[str, Any] = max(
        (run for run in runs if run["verb"] == "clean"), key=lambda run: run["started_at"]
    )
    assert found["state"] == "done"
    return found


def test_each_process_works_on_its_own_nodes(two: Service) -> None:
    program = started(two)
    owned = manageable(two)
    for name in owned:
        clean(two, name)
    assert {name: cleaned(two, name)["conductor"] for name in owned} == owned
    assert program.stop() == 0
    for name in NAMES:
        assert f"Conductor {name} has stopped" in program.said()


def test_killed_process_returns_and_continues_its_nodes_while_the_other_works(
    two: Service,
) -> None:
    program = started(two)
    owned = manageable(two, seconds=1)
    other, victim = (process_of(program, name) for name in NAMES)
    for name in owned:
        clean(two, name)
    os.kill(victim, signal.SIGKILL)
    service.until(lambda: lives(program, NAMES[1]) == 2, "the next life")
    for name in owned:
        cleaned(two, name)
    assert "conductor tester:2 ended by SIGKILL; it is restarted" in program.said()
    assert process_of(program, NAMES[0]) == other
    assert lives(program, NAMES[0]) == 1
    assert program.stop() == 0


def test_stopped_process_hands_its_nodes_to_the_other(two: Service) -> None:
    two.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE)
    two.start("ironic-lite-api")
    program = two.start("ironic-lite-conductor")
    service.until(lambda: conductors(two) == set(NAMES), "two conductors")
    service.until(lambda: all(lives(program, name) for name in NAMES), "both are up")
    owned = manageable(two)
    os.kill(process_of(program, NAMES[0]), signal.SIGTERM)
    for name in owned:
        clean(two, name)
        cleaned(two, name)
    service.until(lambda: lives(program, NAMES[0]) == 2, "its next life")
    service.until(lambda: conductors(two) == set(NAMES), "two conductors again")
    assert program.stop(signal.SIGUSR2) == 0


def test_files_are_served_while_any_conductor_is_dead(two: Service, port: int) -> None:
    program = started(two)
    for name in NAMES:
        os.kill(process_of(program, name), signal.SIGKILL)
        assert requests.get(f"http://127.0.0.1:{port}/missing", timeout=60).status_code == 404
    assert program.stop() == 0


def test_one_process_keeps_its_name_and_its_nodes_when_there_are_more(two: Service) -> None:
    two.settings.write_text(two.settings.read_text().replace("processes = 2", "processes = 1"))
    two.start()
    two.up()
    assert conductors(two) == {"tester"}
    two.create("node")
    two.provision("node", "manage", "manageable")
    two.again(processes=2)
    service.until(lambda: conductors(two) == set(NAMES), "two conductors")
    clean(two, "node")
    cleaned(two, "node")
