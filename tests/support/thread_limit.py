"""A system that refuses new threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def no_new_threads() -> Iterator[None]:
    """Let the system refuse new threads, by a stack larger than the address space."""
    before = threading.stack_size(2**47)
    try:
        yield
    finally:
        threading.stack_size(before)
