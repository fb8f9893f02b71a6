"""CPU cost of agents' heartbeats across real processes, API and conductor together.

One API is offered a thousand heartbeats a second, whether it keeps up or not: of nodes at rest,
whose heartbeats are only recorded; of nodes in a BMC's step, which no heartbeat ends; and of nodes
whose agent runs a step and is polled over TLS after each heartbeat. Every heartbeat must be
accepted in the end: refused ones are repeated and counted, and each node must have been heard.

The agents are another process. The conductor's cost of polling an agent is also measured separately
and reported beside the total.
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Sequence

import sqlalchemy as sa

from benchmarks import agents, harness, open_loop
from benchmarks.figures import Figure, report
from ironic_lite.core import clock, config
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.client import Client
from tests.support.fake_task import FakeTask
from tests.support.service import ON_THIS_MACHINE

NODES = 500
"""Nodes of each kind."""
ROUNDS = 10
"""Heartbeats of each agent."""
RATE = 1000
"""Heartbeats offered in a second."""
CALM = 50
"""Heartbeats a second that leave time to poll agents on the same processors."""
ASKED = 300
"""Polls of an agent by which their cost is measured."""
IN_TIME = 1.0
"""Seconds."""
URL = "https://192.0.2.1:9999"
TOKEN = "t" * 43
PEM = "-----BEGIN CERTIFICATE-----\n" + "\n".join(["M" * 64] * 10) + "\n-----END CERTIFICATE-----\n"
STEP = {"interface": "deploy", "step": "erase_devices", "priority": 10}
_COMMAND = {"step": "None/0/0", "id": "1", "since": 0.0}  # as the conductor keeps it; long ago


def prepare(opened: Database, uuids: Sequence[str], state: str, *, agent: bool = False) -> None:
    """Give nodes a token, and let them be in ``state``, in the middle of a step.

    :param agent: it is one of the agent's.
    """
    told = {"agent_secret_token": TOKEN, "clean_steps": [STEP], "clean_step_index": 0}
    if agent:
        told["driver_notes"] = {"agent_command": _COMMAND}
    node = models.nodes
    values = {"provision_state": state, "driver_internal_info": told, "clean_step": STEP}
    if agent:
        values["deploy_interface"] = "custom-agent"
    opened.write(
        lambda conn: conn.execute(sa.update(node).where(node.c.uuid.in_(uuids)).values(values))
    )


def beat(uuid: str, url: str = URL, pem: str = PEM) -> bytes:
    """Return the request of one heartbeat."""
    body = {
        "callback_url": url,
        "agent_token": TOKEN,
        "agent_version": "13.0.0",
        "agent_verify_ca": pem,
    }
    return harness.post(f"/v1/heartbeat/{uuid}", body, version="1.68")


def beats(
    service: harness.Service, requests: Sequence[bytes], rate: float = RATE
) -> tuple[float, open_loop.Outcome]:
    """Offer heartbeats; return the CPU milliseconds of each that was taken, and what became of all.

    :param rate: how many in a second.
    """
    begin = service.cpu()
    outcome = open_loop.offer(service.port, requests, rate)
    return (service.cpu() - begin) / len(requests) * 1000, outcome


def unheard(opened: Database, uuids: Sequence[str], since: str) -> int:
    """Return of how many nodes no heartbeat was taken down after a time (naive UTC, ISO 8601)."""
    node = models.nodes.c
    asked = sa.select(node.driver_internal_info).where(node.uuid.in_(uuids))
    found = opened.read(lambda conn: conn.execute(asked).scalars().all())
    return sum(told.get("agent_last_heartbeat", "") < since for told in found)


def question(url: str, pem: str) -> float:
    """Return the CPU milliseconds of one question to an agent about its command."""
    told = base.Agent(url, TOKEN, pem, "13.0.0", clock.now())
    task = FakeTask()
    task.agent = told
    Client(task).result("1")
    begin = time.process_time()
    for _ in range(ASKED):
        Client(task).result("1")
    return (time.process_time() - begin) / ASKED * 1000


def _offered(
    service: harness.Service,
    opened: Database,
    uuids: Sequence[str],
    what: str,
    about: Sequence[str] = (),
) -> tuple[float, list[Figure]]:
    """Offer ``RATE`` heartbeats a second of some nodes; return the CPU of each, and figures."""
    beats(service, [beat(uuid, *about) for uuid in uuids], CALM * 5)  # what is done once is done
    since = clock.now().isoformat()
    rounds = 1 if about else ROUNDS  # to ask all these agents takes its time
    cpu, outcome = beats(service, [beat(uuid, *about) for uuid in uuids] * rounds)
    lost = unheard(opened, uuids, since)
    return cpu, [
        Figure(f"{RATE} offered a second, {what}: taken in a second", outcome.rate),
        Figure(f"... within {IN_TIME:g} s", outcome.within(IN_TIME), "%"),
        Figure("... lag, p50", outcome.lag(0.5), "ms"),
        Figure("... lag, p99", outcome.lag(0.99), "ms"),
        Figure("... refused for now, and sent again", outcome.refused),
        Figure("... nodes never heard", lost, "", 0),
    ]


def main() -> int:
    """Measure and print; return the exit status."""
    with harness.folder() as folder:
        settings = folder / "client.conf"
        settings.write_text(ON_THIS_MACHINE)
        config.CONF([], default_config_files=[str(settings)], default_config_dirs=[])
        opened = harness.database(folder)
        uuids = harness.fill(opened, 3 * NODES)
        rest, wait, busy = (uuids[n * NODES : (n + 1) * NODES] for n in range(3))
        prepare(opened, rest, "available")
        prepare(opened, wait, "clean wait")
        prepare(opened, busy, "clean wait", agent=True)
        found = _measured(folder, opened, rest, wait, busy)
        opened.close()
    return report(found)


def _measured(folder: pathlib.Path, opened: Database, *sorts: Sequence[str]) -> list[Figure]:
    rest, wait, busy = sorts
    with agents.running(folder) as about, harness.service(folder) as service:
        noted, first = _offered(service, opened, rest, "at rest")
        waited, second = _offered(service, opened, wait, "in a step of a BMC's")
        price = question(*about)
        # A process that does little pays more for each thing it does: at one rate both.
        calm, _ = beats(service, [beat(uuid) for uuid in rest], CALM)
        requests = [beat(uuid, *about) for uuid in busy]
        beats(service, requests[:CALM], CALM)
        asked, _ = beats(service, requests, CALM)
        price = (price + question(*about)) / 2
        _, third = _offered(service, opened, busy, "in a step of the agent's", about)
    return [
        Figure("heartbeat of a node at rest: CPU", noted, "ms", 1),
        Figure("... in a step of a BMC's: CPU", waited, "ms", 1),
        Figure(f"... at rest, {CALM} a second: CPU", calm, "ms"),
        Figure("... ... in a step of the agent's, which is asked: CPU", asked, "ms"),
        Figure("... ... ... of that the question, over TLS: CPU", price, "ms"),
        *first,
        *second,
        *third,
    ]


if __name__ == "__main__":
    sys.exit(main())
