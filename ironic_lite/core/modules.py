"""Optional modules of libraries, which a process leaves out to save memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def left_out(*names: str) -> Iterator[None]:
    """Make imports of these modules fail inside this block, as if they were not installed.

    Pecan loads every template engine that is installed, for pages this service does not have; they
    take 7 MiB. A module that is already loaded stays, and all can be imported after the block.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # documented: raises ImportError
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
