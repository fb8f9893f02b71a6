"""BIOS settings by Redfish: sent, applied by the next boot, and compared afterwards."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import steps
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.redfish import hardware
from ironic_lite.drivers.redfish.bmc import connection, jobs, quirks, resources
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

# BIOS attributes: parsing of the registry, conversion and comparison of values. Pure.

_WORDS = {
    True: frozenset({"true", "yes", "on", "1"}),
    False: frozenset({"false", "no", "off", "0"}),
}
_SHOWN = 12
"""Values that a refusal lists before it only counts the rest."""


_VERSION = re.compile(r"(\.v?\d+([._]\d+)*|\d+\.\d+)$")
"""Version at the end of a registry's name, as in ``.v1_0_3``, ``.1.0.0`` and ``1.0``."""


def registry_family(name: str) -> str:
    """Return the name of a registry in lower case and without its version."""
    return _VERSION.sub("", name).lower()


DEPENDENT = "Dependencies"
"""Key that `registry` adds to entries: the set of properties that depend on other settings."""


def parse_registry(document: Json) -> dict[str, Json]:
    """Return attribute name -> entry of a document of type AttributeRegistry.

    The entry of a setting that depends on others has `DEPENDENT`: the names of its properties that
    other settings change, such as ReadOnly and UpperBound.
    """
    found = resources.entries(document, "RegistryEntries", "Attributes")
    known = {
        entry["AttributeName"]: {**entry, DEPENDENT: set()}
        for entry in found
        if resources.text(entry, "AttributeName")
    }
    for one in resources.entries(document, "RegistryEntries", DEPENDENT):
        name = resources.text(one, "Dependency", "MapToAttribute")
        if name in known:
            known[name][DEPENDENT].add(resources.text(one, "Dependency", "MapToProperty"))
    return known


def bios_settings(values: JsonView, known: Mapping[str, Json]) -> list[base.BiosSetting]:
    """Return the attributes of a machine, with the registry's facts about each."""
    return [_bios_setting(name, values[name], known.get(name, {})) for name in sorted(values)]


def _bios_setting(name: str, value: Any, entry: Json) -> base.BiosSetting:
    return base.BiosSetting(
        name,
        value,
        attribute_type=resources.text(entry, "Type"),
        allowable_values=_allowed_choices(entry),
        lower_bound=entry.get("LowerBound"),
        upper_bound=entry.get("UpperBound"),
        min_length=entry.get("MinLength"),
        max_length=entry.get("MaxLength"),
        read_only=entry.get("ReadOnly"),
        reset_required=entry.get("ResetRequired"),
        unique=entry.get("IsSystemUniqueProperty"),
    )


def convert_settings(
    wanted: JsonView, values: JsonView, known: Mapping[str, Json]
) -> tuple[Json, list[str]]:
    """Return the requested values in the machine's types, and a sentence for each invalid one.

    The registry describes the present state. A property of a setting that depends on others is left
    to the BMC, because a requested value, or one that is pending, may change it. No requested value
    is repeated in a sentence, because it may be a password.

    :param values: the machine's attributes; :param known: its registry, empty if it has none.
    """
    good: Json = {}
    faults = []
    for name, value in wanted.items():
        try:
            good[name] = _convert_value(name, value, values, known)
        except ValueError as why:
            faults.append(f"{name[:80]} {why}")
    return good, faults


def _convert_value(name: str, value: Any, values: JsonView, known: Mapping[str, Json]) -> Any:
    entry = known.get(name)
    if name not in values and entry is None:
        raise ValueError("is no setting of this machine")
    if entry is None:
        return _as_type_of_current(value, type(values[name]))
    free = entry.get(DEPENDENT) or set()
    # Whatever hides or locks a setting may also keep it read-only.
    if entry.get("ReadOnly") is True and not free:
        raise ValueError("is read-only")
    convert: Callable[[Any, Json], Any] = _BY_TYPE.get(str(entry.get("Type")), _read_any)
    return convert(value, {name: fact for name, fact in entry.items() if name not in free})


def _as_type_of_current(value: object, kind: type) -> Any:
    """Convert a value to the type of the machine's value, where no registry says more."""
    if kind is bool:
        return _read_boolean(value, {})
    if kind is int:
        return _read_integer(value, {})
    return value


