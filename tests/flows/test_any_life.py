"""Any life a machine may have: random requests, faults, aborts, deaths and time-outs, by the model.

``make life`` runs it for as long as one likes, with other lives each time.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, cast

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ironic_lite import states, verbs
from ironic_lite.db.session import Database
from ironic_lite.states import Kind, State
from tests.flows import life
from tests.flows.life import Model, Told
from tests.flows.world import World

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
LIVES = int(os.environ.get("ANY_LIFE_EXAMPLES", "0"))
_TOLD = st.builds(
    Told,
    waits=st.booleans(),
    fail_steps=st.sets(st.sampled_from(life.STEPS), max_size=2).map(frozenset),
    fail_verbs=st.sets(st.sampled_from(life.VERBS), max_size=1).map(frozenset),
    slow_verbs=st.sets(st.sampled_from(("inspect", "rescue"))).map(frozenset),
    fail_power=st.sampled_from((*[False] * 7, True)),
)
_SERVICE = (life.SERVICE, life.SERVICE, *life.RESERVED)


def _listed(*titles: str) -> list[dict[str, Any]]:
    pairs = (title.split(".") for title in titles)
    return [{"interface": interface, "step": step} for interface, step in pairs]


def _lists(pool: tuple[str, ...]) -> st.SearchStrategy[list[dict[str, Any]]]:
    known = st.lists(st.sampled_from(pool), min_size=1, max_size=4)
    broken = known.map(lambda found: [*found, life.UNKNOWN])
    return st.one_of(known, known, known, broken).map(lambda found: _listed(*found))


_BODIES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "clean": st.fixed_dictionaries({"clean_steps": _lists((*life.CLEAN, *life.RESERVED))}),
    "service": st.fixed_dictionaries({"service_steps": _lists(_SERVICE)}),
    "rescue": st.just({"rescue_password": "secret"}),
    "active": st.sampled_from(
        [
            {},
            *(
                {"deploy_steps": [{**step, "args": {}, "priority": 50}]}
                for step in _listed(*life.RESERVED)
            ),
        ]
    ),
}
_BODIES["rebuild"] = _BODIES["active"]
_WITH_STEPS = ("clean", "service", "active", "rebuild", "provide")
_WAITING = frozenset(state for state in life.KIND_OF if states.kind(state) is Kind.WAIT)


class AnyLife(RuleBasedStateMachine):
    """One node, and whatever may happen to it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.deaths = world.deaths
        self.node = ""
        self.doomed: bool | None = None  # dies soon: and is followed elsewhere

    @initialize(
        state=st.sampled_from(["active", "manageable", "available", "enroll"]),
        automated=st.sampled_from([None, None, False]),
    )
    def enrol(self, state: str, automated: bool | None) -> None:
        self.first = state
        self.node = self.world.rig.node(state, automated_clean=automated)
        self.model = Model(State(state), automated=automated)

    def teardown(self) -> None:
        self.world.life.disarm()
        if self.node:
            self.world.remove(self.node)

    # -- what an operator asks ---------------------------------------------------------------

    @rule(data=st.data())
    def ask_what_is_possible(self, data: st.DataObject) -> None:
        possible = [name for name in verbs.BY_TARGET if self.model.accepts(name)]
        if possible:
            self._ask(data.draw(st.sampled_from(possible), "verb"), data)

    @precondition(lambda self: any(map(self.model.accepts, _WITH_STEPS)))
    @rule(data=st.data())
    def ask_for_steps(self, data: st.DataObject) -> None:
        possible = [name for name in _WITH_STEPS if self.model.accepts(name)]
        self._ask(data.draw(st.sampled_from(possible), "verb"), data)

    @rule(verb=st.sampled_from(sorted(verbs.BY_TARGET)), data=st.data())
    def ask_anything(self, verb: str, data: st.DataObject) -> None:
        self._ask(verb, data)

    def _ask(self, target: str, data: st.DataObject) -> None:
        body = data.draw(_BODIES.get(target, st.just({})), "body")
        before, history = self.world.row(self.node), self._history()
        path = f"/v1/nodes/{self.node}/states/provision"
        answer = self.world.act(
            self.node, lambda: self.world.api.put(path, {"target": target, **body})
        )
        if self._died():
            return
        assert answer is not None
        if self.model.accepts(target):
            assert answer.status == 202, answer.text
            self.world.accepted[target] += 1
            self.model.takes(target, body, before)
        else:
            assert 400 <= answer.status < 500, answer.text
            assert self.world.row(self.node) == before
            assert self._history() == history

    @rule(what=st.sampled_from(["maintenance", "retired", "power"]), data=st.data())
    def meddle(self, what: str, data: st.DataObject) -> None:
        if what == "power":
            self._power(data.draw(st.sampled_from(["power on", "power off", "rebooting"]), "to"))
        elif what == "retired":
            self._retired(data.draw(st.booleans(), "on"))
        else:
            self._maintenance(data.draw(st.booleans(), "on"))

    @precondition(lambda self: self.model.maintenance or self.model.retired)
    @rule(waits=st.booleans())
    def mend(self, waits: bool) -> None:
        """Put everything right, so that life goes on."""
        self._maintenance(False)
        self._retired(False)
        self.tell(Told(waits=waits))

    def _maintenance(self, on: bool) -> None:
        path = f"/v1/nodes/{self.node}/maintenance"
        answer = self.world.api.request("PUT" if on else "DELETE", path)
        assert answer.status == 202, answer.text
        if on != self.model.maintenance or not on:
            self.model.fault = False
        self.model.maintenance = on

    def _retired(self, on: bool) -> None:
        patch = [{"op": "replace", "path": "/retired", "value": on}]
        answer = self.world.api.patch(f"/v1/nodes/{self.node}", patch)
        if on and self.model.state is State.AVAILABLE:
            assert answer.status == 409, answer.text
        else:
            assert answer.status == 200, answer.text
            self.model.retired = on

    def _power(self, to: str) -> None:
        path = f"/v1/nodes/{self.node}/states/power"
        answer = self.world.act(self.node, lambda: self.world.api.put(path, {"target": to}))
        if self._died():
            return
        refused = self.model.state in (State.CLEANING, State.CLEANWAIT)
        assert answer is not None
        assert answer.status == (400 if refused else 202), answer.text

    # -- what the machine does ---------------------------------------------------------------

    @rule(told=_TOLD)
    def tell(self, told: Told) -> None:
        self.world.write(self.node, driver_info=told.driver_info())
        self.model.told = told

    @precondition(lambda self: self.world.row(self.node)["wake_at"] is not None)
    @rule()
    def ring(self) -> None:
        self.world.act(self.node, lambda: self.world.ring(self.node))
        if not self._died():
            self.model.rings()

    @precondition(lambda self: self.model.state in _WAITING)
    @rule()
    def somebody_says_that_it_has_ended(self) -> None:
        row, kind = self.world.row(self.node), life.KIND_OF[self.model.state]
        self.world.act(self.node, lambda: self.world.rig.ask(f"continue_node_{kind}", self.node))
        if not self._died() and row["wake_at"] is None:
            self.model.goes_on()

    # -- what time does ----------------------------------------------------------------------

    @precondition(lambda self: states.kind(self.model.state) in (Kind.WAIT, Kind.HELD))
    @rule()
    def time_passes(self) -> None:
        self.world.act(self.node, lambda: self.world.age(self.node))
        if not self._died():
            self.model.waits_too_long()
            self.world.rig.service._orphans.sweep()

    @precondition(lambda self: self.doomed is None)
    @rule(
        what=st.sampled_from(["commit", "call"]),
        n=st.integers(1, 12),
        elsewhere=st.booleans(),
    )
    def doom(self, what: str, n: int, elsewhere: bool) -> None:
        """The conductor is going to die."""
        self.world.life.arm(**{what: n})
        self.doomed = elsewhere

    def _died(self) -> bool:
        """Let a dead conductor have its heir, and take from the node where that has led."""
        if not self.world.life.dead:
            return False
        state = State(self.world.row(self.node)["provision_state"])
        assert states.kind(state) is not Kind.BUSY or self.world.abandoned(self.node)
        self.world.inherit(elsewhere=bool(self.doomed))
        self.doomed = None
        self.world.settle(self.node)
        self._learn()
        return True

    def _learn(self) -> None:
        row, model = self.world.row(self.node), self.model
        model.state = State(row["provision_state"])
        model.maintenance, model.fault = row["maintenance"], row["fault"] is not None
        model.manual = row["target_provision_state"] == "manageable"
        model.kept = model.state is State.DEPLOYFAIL and bool(row["deploy_step"])
        kind = life.KIND_OF.get(model.state)
        if kind:
            info = row["driver_internal_info"]
            model.listed = life.titles(info[f"{kind}_steps"] or [])
            model.at = info[f"{kind}_step_index"]
            model.later = bool((row[f"{kind}_step"] or {}).get("abort_after"))

    # -- what always holds -------------------------------------------------------------------

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
        assert (row["reservation"], row["lock_token"], row["lock_expires"]) == (None,) * 3
        assert row["target_power_state"] is None
        kind = states.kind(self.model.state)
        assert kind is not Kind.BUSY
        assert row["wake_at"] is None or kind is Kind.WAIT
        assert self.world.rig.tasks.held == frozenset()
        assert self.world.rig.service.desk.workers.wait_idle(5)

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
        steps = {step["state"] for step in run["steps"]}
        assert not steps & {"running", "waiting"}
        assert run["state"] != "done" or steps <= {"done"}

    @invariant()
    def list_step_and_run_agree(self) -> None:
        row = self.world.row(self.node)
        info, run = row["driver_internal_info"], None
        for kind in life.PLACES:
            index, step = info.get(f"{kind}_step_index"), row[f"{kind}_step"]
            if life.KIND_OF.get(self.model.state) == kind:
                run = self.world.rig.run(self.node)
                listed = info[f"{kind}_steps"]
                assert life.titles(listed) == self.model.listed
                assert index == self.model.at
                assert step == {**listed[index], **({"abort_after": True} if self._later else {})}
                self._recorded(run, listed, index)
            elif kind == "deploy" and self.model.kept:
                assert step == info["deploy_steps"][index]
            else:
                assert index is None
                assert not step
                assert not info.get(f"{kind}_steps") or kind != "deploy"

    @property
    def _later(self) -> bool:
        return self.model.later

    def _recorded(self, run: dict[str, Any], listed: list[dict[str, Any]], index: int) -> None:
        steps = run["steps"]
        assert life.titles(steps) == life.titles(listed)
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
    def no_step_runs_twice_but_for_a_death(self) -> None:
        begun = Counter(
            (event["run_uuid"], event["data"]["ordinal"], event["event"])
            for event in self.world.rig.events(self.node, "step_started")
        )
        again = sum(times - 1 for times in begun.values())
        assert again <= self.world.deaths - self.deaths

    # -- aids --------------------------------------------------------------------------------

    def _history(self) -> tuple[int, int]:
        return len(self.world.rig.events(self.node)), len(self.world.rig.runs(self.node))


_SETTINGS = hypothesis.settings(
    max_examples=LIVES or 60,
    stateful_step_count=40 if LIVES else 25,
    derandomize=not LIVES,
    report_multiple_bugs=bool(LIVES),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def test_any_life_follows_the_tables(sqlite_database: Database) -> None:
    world = World(sqlite_database)
    try:
        run_state_machine_as_test(cast(Any, lambda: AnyLife(world)), settings=_SETTINGS)
    finally:
        world.bury()
    print(f"{world.deaths} conductors died; accepted: {dict(world.accepted)}")
    print(f"states the node came to rest in: {dict(world.rested)}")
