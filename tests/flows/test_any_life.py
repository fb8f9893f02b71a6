"""Any life a machine may have: random requests, faults, aborts, deaths and time-outs, by the model.

``make life`` runs it for as long as one likes, with other lives each time.
"""

from __future__ import annotations

import os
from typing import Any, cast

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ironic_lite.db.engine.session import Database
from ironic_lite.domain import states, verbs
from ironic_lite.domain.states import Kind, State
from tests.support import node_model
from tests.support.conductor_fixture import ConductorFixture, listed
from tests.support.invariants import Invariants
from tests.support.lifecycle_world import LifecycleWorld
from tests.support.node_model import Model, Told

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
LIVES = int(os.environ.get("ANY_LIFE_EXAMPLES", "0"))
_TOLD = st.builds(
    Told,
    waits=st.booleans(),
    fail_steps=st.sets(st.sampled_from(node_model.STEPS), max_size=2).map(frozenset),
    fail_verbs=st.sets(st.sampled_from(node_model.VERBS), max_size=1).map(frozenset),
    slow_verbs=st.sets(st.sampled_from(("inspect", "rescue"))).map(frozenset),
    fail_power=st.sampled_from((*[False] * 7, True)),
)
_CLEAN = (*node_model.CLEAN, *node_model.RESERVED, *node_model.ON_CHILD)
_SERVICE = (node_model.SERVICE, node_model.SERVICE, *node_model.RESERVED, node_model.ON_CHILD[0])


def _listed(*titles: str) -> list[dict[str, Any]]:
    found = []
    for title in titles:
        interface, step = title.removesuffix("@").split(".")
        more = {"execute_on_child_nodes": True} if title in node_model.ON_CHILD else {}
        found.append({"interface": interface, "step": step, **more})
    return found


def _lists(pool: tuple[str, ...]) -> st.SearchStrategy[list[dict[str, Any]]]:
    known = st.lists(st.sampled_from(pool), min_size=1, max_size=4)
    broken = known.map(lambda found: [*found, node_model.UNKNOWN])
    return st.one_of(known, known, known, broken).map(lambda found: _listed(*found))


_BODIES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "clean": st.fixed_dictionaries({"clean_steps": _lists(_CLEAN)}),
    "service": st.fixed_dictionaries({"service_steps": _lists(_SERVICE)}),
    "rescue": st.just({"rescue_password": "secret"}),
    "active": st.sampled_from(
        [
            {},
            *(
                {"deploy_steps": [{**step, "args": {}, "priority": 50}]}
                for step in _listed(*node_model.RESERVED)
            ),
        ]
    ),
}
_BODIES["rebuild"] = _BODIES["active"]
_WITH_STEPS = ("clean", "service", "active", "rebuild", "provide")
_STOPPING = ("clean", "service")


