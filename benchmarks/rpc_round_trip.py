"""Duration and CPU of a call over each transport, against an echo over a bare socket.

Run it as ``python -m benchmarks.rpc_round_trip [CALLS] [--rabbit]``. Server and client are two
processes. ``--rabbit`` also uses the RabbitMQ of this machine (``make services``). The CPU is that
of both processes. The calls follow each other at once; ``paced`` are calls for which the conductor
works for 10 ms, with 10 ms between them.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import argparse  # noqa: E402  threads.native() must run before any oslo library is imported
import contextlib  # noqa: E402
import multiprocessing  # noqa: E402
import multiprocessing.connection  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import psutil  # noqa: E402

from benchmarks import harness  # noqa: E402
from benchmarks.figures import Figure, quantile, report, size  # noqa: E402
from ironic_lite.core import config, context  # noqa: E402
from ironic_lite.rpc import client, server, transport  # noqa: E402
from tests.support import direct_rpc, rabbit  # noqa: E402
from tests.support.service import short_folder  # noqa: E402

CALLS = size(5000, smoke=20)
BUDGET = 0.5
"""Milliseconds: p50 of local://, and CPU of direct://."""
WARM_UP = 200
HOST = "localhost"
UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
_PAUSE = 0.01
_SLOW = b"slow"
_PACED_SHARE = 10
"""Number of other calls for each paced one."""


class Endpoint:
    """Methods of a conductor without a database or a driver."""

    def get_boot_device(self, context: context.Context, *, node_uuid: str) -> dict[str, Any]:
        """Return the boot device of a fake machine."""
        return {"boot_device": "pxe", "persistent": False}

    def validate_driver_interfaces(
        self, context: context.Context, *, node_uuid: str
    ) -> dict[str, Any]:
        """Return the same after a while."""
        time.sleep(_PAUSE)
        return {"boot_device": "pxe", "persistent": False}


class Figures(NamedTuple):
    """Milliseconds of one call."""

    p50: float
    p95: float
    cpu: float


def serve_rpc(url: str, ready: multiprocessing.connection.Connection) -> None:
    """Serve calls as a conductor."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    server.Server(transport.build(url), HOST, Endpoint()).start()
    ready.send(True)
    threading.Event().wait()


def serve_bare(path: str, ready: multiprocessing.connection.Connection) -> None:
    """Echo each message; after a while if it begins with ``_SLOW``."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    ready.send(True)
    connection, _ = listening.accept()
    while data := connection.recv(4096):
        time.sleep(_PAUSE if data.startswith(_SLOW) else 0)
        connection.sendall(data)


def measure(count: int, server: int, call: Callable[[], object], pause: float = 0) -> Figures:
    """Return the figures of ``count`` calls.

    :param server: process of the server.
    """
    for _ in range(min(WARM_UP, count)):
        call()
    times = []
    processes = [psutil.Process(), psutil.Process(server)]
    before = harness.cpu(processes)
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1000)
        time.sleep(pause)
    cpu = (harness.cpu(processes) - before) * 1000 / count
    return Figures(quantile(times, 0.5), quantile(times, 0.95), cpu)


@contextlib.contextmanager
def started(serve: Callable[..., None], address: str) -> Iterator[int]:
    """Start a server process; gives its number once it listens."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(address, theirs), daemon=True)
    process.start()
    ours.recv()
    try:
        yield process.pid or 0
    finally:
        process.kill()
        process.join()


def bare(folder: pathlib.Path, count: int) -> tuple[Figures, Figures]:
    """Measure the echo, as `calls`."""
    path = str(folder / "bare")
    with started(serve_bare, path) as server, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)

        def echo(begin: bytes) -> None:
            connection.sendall(begin + b"x" * 300)
            connection.recv(4096)

        return (
            measure(count, server, lambda: echo(b"")),
            measure(count // _PACED_SHARE, server, lambda: echo(_SLOW), _PAUSE),
        )


def calls(url: str, count: int) -> tuple[Figures, Figures]:
    """Measure a transport: calls at once, and paced ones."""
    ctxt = context.internal("benchmark")
    with started(serve_rpc, url) as server:
        caller = client.RpcClient(transport.build(url)).conductor(HOST)
        return (
            measure(count, server, lambda: caller.get_boot_device(ctxt, node_uuid=UUID)),
            measure(
                count // _PACED_SHARE,
                server,
                lambda: caller.validate_driver_interfaces(ctxt, node_uuid=UUID),
                _PAUSE,
            ),
        )


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", type=int, nargs="?", default=CALLS)
    parser.add_argument("--rabbit", action="store_true")
    args = parser.parse_args()
    config.CONF([], default_config_files=[], default_config_dirs=[])
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        os.environ.update(direct_rpc.environment(direct_rpc.options(folder)))
        urls = {"local://": f"local://{folder}/rpc", "direct://": direct_rpc.URL}
        if args.rabbit:
            urls["rabbit://"] = stack.enter_context(rabbit.own_url())
        found = {"bare socket": bare(folder, args.calls)}
        found |= {name: calls(url, args.calls) for name, url in urls.items()}
    return report(each for name, pair in found.items() for each in _rows(name, *pair))


def _rows(name: str, plain: Figures, paced: Figures) -> list[Figure]:
    return [
        Figure(f"{name}: p50", plain.p50, "ms", BUDGET if name == "local://" else None),
        Figure("... p95", plain.p95, "ms"),
        Figure("... CPU", plain.cpu, "ms", BUDGET if name == "direct://" else None),
        Figure("... CPU, paced", paced.cpu, "ms"),
    ]


if __name__ == "__main__":
    sys.exit(main())
