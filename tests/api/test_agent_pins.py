"""Pinned agents: the API records their heartbeats, with the outcome that a conductor would give."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.domain import activities, states, waiting
from ironic_lite.domain.states import State
from ironic_lite.drivers import base
from ironic_lite.drivers.fake.hardware import FakeDeploy
from ironic_lite.drivers.registry import Registry
from tests.support.conductor_fixture import drivers
from tests.support.crashes import Replaced
from tests.support.in_process import InProcess

Json = dict[str, Any]
Change = Callable[[InProcess, str], object]
URL = "https://192.0.2.10:9999"
TOKEN = "t" * 43
BODY: Json = {
    "callback_url": URL,
    "agent_version": "13.0.0",
    "agent_token": TOKEN,
    "agent_verify_ca": "PEM",
}
LONG_AGO = datetime.datetime(2020, 1, 1)
STEPS = {"clean": "clean wait", "deploy": "wait call-back", "service": "service wait"}
BY_ITSELF = {"id", "uuid", "generation", "updated_at", "provision_updated_at", "wake_at"}
PIN = {"agent_pin", "agent_pin_generation", "agent_heard_at", "driver_internal_info"}


class Polled(FakeDeploy):
    """A deploy interface that acts on heartbeats in its own steps."""

    def handles_heartbeat(self, task: base.Task) -> bool:
        step = activities.step_under_way(cast(Any, task.node.as_dict()))
        return step is not None and step["interface"] == "deploy"

    def heartbeat(self, task: base.Task) -> bool:
        task.keep("beats", task.recall("beats", 0) + 1)
        return False


@pytest.fixture
def whole(sqlite_database: Database) -> Iterator[InProcess]:
    """API and conductor, with a deploy interface that acts on some heartbeats."""
    service = InProcess(sqlite_database, cast(Registry, Replaced(drivers(), deploy=Polled())))
    yield service
    service.close()


def node_in(whole: InProcess, state: str, interface: str = "deploy", **values: Any) -> str:
    """Return a node with an agent's token, in a step of an interface if the state has one."""
    kind = next((one for one, wait in STEPS.items() if wait == state), None)
    info: Json = {"agent_secret_token": TOKEN}
    if kind is not None:
        step = {"interface": interface, "step": "x", "priority": 1}
        info |= {f"{kind}_steps": [step], f"{kind}_step_index": 0}
        values[f"{kind}_step"] = step
    return whole.rig.node(state, driver_internal_info=info, provision_updated_at=LONG_AGO, **values)


def beat(whole: InProcess, node: str, **more: Any) -> Any:
    """Send a heartbeat, and wait for the work that it starts."""
    body = {key: value for key, value in {**BODY, **more}.items() if value is not ...}
    answer = whole.api.at("latest").post(f"/v1/heartbeat/{node}", body)
    assert whole.rig.service.runtime.workers.wait_idle(60)
    return answer


def forget_pin(whole: InProcess, node: str) -> None:
    """Let the next heartbeat of a node pass through the conductor."""
    table = models.nodes
    query = sa.update(table).where(table.c.uuid == node).values(agent_pin=None)
    whole.database.write(lambda conn: conn.execute(query))


def outcome(whole: InProcess, node: str, **more: Any) -> Json:
    """Return what a heartbeat does: its answer, and what it changes of the node."""
    before = whole.rig.get(node)
    answer = beat(whole, node, **more)
    after = whole.rig.get(node)
    notes = dict(after["driver_internal_info"])
    for name in ("agent_last_heartbeat", "last_power_state_change"):
        notes.pop(name, None)
    return {
        "status": answer.status,
        "text": answer.body.decode().replace(node, "UUID"),
        "heard": waiting.heard_at(before) != waiting.heard_at(after),
        "postponed": before["provision_updated_at"] != after["provision_updated_at"],
        "wakes": after["wake_at"] is not None,
        "notes": notes,
        "row": {
            name: after[name]
            for name in after.keys() - BY_ITSELF - PIN
            if after[name] != before[name]
        },
    }


def same_outcome(
    whole: InProcess, pinned: str, other: str, change: Change | None = None, **more: Any
) -> bool:
    """Compare the second heartbeats of twins; return whether the API alone recorded one."""
    for node in (pinned, other):
        beat(whole, node)
        if change is not None:
            change(whole, node)
    forget_pin(whole, other)
    calls = len(whole.calls)
    found = outcome(whole, pinned, **more)
    alone = len(whole.calls) == calls
    calls = len(whole.calls)
    assert outcome(whole, other, **more) == found
    assert len(whole.calls) > calls or found["status"] != 202
    return alone


@pytest.mark.parametrize("interface", ["deploy", "management"])
@pytest.mark.parametrize("state", list(states.STATES))
def test_heartbeat_has_the_same_outcome_in_each_state(
    whole: InProcess, state: State, interface: str
) -> None:
    twins = [node_in(whole, state, interface) for _ in range(2)]
    alone = same_outcome(whole, twins[0], twins[1])
    assert alone is (state not in STEPS.values() or interface == "management")


