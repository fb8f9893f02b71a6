"""The service under test: its real processes, killed and started again at will."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from tests.support.evidence_key import make_key
from tests.support.ports import HOST, free_port
from tests.support.service import API_UP, CONDUCTOR_UP, SCRIPTS, environment, family, gone, until

LEASE = 3
"""Seconds: [conductor]heartbeat_timeout."""
STOPPED = (0, -signal.SIGTERM)
"""Exit statuses of a process that was asked to end; the second if it had only just begun."""
SETTINGS = """\
[DEFAULT]
state_path = {folder}/state
transport_url = {transport}
rpc_response_timeout = 15
enabled_hardware_types = fake-hardware
enabled_deploy_interfaces = chaos
enabled_power_interfaces = chaos
[database]
connection = {database}
connect_timeout = 3
statement_timeout = 6
sqlite_busy_timeout = 4
[conductor]
heartbeat_interval = 1
heartbeat_timeout = {lease}
hash_ring_reset_interval = 1
check_provision_state_interval = 1
sync_power_state_interval = 5
node_history_max_entries = 0
clean_callback_timeout = 45
max_concurrent_clean = 500
deploy_callback_timeout = 45
node_locked_retry_interval = 1
graceful_shutdown_timeout = 30
evidence_key_file = {folder}/evidence.pem
[webhooks]
allow_http = true
allowed_networks = 127.0.0.0/8
"""


class Process:
    """One of our processes, in one of its lives.

    :ivar host: the name of a conductor.
    :ivar wanted: whether it is to be started again when it is found dead.
    """

    def __init__(self, name: str, command: list[str], more: Mapping[str, str], log: pathlib.Path):
        self.name = self.host = name
        self.log = log
        self.wanted = True
        self.paused = False
        self._command = command
        self._environment = more
        self.popen = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(**self._environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process that was started."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.popen.poll() is None

    def start(self) -> None:
        """Live again."""
        self.popen = self._start()
        self.wanted, self.paused = True, False

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and all that it has started."""
        self.paused = number is signal.SIGSTOP or (self.paused and number is not signal.SIGCONT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """End it and all that it has started, at once; it stays so."""
        self.wanted = False
        left = family(self.pid)
        self.signal(signal.SIGKILL)
        self.popen.wait()
        until(lambda: gone(left), f"{self.name} is gone")


@dataclasses.dataclass(frozen=True)
class Ports:
    """Where the APIs listen.

    :ivar login: ``name:password`` of an administrator, for URLs; empty if none is needed.
    """

    numbers: tuple[int, ...]
    login: str = ""

    def url(self, number: int) -> str:
        """Return the address of one of them, whatever the number."""
        login = f"{self.login}@" if self.login else ""
        return f"http://{login}{HOST}:{self.numbers[number % len(self.numbers)]}"

    def alive(self, number: int) -> int:
        """Return this number, or the next behind which somebody listens, as a balancer would."""
        for other in range(number, number + len(self.numbers)):
            port = self.numbers[other % len(self.numbers)]
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
                return other
        return number


class Fleet:
    """All processes on one configuration.

    :param folder: short: sockets are in it.
    :param transport: a URL; None is ``local://``.
    :param more: what their environment has besides, for each of them by name.
    :param settings: further lines of their configuration.
    :param host: makes the name of a conductor of its number.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        database: str,
        transport: str | None,
        more: Callable[[str], Mapping[str, str]],
        *,
        settings: str,
        host: Callable[[int], str],
    ) -> None:
        self.folder = folder
        self._host = host
        self.left: list[str] = []
        self.processes: dict[str, Process] = {}
        self._more = more
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self.settings = folder / "chaos.conf"
        values = {"database": database, "transport": transport or f"local://{folder}/state/rpc"}
        make_key(folder, "evidence.pem")
        self.settings.write_text(SETTINGS.format(folder=folder, lease=LEASE, **values) + settings)

    def migrate(self) -> None:
        """Make the tables."""
        command = [*self._command("ironic-lite-dbsync", self.settings), "upgrade"]
        subprocess.run(command, check=True, timeout=120, env=environment(), capture_output=True)

    def begin(self, apis: int, conductors: int, login: str = "") -> Ports:
        """Start everything; return when it is up."""
        ports = Ports(tuple(free_port() for _ in range(apis)), login)
        for number, port in enumerate(ports.numbers):
            self._launch(f"api-{number}", "ironic-lite-api", f"[api]\nport = {port}\n")
        for number in range(conductors):
            name, host = f"conductor-{number}", self._host(number)
            self._launch(name, "ironic-lite-conductor", f"[DEFAULT]\nhost = {host}\n")
            self.processes[name].host = host
        for pattern, processes in ((API_UP, self.apis), (CONDUCTOR_UP, self.conductors)):
            for one in processes:
                until(functools.partial(self._up, one, pattern), f"{one.name} is up")
        self._tender = threading.Thread(target=self._tend, name="tender", daemon=True)
        self._tender.start()
        return ports

    def _launch(self, name: str, script: str, own: str) -> None:
        mine = self.folder / f"{name}.conf"
        mine.write_text(own)
        command = [*self._command(script, self.settings), "--config-file", str(mine)]
        self.processes[name] = Process(name, command, self._more(name), self.folder / f"{name}.log")

    @staticmethod
    def _command(script: str, settings: pathlib.Path) -> list[str]:
        return [str(SCRIPTS / script), "--config-file", str(settings)]

    @staticmethod
    def _up(process: Process, pattern: str) -> bool:
        said = process.log.read_text(errors="replace")
        assert process.alive, said[-4000:]
        return bool(re.search(pattern, said, re.MULTILINE))

    @property
    def conductors(self) -> list[Process]:
        """All conductors."""
        return [one for name, one in self.processes.items() if name.startswith("conductor")]

    @property
    def apis(self) -> list[Process]:
        """All APIs."""
        return [one for name, one in self.processes.items() if name.startswith("api")]

    def conductor(self, host: str) -> Process:
        """Return the conductor of a name."""
        return next(one for one in self.conductors if one.host == host)

    # -- while faults go on ------------------------------------------------------------------

    @contextlib.contextmanager
    def steady(self) -> Iterator[None]:
        """Let nobody be started again for the length of a block."""
        with self._guard:
            yield

    def _tend(self) -> None:
        """Start again what has ended by itself: a database that is away may end a start."""
        while not self._closing.wait(0.5):
            with self._guard:
                for one in self.processes.values():
                    if one.wanted and not one.alive:
                        self.note_end(one)
                        one.start()

    def note_end(self, process: Process, *, drained: bool = False) -> None:
        """Record the end of a process, unless a database that is away has ended its start."""
        status = process.popen.returncode
        said = process.log.read_text(errors="replace").splitlines()
        left_work = drained and any("work was left over" in line for line in said[-1:])
        # One that never came up has said why in one line: systemd starts it again, as we do.
        if status != 1 or left_work or any("Traceback" in line for line in said[-60:]):
            self.left.append(f"{process.name} ended with status {status}: {said[-1:]}")

    # -- the end -----------------------------------------------------------------------------

    def end(self) -> None:
        """Stop all processes as an operator does; whoever does not hear is told of."""
        self._closing.set()
        self._tender.join()
        everybody = [*self.apis, *self.conductors]
        for one in everybody:
            one.wanted = False
            one.signal(signal.SIGCONT)
            one.popen.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        for one in everybody:
            try:
                status = one.popen.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.left.append(f"{one.name} does not stop")
                continue
            if status not in STOPPED:
                self.left.append(f"{one.name} stopped with status {status}")

    def clear(self) -> None:
        """Leave nothing behind, whatever state it is in."""
        self._closing.set()
        for one in self.processes.values():
            one.kill()
