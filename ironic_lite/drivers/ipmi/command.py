"""Command lines of ipmitool, with the secrets in the environment.

Only its own user can read a process's environment, but every user can read its command line, and a
file would outlive a killed conductor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ironic_lite.drivers.ipmi import info

PROGRAM = "ipmitool"

TRIES, PATIENCE = 3, 1
"""Retries of ipmitool against lost packets: the number of attempts, and the seconds before the
second one. Each further pause is a second longer.
"""
SILENT_SECONDS = 2 * sum(range(PATIENCE, PATIENCE + TRIES))
"""Time after which a silent BMC is given up, as ipmitool tries two kinds of greeting."""


def line(node: info.Info, words: Sequence[str], *, cipher: int | None = None) -> list[str]:
    """Return the command line that sends the command ``words`` to the node's BMC.

    :param cipher: the cipher suite, None to let ipmitool ask the BMC for its best.
    """
    # -v prints to standard error why there is no session: the password, or silence.
    return [PROGRAM, "-v", *_session_arguments(node, cipher), *words]


def terminal(node: info.Info, *, cipher: int | None = None) -> list[str]:
    """Return the command line for the serial port: serial over LAN (IPMI 2.0, 15).

    :param cipher: as in `line`.
    """
    return [PROGRAM, *_session_arguments(node, cipher), "sol", "activate"]


def _session_arguments(node: info.Info, cipher: int | None) -> list[str]:
    found = ["-I", node.interface, "-H", node.address, "-p", str(node.port)]
    if node.username is not None:
        found += ["-U", node.username]
    found += ["-L", node.privilege, "-R", str(TRIES), "-N", str(PATIENCE), "-E"]
    if cipher is not None:
        found += ["-C", str(cipher)]
    if node.key is not None:
        found += ["-K"]
    return [*found, *_bridge_arguments(node.bridge)]


def environment(node: info.Info, outer: Mapping[str, str] = os.environ) -> dict[bytes, bytes]:
    """Return the environment of ipmitool: the secrets, and few variables of ``outer``."""
    found = {
        b"PATH": outer.get("PATH", os.defpath).encode("utf-8", "surrogateescape"),
        # This module parses its messages.
        b"LC_ALL": b"C",
        # Always set: without a password ipmitool would ask for one.
        b"IPMI_PASSWORD": node.password.encode(),
    }
    if node.key is not None:
        found[b"IPMI_KGKEY"] = node.key
    return found


def _bridge_arguments(bridge: info.Bridge | None) -> list[str]:
    if bridge is None:
        return []
    found: list[str] = []
    if bridge.local_address is not None:
        found += ["-m", hex(bridge.local_address)]
    if bridge.transit is not None:
        channel, address = bridge.transit
        found += ["-B", hex(channel), "-T", hex(address)]
    channel, address = bridge.target
    return [*found, "-b", hex(channel), "-t", hex(address)]
