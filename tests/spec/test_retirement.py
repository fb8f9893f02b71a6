"""S4, retirement: when a node may be retired, and where that leads it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.db.engine import session
from ironic_lite.db.tables import migrate
from ironic_lite.domain import states
from ironic_lite.domain.states import State
from tests.support.cleaning_fixture import (
    AUTOMATED,
    Gate,
    begun,
    enroll_waiting,
    ring,
    stored,
    watched,
)
from tests.support.operator import Json, Operator

Serve = Callable[..., Operator]
REASON = "out of warranty"
NOT_YET = 60


def retire(operator: Operator, node: str) -> None:
    """Retire a node, for a reason."""
    answer = operator.patches(node, retired=True, retired_reason=REASON)
    assert answer.status == 200, answer.text


def retired(operator: Operator, node: str) -> tuple[Any, Any]:
    """Return flag and reason as GET shows them."""
    shown = operator.shows(node)
    return shown["retired"], shown["retired_reason"]


# -- the fields ------------------------------------------------------------------------------


def test_s4_01_a_node_is_not_retired_unless_it_is_told(operator: Operator) -> None:
    node = operator.enroll()
    assert retired(operator, node) == (False, None)
    reason = "Ende der Garantie ⏳ " * 200
    assert operator.patches(node, retired=True, retired_reason=reason).status == 200
    assert retired(operator, node) == (True, reason)
    before = operator.rig.get(node)
    for wrong in ("perhaps", "7", 1.5):
        answer = operator.patches(node, retired=wrong)
        assert (answer.status, "retired" in answer.text) == (400, True)
    assert operator.rig.get(node) == before
    born = {"driver": "fake-hardware", "retired": True, "retired_reason": REASON}
    answer = operator.api.post("/v1/nodes", born)
    assert (answer.json["retired"], answer.json["retired_reason"]) == (True, REASON)


def test_s4_01_a_reason_needs_the_flag_as_with_protected(operator: Operator) -> None:
    node = operator.enroll()
    for field in ("retired_reason", "protected_reason"):
        answer = operator.patches(node, **{field: REASON})
        assert (answer.status, field in answer.text) == (400, True)
        answer = operator.api.post("/v1/nodes", {"driver": "fake-hardware", field: REASON})
        assert (answer.status, field in answer.text) == (400, True)


@pytest.fixture
def before_retirement(tmp_path: pathlib.Path) -> Iterator[Operator]:
    """A service on a database with a node that no statement has ever told of retirement."""
    with closing(session.open_database(f"sqlite:///{tmp_path}/old.sqlite")) as database:
        migrate.upgrade(database)
        text = "INSERT INTO nodes (uuid, name, driver, provision_state, created_at) VALUES "
        row = "('6f5c8f0e-3f4c-4c55-9d4b-3c8a4b1f0a77', 'old-1', 'fake-hardware', 'active', :at)"
        at = {"at": "2020-01-01 00:00:00.000000"}
        database.write(lambda conn: conn.execute(sa.text(text + row), at))
        with closing(Operator(database)) as operator:
            yield operator


def test_s4_02_nodes_from_before_are_not_retired(before_retirement: Operator) -> None:
    assert retired(before_retirement, "old-1") == (False, None)
    (found,) = before_retirement.api.get("/v1/nodes?retired=False").json["nodes"]
    assert found["name"] == "old-1"


# -- when ------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(State))
def test_s4_03_a_node_may_be_retired_in_every_state_but_one(operator: Operator, state: str) -> None:
    node = operator.rig.node(state)
    if state != "available":
        retire(operator, node)
        assert retired(operator, node) == (True, REASON)
        return
    before = operator.rig.get(node)
    for patch in ({"retired": True}, {"retired": True, "retired_reason": REASON}):
        answer = operator.patches(node, **patch)
        assert answer.status == 409
        assert "manage" in answer.text
    assert operator.rig.get(node) == before
    assert operator.patches(node, retired=False).status == 200  # it says nothing new


TRANSIENT = sorted(state for state, trait in states.STATES.items() if trait.target)


@pytest.mark.parametrize("state", TRANSIENT)
def test_s4_04_a_node_on_its_way_may_be_retired_unless_it_is_locked(
    operator: Operator, state: State
) -> None:
    node = operator.rig.node(state, target_provision_state=str(states.STATES[state].target))
    retire(operator, node)
    assert retired(operator, node) == (True, REASON)
    assert operator.patches(node, retired=False).status == 200
    if state not in states.PATCHABLE_IN_TRANSITION:
        before = operator.rig.get(node)
        assert operator.patches(node, extra__rack="r2").status == 409
        assert operator.patches(node, retired=True, extra__rack="r2").status == 409
        assert operator.rig.get(node) == before


def test_s4_04_retiring_a_locked_node_is_refused_and_disturbs_no_task(serve: Serve) -> None:
    gate = Gate()
    operator = serve(registry=gate.registry())
    node = operator.enroll()
    assert operator.asks(node, "provide").status == 202
    gate.wait()
    before = operator.rig.get(node)
    answer = operator.patches(node, retired=True)
    assert (answer.status, "locked" in answer.text) == (409, True)
    assert operator.rig.get(node) == before
    gate.opened.set()
    operator.rig.reaches(node, "available")


# -- where it leads --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "own"),
    [(True, None), (False, None), (True, False), (False, True)],
    ids=["cleaned", "cleaning is off", "off for this node", "on for this node"],
)
def test_s4_05_a_retired_machine_rests_in_manageable_after_tear_down(
    serve: Serve, option: bool, own: bool | None
) -> None:
    seen: list[tuple[str, Any]] = []

    def before_step(_kind: str, name: str) -> None:
        if name == "execute_clean_step":
            seen.append(stored(operator.shows(node)))

    registry = watched(before_step)
    operator = serve(registry=registry, conductor__automated_clean_enable=option)
    node = operator.rig.node("active", automated_clean=own)
    retire(operator, node)
    before, cleaned = len(operator.rig.path(node)), len(begun(operator, node))
    shown = operator.provision(node, "deleted")
    assert stored(shown) == ("manageable", None)  # C22: with cleaning switched off as well
    assert operator.rig.path(node)[before:] == ["deleting", "cleaning", "manageable"]
    cleans = option if own is None else own
    assert begun(operator, node)[cleaned:] == (AUTOMATED if cleans else [])
    assert seen == [("cleaning", "manageable")] * len(begun(operator, node)[cleaned:])
    assert retired(operator, node) == (True, REASON)
    assert shown["instance_uuid"] is None


def test_s4_05_a_machine_retired_during_the_clean_does_too(operator: Operator) -> None:
    node = enroll_waiting(operator)
    shown = operator.provision(node, "provide")
    assert stored(shown) == ("clean wait", "available")
    retire(operator, node)
    ring(operator, node)
    operator.rig.reaches(node, "clean wait")
    operator.rig.ring(node)
    assert stored(operator.rig.reaches(node, "manageable")) == ("manageable", None)
    assert "available" not in operator.rig.path(node)


def test_s4_05_a_machine_retired_before_its_tear_down_failed_does_too(operator: Operator) -> None:
    node = operator.enroll("active")
    operator.patches(node, driver_info={"fake_fail_verbs": {"delete": "stuck"}})
    assert operator.provision(node, "deleted")["provision_state"] == "error"
    retire(operator, node)
    operator.patches(node, driver_info={})
    assert stored(operator.provision(node, "deleted")) == ("manageable", None)
    assert operator.rig.path(node).count("available") == 1


def test_s4_06_cleaning_and_rebuilding_go_on_as_ever(operator: Operator) -> None:
    node = operator.enroll("active")
    retire(operator, node)
    instance = operator.shows(node)["instance_info"]
    shown = operator.provision(node, "rebuild")
    assert (stored(shown), shown["instance_info"]) == (("active", None), instance)
    operator.provision(node, "deleted")
    shown = operator.clean(node, "bios.factory_reset", "deploy.erase_devices")
    assert (stored(shown), shown["last_error"]) == (("manageable", None), None)
    assert operator.provision(node, "inspect")["provision_state"] == "manageable"
    assert retired(operator, node) == (True, REASON)


@pytest.mark.parametrize(
    ("start", "target"),
    [
        ("manageable", "provide"),
        ("manageable", "cleaned"),
        ("clean failed", "provide"),
        ("clean failed", "cleaned"),
        ("clean failed", "available"),
    ],
)
def test_s4_07_a_retired_node_is_not_provided(operator: Operator, start: str, target: str) -> None:
    node = operator.rig.node(start)
    retire(operator, node)
    said = operator.refused(node, target, 409)
    assert "retired" in said
    assert operator.rig.path(node) == []


@pytest.mark.parametrize("how", ["false", "remove", "null"])
def test_s4_08_a_node_comes_back_and_its_reason_is_cleared(operator: Operator, how: str) -> None:
    node = operator.enroll()
    retire(operator, node)
    if how == "remove":
        patch = [{"op": "remove", "path": "/retired"}]
        assert operator.api.patch(f"/v1/nodes/{node}", patch).status == 200
    else:
        assert operator.patches(node, retired=False if how == "false" else None).status == 200
    assert retired(operator, node) == (False, None)
    assert stored(operator.provision(node, "provide")) == ("available", None)


def test_s4_12_an_available_node_is_taken_back_first(operator: Operator) -> None:
    node = operator.enroll("available")
    assert operator.patches(node, retired=True).status == 409
    shown = operator.provision(node, "manage")
    assert stored(shown) == ("manageable", None)
    retire(operator, node)
    operator.refused(node, "provide", 409)


# -- the wire --------------------------------------------------------------------------------


def test_s4_09_older_versions_neither_show_nor_take_it(operator: Operator) -> None:
    node = operator.enroll(name="old-3")
    retire(operator, node)
    old, new = operator.api.at(NOT_YET), operator.api.at(NOT_YET + 1)
    path = f"/v1/nodes/{node}"

    def documents(client: Any) -> list[Json]:
        return [
            client.get(path).json,
            client.get("/v1/nodes/detail").json["nodes"][0],
            client.get("/v1/nodes?detail=true").json["nodes"][0],
            client.patch(path, [{"op": "add", "path": "/extra/a", "value": 1}]).json,
            client.post("/v1/nodes", {"driver": "fake-hardware"}).json,
        ]

    for document in documents(old):
        assert not {"retired", "retired_reason"} & set(document)
    for document in documents(new):
        assert {"retired", "retired_reason"} <= set(document)
    for field in ("retired", "retired_reason"):
        patch = [{"op": "remove", "path": f"/{field}"}]
        answers = [
            old.patch(path, patch),
            old.post("/v1/nodes", {"driver": "fake-hardware", "retired": True, field: True}),
            old.get(f"{path}?fields={field}"),
            old.get(f"/v1/nodes?fields=uuid,{field}"),
        ]
        assert [answer.status for answer in answers] == [406] * 4
    assert old.get("/v1/nodes?sort_key=retired").status == 406
    assert new.get("/v1/nodes?retired=true").status == 200
    assert retired(operator, node) == (True, REASON)


def test_s4_10_the_list_is_filtered(operator: Operator) -> None:
    for name in ("young", "old-1", "old-2"):
        node = operator.enroll("manageable" if name == "old-2" else "enroll", name=name)
        if name != "young":
            retire(operator, node)

    def names(query: str) -> list[str]:
        found = operator.api.get(f"/v1/nodes{query}").json["nodes"]
        return sorted(node["name"] for node in found)

    assert names("?retired=True") == names("/detail?retired=true") == ["old-1", "old-2"]
    assert names("?retired=False") == names("?retired=0") == ["young"]
    assert names("?retired=True&provision_state=manageable") == ["old-2"]
    assert names("") == ["old-1", "old-2", "young"]
    paged, path = [], "/v1/nodes?retired=True&limit=1"
    while path:
        page = operator.api.get(path).json
        paged += [node["name"] for node in page["nodes"]]
        path = page.get("next", "").partition("localhost:6385")[2]
    assert sorted(paged) == ["old-1", "old-2"]
    refusal = operator.api.get("/v1/nodes?retired=perhaps")
    assert (refusal.status, "retired" in refusal.text) == (400, True)
