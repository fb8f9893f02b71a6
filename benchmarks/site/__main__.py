"""Run a site: ``python -m benchmarks.site [--nodes N] [--scenario FILE] [--database KIND]``.

Simulated machines, a BMC and an agent each, go from POST of their node to available. The service is
real. The exit status is 1 if an end is not the expected one, or a line of the verdict falls short.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import pathlib
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import psutil
import pytest
import sqlalchemy as sa
import uvloop

from benchmarks import harness
from benchmarks.figures import not_measured
from benchmarks.site import report
from benchmarks.site.drive import Driver
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection
from tests.support import database_servers
from tests.support.ports import free_port
from tests.support.service import short_folder

Json = dict[str, Any]
SCENARIOS = pathlib.Path(__file__).parent / "scenarios"
PARTS = ("deploy_kernel", "deploy_ramdisk")
STALL_SECONDS = 10.0
SETTINGS = """\
[DEFAULT]
enabled_hardware_types = redfish
enabled_boot_interfaces = {boot}
enabled_deploy_interfaces = direct
enabled_inspect_interfaces = redfish
isolinux_bin = {folder}/isolinux.bin
ldlinux_c32 = {folder}/ldlinux.c32
[conductor]
file_url_allowed_paths = {folder}
deploy_kernel = file://{folder}/deploy_kernel
deploy_ramdisk = file://{folder}/deploy_ramdisk
sync_power_state_interval = {sync}
[service_catalog]
endpoint_override = http://127.0.0.1:{api}
[deploy]
http_port = {files}
erase_devices_priority = 0
erase_devices_metadata_priority = 10
"""


def options(scenario: Json, folder: pathlib.Path, api: int, files: int, database: str) -> str:
    """Return the configuration of the service."""
    text = SETTINGS.format(
        folder=folder,
        api=api,
        files=files,
        boot=scenario["boot"],
        sync=scenario["sync_power_state_interval"],
    )
    given: dict[str, Mapping[str, object]] = {**scenario["options"]}
    given["database"] = {**given.get("database", {}), "connection": database}
    for group, values in given.items():
        text += f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
    return text


class Simulator:
    """The process of all BMCs and agents."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout

    @classmethod
    async def start(cls, config: Json, folder: pathlib.Path) -> Simulator:
        """Start it; return when it has made its certificates and listens."""
        file = folder / "fleet.json"
        file.write_bytes(orjson.dumps(config))
        command = (sys.executable, "-m", "benchmarks.site.fleet", str(file))
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, limit=1 << 28
        )
        found = cls(process)
        if await found._out.readline() != b"ready\n":
            raise RuntimeError("the simulator did not start")
        return found

    def enter(self, number: int, phase: str) -> None:
        """Begin a phase of a machine."""
        self._in.write(f"phase {number} {phase}\n".encode())

    async def report(self) -> Json:
        """Return the counts of all machines."""
        self._in.write(b"report\n")
        found: Json = orjson.loads(await self._out.readline())
        return found

    def cpu(self) -> float:
        """Return its CPU seconds."""
        return harness.cpu([psutil.Process(self._process.pid)])

    async def stop(self) -> None:
        """End it."""
        self._in.close()
        await self._process.wait()


_ROLES = {"conductor": "conductors", "api": "API"}


async def _kill(processes: report.Processes, pauses: Mapping[str, float], database: str) -> None:
    """Kill a process of a role, or stall the database, again and again."""

    async def kill(name: str, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            if name == "database":
                await asyncio.to_thread(_stall, database)
                continue
            processes.look()
            for pid in processes.pids(_ROLES[name])[:1]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).send_signal(signal.SIGKILL)

    await asyncio.gather(*(kill(name, seconds) for name, seconds in pauses.items()))


def _stall(url: str) -> None:
    """Let no other transaction write to a node for some time; SQLite has one writer."""

    def work(conn: Connection) -> None:
        if conn.dialect.name != "sqlite":
            conn.execute(sa.text("SELECT uuid FROM nodes FOR UPDATE"))
        time.sleep(STALL_SECONDS)

    with contextlib.closing(session.open_database(url)) as opened:
        opened.write(work, once=True)


