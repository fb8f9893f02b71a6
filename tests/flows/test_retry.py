"""Retries: by request, of runs with agents, and by the service itself."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.engine import stepper
from ironic_lite.conductor.watch import timeouts
from ironic_lite.core import clock, masking
from ironic_lite.drivers.fake.hardware import FakeDeploy
from ironic_lite.drivers.registry import Registry
from tests.flows.test_agents import BURN, agent
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.crashes import Stage

# The verb retry: each step of each kind of list fails in turn, and the run goes on from there.

CLEAN = ["bios.factory_reset", "raid.delete_configuration", "management.reset_bmc"]
AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]
DEPLOY = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]
HOLD = {"interface": "power", "step": "hold", "priority": 150}
SERVICE = ["vendor.log_passthrough"] * 3

# kind of list -> state before, endpoint, arguments, steps, fail state, final state
LISTS: dict[str, tuple[Any, ...]] = {
    "manual clean": (
        "manageable",
        "clean",
        {"clean_steps": listed(*CLEAN)},
        CLEAN,
        "clean failed",
        "manageable",
    ),
    "automated clean": (
        "manageable",
        "provide",
        {},
        AUTOMATED,
        "clean failed",
        "available",
    ),
    "deploy": ("available", "deploy", {}, DEPLOY, "deploy failed", "active"),
    "service": (
        "active",
        "service",
        {"service_steps": listed(*SERVICE)},
        SERVICE,
        "service failed",
        "active",
    ),
}
CASES = [
    (name, at)
    for name, facts in LISTS.items()
    for at in range(len(facts[3]))
    if name != "service" or at == 0  # its steps have one name, so the first one fails
]


@pytest.fixture(autouse=True)
def quick_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers of dead conductors are looked for without delay."""
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)


def fail(rig: ConductorFixture, name: str, at: int, **told: Any) -> str:
    """Let the step at this place fail once; return the node, whose machine is well again."""
    state, method, args, steps, failed, _end = LISTS[name]
    node = rig.node(state, fake_fail_steps={steps[at]: "smoke"}, **told)
    rig.ask(method, node, **args)
    rig.reaches(node, failed)
    rig.edit(node, driver_info=dict(told))
    return node


def step_lasts(name: str, title: str) -> bool:
    """Return whether the step's effect lasts; of a deployment only the written image does."""
    return name != "deploy" or title == "deploy.write_image"


def steps_of(rig: ConductorFixture, node: str) -> list[tuple[str, str, int, bool]]:
    """Return title, state, attempt, and True for a kept step, of the newest run."""
    return [
        (f"{row['interface']}.{row['step']}", row["state"], row["attempt"], bool(row["done_in"]))
        for row in rig.run(node)["steps"]
    ]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["at once", "while waiting"])
@pytest.mark.parametrize(("name", "at"), CASES)
def test_retry_goes_on_at_the_failed_step(
    rig: ConductorFixture, name: str, at: int, asynchronous: bool
) -> None:
    steps, end = LISTS[name][3], LISTS[name][5]
    keeps = [place < at and step_lasts(name, title) for place, title in enumerate(steps)]
    node = fail(rig, name, at, **({"fake_async_steps": ["*"]} if asynchronous else {}))
    before = rig.started(node)
    rig.ask("retry", node)
    row = rig.reaches(node, end)
    left = [title for title, kept in zip(steps, keeps, strict=True) if not kept]
    assert rig.started(node)[len(before) :] == left
    assert (row["maintenance"], row["fault"], row["last_error"]) == (False, None, None)
    old, new = rig.runs(node)
    assert (new["state"], new["retry_of"], new["verb"]) == ("done", old["uuid"], old["verb"])
    assert old["state"] == "failed"
    assert steps_of(rig, node) == [
        (title, "done", 2 if place <= at and not kept else 1, kept)
        for place, (title, kept) in enumerate(zip(steps, keeps, strict=True))
    ]


