"""Operators who send one request to many nodes, and a webhook that tells of all that happens."""

from __future__ import annotations

import contextlib
import functools
import random
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import requests

from ironic_lite.domain.states import State
from tests.chaos.fleet import Ports
from tests.chaos.load import CLEAN, TIMEOUT, Json
from tests.chaos.receiver import Receiver
from tests.chaos.records import Request
from tests.chaos.watch import Watch
from tests.support.service import until

SIZE = (4, 24)
"""Nodes of a batch, least and most."""
CONCURRENCY = (1, 6)
OPEN = 4
"""Batches that are open at once, as far as one operator has heard."""
RESUMES = 30.0
"""Seconds in which all paused batches are resumed at the end."""
_PAUSE = 1.0
REQUESTS: Mapping[State, Sequence[Json]] = {
    State.MANAGEABLE: ({"target": "clean", **CLEAN}, {"target": "provide"}),
    State.AVAILABLE: ({"target": "manage"}, {"target": "active"}),
    State.ACTIVE: ({"target": "deleted"},),
    State.CLEANFAIL: ({"target": "manage"}, {"target": "retry"}),
}


class Operator:
    """Begins batches of nodes at rest, in waves; pauses, resumes and aborts them.

    :ivar requests: all that was asked, and what came of it.
    """

    def __init__(self, ports: Ports, watch: Watch, seed: int) -> None:
        self.requests: list[Request] = []
        self._ports = ports
        self._watch = watch
        self._dice = random.Random(f"{seed} operator")
        self._open: list[str] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for no more; return when all answers are there."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(requests.Session()) as session:
            session.trust_env = False
            while not self._closing.wait(self._dice.uniform(0, 2 * _PAUSE)):
                if len(self._open) < OPEN:
                    self._begin(session)
                else:
                    self._visit(session, self._dice.choice(self._open))

    def _begin(self, session: requests.Session) -> None:
        state = self._dice.choice(list(REQUESTS))
        rows = self._watch.look.rows.values()
        at_rest = [row["uuid"] for row in rows if row["provision_state"] == state]
        count = min(self._dice.randint(*SIZE), len(at_rest))
        if not count:
            return
        body: Json = {
            "nodes": self._dice.sample(at_rest, count),
            "request": self._dice.choice(REQUESTS[state]),
            "waves": self._dice.choice((["100%"], [1, "100%"], [1, "25%", "100%"])),
            "concurrency": self._dice.randint(*CONCURRENCY),
            "max_failures": self._dice.choice((0, "20%", "100%")),
            "on_failures": self._dice.choice(("pause", "abort")),
        }
        # A key makes the repetition safe whose first answer was lost.
        headers = {"Idempotency-Key": f'"{uuid.UUID(int=self._dice.getrandbits(128))}"'}
        answer = self._ask(session, "POST", "/v1/batches", body, headers)
        while answer is None and not self._closing.wait(_PAUSE):
            answer = self._ask(session, "POST", "/v1/batches", body, headers)
        if answer is not None and answer.status_code == 201:
            self._open.append(answer.json()["uuid"])

    def _visit(self, session: requests.Session, batch: str) -> None:
        """See how a batch goes; change it now and then, and always when it is paused."""
        answer = self._ask(session, "GET", f"/v1/batches/{batch}", None)
        if answer is None or answer.status_code != 200:
            return
        found = answer.json()
        if found["ended_at"] is not None:
            self._open.remove(batch)
        elif found["state"] == "paused":
            body: Json = {"target": "resume", "max_failures": 24}
            if self._dice.random() < 0.3:
                body = {"target": "abort", "runs": "abort"}
            self._ask(session, "PUT", f"/v1/batches/{batch}/state", body)
        elif self._dice.random() < 0.1:
            self._ask(session, "PUT", f"/v1/batches/{batch}/state", {"target": "pause"})

    def _ask(
        self,
        session: requests.Session,
        method: str,
        path: str,
        body: Any,
        headers: Mapping[str, str] | None = None,
    ) -> requests.Response | None:
        url = self._ports.url(self._ports.alive(self._dice.randrange(1000)))
        begin, answer, text = time.monotonic(), None, ""
        try:
            answer = session.request(
                method, f"{url}{path}", json=body, headers=headers, timeout=TIMEOUT
            )
            text = "" if answer.ok else answer.text
        except (OSError, requests.RequestException) as why:
            text = type(why).__name__
        status = None if answer is None else answer.status_code
        self.requests.append(Request(path, "batch", begin, time.monotonic(), status, text=text))
        return answer


def resume_all(ports: Ports, watch: Watch) -> None:
    """Resume the batches that are paused, so that all come to their end."""
    end = time.monotonic() + RESUMES
    while time.monotonic() < end:
        paused = [one.uuid for one in watch.batches() if one.state == "paused" and not one.ended]
        if not paused:
            return
        for batch in paused:
            with contextlib.suppress(OSError, requests.RequestException):
                requests.put(
                    f"{ports.url(ports.alive(0))}/v1/batches/{batch}/state",
                    json={"target": "resume", "max_failures": "100%"},
                    timeout=TIMEOUT,
                )


def add_hook(ports: Ports, receiver: Receiver) -> None:
    """Add a webhook for all events from the first one on."""
    body = {"url": receiver.url, "since": "0"}
    ask = functools.partial(
        requests.post, f"{ports.url(0)}/v1/webhooks", json=body, timeout=TIMEOUT
    )
    answer = until(ask, "the webhook")  # an API says that it listens just before it accepts
    receiver.hook, receiver.secret = answer.json()["uuid"], answer.json()["secret"]
