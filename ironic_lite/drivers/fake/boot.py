"""Fake boot interface, without hardware."""

from __future__ import annotations

from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeBoot(stage.Staged, base.Boot):
    """Does nothing, and succeeds."""
