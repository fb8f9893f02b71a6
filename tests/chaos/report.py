"""What a run was like, in lines for people."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator

from tests.chaos import whole_fleet
from tests.chaos.story import Outcome

SHOWN = 20
NOTICED = ("silent", "starved")
"""What was not injected: conductors that gave no sign of life in time, a machine that was too slow.
The first also comes of what was."""


def lines(outcome: Outcome) -> Iterator[str]:
    """Yield the report."""
    wishes, history = outcome.wishes, outcome.history
    asked = history.requests
    yield (
        f"{wishes.database} and {wishes.rpc}, seed {wishes.seed}, {wishes.seconds:g} s: "
        f"{wishes.nodes} nodes, {wishes.apis} APIs, {wishes.conductors} conductors"
    )
    yield f"  requests   {len(asked)}: {_counted(str(one.status) for one in asked)}"
    yield f"  runs       {len(history.runs)}: {_counted(run.state for run in history.runs)}"
    taken = sum(event.kind == "taken_over" for event in history.events)
    yield f"  acts       {len(history.acts)}, taken over {taken}"
    yield (
        f"  followed   {len(history.followed)} events over {history.connections} connections, "
        f"{len(history.events)} in the table"
    )
    yield f"  waits      {len(history.waits)}: {_counted(str(one.status) for one in history.waits)}"
    yield (
        f"  batches    {len(history.batches)}: {_counted(one.state for one in history.batches)}; "
        f"nodes {len(history.members)}: {_counted(one.state for one in history.members)}"
    )
    bad = sum(not one.accepted for one in history.deliveries)
    again = len(history.deliveries) - len({one.ident for one in history.deliveries})
    yield f"  deliveries {len(history.deliveries)}: failed {bad}, repeated {again}"
    beats = ", ".join(f"{word} {count}" for word, count in sorted(outcome.beats.items()))
    yield f"  heartbeats {sum(outcome.beats.values())}: {beats}"
    injected = [one.kind for one in history.faults if one.kind not in NOTICED]
    yield f"  faults     {len(injected)}: {_counted(injected)}"
    noticed = _counted(one.kind for one in history.faults if one.kind in NOTICED)
    yield f"  noticed    {noticed or 'nothing else'}"
    if outcome.lacking:
        yield f"  NOT TESTED here: {', '.join(outcome.lacking)}"
    yield from whole_fleet.lines(outcome.seconds, history)
    longest = max(outcome.recoveries, default=0.0)
    yield (
        f"  recovery   {len(outcome.recoveries)} conductors died with nodes locked; the longest "
        f"until none was: {longest:.1f} s; all quiet {outcome.settled:.1f} s after the last request"
    )
    yield f"  violations {len(outcome.violations)}"
    for rule, count in collections.Counter(one.rule for one in outcome.violations).items():
        yield f"    {count} x {rule}"
    for one in outcome.violations[:SHOWN]:
        yield f"    {one}"


def _counted(words: Iterable[str]) -> str:
    counts = collections.Counter(words)
    return ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))
