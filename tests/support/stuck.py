"""Print where all threads are when a test takes too long.

``faulthandler_timeout`` of pytest starts and joins a thread for each test, which takes a tenth of
the time of thousands of short tests. Here one timer serves many tests.
"""

from __future__ import annotations

import faulthandler
import os
import time

import pytest

AFTER = 120.0
"""Seconds of a test, unless ``--stuck-after`` names others."""
RENEWAL = 10.0
"""Seconds after which a test sets the timer again; the threads may be printed as much too early."""


def add_option(parser: pytest.Parser) -> None:
    """Let a command name the seconds, for tests that are long on purpose."""
    about = "seconds of a test after which all threads are printed, 0: never (default: %(default)s)"
    parser.addoption("--stuck-after", type=float, default=AFTER, help=about)


def watch(config: pytest.Config) -> None:
    """Watch the tests of this process."""
    if config.getoption("stuck_after"):
        # Tests are captured, this is not.
        config.pluginmanager.register(Timer(config.getoption("stuck_after"), os.dup(2)))


class Timer:
    """Hooks of pytest that set the timer.

    :param seconds: after which all threads are printed.
    :param output: the descriptor of a file, which this closes.
    """

    def __init__(self, seconds: float, output: int) -> None:
        self._seconds, self._output = seconds, output
        self._old_at = 0.0

    def pytest_runtest_protocol(self) -> None:
        """Begin a test."""
        if time.monotonic() >= self._old_at:
            faulthandler.dump_traceback_later(self._seconds, file=self._output)
            self._old_at = time.monotonic() + RENEWAL

    def pytest_unconfigure(self) -> None:
        """End the timer."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self._output)
