"""The judge of batches: bounds, one run for each node, and an end. Pure."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping

from tests.chaos.records import Batch, History, Member

Found = Iterator[tuple[str, str]]

UNDER_WAY = frozenset({"starting", "running"})
UNENDED = UNDER_WAY | {"pending"}
WITH_RUN = frozenset({"running", "done", "failed", "aborted"})
Span = tuple[int, int]
"""The first and the last event of a run."""


def over_bound(history: History) -> Found:
    """No more nodes are under way than the batch allows, and one wave ends before the next.

    The rows of the nodes were read now and then; the events of the runs tell of each moment.
    """
    batches = {batch.uuid: batch for batch in history.batches}
    for glance in history.glances:
        batch = batches.get(glance.batch)
        busy = sum(number for _, state, number in glance.counts if state in UNDER_WAY)
        if batch is not None and busy > batch.concurrency:
            yield batch.uuid, f"{busy} nodes were under way, {batch.concurrency} are allowed"
        first = min((wave for wave, state, _ in glance.counts if state in UNENDED), default=0)
        if any(wave > first for wave, state, _ in glance.counts if state in UNDER_WAY):
            yield glance.batch, f"a later wave was under way before wave {first} had ended"
    spans = _spans(history)
    for batch in history.batches:
        yield from _of_runs(batch, _of(history, batch), spans)


def _of(history: History, batch: Batch) -> list[Member]:
    return [one for one in history.members if one.batch == batch.uuid]


def _spans(history: History) -> Mapping[str, Span]:
    found: dict[str, Span] = {}
    for event in history.events:
        if event.kind == "provision" and event.run is not None:
            found[event.run] = (found.get(event.run, (event.id, 0))[0], event.id)
    return found


def _of_runs(batch: Batch, members: list[Member], spans: Mapping[str, Span]) -> Found:
    ours = [(one.wave, *spans[str(one.run)]) for one in members if one.run in spans]
    turns = sorted([(begin, 1) for _, begin, _ in ours] + [(end, -1) for _, _, end in ours])
    busy = most = 0
    for _, step in turns:
        busy += step
        most = max(most, busy)
    if most > batch.concurrency:
        yield batch.uuid, f"{most} runs overlap, {batch.concurrency} are allowed"
    for wave, begin, _ in ours:
        if any(earlier < wave and end > begin for earlier, _, end in ours):
            yield batch.uuid, f"a run of wave {wave} began at event {begin}, before its turn"


def node_twice(history: History) -> Found:
    """A node that was started has exactly one run of its batch, and its row names it."""
    runs: dict[tuple[str, str | None], list[str]] = collections.defaultdict(list)
    for run in history.runs:
        runs[(run.node, run.request_id)].append(run.uuid)
    for one in history.members:
        ours = runs[(one.node, one.request_id)] if one.request_id is not None else []
        wanted = [one.run] if one.state in WITH_RUN else []
        if ours != wanted:
            yield one.node, f"is {one.state} in {one.batch} with {wanted}, its runs are {ours}"


def left_open(history: History) -> Found:
    """A batch ends when nothing of it is left to do; a paused one may keep pending nodes."""
    for batch in history.batches:
        left = collections.Counter(one.state for one in _of(history, batch))
        unended = {state: left[state] for state in sorted(UNENDED) if left[state]}
        waits = batch.state == "paused" and set(unended) == {"pending"}
        if batch.ended == bool(unended) or not (batch.ended or waits):
            end = "has ended" if batch.ended else "is open"
            yield batch.uuid, f"the batch is {batch.state} and {end} with {unended or 'no node'}"
