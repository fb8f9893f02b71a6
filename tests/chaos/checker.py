"""The judge: from what was written down to what must not have happened. Pure.

``RULES`` is all it knows; each rule yields violations, and none of them asks anybody anything.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ironic_lite import errors
from ironic_lite.core import options
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from tests.chaos import batch_rules, erasure_rules, webhook_rules
from tests.chaos.records import Act, Event, Fault, History, Request, Run, Wait

REST = (Kind.STABLE, Kind.FAIL)
PAUSES = frozenset({"stop-conductor"})
"""Faults after which a process may still make the one call that it was about to make."""
BREATH = 2.0
"""Seconds in which a process that was paused makes that call."""
EXPECTED = frozenset({200, 201, 202, 204, 400, 404, 409, 503})
"""Answers that a caller can do something with, whatever the faults."""
WAITED = frozenset({200, 424, 503, 504})
"""Answers to a wait for a node that exists."""
RUNLESS = frozenset({"patch", "abort", "unhold", "batch", "declare"})


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not have happened."""

    rule: str
    node: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: node {self.node}: {self.text}"


def check(history: History, features: Collection[str] = options.FEATURES) -> list[Violation]:
    """Return all violations, in the order of the rules.

    :param features: that were on. Without erasures, nothing proves that a node is clean.
    """
    rules = {
        name: rule for name, rule in RULES.items() if "erasures" in features or name not in _PROOF
    }
    return [
        Violation(name, node, text) for name, rule in rules.items() for node, text in rule(history)
    ]


Found = Iterator[tuple[str, str]]


# -- requests --------------------------------------------------------------------------------


def _accepted(history: History) -> Iterator[Request]:
    return (one for one in history.requests if one.status in (200, 202))


def lost_verbs(history: History) -> Found:
    """Every accepted verb has its run; that of a repetition with a key may be of an earlier try."""
    known = {run.request_id for run in history.runs}
    asked = {one.request_id for one in history.requests}
    by_batch = {one.run for one in history.members}
    # The run of a try without an answer, whose id nobody was told.
    unknown = {
        (run.node, run.verb)
        for run in history.runs
        if run.request_id not in asked and run.uuid not in by_batch
    }
    keys = {
        one.key
        for one in history.requests
        if one.request_id in known or (one.status is None and (one.node, one.what) in unknown)
    } - {None}
    for one in _accepted(history):
        if one.what not in RUNLESS and one.request_id not in known and one.key not in keys:
            yield one.node, f"{one.what} was accepted as {one.request_id}, and there is no run"


def lost_writes(history: History) -> Found:
    """The last accepted write stands, unless one without an answer may have come after it."""
    patches = [one for one in history.requests if one.what == "patch"]
    for node in history.nodes:
        ours = [one for one in patches if one.node == node.uuid]
        kept = [one.value or 0 for one in ours if one.status == 200]
        unknown = {one.value for one in ours if one.status is None or one.status == 503}
        if kept and node.value != max(kept) and node.value not in unknown:
            yield node.uuid, f"the accepted value {max(kept)} is gone, it has {node.value}"


def answers(history: History) -> Found:
    """Whatever goes wrong, callers get answers of this service's own."""
    for one in history.requests:
        if one.status is not None and one.status not in EXPECTED:
            yield one.node, f"{one.what} was answered {one.status}: {one.text[:200]}"
    for wait in history.waits:
        if wait.status is not None and wait.status not in WAITED:
            yield wait.node, f"a wait was answered {wait.status}: {wait.text[:200]}"
    for text in history.refusals:
        yield "-", f"the follower was answered {text}"


# -- runs ------------------------------------------------------------------------------------


def unfinished(history: History) -> Found:
    """Every node is at rest, and every run has its end."""
    for node in history.nodes:
        if states.kind(State(node.state)) not in REST:
            yield node.uuid, f"it is left in {node.state}"
        if node.run is not None:
            yield node.uuid, f"its run {node.run} goes on"
        if node.wakes:
            yield node.uuid, "its timer is set"
    for run in history.runs:
        left = [state for state in run.steps if state in ("running", "waiting")]
        if not run.ended:
            yield run.node, f"the run {run.uuid} ({run.verb}) is {run.state}"
        elif left or (run.state == "done" and set(run.steps) - {"done", "skipped", "aborted"}):
            yield run.node, f"the run {run.uuid} is {run.state}, its steps are {run.steps}"


def wrong_ends(history: History) -> Found:
    """A run that went well ended in a stable state, another where its failure is told."""
    last: dict[str, Event] = {}
    for event in history.events:
        if event.kind == "provision" and event.run is not None:
            last[event.run] = event
    for run in history.runs:
        end = last.get(run.uuid)
        if end is None:
            yield run.node, f"the run {run.uuid} ({run.verb}) has moved nothing"
        elif run.state == "done" and states.kind(State(str(end.after))) is not Kind.STABLE:
            yield run.node, f"the run {run.uuid} ({run.verb}) is done and ended in {end.after}"
        elif not run.explained:
            yield run.node, f"the run {run.uuid} ({run.verb}) is {run.state} without a cause"
    for node in history.nodes:
        if states.kind(State(node.state)) is Kind.FAIL and not node.last_error:
            yield node.uuid, f"nobody says why it is in {node.state}"


