"""Memory of the service under full load for a long time.

``python -m benchmarks.soak [MINUTES]`` takes nodes through their whole life, again and again, as
fast as the service can: enrolled, read, changed, managed, cleaned, provided, deployed, undeployed
and removed. A line for each sixth of the time has the memory of every process, as the kernel counts
it and as tracemalloc does. What is traced after a sixth must be there at the end, within
`GROWTH`; if it is not, the lines of code that hold the rest are printed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

from benchmarks import figures, harness
from benchmarks.figures import Figure

MINUTES = 3.0
GROWTH = 512.0
"""Most KiB that a process may have more at the end than after a sixth of the time."""
_MARKS = 6
_CLIENTS = 4
_RESIDENTS = 200
_VERSION = "1.95"
_MIB = 2**20
PROBE = '''\
"""Writes the traced memory of each process whenever the benchmark asks for it."""
import gc, json, os, pathlib, sys, threading, time, tracemalloc

FOLDER = pathlib.Path(__file__).parent


def watch():
    done = 0
    while True:
        time.sleep(0.2)
        try:
            wanted = int((FOLDER / "mark").read_text())
        except (OSError, ValueError):
            continue
        if wanted == done:
            continue
        done = wanted
        if not tracemalloc.is_tracing():
            tracemalloc.start()  # what a start allocates stays, and would only cost time
        gc.collect()
        taken = tracemalloc.take_snapshot().filter_traces(
            (tracemalloc.Filter(False, __file__), tracemalloc.Filter(False, tracemalloc.__file__))
        )
        lines = {f"{one.traceback[0].filename}:{one.traceback[0].lineno}": one.size
                 for one in taken.statistics("lineno")}
        file = FOLDER / f"{os.getpid()}-{wanted}"
        file.with_suffix(".new").write_text(json.dumps(lines))
        file.with_suffix(".new").rename(file)


def begin():
    threading.Thread(target=watch, daemon=True).start()


if "ironic_lite.cmd.all" in " ".join(sys.orig_argv):
    os.register_at_fork(after_in_child=begin)
    begin()
'''


class Load:
    """Clients that take nodes through their life until they are stopped."""

    def __init__(self, port: int) -> None:
        self.lives = 0
        self.fault: BaseException | None = None
        self._port = port
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(_CLIENTS)]
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End the clients after the lives under way."""
        self._ending.set()
        for each in self._threads:
            each.join()

    def _run(self) -> None:
        try:
            with harness.Client(self._port) as client:
                while not self._ending.is_set():
                    _live(client)
                    self.lives += 1
        except BaseException as why:
            self.fault = why


def _live(client: harness.Client) -> None:
    """Take one new node through its life."""
    name = str(uuid.uuid4())
    node = f"/v1/nodes/{name}"
    verb = f"{node}/states/provision"
    steps = [{"interface": "bios", "step": "factory_reset"}] * 3
    _send(client, "POST", "/v1/nodes", {"uuid": name, "driver": "fake-hardware"})
    _send(client, "GET", node)
    for target, state, more in (
        ("manage", "manageable", {}),
        ("clean", "manageable", {"clean_steps": steps}),
        ("provide", "available", {}),
        ("active", "active", {}),
        ("deleted", "available", {}),
    ):
        _send(client, "PUT", verb, {"target": target, **more})
        _send(client, "GET", f"{node}?wait=50&until={state}&fields=provision_state")
        stamp = [{"op": "add", "path": "/extra/stamp", "value": name}]
        _send(client, "PATCH", node, stamp)
        _send(client, "GET", f"{node}/history")
        _send(client, "GET", f"{node}/runs")
    _send(client, "GET", f"/v1/lookup?node_uuid={name}")
    _send(client, "GET", "/v1/nodes/detail?limit=50")
    _send(client, "GET", "/v1/events?limit=20")
    _send(client, "DELETE", node)


def _send(client: harness.Client, method: str, path: str, body: Any = None) -> None:
    """Send a request, again while its node is locked.

    :raises RuntimeError: it is refused for another reason.
    """
    sent = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"X-OpenStack-Ironic-API-Version: {_VERSION}\r\n"
    if body is not None:
        head += f"Content-Length: {len(sent)}\r\n"
    for _ in range(500):
        client.send(f"{head}\r\n".encode() + sent)
        status, answer = client.receive()
        if status not in {409, 503}:
            break
        time.sleep(0.02)
    if status >= 400 and not path.startswith("/v1/lookup"):
        raise RuntimeError(f"{method} {path}: {status} {answer[:500]!r}")


@dataclasses.dataclass(frozen=True)
class Sample:
    """Memory of one process: private bytes, and bytes traced since the load began by line."""

    private: int
    lines: Mapping[str, int]

    @property
    def traced(self) -> int:
        """The bytes allocated since the load began and still in use."""
        return sum(self.lines.values())


def sample(service: harness.Service, mark: int) -> list[Sample]:
    """Return the memory of supervisor and children, in the order of their start."""
    (service.folder / "mark.new").write_text(str(mark))
    (service.folder / "mark.new").rename(service.folder / "mark")
    found = []
    for process in sorted(service.family(), key=lambda one: one.create_time()):
        file = service.folder / f"{process.pid}-{mark}"
        harness.wait_until(file.exists, "traced memory")
        private = process.memory_full_info().uss
        found.append(Sample(private, json.loads(file.read_text())))
    return found


def soak(minutes: float) -> tuple[list[list[Sample]], int]:
    """Return the memory at each mark, and how many lives were lived."""
    marks = []
    with harness.folder() as folder:
        opened = harness.database(folder)
        harness.fill(opened, _RESIDENTS)
        opened.close()
        (folder / "sitecustomize.py").write_text(PROBE)
        with harness.service(folder, environment={"PYTHONPATH": os.fspath(folder)}) as service:
            sample(service, 1)
            begin = time.monotonic()
            load = Load(service.port)
            try:
                for mark in range(1, _MARKS + 1):
                    due = begin + mark * minutes * 60 / _MARKS
                    while time.monotonic() < due and load.fault is None:
                        time.sleep(1)
                    if load.fault is not None:
                        raise load.fault
                    marks.append(sample(service, mark + 1))
                    _print_line((time.monotonic() - begin) / 60, load.lives, marks[-1])
            finally:
                load.stop()
    return marks, load.lives


def _print_line(minutes: float, lives: int, samples: list[Sample]) -> None:
    private = "  ".join(f"{one.private / _MIB:6.1f}" for one in samples)
    traced = "  ".join(f"{one.traced / _MIB:6.2f}" for one in samples)
    print(
        f"{minutes:5.1f} min {lives:7} lives   private MiB {private}   traced {traced}", flush=True
    )


def _print_growth(first: Sample, last: Sample) -> None:
    more = {line: size - first.lines.get(line, 0) for line, size in last.lines.items()}
    here = f"{pathlib.Path.cwd()}/"
    for line, size in sorted(more.items(), key=lambda one: -one[1])[:12]:
        print(f"    {size / 1024:8.1f} KiB more of {line.removeprefix(here)}")


def main(minutes: float = MINUTES) -> int:
    """Print the lines and figures; the exit status says whether the memory has stayed."""
    print("the processes: supervisor, then conductor and API in the order of their start")
    marks, lives = soak(minutes)
    rows = [Figure("lives of nodes", lives)]
    for number, (first, last) in enumerate(zip(marks[0], marks[-1], strict=True)):
        more = (last.traced - first.traced) / 1024
        rows.append(Figure(f"growth of process {number}, traced", more, "KiB", GROWTH))
        _print_growth(first, last)
    return figures.report(rows)


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
