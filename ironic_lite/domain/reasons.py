"""The explanation of a node's state: one document, and sentences for people in it. Pure.

The API reads the facts, `document` explains them. Sentences are made by the kind of the state.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import orjson

from ironic_lite.core import log_lines
from ironic_lite.core.configuration import Group
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import (
    activities,
    advice,
    batch_reasons,
    data_reasons,
    failures,
    node_locks,
    states,
    stop_reasons,
    waiting,
)
from ironic_lite.domain.failures import shortened
from ironic_lite.domain.holds import Hold
from ironic_lite.domain.offers import Offer, Order
from ironic_lite.domain.states import Kind, State
from ironic_lite.records import Event, Run, RunStep

COLUMNS = tuple(
    dict.fromkeys(
        (
            *node_locks.COLUMNS,
            *waiting.COLUMNS,
            *("name", "driver", "resource_class", "conductor_group", "target_provision_state"),
            *("created_at", "last_error", "maintenance_reason", "protected", "retired"),
            *("run_stop", "data_state", "instance_uuid", "power_state"),
        )
    )
)
"""Columns of a node that an explanation and the checks of verbs read."""

MOST_BYTES = 16 * 1024
"""Size limit of a document."""
_LONGEST_TEXTS = (2000, 600, 200, 60)
"""Limits of characters; a document that is too large is made again with the next one."""
_SAID = 400
_ENDED_BY_SERVICE = "power failure"
"""The fault whose maintenance the service ends itself."""
_OPEN = ("running", "waiting")
_ENDED_EARLY = ("failed", "aborted")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a node at one moment.

    :ivar node: with `COLUMNS`.
    :ivar run: the newest run, with its ``steps``.
    :ivar log: the newest lines of its log.
    :ivar operation: the event of the failed operation that has set last_error, if the newest run
        has not.
    :ivar earlier: the run of this operation.
    :ivar refused: the event of the last ramdisk that was refused since the wait began.
    :ivar held: the holds in force.
    :ivar batch: the newest batch with the node, None without one.
    :ivar orders: the orders of the node outside of verbs.
    :ivar settings: the options of ``[conductor]``.
    """

    node: JsonView
    run: Run | None
    steps: Sequence[RunStep]
    log: Sequence[str]
    operation: Event | None
    overdue: Json | None
    held: Sequence[Hold] = ()
    offers: Sequence[Offer]
    settings: Group
    now: datetime.datetime
    earlier: Run | None = None
    refused: Event | None = None
    batch: JsonView | None = None
    orders: Sequence[Order] = ()

    @property
    def state(self) -> State:
        """The provision state."""
        return State(self.node["provision_state"])

    @property
    def kind(self) -> Kind:
        """The kind of the provision state."""
        return states.kind(self.state)

    @property
    def position(self) -> int | None:
        """The index of the step under way, or of the step at which the run ended."""
        for wanted in (_OPEN, _ENDED_EARLY):
            for index, step in enumerate(self.steps):
                if step["state"] in wanted:
                    return index
        return None

    @property
    def step(self) -> RunStep | None:
        """The step under way, or the one at which the run ended."""
        return None if self.position is None else self.steps[self.position]

    @property
    def since(self) -> datetime.datetime | None:
        """The time since which the node is in its state, or at its step."""
        if self.kind in (Kind.STABLE, Kind.FAIL):
            at: datetime.datetime | None = self.node["provision_updated_at"]
            return at or self.node["created_at"]
        step = self.step
        begun = step["started_at"] if step is not None else None
        return begun or (self.run["started_at"] if self.run is not None else None)

    @property
    def wait(self) -> waiting.Wait | None:
        """The wait of the node; None in other states."""
        return waiting.of(self.node, self.since, self.settings, self.step)

    @property
    def failure(self) -> failures.Failure | None:
        """The failure that the node stands in."""
        return failures.of(self.node, self.run, self.step, self.operation, self.earlier)


