"""The service for the demonstration: real processes in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import types

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

HOST = "127.0.0.1"
_STOP_SECONDS = 20.0
_DATABASE_SECONDS = 30.0
_TAIL = 30

_SETTINGS = """\
[DEFAULT]
state_path = {folder}/state
host = demo
enabled_hardware_types = redfish,fake-hardware

[api]
host = {host}
port = {port}

[redfish]
# The BMCs are an emulator on this machine.
allowed_networks = 127.0.0.0/8

[conductor]
evidence_key_file = {folder}/evidence.pem
graceful_shutdown_timeout = 5
power_state_change_timeout = 15
"""


# Times are stored as text, in the form that strftime returns.
_EARLIER = "strftime('%Y-%m-%d %H:%M:%f000', {0}, :shift)"
_OF_RUN = """
    SELECT runs.uuid FROM runs JOIN nodes ON nodes.uuid = runs.node_uuid
    WHERE nodes.name = :node AND runs.state IN ('running', 'waiting')
"""
_AGE = (
    f"UPDATE run_steps SET started_at = {_EARLIER.format('started_at')},"
    f" ended_at = {_EARLIER.format('ended_at')} WHERE run_uuid IN ({_OF_RUN})",
    f"UPDATE runs SET started_at = {_EARLIER.format('started_at')} WHERE uuid IN ({_OF_RUN})",
    f"UPDATE nodes SET provision_updated_at = {_EARLIER.format('provision_updated_at')}"
    " WHERE name = :node",
)


_OPTION = re.compile(r"OS_[A-Z0-9_]+?__[A-Z0-9_]+")
"""The form in which oslo.config names an option in the environment."""


class ServiceError(Exception):
    """The service cannot be started, or has ended; the text gives the reason."""


class Service:
    """``ironic-lite`` as a context manager: entering starts it, leaving stops it.

    It runs in a process group of its own, so that Ctrl-C reaches only the demonstration, which then
    stops it. It also ends if the demonstration is killed.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://{HOST}:{port}"
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._folder = pathlib.Path()

    @property
    def log(self) -> pathlib.Path:
        """Return the path of its log."""
        return self._folder / "log"

    def __enter__(self) -> Service:
        """Start it.

        :raises ServiceError: its port is in use.
        """
        if _port_taken(self._port):
            raise ServiceError(
                f"Port {self._port} of {HOST} is in use: another ironic-lite may be running. Stop "
                "it, or choose another port: make demo ARGS='--port 6386'"
            )
        # A short path, because that of a Unix socket has at most 107 bytes.
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="ironic-lite-demo-"))
        _make_key(self._folder / "evidence.pem")
        settings = self._folder / "ironic-lite.conf"
        settings.write_text(
            _SETTINGS.format(folder=self._folder, host=HOST, port=self._port), encoding="utf-8"
        )
        command = [sys.executable, "-m", "ironic_lite.cmd.all", "--config-file", str(settings)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=_environment(),
            )
        # The pipe to its input ends with this process, even by SIGKILL.
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; kill -TERM "$0"', str(self._process.pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Stop it; kill it if necessary."""
        # Stopped first, because its process id may belong to another process later.
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.kill()
            watcher.communicate()
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def check(self) -> None:
        """Raise ServiceError if it has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise ServiceError(f"ironic-lite has ended with status {self._process.returncode}")

    def age_run(self, node: str, minutes: int) -> None:
        """Let the run of a node have begun earlier, because nobody waits for an overdue step.

        Only a demonstration may write into the database of a service that runs.
        """
        path = self._folder / "state/ironic-lite.sqlite"
        given = {"node": node, "shift": f"-{minutes} minutes"}
        with contextlib.closing(sqlite3.connect(path, timeout=_DATABASE_SECONDS)) as opened, opened:
            for statement in _AGE:
                opened.execute(statement, given)

    def wait(self) -> None:
        """Return when it has ended."""
        if self._process is not None:
            self._process.wait()

    def tail(self) -> str:
        """Return the end of its log."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-_TAIL:])


def _make_key(path: pathlib.Path) -> None:
    """Write a key that signs erasure records."""
    key = ed25519.Ed25519PrivateKey.generate()
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    path.chmod(0o600)


def _environment() -> dict[str, str]:
    """Return the environment without options, such as the database of a real service."""
    return {name: value for name, value in os.environ.items() if not _OPTION.fullmatch(name)}


def _port_taken(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return True
    return False
