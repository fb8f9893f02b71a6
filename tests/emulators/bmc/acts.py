"""Actions of a BMC: a table of methods and paths, with a function for each."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.emulators.bmc import dell, firmware, volumes
from tests.emulators.bmc.refusals import Refused
from tests.emulators.bmc.server import Reply, Request

if TYPE_CHECKING:
    from tests.emulators.bmc.machine import Machine

Json = dict[str, Any]
Act = Callable[["Machine", Request, str], Reply]


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
    (r".*/Systems/[^/]+/SD", frozenset({"Boot"})),
    (r".*/Chassis/[^/]+", _LAMP | {"AssetTag"}),
    (r".*/Drives/[^/]+", _LAMP),
    (r".*/Managers/[^/]+", frozenset({"DateTime", "DateTimeLocalOffset"})),
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
    machine.check_tag(request, path)
    for name in request.body:
        if name not in document:
            raise Refused(400, "PropertyUnknown", f"The property {name} is unknown.")
        if name not in writable or (name == "Boot" and f"{path}/SD" in machine.tree):
            raise Refused(400, "PropertyNotWritable", f"The property {name} is read-only.")
    if "Boot" in request.body:
        _check_boot(machine, document["Boot"], request.body["Boot"])
    effect = functools.partial(merge, document, request.body)
    return machine.work("change", f"Change {path}", effect) or Reply(200, document)


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
    boots = boots and not (is_on and word in {"On", "ForceOn"})
    effect = functools.partial(machine.go, target, boots=boots)
    return machine.work("power", f"Reset {word}", effect) or Reply(204)


def _reset_manager(machine: Machine, request: Request, path: str) -> Reply:
    action = machine.tree[machine.places.manager]["Actions"]["#Manager.Reset"]
    word = request.body.get("ResetType")
    if word not in action["ResetType@Redfish.AllowableValues"]:
        raise Refused(400, "ActionParameterNotSupported", f"The ResetType {word} is none.")
    machine.restarts.append(word)
    dell.reset_seen(machine.tree)
    machine.restart()
    return Reply(204)


def _reset_keys(machine: Machine, request: Request, path: str) -> Reply:
    document = machine.tree[path.partition("/Actions/")[0]]
    word = request.body.get("ResetKeysType")
    document["SecureBootMode"] = "UserMode" if word == "ResetAllKeysToDefault" else "SetupMode"
    return Reply(204)


# -- virtual media --------------------------------------------------------------------------------


def _insert(machine: Machine, request: Request, path: str) -> Reply:
    image = request.body.get("Image")
    if not isinstance(image, str) or not image:
        raise Refused(400, "ActionParameterMissing", "The parameter Image is missing.")
    medium = machine.tree[path.partition("/Actions/")[0]]
    if medium["Inserted"]:
        raise Refused(400, "ResourceInUse", "There is a medium in it.")
    effect = functools.partial(
        medium.update,
        Image=image,
        ImageName=image.rpartition("/")[2],
        Inserted=request.body.get("Inserted", True),
        WriteProtected=request.body.get("WriteProtected", True),
        ConnectedVia="URI",
    )
    return machine.work("media", "Insert", effect) or Reply(204)


def _eject(machine: Machine, request: Request, path: str) -> Reply:
    medium = machine.tree[path.partition("/Actions/")[0]]
    effect = functools.partial(
        medium.update, Image=None, ImageName=None, Inserted=False, ConnectedVia="NotConnected"
    )
    return machine.work("media", "Eject", effect) or Reply(204)


ACTS: tuple[tuple[str, str, Act], ...] = (
    *volumes.ACTS,
    *firmware.ACTS,
    *dell.ACTS,
    ("POST", r".*/SessionService/Sessions", _log_in),
    ("DELETE", r".*/SessionService/Sessions/[^/]+", _log_out),
    ("POST", r".*/Actions/ComputerSystem\.Reset", _reset),
    ("POST", r".*/Actions/Manager\.Reset", _reset_manager),
    ("POST", r".*/Actions/SecureBoot\.ResetKeys", _reset_keys),
    ("POST", r".*/Actions/VirtualMedia\.InsertMedia", _insert),
    ("POST", r".*/Actions/VirtualMedia\.EjectMedia", _eject),
    ("PATCH", r".*", _patch),
)
