"""Names of the processes of one conductor machine.

The name of a process is the name of its machine, from the second one on with a colon and a number
from 2 to 99. [DEFAULT]host may be either, but [conductor]processes needs one without a colon.
"""

from __future__ import annotations

_MARK = ":"


def of_processes(host: str, count: int) -> tuple[str, ...]:
    """Return the names of the processes of a machine; the first has the machine's own name.

    So one process keeps its locks when an operator asks for more.
    """
    return (host, *(f"{host}{_MARK}{number}" for number in range(2, count + 1)))


def number(name: str) -> int:
    """Return the number of a process on its machine; the first is 1."""
    return int(name.partition(_MARK)[2] or 1)


def machine(name: str) -> str:
    """Return the name of the machine of a process."""
    return name.partition(_MARK)[0]
