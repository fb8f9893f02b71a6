"""Answers of BMCs and of agents: each ends when its caller's time-out is over for the whole."""

from __future__ import annotations

import http.client
from collections.abc import Callable

from ironic_lite import answers
from ironic_lite.answers import too_large
from ironic_lite.drivers import patience

__all__ = ["bounded", "too_large"]


def bounded(limit: Callable[[], int]) -> type[http.client.HTTPResponse]:
    """Return a response class for connections of http.client and urllib3.

    Its answers end when the connection's time-out, or the caller's patience, is over for the whole.

    :param limit: returns the bytes that an answer may have.
    """

    def bounds(timeout: float | None) -> answers.Bounds:
        most = None if timeout is None else patience.within(timeout)
        return answers.Bounds(limit(), most, most)

    return answers.bounded(bounds)
