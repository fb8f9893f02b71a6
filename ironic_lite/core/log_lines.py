"""Log lines that stay one line, whatever text a client, BMC or agent sends.

Such a text may have line ends, which would forge a line, and terminal control sequences. All log
output passes here, so callers need no care.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import pathlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import masking

# Lines for the log of the run that a thread works on.
#
# The conductor gives a thread that works on a node a sink (`gathering_run_lines`). Drivers and
# counters of BMC calls add lines to it (`note_run_line`), and so does a handler of the standard
# library's logging (`install_run_lines`) for each message of INFO and above. Without a sink, lines
# go nowhere.

OMITTED = {"omitted": True}
"""The ``extra`` of a log message that no run's log shows: an event has it already, or it contains
bodies of messages."""
_AGENT = "ironic_lite.drivers.agent"
_DRIVERS = "ironic_lite.drivers"
_SERVICE = "ironic_lite"


class RunLineSink(Protocol):
    """Takes the lines of one piece of work."""

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        """Take a line.

        :param source: ``run``, ``bmc``, ``agent``, ``ramdisk`` or ``driver``.
        :param minor: the line may be dropped if the work has found nothing new.
        """


_HERE = threading.local()


@contextlib.contextmanager
def gathering_run_lines(
    sink: RunLineSink, *, below: bool = False, hide: Callable[[str], str] = str
) -> Iterator[None]:
    """Send the lines of this thread to ``sink`` for the block.

    :param below: the sink that the thread has already goes on, if it has one.
    :param hide: hides the secrets of the node that the block works on, see `hidden`.
    """
    before: RunLineSink | None = getattr(_HERE, "sink", None)
    hid: Callable[[str], str] = getattr(_HERE, "hide", str)
    _HERE.sink, _HERE.hide = before if below and before is not None else sink, hide
    try:
        yield
    finally:
        _HERE.sink, _HERE.hide = before, hid


@contextlib.contextmanager
def hiding() -> Iterator[None]:
    """Hide in the lines of this thread the secrets of all nodes that the block reads."""
    before: list[Callable[[str], str]] | None = getattr(_HERE, "beside", None)
    _HERE.beside = []
    try:
        yield
    finally:
        _HERE.beside = before


def hide_also(hide: Callable[[str], str]) -> None:
    """Hide the secrets of a node until the end of the block of `hiding`, if there is one."""
    beside: list[Callable[[str], str]] | None = getattr(_HERE, "beside", None)
    if beside is not None:
        beside.append(hide)


def hidden(text: str) -> str:
    """Return a text without the secrets of the nodes that this thread works on."""
    hide: Callable[[str], str] = getattr(_HERE, "hide", str)
    beside: list[Callable[[str], str]] = getattr(_HERE, "beside", None) or []
    for each in (hide, *beside):
        text = each(text)
    return text


def note_run_line(source: str, text: str, *, minor: bool = False) -> None:
    """Add a line to the log of the run that this thread works on, if any: see `Sink.add`."""
    sink: RunLineSink | None = getattr(_HERE, "sink", None)
    if sink is not None:
        sink.add(source, text, minor=minor)


class _RunLineHandler(logging.Handler):
    """Passes log messages to the sink of their thread."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take a message; one that is logged meanwhile by its own arguments is left out."""
        sink: RunLineSink | None = getattr(_HERE, "sink", None)
        if sink is None or getattr(record, "omitted", False):
            return
        _HERE.sink = None
        try:
            text = record.getMessage()
        except Exception:  # arguments that do not fit; other handlers report them
            text = str(record.msg)
        finally:
            _HERE.sink = sink
        sink.add(_source_of(record.name), text)


_HANDLER = _RunLineHandler(logging.INFO)


def install_run_lines(packages: Iterable[str] = ()) -> None:
    """Add the handler to the loggers of the service and of other packages; may be repeated.

    :param packages: top-level packages of drivers of other projects.
    """
    for name in {_SERVICE, *packages}:
        logger = logging.getLogger(name)
        if _HANDLER not in logger.handlers:
            logger.addHandler(_HANDLER)