def _read_choice(value: object, entry: Json) -> Any:
    choices = _allowed_choices(entry)
    if choices and value not in choices:
        more = f" and {len(choices) - _SHOWN} more" if len(choices) > _SHOWN else ""
        raise ValueError(f"must be one of {', '.join(choices[:_SHOWN])}{more}")
    return value


def _allowed_choices(entry: Json) -> list[str] | None:
    found = resources.value(entry, "Value")
    if not isinstance(found, list):
        return None
    words = [
        resources.text(each, "ValueName") or resources.text(each, "ValueDisplayName")
        for each in resources.entries(entry, "Value")
    ]
    return [word for word in words if word]


def _read_integer(value: Any, entry: Json) -> int:
    try:
        fits = not isinstance(value, bool) and int(value) == float(value)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ValueError("must be a whole number")
    number, bounds = (
        int(value),
        (_numeric_bound(entry, "LowerBound"), _numeric_bound(entry, "UpperBound")),
    )
    _check_bounds(number, bounds, "must be")
    return number


def _read_boolean(value: object, entry: Json) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    for truth, words in _WORDS.items():
        if word in words:
            return truth
    raise ValueError("must be true or false")


def _read_string(value: object, entry: Json) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    bounds = (_numeric_bound(entry, "MinLength"), _numeric_bound(entry, "MaxLength"))
    _check_bounds(len(value), bounds, "must have a length of")
    return value


def _read_any(value: object, entry: Json) -> Any:
    return value


def _numeric_bound(entry: Json, name: str) -> int | None:
    found = entry.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _check_bounds(number: int, bounds: tuple[int | None, int | None], lead: str) -> None:
    lower, upper = bounds
    if lower is not None and number < lower:
        raise ValueError(f"{lead} {lower} at least")
    if upper is not None and number > upper:
        raise ValueError(f"{lead} {upper} at most")


_BY_TYPE = {
    "Enumeration": _read_choice,
    "Integer": _read_integer,
    "Boolean": _read_boolean,
    "String": _read_string,
    "Password": _read_string,
}


def differing_settings(wanted: JsonView, values: JsonView) -> list[str]:
    """Return the names of requested values that the machine does not show.

    Values that are never shown, such as passwords, cannot be compared and do not count.
    """
    return [
        name
        for name, value in wanted.items()
        if values.get(name) is not None and not _same_value(value, values[name])
    ]


def _same_value(one: object, other: object) -> bool:
    """Compare loosely, because operators write ``"8"`` and ``"true"`` for 8 and true."""
    if isinstance(other, bool | int | float):
        return str(one).lower() == str(other).lower() or one == other
    return bool(one == other)


NOTE = "redfish_bios"
"""Key of the state of a running step: ``until``, ``tasks``, the number of polls (``looks``), the
polls in a row that found the machine up (``booted``), whether a poll saw it boot (``began``), the
newest boot progress (``progress``, at first that before the restart), the polls in a row that found
it (``same``), and whether it has changed since the restart (``moved``)."""

DENIED_PAUSE = 60.0
"""Least pause in seconds after a BMC refused the login, because it may lock the user."""

_BOOTED = frozenset({"OSBootStarted", "OSRunning"})
"""Values of BootProgress.LastState (DSP0268) after which the firmware has finished."""
_STARTING = frozenset(
    {
        "PrimaryProcessorInitializationStarted",
        "BusInitializationStarted",
        "MemoryInitializationStarted",
        "SecondaryProcessorInitializationStarted",
        "PCIResourceConfigStarted",
    }
)
"""Values while the firmware tests the machine. Many BMCs stay for ever at one of the others: None,
OEM, SystemHardwareInitializationComplete, SetupEntered."""
BLIND_LOOKS = 12
"""Polls after which a machine counts as up whose boot progress is absent or stands still: three
minutes."""
STALE_LOOKS = 4
"""Polls in which the boot progress may still be from before the restart, if no boot is seen."""
_ON_RESET = "OnReset"
_BIOS_REGISTRY = "BiosAttributeRegistry"
"""Name of the registry where the BIOS settings name none, as on BMCs of NVIDIA."""
_REGISTRIES = 50
"""Limit of registry files searched for the attribute registry."""


