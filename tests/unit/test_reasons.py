"""Explanations of a node: a sentence for each state, waits, failures, and the size limit."""

from __future__ import annotations

import datetime
import json
from typing import Any

import orjson
import pytest

from ironic_lite import errors
from ironic_lite.domain import states, waiting
from ironic_lite.domain.failures import VerbOffer
from ironic_lite.domain.holds import Block, Hold
from ironic_lite.domain.states import Kind, State
from ironic_lite.features.why import rules

NOW = datetime.datetime(2026, 11, 22, 12, 0, 0)
RUN = "0f7bd4bb-2b0c-4fa2-9f2f-6ac3c9a1a1b5"
ERASE = {"interface": "deploy", "step": "erase_devices"}
SETTINGS: dict[str, Any] = {
    "clean_callback_timeout": 1800,
    "deploy_callback_timeout": 1800,
    "service_callback_timeout": 1800,
    "rescue_callback_timeout": 1800,
    "inspect_wait_timeout": 1800,
    "poll_timeout": 0,
    "step_deadline": [],
    "require_clean_data": False,
}


def ago(minutes: float) -> datetime.datetime:
    return NOW - datetime.timedelta(minutes=minutes)


def node(**values: Any) -> dict[str, Any]:
    """Return a node's row."""
    row: dict[str, Any] = dict.fromkeys(rules.COLUMNS)
    row |= {"uuid": "n1", "name": "rack3-21", "provision_state": "manageable"}
    row |= {"maintenance": False, "protected": False, "retired": False, "power_state": "power on"}
    row |= {"created_at": ago(900), "provision_updated_at": ago(12), "deploy_interface": "agent"}
    return {**row, **values}


def run(state: str, verb: str = "provide", **values: Any) -> Any:
    """Return a run's row."""
    row = {"uuid": RUN, "node_uuid": "n1", "verb": verb, "state": state, "requester": "ann"}
    return {**row, "started_at": ago(30), "ended_at": None, "error": None, **values}


def step(state: str, name: str = "erase_devices", **values: Any) -> Any:
    """Return a step's row."""
    row = {"interface": "deploy", "step": name, "state": state, "ordinal": 1, "attempt": 1}
    return {**row, "kind": "clean", "started_at": ago(12), "ended_at": None, **values}


def facts(row: dict[str, Any], the_run: Any = None, *steps: Any, **more: Any) -> rules.Facts:
    """Return the facts of a node at noon."""
    given = {
        "log": (),
        "operation": None,
        "overdue": None,
        "offers": (),
        "settings": SETTINGS,
        "now": NOW,
    }
    return rules.Facts(node=row, run=the_run, steps=steps, **{**given, **more})


def failed(cause: dict[str, Any] | None = None, **values: Any) -> Any:
    error = {"code": "CleanStepFailed", "text": "Clean step x failed: bang", "retryable": True}
    error |= {"step": "deploy.erase_devices", "cause": cause}
    return run("failed", ended_at=ago(10), error=error, **values)


