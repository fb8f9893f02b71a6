"""Commands to BMCs by the program ipmitool: one at a time to a BMC, so many at a time in all.

`run` is the door to all hardware here. `faults` says which failed commands are sent again.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import shutil
import threading
import time
import weakref
from collections.abc import Iterator, Sequence

from ironic_lite import config, counters, errors
from ironic_lite.drivers import base, patience
from ironic_lite.drivers.ipmi import command, faults, info, process

LOG = logging.getLogger(__name__)

LEAST_SECONDS = 5.0
"""What a command is given in any case: less would kill it while the BMC is about to answer."""

REMEMBERED = 10_000
"""BMCs about which is remembered when they may be asked again, and what cipher suite they take."""


def settings(task: base.Task) -> info.Info:
    """Return what the node's driver_info says.

    :raises errors.MissingParameter, errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    return info.parse(task.node.driver_info)


def warn_if_missing() -> None:
    """Log, when a conductor loads this driver, that its program is not there."""
    if shutil.which(command.PROGRAM) is None:
        LOG.warning("%s Nodes of the hardware type ipmi cannot be reached.", _MISSING)


def run(
    task: base.Task, words: Sequence[str], *, once: bool = False, seconds: float | None = None
) -> str:
    """Send a command to the node's BMC, again if a fault allows it, and return what was written.

    :param words: the command as ipmitool takes it, such as ``("power", "status")``.
    :param once: the command may do harm if it is done twice.
    :param seconds: in which all must be done; None takes [ipmi]command_retry_timeout.
    :raises errors.HardwareError: of the kind and in the words of `faults`; it took too long; or
        ipmitool is not there.
    :raises errors.InvalidRequest: driver_info is wrong.
    """
    node = settings(task)
    options = config.CONF.ipmi
    wanted = options.command_retry_timeout if seconds is None else seconds
    call = _Call(node, words, once, max(patience.within(wanted), LEAST_SECONDS))
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
                pause = bmc.tire(options.min_command_interval) if found.tires else 0.0
                if not found.again(call, pause):
                    raise found.error
                counters.BMCS.retried("ipmi")
        # Others may speak to the BMC meanwhile, as soon as it may be spoken to.
        task.pause(pause)


def suite(node: info.Info) -> int | None:
    """Return the cipher suite for a session outside of `run`: the last that the BMC took there, or
    the first to be tried; None leaves it to ipmitool.
    """
    suites, taken = _suites(node), BMCS.find(node).suite
    return taken if taken in suites else suites[-1]


# -- one BMC ----------------------------------------------------------------------------------


class Bmc:
    """What is known of one BMC; who speaks to it holds its turn."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.suite: int | None = None
        """The last of [ipmi]cipher_suite_versions that it took."""
        self._lock = threading.Lock()
        self._tired_until = 0.0

    @contextlib.contextmanager
    def turn(self, call: _Call) -> Iterator[None]:
        """Give this thread the right to speak.

        :raises errors.BmcUnreachable: others had it for as long as the call may take.
        """
        if not self._lock.acquire(timeout=call.left()):
            raise errors.BmcUnreachable(
                f"The BMC at {self.address} is busy: other commands of this service to it took "
                f"more than {call.seconds:g} s. Retry later.",
                address=self.address,
                reason="busy",
            )
        try:
            yield
        finally:
            self._lock.release()

    def rest(self) -> float:
        """Return the seconds for which it is left alone after a fault, 0 when it may be asked."""
        return max(self._tired_until - time.monotonic(), 0.0)

    def tire(self, seconds: float) -> float:
        """Leave it alone for so many seconds, and return them."""
        self._tired_until = time.monotonic() + seconds
        return seconds


class Bmcs:
    """The BMCs of this process; those spoken to last are remembered."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        # Whoever waits for a BMC holds it here, also when it has been forgotten below.
        self._all: weakref.WeakValueDictionary[tuple[str, int], Bmc] = weakref.WeakValueDictionary()
        self._recent: collections.OrderedDict[tuple[str, int], Bmc] = collections.OrderedDict()

    def find(self, node: info.Info) -> Bmc:
        """Return the one at the node's address and port."""
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
    def tires(self) -> bool:
        """Tell whether the BMC is to be left alone for a while."""
        return self.kind in {faults.Again.ANY, faults.Again.HARMLESS}

    @property
    def result(self) -> str:
        """Return the name under which it is counted."""
        silent = isinstance(self.error, errors.BmcUnreachable)
        return counters.SILENCE if silent else counters.ERROR

    def again(self, call: _Call, pause: float) -> bool:
        """Tell whether the command is sent again after a pause of so many seconds."""
        if self.kind is faults.Again.CIPHER:
            return True
        if patience.limited():
            return False
        harmless = self.kind is faults.Again.HARMLESS and not call.once
        return (self.kind is faults.Again.ANY or harmless) and pause < call.left()


