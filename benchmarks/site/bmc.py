"""BMC of one machine: sessions, ETags, power that takes time, boot devices and virtual media.

It does what a site needs and answers 501 to other changes. BMC n listens at 127.(1..).x.y.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import dataclasses
import random
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from benchmarks.site import faults, trees
from benchmarks.site.trees import ROOT, Json, Tree
from benchmarks.site.wire import Connection, Reply, Request
from tests.emulators.bmc.refusals import Refused
from tests.recorded import facts

USER, PASSWORD = "operator", "right-password-0"
_OPEN = frozenset({ROOT, "/redfish", f"{ROOT}/odata", f"{ROOT}/$metadata"})
_RESETS: Mapping[str, tuple[str, str, bool]] = {
    # reset type: (power state it needs, power state afterwards, whether the machine boots)
    "On": ("Off", "On", True),
    "ForceOn": ("Off", "On", True),
    "ForceOff": ("On", "Off", False),
    "GracefulShutdown": ("On", "Off", False),
    "ForceRestart": ("On", "On", True),
    "GracefulRestart": ("On", "On", True),
    "PowerCycle": ("On", "On", True),
}
_VALUES: Mapping[str, tuple[str, ...]] = {
    "BootSourceOverrideEnabled": ("Disabled", "Once", "Continuous"),
    "BootSourceOverrideMode": ("Legacy", "UEFI"),
}
_INSERT = frozenset(
    [
        *("Image", "Inserted", "WriteProtected", "UserName", "Password"),
        *("TransferMethod", "TransferProtocolType"),
    ]
)
_EMPTY: Json = {"Image": None, "ImageName": None, "Inserted": False, "ConnectedVia": "NotConnected"}


def address(number: int, first: int = 1) -> str:
    """Return the address of a BMC; of an agent with ``first`` = 65."""
    return f"127.{first + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"


def number_of(host: str, first: int = 1) -> int:
    """Return the number of the machine at an address."""
    _, high, middle, low = map(int, host.split("."))
    return (high - first) * 62500 + middle * 250 + low - 1


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds that a BMC takes to answer, and its machine to change its power; and of faults."""

    answer: tuple[float, float] = (0.03, 0.3)
    power: tuple[float, float] = (2, 8)
    slow: float = 20
    busy: float = 30
    restart: float = 10


