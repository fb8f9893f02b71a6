"""The serial console of a machine that is not there."""

from __future__ import annotations

from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeConsole(stage.Staged, base.Console):
    """Nothing is ever printed on it."""