SAYS: dict[State, str] = {
    State.ENROLL: "It is enrolled; the verb manage checks its BMC.",
    State.MANAGEABLE: "It is manageable; deployments do not choose it.",
    State.AVAILABLE: "It is available for a deployment.",
    State.ACTIVE: "It is active: an instance uses it.",
    State.RESCUE: "Its rescue system runs.",
    State.ERROR: "The deletion of its instance has not ended well.",
    State.VERIFYING: "The check of its BMC is under way for 12 minutes",
    State.INSPECTING: "Inspection is under way for 12 minutes",
    State.INSPECTWAIT: "Inspection waits for a ramdisk, which has not reported yet, for 12 minutes",
    State.INSPECTFAIL: "Inspection failed at deploy.erase_devices, 10 minutes ago: no disk.",
    State.CLEANING: "Cleaning is under way for 12 minutes, at step 2 of 3, deploy.erase_devices.",
    State.CLEANWAIT: "Cleaning waits for a ramdisk, which has not reported yet, for 12 minutes",
    State.CLEANHOLD: "Cleaning is held for 12 minutes, at step 2 of 3, deploy.erase_devices:",
    State.CLEANFAIL: "Cleaning failed at deploy.erase_devices, 10 minutes ago: no disk.",
    State.DEPLOYING: "Deployment is under way for 12 minutes",
    State.DEPLOYWAIT: "Deployment waits for a ramdisk, which has not reported yet, for 12 minutes",
    State.DEPLOYHOLD: "Deployment is held for 12 minutes",
    State.DEPLOYFAIL: "Deployment failed at deploy.erase_devices, 10 minutes ago: no disk.",
    State.DELETING: "The deletion of its instance is under way for 12 minutes",
    State.ADOPTING: "Adoption is under way for 12 minutes",
    State.ADOPTFAIL: "Adoption failed at deploy.erase_devices, 10 minutes ago: no disk.",
    State.RESCUING: "Rescue is under way for 12 minutes",
    State.RESCUEWAIT: "Rescue waits for a ramdisk, which has not reported yet, for 12 minutes",
    State.RESCUEFAIL: "Rescue failed at deploy.erase_devices, 10 minutes ago: no disk.",
    State.UNRESCUING: "The end of its rescue is under way for 12 minutes",
    State.UNRESCUEFAIL: "The end of its rescue failed at deploy.erase_devices, 10 minutes ago",
    State.SERVICING: "Servicing is under way for 12 minutes",
    State.SERVICEWAIT: "Servicing waits for a ramdisk, which has not reported yet, for 12 minutes",
    State.SERVICEHOLD: "Servicing is held for 12 minutes",
    State.SERVICEFAIL: "Servicing failed at deploy.erase_devices, 10 minutes ago: no disk.",
}


@pytest.mark.parametrize(
    ("restarts", "words"), [(0, None), (1, "restarted once."), (3, "restarted 3 times.")]
)
def test_restarts_of_a_silent_ramdisk_are_told(restarts: int, words: str | None) -> None:
    notes = {"driver_notes": {"ramdisk_boot": {"restarts": restarts}}}
    row = node(provision_state="clean wait", driver_internal_info=notes, run_uuid=RUN)
    says = rules.document(facts(row, run("running")))["says"]
    sentence = f"There was no lookup of its ramdisk for 30 minutes; {words}"
    assert (sentence in says) is (words is not None)
    assert ("no lookup" in says) is (words is not None)


@pytest.mark.parametrize("state", State)
def test_each_state_has_a_sentence(state: State) -> None:
    kind = states.kind(state)
    row = node(provision_state=state.value)
    if kind is Kind.BUSY:
        row |= {"reservation": "c1", "locked_at": ago(12), "run_uuid": RUN}
    if kind is Kind.FAIL:
        cause = {"code": "HardwareError", "text": "no disk", "facts": {}, "retryable": False}
        found = facts(row, failed(cause), step("done"), step("failed"))
    elif kind is Kind.STABLE:
        found = facts(row, run("done", ended_at=ago(12)), step("done"))
    else:
        found = facts(row, run("running"), step("done"), step("running"), step("pending"))
    document = rules.document(found)
    assert document["says"].startswith(SAYS[state]), document["says"]
    assert (document["provision_state"], document["kind"]) == (state.value, kind.value)
    assert (document["waits_for"] is None) is (kind not in (Kind.WAIT, Kind.HELD))
    assert (document["failure"] is None) is (kind is not Kind.FAIL)


def test_failure_has_step_cause_and_evidence() -> None:
    cause: dict[str, Any] = {"code": "BmcBadAnswer", "text": "HTTP 500", "retryable": True}
    cause["facts"] = {
        "http_status": 500,
        "message_id": ["Base.1.0.InternalError"],
        "path": "/redfish",
    }
    row = node(provision_state="clean failed", last_error="Clean step x failed: bang")
    found = rules.document(
        facts(row, failed(cause), step("done"), step("failed", ordinal=1), log=["a line"])
    )["failure"]
    assert (found["code"], found["step"], found["ordinal"]) == (
        "CleanStepFailed",
        "deploy.erase_devices",
        1,
    )
    assert (found["retryable"], found["cause"]["code"]) == (True, "BmcBadAnswer")
    bmc, log = found["evidence"]
    assert bmc == {"kind": "bmc", **cause["facts"]}
    assert log == {"kind": "log", "href": f"/v1/nodes/n1/runs/{RUN}/log", "tail": ["a line"]}


