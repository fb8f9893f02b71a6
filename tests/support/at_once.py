"""Calls that begin at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ironic_lite import errors


def at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Return what threads return that begin at the same time, or the errors that they raise."""
    start = threading.Barrier(count)
    found: list[Any] = [None] * count

    def work(number: int) -> None:
        start.wait(30)
        try:
            found[number] = act(number)
        except errors.Error as why:
            found[number] = why

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    return found
