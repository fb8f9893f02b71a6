"""The processes of a program: started, supervised, renewed, and stopped by signals."""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import mmap
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from ironic_lite import errors, membership
from ironic_lite.cmd import entry
from ironic_lite.core import config, notify
from ironic_lite.core.options import Configuration

# Child processes that end with their parent, however it ends.
#
# The parent holds one end of a pair of sockets and never writes. The kernel closes that end with
# the parent, by SIGKILL too, and a thread of each child reads the end of file from the other end.


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


# Signals of the service's programs: stop, drain, another log level, or no effect.
#
# A service gets signals by mistake: log rotation sends SIGHUP, a script the wrong number.
# These must not end it or make it ignore later signals. Only signals of a fault of the program
# (SIGSEGV, SIGABRT ...) and uncatchable ones (SIGKILL, SIGSTOP) keep the kernel's action.

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


def stop_signals() -> set[signal.Signals]:
    """Return the signals that stop this process, unless ignored, as by nohup.

    SIGHUP is one of them if a terminal controls the process. A service without a terminal reads
    its configuration again.
    """
    found = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, DRAIN}
    if has_terminal():
        found.add(signal.SIGHUP)
    return {one for one in found if signal.getsignal(one) is not signal.SIG_IGN}


def harmless_signals() -> set[int]:
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

    def configure(self, level: int) -> None:
        """Take another configured level."""
        self._configured = level
        if not self._debug[0]:
            logging.getLogger().setLevel(level)


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
        self._wanted = stop_signals()
        self._level = log_level()
        self._at_once = self._hung_up = False
        for one in {*self._wanted, *harmless_signals()}:
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
        self._hung_up = self._hung_up or signal.SIGHUP in numbers
        return next((signal.Signals(each) for each in numbers if each in self._wanted), None)

    def wait(
        self,
        pause: float | None = None,
        meanwhile: Callable[[], object] = lambda: None,
        reload: entry.Reload | None = None,
    ) -> signal.Signals:
        """Wait for the next signal to stop, and return it.

        :param meanwhile: called at the begin, and again after each ``pause`` seconds or signal.
        :param reload: what SIGHUP asks for.
        """
        while True:
            meanwhile()
            left = pause
            if reload is not None:
                if self._hung_up:
                    reload.request()
                    self._hung_up = False
                left = min(reload.step(), _LOOK if pause is None else pause)
            if not select.select([self._read], [], [], left)[0]:
                continue
            found = self._read_stop(1)
            if found is not None:
                if reload is not None:
                    reload.stop()
                return found


# Child processes of a program: forked, watched, restarted, never left behind.
#
# They are forked, so that they share the modules their parent has loaded; ``gc.freeze`` keeps
# garbage collections from writing to that memory. Measured idle with one worker of the API, all
# processes together: 145 MiB PSS instead of 153 if the conductor is forked before ``gc.freeze``. A
# worker started separately would take 60.


_STEADY = 10.0  # seconds of life after which the count of deaths in a row starts again
_SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 10.0


@functools.cache
def _parent_socket() -> ParentDeath:
    return ParentDeath()


class Flag:
    """An event shared by processes forked from one parent; once set, it stays set."""

    def __init__(self) -> None:
        # No process reads the byte.
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def set(self) -> None:
        """Set the event; all waiting processes continue."""
        if not self.wait(0):
            os.write(self._write, b"!")

    def wait(self, seconds: float | None = None) -> bool:
        """Return whether it is set, waiting up to ``seconds``; None waits without limit."""
        return bool(select.select([self._read], [], [], seconds)[0])

    def close(self) -> None:
        """Free its descriptors in this process."""
        os.close(self._read)
        os.close(self._write)


def wait_for_flags(flags: Sequence[Flag]) -> None:
    """Wait until all flags are set."""
    for one in flags:
        one.wait()


