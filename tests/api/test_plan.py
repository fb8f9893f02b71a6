"""Plans of verbs: what a plan accepts a verb does not refuse, and a plan has every refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import traits
from ironic_lite.db.tables import models
from ironic_lite.domain import verbs
from ironic_lite.domain.states import State
from tests.support.conductor_fixture import wait_for
from tests.support.in_process import InProcess
from tests.support.wsgi_client import Response

Json = dict[str, Any]
KEYS = {"target", "accepted", "leads_to", "faults", "steps", "ramdisk", "restarts", "destroys"}
KEYS |= {"seconds", "complete", "incomplete"}
STEP_KEYS = {"ordinal", "interface", "step", "args", "priority", "abortable", "from", "by"}
STEP_KEYS |= {"known", "destroys", "restarts", "lasting", "usual_seconds"}
AGENT = [
    {
        "version": "1",
        "clean_steps": [{"interface": "deploy", "step": "wash", "priority": 20}],
        "deploy_steps": [{"interface": "deploy", "step": "polish", "priority": 30}],
    }
]
BOOK = {
    "name": "CUSTOM_BOOK",
    "steps": [{"interface": "management", "step": "reset_bmc", "args": {}, "order": 1}],
    "disable_ramdisk": True,
}
GOOD = [
    {"interface": "management", "step": "reset_bmc"},
    {"interface": "bios", "step": "factory_reset", "args": {}},
    {"interface": "vendor", "step": "log_passthrough"},
    {"interface": "power", "step": "reboot"},
    {"interface": "deploy", "step": "wash"},
]
BAD = [
    {"interface": "bios", "step": "factory_reset", "args": {"all": True}},
    {"interface": "bios", "step": "apply_configuration"},
    {"interface": "deploy", "step": "no_such"},
    {"interface": "power", "step": "power_off"},
    {"interface": "power", "step": "wait", "args": {"seconds": -1}},
    {"interface": "vendor", "step": "send_raw"},
    {"interface": "deploy"},
    {"interface": "raid", "step": "hold", "execute_on_child_nodes": True},
    {"interface": "bios", "step": "reboot", "limit_child_node_execution": ["none"]},
]
DEPLOYED = [
    {"interface": "bios", "step": "factory_reset", "args": {}, "priority": 90},
    {"interface": "bios", "step": "factory_reset", "args": {"all": 1}, "priority": "70"},
    {"interface": "deploy", "step": "deploy", "args": {}, "priority": 50},
    {"interface": "deploy", "step": "write_image", "args": {}, "priority": 0},
    {"interface": "deploy", "step": "polish", "args": {}, "priority": 30},
    {"interface": "deploy", "step": "no_such", "args": {}, "priority": 30},
    {"interface": "power", "step": "power_off", "args": {}, "priority": 10},
    {"interface": "power", "step": "hold", "args": {}, "priority": -1},
]
LISTS = st.lists(st.sampled_from([*GOOD, *GOOD, *BAD]), max_size=2)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "clean_steps": LISTS,
    "service_steps": LISTS,
    "deploy_steps": st.lists(st.sampled_from(DEPLOYED), max_size=2),
    "runbook": st.sampled_from(["CUSTOM_BOOK", "CUSTOM_NONE"]),
    "disable_ramdisk": st.booleans(),
    "rescue_password": st.sampled_from(["sesame", "s" * 300]),
    "retry": st.sampled_from([{}, {"force": True}, {"from": 1}, {"waive": [{"reason": "old"}]}]),
    "configdrive": st.sampled_from([{"meta_data": {}}, "no drive"]),
}
FLAWS: dict[str, st.SearchStrategy[Any]] = {
    "maintenance": st.just(True),
    "protected": st.just(True),
    "retired": st.just(True),
    "reservation": st.just("another"),
    "disable_power_off": st.just(True),
    "automated_clean": st.booleans(),
    "driver_info": st.sampled_from(
        [{"fake_agent": AGENT}, {"fake_fail_steps": 3}, {"fake_steps_unavailable": 5}]
    ),
    "instance_info": st.sampled_from([{"traits": ["CUSTOM_BOOK"]}, {"traits": 3}]),
    "boot_interface": st.just("not-enabled"),
}
WITH_STEPS = [verbs.BY_TARGET[name] for name in ("clean", "service", "active", "rebuild")]


@st.composite
def requests(draw: st.DrawFn) -> tuple[Json, Json, int]:
    """Draw a node, a body and a version; most have one flaw or none."""
    verb = draw(st.sampled_from([*verbs.TABLE, *WITH_STEPS * 5]))
    state = draw(st.sampled_from([one for one in State if verbs.possible(verb, one)]))
    node: Json = {"provision_state": state.value}
    for name in draw(st.lists(st.sampled_from([*FLAWS]), max_size=1)):
        node[name] = draw(FLAWS[name])
    others = [] if draw(st.integers(0, 7)) else [*VALUES]
    keys = {*draw(st.lists(st.sampled_from([*verb.needs, *verb.allows, *others] or [""])))} - {""}
    keys |= set() if keys or not verb.needs else {verb.needs[0]}
    body = {key: draw(VALUES[key]) for key in sorted(keys)}
    if not draw(st.integers(0, 9)):
        node["provision_state"] = draw(st.sampled_from(State)).value
    body["target"] = verb.target if draw(st.integers(0, 19)) else "fly"
    return node, body, draw(st.sampled_from([115, 115, 115, 91, 60]))


@pytest.fixture
def whole(sqlite_database: Database) -> Iterator[InProcess]:
    """A service with API and conductor; its nodes are those of all examples."""
    found = InProcess(
        sqlite_database,
        conductor__node_locked_retry_attempts=1,
        conductor__node_locked_retry_interval=0,
        conductor__allow_provisioning_in_maintenance=False,
    )
    assert found.api.post("/v1/runbooks", BOOK).status == 201
    chosen = {"traits": ["CUSTOM_BOOK"]}
    assert found.api.put("/v1/runbooks/CUSTOM_BOOK/traits", chosen).status in (200, 204)
    yield found
    found.close()


def counts(database: Database, node: str) -> dict[str, int]:
    """Return the number of rows of each table with rows of nodes: those of this node."""

    def count(conn: Connection) -> dict[str, int]:
        return {
            table.name: conn.execute(
                sa.select(sa.func.count()).select_from(table).where(table.c.node_uuid == node)
            ).scalar_one()
            for table in models.metadata.sorted_tables
            if "node_uuid" in table.c
        }

    return database.read(count)


def text_of(answer: Response) -> str:
    """Return the sentence of a refusal."""
    inner = json.loads(json.loads(answer.body)["error_message"])
    found: str = inner.get("faultstring") or inner["description"]
    return found


def has_refusal(plan: Json, status: int, text: str) -> bool:
    """Return whether a plan has the refusal of a request, with a code of the same status."""
    known, verb = vars(errors), verbs.BY_TARGET.get(plan["target"])
    if verb is not None:  # a conductor does not hear which synonym was asked for
        text = text.replace(f"The {verb.event} operation", f"The {verb.target} operation")
    for fault in plan["faults"]:
        same = known[fault["code"]].status == status
        # A lock's sentence goes on with its holder's work, which may change meanwhile.
        lead = fault["text"].partition(", please retry")[0]
        if same and lead in text:
            return True
    return False


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(request=requests())
def test_plan_agrees_with_the_request(whole: InProcess, request: tuple[Json, Json, int]) -> None:
    node, body, version = request
    agree(whole, node, body, version)


@pytest.mark.parametrize(
    ("state", "target", "key", "steps"),
    [
        ("manageable", "clean", "clean_steps", [*GOOD, *BAD]),
        ("active", "service", "service_steps", [*GOOD, *BAD]),
        ("available", "active", "deploy_steps", DEPLOYED),
    ],
)
def test_plan_agrees_about_each_step(
    whole: InProcess, state: str, target: str, key: str, steps: list[Json]
) -> None:
    found = [
        agree(whole, {"provision_state": state, **more}, {"target": target, key: [step]}, 115)
        for step in steps
        for more in ({}, {"disable_power_off": True}, {"driver_info": {"fake_agent": AGENT}})
    ]
    assert {*found} == {True, False}


@pytest.mark.parametrize("flaw", FLAWS)
def test_plan_agrees_about_each_flaw_of_a_node(whole: InProcess, flaw: str) -> None:
    bodies: Json = {"clean": {"clean_steps": GOOD[:1]}, "rescue": {"rescue_password": "sesame"}}
    bodies["service"] = {"service_steps": GOOD[:1]}
    values: Json = {"driver_info": {"fake_fail_steps": 3}, "instance_info": {"traits": 3}}
    values |= {"reservation": "another", "boot_interface": "not-enabled"}
    for verb in verbs.TABLE:
        for state in State:
            if verbs.possible(verb, state):
                node = {"provision_state": state.value, flaw: values.get(flaw, True)}
                body = {"target": verb.target, **bodies.get(verb.target, {})}
                agree(whole, node, body, 115)


def agree(whole: InProcess, node: Json, body: Json, version: int) -> bool:
    """Check that plan and request agree, and that the plan changes nothing.

    :returns: whether the request was accepted.
    """
    rig, api = whole.rig, whole.api.at(version)
    state = node["provision_state"]
    uuid = rig.node(state, **{key: node[key] for key in node if key != "provision_state"})
    if "runbook" in body and "reservation" not in node:
        now = rig.get(uuid)["generation"]
        whole.database.write(lambda conn: traits.add(conn, uuid, "CUSTOM_BOOK", generation=now))
    before, row = counts(whole.database, uuid), rig.get(uuid)
    planned = api.post(f"/v1/nodes/{uuid}/plan", body)
    assert (counts(whole.database, uuid), rig.get(uuid)) == (before, row)
    answer = api.put(f"/v1/nodes/{uuid}/states/provision", body)
    wait_for(lambda: rig.service.runtime.workers.wait_idle(10))
    accepted = answer.status == HTTPStatus.ACCEPTED
    if planned.status not in (HTTPStatus.OK, HTTPStatus.UNPROCESSABLE_ENTITY):
        assert (planned.status, planned.body) == (answer.status, answer.body)
        return accepted
    plan = planned.json
    assert set(plan) == KEYS
    assert plan["accepted"] is (planned.status == HTTPStatus.OK) is not bool(plan["faults"])
    if plan["accepted"]:
        assert accepted, (text_of(answer), plan)
        agree_with_run(whole, uuid, plan)
    elif not accepted:
        assert has_refusal(plan, answer.status, text_of(answer)), (text_of(answer), plan)
    return accepted


def agree_with_run(whole: InProcess, uuid: str, plan: Json) -> None:
    """Check that the run has the steps of its plan, and that its list is not refused."""
    runs = whole.rig.runs(uuid)
    if not runs or not plan["complete"]:
        return
    run = runs[-1]
    listed = [(step["interface"], step["step"]) for step in run["steps"]]
    if listed:
        assert listed == [(step["interface"], step["step"]) for step in plan["steps"]]
    elif run["error"] is not None and plan["steps"]:
        assert run["error"]["code"] != "InvalidParameter", run["error"]
