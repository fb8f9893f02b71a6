"""Starts in bad surroundings: one plain line, the right status, and no way in before it works."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.support import private_servers, service
from tests.support.ports import free_port
from tests.support.service import API_UP, CONDUCTOR_UP, Program, Service

PROGRAMS = ("ironic-lite", "ironic-lite-api", "ironic-lite-conductor")
STATE = "state_path = "


@pytest.fixture
def fresh() -> Iterator[Service]:
    """A configuration with nothing started yet."""
    with service.service(migrated=False) as found:
        yield found


def line(program: Program, status: int) -> str:
    """Return the only line of a program that ended with a status."""
    assert program.process.wait(service.PATIENCE) == status
    (found,) = program.lines()
    return found


def replace(found: Service, old: str, new: str) -> None:
    """Change a line of the configuration."""
    text = found.settings.read_text(encoding="utf-8")
    assert old in text
    found.settings.write_text(text.replace(old, new), encoding="utf-8")


# -- the first answer ------------------------------------------------------------------------


def test_client_may_enroll_after_the_first_answer() -> None:
    for _ in range(3):
        with service.service() as found:
            found.start()
            service.until(functools.partial(found.get, "/"), "the first answer")
            found.create("first")


def test_an_api_without_any_conductor_asks_to_come_back(fresh: Service) -> None:
    assert fresh.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
    fresh.start("ironic-lite-api")
    service.until(lambda: fresh.get("/v1/nodes"), "the API")
    answer = fresh.ask("POST", "/v1/nodes", {"driver": "fake-hardware"})
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert fresh.ask("GET", "/readyz").status_code == 503
    conductor = fresh.start("ironic-lite-conductor")
    service.until(lambda: conductor.pids(CONDUCTOR_UP), "a conductor")
    fresh.create("first")
    answer = fresh.ask("POST", "/v1/nodes", {"driver": "redfis"})
    assert answer.status_code == 400, "the living conductors do not have it"


def test_of_two_services_that_start_at_once_one_gets_the_address(fresh: Service) -> None:
    with service.service() as other:
        replace(other, f"port = {other.port}", f"port = {fresh.port}")
        both = [found.start() for found in (fresh, other)]
        service.until(lambda: any(one.process.poll() is not None for one in both), "the end of one")
        refused, served = sorted(both, key=lambda one: one.process.poll() is None)
        assert "Address already in use" in line(refused, 1)
        service.until(lambda: fresh.get("/"), "the API")
        assert served.process.poll() is None


# -- what cannot be opened -------------------------------------------------------------------


@pytest.mark.parametrize("script", PROGRAMS)
def test_a_state_folder_that_cannot_be_made_is_status_1(fresh: Service, script: str) -> None:
    replace(fresh, f"{STATE}{fresh.folder}/state", f"{STATE}/dev/null/state")
    said = line(fresh.start(script), 1)
    assert said.startswith(f"{script}: [DEFAULT]state_path: cannot make /dev/null/state: Not a d")


def test_an_address_that_is_not_there_yet_is_status_1(fresh: Service) -> None:
    replace(fresh, "[api]\n", "[api]\nhost = 192.0.2.77\nallow_unauthenticated_bind = true\n")
    said = fresh.start()
    assert said.process.wait(service.PATIENCE) == 1
    assert "[api]host, port: cannot listen on 192.0.2.77 port" in said.said()
    assert "Traceback" not in said.said()


def test_a_database_that_cannot_be_opened_is_status_1_and_one_that_is_none_status_2(
    fresh: Service,
) -> None:
    state = fresh.folder / "state"
    (state / "ironic-lite.sqlite").mkdir(parents=True)
    said = line(fresh.start(), 1)
    assert "unable to open database file; check the folder, its rights and its free space" in said
    (state / "ironic-lite.sqlite").rmdir()
    (state / "ironic-lite.sqlite").write_text("no database, but a text" * 100)
    assert "file is not a database" in line(fresh.start(), 2)


@contextlib.contextmanager
def disk(folder: pathlib.Path, mib: int) -> Iterator[None]:
    folder.mkdir()
    try:
        with private_servers.small_disk(folder, mib):
            yield
    except private_servers.Lacking as why:
        pytest.skip(f"NOT TESTED: {why}")


def test_a_disk_that_is_full_at_the_start_is_status_1() -> None:
    with service.short_folder() as folder, disk(folder / "state", 1):
        with (folder / "state" / "ballast").open("wb", buffering=0) as ballast:
            for size in (1 << 16, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while ballast.write(b"x" * size):
                        pass
        found = Service(folder)
        try:
            said = line(found.start(), 1)
        finally:
            found.clear()
    assert "full" in said


# -- later -----------------------------------------------------------------------------------


def test_a_port_that_is_taken_while_a_conductor_is_away_ends_nothing() -> None:
    port = free_port()
    with service.service(f"[deploy]\nhttp_host = {service.HOST}\nhttp_port = {port}\n") as found:
        program = found.start()
        found.up()
        (conductor,) = program.pids(CONDUCTOR_UP)
        with contextlib.ExitStack() as taken:
            os.kill(conductor, signal.SIGKILL)
            door = taken.enter_context(socket.socket())
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

            def grab() -> bool:
                with contextlib.suppress(OSError):
                    door.bind((service.HOST, port))
                    door.listen()
                    return True
                return False

            if not grab():
                # The conductor was quicker; it is tried once more with its next life.
                os.kill(
                    service.until(lambda: program.pids(CONDUCTOR_UP)[1:], "it")[0], signal.SIGKILL
                )
                service.until(grab, "the port")
            service.until(lambda: "cannot listen on this address" in program.said(), "a refusal")
            assert found.get("/v1/nodes") == {"nodes": []}
        before = len(program.pids(CONDUCTOR_UP))
        service.until(lambda: len(program.pids(CONDUCTOR_UP)) > before, "a conductor")
        found.create("later")
        assert len(program.pids(API_UP)) == 1
        assert program.stop() == 0


def test_a_state_folder_that_is_removed_is_told_and_no_traceback(fresh: Service) -> None:
    program = fresh.start()
    fresh.up()
    fresh.create("kept")
    (fresh.folder / "state").rename(fresh.folder / "gone")
    answer = fresh.ask("POST", "/v1/nodes", {"driver": "fake-hardware"})
    assert answer.status_code == 503, answer.text
    assert program.stop() in {0, 1}
    assert "Traceback" not in program.said()
