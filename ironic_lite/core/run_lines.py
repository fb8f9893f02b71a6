"""Lines for the log of the run that a thread works on.

The conductor gives a thread that works on a node a sink (`gathering`). Drivers and counters of BMC
calls add lines to it (`note`), and so does a handler of the standard library's logging (`install`)
for each message of INFO and above. Without a sink, lines go nowhere.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

OMITTED = {"omitted": True}
"""The ``extra`` of a log message that no run's log shows: an event has it already, or it contains
bodies of messages."""
_AGENT = "ironic_lite.drivers.agent"
_DRIVERS = "ironic_lite.drivers"
_SERVICE = "ironic_lite"


class Sink(Protocol):
    """Takes the lines of one piece of work."""

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        """Take a line.

        :param source: ``run``, ``bmc``, ``agent``, ``ramdisk`` or ``driver``.
        :param minor: the line may be dropped if the work has found nothing new.
        """


_HERE = threading.local()


@contextlib.contextmanager
def gathering(
    sink: Sink, *, below: bool = False, hide: Callable[[str], str] = str
) -> Iterator[None]:
    """Send the lines of this thread to ``sink`` for the block.

    :param below: the sink that the thread has already goes on, if it has one.
    :param hide: hides the secrets of the node that the block works on, see `hidden`.
    """
    before: Sink | None = getattr(_HERE, "sink", None)
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


def note(source: str, text: str, *, minor: bool = False) -> None:
    """Add a line to the log of the run that this thread works on, if any: see `Sink.add`."""
    sink: Sink | None = getattr(_HERE, "sink", None)
    if sink is not None:
        sink.add(source, text, minor=minor)


class _Handler(logging.Handler):
    """Passes log messages to the sink of their thread."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take a message; one that is logged meanwhile by its own arguments is left out."""
        sink: Sink | None = getattr(_HERE, "sink", None)
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


_HANDLER = _Handler(logging.INFO)


def install(packages: Iterable[str] = ()) -> None:
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
