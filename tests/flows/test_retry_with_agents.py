"""Retries of runs whose ramdisk's agent adds steps, changes, or destroys what came before."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.steps import stepper
from ironic_lite.conductor.watch import timers
from ironic_lite.drivers.fake.deploy import FakeDeploy
from tests.flows.test_agents import BURN, agent
from tests.support.conductor_fixture import ConductorFixture, wait_for

WIPE = {"interface": "deploy", "step": "erase_devices_metadata", "priority": 90}
BURN_IN = {"interface": "deploy", "step": "burn", "priority": 90}


@pytest.fixture(autouse=True)
def quick_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers are looked for without delay."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)


def deploy_fails(rig: ConductorFixture, title: str, found: Any, **request: Any) -> str:
    """Let a deployment fail at a step; return the node, whose machine is well again."""
    node = rig.node("available", fake_agent=found, fake_fail_steps={title: "smoke"})
    rig.ask("do_node_deploy", node, **request)
    rig.reaches(node, "deploy failed")
    rig.edit(node, driver_info={"fake_agent": found})
    return node


def test_image_is_written_again_behind_a_step_that_wipes_the_disk(rig: ConductorFixture) -> None:
    node = deploy_fails(rig, "deploy.boot_instance", agent(deploy_steps=[WIPE]))
    begun = rig.started(node)
    rig.ask("do_node_retry", node)
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
            rig.ask("do_node_retry", node, retry=choice)
    rig.ask("do_node_retry", node)
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
    rig.ask("do_provisioning_action", node, action="provide")
    rig.reaches(node, "clean failed")
    rig.edit(node, driver_info={"fake_agent": versions})
    begun = len(rig.started(node))
    rig.ask("do_node_retry", node, retry={"waive": [{"reason": "keep the labels"}]})
    rig.reaches(node, "available")
    assert "deploy.erase_devices_metadata" not in rig.started(node)[begun:]


def test_fault_of_a_deployment_has_the_ordinal_of_the_failed_run(rig: ConductorFixture) -> None:
    node = deploy_fails(rig, "deploy.boot_instance", agent(deploy_steps=[BURN_IN]))
    listed = [f"{row['interface']}.{row['step']}" for row in rig.run(node)["steps"]]
    rig.edit(node, driver_info={"fake_agent": agent()})
    rig.ask("do_node_retry", node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    rig.reaches(node, "deploy failed")
    facts = rig.run(node)["error"]["cause"]["facts"]
    assert facts["paths"] == [f"deploy_steps/{listed.index('deploy.burn')}/step"]


def test_doubt_survives_a_forced_retry_that_fails_before_the_step(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepper, "rerunnable", lambda *_: False)
    node = rig.node("available", fake_async_steps=["*"], fake_step_seconds=3600)
    rig.call("do_node_deploy", node)
    rig.ask("do_provisioning_action", node, action="abort")
    rig.reaches(node, "deploy failed")
    with pytest.raises(errors.StepInDoubt):
        rig.ask("do_node_retry", node)

    def fail(_self: Any, _task: Any) -> None:
        raise errors.AgentUnreachable(node="n", reason="no route to host")

    with monkeypatch.context() as patched:
        patched.setattr(FakeDeploy, "prepare", fail)
        rig.ask("do_node_retry", node, retry={"force": True})
        wait_for(lambda: len(rig.runs(node)) == 2)
        rig.reaches(node, "deploy failed")
    with pytest.raises(errors.StepInDoubt):
        rig.ask("do_node_retry", node)
