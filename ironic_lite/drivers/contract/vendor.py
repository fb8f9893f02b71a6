"""What only one vendor has, and consoles."""

from __future__ import annotations

from typing import Any

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


class Console(Interface):
    """Serial consoles: started and stopped on request, and then reached by whoever may.

    A driver that starts a program for it sees to its end itself, also when the conductor dies.
    The conductor that has the node next, or the next life of this one, starts a started one anew.
    """

    kind = "console"

    def start_console(self, task: Task) -> None:
        """Make the console of a machine reachable; one that is already stays so."""
        raise self.unsupported(task, self.kind)

    def stop_console(self, task: Task) -> None:
        """End that; one that is not reachable stays so."""
        raise self.unsupported(task, self.kind)

    def get_console(self, task: Task) -> dict[str, Any]:
        """Return how a started console is reached: ``{"type": str, "url": str}``."""
        raise self.unsupported(task, self.kind)
