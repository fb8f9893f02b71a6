"""Declared effects of steps on a machine: what they destroy, its restarts, and their duration.

Drivers declare them in the decorators of ``domain.steps``. A plan shows them before a run, and a
retry keeps the steps whose effect lasts. None always means unknown, never "nothing".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from types import MappingProxyType

from ironic_lite import errors

DESTROYED = ("data", "volumes", "settings", "firmware", "keys")
"""Things that a step can destroy: data on disks, volumes of controllers, settings of BIOS or BMC,
installed firmware, and keys of secure boot."""


@dataclasses.dataclass(frozen=True, slots=True)
class Effects:
    """Effects of one step.

    ``destroys`` has words of ``DESTROYED``, in their order; None: not declared. ``restarts`` is
    the number of restarts of the machine; None: not declared, or it depends on the machine.
    ``lasting`` says that the effect outlives a restart of the machine.
    """

    destroys: tuple[str, ...] | None = None
    restarts: int | None = None
    lasting: bool = True


UNKNOWN = Effects()
OF_RESERVED: Mapping[str, Effects] = MappingProxyType(
    {
        "hold": Effects((), 0),
        "wait": Effects((), 0, lasting=False),
        "power_off": Effects((), 0, lasting=False),
        "power_on": Effects((), 1, lasting=False),
        "reboot": Effects((), 1, lasting=False),
    }
)
"""Effects of the steps that the engine runs itself."""


def declared(destroys: Collection[str] | None, restarts: int | None, *, lasting: bool) -> Effects:
    """Return the effects that a decorator declares.

    :raises errors.InvalidParameter: at import, when one of them is not as described.
    """
    if destroys is not None and (
        isinstance(destroys, str) or not set(destroys).issubset(DESTROYED)
    ):
        reason = f"{destroys!r} is not a collection of words of {', '.join(DESTROYED)}"
        raise errors.InvalidParameter(path="destroys", reason=reason)
    number = isinstance(restarts, int) and not isinstance(restarts, bool) and restarts >= 0
    if restarts is not None and not number:
        reason = f"{restarts!r} is not an integer of 0 or more"
        raise errors.InvalidParameter(path="restarts", reason=reason)
    words = None if destroys is None else tuple(word for word in DESTROYED if word in destroys)
    return Effects(words, restarts, lasting)
