"""Commands to BMCs by the program ipmitool, limited to one at a time per BMC, and in total.

All hardware access of this driver goes through `run`. `faults` decides which failed commands are
sent again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import logging
import math
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from ironic_lite import errors
from ironic_lite.core import bounded_http, config, metrics
from ironic_lite.core.slots import Newest, Slots
from ironic_lite.drivers import allowed_networks, base, deadline
from ironic_lite.drivers.ipmi import faults, info

# Command lines of ipmitool, with the secrets in the environment.
#
# Only its own user can read a process's environment, but every user can read its command line, and
# a file would outlive a killed conductor.

PROGRAM = "ipmitool"

TRIES, PATIENCE = 3, 1
"""Retries of ipmitool against lost packets: the number of attempts, and the seconds before the
second one. Each further pause is a second longer.
"""
SILENT_SECONDS = 2 * sum(range(PATIENCE, PATIENCE + TRIES))
"""Time after which a silent BMC is given up, as ipmitool tries two kinds of greeting."""


def command_line(
    node: info.IpmiInfo, words: Sequence[str], *, cipher: int | None = None
) -> list[str]:
    """Return the command line that sends the command ``words`` to the node's BMC.

    :param cipher: the cipher suite, None to let ipmitool ask the BMC for its best.
    """
    # -v prints to standard error why there is no session: the password, or silence.
    return [PROGRAM, "-v", *_session_arguments(node, cipher), *words]


def terminal(node: info.IpmiInfo, *, cipher: int | None = None) -> list[str]:
    """Return the command line for the serial port: serial over LAN (IPMI 2.0, 15).

    :param cipher: as in `line`.
    """
    return [PROGRAM, *_session_arguments(node, cipher), "sol", "activate"]


def _session_arguments(node: info.IpmiInfo, cipher: int | None) -> list[str]:
    found = ["-I", node.interface, "-H", node.address, "-p", str(node.port)]
    if node.username is not None:
        found += ["-U", node.username]
    found += ["-L", node.privilege, "-R", str(TRIES), "-N", str(PATIENCE), "-E"]
    if cipher is not None:
        found += ["-C", str(cipher)]
    if node.key is not None:
        found += ["-K"]
    return [*found, *_bridge_arguments(node.bridge)]


def command_environment(
    node: info.IpmiInfo, outer: Mapping[str, str] = os.environ
) -> dict[bytes, bytes]:
    """Return the environment of ipmitool: the secrets, and few variables of ``outer``."""
    found = {
        b"PATH": outer.get("PATH", os.defpath).encode("utf-8", "surrogateescape"),
        # This module parses its messages.
        b"LC_ALL": b"C",
        # Always set: without a password ipmitool would ask for one.
        b"IPMI_PASSWORD": node.password.encode(),
    }
    if node.key is not None:
        found[b"IPMI_KGKEY"] = node.key
    return found


def _bridge_arguments(bridge: info.Bridge | None) -> list[str]:
    if bridge is None:
        return []
    found: list[str] = []
    if bridge.local_address is not None:
        found += ["-m", hex(bridge.local_address)]
    if bridge.transit is not None:
        channel, address = bridge.transit
        found += ["-B", hex(channel), "-T", hex(address)]
    channel, address = bridge.target
    return [*found, "-b", hex(channel), "-t", hex(address)]


# Runs one program to its end, with limits on its time and output.

OUTPUT_LIMIT = 1 << 20
"""Bytes read of each output; a BMC with a thousand sensors writes a third of that."""

_CHUNK = 65536
_LOOK = 0.5  # seconds between two checks whether a program may continue

_LEASH = ("--pdeathsig", "KILL", "--")
_LEASH_SECONDS = 10.0
_NOT_RUN = frozenset({126, 127})
"""Exit statuses of setpriv if it cannot run the program."""
_TOLD = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """Result of a program; ``late``, ``endless`` and ``barred`` are reasons why it was killed."""

    status: int
    out: str
    err: str
    late: bool = False
    endless: bool = False
    barred: bool = False


def run_program(
    line: Sequence[str],
    environment: Mapping[bytes, bytes],
    seconds: float,
    allowed: Callable[[], bool] = lambda: True,
) -> Ended:
    """Run a program without input or terminal; after ``seconds`` kill it and its children.

    It is also killed soon after ``allowed()`` turns false, and whenever this process ends.
    Otherwise a restarted conductor would use BMCs that an orphaned program still uses.

    :raises OSError: the program cannot be started.
    """
    end = time.monotonic() + seconds
    leash = _leash()
    with subprocess.Popen(
        [*leash, _program_path(line[0], environment), *line[1:]],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A process group to kill as one; without a terminal it cannot ask for a password.
        start_new_session=True,
    ) as process:
        streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
        texts: dict[IO[bytes], bytearray] = {stream: bytearray() for stream in streams}
        late = endless = barred = False
        try:
            if not _read_streams(texts, end, allowed):
                barred = not allowed()
                late = not barred
            elif any(len(text) > OUTPUT_LIMIT for text in texts.values()):
                endless = True
            else:
                late = not _wait_for_exit(process, end)
        finally:
            _kill_group(process)
    out, err = (bytes(texts[stream]).decode("utf-8", "replace") for stream in streams)
    if leash and process.returncode in _NOT_RUN:
        said = " ".join(err.split())[-_TOLD:]
        raise OSError(errno.ENOEXEC, said or f"it ended with {process.returncode}")
    return Ended(process.returncode, out, err, late, endless, barred)


@functools.cache
def _leash() -> tuple[str, ...]:
    """Return the command prefix that ends a program together with the thread that started it.

    Empty if setpriv of util-linux is not installed.
    """
    path = shutil.which("setpriv")
    if path is None:
        return ()
    words = (path, *_LEASH)
    try:
        # The setpriv of busybox lacks this option.
        subprocess.run(
            [*words, path, "--help"], capture_output=True, check=True, timeout=_LEASH_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return words


def _program_path(program: str, environment: Mapping[bytes, bytes]) -> str:
    """Return the path of a program.

    :raises FileNotFoundError: the program is not installed.
    """
    path = shutil.which(program, path=os.fsdecode(environment.get(b"PATH", b"")))
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return path


def _read_streams(
    texts: dict[IO[bytes], bytearray], end: float, allowed: Callable[[], bool]
) -> bool:
    """Read until all streams end or one is too long; return False if time ran out before."""
    with selectors.DefaultSelector() as selector:
        for stream, text in texts.items():
            selector.register(stream, selectors.EVENT_READ, text)
        while selector.get_map():
            left = end - time.monotonic()
            if left <= 0 or not allowed():
                return False
            for key, _ in selector.select(min(left, _LOOK)):
                chunk, text = os.read(key.fd, _CHUNK), key.data
                text += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
                elif len(text) > OUTPUT_LIMIT:
                    return True
    return True


def _wait_for_exit(process: subprocess.Popen[bytes], end: float) -> bool:
    try:
        process.wait(max(end - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the rest of the group. Its id is not reused while the leader is not reaped; after that
    there is nothing to kill."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


@functools.cache
def program_slots(most: int) -> Slots:
    """Return the slots of concurrent programs; those for silent BMCs have a part of them."""
    return Slots(most, deadline.silent_share(most))


LOG = logging.getLogger(__name__)

_ADDRESS = "driver_info/ipmi_address"

LEAST_SECONDS = 5.0
"""Least time of a command; less would kill it while the BMC is about to answer."""

USUAL_SUITES = (3, 17)
"""Cipher suites to try, the last first, where ipmitool's choice opens no session and the operator
has configured none: a BMC may have the one that ipmitool takes switched off."""

REMEMBERED = 10_000
"""Limit of BMCs whose next allowed request and cipher suite are remembered."""


def settings(task: base.Task) -> info.IpmiInfo:
    """Parse the BMC settings in the node's driver_info.

    :raises errors.MissingParameter, errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    node = info.parse(task.node.driver_info)
    allowed_networks.refuse(node.address, "ipmi", _ADDRESS)
    return node


