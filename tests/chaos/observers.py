"""Clients that watch while faults go on: a follower of all events, and waits for nodes."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import requests

from ironic_lite import errors
from tests.chaos.fleet import Ports
from tests.chaos.records import Told, Wait
from tests.chaos.watch import Watch

LIVES = (0.1, 2.0)
"""Seconds until a follower cuts its connection."""
SILENT = 2.0
"""Seconds without a byte after which it cuts its connection."""
FORGETS = 0.25
"""The share of cuts after which a follower has lost its newest cursors, as after a crash."""
CATCHES_UP = 90.0
"""Seconds that the follower may take to the last event; a missing number is passed after 60."""
UNTIL = (
    "manageable",
    "available",
    "active",
    "cleaning",
    "clean-wait",
    "deploying",
    "wait-call-back",
    "inspecting",
    "deleting",
    "rescue",
    "servicing",
    "clean-failed,deploy-failed,inspect-failed,rescue-failed,service-failed",
)
BUSY = 0.9
"""The share of waits for a node that is at work."""
LONGEST = 4
WAITERS = 3
_PAUSE = 0.2

Json = Mapping[str, Any]


class Follower:
    """Follows ``GET /v1/events`` from the first event, cut and resumed all the time.

    Most connections are streams, a quarter are long polls with the same cursor.

    :ivar told: all events in the order of their arrival.
    :ivar connections: answers with 200.
    :ivar refusals: other answers, but for 503.
    """

    def __init__(self, ports: Ports, seed: int) -> None:
        self.told: list[Told] = []
        self.connections = 0
        self.refusals: list[str] = []
        self._ports = ports
        self._dice = random.Random(f"{seed} follower")
        self._cursor = "0"

    def connect(self, session: requests.Session) -> None:
        """Follow over one connection for a while."""
        life = self._dice.uniform(*LIVES)
        if self._dice.random() < FORGETS and self.told:
            self._cursor = str(self.told[-self._dice.randint(1, min(20, len(self.told)))].id)
        polls = self._dice.random() < FORGETS
        query: Json = {"wait": "1", "limit": "50"} if polls else {"follow": "true"}
        url = f"{self._ports.url(self._ports.alive(self._dice.randrange(1000)))}/v1/events"
        with session.get(
            url, params={"since": self._cursor, **query}, stream=True, timeout=SILENT
        ) as answer:
            if answer.status_code != 200:
                if answer.status_code != 503:
                    self.refusals.append(f"{answer.status_code} after {self._cursor}")
                time.sleep(_PAUSE)
                return
            self.connections += 1
            if polls:
                self._take_page(answer.json())
            else:
                self._take_lines(answer, time.monotonic() + life)

    def _take_page(self, page: Json) -> None:
        for event in page["events"]:
            self._take(event)
        self._cursor = page["cursor"]

    def _take_lines(self, answer: requests.Response, end: float) -> None:
        rest = b""
        for chunk in answer.iter_content(None):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            if time.monotonic() > end:
                return

    def _take(self, line: Json) -> None:
        self._cursor = line["cursor"]
        if "kind" in line:
            self.told.append(Told(int(line["cursor"]), line["node"]))


class Observers:
    """The follower and some clients that wait for nodes, each in a thread.

    :param follow: False without the feature of events, whose path is unknown then.
    :ivar waits: all requests that waited for a node, and what came of them.
    :ivar upto: the id of the last event that the follower had to be told of.
    """

    def __init__(self, ports: Ports, watch: Watch, seed: int, *, follow: bool = True) -> None:
        self.follower = Follower(ports, seed)
        self.waits: list[Wait] = []
        self.upto = 0
        self._ports = ports
        self._watch = watch
        self._closing = threading.Event()
        self._follow = follow
        jobs: list[Callable[[requests.Session], None]] = [self.follower.connect] if follow else []
        for number in range(WAITERS):
            dice = random.Random(f"{seed} waiter {number}")
            jobs.append(lambda session, dice=dice: self._wait(session, dice))  # type: ignore[misc]
        self._threads = [
            threading.Thread(target=self._run, args=(job,), daemon=True) for job in jobs
        ]

    def start(self) -> None:
        """Begin."""
        for one in self._threads:
            one.start()

    def finish(self) -> None:
        """Let the follower come to the present end of the table, then stop."""
        self.upto = self._watch.newest() if self._follow else 0
        end = time.monotonic() + CATCHES_UP
        while time.monotonic() < end and not self._arrived():
            time.sleep(_PAUSE)
        self.stop()

    def _arrived(self) -> bool:
        told = self.follower.told
        return self.upto == 0 or (bool(told) and told[-1].id >= self.upto)

    def stop(self) -> None:
        """Stop; return when all threads have ended."""
        self._closing.set()
        for one in self._threads:
            one.join()

    def _run(self, job: Callable[[requests.Session], None]) -> None:
        with contextlib.closing(requests.Session()) as session:
            session.trust_env = False
            while not self._closing.is_set():
                try:
                    job(session)
                except (OSError, requests.RequestException, errors.Error):
                    self._closing.wait(_PAUSE)

    def _wait(self, session: requests.Session, dice: random.Random) -> None:
        """Wait for a node, and take down between which of its moves that was."""
        rows = self._watch.look.rows
        busy = [uuid for uuid, row in rows.items() if row["run_uuid"] is not None]
        node = dice.choice(busy if busy and dice.random() < BUSY else list(rows))
        until, seconds = ",".join(dice.sample(UNTIL, 3)), dice.randint(1, LONGEST)
        url = self._ports.url(self._ports.alive(dice.randrange(1000)))
        path = f"{url}/v1/nodes/{node}{dice.choice(('', '/states'))}"
        since = self._watch.newest(node)
        begin, status, shown, text = time.monotonic(), None, None, ""
        try:
            query = {"wait": str(seconds), "until": until}
            answer = session.get(path, params=query, timeout=4 * LONGEST)
            status, text = answer.status_code, "" if answer.ok else answer.text
            shown = answer.json()["provision_state"] if status == 200 else None
        except (OSError, requests.RequestException) as why:
            text = type(why).__name__
        end, upto = time.monotonic(), None
        with contextlib.suppress(errors.Error):
            upto = self._watch.newest(node)
        states = tuple(until.replace("wait-call-back", "wait call-back").split(","))
        states = tuple(one if " " in one else one.replace("-", " ") for one in states)
        self.waits.append(Wait(node, states, begin, end, status, since, upto, shown, text))
        if status in (None, 503):
            time.sleep(_PAUSE)
