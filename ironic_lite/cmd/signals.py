"""Signals of the service's programs: stop, drain, another log level, or no effect.

A service gets signals by mistake: log rotation sends SIGHUP, a script the wrong number.
These must not end it or make it ignore later signals. Only signals of a fault of the program
(SIGSEGV, SIGABRT ...) and uncatchable ones (SIGKILL, SIGSTOP) keep the kernel's action.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import mmap
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator

LOG = logging.getLogger(__name__)

DRAIN = signal.SIGUSR2
"""Asks for a stop that gives running work much more time."""
LOG_LEVEL = signal.SIGUSR1
"""Switches the log level between the configured one and DEBUG."""
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


class LogLevel:
    """The level of the root logger in a process and its children.

    The process that makes this object switches the level, and its children take it over. So all
    agree though a service manager may send the signal to each of them, or the kernel merges two.
    """

    def __init__(self) -> None:
        self._first = os.getpid()
        self._configured = logging.getLogger().level
        self._debug = mmap.mmap(-1, 1)  # shared with children
        self._debug[0] = False

    def switch(self) -> None:
        """Switch the level and log it; in a child: take over the level of its parent."""
        first = os.getpid() == self._first
        if first:
            self._debug[0] = not self._debug[0]
        debug = self._debug[0]
        logging.getLogger().setLevel(logging.DEBUG if debug else self._configured)
        if first and debug:
            LOG.warning("SIGUSR1: the log level is DEBUG until the next SIGUSR1, or a restart")
        elif first:
            name = logging.getLevelName(self._configured)
            LOG.warning("SIGUSR1: the log level is %s again, as configured", name)


@functools.cache
def log_level() -> LogLevel:
    """Return the level; the first process of a program calls this before it forks."""
    return LogLevel()


def follow_log_level() -> None:
    """Take over the parent's log level at each signal; for a child that blocks `harmless`."""

    def follow() -> None:
        while True:
            signal.sigwait({LOG_LEVEL})
            log_level().switch()

    threading.Thread(target=follow, name="log-level", daemon=True).start()


class StopRequest:
    """A request to stop, caught once this object exists; for the main thread.

    `wait` switches the log level meanwhile.
    """

    def __init__(self) -> None:
        # Any thread may get a signal; its number is written here, before Python runs. Blocking the
        # signals instead would also block them in every program this process starts. A socket is
        # used, because another thread can open a pipe again by its path.
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._wanted = stops()
        self._level = log_level()
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
            if select.select([self._read], [], [], 0)[0] and self._read_stop(4096) is not None:
                raise SystemExit(0)
            yield
        finally:
            self._at_once = False

    def _read_stop(self, most: int) -> signal.Signals | None:
        """Read signals, switch the log level if they ask for it; return one to stop, if any."""
        numbers = self._read.recv(most)
        for _ in range(numbers.count(LOG_LEVEL)):
            self._level.switch()
        return next((signal.Signals(each) for each in numbers if each in self._wanted), None)

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
            found = self._read_stop(1)
            if found is not None:
                return found
