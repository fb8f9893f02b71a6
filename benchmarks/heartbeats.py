"""What a heartbeat of a ramdisk's agent costs, across real processes: API and conductor together.

The agents of 500 nodes send one heartbeat each per round over connections that stay open, as fast
as they are answered. Half of the nodes rest, so that a heartbeat is only taken down; half wait in
the middle of a step, so that a worker looks after each of them. Every one must be taken: what is
refused because its node is busy is sent again, and counted.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Sequence

import sqlalchemy as sa

from benchmarks import stage
from benchmarks.figures import Figure, report
from ironic_lite.db import models
from ironic_lite.db.session import Database

NODES = 500
ROUNDS = 5
CONNECTIONS = 8
TOKEN = "t" * 43
PEM = "-----BEGIN CERTIFICATE-----\n" + "\n".join(["M" * 64] * 10) + "\n-----END CERTIFICATE-----\n"
STEP = {"interface": "deploy", "step": "erase_devices", "priority": 10}


def prepare(opened: Database, uuids: Sequence[str], state: str) -> None:
    """Give nodes a token, and let them be in ``state``, in the middle of a step."""
    told = {"agent_secret_token": TOKEN, "clean_steps": [STEP], "clean_step_index": 0}
    node = models.nodes
    values = {"provision_state": state, "driver_internal_info": told, "clean_step": STEP}
    opened.write(
        lambda conn: conn.execute(sa.update(node).where(node.c.uuid.in_(uuids)).values(values))
    )


def beat(uuid: str) -> bytes:
    """Return the request of one heartbeat."""
    body = {
        "callback_url": f"https://192.0.2.{int(uuid[:2], 16) % 250 + 1}:9999",
        "agent_token": TOKEN,
        "agent_version": "13.0.0",
        "agent_verify_ca": PEM,
    }
    return stage.post(f"/v1/heartbeat/{uuid}", body, version="1.68")


def beats(service: stage.Service, uuids: Sequence[str]) -> tuple[float, float, int]:
    """Send a heartbeat of each node; return CPU milliseconds of each, how many a second, and how
    many had to be sent again.
    """
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(stage.Client(service.port)) for _ in range(CONNECTIONS)]
        return _beats(service, uuids, clients)


def _beats(
    service: stage.Service, uuids: Sequence[str], clients: Sequence[stage.Client]
) -> tuple[float, float, int]:
    left, again = list(uuids), 0
    begin, cpu = time.perf_counter(), service.cpu()
    while left:
        some, left = left[: len(clients)], left[len(clients) :]
        for client, uuid in zip(clients, some, strict=False):
            client.send(beat(uuid))
        for client, uuid in zip(clients, some, strict=False):
            status, body = client.receive()
            if status in (409, 503):
                left.append(uuid)
                again += 1
            elif status != 202:
                raise RuntimeError(f"status {status}: {body[:500]!r}")
    taken = time.perf_counter() - begin
    spent = (service.cpu() - cpu) / len(uuids) * 1000
    return spent, len(uuids) / taken, again


def main() -> int:
    """Measure and print; return the exit status."""
    with stage.folder() as folder:
        opened = stage.database(folder)
        uuids = stage.fill(opened, NODES)
        rest, wait = uuids[: NODES // 2], uuids[NODES // 2 :]
        prepare(opened, rest, "available")
        prepare(opened, wait, "clean wait")
        with stage.service(folder) as service:
            beats(service, uuids)
            noted = [beats(service, rest) for _ in range(ROUNDS)]
            acted = [beats(service, wait) for _ in range(ROUNDS)]
        opened.close()
    return report(
        [
            Figure("heartbeat of a node at rest: CPU", _median(noted, 0), "ms", 1),
            Figure("... of one that waits in a step: CPU", _median(acted, 0), "ms", 1.5),
            Figure("heartbeats at rest a second", _median(noted, 1)),
            Figure("... in a step a second", _median(acted, 1)),
            Figure("sent again, of all", sum(one[2] for one in (*noted, *acted))),
        ]
    )


def _median(found: Sequence[tuple[float, float, int]], place: int) -> float:
    return statistics.median(one[place] for one in found)


if __name__ == "__main__":
    sys.exit(main())
