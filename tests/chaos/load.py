"""A constant load: verbs, writes and heartbeats, each taken down with its answer."""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import requests

from ironic_lite.core.context import Context
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from tests.chaos.fleet import Ports
from tests.chaos.records import Request
from tests.chaos.watch import Watch

Json = dict[str, Any]
TIMEOUT = 30.0
"""Seconds that a caller waits for an answer; longer than RPC waits for a conductor."""
SETTLES = 1.0
"""Seconds that a node is left alone after a request, so that `Watch` has seen what came of it."""
CLEAN: Json = {
    "clean_steps": [
        {"interface": "deploy", "step": "erase_devices_metadata"},
        {"interface": "deploy", "step": "by_agent"},
        {"interface": "deploy", "step": "erase_devices"},
    ]
}
DECLARED = 0.05
"""Share of the requests that declare the state of a node's data."""
RETRY: tuple[tuple[str, Json], ...] = (("retry", {}), ("retry", {"retry": {"force": True}}))
RETRIED = (State.CLEANFAIL, State.DEPLOYFAIL, State.SERVICEFAIL)
"""States with a retry, which ends the maintenance that the failure has set."""
NEXT: Mapping[State, tuple[tuple[str, Json], ...]] = {
    State.MANAGEABLE: (("clean", CLEAN), ("clean", CLEAN), ("provide", {}), ("inspect", {})),
    State.AVAILABLE: (("active", {}), ("active", {}), ("manage", {})),
    State.ACTIVE: (
        ("deleted", {}),
        ("rebuild", {}),
        ("rescue", {"rescue_password": "sesame"}),
        ("service", {"service_steps": [{"interface": "raid", "step": "delete_configuration"}]}),
    ),
    State.RESCUE: (("unrescue", {}),),
    State.ENROLL: (("manage", {}),),
    State.ERROR: (("deleted", {}),),
    State.CLEANFAIL: (("manage", {}), *RETRY),
    State.DEPLOYFAIL: (("deleted", {}), ("active", {}), *RETRY),
    State.INSPECTFAIL: (("manage", {}),),
    State.RESCUEFAIL: (("unrescue", {}), ("deleted", {})),
    State.UNRESCUEFAIL: (("unrescue", {}), ("deleted", {})),
    State.SERVICEFAIL: (("deleted", {}), *RETRY),
}
"""What is asked of a node at rest, and with which body."""

Twice = Callable[[Context, str, str], None]
"""Delivers the message of a request once more: who asked, which node, which verb."""


