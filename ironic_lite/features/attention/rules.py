"""Nodes that need a person, and the document about them. Pure.

A node needs a person for one reason, the first of `KINDS` that applies. Nodes that share the reason
are one cause. Operators silence nodes by a maintenance or a hold.
"""

from __future__ import annotations

import dataclasses
import datetime
import urllib.parse
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import orjson

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import causes, failures
from ironic_lite.domain.failures import VerbOffer
from ironic_lite.domain.holds import Block
from ironic_lite.domain.states import State

FAILED, UNVERIFIED, FAULT, OVERDUE, HEALTH = "failed", "unverified", "fault", "overdue", "health"
KINDS = (FAILED, UNVERIFIED, FAULT, OVERDUE, HEALTH)
"""The reasons, the first that applies to a node first."""
OF_RUNS = (FAILED, UNVERIFIED)
"""The reasons that are failures of runs, which not every reader of a node may read."""
CRITICAL, WARNING = "Critical", "Warning"
"""Values of ``health`` that are listed; a warning needs no person."""
MAINTENANCE, HELD = "maintenance", "held"
SILENCING = (Block.USE, Block.VERBS, Block.POWER)
"""Blocks of the holds that silence a node; a legal hold has none of them."""
MOST_CAUSES = 100
MOST_BATCHES = 20
MOST_BYTES = 224 * 1024
"""Bytes of the causes, which leave 32 KiB for the rest of the document."""
HOURS = 24
HOUR = datetime.timedelta(hours=1)
_SAMPLE = 3
_LONGEST_EXAMPLE = 200
_MANY, _SHARE = 5, 20  # more nodes than this, and more than one in so many
_BMC = "Check the power, the address and the network of the BMC."
_DO: Mapping[str, str] = {
    FAULT: "End the maintenance when the cause of its fault is fixed.",
    "power failure": f"{_BMC} The maintenance ends when it answers.",
    OVERDUE: "Look at the console of the machine. If its step does nothing any more, use abort.",
    HEALTH: "Read the event log of the BMC, and replace the part that it names.",
}
_LINKS: Mapping[str, str] = {
    FAULT: "/v1/nodes?fault=",
    HEALTH: "/v1/nodes?health=",
    OVERDUE: "/v1/runs?overdue=true",
}


class NodeGroup(NamedTuple):
    """Some nodes of one kind: not all of a cause, because they differ in ``silence`` and so on.

    :ivar what: the key of the cause, or verb and code of a run without one, with a blank between
        them; the fault or the health; None if the run was removed.
    :ivar silence: `MAINTENANCE`, `HELD` or None.
    :ivar retrying: an automatic retry is due.
    :ivar readable: the caller may read their runs.
    :ivar first_id: of the nodes, as ``last_id``: two samples.
    """

    kind: str
    what: str | None
    silence: str | None
    retrying: bool
    readable: bool
    nodes: int
    first_at: datetime.datetime | None
    last_at: datetime.datetime | None
    first_id: int
    last_id: int


class LateStep(NamedTuple):
    """A step that its conductor has marked as overdue."""

    node_id: int
    verb: str
    interface: str
    step: str
    started_at: datetime.datetime
    silence: str | None

    @property
    def name(self) -> tuple[str, str]:
        """The interface and the name of the step."""
        return self.interface, self.step


@dataclasses.dataclass(slots=True)
class Cause:
    """Nodes of one kind that share the reason."""

    kind: str
    what: str | None
    key: str
    nodes: int = 0
    retrying: int = 0
    silenced: int = 0
    first_at: datetime.datetime | None = None
    last_at: datetime.datetime | None = None
    ids: list[int] = dataclasses.field(default_factory=list)
    verb: str | None = None
    step: tuple[str, str] | None = None

    def add(self, silence: str | None, nodes: int, ids: Iterable[int]) -> None:
        """Add nodes; silenced ones are no samples."""
        if silence is not None:
            self.silenced += nodes
            return
        self.nodes += nodes
        self.ids = list(dict.fromkeys((*self.ids, *ids)))[:_SAMPLE]

    def span(self, first: datetime.datetime | None, last: datetime.datetime | None) -> None:
        """Widen the time between the first and the last of the nodes."""
        self.first_at = min(filter(None, (self.first_at, first)), default=None)
        self.last_at = max(filter(None, (self.last_at, last)), default=None)

    @property
    def counts(self) -> bool:
        """Return whether its nodes need a person."""
        return self.what != WARNING

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """The place in the document."""
        return KINDS.index(self.kind), not self.counts, -self.nodes, self.key