class Channel:
    """Values of options for a child, and for those that replace it.

    Each message has all values that the child can use, so the next one makes up for a lost one.
    """

    def __init__(self, conf: Configuration) -> None:
        self._conf = conf
        self.begun: entry.Values = {}
        """The values with which the child was started."""
        self._given, self._taken = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._given.setblocking(False)

    def begin(self) -> None:
        """Note the values with which a child is started now; older messages are void."""
        with contextlib.suppress(BlockingIOError):
            while self._taken.recv(_LARGEST, socket.MSG_DONTWAIT):
                pass
        self.begun = entry.read_values(self._conf)

    def send(self) -> None:
        """Send the values of this process to the child; it does not have to be up.

        :raises OSError: they are too many, or the child does not take those before them.
        """
        values = entry.of_conductors(entry.read_values(self._conf))
        self._given.send(pickle.dumps(values))

    def follow(self) -> None:
        """Use all values that are sent from now on; a child calls this."""

        def follow() -> None:
            while True:
                use_values(self._conf, pickle.loads(self._taken.recv(_LARGEST)))

        threading.Thread(target=follow, name="reload", daemon=True).start()


class Child:
    """One child process.

    :param name: for the log.
    :param body: the work; its return value is the exit status.
    :param stop_seconds: time limit for its stop; None is no limit.
    :param orphaned: the signal it gets when its parent is gone, followed by SIGKILL after its time
        limit for a stop; None lets it finish.
    :param stop_signal: the signal that asks for a stop.
    :param drain_seconds: time limit for its stop after `DRAIN`, as ``stop_seconds``; 0 if it does
        not support that signal.
    :param channel: followed by its body.

    Call `held` before the first child is started.
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
        channel: Channel | None = None,
    ) -> None:
        self.name = name
        self.channel = channel
        self.ready = Ready()
        self.pid = 0
        self.former = 0
        """The process that serves until the one that replaces it can; 0 without one."""
        self.kept = False
        """True once the last process that was to replace it has ended."""
        self.side = 0
        """0 or 1; other than that of the process that it replaces."""
        self.start_at: float | None = None
        """The time of its next start; None while it runs."""
        self.stop_seconds = stop_seconds
        self._stop_signal = stop_signal
        self._drain_seconds = drain_seconds
        self._body = body
        self._orphaned = orphaned
        self._started = 0.0
        self._deaths = 0
        # The number of its starts.
        self.lives = 0

    def start(self) -> None:
        """Fork it; if the system refuses, schedule another start."""
        sys.stdout.flush()
        sys.stderr.flush()
        # Children share all memory that they do not write to. A garbage collection would write to
        # all objects that are not frozen.
        gc.freeze()
        if self.channel is not None:
            self.channel.begin()
        self.start_at = None
        self._started = time.monotonic()
        line = _parent_socket()
        try:
            self.pid = os.fork()
        except OSError as why:
            LOG.error("%s cannot be started now: %s", self.name, why)
            self.died()
            return
        if self.pid == 0:
            self._run_child(line)
        self.lives += 1

    def _run_child(self, line: ParentDeath) -> None:
        status = entry.EXIT_FAULT
        try:
            self._begin_child(line)
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
            os._exit(status)  # a thread that does not end must not keep the process alive

    def _begin_child(self, line: ParentDeath) -> None:
        gc.enable()
        if self._orphaned is not None:
            line.follow(self._end_orphaned)
        # A terminal sends these to all processes, but the parent stops its children in order. They
        # are blocked as well, because libraries replace an ignored signal by a handler.
        for number in OF_TERMINALS:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(DRAIN, lambda *_: None)
        blocked = {*OF_TERMINALS, *harmless_signals()} - {self._stop_signal}
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _end_orphaned(self) -> None:
        if self._orphaned is not None and self.stop_seconds is not None:
            os.kill(os.getpid(), self._orphaned)
            time.sleep(self.stop_seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    def stop(self, *, drain: bool) -> None:
        """Ask it to stop; with ``drain``, within the longer limit if it supports that."""
        if self.former:
            os.kill(self.former, self._stop_signal)
        if not self.pid:
            return
        if drain and self._drain_seconds != 0:
            self.stop_seconds = self._drain_seconds
            os.kill(self.pid, DRAIN)
        else:
            os.kill(self.pid, self._stop_signal)

    def take_log_level(self) -> None:
        """Ask it to take over this process's log level."""
        for pid in self._running():
            os.kill(pid, LOG_LEVEL)

    def _running(self) -> list[int]:
        return [pid for pid in (self.pid, self.former) if pid]

    def kill(self) -> None:
        """End it at once."""
        for pid in self._running():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.pid = self.former = 0

    def replace(self) -> bool:
        """Start another process beside this one; return whether the system allowed it."""
        self.former, self.kept, self.side = self.pid, False, 1 - self.side
        self.start()
        if self.pid == self.former or not self.pid:
            self.keep_former()
        return bool(self.former)

    def keep_former(self) -> None:
        """Go back to the process that was to be replaced."""
        self.pid, self.former, self.start_at = self.former, 0, None
        self.kept, self.side = True, 1 - self.side

    def died(self) -> None:
        """Record its death and schedule its restart, later after each death in a row."""
        now = time.monotonic()
        self._deaths = 1 if now - self._started > _STEADY else self._deaths + 1
        pause = _SHORTEST_PAUSE * 2 ** min(self._deaths - 1, 10)
        self.start_at = now + min(LONGEST_PAUSE, pause)
        self.pid = 0