def test_silence_of_an_agent_is_evidence() -> None:
    cause: dict[str, Any] = {"code": "AgentUnreachable", "text": "silent", "retryable": True}
    cause["facts"] = {"heard_at": "2026-11-22T11:20:00", "looked_up": True}
    row = node(provision_state="clean failed")
    evidence = rules.document(facts(row, failed(cause)))["failure"]["evidence"]
    assert evidence[0]["text"] == "last heartbeat 1800 s before the failure"
    assert evidence[1]["text"] == "a ramdisk has looked this node up since the boot"


def test_failed_manage_is_a_failure_of_an_enrolled_node() -> None:
    row = node(provision_state="enroll", last_error="Clean step x failed: bang")
    document = rules.document(facts(row, failed(verb="manage")))
    assert document["says"].startswith("The check of its BMC failed at")


def test_failure_outside_of_runs_has_no_code() -> None:
    row = node(last_error="The BMC is silent", maintenance=True, fault="power failure")
    row["maintenance_reason"] = "The BMC is silent"
    document = rules.document(facts(row, run("done")))
    assert document["failure"]["code"] is None
    assert document["maintenance"] == {"reason": "The BMC is silent", "fault": "power failure"}
    assert document["says"] == (
        "It is manageable; deployments do not choose it. Its last error: The BMC is silent. It "
        "is in maintenance because of the fault power failure."
    )


def test_move_of_a_hidden_run_explains_a_failure_without_its_error() -> None:
    row = node(provision_state="inspect failed", last_error="aborted")
    move = {"kind": "provision", "at": ago(5), "data": {"cause": "c41f0be9a7d2"}}
    failure = rules.document(facts(row, operation=move))["failure"]
    assert (failure["text"], failure["code"], failure["cause"]) == ("aborted", None, None)


HOLD = Hold("h1", "legal", "case 7", (Block.ERASE,), None, NOW, "ann")


@pytest.mark.parametrize(
    ("maintenance", "held", "says"),
    [
        (False, (), "It is available for a deployment."),
        (True, (), "It is available, but in maintenance: a fan."),
        (False, (HOLD,), "It is available, but held (legal), which blocks erase: case 7."),
        (
            True,
            (HOLD,),
            "It is available, but in maintenance: a fan. It is held (legal), which blocks erase: "
            "case 7.",
        ),
    ],
)
def test_available_node_is_not_offered_for_a_deployment_that_is_refused(
    maintenance: bool, held: Any, says: str
) -> None:
    row = node(provision_state="available", maintenance=maintenance, maintenance_reason="a fan")
    assert rules.document(facts(row, run("done"), held=held))["says"] == says
    row |= {"last_error": "The BMC is silent"}
    told = rules.document(facts(row, run("done"), held=held))["says"]
    assert told.startswith(says.split(".", maxsplit=1)[0])
    assert told.count("The BMC is silent") == 1


OBSERVED = Hold("h2", "observe", "imported", (Block.VERBS, Block.MACHINE), None, NOW, None)


@pytest.mark.parametrize(
    ("state", "held", "says"),
    [
        (
            "active",
            (HOLD, OBSERVED),
            "It is held (observe), which blocks verbs, machine: imported. 1 more: see holds. It is "
            "active: an instance uses it.",
        ),
        (
            "available",
            (OBSERVED,),
            "It is available, but held (observe), which blocks verbs, machine: imported.",
        ),
    ],
)
def test_hold_of_an_observed_node_comes_first_and_its_release_is_the_advice(
    state: str, held: Any, says: str
) -> None:
    row = node(provision_state=state, power_state="power on")
    found = rules.document(facts(row, None, held=held))
    assert found["says"].startswith(says)
    assert found["do"].startswith(f"Release it by ironic-lite-status release {row['name']}, or by ")
    silent = rules.document(facts({**row, "power_state": None}, None, held=held))
    assert silent["do"].startswith("Its power is not known: GET /v1/doctor?node=")
    assert silent["do"].endswith(found["do"])


