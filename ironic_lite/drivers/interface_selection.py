"""Selection of a node's interfaces by hardware type, with reasons for refusals. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from ironic_lite import errors
from ironic_lite.drivers import base

_UNSAID: Mapping[str, tuple[str, ...]] = {
    **{kind: (f"no-{kind}",) for kind in base.OPTIONAL_KINDS},
    "network": ("noop",),
    "storage": ("noop",),
}
"""Interfaces of a hardware type for kinds that it does not declare."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The choice of one interface kind for nodes of one hardware type.

    ``valid`` are the loaded names that it supports, best first. ``configured`` is
    [DEFAULT]default_<kind>_interface. ``unheard`` are supported names that are not enabled.
    """

    hardware_type: str
    kind: str
    valid: tuple[str, ...]
    configured: str | None = None
    unheard: tuple[str, ...] = ()

    @property
    def default(self) -> str | None:
        """The name for a node that sets none: the configured name, which must fit, else the
        best."""
        if self.configured is not None:
            return self.configured if self.configured in self.valid else None
        return self.valid[0] if self.valid else None

    def pick(self, wanted: object, loaded: Collection[str], failed: Collection[str] = ()) -> str:
        """Return the interface name for a node.

        :param wanted: the name that the node sets, None for the default.
        :param loaded: all loaded names of this kind, for any hardware type.
        :param failed: enabled names that could not be loaded.
        :raises errors.InvalidParameter: ``wanted`` is not a string.
        :raises errors.InterfaceNotFound: it is not enabled, or could not be loaded.
        :raises errors.IncompatibleInterface: the hardware type does not support it.
        :raises errors.NoValidDefaultForInterface: ``wanted`` is None, and there is no default.
        """
        if wanted is None:
            if self.default is None:
                raise self._no_default(loaded)
            return self.default
        if not isinstance(wanted, str):
            raise errors.InvalidParameter(path=f"{self.kind}_interface", reason="is not a string")
        if wanted in self.valid:
            return wanted
        facts = self._choice_facts(name=wanted)
        if wanted in loaded:
            raise errors.IncompatibleInterface(**facts)
        raise errors.InterfaceNotFound(advice=self._enabling_advice(wanted, failed), **facts)

    def _choice_facts(self, **more: str) -> dict[str, str]:
        valid = ", ".join(self.valid) or "none"
        return {"driver": self.hardware_type, "kind": self.kind, "valid": valid, **more}

    def _enabling_advice(self, name: str, failed: Collection[str]) -> str:
        if name in failed:
            return f"{name} is enabled but could not be loaded: see the conductor's log."
        return (
            f"To use {name}, add it to [DEFAULT]enabled_{self.kind}_interfaces and restart the "
            "conductor."
        )

    def _no_default(self, loaded: Collection[str]) -> errors.Error:
        if self.valid:
            fault = "it does not work with" if self.configured in loaded else "could not be loaded"
            reason = f"[DEFAULT]default_{self.kind}_interface is {self.configured}, which {fault}"
            advice = (
                f"Name one with {self.kind}_interface; valid interfaces are "
                f"{', '.join(self.valid)}."
            )
        else:
            reason = "none that it works with is enabled"
            advice = (
                f"Enable one with [DEFAULT]enabled_{self.kind}_interfaces; it works with "
                f"{', '.join(self.unheard) or 'none'}."
            )
        return errors.NoValidDefaultForInterface(**self._choice_facts(reason=reason, advice=advice))


def choice(
    name: str,
    hardware_type: base.HardwareType,
    kind: str,
    loaded: Collection[str],
    configured: str | None,
) -> Choice:
    """Return the choice of one kind for nodes of a hardware type.

    :param loaded: the loaded names of that kind, in the order they were enabled.
    :param configured: the configured default name.
    """
    supported = hardware_type.supported.get(kind, _UNSAID.get(kind, ()))
    valid = tuple(each for each in supported if each in loaded)
    if hardware_type.any_interface:
        valid = (*valid, *(each for each in loaded if each not in valid))
    unheard = tuple(each for each in supported if each not in loaded)
    return Choice(name, kind, valid, configured, unheard)
