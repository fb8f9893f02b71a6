"""Interfaces for vendor-specific methods and for consoles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from ironic_lite.core.json_types import Json
from ironic_lite.domain.passthru import Call
from ironic_lite.drivers.contract.interface import Interface
from ironic_lite.drivers.contract.task import Task


class Vendor(Interface):
    """Vendor-specific methods, marked with ``passthru`` and ``driver_passthru``.

    A method marked with ``passthru`` is called as ``method(task, call)``, one marked with
    ``driver_passthru`` as ``method(call)``. Its result, a JSON value, is the response body.
    """

    kind = "vendor"

    def check_passthru(self, task: Task, name: str, call: Call) -> None:
        """Reject an invalid call of the method ``name`` while the client still waits.

        The default checks the node's settings with ``validate``.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the key of ``call.info``.
        """
        self.validate(task)

    def check_driver_passthru(self, name: str, call: Call) -> None:
        """Reject an invalid call of the method ``name``, which is not about one node."""


class Proxy(Protocol):
    """A program of the conductor that connects clients to one console."""

    @property
    def running(self) -> bool:
        """Return whether the program still runs."""

    @property
    def lived(self) -> float:
        """The seconds for which the program has run."""

    @property
    def said(self) -> str:
        """The program's message about its end, if it gave one."""


class Console(Interface):
    """Serial consoles, started and stopped on request.

    A started console is started again by the node's next conductor, or after a restart of this one.
    """

    kind = "console"
    by_program: ClassVar[bool] = False
    """True if a program of this conductor serves the console, which ends with the program.

    A sweep then restarts the console if its program has ended, or if the node came from another
    conductor. The driver ensures that the program never outlives the conductor.
    """

    def start_console(self, task: Task) -> None:
        """Make the console reachable; a console that already is stays so or is started again.

        Other conductors also call it for a console that should be reachable but is not.

        :raises errors.Error: with ``by_program``, a ``retryable`` error is retried later; after any
            other the console counts as stopped.
        """
        raise self.unsupported(task, self.kind)

    def stop_console(self, task: Task) -> None:
        """Stop the console; a stopped console stays so."""
        raise self.unsupported(task, self.kind)

    def get_console(self, task: Task) -> Json:
        """Return the address of a started console: ``{"type": str, "url": str}``."""
        raise self.unsupported(task, self.kind)

    def proxies(self) -> Mapping[str, Proxy]:
        """Return the programs of this conductor by node UUID.

        A program that has ended by itself stays listed until `let_go` or a new start.
        """
        return {}

    def let_go(self, node_uuid: str, proxy: Proxy | None = None) -> None:
        """End the program of a node that was deleted or moved to another conductor.

        No hardware is touched.

        :param proxy: end only this program; None: any program of the node.
        """
