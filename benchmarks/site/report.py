"""Report of a run: ends, CPU by process, requests by kind, percentiles, memory, and the verdict."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import psutil

from benchmarks import harness
from benchmarks.figures import Figure, quantile
from benchmarks.site import faults
from benchmarks.site.drive import Driver
from tests.support.service import API_UP, CONDUCTOR_UP

Json = dict[str, Any]

JUDGED = 1000
"""Machines from which on times and CPU are judged; fewer are over before they mean anything."""
OTHERS = (
    "others: NVIDIA brings 13 500 simulated machines to ready in 3.9 to 5.0 hours, "
    "on three nodes of 96 cores, with BMCs, documents and boot times of its own"
)
MIB = 1024.0**2


class Processes:
    """CPU, memory and threads of the service's processes; an ended one keeps what it had used."""

    def __init__(self, service: harness.Service, log: pathlib.Path) -> None:
        self._service, self._log = service, log
        self._cpu: dict[int, float] = {}
        self._roles: dict[int, str] = {}
        self._read = 0
        self.memory, self.threads = 0.0, 0
        self.look()
        self._start = dict(self._cpu)

    def look(self) -> None:
        """Measure now."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        self._read += text.rfind(b"\n") + 1
        for role, pattern in (("API", API_UP), ("conductors", CONDUCTOR_UP)):
            for found in re.finditer(pattern, text.decode(errors="replace"), re.MULTILINE):
                self._roles[int(found["pid"])] = role
        memory, threads = 0.0, 0
        with contextlib.suppress(psutil.Error):
            for one in self._service.family():
                with contextlib.suppress(psutil.Error):
                    self._cpu[one.pid] = harness.cpu([one]) or self._cpu.get(one.pid, 0.0)
                    memory += one.memory_full_info().pss
                    threads += one.num_threads()
        self.memory, self.threads = max(self.memory, memory), max(self.threads, threads)

    async def watch(self) -> None:
        """Measure each few seconds."""
        while True:
            self.look()
            await asyncio.sleep(2.0)

    def pids(self, role: str) -> list[int]:
        """Return the living processes of a role: a dead one's number may be that of others."""
        living = (one.pid for one in self._service.family())
        return [pid for pid in living if self._roles.get(pid) == role]

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds by role, without those of the start."""
        found: dict[str, float] = collections.defaultdict(float)
        for pid, seconds in self._cpu.items():
            used = seconds - self._start.get(pid, 0.0)
            found[self._roles.get(pid, "supervisor")] += used
        return dict(found)


def wrong_ends(driver: Driver, nodes: Mapping[int, Json], fleet: Json) -> list[str]:
    """Return the nodes whose end is not the expected one, with the difference."""
    found = list(driver.faults)
    for number, machine in enumerate(fleet["machines"]):
        node = nodes.get(number)
        if node is None:
            found.append(f"site-{number}: lost")
            continue
        cause = (node["last_error"] or "") + driver.nodes[number].refused
        about = (node["provision_state"], cause, machine["erasures"])
        wrong = faults.wrong_end(machine["fault"], *about)
        if wrong is None and node["reservation"]:
            wrong = f"still locked by {node['reservation']}"
        if wrong is not None:
            who = f"site-{number} ({machine['fault'] or 'healthy'})"
            found.append(f"{who}: {wrong}; boots {machine['booted']}, {machine['notes']}")
    return found


def by_phase(fleet: Json) -> Iterator[str]:
    """Yield lines with the requests of a healthy machine by phase and kind."""
    healthy = sum(machine["fault"] is None for machine in fleet["machines"]) or 1
    phases: dict[str, list[str]] = collections.defaultdict(list)
    for key, count in sorted(fleet["counts"].items()):
        phase, kind = key.split("|")
        phases[phase].append(f"{kind} {count / healthy:.3g}")
    for phase, kinds in phases.items():
        yield f"    {phase}: {', '.join(kinds)}"


def figures(
    driver: Driver, fleet: Json, processes: Processes, simulator: float, own: float
) -> Iterator[Figure]:
    """Yield the figures; times, CPU and memory have their budgets in a large run only."""
    count = len(driver.nodes)
    judged = count >= JUDGED

    def figure(name: str, value: float, unit: str = "", budget: float | None = None) -> Figure:
        return Figure(name, value, unit, budget if judged else None)

    ended = sorted(node.ended for node in driver.nodes if node.ended is not None)
    if len(ended) > 1:
        begin = min(node.begun for node in driver.nodes)
        minutes = count / driver.scenario["rate"] / 60 + 3
        whole = (ended[-1] - begin) / 60
        yield figure("minutes until all are at their end", whole, "min", minutes)
        tenth = max(2, len(ended) // 10)
        first, last = ended[tenth - 1] - ended[0], ended[-1] - ended[-tenth]
        yield figure("time of the last tenth of the ends, to the first", last / first, "", 1 / 0.9)
    cpu = {role: 1000 * seconds / count for role, seconds in processes.cpu().items()}
    bounds = {"API": 25.0, "conductors": 200.0}
    for role, used in sorted(cpu.items()):
        yield figure(f"CPU a machine: {role}", used, "ms", bounds.get(role))
    yield figure("CPU a machine: simulator", 1000 * simulator / count, "ms", 60)
    yield figure("CPU a machine: driver", 1000 * own / count, "ms")
    every = sum(cpu.values()) + 1000 * (simulator + own) / count
    yield figure("CPU a machine: all, with power sync", every, "ms", 315)
    for kind, bound in (("GET", 20.0), ("PATCH", 30.0), ("verb", 50.0)):
        p99 = 1000 * quantile(driver.seconds[kind], 0.99)
        yield figure(f"{kind} of a node, p99", p99, "ms", bound)
    yield figure("memory of the service, PSS", processes.memory / MIB, "MiB", 1024)
    yield figure("threads of the service", processes.threads, "", 400)
    yield from _exchanges(fleet, judged=judged)


def _exchanges(fleet: Json, *, judged: bool) -> Iterator[Figure]:
    """Yield the figures of connections and refusals, which healthy machines have counted."""
    healthy = sum(machine["fault"] is None for machine in fleet["machines"]) or 1
    kinds: collections.Counter[str] = collections.Counter()
    for key, count in fleet["counts"].items():
        kinds[key.split("|")[1]] += count
    for kind, bound in (("bmc connect", 4.0), ("agent connect", 4.0)):
        name = f"connections to the {kind.split()[0]}, a machine"
        yield Figure(name, kinds[kind] / healthy, "", bound if judged else None)
    for kind in ("api refused heartbeat", "api refused lookup"):
        name = f"{kind.split()[-1]}s refused"
        yield Figure(name, kinds[kind], "", 0 if judged else None)
    yield Figure("polls of a running command, a machine", kinds["agent poll in vain"] / healthy)
    sessions = sum(machine["sessions"] for machine in fleet["machines"])
    yield Figure("sessions open at BMCs at the end", sessions)


def load() -> str:
    """Return the load of this machine, without which no figure means anything."""
    return f"load average {os.getloadavg()[0]:.0f}, {os.cpu_count()} cores"