def located(node: info.IpmiInfo) -> info.IpmiInfo:
    """Return the settings with the IP address for ipmitool.

    Names are resolved here, not by ipmitool, so that the checked address is the one used.

    :raises errors.InvalidParameter: its addresses are not in [ipmi]allowed_networks.
    :raises errors.BmcUnreachable: the name cannot be resolved.
    """
    try:
        address = allowed_networks.resolve(node.address, node.port, "ipmi")
    except bounded_http.AddressRefused as why:
        raise errors.InvalidParameter(path=_ADDRESS, reason=str(why)) from None
    except OSError as why:
        said = faults.Sort.NAMELESS.value.format(address=node.address)
        reason = why.strerror or type(why).__name__
        raise errors.BmcUnreachable(said, address=node.address, reason=reason) from None
    return dataclasses.replace(node, address=address)


def warn_if_missing() -> None:
    """Log a warning, when a conductor loads this driver, if ipmitool is not installed."""
    if shutil.which(PROGRAM) is None:
        LOG.warning("%s Nodes of the hardware type ipmi cannot be reached.", _MISSING)


def run(
    task: base.Task,
    words: Sequence[str],
    *,
    once: bool = False,
    seconds: float | None = None,
    patient: bool = False,
) -> str:
    """Send a command to the node's BMC, retry it if its fault allows that, and return its output.

    :param words: the command as ipmitool accepts it, such as ``("power", "status")``.
    :param once: the command is not idempotent.
    :param seconds: total time limit; None takes [ipmi]command_retry_timeout.
    :param patient: wait for a silent BMC, which may be restarting, until the time is over, unless
        a client waits for the answer; the command is idempotent.
    :raises errors.HardwareError: a fault of `faults`, a timeout, or ipmitool is not installed.
    :raises errors.InvalidRequest: driver_info is invalid.
    """
    node = settings(task)
    options = config.CONF.ipmi
    wanted = options.command_retry_timeout if seconds is None else seconds
    call = _Call(task, node, words, once=once, seconds=max(deadline.within(wanted), LEAST_SECONDS))
    bmc = BMCS.find(node)
    while True:
        with bmc.turn(call):
            pause = bmc.rest()
            if pause >= call.left():
                raise call.resting(pause)
            if not pause:
                found = call.attempt(bmc)
                if isinstance(found, str):
                    return found
                pause = bmc.tire(options.min_command_interval) if found.needs_pause else 0.0
                if found.kind is faults.IpmiRetry.SILENCE:
                    pause = options.min_command_interval
                if not found.again(call, pause, patient=patient):
                    found.error.facts.setdefault("command", _described(words))
                    raise found.error
                metrics.BMCS.retried("ipmi")
        # Other threads may use the BMC during the pause.
        task.pause(pause)


