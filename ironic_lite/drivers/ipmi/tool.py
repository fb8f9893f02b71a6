"""Commands to BMCs by the program ipmitool, limited to one at a time per BMC, and in total.

All hardware access of this driver goes through `run`. `faults` decides which failed commands are
sent again.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import math
import shutil
import threading
import time
import weakref
from collections.abc import Iterator, Sequence

from ironic_lite import errors
from ironic_lite.core import bmc_metrics, bounded_http, config
from ironic_lite.drivers import allowed_networks, base, deadline, silence
from ironic_lite.drivers.ipmi import command, faults, info, process

LOG = logging.getLogger(__name__)

_ADDRESS = "driver_info/ipmi_address"

LEAST_SECONDS = 5.0
"""Least time of a command; less would kill it while the BMC is about to answer."""

USUAL_SUITES = (3, 17)
"""Cipher suites to try, the last first, where ipmitool's choice opens no session and the operator
has configured none: a BMC may have the one that ipmitool takes switched off."""

REMEMBERED = 10_000
"""Limit of BMCs whose next allowed request and cipher suite are remembered."""


def settings(task: base.Task) -> info.Info:
    """Parse the BMC settings in the node's driver_info.

    :raises errors.MissingParameter, errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    node = info.parse(task.node.driver_info)
    allowed_networks.refuse(node.address, "ipmi", _ADDRESS)
    return node


def located(node: info.Info) -> info.Info:
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
    if shutil.which(command.PROGRAM) is None:
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
                if found.kind is faults.Again.SILENCE:
                    pause = options.min_command_interval
                if not found.again(call, pause, patient=patient):
                    found.error.facts.setdefault("command", _described(words))
                    raise found.error
                bmc_metrics.BMCS.retried("ipmi")
        # Other threads may use the BMC during the pause.
        task.pause(pause)


def suite(node: info.Info) -> int | None:
    """Return the cipher suite for a session outside of `run`: the BMC's last accepted one.

    Without one, the first to try; None leaves the choice to ipmitool.
    """
    suites, taken = _cipher_suites(node), BMCS.find(node).suite
    return taken if taken in suites else suites[-1]


# -- one BMC ----------------------------------------------------------------------------------


class Bmc:
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
        self._all: weakref.WeakValueDictionary[tuple[str, int], Bmc] = weakref.WeakValueDictionary()
        self._recent: collections.OrderedDict[tuple[str, int], Bmc] = collections.OrderedDict()

    def find(self, node: info.Info) -> Bmc:
        """Return the BMC at the node's address and port."""
        key = (node.address.lower(), node.port)
        with self._mutex:
            bmc = self._all.setdefault(key, Bmc(node.address))
            self._recent[key] = bmc
            self._recent.move_to_end(key)
            if len(self._recent) > REMEMBERED:
                self._recent.popitem(last=False)
        return bmc


BMCS = Bmcs()
SLOTS = process.Slots()


# -- one command ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    error: errors.Error
    kind: faults.Again = faults.Again.NEVER

    @property
    def needs_pause(self) -> bool:
        """Return whether the BMC must not be used for a while."""
        return self.kind in {faults.Again.ANY, faults.Again.HARMLESS}

    @property
    def result(self) -> str:
        """Return the result label for metrics."""
        silent = isinstance(self.error, errors.BmcUnreachable)
        return bmc_metrics.SILENCE if silent else bmc_metrics.ERROR

    @property
    def said(self) -> str:
        """Return the reason in a few words."""
        return str(self.error.facts.get("reason") or self.error.code)

    def again(self, call: _Call, pause: float, *, patient: bool) -> bool:
        """Return whether the command is sent again after a pause of so many seconds."""
        if self.kind is faults.Again.CIPHER:
            return True
        if deadline.limited():
            return False
        if self.kind is faults.Again.SILENCE:
            awaited = math.isfinite(deadline.left())  # a client waits for the answer
            return patient and not awaited and pause + command.SILENT_SECONDS < call.left()
        harmless = self.kind is faults.Again.HARMLESS and not call.once
        return (self.kind is faults.Again.ANY or harmless) and pause < call.left()


