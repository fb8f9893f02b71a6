"""A field of a resource has one rule, whatever the request that sets it.

``test_access`` compares the routes of fields of nodes.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ironic_lite.api.resources import views
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import allocations
from ironic_lite.domain import fields
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, As, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Response, op

Json = dict[str, Any]
STEP = {"interface": "raid", "step": "delete_configuration", "args": {}, "order": 1}
PRIORITY = {"interface": "raid", "step": "delete_configuration", "args": {}, "priority": 1}
RULE_STEP = {"op": "fail", "args": {"msg": "no"}}
NUMBER = itertools.count(1)


class Kind(NamedTuple):
    """A resource: its path, what a POST needs besides, and values of fields."""

    path: str
    table: tuple[fields.Field, ...]
    base: Callable[[int], Json]
    samples: Json
    of_node: bool = False


KINDS = {
    "port": Kind(
        "ports",
        views.PORTS.table,
        lambda n: {"address": f"02:00:00:00:{n // 256:02x}:{n % 256:02x}"},
        {"address": "02:00:01:00:00:01"},
        of_node=True,
    ),
    "portgroup": Kind("portgroups", views.PORTGROUPS.table, lambda _: {}, {}, of_node=True),
    "connector": Kind(
        "volume/connectors",
        views.VOLUME_CONNECTORS.table,
        lambda n: {"type": "iqn", "connector_id": f"iqn.{n}"},
        {"type": "ip"},
        of_node=True,
    ),
    "target": Kind(
        "volume/targets",
        views.VOLUME_TARGETS.table,
        lambda n: {"volume_type": "iscsi", "volume_id": f"v{n}", "boot_index": n},
        {"boot_index": 9999},
        of_node=True,
    ),
    "chassis": Kind("chassis", views.CHASSIS.table, lambda _: {}, {}),
    "template": Kind(
        "deploy_templates",
        views.DEPLOY_TEMPLATES.table,
        lambda n: {"name": f"CUSTOM_T{n}", "steps": [PRIORITY]},
        {"name": "CUSTOM_TX", "steps": [{**PRIORITY, "priority": 2}]},
    ),
    "runbook": Kind(
        "runbooks",
        views.RUNBOOKS.table,
        lambda n: {"name": f"CUSTOM_R{n}", "steps": [STEP]},
        {"name": "CUSTOM_RX", "steps": [{**STEP, "order": 2}], "owner": STRANGER},
    ),
    "rule": Kind(
        "inspection_rules",
        views.INSPECTION_RULES.table,
        lambda _: {"actions": [RULE_STEP]},
        {"actions": [RULE_STEP, RULE_STEP], "conditions": [], "phase": "main"},
    ),
    "allocation": Kind(
        "allocations", views.ALLOCATIONS.table, lambda _: {"resource_class": "big"}, {}
    ),
}
CALLERS = {
    f"{role} of {project or 'the system'}": (role, project)
    for project in (None, OWNER, LESSEE)
    for role in ("admin", "manager", "member", "reader", "service")
}


class Room:
    """Makes members of each kind."""

    def __init__(self, callers: Callers, add_node: AddNode) -> None:
        self._admin = callers("admin")
        self._add_node = add_node

    def body(self, kind: Kind) -> Json:
        """Return the body of a POST."""
        body = kind.base(next(NUMBER))
        if kind.of_node:
            row = {"provision_state": "manageable", "power_state": "power off"}
            body["node_uuid"] = self._add_node(owner=OWNER, lessee=LESSEE, **row)["uuid"]
        return body

    def member(self, kind: Kind, project: str | None) -> str:
        """Return the path of a new member, which belongs to the project if it can."""
        owned = {"owner": project} if "owner" in fields.by_name(kind.table) else {}
        made = self._admin.post(f"/v1/{kind.path}", {**self.body(kind), **owned})
        assert made.status == 201, made.text
        return f"/v1/{kind.path}/{made.json['uuid']}"


@pytest.fixture
def room(callers: Callers, add_node: AddNode, database: Database, recorder: Recorder) -> Room:
    def create(allocation: Json) -> None:
        at = datetime.datetime.fromisoformat(allocation["created_at"])
        row = {**allocation, "created_at": at, "updated_at": None}
        database.write(lambda conn: allocations.insert(conn, row))

    recorder.answers["create_allocation"] = create
    return Room(callers, add_node)


def _sample(kind: Kind, field: fields.Field) -> Any:
    if field.name in kind.samples:
        return kind.samples[field.name]
    simple = {fields.Type.OBJECT: {"x": 1}, fields.Type.BOOLEAN: True, fields.Type.INTEGER: 3}
    return simple.get(field.type, "x")


def _forbids(answer: Response) -> bool:
    """Return whether a right is missing; a project that names another one is told so by 400."""
    return answer.status in {403, 404} or "only a token with system scope" in answer.text


def _verdicts(room: Room, kind: Kind, caller: As, project: str | None) -> Iterator[Json]:
    """Yield for each field: its name -> each request that sets it -> whether it is forbidden."""
    creates = caller.post(f"/v1/{kind.path}", room.body(kind)).status == 201
    for field in kind.table:
        if not field.patchable or field.name == "node_uuid":
            continue
        value, found = _sample(kind, field), {}
        for way in ("add", "replace", "remove"):
            change = op(way, f"/{field.name}", *([value] if way != "remove" else []))
            path = room.member(kind, project)
            for patch in ([change], [op("add", "/extra/y", 1), change]):
                found[f"{way} {len(patch)}"] = _forbids(caller.patch(path, patch))
        if field.creatable and creates:
            body = {**room.body(kind), field.name: value}
            found["POST"] = _forbids(caller.post(f"/v1/{kind.path}", body))
        yield {field.name: found}


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("kind", KINDS)
def test_field_of_any_resource_has_one_rule_on_every_route(
    room: Room, callers: Callers, kind: str, name: str
) -> None:
    role, project = CALLERS[name]
    found = list(_verdicts(room, KINDS[kind], callers(role, project), project))
    assert found
    assert [one for one in found for ways in one.values() if len(set(ways.values())) > 1] == []
