"""The firmware of a machine: its settings, and its versions."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.emulators.bmc import shapes, tasks
from tests.emulators.bmc.refusals import Refused, refusal
from tests.emulators.bmc.server import Reply, Request

if TYPE_CHECKING:
    from tests.emulators.bmc.machine import Machine

Json = dict[str, Any]

# -- BIOS settings --------------------------------------------------------------------------------


def _reset_bios(machine: Machine, request: Request, path: str) -> Reply:
    entries = _entries(machine).values()
    news = {entry["AttributeName"]: entry["DefaultValue"] for entry in entries}
    machine.at_boot(functools.partial(_take_settings, machine, news))
    return Reply(200, refusal(200, "Success", "Done at the next boot.").document)


def _settings(machine: Machine, request: Request, path: str) -> Reply:
    machine.check_tag(request, path)
    wanted = request.body.get("Attributes", {})
    entries = _entries(machine)
    for name, value in wanted.items():
        if name not in entries:
            raise Refused(400, "PropertyUnknown", f"The property {name} is unknown.")
        _check_setting(_entry_for(machine, entries[name], wanted), value)
    when = request.body.get("@Redfish.SettingsApplyTime", {}).get("ApplyTime", "OnReset")
    if when not in machine.tree[machine.places.bios]["@Redfish.Settings"]["SupportedApplyTimes"]:
        raise Refused(400, "PropertyValueNotInList", f"The value {when} of ApplyTime is none.")
    pending = machine.tree[path]
    pending["Attributes"].update(wanted)
    take = functools.partial(_take_settings, machine, wanted)
    if "bios" in machine.habits.tasks:
        accepted = machine.work("bios", "BIOS settings", take, on_reset=when == "OnReset")
        return accepted or Reply(204)
    if when == "OnReset":
        machine.at_boot(take)
    else:
        take()
    return Reply(200, pending)


def _entries(machine: Machine) -> dict[str, Json]:
    name = machine.tree[machine.places.bios]["AttributeRegistry"]
    registry = machine.tree[f"{shapes.ROOT}/Registries/{name}.json"]
    return {entry["AttributeName"]: entry for entry in registry["RegistryEntries"]["Attributes"]}


def depend(machine: Machine, name: str, fact: str, value: Any, *, on: str, word: Any) -> None:
    """Let a property of a setting have this value once the setting ``on`` is ``word``."""
    registry = machine.tree[f"{shapes.ROOT}/Registries/{shapes.REGISTRY}.json"]
    term = {
        "MapFromAttribute": on,
        "MapFromProperty": "CurrentValue",
        "MapFromCondition": "EQU",
        "MapFromValue": word,
    }
    rule = {
        "MapFrom": [term],
        "MapToAttribute": name,
        "MapToProperty": fact,
        "MapToValue": value,
    }
    found = registry["RegistryEntries"].setdefault("Dependencies", [])
    found.append({"Type": "Map", "DependencyFor": on, "Dependency": rule})


def _entry_for(machine: Machine, entry: Json, wanted: Json) -> Json:
    """Return the entry of a setting as it will be with all requested values."""
    registry = machine.tree[f"{shapes.ROOT}/Registries/{shapes.REGISTRY}.json"]
    values = {**machine.tree[machine.places.bios]["Attributes"], **wanted}
    entry = dict(entry)
    for one in registry["RegistryEntries"].get("Dependencies", []):
        rule = one["Dependency"]
        [term] = rule["MapFrom"]
        holds = values[term["MapFromAttribute"]] == term["MapFromValue"]
        if rule["MapToAttribute"] == entry["AttributeName"] and holds:
            entry[rule["MapToProperty"]] = rule["MapToValue"]
    return entry


_KINDS = {"String": str, "Integer": int, "Boolean": bool, "Enumeration": str}


def _check_setting(entry: Json, value: object) -> None:
    name = entry["AttributeName"]
    if entry["ReadOnly"]:
        raise Refused(400, "PropertyNotWritable", f"The property {name} is read-only.")
    kind = _KINDS[entry["Type"]]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Refused(400, "PropertyValueTypeError", f"The value {value!r} of {name} is no {kind}.")
    choices = [choice["ValueName"] for choice in entry.get("Value", [])]
    if choices and value not in choices:
        raise Refused(400, "PropertyValueNotInList", f"The value {value!r} of {name} is none.")
    if isinstance(value, int) and not value <= entry.get("UpperBound", value):
        raise Refused(400, "PropertyValueOutOfRange", f"The value {value} of {name} is too large.")


def _take_settings(machine: Machine, news: Json) -> None:
    bios = machine.tree[machine.places.bios]
    ignored = machine.habits.ignored_settings
    kept = {name: value for name, value in news.items() if name not in ignored}
    bios["Attributes"].update(kept)
    bios["@Redfish.Settings"]["Time"] = "2026-01-01T00:01:00+00:00"
    machine.tree[f"{machine.places.bios}/Settings"]["Attributes"].clear()


# -- firmware -------------------------------------------------------------------------------------

IMAGE = re.compile(r".*/(?P<part>[A-Za-z0-9]+)-(?P<version>[^/]+?)\.(bin|exe|fwpkg)")
"""Images name what they are for: ``http://any/path/BIOS-2.0.bin``."""


