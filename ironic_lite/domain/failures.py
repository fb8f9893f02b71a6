"""The failure that a node stands in: its run's error, its cause, and evidence for it. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import states, waiting
from ironic_lite.domain.states import Kind, State
from ironic_lite.records import Event, Run, RunStep

LINES = 20
"""Lines of a run's log that are shown as evidence."""

_LONGEST_LINE = 200
_ENDED = ("failed", "aborted")
_BMC_FACTS = ("address", "method", "path", "http_status", "message_id", "command")
_BMC_FACTS_MORE = ("completion_code", "task", "state")
_BMC = frozenset({"http_status", "message_id", "completion_code", "task"})
_AFTER_A_RUN = (State.ENROLL, State.ERROR)


class Failure(NamedTuple):
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


def of(
    node: JsonView,
    run: Run | None,
    step: RunStep | None,
    operation: Event | None = None,
    earlier: Run | None = None,
) -> Failure | None:
    """Return the failure that a node stands in, None without one.

    :param node: with provision_state, last_error, provision_updated_at, driver_internal_info.
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
) -> Failure:
    """Return the failure of a run."""
    error: JsonView = run["error"] or {}
    return Failure(
        code=error.get("code"),
        text=str(error.get("text") or node["last_error"] or ""),
        error=error,
        step=error.get("step") or (title(failed) if failed else None),
        ordinal=failed["ordinal"] if failed else None,
        attempt=failed["attempt"] if failed else None,
        at=run["ended_at"],
        aborted=run["state"] == "aborted",
        run=run,
        heard_at=heard,
    )


def _outside(node: JsonView, operation: Event | None, heard: datetime.datetime | None) -> Failure:
    """Return the failure of an operation outside of runs, or of a run that was removed."""
    text = str(node["last_error"] or "The reason is not recorded any more.")
    failed = states.kind(State(node["provision_state"])) is Kind.FAIL
    at = node["provision_updated_at"] if failed else None
    cause = ((operation["data"] or {}).get("cause") or {}) if operation is not None else {}
    if operation is None or not cause:
        return Failure(None, text, {}, None, None, None, at, False, None, heard)
    error = {"retryable": cause.get("retryable"), "cause": cause}
    at = operation["at"]
    return Failure(cause.get("code"), text, error, None, None, None, at, False, None, heard)


def document(failure: Failure, log: Sequence[str], most: int) -> Json:
    """Return a failure as the document shows it.

    :param log: the newest lines of the run's log.
    :param most: characters of a text.
    """
    cause = failure.cause
    return {
        "code": failure.code,
        "step": failure.step,
        "ordinal": failure.ordinal,
        "attempt": failure.attempt,
        "at": failure.at,
        "retryable": failure.error.get("retryable"),
        "text": shortened(failure.text, most),
        "cause": _cause(cause, most) if cause else None,
        "evidence": [*_of_agent(failure), *_of_bmc(cause), *_of_log(failure, log, most)],
    }


def _cause(cause: JsonView, most: int) -> Json:
    facts = {name: _small(fact, most) for name, fact in (cause.get("facts") or {}).items()}
    text = shortened(str(cause["text"]), most)
    return {**cause, "text": text, "facts": facts}


def _small(fact: Any, most: int) -> Any:
    return shortened(fact if isinstance(fact, str) else str(fact), most) if _large(fact) else fact


def _large(fact: object) -> bool:
    return len(str(fact)) > _LONGEST_LINE


def _of_agent(failure: Failure) -> list[Json]:
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


def _of_log(failure: Failure, log: Sequence[str], most: int) -> list[Json]:
    if failure.run is None:
        return []
    href = f"/v1/nodes/{failure.run['node_uuid']}/runs/{failure.run['uuid']}/log"
    lines = [shortened(line, min(most, _LONGEST_LINE)) for line in log[-LINES:]]
    return [{"kind": "log", "href": href, "tail": lines}]


def title(step: RunStep) -> str:
    """Return ``interface.step`` of a recorded step."""
    return f"{step['interface']}.{step['step']}"


def shortened(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
