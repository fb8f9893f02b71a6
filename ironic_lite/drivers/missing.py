"""What stands for an interface that a node names and this conductor does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ironic_lite import errors


class Missing:
    """Refuses whatever it is asked, so that all else can still be done to the node.

    A conductor may be restarted without an interface that was in use. What a node was in the middle
    of then ends in its fail state, and ending it asks interfaces to put things away.
    """

    in_band = False

    def __init__(self, kind: str) -> None:
        """:param kind: of which interface this is, such as ``"deploy"``."""
        self.kind = kind

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*given: Any, **named: Any) -> NoReturn:
            raise errors.InterfaceNotFound(f"This conductor lacks its {self.kind} interface.")

        return refuse
