"""The clean of a whole fleet among faults: by one batch, and then by one request for each node."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping

import requests

from ironic_lite import errors
from tests.chaos.faults import World
from tests.chaos.load import CLEAN, TIMEOUT, Json
from tests.chaos.records import History, Request
from tests.chaos.watch import EVERY

CONCURRENCY = 150
"""Nodes under way at once."""
STEP_SECONDS = 5.0
"""The length of a step; there are three. A batch starts nodes 0.2 seconds after the end of others,
so a script that cleans nodes of less than a second would always be faster."""
SENDERS = 8
_PAUSE = 0.5
_LATER = (None, 409, 503)
"""Answers after which a request is repeated with its key."""


class WholeFleet:
    """Cleans all nodes twice.

    :ivar requests: all single requests, and what came of them.
    :ivar seconds: how long each of the two took.
    """

    def __init__(self, world: World, limit: float) -> None:
        self.requests: list[Request] = []
        self.seconds: dict[str, float] = {}
        self._world = world
        self._end = time.monotonic() + limit
        self._guard = threading.Lock()

    def clean(self) -> None:
        """Clean all nodes by a batch, and all again by requests; return early at the limit."""
        for name, work in (("batch", self._by_batch), ("requests", self._by_requests)):
            begun = time.monotonic()
            work()
            self.seconds[name] = time.monotonic() - begun

    def _until(self, done: Callable[[], bool]) -> None:
        while time.monotonic() < self._end:
            with contextlib.suppress(errors.Error):  # the database is away
                if done():
                    return
            time.sleep(EVERY)

    def _by_batch(self) -> None:
        nodes = list(self._world.watch.look.rows)
        body: Json = {
            "nodes": nodes,
            "request": {"target": "clean", **CLEAN},
            "concurrency": CONCURRENCY,
            "max_failures": "100%",
        }
        with contextlib.closing(requests.Session()) as session:
            session.trust_env = False
            self._send(session, ("POST", "/v1/batches", body), "batch", "-")
        self._until(lambda: any(one.ended for one in self._world.watch.batches()))

    def _by_requests(self) -> None:
        """Send a request when fewer than `CONCURRENCY` nodes are under way, as a script would."""
        nodes: queue.SimpleQueue[str] = queue.SimpleQueue()
        for node in self._world.watch.look.rows:
            nodes.put(node)
        places = threading.Semaphore(CONCURRENCY)
        sent: dict[str, float] = {}
        senders = [
            threading.Thread(target=self._sender, args=(nodes, places, sent), daemon=True)
            for _ in range(SENDERS)
        ]
        for one in senders:
            one.start()
        self._until(lambda: self._free(places, sent) and not any(map(_alive, senders)))

    def _free(self, places: threading.Semaphore, sent: dict[str, float]) -> bool:
        """Give back the places of nodes whose clean is over; return whether none is under way."""
        look = self._world.watch.look
        with self._guard:
            for node, at in list(sent.items()):
                if at < look.at and look.rows[node]["run_uuid"] is None:
                    del sent[node]
                    places.release()
            return not sent

    def _sender(
        self,
        nodes: queue.SimpleQueue[str],
        places: threading.Semaphore,
        sent: dict[str, float],
    ) -> None:
        with contextlib.closing(requests.Session()) as session:
            session.trust_env = False
            while time.monotonic() < self._end:
                places.acquire()
                try:
                    node = nodes.get_nowait()
                except queue.Empty:
                    places.release()
                    return
                path = f"/v1/nodes/{node}/states/provision"
                self._send(session, ("PUT", path, {"target": "clean", **CLEAN}), "clean", node)
                with self._guard:
                    sent[node] = time.monotonic()

    def _send(
        self, session: requests.Session, how: tuple[str, str, Json], what: str, node: str
    ) -> None:
        """Send a request until it is accepted or refused; a key makes the repetition safe."""
        key = f'"{uuid.uuid4()}"'
        headers = {"Idempotency-Key": key}
        ports = self._world.ports
        for number in range(1000):
            begin, status, asked, text = time.monotonic(), None, None, ""
            try:
                url = ports.url(ports.alive(number))
                answer = session.request(
                    how[0], f"{url}{how[1]}", json=how[2], headers=headers, timeout=TIMEOUT
                )
                status, asked = answer.status_code, answer.headers.get("X-OpenStack-Request-Id")
                text = "" if answer.ok else answer.text
            except (OSError, requests.RequestException) as why:
                text = type(why).__name__
            with self._guard:
                self.requests.append(
                    Request(node, what, begin, time.monotonic(), status, asked, text=text, key=key)
                )
            if status not in _LATER or time.monotonic() > self._end:
                return
            time.sleep(_PAUSE)


def _alive(thread: threading.Thread) -> bool:
    return thread.is_alive()


def lines(seconds: Mapping[str, float], history: History) -> list[str]:
    """Return the paces for people."""
    done = {run.uuid for run in history.runs if run.state == "done"}
    by_batch = {one.run for one in history.members} & done
    counts = {"batch": len(by_batch), "requests": len(done - by_batch)}
    paces = {name: counts[name] / took for name, took in seconds.items()}
    found = [
        f"  by {name:<8} {counts[name]} runs done in {seconds[name]:.0f} s, {pace:.1f} in a second"
        for name, pace in paces.items()
    ]
    if paces.get("requests"):
        found.append(
            f"  the batch has {100 * paces['batch'] / paces['requests']:.0f} % of the pace"
        )
    return found
