"""Batches: one request for many nodes, in waves, with a bounded number of failures. Pure.

The conductor that owns a batch reads the counts of the nodes and calls `turn`, which decides the
next state of the batch and how many nodes may start.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import hashlib
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from ironic_lite import errors
from ironic_lite.core import clock, masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, vocabulary
from ironic_lite.domain.fields import Field, Type

MOST_NODES = 10_000
MOST_OPEN = 100
MOST_OPEN_OF_PROJECTS = 80
"""Open batches of all projects together; the others are for callers of the whole system."""
MOST_OPEN_OF_PROJECT = 20
MOST_WAVES = 100
MOST_CONCURRENT = 1000
DEFAULT_CONCURRENCY = 10
MOST_TRIES = 64
"""Refused tries of a node; the pauses between them are an hour together."""
LIMIT_SECONDS = 10
"""Seconds until a node is tried again that has met a limit of the service."""
KEPT_DAYS = 90
PAUSED_DAYS = 30
"""Days after which a paused batch is aborted, because it takes a place and keeps its nodes."""
SKIPPED_BY_ABORT: Json = {
    "code": "Aborted",
    "text": "The batch was aborted before the node started.",
}
"""The error of a node that an abort has kept from its start."""
_SHORTEST_PAUSE = 5
_EPOCH, _MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
NO_TIME = datetime.timedelta()
_SHOWN_OPTIONS = ("waves", "concurrency", "on_failures", "between_waves")
LONGEST_PAUSE = 60
"""Seconds between two tries, at most."""
_SHARE = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?%")
_ALL = 100 * 100  # hundredths of a percent
_HIDDEN = ("configdrive", "rescue_password")
_NAMESPACE = uuid.UUID("5d6dd8a4-6e0c-4f5c-9c57-0b1f63b9a6b4")


class BatchState(enum.StrEnum):
    """The state of a batch."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    ABORTED = "aborted"


