"""Placeholder for an interface that this conductor lacks or must not call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base


class Missing:
    """Refuses every call, so that all other operations on the node still work.

    A conductor may restart without an interface that was in use. The node's running operation then
    ends in its fail state, and its cleanup calls interfaces.
    """

    in_band = False

    def __init__(self, kind: str, why: str | None = None) -> None:
        """Replace an interface.

        :param kind: the replaced kind, such as ``"deploy"``.
        :param why: the reason why it must not be called; None if it is not loaded.
        """
        self.kind = kind
        self._why = why

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*given: object, **named: object) -> NoReturn:
            if self._why is not None:
                raise errors.HardwareError(reason=f"Interface {self.kind}: {self._why}.")
            raise errors.InterfaceNotFound(f"This conductor lacks its {self.kind} interface.")

        return refuse


def silent(driver: base.Driver, why: str) -> base.Driver:
    """Return a driver whose interfaces all refuse calls.

    :param why: reason in the error that each call raises.
    """
    parts: Json = {kind: Missing(kind, why) for kind in base.KINDS}
    return base.Driver(hardware_type=driver.hardware_type, **parts)