class RedfishBIOS(hardware.RedfishInterface, base.BIOS):
    """The BIOS interface ``redfish``."""

    work_notes: ClassVar[Sequence[str]] = (NOTE,)

    @arguments.bmc_step(argsinfo=arguments.BIOS_ARGS, destroys=("settings",), restarts=1)
    def apply_configuration(self, task: base.Task, settings: list[Json]) -> base.Outcome:
        """Change these settings, restart the machine, and check that it has applied them.

        :raises errors.InvalidParameter: the machine lacks a setting or does not allow its value.
        :raises errors.UnsupportedDriverExtension: the BMC shows no settings.
        """
        asked = arguments.settings(settings)
        system = resources.system(task)
        bios = _read_bios(task, system, "apply_configuration")
        values = _bios_attributes(bios)
        wanted, faults = convert_settings(asked, values, _read_registry(task, bios))
        if faults:
            raise errors.InvalidParameter(path="settings", reason="; ".join(faults))
        place = resources.link(bios, "@Redfish.Settings", "SettingsObject")
        # What waits for the next boot; many BMCs list all current attributes there.
        waiting = _bios_attributes((resources.read(task, place) if place else None) or {})
        if not _asked_for(wanted, values, waiting):
            LOG.info("Node %s: its BIOS settings are already as requested.", task.node.uuid)
            return base.DONE
        tasks = []
        if any(waiting.get(name) != value for name, value in wanted.items()):
            tasks = _send_settings(task, place or bios["@odata.id"], _settings_body(bios, wanted))
        return _restart_for_settings(task, system, tasks)

    @arguments.bmc_step(destroys=("settings",), restarts=1)
    def factory_reset(self, task: base.Task) -> base.Outcome:
        """Reset all settings to the vendor's defaults, and restart the machine.

        :raises errors.UnsupportedDriverExtension: the BMC cannot reset them.
        """
        system = resources.system(task)
        bios = _read_bios(task, system, "factory_reset")
        target = resources.text(bios, "Actions", "#Bios.ResetBios", "target")
        if target is None:
            raise resources.lacking(task, "factory_reset", "it offers no Bios.ResetBios")
        return _restart_for_settings(task, system, _post_action(task, target))

    def cache_bios_settings(self, task: base.Task) -> list[base.BiosSetting]:
        """Return all current settings, with the registry's facts about them.

        :raises errors.UnsupportedDriverExtension: the BMC shows no settings.
        """
        bios = _read_bios(task, resources.known_system(task), "cache_bios_settings")
        return bios_settings(_bios_attributes(bios), _read_registry(task, bios))

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Check whether the machine has applied the sent settings.

        :raises errors.StepFailed: the settings differ after the boot or the time limit; names
            settings.
        """
        note = dict(task.recall(NOTE) or {})
        late = clock.over(float(note.get("until", 0)), _boot_limit())
        try:
            left = _remaining_differences(task, note, step, late=late)
        except (errors.BmcUnreachable, errors.BmcBadAnswer, errors.BmcAccessDenied) as silence:
            if late:
                raise self._step_failed(
                    task, step, f"no usable answer of the BMC: {silence}"
                ) from silence
            # A starting BMC may not know its users yet.
            denied = isinstance(silence, errors.BmcAccessDenied)
            task.keep(NOTE, note)
            task.wake_after(max(_interval(), DENIED_PAUSE if denied else 0.0))
            return base.WAIT
        if not left:
            task.keep(NOTE, None)
            return base.DONE
        # Some BMCs show new settings only some time after the boot.
        if late or int(note.get("booted", 0)) > 1:
            raise self._step_failed(task, step, left)
        task.keep(NOTE, note)
        task.wake_after(_interval())
        return base.WAIT

    def _step_failed(self, task: base.Task, step: base.StoredStep, why: str) -> errors.StepFailed:
        task.keep(NOTE, None)
        return errors.StepFailed(step=f"bios.{step['step']}", reason=why)


# -- reading ----------------------------------------------------------------------------------


def _read_bios(task: base.Task, system: Json, method: str) -> Json:
    """Return the Bios resource of a system."""
    path = resources.link(system, "Bios")
    found = resources.read(task, path) if path else None
    if found is None or path is None:
        raise resources.lacking(task, method, "it shows no BIOS settings")
    return {"@odata.id": path, **found}


def _bios_attributes(bios: Json) -> Json:
    found = resources.value(bios, "Attributes")
    return found if isinstance(found, dict) else {}


def _read_registry(task: base.Task, bios: Json) -> dict[str, Json]:
    """Return the registry of these settings as attribute name -> entry; perhaps empty."""
    name = resources.text(bios, "AttributeRegistry")
    place = resources.link(resources.root(task), "Registries")
    if place is None:
        return {}
    listed = resources.entries(resources.read(task, place) or {}, "Members")
    paths = [path for path in map(resources.link, listed) if path]
    file = _registry_file(task, paths, name or _BIOS_REGISTRY)
    if file is None:
        LOG.info("Node %s: its BMC has no attribute registry %s.", task.node.uuid, name)
        return {}
    uri = _registry_location(file)
    found = resources.read(task, uri) if uri else None
    return parse_registry(found or {})


def _registry_file(task: base.Task, paths: list[str], name: str) -> Json | None:
    """Return the registry file of this name, or else of this name with another version.

    Dell names a newer version than its registry file has, and Supermicro separates the version in
    another way.
    """
    family = registry_family(name)
    # The path usually has the name; the other files are read to find theirs.
    paths = sorted(paths, key=lambda path: family not in path.lower())
    alike = None
    for path in paths[:_REGISTRIES]:
        if alike is not None and family not in path.lower():
            break
        file = resources.read(task, path) or {}
        names = [resources.text(file, key) or "" for key in ("Registry", "Id")]
        if name in names:
            return file
        if alike is None and family in map(registry_family, names):
            alike = file
    if alike is not None:
        quirks.REGISTRY_VERSION.log(f"Node {task.node.uuid}")
    return alike


def _registry_location(file: Json) -> str | None:
    """Return the URI of a registry, preferably of the English one."""
    places = [
        place for place in resources.entries(file, "Location") if resources.text(place, "Uri")
    ]
    places.sort(key=lambda place: not str(place.get("Language")).startswith("en"))
    return resources.text(places[0], "Uri") if places else None


def _asked_for(wanted: Json, values: Json, waiting: Json) -> bool:
    """Return whether a requested value is missing, or a pending one would revert it."""
    unseen = [name for name in wanted if values.get(name) is None]
    undone = [name for name, value in wanted.items() if waiting.get(name, value) != value]
    return bool(unseen or undone or differing_settings(wanted, values))


# -- changing ---------------------------------------------------------------------------------


def _settings_body(bios: Json, wanted: Json) -> Json:
    known = resources.value(bios, "@Redfish.Settings", "SupportedApplyTimes") or []
    when = {"@odata.type": "#Settings.v1_0_0.PreferredApplyTime", "ApplyTime": _ON_RESET}
    return {"Attributes": wanted} | (
        {"@Redfish.SettingsApplyTime": when} if _ON_RESET in known else {}
    )


def _send_settings(task: base.Task, path: str, body: Json) -> list[str]:
    """Send settings; return the addresses of the BMC's task for them."""

    def work(link: connection.Link) -> list[str]:
        try:
            answer = resources.patch(link, path, body)
        except sushy.exceptions.HTTPError as error:
            # Old BMCs replace the settings resource.
            if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
                raise
            answer = link.wire.put(path, data=body)
        return jobs.places(answer)

    return connection.call(task, work, read=False)


