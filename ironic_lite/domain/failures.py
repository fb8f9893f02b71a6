"""The failure that a node stands in, the requests that it takes, and what to do next. Pure."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.masking import PROSE, TextMask
from ironic_lite.domain import states, steps, waiting
from ironic_lite.domain.states import Kind, State
from ironic_lite.domain.waiting import NodeWait
from ironic_lite.records import Event, Run, RunStep

# The records of errors in runs, steps and events. Pure.
#
# A flow wraps an error in sentences of its own: a step fails with ``CleanStepFailed``, whatever its
# driver raised. The record therefore has a ``cause``: the first error of the chain, with the facts
# that its driver added. Secrets are masked and the size is bounded, because machines send the
# facts.

MOST_BYTES = 4096
"""Size limit of a cause, as JSON."""
_MOST_TEXT = 1500  # characters of its text
_MOST_WORDS = 400  # characters of one fact
_MOST_ITEMS = 20  # of a list or an object
_DEEPEST = 4
_LONGEST_CODE = 64
_REASON = "reason"


def record(error: errors.Error, hide: TextMask = PROSE) -> Json:
    """Return the record of an error: code, text, retryable, cause.

    ``retryable`` is that of the cause, because the wrapping errors do not know.

    :param hide: the mask of the node's texts.
    """
    cause = of(error, hide)
    return {
        "code": error.code,
        "text": hide(error.message),
        "retryable": cause["retryable"],
        "cause": cause,
    }


def of(error: errors.Error, hide: TextMask = PROSE) -> Json:
    """Return the cause of an error: code, text, retryable, facts; without one, the error itself.

    The facts of errors between the two are added, such as the child node of a step.

    :param hide: the mask of the node's texts.
    """
    *between, first = error.causes
    facts: Json = {}
    for wrapped in between[1:]:
        facts |= {name: fact for name, fact in wrapped.facts.items() if name != _REASON}
    facts |= first.facts
    about = _without_wrapper(first, hide)
    about |= {"facts": {str(name): _plain(fact, hide) for name, fact in facts.items()}}
    return _bounded(masking.mask(about))


def hide(error: errors.Error, known: Callable[[str], str]) -> None:
    """Hide secrets in an error and its causes: in their messages and in their facts.

    :param known: hides further secrets, such as those of nodes.
    """

    def masked(value: Any) -> Any:
        if isinstance(value, str):
            return PROSE(known(value))
        if isinstance(value, dict):
            return {name: masked(held) for name, held in value.items()}
        return list(map(masked, value)) if isinstance(value, list) else value

    for one in error.causes:
        one.message = masked(one.message)
        one.facts = masked(one.facts)


def code(about: JsonView) -> str | None:
    """Return the code of a recorded error for the column ``runs.code``; None without an error."""
    return str(about["cause"]["code"])[:_LONGEST_CODE] if about else None


def failure(why: Exception) -> errors.Error:
    """Return the error of this service for any exception that a driver raised."""
    if isinstance(why, errors.Error):
        return why
    return errors.Unexpected(
        f"unexpected {type(why).__name__}: {why}", exception=type(why).__name__
    )


def _without_wrapper(first: errors.Error, hide: TextMask) -> Json:
    """Return code, text and retryable of the first error.

    A driver may raise ``StepFailed`` itself. Its code says no more than that a step failed, so the
    record has the parent's code and the driver's own words.
    """
    code, text = first.code, first.message
    if isinstance(first, errors.StepFailed):
        code, text = errors.HardwareError.__name__, str(first.facts.get(_REASON) or text)
    return {
        "code": code,
        "text": shortened(hide(text), _MOST_TEXT),
        "retryable": first.retryable,
    }


def _plain(fact: object, hide: TextMask, depth: int = 0) -> Any:
    """Return a fact in JSON types, masked and shortened."""
    if fact is None or isinstance(fact, bool | int | float):
        return fact
    if isinstance(fact, datetime.datetime):
        return fact.replace(tzinfo=datetime.UTC).isoformat()
    if depth < _DEEPEST and isinstance(fact, Mapping):
        kept = list(fact.items())[:_MOST_ITEMS]
        return {str(name): _plain(value, hide, depth + 1) for name, value in kept}
    if depth < _DEEPEST and isinstance(fact, list | tuple | set | frozenset):
        return [_plain(value, hide, depth + 1) for value in list(fact)[:_MOST_ITEMS]]
    return shortened(hide(str(fact)), _MOST_WORDS)


def _bounded(cause: Json) -> Json:
    """Return a cause of at most `MOST_BYTES`; the largest facts are left out first."""
    facts = cause["facts"]
    for name in sorted(facts, key=lambda one: _size(facts[one]), reverse=True):
        if _size(cause) <= MOST_BYTES:
            break
        del facts[name]
    while _size(cause) > MOST_BYTES:
        cause["text"] = shortened(cause["text"], len(cause["text"]) // 2)
    return cause


def _size(value: object) -> int:
    """Return the size of a value as JSON in its longest form, with escapes."""
    return len(json.dumps(value))


# The failure that a node stands in: its run's error, its cause, and evidence for it. Pure.

LINES = 20
"""Lines of a run's log that are shown as evidence."""

