"""``ironic-lite-api`` that counts its SQL statements in a file.

Run it as ``python -m benchmarks.counting_api FILE --config-file ...``.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import mmap  # noqa: E402  threads.native() must run before any oslo library is imported
import pathlib  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from typing import Any  # noqa: E402

import sqlalchemy as sa  # noqa: E402

from ironic_lite.cmd import api  # noqa: E402
from tests.support.statements import FRAMES  # noqa: E402

_BYTES = 8


def create(path: pathlib.Path) -> pathlib.Path:
    """Create the file, with a count of zero."""
    path.write_bytes(bytes(_BYTES))
    return path


def read(path: pathlib.Path) -> int:
    """Return the number of statements so far."""
    return int.from_bytes(path.read_bytes(), "little")


def main(path: str) -> None:
    """Serve the API and exit; all processes that it forks count in the same file."""
    with pathlib.Path(path).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), _BYTES)
    lock = threading.Lock()

    def add(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.lstrip().upper().startswith(FRAMES):
            return
        with lock:
            count = int.from_bytes(shared[:], "little") + 1
            shared[:] = count.to_bytes(_BYTES, "little")

    sa.event.listen(sa.Engine, "before_cursor_execute", add)
    api.main(sys.argv[2:])


if __name__ == "__main__":
    main(sys.argv[1])
