"""What the callers of one project may add is limited; nobody else is affected."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api.resources import project_limits
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import allocations
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, As, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Response, op

MIB = 1024 * 1024
STEPS = [{"interface": "bios", "step": "factory_reset", "args": {}, "order": 1}]


class Adding:
    """Adds resources of each table as a caller, each with another name."""

    def __init__(self, database: Database, recorder: Recorder, node: str) -> None:
        self._count = 0
        self._node = node

        def create(allocation: dict[str, Any]) -> None:
            at = datetime.datetime.fromisoformat(allocation["created_at"])
            row = {**allocation, "created_at": at, "updated_at": None}
            database.write(lambda conn: allocations.insert(conn, row))

        recorder.answers["create_allocation"] = create

    def __call__(self, caller: As, table: str, **more: Any) -> Response:
        self._count += 1
        number = self._count
        node: dict[str, Any] = {"node_uuid": self._node}
        places: dict[str, tuple[str, dict[str, Any]]] = {
            "nodes": ("nodes", {"driver": "fake-hardware"}),
            "allocations": ("allocations", {"resource_class": "big"}),
            "runbooks": ("runbooks", {"name": f"CUSTOM_{number}", "steps": STEPS}),
            "ports": (
                "ports",
                {**node, "address": f"02:00:00:00:00:{number:02x}"},
            ),
            "portgroups": ("portgroups", node),
            "volume_connectors": (
                "volume/connectors",
                {**node, "type": "iqn", "connector_id": f"iqn.{number}"},
            ),
            "volume_targets": (
                "volume/targets",
                {
                    **{**node, "volume_type": "iscsi", "volume_id": f"v{number}"},
                    **{"boot_index": number, "properties": {}},
                },
            ),
        }
        path, body = places[table]
        return caller.post(f"/v1/{path}", {**body, **more})


@pytest.fixture
def adding(database: Database, recorder: Recorder, add_node: AddNode) -> Adding:
    node = add_node(owner=OWNER, provision_state="manageable", power_state="power off")
    return Adding(database, recorder, node["uuid"])


OPTIONS = sorted({(table, limit.option) for table, limit in project_limits.TABLE.items()})


@pytest.mark.parametrize(("table", "option"), OPTIONS)
def test_project_may_add_as_much_as_the_option_says(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, table: str, option: str
) -> None:
    mine = callers("admin", OWNER)
    there = 1 if table == "nodes" else 0  # the node of the fixture
    conf.set_override(option, 2 + there, "api")
    first, second, third = (adding(mine, table) for _ in range(3))
    assert (first.status, second.status) == (201, 201), (first.text, second.text)
    assert third.status == 409, third.text
    what = project_limits.TABLE[table].what
    for word in (f"{2 + there} {what}", f"[api]{option}", "raise the option"):
        assert word in third.text
    assert adding(callers("admin"), table).status == 201
    if table in {"allocations", "runbooks", "nodes"}:
        assert adding(callers("admin", STRANGER), table).status == 201
    conf.set_override(option, 0, "api")
    assert adding(mine, table).status == 201


@pytest.mark.parametrize("table", ["nodes", "allocations", "runbooks"])
def test_room_is_free_again_after_a_deletion(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, table: str
) -> None:
    mine = callers("admin", OWNER)
    conf.set_override(project_limits.TABLE[table].option, 2, "api")
    if table != "nodes":
        adding(mine, table)
    made = adding(mine, table)
    assert adding(mine, table).status == 409
    if table == "nodes":  # a conductor deletes nodes
        return
    assert mine.delete(f"/v1/{table}/{made.json['uuid']}").status == 204
    assert adding(mine, table).status == 201


@pytest.mark.parametrize("table", sorted(project_limits.TABLE))
def test_large_rows_of_a_project_take_limited_room(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, table: str
) -> None:
    conf.set_override("project_max_mib", 1, "api")
    mine = callers("admin", OWNER)
    large = {"extra": {"text": "x" * (400 * 1024)}}
    first, second, third = (adding(mine, table, **large) for _ in range(3))
    assert (first.status, second.status) == (201, 201), (first.text, second.text)
    assert third.status == 409, third.text
    for word in ("1 MiB", "[api]project_max_mib", project_limits.TABLE[table].what):
        assert word in third.text
    assert adding(mine, table, extra={"text": "x" * 1000}).status == 201
    assert adding(callers("admin"), table, **large).status == 201


def path_of(table: str) -> str:
    return f"/v1/{table.replace('volume_', 'volume/')}"


@pytest.mark.parametrize("table", sorted(project_limits.TABLE))
def test_changes_are_limited_as_additions(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, table: str
) -> None:
    conf.set_override("project_max_mib", 1, "api")
    mine = callers("admin", OWNER)
    made = [adding(mine, table).json["uuid"] for _ in range(3)]

    def change(ident: str, kib: int, caller: As = mine) -> int:
        patch = [op("add", "/extra", {"text": "x" * (kib * 1024)})]
        answer = caller.patch(f"{path_of(table)}/{ident}", patch)
        assert answer.status in {200, 409}, answer.text
        return answer.status

    assert [change(ident, 400) for ident in made] == [200, 200, 409]
    assert [change(made[0], kib) for kib in (700, 400, 380, 1)] == [409, 200, 200, 200]
    assert change(made[2], 400) == 200
    assert change(made[0], 900, callers("admin")) == 200
    assert [change(made[0], kib) for kib in (901, 899)] == [409, 200]


def test_rows_of_other_owners_do_not_count(
    callers: Callers, add_node: AddNode, adding: Adding, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("project_max_nodes", 2, "api")
    for _ in range(3):
        add_node(owner=STRANGER)
    assert adding(callers("admin", OWNER), "nodes").status == 201


def test_limited_request_to_a_conductor_is_not_sent(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, recorder: Recorder
) -> None:
    conf.set_override("project_max_allocations", 1, "api")
    member = callers("member", OWNER)
    assert [adding(member, "allocations").status for _ in range(2)] == [201, 409]
    assert [name for name, _ in recorder.calls] == ["create_allocation"]


def test_what_the_service_writes_counts_for_no_limit(
    callers: Callers, add_node: AddNode, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("project_max_mib", 1, "api")
    cached_steps = {"agent_cached_clean_steps": "x" * (600 * 1024)}
    node, _ = (add_node(owner=OWNER, driver_internal_info=cached_steps) for _ in range(2))
    patch = [op("add", "/extra", {"text": "x" * (20 * 1024)})]
    answer = callers("admin", OWNER).patch(f"/v1/nodes/{node['uuid']}", patch)
    assert answer.status == 200, answer.text


def test_changes_by_a_lessee_are_limited_by_the_nodes_that_it_leases(
    callers: Callers, add_node: AddNode, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("project_max_mib", 1, "api")
    lent = [add_node(owner=OWNER, lessee=LESSEE)["uuid"] for _ in range(3)]
    add_node(owner=OWNER, extra={"text": "x" * MIB})
    patch = [op("add", "/extra", {"text": "x" * (400 * 1024)})]
    answers = [callers("admin", LESSEE).patch(f"/v1/nodes/{node}", patch) for node in lent]
    assert [answer.status for answer in answers] == [200, 200, 409]
    assert f"Project {LESSEE} has nodes" in answers[2].text