def suite(node: info.IpmiInfo) -> int | None:
    """Return the cipher suite for a session outside of `run`: the BMC's last accepted one.

    Without one, the first to try; None leaves the choice to ipmitool.
    """
    suites, taken = _cipher_suites(node), BMCS.find(node).suite
    return taken if taken in suites else suites[-1]


# -- one BMC ----------------------------------------------------------------------------------


class IpmiBmc:
    """The known facts about one BMC, and its lock."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.suite: int | None = None
        """The last suite that the BMC accepted, None for ipmitool's choice."""
        self.login: tuple[str | None, str] | None = None
        """User and password that the BMC accepted last, until a login with them was lost."""
        self._lock = threading.Lock()
        self._tired_until = 0.0

    @contextlib.contextmanager
    def turn(self, call: _Call) -> Iterator[None]:
        """Hold the BMC's lock.

        :raises errors.BmcUnreachable: other threads held it for as long as the call may take.
        """
        if not self._lock.acquire(timeout=call.left()):
            raise errors.BmcUnreachable(
                f"The BMC at {self.address} is busy: other commands of this service to it took "
                f"more than {call.seconds:g} s. Retry later.",
                address=self.address,
                reason="busy",
                asked=False,
            )
        try:
            yield
        finally:
            self._lock.release()

    def rest(self) -> float:
        """Return the seconds until the BMC may be used again after a fault, 0 for now."""
        return max(self._tired_until - time.monotonic(), 0.0)

    def tire(self, seconds: float) -> float:
        """Do not use the BMC for so many seconds, and return them."""
        self._tired_until = time.monotonic() + seconds
        return seconds