FAULTS: dict[str, Json] = {
    "wrong token": {"agent_token": "s" * 43},
    "no token": {"agent_token": ...},
    "another address": {"callback_url": "https://192.0.2.66:9999"},
    "no address": {"callback_url": ""},
    "http": {"callback_url": "http://192.0.2.10:9999"},
    "another certificate": {"agent_verify_ca": "OTHER"},
    "no certificate": {"agent_verify_ca": ...},
    "another version": {"agent_version": "13.1.0"},
    "a status": {"agent_status": "error", "agent_status_message": "bad"},
    "an unknown status": {"agent_status": "odd"},
}


@pytest.mark.parametrize("state", ["available", "clean wait", "clean failed"])
@pytest.mark.parametrize("fault", FAULTS)
def test_heartbeat_has_the_same_outcome_with_each_fault(
    whole: InProcess, fault: str, state: str
) -> None:
    twins = [node_in(whole, state, "management") for _ in range(2)]
    assert same_outcome(whole, twins[0], twins[1], **FAULTS[fault]) is (
        fault in ("no token", "http", "a status", "an unknown status")
    )


def patched(path: str, value: object) -> Change:
    """Return a PATCH."""
    patch = [{"op": "add", "path": path, "value": value}]

    def change(whole: InProcess, node: str) -> None:
        answer = whole.api.at("latest").patch(f"/v1/nodes/{node}", patch)
        assert answer.status == 200, answer.body

    return change


def put(path: str, body: Json) -> Change:
    """Return a PUT, with the work that it starts."""

    def change(whole: InProcess, node: str) -> None:
        answer = whole.api.put(f"/v1/nodes/{node}/{path}", body)
        assert answer.status in (200, 202, 204), answer.text
        assert whole.rig.service.runtime.workers.wait_idle(60)

    return change


def locked(whole: InProcess, node: str) -> None:
    """Lock a node for another conductor."""
    assert whole.database.write(
        lambda conn: nodes.lock(conn, node, host="elsewhere", token=node, expires=clock.now())
    )


def released(whole: InProcess, node: str) -> None:
    """Lock a node and release it without a change."""
    locked(whole, node)
    whole.database.write(lambda conn: nodes.unlock(conn, node, token=node))


def with_notes(**values: object) -> Change:
    """Return a change of driver_internal_info, as another conductor may save it; None removes."""

    def change(whole: InProcess, node: str) -> None:
        notes = {**whole.rig.get(node)["driver_internal_info"], **values}
        kept = {name: value for name, value in notes.items() if value is not None}
        whole.rig.edit(node, driver_internal_info=kept)

    return change


CHANGES: dict[str, tuple[str, Change]] = {
    "name": ("available", lambda whole, node: patched("/name", f"n-{node}")(whole, node)),
    **{
        path: ("available", patched(f"/{path}", value))
        for path, value in {
            "extra/a": 1,
            "driver_info/redfish_address": "https://192.0.2.2",
            "maintenance": True,
            "description": "rack",
            "owner": "p1",
            "automated_clean": False,
            "properties/cpus": 2,
            "power_interface": "fake",
        }.items()
    },
    "protected": ("active", patched("/protected", True)),
    "retired": ("manageable", patched("/retired", True)),
    "maintenance of a wait": ("clean wait", put("maintenance", {"reason": "fire"})),
    "power off": ("available", put("states/power", {"target": "power off"})),
    "reboot": ("available", put("states/power", {"target": "rebooting"})),
    **{
        f"{verb} in {state}": (state, put("states/provision", {"target": verb}))
        for state, verb in (
            ("enroll", "manage"),
            ("manageable", "provide"),
            ("manageable", "inspect"),
            ("available", "manage"),
            ("available", "active"),
            ("active", "deleted"),
            ("active", "rebuild"),
            ("clean failed", "manage"),
            ("clean wait", "abort"),
        )
    },
    "lock": ("available", locked),
    "lock and release": ("available", released),
    "another token": ("available", with_notes(agent_secret_token="u" * 43)),
    "forgotten": ("clean wait", with_notes(agent_url=None, agent_last_heartbeat=None)),
    "forgotten with its token": (
        "clean wait",
        with_notes(agent_url=None, agent_last_heartbeat=None, agent_secret_token=None),
    ),
    "another address": ("available", with_notes(agent_url="https://192.0.2.66:9999")),
    "step of the agent": (
        "clean wait",
        lambda whole, node: whole.rig.edit(
            node, clean_step={"interface": "deploy", "step": "x", "priority": 1}
        ),
    ),
    "deletion": ("available", lambda whole, node: whole.api.delete(f"/v1/nodes/{node}")),
}


@pytest.mark.parametrize("name", [one for one in CHANGES if one != "deletion"])
def test_heartbeat_has_the_same_outcome_after_each_change(whole: InProcess, name: str) -> None:
    state, change = CHANGES[name]
    twins = [node_in(whole, state, "management", power_state="power on") for _ in range(2)]
    alone = same_outcome(whole, twins[0], twins[1], change)
    assert alone is (name == "lock and release")