def test_failed_node_of_a_trial_is_said_to_be_imported_again() -> None:
    row = node(provision_state="clean failed", last_error="a fan")
    trial = OBSERVED._replace(kind="trial")
    found = rules.document(facts(row, run("failed"), held=(trial,)))
    assert found["says"].startswith("It is held (trial)")
    assert found["do"].endswith("Import it again after the cut-over.")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"instance_uuid": "i1"}, "It is available, and reserved for the instance i1."),
        (
            {"power_state": None},
            "It is available; allocations pass it by until its power state has been read.",
        ),
        (
            {"reservation": "host-a"},
            "It is available, but locked by the conductor host-a.",
        ),
    ],
)
def test_available_node_that_is_taken_is_not_offered_for_a_deployment(
    values: dict[str, Any], says: str
) -> None:
    row = node(provision_state="available", **values)
    assert rules.document(facts(row, run("done")))["says"] == says


@pytest.mark.parametrize("seconds", [0, 5])
def test_sentence_about_a_wait_that_begins_has_no_comma_before_its_end(seconds: int) -> None:
    row = node(provision_state="inspect wait", provision_updated_at=NOW)
    the_run = run("waiting", "inspect", started_at=NOW - datetime.timedelta(seconds=seconds))
    time = ", for 5 seconds" if seconds else ""
    says = rules.document(facts(row, the_run))["says"]
    assert says.startswith(f"Inspection waits for a ramdisk, which has not reported yet{time}. ")


def test_failed_run_before_the_newest_is_told_with_its_verb() -> None:
    row = node(last_error="Clean step x failed: bang")
    document = rules.document(facts(row, run("done", "manage"), earlier=failed(verb="clean")))
    failure = document["failure"]
    assert (failure["code"], failure["step"]) == ("CleanStepFailed", "deploy.erase_devices")
    assert failure["evidence"][0]["kind"] == "log"
    assert document["says"] == (
        "It is manageable; deployments do not choose it. An earlier clean failed at "
        "deploy.erase_devices, 10 minutes ago: Clean step x failed: bang."
    )


@pytest.mark.parametrize(
    ("fault", "advised"),
    [("clean failure", True), ("service failure", True), ("power failure", False), (None, False)],
)
def test_maintenance_that_a_failed_run_has_left_is_to_be_ended(
    fault: str | None, advised: bool
) -> None:
    row = node(last_error="Clean step x failed: bang", maintenance=True, fault=fault)
    do = rules.document(facts(row, run("done", "manage"), earlier=failed(verb="clean")))["do"]
    assert (do is not None and do.startswith("End the maintenance")) is advised


def test_abort_is_told_from_a_failure() -> None:
    row = node(provision_state="clean failed", last_error="By request")
    ended = run("aborted", ended_at=ago(1), error={"code": "Aborted", "text": "By request"})
    says = rules.document(facts(row, ended))["says"]
    assert says == "Cleaning was aborted, 60 seconds ago: By request."


def test_page_of_a_web_server_in_a_cause_becomes_one_line() -> None:
    text = "HTTP 404:\n<html>\n  <p>Not found.</p>\n</html>\n"
    row = node(provision_state="clean failed", last_error=text)
    says = rules.document(facts(row))["says"]
    assert says == "Cleaning failed, 12 minutes ago: HTTP 404: <html> <p>Not found.</p> </html>."


def test_lost_run_leaves_last_error_as_the_text() -> None:
    row = node(provision_state="clean failed", last_error="Long ago")
    assert rules.document(facts(row))["failure"]["text"] == "Long ago"


# -- waits -----------------------------------------------------------------------------------