def hold_signals() -> set[signal.Signals]:
    """Block signals until `run` or `supervise` waits; return those that mean a stop.

    Children started later do not block them.
    """
    log_level()
    stops = stop_signals()
    waiting = {*stops, signal.SIGHUP, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, {*waiting, *harmless_signals()})
    return stops


def run_child(child: Child) -> int:
    """Wait for a started child; return its exit status, 1 if a signal ended it.

    :raises SystemExit: a signal to stop this process has arrived.
    """
    stops = hold_signals()
    while not (ended := _reap_children([child])):
        seen = signal.sigtimedwait({*stops, signal.SIGCHLD}, _seconds_to_next_start([child]))
        if seen is not None and seen.si_signo in stops:
            raise SystemExit(0)
        _start_due([child])  # if the system has refused an earlier start
    ((_, status),) = ended
    return status if status >= 0 else entry.EXIT_FAULT


_REPLACING = 0.1
"""Seconds between two looks at a process that is being replaced."""
_OPENING = 3.0
"""Seconds a process that begins to serve may take to open its socket.

The server does not report its own socket, and a connection to the address may reach another
process.
"""
_REPLACING_SECONDS = 60.0
"""Most seconds until a replacement serves, or has ended."""
_MOST_TRIES = 10
"""New processes for one that is replaced, if they end before they serve."""
_LOOK = 3600.0
"""Seconds without any event after which the children are checked."""
_LARGEST = 1 << 20
"""Bytes of the values of options for a child."""