_LONGEST_LINE = 200
_ENDED = ("failed", "aborted")
_BMC_FACTS = ("address", "method", "path", "http_status", "message_id", "command")
_BMC_FACTS_MORE = ("completion_code", "task", "state")
_BMC = frozenset({"http_status", "message_id", "completion_code", "task"})
_AFTER_A_RUN = (State.ENROLL, State.ERROR)
_SHOWN = ("code", "step", "ordinal", "attempt", "at", "text")


class NodeFailure(NamedTuple):
    """A failure of a run, or of an operation outside of runs, for which ``run`` is None.

    ``code`` is None if only ``last_error`` is known. ``error`` is the record with the cause,
    ``step`` the title of the failed step.
    """

    code: str | None
    text: str
    error: JsonView
    step: str | None
    ordinal: int | None
    attempt: int | None
    at: datetime.datetime | None
    aborted: bool
    run: Run | None
    heard_at: datetime.datetime | None

    @property
    def cause(self) -> JsonView | None:
        """The cause, None if it is not recorded."""
        found: JsonView | None = self.error.get("cause")
        return found

    @property
    def reason(self) -> str:
        """The text of the cause, or the text of the failure."""
        return str(self.cause["text"]) if self.cause else self.text

    def document(self, log: Sequence[str]) -> Json:
        """Return the failure as clients see it; ``log`` has the newest lines of the run's log."""
        cause = self.cause
        evidence = [*_of_agent(self), *_of_bmc(cause), *_of_log(self, log)]
        return {
            **{name: getattr(self, name) for name in _SHOWN},
            "retryable": self.error.get("retryable"),
            "cause": {**cause, "facts": _small(cause.get("facts") or {})} if cause else None,
            "evidence": evidence,
        }


def failure_of(
    node: JsonView,
    run: Run | None,
    step: RunStep | None,
    operation: Event | None = None,
    earlier: Run | None = None,
) -> NodeFailure | None:
    """Return the failure that a node stands in, None without one.

    :param node: with provision_state, last_error, provision_updated_at, driver_internal_info,
        agent_heard_at.
    :param run: the newest run of the node.
    :param step: the step at which the run ended.
    :param operation: the event of the operation that set ``last_error``.
    :param earlier: the run of this operation.
    """
    state, last_error = State(node["provision_state"]), node["last_error"]
    kind = states.kind(state)
    if kind is not Kind.FAIL and not (kind is Kind.STABLE and last_error):
        return None
    heard = waiting.heard_at(node)
    error: JsonView = (run["error"] if run is not None else None) or {}
    ended = run is not None and run["state"] in _ENDED
    explains = kind is Kind.FAIL or state in _AFTER_A_RUN or error.get("text") == last_error
    if run is not None and ended and error and explains:
        return _of_run(node, run, step if step and step["state"] in _ENDED else None, heard)
    if earlier is not None and earlier["state"] in _ENDED and earlier["error"]:
        return _of_run(node, earlier, None, heard)
    return _outside(node, operation, heard)


def _of_run(
    node: JsonView, run: Run, failed: RunStep | None, heard: datetime.datetime | None
) -> NodeFailure:
    """Return the failure of a run."""
    error: JsonView = run["error"] or {}
    return NodeFailure(
        code=error.get("code"),
        text=str(error.get("text") or node["last_error"] or ""),
        error=error,
        step=error.get("step") or (steps.title(failed) if failed else None),
        ordinal=failed["ordinal"] if failed else None,
        attempt=failed["attempt"] if failed else None,
        at=run["ended_at"],
        aborted=run["state"] == "aborted",
        run=run,
        heard_at=heard,
    )


