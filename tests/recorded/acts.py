"""Changes that a strict BMC carries out or refuses: actions, PATCH, POST and DELETE."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tests.emulators.bmc import dell
from tests.emulators.bmc.refusals import Refused
from tests.emulators.bmc.server import Reply, Request
from tests.recorded import facts

if TYPE_CHECKING:
    from tests.recorded.strict_bmc import StrictBmc

Json = dict[str, Any]
Act = Callable[[Request, str, Json], Reply]

NEW_VERSION = "99.1"
"""Version that an update of firmware brings."""

_RESETS = {
    # reset type: (power state it needs, power state afterwards, whether the machine boots)
    "On": ("Off", "On", True),
    "ForceOn": ("Off", "On", True),
    "ForceOff": ("On", "Off", False),
    "GracefulShutdown": ("On", "Off", False),
    "ForceRestart": ("On", "On", True),
    "GracefulRestart": ("On", "On", True),
    "PowerCycle": ("On", "On", True),
    "Nmi": ("On", "On", False),
}
_LAMPS = frozenset({"IndicatorLED", "LocationIndicatorActive"})
_WRITABLE: tuple[tuple[str, frozenset[str]], ...] = (
    (r"/redfish/v1/Systems/[^/]+", _LAMPS | {"AssetTag", "HostName", "Boot"}),
    (r"/redfish/v1/Chassis/[^/]+", _LAMPS | {"AssetTag"}),
    (r"/redfish/v1/Managers/[^/]+", frozenset({"DateTime", "DateTimeLocalOffset"})),
    (r".*/Drives/[^/]+", _LAMPS),
    (r".*/SecureBoot", frozenset({"SecureBootEnable"})),
    (r".*/VirtualMedia/[^/]+", frozenset({"Image", "Inserted", "WriteProtected"})),
)
_VALUES: dict[str, tuple[Any, ...]] = {
    "IndicatorLED": ("Lit", "Blinking", "Off"),
    "LocationIndicatorActive": (True, False),
    "SecureBootEnable": (True, False),
    "BootSourceOverrideEnabled": ("Disabled", "Once", "Continuous"),
    "BootSourceOverrideMode": ("Legacy", "UEFI"),
}
_WHOLE_BOOT = frozenset(f"BootSourceOverride{word}" for word in ("Enabled", "Target", "Mode"))
_INSERT = frozenset(
    [
        "Image",
        "Inserted",
        "WriteProtected",
        "UserName",
        "Password",
        "TransferMethod",
        "TransferProtocolType",
    ]
)
_UPDATE = frozenset(
    [
        "ImageURI",
        "TransferProtocol",
        "Targets",
        "Username",
        "Password",
        "ForceUpdate",
        "@Redfish.OperationApplyTime",
    ]
)
_TYPES: dict[str, type] = {"Integer": int, "Boolean": bool, "String": str, "Enumeration": str}


class Acts:
    """All that one BMC does on requests that change something."""

    def __init__(self, bmc: StrictBmc) -> None:
        self.bmc = bmc
        self._named: dict[str, Act] = {
            "#ComputerSystem.Reset": self._reset,
            "#Manager.Reset": self._reset_manager,
            "#VirtualMedia.InsertMedia": self._insert,
            "#VirtualMedia.EjectMedia": self._eject,
            "#Bios.ResetBios": self._reset_bios,
            "#SecureBoot.ResetKeys": self._reset_keys,
            "#UpdateService.SimpleUpdate": self._update,
            **{name: functools.partial(self._act_of_dell, name) for name in dell.ACTIONS},
        }
        self._hidden: dict[tuple[str, str], Json] = {}
        self._targets: dict[str, tuple[str, str]] = {}
        for path in bmc.tree:
            for name, action in self._offered(path).items():
                if name in self._named and isinstance(action, dict) and action.get("target"):
                    self._targets[str(action["target"]).rstrip("/")] = (name, path)

    def _offered(self, path: str) -> Json:
        """Return the actions of a document, those of its vendor by the end of their names."""
        actions = self.bmc.tree[path].get("Actions") or {}
        vendor: Json = actions.get("Oem") or {}
        return {**{f"#{name.rpartition('#')[2]}": one for name, one in vendor.items()}, **actions}

    # -- dispatch -----------------------------------------------------------------------------

    def methods(self, path: str) -> list[str]:
        """Return the methods that change something at a path."""
        if path in self._targets:
            return ["POST"]
        document = self.bmc.tree.get(path) or {}
        found = ["PATCH"] if self._writable(path) else []
        if re.search(r"/Volumes$|/Subscriptions$", path) or path == self.bmc.sessions:
            found.append("POST")
        if re.search(r"/Volumes/[^/]+$", path) and "RAIDType" in document:
            found.append("DELETE")
        return found

    def act(self, request: Request, path: str) -> Reply:
        """Carry out a change.

        :raises Refused: it is not possible, with the status and the reason.
        """
        if path in self._targets and request.method == "POST":
            name, owner = self._targets[path]
            if name not in self._offered(owner):
                raise Refused(404, "ResourceMissingAtURI", f"There is no action {path} now.")
            body = self._body(request)
            self._check_parameters(name, owner, body)
            return self._named[name](request, owner, body)
        document = self.bmc.document(path)
        if request.method not in self.methods(path):
            text = f"{request.method} is not allowed at {path}."
            reply = Refused(405, "OperationNotAllowed", text)
            reply.reply.headers["Allow"] = ", ".join(self.bmc.allowed(path))
            raise reply
        self._check_tag(request, path)
        body = self._body(request)
        if request.method == "PATCH":
            return self._patch(path, document, body)
        if request.method == "DELETE":
            return self._delete_volume(path, body)
        return self._create_volume(path, body)

    def _body(self, request: Request) -> Json:
        if not request.raw:
            return {}
        kind = (request.headers.get("Content-Type") or "").partition(";")[0]
        if kind != "application/json":
            raise Refused(415, "UnsupportedMediaType", f"The content type {kind!r} is not JSON.")
        body = request.body
        if not isinstance(body, dict):
            raise Refused(400, "MalformedJSON", "The request body is not an object.")
        return body

    def _check_tag(self, request: Request, path: str) -> None:
        wanted = request.headers.get("If-Match")
        if wanted not in {None, "*", facts.etag(self.bmc.document(path))}:
            raise Refused(412, "PreconditionFailed", f"The ETag {wanted} does not match.")
        if wanted is None and request.method == "PATCH" and self.bmc.vendor == "AMI":
            raise Refused(428, "PreconditionRequired", "The header If-Match is missing.")

    def _check_parameters(self, name: str, owner: str, body: Json) -> None:
        action = self._offered(owner)[name]
        for key, value in body.items():
            allowed = facts.allowed(self.bmc.tree, action, key)
            for one in value if isinstance(value, list) else [value]:
                if allowed is not None and one not in allowed:
                    text = f"The value {one} for the parameter {key} is not in the list."
                    raise Refused(400, "ActionParameterValueNotInList", text)

    def _refuse_others(self, body: Json, known: Iterable[str]) -> None:
        for key in body:
            if key not in known:
                text = f"The action has no parameter {key}."
                raise Refused(400, "ActionParameterUnknown", text)

    # -- power --------------------------------------------------------------------------------

    def _reset(self, request: Request, owner: str, body: Json) -> Reply:
        self._refuse_others(body, {"ResetType"})
        word = body.get("ResetType")
        if word not in _RESETS:
            raise Refused(400, "ActionParameterMissing", "ResetType is missing or unknown.")
        needs, target, boots = _RESETS[word]
        now = self.bmc.tree[owner].get("PowerState")
        if now != needs:
            text = f"{word} is not possible while the machine is {now}."
            raise Refused(409, "ActionNotSupported", text)
        self.bmc.resets.append(word)
        if word != "Nmi":
            self.bmc.later(functools.partial(self._arrive, target, boots=boots))
        return Reply(204)

    def _arrive(self, target: str, *, boots: bool) -> None:
        system = self.bmc.tree[self.bmc.system]
        self.bmc.switch(target)
        if "BootProgress" in system:
            system["BootProgress"] = {"LastState": "OSRunning" if target == "On" else "None"}
        if boots:
            self._boot(system)

    def _boot(self, system: Json) -> None:
        """Take over what waited for a boot, and use up an override for one boot."""
        waiting, self.bmc.at_boot = self.bmc.at_boot, []
        for act in waiting:
            act()
        boot = system.get("Boot") or {}
        enabled = boot.get("BootSourceOverrideEnabled", "Disabled")
        source = boot.get("BootSourceOverrideTarget") if enabled != "Disabled" else None
        self.bmc.booted.append(self.bmc.idrac.boots_from() or source or "None")
        if self.bmc.booted[-1] == "UefiHttp":
            self.bmc.read_by_http.append(boot.get("HttpBootUri"))
        settings = self.bmc.tree.get(facts.settings(self.bmc.tree, self.bmc.system) or "") or {}
        if enabled == "Once":
            for one in (boot, settings.get("Boot") or {}):
                if "BootSourceOverrideEnabled" in one:
                    one["BootSourceOverrideEnabled"] = "Disabled"
                if "BootSourceOverrideTarget" in one:
                    one["BootSourceOverrideTarget"] = "None"
        secure = self.bmc.tree.get(self.bmc.link(system, "SecureBoot") or "") or {}
        if "SecureBootCurrentBoot" in secure:
            on = secure.get("SecureBootEnable")
            secure["SecureBootCurrentBoot"] = "Enabled" if on else "Disabled"

    def _act_of_dell(self, name: str, request: Request, owner: str, body: Json) -> Reply:
        return dell.ACTIONS[name](self.bmc, body)

    def _reset_manager(self, request: Request, owner: str, body: Json) -> Reply:
        self._refuse_others(body, {"ResetType"})
        dell.reset_seen(self.bmc.tree)
        self.bmc.restart()
        return Reply(204)

    # -- changing documents -------------------------------------------------------------------

    def _writable(self, path: str) -> frozenset[str]:
        if path == self._bios_place():
            return frozenset({"Attributes", "@Redfish.SettingsApplyTime"})
        if path == facts.settings(self.bmc.tree, self.bmc.system):
            return frozenset({"Boot", "@Redfish.SettingsApplyTime"})
        found = (names for pattern, names in _WRITABLE if re.fullmatch(pattern, path))
        names = next(found, frozenset())
        if "/VirtualMedia/" in path and "Actions" in (self.bmc.tree.get(path) or {}):
            return frozenset()
        return names if path in self.bmc.tree else frozenset()

    def _patch(self, path: str, document: Json, body: Json) -> Reply:
        if not body:
            raise Refused(400, "NoOperation", "The request changes nothing.")
        self._check_names(path, document, body)
        if path == self._bios_place():
            return self._patch_bios(path, body)
        self._check_clock(path, document, body)
        for name, value in body.items():
            if name == "Boot":
                self._check_boot(path, document["Boot"], value)
            else:
                self._check_value(document, name, value)
        self._check_secure_boot(body)
        self._write(path, document, body)
        return Reply(200, document)

    def _check_names(self, path: str, document: Json, body: Json) -> None:
        writable = self._writable(path)
        for name in body:
            known = name in document or path == self._bios_place()
            if not known and not name.startswith("@Redfish."):
                raise Refused(400, "PropertyUnknown", f"The property {name} is unknown.")
            if name not in writable:
                raise Refused(400, "PropertyNotWritable", f"The property {name} is read-only.")

    def _check_secure_boot(self, body: Json) -> None:
        mode = facts.value(self.bmc.tree[self.bmc.system], "Boot", "BootSourceOverrideMode")
        if body.get("SecureBootEnable") is True and mode == "Legacy":
            raise Refused(400, "PropertyValueConflict", "Secure boot needs the boot mode UEFI.")

    def _check_clock(self, path: str, document: Json, body: Json) -> None:
        """Refuse a time whose offset is not that of the BMC."""
        zone = body.get("DateTimeLocalOffset") or document.get("DateTimeLocalOffset")
        told = re.search(r"(Z|[+-]\d\d:\d\d)$", str(body.get("DateTime", "")))
        if "DateTime" in body and zone and (told is None or told[0].replace("Z", "+00:00") != zone):
            text = f"The time {body['DateTime']} is not in the zone {zone}."
            raise Refused(400, "PropertyValueConflict", text)

    def _write(self, path: str, document: Json, body: Json) -> None:
        merge(document, body)
        if path == facts.settings(self.bmc.tree, self.bmc.system) and "Boot" in body:
            main = self.bmc.tree[self.bmc.system].setdefault("Boot", {})
            self.bmc.at_boot.append(functools.partial(merge, main, dict(body["Boot"])))
        if "/VirtualMedia/" in path:
            full = facts.image(document) is not None
            document["Inserted"] = full
            document["ConnectedVia"] = "URI" if full else "NotConnected"

    def _check_value(self, document: Json, name: str, value: Any) -> None:
        listed = document.get(f"{name}@Redfish.AllowableValues")
        allowed = listed if isinstance(listed, list) else _VALUES.get(name)
        if allowed is not None and value not in allowed:
            text = f"The value {value} for the property {name} is not in the list {allowed}."
            raise Refused(400, "PropertyValueNotInList", text)

    def _check_boot(self, path: str, boot: Json, wanted: Any) -> None:
        pending = facts.settings(self.bmc.tree, self.bmc.system)
        elsewhere = (self.bmc.tree.get(pending or "") or {}).get("Boot") or {}
        main = self.bmc.tree[self.bmc.system].get("Boot") or {}
        missing = _WHOLE_BOOT - {name for name, value in wanted.items() if value is not None}
        if self.bmc.wants_whole_boot and missing:
            raise Refused(400, "PropertyMissing", f"Boot must also have {sorted(missing)}.")
        for name, value in wanted.items():
            if name not in boot:
                raise Refused(400, "PropertyUnknown", f"The property Boot/{name} is unknown.")
            if path != pending and name in elsewhere:
                raise Refused(400, "PropertyNotWritable", f"Boot/{name} is set in {pending}.")
            if name == "HttpBootUri" and not re.match("https?://[^/]+/|None$", str(value)):
                text = f"The value {value} for the property Boot/{name} is no URL."
                raise Refused(400, "PropertyValueFormatError", text)
            self._check_value({**boot, **main}, name, value)

    # -- BIOS ---------------------------------------------------------------------------------

    def _bios_place(self) -> str | None:
        return facts.bios_settings(self.bmc.tree, self.bmc.system)

    def _patch_bios(self, path: str, body: Json) -> Reply:
        bios = self.bmc.document(str(facts.bios(self.bmc.tree, self.bmc.system)))
        when = body.get("@Redfish.SettingsApplyTime")
        times = (bios.get("@Redfish.Settings") or {}).get("SupportedApplyTimes") or []
        if when is not None and when.get("ApplyTime") not in times:
            text = "@Redfish.SettingsApplyTime is not supported."
            raise Refused(400, "PropertyUnknown", text)
        wanted = body.get("Attributes") or {}
        registry = facts.registry(self.bmc.tree, self.bmc.system)
        for name, value in wanted.items():
            _check_attribute(name, value, bios["Attributes"], registry.get(name))
        place = self.bmc.tree[path]
        place.setdefault("Attributes", {}).update(wanted)
        full = path == facts.bios(self.bmc.tree, self.bmc.system) or len(wanted) < len(
            place["Attributes"]
        )
        effect = functools.partial(self._apply_bios, bios, place, dict(wanted), kept=full)
        if times:
            return self._task("Configure BIOS", effect, at_boot=True)
        self.bmc.at_boot.append(effect)
        return Reply(200, place)

    def _apply_bios(self, bios: Json, place: Json, wanted: Json, *, kept: bool) -> None:
        bios["Attributes"].update(wanted)
        if not kept:
            place["Attributes"] = {}

    def _reset_bios(self, request: Request, owner: str, body: Json) -> Reply:
        self._refuse_others(body, {"ResetType"})
        bios = self.bmc.tree[owner]
        recorded = dict(self.bmc.recorded[owner].get("Attributes") or {})
        self.bmc.at_boot.append(functools.partial(bios.__setitem__, "Attributes", recorded))
        return Reply(204)

    def _reset_keys(self, request: Request, owner: str, body: Json) -> Reply:
        self._refuse_others(body, {"ResetKeysType"})
        return Reply(204)

    # -- virtual media ------------------------------------------------------------------------

    def _insert(self, request: Request, owner: str, body: Json) -> Reply:
        self._refuse_others(body, _INSERT)
        image = body.get("Image")
        if not isinstance(image, str) or "://" not in image:
            raise Refused(400, "ActionParameterMissing", "The parameter Image is missing.")
        drive = self.bmc.tree[owner]
        action = drive["Actions"]["#VirtualMedia.InsertMedia"]
        for key in facts.required(self.bmc.tree, action):
            if key not in body:
                text = f"The action requires the parameter {key} to be present."
                raise Refused(400, "ActionParameterMissing", text)
        if facts.image(drive):
            raise Refused(409, "ResourceInUse", f"There is a medium in {owner} already.")
        drive.update(Image=image, ImageName=image.rpartition("/")[2], Inserted=True)
        drive.update(ConnectedVia="URI", WriteProtected=body.get("WriteProtected", True))
        if "#VirtualMedia.EjectMedia" not in drive["Actions"]:
            self._offer(owner, "#VirtualMedia.EjectMedia", "#VirtualMedia.InsertMedia")
        return Reply(204)

    def _offer(self, owner: str, name: str, instead: str) -> None:
        """Show one action instead of another, as Supermicro does for full and empty drives."""
        actions = self.bmc.tree[owner]["Actions"]
        self._hidden[owner, instead] = actions.pop(instead)
        shown = self._hidden.pop((owner, name), None)
        actions[name] = shown or {"target": f"{owner}/Actions/{name.lstrip('#')}"}
        self._targets[actions[name]["target"].rstrip("/")] = (name, owner)

    def _eject(self, request: Request, owner: str, body: Json) -> Reply:
        self._refuse_others(body, ())
        drive = self.bmc.tree[owner]
        if not facts.image(drive):
            raise Refused(409, "ResourceNotInUse", f"There is no medium in {owner}.")
        drive.update(Image=None, ImageName=None, Inserted=False, ConnectedVia="NotConnected")
        if (owner, "#VirtualMedia.InsertMedia") in self._hidden:
            self._offer(owner, "#VirtualMedia.InsertMedia", "#VirtualMedia.EjectMedia")
        return Reply(204)

    # -- firmware -----------------------------------------------------------------------------

    def _update(self, request: Request, owner: str, body: Json) -> Reply:
        self._refuse_others(body, _UPDATE)
        image = body.get("ImageURI")
        if not isinstance(image, str):
            raise Refused(400, "ActionParameterMissing", "The parameter ImageURI is missing.")
        system = self.bmc.tree[self.bmc.system]
        at_boot = "bios" in image
        target = system if at_boot else self.bmc.tree[facts.manager(self.bmc.tree, system)]
        name = "BiosVersion" if at_boot else "FirmwareVersion"
        effect = functools.partial(target.__setitem__, name, NEW_VERSION)
        return self._task("Update", effect, at_boot=at_boot)

    # -- RAID ---------------------------------------------------------------------------------

    def _create_volume(self, path: str, body: Json) -> Reply:
        owner = path.rpartition("/")[0]
        storage = self.bmc.document(owner)
        levels = facts.levels(self.bmc.tree, storage)
        if body.get("RAIDType") not in levels:
            text = f"The value {body.get('RAIDType')} for RAIDType is not in the list {levels}."
            raise Refused(400, "PropertyValueNotInList", text)
        self._check_time(path, body)
        chosen = [one["@odata.id"] for one in (body.get("Links") or {}).get("Drives") or []]
        there = [one["@odata.id"] for one in storage.get("Drives") or []]
        if not chosen or not set(chosen) <= set(there):
            raise Refused(400, "ResourceNotFound", "Links/Drives has a drive of elsewhere.")
        size = min(int(self.bmc.tree[one].get("CapacityBytes") or 0) for one in chosen)
        place = f"{path}/recorded-{self.bmc.number()}"
        volume = {
            "@odata.type": "#Volume.v1_6_2.Volume",
            "Name": body.get("Name") or "Virtual Disk",
            "RAIDType": body["RAIDType"],
            "CapacityBytes": body.get("CapacityBytes", size),
            "Links": {"Drives": [{"@odata.id": one} for one in chosen]},
            "Status": {"State": "Enabled", "Health": "OK"},
        }
        effect = functools.partial(self.bmc.add, path, place, volume)
        return self._task("Create volume", effect, at_boot=_on_reset(body))

    def _delete_volume(self, path: str, body: Json) -> Reply:
        self._check_time(path.rpartition("/")[0], body)
        effect = functools.partial(self.bmc.remove, path)
        return self._task("Delete volume", effect, at_boot=_on_reset(body))

    def _check_time(self, collection: str, body: Json) -> None:
        name = "@Redfish.OperationApplyTime"
        support = self.bmc.tree[collection].get(f"{name}Support") or {}
        if name in body and body[name] not in support.get("SupportedValues", []):
            raise Refused(400, "PropertyValueNotInList", f"{name} is not supported.")

    # -- tasks --------------------------------------------------------------------------------

    def _task(self, name: str, effect: Callable[[], None], *, at_boot: bool) -> Reply:
        """Accept work: it ends after a while, counted from the next boot if it waits for that."""
        collection = facts.tasks(self.bmc.tree)
        path = f"{collection}/recorded-{self.bmc.number()}"
        task: Json = {
            "@odata.type": "#Task.v1_5_1.Task",
            "Name": name,
            "TaskState": "Starting" if at_boot else "Running",
            "TaskStatus": "OK",
            "Messages": [],
        }
        self.bmc.add(collection, path, task)

        def end() -> None:
            effect()
            self.bmc.tree[path].update(TaskState="Completed", PercentComplete=100)

        if at_boot:
            self.bmc.at_boot.append(end)
        else:
            self.bmc.later(end)
        return Reply(202, self.bmc.tree[path], {"Location": path})


def _on_reset(body: Json) -> bool:
    return bool(body.get("@Redfish.OperationApplyTime") == "OnReset")


def _check_attribute(name: str, value: Any, now: Json, entry: Json | None) -> None:
    """Refuse a value that the registry of the settings does not allow."""
    if name not in now:
        raise Refused(400, "PropertyUnknown", f"The property Attributes/{name} is unknown.")
    if entry is None:
        kind: type | None = type(now[name]) if now[name] is not None else None
    else:
        kind = _TYPES.get(str(entry.get("Type")))
    if entry is not None and entry.get("ReadOnly") is True:
        raise Refused(400, "PropertyNotWritable", f"The property {name} is read-only.")
    if kind is not None and type(value) is not kind:
        raise Refused(400, "PropertyValueTypeError", f"The value for {name} has a wrong type.")
    choices = facts.choices(entry or {}) if kind is str else []
    lower, upper = (entry or {}).get("LowerBound"), (entry or {}).get("UpperBound")
    numeric = kind is int and entry is not None
    if choices and value not in choices:
        raise Refused(400, "PropertyValueNotInList", f"The value for {name} is not in the list.")
    if numeric and ((lower is not None and value < lower) or (upper is not None and value > upper)):
        raise Refused(400, "PropertyValueOutOfRange", f"The value for {name} is out of range.")


def merge(document: Json, news: Json) -> None:
    """Write values over a document, objects within objects too."""
    for name, value in news.items():
        if isinstance(value, dict) and isinstance(document.get(name), dict):
            merge(document[name], value)
        else:
            document[name] = value