def _source_of(logger: str) -> str:
    if logger.startswith(_AGENT):
        return "agent"
    if logger.startswith(_DRIVERS) or not logger.startswith(_SERVICE):
        return "driver"
    return "run"


_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"  # Unicode's category Cc without tab and line feed
_DECEIVING = "\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # invisible, or reorder text
_NO_TEXT = "\ud800-\udfff"  # cannot be encoded
_IN_BLOCK = re.compile(f"[{_CONTROLS}{_DECEIVING}{_NO_TEXT}]")
_IN_LINE = re.compile(f"[\n{_CONTROLS}{_DECEIVING}{_NO_TEXT}]")
LONGEST_PATH = 256
"""Limit of a path in a log line, in characters."""
BROKER_LIBRARIES = ("oslo.messaging", "oslo_messaging", "kombu", "amqp")
"""Loggers of the libraries that connect to a message broker."""
_NOTIFICATIONS = "oslo.messaging.notification."
"""Begin of the loggers to which the log driver writes notifications, which are never left out."""
_REMINDED = 600.0
"""Seconds until a persistent fault is logged again."""
CALM = 60.0
"""Seconds after which a fault that comes back is logged again: on a full disk, short writes succeed
and long ones fail."""
_MOST_REMARKS = 20
"""Limit of the lines about one answer of a machine."""


class OneLine(logging.Formatter):
    r"""A formatter that escapes control characters in the record of another formatter.

    A record is one line; a line feed becomes ``\x0a``. Only a traceback has more lines, which begin
    with ``logging_exception_prefix``.

    :param inner: the formatter to use.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record; its traceback stays unchanged for other handlers."""
        own = copy.copy(record) if record.exc_info or record.exc_text else record
        text = self._inner.format(own)
        if not isinstance(text, str):  # Fluentd's formatter returns fields
            return text
        tails = [tail for tail in (own.exc_text, own.stack_info) if tail]
        cut = text.find(f"\n{tails[0]}") if tails else -1
        if cut < 0:
            return escaped(_without_secrets(text))
        block = _IN_BLOCK.sub(_escape_character, _without_secrets(text[cut:]))
        return escaped(_without_secrets(text[:cut])) + block


def _without_secrets(text: str) -> str:
    """Hide values after secret names, and the secrets of the node that this thread works on."""
    return masking.PROSE(hidden(text))