@dataclasses.dataclass(slots=True)
class Needs:
    """The causes in their order, the silenced nodes by reason, and the nodes of no cause.

    :ivar hidden: nodes that need a person, and whose runs the caller may not read.
    :ivar rest: nodes beyond those that were read, of each kind.
    """

    causes: list[Cause]
    silenced: Counter[str]
    hidden: int = 0
    rest: int = 0

    @property
    def nodes(self) -> int:
        """The number of nodes that need a person."""
        return sum(cause.nodes for cause in self.causes if cause.counts) + self.hidden + self.rest

    @property
    def listed(self) -> int:
        """The number of nodes that have a cause."""
        return sum(cause.nodes for cause in self.causes)


def numbers(groups: Iterable[NodeGroup], late: Sequence[LateStep]) -> Counter[str]:
    """Return the number of nodes of each kind that were read."""
    found = Counter({OVERDUE: len(late)})
    for group in groups:
        found[group.kind] += group.nodes
    return found


def needs_human(groups: Iterable[NodeGroup], late: Iterable[LateStep], rest: int) -> Needs:
    """Return the causes of groups of nodes, and of steps that are overdue.

    :param rest: the number of nodes that were not read.
    """
    found: dict[tuple[str, str | None], Cause] = {}
    needs = Needs([], Counter(dict.fromkeys((MAINTENANCE, HELD), 0)), rest=rest)
    for group in groups:
        if not group.readable:
            needs.hidden += group.nodes if group.silence is None else 0
            continue
        cause = found.setdefault((group.kind, group.what), _cause(group.kind, group.what))
        cause.add(group.silence, group.nodes, (group.first_id, group.last_id))
        if group.kind in OF_RUNS and group.silence is None:
            cause.retrying += group.nodes if group.retrying else 0
            cause.span(group.first_at, group.last_at)
        if group.silence is not None and cause.counts:
            needs.silenced[group.silence] += group.nodes
    for step in late:
        title = ".".join(step.name)
        cause = found.setdefault((OVERDUE, f"{step.verb} {title}"), _cause_of_step(step, title))
        cause.add(step.silence, 1, (step.node_id,))
        if step.silence is None:
            cause.span(step.started_at, step.started_at)
        else:
            needs.silenced[step.silence] += 1
    needs.causes = sorted((one for one in found.values() if one.nodes), key=lambda one: one.order)
    return needs


def _cause(kind: str, what: str | None) -> Cause:
    stored = kind in OF_RUNS and what is not None and " " not in what
    return Cause(kind, what, str(what) if stored else causes.key(None, None, what or kind, ""))


def _cause_of_step(step: LateStep, title: str) -> Cause:
    key = causes.key(step.verb, title, OVERDUE, "")
    return Cause(OVERDUE, None, key, verb=step.verb, step=step.name)


def chosen(needs: Needs, keys: Collection[str]) -> list[Cause]:
    """Return the causes to show: those of ``keys``, all without any; `MOST_CAUSES` at most."""
    return [one for one in needs.causes if not keys or one.key in keys][:MOST_CAUSES]


# -- the document ----------------------------------------------------------------------------


