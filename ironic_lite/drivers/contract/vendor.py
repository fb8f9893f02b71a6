"""What only one vendor has, and consoles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task
from ironic_lite.passthru import Call


class Vendor(Interface):
    """What only one vendor has: methods marked with ``passthru`` and ``driver_passthru``.

    A method marked with ``passthru`` is called as ``method(task, call)``, one with
    ``driver_passthru`` as ``method(call)``; what it returns, a JSON value, is the answer's body.
    """

    kind = "vendor"

    def check_passthru(self, task: Task, name: str, call: Call) -> None:
        """Refuse a bad call of the method ``name``, before anything is done and while the caller
        still listens. As it stands it checks the node's settings, by ``validate``.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the key of ``call.info``.
        """
        self.validate(task)

    def check_driver_passthru(self, name: str, call: Call) -> None:
        """Refuse a bad call of the method ``name`` that is not about one node."""


class Proxy(Protocol):
    """A program of the conductor through which one console is reached."""

    @property
    def running(self) -> bool:
        """Whether it still runs."""

    @property
    def lived(self) -> float:
        """The seconds for which it has run, or ran."""

    @property
    def said(self) -> str:
        """Why it has ended, as far as it said so."""


class Console(Interface):
    """Serial consoles: started and stopped on request, and then reached by whoever may.

    The conductor that has the node next, or the next life of this one, starts a started one anew.
    """

    kind = "console"
    by_program: ClassVar[bool] = False
    """True if a console is reached through a program of this conductor, and ends with it: then a
    sweep starts it again where that program has ended, and where the node has come from another
    conductor. The driver sees to it that the program never outlives the conductor.
    """

    def start_console(self, task: Task) -> None:
        """Make the console of a machine reachable; one that is already stays so, or is made anew.

        It is called again, by other conductors, too, for a console that should be there and is not.

        :raises errors.Error: with ``by_program``, it is tried again later after one that is
            ``retryable``; after any other the console is taken for stopped.
        """
        raise self.unsupported(task, self.kind)

    def stop_console(self, task: Task) -> None:
        """End that; one that is not reachable stays so."""
        raise self.unsupported(task, self.kind)

    def get_console(self, task: Task) -> dict[str, Any]:
        """Return how a started console is reached: ``{"type": str, "url": str}``."""
        raise self.unsupported(task, self.kind)

    def proxies(self) -> Mapping[str, Proxy]:
        """Return the programs of this conductor by the UUIDs of their nodes.

        One that has ended by itself stays among them until `let_go` or a new start.
        """
        return {}

    def let_go(self, node_uuid: str, proxy: Proxy | None = None) -> None:
        """End the program of a node that is another conductor's now, or gone; no hardware is asked.

        :param proxy: only if it is this one; None: whichever there is.
        """