async def _drive(
    scenario: Json, service: harness.Service, bmcs: int, files: int, database: str
) -> int:
    served = f"http://127.0.0.1:{files}"
    config = {"scenario": scenario, "port": bmcs, "files": served, "agents": free_port()}
    folder = service.folder
    certificates = folder / "machines"
    certificates.mkdir()
    simulator = await Simulator.start(config, certificates)
    processes = report.Processes(service, folder / "log")
    driver = Driver(scenario, ("127.0.0.1", service.port), bmcs, simulator.enter)
    before, own = simulator.cpu(), time.process_time()
    loop = asyncio.get_running_loop()
    beside = [
        loop.create_task(processes.watch()),
        loop.create_task(_kill(processes, scenario["kill"], database)),
    ]
    await driver.run()
    processes.look()
    simulated, own = simulator.cpu() - before, time.process_time() - own
    for task in beside[1:]:
        task.cancel()
    nodes, fleet = await driver.states(), await simulator.report()
    beside[0].cancel()
    await simulator.stop()
    wrong = report.wrong_ends(driver, nodes, fleet)
    found = list(report.figures(driver, fleet, processes, simulated, own))
    return _print(scenario, driver, fleet, wrong, found)


def _print(
    scenario: Json, driver: Driver, fleet: Json, wrong: Sequence[str], found: Sequence[Any]
) -> int:
    print(f"scenario: {orjson.dumps(scenario).decode()}")
    print(report.OTHERS)
    count = len(driver.nodes)
    for figure in found:
        print(figure)
    print("requests of a healthy machine, by phase:", *report.by_phase(fleet), sep="\n")
    print(f"repeated by the driver: {dict(driver.refused)}")
    print(*wrong[:50], sep="\n", end="\n" if wrong else "")
    kept = all(figure.kept for figure in found)
    print(f"verdict: {count - len(wrong)} of {count} ends as expected, ", end="")
    print(f"figures {'kept' if kept else 'NOT kept'}, {report.load()}")
    return 0 if kept and not wrong else 1


@contextlib.contextmanager
def _database(kind: str, folder: pathlib.Path) -> Iterator[str]:
    """Give the URL of an empty database."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/ironic-lite.sqlite"
        return
    with database_servers.own_database(kind, "site") as url:
        yield url


def run(scenario: Json, database: str) -> int:
    """Run a scenario and print its report; return the exit status."""
    with short_folder() as folder, _database(database, folder) as url:
        folder.chmod(0o755)
        for name in (*PARTS, "isolinux.bin", "ldlinux.c32"):
            (folder / name).write_bytes(name.encode() * 1000)
        api, files, bmcs = free_port(), free_port(), free_port()
        text = options(scenario, folder, api, files, url)
        with harness.service(folder, text, port=api) as service:
            status: int = uvloop.run(_drive(scenario, service, bmcs, files, url))
        if status:
            print(f"end of the service's log:\n{(folder / 'log').read_text()[-3000:]}")
        return status


def load(file: pathlib.Path, machines: int | None) -> Json:
    """Return a scenario: the default one, with the values of a file."""
    given = orjson.loads((SCENARIOS / "default.json").read_bytes())
    for key, value in orjson.loads(file.read_bytes()).items():
        both = isinstance(value, dict) and isinstance(given.get(key), dict)
        given[key] = {**given[key], **value} if both and key not in {"faults", "kill"} else value
    scenario: Json = given
    return {**scenario, "machines": machines or scenario["machines"]}


def main() -> int:
    """Run and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, help="machines, instead of the scenario's")
    parser.add_argument("--scenario", default="default", help="a file, or a name in scenarios/")
    parser.add_argument("--database", default="sqlite", choices=database_servers.KINDS)
    asked = parser.parse_args()
    named = SCENARIOS / f"{asked.scenario}.json"
    file = named if named.exists() else pathlib.Path(asked.scenario)
    try:
        return run(load(file, asked.nodes), asked.database)
    except pytest.skip.Exception as error:  # no such database server
        return not_measured(error)


if __name__ == "__main__":
    sys.exit(main())