def document(facts: Facts) -> Json:
    """Return the explanation, of at most `MOST_BYTES`."""
    for most in _LONGEST_TEXTS:
        found = _document(facts, most)
        if len(orjson.dumps(found)) <= MOST_BYTES:
            break
    return found


def _document(facts: Facts, most: int) -> Json:
    node, failure, wait = facts.node, facts.failure, facts.wait
    return {
        "node": node["uuid"],
        "name": node["name"],
        "provision_state": str(facts.state),
        "kind": facts.kind.value,
        "since": facts.since,
        "says": says(facts),
        "do": _advice(facts),
        "lock": _lock(node),
        "run": _run(facts, most),
        "waits_for": wait._asdict() if wait is not None else None,
        "failure": failures.document(failure, facts.log, most) if failure is not None else None,
        "maintenance": _maintenance(node, most),
        "holds": [_hold(one, most) for one in facts.held],
        "data_state": str(data_reasons.state_of(node)),
        "batch": batch_reasons.document(facts.batch, facts.run),
        "overdue": facts.overdue,
        "verbs": [offer.document(most) for offer in facts.offers],
        "orders": [order.document(most) for order in facts.orders],
    }


def _advice(facts: Facts) -> str | None:
    failure = facts.failure
    if failure is not None and failure.run is not None and failure.run is facts.earlier:
        failure = None  # another run has ended since
    left = facts.kind is Kind.STABLE and facts.node["fault"] not in (None, _ENDED_BY_SERVICE)
    return advice.of(
        failure,
        facts.wait,
        facts.overdue,
        facts.offers,
        state=facts.state,
        left_in_maintenance=left,
    )


def _lock(node: JsonView) -> Json | None:
    lock = node_locks.of(node)
    if lock is None:
        return None
    about = lock._asdict()
    about["for"] = about.pop("purpose")
    return about


def _run(facts: Facts, most: int) -> Json | None:
    run = facts.run
    if run is None:
        return None
    step, position = facts.step, facts.position
    return {
        "uuid": run["uuid"],
        "verb": run["verb"],
        "state": run["state"],
        "requester": run["requester"],
        "started_at": run["started_at"],
        "ended_at": run["ended_at"],
        "step": None if position is None else position + 1,
        "of": len(facts.steps),
        "title": None if step is None else failures.title(step),
        "stop": stop_reasons.document(stop_reasons.read(facts.node, run), most),
    }


def _maintenance(node: JsonView, most: int) -> Json | None:
    if not node["maintenance"]:
        return None
    reason = node["maintenance_reason"]
    return {"reason": shortened(reason, most) if reason else None, "fault": node["fault"]}


def _hold(hold: Hold, most: int) -> Json:
    by = hold.created_by and shortened(hold.created_by, most)
    reason = hold.reason and shortened(hold.reason, most)
    return {**hold.document, "reason": reason, "created_by": by}


# -- sentences -------------------------------------------------------------------------------

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        activities.VERIFY.name: "The check of its BMC",
        activities.INSPECT.name: "Inspection",
        activities.CLEAN.name: "Cleaning",
        activities.DEPLOY.name: "Deployment",
        activities.SERVICE.name: "Servicing",
        activities.DELETE.name: "The deletion of its instance",
        activities.ADOPT.name: "Adoption",
        activities.RESCUE.name: "Rescue",
        activities.UNRESCUE.name: "The end of its rescue",
    }
)
"""Activities as the subject of a sentence."""
_AT_REST: Mapping[State, str] = MappingProxyType(
    {
        State.ENROLL: "It is enrolled; the verb manage checks its BMC.",
        State.MANAGEABLE: "It is manageable; deployments do not choose it.",
        State.AVAILABLE: "It is available for a deployment.",
        State.ACTIVE: "It is active: an instance uses it.",
        State.RESCUE: "Its rescue system runs.",
        State.ERROR: "The deletion of its instance has not ended well.",
    }
)


