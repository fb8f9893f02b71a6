"""Run a command whose processes all stop at random times, as on an overloaded machine.

    .venv/bin/python scripts/stalls.py SECONDS EVERY COMMAND...

Everything that descends from the command stops for SECONDS, on average after each EVERY seconds.
A test that passes on an idle machine and fails here depends on time, and is wrong.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time

import psutil


def stopped(parent: psutil.Process) -> list[psutil.Process]:
    """Stop all descendants of a process that are not stopped yet; return these."""
    found = []
    for one in parent.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.status() not in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}:
                one.suspend()
                found.append(one)
    return found


def main(seconds: float, every: float, command: list[str]) -> int:
    with subprocess.Popen(command) as running:
        parent = psutil.Process(running.pid)
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return running.wait(every * random.uniform(0.5, 1.5))
            found = stopped(parent)
            time.sleep(seconds)
            for one in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.resume()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
