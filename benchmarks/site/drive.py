"""Operator of a site: takes machines from POST to available, at a rate, whatever the service does.

Nothing is polled: the driver follows the stream of events from its last cursor. A request that is
refused with 409 or 503 is sent again after a second, as clients do.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import http
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from benchmarks.site import bmc, trees
from benchmarks.site.wire import Client, Reply

Json = dict[str, Any]

REFUSALS = (http.HTTPStatus.CONFLICT, http.HTTPStatus.SERVICE_UNAVAILABLE)
_RETRY_SECONDS = 1.0
_VERBS = {"manage": "inspect", "inspect": "provide"}
"""The verb that follows when a node is manageable again."""
ENDS = frozenset({"available", "clean failed", "inspect failed", "enroll"})
FIELDS = "uuid,name,provision_state,last_error,reservation,maintenance"


@dataclasses.dataclass
class Node:
    """The node of a machine: the verb under way, its end, and why its agent was refused."""

    number: int
    uuid: str = ""
    verb: str = "manage"
    begun: float = 0.0
    refused: str = ""
    ended: float | None = None


class Driver:
    """The requests of one run.

    :param enter: called with the number of a machine and its phase, before the phase begins.
    """

    def __init__(
        self, scenario: Json, api: tuple[str, int], bmcs: int, enter: Callable[[int, str], None]
    ) -> None:
        self.scenario = scenario
        self.nodes = [Node(number) for number in range(scenario["machines"])]
        self.seconds: dict[str, list[float]] = collections.defaultdict(list)
        self.refused: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []
        self._client = Client(*api)
        self._bmcs, self._enter = bmcs, enter
        self._models = list(trees.mix(scenario["models"], len(self.nodes)))
        self._tasks: set[asyncio.Task[None]] = set()

    # -- requests -----------------------------------------------------------------------------

    async def _ask(self, kind: str, method: str, target: str, body: object = None) -> Reply:
        """Send a request until it is accepted; the time of the accepted one counts."""
        while True:
            begin = time.monotonic()
            try:
                found = await self._client.ask(method, target, body)
            except OSError as why:
                self.refused[type(why).__name__] += 1
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if found.status not in REFUSALS:
                self.seconds[kind].append(time.monotonic() - begin)
                return found
            self.refused[f"{kind} {found.status}"] += 1
            if kind in {"node", "port"} and found.status == http.HTTPStatus.CONFLICT:
                return found  # an earlier try of it has arrived
            await asyncio.sleep(_RETRY_SECONDS)

    def _body(self, number: int) -> Json:
        scheme = "https" if self.scenario["bmc"]["tls"] else "http"
        tree = trees.load(self._models[number])
        return {
            "name": f"site-{number}",
            "driver": "redfish",
            "driver_info": {
                "redfish_address": f"{scheme}://{bmc.address(number)}:{self._bmcs}",
                "redfish_system_id": tree.system,
                "redfish_username": bmc.USER,
                "redfish_password": bmc.PASSWORD,
                "redfish_verify_ca": False,
            },
            "properties": {"capabilities": f"boot_mode:{self.scenario['boot_mode']}"},
        }

    async def _enroll(self, node: Node) -> None:
        self._enter(node.number, "manage")
        node.begun = time.monotonic()
        await self._ask("node", "POST", "/v1/nodes", self._body(node.number))
        shown = await self._ask("GET", "GET", f"/v1/nodes/site-{node.number}?fields=uuid")
        node.uuid = orjson.loads(shown.body)["uuid"]
        card = bmc.Machine(node.number, trees.load(self._models[node.number]), bmc.Times()).macs[0]
        await self._ask("port", "POST", "/v1/ports", {"node_uuid": node.uuid, "address": card})
        await self._send(node)

    async def _send(self, node: Node) -> None:
        """Send the verb of a node."""
        target = f"/v1/nodes/{node.uuid}/states/provision"
        found = await self._ask("verb", "PUT", target, {"target": node.verb})
        if found.status != http.HTTPStatus.ACCEPTED:
            self.faults.append(
                f"site-{node.number} {node.verb}: {found.status} {found.body!r:.300}"
            )
            node.ended = time.monotonic()

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (why := task.exception()) is not None:
            self.faults.append(f"the driver failed: {type(why).__name__}: {why}")

    # -- events -------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Follow the events of all nodes; a stream that ends goes on from its last cursor."""
        cursor = "0"
        while True:
            target = f"/v1/events?follow=true&kind=provision,agent_refused&since={cursor}"
            with contextlib.suppress(OSError):
                async for line in self._client.lines(target):
                    event = orjson.loads(line)
                    cursor = event.get("cursor", cursor)
                    if "kind" in event:
                        self._move(event)
                continue
            await asyncio.sleep(_RETRY_SECONDS)

    def _move(self, event: Mapping[str, Any]) -> None:
        """Go on with the node of an event."""
        name, state = str(event.get("name")), event.get("after")
        if not name.startswith("site-"):
            return
        node = self.nodes[int(name.removeprefix("site-"))]
        if event["kind"] == "agent_refused":
            node.refused = f" | refused: {event['data']['reason']}"
            return
        if node.ended is not None or event.get("before") in (None, "enroll", state):
            return
        if state == "manageable" and node.verb in _VERBS:
            node.verb = _VERBS[node.verb]
            self._enter(node.number, node.verb)
            self._start(self._send(node))
        elif state in ENDS:
            node.ended = time.monotonic()

    # -- the run ------------------------------------------------------------------------------

    async def _arrive(self) -> None:
        """Let the machines arrive at the rate of the scenario."""
        begin = time.monotonic()
        for node in self.nodes:
            due = begin + node.number / self.scenario["rate"]
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._start(self._enroll(node))

    async def _sample(self) -> None:
        """Read and change a node each second, as other clients do."""
        while True:
            await asyncio.sleep(1.0)
            known = [node for node in self.nodes if node.uuid]
            if not known:
                continue
            path = f"/v1/nodes/{random.choice(known).uuid}"
            await self._ask("GET", "GET", path)
            patch = [{"op": "add", "path": "/extra/sampled", "value": time.time()}]
            await self._ask("PATCH", "PATCH", path, patch)

    async def run(self) -> None:
        """Return when each node is at its end, or the time of the scenario is over."""
        self._start(self._follow())
        self._start(self._sample())
        self._start(self._arrive())
        end = time.monotonic() + self.scenario["limit_seconds"]
        while time.monotonic() < end and any(node.ended is None for node in self.nodes):
            await asyncio.sleep(0.2)
        for task in list(self._tasks):
            task.cancel()

    async def states(self) -> dict[int, Json]:
        """Return the nodes at rest, by number; wait until no lock is left, at most a minute."""
        end = time.monotonic() + 60
        while True:
            found: dict[int, Json] = {}
            marker = ""
            while page := await self._page(marker):
                found |= {int(one["name"].removeprefix("site-")): one for one in page}
                marker = f"&marker={page[-1]['uuid']}"
            if time.monotonic() > end or not any(one["reservation"] for one in found.values()):
                return found
            await asyncio.sleep(1.0)

    async def _page(self, marker: str) -> list[Json]:
        target = f"/v1/nodes?fields={FIELDS}&limit=1000{marker}"
        found = await self._ask("list", "GET", target)
        page: list[Json] = orjson.loads(found.body)["nodes"]
        return page
