"""A strict BMC that serves a recorded tree: it refuses all that the tree does not offer.

It asks for a login by session or password, checks ETags, expands only if the service root claims
it, and answers errors with extended messages. Power changes take half a second. Boot overrides for
one boot are used up by that boot; settings resources and BIOS settings wait for it.
"""

from __future__ import annotations

import base64
import copy
import itertools
import json
import threading
import time
import types
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.emulators.bmc import dell
from tests.emulators.bmc.refusals import Refused, refusal
from tests.emulators.bmc.server import Reply, Request, Server
from tests.recorded import acts, facts

Json = dict[str, Any]

ROOT = "/redfish/v1"
RESET_SECONDS = 0.5
"""Duration of a power change, of a task, and of the silence of a restarting BMC."""
USER, PASSWORD = "operator", "right-password-0"
_OPEN = frozenset({ROOT, "/redfish", f"{ROOT}/odata", f"{ROOT}/$metadata"})


class Event:
    """A thing that happens at a moment, such as the end of a reset."""

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self.due = time.monotonic() + seconds
        self.act = act


class StrictBmc:
    """One machine behind its BMC.

    ``refused_logins`` counts wrong passwords, ``resets`` has the reset types, ``booted`` the boot
    source of each boot, ``read_by_http`` the URL of each boot by HTTP, ``changes`` the titles of
    accepted and refused changes with their status. With ``wants_whole_boot`` a change of Boot must
    have target, duration and mode.

    :param documents: the recorded tree, which is copied.
    :param system: the path of the system that is driven.
    """

    def __init__(self, documents: Mapping[str, Json], system: str) -> None:
        self.recorded = documents
        self.tree: dict[str, Json] = copy.deepcopy(dict(documents))
        self.system = system
        self.refused_logins = 0
        self.wants_whole_boot = False
        self.resets: list[str] = []
        self.booted: list[str] = []
        self.read_by_http: list[str | None] = []
        self.changes: list[tuple[str, int]] = []
        self.idrac = dell.Idrac()
        self.guard = threading.RLock()
        self.server = Server(self)
        self.at_boot: list[Callable[[], None]] = []
        self._events: list[Event] = []
        self.stands_still = False
        self._tokens: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._silent_until = 0.0
        place = facts.bios_settings(self.tree, system)
        if place is not None and place not in self.tree:
            # The recording lacks the settings that wait for a boot; a BMC has them.
            self.tree[place] = {"@odata.id": place, "Id": "Settings", "Attributes": {}}
        self._folded = {path.lower(): path for path in self.tree}
        self._acts = acts.Acts(self)

    def __enter__(self) -> StrictBmc:
        self.server.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.server.__exit__(kind, error, trace)

    @property
    def driver_info(self) -> Json:
        """Return the ``driver_info`` of a node for this machine."""
        return {
            "redfish_address": self.server.address,
            "redfish_system_id": self.system,
            "redfish_username": USER,
            "redfish_password": PASSWORD,
        }

    @property
    def power(self) -> str:
        """Return the power state now."""
        with self.guard:
            self.pass_time()
            return str(self.tree[self.system]["PowerState"])

    @property
    def vendor(self) -> str:
        """Return the vendor of the service, or of the system."""
        found = self.tree[ROOT].get("Vendor") or self.tree[self.system].get("Manufacturer")
        return str(found or "")

    # -- answering ----------------------------------------------------------------------------

    def answer(self, request: Request) -> Reply:
        """Answer a request."""
        with self.guard:
            self.pass_time()
            try:
                reply = self._answer(request)
            except Refused as why:
                reply = why.reply
            except (json.JSONDecodeError, UnicodeDecodeError):
                reply = refusal(400, "MalformedJSON", "The request body is not valid JSON.")
            if request.method not in {"GET", "HEAD"}:
                self.changes.append((request.title, reply.status))
            headers = {"OData-Version": "4.0", **reply.headers}
            return Reply(reply.status, reply.document, headers)

    def _answer(self, request: Request) -> Reply:
        if time.monotonic() < self._silent_until:
            raise Refused(503, "ServiceTemporarilyUnavailable", "The BMC is starting.")
        address = urllib.parse.urlsplit(request.path)
        path = self.find(urllib.parse.unquote(address.path))
        if path == self.sessions and request.method == "POST":
            return self._log_in(request)
        if path not in _OPEN:
            self._check_login(request)
        if request.method in {"GET", "HEAD"}:
            return self._get(path, address.query)
        if address.query:
            raise Refused(400, "QueryNotSupported", "Queries are for GET.")
        if request.method == "DELETE" and path.startswith(f"{self.sessions}/"):
            return self._log_out(path)
        return self._acts.act(request, path)

    def _get(self, path: str, query: str) -> Reply:
        document = self.document(path)
        wanted = dict(urllib.parse.parse_qsl(query))
        shown = copy.deepcopy(document)
        for name, value in wanted.items():
            if name == "$expand":
                shown = self._expanded(shown, value)
            elif name.startswith("$"):
                raise Refused(501, "QueryNotSupported", f"{name} is not supported.")
        return Reply(
            200, shown, {"ETag": facts.etag(document), "Allow": ", ".join(self.allowed(path))}
        )

    def allowed(self, path: str) -> list[str]:
        """Return the methods that are allowed at a path."""
        return ["GET", "HEAD", *self._acts.methods(path)]

    def _expanded(self, document: Json, value: str) -> Json:
        claimed = (self.tree[ROOT].get("ProtocolFeaturesSupported") or {}).get("ExpandQuery") or {}
        kind = "NoLinks" if value.startswith(".") else "ExpandAll"
        if not claimed.get(kind):
            raise Refused(501, "QueryNotSupported", f"$expand={value} is not supported.")
        for name in ("Members",):
            if isinstance(document.get(name), list):
                document[name] = [
                    copy.deepcopy(self.tree.get(self.find(entry["@odata.id"]), entry))
                    for entry in document[name]
                ]
        return document

    # -- the tree -----------------------------------------------------------------------------

    def find(self, path: str) -> str:
        """Return the path as the tree writes it; iLO does not distinguish case."""
        plain = path.rstrip("/") or "/"
        if plain in self.tree or "HP" not in self.vendor:
            return plain
        return self._folded.get(plain.lower(), plain)

    def document(self, path: str) -> Json:
        """Return the document at a path.

        :raises Refused: there is none.
        """
        found = self.tree.get(self.find(path))
        if found is None:
            raise Refused(404, "ResourceMissingAtURI", f"The resource at {path} was not found.")
        return found

    def link(self, document: Json, *names: str) -> str | None:
        """Return the path that a link leads to."""
        found: Any = document
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        path = found.get("@odata.id") if isinstance(found, dict) else found
        return self.find(path) if isinstance(path, str) and path else None

    def add(self, collection: str, path: str, document: Json) -> None:
        """Put a document into a collection."""
        self.tree[path] = {"@odata.id": path, "Id": path.rpartition("/")[2], **document}
        page = self.tree.setdefault(collection, {"@odata.id": collection, "Members": []})
        page.setdefault("Members", []).append({"@odata.id": path})
        page["Members@odata.count"] = len(page["Members"])

    def remove(self, path: str) -> None:
        """Take a document out of its collection."""
        del self.tree[path]
        page = self.tree[path.rpartition("/")[0]]
        page["Members"] = [one for one in page["Members"] if one["@odata.id"] != path]
        page["Members@odata.count"] = len(page["Members"])

    def number(self) -> int:
        """Return the next number for a session or a task."""
        return next(self._numbers)

    # -- logins -------------------------------------------------------------------------------

    @property
    def sessions(self) -> str | None:
        """Return the path of the sessions, None if the BMC has none."""
        return self.link(self.tree[ROOT], "Links", "Sessions")

    def _log_in(self, request: Request) -> Reply:
        body = request.body
        if (body.get("UserName"), body.get("Password")) != (USER, PASSWORD):
            self._refuse_login()
        number, place = self.number(), self.sessions
        token, path = f"token-{number}-{id(self)}", f"{place}/{number}"
        session = {"@odata.type": "#Session.v1_3_0.Session", "Name": "Session", "UserName": USER}
        self.add(str(place), path, session)
        self._tokens[token] = path
        return Reply(201, self.tree[path], {"X-Auth-Token": token, "Location": path})

    def _log_out(self, path: str) -> Reply:
        self.document(path)
        self.remove(path)
        self._tokens = {token: one for token, one in self._tokens.items() if one != path}
        return Reply(204)

    def _check_login(self, request: Request) -> None:
        token = request.headers.get("X-Auth-Token")
        if token is not None:
            if token not in self._tokens:
                raise Refused(401, "NoValidSession", "There is no valid session.")
            return
        kind, _, value = (request.headers.get("Authorization") or "").partition(" ")
        if kind != "Basic":
            raise Refused(401, "NoValidSession", "There is no valid session.")
        if base64.b64decode(value).decode() != f"{USER}:{PASSWORD}":
            self._refuse_login()

    def _refuse_login(self) -> None:
        self.refused_logins += 1
        text = "While attempting to log in, the user name or password was refused."
        raise Refused(401, "ResourceAtUriUnauthorized", text)

    # -- time ---------------------------------------------------------------------------------

    def later(self, act: Callable[[], None], seconds: float = RESET_SECONDS) -> None:
        """Do this after some time."""
        self._events.append(Event(seconds, act))

    def pass_time(self) -> None:
        """Do what is due, unless a test lets the time stand still."""
        if self.stands_still:
            return
        self.idrac.pass_time()
        due = [one for one in self._events if one.due <= time.monotonic()]
        self._events = [one for one in self._events if one not in due]
        for one in due:
            one.act()

    def restart(self) -> None:
        """Restart the BMC: it is busy for a while, and knows no session any more."""
        for path in self._tokens.values():
            self.remove(path)
        self._tokens = {}
        self._silent_until = time.monotonic() + RESET_SECONDS

    def switch(self, word: str) -> None:
        """Show a power state, also in the chassis of the system."""
        for path in (self.system, *self._chassis()):
            if "PowerState" in self.tree[path]:
                self.tree[path]["PowerState"] = word

    def _chassis(self) -> Iterator[str]:
        for entry in (self.tree[self.system].get("Links") or {}).get("Chassis") or []:
            path = self.find(entry["@odata.id"])
            if path in self.tree:
                yield path
