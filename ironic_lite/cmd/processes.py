"""Child processes of a program: forked, watched, started again, never left behind."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from ironic_lite import errors, lifeline
from ironic_lite.cmd import entry

LOG = logging.getLogger(__name__)

_STEADY = 10.0  # seconds of life after which a child's death does not count as one more in a row
_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
DRAIN = signal.SIGUSR2
"""Asks for a stop that gives running work much more time."""


def stop_signals() -> set[signal.Signals]:
    """Return the signals that stop us: not those that our parent had ignored, as nohup does."""
    return {one for one in _STOP_SIGNALS if signal.getsignal(one) is not signal.SIG_IGN}


class StopRequest:
    """A request to stop, from the moment this object is made. To be made by the main thread."""

    def __init__(self) -> None:
        # Any thread may take the signal; all of them write its number here. Blocking the signals
        # instead would block them in every program that we start, too.
        self._read, write = os.pipe()
        os.set_blocking(write, False)
        self._wanted = stop_signals()
        self._at_once = False
        for one in self._wanted:
            signal.signal(one, self._arrive)
        signal.set_wakeup_fd(write)

    def _arrive(self, number: int, frame: object) -> None:
        if self._at_once:
            raise SystemExit(0)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal end the process inside this block, which may wait for others for ever.

        :raises SystemExit: a signal that stops us has come.
        """
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def wait(self) -> signal.Signals:
        """Return the next signal that stops us, when it has come."""
        while True:
            for number in os.read(self._read, 1):
                if number in self._wanted:
                    return signal.Signals(number)


class Child:
    """One process of ours.

    :param name: for the log.
    :param body: what it does; its return value is the exit status.
    :param stop_seconds: how long it may take to stop; None is for ever.
    :param orphaned: the signal it gets when its parent is gone (Linux); None lets it finish.
    :param stop_signal: what asks it to stop.
    :param drain_seconds: how long it may take to stop after `DRAIN`, as ``stop_seconds``; without,
        it knows no such stop.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[], int],
        *,
        stop_seconds: float | None = None,
        orphaned: signal.Signals | None = signal.SIGKILL,
        stop_signal: signal.Signals = signal.SIGTERM,
        drain_seconds: float | None = 0.0,
    ) -> None:
        self.name = name
        self.pid = 0
        self.start_at: float | None = None
        """When to start it again; None while it runs."""
        self.stop_seconds = stop_seconds
        self._stop_signal = stop_signal
        self._drain_seconds = drain_seconds
        self._body = body
        self._orphaned = orphaned
        self._started = 0.0
        self._deaths = 0

    def start(self) -> None:
        """Fork it; if the system has no room for it, it is due again later."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.start_at = None
        self._started = time.monotonic()
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError as why:
            LOG.error("%s cannot be started now: %s", self.name, why)
            self.died()
            return
        if self.pid == 0:
            self._live(parent)

    def _live(self, parent: int) -> None:
        status = entry.EXIT_FAULT
        try:
            self._be_born(parent)
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
            logging.shutdown()
            os._exit(status)  # a thread that would not end must not keep the process

    def _be_born(self, parent: int) -> None:
        gc.enable()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # The terminal sends these to all of us; but the parent stops its children in order. Blocked
        # as well, because libraries put handlers in the place of the ignoring.
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT, signal.SIGHUP})
        if self._orphaned is not None:
            lifeline.end_with(parent, self._orphaned)

    def stop(self, *, drain: bool) -> None:
        """Ask it to stop; with ``drain``, it may take its time, if it knows how to."""
        if drain and self._drain_seconds != 0:
            self.stop_seconds = self._drain_seconds
            os.kill(self.pid, DRAIN)
        else:
            os.kill(self.pid, self._stop_signal)

    def died(self) -> None:
        """Note its death and when it is to be started again: later each time in a row."""
        now = time.monotonic()
        self._deaths = 1 if now - self._started > _STEADY else self._deaths + 1
        pause = _SHORTEST_PAUSE * 2 ** min(self._deaths - 1, 10)
        self.start_at = now + min(_LONGEST_PAUSE, pause)
        self.pid = 0


def run(child: Child) -> int:
    """Wait for a child that has been started; returns its exit status, 1 if a signal ended it."""
    _, code = os.waitpid(child.pid, 0)
    status = os.waitstatus_to_exitcode(code)
    return status if status >= 0 else entry.EXIT_FAULT


def supervise(*groups: Sequence[Child], closing: Callable[[], None] = lambda: None) -> int:
    """Run children until a signal, starting again what dies; returns the exit status.

    A child that ends with status 2 (bad configuration) ends everything with that status. On the way
    down the groups are stopped in order, each being waited for before the next; a second signal
    makes it quick.

    :param closing: called before the children are stopped.
    """
    # Children share with us all they do not write to. A garbage collection would write to it.
    gc.freeze()
    stops = stop_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, {*stops, signal.SIGCHLD})
    children = [child for group in groups for child in group]
    for child in children:
        child.start()
    fatal = _watch(children, stops)
    drain = fatal == -DRAIN
    if drain or not fatal:
        LOG.info("Stopping%s", ", when all work has ended" if drain else "")
    closing()
    for group in groups:
        _end(group, stops, drain=drain)
    return 0 if drain else fatal


def _watch(children: Sequence[Child], stops: set[signal.Signals]) -> int:
    """Start again what dies; return 0 after a signal, minus `DRAIN` after that one, or a status
    that ends everything.
    """
    while True:
        due = [child.start_at for child in children if child.start_at is not None]
        timeout = max(0.0, min(due) - time.monotonic()) if due else 3600.0
        seen = signal.sigtimedwait({*stops, signal.SIGCHLD}, timeout)
        if seen is not None and seen.si_signo in stops:
            return -DRAIN if seen.si_signo == DRAIN else 0
        for child, status in _reap(children):
            if status == entry.EXIT_CONFIG:
                return status
            LOG.error("%s ended %s; it is started again", child.name, _manner(status))
        for child in children:
            if child.start_at is not None and child.start_at <= time.monotonic():
                child.start()


def _manner(status: int) -> str:
    return f"with status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"


def _reap(children: Sequence[Child]) -> list[tuple[Child, int]]:
    """Return the children that have died, each with its status, minus the signal that killed it."""
    found = []
    for child in children:
        if not child.pid:
            continue
        pid, code = os.waitpid(child.pid, os.WNOHANG)
        if pid:
            child.died()
            found.append((child, os.waitstatus_to_exitcode(code)))
    return found


def _end(group: Sequence[Child], stops: set[signal.Signals], *, drain: bool = False) -> None:
    """Stop children, by force when their time is over or another signal comes."""
    begin = time.monotonic()
    for child in group:
        if child.pid:
            child.stop(drain=drain)
    while True:
        _reap(group)
        left = [child for child in group if child.pid]
        if not left:
            return
        limits = [child.stop_seconds for child in left if child.stop_seconds is not None]
        timeout = max(0.0, begin + min(limits) - time.monotonic()) if limits else 3600.0
        seen = signal.sigtimedwait({*stops, signal.SIGCHLD}, timeout)
        if seen is not None and seen.si_signo == signal.SIGCHLD:
            continue
        if seen is None and not limits:
            continue
        for child in left:
            LOG.warning("%s has not stopped in time; it is killed", child.name)
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            child.pid = 0
