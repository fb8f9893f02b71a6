"""Retries on a machine with Redfish: each step fails in turn, and kept steps run once."""

from __future__ import annotations

import fnmatch
from typing import Any, NamedTuple

import pytest

from ironic_lite.conductor.work.task import Task
from tests.emulators import bmc
from tests.support.redfish_jobs import SETTINGS
from tests.support.redfish_service import RedfishOperator

Json = dict[str, Any]
REFUSED = {"error": {"message": "The door is open."}}
RESET = "POST */ComputerSystem.Reset"


class Step(NamedTuple):
    """A clean step.

    :ivar title: pattern of the request by which the step changes the machine.
    :ivar word: the reset type of this request, if others have the same title.
    :ivar lasts: False if the step runs again in every retry.
    """

    listed: Json
    title: str
    word: str | None = None
    lasts: bool = True


def _step(interface: str, step: str, **args: Any) -> Json:
    return {"interface": interface, "step": step, "args": args}


STEPS = (
    Step(_step("power", "power_on"), RESET, "On", lasts=False),
    Step(_step("power", "power_off"), RESET, "ForceOff", lasts=False),
    Step(_step("bios", "apply_configuration", settings=SETTINGS), "PATCH */Bios*"),
    Step(_step("management", "reset_bmc"), "POST */Manager.Reset"),
    Step(_step("management", "set_bmc_clock"), "PATCH */Managers/*"),
    Step(_step("bios", "factory_reset"), "POST */Bios.ResetBios"),
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers that ring after fractions of a second."""
    wake_after = Task.wake_after

    def wake_soon(task: Task, seconds: float) -> None:
        wake_after(task, min(seconds, 0.02))

    monkeypatch.setattr(Task, "wake_after", wake_soon)


def refuse(machine: bmc.Machine, step: Step) -> None:
    """Let the BMC refuse the request of a step."""

    def play(handler: bmc.Handler) -> None:
        word = (handler.request_read.body or {}).get("ResetType")
        if step.word in (None, word):
            handler.say(400, REFUSED)
        else:
            handler.truth()

    machine.tricks[step.title] = play


def count(requests: list[Any], step: Step) -> int:
    """Return how often a step has changed the machine, or tried to."""
    return sum(
        fnmatch.fnmatchcase(one.title, step.title)
        and step.word in (None, (one.body or {}).get("ResetType"))
        for one in requests
    )


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_retry_runs_no_kept_step_again(
    operator: RedfishOperator, machine: bmc.Machine, at: int
) -> None:
    kinds = {f"{kind}_interface": "redfish" for kind in ("bios", "management")}
    node = operator.enroll("manageable", driver="redfish", driver_info=machine.driver_info, **kinds)
    refuse(machine, STEPS[at])
    operator.asks(node, "clean", clean_steps=[step.listed for step in STEPS])
    operator.rig.reaches(node, "clean failed")
    failed = operator.rig.run(node)
    assert [step["state"] for step in failed["steps"]][: at + 1] == ["done"] * at + ["failed"]
    before = list(machine.requests)

    machine.tricks.clear()
    operator.asks(node, "retry")
    operator.rig.reaches(node, "manageable")
    assert operator.shows(node)["last_error"] is None
    retried = operator.rig.run(node)
    after = machine.requests[len(before) :]
    for place, (step, row) in enumerate(zip(STEPS, retried["steps"], strict=True)):
        kept = place < at and step.lasts
        assert row["state"] == "done"
        assert row["done_in"] == (failed["uuid"] if kept else None)
        if step.lasts:
            assert (count(before, step) > 0, count(after, step) > 0) == (place <= at, not kept)
        if kept:
            assert count(machine.requests, step) == 1
