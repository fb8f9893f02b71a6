"""Conductors that die at a chosen moment: after a commit, or after a call of a driver.

Death is a ``BaseException`` in the thread that reaches the moment. From then on the database
accepts no statement of the dead conductor, so nothing is cleaned up.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any, cast

from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry


class Died(BaseException):
    """The death of a conductor; no ``except Exception`` catches it."""


class Life:
    """The number of commits or driver calls until a conductor dies; unlimited until armed."""

    def __init__(self) -> None:
        self.dead = False
        self.doom: Callable[[str], bool] = lambda _what: False
        """Asked after each ``commit`` or ``call`` whether it was the last."""
        self._left: dict[str, int | None] = {"commit": None, "call": None}
        self._guard = threading.Lock()

    def arm(self, **left: int) -> None:
        """Die after so many commits (``commit``) or driver calls (``call``) from now on."""
        self._left.update(left)

    def disarm(self) -> None:
        """Live for ever again."""
        self._left = {"commit": None, "call": None}

    def check(self) -> None:
        """Stop a thread of a dead conductor."""
        if self.dead:
            raise Died

    def spend(self, what: str) -> None:
        """Count one commit or call, and die after the last."""
        with self._guard:
            left = self._left[what]
            if left is not None:
                self._left[what] = left - 1
                self.dead = self.dead or left == 1
        self.dead = self.dead or self.doom(what)
        self.check()


class MortalDatabase:
    """A database as one mortal conductor sees it."""

    def __init__(self, inner: Database, life: Life) -> None:
        self._inner = inner
        self._life = life

    def read(self, work: Callable[[Connection], Any]) -> Any:
        """Read, if alive."""
        self._life.check()
        return self._inner.read(work)

    def write(self, work: Callable[[Connection], Any], **more: Any) -> Any:
        """Write, if alive; and perhaps die."""
        self._life.check()
        found = self._inner.write(work, **more)
        self._life.spend("commit")
        return found


def database(inner: Database, life: Life) -> Database:
    """Return ``inner`` for a conductor with this life."""
    return cast(Database, MortalDatabase(inner, life))


_CALLS = (
    "get_power_state",
    "set_power_state",
    "reboot",
    "prepare",
    "tear_down",
    "clean_up",
    "adopt",
    "prepare_cleaning",
    "agent_steps",
    "tear_down_cleaning",
    "prepare_service",
    "tear_down_service",
    "inspect_hardware",
    "poll_inspection",
    "rescue",
    "poll_rescue",
    "unrescue",
    "poll_step",
    "execute_clean_step",
    "execute_deploy_step",
    "execute_service_step",
    "execute_verify_step",
    "abort",
)


class Drivers:
    """The drivers of a registry with something to do after, or instead of, every call.

    :param around: called with the interface kind, the method's name and the call itself; what it
        returns is what the conductor sees.
    :param more: names of further methods.
    """

    def __init__(
        self,
        inner: Registry,
        around: Callable[[str, str, Callable[[], Any]], Any],
        *,
        more: tuple[str, ...] = (),
    ) -> None:
        self._inner = inner
        self._around = around
        self._names = (*_CALLS, *more)
        self._twins: dict[tuple[str, base.Interface], base.Interface] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def driver_for(self, *args: Any) -> base.Driver:
        """Return the node's driver, each of its interfaces wrapped."""
        driver = self._inner.driver_for(*args)
        wrapped = {kind: self._wrap(kind, driver.interface(kind)) for kind in base.KINDS}
        return dataclasses.replace(driver, **cast(Any, wrapped))

    def _wrap(self, kind: str, interface: base.Interface) -> base.Interface:
        found = self._twins.get((kind, interface))
        if found is not None:
            return found
        twin = copy.copy(interface)
        for name in self._names:
            method = getattr(interface, name, None)
            if method is not None:
                object.__setattr__(twin, name, self._wrapped(kind, name, method))
        # Stored when complete: another thread would call methods that are not wrapped yet.
        return self._twins.setdefault((kind, interface), twin)

    def _wrapped(self, kind: str, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._around(kind, name, functools.partial(method, *args, **kwargs))

        return call


class Held:
    """A clean step that waits until it is let go.

    ``reached`` is set when it has begun; set ``opened`` to let it go on.
    """

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def drivers(self, inner: Registry) -> Registry:
        """Return drivers each clean step of which is held."""
        return cast(Registry, Drivers(inner, self._around))

    def _around(self, _kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "execute_clean_step":
            self.reached.set()
            assert self.opened.wait(10)
        return call()


def drivers(inner: Registry, life: Life, *, more: tuple[str, ...] = ()) -> Registry:
    """Return drivers after whose calls, ``more`` among them, the conductor may die."""

    def around(_kind: str, _name: str, call: Callable[[], Any]) -> Any:
        life.check()
        found = call()
        life.spend("call")
        return found

    return cast(Registry, Drivers(inner, around, more=more))
