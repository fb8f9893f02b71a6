"""Caller's time limits for BMC requests, where they are shorter than the configured ones.

An API caller waits for an answer, and RPC reports a timeout if the answer takes too long, so the
BMC's fault must be reported earlier. A sweep over thousands of BMCs comes back by itself, so it
prefers a quick error to a blocked thread. A driver that ignores these limits only gives up more
slowly.
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
"""The deadline by time.monotonic, and the seconds that were granted at its start."""

LEAST_SECONDS = 0.01
"""A timeout of 0 would mean no limit."""

UNHURRIED = math.inf
"""Full timeouts, but only one attempt."""


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Limit requests of this thread, and fail instead of retrying after a pause.

    :param seconds: the limit of each request.
    """
    token = _SECONDS.set(seconds)
    try:
        yield
    finally:
        _SECONDS.reset(token)


@contextlib.contextmanager
def until(seconds: float) -> Iterator[None]:
    """Limit the total time of all requests of this thread."""
    token = _END.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _END.reset(token)


def left() -> float:
    """Return the seconds left of `until`; infinite outside of it."""
    end = _END.get()
    return math.inf if end is None else max(0.0, end[0] - time.monotonic())


def given() -> float:
    """Return the seconds granted by `until`; infinite outside of it."""
    end = _END.get()
    return math.inf if end is None else end[1]


def limited() -> bool:
    """Return whether the caller repeats its requests by itself."""
    return _SECONDS.get() is not None


def pause() -> float:
    """Return the longest allowed pause in seconds before a retry."""
    return 0.0 if limited() else left()


def within(timeout: float) -> float:
    """Return the smaller of a configured timeout and the caller's limit, in seconds."""
    seconds = _SECONDS.get()
    most = min(timeout, max(left(), LEAST_SECONDS))
    return most if seconds is None else min(most, seconds)
