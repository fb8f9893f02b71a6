"""The judge of erasures: no clean node without a proof, no erasure without its record. Pure."""

from __future__ import annotations

import collections
from collections.abc import Iterator

from tests.chaos.records import Erasure, Event, History, Node

Found = Iterator[tuple[str, str]]

PROOFS = frozenset({"clear", "purge"})
"""Levels of a record that prove an erasure: [conductor]clean_level is clear."""


def clean_without_proof(history: History) -> Found:
    """A clean node is declared so, or its run has erased every disk and nothing deployed since.

    The events of the state are one chain, from the first state to the last.
    """
    proofs = {
        (one.node, one.run)
        for one in history.erasures
        if one.result == "complete" and one.level in PROOFS
    }
    events: dict[str, list[Event]] = collections.defaultdict(list)
    for event in history.events:
        events[event.node].append(event)
    for node in history.nodes:
        yield from _of_node(node, events[node.uuid])
        by = node.data_state_by
        if node.data_state == "clean" and by != "declared" and (node.uuid, by) not in proofs:
            yield node.uuid, f"it is clean by {by}, and no record of this run proves it"


def _of_node(node: Node, events: list[Event]) -> Found:
    at, changed, deployed = "unknown", 0, 0
    for event in events:
        if event.kind == "data_state":
            if event.before != at:
                yield node.uuid, f"event {event.id}: its data were {at}, not {event.before}"
            at, changed = str(event.after), event.id
        elif event.kind == "step_started" and event.event == "deploy":
            deployed = event.id
    if node.data_state != at:
        yield node.uuid, f"its data are {node.data_state}, by its last event {at}"
    elif at == "clean" and deployed > changed:
        yield node.uuid, f"it is clean since event {changed}, and was deployed at {deployed}"


def unrecorded(history: History) -> Found:
    """An erasing step that has ended has a record; one attempt has no second one."""
    ended = collections.Counter((one.run, one.ordinal, one.attempt) for one in history.erasures)
    recorded = {(run, ordinal) for run, ordinal, _ in ended}
    for run in history.runs:
        for ordinal in run.erased:
            if (run.uuid, ordinal) not in recorded:
                yield run.node, f"step {ordinal} of the run {run.uuid} has erased without a record"
    nodes = {one.run: one.node for one in history.erasures}
    for (of, ordinal, attempt), number in ended.items():
        if number > 1:
            place = f"attempt {attempt} of step {ordinal} of the run {of}"
            yield nodes[of], f"{place} has {number} records"


def broken_chains(history: History) -> Found:
    """Each record is signed, and names the one before it of its node."""
    by_node: dict[str, list[Erasure]] = collections.defaultdict(list)
    for one in history.erasures:
        by_node[one.node].append(one)
        if not one.signed:
            yield one.node, f"the record {one.uuid} has no good signature"
    for node, ours in by_node.items():
        last: str | None = None
        for one in ours:
            if one.previous != last:
                yield node, f"the record {one.uuid} follows {one.previous}, not {last}"
            last = f"sha256:{one.digest}"
