"""BIOS settings by Redfish: checked, sent, taken up by the next boot of the machine, compared."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ironic_lite import clock, config, errors
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.redfish import attributes, connection, documents, interface, jobs

LOG = logging.getLogger(__name__)

Json = dict[str, Any]

NOTE = "redfish_bios"
"""Where a step under way is kept: ``until``, ``tasks``, how often it was looked at (``looks``), how
often in a row the machine was up then (``booted``), whether it was seen booting (``began``)."""

DENIED_PAUSE = 60.0
"""Seconds at least before a BMC is asked again that refuses the login: it may lock the user."""

_BOOTED = frozenset({"OSBootStarted", "OSRunning"})
"""Words of DSP0268 (BootProgress.LastState): the firmware has done its part."""
_BLIND_LOOKS = 12
"""Looks after which a machine that shows no progress of its boot counts as up: three minutes."""
_STALE_LOOKS = 4
"""Looks for which a machine may show its boot before the restart, if it is not seen booting."""
_ON_RESET = "OnReset"
_REGISTRIES = 50
"""Registry files looked at for the one of the attributes."""


class RedfishBIOS(interface.RedfishInterface, base.BIOS):
    """The BIOS interface ``redfish``."""

    @base.clean_step(priority=0, argsinfo=arguments.BIOS_ARGS, requires_ramdisk=False)
    @base.deploy_step(priority=0, argsinfo=arguments.BIOS_ARGS, rerunnable=True)
    @base.service_step(argsinfo=arguments.BIOS_ARGS, requires_ramdisk=False, rerunnable=True)
    def apply_configuration(self, task: base.Task, settings: list[dict[str, Any]]) -> base.Outcome:
        """Change these settings, restart the machine, and see that it has taken them up.

        :raises errors.InvalidParameter: a setting that the machine has not, or cannot have so.
        :raises errors.UnsupportedDriverExtension: the BMC shows no settings.
        """
        asked = arguments.settings(settings)
        bios = _bios(task, "apply_configuration")
        values = _values(bios)
        wanted, faults = attributes.convert(asked, values, _registry(task, bios))
        if faults:
            raise errors.InvalidParameter(path="settings", reason="; ".join(faults))
        place = documents.link(bios, "@Redfish.Settings", "SettingsObject")
        waiting = _pending(task, place)
        if not _asked_for(wanted, values, waiting):
            LOG.info("Node %s: its BIOS settings are as they are wanted.", task.node.uuid)
            return base.DONE
        tasks = []
        if any(waiting.get(name) != value for name, value in wanted.items()):
            tasks = _send(task, place or bios["@odata.id"], _body(bios, wanted))
        return _boot(task, tasks)

    @base.clean_step(priority=0, requires_ramdisk=False)
    @base.deploy_step(priority=0, rerunnable=True)
    @base.service_step(requires_ramdisk=False, rerunnable=True)
    def factory_reset(self, task: base.Task) -> base.Outcome:
        """Bring all settings back to what the maker has chosen, and restart the machine.

        :raises errors.UnsupportedDriverExtension: the BMC cannot do that.
        """
        bios = _bios(task, "factory_reset")
        target = documents.text(bios, "Actions", "#Bios.ResetBios", "target")
        if target is None:
            raise documents.lacking(task, "factory_reset", "it offers no Bios.ResetBios")
        return _boot(task, _post(task, target))

    def cache_bios_settings(self, task: base.Task) -> list[base.BiosSetting]:
        """Return all settings as they are now, with what the registry says of them.

        :raises errors.UnsupportedDriverExtension: the BMC shows none.
        """
        bios = _bios(task, "cache_bios_settings")
        return attributes.settings(_values(bios), _registry(task, bios))

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome:
        """Say whether the machine has taken up what was sent.

        :raises errors.StepFailed: it has booted, or had time enough; names settings.
        """
        note = dict(task.recall(NOTE) or {})
        late = clock.over(float(note.get("until", 0)), _limit())
        try:
            left = _look(task, note, step, late=late)
        except (errors.BmcUnreachable, errors.BmcBadAnswer, errors.BmcAccessDenied) as silence:
            if late:
                raise self._failed(task, step, f"no usable answer of the BMC: {silence}") from None
            # A BMC that starts may know its users no more than its settings.
            denied = isinstance(silence, errors.BmcAccessDenied)
            task.keep(NOTE, note)
            task.wake_after(max(_interval(), DENIED_PAUSE if denied else 0.0))
            return base.WAIT
        if not left:
            task.keep(NOTE, None)
            return base.DONE
        # Some BMCs show new settings a little later than that the machine has booted.
        if late or int(note.get("booted", 0)) > 1:
            raise self._failed(task, step, left)
        task.keep(NOTE, note)
        task.wake_after(_interval())
        return base.WAIT

    def _failed(self, task: base.Task, step: Mapping[str, Any], why: str) -> errors.StepFailed:
        task.keep(NOTE, None)
        return errors.StepFailed(step=f"bios.{step['step']}", reason=why)


# -- reading ----------------------------------------------------------------------------------


def _bios(task: base.Task, method: str) -> Json:
    """Return the Bios resource of the system."""
    path = documents.link(documents.system(task), "Bios")
    found = documents.read(task, path) if path else None
    if found is None or path is None:
        raise documents.lacking(task, method, "it shows no BIOS settings")
    return {"@odata.id": path, **found}


def _values(bios: Json) -> Json:
    found = documents.value(bios, "Attributes")
    return found if isinstance(found, dict) else {}


def _registry(task: base.Task, bios: Json) -> dict[str, Json]:
    """Return attribute name -> entry of the registry of these settings; empty if there is none."""
    name = documents.text(bios, "AttributeRegistry")
    place = documents.link(documents.root(task), "Registries")
    if name is None or place is None:
        return {}
    listed = documents.entries(documents.read(task, place) or {}, "Members")
    paths = [path for path in map(documents.link, listed) if path]
    # Mostly the path ends with the name; the others are asked for theirs.
    paths.sort(key=lambda path: name.partition(".")[0] not in path)
    for path in paths[:_REGISTRIES]:
        file = documents.read(task, path) or {}
        if name in (documents.text(file, "Registry"), documents.text(file, "Id")):
            uri = _location(file)
            found = documents.read(task, uri) if uri else None
            return attributes.registry(found or {})
    LOG.info("Node %s: its BMC has no attribute registry %s.", task.node.uuid, name)
    return {}


def _location(file: Json) -> str | None:
    """Return where a registry is: in English, or in whatever language comes first."""
    places = [
        place for place in documents.entries(file, "Location") if documents.text(place, "Uri")
    ]
    places.sort(key=lambda place: not str(place.get("Language")).startswith("en"))
    return documents.text(places[0], "Uri") if places else None


def _pending(task: base.Task, place: str | None) -> Json:
    """Return the attributes that wait for the next boot; many BMCs list all, as they are."""
    return _values((documents.read(task, place) if place else None) or {})


def _asked_for(wanted: Json, values: Json, waiting: Json) -> bool:
    """Tell whether a wish is not so yet, or something that waits would undo it."""
    unseen = [name for name in wanted if values.get(name) is None]
    undone = [name for name, value in wanted.items() if waiting.get(name, value) != value]
    return bool(unseen or undone or attributes.differing(wanted, values))


# -- changing ---------------------------------------------------------------------------------


def _body(bios: Json, wanted: Json) -> Json:
    known = documents.value(bios, "@Redfish.Settings", "SupportedApplyTimes") or []
    when = {"@odata.type": "#Settings.v1_0_0.PreferredApplyTime", "ApplyTime": _ON_RESET}
    return {"Attributes": wanted} | (
        {"@Redfish.SettingsApplyTime": when} if _ON_RESET in known else {}
    )


def _send(task: base.Task, path: str, body: Json) -> list[str]:
    """Send settings; return where it can be followed what the BMC makes of them."""

    def work(link: connection.Link) -> list[str]:
        etag = link.wire.get(path).headers.get("ETag")
        return jobs.places(link.wire.patch(path, data=body, etag=etag))

    return connection.call(task, work, read=False)


def _post(task: base.Task, target: str) -> list[str]:
    return connection.call(
        task, lambda link: jobs.places(link.wire.post(target, data={})), read=False
    )


def _boot(task: base.Task, tasks: list[str]) -> base.Outcome:
    """Restart the machine, and have it looked at until it is up."""
    task.driver.deploy.prepare_restart(task)
    task.driver.power.reboot(task)
    task.forget_agent(keep_token=True)
    task.node.power_state = base.POWER_ON
    task.keep(NOTE, {"until": clock.stamp() + _limit(), "tasks": tasks})
    task.wake_after(_interval())
    return base.WAIT


def _limit() -> float:
    """Return the seconds a machine may take to boot with its new settings."""
    return float(config.CONF.redfish.bios_config_timeout)


def _interval() -> float:
    return float(config.CONF.redfish.bios_config_status_interval)


# -- comparing --------------------------------------------------------------------------------


def _look(task: base.Task, note: Json, step: Mapping[str, Any], *, late: bool) -> str:
    """Return what is not yet as it shall be, empty if all is; count in ``note`` that it has booted.

    :raises errors.StepFailed: the BMC says that it could not do it.
    """
    word, said = _job(task, note)
    if word in jobs.FAILED:
        reason = f"the BMC could not change the settings ({word}): {said or 'it does not say why'}"
        task.keep(NOTE, None)
        raise errors.StepFailed(step=f"bios.{step['step']}", reason=reason)
    under_way = word not in {jobs.DONE, jobs.FORGOTTEN}
    up = _is_up(task, note, under_way=under_way)
    limit = config.CONF.redfish.bios_config_timeout
    booting = f"the machine has not finished booting within {limit:g} s"
    if step["step"] == "factory_reset":
        return "" if up else booting
    wanted = arguments.settings(step["args"]["settings"])
    bios = _bios(task, "apply_configuration")
    wrong = attributes.differing(wanted, _values(bios))
    if wrong:
        names = attributes.listed(wrong)
        return f"after the boot these settings are not as they were asked for: {names}{_told(bios)}"
    if under_way and not late:
        return "the BMC has not finished its task"
    if under_way:
        text = "Node %s: its BIOS settings are as they are wanted, and the BMC still works at them."
        LOG.warning(text, task.node.uuid)
    # What is never shown, as passwords, is taken up by the boot as a whole.
    unseen = any(_values(bios).get(name) is None for name in wanted)
    return booting if unseen and not up else ""


def _is_up(task: base.Task, note: Json, *, under_way: bool) -> bool:
    """Tell whether the machine has booted, as far as the BMC shows it, since it was restarted."""
    progress = documents.text(documents.system(task), "BootProgress", "LastState")
    looks = note["looks"] = int(note.get("looks", 0)) + 1
    note["began"] = bool(note.get("began")) or progress not in {None, *_BOOTED}
    fresh = note["began"] or looks >= _STALE_LOOKS
    booted = progress in _BOOTED and fresh and not under_way
    note["booted"] = int(note.get("booted", 0)) + 1 if booted else 0
    return booted or (progress is None and not under_way and looks >= _BLIND_LOOKS)


def _told(bios: Json) -> str:
    """Return what the BMC says of the settings that it was to take up (DSP0268, Settings.Messages).

    By the names of its messages: their words may repeat a value, which may be a password.
    """
    entries = documents.entries(bios, "@Redfish.Settings", "Messages")
    words = [documents.text(entry, "MessageId") for entry in entries]
    told = ", ".join(dict.fromkeys(word for word in words if word and "Success" not in word))
    return f". The BMC says: {told}" if told else ""


def _job(task: base.Task, note: Json) -> tuple[str, str]:
    """Return where the BMC's own job stands; without one it counts as done."""
    uris = note.get("tasks") or []
    if not uris:
        return jobs.DONE, ""
    return connection.call(task, lambda link: jobs.look(link, uris))
