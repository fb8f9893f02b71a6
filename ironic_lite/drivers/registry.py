"""Registry of the enabled hardware types and interfaces, which finds each node's driver.

Drivers are entry points of the groups ``ironic_lite.hardware.types`` and
``ironic_lite.hardware.interfaces.<kind>``. A driver that cannot be loaded is logged in one line and
does not stop the others. A name without an installed entry point is a configuration error and stops
the start. So does an inspection hook, of the group ``ironic_lite.inspection.hooks``, that is not
installed or cannot be loaded.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import logging
import pathlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from stevedore import named

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.options import HARDWARE_TYPE, NOT_BUILT, Configuration
from ironic_lite.domain import fields, inspection, step_lists, steps
from ironic_lite.drivers import base
from ironic_lite.drivers.settings import DriverField, details

# Placeholder for an interface that this conductor lacks or must not call.


class MissingInterface:
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


def refusing_driver(driver: base.Driver, why: str) -> base.Driver:
    """Return a driver whose interfaces all refuse calls.

    :param why: reason in the error that each call raises.
    """
    parts: Json = {kind: MissingInterface(kind, why) for kind in base.KINDS}
    return base.Driver(hardware_type=driver.hardware_type, **parts)


# Selection of a node's interfaces by hardware type, with reasons for refusals. Pure.

_UNSAID: Mapping[str, tuple[str, ...]] = {
    **{kind: (f"no-{kind}",) for kind in base.OPTIONAL_KINDS},
    "network": ("noop",),
    "storage": ("noop",),
}
"""Interfaces of a hardware type for kinds that it does not declare."""


@dataclasses.dataclass(frozen=True, slots=True)
class InterfaceChoice:
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
        if sentence := NOT_BUILT[self.kind].get(wanted):
            text = f"{self.kind}_interface: {wanted} is not available. {sentence}"
            raise errors.InterfaceNotFound(text, advice=sentence, **facts)
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


def interface_choice(
    name: str,
    hardware_type: base.HardwareType,
    kind: str,
    loaded: Collection[str],
    configured: str | None,
) -> InterfaceChoice:
    """Return the choice of one kind for nodes of a hardware type.

    :param loaded: the loaded names of that kind, in the order they were enabled.
    :param configured: the configured default name.
    """
    supported = hardware_type.supported.get(kind, _UNSAID.get(kind, ()))
    valid = tuple(each for each in supported if each in loaded)
    if hardware_type.any_interface:
        valid = (*valid, *(each for each in loaded if each not in valid))
    unheard = tuple(each for each in supported if each not in loaded)
    return InterfaceChoice(name, kind, valid, configured, unheard)


# Names in the lists of enabled drivers, and those of them that are Ironic's alone.

TYPES = "ironic_lite.hardware.types"
INTERFACES = "ironic_lite.hardware.interfaces"
_OF_IRONIC = ("ironic_lite.", "ironic.")


def option_of(kind: str) -> str:
    """Return the option of [DEFAULT] with the enabled names of a kind, or of hardware types."""
    return "enabled_hardware_types" if kind == HARDWARE_TYPE else f"enabled_{kind}_interfaces"


def _group_of(kind: str) -> str:
    return TYPES if kind == HARDWARE_TYPE else f"{INTERFACES}.{kind}"


class EnabledNames(NamedTuple):
    """The names of one list of enabled drivers.

    :ivar points: entry points of the installed names.
    :ivar left_out: names of Ironic that are not built, each with the sentence about it.
    :ivar refused: names that stop the start, each with the reason.
    """

    points: Mapping[str, Sequence[importlib.metadata.EntryPoint]]
    left_out: Mapping[str, str]
    refused: Mapping[str, str]


def enabled_names(kind: str, names: Iterable[str]) -> EnabledNames:
    """Look up the names of a list of enabled drivers; nothing is loaded.

    Live files list names of Ironic that no node uses, so such a name stops the start only if the
    list has no other one.

    :param kind: of interfaces, or ``HARDWARE_TYPE``.
    """
    wanted = list(dict.fromkeys(names))
    installed: dict[str, list[importlib.metadata.EntryPoint]] = defaultdict(list)
    for point in _installed_points(_group_of(kind), wanted):
        installed[point.name].append(point)
    points = {name: installed[name] for name in wanted if name in installed}
    missing = [name for name in wanted if name not in installed]
    left_out = {name: NOT_BUILT[kind][name] for name in missing if name in NOT_BUILT[kind]}
    refused = {
        name: _unknown_name(kind, name, installed) for name in missing if name not in left_out
    }
    if left_out and not points:
        refused = {name: f"{name}: {text}" for name, text in left_out.items()} | refused
        left_out = {}
    return EnabledNames(points, left_out, refused)


def _unknown_name(kind: str, name: str, installed: Iterable[str]) -> str:
    """Return why a name cannot be enabled that neither we nor Ironic itself have."""
    theirs = _group_of(kind).replace(*_OF_IRONIC, 1)
    what = kind if kind == HARDWARE_TYPE else f"{kind} interface"
    page = '"Port a driver of Ironic" in docs/drivers.rst'
    return _written_for_ironic(theirs, name, what, page) or _no_such_name(name, installed)


def _written_for_ironic(group: str, name: str, what: str, page: str) -> str | None:
    """Return a sentence about a driver or hook that another package has for Ironic, if it is one.

    :param group: of entry points of Ironic.
    :param page: how it is ported.
    """
    for point in importlib.metadata.entry_points(group=group, name=name):
        package = point.dist.name if point.dist else point.module
        article = "an" if what[0] in "aeiou" else "a"
        return f"{name} is {article} {what} of {package}, written for Ironic: see {page}"
    return None


def _no_such_name(name: str, installed: Iterable[str]) -> str:
    there = ", ".join(sorted(set(installed))) or "nothing"
    return f"nothing installed is called {name}; there is {there}"


LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_FIELDS = tuple((kind, f"{kind}_interface") for kind in base.KINDS)
_REPORTED = frozenset({"management", "console"})
"""Kinds of interfaces whose methods are orders for a BMC."""
DEPLOY_PRIORITIES = {
    "erase_devices_priority": "deploy.erase_devices",
    "erase_devices_metadata_priority": "deploy.erase_devices_metadata",
    "create_configuration_priority": "raid.create_configuration",
    "delete_configuration_priority": "raid.delete_configuration",
}
"""Options of [deploy] that set the priority of a clean step."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The driver configuration.

    ``hardware_types`` and ``interfaces`` (by kind) are the enabled names. ``defaults`` (by kind)
    are the names for nodes that set none. ``autodetect`` are the deploy interfaces from which the
    one of this name chooses. ``clean_priorities`` maps ``interface.step`` to the
    configured priority. ``chosen`` are the kinds whose interfaces the operator has enabled, not a
    default. ``hooks`` are the names of inspection hooks by option; ``known_accelerators`` is the
    file of [inspector].
    """

    hardware_types: Sequence[str] = ()
    interfaces: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    clean_priorities: Mapping[str, float] = dataclasses.field(default_factory=dict)
    autodetect: Sequence[str] = ()
    chosen: Collection[str] = base.KINDS
    hooks: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    known_accelerators: str | None = None

    @classmethod
    def read(cls, conf: Configuration = config.CONF) -> Settings:
        """Read the options from ``conf``, a loaded ``oslo_config.cfg.ConfigOpts``."""
        given = {step: conf.deploy[name] for name, step in DEPLOY_PRIORITIES.items()}
        return cls(
            hardware_types=conf.enabled_hardware_types,
            interfaces={kind: conf[f"enabled_{kind}_interfaces"] for kind in base.KINDS},
            defaults={kind: conf[f"default_{kind}_interface"] for kind in base.KINDS},
            clean_priorities={
                **{step: priority for step, priority in given.items() if priority is not None},
                **config.priorities(conf.conductor.clean_step_priority_override),
            },
            autodetect=conf.autodetect_deploy_interfaces,
            chosen=[
                kind
                for kind in base.KINDS
                if conf.get_location(f"enabled_{kind}_interfaces").location.is_user_controlled
            ],
            hooks={
                "[inspector]hooks": conf.inspector.hooks,
                "[redfish]inspection_hooks": conf.redfish.inspection_hooks,
            },
            known_accelerators=conf.inspector.known_accelerators,
        )


class Registry:
    """The drivers of this conductor. All nodes share the implementations, which hold no state."""

    def __init__(
        self,
        types: Mapping[str, base.HardwareType],
        interfaces: Mapping[str, Mapping[str, base.Interface]],
        defaults: Mapping[str, str | None],
        failures: Mapping[str, str],
    ) -> None:
        """Compute the names that each hardware type accepts; call ``load`` instead."""
        self.failures = dict(failures)
        """Reasons why drivers could not be loaded, by name, such as ``"power interface
        redfish"``."""
        self.interfaces = interfaces
        """The loaded interfaces, by kind and name."""
        self.accelerators = inspection.ACCELERATORS
        """The devices that the hook accelerators knows."""
        self._choices: dict[str, dict[str, InterfaceChoice]] = {
            name: {
                kind: interface_choice(name, found, kind, interfaces[kind], defaults.get(kind))
                for kind in base.KINDS
            }
            for name, found in types.items()
        }
        self._drivers: dict[tuple[Any, ...], base.Driver] = {}

    @classmethod
    def load(cls, settings: Settings) -> Registry:
        """Load all drivers that ``settings`` enables.

        :raises config.ConfigError: a name is not installed, or no hardware type can be loaded; or
            a hook or the file of accelerators cannot be used.
        """
        loader = _Loader(settings.clean_priorities)
        types = loader.hardware_types(settings.hardware_types)
        interfaces = {
            kind: loader.interfaces(kind, settings.interfaces.get(kind, ())) for kind in base.KINDS
        }
        _check(settings, loader)
        if not types:
            raise config.ConfigError(
                reason="[DEFAULT]enabled_hardware_types: none of them could be loaded"
            )
        found = cls(types, interfaces, settings.defaults, loader.failures)
        found._warn_about_configuration(settings.chosen)
        if settings.known_accelerators:
            found.accelerators = _read_accelerators(settings.known_accelerators)
        return found

    @property
    def hardware_types(self) -> tuple[str, ...]:
        """The hardware types this conductor drives."""
        return tuple(self._choices)

    def driver_for(
        self,
        hardware_type: str,
        interfaces: Mapping[str, str | None],
        overrides: JsonView | None = None,
    ) -> base.Driver:
        """Return the driver of a node; the same names give the same object, without a search.

        :param interfaces: the node's interface names by kind, None for the default.
        :param overrides: the node's ``instance_info``, whose ``<kind>_interface`` keys come first.
        :raises errors.DriverNotFound: see ``resolve``, as for all others.
        """
        given = overrides or {}
        key = (
            hardware_type,
            *[given.get(field) or interfaces.get(kind) for kind, field in _FIELDS],
        )
        try:
            return self._drivers[key]
        except (KeyError, TypeError):  # TypeError: a dictionary instead of a name
            names = self.resolve(hardware_type, interfaces, overrides)
        parts: Json = {kind: self.interfaces[kind][name] for kind, name in names.items()}
        # Two threads may both get here, but their drivers are equivalent.
        return self._drivers.setdefault(key, base.Driver(hardware_type=hardware_type, **parts))

    def with_deploy(self, driver: base.Driver, name: str) -> base.Driver:
        """Return a driver with another deploy interface.

        :raises errors.InterfaceNotFound, errors.IncompatibleInterface: as for a node that names it.
        """
        chosen = self._interface_name(driver.hardware_type, "deploy", name)
        found = self.interfaces["deploy"][chosen]
        assert isinstance(found, base.Deploy)
        return dataclasses.replace(driver, deploy=found)

    def remains(
        self,
        hardware_type: str,
        interfaces: Mapping[str, str | None],
        overrides: JsonView | None = None,
    ) -> base.Driver:
        """Return the available part of a driver that ``driver_for`` refuses, to clean up a node.

        Parameters are those of ``driver_for``. A missing interface refuses all calls.
        """
        given = overrides or {}
        parts: Json = {}
        for kind, field in _FIELDS:
            try:
                self._check_driver(hardware_type)
                name = self._interface_name(
                    hardware_type, kind, given.get(field) or interfaces.get(kind)
                )
                parts[kind] = self.interfaces[kind][name]
            except errors.Error:
                parts[kind] = MissingInterface(kind)
        return base.Driver(hardware_type=hardware_type, **parts)

    def resolve(
        self,
        hardware_type: str,
        wanted: Mapping[str, str | None],
        overrides: JsonView | None = None,
    ) -> dict[str, str]:
        """Return the interface name of every kind, defaults filled in.

        Parameters are those of ``driver_for``.

        :raises errors.DriverNotFound: this conductor does not have the hardware type.
        :raises errors.InvalidParameter: a name is not a string.
        :raises errors.InterfaceNotFound: a name is not enabled, or could not be loaded.
        :raises errors.IncompatibleInterface: the hardware type does not support it.
        :raises errors.NoValidDefaultForInterface: a kind has neither a name nor a default.
        """
        self._check_driver(hardware_type)
        given = overrides or {}
        return {
            kind: self._interface_name(hardware_type, kind, given.get(field) or wanted.get(kind))
            for kind, field in _FIELDS
        }

    def default(self, hardware_type: str, kind: str) -> base.Interface:
        """Return the default interface of ``kind`` for nodes that name none.

        :raises errors.DriverNotFound: this conductor does not have the hardware type.
        :raises errors.NoValidDefaultForInterface: there is no default.
        """
        self._check_driver(hardware_type)
        return self.interfaces[kind][self._interface_name(hardware_type, kind, None)]

    def check(self, names: Mapping[str, str], driver_info: JsonView) -> None:
        """Reject invalid values in ``driver_info``; ``names`` is the result of ``resolve``.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        for kind, name in names.items():
            self.interfaces[kind][name].check_driver_info(driver_info)

    @property
    def packages(self) -> set[str]:
        """The top-level packages of the loaded interfaces."""
        loaded = (one for interfaces in self.interfaces.values() for one in interfaces.values())
        return {type(one).__module__.partition(".")[0] for one in loaded}

    def close(self) -> None:
        """Close all interfaces; a failure of one does not affect the others."""
        for kind, interfaces in self.interfaces.items():
            for name, interface in interfaces.items():
                try:
                    interface.close()
                except BaseException:  # drivers may raise anything, such as sys.exit
                    LOG.exception("The %s interface %s could not be closed", kind, name)

    def rows(self) -> list[Json]:
        """Return this conductor's rows of the table ``hardware_interfaces``."""
        return [
            {
                "hardware_type": hardware_type,
                "interface_type": kind,
                "interface_name": name,
                "is_default": name == offered.default,
                "methods": _methods(kind, self.interfaces[kind][name]),
            }
            for hardware_type, kinds in self._choices.items()
            for kind, offered in kinds.items()
            for name in offered.valid
        ]

    def properties(self, hardware_type: str) -> dict[str, str]:
        """Return ``{driver_info key: description}`` of the default interfaces.

        :raises errors.DriverNotFound: this conductor does not have the hardware type.
        """
        found: dict[str, str] = {}
        for interface in self._default_interfaces(hardware_type):
            found.update(interface.get_properties())
        return dict(sorted(found.items()))

    def property_details(self, hardware_type: str) -> Json:
        """Return ``{driver_info key: facts for a form}`` of the default interfaces.

        The keys of an interface that only describes them are a group named after the driver.

        :raises errors.DriverNotFound: this conductor does not have the hardware type.
        """
        groups: dict[str, dict[str, DriverField]] = {}
        for interface in self._default_interfaces(hardware_type):
            grouped = interface.property_groups()
            described = {
                name: DriverField(str, text, required=text.endswith("Required."))
                for name, text in interface.get_properties().items()
                if not any(name in some for some in grouped.values())
            }
            for group, some in (*grouped.items(), (hardware_type, described)):
                groups.setdefault(group, {}).update(some)
        return details(groups)

    def logical_disk_properties(self, hardware_type: str) -> dict[str, str]:
        """Return ``{key of a logical disk: description}`` of the default raid interface.

        :raises errors.DriverNotFound: this conductor does not have the hardware type.
        :raises errors.UnsupportedDriverExtension: it has no default raid interface.
        """
        self._check_driver(hardware_type)
        name = self._choices[hardware_type]["raid"].default
        found = None if name is None else self.interfaces["raid"][name]
        if not isinstance(found, base.RAID):
            raise errors.UnsupportedDriverExtension(driver=hardware_type, extension="raid")
        return found.get_logical_disk_properties()

    def _default_interfaces(self, hardware_type: str) -> list[base.Interface]:
        self._check_driver(hardware_type)
        chosen = ((kind, one.default) for kind, one in self._choices[hardware_type].items())
        return [self.interfaces[kind][name] for kind, name in chosen if name is not None]

    def _check_driver(self, hardware_type: str) -> None:
        if hardware_type not in self._choices:
            raise errors.DriverNotFound(driver=hardware_type)

    def _interface_name(self, hardware_type: str, kind: str, wanted: object) -> str:
        lead = f"{kind} interface "
        failed = [what.removeprefix(lead) for what in self.failures if what.startswith(lead)]
        return self._choices[hardware_type][kind].pick(wanted, self.interfaces[kind], failed)

    def _warn_about_configuration(self, chosen: Collection[str]) -> None:
        """Log chosen interfaces that no hardware type uses, and missing defaults."""
        for kind in base.KINDS:
            offered = {name: kinds[kind] for name, kinds in self._choices.items()}
            used = {name for each in offered.values() for name in each.valid}
            for name in self.interfaces[kind]:
                if name not in used and kind in chosen:
                    LOG.warning(
                        "No enabled hardware type works with the %s interface %s.", kind, name
                    )
            for hardware_type, each in offered.items():
                if each.default is not None:
                    continue
                valid = ", ".join(each.valid)
                advice = f"must name one of {valid}" if valid else "cannot be made: enable one"
                LOG.warning(
                    "Hardware type %s has no default %s interface; its nodes %s.",
                    hardware_type,
                    kind,
                    advice,
                )


