"""``python -m tests.chaos``: break things for a while, and judge what became of the work.

The exit status is 0 if there was no violation. Without ``--database`` and ``--rpc`` all of `STAGES`
are run. Only loopback is used; nothing that runs on this machine already is touched.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()  # before anything imports an oslo library

import argparse  # noqa: E402
import logging  # noqa: E402
import pathlib  # noqa: E402
import random  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Sequence  # noqa: E402

from tests.chaos import ending, faults, records, report, story, whole_fleet  # noqa: E402
from tests.support import private_servers  # noqa: E402

STAGES = (
    ("sqlite", "local"),
    ("postgresql", "rabbit"),
    ("mysql", "rabbit"),
    ("postgresql", "cluster"),
)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, help="of faults, in each stage; 60, or at most 3600 with --batch"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--database", choices=("sqlite", "postgresql", "mysql"))
    parser.add_argument("--rpc", choices=("local", "direct", "rabbit", "cluster"))
    parser.add_argument(
        "--faults", default=",".join(faults.GROUPS), help="groups, with commas; or none"
    )
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--conductors", type=int, default=3)
    parser.add_argument("--rate", type=float, default=15, help="requests in a second")
    parser.add_argument(
        "--batch", type=int, help="clean so many nodes by a batch, then by requests; no other load"
    )
    parser.add_argument("--step-seconds", type=float, help="0.15; 5 with --batch")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for logs and history")
    given = parser.parse_args(words)
    if given.seconds is None:
        given.seconds = 60.0 if given.batch is None else 3600.0
    if given.step_seconds is None:
        given.step_seconds = 0.15 if given.batch is None else whole_fleet.STEP_SECONDS
    given.faults = "" if given.faults == "none" else given.faults
    unknown = set(filter(None, given.faults.split(","))) - set(faults.GROUPS)
    if unknown:
        parser.error(f"no such faults: {', '.join(unknown)}; there are {', '.join(faults.GROUPS)}")
    return given


def main(words: Sequence[str]) -> int:
    """Run what is asked for; return the exit status."""
    given = _parse(words)
    ending.unwind_on_sigterm()
    logging.getLogger().addHandler(logging.NullHandler())  # our own connections break, too
    stages = [
        (database, rpc)
        for database, rpc in STAGES
        if given.database in (None, database) and given.rpc in (None, rpc)
    ] or [(given.database, given.rpc)]
    bad = 0
    for database, rpc in stages:
        wishes = story.Wishes(
            given.seconds,
            given.seed,
            database,
            rpc,
            tuple(given.faults.split(",")),
            nodes=given.batch or given.nodes,
            fleet=given.batch is not None,
            step_seconds=given.step_seconds,
            conductors=given.conductors,
            rate=given.rate,
        )
        bad += _run(wishes, given.keep)
    return 1 if bad else 0


def _run(wishes: story.Wishes, keep: pathlib.Path | None) -> int:
    """Run one stage and report; return how many violations there were."""
    with tempfile.TemporaryDirectory(prefix="ch-") as name:
        folder = pathlib.Path(name)
        try:
            outcome = story.run(wishes, folder)
        except private_servers.Lacking as why:
            print(f"NOT TESTED with {wishes.database} and {wishes.rpc}: {why}", flush=True)
            return 0
        finally:
            if keep is not None:
                _save(folder, keep / f"{wishes.database}-{wishes.rpc}-{wishes.seed}")
        if keep is not None:
            target = keep / f"{wishes.database}-{wishes.rpc}-{wishes.seed}"
            records.dump(outcome.history, target / "history.json")
    print(*report.lines(outcome), sep="\n", flush=True)
    return len(outcome.violations)


def _save(folder: pathlib.Path, target: pathlib.Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for log in (*folder.glob("*.log"), folder / "journal"):
        if log.exists():
            shutil.copy(log, target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
