"""Results of a benchmark: figures beside their budgets, printed as one table."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable


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
        if self.budget is not None:
            text += f"budget {self.budget:<5g} {'pass' if self.kept else 'FAIL'}"
        return text.rstrip()


def report(figures: Iterable[Figure]) -> int:
    """Print figures; return the exit status: 0 if every budget holds."""
    kept = True
    for figure in figures:
        print(figure, flush=True)
        kept = kept and figure.kept
    return 0 if kept else 1


def rivals(
    *contenders: Callable[[], object],
    count: int,
    rounds: int = 7,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Return the milliseconds that one call of each contender takes, the median of its rounds.

    They take turns, so that whatever slows the machine down meets all of them.

    :param count: calls in a round.
    :param clock: CPU seconds by default: of this process, independent of other load.
    """
    times: list[list[float]] = [[] for _ in contenders]
    for one in contenders:
        one()
    for _ in range(rounds):
        for one, found in zip(contenders, times, strict=True):
            begin = clock()
            for _ in range(count):
                one()
            found.append((clock() - begin) / count * 1000)
    return [statistics.median(found) for found in times]