class Load:
    """Asks for something ``rate`` times in a second.

    :ivar requests: all that was asked, and what came of it.
    :ivar twice: what to do besides with a verb that was accepted, if anything.
    :ivar spared: nodes of which nothing is asked.
    """

    def __init__(self, ports: Ports, watch: Watch, seed: int, rate: float, threads: int) -> None:
        self.requests: list[Request] = []
        self.twice: Twice | None = None
        self.spared: frozenset[str] = frozenset()
        self._known: frozenset[str] = frozenset()
        self._ports = ports
        self._watch = watch
        self._pause = threads / rate
        self._busy: dict[str, float] = {}
        self._values: dict[str, int] = {}
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(seed + number),), daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Begin; nodes that others create from now on are left to them."""
        self._known = frozenset(self._watch.look.rows)
        for one in self._threads:
            one.start()

    def stop(self) -> None:
        """Ask no more; return when all answers are there."""
        self._closing.set()
        for one in self._threads:
            one.join()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Ask for the length of a block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def _run(self, dice: random.Random) -> None:
        with contextlib.closing(requests.Session()) as session:
            session.trust_env = False
            while not self._closing.wait(dice.uniform(0, 2 * self._pause)):
                with self._chosen(dice) as row:
                    if row is not None:
                        self._act(session, dice, row)

    @contextlib.contextmanager
    def _chosen(self, dice: random.Random) -> Iterator[Mapping[str, Any] | None]:
        """Give a node at rest that nobody else asks anything of, if one is found."""
        look = self._watch.look
        row = dice.choice(list(look.rows.values()))
        node = row["uuid"]
        rests = states.kind(State(row["provision_state"])) in (Kind.STABLE, Kind.FAIL)
        with self._guard:
            mine = self._busy.get(node, 0.0) < look.at and not row["reservation"] and rests
            mine = mine and node in self._known - self.spared
            if mine:
                self._busy[node] = float("inf")
        try:
            yield row if mine else None
        finally:
            if mine:
                with self._guard:
                    self._busy[node] = time.monotonic() + SETTLES

    def _act(self, session: requests.Session, dice: random.Random, row: Mapping[str, Any]) -> None:
        number = self._ports.alive(dice.randrange(1000))
        url = f"{self._ports.url(number)}/v1/nodes/{row['uuid']}"
        body: Any
        state = State(row["provision_state"])
        if row["maintenance"] and (state not in RETRIED or dice.random() < 0.5):
            self._ask(session, row["uuid"], "patch", ("DELETE", f"{url}/maintenance", None))
        elif not row["maintenance"] and dice.random() < 0.25:
            value = self._values[row["uuid"]] = self._values.get(row["uuid"], 0) + 1
            body = [{"op": "add", "path": "/extra/value", "value": value}]
            self._ask(session, row["uuid"], "patch", ("PATCH", url, body), value)
        elif not row["maintenance"] and dice.random() < DECLARED:
            body = {"data_state": dice.choice(("clean", "dirty")), "reason": "chaos"}
            self._ask(session, row["uuid"], "declare", ("PUT", f"{url}/data_state", body))
        else:
            target, more = dice.choice(RETRY if row["maintenance"] else NEXT[state])
            body = {"target": target, **more}
            self._ask(session, row["uuid"], target, ("PUT", f"{url}/states/provision", body))

    def _ask(
        self,
        session: requests.Session,
        node: str,
        what: str,
        how: tuple[str, str, Any],
        value: int | None = None,
    ) -> None:
        begin = time.monotonic()
        status, request_id, text = None, None, ""
        try:
            answer = session.request(how[0], how[1], json=how[2], timeout=TIMEOUT)
            status, request_id = answer.status_code, answer.headers.get("X-OpenStack-Request-Id")
            text = "" if answer.ok else answer.text
        except (OSError, requests.RequestException) as why:
            text = type(why).__name__
        force = bool(((how[2] or {}) if what == "retry" else {}).get("retry", {}).get("force"))
        end = time.monotonic()
        asked = Request(node, what, begin, end, status, request_id, value, text, force)
        with self._guard:
            self.requests.append(asked)
        if self.twice is not None and status == 202 and what in VERBS and request_id:
            with contextlib.suppress(Exception):  # a refusal is what it should get
                self.twice(Context(request_id=request_id), node, what)


VERBS: Mapping[str, tuple[str, Json]] = {
    "clean": ("clean", CLEAN),
    "active": ("deploy", {}),
    "rebuild": ("rebuild", {}),
    "deleted": ("delete", {}),
    "rescue": ("rescue", {"rescue_password": "sesame"}),
    "unrescue": ("unrescue", {}),
    "retry": ("retry", {"retry": {}}),
    "service": ("service", NEXT[State.ACTIVE][3][1]),
}
"""The messages by which the API hands these verbs to a conductor."""


class Agents:
    """The agents of the machines that have one: done with a step at once, and heard until the node
    goes on.

    :ivar copies: how often each heartbeat is sent; more than one of them at the same time.
    :ivar late: whether those are heard, too, whose nodes have gone on.
    :ivar heard: what they were answered.
    """

    def __init__(self, ports: Ports, watch: Watch, journal: pathlib.Path) -> None:
        self.copies = 1
        self.late = False
        self.heard: collections.Counter[str] = collections.Counter()
        self._ports = ports
        self._watch = watch
        self._journal = journal
        self._read = 0
        self._known: dict[str, tuple[str, str]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agents", daemon=True)

    def start(self) -> None:
        """Begin."""
        (self._journal.parent / "done").mkdir()
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(0.7):
            self._learn()
            for node, (step, token) in list(self._known.items()):
                row = self._watch.look.rows[node]
                waits = states.kind(State(row["provision_state"])) is Kind.WAIT
                if waits and not row["reservation"]:
                    (self._journal.parent / "done" / step.replace("/", "-")).touch()
                if waits or (self.late and not self._closing.is_set()):
                    self._beat(node, token)

    def _learn(self) -> None:
        """Read on in the journal: who has been given which step, with which token."""
        if not self._journal.exists():
            return
        with self._journal.open("rb") as journal:
            journal.seek(self._read)
            text = journal.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            if b'"agent"' in line:
                row = json.loads(line)
                if row["what"] == "agent":
                    self._known[row["node"]] = (row["step"], row["token"])

    def _beat(self, node: str, token: str) -> None:
        body = {
            "callback_url": "https://192.0.2.1:9999",
            "agent_token": token,
            "agent_version": "11.0.0",
        }
        sent = [
            threading.Thread(target=self._send, args=(number, node, body), daemon=True)
            for number in range(self.copies)
        ]
        for one in sent:
            one.start()
        for one in sent:
            one.join()

    def _send(self, number: int, node: str, body: Json) -> None:
        url = f"{self._ports.url(self._ports.alive(number))}/v1/heartbeat/{node}"
        try:
            answer = str(requests.post(url, json=body, timeout=5).status_code)
        except (OSError, requests.RequestException):
            answer = "None"
        self.heard[answer] += 1
