"""Clocks that tests turn, one for each process: a small library is loaded before the C library.

It leaves waiting alone. The well-known library for this makes clients of a broker wait for ever.
"""

from __future__ import annotations

import pathlib
import struct
import subprocess
from collections.abc import Mapping

from tests.support import private_servers

_LONG = struct.Struct("l")


def build(folder: pathlib.Path) -> None:
    """Build the library.

    :raises servers.Lacking: there is no C compiler.
    """
    source = pathlib.Path(__file__).with_suffix(".c")
    compiler = private_servers.program("cc")
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(folder / "clock.so"), str(source)]
    subprocess.run(command, check=True, timeout=60)


def environment(folder: pathlib.Path, name: str) -> Mapping[str, str]:
    """Return what makes a process have the clock of this name."""
    turn(folder, name, 0)
    return {"LD_PRELOAD": str(folder / "clock.so"), "CHAOS_CLOCK": str(folder / name)}


def turn(folder: pathlib.Path, name: str, seconds: int) -> None:
    """Set a clock: to so many seconds beside the right time."""
    path = folder / name
    path.touch()
    with path.open("r+b", buffering=0) as file:  # in place: the process has it in its memory
        file.write(_LONG.pack(seconds))