def cause_document(
    cause: Cause, about: Mapping[int, Json], usual_p90: float | None, now: datetime.datetime
) -> Json:
    """Return a cause as clients see it.

    :param about: columns of its nodes and of their newest runs by the id of the node.
    :param usual_p90: seconds that an overdue step usually takes at most.
    """
    sample = [about[one] for one in cause.ids if one in about]
    word = str(cause.what) if cause.kind in (FAULT, HEALTH) else cause.kind
    late = cause.kind == OVERDUE and cause.first_at
    shown: Json = {
        "cause": cause.key,
        "kind": cause.kind,
        "verb": cause.verb,
        "step": ".".join(cause.step) if cause.step else None,
        "code": None,
        "text": word,
        "example": word,
        "nodes": cause.nodes,
        "retrying": cause.retrying,
        "silenced": cause.silenced,
        "first_at": cause.first_at,
        "last_at": cause.last_at,
        "sample": [{"uuid": one["uuid"], "name": one["name"]} for one in sample],
        "do": _DO.get(word, _DO.get(cause.kind)),
        "verbs": ["abort"] if late else [],
        "usual_p90": usual_p90,
        "longest_seconds": (now - late).total_seconds() if late else None,
        "href": _link(cause),
    }
    return {**shown, **_of_failure(sample[0])} if cause.kind in OF_RUNS and sample else shown


def _of_failure(node: Json) -> Json:
    """Return what the failure of one of its nodes says about a cause."""
    run = node["run"]
    unread = dict.fromkeys(("driver_internal_info", "agent_heard_at"))
    failure = failures.failure_of({**node, **unread}, run, None)
    if failure is None:  # it has left its state meanwhile
        return {}
    state = State(node["provision_state"])
    verbs = failures.REMEDIES.get(state, ())
    offers = [VerbOffer(verb, state, None, None) for verb in verbs]
    return {
        "verb": failure.run and failure.run["verb"],
        "step": failure.step,
        "code": (failure.cause or {}).get("code") or failure.code,
        "text": causes.pattern(failure.reason, node),
        "example": failure.reason[:_LONGEST_EXAMPLE],
        "do": failures.advice(failure, None, None, offers, state=state),
        "verbs": list(verbs),
    }


def _link(cause: Cause) -> str | None:
    """Return the path of the list of the nodes; None if no filter chooses them."""
    if cause.kind in OF_RUNS:
        return f"/v1/nodes?cause={cause.key}" if cause.key == cause.what else None
    return _LINKS[cause.kind] + urllib.parse.quote(cause.what or "")


def fitting(found: Sequence[Json]) -> list[Json]:
    """Return the first causes that have `MOST_BYTES` at most."""
    size, kept = 0, []
    for one in found:
        size += len(orjson.dumps(one, option=orjson.OPT_NAIVE_UTC)) + 1
        if size > MOST_BYTES:
            break
        kept.append(one)
    return kept


def paused_first(batches: Sequence[Json]) -> list[Json]:
    """Return the first `MOST_BATCHES` batches."""
    return sorted(batches, key=lambda one: one["state"] != "paused")[:MOST_BATCHES]


def failures_by_hour(found: Mapping[str, int], now: datetime.datetime) -> Json:
    """Return the failed runs of the last hours.

    :param found: number of runs by the hour of their end, such as ``2026-11-28 20``.
    """
    first = hours_since(now)
    counts = [found.get((first + HOUR * at).isoformat(" ")[:13], 0) for at in range(HOURS)]
    return {"from": first, "seconds": int(HOUR.total_seconds()), "counts": counts}


def hours_since(now: datetime.datetime) -> datetime.datetime:
    """Return the begin of the first of the last `HOURS`, the last of which is not over."""
    return now.replace(minute=0, second=0, microsecond=0) - HOUR * (HOURS - 1)


def status(shown: JsonView, *, group_without_conductor: bool) -> str:
    """Return ok, warning or critical.

    :param shown: the document.
    """
    needs = shown["needs_human"]
    if group_without_conductor or (needs > _MANY and needs * _SHARE > shown["of"]):
        return "critical"
    return "warning" if any(_worries(shown)) else "ok"


def _worries(shown: JsonView) -> Iterator[object]:
    yield shown["needs_human"] or shown["causes"] or shown["conductors"] or shown["webhooks"]
    yield from (one["state"] == "paused" for one in shown["batches"] or ())
