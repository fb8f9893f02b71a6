"""The disk of a test's machine as a block device: a loop device on a file.

Partitions, file systems and qemu-img need a block device. Root on Linux has loop devices. The agent
gets only its own: it runs in a mount namespace whose /dev has nothing of the host besides ``null``
and the like, so it cannot name another disk. Reading the partition table again needs rights that
the agent does not have. A thread here does that for each connection to a socket; it reads nothing
from the socket, and knows no other device.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shlex
import shutil
import socketserver
import stat
import subprocess
import threading
from collections.abc import Iterator

import pytest

from tests.emulators.agent import stand_ins

PATIENCE = 60.0
_NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
_BLKFLSBUF = 0x1261  # linux/fs.h: write what is in memory, and forget it
_SYS = pathlib.Path("/sys/class/block")


class Loop:
    """A loop device, and the agent that owns it."""

    def __init__(self, device: str, held: int, socket: pathlib.Path, uid: int) -> None:
        self.device = device
        self._held = held
        self.socket = socket
        self.pid: int | None = None
        """Of the agent, in whose /dev partitions appear; None while the machine is off."""
        self._uid = uid
        self._turn = threading.Lock()

    def enclosing(self, command: list[str]) -> list[str]:
        """Return a command that runs another in a /dev of its own."""
        lines = ["mount -t tmpfs -o mode=755,size=64k none /dev", "ln -s /proc/self/fd /dev/fd"]
        lines += [f"mknod -m 666 /dev/{name} c {a} {b}" for name, (a, b) in _NODES.items()]
        for name, (major, minor) in self._numbers().items():
            lines.append(f"mknod -m 600 /dev/{name} b {major} {minor}")
            lines.append(f"chown {self._uid}:{self._uid} /dev/{name}")
        # The agent's PATH has stand-ins for these.
        first = f"own=$PATH; PATH={shlex.quote(os.environ['PATH'])}"
        script = "; ".join([first, *lines, "PATH=$own", 'exec "$@"'])
        return [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            script,
            "sh",
            *command,
        ]

    def look(self) -> None:
        """Let the kernel see the partitions that the table on the disk has, and the agent, too.

        What was written to the device is in the file then, and the other way round.
        """
        with self._turn:
            fcntl.ioctl(self._held, _BLKFLSBUF)
            for change in ("--delete", "--add"):  # each fails where there is no partition
                _run("partx", change, self.device)
            if self.pid is None:
                return
            place = pathlib.Path(f"/proc/{self.pid}/root/dev")
            for old in place.glob(f"{pathlib.Path(self.device).name}p*"):
                old.unlink()
            for name, numbers in self._numbers().items():
                if not (place / name).exists():
                    os.mknod(place / name, stat.S_IFBLK | 0o600, os.makedev(*numbers))
                    os.chown(place / name, self._uid, self._uid)

    def partitions(self) -> list[dict[str, str]]:
        """Return what lies on the disk, in blkid's words, in the order of the table."""
        found = []
        for name in list(self._numbers())[1:]:
            said = _run("blkid", "-p", "-o", "export", f"/dev/{name}")
            pairs = (line.partition("=") for line in said.stdout.splitlines())
            found.append({key: value for key, equal, value in pairs if equal})
        return found

    def _numbers(self) -> dict[str, tuple[int, int]]:
        """Return the device and its partitions by name, with major and minor number."""
        name = pathlib.Path(self.device).name
        found = {}
        for path in sorted([_SYS / name, *_SYS.glob(f"{name}p*")]):
            major, _, minor = (path / "dev").read_text().strip().partition(":")
            found[path.name] = (int(major), int(minor))
        return found


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        self.server.loop.look()
        self.request.sendall(b".")


class _Server(socketserver.UnixStreamServer):
    loop: Loop


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def _attached(file: pathlib.Path) -> str:
    """Return the loop device of a file; skip the test, and say why, where there can be none."""
    missing = [name for name in stand_ins.NEEDED if shutil.which(name) is None]
    if os.getuid() != 0 or missing:
        why = f"no {', '.join(missing)}" if missing else "only root can attach a loop device"
        pytest.skip(f"NOT TESTED: {why}")
    done = _run("losetup", "--find", "--show", "--partscan", str(file))
    if done.returncode:
        pytest.skip(f"NOT TESTED: there are no loop devices here: {done.stderr.strip()}")
    if _run("unshare", "--mount", "true").returncode:
        _run("losetup", "--detach", done.stdout.strip())
        pytest.skip("NOT TESTED: there are no mount namespaces here")
    return done.stdout.strip()


@contextlib.contextmanager
def loop(file: pathlib.Path, uid: int) -> Iterator[Loop]:
    """Attach a file for the length of the block; the kernel detaches it with this process, too.

    :param uid: who is to own the device.
    """
    device = _attached(file)
    held = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    _run("losetup", "--detach", device)  # as soon as nobody has it open
    found = Loop(device, held, file.with_name("look"), uid)
    server = _Server(str(found.socket), _Handler)
    server.loop = found
    found.socket.chmod(0o666)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        _run("partx", "--delete", device)
        os.close(held)
