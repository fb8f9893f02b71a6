"""CPU cost of agents' heartbeats across real processes, API and conductor together.

One API receives a thousand heartbeats a second, even if it is slower: of nodes at rest, whose
heartbeats are only recorded; of nodes in a step of the BMC, which no heartbeat ends; and of nodes
whose agent runs a step and is polled over TLS after each heartbeat. A refused heartbeat is sent
again, and every node must have an accepted one at the end.

The agents are another process. The conductor's cost of polling an agent is also measured by itself
and reported beside the total.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from collections.abc import Sequence

import sqlalchemy as sa

from benchmarks import agents, harness, open_loop
from benchmarks.figures import Figure, report, size
from ironic_lite.core import clock, config
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from ironic_lite.domain import waiting
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.client import AgentClient
from tests.support.fake_task import FakeTask
from tests.support.service import ON_THIS_MACHINE, short_folder

NODES = size(500, smoke=10)
"""Nodes of each kind."""
ROUNDS = size(10, smoke=1)
"""Heartbeats of each agent."""
RATE = 1000
"""Heartbeats sent in a second."""
LOW_RATE = 50
"""Heartbeats a second that leave time to poll agents on the same processors."""
POLLS = size(300, smoke=5)
"""Polls of an agent by which their cost is measured."""
URL = "https://192.0.2.1:9999"
TOKEN = "t" * 43
PEM = "-----BEGIN CERTIFICATE-----\n" + "\n".join(["M" * 64] * 10) + "\n-----END CERTIFICATE-----\n"
STEP = {"interface": "deploy", "step": "erase_devices", "priority": 10}
VERSION = "1.68"
HEADERS = {"X-OpenStack-Ironic-API-Version": VERSION}
_COMMAND = {"step": "None/0/0", "id": "1", "since": 0.0}  # as the conductor keeps it; long ago


def prepare(opened: Database, uuids: Sequence[str], state: str, *, agent: bool = False) -> None:
    """Move nodes to a state, in the middle of a step, and give them a token.

    :param agent: the step is one of the agent.
    """
    info = {"agent_secret_token": TOKEN, "clean_steps": [STEP], "clean_step_index": 0}
    if agent:
        info["driver_notes"] = {"agent_command": _COMMAND}
    node = models.nodes
    values = {"provision_state": state, "driver_internal_info": info, "clean_step": STEP}
    if agent:
        values["deploy_interface"] = "custom-agent"
    opened.write(
        lambda conn: conn.execute(sa.update(node).where(node.c.uuid.in_(uuids)).values(values))
    )


def body(url: str = URL, pem: str = PEM) -> dict[str, str]:
    """Return the body of a heartbeat."""
    return {
        "callback_url": url,
        "agent_token": TOKEN,
        "agent_version": "13.0.0",
        "agent_verify_ca": pem,
    }


def heartbeat(uuid: str, url: str = URL, pem: str = PEM) -> bytes:
    """Return the request of a heartbeat."""
    path = f"/v1/heartbeat/{uuid}"
    return harness.request("POST", path, body(url, pem), version=VERSION)


def send(
    service: harness.Service, requests: Sequence[bytes], rate: float = RATE
) -> tuple[float, open_loop.Outcome]:
    """Send heartbeats at a rate until each is accepted; return the CPU milliseconds of each.

    :param rate: requests in a second.
    """
    begin = service.cpu()
    outcome = open_loop.send(service.port, requests, rate)
    return (service.cpu() - begin) / len(requests) * 1000, outcome


def not_received(opened: Database, uuids: Sequence[str], since: datetime.datetime) -> int:
    """Return the number of nodes without a recorded heartbeat since a time, naive UTC."""
    node = models.nodes.c
    query = sa.select(node.driver_internal_info, node.agent_heard_at).where(node.uuid.in_(uuids))
    found = opened.read(lambda conn: conn.execute(query).all())
    times = [waiting.last_heartbeat(*row) for row in found]
    return sum(at is None or at < since for at in times)


def poll_cost(url: str, pem: str) -> float:
    """Return the CPU milliseconds of polling an agent for the status of its command."""
    task = FakeTask()
    task.agent = base.Agent(url, TOKEN, pem, "13.0.0", clock.now())
    AgentClient(task).result("1")
    begin = time.process_time()
    for _ in range(POLLS):
        AgentClient(task).result("1")
    return (time.process_time() - begin) / POLLS * 1000


def _measure(
    service: harness.Service,
    opened: Database,
    uuids: Sequence[str],
    name: str,
    agent: Sequence[str] = (),
) -> tuple[float, list[Figure]]:
    """Send ``RATE`` heartbeats a second of some nodes; return the CPU of each, and figures.

    :param agent: URL and certificate of the agents, which are polled.
    """
    requests = [heartbeat(uuid, *agent) for uuid in uuids]
    send(service, requests, LOW_RATE * 5)  # the first one of a node costs more
    since = clock.now()
    rounds = 1 if agent else ROUNDS  # polls take long
    cpu, outcome = send(service, requests * rounds)
    missing = not_received(opened, uuids, since)
    return cpu, [
        Figure(f"{RATE} sent a second, {name}: accepted in a second", outcome.rate),
        Figure("... within 1 s", outcome.within(1.0), "%"),
        Figure("... lag, p50", outcome.lag(0.5), "ms"),
        Figure("... lag, p99", outcome.lag(0.99), "ms"),
        Figure("... refused, and sent again", outcome.refused),
        Figure("... nodes without an accepted heartbeat", missing, "", 0),
    ]


def main() -> int:
    """Measure and print; return the exit status."""
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        settings = folder / "client.conf"
        settings.write_text(ON_THIS_MACHINE)
        config.CONF([], default_config_files=[str(settings)], default_config_dirs=[])
        uuids = harness.fill(opened, 3 * NODES)
        rest, step, polled = (uuids[n * NODES : (n + 1) * NODES] for n in range(3))
        prepare(opened, rest, "available")
        prepare(opened, step, "clean wait")
        prepare(opened, polled, "clean wait", agent=True)
        with agents.running(folder) as agent, harness.service(folder) as service:
            return report(_figures(service, opened, (rest, step, polled), agent))


def _figures(
    service: harness.Service,
    opened: Database,
    nodes: tuple[Sequence[str], Sequence[str], Sequence[str]],
    agent: tuple[str, str],
) -> list[Figure]:
    rest, step, polled = nodes
    rest_cpu, rest_figures = _measure(service, opened, rest, "at rest")
    step_cpu, step_figures = _measure(service, opened, step, "in a step of the BMC")
    cost = poll_cost(*agent)
    # Each action costs more in a process that does little, so both have the same rate.
    low_cpu, _ = send(service, [heartbeat(uuid) for uuid in rest], LOW_RATE)
    requests = [heartbeat(uuid, *agent) for uuid in polled]
    send(service, requests[:LOW_RATE], LOW_RATE)
    polled_cpu, _ = send(service, requests, LOW_RATE)
    cost = (cost + poll_cost(*agent)) / 2
    _, polled_figures = _measure(service, opened, polled, "agent polled", agent)
    return [
        Figure("heartbeat of a node at rest: CPU", rest_cpu, "ms", 1),
        Figure("... in a step of the BMC: CPU", step_cpu, "ms", 1),
        Figure(f"... at rest, {LOW_RATE} a second: CPU", low_cpu, "ms"),
        Figure("... ... in a step of the agent, which is polled: CPU", polled_cpu, "ms"),
        Figure("... ... ... poll over TLS: CPU", cost, "ms"),
        *rest_figures,
        *step_figures,
        *polled_figures,
    ]


if __name__ == "__main__":
    sys.exit(main())
