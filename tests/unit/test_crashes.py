"""Drivers of tests, each call of which is passed to a function."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any, cast

from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry
from tests.support import conductor_fixture, crashes

SECONDS = 30.0


class SlowVendor(base.Vendor):
    """An interface whose method ``beep`` takes the first thread long to find."""

    def __init__(self) -> None:
        self.reached, self.gate = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Callable[[], str]:
        if name != "beep":
            raise AttributeError(name)
        if not self.reached.is_set():
            self.reached.set()
            self.gate.wait(SECONDS)
        return lambda: "beep"


class OneDriver:
    """A registry that has one driver."""

    def __init__(self, driver: base.Driver) -> None:
        self.driver = driver

    def driver_for(self, *_: Any) -> base.Driver:
        """Return it."""
        return self.driver


def test_drivers_that_two_threads_want_at_once_pass_on_the_calls_of_both() -> None:
    vendor, passed = SlowVendor(), list[str]()

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        passed.append(name)
        return call()

    whole = conductor_fixture.drivers().driver_for("fake-hardware", {})
    inner = cast(Registry, OneDriver(dataclasses.replace(whole, vendor=vendor)))
    drivers = crashes.Drivers(inner, around, more=("beep",))

    def beep() -> None:
        cast(Any, drivers.driver_for("fake-hardware", {}).vendor).beep()

    first = threading.Thread(target=beep)
    first.start()
    try:
        assert vendor.reached.wait(SECONDS)
        beep()
        assert passed == ["beep"], "although the first thread has not wrapped it yet"
    finally:
        vendor.gate.set()
        first.join(SECONDS)
    assert passed == ["beep", "beep"]
