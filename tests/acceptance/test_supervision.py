"""What the supervisor does with children that will not behave."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import signal
import sys
from collections.abc import Iterator

from tests.support import service
from tests.support.service import Program

SCRIPT = """\
import logging, os, pathlib, signal, sys, time
from ironic_lite.cmd import processes, signals

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
    stop = signals.StopRequest()
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
    return running(f"sys.exit(processes.supervise({children}))\n")


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
        f"[processes.Child('{name}', lambda: polite('{name}'))]" for name in ("one", "two", "three")
    )
    with supervisor(children) as (program, path):
        service.until(lambda: notes(path, "three"), "the last child")
        service.until(lambda: notes(path, "one") and notes(path, "two"), "all children")
        assert program.stop() == 0
        moments = [notes(path, f"{name}-stopped")[0][1] for name in ("one", "two", "three")]
    assert moments == sorted(moments)


def test_a_child_that_will_not_stop_is_killed_when_its_time_is_over() -> None:
    with supervisor("[processes.Child('S', stubborn, stop_seconds=0.3)]") as (program, path):
        service.until(lambda: notes(path, "stubborn"), "the child")
        processes = service.family(program.pid)
        assert program.stop() == 0
        assert service.gone(processes)
        assert notes(path, "ignored")
        assert "S has not stopped in time; it is killed" in program.said()


def test_a_stop_that_drains_is_told_to_children_that_know_it_and_stops_the_others() -> None:
    known = "[processes.Child('T', thorough, stop_seconds=0.1, drain_seconds=None)]"
    with supervisor(f"[processes.Child('P', lambda: polite('P'))], {known}") as (program, path):
        service.until(lambda: notes(path, "P") and notes(path, "thorough"), "both children")
        assert program.stop(signal.SIGUSR2) == 0
        assert notes(path, "P-stopped")
        assert notes(path, "drained")
        assert "Stopping, after all work has ended" in program.said()


def test_a_second_signal_does_not_wait_any_longer() -> None:
    with supervisor("[processes.Child('S', stubborn)]") as (program, path):
        service.until(lambda: notes(path, "stubborn"), "the child")
        program.process.send_signal(signal.SIGTERM)
        service.until(lambda: notes(path, "ignored"), "the first signal")
        assert program.stop() == 0
        assert "S has not stopped before a second signal; it is killed" in program.said()


def test_a_child_with_a_wrong_configuration_ends_everything_at_its_first_start() -> None:
    children = "[processes.Child('P', lambda: polite('P'))], [processes.Child('M', misled)]"
    with supervisor(children) as (program, path):
        assert program.process.wait(service.PATIENCE) == 2
        assert len(notes(path, "misled")) == 1


def test_a_child_that_says_so_in_a_later_life_ends_nothing() -> None:
    children = "[processes.Child('P', lambda: polite('P'))], [processes.Child('M', later_misled)]"
    with supervisor(children) as (program, path):
        service.until(lambda: len(notes(path, "later")) == 4, "four lives")
        assert "M ended with status 2; it is restarted" in program.said()
        assert len(notes(path, "P")) == 1, "who serves goes on"
        assert program.stop() == 0


def test_a_child_that_keeps_dying_is_started_again_ever_more_seldom() -> None:
    with supervisor("[processes.Child('D', short_lived)]") as (program, path):
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


processes.held()
sys.addaudithook(refuse_once)
child = processes.Child('S', short_lived)
child.start()
sys.exit(processes.run(child))
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
        child = "[processes.Child('P', lambda: polite('P'))]"
        script.write_text(f"{SCRIPT}sys.exit(processes.supervise({child}))\n")
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
