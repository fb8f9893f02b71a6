"""The service as real processes: start them, send requests over HTTP, stop them."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psutil
import requests

from ironic_lite.db.engine import session
from ironic_lite.db.tables import migrate
from tests.support import prefork
from tests.support.ports import free_port

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = pathlib.Path(sys.executable).parent
HOST = "127.0.0.1"
ON_THIS_MACHINE = "".join(
    f"[{group}]\nallowed_networks = 127.0.0.0/8\n" for group in ("redfish", "ipmi", "agent")
)
"""Lets BMCs and agents be here."""
PATIENCE = 120.0
"""Seconds anything may take; nothing here is expected to take that long."""
_LONGEST_PAUSE = 0.1
"""Seconds between two questions to a program."""
LINES = 150
"""Of each log that are shown when a test fails."""

API_UP = r"^\S+ \S+ (?P<pid>\d+) INFO ironic_lite\.cmd\.api Listening on "
CONDUCTOR_UP = r"^\S+ \S+ (?P<pid>\d+) INFO ironic_lite\.conductor\.service Conductor \S+ is up"

T = TypeVar("T")

# A shell that runs the suite in its background lets it ignore these, and all that it starts. What
# a program handles is reset for those that it starts.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


def until(ask: Callable[[], T], about: str) -> T:
    """Return the first true value of ``ask()``; until then it may find nobody there."""
    end, pause = time.monotonic() + PATIENCE, 0.01
    found: Any = None
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if found := ask():
                return found
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 1.3)  # a question costs both processes milliseconds
    raise AssertionError(f"{about}: not within {PATIENCE:g} s, last seen {found!r}")


def tail(text: str) -> list[str]:
    """Return the last lines of a log."""
    return text.splitlines()[-LINES:]


@contextlib.contextmanager
def short_folder() -> Iterator[pathlib.Path]:
    """A folder with a short name: the path of a unix socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="il-") as path:
        yield pathlib.Path(path)


def environment(**more: str) -> dict[str, str]:
    """Return the environment without what a developer may have set for our programs."""
    ours = ("IRONIC_LITE", "OS_", "COLUMNS")
    kept = {"OS_FEATURES__ENABLED"}
    known = os.environ.items()
    return {key: text for key, text in known if key in kept or not key.startswith(ours)} | more


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all that descend from it."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def gone(processes: list[psutil.Process]) -> bool:
    """Say whether none of the processes is left."""
    return not any(alive(one) for one in processes)


def alive(process: psutil.Process) -> bool:
    """Say whether a process still runs; one that is dead and not collected does not.

    A process whose first thread has ended counts as a zombie, but its other threads may still hold
    its sockets for a moment.
    """
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
    except psutil.NoSuchProcess:
        return False