def _post_action(task: base.Task, target: str) -> list[str]:
    return connection.call(task, lambda link: jobs.places(resources.act(link, target)), read=False)


def _restart_for_settings(task: base.Task, before: Json, tasks: list[str]) -> base.Outcome:
    """Restart the machine, whose system was ``before``, and schedule polls until it is up."""
    task.driver.deploy.prepare_restart(task)
    task.switch_power(base.REBOOT)
    task.forget_agent(keep_token=True)
    task.node.power_state = base.POWER_ON
    until, progress = clock.stamp() + _boot_limit(), _boot_progress(before)
    task.keep(NOTE, {"until": until, "tasks": tasks, "progress": progress})
    task.wake_after(_interval())
    return base.WAIT


def _boot_limit() -> float:
    """Return the seconds a machine may take to boot with its new settings."""
    return float(config.CONF.redfish.bios_config_timeout)


def _interval() -> float:
    return float(config.CONF.redfish.bios_config_status_interval)


# -- comparing --------------------------------------------------------------------------------


def _remaining_differences(
    task: base.Task, note: Json, step: base.StoredStep, *, late: bool
) -> str:
    """Return what differs from the request, empty if nothing does; count boots in ``note``.

    :raises errors.StepFailed: the BMC reports that its task failed.
    """
    word, said = _job_state(task, note)
    if word in jobs.FAILED:
        said = said or "it gives no reason"
        reason = f"the BMC could not change the settings ({word}): {said}"
        task.keep(NOTE, None)
        cause = errors.BmcTaskFailed(task=note["tasks"][0], state=word, reason=said)
        raise errors.StepFailed(step=f"bios.{step['step']}", reason=reason) from cause
    under_way = word not in {jobs.DONE, jobs.FORGOTTEN}
    up = _is_up(task, note, under_way=under_way)
    limit = config.CONF.redfish.bios_config_timeout
    booting = (
        f"the machine has not finished booting within {limit:g} s; its boot progress "
        f"(BootProgress) is {note['progress'] or 'unknown'}"
    )
    if step["step"] == "factory_reset":
        return "" if up else booting
    wanted = arguments.settings(steps.arguments(step)["settings"])
    bios = _read_bios(task, resources.system(task), "apply_configuration")
    wrong = differing_settings(wanted, _bios_attributes(bios))
    if wrong:
        names = ", ".join(sorted(wrong))
        said = _settings_messages(bios)
        return f"after the boot these settings differ from the request: {names}{said}"
    if under_way and not late:
        return "the BMC has not finished its task"
    if under_way:
        text = "Node %s: its BIOS settings are as requested, but the BMC's task has not ended."
        LOG.warning(text, task.node.uuid)
    # Settings that are never shown, such as passwords, count as applied after the boot.
    unseen = any(_bios_attributes(bios).get(name) is None for name in wanted)
    return booting if unseen and not up else ""


