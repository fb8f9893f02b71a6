"""Units of ``Type=notify``: systemd learns when a program has started, and when it needs time."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import socket
import sqlite3
from collections.abc import Iterator

import psutil
import pytest

from ironic_lite.core import notify
from tests.support import service
from tests.support.service import CONDUCTOR_UP, Service


class Manager:
    """Stands for systemd: receives the messages of programs."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.address = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(self.address)

    def receive(self, seconds: float = service.PATIENCE) -> tuple[int, dict[str, str]]:
        """Return the sender's process and the next message."""
        self._socket.settimeout(seconds)
        text, [(_, _, credentials)], *_ = self._socket.recvmsg(4096, 4096)
        lines = text.decode().splitlines()
        pid = int.from_bytes(credentials[:4], "little")
        return pid, dict(line.split("=", 1) for line in lines)

    def until(self, key: str) -> tuple[int, dict[str, str]]:
        """Return the next message with a key."""
        while key not in (found := self.receive())[1]:
            pass
        return found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


@pytest.fixture
def fresh() -> Iterator[Service]:
    """A configuration whose programs are started anew, as by systemd."""
    with service.service(warm=False) as found:
        yield found


@pytest.fixture
def manager(fresh: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    with contextlib.closing(Manager(fresh.folder)) as found:
        monkeypatch.setenv("NOTIFY_SOCKET", found.address)
        yield found


def test_service_that_has_started_accepts_the_first_node(fresh: Service, manager: Manager) -> None:
    program = fresh.start()
    assert "EXTEND_TIMEOUT_USEC" in manager.receive()[1]  # it migrates
    pid, found = manager.until("READY")
    assert (pid, found) == (program.pid, {"READY": "1", "STATUS": f"serving {fresh.url}"})
    assert fresh.ask("GET", "/readyz").status_code == 200
    fresh.create("first")
    program.process.send_signal(signal.SIGTERM)
    assert manager.until("STOPPING")[0] == program.pid
    assert program.process.wait(service.PATIENCE) == 0


@pytest.mark.parametrize("name", ["ironic-lite", "ironic-lite-conductor"])
def test_watchdog_hears_of_the_main_loop_until_it_hangs(
    name: str, fresh: Service, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fresh.start("ironic-lite-dbsync", "upgrade")
    assert first.process.wait(service.PATIENCE) == 0
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    program = fresh.start(name)
    manager.until("READY")
    for _ in range(5):
        assert manager.until("WATCHDOG") == (program.pid, {"WATCHDOG": "1"})
    program.process.send_signal(signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        for _ in range(100):  # those sent before
            manager.receive(seconds=2.0)
    program.process.send_signal(signal.SIGCONT)
    assert manager.until("WATCHDOG")[0] == program.pid


def test_watchdog_of_another_process_is_not_ours(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    notify.begin()
    try:
        notify.alive()
        notify.stopping()
        assert "STOPPING" in manager.receive()[1]
        assert notify.pause(60.0) == 60.0
    finally:
        notify.begin()


def test_long_work_asks_for_time_until_it_ends(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "EXTEND_SECONDS", 0.05)
    notify.begin()
    try:
        with notify.extending("migrating"):
            found = [manager.receive()[1] for _ in range(3)]
        assert found == [{"EXTEND_TIMEOUT_USEC": "150000", "STATUS": "migrating"}] * 3
        notify.ready("serving")
        assert manager.until("READY")[1]["STATUS"] == "serving"
    finally:
        notify.begin()  # no service manager any more


@pytest.mark.parametrize("workers", [1, 3])
def test_api_alone_has_started_when_all_workers_listen(
    workers: int, fresh: Service, manager: Manager
) -> None:
    text = fresh.settings.read_text(encoding="utf-8")
    with_more = text.replace("[api]\n", f"[api]\nworkers = {workers}\n")
    fresh.settings.write_text(with_more, encoding="utf-8")
    first = fresh.start("ironic-lite-dbsync", "upgrade")
    assert first.process.wait(service.PATIENCE) == 0
    program = fresh.start("ironic-lite-api")
    assert manager.until("READY")[0] == program.pid
    assert fresh.ask("GET", "/v1").status_code == 200
    listening = [
        one.laddr.port
        for process in psutil.Process(program.pid).children()
        for one in process.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
    ]
    assert listening == [fresh.port] * workers


@pytest.mark.parametrize("processes", [1, 2])
def test_conductor_alone_has_started_when_its_processes_are_registered(
    processes: int, fresh: Service, manager: Manager
) -> None:
    text = fresh.settings.read_text(encoding="utf-8")
    with_more = text.replace("[conductor]\n", f"[conductor]\nprocesses = {processes}\n")
    fresh.settings.write_text(with_more, encoding="utf-8")
    first = fresh.start("ironic-lite-dbsync", "upgrade")
    assert first.process.wait(service.PATIENCE) == 0
    program = fresh.start("ironic-lite-conductor")
    pid, found = manager.until("READY")
    assert (pid, "registered" in found["STATUS"]) == (program.pid, True)
    path = fresh.folder / "state" / "ironic-lite.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        (count,) = database.execute("SELECT count(*) FROM conductors WHERE online").fetchone()
    assert count == processes
    service.until(lambda: len(program.pids(CONDUCTOR_UP)) == processes, "all processes")
    program.process.send_signal(signal.SIGTERM)
    assert manager.until("STOPPING")[0] == program.pid
    assert program.process.wait(service.PATIENCE) == 0