class Bmcs:
    """The BMCs of this process; the recently used ones are remembered."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        # A thread that waits for a BMC keeps its object here, even after it is forgotten below.
        self._all: weakref.WeakValueDictionary[tuple[str, int], IpmiBmc] = (
            weakref.WeakValueDictionary()
        )
        self._recent: Newest[tuple[str, int], IpmiBmc] = Newest(REMEMBERED)

    def find(self, node: info.IpmiInfo) -> IpmiBmc:
        """Return the BMC at the node's address and port."""
        key = (node.address.lower(), node.port)
        with self._mutex:
            bmc = self._all.setdefault(key, IpmiBmc(node.address))
            self._recent[key] = bmc
        return bmc


BMCS = Bmcs()


# -- one command ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    error: errors.Error
    kind: faults.IpmiRetry = faults.IpmiRetry.NEVER

    @property
    def needs_pause(self) -> bool:
        """Return whether the BMC must not be used for a while."""
        return self.kind in {faults.IpmiRetry.ANY, faults.IpmiRetry.HARMLESS}

    @property
    def result(self) -> str:
        """Return the result label for metrics."""
        silent = isinstance(self.error, errors.BmcUnreachable)
        return metrics.SILENCE if silent else metrics.ERROR

    @property
    def said(self) -> str:
        """Return the reason in a few words."""
        return str(self.error.facts.get("reason") or self.error.code)

    def again(self, call: _Call, pause: float, *, patient: bool) -> bool:
        """Return whether the command is sent again after a pause of so many seconds."""
        if self.kind is faults.IpmiRetry.CIPHER:
            return True
        if deadline.is_limited():
            return False
        if self.kind is faults.IpmiRetry.SILENCE:
            awaited = math.isfinite(deadline.seconds_left())  # a client waits for the answer
            return patient and not awaited and pause + SILENT_SECONDS < call.left()
        harmless = self.kind is faults.IpmiRetry.HARMLESS and not call.once
        return (self.kind is faults.IpmiRetry.ANY or harmless) and pause < call.left()


