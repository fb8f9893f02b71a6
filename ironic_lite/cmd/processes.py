"""Child processes of ``ironic-lite``: forked, watched, started again, never left behind."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from ironic_lite import errors
from ironic_lite.cmd import entry

LOG = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_STEADY = 10.0  # seconds of life after which a child's death does not count as one more in a row
_LONGEST_PAUSE = 10.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def die_with_parent() -> None:
    """Have the kernel send SIGTERM to this process when its parent is gone (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """One process of ours.

    :param name: for the log.
    :param body: what it does; its return value is the exit status.
    """

    def __init__(self, name: str, body: Callable[[], int]) -> None:
        self.name = name
        self.pid = 0
        self._body = body
        self._started = 0.0
        self._deaths = 0
        self.start_at = 0.0

    def start(self) -> None:
        """Fork it."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._started = time.monotonic()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._live(parent)

    def _live(self, parent: int) -> None:
        status = entry.EXIT_FAULT
        try:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_SIGNALS, signal.SIGCHLD})
            die_with_parent()
            if os.getppid() == parent:  # it might have died before the line above
                status = self._body()
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else entry.EXIT_FAULT
        except errors.Error as why:
            status = entry.refuse(self.name, why)
        except BaseException:
            LOG.exception("%s failed", self.name)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def died(self) -> None:
        """Note its death and when it is to be started again: later each time in a row."""
        now = time.monotonic()
        self._deaths = 1 if now - self._started > _STEADY else self._deaths + 1
        self.start_at = now + min(_LONGEST_PAUSE, 0.1 * 2 ** (self._deaths - 1))
        self.pid = 0


def run(child: Child) -> int:
    """Run one child to its end; returns its exit status, 1 if a signal ended it."""
    child.start()
    _, code = os.waitpid(child.pid, 0)
    status = os.waitstatus_to_exitcode(code)
    return status if status >= 0 else entry.EXIT_FAULT


def supervise(children: Sequence[Child]) -> int:
    """Run children until a signal, starting again what dies; returns the exit status.

    A child that ends with status 2 (bad configuration) ends everything with that status. SIGTERM
    and SIGINT go to the children in order, each being waited for before the next.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_SIGNALS, signal.SIGCHLD})
    for child in children:
        child.start()
    status = 0
    while True:
        pause = min([one.start_at for one in children if one.start_at] or [0.0])
        timeout = max(0.0, pause - time.monotonic()) if pause else 3600.0
        seen = signal.sigtimedwait({*_SIGNALS, signal.SIGCHLD}, timeout)
        if seen is not None and seen.si_signo in _SIGNALS:
            break
        fatal = _reap(children)
        if fatal is not None:
            status = fatal
            break
        _start_again(children)
    _end(children)
    return status


def _reap(children: Sequence[Child]) -> int | None:
    """Take note of the dead; return a status that ends everything."""
    for child in children:
        if not child.pid:
            continue
        pid, code = os.waitpid(child.pid, os.WNOHANG)
        if pid == 0:
            continue
        status = os.waitstatus_to_exitcode(code)
        child.died()
        if status == entry.EXIT_CONFIG:
            return status
        LOG.error("%s ended with status %d; it is started again", child.name, status)
    return None


def _start_again(children: Sequence[Child]) -> None:
    now = time.monotonic()
    for child in children:
        if child.start_at and child.start_at <= now:
            child.start_at = 0.0
            child.start()


def _end(children: Sequence[Child]) -> None:
    for child in children:
        if child.pid:
            os.kill(child.pid, signal.SIGTERM)
            os.waitpid(child.pid, 0)
            child.pid = 0
