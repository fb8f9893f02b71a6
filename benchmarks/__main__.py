"""Run benchmarks, each in a process of its own: ``python -m benchmarks [SUBJECT ...]``.

A subject is a module of this folder whose ``main()`` prints its figures and returns 0 if every
budget holds. The exit status is 0 if all of them do.

With ``IRONIC_LITE_BENCH_SMOKE=1``, sizes are small and no budget is judged: a smoke run only shows
that every benchmark works, including those that are not part of a full run.
"""

from __future__ import annotations

import importlib
import multiprocessing
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.figures import SMOKE
from ironic_lite.core import threads

SUBJECTS = {
    "get_node": "GET one node",
    "http_server": "requests through the HTTP server, and slow clients",
    "lists": "lists of 1000 nodes",
    "batches": "a batch of 10 000 nodes",
    "statements": "SQL statements",
    "clean": "verbs and cleaning, across real processes",
    "callers": "verbs and GETs beside 200 nodes at work",
    "heartbeats": "heartbeats of agents, across real processes",
    "many_clients": "10 000 clients at once",
    "waiting": "2 000 nodes that wait for their agents",
    "watch": "clients that wait and follow",
    "watch_apis": "clients that wait and follow at two APIs on PostgreSQL",
    "window": "the window in a browser, with 10 000 nodes",
    "provision": "a machine from its enrolment to its instance, by a real agent",
    "retry": "a clean that fails at its fourth step, continued and begun again",
    "fleet_size": "10 000 nodes compared with 1 000",
    "growth": "100 000 nodes compared with 1 000, by request and sweep",
    "day": "a day of 100 000 nodes",
    "conductors": "nodes through a clean, on one conductor and more",
    "processes": "nodes through a clean, on one conductor of several processes",
    "recovery": "nodes of a dead conductor",
    "move_in": "an import of 10 000 nodes from Ironic",
    "rpc_round_trip": "RPC round trip",
    "startup": "start and memory",
    "redfish_overhead": "power reads by Redfish compared with requests",
    "power_sync": "power of a fleet",
    "ipmitool_concurrency": "power reads by IPMI, many at once",
}
SEPARATE = {
    "soak": "memory of the service under full load",
    "cold_start": "starts, compared with Ironic",
    "against_ironic": "CPU of requests, compared with Ironic",
}
"""Subjects that a full run leaves out."""
ALL = SUBJECTS | SEPARATE
LIMIT = 600
"""Seconds a subject may take."""
FOLDER = pathlib.Path(__file__).parent


def run(subject: str) -> bool:
    """Run one subject; return whether it ends in time with all its budgets held."""
    print(f"\n== {ALL[subject]} ({subject})", flush=True)
    command = (sys.executable, "-m", f"benchmarks.{subject}")
    try:
        process = subprocess.run(command, cwd=FOLDER.parent, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        print(f"took longer than {LIMIT} s")
        return False
    return process.returncode == 0


def run_smoke(subject: str) -> bool:
    """Run one subject in a fork, because most of a smoke run would be the import of modules."""
    print(f"\n== {ALL[subject]} ({subject})", flush=True)
    process = multiprocessing.get_context("fork").Process(target=_run_module, args=(subject,))
    process.start()
    process.join(LIMIT)
    if process.exitcode is None:
        print(f"took longer than {LIMIT} s")
        process.kill()
        process.join()
    return process.exitcode == 0


def _run_module(subject: str) -> None:
    sys.argv = [subject]
    runpy.run_module(f"benchmarks.{subject}", run_name="__main__", alter_sys=True)


def main(words: Sequence[str]) -> int:
    """Run the given subjects, or all; return 0 if all work and every budget holds."""
    if unknown := [subject for subject in words if subject not in ALL]:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(ALL)}")
        return 2
    if SMOKE:
        threads.native()
        importlib.import_module("tests.support.in_process")
        failed = [subject for subject in words or ALL if not run_smoke(subject)]
        passed = "every benchmark works"
    else:
        failed = [subject for subject in words or SUBJECTS if not run(subject)]
        passed = "every budget holds"
    print(f"\nfailed: {', '.join(failed)}" if failed else f"\n{passed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
