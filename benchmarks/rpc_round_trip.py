"""Duration of a call over ``local://``, against a bare ping-pong over a socket.

Run it as ``python -m benchmarks.rpc_round_trip [CALLS]``. Server and client are two processes.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import multiprocessing  # noqa: E402  threads.native() must run before any oslo library is imported
import multiprocessing.connection  # noqa: E402
import pathlib  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

from ironic_lite.core import config, context  # noqa: E402
from ironic_lite.rpc import client, server, transport  # noqa: E402

BUDGET_MS = 0.5
WARM_UP = 200
UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"


class Endpoint:
    """Answers as a conductor does that only looks something up."""

    def get_boot_device(self, context: context.Context, *, node_uuid: str) -> dict[str, Any]:
        """Return what a fake machine returns."""
        return {"boot_device": "pxe", "persistent": False}


def serve_rpc(folder: str, ready: multiprocessing.connection.Connection) -> None:
    """Be the conductor."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    server.Server(transport.build(f"local://{folder}/rpc"), "bench", Endpoint()).start()
    ready.send(True)
    threading.Event().wait()


def serve_bare(folder: str, ready: multiprocessing.connection.Connection) -> None:
    """Send back what comes."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{folder}/bare")
    listening.listen()
    ready.send(True)
    line, _ = listening.accept()
    while data := line.recv(4096):
        line.sendall(data)


def timed(count: int, once: Callable[[], object]) -> list[float]:
    """Return the milliseconds of ``count`` runs of ``once``, sorted."""
    for _ in range(WARM_UP):
        once()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        once()
        times.append((time.perf_counter() - begin) * 1000)
    return sorted(times)


def start(serve: Callable[..., None], folder: str) -> multiprocessing.Process:
    """Start a server process and wait until it listens."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(folder, theirs), daemon=True)
    process.start()
    ours.recv()
    return process


def main(count: int) -> int:
    """Print the figures; the exit status says whether the budget is kept."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    with tempfile.TemporaryDirectory() as folder:
        processes = [start(serve_bare, folder), start(serve_rpc, folder)]
        line = socket.socket(socket.AF_UNIX)
        line.connect(str(pathlib.Path(folder) / "bare"))
        caller = client.Client(transport.build(f"local://{folder}/rpc")).conductor("bench")
        ctxt = context.internal("benchmark")

        def ping() -> None:
            line.sendall(b"x" * 300)
            line.recv(4096)

        bare = timed(count, ping)
        rpc = timed(count, lambda: caller.get_boot_device(ctxt, node_uuid=UUID))
        for process in processes:
            process.kill()
            process.join()
    for name, times in (("bare socket", bare), ("RPC call", rpc)):
        p50, p95 = times[count // 2], times[int(count * 0.95)]
        print(f"{name:12} p50 {p50:.3f} ms   p95 {p95:.3f} ms")
    p50 = rpc[count // 2]
    print(f"ratio        {p50 / bare[count // 2]:.1f}   budget {BUDGET_MS} ms at p50")
    return 0 if p50 <= BUDGET_MS else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000))
