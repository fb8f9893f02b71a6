"""Send the same requests to real Ironic and to this service, and report each difference."""

from __future__ import annotations

import argparse
import collections
import contextlib
import pathlib
import sys
import tempfile
import time

from tests.compare import contents, judge, recording, requests, services
from tests.compare.identity import Identity

_SHOWN = 3


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make compare", description=__doc__)
    parser.add_argument("--ironic", help="a virtual environment with ironic in it")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="requests to send at most")
    parser.add_argument("--seed", type=int, default=0, help="chooses them, if there are more")
    parser.add_argument("--only", default="", help="routes that contain this text")
    parser.add_argument("--methods", default="", help="methods, such as GET,PUT")
    parser.add_argument("--roles", default="", help="callers, such as admin,reader,None")
    parser.add_argument("--answers", help="a file that keeps Ironic's answers for the next run")
    told = parser.parse_args()
    if not told.ironic and not told.answers:
        parser.error("name a virtual environment with --ironic, or a file with --answers")
    return told


def _run(
    cases: list[requests.Case], theirs: recording.Recorded, ours: services.Compared
) -> list[tuple[judge.Difference, str | None]]:
    """Send all requests, and return the differences with their reasons.

    A service that a request changes is restored before the next.
    """
    found = []
    began = time.monotonic()
    for number, case in enumerate(cases):
        if number % 1000 == 0:
            print(f"{number} {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        answer = requests.put(case, ours)
        difference = judge.compare(case, theirs.answer(case), answer)
        if difference is not None:
            found.append((difference, judge.reason_of(difference, answer, theirs.known)))
    return found


def _report(count: int, reasons: list[tuple[judge.Difference, str | None]]) -> int:
    """Print what differs, and return how many differences nothing explains."""
    kept = collections.Counter(why for _, why in reasons if why is not None)
    groups: dict[tuple[str, ...], list[judge.Difference]] = {}
    for one, why in reasons:
        if why is None:
            key: tuple[str, ...] = (one.case.method, one.case.route, one.theirs, one.ours)
            groups.setdefault(key, []).append(one)
    for named, members in groups.items():
        print(f"{len(members):5} {named[0]} {named[1]}: {named[2]} -> {named[3]}")
        for one in members[:: max(len(members) // _SHOWN, 1)][:_SHOWN]:
            print(f"          {one.case}")
    for why, number in kept.most_common():
        print(f"{number:5} stay: {why}")
    left = sum(map(len, groups.values()))
    different = f"{len(reasons)} answered differently, {left} of them unexplained"
    print(f"{count} requests compared, {different}")
    return left


def main() -> int:
    """Start both services, compare, and return 1 if a difference is not explained.

    Without a virtual environment, only requests with a recorded answer are compared.
    """
    told = _arguments()
    recorded = recording.Recorded(told.answers)
    cases = [
        case
        for case in requests.cases()
        if told.only in case.route
        and (not told.methods or case.method in told.methods.split(","))
        and (not told.roles or str(case.role) in told.roles.split(","))
        and (told.ironic or recorded.has(case))
    ]
    cases = requests.some(cases, told.most, told.seed)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-")))
        for name in ("theirs", "ours"):
            (folder / name).mkdir()
        identity = Identity()
        stack.callback(identity.close)
        ours = services.ours(folder / "ours")
        started = [(ours, "")]
        if told.ironic:
            theirs = services.reference(pathlib.Path(told.ironic), folder / "theirs")
            started.append((theirs, services.REFERENCE_SETTINGS))
            recorded.service = theirs
        for one, more in started:
            stack.callback(one.stop)
            one.start(identity.url, more)
            contents.fill(one)
        return 1 if _report(len(cases), _run(cases, recorded, ours)) else 0


if __name__ == "__main__":
    sys.exit(main())
