"""Volume connectors and targets over HTTP, from 1.32 on, and when a machine uses them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models
from tests.support.api_rows import AddNode, set_node
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response

ABSENT = "00000000-0000-4000-8000-000000000000"
HOST = "http://localhost:6385"
Json = dict[str, Any]


class Kind(NamedTuple):
    """One of the two families: its list, a body, another value, and what the brief list shows."""

    listed: str
    word: str
    body: Json
    other: Json
    brief: frozenset[str]

    @property
    def place(self) -> str:
        return f"/v1/volume/{self.listed}"


CONNECTOR = Kind(
    "connectors",
    "volume connector",
    {"type": "iqn", "connector_id": "iqn.2017-05.org.openstack:01"},
    {"connector_id": "iqn.2017-05.org.openstack:02"},
    frozenset({"uuid", "node_uuid", "type", "connector_id", "links"}),
)
TARGET = Kind(
    "targets",
    "volume target",
    {"volume_type": "iscsi", "boot_index": 0, "volume_id": "7211f7d3"},
    {"boot_index": -1},
    frozenset({"uuid", "node_uuid", "volume_type", "boot_index", "volume_id", "links"}),
)
both = pytest.mark.parametrize("kind", [CONNECTOR, TARGET], ids=lambda kind: kind.listed)


@pytest.fixture
def node(add_node: AddNode) -> Json:
    return add_node(name="rack1", provision_state="manageable", power_state="power off")


def add(api: Client, kind: Kind, node: Json, **values: Any) -> Json:
    answer = api.post(kind.place, {"node_uuid": node["uuid"], **kind.body, **values})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def change(api: Client, kind: Kind, row: Json, **values: Any) -> Response:
    patch = [{"op": "replace", "path": f"/{name}", "value": v} for name, v in values.items()]
    return api.patch(f"{kind.place}/{row['uuid']}", patch)


@both
def test_a_new_one_is_shown_whole_and_has_a_place(api: Client, kind: Kind, node: Json) -> None:
    answer = api.post(kind.place, {"node_uuid": node["uuid"], **kind.body})
    shown = answer.json
    path = f"{kind.place}/{shown['uuid']}"
    assert answer.headers["location"] == f"{HOST}{path}"
    wanted = {**kind.body, "node_uuid": node["uuid"], "extra": {}, "updated_at": None}
    if kind is TARGET:
        wanted["properties"] = {}
    links = [
        {"href": f"{HOST}{path}", "rel": "self"},
        {"href": f"{HOST}{path.removeprefix('/v1')}", "rel": "bookmark"},
    ]
    made = {"uuid": shown["uuid"], "created_at": shown["created_at"]}
    assert shown == {**wanted, **made, "links": links}
    assert api.get(path).json == shown


@both
def test_volumes_are_404_before_1_32(api: Client, kind: Kind, node: Json) -> None:
    path = f"{kind.place}/{add(api, kind, node)['uuid']}"
    below = f"/v1/nodes/rack1/volume/{kind.listed}"
    for version, status in ((31, 404), (32, 200)):
        at = api.at(version)
        for each in (kind.place, path, below, "/v1/volume", "/v1/nodes/rack1/volume"):
            assert at.get(each).status == status
        assert ("volume" in at.get("/v1").json) == (status == 200)
    assert api.at(31).delete(path).status == 404


def test_documents_lead_to_the_lists(api: Client, node: Json) -> None:
    for place in ("volume", f"nodes/{node['uuid']}/volume", "nodes/rack1/volume"):
        shown = api.get(f"/v1/{place}").json
        assert {name: links[0]["href"] for name, links in shown.items()} == {
            "links": f"{HOST}/v1/{place}/",
            "connectors": f"{HOST}/v1/{place}/connectors",
            "targets": f"{HOST}/v1/{place}/targets",
        }
        assert shown["links"][1] == {"href": f"{HOST}/{place}/", "rel": "bookmark"}


@both
def test_lists_are_brief_unless_asked(
    api: Client, kind: Kind, node: Json, add_node: AddNode
) -> None:
    row, other = add(api, kind, node), add(api, kind, add_node(), **kind.other)
    (brief, _) = api.get(kind.place).json[kind.listed]
    assert set(brief) == kind.brief
    assert api.get(f"{kind.place}?detail=true").json[kind.listed] == [row, other]
    for path in (
        f"{kind.place}?node=rack1&detail=1",
        f"/v1/nodes/rack1/volume/{kind.listed}?detail=1",
    ):
        assert api.get(path).json == {kind.listed: [row]}
    (chosen,) = api.get(f"{kind.place}?fields=extra&node={node['uuid']}").json[kind.listed]
    assert set(chosen) == {"extra", "links"}
    page = api.get(f"{kind.place}?limit=1&sort_dir=desc").json
    assert page[kind.listed][0]["uuid"] == other["uuid"]
    following = api.get(page["next"].removeprefix(HOST)).json[kind.listed]
    assert [each["uuid"] for each in following] == [row["uuid"]]


@both
@pytest.mark.parametrize(
    ("query", "status"),
    [("node=nobody", 404), ("foo=1", 400), ("sort_key=extra", 400), ("fields=foo", 400)],
)
def test_a_bad_search_is_refused(api: Client, kind: Kind, query: str, status: int) -> None:
    assert api.get(f"{kind.place}?{query}").status == status


@both
@pytest.mark.parametrize("rows", [1, 100])
def test_a_list_is_one_statement_however_long(
    api: Client, kind: Kind, node: Json, database: session.Database, rows: int
) -> None:
    for number in range(rows):
        more = {"boot_index": number} if kind is TARGET else {"connector_id": str(number)}
        add(api, kind, node, **more)
    with count_statements(database) as sent:
        assert len(api.get(f"{kind.place}?detail=true").json[kind.listed]) == rows
    assert len(sent) == 1, sent


@both
@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"node_uuid": ABSENT}, 400),
        ({"node_uuid": None}, 400),
        ({"node_uuid": "rack1"}, 400),
        ({"foo": 1}, 400),
        ({"extra": 1}, 400),
        ({"type": "a" * 33, "volume_type": "a" * 65}, 400),
    ],
    ids=["absent", "null", "name", "unknown", "type", "long"],
)
def test_a_bad_one_is_refused(api: Client, kind: Kind, node: Json, more: Json, status: int) -> None:
    answer = api.post(kind.place, {"node_uuid": node["uuid"], **kind.body, **more})
    assert (answer.status, api.get(kind.place).json[kind.listed]) == (status, [])


@pytest.mark.parametrize("index", ["0", 0.5, True, 1 << 31, None, [0]])
def test_a_boot_index_is_a_whole_number(api: Client, node: Json, index: Any) -> None:
    body = {"node_uuid": node["uuid"], **TARGET.body, "boot_index": index}
    answer = api.post(TARGET.place, body)
    assert (answer.status, "boot_index" in answer.text) == (400, True)


@both
def test_each_field_is_needed(api: Client, kind: Kind, node: Json) -> None:
    whole = {"node_uuid": node["uuid"], **kind.body}
    for name in whole:
        answer = api.post(kind.place, {key: held for key, held in whole.items() if key != name})
        assert (answer.status, f"{name}: is required" in answer.text) == (400, True)


def test_duplicate_volume_is_refused(api: Client, node: Json, add_node: AddNode) -> None:
    add(api, CONNECTOR, node)
    other = add_node()
    answer = api.post(CONNECTOR.place, {"node_uuid": other["uuid"], **CONNECTOR.body})
    same = f"type iqn and connector ID {CONNECTOR.body['connector_id']} already exists"
    assert (answer.status, same in answer.text) == (409, True)
    add(api, CONNECTOR, node, type="ip")
    add(api, TARGET, node)
    answer = api.post(TARGET.place, {"node_uuid": node["uuid"], **TARGET.body})
    assert (answer.status, "boot index '0' for the same node" in answer.text) == (409, True)
    add(api, TARGET, other)
    row = add(api, TARGET, node, boot_index=1)
    assert change(api, TARGET, row, boot_index=0).status == 409


@both
def test_volume_is_changed_and_removed_while_the_machine_is_off(
    api: Client, kind: Kind, node: Json, database: session.Database
) -> None:
    row = add(api, kind, node)
    answer = change(api, kind, row, extra={"a": 1}, **kind.other)
    assert answer.status == 200, answer.text
    assert answer.json == {
        **row,
        **kind.other,
        "extra": {"a": 1},
        "updated_at": answer.json["updated_at"],
    }
    set_node(database, node, provision_state="active", power_state="power on")
    for refused in (change(api, kind, row, extra={}), api.delete(f"{kind.place}/{row['uuid']}")):
        assert (refused.status, "power on" in refused.text) == (400, True)
    set_node(database, node, provision_state="manageable")
    assert change(api, kind, row, extra={}).status == 400
    assert api.delete(f"{kind.place}/{row['uuid']}").status == 204
    assert api.delete(f"{kind.place}/{row['uuid']}").status == 404
    told = database.read(lambda conn: events.page(conn, node_uuid=node["uuid"]))
    word = kind.word.replace(" ", "_")
    assert [row["kind"] for row in told] == [
        f"{word}_{what}" for what in ("created", "updated", "deleted")
    ]


@both
def test_volume_of_an_unread_machine_is_refused_with_the_way_out(
    api: Client, kind: Kind, node: Json, database: session.Database
) -> None:
    row = add(api, kind, node)
    set_node(database, node, power_state=None)
    answer = change(api, kind, row, extra={"a": 1})
    assert answer.status == 400
    assert f"the power state of node {node['uuid']} has not been read yet" in answer.text
    assert ("None" in answer.text, "target manage" in answer.text) == (False, True)


@both
def test_a_locked_node_keeps_its_volumes_and_gets_new_ones(
    api: Client, kind: Kind, node: Json, database: session.Database
) -> None:
    row = add(api, kind, node)
    set_node(database, node, reservation="conductor-1")
    for answer in (
        change(api, kind, row, extra={}),
        api.delete(f"{kind.place}/{row['uuid']}"),
    ):
        assert (answer.status, "locked by host" in answer.text) == (409, True)
    body = {"node_uuid": node["uuid"], **kind.body, **kind.other}
    assert api.post(kind.place, body).status == 201


def test_secrets_of_a_target_are_shown_nowhere_and_come_back_masked(
    api: Client, node: Json, database: session.Database
) -> None:
    held = {"auth_password": "hush", "portal": "ip", "nested": {"secret": "hush"}}
    row = add(api, TARGET, node, properties=held)
    masked = {"auth_password": "******", "portal": "ip", "nested": {"secret": "******"}}
    assert row["properties"] == masked
    path = f"{TARGET.place}/{row['uuid']}"
    for answer in (api.get(path), api.get(f"{TARGET.place}?detail=true")):
        assert (b"hush" in answer.body, b"******" in answer.body) == (False, True)
    answer = change(api, TARGET, row, properties={**masked, "portal": "other"})
    assert answer.json["properties"] == {**masked, "portal": "other"}
    kept = database.read(lambda conn: conn.execute(models.volume_targets.select()).mappings().one())
    assert kept["properties"] == {**held, "portal": "other"}


@both
def test_an_absent_one_is_not_found(api: Client, kind: Kind) -> None:
    path = f"{kind.place}/{ABSENT}"
    for answer in (api.get(path), api.patch(path, []), api.delete(path)):
        said = f"{kind.word.capitalize()} {ABSENT} could not be found"
        assert (answer.status, said in answer.text) == (404, True)
    assert {api.get(f"{kind.place}/{word}").status for word in ("x", "detail")} == {400}
