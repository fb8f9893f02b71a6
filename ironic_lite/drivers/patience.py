"""How long whoever asks a BMC wants to wait, where that is less than the configuration allows.

A caller of the API waits for an answer, and RPC says that there was none if this takes too long:
the BMC's trouble must be told before. A sweep that asks thousands of BMCs comes back by itself: it
would rather hear at once that one is silent than have a thread held. A driver that does not look
here is just slower to give up.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import time
from collections.abc import Iterator

_SECONDS: contextvars.ContextVar[float | None] = contextvars.ContextVar("patience", default=None)

_END: contextvars.ContextVar[tuple[float, float] | None] = contextvars.ContextVar(
    "end", default=None
)
"""When all must be over, by time.monotonic, and the seconds that there were until then."""

LEAST_SECONDS = 0.01
"""A time-out of none would mean that there is no limit."""

UNHURRIED = math.inf
"""Full time-outs, but one try only."""


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Let calls of this thread fail rather than repeat anything after a pause.

    :param seconds: which each request may take at most.
    """
    token = _SECONDS.set(seconds)
    try:
        yield
    finally:
        _SECONDS.reset(token)


@contextlib.contextmanager
def until(seconds: float) -> Iterator[None]:
    """Let all that this thread does take so many seconds together."""
    token = _END.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _END.reset(token)


def left() -> float:
    """Return the seconds that are left of `until`, without end outside of it."""
    end = _END.get()
    return math.inf if end is None else max(0.0, end[0] - time.monotonic())


def given() -> float:
    """Return the seconds that there were, without end outside of `until`."""
    end = _END.get()
    return math.inf if end is None else end[1]


def limited() -> bool:
    """Tell whether whoever asks comes back by himself."""
    return _SECONDS.get() is not None


def pause() -> float:
    """Return the seconds that a pause before a repetition may have."""
    return 0.0 if limited() else left()


def within(timeout: float) -> float:
    """Return a configured time-out in seconds, or the patience if that is less."""
    seconds = _SECONDS.get()
    most = min(timeout, max(left(), LEAST_SECONDS))
    return most if seconds is None else min(most, seconds)
