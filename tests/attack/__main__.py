"""``python -m tests.attack``: attack the service while it works, and judge it from outside.

The exit status is 0 if there was no violation. Only loopback is used.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()  # before anything imports an oslo library

import argparse  # noqa: E402
import functools  # noqa: E402
import logging  # noqa: E402
import pathlib  # noqa: E402
import random  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402

from tests.attack import attacks, processes, story  # noqa: E402
from tests.chaos import ending  # noqa: E402

NAMES = (*(one.name for one in attacks.TABLE), *(one.name for one in processes.TABLE))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.attack", description=__doc__)
    parser.add_argument("--short", action="store_true", help="the attacks that make test has")
    parser.add_argument("--attacks", default="", help=f"names, with commas: {', '.join(NAMES)}")
    parser.add_argument("--auth", choices=attacks.BOTH, help="only with this [api]auth_strategy")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the logs")
    given = parser.parse_args(words)
    given.names = tuple(filter(None, given.attacks.split(",")))
    unknown = set(given.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no attack {', '.join(sorted(unknown))}")
    return given


def main(words: Sequence[str]) -> int:
    """Make the attacks that are asked for; return the exit status."""
    given = _parse(words)
    ending.unwind_on_sigterm()
    logging.getLogger().addHandler(logging.NullHandler())  # our own connections break, too
    bad = 0
    for auth in attacks.BOTH if given.auth is None else (given.auth,):
        wishes = story.Wishes(given.seed, given.short, given.names, auth)
        if story.chosen_by(wishes):
            bad += _stage(given, wishes)
    return 1 if bad else 0


def _stage(given: argparse.Namespace, wishes: story.Wishes) -> int:
    """Make the attacks under one strategy of login; return the number of violations."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="at-") as name:
        folder = pathlib.Path(name)
        try:
            outcome = story.run(wishes, folder, functools.partial(print, flush=True))
        finally:
            if given.keep is not None:
                target = given.keep / wishes.auth
                target.mkdir(parents=True, exist_ok=True)
                for log in folder.glob("*.log"):
                    shutil.copy(log, target)
    print(*lines(outcome, wishes, time.monotonic() - begun), sep="\n", flush=True)
    return len(outcome.violations)


def lines(outcome: story.Outcome, wishes: story.Wishes, seconds: float) -> Iterator[str]:
    """Yield the report."""
    done = f"{len(outcome.done)}: {', '.join(outcome.done)}"
    yield f"{wishes.auth}, seed {wishes.seed}, {seconds:.0f} s, attacks {done}"
    yield f"  requests of the load {outcome.requests}, runs {outcome.runs}"
    yield f"  longest time without an answer to an honest client {outcome.longest:.1f} s"
    yield f"  violations {len(outcome.violations)}"
    for text in outcome.violations[:40]:
        yield f"    {text}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
