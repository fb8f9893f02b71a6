"""What a test leaves behind is noticed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

import pytest

from tests.support import leftovers

SOON = 0.05


def test_a_thread_that_goes_on_is_named() -> None:
    before, closing = leftovers.look(), threading.Event()
    thread = threading.Thread(target=closing.wait, name="left-over", daemon=True)
    thread.start()
    try:
        assert leftovers.since(before, SOON) == ["the thread left-over"]
    finally:
        closing.set()
        thread.join()
    assert leftovers.since(before) == []


def test_a_child_process_is_named() -> None:
    before = leftovers.look()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = leftovers.since(before, SOON)
        assert found == [f"the child process {child.pid}"]
    finally:
        child.communicate()
    assert leftovers.since(before) == []


def test_many_descriptors_are_counted() -> None:
    before = leftovers.look()
    with contextlib.ExitStack() as opened:
        for _ in range(leftovers.DESCRIPTORS + 1):
            opened.enter_context(open(os.devnull, "rb"))
        assert leftovers.since(before, SOON) == [f"{leftovers.DESCRIPTORS + 1} descriptors"]
    assert leftovers.since(before) == []


def test_a_thread_that_is_being_started_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    before, starting = leftovers.look(), threading.Thread(target=int)
    # `enumerate` lists a thread from the first moment of its start; it refuses `join` until later.
    monkeypatch.setattr(threading, "enumerate", lambda: [*before.threads, starting])
    assert leftovers.since(before) == []