def wait_of(**values: Any) -> waiting.NodeWait:
    row = node(provision_state="clean wait", clean_step=ERASE, **values)
    found = rules.wait_of(row, ago(12), SETTINGS)
    assert found is not None
    return found


HEARD = {"agent_last_heartbeat": ago(1).isoformat()}
SLEEP = {"interface": "deploy", "step": "wait"}


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({}, "agent"),
        ({"driver_internal_info": HEARD}, "agent"),
        ({"driver_internal_info": HEARD, "wake_at": ago(-1)}, "agent"),
        ({"wake_at": ago(-1)}, "machine"),
        ({"clean_step": {**ERASE, "interface": "bios"}, "wake_at": ago(-1)}, "machine"),
        (
            {
                "clean_step": {**ERASE, "interface": "raid"},
                "raid_interface": "agent",
                "wake_at": ago(-1),
                "driver_internal_info": HEARD,
            },
            "agent",
        ),
        ({"clean_step": SLEEP, "wake_at": ago(-1)}, "timer"),
        ({"clean_step": SLEEP}, "agent"),
        ({"provision_state": "clean hold"}, "operator"),
        ({"provision_state": "clean failed", "wake_at": ago(-1)}, "retry"),
        ({"provision_state": "inspect wait", "wake_at": ago(-1)}, "machine"),
    ],
)
def test_wait_names_its_end(values: dict[str, Any], what: str) -> None:
    row = node(**{"provision_state": "clean wait", "clean_step": ERASE, **values})
    found = rules.wait_of(row, ago(12), SETTINGS)
    assert found is not None
    assert found.what == what


def test_next_automatic_retry_is_told_with_the_failure() -> None:
    row = node(provision_state="clean failed", wake_at=ago(-5), last_error="bang")
    document = rules.document(facts(row, failed(), step("failed")))
    assert document["waits_for"]["what"] == "retry"
    assert "The service retries it at 2026-11-22 12:05:00 UTC." in document["says"]
    calm = rules.document(facts({**row, "wake_at": None}, failed(), step("failed")))
    assert (calm["waits_for"], "retries it" in calm["says"]) == (None, False)


def test_wait_has_its_last_sign_and_its_limit() -> None:
    found = wait_of(driver_internal_info=HEARD)
    assert found.last_sign_at == ago(1)
    assert (found.given_up_at, found.limit) == (ago(12 - 30), "[conductor]clean_callback_timeout")
    row = node(provision_state="clean wait", clean_step=ERASE, driver_internal_info=HEARD)
    says = rules.document(facts(row, run("waiting"), step("waiting")))["says"]
    assert says == (
        "Cleaning waits for the agent, whose last heartbeat came 60 seconds ago, for 12 minutes, "
        "at step 1 of 1, deploy.erase_devices. Without a heartbeat or report it fails at "
        "2026-11-22 12:18:00 UTC ([conductor]clean_callback_timeout)."
    )


def test_maintenance_of_an_operator_stops_the_limit() -> None:
    assert wait_of(maintenance=True).given_up_at is None
    assert wait_of(maintenance=True, fault="clean failure").given_up_at is not None


def test_limit_of_polls_counts_if_it_is_earlier() -> None:
    row = node(
        provision_state="clean wait",
        wake_at=ago(-1),
        driver_internal_info={"polled_since": ago(10).isoformat()},
    )
    found = rules.wait_of(row, ago(12), {**SETTINGS, "poll_timeout": 660})
    assert found is not None
    assert (found.given_up_at, found.limit) == (ago(-1), "[conductor]poll_timeout")


def deadline_of(seconds: int, the_step: Any, **values: Any) -> Any:
    """Return the end of a wait by a deadline of so many seconds, and the sentence about it."""
    row = node(provision_state="clean wait", clean_step=ERASE, **values)
    settings = {**SETTINGS, "step_deadline": [{"deploy.erase_devices": seconds}]}
    found = facts(row, run("waiting"), the_step, settings=settings)
    assert found.wait is not None
    return found.wait.given_up_at, found.wait.limit, rules.document(found)["says"]


