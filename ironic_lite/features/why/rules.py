"""The explanation of a node's state: one document, and sentences for people in it. Pure.

The API reads the facts, and `document` explains them. The sentences are made from the document.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from ironic_lite import errors
from ironic_lite.core import config, log_lines
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.options import Group
from ironic_lite.domain import (
    activities,
    failures,
    fields,
    node_locks,
    states,
    step_times,
    steps,
    waiting,
)
from ironic_lite.domain.erasure_records import DataState
from ironic_lite.domain.failures import NodeFailure, VerbOffer, shortened
from ironic_lite.domain.fields import DeployInterfaces
from ironic_lite.domain.holds import OBSERVE, TRIAL, Hold
from ironic_lite.domain.run_stops import How, Stop, StopProgress
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
            *fields.DEPLOY_COLUMNS,
        )
    )
)
"""Columns of a node that an explanation and the checks of verbs read."""

MOST_BYTES = 16 * 1024
"""Size limit of a document."""
_LONGEST_TEXTS = (2000, 600, 200, 60)
"""Limits of characters of a text; a document that is too large is cut by the next one."""
_WHOLE = frozenset({"says", "do", "href"})
"""Keys of texts that are never cut."""
_POLLED = "polled_since"
_POLL_LIMIT = "poll_timeout"
_SENTENCE, _NAME = 400, 100
"""Limits of characters of a text in a sentence, and of a name."""
_ENDED_BY_SERVICE = "power failure"
"""The fault whose maintenance the service ends itself."""
_OPEN = ("running", "waiting")
_ENDED_EARLY = ("failed", "aborted")


class OrderOffer(NamedTuple):
    """An order outside of verbs, such as ``power``.

    ``targets`` are its possible values, empty if they are not fixed; ``refusal`` as in `VerbOffer`.
    """

    name: str
    targets: tuple[str | bool, ...]
    refusal: errors.Error | None

    @property
    def document(self) -> Json:
        """The order as clients see it."""
        refused = failures.refused(self.refusal)
        return {"order": self.name, "targets": list(self.targets), "refused": refused}


@dataclasses.dataclass(frozen=True, kw_only=True)
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
    :ivar batch: the newest batch with the node, None without one, or without the feature.
    :ivar orders: the orders of the node outside of verbs.
    :ivar settings: the options of ``[conductor]``.
    :ivar deploy: both deploy interfaces, if autodetect chooses.
    """

    node: JsonView
    run: Run | None
    steps: Sequence[RunStep]
    log: Sequence[str]
    operation: Event | None
    overdue: Json | None
    held: Sequence[Hold] = ()
    offers: Sequence[VerbOffer]
    settings: Group
    now: datetime.datetime
    earlier: Run | None = None
    refused: Event | None = None
    batch: JsonView | None = None
    orders: Sequence[OrderOffer] = ()
    deploy: DeployInterfaces | None = None

    @property
    def state(self) -> State:
        """The provision state."""
        return State(self.node["provision_state"])

    @property
    def kind(self) -> Kind:
        """The kind of the provision state."""
        return states.kind(self.state)

    @functools.cached_property
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

    @functools.cached_property
    def wait(self) -> waiting.NodeWait | None:
        """The wait of the node; None in other states."""
        return wait_of(self.node, self.since, self.settings, self.step)

    @functools.cached_property
    def failure(self) -> NodeFailure | None:
        """The failure that the node stands in."""
        return failures.failure_of(self.node, self.run, self.step, self.operation, self.earlier)