def test_agent_of_a_deleted_node_is_refused(whole: InProcess) -> None:
    node = node_in(whole, "available", automated_clean=False)
    beat(whole, node)
    assert whole.api.delete(f"/v1/nodes/{node}").status == 204
    assert beat(whole, node).status == 400


def test_each_statement_that_changes_a_node_ends_the_pin(whole: InProcess) -> None:
    """Only those of the lock, of the stop of a run and of heartbeats leave the generation."""
    kept = {"_LOCK", "_STEAL", "_UNLOCK", "_RENEW", "_HEARTBEAT"}
    found = {
        name: getattr(held, "statement", held)
        for name, held in vars(nodes).items()
        if isinstance(getattr(held, "statement", held), sa.Update)
    }
    assert set(found) >= kept
    for name, statement in found.items():
        assert ("generation=(nodes.generation + " in str(statement)) is (name not in kept), name


def test_recorded_heartbeat_is_shown_and_changes_no_generation(whole: InProcess) -> None:
    node = node_in(whole, "clean wait", "management")
    beat(whole, node)
    before, generation = whole.api.get(f"/v1/nodes/{node}"), whole.rig.get(node)["generation"]
    assert beat(whole, node).status == 202
    after = whole.api.get(f"/v1/nodes/{node}")
    assert whole.rig.get(node)["generation"] == generation
    shown = [one.json["driver_internal_info"]["agent_last_heartbeat"] for one in (before, after)]
    assert shown[0] < shown[1]
    (listed,) = whole.api.get("/v1/nodes/detail").json["nodes"]
    assert listed["driver_internal_info"]["agent_last_heartbeat"] == shown[1]
    assert b"agent_pin" not in after.body
    assert whole.rig.get(node)["provision_updated_at"] > LONG_AGO


def test_older_conductor_ends_the_pin_without_naming_it(whole: InProcess) -> None:
    """It knows no column of pins: its save moves the generation, and it keeps times in notes."""
    node = node_in(whole, "available")
    beat(whole, node)
    assert beat(whole, node).status == 202
    later = (clock.now() + datetime.timedelta(hours=1)).isoformat()
    with_notes(agent_last_heartbeat=later)(whole, node)
    assert waiting.heard_at(whole.rig.get(node)) == datetime.datetime.fromisoformat(later)
    calls = len(whole.calls)
    assert beat(whole, node).status == 202
    assert whole.calls[calls:] == ["heartbeat"]
    with_notes(agent_url=None, agent_last_heartbeat=None)(whole, node)
    assert waiting.heard_at(whole.rig.get(node)) is None


def test_time_of_an_old_agent_does_not_count_for_a_new_one() -> None:
    old, new = datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)
    assert waiting.last_heartbeat({"agent_last_heartbeat": new.isoformat()}, old) == new
    assert waiting.last_heartbeat({"agent_last_heartbeat": old.isoformat()}, new) == new
    assert waiting.last_heartbeat({}, new) is None


def test_recorded_heartbeat_sets_no_time_back(whole: InProcess) -> None:
    """The clock of an API may lag behind a conductor's."""
    node = node_in(whole, "clean wait", "management")
    beat(whole, node)
    ahead = clock.now() + datetime.timedelta(hours=1)
    query = sa.update(models.nodes).values(provision_updated_at=ahead)
    whole.database.write(lambda conn: conn.execute(query))
    calls = len(whole.calls)
    assert beat(whole, node).status == 202
    assert whole.calls[calls:] == []
    assert whole.rig.get(node)["provision_updated_at"] == ahead


def test_heartbeat_by_name_is_the_conductors(whole: InProcess) -> None:
    node = node_in(whole, "available", name="named")
    for expected in ([node], ["named"]):
        calls = len(whole.calls)
        assert beat(whole, *expected).status == 202
        assert whole.calls[calls:] == ["heartbeat"]
    assert beat(whole, node).status == 202
    assert whole.calls[calls:] == ["heartbeat"]


def test_times_that_the_api_has_recorded_go_with_the_agent(whole: InProcess) -> None:
    node = node_in(whole, "available")
    for _ in range(2):
        beat(whole, node)
    assert whole.rig.get(node)["agent_heard_at"] is not None
    forget_pin(whole, node)
    beat(whole, node)  # of the conductor
    assert whole.rig.get(node)["agent_heard_at"] is None
    assert beat(whole, node).status == 202
    assert whole.api.put(f"/v1/nodes/{node}/states/provision", {"target": "manage"}).status == 202
    assert whole.api.put(f"/v1/nodes/{node}/states/power", {"target": "power off"}).status == 202
    whole.rig.settled(node)
    row = whole.rig.get(node)
    assert "agent_url" not in row["driver_internal_info"]
    assert (row["agent_pin"], row["agent_heard_at"]) == (None, None)