class _Call:
    """A command with its remaining time and cipher suites."""

    def __init__(
        self,
        task: base.Task,
        node: info.IpmiInfo,
        words: Sequence[str],
        *,
        once: bool,
        seconds: float,
    ) -> None:
        self._task = task
        self.node = node
        self.once = once
        self.seconds = seconds
        self._words = words
        self._end = time.monotonic() + seconds
        self._cipher_suites = _cipher_suites(node)
        self._searches = None in self._cipher_suites and len(self._cipher_suites) > 1
        self._tried: list[int | None] = []
        self._put_off: tuple[Ended, int | None] | None = None

    def left(self) -> float:
        """Return the seconds left of this call."""
        return max(self._end - time.monotonic(), 0.0)

    def resting(self, seconds: float) -> errors.BmcUnreachable:
        """Return the error for a BMC that is paused for longer than this call may take."""
        return errors.BmcUnreachable(
            f"The BMC at {self.node.address} was not asked: it reported that it is busy, and is "
            f"paused for another {seconds:.0f} s. Retry later.",
            address=self.node.address,
            reason="resting",
            asked=False,
        )

    def attempt(self, bmc: IpmiBmc) -> str | _Failure:
        """Send the command once and return what ipmitool wrote, or what went wrong."""
        suite = self._cipher_suites[-1]
        if bmc.suite in self._cipher_suites:
            suite = bmc.suite
        try:
            line = command_line(located(self.node), self._words, cipher=suite)
        except (errors.InvalidParameter, errors.BmcUnreachable) as why:
            return _Failure(why)
        node = self._task.node.uuid
        slots, silent = program_slots(config.CONF.ipmi.max_processes), node in deadline.SILENT
        left = self._end - time.monotonic()
        with slots.hold("silent" if silent else None, seconds=left) as free:
            if not free:
                return _Failure(self._too_many_commands())
            what, reads = f"ipmitool {_described(self._words)}", tuple(self._words) in _READS
            self._task.confirm_lock(changes=not reads)  # after waiting for the BMC and for a slot
            LOG.debug("Running %s", " ".join(line))
            with metrics.BMCS.call("ipmi", self._words[0], what, reads=reads) as counted:
                found = self._run_command(bmc, line, suite)
                counted.result, counted.answer = metrics.OK, "ok"
                if isinstance(found, _Failure):
                    counted.result, counted.answer = found.result, f"failed ({found.said})"
            silent = counted.result == metrics.SILENCE
            deadline.SILENT.note(node, silent=silent and self._task.lock_is_sure)
        return found

    def _run_command(self, bmc: IpmiBmc, line: Sequence[str], suite: int | None) -> str | _Failure:
        environment = command_environment(self.node)
        try:
            seconds = max(self.left(), LEAST_SECONDS)
            ended = run_program(line, environment, seconds, lambda: self._task.lock_is_sure)
        except OSError as why:
            return _Failure(_not_run(why))
        if ended.barred:
            self._task.confirm_lock()
            return _Failure(self._command_barred(), faults.IpmiRetry.HARMLESS)
        if ended.status == 0 and not (ended.late or ended.endless):
            bmc.suite, bmc.login = suite, (self.node.username, self.node.password)
            return ended.out
        return self._command_failure(bmc, ended, suite)

    def _command_failure(self, bmc: IpmiBmc, ended: Ended, suite: int | None) -> _Failure:
        if ended.late or ended.endless:
            return _Failure(self._command_killed(ended))
        fault = self._explain(ended, suite)
        LOG.debug("ipmitool failed: %s", fault.error)
        if fault.again is faults.IpmiRetry.LOGIN:
            return _Failure(fault.error, self._lost_login(bmc))
        if fault.again is faults.IpmiRetry.CIPHER or self._may_be_suite(bmc, fault):
            return self._leave_suite(ended, fault, suite)
        return _Failure(fault.error, fault.again)

    def _explain(self, ended: Ended, suite: int | None) -> faults.IpmiFault:
        return faults.explain(
            self.node,
            ended.err,
            _described(self._words),
            suite=suite,
            seconds=self.seconds,
            more=config.CONF.ipmi.additional_retryable_ipmi_errors,
            tried=self._tried,
        )

    def _may_be_suite(self, bmc: IpmiBmc, fault: faults.IpmiFault) -> bool:
        """Return whether a session that did not open may open with another cipher suite.

        Some BMCs say that they lack resources, or are silent, if the suite is switched off. A BMC
        that has opened sessions before, and now is silent, is more likely to be restarting.
        """
        busy = fault.again is faults.IpmiRetry.ANY
        return self._searches and fault.unopened and (busy or bmc.login is None)

    def _leave_suite(self, ended: Ended, fault: faults.IpmiFault, suite: int | None) -> _Failure:
        """Return a failure after which the next cipher suite is tried, or the last failure.

        If one of the suites met a busy BMC, the call goes on with this one.
        """
        if self._searches:
            self._tried.append(suite)
        refused = fault.again is faults.IpmiRetry.CIPHER
        if not refused and self._put_off is None:
            self._put_off = ended, suite
        self._cipher_suites.remove(suite)
        if self._cipher_suites and (refused or self.left() > LEAST_SECONDS):
            return _Failure(fault.error, faults.IpmiRetry.CIPHER)
        self._searches = False
        if self._put_off is None:
            return _Failure(self._explain(ended, suite).error)
        ended, suite = self._put_off
        self._cipher_suites = [suite]
        fault = self._explain(ended, suite)
        return _Failure(fault.error, fault.again)

    def _lost_login(self, bmc: IpmiBmc) -> faults.IpmiRetry:
        """Return whether a login without an answer is repeated.

        A BMC may be silent to a wrong password, too, and lock a user out after several.
        """
        good = bmc.login == (self.node.username, self.node.password)
        bmc.login = None
        return faults.IpmiRetry.ANY if good else faults.IpmiRetry.NEVER

    def _command_killed(self, ended: Ended) -> errors.BmcUnreachable:
        what = f"did not end within {self.seconds:g} s"
        if ended.endless:
            what = f"wrote more than {OUTPUT_LIMIT} bytes"
        return errors.BmcUnreachable(
            f"ipmitool {_described(self._words)} for the BMC at {self.node.address} {what}, and "
            "was killed. Check whether the BMC is well; reset it if not.",
            address=self.node.address,
            reason=what,
        )

    def _command_barred(self) -> errors.BmcUnreachable:
        return errors.BmcUnreachable(
            f"ipmitool {_described(self._words)} for the BMC at {self.node.address} was killed, "
            "because the lock of the node could not be renewed in time. Retry later.",
            address=self.node.address,
            reason="barred",
        )

    def _too_many_commands(self) -> errors.BmcUnreachable:
        most = config.CONF.ipmi.max_processes
        return errors.BmcUnreachable(
            f"The BMC at {self.node.address} was not asked: for {self.seconds:g} s this conductor "
            f"ran {most} commands to other BMCs. Retry later, or raise [ipmi]max_processes.",
            address=self.node.address,
            reason="crowded",
            asked=False,
        )


