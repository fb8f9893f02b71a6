"""What is written down while faults go on; the judge (`checker`) reads nothing else.

All moments are seconds of this machine's monotonic clock, which no fault turns. Whoever acts on a
machine is told apart by ``token``: the lock in whose name it was done.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

EVERYBODY: tuple[int, ...] = ()
"""The processes that a fault struck, when it struck all of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request that changes something, and its answer.

    :ivar what: a target of the provision verbs, or ``patch``.
    :ivar status: of the answer; None if none came: then nobody knows what was done.
    :ivar value: what a patch writes; larger each time on one node.
    :ivar force: a retry that repeats a step in doubt.
    :ivar key: its Idempotency-Key; repetitions have the same.
    """

    node: str
    what: str
    begin: float
    end: float
    status: int | None
    request_id: str | None = None
    value: int | None = None
    text: str = ""
    force: bool = False
    key: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was injected, and the processes that it struck."""

    kind: str
    begin: float
    end: float
    pids: tuple[int, ...] = EVERYBODY

    def struck(self, pid: int, since: float, until: float) -> bool:
        """Tell whether it struck a process at some moment between two."""
        return (not self.pids or pid in self.pids) and self.begin <= until and since <= self.end


@dataclasses.dataclass(frozen=True, slots=True)
class Act:
    """A call of the driver: what a machine would have felt.

    :ivar step: names the step that was begun by this call; None for any other call.
    :ivar again: whether this step may be begun once more after a crash.
    :ivar end: None if the caller died first.
    """

    node: str
    call: str
    pid: int
    token: str
    begin: float
    end: float | None
    step: str | None = None
    again: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """A row of the event log."""

    id: int
    node: str
    kind: str
    event: str | None
    before: str | None
    after: str | None
    run: str | None
    data: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """An event that a follower was told of."""

    id: int
    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """A request with ``wait`` and ``until``, and its answer.

    :ivar until: provision states.
    :ivar since: the newest event of the node before the request, 0 without one.
    :ivar upto: the same after the answer; None if it could not be read.
    :ivar shown: the provision state in the answer.
    """

    node: str
    until: tuple[str, ...]
    begin: float
    end: float
    status: int | None
    since: int
    upto: int | None = None
    shown: str | None = None
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A row of the runs, and the states of its steps.

    :ivar retry_of: the run that this one continues.
    :ivar done: the ordinals of the steps that are recorded as done.
    :ivar kept: the ordinals of the steps that an earlier run did.
    :ivar erased: the ordinals of the steps that have erased disks, or have failed to.
    """

    uuid: str
    node: str
    verb: str
    request_id: str | None
    state: str
    ended: bool
    steps: tuple[str, ...] = ()
    explained: bool = True
    """False if it has failed, or was aborted, without an error that has a cause."""
    retry_of: str | None = None
    done: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    erased: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A node at the end of it all."""

    uuid: str
    state: str
    first: str
    reservation: str | None = None
    lock_token: str | None = None
    run: str | None = None
    wakes: bool = False
    last_error: str | None = None
    value: int | None = None
    data_state: str = "unknown"
    data_state_by: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure record.

    :ivar ordinal: of the erasing step in its run.
    :ivar digest: the SHA-256 of its bytes, in hexadecimal.
    :ivar previous: what it says of the record before it.
    :ivar signed: False if its signature is wrong or missing.
    """

    uuid: str
    node: str
    run: str
    ordinal: int
    attempt: int
    result: str
    level: str
    digest: str
    previous: str | None
    signed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """A batch at the end of it all."""

    uuid: str
    state: str
    ended: bool
    concurrency: int


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A node of a batch at the end of it all."""

    batch: str
    node: str
    wave: int
    state: str
    request_id: str | None = None
    run: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Glance:
    """The nodes of an open batch at one moment.

    :ivar counts: wave, state, and the number of nodes.
    """

    batch: str
    at: float
    counts: tuple[tuple[int, str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Hook:
    """A webhook for all events, from the first one on, at the end of it all."""

    uuid: str
    state: str
    cursor: int


@dataclasses.dataclass(frozen=True, slots=True)
class Delivery:
    """A POST that the receiver of a webhook has got.

    :ivar ident: its ``webhook-id``.
    :ivar body: a digest of the body.
    :ivar events: the cursors of its events.
    :ivar signed: False if its signature is wrong.
    :ivar accepted: False if the receiver answered with a failure, or did not answer.
    """

    hook: str
    ident: str
    body: str
    events: tuple[int, ...]
    signed: bool
    accepted: bool


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """Everything."""

    requests: tuple[Request, ...] = ()
    faults: tuple[Fault, ...] = ()
    acts: tuple[Act, ...] = ()
    events: tuple[Event, ...] = ()
    runs: tuple[Run, ...] = ()
    nodes: tuple[Node, ...] = ()
    left: tuple[str, ...] = ()
    """Processes that ended although nobody had asked them to, each in a sentence."""
    waits: tuple[Wait, ...] = ()
    followed: tuple[Told, ...] = ()
    """The events that the follower was told of, in the order of their arrival."""
    upto: int = 0
    """The last event that the follower had to be told of; 0 if there was no follower."""
    connections: int = 0
    """How often the follower was connected."""
    refusals: tuple[str, ...] = ()
    """Answers to the follower that are neither 200 nor 503."""
    batches: tuple[Batch, ...] = ()
    members: tuple[Member, ...] = ()
    glances: tuple[Glance, ...] = ()
    hooks: tuple[Hook, ...] = ()
    erasures: tuple[Erasure, ...] = ()
    """The records of all nodes, in the order of their making."""
    deliveries: tuple[Delivery, ...] = ()
    """All that the receivers got, in the order of their arrival."""


def read_acts(path: pathlib.Path) -> tuple[Act, ...]:
    """Return the driver's journal, in the order in which the acts began."""
    begun: dict[str, Mapping[str, Any]] = {}
    ends: dict[str, float] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        if row["what"] == "begin":
            begun[row["id"]] = row
        elif row["what"] == "end":
            ends[row["id"]] = row["at"]
    acts = (_act(row, ends.get(ident)) for ident, row in begun.items())
    return tuple(sorted(acts, key=lambda act: act.begin))


def _act(row: Mapping[str, Any], end: float | None) -> Act:
    return Act(
        node=row["node"],
        call=row["call"],
        pid=row["pid"],
        token=row["token"],
        begin=row["at"],
        end=end,
        step=row["step"],
        again=row["again"],
    )


def dump(history: History, path: pathlib.Path) -> None:
    """Write everything down, to be looked at later."""
    path.write_text(json.dumps(dataclasses.asdict(history), indent=1), encoding="utf-8")


def load(path: pathlib.Path) -> History:
    """Read it again."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    kinds: Mapping[str, Any] = {
        "requests": Request,
        "faults": Fault,
        "acts": Act,
        "events": Event,
        "runs": Run,
        "nodes": Node,
        "waits": Wait,
        "followed": Told,
        "batches": Batch,
        "members": Member,
        "glances": Glance,
        "hooks": Hook,
        "deliveries": Delivery,
        "erasures": Erasure,
    }
    plain = {"upto": rows["upto"], "connections": rows["connections"]}
    found: dict[str, Iterable[Any]] = {
        key: tuple(_whole(kind, row) for row in rows[key]) for key, kind in kinds.items()
    }
    texts = {key: tuple(rows[key]) for key in ("left", "refusals")}
    return History(**found, **texts, **plain)  # type: ignore[arg-type]


def _whole(kind: Any, row: dict[str, Any]) -> Any:
    return kind(**{key: _tuples(value) for key, value in row.items()})


def _tuples(value: Any) -> Any:
    # JSON has no tuples.
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