def ran_twice(history: History) -> Found:
    """A request is carried out once, however often its message was delivered."""
    by_request: dict[str, list[Run]] = collections.defaultdict(list)
    asked = {one.request_id for one in history.requests if one.request_id}
    for run in history.runs:
        if run.request_id in asked:
            by_request[str(run.request_id)].append(run)
    for request_id, runs in by_request.items():
        if len(runs) > 1:
            yield runs[0].node, f"{request_id} has {len(runs)} runs"


# -- retries ---------------------------------------------------------------------------------


def kept_again(history: History) -> Found:
    """A step that a retry keeps does not run in the retry."""
    kept = {(run.uuid, ordinal) for run in history.runs for ordinal in run.kept}
    for act in history.acts:
        if act.step is not None and _place(act.step) in kept:
            yield act.node, f"{act.call} ({act.step}) ran, although an earlier run had done it"


def doubt_again(history: History) -> Found:
    """A retry repeats a step that must not run twice, and may have ended, only with force.

    These machines fail only by the loss of their BMC, so a step that began and is not recorded as
    done may have ended.
    """
    runs = {run.uuid: run for run in history.runs}
    once = {_place(act.step): act for act in history.acts if act.step and not act.again}
    for (uuid, ordinal), act in once.items():
        run = runs.get(uuid)
        before = run and runs.get(str(run.retry_of))
        while before and (before.uuid, ordinal) not in once:
            before = runs.get(str(before.retry_of))
        if run and before and ordinal not in before.done and not _forced(history, run):
            yield (
                run.node,
                f"{act.call} ({act.step}) ran again; its end in {before.uuid} is unknown",
            )


def _place(step: str) -> tuple[str, int]:
    """Return run and ordinal of a step's id."""
    run, ordinal, _changes = step.split("/")
    return run, int(ordinal)


def _forced(history: History, run: Run) -> bool:
    """Tell whether a retry was forced, or may have been by a request without an answer."""
    return any(
        one.force and one.node == run.node and one.request_id in (run.request_id, None)
        for one in history.requests
    )


# -- the event log ---------------------------------------------------------------------------


def broken_chains(history: History) -> Found:
    """The moves of a node are one chain of the state table, from its first state to its last."""
    moves: dict[str, list[Event]] = collections.defaultdict(list)
    for event in history.events:
        if event.kind == "provision":
            moves[event.node].append(event)
    for node in history.nodes:
        at = State(node.first)
        for event in moves[node.uuid]:
            if event.before != at:
                yield node.uuid, f"event {event.id} begins at {event.before}, the node was in {at}"
            elif not _in_table(event):
                yield node.uuid, f"event {event.id}: no {event.event} leads to {event.after}"
            at = State(str(event.after))
        if node.state != at:
            yield node.uuid, f"its last event led to {at}, it is in {node.state}"


def _in_table(event: Event) -> bool:
    try:
        return states.follow(State(str(event.before)), str(event.event)) == event.after
    except errors.InvalidState:
        return False


def begun_after_end(history: History) -> Found:
    """A step that has been recorded as ended is never begun again."""
    ended: set[tuple[str | None, str | None, int]] = set()
    for event in history.events:
        if event.kind not in ("step_started", "step_ended") or "ordinal" not in event.data:
            continue
        place = (event.run, event.event, int(event.data["ordinal"]))
        if event.kind == "step_ended":
            ended.add(place)
        elif place in ended:
            yield event.node, f"{event.data.get('step')} of run {event.run} was begun after its end"


# -- the driver's own journal ----------------------------------------------------------------


def steps_twice(history: History) -> Found:
    """A step is begun again only after its conductor was struck, and only if it may be."""
    for step, acts in _by(history.acts, lambda act: act.step).items():
        for one, next_one in itertools.pairwise(acts):
            if not one.again:
                yield one.node, f"{one.call} ({step}) was run again, which it must never be"
            elif not _struck(history.faults, one.pid, one.begin, next_one.begin):
                yield one.node, f"{one.call} ({step}) was run twice, and nothing had happened"


def two_owners(history: History) -> Found:
    """Nobody acts on a machine while another does, but for a call cut off by a fault."""
    for node, acts in _by(history.acts, lambda act: act.node).items():
        open_: list[Act] = []  # one call may be made within another, and end before it
        for other in acts:
            open_ = [one for one in open_ if _ended(one, history.faults) > other.begin]
            for one in open_:
                if one.token != other.token and not _struck(
                    history.faults, one.pid, one.begin, other.begin
                ):
                    yield node, f"{other.call} began while {one.call} of another lock went on"
            open_.append(other)


