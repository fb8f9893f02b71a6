"""All BMCs and agents of a site in one process: ``python -m benchmarks.site.fleet CONFIG``.

It prints ``ready``, and then one line of JSON for each line that it reads: ``phase NUMBER NAME``
begins a phase of a machine without an answer; ``report`` asks for the counts of all machines.
"""

from __future__ import annotations

import asyncio
import collections
import pathlib
import ssl
import sys
from collections.abc import Mapping
from typing import Any

import orjson
import uvloop

from benchmarks.site import agents, bmc, faults, trees
from benchmarks.site.bmc import Machine
from benchmarks.site.wire import Connection, Request

Json = dict[str, Any]


class Fleet:
    """The machines, and what runs on them."""

    def __init__(self, scenario: Json, place: agents.Place) -> None:
        count, given = scenario["machines"], scenario["bmc"]
        found = faults.assign(scenario["faults"], count, scenario["seed"])
        lasting = (given[f"{name}_seconds"] for name in ("slow", "busy", "restart"))
        times = bmc.Times(tuple(given["seconds"]), tuple(given["power_seconds"]), *lasting)
        self._place = place
        self._ramdisks: dict[int, agents.Ramdisk] = {}
        self.machines = [
            Machine(number, trees.load(model), times, self._switch, fault)
            for number, (model, fault) in enumerate(
                zip(trees.mix(scenario["models"], count), found, strict=True)
            )
        ]
        for machine in self.machines:
            machine.identify()

    def _switch(self, machine: Machine, source: str | None) -> None:
        running = self._ramdisks.pop(machine.number, None)
        if running is not None:
            running.stop()
        if source not in {None, "None", "Hdd"}:
            self._ramdisks[machine.number] = agents.Ramdisk(machine, self._place, str(source))

    def connected(self, host: str) -> None:
        """Count a connection to a BMC."""
        self.machines[bmc.number_of(host)].count("bmc connect")

    def receive(self, connection: Connection, request: Request) -> None:
        """Hand a request to the BMC at its address."""
        self.machines[bmc.number_of(connection.host)].receive(connection, request)

    def report(self) -> Json:
        """Return the counts of all healthy machines together, and the facts of each machine."""
        whole: collections.Counter[str] = collections.Counter()
        for machine in self.machines:
            if machine.fault is None:
                whole.update({f"{phase}|{kind}": n for (phase, kind), n in machine.counts.items()})
        each = [
            {
                "fault": one.fault,
                "erasures": one.erasures,
                "sessions": one.sessions,
                "power": one.power,
                "booted": one.booted,
                "notes": one.notes,
            }
            for one in self.machines
        ]
        return {"counts": dict(whole), "machines": each}

    def command(self, line: bytes) -> bytes | None:
        """Carry out a line; return the answer."""
        word, *rest = line.decode().split()
        if word == "phase":
            self.machines[int(rest[0])].phase = rest[1]
            return None
        return orjson.dumps(self.report()) + b"\n"


def tls(scenario: Mapping[str, Any], folder: pathlib.Path) -> ssl.SSLContext | None:
    """Return the context of all BMCs, None for http."""
    kind = scenario["bmc"]["tls"]
    if kind is None:
        return None
    file = folder / "bmc.pem"
    agents.certificate(file, bmc.address(0), key=kind)
    return agents.context(file)


async def serve(config: Json, folder: pathlib.Path) -> None:
    """Serve until the end of the input."""
    scenario, loop = config["scenario"], asyncio.get_running_loop()
    times = agents.Times(
        tuple(scenario["agent"]["boot_seconds"]), tuple(scenario["agent"]["step_seconds"])
    )
    fleet = Fleet(scenario, agents.Place(config["files"], folder, config["agents"], times))
    agents.make_certificates(folder, range(scenario["machines"]))
    await loop.create_server(
        lambda: Connection(fleet.receive, fleet.connected),
        "0.0.0.0",
        config["port"],
        ssl=tls(scenario, folder),
        backlog=4096,
    )
    lines = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", flush=True)
    while line := await lines.readline():
        if answer := fleet.command(line):
            sys.stdout.buffer.write(answer)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1])
    uvloop.run(serve(orjson.loads(place.read_bytes()), place.parent))
