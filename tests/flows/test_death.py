"""A conductor dies after each commit and after each driver call of each flow; its nodes do not."""

from __future__ import annotations

from collections import Counter

import pytest

from ironic_lite.conductor.engine import stepper
from tests.support.conductor_fixture import ConductorFixture, listed
from tests.support.crashes import Scene, Stage

CLEAN = ["bios.factory_reset", "raid.delete_configuration"]
AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]
VERIFY = ["management.verify_access"]
DEPLOY = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]


MANUAL = ("manageable", "clean", {"clean_steps": listed(*CLEAN)})
LOGS = ["vendor.log_passthrough"] * 2
SERVICE = ("active", "service", {"service_steps": listed(*LOGS)})
INSPECT = Scene("manageable", "inspect", {}, "manageable")
RESCUE = Scene("active", "rescue", {"rescue_password": "x"}, "rescue")
WAITS = {"fake_async_steps": ["*"]}
SLOW_VERBS = {"fake_async_verbs": ["inspect", "rescue"]}
BROKEN = {"fake_fail_steps": {CLEAN[1]: "no", LOGS[0]: "no"}}
CASES = {
    "verify": Scene("enroll", "manage", {}, "manageable", VERIFY),
    "manual clean": Scene(*MANUAL, "manageable", CLEAN),
    "manual clean that waits": Scene(*MANUAL, "manageable", CLEAN, WAITS),
    "automated clean": Scene("manageable", "provide", {}, "available", AUTOMATED),
    "failing clean": Scene(*MANUAL, "clean failed", CLEAN, BROKEN),
    "deploy": Scene("available", "deploy", {}, "active", DEPLOY),
    "deploy that waits": Scene("available", "deploy", {}, "active", DEPLOY, WAITS),
    "rebuild": Scene("active", "rebuild", {}, "active", DEPLOY),
    "delete": Scene("active", "delete", {}, "available", AUTOMATED),
    "service": Scene(*SERVICE, "active", LOGS),
    "service that waits": Scene(*SERVICE, "active", LOGS, WAITS),
    "failing service": Scene(*SERVICE, "service failed", LOGS, {**WAITS, **BROKEN}),
    "inspect": INSPECT,
    "inspect that waits": INSPECT._replace(columns=SLOW_VERBS),
    "rescue": RESCUE,
    "rescue that waits": RESCUE._replace(columns=SLOW_VERBS),
    "unrescue": Scene("rescue", "unrescue", {}, "active"),
    "adopt": Scene("manageable", "adopt", {}, "active"),
}
TARGETS = {"clean failed": "manageable", "service failed": "active"}


def check(rig: ConductorFixture, node: str, case: Scene) -> None:
    """Check what no death may damage; a verb that was never accepted leaves the state before."""
    row = rig.get(node)
    state = row["provision_state"]
    assert state in (case.before, case.end)
    assert row["target_provision_state"] == TARGETS.get(state)
    assert (row["lock_token"], row["run_uuid"], row["wake_at"]) == (None, None, None)
    assert (row["last_error"] is not None) == ("failed" in state)
    for run in rig.runs(node):
        assert run["state"] in ("done", "failed", "aborted")
        assert run["ended_at"] is not None
        assert {step["state"] for step in run["steps"]} <= {"done", "failed", "skipped"}
        if run["state"] == "done":
            assert {step["state"] for step in run["steps"]} <= {"done"}
    flows = [row["kind"] for row in rig.events(node) if row["kind"].startswith("flow_")]
    assert flows in ([], ["flow_started", "flow_ended"])
    begun = Counter(rig.started(node))
    assert len(rig.started(node)) <= len(case.steps) + 1  # at most one step is done again
    if case.steps and state != case.before:
        assert set(begun) == set(case.steps)


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_every_flow_comes_to_its_end_by_the_same_or_another_conductor(
    stage: Stage, name: str, what: str, host: str
) -> None:
    case = CASES[name]
    for moment in stage.moments(what):
        rig, node = moment.play(case.begin, case.ask, host)
        check(rig, node, case)
        runs = rig.runs(node)
        assert not runs or runs[-1]["conductor"] in ("here", host)


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", ["deploy", "deploy that waits", "service", "service that waits"])
def test_a_step_that_must_not_run_twice_fails_its_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, name: str, what: str, host: str
) -> None:
    """One that waits when its conductor dies has begun once, and goes on."""
    monkeypatch.setattr(stepper, "rerunnable", lambda *_: False)
    case, seen = CASES[name], set()
    failed = f"{case.method} failed"
    for moment in stage.moments(what):
        rig, node = moment.play(case.begin, case.ask, host)
        row = rig.get(node)
        seen.add(row["provision_state"])
        attempts = [step["attempt"] for run in rig.runs(node) for step in run["steps"]]
        assert max(attempts, default=0) <= 1
        assert len(rig.started(node)) <= len(case.steps)
        if row["provision_state"] == failed:
            assert "must not be run twice" in row["last_error"]
            assert rig.run(node)["state"] == "failed"
            told = [one["data"]["step"] for one in rig.events(node, "step_ended")]
            assert told[-1] in row["last_error"]
    assert failed in seen
    assert seen <= {case.before, "active", failed}
