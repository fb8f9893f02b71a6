"""Make Pecan remember the signature of a handler instead of inspecting it for every request.

Pecan asks for it anew each time, by `inspect` and a new namedtuple class: most of its own cost. The
function it calls has a private name; if that is gone, Pecan simply stays as slow as it was.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import pecan.util

LOG = logging.getLogger(__name__)

_PRIVATE = "_getargspec"


def remember(module: Any = pecan.util) -> bool:
    """Put a cache over Pecan's look-up of signatures, once; return whether it is there now.

    :param module: what holds the look-up: ``pecan.util``, or a stand-in.
    """
    stock = getattr(module, _PRIVATE, None)
    if not callable(stock):
        LOG.warning("This release of Pecan hides its look-up of signatures: requests cost more.")
        return False
    if not hasattr(stock, "signatures"):
        setattr(module, _PRIVATE, _cached(stock))
    return True


def _cached(stock: Callable[[Any], Any]) -> Callable[[Any], Any]:
    known: dict[Any, Any] = {}

    @functools.wraps(stock)
    def look_up(method: Any) -> Any:
        # Bound methods are made anew for each request; the function below them stays.
        function = getattr(method, "__func__", method)
        found = known.get(function)
        if found is None:
            found = known[function] = stock(function)
        return found

    look_up.signatures = known  # type: ignore[attr-defined]
    return look_up