def wait_of(
    node: JsonView,
    since: datetime.datetime | None,
    settings: Group,
    step: RunStep | None = None,
) -> waiting.NodeWait | None:
    """Return the wait of a node; None in states that do not wait.

    :param node: with ``waiting.COLUMNS``.
    :param since: the begin of the step under way, or of the run.
    :param settings: the options of ``[conductor]``.
    :param step: the step under way.
    """
    state = State(node["provision_state"])
    if states.kind(state) is Kind.HELD:
        return waiting.NodeWait(waiting.OPERATOR, since, None, None, None, None)
    if states.kind(state) is Kind.FAIL and node["wake_at"] is not None:
        return waiting.NodeWait(
            waiting.RETRY, node["provision_updated_at"], None, node["wake_at"], None, None
        )
    activity = activities.waiting(state)
    if activity is None:
        return None
    what = waiting.waited_for(node, activity)
    sign = waiting.heard_at(node) if what is waiting.AGENT else None
    if what is waiting.MACHINE and node["provision_updated_at"] != since:
        sign = node["provision_updated_at"]
    given_up_at, limit = _end_of_wait(node, activity, settings, step)
    return waiting.NodeWait(what, since, sign, node["wake_at"], given_up_at, limit)


def _end_of_wait(
    node: JsonView, activity: activities.Activity, settings: Group, step: RunStep | None
) -> tuple[datetime.datetime | None, str | None]:
    """Return the time of the first limit that ends the wait, and its option."""
    found = sorted(_limits(node, activity, settings, step))
    if not found:
        return None, None
    at, name = found[0]
    return at, f"[conductor]{name}"


def _limits(
    node: JsonView, activity: activities.Activity, settings: Group, step: RunStep | None
) -> Iterator[tuple[datetime.datetime, str]]:
    """Yield the end by each option that limits the wait."""
    # Maintenance set by an operator stops the time-out of the state, and deadlines.
    running = not (node["maintenance"] and node["fault"] is None)
    begin, option = node["provision_updated_at"], activity.timeout
    if running and begin is not None and option is not None and settings[option] > 0:
        last = max(begin, node["wake_at"] or begin)
        yield last + datetime.timedelta(seconds=settings[option]), option
    deadline = _deadline(step, settings) if running else None
    if deadline is not None:
        yield deadline, waiting.STEP_LIMIT
    polled = (node["driver_internal_info"] or {}).get(_POLLED)
    if polled and settings[_POLL_LIMIT] > 0:
        first = datetime.datetime.fromisoformat(polled).replace(tzinfo=None)
        yield first + datetime.timedelta(seconds=settings[_POLL_LIMIT]), _POLL_LIMIT


def _deadline(step: RunStep | None, settings: Group) -> datetime.datetime | None:
    """Return the deadline of a waiting step; None without one."""
    if step is None or step["state"] != "waiting" or step["step"] in step_times.BY_REQUEST:
        return None
    seconds = config.priorities(settings[waiting.STEP_LIMIT]).get(
        f"{step['interface']}.{step['step']}"
    )
    begun = step["started_at"]
    if seconds is None or begun is None:
        return None
    return begun + datetime.timedelta(seconds=int(seconds))


def document(facts: Facts) -> Json:
    """Return the explanation, of at most `MOST_BYTES`."""
    whole = _document(facts)
    whole |= {"says": " ".join(filter(None, _sentences(facts, whole))), "do": _advice(facts)}
    for most in _LONGEST_TEXTS:
        found: Json = _with_short_texts(whole, most)
        if len(orjson.dumps(found)) <= MOST_BYTES:
            break
    return found


def _document(facts: Facts) -> Json:
    """Return the explanation without its sentences."""
    node, lock = facts.node, node_locks.of(facts.node)
    return {
        "node": node["uuid"],
        "name": node["name"],
        "provision_state": str(facts.state),
        "kind": facts.kind.value,
        "since": facts.since,
        "lock": lock and lock.document,
        "run": _run(facts),
        "waits_for": facts.wait and facts.wait._asdict(),
        "failure": facts.failure and facts.failure.document(facts.log),
        "maintenance": {"reason": node["maintenance_reason"] or None, "fault": node["fault"]}
        if node["maintenance"]
        else None,
        "holds": [hold.document for hold in facts.held],
        "data_state": str(node["data_state"] or DataState.UNKNOWN),
        "batch": _batch(facts),
        "deploy_interface": facts.deploy,
        "overdue": facts.overdue,
        "verbs": [offer.document for offer in facts.offers],
        "orders": [order.document for order in facts.orders],
    }


