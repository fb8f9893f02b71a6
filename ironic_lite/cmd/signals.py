"""Signals of the service's programs: stop, drain, or no effect.

A service gets signals by mistake: log rotation sends SIGUSR1 or SIGHUP, a script the wrong number.
These must not end it or make it ignore later signals. Only signals of a fault of the program
(SIGSEGV, SIGABRT ...) and uncatchable ones (SIGKILL, SIGSTOP) keep the kernel's action.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable, Iterator

DRAIN = signal.SIGUSR2
"""Asks for a stop that gives running work much more time."""
OF_TERMINALS = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGHUP})
"""A terminal sends these to all processes of a program at once."""
_JOB_CONTROL = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
_NAMES = ("SIGUSR1", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGSTKFLT")


def has_terminal() -> bool:
    """Return whether a terminal controls this process; SIGHUP then means its end."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def stops() -> set[signal.Signals]:
    """Return the signals that stop this process, unless ignored, as by nohup.

    SIGHUP is one of them if a terminal controls the process. For a service without a terminal,
    SIGHUP usually asks to read the configuration again, which needs a restart here.
    """
    found = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, DRAIN}
    if has_terminal():
        found.add(signal.SIGHUP)
    return {one for one in found if signal.getsignal(one) is not signal.SIG_IGN}


def harmless() -> set[int]:
    """Return the signals to ignore, which would end the process by default."""
    found = {int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name)}
    found.update(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
    if not has_terminal():
        found |= {*_JOB_CONTROL, signal.SIGHUP}
    return found


class StopRequest:
    """A request to stop, caught once this object exists; for the main thread."""

    def __init__(self) -> None:
        # Any thread may get a signal; its number is written here, before Python runs. Blocking the
        # signals instead would also block them in every program this process starts. A socket is
        # used, because another thread can open a pipe again by its path.
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._wanted = stops()
        self._at_once = False
        for one in {*self._wanted, *harmless()}:
            if signal.getsignal(one) is not signal.SIG_IGN:
                signal.signal(one, self._receive_signal)
        signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _receive_signal(self, number: int, frame: object) -> None:
        if self._at_once and number in self._wanted:
            raise SystemExit(0)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal end the process inside this block, which may wait without limit.

        :raises SystemExit: a signal to stop has arrived.
        """
        self._at_once = True
        try:
            if select.select([self._read], [], [], 0)[0]:
                self._drop_harmless()
            yield
        finally:
            self._at_once = False

    def _drop_harmless(self) -> None:
        if any(number in self._wanted for number in self._read.recv(4096)):
            raise SystemExit(0)

    def wait(
        self, pause: float | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> signal.Signals:
        """Wait for the next signal to stop, and return it.

        :param meanwhile: called at the begin, and again after each ``pause`` seconds or signal.
        """
        while True:
            meanwhile()
            if not select.select([self._read], [], [], pause)[0]:
                continue
            for number in self._read.recv(1):
                if number in self._wanted:
                    return signal.Signals(number)