def says(facts: Facts) -> str:
    """Return the explanation as a few sentences."""
    first, rest = _BY_KIND[facts.kind](facts), _AT_REST[State.AVAILABLE]
    limits = list(
        filter(None, (_about_maintenance(facts), _about_lock(facts), _about_holds(facts)))
    )
    if limits and first.startswith(rest):
        limit = limits.pop(0).replace("It is", "It is available, but", 1)
        first = limit + first.removeprefix(rest)
    found = [first, _about_stop(facts), _about_retry(facts), *limits]
    found.append(data_reasons.of(facts.node, facts.failure, facts.settings))
    found += [batch_reasons.of(facts.batch, facts.run), _about_verbs(facts)]
    return " ".join(one for one in found if one)


def _rest(facts: Facts) -> str:
    """Return the sentence of a stable state.

    An available node that allocations do not choose is not "available for a deployment".
    """
    node = facts.node
    if facts.state is State.AVAILABLE and node["instance_uuid"]:
        return f"It is available, and reserved for the instance {node['instance_uuid']}."
    if facts.state is State.AVAILABLE and node["power_state"] is None:
        return "It is available; allocations pass it by until its power state has been read."
    return _AT_REST[facts.state]


def _at_rest(facts: Facts) -> str:
    rest, failure = _rest(facts), facts.failure
    if failure is None:
        return rest
    if failure.run is None:
        failed = "The last operation outside of a run failed" if failure.error else "Its last error"
        return f"{rest} {failed}: {_sentence(failure.text)}"
    if failure.run is facts.earlier:
        ended = "was aborted" if failure.aborted else "failed"
        run = f"An earlier {failure.run['verb']} {ended}{_place(facts, failure)}"
        return f"{rest} {run}: {_sentence(failure.reason)}"
    return _failed(facts)


def _busy(facts: Facts) -> str:
    host = facts.node["reservation"]
    worker = f"The conductor {host} works on it." if host else "The conductor continues the run."
    return f"{_name(facts)} is under way{_for_time(facts)}{_at_step(facts)}. {worker}"


def _waits(facts: Facts) -> str:
    wait = facts.wait
    assert wait is not None
    what = _WAITED[wait.what](facts, wait)
    end = ""
    if wait.given_up_at is not None:
        condition = "At the latest it" if wait.final else "Without a heartbeat or report it"
        end = f" {condition} fails at {_moment(wait.given_up_at)} ({wait.limit})."
    time = _for_time(facts)
    clause = f"{what}{time}" if time else what.removesuffix(",")
    return f"{_name(facts)} waits for {clause}{_at_step(facts)}.{_refused_agent(facts)}{end}"


def _refused_agent(facts: Facts) -> str:
    if facts.refused is None:
        return ""
    data = facts.refused["data"] or {}
    about = f"A ramdisk at {data.get('address')} was refused {_ago(facts, facts.refused['at'])}"
    return f" {about}: {_sentence(str(data.get('reason')))}"


def _for_agent(facts: Facts, wait: waiting.Wait) -> str:
    if wait.last_sign_at is not None:
        return f"the agent, whose last heartbeat came {_ago(facts, wait.last_sign_at)},"
    if waiting.asked_for_token(facts.node):
        return "the agent, which has looked the node up and sent no heartbeat yet,"
    return "a ramdisk, which has not reported yet,"


def _for_timer(_facts: Facts, wait: waiting.Wait) -> str:
    return f"a timer, which ends at {_moment(wait.wakes_at)}," if wait.wakes_at else "a timer"


_WAITED: Mapping[str, Callable[[Facts, waiting.Wait], str]] = MappingProxyType(
    {
        waiting.AGENT: _for_agent,
        waiting.MACHINE: lambda _facts, _wait: "the machine",
        waiting.TIMER: _for_timer,
    }
)


def _held(facts: Facts) -> str:
    return (
        f"{_name(facts)} is held{_for_time(facts)}{_at_step(facts)}: unhold continues it, abort "
        "ends it."
    )


def _failed(facts: Facts) -> str:
    failure = facts.failure
    assert failure is not None
    ended = "was aborted" if failure.aborted else "failed"
    return f"{_name(facts)} {ended}{_place(facts, failure)}: {_sentence(failure.reason)}"


