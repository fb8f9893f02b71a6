"""The verb retry: each step of each kind of list fails in turn, and the run goes on from there."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.steps import stepper
from ironic_lite.conductor.watch import timers
from ironic_lite.core import masking
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

CLEAN = ["bios.factory_reset", "raid.delete_configuration", "management.reset_bmc"]
AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]
DEPLOY = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]
HOLD = {"interface": "power", "step": "hold", "priority": 150}
SERVICE = ["vendor.log_passthrough"] * 3

# kind of list -> state before, endpoint, arguments, steps, fail state, final state
LISTS: dict[str, tuple[Any, ...]] = {
    "manual clean": (
        "manageable",
        "do_node_clean",
        {"clean_steps": listed(*CLEAN)},
        CLEAN,
        "clean failed",
        "manageable",
    ),
    "automated clean": (
        "manageable",
        "do_provisioning_action",
        {"action": "provide"},
        AUTOMATED,
        "clean failed",
        "available",
    ),
    "deploy": ("available", "do_node_deploy", {}, DEPLOY, "deploy failed", "active"),
    "service": (
        "active",
        "do_node_service",
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
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)


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
    rig.ask("do_node_retry", node)
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
    rig.ask("do_node_retry", node)
    rig.reaches(node, "clean failed")
    rig.edit(node, driver_info={})
    rig.ask("do_node_retry", node)
    rig.reaches(node, "manageable")
    first, second, third = rig.runs(node)
    done_in = [row["done_in"] for row in third["steps"]]
    assert done_in == [first["uuid"], second["uuid"], None]
    assert third["steps"][0]["ended_at"] == first["steps"][0]["ended_at"]
    assert third["retry_of"] == second["uuid"]


def test_retry_from_an_earlier_step_repeats_kept_steps(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 2)
    rig.ask("do_node_retry", node, retry={"from": 1})
    rig.reaches(node, "manageable")
    assert rig.started(node)[3:] == CLEAN[1:]


def test_retry_from_a_later_step_is_refused_and_changes_nothing(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    before = rig.get(node)
    with pytest.raises(errors.InvalidParameter, match="retry/from"):
        rig.ask("do_node_retry", node, retry={"from": 2})
    after = rig.get(node)
    assert {**after, "updated_at": None} == {**before, "updated_at": None}


def test_waived_step_does_not_run_and_says_why(rig: ConductorFixture) -> None:
    node = fail(rig, "automated clean", 1)
    rig.ask("do_node_retry", node, retry={"waive": [{"reason": "disk goes to the shredder"}]})
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
        rig.ask("do_node_retry", node, retry={"waive": [{"ordinal": 0, "reason": "no"}]})


def test_step_that_is_not_offered_any_more_fails_the_retry_before_any_step(
    rig: ConductorFixture,
) -> None:
    node = fail(rig, "manual clean", 1)
    begun = rig.started(node)
    rig.edit(node, raid_interface="no-raid")
    rig.ask("do_node_retry", node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    row = rig.reaches(node, "clean failed")
    assert "raid.delete_configuration" in row["last_error"]
    assert rig.started(node) == begun
    cause = rig.run(node)["error"]["cause"]
    assert cause["facts"]["paths"] == ["clean_steps/1/step"]  # its ordinal in the failed run


def test_run_without_a_list_cannot_be_retried(rig: ConductorFixture) -> None:
    node = rig.node("clean failed", target_provision_state="available")
    with pytest.raises(errors.NothingToRetry, match="has not failed"):
        rig.ask("do_node_retry", node)


def test_maintenance_of_an_operator_refuses_a_retry(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    rig.edit(node, maintenance_reason="new disks are on their way")
    with pytest.raises(errors.NodeInMaintenance):
        rig.ask("do_node_retry", node)


def test_step_in_doubt_needs_force(rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "rerunnable", lambda *_: False)
    node = rig.node("available", fake_async_steps=["*"], fake_step_seconds=3600)
    rig.call("do_node_deploy", node)
    rig.ask("do_provisioning_action", node, action="abort")
    rig.reaches(node, "deploy failed")
    rig.edit(node, driver_info={})
    with pytest.raises(errors.StepInDoubt, match=DEPLOY[0]):
        rig.ask("do_node_retry", node)
    rig.ask("do_node_retry", node, retry={"force": True})
    rig.reaches(node, "active")


@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", LISTS)
def test_retry_survives_the_death_of_its_conductor(
    build: Callable[..., ConductorFixture], sqlite_database: Database, name: str, what: str
) -> None:
    deaths = 0
    while _dies_in_a_retry(build, sqlite_database, name, {what: deaths + 1}):
        deaths += 1
    assert deaths >= 2


def _dies_in_a_retry(
    build: Callable[..., ConductorFixture], database: Database, name: str, left: dict[str, int]
) -> bool:
    """Kill a conductor in the middle of a retry; return False if it lived to the end."""
    steps, failed, end = LISTS[name][3:]
    at = 0 if name == "service" else 1
    life = crashes.Life()
    rig = build(crashes.database(database, life), registry=crashes.drivers(drivers(), life))
    rig.database = database
    node = fail(rig, name, at)
    before = len(rig.started(node))
    life.arm(**left)
    with contextlib.suppress(crashes.Died):
        rig.ask("do_node_retry", node)
    wait_for(lambda: life.dead or rig.get(node)["provision_state"] == end)
    rig.bury()
    assert rig.service.runtime.workers.wait_idle(5)
    if not life.dead:
        return False
    heir = build(database)
    if len(heir.runs(node)) == 1:  # the verb was never accepted
        assert heir.get(node)["provision_state"] == failed
    else:
        heir.reaches(node, end)
        kept = 0 if name == "deploy" else at
        began = heir.started(node)[before:]
        assert list(dict.fromkeys(began)) == list(dict.fromkeys(steps[kept:]))
        assert len(began) <= len(steps[kept:]) + 1  # at most one step is done again
        assert heir.run(node)["state"] == "done"
    heir.bury()
    return True


# -- what must not be kept, run or taken for well --------------------------------------------


def test_image_is_written_again_if_another_one_is_wanted(rig: ConductorFixture) -> None:
    node = fail(rig, "deploy", 2)
    rig.edit(node, instance_info={"image_source": "http://192.0.2.1/other"})
    rig.ask("do_node_retry", node)
    rig.reaches(node, "active")
    assert rig.started(node)[3:] == DEPLOY


def test_steps_run_again_on_another_machine(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    rig.edit(node, driver_info={"redfish_address": "https://192.0.2.9"})
    rig.ask("do_node_retry", node)
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
        rig.ask("do_node_retry", node)


def test_later_error_of_the_node_does_not_refuse_a_retry(rig: ConductorFixture) -> None:
    node = fail(rig, "manual clean", 1)
    rig.edit(node, last_error="Failed to set node power state to power on: no answer")
    rig.ask("do_node_retry", node)
    rig.reaches(node, "manageable")


def test_steps_that_were_forbidden_since_are_refused(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(api__disallow_clean_steps=[CLEAN[2]])
    node = fail(rig, "manual clean", 1)
    with pytest.raises(errors.InvalidParameter, match="disallow_clean_steps"):
        rig.ask("do_node_retry", node)
    rig.ask("do_node_retry", node, retry={"waive": [{"ordinal": 2, "reason": "forbidden"}]})
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
    rig.ask("do_node_retry", node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    assert rig.reaches(node, "clean failed")["wake_at"] is not None
    rig.ask("do_node_retry", node)
    rig.reaches(node, "available")
    assert steps_of(rig, node) == [
        (AUTOMATED[0], "done", 1, True),
        (AUTOMATED[1], "done", 2, False),
    ]


def test_digest_of_the_inputs_of_a_list_is_hidden_from_readers(rig: ConductorFixture) -> None:
    """Instances may name logins in addresses, and readers could try passwords."""
    node = rig.node("available")
    rig.ask("do_node_deploy", node, deploy_steps=[HOLD])
    rig.reaches(node, "deploy hold")
    kept = rig.get(node)["driver_internal_info"]
    digests = re.compile(r"\b[0-9a-f]{64}\b")
    assert digests.search(json.dumps(kept))
    assert not digests.search(json.dumps(masking.field("driver_internal_info", kept)))
