"""Child processes that end with their parent, however it ends.

The parent holds one end of a pair of sockets and never writes. The kernel closes that end with the
parent, by SIGKILL too, and a thread of each child reads the end of file from the other end.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class ParentDeath:
    """A pair of sockets; the parent makes it before it forks."""

    def __init__(self) -> None:
        # Sockets, because another process can open a pipe's end by its path.
        self._kept, self._given = socket.socketpair()

    def follow(self, end: Callable[[], None]) -> None:
        """Call ``end`` when the parent has died; a child calls this right after the fork."""
        # A copy in the child would keep the parent's end open after the parent's death.
        self._kept.close()
        threading.Thread(
            target=self._watch_parent, args=(end,), name="lifeline", daemon=True
        ).start()

    def _watch_parent(self, end: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            self._given.recv(1)
        end()