def test_deadline_of_the_step_counts_if_it_is_earlier() -> None:
    at, limit, says = deadline_of(900, step("waiting"))
    assert (at, limit) == (ago(12 - 15), "[conductor]step_deadline")
    assert "At the latest it fails at 2026-11-22 12:03:00 UTC ([conductor]step_deadline)." in says
    assert deadline_of(7200, step("waiting"))[1] == "[conductor]clean_callback_timeout"


@pytest.mark.parametrize(
    ("the_step", "values"),
    [
        (step("running"), {}),
        (step("waiting", "scrub"), {}),
        (step("waiting", started_at=None), {}),
        (step("waiting"), {"maintenance": True}),
    ],
    ids=["runs in a thread", "another step", "not begun", "maintenance"],
)
def test_deadline_that_ends_nothing_is_not_told(the_step: Any, values: dict[str, Any]) -> None:
    limit = None if values else "[conductor]clean_callback_timeout"
    assert deadline_of(60, the_step, **values)[1] == limit


def test_look_up_without_a_heartbeat_is_told() -> None:
    row = node(provision_state="wait call-back", driver_internal_info={"agent_secret_token": "t"})
    says = rules.document(facts(row, run("waiting", verb="active")))["says"]
    assert "the agent, which has looked the node up and sent no heartbeat yet," in says
    row["driver_internal_info"]["agent_secret_token_pregenerated"] = True
    assert waiting.asked_for_token(row) is None


# -- the rest --------------------------------------------------------------------------------


def test_verbs_are_part_of_the_sentence() -> None:
    refusal = errors.NodeRetired(node="n1")
    offers = (
        VerbOffer("manage", State.MANAGEABLE, None, None),
        VerbOffer("provide", State.AVAILABLE, None, refusal),
    )
    document = rules.document(facts(node(), offers=offers))
    assert document["says"].endswith("Possible now: manage.")
    assert document["verbs"][1]["refused"] == {"code": "NodeRetired", "text": refusal.message}
    document = rules.document(facts(node(), offers=offers[1:]))
    assert document["says"].endswith(f"Every verb is refused now: {refusal.message}")


def test_sweep_that_holds_the_lock_is_told() -> None:
    row = node(reservation="c1", locked_at=ago(0), lock_note="conductor:power sync")
    document = rules.document(facts(row))
    assert document["says"].endswith("It is locked by the conductor c1 for the power sync.")
    assert document["lock"] == {
        "host": "c1",
        "since": NOW,
        "for": "the power sync",
        "request_id": None,
        "run": None,
        "step": None,
    }


def test_document_is_bounded_whatever_machines_say() -> None:
    long = "ü\x01" * 50_000
    cause = {"code": "HardwareError", "text": long, "retryable": False, "facts": {"a": long}}
    row = node(provision_state="clean failed", last_error=long, name="n" * 255)
    row |= {"maintenance": True, "maintenance_reason": long}
    refusal = errors.HardwareError(reason=long)
    offers = [VerbOffer("manage", State.MANAGEABLE, None, refusal) for _ in range(17)]
    the_run = failed(cause, requester="r" * 255)
    the_run["error"]["text"] = long
    found = rules.document(facts(row, the_run, step("failed"), log=[long] * 99, offers=offers))
    assert len(orjson.dumps(found)) <= rules.MOST_BYTES
    assert json.dumps(found, default=str)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((-5, "0 seconds"), (0, "0 seconds"), (1, "1 second"), (119, "119 seconds")),
        *((120, "2 minutes"), (7200, "2 hours"), (200_000, "2 days")),
    ],
)
def test_duration_in_words(seconds: float, words: str) -> None:
    assert rules.duration(seconds) == words


def test_advice_of_a_run_that_another_one_has_followed_is_left_out() -> None:
    row = node(last_error="Clean step x failed: bang")
    found = facts(row, run("done", "manage"), earlier=failed(verb="clean"))
    assert rules.document(found)["do"] is None
    still = facts(node(provision_state="clean failed"), failed(), offers=())
    assert "Read the log of the run" in rules.document(still)["do"]
