"""A field of a resource has one rule, whatever the request that sets it.

``test_access`` compares the routes of fields of nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.api.resources import views
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import fields
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, As, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.resource_families import (
    ACTION,
    FAMILIES,
    ORDERED,
    PRIORITISED,
    Family,
    Json,
    store_allocations,
)
from tests.support.wsgi_client import Response, op

NUMBER = itertools.count(1)
TABLES = {
    "port": views.PORTS.table,
    "portgroup": views.PORTGROUPS.table,
    "connector": views.VOLUME_CONNECTORS.table,
    "target": views.VOLUME_TARGETS.table,
    "chassis": views.CHASSIS.table,
    "template": views.DEPLOY_TEMPLATES.table,
    "runbook": views.RUNBOOKS.table,
    "rule": views.INSPECTION_RULES.table,
    "allocation": views.ALLOCATIONS.table,
}
SAMPLES: dict[str, Json] = {
    # values of fields that take no value of `_sample`
    "port": {"address": "02:00:01:00:00:01"},
    "connector": {"type": "ip"},
    "target": {"boot_index": 9999},
    "template": {"name": "CUSTOM_TX", "steps": [{**PRIORITISED, "priority": 2}]},
    "runbook": {"name": "CUSTOM_RX", "steps": [{**ORDERED, "order": 2}], "owner": STRANGER},
    "rule": {"actions": [ACTION, ACTION], "conditions": [], "phase": "main"},
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

    def body(self, family: Family) -> Json:
        """Return the body of a POST."""
        body = family.values(next(NUMBER))
        if family.of_node:
            row = {"provision_state": "manageable", "power_state": "power off"}
            body["node_uuid"] = self._add_node(owner=OWNER, lessee=LESSEE, **row)["uuid"]
        return body

    def member(self, family: Family, *, project: str | None, owned: bool) -> str:
        """Return the path of a new member, which belongs to the project if it can."""
        body = self.body(family) | ({"owner": project} if owned else {})
        made = self._admin.post(family.place, body)
        assert made.status == 201, made.text
        return f"{family.place}/{made.json['uuid']}"


@pytest.fixture
def room(callers: Callers, add_node: AddNode, database: Database, recorder: Recorder) -> Room:
    store_allocations(recorder, database)
    return Room(callers, add_node)


def _sample(kind: str, field: fields.Field) -> Any:
    simple = {fields.Type.OBJECT: {"x": 1}, fields.Type.BOOLEAN: True, fields.Type.INTEGER: 3}
    return SAMPLES.get(kind, {}).get(field.name, simple.get(field.type, "x"))


def _forbids(answer: Response) -> bool:
    """Return whether a right is missing; a project that names another one is told so by 400."""
    return answer.status in {403, 404} or "only a token with system scope" in answer.text


def _verdicts(room: Room, kind: str, caller: As, project: str | None) -> Iterator[Json]:
    """Yield for each field: its name -> each request that sets it -> whether it is forbidden."""
    family, table = FAMILIES[kind], TABLES[kind]
    creates = caller.post(family.place, room.body(family)).status == 201
    owned = "owner" in fields.by_name(table)
    for field in table:
        if not field.patchable or field.name == "node_uuid":
            continue
        value, found = _sample(kind, field), {}
        mandatory = field.required and field.default is None  # its removal is a fault by itself
        for way in ("add", "replace") if mandatory else ("add", "replace", "remove"):
            change = op(way, f"/{field.name}", *([value] if way != "remove" else []))
            path = room.member(family, project=project, owned=owned)
            for patch in ([change], [op("add", "/extra/y", 1), change]):
                found[f"{way} {len(patch)}"] = _forbids(caller.patch(path, patch))
        if field.creatable and creates:
            body = {**room.body(family), field.name: value}
            found["POST"] = _forbids(caller.post(family.place, body))
        yield {field.name: found}


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("kind", FAMILIES)
def test_field_of_any_resource_has_one_rule_on_every_route(
    room: Room, callers: Callers, kind: str, name: str
) -> None:
    role, project = CALLERS[name]
    found = list(_verdicts(room, kind, callers(role, project), project))
    assert found
    assert [one for one in found for ways in one.values() if len(set(ways.values())) > 1] == []
