"""Show the states of machines: a live table on a terminal, otherwise lines."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from demo.journey import Machine

Show = Callable[[Sequence[Machine], Sequence[Machine]], None]
_COLUMNS = {"machine": 8, "state": 14, "step": 30, "power": 9, "elapsed": 7}
"""Headings, and the least width of each column, so that the table does not jump."""


def say(text: str = "") -> None:
    """Print a line and flush it, for pipes."""
    print(text, flush=True)


@contextlib.contextmanager
def board() -> Iterator[Show]:
    """Yield a function that shows all machines, and those that changed."""
    rich = _rich_modules() if sys.stdout.isatty() else None
    if rich is None:
        yield _Lines()
        return
    live, table = rich
    # The table changes only when this function is called.
    with live.Live(auto_refresh=False) as screen:

        def show(everybody: Sequence[Machine], news: Sequence[Machine]) -> None:
            screen.update(_progress_table(table, everybody), refresh=True)

        yield show


def _rich_modules() -> Any:
    """Return the library's modules, None if not installed; only the table needs it."""
    # Loaded here, because it takes a tenth of a second that plain lines do not need.
    try:
        return importlib.import_module("rich.live"), importlib.import_module("rich.table")
    except ImportError:
        return None


def _progress_table(library: Any, everybody: Sequence[Machine]) -> Any:
    table = library.Table(box=None, pad_edge=False)
    for heading, width in _COLUMNS.items():
        table.add_column(heading, min_width=width, no_wrap=True)
    for one in everybody:
        style = "green" if one.arrived else None
        table.add_row(*_machine_cells(one), style=style)
    return table


def _machine_cells(one: Machine) -> tuple[str, ...]:
    return (one.name, one.state, one.step, one.power or "", f"{one.seconds:5.1f} s")


class _Lines:
    """Prints a line for each change, suitable for a log."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, everybody: Sequence[Machine], news: Sequence[Machine]) -> None:
        elapsed = time.monotonic() - self._began
        for one in news:
            details = ", ".join(filter(None, (one.step, one.power)))
            say(f"{elapsed:6.2f} s  {one.name:<8} {one.state:<14} {details}".rstrip())