def _outside(
    node: JsonView, operation: Event | None, heard: datetime.datetime | None
) -> NodeFailure:
    """Return the failure of an operation outside of runs, or of a run that was removed."""
    text = str(node["last_error"] or "The reason is not recorded any more.")
    failed = states.kind(State(node["provision_state"])) is Kind.FAIL
    at = node["provision_updated_at"] if failed else None
    stored = (operation["data"] or {}).get("cause") if operation else None
    # The event of a move has the key of a cause, which is a text.
    cause: JsonView = stored if isinstance(stored, Mapping) else {}
    at = operation["at"] if operation and cause else at
    error = {"retryable": cause.get("retryable"), "cause": cause} if cause else {}
    return NodeFailure(cause.get("code"), text, error, None, None, None, at, False, None, heard)


def _small(facts: JsonView) -> Json:
    """Return facts with large ones as text, which can be cut."""
    texts = {name: str(fact) for name, fact in facts.items()}
    return {
        name: text if len(text) > _LONGEST_LINE else facts[name] for name, text in texts.items()
    }


def _of_agent(failure: NodeFailure) -> list[Json]:
    """Return the last heartbeat, and whether a ramdisk has looked the node up."""
    facts = (failure.cause or {}).get("facts") or {}
    found: list[Json] = []
    at = facts.get("heard_at") or failure.heard_at
    if at is not None:
        heard = at if isinstance(at, datetime.datetime) else _parsed(at)
        seconds = int((failure.at - heard).total_seconds()) if failure.at and heard else None
        before = f" {seconds} s before the failure" if seconds is not None and seconds >= 0 else ""
        found.append({"kind": "agent", "at": at, "text": f"last heartbeat{before}"})
    looked_up = facts.get("looked_up")
    if looked_up is not None:
        does = "has looked" if looked_up else "has not looked"
        found.append({"kind": "lookup", "text": f"a ramdisk {does} this node up since the boot"})
    return found


def _parsed(at: object) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(str(at)).replace(tzinfo=None)
    except ValueError:
        return None


def _of_bmc(cause: JsonView | None) -> list[Json]:
    facts = (cause or {}).get("facts") or {}
    if not _BMC & facts.keys() or "agent_error" in facts:
        return []
    names = (*_BMC_FACTS, *_BMC_FACTS_MORE)
    return [{"kind": "bmc", **{name: facts[name] for name in names if name in facts}}]


def _of_log(failure: NodeFailure, log: Sequence[str]) -> list[Json]:
    if failure.run is None:
        return []
    href = f"/v1/nodes/{failure.run['node_uuid']}/runs/{failure.run['uuid']}/log"
    lines = [shortened(line, _LONGEST_LINE) for line in log[-LINES:]]
    return [{"kind": "log", "href": href, "tail": lines}]