def _place(facts: Facts, failure: failures.Failure) -> str:
    """Return the step and the time of a failure, as the end of a clause."""
    step = f" at {failure.step}" if failure.step else ""
    return f"{step}, {_ago(facts, failure.at)}" if failure.at else step


_BY_KIND: Mapping[Kind, Callable[[Facts], str]] = MappingProxyType(
    {
        Kind.STABLE: _at_rest,
        Kind.BUSY: _busy,
        Kind.WAIT: _waits,
        Kind.HELD: _held,
        Kind.FAIL: _failed,
    }
)


def _about_stop(facts: Facts) -> str:
    stop = stop_reasons.read(facts.node, facts.run)
    text = stop_reasons.of(stop, is_held=facts.kind is Kind.HELD)
    if stop is None or not text:
        return ""
    return f"{text}: {_sentence(stop.reason)}" if stop.reason else f"{text}."


def _about_retry(facts: Facts) -> str:
    wait = facts.wait
    if wait is None or wait.what is not waiting.RETRY or wait.wakes_at is None:
        return ""
    return f"The service retries it at {_moment(wait.wakes_at)}."


def _about_maintenance(facts: Facts) -> str:
    node = facts.node
    if not node["maintenance"]:
        return ""
    fault = f" because of the fault {node['fault']}" if node["fault"] else ""
    reason = node["maintenance_reason"]
    if not reason or reason == node["last_error"]:
        return f"It is in maintenance{fault}."
    return f"It is in maintenance{fault}: {_sentence(reason)}"


def _about_lock(facts: Facts) -> str:
    lock = node_locks.of(facts.node)
    if lock is None or facts.kind is Kind.BUSY:
        return ""
    purpose = f" for {lock.purpose}" if lock.purpose else ""
    return f"It is locked by the conductor {lock.host}{purpose}."


def _about_holds(facts: Facts) -> str:
    if not facts.held:
        return ""
    first, *more = facts.held
    others = f" {len(more)} more: see holds." if more else ""
    blocks = ", ".join(first.blocks)
    why = f": {_sentence(first.reason)}" if first.reason else "."
    return f"It is held ({first.kind}), which blocks {blocks}{why}{others}"


def _about_verbs(facts: Facts) -> str:
    possible = [offer.target for offer in facts.offers if offer.refusal is None]
    if possible:
        return f"Possible now: {', '.join(possible)}."
    refusal = next((offer.refusal for offer in facts.offers if offer.refusal), None)
    if refusal is None:
        return ""
    return f"Every verb is refused now: {_sentence(refusal.message)}"


def _name(facts: Facts) -> str:
    activity = activities.of(facts.state)
    if activity is None and facts.run is not None and facts.run["verb"] != "manage":
        return f"The run {facts.run['verb']}"
    return _NAMES[(activity or activities.VERIFY).name]


def _at_step(facts: Facts) -> str:
    step = facts.step
    if step is None or facts.position is None:
        return ""
    return f", at step {facts.position + 1} of {len(facts.steps)}, {failures.title(step)}"


def _for_time(facts: Facts) -> str:
    seconds = (facts.now - facts.since).total_seconds() if facts.since else 0
    return f" for {duration(seconds)}" if seconds >= 1 else ""


def _ago(facts: Facts, at: datetime.datetime) -> str:
    seconds = (facts.now - at).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 1 else "just now"


def _moment(at: datetime.datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _sentence(text: str) -> str:
    """Return a text as one short sentence on one line; agents repeat whole web pages."""
    short = shortened(log_lines.escaped(" ".join(text.split())), _SAID)
    return short if short.endswith((".", "!", "?")) else f"{short}."


def duration(seconds: float) -> str:
    """Return a duration in words, such as ``12 minutes``."""
    left = max(0, int(seconds))
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if left >= 2 * size:
            return f"{left // size} {unit}s"
    return f"{left} second{'' if left == 1 else 's'}"