class NodeState(enum.StrEnum):
    """The state of a node in a batch."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"
    REFUSED = "refused"
    SKIPPED = "skipped"


UNDER_WAY = (NodeState.STARTING, NodeState.RUNNING)
UNENDED = (NodeState.PENDING, *UNDER_WAY)
ENDED = tuple(state for state in NodeState if state not in UNENDED)
FAILURES = (NodeState.FAILED, NodeState.REFUSED)
BY_FAILURES = "failures"
BY_WAVE = "end of a wave"
BY_AGE = f"pause of {PAUSED_DAYS} days"
"""Values of ``by`` that are no user, beside `holds.BY_RESTORE`: see `turn`."""

Counts = Mapping[tuple[int, str], int]
"""Number of nodes by wave and `NodeState`."""


class Batch(NamedTuple):
    """Input of `turn` from a row of ``batches``.

    :ivar wave: index of the wave under way.
    :ivar forgiven: failures before the last resume, which do not count.
    :ivar on_failures: ``pause`` or ``abort``.
    :ivar between_waves: ``go on`` or ``pause``.
    :ivar forgotten: it has been paused for `PAUSED_DAYS`.
    """

    state: str
    wave: int
    waves: int
    concurrency: int
    max_failures: int
    forgiven: int
    on_failures: str = "pause"
    between_waves: str = "go on"
    forgotten: bool = False


class BatchDecision(NamedTuple):
    """The decision about a batch.

    :ivar start: nodes of the wave that may start now.
    :ivar by: reason of a pause or an abort that begins now, None without one.
    :ivar ended: True if no node is pending or under way any more.
    """

    state: BatchState
    wave: int
    start: int = 0
    by: str | None = None
    ended: bool = False

    @property
    def skips(self) -> bool:
        """True if no pending node starts any more: each is to be skipped, now and later.

        A node that was under way at the abort may become pending again, because it was locked.
        """
        return self.state is BatchState.ABORTED


def turn(batch: Batch, counts: Counts) -> BatchDecision:
    """Decide the next state of a batch, and how many of its nodes may start."""
    state, wave = BatchState(batch.state), batch.wave
    under_way = total(counts, UNDER_WAY)
    if not total(counts, UNENDED):
        end = BatchState.ABORTED if state is BatchState.ABORTED else BatchState.DONE
        return BatchDecision(end, wave, ended=True)
    if state is not BatchState.RUNNING:
        by = BY_AGE if state is BatchState.PAUSED and batch.forgotten else None
        state = BatchState.ABORTED if by else state
        return BatchDecision(
            state, wave, by=by, ended=state is BatchState.ABORTED and not under_way
        )
    if failures_left(batch, counts) < 0:
        if batch.on_failures == "abort":
            return BatchDecision(BatchState.ABORTED, wave, by=BY_FAILURES, ended=not under_way)
        return BatchDecision(BatchState.PAUSED, wave, by=BY_FAILURES)
    # The last wave is never complete here, because a node is pending or under way.
    complete = not sum(n for (at, each), n in counts.items() if at <= wave and each in UNENDED)
    if complete and wave + 1 < batch.waves:
        wave += 1
        if batch.between_waves == "pause":
            return BatchDecision(BatchState.PAUSED, wave, by=BY_WAVE)
    pending = counts.get((wave, NodeState.PENDING), 0)
    return BatchDecision(state, wave, start=max(0, min(pending, batch.concurrency - under_way)))


def total(counts: Counts, states: Sequence[str]) -> int:
    """Return the number of nodes in one of these states, in all waves."""
    return sum(number for (_, state), number in counts.items() if state in states)


def failures_left(batch: Batch, counts: Counts) -> int:
    """Return how many more nodes may fail; negative when too many have failed."""
    return batch.max_failures - (total(counts, FAILURES) - batch.forgiven)


def rights_lost(change: str) -> Json:
    """Return the error of a node that was not started, because of a lost right."""
    return {"code": "RightsLost", "text": f"{change[:1].upper()}{change[1:]}."}


# -- the request -------------------------------------------------------------------------------

LEAVE_OUT = "leave out"
MARKS = ("retired", "protected")
"""Columns of nodes that a plan shows of those that can."""
DIGEST_LENGTH = 16

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"], "maxLength": 255},
        "nodes": {"type": ["array", "object"]},
        "expect": {"type": "integer", "minimum": 0},
        "expect_fit": {
            "type": ["integer", "string"],
            "minimum": 0,
            "pattern": f"^[0-9a-f]{{{DIGEST_LENGTH}}}$",
        },
        "request": {"type": "object"},
        "waves": {"type": "array", "items": {"type": ["integer", "string"]}},
        "concurrency": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_CONCURRENT,
        },
        "max_failures": {"type": ["integer", "string"]},
        "on_failures": {"enum": ["pause", "abort"]},
        "between_waves": {"enum": ["go on", "pause"]},
        "unfit": {"enum": ["refuse", LEAVE_OUT]},
    },
    "required": ["nodes", "request"],
    "additionalProperties": False,
}
STATE_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "target": {"enum": ["pause", "resume", "abort"]},
        "runs": {"enum": ["go on", "abort"]},
        "max_failures": {"type": ["integer", "string"]},
    },
    "required": ["target"],
    "additionalProperties": False,
}


def read_power(given: Json, version: int) -> Json:
    """Return the checked request for a change of power.

    :raises errors.InvalidParameter, errors.NotAcceptable:
    """
    errors.UnexpectedArguments.check(given, ("power",))
    target = given["power"]
    since = vocabulary.POWER_TARGETS.get(target) if isinstance(target, str) else None
    if since is None:
        known = ", ".join(vocabulary.POWER_TARGETS)
        reason = f"{target!r:.64} is not one of {known}"
        raise errors.InvalidParameter(path="request/power", reason=reason)
    if version < since:
        raise errors.NotAcceptable(what=f"The target {target}", since=since)
    return {"power": target}


def reason(node: JsonView, why: errors.Error) -> Json:
    """Return the reason for which a node cannot get a request."""
    return {"uuid": node["uuid"], "name": node["name"], "code": why.code, "text": why.message}


def fitness(
    nodes: Sequence[JsonView], left_out: Sequence[JsonView] | None, most: int | None = None
) -> Json:
    """Return the nodes that a batch leaves out, and which others are marked.

    :param nodes: those that can, with `MARKS`.
    :param left_out: as by `reason`; None if the batch leaves out none.
    :param most: nodes in each list; None for all of them.
    """
    if left_out is None:
        return {}
    marked: Json = {
        mark: [{"uuid": one["uuid"], "name": one["name"]} for one in nodes if one.get(mark)][:most]
        for mark in MARKS
    }
    unfit = {"count": len(left_out), "nodes": left_out[:most]}
    return {"fit": {"count": len(nodes), "digest": digest(nodes), **marked}, "unfit": unfit}


def digest(nodes: Sequence[JsonView]) -> str:
    """Return a short text that is the same for the same nodes, in any order."""
    text = ",".join(sorted(node["uuid"] for node in nodes))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


# -- options ---------------------------------------------------------------------------------


def options(body: JsonView, count: int) -> Json:
    """Return the options of a batch over ``count`` nodes, with defaults filled in."""
    return {
        "waves": wave_sizes(body.get("waves", []), count),
        "concurrency": body.get("concurrency", DEFAULT_CONCURRENCY),
        "on_failures": body.get("on_failures", "pause"),
        "between_waves": body.get("between_waves", "go on"),
    }


def wave_sizes(given: Sequence[object], count: int) -> list[int]:
    """Return the sizes of waves over ``count`` nodes; the last one takes the rest.

    :param given: numbers of nodes, or shares of all nodes such as ``10%``, which are rounded up.
    :raises errors.InvalidParameter: an entry is neither.
    """
    if len(given) > MOST_WAVES:
        raise errors.InvalidParameter(path="waves", reason=f"has more than {MOST_WAVES} entries")
    sizes: list[int] = []
    left = count
    for index, entry in enumerate(given):
        share = _share(entry, f"waves/{index}")
        size = -(-count * share // _ALL) if share is not None else _number(entry, index)
        size = min(max(1, size), left)
        if size:
            sizes.append(size)
        left -= size
    if left and sizes:
        sizes[-1] += left
    return sizes or [count]


def failures_allowed(given: object, count: int) -> int:
    """Return the number of nodes that may fail; a share of all nodes is rounded down.

    :raises errors.InvalidParameter: neither a number nor a share.
    """
    share = _share(given, "max_failures")
    if share is not None:
        return count * share // _ALL
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        reason = f"{given!r:.32} is not a number of nodes, from 0, or a share such as 5%"
        raise errors.InvalidParameter(path="max_failures", reason=reason)
    return min(given, MOST_NODES)


def _number(entry: object, index: int) -> int:
    if isinstance(entry, bool) or not isinstance(entry, int) or entry < 1:
        reason = f"{entry!r:.32} is not a number of nodes, from 1, or a share such as 10%"
        raise errors.InvalidParameter(path=f"waves/{index}", reason=reason)
    return entry


def _share(entry: object, path: str) -> int | None:
    """Return a share in hundredths of a percent; None if the entry is not a text."""
    if not isinstance(entry, str):
        return None
    found = _SHARE.fullmatch(entry)
    share = None if found is None else int(found[1]) * 100 + int((found[2] or "").ljust(2, "0"))
    if share is None or share > _ALL:
        reason = f"{entry[:32]!r} is not a share from 0% to 100%"
        raise errors.InvalidParameter(path=path, reason=reason)
    return share


def request_id(batch: str, node: str, what: str = "") -> str:
    """Return the ID of the request for a node, the same in every process and at every try.

    A conductor refuses a request that has a run, so no node runs twice in a batch.

    :param what: ``abort`` for the request that ends the node's run.
    """
    return f"req-{uuid.uuid5(_NAMESPACE, f'{batch} {node} {what}'.rstrip())}"


def pause_seconds(tries: int) -> int:
    """Return the seconds until a node is tried again after so many tries."""
    return int(min(LONGEST_PAUSE, _SHORTEST_PAUSE * 2 ** min(max(0, tries - 1), 8)))


# -- changes by clients ---------------------------------------------------------------------


class Lost(NamedTuple):
    """Nodes of a batch for which the caller who changes it lacks a right.

    :ivar skipped: by a resume.
    :ivar kept: the nodes whose runs an abort leaves alone.
    """

    skipped: list[str]
    kept: list[str]


def _pause(who: Context, row: Json, _counts: Counts, _body: Json) -> Json:
    _refuse_ended(row, "paused")
    if row["state"] == BatchState.PAUSED:
        return {}
    return {"state": BatchState.PAUSED.value, "paused_by": who.user or "anonymous"}


def _resume(who: Context, row: Json, counts: Counts, body: Json) -> Json:
    _refuse_ended(row, "resumed")
    values: Json = {}
    if "max_failures" in body:
        count = sum(counts.values())
        values["max_failures"] = failures_allowed(body["max_failures"], count)
    if row["state"] == BatchState.PAUSED:
        values |= {
            "state": BatchState.RUNNING.value,
            "paused_by": None,
            "forgiven": total(counts, FAILURES),
            # From now on the nodes start with the rights of this caller.
            "context": who.as_dict(),
        }
    return values


def _abort(who: Context, row: Json, _counts: Counts, body: Json) -> Json:
    values: Json = {}
    if body.get("runs") == "abort":
        # No node starts any more: what conductors ask for from now on, this caller asks for.
        values = {"abort_runs": True, "context": who.as_dict()}
    if row["ended_at"] is None and row["state"] == BatchState.ABORTED:
        return {} if row["abort_runs"] else values
    _refuse_ended(row, "aborted")
    return {"state": BatchState.ABORTED.value, "paused_by": None, **values}


def _refuse_ended(row: Json, what: str) -> None:
    if row["ended_at"] is not None or row["state"] == BatchState.ABORTED:
        raise errors.Conflict(
            f"Batch {row['uuid']} is {row['state']} and cannot be {what}. Begin another batch "
            'with {"batch": ..., "result": ...} as its nodes.',
            batch=row["uuid"],
        )


CHANGES: Mapping[str, Callable[[Context, Json, Counts, Json], Json]] = {
    "pause": _pause,
    "resume": _resume,
    "abort": _abort,
}


# -- documents -------------------------------------------------------------------------------


def masked(request: JsonView) -> Json:
    """Return the request of a batch without its secrets."""
    hidden = {name: masking.MASK for name in _HIDDEN if name in request}
    return {**masking.mask(dict(request)), **hidden}


def of_row(row: JsonView) -> Batch:
    """Return what `turn` reads from a row of ``batches``."""
    options = row["options"]
    changed: datetime.datetime | None = row["updated_at"]
    return Batch(
        state=row["state"],
        wave=row["wave"],
        waves=len(options["waves"]),
        concurrency=options["concurrency"],
        max_failures=row["max_failures"],
        forgiven=row["forgiven"],
        on_failures=options["on_failures"],
        between_waves=options["between_waves"],
        forgotten=row["state"] == BatchState.PAUSED
        and changed is not None
        and clock.lived(changed) > PAUSED_DAYS * 24 * 3600,
    )


def by_state(counts: Counts) -> dict[str, int]:
    """Return the number of nodes in each state."""
    return {str(state): total(counts, (state,)) for state in NodeState}


def tag(row: JsonView) -> str:
    """Return the entity tag of a batch: the time of its last change, not of its nodes' results.

    So a pause is not refused because a node has ended.
    """
    at: datetime.datetime = row["updated_at"] or row["created_at"]
    return f'"{(at - _EPOCH) // _MICROSECOND}"'


def first_counts(sizes: Sequence[int]) -> dict[tuple[int, str], int]:
    """Return the counts of a batch that begins."""
    pending = NodeState.PENDING.value
    return {(wave, pending): size for wave, size in enumerate(sizes)}


def document(row: JsonView, counts: Counts, paused: datetime.timedelta = NO_TIME) -> Json:
    """Return a batch as clients see it.

    :param row: without ``request``, that is shown as None.
    :param paused: the time of its pauses, for the estimate of its end.
    """
    options = {name: row["options"][name] for name in _SHOWN_OPTIONS}
    batch = of_row(row)
    return {
        "uuid": row["uuid"],
        "name": row["name"],
        "state": row["state"],
        "wave": row["wave"],
        "waves": options["waves"],
        "counts": by_state(counts),
        "failures_left": max(0, failures_left(batch, counts)),
        "max_failures": row["max_failures"],
        "concurrency": options["concurrency"],
        "on_failures": options["on_failures"],
        "between_waves": options["between_waves"],
        "request": masked(row["request"]) if "request" in row else None,
        "eta": _end_of(row, counts, paused),
        "requester": row["requester"],
        "project": row["project"],
        "paused_by": row["paused_by"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "ended_at": row["ended_at"],
    }


def brief(shown: JsonView) -> Json:
    """Return what an overview shows of the document of a batch."""
    counts = shown["counts"]
    return {
        **{name: shown[name] for name in ("uuid", "name", "state")},
        "nodes": sum(counts.values()),
        "done": counts[NodeState.DONE],
        "failed": sum(counts[state] for state in FAILURES),
        "under_way": sum(counts[state] for state in UNDER_WAY),
        "ends_at": shown["eta"],
        "paused_by": shown["paused_by"],
    }


def has_pace(row: JsonView, counts: Counts) -> bool:
    """Return whether the end of a batch can be estimated."""
    ended, left = (
        total(counts, ENDED),
        total(counts, UNENDED),
    )
    return bool(row["state"] == BatchState.RUNNING and ended and left)


def _end_of(row: JsonView, counts: Counts, paused: datetime.timedelta) -> datetime.datetime | None:
    """Return the end of a running batch if its nodes go on at the pace so far, without pauses."""
    if not has_pace(row, counts):
        return None
    ended, left = (
        total(counts, ENDED),
        total(counts, UNENDED),
    )
    now, began = clock.now(), cast(datetime.datetime, row["created_at"])
    return now + max(now - began - paused, NO_TIME) / ended * left


def member_document(row: JsonView, hidden: bool) -> Json:
    """Return a node of a batch as clients see it; ``hidden``: without the text of its error."""
    kept = ("name", "wave", "was", "tries", "started_at", "ended_at")
    error = row["error"]
    return {
        "uuid": row["node_uuid"],
        "result": row["state"],
        "run": row["run_uuid"],
        "error": {**error, "text": "See the runs of the node."} if error and hidden else error,
        **{name: row[name] for name in kept},
    }


# -- requests --------------------------------------------------------------------------------


def check_most(count: int) -> None:
    """Refuse more nodes than a batch may have.

    :raises errors.InvalidParameter: there are more than `MOST_NODES`.
    """
    if count > MOST_NODES:
        reason = f"are more than {MOST_NODES}; divide them among batches"
        raise errors.InvalidParameter(path="nodes", reason=reason)


def check_count(body: Json, count: int) -> None:
    """Refuse a batch without nodes, with too many, or with others than the caller expects.

    :raises errors.InvalidParameter, errors.UnexpectedCount:
    """
    if not count:
        raise errors.InvalidParameter(path="nodes", reason="must choose at least one node")
    check_most(count)
    if body.get("expect", count) != count:
        raise errors.UnexpectedCount(found=count, expect=body["expect"])


def check_fit(body: JsonView, fit: Sequence[JsonView]) -> None:
    """Refuse a batch if others of its nodes can than the caller expects.

    :param body: with the number or the `digest` of the expected nodes, or without both.
    :raises errors.Conflict:
    """
    expected = body.get("expect_fit")
    if isinstance(expected, str) and expected != digest(fit):
        now = "Other nodes can get the request now than those of expect_fit"
        raise errors.Conflict(f"{now}; ?plan=true shows which.")
    if isinstance(expected, int) and expected != len(fit):
        now = f"{len(fit)} of the nodes can get the request now, not {expected}"
        raise errors.Conflict(f"{now} as expected; ?plan=true shows which.")


@contextlib.contextmanager
def below(place: str) -> Iterator[None]:
    """Name the place in the body in faults of its part, whose paths begin in that part."""
    try:
        yield
    except errors.InvalidRequest as why:
        path = str(why.facts.get("path", ""))
        if path in {"", "expect"} or path.split("/", maxsplit=1)[0] == place:
            raise
        facts = {**why.facts, "path": f"{place}/{path}"}
        raise type(why)(f"{place}: {why.message}", **facts) from None


def filter_text(name: str, value: object) -> str:
    """Return the value of a filter of nodes as the text that a query has.

    :raises errors.InvalidParameter: neither a text nor a boolean.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        reason = f"{value!r:.32} is not a text or a boolean"
        raise errors.InvalidParameter(path=f"nodes/{name}", reason=reason)
    return value


