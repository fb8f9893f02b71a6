"""Free ports for servers that start later; no other program gets them in the meantime.

A free port from the kernel's ephemeral range may soon be the source port of a connection; then the
server that should listen there does not start. These ports are below that range, and all test
processes of this machine take them in turn.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import socket

HOST = "127.0.0.1"
FIRST = 12000
_RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
# Ports belong to the machine, so the file is not in TMPDIR, which a test may have for itself.
_TURN = pathlib.Path("/tmp") / f"ironic-lite-tests-port-{os.getuid()}"


def free_port() -> int:
    """Return a port where nobody listens, and that no other test is given for a long while."""
    last = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32768
    with _TURN.open("a+", encoding="ascii") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        turn.seek(0)
        port = int(turn.read() or FIRST)
        for _ in range(FIRST, last):
            port = port + 1 if FIRST <= port < last - 1 else FIRST
            if _bindable(port):
                turn.truncate(0)
                turn.write(str(port))
                return port
    raise AssertionError(f"no port between {FIRST} and {last} is free")


def _bindable(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server((HOST, port)):
        return True
    return False


def free_ports(count: int) -> int:
    """Return the first of some successive ports, each as of `free_port`."""
    while True:
        found = [free_port() for _ in range(count)]
        if found[-1] - found[0] == count - 1:
            return found[0]
