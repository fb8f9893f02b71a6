"""A real, unmodified ironic-python-agent as a process: it plays the ramdisk of one machine.

    with process.agent(macs=["52:54:00:00:00:01"], api=url) as machine:
        machine.start()              # as a power-on would: looks its node up, sends heartbeats
        machine.kill()               # as a power-off would
        machine.version = "2"        # another ramdisk's hardware manager, at the next start

An agent believes that it owns the machine: it erases disks and switches off. This one never runs
as root (root gives it to user 65534, without any capability), all programs by which it could do
harm are stand-ins that come first in its PATH, and its disk is one regular file. What needs a
block device (partitions, file systems, qemu-img) has `block`: a loop device on that file.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.emulators.agent import block, stand_ins
from tests.support import prefork
from tests.support.ports import free_port

ROOT = pathlib.Path(__file__).parents[3]
ENVIRONMENT = ROOT / ".venv-agent"
PLUGIN = pathlib.Path(__file__).parent / "plugin"
EVIDENCE = ROOT / "scripts" / "ramdisk" / "evidence" / "ironic_lite_evidence"
"""Our hardware manager that reports erasures."""
UID = 65534
HOST = "127.0.0.1"
PATIENCE = 60.0
DISK_BYTES = 16 * 1024 * 1024
LARGE_BYTES = 5 * 1024 * 1024 * 1024
"""Of a disk that is to be partitioned; nothing of it is there before it is written."""


def available() -> pathlib.Path:
    """Return the program; without it the test is skipped and says so."""
    program = ENVIRONMENT.resolve() / "bin" / "ironic-python-agent"
    if not program.exists():
        pytest.skip("NOT TESTED: no ironic-python-agent; scripts/agent.sh .venv-agent gets it")
    return program


def without_rights(command: Sequence[str]) -> list[str]:
    """Return a command that runs another as a user without any rights."""
    if os.getuid() != 0:
        return [*command]
    who = ["--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
    drop = ["setpriv", *who, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--"]
    return [*drop, *command]


@functools.cache
def fork_server(_process: int, program: pathlib.Path) -> prefork.ForkServer:
    """Return this process's server for agents: half of an agent's start is its imports."""
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    python = without_rights([str(program.parent / "python")])
    return prefork.ForkServer(program.name, environment, python, folder="/")


class Agent:
    """One machine's ramdisk. What is assigned counts from the next `start` on."""

    def __init__(self, folder: pathlib.Path, macs: Sequence[str], api: str | None) -> None:
        """Make the machine; ``api`` None: an agent without a service, for commands alone."""
        self.program = available()
        self.folder = folder
        self.macs = macs
        self.api = api
        self.port = free_port()
        self.version = "1"
        self.steps: Mapping[str, Any] = {}
        self.parameters: dict[str, str] = {}
        """Of the kernel command line: ``agent_token`` and the like, by the agent's option."""
        self.environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | prefork.ForkedProgram | None = None
        (folder / "tmp").mkdir(exist_ok=True)
        with (folder / "disk.img").open("wb") as disk:
            disk.truncate(DISK_BYTES)
        self.disks = [{"name": str(folder / "disk.img"), "serial": "F1"}]
        """What its hardware manager shows; the first is the one without hints."""
        self.loop: block.Loop | None = None
        shutil.copytree(PLUGIN, folder / "plugin")
        stand_ins.write(folder, self._python, None)
        self._give()

    def on(self, loop: block.Loop) -> None:
        """Let a loop device be its disk."""
        self.loop = loop
        self.disks[0]["name"] = loop.device
        stand_ins.write(self.folder, self._python, loop.socket)
        self._give()

    def add_disk(self, serial: str, size: int = DISK_BYTES) -> pathlib.Path:
        """Give the machine one more disk, a regular file; returns it."""
        path = self.folder / f"{serial}.img"
        with path.open("wb") as disk:
            disk.truncate(size)
        self.disks.append({"name": str(path), "serial": serial})
        self._give()
        return path

    def trust(self, authority: pathlib.Path) -> None:
        """Have it believe servers whose certificates are of this authority, a PEM file."""
        shutil.copy(authority, self.folder / "authority.pem")
        self.parameters["cafile"] = str(self.folder / "authority.pem")
        self._give()

    def add_evidence(self) -> None:
        """Install our hardware manager beside the test's, which erases by the agent's code then.

        A disk is overwritten by the real ``shred``; it fails for a disk whose serial number is BAD.
        """
        shutil.copytree(EVIDENCE, self.folder / "plugin" / EVIDENCE.name, dirs_exist_ok=True)
        about = self.folder / "plugin" / "ironic_lite_evidence-1.0.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: ironic-lite-evidence\nVersion: 1.0\n"
        )
        (about / "entry_points.txt").write_text(
            "[ironic_python_agent.hardware_managers]\n"
            "ironic_lite_evidence = ironic_lite_evidence.manager:EvidenceManager\n"
        )
        shred = self.folder / "bin" / "shred"
        shred.write_text(
            '#!/bin/sh\ncase "$*" in *BAD*) echo "input/output error" >&2; exit 1 ;; esac\n'
            f'exec {shutil.which("shred", path="/usr/bin:/bin")} "$@"\n'
        )
        self.environment["MACHINE_ERASES"] = "generic"
        # Its check reads lsblk, which has a stand-in that shows no disk of the host.
        self.parameters["guard_special_filesystems"] = "false"
        self._give()

    @property
    def _python(self) -> pathlib.Path:
        return self.program.parent / "python"

    def _give(self) -> None:
        """Let all that is in its folder be its own."""
        if os.getuid() == 0:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, UID, UID)

    # -- the power ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the agent; returns at once."""
        assert self._process is None or self._process.poll() is not None
        self._configure()
        command = [str(self.program), "--config-file", str(self._settings)]
        with (self.folder / "agent.log").open("ab") as log, open(os.devnull, "rb") as nothing:
            if self.loop is None:
                request = prefork.Request(command, self._environment(), str(self.folder))
                files = [one.fileno() for one in (nothing, log, log)]
                self._process = fork_server(os.getpid(), self.program).start(request, files)
                return
            self._process = subprocess.Popen(
                self._enclosed(command),
                stdin=nothing,
                stdout=log,
                stderr=log,
                env=self._environment(),
                cwd=self.folder,
                start_new_session=True,
            )
            self.loop.pid = self._process.pid

    def kill(self) -> None:
        """End it as a power-off does: without a word."""
        process, self._process = self._process, None
        if process is None:
            return
        if self.loop is not None:
            self.loop.pid = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)

    @property
    def running(self) -> bool:
        """Return whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The agent's process, or the one that becomes it."""
        assert self._process is not None
        return self._process.pid

    def run(self, *words: str) -> str:
        """Run the agent's Python as the agent is run; return what it prints."""
        self._configure()
        done = subprocess.run(
            self._enclosed([str(self._python), *words]),
            env=self._environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answers(self) -> None:
        """Return when its API answers."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self.running, self.log()
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1):
                return
            time.sleep(0.02)
        raise AssertionError(f"the agent does not answer:\n{self.log()}")

    # -- what a test looks at ----------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL at which the agent listens."""
        return f"https://{HOST}:{self.port}"

    def log(self) -> str:
        """Return what it has printed."""
        path = self.folder / "agent.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def ran(self) -> list[str]:
        """Return the steps its hardware manager was given, oldest first."""
        return [line["step"] for line in self.told()]

    def told(self) -> list[dict[str, Any]]:
        """Return them with what they were told."""
        path = self.folder / "steps.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def forget(self) -> None:
        """Let the list of steps begin anew."""
        (self.folder / "steps.jsonl").unlink(missing_ok=True)

    def calls(self) -> list[str]:
        """Return the command lines of programs that would have done harm."""
        path = self.folder / "calls.log"
        return path.read_text().splitlines() if path.exists() else []

    def flag(self, name: str = "go") -> None:
        """Let a step end that waits for this file."""
        (self.folder / name).touch()

    def unflag(self, name: str = "go") -> None:
        """Let the next such step wait again."""
        (self.folder / name).unlink(missing_ok=True)

    # -- how it is run -----------------------------------------------------------------------

    @property
    def _settings(self) -> pathlib.Path:
        return self.folder / "agent.conf"

    def _configure(self) -> None:
        options = {
            "standalone": self.api is None,
            "listen_host": HOST,
            "listen_port": self.port,
            "advertise_host": HOST,
            "advertise_port": self.port,
            "enable_auto_tls": True,
            "lookup_interval": 1,
            "lookup_timeout": 60,
            "ip_lookup_attempts": 1,
            "hardware_initialization_delay": 0,
            "disk_wait_attempts": 1,
            "disk_wait_delay": 0,
            "image_download_connection_retries": 0,
            "image_download_connection_retry_interval": 0,
            **({"api_url": self.api} if self.api is not None else {}),
            **self.parameters,
        }
        lines = [f"{key} = {value}" for key, value in options.items()]
        text = "[DEFAULT]\n" + "\n".join(lines) + "\n"
        self._settings.unlink(missing_ok=True)
        self._settings.write_text(text)
        if os.getuid() == 0:
            os.chown(self._settings, UID, UID)
        self._settings.chmod(0o600)

    def _environment(self) -> dict[str, str]:
        tools = f"{self.folder}/bin:{self.program.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        return {
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "PATH": tools,
            "PYTHONPATH": str(self.folder / "plugin"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MACHINE_FOLDER": str(self.folder),
            "MACHINE_MACS": ",".join(self.macs),
            "MACHINE_VERSION": self.version,
            "MACHINE_STEPS": json.dumps(self.steps),
            "MACHINE_DISKS": json.dumps(self.disks),
            **self.environment,
        }

    def _enclosed(self, command: list[str]) -> list[str]:
        """Return a command that runs another without any rights, and with one disk at most."""
        command = without_rights(command)
        return command if self.loop is None else self.loop.enclosing(command)


@contextlib.contextmanager
def agent(macs: Sequence[str], api: str | None = None, *, loop: bool = False) -> Iterator[Agent]:
    """Give a machine's agent, not started; nothing of it is left afterwards.

    Its folder is one of its own, not of pytest's, which are closed to the agent's user.

    :param loop: whether its disk is a loop device; where there are none the test is skipped.
    """
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="il-agent-")))
        folder.chmod(0o755)
        found = Agent(folder, macs, api)
        if loop:
            os.truncate(folder / "disk.img", LARGE_BYTES)
            found.on(stack.enter_context(block.loop(folder / "disk.img", UID)))
        try:
            yield found
        finally:
            found.kill()
            # Shown with a test that failed.
            print(f"--- the end of agent.log, port {found.port}:", found.log()[-20000:], sep="\n")
