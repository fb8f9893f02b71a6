"""Properties of a node that hold after every event, checked after each one."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from ironic_lite.db.queries import nodes
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from tests.support import node_model
from tests.support.lifecycle_world import LifecycleWorld
from tests.support.node_model import Model


class Invariants(RuleBasedStateMachine):
    """A node, its child and its model in a world; subclasses let things happen."""

    def __init__(self, world: LifecycleWorld) -> None:
        super().__init__()
        self.world = world
        self.deaths = world.deaths
        self.first = self.node = self.child = ""
        self.model = Model(State.ENROLL)

    @invariant()
    def it_is_where_the_model_says(self) -> None:
        row = self.world.row(self.node)
        model = self.model
        assert row["provision_state"] == model.state, row["last_error"]
        self.world.rested[model.state.value] += 1
        assert (row["maintenance"], row["fault"] is not None) == (model.maintenance, model.fault)
        assert row["retired"] is model.retired
        assert not (row["retired"] and model.state is State.AVAILABLE)
        target = states.STATES[model.state].target
        if model.state in states.CLEAN_STATES and row["target_provision_state"] == "manageable":
            target = State.MANAGEABLE
        assert row["target_provision_state"] == target

    @invariant()
    def nobody_works_on_it(self) -> None:
        row = self.world.row(self.node)
        assert not {name: row[name] for name in nodes.FREE if row[name] is not None}
        assert row["target_power_state"] is None
        child = self.world.row(self.child)
        assert (child["reservation"], child["wake_at"], child["run_uuid"]) == (None,) * 3
        assert (child["provision_state"], child["last_error"]) == ("active", None)
        kind = states.kind(self.model.state)
        assert kind is not Kind.BUSY
        assert row["wake_at"] is None or kind is Kind.WAIT
        assert self.world.rig.service.runtime.workers.wait_idle(60)  # they forget a lock last
        assert self.world.rig.tasks.locks.held == frozenset()

    @invariant()
    def a_failure_is_explained(self) -> None:
        failed = states.kind(self.model.state) is Kind.FAIL or self.model.state is State.ERROR
        assert not failed or self.world.row(self.node)["last_error"]

    @invariant()
    def one_run_is_open_as_long_as_it_is_under_way(self) -> None:
        row, runs = self.world.row(self.node), self.world.rig.runs(self.node)
        under_way = states.kind(self.model.state) in (Kind.WAIT, Kind.HELD)
        still = [run for run in runs if run["ended_at"] is None]
        assert [run["uuid"] for run in still] == ([row["run_uuid"]] if under_way else [])
        assert under_way or row["run_uuid"] is None
        assert all(run["state"] == "waiting" for run in still)
        for run in runs:
            if run["ended_at"] is not None:
                self._ended_well(run)

    def _ended_well(self, run: dict[str, Any]) -> None:
        assert run["state"] in ("done", "failed", "aborted")
        assert (run["error"] is None) == (run["state"] == "done")
        assert (run["cause"] is None) == (run["state"] == "done")
        steps = {step["state"] for step in run["steps"]}
        assert not steps & {"running", "waiting"}
        assert run["state"] != "done" or steps <= {"done"}

    @invariant()
    def list_step_and_run_agree(self) -> None:
        row = self.world.row(self.node)
        info, run = row["driver_internal_info"], None
        for kind in node_model.PLACES:
            index, step = info.get(f"{kind}_step_index"), row[f"{kind}_step"]
            if node_model.KIND_OF.get(self.model.state) == kind:
                run = self.world.rig.run(self.node)
                listed = info[f"{kind}_steps"]
                assert node_model.titles(listed) == self.model.listed
                assert index == self.model.at
                noted = {"abort_after": True} if self.model.later else {}
                assert step == {**listed[index], **noted}
                self._recorded(run, listed, index)
            elif kind == "deploy" and self.model.kept:
                assert step == info["deploy_steps"][index]
            else:
                assert index is None
                assert not step
                assert not info.get(f"{kind}_steps") or kind != "deploy"

    def _recorded(self, run: dict[str, Any], listed: list[dict[str, Any]], index: int) -> None:
        steps = run["steps"]
        assert node_model.titles(steps) == tuple(
            one.removesuffix("@") for one in node_model.titles(listed)
        )
        assert [step["state"] for step in steps] == [
            *["done"] * index,
            "waiting",
            *["pending"] * (len(listed) - index - 1),
        ]

    @invariant()
    def history_is_one_chain(self) -> None:
        at = State(self.first)
        for event in self.world.rig.events(self.node, "provision"):
            assert event["before"] == at
            assert event["after"] == states.follow(at, event["event"])
            at = State(event["after"])
        assert at is self.model.state

    @invariant()
    def every_flow_of_steps_that_began_has_its_end(self) -> None:
        row = self.world.row(self.node)
        begun = [
            event["run_uuid"]
            for event in self.world.rig.events(self.node, "flow_started")
            if not event["data"]["anew"]
        ]
        ended = [event["run_uuid"] for event in self.world.rig.events(self.node, "flow_ended")]
        going = [row["run_uuid"]] if self.model.state in node_model.KIND_OF else []
        assert Counter(begun) == Counter([*ended, *going])

    @invariant()
    def no_step_runs_twice_but_for_a_death(self) -> None:
        begun = Counter(
            (event["run_uuid"], event["data"]["ordinal"], event["event"])
            for event in self.world.rig.events(self.node, "step_started")
        )
        again = sum(times - 1 for times in begun.values())
        assert again <= self.world.deaths - self.deaths
