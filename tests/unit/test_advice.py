"""What an explanation advises: a fix by the cause, then a verb, or nothing to do."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import failures, verbs, waiting
from ironic_lite.domain.failures import NodeFailure, VerbOffer
from ironic_lite.domain.states import State

FAILED = State.CLEANFAIL
AT = datetime.datetime(2026, 11, 22, 12, 0, 0)


def failure(code: str | None, *, of_a_run: bool = True) -> NodeFailure:
    """Return a failure whose cause has this code."""
    run: Any = {"uuid": "r1"} if of_a_run else None
    error = {"cause": {"code": code, "text": "bang"}} if code else {}
    return NodeFailure("CleanStepFailed", "bang", error, None, None, None, AT, False, run, None)


def offers(*targets: str, refusal: errors.Error | None = None) -> list[VerbOffer]:
    """Return offers of verbs."""
    return [VerbOffer(target, State.AVAILABLE, None, refusal) for target in targets]


def advice_of(state: State, *facts: Any) -> str | None:
    """Return the advice for a node in a state."""
    return failures.advice(*facts, state=state)


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        ("BmcAccessDenied", "Correct the user name and the password in driver_info."),
        ("DeadlinePassed", "Look at the machine: the step may still be under way"),
        ("AgentUnreachable", "Look at the console of the machine: it has to boot the ramdisk"),
        ("TimedOut", "Look at the machine: the step may still be under way"),
        ("Aborted", "It was ended on request; find out why before you retry."),
        ("HardwareError", "Read the log of the run, and fix the cause."),
        (None, "Read the log of the run, and fix the cause."),
    ],
)
def test_fix_is_that_of_the_cause(code: str | None, fix: str) -> None:
    found = advice_of(FAILED, failure(code), None, None, offers("manage", "retry"))
    assert found is not None
    assert found.startswith(fix)
    assert found.endswith(" Then use retry.")


def test_list_with_a_faulty_step_is_to_be_corrected_and_no_field_of_the_node() -> None:
    facts = {"path": "clean_steps", "paths": ["clean_steps/0/step"]}
    cause = {"code": "InvalidParameter", "text": "bang", "facts": facts}
    failed = failure(None)._replace(error={"cause": cause})
    found = advice_of(FAILED, failed, None, None, offers("manage"))
    assert found is not None
    assert found.startswith("Correct the step that the reason names")
    cause["facts"] = {"path": "driver_info/redfish_address"}
    found = advice_of(FAILED, failed, None, None, offers("manage"))
    assert found == "Correct the field that the reason names. Then use manage."


def test_verb_that_is_refused_is_not_advised() -> None:
    refused = offers("retry", refusal=errors.NotFound(what="Run", ident="r1"))
    found = advice_of(FAILED, failure("BmcBadAnswer"), None, None, [*refused, *offers("manage")])
    assert found == "Restart the BMC, or update its firmware. Then use manage."
    found = advice_of(FAILED, failure("BmcBadAnswer"), None, None, refused)
    assert found == "Restart the BMC, or update its firmware."


def test_hold_is_to_be_lifted_if_it_refuses_the_verb_that_helps() -> None:
    hold = errors.NodeHeld(
        node="n1", about="legal", reason="case", block="erase", operation="retry", hold="h1"
    )
    blocked = offers("retry", refusal=hold)
    found = advice_of(FAILED, failure("BmcBadAnswer"), None, None, blocked)
    assert found == "Restart the BMC, or update its firmware. Then lift the hold."
    found = advice_of(State.ACTIVE, failure("BmcBadAnswer"), None, None, blocked)
    assert found == "Restart the BMC, or update its firmware."


def test_run_of_a_restored_database_is_retried_only_after_a_look() -> None:
    ended = failure("DatabaseRestored")._replace(code="DatabaseRestored")
    found = advice_of(FAILED, ended, None, None, offers("retry"))
    assert found is not None
    assert found.startswith("Check the machine: it may have been in use")
    assert "Then use" not in found


@pytest.mark.parametrize("state", State)
def test_no_state_is_advised_to_lose_an_instance_or_data(state: State) -> None:
    """Of all verbs that a state offers, only one that continues after its failure is advised."""
    every = offers(*(verb.target for verb in verbs.TABLE if verbs.possible(verb, state)))
    found = advice_of(state, failure("PowerFailure"), None, None, every)
    assert found is not None
    words = found.removesuffix(".").split(" Then use ")
    remedy = {
        State.ENROLL: "manage",
        State.INSPECTFAIL: "inspect",
        State.CLEANFAIL: "retry",
        State.DEPLOYFAIL: "retry",
        State.ADOPTFAIL: "adopt",
        State.RESCUEFAIL: "rescue",
        State.UNRESCUEFAIL: "unrescue",
        State.SERVICEFAIL: "retry",
    }
    assert words[1:] == ([remedy[state]] if state in remedy else [])


def test_failure_outside_of_runs_has_no_log_to_read() -> None:
    found = advice_of(FAILED, failure(None, of_a_run=False), None, None, ())
    assert found == "Fix the cause."


def test_retry_by_the_service_needs_nothing() -> None:
    wait = waiting.NodeWait(waiting.RETRY, AT, None, AT, None, None)
    found = advice_of(FAILED, failure("TimedOut"), wait, None, offers("retry"))
    assert found == "There is nothing to do: the service retries it by itself."


def test_overdue_step_is_ended_by_an_abort_or_by_its_conductor() -> None:
    wait = waiting.NodeWait(waiting.RETRY, AT, None, AT, None, None)._replace(what="step")
    late = {"since": AT}
    abort = offers("abort")[0]
    locked = errors.NodeLocked(node="n1", host="h1")
    found = [
        advice_of(State.CLEANWAIT, None, wait, late, [abort]),
        advice_of(State.CLEANWAIT, None, wait, late, [abort._replace(after="erase_devices")]),
        advice_of(State.CLEANWAIT, None, wait, late, offers("abort", refusal=locked)),
        advice_of(State.CLEANING, None, None, late, ()),
    ]
    console = "Look at the console of the machine."
    assert found[:3] == [
        f"{console} If its step does nothing any more, use abort.",
        console,
        console,
    ]
    assert "[conductor]work_timeout" in str(found[3])


def test_node_without_an_overdue_step_needs_nothing() -> None:
    assert advice_of(FAILED, None, None, None, offers("manage")) is None


def test_causes_are_errors_with_an_advice_of_their_own() -> None:
    texts = [
        advice_of(FAILED, failure(name), None, None, ())
        for name in ("BmcUnreachable", "BmcTaskFailed", "ImageUnusable", "Aborted")
    ]
    assert len(set(texts)) == len(texts)
    assert not any("Read the log" in str(text) for text in texts)