class LogThrottle:
    """Limits how often a fault is logged that many callers meet.

    :param steady: returns seconds of a clock that cannot be set.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._logged: dict[str, float] = {}

    def new(self, why: str) -> bool:
        """Return whether to log a fault: the first time, and rarely while it persists.

        :param why: the fault, and what it concerns; it is remembered as long as it is not logged.
        """
        now = self._steady()
        if now - self._logged.get(why, -_REMINDED) < _REMINDED:
            return False
        self._logged = {**self._younger(_REMINDED), why: now}
        return True

    def __enter__(self) -> None:
        """Begin work; after a successful block, a fault logged a minute ago counts as new."""

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is None and self._logged:
            self._logged = self._younger(CALM)

    def _younger(self, seconds: float) -> dict[str, float]:
        """Return the faults logged since then; a new object, because other threads may read it."""
        since = self._steady() - seconds
        return {why: at for why, at in self._logged.items() if at > since}


class Seldom(logging.Filter):
    """Passes each statement of libraries once in ten minutes, whatever its values.

    Their peers decide how often they log: a service that is away is tried again all the time. The
    same holds for our statements about an unavailable database, which all nodes meet at once.

    :param libraries: names of loggers, which include those below them; without a name, all loggers.
    :param least: the level from which records are limited.
    """

    def __init__(self, *libraries: str, least: int = logging.WARNING) -> None:
        super().__init__()
        self._throttle = LogThrottle()
        self._libraries = libraries
        self._least = least

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        if _is_outage(record) or (record.levelno >= self._least and self._limits(record.name)):
            return self._throttle.new(f"{record.pathname}:{record.lineno}")
        return True

    def _limits(self, name: str) -> bool:
        if not self._libraries:
            return True
        if name.startswith(_NOTIFICATIONS):
            return False
        return any(name == each or name.startswith(f"{each}.") for each in self._libraries)


def _is_outage(record: logging.LogRecord) -> bool:
    """Return whether an argument or the traceback is the error of an unavailable database."""
    values = record.args if isinstance(record.args, tuple) else ()
    caught = record.exc_info[1] if record.exc_info else None
    return any(
        type(each) is errors.Unavailable and "url" in each.facts for each in (*values, caught)
    )


def escaped(text: str) -> str:
    """Return a text as one line of plain characters."""
    return _IN_LINE.sub(_escape_character, text)


def some(remarks: Sequence[str]) -> list[str]:
    """Return the remarks about one answer of a machine that are logged; the last counts the rest.

    The machine decides how many remarks its answer gives cause for.
    """
    more = len(remarks) - _MOST_REMARKS
    return [*remarks[:_MOST_REMARKS], *([f"{more} more remarks are left out"] if more > 0 else [])]


def path(text: object) -> str:
    """Return the path of a request, or another foreign name, shortened for a log line."""
    shown = str(text)
    return shown if len(shown) <= LONGEST_PATH else f"{shown[:LONGEST_PATH]}..."


def guard(logger: logging.Logger) -> None:
    """Make all handlers of a logger write such lines."""
    for handler in logger.handlers:
        if not isinstance(handler.formatter, OneLine):
            handler.setFormatter(OneLine(handler.formatter or logging.Formatter()))


class _Prioritized(logging.Formatter):
    """Begins each line with the priority that the journal reads from standard error."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record; each line of a traceback is an entry of the journal."""
        text = self._inner.format(record)
        level = next(value for least, value in _PRIORITIES if record.levelno >= least)
        return "\n".join(f"<{level}>{line}" for line in text.split("\n"))


_PRIORITIES = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
    (logging.NOTSET, 7),
)
"""Least level of Python, and the priority of syslog."""


def add_priorities(logger: logging.Logger) -> None:
    """Make handlers of a logger that `guard` has changed write priorities to standard error."""
    for handler in logger.handlers:
        stream = handler.stream if isinstance(handler, logging.StreamHandler) else None
        if stream is sys.stderr and isinstance(handler.formatter, OneLine):
            handler.setFormatter(_Prioritized(handler.formatter))


def _escape_character(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if found[0] <= "\xff" else f"\\u{code:04x}"


# Where a program logs to.


def log_files(conf: cfg.ConfigOpts, prog: str) -> list[pathlib.Path]:
    """Return the file that oslo.log writes to, if any; in a folder, of one of these names."""
    own = (prog, pathlib.Path(sys.argv[0]).name)
    names = [conf.log_file] if conf.log_file else [f"{one}.log" for one in own]
    folder = conf.log_dir or ""
    return [pathlib.Path(folder, name) for name in names] if conf.log_file or folder else []


def log_to_stderr(conf: cfg.ConfigOpts, prog: str) -> None:
    """Check the log file, which a start would make, and log elsewhere.

    :raises errors.OpenError: the service could not write the file.
    """
    for path in log_files(conf, prog)[:1]:
        place = path if path.exists() else path.parent
        if path.is_dir() or not os.access(place, os.W_OK):
            reason = f"cannot write {path}; make its folder for the user of the service"
            raise errors.OpenError(reason=f"[DEFAULT]log_file, log_dir: cannot log: {reason}")
    for name in ("log_file", "log_dir"):
        conf.set_override(name, None)


def is_journal() -> bool:
    """Return whether standard error is the journal, by JOURNAL_STREAM of systemd.exec(5)."""
    try:
        about = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # a test has replaced it
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{about.st_dev}:{about.st_ino}"
