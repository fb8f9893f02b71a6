"""What time it is: naive UTC, as every column and comparison here uses."""

from __future__ import annotations

import datetime


def now() -> datetime.datetime:
    """Return the present moment as naive UTC with microseconds."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def after(seconds: float) -> datetime.datetime:
    """Return the moment ``seconds`` from now (negative: ago)."""
    return now() + datetime.timedelta(seconds=seconds)