class Program:
    """One of our programs, running, with what it prints in a file.

    :param warm: it is forked, see `prefork`; ``options`` are for others only.
    """

    def __init__(
        self, command: list[str], log: pathlib.Path, *, warm: bool = False, **options: Any
    ) -> None:
        self.log = log
        self.process: subprocess.Popen[bytes] | prefork.ForkedProgram
        begin: Any = prefork.start if warm else functools.partial(subprocess.Popen, **options)
        with log.open("ab") as output, open(os.devnull, "rb") as nothing:
            self.process = begin(
                command,
                stdin=nothing,
                stdout=output,
                stderr=output,
                env=environment(),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def lines(self) -> list[str]:
        """Return its lines, without the warning that a machine without ipmitool gets."""
        lines = self.said().splitlines()
        return [line for line in lines if "program ipmitool is not installed" not in line]

    def pids(self, line: str) -> list[int]:
        """Return the processes that have logged such a line, in order."""
        found = re.finditer(line, self.said(), re.MULTILINE)
        return [int(one["pid"]) for one in found]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def clear(self) -> None:
        """Leave nothing of it behind, whatever state it is in."""
        left = family(self.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for one in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.wait(PATIENCE)
        # A port is free once all are gone, and the dead take a while on a loaded machine.
        until(lambda: gone(left), f"the end of {self.log.name}")


@functools.cache
def migrated_file() -> bytes:
    """Return the content of a migrated SQLite file without rows."""
    with short_folder() as folder:
        path = folder / "migrated.sqlite"
        with contextlib.closing(session.open_database(f"sqlite:///{path}")) as database:
            migrate.upgrade(database)
        return path.read_bytes()


class Service:
    """A configuration with a folder of its own, and the programs that run on it.

    :param warm: its programs are forked, see `prefork`; False for a test of the start.
    :param migrated: the service finds a database without rows; else it makes one at its start.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        more: str = "",
        scheme: str = "http",
        *,
        warm: bool = True,
        migrated: bool = True,
    ) -> None:
        self.folder = folder
        self._warm = warm
        self._migrated = warm and migrated
        self.port = free_port()
        self.url = f"{scheme}://{HOST}:{self.port}"
        self.settings = folder / "test.conf"
        self.settings.write_text(
            f"[DEFAULT]\nstate_path = {folder}/state\nhost = tester\n"
            f"[api]\nport = {self.port}\n"
            f"{ON_THIS_MACHINE}[conductor]\nsync_power_state_interval = 0\n{more}",
            encoding="utf-8",
        )
        self.session = requests.Session()
        self.session.trust_env = False
        self._programs: list[Program] = []

    def put_database(self) -> None:
        """Spare the service the migrations; one with a server for its database ignores the file."""
        state = self.folder / "state"
        with contextlib.suppress(FileExistsError):
            state.mkdir(mode=0o700)
            path = state / "ironic-lite.sqlite"
            path.touch(0o600)
            path.write_bytes(migrated_file())

    def start(self, script: str = "ironic-lite", *words: str, host: str | None = None) -> Program:
        """Start a program; ``words`` end its command line, ``host`` names its conductor."""
        if self._migrated and script == "ironic-lite":
            self.put_database()
        command = [str(SCRIPTS / script), "--config-file", str(self.settings), *words]
        if host is not None:
            named = self.folder / f"{host}.conf"
            named.write_text(f"[DEFAULT]\nhost = {host}\n", encoding="utf-8")
            command += ["--config-file", str(named)]
        log = self.folder / f"{script}-{len(self._programs)}.log"
        program = Program(command, log, warm=self._warm)
        self._programs.append(program)
        return program

    def again(self, **options: Any) -> None:
        """Kill what runs and start the service anew, with other values of options it has."""
        for program in self.running():
            program.clear()
        text = self.settings.read_text(encoding="utf-8")
        for name, value in options.items():
            text, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
            assert count == 1, name
        self.settings.write_text(text, encoding="utf-8")
        self.start()
        self.up()

    def clear(self) -> None:
        """Leave nothing of it behind; what it said last is shown with a test that failed."""
        for program in self._programs:
            program.clear()
            print(f"--- the end of {program.log.name}:", *tail(program.said()), sep="\n")
        self.session.close()

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        return self.session.request(method, self.url + path, json=body, timeout=PATIENCE)

    def get(self, path: str) -> Any:
        """Return the body of a 200, None for any other answer."""
        answer = self.ask("GET", path)
        return answer.json() if answer.ok else None

    def up(self) -> None:
        """Return when the API answers and a conductor takes calls."""
        until(lambda: self.get("/v1/nodes"), "the API")
        until(lambda: any(one.pids(CONDUCTOR_UP) for one in self.running()), "a conductor")

    def running(self) -> list[Program]:
        """Return the programs that have not ended."""
        return [one for one in self._programs if one.process.poll() is None]

    def create(self, name: str, **fields: Any) -> str:
        """Create a fake node and return its UUID."""
        body = {"driver": "fake-hardware", "name": name, **fields}
        answer = self.ask("POST", "/v1/nodes", body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["uuid"])

    def provision(self, name: str, target: str, wanted: str, **more: Any) -> dict[str, Any]:
        """Ask for a state and return the node when it is there."""
        path = f"/v1/nodes/{name}/states/provision"
        answer = self.ask("PUT", path, {"target": target, **more})
        assert answer.status_code == 202, answer.text
        return self.settled(name, wanted)

    def settled(self, name: str, wanted: str) -> dict[str, Any]:
        """Return the node when it has come to rest in a state, and nobody works on it any more."""

        def look() -> dict[str, Any] | None:
            node: dict[str, Any] | None = self.get(f"/v1/nodes/{name}")
            assert node is None or "fail" not in node["provision_state"], node["last_error"]
            there = node and node["provision_state"] == wanted and not node["reservation"]
            return node if there else None

        found = until(look, f"{name} {wanted}")
        assert found is not None
        return found


@contextlib.contextmanager
def service(
    more: str = "", scheme: str = "http", *, warm: bool = True, migrated: bool = True
) -> Iterator[Service]:
    """Give a configuration; whatever is started on it is gone at the end."""
    with short_folder() as folder:
        found = Service(folder, more, scheme, warm=warm, migrated=migrated)
        try:
            yield found
        finally:
            found.clear()