def _update(machine: Machine, request: Request, path: str) -> Reply:
    uri = request.body.get("ImageURI")
    if not isinstance(uri, str):
        raise Refused(400, "ActionParameterMissing", "The parameter ImageURI is missing.")
    image = IMAGE.fullmatch(uri)
    parts = {name.lower(): name for name in shapes.FIRMWARE}
    if image is None or image["part"].lower() not in parts:
        raise Refused(400, "ActionParameterValueError", f"{uri} is no image for this machine.")
    part = parts[image["part"].lower()]
    target = f"{machine.places.firmware}/{part}"
    if request.body.get("Targets") not in (None, [], [target]):
        raise Refused(400, "ActionParameterValueError", f"{uri} is not for that target.")
    effect = functools.partial(_take_firmware, machine, part, image["version"])
    if machine.habits.update_shown != "task":
        return _update_unannounced(machine, part, effect)
    later = part == "BIOS" and machine.habits.firmware_on_reset
    return machine.work("update", f"Update {part}", effect, on_reset=later) or Reply(204)


def _update_unannounced(machine: Machine, part: str, effect: Callable[[], None]) -> Reply:
    """Write firmware without a task: each request to the BMC takes it a bit further."""
    if machine.writing is not None:
        raise Refused(400, "UpdateInProgress", "An update is in progress.")
    after = effect if part == "BMC" else functools.partial(machine.at_boot, effect)
    machine.writing = tasks.Task(
        0, part, after, machine.habits.task_polls, None, machine.habits.task_fails
    )
    show_writing(machine)
    if machine.habits.update_shown == "nothing":
        return Reply(204)
    return Reply(200, {"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.4.Success"}]}})


def show_writing(machine: Machine) -> None:
    """Show in the documents how far the firmware is written that has no task."""
    work, shown = machine.writing, machine.habits.update_shown
    if work is None:
        return
    if shown == "service":
        ended = "Error" if work.fails else "Complete"
        hpe: Json = {"State": ended if work.ended else "Updating"}
        if work.ended and work.fails:
            hpe["Result"] = {"MessageId": "iLO.2.14.UpdateFailed", "MessageArgs": [work.fails]}
        machine.tree[f"{shapes.ROOT}/UpdateService"]["Oem"] = {"Hpe": hpe}
    if shown == "inventory":
        state = "Enabled" if work.ended else "Updating"
        machine.tree[f"{machine.places.firmware}/{work.name}"]["Status"]["State"] = state
    if work.ended:
        machine.writing = None


def _take_firmware(machine: Machine, part: str, version: str) -> None:
    machine.tree[f"{machine.places.firmware}/{part}"]["Version"] = version
    if part == "BIOS":
        machine.tree[machine.system]["BiosVersion"] = version
    if part == "BMC":
        machine.tree[machine.places.manager]["FirmwareVersion"] = version
        machine.restart()
    if part == "NIC1":
        card = machine.tree[f"{machine.places.chassis}/NetworkAdapters/NIC1"]
        card["Controllers"][0]["FirmwarePackageVersion"] = version
    if part == "RAID1":
        storage = machine.tree[machine.places.storage]
        storage["StorageControllers"][0]["FirmwareVersion"] = version


ACTS = (
    ("POST", r".*/Actions/Bios\.ResetBios", _reset_bios),
    ("PATCH", r".*/Bios/Settings", _settings),
    ("PUT", r".*/Bios/Settings", _settings),
    ("POST", r".*/Actions/UpdateService\.SimpleUpdate", _update),
)
