"""A hardware type of a kind of interface that does not exist, and half a power interface."""

from collections.abc import Mapping
from typing import ClassVar

from ironic_lite.drivers import base


class Strange(base.HardwareType):
    """Has wheels."""

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {"wheels": ("round",)}


class Twin(base.Power):
    """Has the name of somebody else's, and no methods."""