BOOT_FLAGS: Sequence[str] = ("raw", "0x00", "0x09", "0x05", "0x00", "0x00")
"""Get System Boot Options, parameter 5 (IPMI 2.0, 28.13)."""
_READS = frozenset({("power", "status"), ("sdr",), ("mc", "info"), tuple(BOOT_FLAGS)})
_RAW, _RAW_SHOWN = "raw", 3


def _described(words: Sequence[str]) -> str:
    """Return a command for errors and logs; of a raw one only function and number."""
    if words[0] != _RAW:
        return " ".join(words)
    more = len(words) - _RAW_SHOWN
    return f"{' '.join(words[:_RAW_SHOWN])}{f' (and {more} bytes)' if more > 0 else ''}"


_MISSING = (
    f"The program {PROGRAM} is not installed on this conductor's machine, or not in its "
    f"PATH: install the package {PROGRAM}."
)


def _not_run(why: OSError) -> errors.HardwareError:
    if isinstance(why, FileNotFoundError):
        return errors.HardwareError(_MISSING, reason="not installed")
    reason = why.strerror or type(why).__name__
    return errors.HardwareError(reason=f"The program {PROGRAM} cannot be run: {reason}.")


def _cipher_suites(node: info.IpmiInfo) -> list[int | None]:
    """Return the cipher suites to try, in order from the end; None leaves it to ipmitool."""
    if node.cipher_suite is not None:
        return [node.cipher_suite]
    if node.interface != "lanplus":
        return [None]
    configured = [int(suite) for suite in config.CONF.ipmi.cipher_suite_versions]
    return [*configured] or [*USUAL_SUITES, None]
