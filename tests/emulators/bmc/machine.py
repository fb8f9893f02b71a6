"""A machine with its BMC: the tree of documents, what it does by itself, and its bad habits."""

from __future__ import annotations

import base64
import copy
import dataclasses
import functools
import itertools
import json
import threading
import time
import types
import zlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from tests.emulators.bmc import acts, dell, firmware, inventory, sensors, shapes, tasks, volumes
from tests.emulators.bmc.habits import Habits
from tests.emulators.bmc.refusals import Refused, refusal
from tests.emulators.bmc.server import Reply, Request, Server

Json = dict[str, Any]

MOVING = {"On": "PoweringOn", "Off": "PoweringOff"}


@dataclasses.dataclass
class Session:
    """A login."""

    number: int
    user: str
    used: float


class Machine:
    """One machine. ``tree`` has its documents by path; tests may change them as they like.

    ``idrac`` has what a machine of Dell was told beside the standard. ``ruined`` tells whether its
    power was switched while firmware was written without a task; ``sent`` has the reset types it
    was told, ``restarts`` those of its BMC, ``booted`` what it booted from each time, ``nmis`` how
    many interrupts it got; ``log``, ``requests`` and ``tricks`` are those of its `Server`.

    :param make: a key of `shapes.MAKES`.
    :param users: passwords by name; without any, everybody may do everything.
    """

    def __init__(
        self,
        *,
        make: str = "contoso",
        drives: int = 6,
        users: dict[str, str] | None = None,
        tls: tuple[str, str] | None = None,
    ) -> None:
        self.places = shapes.Places(shapes.MAKES[make])
        self.tree = _tree(self.places, drives)
        self.idrac = dell.Idrac()
        if make == "dell":
            dell.extend(self.tree, self.places)
        self.users = dict(users or {})
        self.habits = Habits()
        self.tasks: list[tasks.Task] = []
        self.coming: set[str] = set()  # paths of volumes that tasks are going to create
        self.sessions: dict[str, Session] = {}
        self.logins = 0
        self.sent: list[str] = []
        self.restarts: list[str] = []
        self.booted: list[str] = []
        self.nmis = 0
        self.writing: tasks.Task | None = None  # firmware that is written without a task
        self.ruined = False  # its power was switched meanwhile
        self.silent_for = 0
        self.guard = threading.RLock()
        self.server = Server(self, tls=tls)
        self._moving: tuple[str, int] | None = None
        self._at_boot: list[Callable[[], None]] = []

    # -- what tests look at -------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self.server.address

    @property
    def system(self) -> str:
        return self.places.system

    @property
    def log(self) -> list[str]:
        return self.server.log

    @property
    def requests(self) -> list[Request]:
        return self.server.requests

    @property
    def tricks(self) -> dict[str, Any]:
        return self.server.tricks

    @property
    def driver_info(self) -> Json:
        """Return what leads a node here."""
        info = {"redfish_address": self.url, "redfish_system_id": self.system}
        for user, password in list(self.users.items())[:1]:
            info |= {"redfish_username": user, "redfish_password": password}
        return info

    def __getitem__(self, path: str) -> Json:
        """Return a document by its path or the end of one."""
        found = self.tree.get(path)
        ends = [key for key in self.tree if key.endswith(f"/{path}")] if found is None else []
        if found is None and len(ends) != 1:
            raise KeyError(f"{path} is not the end of one path: {ends}")
        return found if found is not None else self.tree[ends[0]]

    def changes(self) -> list[str]:
        """Return the titles of all requests but reads, logins and logouts."""
        return [
            title
            for title in self.log
            if not title.startswith("GET ") and "/SessionService/" not in title
        ]

    def __enter__(self) -> Machine:
        self.server.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.server.__exit__(kind, error, trace)

    # -- answering ----------------------------------------------------------------------------

    def answer(self, request: Request) -> Reply:
        """Do what a request asks."""
        with self.guard:
            self.idrac.pass_time()
            for task in self.tasks:
                if task.ends is not None or self.habits.task_hidden:
                    task.look()
            if self.writing is not None:
                self.writing.look()
                firmware.show_writing(self)
            bare, _, query = request.path.partition("?")
            path = bare.rstrip("/")
            if reply := self._put_off(request, bare):
                return reply
            if not f"{path}/".startswith("/redfish/"):
                return Reply(404, b"<html><body>Not found</body></html>")
            if not self._lets_in(request, path):
                return refusal(401, "NoValidSession", "There is no valid session.")
            try:
                reply = acts.find(self, request.method, path)(request)
                return self._whole(reply) if "$expand=." in query else reply
            except Refused as why:
                return why.reply
            except json.JSONDecodeError:
                return refusal(400, "MalformedJSON", "The request body is no JSON.")

    def _put_off(self, request: Request, path: str) -> Reply | None:
        """Return the answer of a BMC that does nothing yet, None if it is ready."""
        habits = self.habits
        if self.silent_for > 0:
            self.silent_for -= 1
            said = "It is starting."
            return refusal(habits.restart_status, "ServiceTemporarilyUnavailable", said)
        if request.method == "GET":
            return None
        if habits.redirects and not path.endswith("/"):
            return Reply(habits.redirects, None, {"Location": f"{self.url}{path}/"})
        if not habits.early:
            return None
        habits.early -= 1
        early = refusal(habits.early_status, "ServiceTemporarilyUnavailable", "Too early.")
        return dataclasses.replace(early, headers={"Retry-After": habits.early_after})

    def read(self, path: str) -> Reply:
        """Return the document at a path, as it is now."""
        for task in self.tasks:
            if path in {task.path, task.monitor}:
                return self._task(task, path)
        if path == self.system:
            self._move_on()
        found = self.tree.get(path)
        if found is None:
            return refusal(404, "ResourceMissingAtURI", f"There is nothing at {path}.")
        shown = copy.deepcopy(found)
        if path == shapes.ROOT and self.habits.expands:
            shown["ProtocolFeaturesSupported"] = {"ExpandQuery": {"NoLinks": True, "MaxLevels": 1}}
        if isinstance(shown.get("Members"), list):
            shown["Members@odata.count"] = len(shown["Members"])
        tag = f"W/{self.etag(path)}" if self.habits.weak_etags else self.etag(path)
        if self.habits.etags_in_body:
            return Reply(200, self.linked({"@odata.etag": tag, **shown}))
        return Reply(200, self.linked(shown), {"ETag": tag})

    def etag(self, path: str) -> str:
        """Return a strong tag that changes with the document."""
        raw = json.dumps(self.tree[path], sort_keys=True).encode()
        return f'"{self.habits.etag_start}{zlib.crc32(raw):08x}"'

    def linked(self, shown: Any) -> Any:
        """Return a document, or a part of one, with the links that this BMC shows."""
        if not self.habits.slashes:
            return shown
        if isinstance(shown, list):
            return [self.linked(one) for one in shown]
        if not isinstance(shown, dict):
            return shown
        return {
            name: f"{one}/" if name == "@odata.id" else self.linked(one)
            for name, one in shown.items()
        }

    def _whole(self, reply: Reply) -> Reply:
        """Return a collection with its members in it, if the BMC does such."""
        shown = reply.document
        if self.habits.expands and reply.status == HTTPStatus.OK and "Members" in shown:
            paths = [entry["@odata.id"].rstrip("/") for entry in shown["Members"]]
            shown["Members"] = [self.read(path).document for path in paths]
        return reply

    def check_tag(self, request: Request, path: str) -> None:
        """Refuse a change of a document that the client has seen otherwise.

        :raises Refused: its If-Match is not the ETag.
        """
        wanted = request.headers.get("If-Match")
        if wanted is None and self.habits.needs_etag:
            raise Refused(428, "PreconditionRequired", "If-Match is missing.")
        if wanted not in (None, "*", self.etag(path)):
            raise Refused(412, "PreconditionFailed", "The ETag does not match.")

    def _task(self, task: tasks.Task, path: str) -> Reply:
        task.look()
        if self.habits.task_status:
            raise Refused(self.habits.task_status, "GeneralError", "Tasks are not shown.")
        if task.ended and self.habits.tasks_vanish:
            listed = self.tree[self.places.tasks]["Members"]
            listed[:] = [one for one in listed if one != shapes.link(task.path)]
            return refusal(404, "ResourceMissingAtURI", f"There is nothing at {path}.")
        if path == task.path:
            return Reply(200, task.document())
        if not task.ended:
            return task.accepted(body=self.habits.task_body)
        if self.habits.monitor_end == "gone":
            return refusal(404, "ResourceMissingAtURI", f"There is nothing at {path}.")
        if self.habits.monitor_end == "task":
            return Reply(200, task.document())
        return refusal(400, "GeneralError", task.fails) if task.fails else Reply(204)

    # -- who may ask --------------------------------------------------------------------------

    def _lets_in(self, request: Request, path: str) -> bool:
        opened = (path in {shapes.ROOT, "/redfish"} and not self.habits.root_needs_login) or (
            request.method == "POST" and path == self.places.sessions
        )
        return opened or not self.users or self._has_token(request) or self._has_password(request)

    def _has_token(self, request: Request) -> bool:
        token = request.headers.get("X-Auth-Token")
        self._drop_old_sessions()
        session = self.sessions.get(token or "")
        if session is not None:
            session.used = time.monotonic()
        return session is not None

    def _has_password(self, request: Request) -> bool:
        kind, _, value = (request.headers.get("Authorization") or "").partition(" ")
        if kind != "Basic":
            return False
        user, _, password = base64.b64decode(value).decode().partition(":")
        return user in self.users and self.users[user] == password

    def _drop_old_sessions(self) -> None:
        """Drop sessions that were not used for too long."""
        limit = self.habits.session_seconds
        now = time.monotonic()
        for token, session in list(self.sessions.items()):
            if limit is not None and now - session.used > limit:
                self.end_session(token)

    def start_session(self, user: str) -> tuple[str, str]:
        """Return the token of a new session, and its path.

        :raises Refused: there are too many.
        """
        self._drop_old_sessions()
        if len(self.sessions) >= self.habits.session_limit:
            raise Refused(503, "SessionLimitExceeded", "There are too many sessions.")
        self.logins += 1
        taken = {session.number for session in self.sessions.values()}
        free = next(number for number in itertools.count(1) if number not in taken)
        number = free if self.habits.session_numbers_again else self.logins
        token, path = f"token-{self.logins}", f"{self.places.sessions}/{number}"
        self.sessions[token] = Session(number, user, time.monotonic())
        self.add(path, shapes.document(path, "Session.v1_3_0", "User Session", UserName=user))
        return token, path

    def end_session(self, token: str) -> None:
        """Forget a session, as a logout does."""
        session = self.sessions.pop(token)
        self.remove(f"{self.places.sessions}/{session.number}")

    # -- the tree -----------------------------------------------------------------------------

    def add(self, path: str, document: Json) -> None:
        """Put a document into the collection above it."""
        self.tree[path] = document
        self.tree[path.rpartition("/")[0]]["Members"].append(shapes.link(path))

    def remove(self, path: str) -> None:
        """Take a document out of the collection above it."""
        del self.tree[path]
        self.tree[path.rpartition("/")[0]]["Members"].remove(shapes.link(path))

    def defer_boot(self, **boot: Any) -> Json:
        """Let changes of Boot wait for the next boot in a settings resource; return its Boot."""
        path = f"{self.system}/SD"
        waiting: Json = {**self.tree[self.system]["Boot"], **boot}
        self.tree[path] = shapes.document(path, "ComputerSystem.v1_16_0", "Pending", Boot=waiting)
        self.tree[self.system]["@Redfish.Settings"] = {"SettingsObject": shapes.link(path)}
        return waiting

    def put_volume(self, level: str, size: int, drives: list[Json]) -> str:
        """Let a volume be there on these drives, given as links; return its path."""
        with self.guard:
            return volumes.put(self, level, size, drives)

    # -- power --------------------------------------------------------------------------------

    def go(self, target: str, *, boots: bool) -> None:
        """Go ``On`` or ``Off``; ``boots``: its processors start anew, also if it is on already."""
        there = self.tree[self.system]["PowerState"] == target
        self.ruined |= self.writing is not None
        if self.habits.power_stuck or (there and not boots):
            return
        if self.habits.power_polls:
            self._moving = (target, self.habits.power_polls)
            self._show_power(MOVING[target])
        else:
            self._arrive(target)
        if boots and not self.habits.power_polls:
            self.start_up()

    def _move_on(self) -> None:
        if self._moving is None:
            return
        target, left = self._moving
        if left:
            self._moving = (target, left - 1)
            return
        self._moving = None
        self._arrive(target)
        if target == "On":
            self.start_up()

    def _arrive(self, target: str) -> None:
        self._show_power(target)
        state = "None" if target == "Off" else self.habits.boot_progress or "OSRunning"
        self.tree[self.system]["BootProgress"] = {"LastState": state}

    def _show_power(self, word: str) -> None:
        self.tree[self.system]["PowerState"] = word
        self.tree[self.places.chassis]["PowerState"] = word

    def start_up(self) -> None:
        """Start the processors: what waited for that happens, and the boot device is looked up."""
        waiting, self._at_boot = self._at_boot, []
        for act in waiting:
            act()
        boot = self.tree[self.system]["Boot"]
        deferred = self.tree.get(f"{self.system}/SD", {}).get("Boot", {})
        boot.update(deferred)
        enabled = boot.get("BootSourceOverrideEnabled", "Disabled")
        source = "None" if enabled == "Disabled" else boot["BootSourceOverrideTarget"]
        self.booted.append(self.idrac.boots_from() or source)
        secure = self.tree[f"{self.system}/SecureBoot"]
        secure["SecureBootCurrentBoot"] = "Enabled" if secure["SecureBootEnable"] else "Disabled"
        if enabled == "Once":
            over = {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}
            boot.update(over)
            deferred.update(over if deferred else {})

    def at_boot(self, act: Callable[[], None]) -> None:
        """Do this when it boots next."""
        self._at_boot.append(act)

    # -- work that takes time -----------------------------------------------------------------

    def work(
        self, kind: str, name: str, effect: Callable[[], None], *, on_reset: bool = False
    ) -> Reply | None:
        """Start work; return the answer 202, or None if it is done already."""
        if kind not in self.habits.tasks and not on_reset:
            effect()
            return None
        habits = self.habits
        ends = None if habits.task_seconds is None else time.monotonic() + habits.task_seconds
        number = len(self.tasks) + 1
        task = tasks.Task(number, name, effect, habits.task_polls, ends, habits.task_fails)
        if on_reset:
            task.state = "Pending"
            self.at_boot(functools.partial(setattr, task, "state", "Running"))
        self.tasks.append(task)
        self.tree[self.places.tasks]["Members"].append(shapes.link(task.path))
        if habits.task_hidden and kind in {"create", "delete"}:
            self.tree[self.places.tasks]["Members"].pop()
            return Reply(habits.task_hidden)
        return task.accepted(body=habits.task_body)

    def finish_tasks(self) -> None:
        """End all that runs."""
        with self.guard:
            for task in self.tasks:
                if task.state == "Running":
                    task.finish()

    def restart(self) -> None:
        """Restart the BMC: it is silent for a while, and knows no session any more."""
        self.silent_for = self.habits.restart_requests
        self.forget_sessions()

    def forget_sessions(self) -> None:
        """Forget all logins."""
        with self.guard:
            for token in list(self.sessions):
                self.end_session(token)


def _tree(places: shapes.Places, drives: int) -> dict[str, Json]:
    """Return all documents of a machine."""
    tree = shapes.tree(places, drives=drives)
    tree[places.system].update(inventory.links(places))
    tree[places.chassis].update(sensors.links(places))
    tree[places.chassis]["Links"]["Drives"] = list(tree[places.storage]["Drives"])
    return {**tree, **inventory.documents(places), **sensors.documents(places)}
