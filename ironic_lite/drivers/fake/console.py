"""Fake console interface, without hardware."""

from __future__ import annotations

from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeConsole(stage.Staged, base.Console):
    """A console without output, which cannot be reached."""

    def start_console(self, task: base.Task) -> None:
        """Succeed."""

    def stop_console(self, task: base.Task) -> None:
        """Succeed."""

    def get_console(self, task: base.Task) -> Json:
        """Return an empty address."""
        return {}