class Renewal:
    """Replaces children one after the other, so that they serve with what files have now.

    The next one is replaced after the one before it has ended. A new process that ends before it
    serves is followed by another one, ten times at most.

    :param children: processes that serve beside each other, and set ``ready`` when they begin.
    :param due: returns whether to replace all of them; asked every ``pause`` seconds.
    """

    def __init__(self, children: Sequence[Child], due: Callable[[], bool], pause: float) -> None:
        self._children, self._due, self._pause = children, due, pause
        self._left: list[Child] = []
        self._current: Child | None = None
        self._asked = time.monotonic()
        self._limit = self._next = 0.0
        self._stopped = False
        self._failed = 0
        """New processes of the present child that have ended, one after the other."""

    def begin(self) -> None:
        """Replace all of them, also those that were replaced a moment ago."""
        self._left, self._failed, self._next = list(self._children), 0, 0.0

    def step(self) -> float:
        """Do what is due; return the seconds until the next step."""
        now = time.monotonic()
        if self._current is not None:
            self._follow(self._current, now)
        if self._current is None and self._left and now >= self._next:
            self._begin(self._left.pop(0), now)
        if self._current is not None or self._left:
            return _REPLACING
        if now - self._asked >= self._pause:
            self._asked = now
            if self._due():
                self.begin()
                return 0.0
        return max(0.0, self._asked + self._pause - now)

    def _begin(self, child: Child, now: float) -> None:
        # One that is restarted anyway reads the new files.
        if not child.pid:
            self._failed = 0
            return
        child.ready.clear()
        self._current, self._limit, self._stopped = child, now + _REPLACING_SECONDS, False
        if not child.replace():
            self._end(child, now)

    def _end(self, child: Child, now: float) -> None:
        """Go on with the next child, or later with this one if its new process has ended."""
        self._current = None
        self._failed = self._failed + 1 if child.kept else 0
        if self._failed == _MOST_TRIES:
            advice = "correct the cause, which the log has, and send SIGHUP"
            LOG.error("%s is not replaced after %d tries: %s", child.name, self._failed, advice)
            self._failed = 0
        elif self._failed and child not in self._left:
            self._left.insert(0, child)
            self._next = now + min(LONGEST_PAUSE, _SHORTEST_PAUSE * 2**self._failed)

    def _follow(self, child: Child, now: float) -> None:
        """Stop the former process once the new one serves."""
        if not child.former:
            self._end(child, now)  # it has ended, or the new one has died
        elif not self._stopped and child.ready.for_a_while():
            os.kill(child.former, signal.SIGTERM)
            self._stopped, self._limit = True, now + (child.stop_seconds or _REPLACING_SECONDS)
        elif now > self._limit and self._stopped:
            os.kill(child.former, signal.SIGKILL)
        elif now > self._limit:
            LOG.error("%s: its replacement does not begin to serve, and is ended", child.name)
            os.kill(child.pid, signal.SIGKILL)
            self._limit = now + _REPLACING_SECONDS


class Ready:
    """Tells a parent that the last process of a child has begun to serve."""

    def __init__(self) -> None:
        self._flag = Flag()
        self._since: float | None = None

    def set(self) -> None:
        """Say it, in the child."""
        self._flag.set()

    def clear(self) -> None:
        """Forget it, before another child is started."""
        self._flag.close()
        self._flag, self._since = Flag(), None

    def for_a_while(self) -> bool:
        """Return whether it was said some seconds ago: the socket is opened right after it."""
        if self._since is None and self._flag.wait(0):
            self._since = time.monotonic()
        return self._since is not None and time.monotonic() - self._since > _OPENING


def use_values(conf: Configuration, values: entry.Values) -> None:
    """Use values of a configuration that was read again, also for the levels of the log."""
    former = conf["default_log_levels"]
    entry.replace_values(conf, values)
    if former != conf["default_log_levels"]:
        named = dict(line.split("=", 1) for line in conf["default_log_levels"])
        for name in {*named, *(line.partition("=")[0] for line in former)}:
            logging.getLogger(name).setLevel(named.get(name, logging.NOTSET))
    log_level().configure(logging.DEBUG if conf["debug"] else logging.INFO)


def reload(
    conf: Configuration,
    prog: str,
    renewal: Renewal | None = None,
    followers: Sequence[Child] = (),
) -> entry.Reload:
    """Return what reads the configuration again at SIGHUP.

    Children that are started later have all of its values, as those of a restart.

    :param renewal: replaces the processes of the API, if this program has some.
    :param followers: the children with a channel: conductors and their file server.
    """

    def use(values: entry.Values) -> list[entry.Values]:
        alone = renewal is None and not followers
        use_values(conf, entry.of_conductors(values) if alone else values)
        begun = []
        for child in followers:
            assert child.channel is not None
            begun.append(child.channel.begun)
            try:
                child.channel.send()
            except OSError as why:
                LOG.error("%s keeps the values that it has: %s", child.name, why)
        if renewal is not None:
            renewal.begin()
        return begun

    return entry.Reload(conf, prog, use)


