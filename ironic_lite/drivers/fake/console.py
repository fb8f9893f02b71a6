"""Fake console interface, without hardware."""

from __future__ import annotations

from typing import Any

from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeConsole(stage.Staged, base.Console):
    """A console without output, which cannot be reached."""

    def start_console(self, task: base.Task) -> None:
        """Succeed."""

    def stop_console(self, task: base.Task) -> None:
        """Succeed."""

    def get_console(self, task: base.Task) -> dict[str, Any]:
        """Return an empty address."""
        return {}