def _check(settings: Settings, loader: _Loader) -> None:
    faults = [
        f"[DEFAULT]{option_of(kind)}: {why}"
        for kind, names in loader.names.items()
        for why in names.refused.values()
    ]
    faults += _hook_faults(settings.hooks)
    for kind, name in settings.defaults.items():
        if name is not None and name not in loader.names[kind].points:
            missing = f"{name} is not in {option_of(kind)}"
            sentence = NOT_BUILT[kind].get(name)
            why = f"{name}: {sentence}" if sentence else missing
            if name not in loader.names[kind].refused:
                faults.append(f"[DEFAULT]default_{kind}_interface: {why}")
    deploy = loader.names["deploy"].points
    if fields.AUTODETECT in deploy:
        option = "[DEFAULT]autodetect_deploy_interfaces"
        known = [name for name in settings.autodetect if name not in NOT_BUILT["deploy"]]
        odd = (name for name in known if name not in deploy or name == fields.AUTODETECT)
        faults += [f"{option}: {name} is not in {option_of('deploy')}" for name in odd]
        if not known:
            faults.append(f"{option}: names nothing to choose from")
    if faults:
        raise config.ConfigError(reason="; ".join(faults))
    left_out = [
        f"{option_of(kind)} {', '.join(names.left_out)}"
        for kind, names in loader.names.items()
        if names.left_out
    ]
    if left_out:
        LOG.warning(
            "Names of Ironic that are not built are left out: %s. ironic-lite-status "
            "check-ironic-conf FILE gives the reasons.",
            "; ".join(left_out),
        )