def supervise(
    *groups: Sequence[Child],
    renewal: Renewal | None = None,
    reload: entry.Reload | None = None,
    announce: Callable[[], object] = lambda: None,
) -> int:
    """Run children until a signal and restart those that die; return the exit status.

    :param announce: called on a thread when all children are started; it waits until they are up,
        and reports it to the service manager.

    A child whose first life ends with status 2 (bad configuration) ends all children with that
    status. Later, the same status has another cause, such as a changed file. Then the child is
    restarted like any other, and its siblings keep serving. At a stop the groups are stopped in
    order, each after the previous one has ended; a second signal speeds this up.

    :param renewal: replaces some of the children while they serve.
    :param reload: what SIGHUP asks for.
    """
    stops = hold_signals()
    children = [child for group in groups for child in group]
    for child in children:
        if not child.lives:
            child.start()
    threading.Thread(target=announce, name="announce", daemon=True).start()
    fatal = _watch_children(children, stops, renewal, reload)
    notify.stopping()
    if reload is not None:
        reload.stop()
    drain = fatal == -DRAIN
    if drain or not fatal:
        LOG.info("Stopping%s", ", after all work has ended" if drain else "")
    with notify.extending():
        for group in groups:
            _end_children(group, stops, drain=drain)
    return 0 if drain else fatal


def _watch_children(
    children: Sequence[Child],
    stops: set[signal.Signals],
    renewal: Renewal | None,
    reload: entry.Reload | None,
) -> int:
    """Restart children that die until a signal to stop.

    Return 0 after a signal, minus `DRAIN` after that signal, or a status that ends all.
    """
    while True:
        notify.alive()
        for child, status in _reap_children(children):
            if status == entry.EXIT_CONFIG and child.lives == 1:
                return status
            _log_end(child, status)
        waited = {*stops, signal.SIGHUP, LOG_LEVEL, signal.SIGCHLD}
        pause = _seconds_to_next_start(children)
        pause = min([pause, *(one.step() for one in (reload, renewal) if one is not None)])
        seen = signal.sigtimedwait(waited, notify.pause(pause))
        if seen is not None and seen.si_signo in stops:
            return -DRAIN if seen.si_signo == DRAIN else 0
        if seen is not None and seen.si_signo == signal.SIGHUP and reload is not None:
            reload.request()
        if seen is not None and seen.si_signo == LOG_LEVEL:
            log_level().switch()
            for child in children:
                child.take_log_level()
        _start_due(children)


def _seconds_to_next_start(children: Sequence[Child]) -> float:
    """Return the seconds until a child must be started, `_LOOK` without one."""
    due = [child.start_at for child in children if child.start_at is not None]
    return max(0.0, min(due) - time.monotonic()) if due else _LOOK


def _start_due(children: Sequence[Child]) -> None:
    """Start the children whose time has come."""
    for child in children:
        if child.start_at is not None and child.start_at <= time.monotonic():
            child.start()


def _log_end(child: Child, status: int) -> None:
    how = f"with status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"
    if child.pid:
        LOG.warning("%s: its replacement ended %s", child.name, how)
    else:
        LOG.error("%s ended %s; it is restarted", child.name, how)


def _reap_children(children: Sequence[Child]) -> list[tuple[Child, int]]:
    """Return the dead children with their status, or minus their signal.

    A child whose replacement has ended goes back to its former process.
    """
    found = []
    for child in children:
        if child.former and os.waitpid(child.former, os.WNOHANG)[0]:
            child.former = 0
        if not child.pid:
            continue
        pid, code = os.waitpid(child.pid, os.WNOHANG)
        if not pid:
            continue
        if child.former:
            child.keep_former()
        else:
            child.died()
        found.append((child, os.waitstatus_to_exitcode(code)))
    return found


