"""Results of a benchmark: figures beside their budgets, printed as one table."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

VARIABLE = "IRONIC_LITE_BENCH_SMOKE"
SMOKE = bool(os.environ.get(VARIABLE))
"""Whether this is a smoke run: small sizes, and no budget is judged."""


def size(full: T, *, smoke: T) -> T:
    """Return the size of a benchmark, the smaller one in a smoke run."""
    return smoke if SMOKE else full


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; without a budget it only explains another."""

    name: str
    value: float
    unit: str = ""
    budget: float | None = None

    @property
    def kept(self) -> bool:
        """Return whether the figure is within its budget."""
        return self.budget is None or self.value <= self.budget

    def __str__(self) -> str:
        text = f"{self.name:<58}{self.value:>9.3g} {self.unit:<10}"
        if self.budget is not None and not SMOKE:
            text += f"budget {self.budget:<5g} {'pass' if self.kept else 'FAIL'}"
        return text.rstrip()


def report(figures: Iterable[Figure]) -> int:
    """Print figures; return the exit status: 0 if every budget holds, or in a smoke run."""
    kept = True
    for figure in figures:
        print(figure, flush=True)
        kept = kept and figure.kept
    print(f"load average {os.getloadavg()[0]:.0f}, {os.cpu_count()} cores")
    return 0 if kept or SMOKE else 1


def not_measured(reason: object) -> int:
    """Print why a benchmark cannot run on this machine; return the exit status."""
    print(f"NOT MEASURED: {reason}")
    return 0


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that a share (0 to 1) of the values does not exceed; NaN without values."""
    if not values:
        return float("nan")
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def in_turns(
    *contenders: Callable[[], object],
    count: int,
    rounds: int = 7,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Return the milliseconds that one call of each contender takes, the median of its rounds.

    Each round measures all contenders, so other load slows all of them down.

    :param count: calls in a round.
    :param clock: CPU seconds by default: of this process, independent of other load.
    """
    count, rounds = size(count, smoke=2), size(rounds, smoke=1)
    times: list[list[float]] = [[] for _ in contenders]
    for call in contenders:
        call()
    for _ in range(rounds):
        for call, measured in zip(contenders, times, strict=True):
            begin = clock()
            for _ in range(count):
                call()
            measured.append((clock() - begin) / count * 1000)
    return [statistics.median(measured) for measured in times]
