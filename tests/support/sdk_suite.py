"""Run openstacksdk's functional tests of bare metal as a program, and print each result.

Its results are JSON lines of standard output: test, result, seconds, and why. The clouds that the
tests speak to come from the file that OS_CLIENT_CONFIG_FILE names.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import unittest
from typing import Any

PACKAGE = "openstack.tests.functional.baremetal.v1"
_LONGEST = 3000


class _Results(unittest.TestResult):
    """Tells each result when it is known; testtools gives details in place of exceptions."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = 0.0

    def startTest(self, test: Any) -> None:
        self._begun = time.monotonic()

    def _tell(self, test: Any, result: str, why: Any = "") -> None:
        name = test.id().removeprefix(f"{PACKAGE}.")
        seconds = round(time.monotonic() - self._begun, 2)
        print(json.dumps([name, result, seconds, str(why)[-_LONGEST:]]), file=sys.__stdout__)

    def addSuccess(self, test: Any) -> None:
        self._tell(test, "ok")

    def addError(self, test: Any, err: Any = None, details: Any = None) -> None:
        self._tell(test, "error", _text(details) or err)

    def addFailure(self, test: Any, err: Any = None, details: Any = None) -> None:
        self._tell(test, "failure", _text(details) or err)

    def addSkip(self, test: Any, reason: str = "", details: Any = None) -> None:
        self._tell(test, "skipped", reason or _text(details))


def _text(details: Any) -> str:
    return "\n".join(one.as_text() for name, one in (details or {}).items() if "traceback" in name)


def main() -> None:
    """Run the modules that the command line names."""
    load = unittest.defaultTestLoader.loadTestsFromModule
    for name in sys.argv[1:]:
        load(importlib.import_module(f"{PACKAGE}.{name}")).run(_Results())


if __name__ == "__main__":
    main()