class Machine:
    """One machine behind its BMC.

    ``counts`` has the requests by phase and kind, ``erasures`` the erasing steps that its agents
    have carried out, ``booted`` the source of each boot.

    :param on_power: called with the boot source of a machine that boots, None if it goes off.
    """

    def __init__(
        self,
        number: int,
        tree: Tree,
        times: Times,
        on_power: Callable[[Machine, str | None], None] | None = None,
        fault: str | None = None,
    ) -> None:
        self.number, self.tree, self.times, self.fault = number, tree, times, fault
        self.phase = "none"
        self.counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self.erasures = 0
        self.notes: list[str] = []
        self.power = str(tree.documents[tree.system]["PowerState"])
        self.booted: list[str] = []
        self.resets: list[str] = []
        self.refused_logins = 0
        self.forgets: float | None = None
        self._boot: Json = {}
        self._waiting: Json = {}
        self._media: dict[str, Json] = {}
        self._tokens: set[str] = set()
        self._on_power = on_power
        self._own: dict[bytes, bytes] = {}

    # -- identity -----------------------------------------------------------------------------

    def identify(self) -> None:
        """Have addresses, a UUID and a serial number of its own, instead of the recorded ones."""
        recorded = (one.encode() for one in self.tree.macs)
        self._own = dict(zip(recorded, (one.encode() for one in self.macs), strict=True))

    @property
    def macs(self) -> list[str]:
        """Return the addresses of its cards."""
        high = self.number.to_bytes(3).hex(":")
        return [f"02:{high}:00:{card:02x}".upper() for card in range(len(self.tree.macs))]

    def count(self, kind: str) -> None:
        """Count a request."""
        self.counts[self.phase, kind] += 1

    # -- documents ----------------------------------------------------------------------------

    def document(self, path: str) -> Json:
        """Return a document as it is now."""
        shown = dict(self.tree.documents[path])
        if path == self.tree.system:
            shown |= {"PowerState": self.power}
            if self._own:
                shown |= faults.identity(self)
            if "BootProgress" in shown:
                on = self.power == "On"
                shown["BootProgress"] = {"LastState": "OSRunning" if on else "None"}
            shown["Boot"] = {**(shown.get("Boot") or {}), **self._boot}
        elif path == self.tree.settings:
            shown["Boot"] = {**shown["Boot"], **self._waiting}
        elif path in self.tree.chassis:
            shown["PowerState"] = self.power
        elif path in self.tree.media:
            shown |= self._media.get(path, {})
        return shown

    def page(self, path: str) -> tuple[bytes, str]:
        """Return a document as bytes, and its ETag.

        :raises Refused: it does not exist.
        """
        tree = self.tree
        if path not in tree.pages:
            text = f"The resource at {path} was not found."
            raise Refused(404, "ResourceMissingAtURI", text)
        live = path in (tree.system, tree.settings) or path in tree.chassis or path in tree.media
        if not live and not (self._own and path in tree.with_macs):
            return tree.pages[path], tree.etags[path]
        page = orjson.dumps(self.document(path)) if live else tree.pages[path]
        page = tree.with_addresses(page, self._own) if self._own else page
        return page, trees.etag(page)

    # -- answering ----------------------------------------------------------------------------

    def receive(self, connection: Connection, request: Request) -> None:
        """Answer a request after the time that this BMC takes."""
        self.count(f"bmc {request.method}")
        seconds = faults.seconds(self, random.uniform(*self.times.answer))
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self._respond, connection, request)

    def _respond(self, connection: Connection, request: Request) -> None:
        found = faults.instead(self, request) or self.answer(request)
        if found.status == faults.SILENT:
            return
        if found.status == faults.CUT:
            connection.abort()
            return
        connection.reply(found, head_only=request.method == "HEAD")

    def answer(self, request: Request) -> Reply:
        """Answer a request as an honest BMC does."""
        try:
            found = self._answer(request)
        except Refused as why:
            found = Reply(why.reply.status, orjson.dumps(why.reply.document), why.reply.headers)
        except orjson.JSONDecodeError:
            found = Reply(400)
        return found._replace(headers={"OData-Version": "4.0", **found.headers})

    def _answer(self, request: Request) -> Reply:
        path = self.tree.find(request.path)
        if path == self.tree.sessions and request.method == "POST":
            return self._log_in(orjson.loads(request.body))
        if path not in _OPEN:
            self._check_login(request.headers)
        if request.method in {"GET", "HEAD"}:
            return self._get(path, request.query)
        if request.method == "DELETE" and path.startswith(f"{self.tree.sessions}/"):
            self._tokens.discard(path.rpartition("/")[2])
            return Reply(204)
        body = orjson.loads(request.body or b"{}")
        if request.method == "POST" and path in self.tree.targets:
            name, owner = self.tree.targets[path]
            return self._act(name, owner, body)
        if request.method == "PATCH" and path in {self.tree.system, self.tree.settings}:
            return self._patch(path, request.headers.get("if-match"), body)
        raise Refused(501, "ActionNotSupported", f"{request.method} {path} is not simulated.")

    def _get(self, path: str, query: str) -> Reply:
        page, tag = self.page(path)
        if query.startswith("$expand="):
            page = self._expanded(path, query.removeprefix("$expand="))
        elif query.startswith("$"):
            raise Refused(501, "QueryNotSupported", f"{query} is not supported.")
        return Reply(200, page, {"ETag": tag})

    def _expanded(self, path: str, wanted: str) -> bytes:
        root = self.tree.documents[ROOT]
        kind = "NoLinks" if wanted.startswith(".") else "ExpandAll"
        if not facts.value(root, "ProtocolFeaturesSupported", "ExpandQuery", kind):
            raise Refused(501, "QueryNotSupported", f"$expand={wanted} is not supported.")
        shown = orjson.loads(self.page(path)[0])
        paths = (self.tree.find(one["@odata.id"]) for one in shown.get("Members") or [])
        whole = [orjson.Fragment(self.page(one)[0]) for one in paths if one in self.tree.pages]
        return orjson.dumps({**shown, "Members": whole} if "Members" in shown else shown)

    # -- logins -------------------------------------------------------------------------------

    def _log_in(self, body: Json) -> Reply:
        if (body.get("UserName"), body.get("Password")) != (USER, PASSWORD):
            self._refuse_login()
        token = secrets.token_hex(8)
        self._tokens.add(token)
        path = f"{self.tree.sessions}/{token}"
        session = {"@odata.id": path, "Id": token, "Name": "Session", "UserName": USER}
        return Reply(201, orjson.dumps(session), {"X-Auth-Token": token, "Location": path})

    @property
    def sessions(self) -> int:
        """Return the number of open sessions."""
        return len(self._tokens)

    def forget_sessions(self) -> None:
        """End all sessions, as a restart of the BMC does."""
        self._tokens.clear()

    def _check_login(self, headers: Mapping[str, str]) -> None:
        token = headers.get("x-auth-token")
        kind, _, value = headers.get("authorization", "").partition(" ")
        if token not in self._tokens if token is not None else kind != "Basic":
            raise Refused(401, "NoValidSession", "There is no valid session.")
        if token is None and base64.b64decode(value).decode() != f"{USER}:{PASSWORD}":
            self._refuse_login()

    def _refuse_login(self) -> None:
        self.refused_logins += 1
        text = "While attempting to log in, the user name or password was refused."
        raise Refused(401, "ResourceAtUriUnauthorized", text)

    # -- actions ------------------------------------------------------------------------------

    def _act(self, name: str, owner: str, body: Json) -> Reply:
        action = self.tree.documents[owner]["Actions"][name]
        for key, value in body.items():
            allowed = facts.allowed(self.tree.documents, action, key)
            if allowed is not None and value not in allowed:
                text = f"The value {value} for the parameter {key} is not in the list."
                raise Refused(400, "ActionParameterValueNotInList", text)
        if name == "#ComputerSystem.Reset":
            return self._reset(body)
        drive = self.document(owner)
        if name == "#VirtualMedia.InsertMedia":
            return self._insert(owner, drive, action, body)
        if not facts.image(drive):
            raise Refused(409, "ResourceNotInUse", f"There is no medium in {owner}.")
        self._media[owner] = _EMPTY
        return Reply(204)

    def _insert(self, owner: str, drive: Json, action: Json, body: Json) -> Reply:
        image = body.get("Image")
        missing = set(facts.required(self.tree.documents, action)) - set(body)
        if missing or not isinstance(image, str) or "://" not in image:
            text = f"Parameters are missing: {sorted(missing) or 'Image'}."
            raise Refused(400, "ActionParameterMissing", text)
        if unknown := set(body) - _INSERT:
            raise Refused(400, "ActionParameterUnknown", f"There is no {sorted(unknown)}.")
        if facts.image(drive):
            raise Refused(409, "ResourceInUse", f"There is a medium in {owner} already.")
        protected = body.get("WriteProtected", True)
        full = {"Image": image, "ImageName": image.rpartition("/")[2], "Inserted": True}
        self._media[owner] = {**full, "ConnectedVia": "URI", "WriteProtected": protected}
        return Reply(204)

    def _reset(self, body: Json) -> Reply:
        word = str(body.get("ResetType"))
        if word not in _RESETS:
            raise Refused(501, "ActionNotSupported", f"ResetType {word} is not simulated.")
        needs, target, boots = _RESETS[word]
        if self.power != needs:
            text = f"{word} is not possible while the machine is {self.power}."
            raise Refused(409, "ActionNotSupported", text)
        self.resets.append(word)
        if boots and needs == "On" and self._on_power is not None:
            self._on_power(self, None)
        if self.fault not in faults.POWERLESS:
            loop = asyncio.get_running_loop()
            loop.call_later(random.uniform(*self.times.power), self._arrive, target, boots)
        return faults.accepted(self)

    def _arrive(self, target: str, boots: bool) -> None:
        self.power = target
        if not boots:
            if self._on_power is not None:
                self._on_power(self, None)
            return
        self._boot.update(self._waiting)
        boot = self.document(self.tree.system)["Boot"]
        enabled = boot.get("BootSourceOverrideEnabled", "Disabled")
        source = boot.get("BootSourceOverrideTarget") if enabled != "Disabled" else None
        self.booted.append(source or "None")
        if enabled == "Once":
            used = {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}
            self._boot.update(used)
            self._waiting.update(used if self._waiting else {})
        if self._on_power is not None:
            self._on_power(self, self.booted[-1])

    def crash(self) -> None:
        """Restart by itself, as a machine does whose kernel panics."""
        if self._on_power is not None:
            self._on_power(self, None)
        self._arrive("On", boots=True)

    def image(self) -> str | None:
        """Return the URL of the medium in the virtual CD."""
        found = (
            facts.image(self.document(path))
            for path, devices in self.tree.media.items()
            if "cdrom" in devices
        )
        return next((image for image in found if image), None)

    # -- boot devices -------------------------------------------------------------------------

    def _patch(self, path: str, wanted_tag: str | None, body: Json) -> Reply:
        if wanted_tag not in {None, "*", self.page(path)[1]}:
            raise Refused(412, "PreconditionFailed", f"The ETag {wanted_tag} does not match.")
        if wanted_tag is None and self.tree.vendor == "AMI":
            raise Refused(428, "PreconditionRequired", "The header If-Match is missing.")
        if set(body) - {"Boot", "@Redfish.SettingsApplyTime"} or not isinstance(
            body.get("Boot"), dict
        ):
            raise Refused(501, "PropertyNotWritable", f"PATCH of {sorted(body)} is not simulated.")
        for text in self._faults_of_boot(path, body["Boot"]):
            raise Refused(400, "PropertyValueNotInList", text)
        (self._waiting if path == self.tree.settings else self._boot).update(body["Boot"])
        return Reply(200, self.page(path)[0])

    def _faults_of_boot(self, path: str, wanted: Mapping[str, Any]) -> Iterator[str]:
        main = self.document(self.tree.system)["Boot"]
        pending = self.document(self.tree.settings)["Boot"] if self.tree.settings else {}
        boot = pending if path == self.tree.settings else main
        for name, value in wanted.items():
            listed = {**boot, **main}.get(f"{name}@Redfish.AllowableValues")
            allowed = listed if isinstance(listed, list) else _VALUES.get(name)
            if name not in boot:
                yield f"The property Boot/{name} is unknown."
            elif path != self.tree.settings and name in pending:
                yield f"Boot/{name} is set in {self.tree.settings}."
            elif name == "HttpBootUri" and not re.match("https?://[^/]+/|None$", str(value)):
                yield f"The value {value} for the property Boot/{name} is no URL."
            elif allowed is not None and value not in allowed:
                yield f"The value {value} of Boot/{name} is not in the list {allowed}."
