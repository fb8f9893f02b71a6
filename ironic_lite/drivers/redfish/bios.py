"""BIOS settings by Redfish: sent, applied by the next boot, and compared afterwards."""

from __future__ import annotations

import logging
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json
from ironic_lite.domain import steps
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.redfish import attributes, interface
from ironic_lite.drivers.redfish.bmc import connection, jobs, quirks, resources
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

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


class RedfishBIOS(interface.RedfishInterface, base.BIOS):
    """The BIOS interface ``redfish``."""

    @base.clean_step(
        priority=0,
        argsinfo=arguments.BIOS_ARGS,
        requires_ramdisk=False,
        destroys=("settings",),
        restarts=1,
    )
    @base.deploy_step(
        priority=0,
        argsinfo=arguments.BIOS_ARGS,
        rerunnable=True,
        destroys=("settings",),
        restarts=1,
        lasting=True,
    )
    @base.service_step(
        argsinfo=arguments.BIOS_ARGS,
        requires_ramdisk=False,
        rerunnable=True,
        destroys=("settings",),
        restarts=1,
    )
    def apply_configuration(self, task: base.Task, settings: list[Json]) -> base.Outcome:
        """Change these settings, restart the machine, and check that it has applied them.

        :raises errors.InvalidParameter: the machine lacks a setting or does not allow its value.
        :raises errors.UnsupportedDriverExtension: the BMC shows no settings.
        """
        asked = arguments.settings(settings)
        system = resources.system(task)
        bios = _read_bios(task, system, "apply_configuration")
        values = _bios_attributes(bios)
        wanted, faults = attributes.convert(asked, values, _read_registry(task, bios))
        if faults:
            raise errors.InvalidParameter(path="settings", reason="; ".join(faults))
        place = resources.link(bios, "@Redfish.Settings", "SettingsObject")
        waiting = _pending_attributes(task, place)
        if not _asked_for(wanted, values, waiting):
            LOG.info("Node %s: its BIOS settings are already as requested.", task.node.uuid)
            return base.DONE
        tasks = []
        if any(waiting.get(name) != value for name, value in wanted.items()):
            tasks = _send_settings(task, place or bios["@odata.id"], _settings_body(bios, wanted))
        return _restart_for_settings(task, system, tasks)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=("settings",), restarts=1)
    @base.deploy_step(priority=0, rerunnable=True, destroys=("settings",), restarts=1, lasting=True)
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=("settings",), restarts=1)
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
        bios = _read_bios(task, resources.system(task), "cache_bios_settings")
        return attributes.settings(_bios_attributes(bios), _read_registry(task, bios))

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
    return attributes.registry(found or {})


def _registry_file(task: base.Task, paths: list[str], name: str) -> Json | None:
    """Return the registry file of this name, or else of this name with another version.

    Dell names a newer version than its registry file has, and Supermicro separates the version in
    another way.
    """
    family = attributes.registry_family(name)
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
        if alike is None and family in map(attributes.registry_family, names):
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


def _pending_attributes(task: base.Task, place: str | None) -> Json:
    """Return the attributes pending for the next boot; many BMCs list all current ones."""
    return _bios_attributes((resources.read(task, place) if place else None) or {})


def _asked_for(wanted: Json, values: Json, waiting: Json) -> bool:
    """Return whether a requested value is missing, or a pending one would revert it."""
    unseen = [name for name in wanted if values.get(name) is None]
    undone = [name for name, value in wanted.items() if waiting.get(name, value) != value]
    return bool(unseen or undone or attributes.differing(wanted, values))


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
    wrong = attributes.differing(wanted, _bios_attributes(bios))
    if wrong:
        names = attributes.listed(wrong)
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
