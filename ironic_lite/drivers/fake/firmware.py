"""Firmware versions of a machine that is not there."""

from __future__ import annotations

from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeFirmware(stage.Staged, base.Firmware):
    """There is none, so none is out of date."""
