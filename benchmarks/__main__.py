"""Run every benchmark, each in a process of its own: ``python -m benchmarks [SUBJECT ...]``.

A subject is a module of this folder whose ``main()`` prints its figures and returns 0 if every
budget holds. The exit status is 0 if all of them do.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

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
    "fleet_size": "10 000 nodes beside 1 000",
    "growth": "100 000 nodes beside 1 000, by request and sweep",
    "day": "a day of 100 000 nodes",
    "conductors": "nodes through a clean, on one conductor and more",
    "processes": "nodes through a clean, on one conductor of several processes",
    "recovery": "nodes of a dead conductor",
    "rpc_round_trip": "RPC round trip",
    "startup": "start and memory",
    "redfish_overhead": "power reads by Redfish beside requests",
    "power_sync": "power of a fleet",
    "ipmitool_concurrency": "power reads by IPMI, many at once",
}
LONGEST = 240
"""Seconds a subject may take."""

HERE = pathlib.Path(__file__).parent


def run(subject: str) -> bool:
    """Run one subject; return whether its budgets hold."""
    print(f"\n== {SUBJECTS[subject]} ({subject})", flush=True)
    try:
        command = (sys.executable, "-m", f"{HERE.name}.{subject}")
        return (
            subprocess.run(command, cwd=HERE.parent, timeout=LONGEST, check=False).returncode == 0
        )
    except subprocess.TimeoutExpired:
        print(f"took longer than {LONGEST} s")
        return False


def main(chosen: list[str]) -> int:
    """Run the subjects named, or all; the exit status says whether every budget holds."""
    unknown = [subject for subject in chosen if subject not in SUBJECTS]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
        return 2
    failed = [subject for subject in chosen or SUBJECTS if not run(subject)]
    print(f"\nbeyond a budget: {', '.join(failed)}" if failed else "\nevery budget holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