class AnyLife(Invariants):
    """One node, and whatever may happen to it."""

    def __init__(self, world: LifecycleWorld) -> None:
        super().__init__(world)
        self.doomed: bool | None = None  # dies soon: and is followed elsewhere
        self.troubled = False

    @initialize(
        state=st.sampled_from(["active", "manageable", "available", "enroll"]),
        automated=st.sampled_from([None, None, False]),
        child=st.sampled_from(["well", "well", "broken"]),
        waits=st.booleans(),
    )
    def enrol(self, state: str, automated: bool | None, child: str, waits: bool) -> None:
        self.first = state
        self.node = self.world.rig.node(state, automated_clean=automated)
        self.model = Model(State(state), automated=automated, child_fails=child == "broken")
        told = {"fake_fail_power": "dark"} if child == "broken" else {}
        fails = {"fake_fail_steps": {"management.reset_bmc": "smoke"}} if told else {}
        self._tell(Told(waits=waits))
        self.child = self.world.rig.node("active", parent_node=self.node, **told, **fails)

    def teardown(self) -> None:
        self.world.life.disarm()
        if self.node:
            self.world.remove(self.child)
            self.world.remove(self.node)

    # -- what an operator asks ---------------------------------------------------------------

    @rule(anything=st.sampled_from([False, False, True]), data=st.data())
    def ask(self, anything: bool, data: st.DataObject) -> None:
        """Ask for a verb, mostly for one that is possible; what is under way mostly goes on."""
        if not anything and states.kind(self.model.state) in (Kind.WAIT, Kind.HELD):
            self._further(data)
            return
        known = sorted(verbs.BY_TARGET.keys() - {"retry"})  # tests/flows/test_retry.py
        possible = [name for name in known if self.model.accepts(name)]
        names = possible if possible and not anything else known
        self._ask(data.draw(st.sampled_from(names), "verb"), data)

    @precondition(lambda self: any(map(self.model.accepts, _WITH_STEPS)))
    @rule(data=st.data())
    def ask_for_steps(self, data: st.DataObject) -> None:
        possible = [name for name in _WITH_STEPS if self.model.accepts(name)]
        self._ask(data.draw(st.sampled_from(possible), "verb"), data)

    @precondition(lambda self: any(map(self.model.accepts, _STOPPING)))
    @rule(stop=st.sampled_from(["power.hold", "power.wait"]), more=st.booleans(), data=st.data())
    def stop_in_the_middle(self, stop: str, more: bool, data: st.DataObject) -> None:
        """Ask for a list that stops, and see what becomes of it."""
        possible = [name for name in _STOPPING if self.model.accepts(name)]
        target = data.draw(st.sampled_from(possible), "verb")
        titles = ("power.reboot", stop, *(["power.power_on"] if more else []))
        self._ask(target, data, {f"{target}_steps": _listed(*titles)})
        if states.kind(self.model.state) in (Kind.WAIT, Kind.HELD):
            self._further(data)

    def _ask(self, target: str, data: st.DataObject, body: dict[str, Any] | None = None) -> None:
        body = data.draw(_BODIES.get(target, st.just({})), "body") if body is None else body
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

    def _history(self) -> tuple[int, int]:
        return len(self.world.rig.events(self.node)), len(self.world.rig.runs(self.node))

    @rule(what=st.sampled_from(["behave", "maintenance", "retired", "power"]), data=st.data())
    def meddle(self, what: str, data: st.DataObject) -> None:
        """Do what may be done in any state, or let the machine behave in another way."""
        if what == "behave":
            self._tell(data.draw(_TOLD, "told"))
        elif what == "power":
            self._power(data.draw(st.sampled_from(["power on", "power off", "rebooting"]), "to"))
        elif what == "retired":
            self._retired(data.draw(st.booleans(), "on"))
        else:
            self._maintenance(data.draw(st.booleans(), "on"))

    @precondition(lambda self: self.model.maintenance or self.model.retired or self.troubled)
    @rule(waits=st.booleans())
    def end_maintenance(self, waits: bool) -> None:
        """Put everything right, so that life goes on."""
        self._maintenance(False)
        self._retired(False)
        self._tell(Told(waits=waits, slow_verbs=frozenset({"rescue"} if waits else ())))

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

    def _tell(self, told: Told) -> None:
        self.world.write(self.node, driver_info=told.driver_info())
        self.model.told = told
        self.troubled = bool(told.fail_power or told.fail_steps or told.fail_verbs)

    # -- what becomes of a node that waits or is held -----------------------------------------

    @precondition(lambda self: states.kind(self.model.state) in (Kind.WAIT, Kind.HELD))
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        self._further(data)

    def _further(self, data: st.DataObject) -> None:
        held = states.kind(self.model.state) is Kind.HELD
        rings = self.world.row(self.node)["wake_at"] is not None
        often = ["unhold"] if held else ["ring"] if rings else ["say"] * bool(self._kind)
        seldom = ["abort", "retire", "time out", *(["say"] if self._kind and not held else ())]
        what = data.draw(st.sampled_from([*often * 3, "abort", *seldom]), "what")
        if what in ("unhold", "abort"):
            self._ask(what, data)
        elif what == "retire":
            self._retired(True)
        else:
            {"ring": self._ring, "say": self._say, "time out": self._time_out}[what]()

    @property
    def _kind(self) -> str | None:
        """Which kind of list is under way, if any."""
        return node_model.KIND_OF.get(self.model.state)

    def _ring(self) -> None:
        self.world.act(self.node, lambda: self.world.ring(self.node))
        if not self._died():
            self.model.rings()

    def _say(self) -> None:
        """Somebody says that the step has ended; nobody believes it if there is a timer."""
        row, method = self.world.row(self.node), f"continue_node_{self._kind}"
        self.world.act(self.node, lambda: self.world.rig.ask(method, self.node))
        if not self._died() and row["wake_at"] is None:
            self.model.goes_on()

    def _time_out(self) -> None:
        self.world.act(self.node, lambda: self.world.age(self.node))
        if not self._died():
            self.model.waits_too_long()
            self.world.rig.service.orphans.sweep()

    # -- death ---------------------------------------------------------------------------------

    @precondition(lambda self: self.doomed is None)
    @rule(
        what=st.sampled_from(["commit", "call"]),
        n=st.integers(1, 20),
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
        self.world.settle(self.child)
        self._learn()
        return True

    def _learn(self) -> None:
        row, model = self.world.row(self.node), self.model
        model.state = State(row["provision_state"])
        model.maintenance, model.fault = row["maintenance"], row["fault"] is not None
        model.manual = row["target_provision_state"] == "manageable"
        model.kept = model.state is State.DEPLOYFAIL and bool(row["deploy_step"])
        kind = node_model.KIND_OF.get(model.state)
        if kind:
            info = row["driver_internal_info"]
            model.listed = node_model.titles(info[f"{kind}_steps"] or [])
            model.at = info[f"{kind}_step_index"]
            model.later = bool((row[f"{kind}_step"] or {}).get("abort_after"))


_SETTINGS = hypothesis.settings(
    max_examples=LIVES or 20,
    stateful_step_count=40 if LIVES else 25,
    derandomize=not LIVES,
    report_multiple_bugs=bool(LIVES),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def test_any_life_follows_the_tables(sqlite_database: Database) -> None:
    world = LifecycleWorld(sqlite_database)
    try:
        run_state_machine_as_test(cast(Any, lambda: AnyLife(world)), settings=_SETTINGS)
    finally:
        world.bury()
    print(f"{world.deaths} conductors died; accepted: {dict(world.accepted)}")
    print(f"states the node came to rest in: {dict(world.rested)}")


# What random lives (``test_any_life``) have found, told one by one.


@pytest.mark.parametrize("state", ["error", "clean failed", "deploy failed"])
def test_a_power_change_leaves_the_reason_of_a_failure(rig: ConductorFixture, state: str) -> None:
    node = rig.node(state, last_error="The disk burns.")
    row = rig.call("change_node_power_state", node, target="power on")
    assert (row["power_state"], row["last_error"]) == ("power on", "The disk burns.")


def test_a_power_change_of_a_sound_node_forgets_what_was(rig: ConductorFixture) -> None:
    node = rig.node("manageable", last_error="The disk burnt.")
    assert rig.call("change_node_power_state", node, target="power on")["last_error"] is None


WAIT: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "deploy": (
        *("available", "deploy"),
        [{"interface": "power", "step": "wait", "args": {}, "priority": 50}],
    ),
    "service": ("active", "service", listed("power.wait")),
}


@pytest.mark.parametrize("kind", WAIT)
def test_a_failed_deletion_shows_no_step_of_what_it_ended(rig: ConductorFixture, kind: str) -> None:
    before, method, steps = WAIT[kind]
    node = rig.node(before, fake_fail_verbs={"delete": "no"})
    row = rig.call(method, node, **{f"{kind}_steps": steps})
    assert row[f"{kind}_step"]["step"] == "wait"
    for state in (
        rig.call("delete", node),
        rig.call("rebuild", node),
    ):
        assert not state[f"{kind}_step"]
        assert f"{kind}_step_index" not in state["driver_internal_info"]
        assert not state["driver_internal_info"].get(f"{kind}_steps")
    assert rig.path(node)[-3:] == ["error", "deploying", "active"]
