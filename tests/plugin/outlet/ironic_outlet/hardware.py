"""The hardware type ``outlet``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ironic_lite.drivers import base


class OutletMachine(base.HardwareType):
    """What belongs together; ``pdu`` is a name of a package that need not be installed."""

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "boot": ("fake",),
        "deploy": ("outlet", "fake"),
        "management": ("outlet", "noop"),
        "power": ("pdu", "outlet"),
        "vendor": ("outlet", "no-vendor"),
    }