# -- loading ---------------------------------------------------------------------------------


class _Loader:
    """Loads entry points one by one, and remembers failures."""

    def __init__(self, clean_priorities: Mapping[str, float]) -> None:
        self.failures: dict[str, str] = {}
        self.names: dict[str, EnabledNames] = {}
        self._priorities = clean_priorities

    def hardware_types(self, enabled: Iterable[str]) -> dict[str, base.HardwareType]:
        return self._load(HARDWARE_TYPE, enabled, base.HardwareType, "hardware type {}")

    def interfaces(self, kind: str, enabled: Iterable[str]) -> dict[str, base.Interface]:
        return self._load(kind, enabled, base.BASES[kind], f"{kind} interface {{}}")

    def _load(
        self, kind: str, enabled: Iterable[str], wanted: type[_T], what: str
    ) -> dict[str, _T]:
        self.names[kind] = enabled_names(kind, enabled)
        found: dict[str, _T] = {}
        for name, points in self.names[kind].points.items():
            loaded = self._load_instance(what.format(name), points, wanted)
            if loaded is not None:
                found[name] = loaded
        return found

    def _load_instance(
        self, what: str, points: Sequence[importlib.metadata.EntryPoint], wanted: type[Any]
    ) -> Any:
        """Return an instance; after a failure return None and log one line."""
        try:
            found = _new_instance(points, wanted)
            self._check(found)
        except Exception as why:  # a driver may raise anything, and the others must still load
            reason = " ".join(f"{type(why).__name__}: {why}".split())
            self.failures[what] = reason
            LOG.error(
                "The %s is not loaded: %s", what, reason, exc_info=LOG.isEnabledFor(logging.DEBUG)
            )
            return None
        return found

    def _check(self, found: object) -> None:
        if isinstance(found, base.HardwareType):
            strange = sorted(set(found.supported) - set(base.KINDS))
            if strange:
                raise TypeError(f"supported names kinds that do not exist: {', '.join(strange)}")
        elif isinstance(found, base.Interface):
            listed = {kind: steps.collect(found.kind, found, kind) for kind in steps.StepKind}
            _refuse_reserved(one for some in listed.values() for one in some)
            _refuse_ties(listed[steps.StepKind.CLEAN], self._priorities)