def shortened(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


# Verbs that a node takes now, or refuses with an error. Pure.


class VerbOffer(NamedTuple):
    """A verb that the state offers.

    ``leads_to`` is the state at its end; ``after`` the step that ends before the verb has an
    effect; ``refusal`` the first error of the same request, None if it would be accepted.
    """

    target: str
    leads_to: State
    after: str | None
    refusal: errors.Error | None

    @property
    def document(self) -> Json:
        """The verb as clients see it."""
        shown = self._asdict()
        shown["refused"] = refused(shown.pop("refusal"))
        return {**shown, "leads_to": str(self.leads_to)}


def refused(why: errors.Error | None) -> Json | None:
    """Return a refusal as clients see it."""
    return {"code": why.code, "text": why.message} if why else None


# The advice of an explanation: what to do next about a failed or an overdue node. Pure.

_IN_DOUBT = "Look at the machine: the step may still be under way, or may have ended."
_NO_RAMDISK = (
    "Look at the console of the machine: it has to boot the ramdisk, and the ramdisk has to reach "
    "the API."
)
_IMAGE = "Check the address and the checksum of the image."
_FIELD = "Correct the field that the reason names."
_STEP = "Correct the step that the reason names: in the request, runbook or template."
_OF_CAUSE: Mapping[str, str] = {
    error.__name__: text
    for error, text in (
        (errors.BmcUnreachable, "Check the power, the address and the network of the BMC."),
        (errors.BmcAccessDenied, "Correct the user name and the password in driver_info."),
        (errors.BmcBadAnswer, "Restart the BMC, or update its firmware."),
        (errors.BmcTaskFailed, "Read the event log of the BMC."),
        (errors.OtherMachine, "Correct the address of the BMC in driver_info."),
        (errors.PowerFailure, "Check the power supply of the machine, and its BMC."),
        (errors.ImageUnusable, _IMAGE),
        (errors.DownloadFailed, _IMAGE),
        (errors.AgentUnreachable, _NO_RAMDISK),
        (errors.TimedOut, _IN_DOUBT),  # a silent agent is AgentUnreachable
        (errors.DeadlinePassed, _IN_DOUBT),
        (errors.StepInterrupted, _IN_DOUBT),
        (errors.Interrupted, _IN_DOUBT),
        (errors.InvalidParameter, _FIELD),
        (errors.MissingParameter, _FIELD),
        (errors.DataNotProven, "Erase the disks, or declare the state of the data."),
        (errors.LibraryMissing, "Install what the reason names on the conductor's machine."),
        (errors.DiskFull, "Free some space on the disk of the conductor's machine."),
        (errors.Aborted, "It was ended on request; find out why before you retry."),
    )
}
"""Fixes of causes, by the code of the cause."""
_RESTORED = (
    "Check the machine: it may have been in use since the backup. Retry only if its data may be "
    "lost."
)
_OTHERWISE = "Read the log of the run, and fix the cause."
_OUTSIDE = "Fix the cause."
_ITSELF = "There is nothing to do: the service retries it by itself."
_MAINTENANCE = "End the maintenance when the cause of its fault is fixed: DELETE .../maintenance."
_CONSOLE = "Look at the console of the machine."
_ABORT = "If its step does nothing any more, use abort."
_HANGS = "If its step hangs, the conductor fails it after [conductor]work_timeout or busy_timeout."

REMEDIES: Mapping[State, tuple[str, ...]] = {
    State.ENROLL: ("manage",),
    State.INSPECTFAIL: ("inspect",),
    State.CLEANFAIL: ("retry", "manage"),
    State.DEPLOYFAIL: ("retry",),
    State.ADOPTFAIL: ("adopt",),
    State.RESCUEFAIL: ("rescue",),
    State.UNRESCUEFAIL: ("unrescue",),
    State.SERVICEFAIL: ("retry",),
}
"""Verbs that continue after a failure, by state, the best first.

None of them erases or deploys what the failed run would not have. In other states no verb is a
remedy: after a failed power order of an active node, each possible verb would change the instance.
"""


def advice(
    failure: NodeFailure | None,
    wait: NodeWait | None,
    overdue: Json | None,
    offers: Sequence[VerbOffer],
    *,
    state: State,
    left_in_maintenance: bool = False,
) -> str | None:
    """Return what to do next as one or two sentences; None if the node needs nothing.

    :param failure: the failure that the node stands in.
    :param wait: the wait of the node.
    :param overdue: the step under way that takes unusually long.
    :param offers: the verbs that the state offers.
    :param state: the provision state of the node.
    :param left_in_maintenance: a fault that only an operator ends keeps the node in maintenance.
    """
    if wait is not None and wait.what == waiting.RETRY:
        return _ITSELF
    if failure is None:
        rest = _MAINTENANCE if left_in_maintenance else None
        return _overdue(wait, offers) if overdue else rest
    otherwise = _OTHERWISE if failure.run is not None else _OUTSIDE
    code = str((failure.cause or {}).get("code") or failure.code)
    if failure.code == errors.DatabaseRestored.__name__:
        return _RESTORED
    fix = _STEP if _about_steps(failure) else _OF_CAUSE.get(code, otherwise)
    return " ".join(filter(None, (fix, _then(state, offers))))


def _overdue(wait: NodeWait | None, offers: Sequence[VerbOffer]) -> str:
    """Return what ends an overdue step. A stop of its run does not: it waits for the step."""
    for offer in offers:
        if offer.target == "abort" and offer.refusal is None and offer.after is None:
            return f"{_CONSOLE} {_ABORT}"
    return _CONSOLE if wait is not None else f"{_CONSOLE} {_HANGS}"


def _about_steps(failure: NodeFailure) -> bool:
    """Return whether the run was given a list with faulty steps (`step_lists`)."""
    return bool(((failure.cause or {}).get("facts") or {}).get("paths"))


def _then(state: State, offers: Sequence[VerbOffer]) -> str:
    """Return the verb after the fix; empty if no verb helps."""
    offered = {offer.target: offer for offer in offers}
    for verb in REMEDIES.get(state, ()):
        offer = offered.get(verb)
        if offer is None:
            continue
        if offer.refusal is None:
            return f"Then use {verb}."
        if isinstance(offer.refusal, errors.NodeHeld):
            return "Then lift the hold."
    return ""
