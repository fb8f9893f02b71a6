"""Memory of the service under full load for a long time.

``python -m benchmarks.soak [MINUTES]`` takes nodes through their whole life, again and again, as
fast as the service can: enrolled, read, changed, managed, cleaned, provided, deployed, undeployed
and removed. A line for each sixth of the time has the memory of every process, as the kernel counts
it and as tracemalloc does. From the first sixth to the end, traced memory may grow by `GROWTH`. The
lines of code whose memory has grown most are printed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import figures, harness
from benchmarks.figures import Figure, size
from tests.support.service import short_folder

MINUTES = size(3.0, smoke=0.05)
GROWTH = 512.0
"""Largest growth of a process in KiB."""
_MARKS = size(6, smoke=2)
_CLIENTS = 4
_RESIDENTS = size(200, smoke=5)
"""Nodes that stay."""
_VERSION = "1.95"
_MIB = 2**20
PROBE = '''\
"""Writes the traced memory of each process when the file "mark" has a new number."""
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
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(_CLIENTS)]
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Stop the clients after their current lives."""
        self._stopping.set()
        for each in self._threads:
            each.join()

    def _run(self) -> None:
        try:
            with harness.Client(self._port) as client:
                while not self._stopping.is_set():
                    _live(client)
                    self.lives += 1
        except BaseException as error:
            self.fault = error


def _live(client: harness.Client) -> None:
    """Take one new node through its life."""
    name = str(uuid.uuid4())
    node = f"/v1/nodes/{name}"
    verb = f"{node}/states/provision"
    steps = [{"interface": "bios", "step": "factory_reset"}] * 3
    _send(client, "POST", "/v1/nodes", {"uuid": name, "driver": "fake-hardware"})
    _send(client, "GET", node)
    for target, state, arguments in (
        ("manage", "manageable", {}),
        ("clean", "manageable", {"clean_steps": steps}),
        ("provide", "available", {}),
        ("active", "active", {}),
        ("deleted", "available", {}),
    ):
        _send(client, "PUT", verb, {"target": target, **arguments})
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
    request = harness.request(method, path, body, version=_VERSION)
    for _ in range(500):
        client.send(request)
        status, response = client.receive()
        if status not in {409, 503}:
            break
        time.sleep(0.02)
    if status >= 400 and not path.startswith("/v1/lookup"):
        raise RuntimeError(f"{method} {path}: {status} {response[:500]!r}")


@dataclasses.dataclass(frozen=True)
class Sample:
    """Memory of one process in bytes: private, and traced since the load began by line."""

    private: int
    lines: Mapping[str, int]

    @property
    def traced(self) -> int:
        """The bytes allocated since the load began and still in use."""
        return sum(self.lines.values())


@contextlib.contextmanager
def traced_service(folder: pathlib.Path) -> Iterator[harness.Service]:
    """Run the service on the database of a folder, with traced memory for `sample`."""
    (folder / "sitecustomize.py").write_text(PROBE)
    with harness.service(folder, environment={"PYTHONPATH": str(folder)}) as service:
        yield service


def sample(service: harness.Service, mark: int) -> list[Sample]:
    """Return the memory of supervisor and children, in the order of their start.

    :param mark: number of the sample, from 1 on; the first one begins to trace.
    """
    (service.folder / "mark.new").write_text(str(mark))
    (service.folder / "mark.new").rename(service.folder / "mark")
    samples = []
    for process in sorted(service.family(), key=lambda one: one.create_time()):
        file = service.folder / f"{process.pid}-{mark}"
        harness.wait_until(file.exists, "traced memory")
        private = process.memory_full_info().uss
        samples.append(Sample(private, json.loads(file.read_text())))
    return samples


def soak(minutes: float) -> tuple[list[list[Sample]], int]:
    """Return the memory at each mark, and the number of lives."""
    marks = []
    with short_folder() as folder:
        with contextlib.closing(harness.database(folder)) as opened:
            harness.fill(opened, _RESIDENTS)
        with traced_service(folder) as service:
            sample(service, 1)
            begin = time.monotonic()
            load = Load(service.port)
            try:
                for mark in range(1, _MARKS + 1):
                    due = begin + mark * minutes * 60 / _MARKS
                    while time.monotonic() < due and load.fault is None:
                        time.sleep(min(1.0, max(0.0, due - time.monotonic())))
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
    growth = {line: count - first.lines.get(line, 0) for line, count in last.lines.items()}
    folder = f"{pathlib.Path.cwd()}/"
    for line, count in sorted(growth.items(), key=lambda item: -item[1])[:12]:
        print(f"    {count / 1024:8.1f} KiB more of {line.removeprefix(folder)}")


def main(minutes: float = MINUTES) -> int:
    """Measure and print; return the exit status."""
    print("the processes: supervisor, then conductor and API in the order of their start")
    marks, lives = soak(minutes)
    rows = [Figure("lives of nodes", lives)]
    for number, (first, last) in enumerate(zip(marks[0], marks[-1], strict=True)):
        growth = (last.traced - first.traced) / 1024
        rows.append(Figure(f"growth of process {number}, traced", growth, "KiB", GROWTH))
        _print_growth(first, last)
    return figures.report(rows)


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
