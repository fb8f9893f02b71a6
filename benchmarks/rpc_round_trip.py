"""Duration and CPU of a call over each transport, against a bare ping-pong over a socket.

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
import tempfile  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import psutil  # noqa: E402

from ironic_lite.core import config, context  # noqa: E402
from ironic_lite.rpc import client, server, transport  # noqa: E402
from tests.support import direct_rpc, rabbit  # noqa: E402

BUDGET_MS = 0.5
"""For local:// at p50, and for direct:// of CPU."""
WARM_UP = 200
HOST = "localhost"
UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
_PAUSE = 0.01
_SLOW = b"slow"
_PACED_SHARE = 10
"""One paced call for each so many others."""


class Endpoint:
    """Answers as a conductor does that only looks something up."""

    def get_boot_device(self, context: context.Context, *, node_uuid: str) -> dict[str, Any]:
        """Return what a fake machine returns."""
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
    """Be the conductor."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    server.Server(transport.build(url), HOST, Endpoint()).start()
    ready.send(True)
    threading.Event().wait()


def serve_bare(path: str, ready: multiprocessing.connection.Connection) -> None:
    """Send back what comes; after a while if it begins with ``_SLOW``."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    ready.send(True)
    line, _ = listening.accept()
    while data := line.recv(4096):
        time.sleep(_PAUSE if data.startswith(_SLOW) else 0)
        line.sendall(data)


def measured(count: int, serving: int, once: Callable[[], object], pause: float = 0) -> Figures:
    """Return the figures of ``count`` runs of ``once``.

    :param serving: the process that answers.
    """
    for _ in range(min(WARM_UP, count)):
        once()
    times = []
    before = _cpu(serving)
    for _ in range(count):
        begin = time.perf_counter()
        once()
        times.append((time.perf_counter() - begin) * 1000)
        time.sleep(pause)
    cpu = (_cpu(serving) - before) * 1000 / count
    times.sort()
    return Figures(times[count // 2], times[int(count * 0.95)], cpu)


def _cpu(serving: int) -> float:
    """Return the CPU seconds of this process and the one that answers."""
    times = [psutil.Process(pid).cpu_times() for pid in (os.getpid(), serving)]
    return float(sum(each.user + each.system for each in times))


@contextlib.contextmanager
def started(serve: Callable[..., None], place: str) -> Iterator[int]:
    """Start a server process, wait until it listens, and return its number."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(place, theirs), daemon=True)
    process.start()
    ours.recv()
    try:
        yield process.pid or 0
    finally:
        process.kill()
        process.join()


def bare(folder: str, count: int) -> tuple[Figures, Figures]:
    """Measure the ping-pong, as `calls`."""
    path = str(pathlib.Path(folder) / "bare")
    with started(serve_bare, path) as serving, socket.socket(socket.AF_UNIX) as line:
        line.connect(path)

        def ping(begin: bytes) -> None:
            line.sendall(begin + b"x" * 300)
            line.recv(4096)

        return (
            measured(count, serving, lambda: ping(b"")),
            measured(count // _PACED_SHARE, serving, lambda: ping(_SLOW), _PAUSE),
        )


def calls(url: str, count: int) -> tuple[Figures, Figures]:
    """Measure a transport: calls at once, and paced ones."""
    ctxt = context.internal("benchmark")
    with started(serve_rpc, url) as serving:
        caller = client.Client(transport.build(url)).conductor(HOST)
        return (
            measured(count, serving, lambda: caller.get_boot_device(ctxt, node_uuid=UUID)),
            measured(
                count // _PACED_SHARE,
                serving,
                lambda: caller.validate_driver_interfaces(ctxt, node_uuid=UUID),
                _PAUSE,
            ),
        )


def main() -> int:
    """Print the figures; the exit status says whether the budgets are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", type=int, nargs="?", default=5000)
    parser.add_argument("--rabbit", action="store_true")
    args = parser.parse_args()
    config.CONF([], default_config_files=[], default_config_dirs=[])
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ.update(direct_rpc.environment(direct_rpc.options(pathlib.Path(folder))))
        urls = {"local": f"local://{folder}/rpc", "direct": direct_rpc.URL}
        if args.rabbit:
            urls["rabbit"] = stack.enter_context(rabbit.own_url())
        found = {"bare socket": bare(folder, args.calls)}
        found |= {name: calls(url, args.calls) for name, url in urls.items()}
    print(f"{'':14}{'p50 ms':>8}{'p95 ms':>8}{'CPU ms':>8}{'CPU ms, paced':>15}")
    for name, (quick, paced) in found.items():
        print(f"{name:14}{quick.p50:8.3f}{quick.p95:8.3f}{quick.cpu:8.3f}{paced.cpu:15.3f}")
    local, direct = found["local"][0], found["direct"][0]
    print(f"budgets: local p50 {BUDGET_MS} ms, direct CPU {BUDGET_MS} ms")
    return 0 if local.p50 <= BUDGET_MS and direct.cpu <= BUDGET_MS else 1


if __name__ == "__main__":
    sys.exit(main())
