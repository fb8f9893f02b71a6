"""The hardware type ``fake-hardware``, without hardware, for tests and rehearsals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ironic_lite.drivers import base


class FakeHardware(base.HardwareType):
    """Works with every interface; prefers ``fake``, and ``noop`` where there is no fake one."""

    any_interface: ClassVar[bool] = True
    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "bios": ("fake", "no-bios"),
        "boot": ("fake",),
        "console": ("fake", "no-console"),
        "deploy": ("fake",),
        "firmware": ("fake", "no-firmware"),
        "inspect": ("fake", "no-inspect"),
        "management": ("fake", "noop"),
        "network": ("noop",),
        "power": ("fake",),
        "raid": ("fake", "no-raid"),
        "rescue": ("fake", "no-rescue"),
        "storage": ("noop",),
        "vendor": ("fake", "no-vendor"),
    }
