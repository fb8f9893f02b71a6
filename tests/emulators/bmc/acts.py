"""What a BMC does on a request: one table of methods and paths, one function each."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.emulators.bmc import shapes
from tests.emulators.bmc.server import Reply, Request

if TYPE_CHECKING:
    from tests.emulators.bmc.machine import Machine

Json = dict[str, Any]
Act = Callable[["Machine", Request, str], Reply]


class Refused(Exception):
    """The BMC says no; carries its answer."""

    def __init__(self, status: int, word: str, message: str) -> None:
        super().__init__(message)
        self.reply = refusal(status, word, message)


def refusal(status: int, word: str, message: str) -> Reply:
    """Return an error answer in the form of DSP0266; ``word`` is of the registry Base."""
    info = {
        "@odata.type": "#Message.v1_1_2.Message",
        "MessageId": f"Base.1.8.{word}",
        "Message": message,
        "Severity": "Critical",
        "Resolution": "None.",
    }
    code = {"code": "Base.1.8.GeneralError", "message": "A general error has occurred."}
    return Reply(status, {"error": {**code, "@Message.ExtendedInfo": [info]}})


def find(machine: Machine, method: str, path: str) -> Callable[[Request], Reply]:
    """Return what to do on a request.

    :raises Refused: nothing of that kind is done there.
    """
    if method in {"GET", "HEAD"}:
        return lambda request: machine.read(path)
    for wanted, pattern, act in ACTS:
        if wanted == method and re.fullmatch(pattern, path):
            return lambda request: act(machine, request, path)
    if path in machine.tree:
        raise Refused(405, "OperationNotAllowed", f"{method} is not allowed at {path}.")
    raise Refused(404, "ResourceMissingAtURI", f"There is nothing at {path}.")


# -- sessions -------------------------------------------------------------------------------------


def _log_in(machine: Machine, request: Request, path: str) -> Reply:
    if path not in machine.tree:
        raise Refused(404, "ResourceMissingAtURI", f"There is nothing at {path}.")
    user = request.body.get("UserName")
    if machine.users and machine.users.get(user) != request.body.get("Password"):
        raise Refused(401, "NoValidSession", "User or password are wrong.")
    token, place = machine.start_session(str(user))
    headers = {"X-Auth-Token": token, "Location": place}
    return Reply(201, machine.tree[place], headers)


def _log_out(machine: Machine, request: Request, path: str) -> Reply:
    for token, session in list(machine.sessions.items()):
        if path.endswith(f"/{session.number}"):
            machine.end_session(token)
            return Reply(204)
    raise Refused(404, "ResourceMissingAtURI", f"There is nothing at {path}.")


# -- changing a document --------------------------------------------------------------------------

_LAMP = frozenset({"IndicatorLED", "LocationIndicatorActive"})
WRITABLE: tuple[tuple[str, frozenset[str]], ...] = (
    (r".*/Systems/[^/]+", _LAMP | {"Boot", "AssetTag", "HostName"}),
    (r".*/Chassis/[^/]+", _LAMP | {"AssetTag"}),
    (r".*/Drives/[^/]+", _LAMP),
    (r".*/SecureBoot", frozenset({"SecureBootEnable"})),
    (r".*/VirtualMedia/[^/]+", frozenset({"Image", "Inserted", "WriteProtected"})),
)


def _patch(machine: Machine, request: Request, path: str) -> Reply:
    document = machine.tree.get(path)
    writable = next((names for pattern, names in WRITABLE if re.fullmatch(pattern, path)), None)
    if document is None:
        raise Refused(404, "ResourceMissingAtURI", f"There is nothing at {path}.")
    if writable is None:
        raise Refused(405, "OperationNotAllowed", f"PATCH is not allowed at {path}.")
    _check_tag(machine, request, path)
    for name in request.body:
        if name not in document:
            raise Refused(400, "PropertyUnknown", f"The property {name} is unknown.")
        if name not in writable:
            raise Refused(400, "PropertyNotWritable", f"The property {name} is read-only.")
    if "Boot" in request.body:
        _check_boot(machine, document["Boot"], request.body["Boot"])
    merge(document, request.body)
    return Reply(200, document)


def _check_tag(machine: Machine, request: Request, path: str) -> None:
    wanted = request.headers.get("If-Match")
    if wanted and wanted != "*" and wanted != machine.read(path).headers["ETag"]:
        raise Refused(412, "PreconditionFailed", "The ETag does not match.")


def _check_boot(machine: Machine, boot: Json, wanted: Json) -> None:
    for name, value in wanted.items():
        if name not in boot:
            raise Refused(400, "PropertyUnknown", f"The property {name} is unknown.")
        allowed = boot.get(f"{name}@Redfish.AllowableValues")
        if allowed is not None and value not in allowed:
            raise Refused(400, "PropertyValueNotInList", f"The value {value} of {name} is none.")
    whole = {f"BootSourceOverride{word}" for word in ("Enabled", "Target", "Mode")}
    if machine.habits.whole_boot and wanted.keys() != whole:
        raise Refused(400, "PropertyMissing", f"Boot must have {sorted(whole)}.")
    enabled = wanted.get("BootSourceOverrideEnabled")
    if enabled == "Continuous" and not machine.habits.keeps_boot:
        raise Refused(400, "PropertyValueNotInList", "The value Continuous is none.")


def merge(document: Json, news: Json) -> None:
    """Write ``news`` over a document, objects within objects too."""
    for name, value in news.items():
        if isinstance(value, dict) and isinstance(document.get(name), dict):
            merge(document[name], value)
        else:
            document[name] = value


# -- power ----------------------------------------------------------------------------------------

TURNS = {
    # reset type: (where to, whether the processors start anew)
    "On": ("On", True),
    "ForceOn": ("On", True),
    "ForceOff": ("Off", False),
    "GracefulShutdown": ("Off", False),
    "ForceRestart": ("On", True),
    "GracefulRestart": ("On", True),
    "PowerCycle": ("On", True),
}


def _reset(machine: Machine, request: Request, path: str) -> Reply:
    word = request.body.get("ResetType")
    allowed = machine.tree[machine.system]["Actions"]["#ComputerSystem.Reset"]
    if word not in allowed["ResetType@Redfish.AllowableValues"]:
        raise Refused(400, "ActionParameterNotSupported", f"The ResetType {word} is none.")
    machine.sent.append(word)
    if word == "Nmi":
        machine.nmis += 1
        return Reply(204)
    if word.startswith("Graceful") and machine.habits.deaf_to_button:
        return Reply(204)
    target, boots = TURNS[word]
    is_on = machine.tree[machine.system]["PowerState"] == "On"
    # A machine that is on stays as it is when it is told On.
    machine.go(target, boots=boots and not (is_on and word in {"On", "ForceOn"}))
    return Reply(204)


def _reset_manager(machine: Machine, request: Request, path: str) -> Reply:
    action = machine.tree[machine.places.manager]["Actions"]["#Manager.Reset"]
    word = request.body.get("ResetType")
    if word not in action["ResetType@Redfish.AllowableValues"]:
        raise Refused(400, "ActionParameterNotSupported", f"The ResetType {word} is none.")
    machine.restarts.append(word)
    machine.restart()
    return Reply(204)


# -- BIOS settings --------------------------------------------------------------------------------


def _reset_bios(machine: Machine, request: Request, path: str) -> Reply:
    entries = _entries(machine).values()
    news = {entry["AttributeName"]: entry["DefaultValue"] for entry in entries}
    machine.at_boot(functools.partial(_take_settings, machine, news))
    return Reply(200, refusal(200, "Success", "Done at the next boot.").document)


def _settings(machine: Machine, request: Request, path: str) -> Reply:
    _check_tag(machine, request, path)
    wanted = request.body.get("Attributes", {})
    entries = _entries(machine)
    for name, value in wanted.items():
        if name not in entries:
            raise Refused(400, "PropertyUnknown", f"The property {name} is unknown.")
        _check_setting(entries[name], value)
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


def _reset_keys(machine: Machine, request: Request, path: str) -> Reply:
    document = machine.tree[path.partition("/Actions/")[0]]
    word = request.body.get("ResetKeysType")
    document["SecureBootMode"] = "UserMode" if word == "ResetAllKeysToDefault" else "SetupMode"
    return Reply(204)


# -- volumes --------------------------------------------------------------------------------------

_APPLY = "@Redfish.OperationApplyTime"


def _apply_time(machine: Machine, request: Request) -> bool:
    """Tell whether it waits for the next boot.

    :raises Refused: the controller does not know that time.
    """
    support = machine.tree[machine.places.volumes].get(f"{_APPLY}Support")
    known = support["SupportedValues"] if support else []
    when = request.body.get(_APPLY)
    if when is not None and when not in known:
        raise Refused(400, "PropertyValueNotInList", f"The value {when} of {_APPLY} is none.")
    return (when or (known[0] if known else "Immediate")) == "OnReset"


def _create_volume(machine: Machine, request: Request, path: str) -> Reply:
    wanted = request.body
    later = _apply_time(machine, request)
    storage = machine.tree[path.rpartition("/")[0]]
    places = [entry["@odata.id"] for entry in wanted.get("Links", {}).get("Drives", [])]
    level, size = wanted.get("RAIDType"), wanted.get("CapacityBytes")
    if level not in storage["StorageControllers"][0]["SupportedRAIDTypes"]:
        raise Refused(400, "PropertyValueNotInList", f"The value {level} of RAIDType is none.")
    if len(places) < shapes.LEVELS[level]:
        raise Refused(400, "PropertyValueError", f"{level} needs {shapes.LEVELS[level]} drives.")
    for place in places:
        if shapes.link(place) not in storage["Drives"]:
            raise Refused(400, "ResourceNotFound", f"There is no drive {place}.")
    free = room(machine, level, places)
    if size is not None and size > free:
        raise Refused(400, "PropertyValueOutOfRange", f"There is room for {free} bytes only.")
    taken = {link["@odata.id"] for link in machine.tree[path]["Members"]} | machine.coming
    place = next(name for n in range(1, 100) if (name := f"{path}/{n}") not in taken)
    machine.coming.add(place)
    volume = _volume(place, wanted, level, size if size is not None else free)
    effect = functools.partial(_add_volume, machine, place, volume)
    accepted = machine.work("create", "Create Volume", effect, on_reset=later)
    return accepted or Reply(201, volume, {"Location": place})


def room(machine: Machine, level: str, places: list[str]) -> int:
    """Return the bytes a volume of this level may have on these drives."""
    least = min(machine.tree[place]["CapacityBytes"] - _used(machine, place) for place in places)
    return int(least * _shares(level, len(places)))


def _used(machine: Machine, place: str) -> int:
    """Return the bytes that volumes take of a drive."""
    used = 0
    for link in machine.tree[place]["Links"]["Volumes"]:
        volume = machine.tree[link["@odata.id"]]
        others = [drive["@odata.id"] for drive in volume["Links"]["Drives"]]
        used += volume["CapacityBytes"] // _shares(volume["RAIDType"], len(others))
    return used


def _shares(level: str, count: int) -> int:
    """Return how many of ``count`` drives hold data, the others being for redundancy."""
    data = {"RAID0": count, "RAID1": 1, "RAID5": count - 1, "RAID6": count - 2}
    data |= {"RAID10": count // 2, "RAID50": count - 2, "RAID60": count - 4}
    return data[level]


def _volume(place: str, wanted: Json, level: str, size: int) -> Json:
    name = wanted.get("Name") or f"Virtual Disk {place.rpartition('/')[2]}"
    return shapes.document(
        place,
        "Volume.v1_6_2",
        name,
        RAIDType=level,
        CapacityBytes=size,
        BlockSizeBytes=512,
        Encrypted=False,
        Status=dict(shapes.OK),
        Identifiers=[
            {
                "DurableName": f"6003FF000000000000{int(place.rpartition('/')[2]):014X}",
                "DurableNameFormat": "NAA",
            }
        ],
        Links={"Drives": wanted["Links"]["Drives"]},
        Actions={
            "#Volume.Initialize": {
                "target": f"{place}/Actions/Volume.Initialize",
                "InitializeType@Redfish.AllowableValues": ["Fast", "Slow"],
            }
        },
    )


def _add_volume(machine: Machine, place: str, volume: Json) -> None:
    machine.coming.discard(place)
    machine.add(place, volume)
    for entry in volume["Links"]["Drives"]:
        machine.tree[entry["@odata.id"]]["Links"]["Volumes"].append(shapes.link(place))


def _delete_volume(machine: Machine, request: Request, path: str) -> Reply:
    if path not in machine.tree:
        raise Refused(404, "ResourceMissingAtURI", f"There is nothing at {path}.")
    later = _apply_time(machine, request)
    effect = functools.partial(_drop_volume, machine, path)
    return machine.work("delete", "Delete Volume", effect, on_reset=later) or Reply(204)


def _drop_volume(machine: Machine, path: str) -> None:
    for entry in machine.tree[path]["Links"]["Drives"]:
        machine.tree[entry["@odata.id"]]["Links"]["Volumes"].remove(shapes.link(path))
    machine.remove(path)


def _initialize(machine: Machine, request: Request, path: str) -> Reply:
    if path.partition("/Actions/")[0] not in machine.tree:
        raise Refused(404, "ResourceMissingAtURI", f"There is nothing at {path}.")
    later = _apply_time(machine, request)
    return machine.work("initialize", "Initialize", lambda: None, on_reset=later) or Reply(204)


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
    later = part == "BIOS" and machine.habits.firmware_on_reset
    return machine.work("update", f"Update {part}", effect, on_reset=later) or Reply(204)


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


# -- virtual media --------------------------------------------------------------------------------


def _insert(machine: Machine, request: Request, path: str) -> Reply:
    image = request.body.get("Image")
    if not isinstance(image, str) or not image:
        raise Refused(400, "ActionParameterMissing", "The parameter Image is missing.")
    medium = machine.tree[path.partition("/Actions/")[0]]
    if medium["Inserted"]:
        raise Refused(400, "ResourceInUse", "There is a medium in it.")
    medium.update(
        Image=image,
        ImageName=image.rpartition("/")[2],
        Inserted=request.body.get("Inserted", True),
        WriteProtected=request.body.get("WriteProtected", True),
        ConnectedVia="URI",
    )
    return Reply(204)


def _eject(machine: Machine, request: Request, path: str) -> Reply:
    medium = machine.tree[path.partition("/Actions/")[0]]
    medium.update(Image=None, ImageName=None, Inserted=False, ConnectedVia="NotConnected")
    return Reply(204)


ACTS: tuple[tuple[str, str, Act], ...] = (
    ("POST", r".*/SessionService/Sessions", _log_in),
    ("DELETE", r".*/SessionService/Sessions/[^/]+", _log_out),
    ("POST", r".*/Actions/ComputerSystem\.Reset", _reset),
    ("POST", r".*/Actions/Manager\.Reset", _reset_manager),
    ("POST", r".*/Actions/Bios\.ResetBios", _reset_bios),
    ("PATCH", r".*/Bios/Settings", _settings),
    ("POST", r".*/Actions/SecureBoot\.ResetKeys", _reset_keys),
    ("POST", r".*/Storage/[^/]+/Volumes", _create_volume),
    ("DELETE", r".*/Storage/[^/]+/Volumes/[^/]+", _delete_volume),
    ("POST", r".*/Actions/Volume\.Initialize", _initialize),
    ("POST", r".*/Actions/UpdateService\.SimpleUpdate", _update),
    ("POST", r".*/Actions/VirtualMedia\.InsertMedia", _insert),
    ("POST", r".*/Actions/VirtualMedia\.EjectMedia", _eject),
    ("PATCH", r".*", _patch),
)