def fenced(history: History) -> Found:
    """Who has lost a node begins nothing more on it."""
    for node, acts in _by(history.acts, lambda act: act.node).items():
        order: list[str] = []
        for act in acts:
            if act.token not in order:
                order.append(act.token)
            elif act.token != order[-1] and not (
                _about_to(act, history.faults) or _within(act, acts)
            ):
                yield node, f"{act.call} was begun in the name of a lock that another had replaced"


def _within(act: Act, acts: Iterable[Act]) -> bool:
    """Tell whether a call was made by another that was under way: `two_owners` judges that one."""
    return any(
        one is not act and one.token == act.token and one.begin <= act.begin <= (one.end or 0)
        for one in acts
    )


def _about_to(act: Act, faults: Iterable[Fault]) -> bool:
    """Tell whether a process makes the call before which it was paused."""
    return any(
        one.kind in PAUSES and act.pid in one.pids and one.begin <= act.begin <= one.end + BREATH
        for one in faults
    )


def _ended(act: Act, faults: Iterable[Fault]) -> float:
    """Return when a call was over: at its end, or with the life of its caller."""
    if act.end is not None:
        return act.end
    deaths = (one for one in faults if act.pid in one.pids and one.begin >= act.begin)
    return min((one.begin for one in deaths if one.kind not in PAUSES), default=float("inf"))


def _struck(faults: Iterable[Fault], pid: int, since: float, until: float) -> bool:
    return any(one.struck(pid, since, until) for one in faults)


def _by(acts: Iterable[Act], key: Callable[[Act], str | None]) -> dict[str, list[Act]]:
    found: dict[str, list[Act]] = collections.defaultdict(list)
    for act in acts:
        name = key(act)
        if name is not None:
            found[name].append(act)
    return found


# -- clients that watch ----------------------------------------------------------------------


def lost_events(history: History) -> Found:
    """A follower that resumes with its cursors is told of every event."""
    told = {one.id for one in history.followed}
    for event in history.events:
        if event.id <= history.upto and event.id not in told:
            yield event.node, f"the follower lacks event {event.id} ({event.kind} {event.event})"


def disordered_events(history: History) -> Found:
    """Events of one node arrive in the order of their ids; some arrive again after a cut."""
    told: set[int] = set()
    newest: dict[str, int] = {}
    for one in history.followed:
        if one.id in told:
            continue
        told.add(one.id)
        if one.id < newest.get(one.node, 0):
            yield one.node, f"event {one.id} was told after {newest[one.node]}"
        newest[one.node] = max(one.id, newest.get(one.node, 0))


def lying_waits(history: History) -> Found:
    """A wait answers 200 if the node was in the state since the request, and shows that state."""
    moves: dict[str, list[Event]] = collections.defaultdict(list)
    for event in history.events:
        if event.kind == "provision":
            moves[event.node].append(event)
    first = {node.uuid: node.first for node in history.nodes}
    for wait in history.waits:
        if wait.status != 200:
            continue
        was = set(_states_during(wait, first[wait.node], moves[wait.node]))
        until = " or ".join(wait.until)
        if not was & set(wait.until):
            yield wait.node, f"a wait until {until} was answered 200; it was {', '.join(was)}"
        elif wait.shown not in wait.until:
            yield wait.node, f"a wait until {until} was answered with {wait.shown}"


def _states_during(wait: Wait, first: str, moves: Iterable[Event]) -> Iterator[str]:
    """Yield the states of a node from the moment before a request to the moment after it."""
    state = first
    for move in moves:
        if move.id > wait.since:
            yield state
        if wait.upto is not None and move.id > wait.upto:
            return
        state = str(move.after)
    yield state


# -- what is left ----------------------------------------------------------------------------


def locks_left(history: History) -> Found:
    """When all is quiet nobody holds a node."""
    for node in history.nodes:
        if node.reservation is not None or node.lock_token is not None:
            yield node.uuid, f"it is still locked by {node.reservation}"


def gone(history: History) -> Found:
    """No process ends by itself."""
    for text in history.left:
        yield "-", text


RULES: Mapping[str, Callable[[History], Found]] = {
    "accepted verb lost": lost_verbs,
    "accepted write lost": lost_writes,
    "answer nobody can use": answers,
    "left unfinished": unfinished,
    "ended wrong": wrong_ends,
    "request carried out twice": ran_twice,
    "kept step ran again": kept_again,
    "step in doubt ran again": doubt_again,
    "history broken": broken_chains,
    "step begun after its end": begun_after_end,
    "step run twice": steps_twice,
    "two owners at once": two_owners,
    "not fenced": fenced,
    "lock left": locks_left,
    "process gone": gone,
    "event lost": lost_events,
    "out of order": disordered_events,
    "wait that lies": lying_waits,
    "batch over its bound": batch_rules.over_bound,
    "batch node twice": batch_rules.node_twice,
    "batch left open": batch_rules.left_open,
    "webhook gap": webhook_rules.gaps,
    "clean without proof": erasure_rules.clean_without_proof,
    "erasure unrecorded": erasure_rules.unrecorded,
    "erasure chain broken": erasure_rules.broken_chains,
}
_PROOF = frozenset({"clean without proof", "erasure unrecorded"})
