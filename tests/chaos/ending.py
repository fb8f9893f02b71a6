"""SIGTERM as an exception, so that a program takes down what it has started."""

from __future__ import annotations

import signal


def unwind_on_sigterm() -> None:
    """Leave all blocks of the main thread on the first SIGTERM; later ones change nothing.

    :raises SystemExit: in the main thread, when the signal comes.
    """
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + number)