class _Call:
    """A command with the time and the cipher suites it has left."""

    def __init__(self, node: info.Info, words: Sequence[str], once: bool, seconds: float) -> None:
        self.node = node
        self.once = once
        self.seconds = seconds
        self._words = words
        self._end = time.monotonic() + seconds
        self._suites = _suites(node)

    def left(self) -> float:
        """Return the seconds this call still has."""
        return max(self._end - time.monotonic(), 0.0)

    def resting(self, seconds: float) -> errors.BmcUnreachable:
        """Return the error for a BMC that is left alone for longer than this call may take."""
        return errors.BmcUnreachable(
            f"The BMC at {self.node.address} was not asked: it said that it is busy, and is left "
            f"alone for another {seconds:.0f} s. Retry later.",
            address=self.node.address,
            reason="resting",
        )

    def attempt(self, bmc: Bmc) -> str | _Failure:
        """Send the command once and return what ipmitool wrote, or what went wrong."""
        suite = self._suites[-1]
        if bmc.suite in self._suites:
            suite = bmc.suite
        line = command.line(self.node, self._words, cipher=suite)
        with SLOTS.held(config.CONF.ipmi.max_processes, self._end) as free:
            if not free:
                return _Failure(self._crowded())
            LOG.debug("Running %s", " ".join(line))
            with counters.BMCS.call("ipmi", self._words[0]) as counted:
                found = self._sent(bmc, line, suite)
                counted.result = found.result if isinstance(found, _Failure) else counters.OK
        return found

    def _sent(self, bmc: Bmc, line: Sequence[str], suite: int | None) -> str | _Failure:
        environment = command.environment(self.node)
        try:
            ended = process.run(line, environment, max(self.left(), LEAST_SECONDS))
        except OSError as why:
            return _Failure(_not_run(why))
        if ended.status == 0 and not (ended.late or ended.endless):
            bmc.suite = suite
            return ended.out
        return self._failure(bmc, ended, suite)

    def _failure(self, bmc: Bmc, ended: process.Ended, suite: int | None) -> _Failure:
        if ended.late or ended.endless:
            return _Failure(self._killed(ended))
        fault = faults.explain(
            self.node,
            ended.err,
            " ".join(self._words),
            suite=suite,
            seconds=self.seconds,
            more=config.CONF.ipmi.additional_retryable_ipmi_errors,
        )
        LOG.debug("ipmitool failed: %s", fault.error)
        if fault.again is not faults.Again.CIPHER:
            return _Failure(fault.error, fault.again)
        self._suites.remove(suite)
        return _Failure(fault.error, fault.again if self._suites else faults.Again.NEVER)

    def _killed(self, ended: process.Ended) -> errors.BmcUnreachable:
        what = f"did not end within {self.seconds:g} s"
        if ended.endless:
            what = f"wrote more than {process.OUTPUT_LIMIT} bytes"
        return errors.BmcUnreachable(
            f"ipmitool {' '.join(self._words)} for the BMC at {self.node.address} {what}, and was "
            "killed. Look whether the BMC is well; reset it if not.",
            address=self.node.address,
            reason=what,
        )

    def _crowded(self) -> errors.BmcUnreachable:
        most = config.CONF.ipmi.max_processes
        return errors.BmcUnreachable(
            f"The BMC at {self.node.address} was not asked: for {self.seconds:g} s this conductor "
            f"ran {most} commands to others. Retry later, or raise [ipmi]max_processes.",
            address=self.node.address,
            reason="crowded",
        )


_MISSING = (
    f"The program {command.PROGRAM} is not installed on this conductor's machine, or not in its "
    f"PATH: install the package {command.PROGRAM}."
)


def _not_run(why: OSError) -> errors.HardwareError:
    if isinstance(why, FileNotFoundError):
        return errors.HardwareError(_MISSING, reason="not installed")
    reason = why.strerror or type(why).__name__
    return errors.HardwareError(reason=f"The program {command.PROGRAM} cannot be run: {reason}.")


def _suites(node: info.Info) -> list[int | None]:
    """Return the cipher suites to try, the last one first; None leaves it to ipmitool."""
    if node.cipher_suite is not None:
        return [node.cipher_suite]
    if node.interface != "lanplus":
        return [None]
    return [int(suite) for suite in config.CONF.ipmi.cipher_suite_versions] or [None]