def test_kept_step_has_the_times_of_the_run_that_did_it(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    rig.edit(node, driver_info={"fake_fail_steps": {CLEAN[2]: "again"}})
    rig.ask("retry", node)
    rig.reaches(node, "clean failed")
    rig.edit(node, driver_info={})
    rig.ask("retry", node)
    rig.reaches(node, "manageable")
    first, second, third = rig.runs(node)
    done_in = [row["done_in"] for row in third["steps"]]
    assert done_in == [first["uuid"], second["uuid"], None]
    assert third["steps"][0]["ended_at"] == first["steps"][0]["ended_at"]
    assert third["retry_of"] == second["uuid"]


def test_retry_from_an_earlier_step_repeats_kept_steps(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 2)
    rig.ask("retry", node, retry={"from": 1})
    rig.reaches(node, "manageable")
    assert rig.started(node)[3:] == CLEAN[1:]


def test_retry_from_a_later_step_is_refused_and_changes_nothing(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    before = rig.get(node)
    with pytest.raises(errors.InvalidParameter, match="retry/from"):
        rig.ask("retry", node, retry={"from": 2})
    after = rig.get(node)
    assert {**after, "updated_at": None} == {**before, "updated_at": None}


def test_waived_step_does_not_run_and_says_why(rig: ConductorFixture) -> None:
    node = fail(rig, "automated clean", 1)
    rig.ask("retry", node, retry={"waive": [{"reason": "disk goes to the shredder"}]})
    rig.reaches(node, "available")
    assert rig.started(node).count(AUTOMATED[1]) == 1
    row = rig.run(node)["steps"][1]
    assert row["state"] == "waived"
    assert (row["waiver"]["reason"], row["waiver"]["requester"]) == (
        "disk goes to the shredder",
        "tester",
    )
    (event,) = rig.events(node, "step_waived")
    assert event["data"]["step"] == AUTOMATED[1]


def test_waiver_of_a_kept_step_is_refused(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    with pytest.raises(errors.InvalidParameter, match="retry/waive/0/ordinal"):
        rig.ask("retry", node, retry={"waive": [{"ordinal": 0, "reason": "no"}]})


def test_step_that_is_not_offered_any_more_fails_the_retry_before_any_step(
    rig: ConductorFixture,
) -> None:
    node = fail(rig, "manual clean", 1)
    begun = rig.started(node)
    rig.edit(node, raid_interface="no-raid")
    rig.ask("retry", node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    row = rig.reaches(node, "clean failed")
    assert "raid.delete_configuration" in row["last_error"]
    assert rig.started(node) == begun
    cause = rig.run(node)["error"]["cause"]
    assert cause["facts"]["paths"] == ["clean_steps/1/step"]  # its ordinal in the failed run


def test_run_without_a_list_cannot_be_retried(rig: ConductorFixture) -> None:
    node = rig.node("clean failed", target_provision_state="available")
    with pytest.raises(errors.NothingToRetry, match="has not failed"):
        rig.ask("retry", node)


def test_maintenance_of_an_operator_refuses_a_retry(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    rig.edit(node, maintenance_reason="new disks are on their way")
    with pytest.raises(errors.NodeInMaintenance):
        rig.ask("retry", node)


def test_step_in_doubt_needs_force(rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "rerunnable", lambda *_: False)
    node = rig.node("available", fake_async_steps=["*"], fake_step_seconds=3600)
    rig.call("deploy", node)
    rig.ask("abort", node)
    rig.reaches(node, "deploy failed")
    rig.edit(node, driver_info={})
    with pytest.raises(errors.StepInDoubt, match=DEPLOY[0]):
        rig.ask("retry", node)
    rig.ask("retry", node, retry={"force": True})
    rig.reaches(node, "active")


@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", LISTS)
def test_retry_survives_the_death_of_its_conductor(stage: Stage, name: str, what: str) -> None:
    steps, failed, end = LISTS[name][3:]
    at = 0 if name == "service" else 1
    kept = 0 if name == "deploy" else at

    def retry(rig: ConductorFixture, node: str) -> None:
        rig.ask("retry", node)

    for moment in stage.moments(what, least=2):
        rig, node = moment.play(lambda rig: fail(rig, name, at), retry)
        if len(rig.runs(node)) == 1:  # the verb was never accepted
            assert rig.get(node)["provision_state"] == failed
            continue
        rig.reaches(node, end)
        began = rig.started(node)[at + 1 :]
        assert list(dict.fromkeys(began)) == list(dict.fromkeys(steps[kept:]))
        assert len(began) <= len(steps[kept:]) + 1  # at most one step is done again
        assert rig.run(node)["state"] == "done"


# -- what must not be kept, run or taken for well --------------------------------------------


def test_image_is_written_again_if_another_one_is_wanted(rig: ConductorFixture) -> None:
    node = fail(rig, "deploy", 2)
    rig.edit(node, instance_info={"image_source": "http://192.0.2.1/other"})
    rig.ask("retry", node)
    rig.reaches(node, "active")
    assert rig.started(node)[3:] == DEPLOY


def test_steps_run_again_on_another_machine(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    rig.edit(node, driver_info={"redfish_address": "https://192.0.2.9"})
    rig.ask("retry", node)
    rig.reaches(node, "manageable")
    assert rig.started(node)[2:] == CLEAN


def test_maintenance_of_an_operator_without_a_reason_refuses_a_retry(rig: ConductorFixture) -> None:
    node = rig.node("manageable", fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, CLEAN[0])
    rig.edit(node, maintenance=True, driver_info={"fake_fail_steps": {CLEAN[0]: "smoke"}})
    rig.ring(node)
    row = rig.reaches(node, "clean failed")
    assert (row["maintenance"], row["fault"]) == (True, "clean failure")
    with pytest.raises(errors.NodeInMaintenance):
        rig.ask("retry", node)


def test_later_error_of_the_node_does_not_refuse_a_retry(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    rig.edit(node, last_error="Failed to set node power state to power on: no answer")
    rig.ask("retry", node)
    rig.reaches(node, "manageable")


def test_steps_that_were_forbidden_since_are_refused(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(api__disallow_clean_steps=[CLEAN[2]])
    node = fail(rig, "manual clean", 1)
    with pytest.raises(errors.InvalidParameter, match="disallow_clean_steps"):
        rig.ask("retry", node)
    rig.ask("retry", node, retry={"waive": [{"ordinal": 2, "reason": "forbidden"}]})
    rig.reaches(node, "manageable")


def test_retry_that_fails_before_its_first_step_can_be_retried(
    build: Callable[..., ConductorFixture],
) -> None:
    """The service itself retries it as well, because the failure may be temporary."""
    calls: list[str] = []

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "prepare_cleaning":
            calls.append(name)
            if len(calls) == 2:
                raise errors.AgentUnreachable(node="n", reason="no route to host")
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    rig = build(registry=registry, conductor__automatic_retries=1)
    node = fail(rig, "automated clean", 1)
    rig.ask("retry", node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    assert rig.reaches(node, "clean failed")["wake_at"] is not None
    rig.ask("retry", node)
    rig.reaches(node, "available")
    assert steps_of(rig, node) == [
        (AUTOMATED[0], "done", 1, True),
        (AUTOMATED[1], "done", 2, False),
    ]


def test_digest_of_the_inputs_of_a_list_is_hidden_from_readers(rig: ConductorFixture) -> None:
    """Instances may name logins in addresses, and readers could try passwords."""
    node = rig.node("available")
    rig.ask("deploy", node, deploy_steps=[HOLD])
    rig.reaches(node, "deploy hold")
    kept = rig.get(node)["driver_internal_info"]
    digests = re.compile(r"\b[0-9a-f]{64}\b")
    assert digests.search(json.dumps(kept))
    assert not digests.search(json.dumps(masking.field("driver_internal_info", kept)))


# Retries of runs whose ramdisk's agent adds steps, changes, or destroys what came before.

WIPE = {"interface": "deploy", "step": "erase_devices_metadata", "priority": 90}
BURN_IN = {"interface": "deploy", "step": "burn", "priority": 90}


def deploy_fails(rig: ConductorFixture, title: str, found: Any, **request: Any) -> str:
    """Let a deployment fail at a step; return the node, whose machine is well again."""
    node = rig.node("available", fake_agent=found, fake_fail_steps={title: "smoke"})
    rig.ask("deploy", node, **request)
    rig.reaches(node, "deploy failed")
    rig.edit(node, driver_info={"fake_agent": found})
    return node


def test_image_is_written_again_behind_a_step_that_wipes_the_disk(rig: ConductorFixture) -> None:
    node = deploy_fails(rig, "deploy.boot_instance", agent(deploy_steps=[WIPE]))
    begun = rig.started(node)
    rig.ask("retry", node)
    rig.reaches(node, "active")
    again = rig.started(node)[len(begun) :]
    assert again == begun
    assert again.index("deploy.erase_devices_metadata") < again.index("deploy.write_image")


@pytest.mark.parametrize("asked", [False, True], ids=["by the agent", "by the request"])
def test_steps_that_an_agent_was_still_to_list_are_not_lost(
    rig: ConductorFixture, asked: bool
) -> None:
    found = agent(deploy_steps=[{**BURN_IN, "priority": 0 if asked else 90}])
    request = {"deploy_steps": [{**BURN_IN, "args": {}}]} if asked else {}
    node = deploy_fails(rig, "deploy.deploy", found, **request)
    for choice in ({"from": 1}, {"waive": [{"reason": "x"}]}):
        with pytest.raises(errors.InvalidParameter, match="makes a new list"):
            rig.ask("retry", node, retry=choice)
    rig.ask("retry", node)
    rig.reaches(node, "active")
    assert "deploy.burn" in rig.started(node)
    first, second = rig.runs(node)
    assert second["retry_of"] == first["uuid"]


def test_waived_step_stays_waived_if_the_agent_changes(rig: ConductorFixture) -> None:
    versions = [
        {"version": "1", "clean_steps": [BURN]},
        {"version": "2", "clean_steps": [BURN], "at": "deploy.erase_devices"},
    ]
    failing = {"deploy.erase_devices_metadata": "smoke"}
    node = rig.node("manageable", fake_agent=versions, fake_fail_steps=failing)
    rig.ask("provide", node)
    rig.reaches(node, "clean failed")
    rig.edit(node, driver_info={"fake_agent": versions})
    begun = len(rig.started(node))
    rig.ask("retry", node, retry={"waive": [{"reason": "keep the labels"}]})
    rig.reaches(node, "available")
    assert "deploy.erase_devices_metadata" not in rig.started(node)[begun:]


def test_fault_of_a_deployment_has_the_ordinal_of_the_failed_run(rig: ConductorFixture) -> None:
    node = deploy_fails(rig, "deploy.boot_instance", agent(deploy_steps=[BURN_IN]))
    listed = [f"{row['interface']}.{row['step']}" for row in rig.run(node)["steps"]]
    rig.edit(node, driver_info={"fake_agent": agent()})
    rig.ask("retry", node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    rig.reaches(node, "deploy failed")
    facts = rig.run(node)["error"]["cause"]["facts"]
    assert facts["paths"] == [f"deploy_steps/{listed.index('deploy.burn')}/step"]


def test_doubt_survives_a_forced_retry_that_fails_before_the_step(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepper, "rerunnable", lambda *_: False)
    node = rig.node("available", fake_async_steps=["*"], fake_step_seconds=3600)
    rig.call("deploy", node)
    rig.ask("abort", node)
    rig.reaches(node, "deploy failed")
    with pytest.raises(errors.StepInDoubt):
        rig.ask("retry", node)

    def fail(_self: Any, _task: Any) -> None:
        raise errors.AgentUnreachable(node="n", reason="no route to host")

    with monkeypatch.context() as patched:
        patched.setattr(FakeDeploy, "prepare", fail)
        rig.ask("retry", node, retry={"force": True})
        wait_for(lambda: len(rig.runs(node)) == 2)
        rig.reaches(node, "deploy failed")
    with pytest.raises(errors.StepInDoubt):
        rig.ask("retry", node)


# Retries by the service itself: after a failure that may be temporary, and a bounded number.

STEPS = ["bios.factory_reset", "raid.delete_configuration"]
GONE = errors.AgentUnreachable(node="n", reason="no route to host")


class Failures:
    """Drivers whose second step raises an error so many times."""

    def __init__(self, why: errors.Error, times: int) -> None:
        self.left = times
        self.registry = cast(Registry, crashes.Drivers(drivers(), self._around))
        self._why = why

    def _around(self, _kind: str, name: str, call: Callable[[], Any]) -> Any:
        second = name.startswith("execute_") and "delete_configuration" in str(call)
        if second and self.left:
            self.left -= 1
            raise self._why
        return call()


def begin(rig: ConductorFixture) -> str:
    node = rig.node("manageable")
    rig.clean(node, *STEPS)
    return node


def wake(rig: ConductorFixture, node: str) -> None:
    """Let the pause before the retry pass."""
    rig.edit(node, wake_at=clock.after(-1))


def pause(rig: ConductorFixture, node: str) -> float | None:
    """Return the seconds until the service retries the node."""
    at = rig.reaches(node, "clean failed")["wake_at"]
    return None if at is None else round((at - clock.now()).total_seconds(), -1)


def test_service_retries_after_growing_pauses_and_then_succeeds(
    build: Callable[..., ConductorFixture],
) -> None:
    failures = Failures(GONE, 2)
    rig = build(registry=failures.registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    wake(rig, node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    assert pause(rig, node) == 300
    wake(rig, node)
    row = rig.reaches(node, "manageable")
    first, second, third = rig.runs(node)
    assert [run["retry_of"] for run in (first, second, third)] == [
        None,
        first["uuid"],
        second["uuid"],
    ]
    assert {second["requester"], third["requester"]} == {"conductor:retries"}
    assert rig.started(node) == [*STEPS, STEPS[1], STEPS[1]]
    assert (row["maintenance"], row["wake_at"], row["last_error"]) == (False, None, None)
    assert "automatic_retries" not in row["driver_internal_info"]


def test_service_stops_after_the_configured_number(build: Callable[..., ConductorFixture]) -> None:
    rig = build(registry=Failures(GONE, 9).registry, conductor__automatic_retries=1)
    node = begin(rig)
    wake(rig, node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    assert pause(rig, node) is None
    rig.ask("retry", node)  # an operator's retry begins a new count
    wait_for(lambda: len(rig.runs(node)) == 3)
    assert pause(rig, node) == 60


@pytest.mark.parametrize(
    ("why", "most"), [(GONE, 0), (errors.CleanStepFailed(step="s", reason="bad argument"), 3)]
)
def test_service_does_not_retry(
    build: Callable[..., ConductorFixture], why: errors.Error, most: int
) -> None:
    rig = build(registry=Failures(why, 1).registry, conductor__automatic_retries=most)
    node = begin(rig)
    assert pause(rig, node) is None


def test_refused_retry_ends_the_automatic_retries(build: Callable[..., ConductorFixture]) -> None:
    rig = build(registry=Failures(GONE, 1).registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    rig.edit(node, maintenance_reason="new disks are on their way", wake_at=clock.after(-1))
    wait_for(lambda: rig.get(node)["wake_at"] is None)
    assert len(rig.runs(node)) == 1
    assert rig.reaches(node, "clean failed")["maintenance"]


def test_verb_of_an_operator_ends_the_automatic_retries(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=Failures(GONE, 1).registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    row = rig.act("manage", node)
    assert (row["provision_state"], row["wake_at"]) == ("manageable", None)


def test_abort_is_not_retried(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__automatic_retries=3)
    node = rig.node("manageable", fake_async_steps=["*"], fake_step_seconds=3600)
    rig.call("clean", node, clean_steps=listed("deploy.erase_devices"))
    rig.ask("abort", node)
    assert pause(rig, node) is None


def test_missing_interface_ends_the_automatic_retries(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=Failures(GONE, 1).registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    rig.edit(node, raid_interface="not-loaded", wake_at=clock.after(-1))
    wait_for(lambda: rig.get(node)["wake_at"] is None)
    assert len(rig.runs(node)) == 1


class Checks:
    """Drivers whose check of the power settings fails in another way, once told to."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        self.begun = 0
        failing = Failures(GONE, 1).registry
        self.registry = cast(Registry, crashes.Drivers(failing, self._around, more=("validate",)))

    def _around(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        if (kind, name) == ("power", "validate"):
            self.begun += 1
            if self.raised is not None:
                raise self.raised
        return call()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let timers look for nodes, and repeat refused retries, without delay."""
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(timeouts, "_AGAIN", 0.01)


def test_fault_of_a_driver_ends_the_automatic_retries(
    build: Callable[..., ConductorFixture], quick: None
) -> None:
    checks = Checks()
    rig = build(registry=checks.registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    checks.raised = KeyError("a fault of the driver")
    wake(rig, node)
    wait_for(lambda: rig.get(node)["wake_at"] is None)
    assert len(rig.runs(node)) == 1


def test_driver_that_ends_its_thread_ends_no_timer(
    build: Callable[..., ConductorFixture], quick: None
) -> None:
    checks = Checks()
    rig = build(registry=checks.registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    checks.raised, checks.begun = SystemExit(), 0
    wake(rig, node)
    wait_for(lambda: checks.begun)
    checks.raised = None
    rig.reaches(node, "manageable")
    assert len(rig.runs(node)) == 2


def test_retry_that_meets_the_limit_is_not_repeated_each_second(
    build: Callable[..., ConductorFixture], quick: None
) -> None:
    checks = Checks()
    rig = build(
        registry=checks.registry,
        conductor__automatic_retries=3,
        conductor__max_concurrent_clean=1,
    )
    node = begin(rig)
    assert pause(rig, node) == 60
    other = rig.node("manageable", fake_async_steps=["*"], fake_step_seconds=0.5)
    rig.ask("clean", other, clean_steps=listed("bios.factory_reset"))
    checks.begun = 0
    wake(rig, node)
    rig.reaches(other, "manageable")
    assert checks.begun <= 2, "of the other clean, and of the retry"
    assert rig.settled(node)["provision_state"] == "clean failed"


def test_check_of_a_retry_that_hangs_stops_no_timer_and_is_given_up(
    build: Callable[..., ConductorFixture], quick: None
) -> None:
    failing, opened, caught = Failures(GONE, 1).registry, threading.Event(), threading.Event()
    trapped = set[str]()

    def around(kind: str, name: str, call: Any) -> Any:
        if (kind, name) == ("power", "validate") and call.args[0].node.uuid in trapped:
            caught.set()
            opened.wait(60)
        return call()

    registry = cast(Registry, crashes.Drivers(failing, around, more=("validate",)))
    rig = build(registry=registry, conductor__automatic_retries=3, conductor__work_timeout=1)
    node = begin(rig)
    assert pause(rig, node) == 60
    trapped.add(node)
    wake(rig, node)
    assert caught.wait(60)
    other = rig.node("manageable", fake_async_steps=["*"], fake_step_seconds=0.1)
    rig.clean(other, "bios.factory_reset")
    rig.reaches(other, "manageable")
    row = wait_for(lambda: (found := rig.get(node))["wake_at"] is None and found)
    assert "[conductor]work_timeout" in row["last_error"]
    row = rig.settled(node)
    opened.set()
    assert rig.service.runtime.workers.wait_idle(60)
    assert (row["provision_state"], len(rig.runs(node))) == ("clean failed", 1)
    assert rig.get(node) == row


@pytest.mark.parametrize("field", ["owner", "lessee"])
def test_run_of_former_users_is_not_retried(
    build: Callable[..., ConductorFixture], field: str
) -> None:
    """The node may change hands while its run waits, and then the run fails."""
    rig = build(registry=Failures(GONE, 1).registry, conductor__automatic_retries=3)
    node = rig.node("manageable", **{field: "p-old"})
    rig.clean(node, *STEPS)
    assert pause(rig, node) == 60
    rig.edit(node, **{field: "p-new"}, wake_at=clock.after(-1))
    wait_for(lambda: rig.get(node)["wake_at"] is None)
    assert len(rig.runs(node)) == 1
    assert rig.reaches(node, "clean failed")


def test_cleaning_of_a_deletion_that_ends_the_lease_is_retried(
    build: Callable[..., ConductorFixture],
) -> None:
    left = [GONE]

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name.startswith("execute_clean") and left:
            raise left.pop()
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    rig = build(registry=registry, conductor__automatic_retries=3)
    node = rig.node("available", owner="p-owner", instance_info={"project_id": "p-nova"})
    rig.ask("deploy", node)
    rig.reaches(node, "active")
    rig.ask("delete", node)
    assert pause(rig, node) == 60
    assert rig.get(node)["lessee"] is None
    wake(rig, node)
    rig.reaches(node, "available")
    assert [run["verb"] for run in rig.runs(node)] == ["active", "deleted", "deleted"]
