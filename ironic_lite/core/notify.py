"""Messages to the service manager, systemd, for units of ``Type=notify``.

Only the main process of a unit sends them; children do not get the address. Without a service
manager nothing is sent. See sd_notify(3) and sd_watchdog_enabled(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

EXTEND_SECONDS = 10.0
"""Seconds between two requests for more time, each of which asks for three times as much."""
_BEATS = 3
"""Number of `alive` within the limit of the watchdog."""


class _Manager:
    """The address of the service manager, and the process that it has started."""

    def __init__(self) -> None:
        self.address: str | None = None
        self.main = 0
        self.watchdog: float | None = None
        """Seconds without `alive` after which the service manager ends the program."""

    @property
    def waits(self) -> bool:
        """True in a process whose messages the service manager expects."""
        return self.address is not None and self.main == os.getpid()


_MANAGER = _Manager()


def begin() -> None:
    """Take the address from the environment; the main process calls this before it forks."""
    _MANAGER.address, _MANAGER.main = os.environ.pop("NOTIFY_SOCKET", None) or None, os.getpid()
    limit, whose = os.environ.pop("WATCHDOG_USEC", ""), os.environ.pop("WATCHDOG_PID", "")
    ours = limit.isdecimal() and whose in ("", str(os.getpid()))
    _MANAGER.watchdog = int(limit) / 1_000_000 if ours else None


def _send(*lines: str) -> None:
    if _MANAGER.address is None or not _MANAGER.waits:
        return
    name = _MANAGER.address
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
    ):
        sock.settimeout(EXTEND_SECONDS)
        sock.sendto("\n".join(lines).encode(), f"\0{name[1:]}" if name.startswith("@") else name)


def ready(status: str) -> None:
    """Report that the start is complete, with a line for ``systemctl status``."""
    _send("READY=1", f"STATUS={status}")


def stopping() -> None:
    """Report that the program stops."""
    _send("STOPPING=1", "STATUS=finishing running work")


def alive() -> None:
    """Report that the main loop runs, for ``WatchdogSec``."""
    if _MANAGER.watchdog is not None:
        _send("WATCHDOG=1")


def pause(longest: float) -> float:
    """Return the seconds that the main loop may rest until `alive`, at most ``longest``."""
    known = _MANAGER.watchdog if _MANAGER.waits else None
    return longest if known is None else min(longest, known / _BEATS)


@contextlib.contextmanager
def extending(status: str | None = None) -> Iterator[None]:
    """Ask for more time again and again inside a block, which may take longer than the unit allows.

    :param status: a line for ``systemctl status``.
    """
    over = threading.Event()

    def extend() -> None:
        lines = [] if status is None else [f"STATUS={status}"]
        while True:
            _send(f"EXTEND_TIMEOUT_USEC={3 * EXTEND_SECONDS * 1_000_000:.0f}", *lines)
            alive()
            if over.wait(pause(EXTEND_SECONDS)):
                return

    if not _MANAGER.waits:
        yield
        return
    thread = threading.Thread(target=extend, name="notify", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