_OF_RUN = ("uuid", "verb", "state", "requester", "started_at", "ended_at")


def _run(facts: Facts) -> Json | None:
    run = facts.run
    if run is None:
        return None
    shown = {name: run[name] for name in _OF_RUN}  # type: ignore[literal-required]
    stop = Stop.read(facts.node["run_stop"], run["uuid"]) if run["ended_at"] is None else None
    return {
        **shown,
        "step": None if facts.position is None else facts.position + 1,
        "of": len(facts.steps),
        "title": facts.step and steps.title(facts.step),
        "stop": stop and stop.document,
    }


def _batch(facts: Facts) -> Json | None:
    """Return the batch that a node is in, or whose request has opened its newest run."""
    row, run = facts.batch, facts.run
    if row is None:
        return None
    if row["ended"] and (run is None or run["uuid"] != row["run_uuid"]):
        return None
    names = {name: row[f"batch_{name}"] for name in ("uuid", "name", "state")}
    return {**names, "result": row["state"], **{k: row[k] for k in ("paused_by", "wave", "error")}}


def _with_short_texts(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return shortened(value, most)
    if isinstance(value, list):
        return [_with_short_texts(one, most) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: one if name in _WHOLE else _with_short_texts(one, most) for name, one in value.items()
    }


def _advice(facts: Facts) -> str | None:
    kinds, name = {hold.kind for hold in facts.held}, facts.node["name"] or facts.node["uuid"]
    if TRIAL in kinds:
        return errors.TrialImport().message
    if OBSERVE in kinds:
        unread = "" if facts.node["power_state"] else _UNREAD.format(name=name)
        return f"{unread}{_RELEASE.format(name=name)}"
    failure = facts.failure
    if failure is not None and failure.run is not None and failure.run is facts.earlier:
        failure = None  # another run has ended since
    return failures.advice(
        failure,
        facts.wait,
        facts.overdue,
        facts.offers,
        state=facts.state,
        left_in_maintenance=facts.kind is Kind.STABLE
        and facts.node["fault"] not in (None, _ENDED_BY_SERVICE),
    )


_UNREAD = "Its power is not known: GET /v1/doctor?node={name} says why. "
_RELEASE = (
    "Release it by ironic-lite-status release {name}, or by POST /v1/holds/end, when this service "
    "may change it."
)


# -- sentences -------------------------------------------------------------------------------

_NAMES: Mapping[str, str] = {
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
"""Activities as the subject of a sentence."""
_AT_REST: Mapping[State, str] = {
    State.ENROLL: "It is enrolled; the verb manage checks its BMC.",
    State.MANAGEABLE: "It is manageable; deployments do not choose it.",
    State.AVAILABLE: "It is available for a deployment.",
    State.ACTIVE: "It is active: an instance uses it.",
    State.RESCUE: "Its rescue system runs.",
    State.ERROR: "The deletion of its instance has not ended well.",
}


_EFFECTS: Mapping[State, str] = {
    State.AVAILABLE: "allocations pass it by",
    State.MANAGEABLE: "it becomes available only by a clean that proves their erasure",
    State.CLEANFAIL: "the verb available is refused",
}
"""Effects of ``[conductor]require_clean_data`` on a node that is not clean."""


def _sentences(facts: Facts, shown: JsonView) -> list[str]:
    first, rest = _BY_KIND[facts.kind](facts), _AT_REST[State.AVAILABLE]
    limits = [*_about_maintenance(facts), *_about_lock(facts, shown), *_about_holds(shown)]
    if limits and first.startswith(rest):
        limit = limits.pop(0).replace("It is", "It is available, but", 1)
        first = limit + first.removeprefix(rest)
    told = [
        first,
        _about_stop(facts, shown),
        _about_retry(facts),
        *limits,
        _about_data(facts, shown),
        _about_batch(shown["batch"]),
        _about_deploy(facts),
        _about_verbs(facts),
    ]
    # A node that is only observed is so whatever its state is.
    observed = [text for text in _about_holds(shown) if text in told and _is_observed(shown)]
    return [*observed, *(text for text in told if text not in observed)]


def _is_observed(shown: JsonView) -> bool:
    return any(hold["kind"] in (OBSERVE, TRIAL) for hold in shown["holds"])


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
        earlier = f"An earlier {failure.run['verb']}"
        return f"{rest} {_ended(facts, failure, earlier)}"
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
    remarks = f"{_boot_restarts(facts)}{_refused_agent(facts)}"
    return f"{_name(facts)} waits for {clause}{_at_step(facts)}.{remarks}{end}"


def _boot_restarts(facts: Facts) -> str:
    restarts = waiting.ramdisk_boot(facts.node).restarts
    if not restarts:
        return ""
    times = "once" if restarts == 1 else f"{restarts} times"
    return f" There was no lookup of its ramdisk{_for_time(facts)}; restarted {times}."


def _refused_agent(facts: Facts) -> str:
    if facts.refused is None:
        return ""
    data = facts.refused["data"] or {}
    about = f"A ramdisk at {data.get('address')} was refused {_ago(facts, facts.refused['at'])}"
    return f" {about}: {_sentence(str(data.get('reason')))}"


def _for_agent(facts: Facts, wait: waiting.NodeWait) -> str:
    if wait.last_sign_at is not None:
        return f"the agent, whose last heartbeat came {_ago(facts, wait.last_sign_at)},"
    if waiting.asked_for_token(facts.node):
        return "the agent, which has looked the node up and sent no heartbeat yet,"
    return "a ramdisk, which has not reported yet,"


def _for_timer(_facts: Facts, wait: waiting.NodeWait) -> str:
    return f"a timer, which ends at {_moment(wait.wakes_at)}," if wait.wakes_at else "a timer"


_WAITED: Mapping[str, Callable[[Facts, waiting.NodeWait], str]] = {
    waiting.AGENT: _for_agent,
    waiting.MACHINE: lambda _facts, _wait: "the machine",
    waiting.TIMER: _for_timer,
}


def _held(facts: Facts) -> str:
    return (
        f"{_name(facts)} is held{_for_time(facts)}{_at_step(facts)}: unhold continues it, abort "
        "ends it."
    )


def _failed(facts: Facts) -> str:
    assert facts.failure is not None
    return _ended(facts, facts.failure, _name(facts))


def _ended(facts: Facts, failure: NodeFailure, work: str) -> str:
    ended = "was aborted" if failure.aborted else "failed"
    step = f" at {failure.step}" if failure.step else ""
    ago = f", {_ago(facts, failure.at)}" if failure.at else ""
    return f"{work} {ended}{step}{ago}: {_sentence(failure.reason)}"


_BY_KIND: Mapping[Kind, Callable[[Facts], str]] = {
    Kind.STABLE: _at_rest,
    Kind.BUSY: _busy,
    Kind.WAIT: _waits,
    Kind.HELD: _held,
    Kind.FAIL: _failed,
}


def _about_stop(facts: Facts, shown: JsonView) -> str:
    stop = shown["run"] and shown["run"]["stop"]
    done = stop is not None and stop["progress"] is StopProgress.DONE
    if stop is None or (done and facts.kind is not Kind.HELD):
        return ""
    by = f" by {stop['requester']}" if stop["requester"] else ""
    after = "before its next step" if stop["after"] is None else f"after the step {stop['after']}"
    text = "The stop was" if done else f"A stop ({How(stop['how'])}) {after} is"
    return f"{text} requested{by}{_because(stop['reason'])}"


def _about_retry(facts: Facts) -> str:
    wait = facts.wait
    if wait is None or wait.what is not waiting.RETRY or wait.wakes_at is None:
        return ""
    return f"The service retries it at {_moment(wait.wakes_at)}."


def _about_maintenance(facts: Facts) -> Iterator[str]:
    node = facts.node
    if node["maintenance"]:
        fault = f" because of the fault {node['fault']}" if node["fault"] else ""
        reason = node["maintenance_reason"]
        because = _because(None if reason == node["last_error"] else reason)
        yield f"It is in maintenance{fault}{because}"


def _about_lock(facts: Facts, shown: JsonView) -> Iterator[str]:
    lock = shown["lock"]
    if lock is not None and facts.kind is not Kind.BUSY:
        purpose = f" for {lock['for']}" if lock["for"] else ""
        yield f"It is locked by the conductor {lock['host']}{purpose}."


def _about_holds(shown: JsonView) -> Iterator[str]:
    for hold in sorted(shown["holds"], key=lambda hold: hold["kind"] not in (OBSERVE, TRIAL))[:1]:
        more = len(shown["holds"]) - 1
        others = f" {more} more: see holds." if more else ""
        blocks = f"which blocks {', '.join(hold['blocks'])}{_because(hold['reason'])}"
        yield f"It is held ({hold['kind']}), {blocks}{others}"


def _about_deploy(facts: Facts) -> str:
    """Return both deploy interfaces of a node with work that one has chosen the other for."""
    if facts.deploy is None or facts.kind is Kind.STABLE:
        return ""
    return f"It uses the deploy interface {facts.deploy['used']}, chosen by {facts.deploy['own']}."


def _about_data(facts: Facts, shown: JsonView) -> str:
    """Return the effect of a proof that is required and missing."""
    effect, state = _EFFECTS.get(facts.state), shown["data_state"]
    if effect is None or state == DataState.CLEAN or not facts.settings["require_clean_data"]:
        return ""
    if facts.failure is not None and facts.failure.code == errors.DataNotProven.__name__:
        return ""  # the sentence of the failure has said so
    return (
        f"Its data are not proven to be erased (data_state is {state}), so {effect} "
        "([conductor]require_clean_data)."
    )


def _about_batch(batch: JsonView | None) -> str:
    if batch is None:
        return ""
    by = f" by {_line(batch['paused_by'], _NAME)}" if batch["paused_by"] else ""
    name = f" ({_line(batch['name'], _NAME)})" if batch["name"] else ""
    result = f"Its result in the batch {batch['uuid']}{name} is {batch['result']}"
    return f"{result}; the batch is {batch['state']}{by}."


def _about_verbs(facts: Facts) -> str:
    possible = [offer.target for offer in facts.offers if offer.refusal is None]
    if possible:
        return f"Possible now: {', '.join(possible)}."
    refusals = [offer.refusal for offer in facts.offers if offer.refusal]
    return f"Every verb is refused now: {_sentence(refusals[0].message)}" if refusals else ""


def _name(facts: Facts) -> str:
    activity = activities.of(facts.state)
    if activity is None and facts.run is not None and facts.run["verb"] != "manage":
        return f"The run {facts.run['verb']}"
    return _NAMES[(activity or activities.VERIFY).name]


def _at_step(facts: Facts) -> str:
    step = facts.step
    if step is None or facts.position is None:
        return ""
    return f", at step {facts.position + 1} of {len(facts.steps)}, {steps.title(step)}"


def _for_time(facts: Facts) -> str:
    seconds = (facts.now - facts.since).total_seconds() if facts.since else 0
    return f" for {duration(seconds)}" if seconds >= 1 else ""


def _ago(facts: Facts, at: datetime.datetime) -> str:
    seconds = (facts.now - at).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 1 else "just now"


def _moment(at: datetime.datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _because(reason: str | None) -> str:
    """Return the end of a sentence with its reason, if there is one."""
    return f": {_sentence(reason)}" if reason else "."


def _sentence(text: str) -> str:
    short = _line(text, _SENTENCE)
    return short if short.endswith((".", "!", "?")) else f"{short}."


def _line(text: str, most: int) -> str:
    """Return a text as one short line; agents repeat whole web pages."""
    return shortened(log_lines.escaped(" ".join(text.split())), most)


def duration(seconds: float) -> str:
    """Return a duration in words, such as ``12 minutes``."""
    left = max(0, int(seconds))
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if left >= 2 * size:
            return f"{left // size} {unit}s"
    return f"{left} second{'' if left == 1 else 's'}"