def _is_up(task: base.Task, note: Json, *, under_way: bool) -> bool:
    """Return whether the machine has booted since the restart, as far as the BMC shows it."""
    system = resources.system(task)
    state, progress = _boot_state(system), _boot_progress(system)
    looks = note["looks"] = int(note.get("looks", 0)) + 1
    note["began"] = bool(note.get("began")) or state not in {None, *_BOOTED}
    fresh = note["began"] or looks >= STALE_LOOKS
    booted = state in _BOOTED and fresh and not under_way
    note["booted"] = int(note.get("booted", 0)) + 1 if booted else 0
    same = progress == note.get("progress", progress)
    note["same"] = int(note.get("same", 0)) + 1 if same else 1
    note["moved"] = bool(note.get("moved")) or not same
    note["progress"] = progress
    if booted or under_way or resources.text(system, "PowerState") == "Off":
        return booted
    return looks >= BLIND_LOOKS if state is None else _stands_still(state, note)


def _stands_still(state: str, note: Json) -> bool:
    """Return whether the boot progress has no more to say.

    A state while the firmware starts only counts if the BMC has shown it since before the restart.
    """
    hung = state in _STARTING and note["moved"]
    return state not in _BOOTED and not hung and int(note["same"]) >= BLIND_LOOKS


def _boot_state(system: Json) -> str | None:
    return resources.text(system, "BootProgress", "LastState")


def _boot_progress(system: Json) -> str:
    """Return the boot progress with the vendor's own state; empty if the BMC shows none."""
    own = resources.text(system, "BootProgress", "OemLastState")
    return " ".join(one for one in (_boot_state(system), own) if one)


def _settings_messages(bios: Json) -> str:
    """Return the BMC's messages about the applied settings (DSP0268, Settings.Messages).

    Only message names are used, because the texts may repeat a value, such as a password.
    """
    entries = resources.entries(bios, "@Redfish.Settings", "Messages")
    words = [resources.text(entry, "MessageId") for entry in entries]
    told = ", ".join(dict.fromkeys(word for word in words if word and "Success" not in word))
    return f". The BMC says: {told}" if told else ""


def _job_state(task: base.Task, note: Json) -> tuple[str, str]:
    """Return the state of the BMC's task; no task counts as done."""
    uris = note.get("tasks") or []
    if not uris:
        return jobs.DONE, ""
    return connection.call(task, lambda link: jobs.look(link, uris))
