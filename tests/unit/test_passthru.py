"""Marks of vendors' methods: what they refuse at definition, and how a call finds its method."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import passthru
from ironic_lite.domain.passthru import DRIVER, NODE, Call, Route
from ironic_lite.drivers import base


class Maker(base.Vendor):
    """A vendor with one method of each kind, and things that are none."""

    @base.passthru(methods=("GET", "PUT"), description="Look.", lock=False)
    def look(self, task: base.Task, call: Call) -> Any:
        """Look."""

    @base.passthru(async_call=True, attach=False)
    def work(self, task: base.Task, call: Call) -> Any:
        """Work."""

    @base.driver_passthru(methods=("GET",))
    def everywhere(self, call: Call) -> Any:
        """Look everywhere."""

    @property
    def explosive(self) -> Any:
        """Must not be run only to see what it is."""
        raise AssertionError

    def unmarked(self, task: base.Task, call: Call) -> Any:
        """Not to be called from outside."""


class Heir(Maker):
    """Replaces one method by one that nobody may call, and inherits the rest."""

    def work(self, task: base.Task, call: Call) -> Any:
        """No mark."""


def test_methods_are_found_by_their_marks() -> None:
    assert passthru.collect(Maker(), NODE) == {
        "look": Route(NODE, ("GET", "PUT"), description="Look.", lock=False),
        "work": Route(NODE, ("POST",), async_call=True),
    }
    assert passthru.collect(Maker, DRIVER) == {"everywhere": Route(DRIVER, ("GET",), lock=False)}
    assert list(passthru.collect(Heir(), NODE)) == ["look"]
    assert passthru.collect(base.Vendor(), NODE) == {}


@pytest.mark.parametrize(
    ("scope", "name", "verb", "says"),
    [
        (NODE, "wok", "POST", "no vendor method 'wok'; this driver has: look, work"),
        (NODE, "unmarked", "POST", "no vendor method"),
        (NODE, "explosive", "POST", "no vendor method"),
        (NODE, "everywhere", "GET", "no vendor method"),
        (DRIVER, "look", "GET", "this driver has: everywhere"),
        (NODE, "look", "POST", "look does not take POST, only GET, PUT"),
        (NODE, "look", "get", "look does not take get"),
    ],
)
def test_a_call_that_nobody_serves_is_refused(scope: str, name: str, verb: str, says: str) -> None:
    with pytest.raises(errors.InvalidParameter, match=says) as refusal:
        passthru.pick(Maker(), scope, name, verb)
    assert refusal.value.facts["path"] == "method"


def test_a_call_finds_its_route() -> None:
    assert passthru.pick(Maker(), NODE, "look", "PUT").lock is False


@pytest.mark.parametrize("methods", [(), "POST", ("post",), ("HEAD",), ("POST", "FETCH")])
@pytest.mark.parametrize("mark", [base.passthru, base.driver_passthru])
def test_bad_http_methods_are_refused_when_the_class_is_defined(mark: Any, methods: Any) -> None:
    with pytest.raises(errors.InvalidParameter, match="is not a list of GET, POST"):
        mark(methods=methods)


def test_asynchronous_call_needs_the_lock() -> None:
    with pytest.raises(errors.InvalidParameter, match="lock: an asynchronous call"):
        base.passthru(async_call=True, lock=False)
