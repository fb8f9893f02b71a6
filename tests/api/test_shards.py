"""Shards and children: what can be seen of how nodes belong together."""

from __future__ import annotations

from ironic_lite.db.engine import session
from tests.support.api_rows import AddNode
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client


def test_shards_are_counted_the_largest_first(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    for shard in ("b", "a", "a", "c", None):
        add_node(shard=shard)
    with count_statements(database) as sent:
        found = api.get("/v1/shards").json
    assert found == {
        "shards": [
            {"name": "a", "count": 2},
            {"name": "None", "count": 1},
            {"name": "b", "count": 1},
            {"name": "c", "count": 1},
        ]
    }
    assert len(sent) == 1
    assert (api.at(81).get("/v1/shards").status, api.get("/v1/shards/a").status) == (404, 404)
    assert "shards" in api.at(82).get("/v1").json
    assert api.get("/v1/shards?x=1").status == 400


def test_the_children_of_a_node_are_listed(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    parent = add_node(name="rack1")["uuid"]
    children = [add_node(parent_node=parent)["uuid"] for _ in range(3)]
    add_node(parent_node=children[0])
    link = {"href": f"http://localhost:6385/v1/nodes?parent_node={parent}", "rel": "children"}
    for ident in (parent, "rack1"):
        with count_statements(database) as sent:
            found = api.get(f"/v1/nodes/{ident}/children").json
        assert found == {"children": children, "links": link}
        assert len(sent) == 2
    assert api.get(f"/v1/nodes/{children[1]}/children").json["children"] == []
    assert api.at(82).get("/v1/nodes/rack1/children").status == 404
    assert api.get("/v1/nodes/nobody/children").status == 404
