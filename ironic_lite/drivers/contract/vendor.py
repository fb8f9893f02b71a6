"""What only one vendor has, and consoles."""

from __future__ import annotations

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
    """Serial consoles."""

    kind = "console"
