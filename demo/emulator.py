"""Start and stop sushy-tools' Redfish emulator with fake machines.

The demonstration and the tests share it. The emulator is a child process that always ends with this
one.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types
import urllib.error
import urllib.request

SCRIPT = "sushy-emulator"
START_SECONDS = 30.0
STOP_SECONDS = 5.0
_PORTS = 3
"""Attempts to start, because another program may take a free port before its use."""

_CONFIG = """\
SUSHY_EMULATOR_LISTEN_IP = {host!r}
SUSHY_EMULATOR_LISTEN_PORT = {port!r}
SUSHY_EMULATOR_STATE_DIR = {state!r}
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_FAKE_SYSTEMS = {machines!r}
SUSHY_EMULATOR_SSL_CERT = {certificate!r}
SUSHY_EMULATOR_SSL_KEY = {key!r}
SUSHY_EMULATOR_AUTH_FILE = {auth_file!r}
EXTERNAL_NOTIFICATION_URL = {listener!r}

# This file is Python. No process writes to standard input, a pipe that ends with its parent.
import os as _os
import threading as _threading


def _follow():
    _os.read(0, 1)
    _os._exit(0)


_threading.Thread(target=_follow, daemon=True).start()

# The emulator takes a random 1 to 11 seconds for each power change.
import types as _types
from sushy_tools.emulator.resources.systems import fakedriver as _fakedriver

_fakedriver.random = _types.SimpleNamespace(randint=lambda low, high: {power_delay!r})
"""


class EmulatorError(Exception):
    """The emulator cannot be started; the text gives the reason and its output."""


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """A machine of the emulator."""

    name: str
    uuid: str
    mac: str

    @property
    def system_id(self) -> str:
        """Return its path, the value of driver_info/redfish_system_id."""
        return f"/redfish/v1/Systems/{self.uuid}"


@dataclasses.dataclass(kw_only=True)
class Emulator:
    """A running emulator, as a context manager or by `start` and `stop`.

    :param count: number of machines, named machine-0, machine-1 and so on, all powered off.
    :param power_delay: seconds a power change takes.
    :param certificate: PEM file; with ``key`` it serves https.
    :param auth_file: file of ``user:bcrypt hash`` lines; with it, requests need a login.
    :param listener: URL that gets a PUT with the new values after each change of a machine.
    :param folder: for its configuration, state and log; None creates one and removes it.
    """

    count: int = 1
    power_delay: float = 0
    certificate: pathlib.Path | None = None
    key: pathlib.Path | None = None
    auth_file: pathlib.Path | None = None
    listener: str | None = None
    folder: pathlib.Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    _process: subprocess.Popen[bytes] | None = dataclasses.field(default=None, repr=False)
    _made: pathlib.Path | None = dataclasses.field(default=None, repr=False)

    @property
    def address(self) -> str:
        """Return the value of driver_info/redfish_address."""
        return f"{'https' if self.certificate else 'http'}://{self.host}:{self.port}"

    @property
    def machines(self) -> list[Machine]:
        """Return the machines, in order."""
        return [
            Machine(
                name=f"machine-{number}",
                uuid=f"00000000-0000-4000-8000-{number:012d}",
                mac=f"52:54:01:00:{number >> 8 & 255:02x}:{number & 255:02x}",
            )
            for number in range(self.count)
        ]

    def __enter__(self) -> Emulator:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> Emulator:
        """Start it and return once it answers.

        :raises EmulatorError: it is not installed, or does not start within START_SECONDS.
        """
        script = find()
        if self.port and _port_taken(self.host, self.port):
            raise EmulatorError(f"Port {self.port} of {self.host} is taken by another program.")
        if self.folder is None:
            self.folder = self._made = pathlib.Path(tempfile.mkdtemp(prefix="redfish-"))
        fixed = bool(self.port)
        for _ in range(1 if fixed else _PORTS):
            self.port = self.port if fixed else _free_port(self.host)
            if self._try_start(script):
                return self
        said = self._log_text()
        self.stop()
        raise EmulatorError(f"{SCRIPT} does not start on port {self.port}. It printed: {said}")

    def stop(self) -> None:
        """Stop it, kill it if necessary; does nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)
            self._made = self.folder = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None else None

    def _try_start(self, script: str) -> bool:
        """Start it once; return False if it ended at once or does not answer."""
        folder = self.folder or pathlib.Path()
        config = folder / "emulator.py"
        config.write_text(self._config_text(folder), encoding="utf-8")
        with (folder / "emulator.log").open("wb") as log:
            self._process = subprocess.Popen(
                [script, "--config", str(config)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            if self._is_answering():
                return True
            time.sleep(0.05)
        self._process.kill()
        self._process.wait()
        return False

    def _config_text(self, folder: pathlib.Path) -> str:
        def path(given: pathlib.Path | None) -> str | None:
            return str(given) if given else None

        return _CONFIG.format(
            host=self.host,
            port=self.port,
            state=str(folder),
            machines=[
                {
                    "uuid": machine.uuid,
                    "name": machine.name,
                    "power_state": "Off",
                    "external_notifier": self.listener is not None,
                    "nics": [{"mac": machine.mac, "ip": "127.0.0.1"}],
                }
                for machine in self.machines
            ],
            certificate=path(self.certificate),
            key=path(self.key),
            auth_file=path(self.auth_file),
            listener=self.listener,
            power_delay=self.power_delay,
        )

    def _is_answering(self) -> bool:
        if self.certificate:
            # The certificate is not checked here.
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
            except OSError:
                return False
            return True
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            opener.open(f"{self.address}/redfish/v1/", timeout=5).close()
        except (OSError, urllib.error.URLError):
            return False
        return True

    def _log_text(self) -> str:
        log = (self.folder or pathlib.Path()) / "emulator.log"
        try:
            return log.read_text(encoding="utf-8", errors="replace")[-2000:].strip() or "nothing"
        except OSError:
            return "nothing"


def find() -> str:
    """Return the emulator's program, from this Python environment or from PATH.

    :raises EmulatorError: it is not installed.
    """
    beside = pathlib.Path(sys.executable).parent / SCRIPT
    found = str(beside) if beside.exists() else shutil.which(SCRIPT)
    if found is None:
        raise EmulatorError(f"There is no {SCRIPT}: pip install sushy-tools")
    return found


def _port_taken(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
        return False


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
