"""Booting a machine that is not there."""

from __future__ import annotations

from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeBoot(stage.Staged, base.Boot):
    """Has nothing to put in place, and succeeds at it."""
