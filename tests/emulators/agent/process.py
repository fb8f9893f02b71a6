"""A real, unmodified ironic-python-agent as a process: it plays the ramdisk of one machine.

    with process.agent(macs=["52:54:00:00:00:01"], api=url) as machine:
        machine.start()              # as a power-on would: looks its node up, sends heartbeats
        machine.kill()               # as a power-off would
        machine.version = "2"        # another ramdisk's hardware manager, at the next start

An agent believes that it owns the machine: it erases disks and switches off. This one never runs
as root (root gives it to user 65534, without any capability), all programs by which it could do
harm are stand-ins that come first in its PATH, and its disk is one regular file.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.ports import free_port

ROOT = pathlib.Path(__file__).parents[3]
ENVIRONMENT = ROOT / ".venv-agent"
PLUGIN = pathlib.Path(__file__).parent / "plugin"
UID = 65534
HOST = "127.0.0.1"
PATIENCE = 60.0
DISK_BYTES = 16 * 1024 * 1024
HARMFUL = (
    *("poweroff", "reboot", "shutdown", "halt", "systemctl", "init", "telinit", "kexec"),
    *("udevadm", "partprobe", "partx", "blkid", "wipefs", "sgdisk", "parted", "mdadm", "hdparm"),
    *("nvme", "shred", "dd", "blockdev", "mount", "umount", "modprobe", "multipath", "ipmitool"),
    *("efibootmgr", "lvm", "vgs", "pvs", "ip", "dmidecode", "lshw", "hexdump", "smartctl", "fio"),
    *("stress-ng", "chronyd", "ntpdate", "hwclock", "rdate", "lldptool", "mstflint"),
)
LSBLK = """\
case " $* " in
    *" {disk} "*) echo 'UUID="6a1f6f5e-6c1c-4b7e-9c3e-0123456789ab" PARTUUID=""' ;;
    *" -J "* | *json* | *" -bia "*) echo '{{"blockdevices": []}}' ;;
esac
"""
"""lsblk refuses a regular file, and would show the disks of the host."""
PARTED = """\
[ "$(od -An -tx1 -j510 -N2 {disk} | tr -d ' ')" = 55aa ] || exit 1
echo 'BYT;'; echo '{disk}:16MiB:file:512:512:msdos:file:;'
echo '1:1.00MiB:2.00MiB:1.00MiB:::;'
"""
"""parted is asked whether there is a partition: if there is a master boot record, there is one."""
POWEROFF = """\
[ -z "$MACHINE_RESET" ] || {python} -S -c '
import sys, urllib.request
body, kind = b"{{\\"ResetType\\": \\"ForceOff\\"}}", {{"Content-Type": "application/json"}}
urllib.request.urlopen(urllib.request.Request(sys.argv[1], body, kind), timeout=10)
' "$MACHINE_RESET"
"""
"""A machine that switches itself off: its BMC sees it, which ``MACHINE_RESET`` leads to."""


def available() -> pathlib.Path:
    """Return the program; without it the test is skipped and says so."""
    program = ENVIRONMENT.resolve() / "bin" / "ironic-python-agent"
    if not program.exists():
        pytest.skip("NOT TESTED: no ironic-python-agent; scripts/agent.sh .venv-agent gets it")
    return program


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
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "tmp").mkdir(exist_ok=True)
        with (folder / "disk.img").open("wb") as disk:
            disk.truncate(DISK_BYTES)
        self._stand_ins()
        shutil.copytree(PLUGIN, folder / "plugin")
        if os.getuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, UID, UID)

    # -- the power ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the agent; returns at once."""
        assert self._process is None or self._process.poll() is not None
        self._configure()
        with (self.folder / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._drop(), str(self.program), "--config-file", str(self._settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                cwd=self.folder,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it as a power-off does: without a word."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)

    @property
    def running(self) -> bool:
        """Tell whether the process lives."""
        return self._process is not None and self._process.poll() is None

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
        """Where it listens."""
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

    def _stand_ins(self) -> None:
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        note = f'echo "$(basename "$0") $*" >> {shlex.quote(str(self.folder / "calls.log"))}'
        disk = self.folder / "disk.img"
        tails = {
            "lsblk": LSBLK.format(disk=disk),
            "lshw": "echo '{}'\n",
            "parted": PARTED.format(disk=disk),
            "poweroff": POWEROFF.format(python=self.program.parent / "python"),
        }
        for name in (*HARMFUL, "lsblk"):
            path = folder / name
            tail = tails.get(name, "")
            path.write_text(f"#!/bin/sh\n{note}\n{tail}exit 0\n")
            path.chmod(0o755)

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
            **self.environment,
        }

    def _drop(self) -> list[str]:
        if os.getuid() != 0:
            return []
        who = ["--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
        return ["setpriv", *who, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--"]


@contextlib.contextmanager
def agent(macs: Sequence[str], api: str | None = None) -> Iterator[Agent]:
    """Give a machine's agent, not started; nothing of it is left afterwards.

    Its folder is one of its own, not of pytest's, which are closed to the agent's user.
    """
    with tempfile.TemporaryDirectory(prefix="il-agent-") as path:
        folder = pathlib.Path(path)
        folder.chmod(0o755)
        found = Agent(folder, macs, api)
        try:
            yield found
        finally:
            found.kill()
            # Shown with a test that failed.
            print(f"--- the end of agent.log, port {found.port}:", found.log()[-20000:], sep="\n")