FIELDS: tuple[Field, ...] = fields.shown(
    Field("uuid"),
    Field("name"),
    Field("state"),
    Field("wave", type=Type.INTEGER),
    fields.computed("waves", 1, Type.LIST),
    fields.computed("counts", 1, Type.OBJECT),
    fields.computed("failures_left", 1, Type.INTEGER),
    Field("max_failures", type=Type.INTEGER),
    fields.computed("concurrency", 1, Type.INTEGER),
    fields.computed("on_failures", 1, Type.STRING),
    fields.computed("between_waves", 1, Type.STRING),
    Field("request", type=Type.OBJECT, asked=True),
    fields.computed("eta", 1, Type.STRING),
    Field("requester"),
    Field("project"),
    Field("paused_by"),
    fields.moment("created_at"),
    fields.moment("updated_at"),
    fields.moment("ended_at"),
)
NODE_FIELDS: tuple[Field, ...] = fields.shown(
    Field("uuid"),
    Field("name"),
    Field("wave", type=Type.INTEGER),
    Field("result"),
    Field("was"),
    Field("run"),
    Field("tries", type=Type.INTEGER),
    Field("error", type=Type.OBJECT),
    fields.moment("started_at"),
    fields.moment("ended_at"),
)


def read_number(value: str, path: str) -> int:
    """Read a number from 0."""
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise errors.InvalidParameter(path=path, reason=f"{value[:32]!r} is not a number from 0")
    return int(value)
