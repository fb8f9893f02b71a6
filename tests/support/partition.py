"""Machines in network namespaces: a bridge here joins them, and each can be cut off."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping

import pytest

from tests.support import service
from tests.support.certificates import Authority
from tests.support.service import ROOT, SCRIPTS, Program

PATIENCE = 60.0
EXAMPLES = ROOT / "etc" / "ironic-lite" / "examples"
USER, PASSWORD = "ann", "correct horse"
_HASH = "$2b$04$4svVQMIGzC/oFUx9LzTw6uAFWpWfBLnkP18.I0J0m8Sk1KN5SsR66"


class Machine:
    """A machine: its name in the shipped files, its address, its network namespace."""

    def __init__(self, name: str, address: str, namespace: str, link: str) -> None:
        self.name = name
        self.address = address
        self._namespace = namespace
        self._link = link

    def inside(self, *command: object) -> list[str]:
        """Return a command that runs in its network."""
        return ["ip", "netns", "exec", self._namespace, *map(str, command)]

    def cut(self) -> None:
        """Cut it off: nothing reaches it or comes from it, without a word."""
        _ip("link", "set", self._link, "down")

    def join(self) -> None:
        """End the cut."""
        _ip("link", "set", self._link, "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=PATIENCE)


@contextlib.contextmanager
def machines(*names: str) -> Iterator[tuple[str, list[Machine]]]:
    """Give the address of this machine on the bridge, and machines with these names.

    The test is skipped where namespaces cannot be made.
    """
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root, with the program ip, may make network namespaces")
    mark = f"il{os.getpid() % 10**7}"
    net = f"10.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250}"
    with contextlib.ExitStack() as made:
        try:
            _ip("link", "add", mark, "type", "bridge")
        except subprocess.CalledProcessError as why:
            pytest.skip(f"NOT TESTED: no bridge can be made: {why.stderr!r}")
        made.callback(_ip, "link", "del", mark)
        _ip("addr", "add", f"{net}.254/24", "dev", mark)
        _ip("link", "set", mark, "up")
        found = []
        for number, name in enumerate(names, 1):
            one = Machine(name, f"{net}.{number}", f"{mark}-{name}", f"{mark}v{number}")
            _ip("netns", "add", f"{mark}-{name}")
            made.callback(_ip, "netns", "del", f"{mark}-{name}")
            link = ("link", "add", f"{mark}v{number}", "type", "veth", "peer", "name", "eth0")
            _ip(*link, "netns", f"{mark}-{name}")
            _ip("link", "set", f"{mark}v{number}", "master", mark, "up")
            for words in (
                ("addr", "add", f"{one.address}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", f"{mark}-{name}", *words)
            found.append(one)
        yield f"{net}.254", found


class Site:
    """The programs of the shipped configuration on machines, with a database here.

    :ivar settings: further sections for all programs.
    """

    def __init__(self, folder: pathlib.Path, found: list[Machine], database: str) -> None:
        self.folder = folder
        self.machines = found
        self.settings = ""
        self.programs: dict[str, Program] = {}
        self._database = database
        self.authority = Authority(folder)
        (folder / "htpasswd").write_text(f"{USER}:{_HASH}\n")
        for one in found:
            name = f"{one.name}.example.org"
            self.authority.issue(one.name, one.address, name)

    def settings_of(self, example: str, one: Machine) -> pathlib.Path:
        """Write a shipped file with the paths and names of this test; return its path."""
        text = (EXAMPLES / example).read_text(encoding="utf-8")
        mine, here = self.folder / one.name, self.folder / f"{one.name}-{example}"
        paths: Mapping[str, str] = {
            "/etc/ironic-lite/rpc-ca.pem": str(self.authority.file),
            "/etc/ironic-lite/rpc.pem": f"{mine}.pem",
            "/etc/ironic-lite/rpc.key": f"{mine}.key",
            "/etc/ironic-lite/api.pem": f"{mine}.pem",
            "/etc/ironic-lite/api.key": f"{mine}.key",
            "/etc/ironic-lite/htpasswd": f"{self.folder}/htpasswd",
            "host = 0.0.0.0": f"host = {one.address}",
            "redfish,ipmi": "fake-hardware",
        }
        for old, new in paths.items():
            text = text.replace(old, new)
        lines = [
            line if not line.startswith("connection = ") else f"connection = {self._database}"
            for line in text.splitlines()
        ]
        lines += [
            "[DEFAULT]",
            f"host = {one.address}",
            f"state_path = {self.folder}/state-{one.name}",
            self.settings,
        ]
        here.write_text("\n".join(lines), encoding="utf-8")
        return here

    def start(self, script: str, example: str, one: Machine, *words: str) -> Program:
        """Start a program on a machine."""
        settings = self.settings_of(example, one)
        command = one.inside(SCRIPTS / script, "--config-file", settings, *words)
        log = self.folder / f"{one.name}-{script}.log"
        self.programs[log.stem] = program = Program(command, log)
        return program

    def clear(self) -> None:
        """End all programs; print the ends of their logs."""
        for name, program in self.programs.items():
            program.clear()
            print(f"--- the end of {name}:", *service.tail(program.said()), sep="\n")
