"""Arguments that several commands read."""

from __future__ import annotations

import argparse


def read_seconds(word: str) -> float:
    """Return the seconds of an argument; ``inf`` stands for no end.

    :raises argparse.ArgumentTypeError: not a number, or less than 0.
    """
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:  # also NaN
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of seconds, 0 or more, or inf")
    return seconds