class _Call:
    """A command with its remaining time and cipher suites."""

    def __init__(
        self,
        task: base.Task,
        node: info.Info,
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
        self._put_off: tuple[process.Ended, int | None] | None = None

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

    def attempt(self, bmc: Bmc) -> str | _Failure:
        """Send the command once and return what ipmitool wrote, or what went wrong."""
        suite = self._cipher_suites[-1]
        if bmc.suite in self._cipher_suites:
            suite = bmc.suite
        try:
            line = command.line(located(self.node), self._words, cipher=suite)
        except (errors.InvalidParameter, errors.BmcUnreachable) as why:
            return _Failure(why)
        node = self._task.node.uuid
        most, silent = config.CONF.ipmi.max_processes, node in silence.SILENT
        with SLOTS.held(most, self._end, silent=silent) as free:
            if not free:
                return _Failure(self._too_many_commands())
            self._task.confirm_lock()  # after waiting for the BMC and for a slot
            LOG.debug("Running %s", " ".join(line))
            what, reads = f"ipmitool {_described(self._words)}", tuple(self._words) in _READS
            with bmc_metrics.BMCS.call("ipmi", self._words[0], what, reads=reads) as counted:
                found = self._run_command(bmc, line, suite)
                counted.result, counted.answer = bmc_metrics.OK, "ok"
                if isinstance(found, _Failure):
                    counted.result, counted.answer = found.result, f"failed ({found.said})"
            silent = counted.result == bmc_metrics.SILENCE
            silence.SILENT.note(node, silent=silent and self._task.lock_is_sure)
        return found

    def _run_command(self, bmc: Bmc, line: Sequence[str], suite: int | None) -> str | _Failure:
        environment = command.environment(self.node)
        try:
            seconds = max(self.left(), LEAST_SECONDS)
            ended = process.run(line, environment, seconds, lambda: self._task.lock_is_sure)
        except OSError as why:
            return _Failure(_not_run(why))
        if ended.barred:
            self._task.confirm_lock()
            return _Failure(self._command_barred(), faults.Again.HARMLESS)
        if ended.status == 0 and not (ended.late or ended.endless):
            bmc.suite, bmc.login = suite, (self.node.username, self.node.password)
            return ended.out
        return self._command_failure(bmc, ended, suite)

    def _command_failure(self, bmc: Bmc, ended: process.Ended, suite: int | None) -> _Failure:
        if ended.late or ended.endless:
            return _Failure(self._command_killed(ended))
        fault = self._explain(ended, suite)
        LOG.debug("ipmitool failed: %s", fault.error)
        if fault.again is faults.Again.LOGIN:
            return _Failure(fault.error, self._lost_login(bmc))
        if fault.again is faults.Again.CIPHER or self._may_be_suite(bmc, fault):
            return self._leave_suite(ended, fault, suite)
        return _Failure(fault.error, fault.again)

    def _explain(self, ended: process.Ended, suite: int | None) -> faults.Fault:
        return faults.explain(
            self.node,
            ended.err,
            _described(self._words),
            suite=suite,
            seconds=self.seconds,
            more=config.CONF.ipmi.additional_retryable_ipmi_errors,
            tried=self._tried,
        )

    def _may_be_suite(self, bmc: Bmc, fault: faults.Fault) -> bool:
        """Return whether a session that did not open may open with another cipher suite.

        Some BMCs say that they lack resources, or are silent, if the suite is switched off. A BMC
        that has opened sessions before, and now is silent, is more likely to be restarting.
        """
        busy = fault.again is faults.Again.ANY
        return self._searches and fault.unopened and (busy or bmc.login is None)

    def _leave_suite(
        self, ended: process.Ended, fault: faults.Fault, suite: int | None
    ) -> _Failure:
        """Return a failure after which the next cipher suite is tried, or the last failure.

        If one of the suites met a busy BMC, the call goes on with this one.
        """
        if self._searches:
            self._tried.append(suite)
        refused = fault.again is faults.Again.CIPHER
        if not refused and self._put_off is None:
            self._put_off = ended, suite
        self._cipher_suites.remove(suite)
        if self._cipher_suites and (refused or self.left() > LEAST_SECONDS):
            return _Failure(fault.error, faults.Again.CIPHER)
        self._searches = False
        if self._put_off is None:
            return _Failure(self._explain(ended, suite).error)
        ended, suite = self._put_off
        self._cipher_suites = [suite]
        fault = self._explain(ended, suite)
        return _Failure(fault.error, fault.again)

    def _lost_login(self, bmc: Bmc) -> faults.Again:
        """Return whether a login without an answer is repeated.

        A BMC may be silent to a wrong password, too, and lock a user out after several.
        """
        good = bmc.login == (self.node.username, self.node.password)
        bmc.login = None
        return faults.Again.ANY if good else faults.Again.NEVER

    def _command_killed(self, ended: process.Ended) -> errors.BmcUnreachable:
        what = f"did not end within {self.seconds:g} s"
        if ended.endless:
            what = f"wrote more than {process.OUTPUT_LIMIT} bytes"
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


_READS = frozenset({("power", "status"), ("sdr",), ("mc", "info")})
_RAW, _RAW_SHOWN = "raw", 3


def _described(words: Sequence[str]) -> str:
    """Return a command for errors and logs; of a raw one only function and number."""
    if words[0] != _RAW:
        return " ".join(words)
    more = len(words) - _RAW_SHOWN
    return f"{' '.join(words[:_RAW_SHOWN])}{f' (and {more} bytes)' if more > 0 else ''}"


_MISSING = (
    f"The program {command.PROGRAM} is not installed on this conductor's machine, or not in its "
    f"PATH: install the package {command.PROGRAM}."
)


def _not_run(why: OSError) -> errors.HardwareError:
    if isinstance(why, FileNotFoundError):
        return errors.HardwareError(_MISSING, reason="not installed")
    reason = why.strerror or type(why).__name__
    return errors.HardwareError(reason=f"The program {command.PROGRAM} cannot be run: {reason}.")


def _cipher_suites(node: info.Info) -> list[int | None]:
    """Return the cipher suites to try, in order from the end; None leaves it to ipmitool."""
    if node.cipher_suite is not None:
        return [node.cipher_suite]
    if node.interface != "lanplus":
        return [None]
    configured = [int(suite) for suite in config.CONF.ipmi.cipher_suite_versions]
    return [*configured] or [*USUAL_SUITES, None]
