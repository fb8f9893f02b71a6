"""The Redfish emulator for tests: plain, with users, or with TLS and a certificate of its own."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import subprocess

import bcrypt

from demo import emulator
from tests.support.ports import free_port


@dataclasses.dataclass
class Emulator(emulator.Emulator):
    """The emulator at a port that no other test takes while its program starts."""

    port: int = dataclasses.field(default_factory=free_port)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its program."""
        assert self.pid is not None
        os.kill(self.pid, number)


def users(folder: pathlib.Path, **passwords: str) -> pathlib.Path:
    """Write a file of users; four rounds of bcrypt, for each request pays them."""
    lines = []
    for name, password in passwords.items():
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(rounds=4)).decode()
        lines.append(f"{name}:{hashed}\n")
    path = folder / "users"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def certificate(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Make a certificate for 127.0.0.1 that is its own authority; return its file and its key's."""
    path, key = folder / "bmc.pem", folder / "bmc.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=bmc",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    command += ["-keyout", str(key), "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return path, key
