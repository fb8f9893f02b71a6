"""Failures of sending notifications, taken from oslo.messaging's log.

The library's notifier raises nothing. It logs each unsent notification with its payload, which
would be thousands of payloads while a broker is away. A filter on the loggers of its notifier takes
these records from the threads that ask for them. ``tests/rpc/test_notifier.py`` fails if the
library logs them elsewhere.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_LOGGERS = ("oslo_messaging.notify.notifier", "oslo_messaging.notify.messaging")


class _Filter(logging.Filter):
    """Takes the exception records of threads that are inside `of`."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be logged."""
        if not (getattr(self.here, "asked", False) and record.exc_info):
            return True
        self.here.why = record.exc_info[1]
        return False


_FILTER = _Filter()


def watch() -> None:
    """Install the filter, whatever the log levels; may be called again."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.addFilter(_FILTER)
        if not logger.isEnabledFor(logging.ERROR):
            logger.setLevel(logging.ERROR)


def of(send: Callable[[], object]) -> BaseException | None:
    """Return the exception that sending raised or logged, None without a failure.

    :param send: sends one notification by one driver; an exception it raises is returned, too.
    """
    here = _FILTER.here
    here.asked, here.why = True, None
    try:
        send()
    except Exception as why:  # one driver's failure must not stop the other drivers
        return why
    else:
        found: BaseException | None = here.why
        return found
    finally:
        here.asked = False
