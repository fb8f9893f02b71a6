"""The serial console of a machine that is not there."""

from __future__ import annotations

from typing import Any

from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeConsole(stage.Staged, base.Console):
    """Nothing is ever printed on it, and nobody can reach it."""

    def start_console(self, task: base.Task) -> None:
        """Succeed."""

    def stop_console(self, task: base.Task) -> None:
        """Succeed."""

    def get_console(self, task: base.Task) -> dict[str, Any]:
        """Return nothing to be reached by."""
        return {}