def _end_children(
    group: Sequence[Child], stops: set[signal.Signals], *, drain: bool = False
) -> None:
    """Stop children; kill them after their time limit or on another signal."""
    begin = time.monotonic()
    for child in group:
        child.stop(drain=drain)
    while True:
        _reap_children(group)
        left = [child for child in group if child.pid or child.former]
        if not left:
            return
        limits = [child.stop_seconds for child in left if child.stop_seconds is not None]
        timeout = max(0.0, begin + min(limits) - time.monotonic()) if limits else _LOOK
        seen = signal.sigtimedwait({*stops, signal.SIGCHLD}, timeout)
        if seen is not None and seen.si_signo == signal.SIGCHLD:
            continue
        if seen is None and not limits:
            continue
        before = "in time" if seen is None else "before a second signal"
        for child in left:
            LOG.warning("%s has not stopped %s; it is killed", child.name, before)
            child.kill()


# The processes of a conductor, as children of a supervisor.

_END_SECONDS = 30.0
"""Most seconds a conductor takes to stop, beside its wait for running work."""
_FILES_SECONDS = 10.0
"""Most seconds the file server takes to stop."""


def children(
    conf: Configuration,
    *,
    prepared: Callable[[], object] = lambda: None,
    registered: Flag | Sequence[Flag],
) -> list[Child]:
    """Return the processes of [conductor]processes, not yet started.

    Each is a conductor with a name, a lease and an address of its own, so the death of one concerns
    only its own nodes.

    :param prepared: as of ``cmd.conductor.conduct``.
    :param registered: set by each conductor once the API can find it: one for all, or of `flags`.

    :raises config.ConfigError: [DEFAULT]host is already the name of one process of several.
    """
    if conf.conductor.processes > 1 and membership.machine_name(conf.host) != conf.host:
        reason = (
            f"[DEFAULT]host: {conf.host} has a colon; [conductor]processes needs a name without"
        )
        raise config.ConfigError(reason=reason)

    def conduct(host: str, flag: Flag, channel: Channel) -> int:
        conf.set_override("host", host)
        channel.follow()
        # Loaded here, unless the parent has loaded it for all.
        loaded = entry.load("ironic_lite.cmd.conductor")
        status: int = loaded.conduct(conf, prepared=prepared, registered=flag.set)
        return status

    settings = conf.conductor
    hosts = membership.process_names(conf.host, settings.processes)
    up = [registered] * len(hosts) if isinstance(registered, Flag) else registered
    return [
        Child(
            "conductor" if len(hosts) == 1 else f"conductor {host}",
            functools.partial(conduct, host, flag, channel),
            stop_seconds=_stop_seconds(settings.graceful_shutdown_timeout),
            drain_seconds=_stop_seconds(settings.drain_shutdown_timeout),
            channel=channel,
        )
        for host, flag in zip(hosts, up, strict=True)
        for channel in (Channel(conf),)
    ]


def flags(conf: Configuration) -> list[Flag]:
    """Return for each process of [conductor]processes the flag that it sets once registered."""
    return [Flag() for _ in range(conf.conductor.processes)]


def file_servers(conf: Configuration) -> list[Child]:
    """Return the process that serves files for several conductors of a machine, if any.

    One conductor serves the files itself.
    """
    if conf.conductor.processes == 1 or conf.deploy.http_port is None:
        return []
    channel = Channel(conf)
    body = functools.partial(_serve_files, conf, channel)
    return [Child("file server", body, stop_seconds=_FILES_SECONDS, channel=channel)]


def _serve_files(conf: Configuration, channel: Channel) -> int:
    stop = StopRequest()
    channel.follow()
    server = entry.load("ironic_lite.conductor.fileserver").configured(conf)
    server.start()
    stop.wait()
    server.stop()
    return 0


def _stop_seconds(seconds: float) -> float | None:
    """Return the seconds a conductor may take to stop; None is no limit."""
    return seconds + _END_SECONDS if seconds else None
