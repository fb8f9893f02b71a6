"""Names of hardware types and interfaces: those that a node there becomes here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ironic_lite.core.json_types import JsonView
from ironic_lite.core.options import HARDWARE_TYPE, NOT_BUILT
from ironic_lite.domain import fields
from ironic_lite.drivers import registry
from ironic_lite.drivers.registry import Registry
from ironic_lite.features.move_in import report, rules
from ironic_lite.features.move_in.report import MoveFinding
from ironic_lite.features.move_in.rules import DRIVER, Interfaces

MAPPED_KINDS = (DRIVER, *fields.INTERFACE_KINDS)
PATH = "path"
"""The kind of maps that change beginnings of paths."""
_PROPOSED: Mapping[str, Mapping[str, str]] = {
    DRIVER: {
        **dict.fromkeys(("ilo", "ilo5", "irmc", "ibmc", "xclarity"), "redfish"),
        "intel-ipmi": "ipmi",
    },
    "network": dict.fromkeys(("flat", "neutron", "ironic-networking"), "noop"),
    "storage": dict.fromkeys(("cinder", "external"), "noop"),
    "deploy": dict.fromkeys(("ansible", "anaconda", "bootc"), "direct"),
    "console": {
        **dict.fromkeys(("redfish-graphical", "fake-graphical"), "no-console"),
        "ipmitool-shellinabox": "ipmitool-socat",
    },
    **{
        kind: {"idrac-wsman": "idrac-redfish"}
        for kind in ("bios", "inspect", "management", "power", "raid", "vendor")
    },
}
"""Maps that a refusal prints, by kind and name there."""
_LOSSES = {
    "network": " VLANs and DHCP will not follow the node.",
    "storage": " The node will not boot from its volumes.",
}
_KEPT = ("network", "storage", "deploy")
"""Kinds whose names only a map changes: a node would lose its VLANs, its volumes or its image."""


class ResolvedNames(NamedTuple):
    """The interfaces of nodes here, and what there is to tell about them."""

    interfaces: Interfaces
    findings: tuple[MoveFinding, ...]


class NameTable:
    """Resolves each combination of names once.

    :param drivers: of the configuration; nothing of them is started.
    """

    def __init__(self, drivers: Registry) -> None:
        self._types = frozenset(drivers.hardware_types)
        self._loaded = {kind: frozenset(found) for kind, found in drivers.interfaces.items()}
        self._valid: set[tuple[str, str, str]] = set()
        self._defaults: dict[tuple[str, str], str] = {}
        for row in drivers.rows():
            driver, kind, name = (
                row[f"{one}"] for one in ("hardware_type", "interface_type", "interface_name")
            )
            self._valid.add((driver, kind, name))
            if row["is_default"]:
                self._defaults[driver, kind] = name
        self._found: dict[tuple[str, Interfaces, bool], ResolvedNames] = {}
        self._lacking: dict[str, set[str]] = {}
        """Names of nodes that the configuration does not enable, by kind."""

    def resolve(self, driver: str, names: Interfaces, mapped: bool) -> Interfaces:
        """Return the interfaces here; see ``rules.Move``."""
        return self.judge(driver, names, mapped).interfaces

    def judge(self, driver: str, names: Interfaces, mapped: bool) -> ResolvedNames:
        """Return the interfaces of nodes with a hardware type here and interfaces under names here.

        :param mapped: the hardware type is another one there, so that interfaces may not fit.
        """
        key = (driver, names, mapped)
        if key not in self._found:
            kinds = zip(fields.INTERFACE_KINDS, names, strict=True)
            found = [self._interface(driver, kind, name, mapped) for kind, name in kinds]
            told = (*self._about_driver(driver), *(one for _, some in found for one in some))
            self._found[key] = ResolvedNames(tuple(name for name, _ in found), told)
        return self._found[key]

    def replaced(self) -> list[list[Any]]:
        """Return the names that became others, in the form of `recorded`."""
        found = {
            (driver, mapped, kind, old): new
            for (driver, names, mapped), one in self._found.items()
            for kind, old, new in zip(fields.INTERFACE_KINDS, names, one.interfaces, strict=True)
            if old != new
        }
        return [[*key, new] for key, new in found.items()]

    def settings(self) -> Iterator[MoveFinding]:
        """Yield the lines that the configuration needs for the judged nodes."""
        for kind, names in sorted(self._lacking.items()):
            option = "enabled_hardware_types" if kind == DRIVER else f"enabled_{kind}_interfaces"
            enabled = self._types if kind == DRIVER else self._loaded[kind]
            text = f"does not have {', '.join(sorted(names))}"
            do = f"Write: {option} = {','.join(sorted({*enabled, *names}))}"
            yield MoveFinding(report.ENABLE, "option", f"[DEFAULT]{option}", text, do)

    def _about_driver(self, driver: str) -> Iterator[MoveFinding]:
        if driver in self._types:
            return
        if is_installed(DRIVER, driver):
            self._lacking.setdefault(DRIVER, set()).add(driver)
            yield MoveFinding(
                *(report.ENABLE, "node", DRIVER, f"no conductor can drive {driver} yet"),
                f"[DEFAULT]enabled_hardware_types: add {driver}.",
            )
        else:
            yield _unknown(DRIVER, driver, f"hardware type {driver}")

    def _interface(
        self, driver: str, kind: str, name: str | None, mapped: bool
    ) -> tuple[str | None, tuple[MoveFinding, ...]]:
        path, default = path_of(kind), self._defaults.get((driver, kind))
        changes = mapped and kind not in _KEPT and name and not self._fits(driver, kind, name)
        if driver in self._types and (name is None or changes):
            what = "is unset" if name is None else f"{driver} does not support {name}"
            if default is not None:
                text = f"{what}, so it becomes {default}"
                return default, (MoveFinding(report.DEFAULT, "node", path, text),)
            text = f"{what}, and {driver} has no default {kind} interface here"
            do = f"Set [DEFAULT]default_{kind}_interface, or enabled_{kind}_interfaces."
            return None, (MoveFinding(report.ENABLE, "node", path, text, do),)
        fault = None if name is None else self._fault(driver, kind, name)
        return name, () if fault is None else (fault,)

    def _fits(self, driver: str, kind: str, name: str) -> bool:
        return (driver, kind, name) in self._valid

    def _fault(self, driver: str, kind: str, name: str) -> MoveFinding | None:
        if self._fits(driver, kind, name):
            return None
        if not is_installed(kind, name):
            return _unknown(kind, name, f"{kind} interface {name}")
        if name not in self._loaded[kind]:
            self._lacking.setdefault(kind, set()).add(name)
            text = f"no conductor can drive {name} yet"
            do = f"[DEFAULT]enabled_{kind}_interfaces: add {name}."
            return MoveFinding(report.ENABLE, "node", path_of(kind), text, do)
        if driver not in self._types:
            return None
        text = f"{driver} does not support {name}"
        do = f"Use --map {kind}:{name}=NEW, or change the node there."
        return MoveFinding(report.REFUSED, "node", path_of(kind), text, do)


def recorded(replaced: Iterable[Sequence[Any]]) -> rules.Resolve:
    """Return what resolves names as an import has done, whatever the configuration is now.

    :param replaced: hardware type here, whether it was mapped, kind, old name and new name.
    """
    known = {(driver, mapped, kind, old): new for driver, mapped, kind, old, new in replaced}

    def resolve(driver: str, names: Interfaces, mapped: bool) -> Interfaces:
        kinds = zip(fields.INTERFACE_KINDS, names, strict=True)
        return tuple(known.get((driver, mapped, kind, name), name) for kind, name in kinds)

    return resolve


def is_installed(kind: str, name: str) -> bool:
    """Return whether this release, or a package, has a hardware type or an interface."""
    asked = HARDWARE_TYPE if kind == DRIVER else kind
    return bool(registry.enabled_names(asked, [name]).points)


def _unknown(kind: str, name: str, what: str) -> MoveFinding:
    sentence = NOT_BUILT[HARDWARE_TYPE if kind == DRIVER else kind].get(name)
    text = f"{what}: {sentence.rstrip('.')}" if sentence else f"{what} is unknown here"
    new = _PROPOSED.get(kind, {}).get(name)
    do = "Change the node there, or use --leave-out."
    if new:
        do = f"Add --map {kind}:{name}={new}.{_LOSSES.get(kind, '')}"
    elif not sentence:
        do = f"Install the package that has it. Else: {do[0].lower()}{do[1:]}"
    return MoveFinding(report.REFUSED, "node", path_of(kind), text, do)


def path_of(kind: str) -> str:
    """Return the field of a node with a name of this kind."""
    return DRIVER if kind == DRIVER else f"{kind}_interface"


def mapped(row: JsonView, maps: rules.Maps) -> Iterator[tuple[MoveFinding, str, str]]:
    """Yield a finding for each name and path of a node there that a map changes.

    With it come the kind of the map, and what the map changes.
    """
    for kind in MAPPED_KINDS:
        old = row.get(path_of(kind))
        if isinstance(old, str) and (new := maps.name(kind, old)) != old:
            text = f"{old} becomes {new}"
            yield MoveFinding(report.MAPPED, "node", path_of(kind), text), kind, old
    for key, old, new in rules.mapped_paths(row, maps):
        path = f"{rules.IN_DRIVER_INFO}{key[:80]}"
        text = f"the path {old} becomes {new}"
        yield MoveFinding(report.MAPPED, "node", path, text), PATH, old