def _installed_points(group: str, names: Iterable[str]) -> Iterable[importlib.metadata.EntryPoint]:
    """Return the entry points of a group, from stevedore's cache if they are there."""
    # With no name to load, stevedore only lists: it lets an AssertionError of a driver through.
    found = named.NamedExtensionManager(group, names=()).list_entry_points()
    if set(names) <= {point.name for point in found}:
        return list(found)
    # The cache on disk may be stale for a package changed within two minutes, so a name that is
    # missing there is looked up again.
    return importlib.metadata.entry_points(group=group)


# -- inspection hooks ------------------------------------------------------------------------

HOOKS = "ironic_lite.inspection.hooks"
_HOOKS_OF_IRONIC = "ironic.inspection.hooks"


def inspection_hooks(names: Iterable[str], option: str = "") -> dict[str, base.InspectionHook]:
    """Return inspection hooks, and those that they require, in the order in which they run.

    :param option: the option with the names.
    :raises config.ConfigError: a hook is not installed, cannot be loaded, or requires itself.
    """
    found: dict[str, base.InspectionHook] = {}
    for name in names:
        _add_hook(found, name, (), option)
    return found


def _hook_faults(named: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Load the hooks that options name, and yield what stops one."""
    for option, name in ((option, name) for option, names in named.items() for name in names):
        try:
            inspection_hooks([name], option)
        except config.ConfigError as why:
            yield str(why)


def missing_hooks(names: Iterable[str]) -> list[str]:
    """Return a sentence for each hook that is not installed; nothing is loaded."""
    found = (_missing_hook(name, _hook_points(name)) for name in names)
    return [text for text in found if text is not None]


def _missing_hook(name: str, points: Sequence[importlib.metadata.EntryPoint]) -> str | None:
    if points:
        return None
    page = '"Port a hook of Ironic" in docs/inspection.rst'
    known = (point.name for point in importlib.metadata.entry_points(group=HOOKS))
    foreign = _written_for_ironic(_HOOKS_OF_IRONIC, name, "inspection hook", page)
    return foreign or _no_such_name(name, known)


def _hook_points(name: str) -> list[importlib.metadata.EntryPoint]:
    return [point for point in _installed_points(HOOKS, [name]) if point.name == name]


def _add_hook(
    found: dict[str, base.InspectionHook], name: str, above: tuple[str, ...], option: str
) -> None:
    if name in above:
        reason = f"{option}: hooks require each other: {', '.join((*above, name))}"
        raise config.ConfigError(reason=reason)
    if name in found:
        return
    if missing := _missing_hook(name, _hook_points(name)):
        needed = f"; {above[-1]} requires it" if above else ""
        raise config.ConfigError(reason=f"{option}: {missing}{needed}")
    try:
        hook = _loaded_hook(name)
    except Exception as why:  # hooks of other packages may raise anything
        reason = " ".join(f"{type(why).__name__}: {why}".split())
        text = f"{option}: the hook {name} cannot be loaded: {reason}"
        raise config.ConfigError(reason=text) from why
    for required in hook.dependencies:
        _add_hook(found, required, (*above, name), option)
    found[name] = hook


@functools.cache
def _loaded_hook(name: str) -> base.InspectionHook:
    """Load a hook that is installed; one object serves all nodes."""
    hook: base.InspectionHook = _new_instance(_hook_points(name), base.InspectionHook)
    return hook


def hook_options(
    accelerators: Sequence[JsonView] = inspection.ACCELERATORS,
) -> inspection.HookOptions:
    """Return the options of the hooks of this service."""
    own = config.CONF.inspector
    return inspection.HookOptions(
        add_ports=own.add_ports,
        keep_ports=own.keep_ports,
        update_pxe_enabled=own.update_pxe_enabled,
        disk_partitioning_spacing=own.disk_partitioning_spacing,
        cpu_capabilities=own.cpu_capabilities,
        extra_hardware_strict=own.extra_hardware_strict,
        physical_networks=own.physical_network_cidr_map,
        accelerators=accelerators,
        aliases=dict(config.CONF.pci_devices.alias or ()),
    )


def _read_accelerators(path: str) -> Sequence[JsonView]:
    """Return the devices of the file in [inspector]known_accelerators.

    :raises config.ConfigError: it cannot be read, or its content has another form.
    """
    import yaml  # noqa: PLC0415  # few have such a file, and all would keep it in memory

    try:
        told = yaml.safe_load(pathlib.Path(path).read_bytes())
        listed = told.get("pci_devices") if isinstance(told, dict) else None
        if not isinstance(listed, list) or not all(map(_is_accelerator, listed)):
            raise ValueError("must have a list pci_devices of objects with vendor_id and device_id")
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as why:
        reason = " ".join(str(why).split())[:200]
        raise config.ConfigError(
            reason=f"[inspector]known_accelerators: {path}: {reason}"
        ) from None
    return [
        {**one, **{name: one[name].lower() for name in ("vendor_id", "device_id")}}
        for one in listed
    ]


def _is_accelerator(one: object) -> bool:
    """Return whether an entry has both numbers as text, and plain values besides."""
    return (
        isinstance(one, dict)
        and all(isinstance(key, str) for key in one)
        and all(isinstance(one.get(name), str) for name in ("vendor_id", "device_id"))
        and all(value is None or isinstance(value, str | int | float) for value in one.values())
    )


def _new_instance(points: Sequence[importlib.metadata.EntryPoint], wanted: type[Any]) -> Any:
    values = sorted({point.value for point in points})
    if len(values) > 1:
        raise LookupError(f"several packages bring this name: {', '.join(values)}")
    found = points[0].load()
    if not isinstance(found, type) or not issubclass(found, wanted):
        raise TypeError(f"{values[0]} is not a class derived from {wanted.__name__}")
    return found()


def _refuse_reserved(listed: Iterable[steps.Step]) -> None:
    """Reject an interface whose steps have names of the service's own steps."""
    for one in listed:
        if one.name in step_lists.RESERVED:
            names = ", ".join(sorted(step_lists.RESERVED))
            raise ValueError(f"rename the step {one.title}: {names} are steps of the service")


def _refuse_ties(clean_steps: Iterable[steps.Step], priorities: Mapping[str, float]) -> None:
    """Reject an interface whose automated clean steps have equal priorities.

    Source: S2.12, C8.
    """
    for one, other in step_lists.ties(step_lists.overridden(clean_steps, priorities)):
        raise ValueError(
            f"the clean steps {one.title} and {other.title} both have priority "
            f"{other.priority:g}; give one of them another with "
            "[conductor]clean_step_priority_override"
        )


def _methods(kind: str, interface: base.Interface) -> str | None:
    """Return the public methods of the contract that an interface implements; None: not reported.

    Methods that the contract refuses by default are left out.
    """
    if kind not in _REPORTED:
        return None
    contract = vars(base.BASES[kind])
    names = (name for name, default in contract.items() if callable(default) and name[0] != "_")
    own = (name for name in names if getattr(type(interface), name) is not contract[name])
    return ",".join(sorted(own))
