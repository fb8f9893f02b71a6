"""A conductor's name belongs to one process, whatever machine it runs on."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Iterator

import pytest

from tests.acceptance.test_paused import LEASES
from tests.support import service
from tests.support.service import CONDUCTOR_UP, Program, Service

CONDUCTOR = "ironic-lite-conductor"
WATCHING = "watching it"


@pytest.fixture
def fleet() -> Iterator[Service]:
    """A configuration with a database that does not lie in state_path."""
    with service.short_folder() as folder:
        database = f"[database]\nconnection = sqlite:///{folder}/shared.sqlite\n"
        with service.service(LEASES + database) as found:
            upgrade = found.start("ironic-lite-dbsync", "upgrade")
            assert upgrade.process.wait(service.PATIENCE) == 0
            yield found


def elsewhere(fleet: Service) -> list[str]:
    """Return the words that give a program the state_path of another machine."""
    there = pathlib.Path(fleet.folder) / "elsewhere.conf"
    there.write_text(f"[DEFAULT]\nstate_path = {fleet.folder}/elsewhere\n", encoding="utf-8")
    return ["--config-file", str(there)]


def up(program: Program) -> Program:
    service.until(lambda: program.pids(CONDUCTOR_UP), "the conductor")
    return program


def test_a_second_one_on_the_same_machine_does_not_start(fleet: Service) -> None:
    first = up(fleet.start(CONDUCTOR))
    second = fleet.start(CONDUCTOR)
    assert second.process.wait(service.PATIENCE) == 1
    assert "runs on this machine" in second.said()
    assert "[DEFAULT]host" in second.said()
    assert first.process.poll() is None


def test_a_second_one_on_another_machine_does_not_start(fleet: Service) -> None:
    first = up(fleet.start(CONDUCTOR))
    second = fleet.start(CONDUCTOR, *elsewhere(fleet))
    assert second.process.wait(service.PATIENCE) == 1
    assert "tester is alive" in second.said()
    assert first.process.poll() is None


def test_a_killed_one_starts_again_without_a_pause(fleet: Service) -> None:
    first = up(fleet.start(CONDUCTOR))
    first.stop(signal.SIGKILL)
    second = up(fleet.start(CONDUCTOR))
    assert WATCHING not in second.said()


def test_paused_conductor_whose_name_was_taken_stops(fleet: Service) -> None:
    first = up(fleet.start(CONDUCTOR))
    first.process.send_signal(signal.SIGSTOP)
    second = up(fleet.start(CONDUCTOR, *elsewhere(fleet)))
    assert WATCHING in second.said()
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(service.PATIENCE) == 1
    assert "has taken the name of conductor tester" in first.said()
    assert "[DEFAULT]host" in service.tail(first.said())[-1]
    assert second.stop() == 0
