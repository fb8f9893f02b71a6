"""Volume connectors and targets: the documents above them, and volumes that a machine uses."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.db.engine import session
from tests.support.api_rows import AddNode, set_node
from tests.support.resource_families import FAMILIES, Json
from tests.support.wsgi_client import Client, op

HOST = "http://localhost:6385"
both = pytest.mark.parametrize("kind", ["connector", "target"])


@pytest.fixture
def node(add_node: AddNode) -> Json:
    return add_node(name="rack1", provision_state="manageable", power_state="power off")


def add(api: Client, kind: str, node: Json, **values: Any) -> str:
    """Add a volume and return its path."""
    family = FAMILIES[kind]
    body = {"node_uuid": node["uuid"], **family.values(0), **values}
    answer = api.post(family.place, body)
    assert answer.status == 201, answer.text
    return f"{family.place}/{answer.json['uuid']}"


def test_documents_lead_to_the_lists(api: Client, node: Json) -> None:
    for place in ("volume", f"nodes/{node['uuid']}/volume", "nodes/rack1/volume"):
        shown = api.get(f"/v1/{place}").json
        assert {name: links[0]["href"] for name, links in shown.items()} == {
            "links": f"{HOST}/v1/{place}/",
            "connectors": f"{HOST}/v1/{place}/connectors",
            "targets": f"{HOST}/v1/{place}/targets",
        }
        assert shown["links"][1] == {"href": f"{HOST}/{place}/", "rel": "bookmark"}


def test_volumes_may_share_a_part_of_their_key(api: Client, node: Json, add_node: AddNode) -> None:
    add(api, "connector", node)
    add(api, "connector", node, type="ip")
    add(api, "target", node)
    add(api, "target", add_node())


@both
def test_volume_is_changed_and_removed_while_the_machine_is_off(
    api: Client, kind: str, node: Json, database: session.Database
) -> None:
    path, patch = add(api, kind, node), [op("add", "/extra/a", 1)]
    set_node(database, node, provision_state="active", power_state="power on")
    for refused in (api.patch(path, patch), api.delete(path)):
        assert (refused.status, "power on" in refused.text) == (400, True)
    set_node(database, node, provision_state="manageable")
    assert api.patch(path, patch).status == 400
    assert api.delete(path).status == 204


@both
def test_volume_of_an_unread_machine_is_refused_with_the_way_out(
    api: Client, kind: str, node: Json, database: session.Database
) -> None:
    path = add(api, kind, node)
    set_node(database, node, power_state=None)
    answer = api.patch(path, [op("add", "/extra/a", 1)])
    assert answer.status == 400
    assert f"the power state of node {node['uuid']} has not been read yet" in answer.text
    assert ("None" in answer.text, "target manage" in answer.text) == (False, True)
