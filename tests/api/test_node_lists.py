"""Lists of nodes: pages, filters, and what a list refuses."""

from __future__ import annotations

import gc
import tracemalloc
import uuid

import pytest
from oslo_config import cfg

from ironic_lite.api.resources import pages
from ironic_lite.db.engine import session
from tests.api.test_runs import add_run
from tests.support import fleet_fixture
from tests.support.api_rows import HOST, AddNode, add_conductor
from tests.support.callers import OWNER, STRANGER, Callers
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, op

NOBODY = "00000000-0000-4000-8000-00000000dead"


def test_pages_walk_through_all_nodes(api: Client, add_node: AddNode) -> None:
    added = [add_node()["uuid"] for _ in range(5)]
    path, walked, count = "/v1/nodes?limit=2&fields=uuid", [], 0
    while path:
        answer = api.get(path).json
        walked += [node["uuid"] for node in answer["nodes"]]
        path = answer.get("next", "").removeprefix("http://localhost:6385")
        count += 1
    assert walked == added
    assert count == 3


def test_the_link_to_go_on_repeats_what_was_asked(api: Client, add_node: AddNode) -> None:
    for _ in range(2):
        add_node(resource_class="gold")
    following = api.get("/v1/nodes?limit=1&resource_class=gold&sort_key=name&detail=True").json[
        "next"
    ]
    for part in ("limit=1", "resource_class=gold", "sort_key=name", "detail=True", "marker="):
        assert part in following
    assert "next" not in api.get("/v1/nodes?limit=3").json


def test_a_list_is_cut_at_the_operators_limit(
    api: Client, add_node: AddNode, conf: cfg.ConfigOpts
) -> None:
    for _ in range(3):
        add_node()
    conf.set_override("max_limit", 2, "api")
    assert len(api.get("/v1/nodes?limit=100").json["nodes"]) == 2
    assert len(api.get("/v1/nodes").json["nodes"]) == 2


@pytest.mark.parametrize("path", ["nodes", "ports", "volume/targets"])
@pytest.mark.parametrize("size", [100, 20_000], ids=["several a page", "one a page"])
def test_large_documents_end_a_page_early(
    api: Client, add_node: AddNode, monkeypatch: pytest.MonkeyPatch, path: str, size: int
) -> None:
    """Each is on one page; its next page begins after it."""
    monkeypatch.setattr(pages, "MOST_BYTES", 9000)
    added = []
    for number in range(40):
        extra = {"text": "x" * size}
        if path.startswith("nodes") or number == 0:
            node = add_node(extra=extra)["uuid"]
            added.append(node)
        if path.startswith("ports"):
            body = {"node_uuid": node, "address": f"52:54:00:00:00:{number:02x}", "extra": extra}
            added.append(api.post("/v1/ports", body).json["uuid"])
        elif path.startswith("volume"):
            body = {
                "node_uuid": node,
                "volume_type": "iscsi",
                "boot_index": number,
                "volume_id": str(number),
                "properties": {"auth_password": "secret", "text": "x" * size},
                "extra": extra,
            }
            added.append(api.post("/v1/volume/targets", body).json["uuid"])
    if not path.startswith("nodes"):
        del added[0]
    walked, link, lengths = [], f"/v1/{path}?limit=1000&detail=True", []
    while link:
        answer = api.get(link)
        ((_, found),) = ((k, v) for k, v in answer.json.items() if isinstance(v, list))
        assert found
        assert len(answer.body) < 9500 or len(found) == 1
        assert b"secret" not in answer.body
        walked += [one["uuid"] for one in found]
        lengths.append(len(found))
        link = answer.json.get("next", "").removeprefix("http://localhost:6385")
    assert walked == added
    assert 1 < len(lengths) <= len(added)
    assert set(lengths) == {1} if size > 9000 else max(lengths) > 1


@pytest.mark.parametrize("path", ["nodes", "ports"])
def test_documents_for_which_a_page_has_no_room_take_no_memory(
    api: Client, add_node: AddNode, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(pages, "MOST_BYTES", 1024 * 1024)
    extra = {"text": "x" * 512 * 1024}
    node = add_node()["uuid"]
    for number in range(40):
        if path == "nodes":
            add_node(extra=extra)
        else:
            body = {"node_uuid": node, "address": f"52:54:00:00:00:{number:02x}", "extra": extra}
            api.post("/v1/ports", body)
    link = f"/v1/{path}?limit=40&detail=True"
    api.get(f"/v1/{path}?limit=1&detail=True")  # loads modules
    gc.collect()
    tracemalloc.start()
    try:
        answer = api.get(link)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 1 <= len(answer.json[path]) <= 2
    assert "next" in answer.json
    assert peak < 30 * 1024 * 1024, "a few documents, each several times; all have 75 MiB"


def test_filters_pick(api: Client, add_node: AddNode) -> None:
    plain = add_node()["uuid"]
    instance = str(uuid.uuid4())
    special = add_node(
        instance_uuid=instance,
        maintenance=True,
        provision_state="active",
        driver="redfish",
        resource_class="gold",
        owner="me",
        lessee="you",
        description="the 100% one",
        retired=True,
        shard="s1",
        fault="power failure",
        health="Critical",
        instance_name="web",
    )["uuid"]
    for query in (
        f"instance_uuid={instance}",
        "associated=true",
        "maintenance=1",
        "provision_state=active",
        "driver=redfish",
        "resource_class=gold",
        "owner=me",
        "lessee=you",
        "project=me",
        "project=you",
        "description_contains=100%25",
        "retired=True",
        "shard=s1,s2",
        "sharded=yes",
        "fault=power%20failure",
        "health=Critical",
        "instance_name=web",
    ):
        found = [node["uuid"] for node in api.get(f"/v1/nodes?{query}").json["nodes"]]
        assert found == [special], query
    for query in ("associated=no", "maintenance=f", "retired=off", "sharded=0"):
        found = [node["uuid"] for node in api.get(f"/v1/nodes?{query}").json["nodes"]]
        assert found == [plain], query


def test_chosen_nodes_are_read_by_one_statement(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    added = [add_node(provision_state="active")["uuid"] for _ in range(3)]
    failed = add_node(provision_state="clean failed")["uuid"]
    child = add_node(parent_node=failed)["uuid"]

    def found(query: str) -> list[str]:
        return [node["uuid"] for node in api.get(f"/v1/nodes?fields=uuid&{query}").json["nodes"]]

    assert found(f"uuid={added[2].upper()},{added[0]},{NOBODY},{added[0]}") == [added[0], added[2]]
    assert found(f"uuid={added[1].replace('-', '')}") == [added[1]]
    assert found(f"uuid={added[1]},{failed}&provision_state=active") == [added[1]]
    assert found(f"uuid={added[0]},{added[1]}&conductor={HOST}") == added[:2]
    assert found(f"uuid={child}") == []
    assert found(f"uuid={child}&include_children=true") == [child]
    several = ",".join([NOBODY[:-3] + f"{number:03x}" for number in range(149)] + [failed])
    with count_statements(database) as sent:
        assert found(f"uuid={several}") == [failed]
    assert len(sent) == 1
    following = api.get(f"/v1/nodes?limit=1&uuid={added[0]},{added[1]}").json["next"]
    rest = api.get(following.removeprefix("http://localhost:6385")).json["nodes"]
    assert [node["uuid"] for node in rest] == [added[1]]


def test_nodes_of_several_provision_states_are_listed(api: Client, add_node: AddNode) -> None:
    states = ("active", "clean failed", "available", "active")
    added = [add_node(provision_state=state)["uuid"] for state in states]

    def found(query: str) -> list[str]:
        path = f"/v1/nodes?provision_state={query}"
        return [node["uuid"] for node in api.get(path).json["nodes"]]

    assert found("active,clean%20failed") == [added[0], added[1], added[3]]
    assert found("active,active") == [added[0], added[3]]
    assert found("deploying,rescue") == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("uuid=", "uuid: Expected a UUID but received"),
        ("uuid=rack1", "uuid: Expected a UUID but received 'rack1'"),
        (f"uuid={NOBODY},", "uuid: Expected a UUID but received"),
        (f"uuid={','.join([NOBODY] * 151)}", "uuid: names more than 150 nodes"),
        ("provision_state=", "provision_state: '' is not a provision state"),
        ("provision_state=active,", "provision_state: '' is not a provision state"),
        ("provision_state=active,flying", "provision_state: 'flying' is not a provision state"),
        ("provision_state=active, enroll", "provision_state: ' enroll' is not a provision"),
    ],
)
def test_wrong_values_among_several_are_named(api: Client, query: str, said: str) -> None:
    answer = api.get(f"/v1/nodes?{query.replace(' ', '%20')}")
    assert (answer.status, said in answer.text) == (400, True), answer.text


def test_chosen_nodes_of_others_are_not_listed(callers: Callers, add_node: AddNode) -> None:
    mine, theirs = add_node(owner=OWNER)["uuid"], add_node(owner=STRANGER)["uuid"]
    answer = callers("reader", OWNER).get(f"/v1/nodes?uuid={mine},{theirs}")
    assert [node["uuid"] for node in answer.json["nodes"]] == [mine]


def test_nodes_can_be_listed_by_their_conductor(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    add_conductor(database, "conductor-2")
    added = {add_node()["uuid"] for _ in range(20)}
    shares = {
        host: {node["uuid"] for node in api.get(f"/v1/nodes?conductor={host}").json["nodes"]}
        for host in (HOST, "conductor-2", "nobody")
    }
    assert shares[HOST] | shares["conductor-2"] == added
    assert not shares[HOST] & shares["conductor-2"]
    assert shares["nobody"] == set()
    shown = api.get("/v1/nodes?fields=uuid,conductor").json["nodes"]
    assert {node["uuid"] for node in shown if node["conductor"] == HOST} == shares[HOST]
    walked, path = [], f"/v1/nodes?conductor={HOST}&limit=3"
    while path:
        answer = api.get(path).json
        walked += [node["uuid"] for node in answer["nodes"]]
        path = answer.get("next", "").removeprefix("http://localhost:6385")
    assert sorted(walked) == sorted(shares[HOST])


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 400),
        ("limit=-1", 400),
        ("limit=many", 400),
        ("limit=99999999999999999999", 400),
        (f"marker={NOBODY}", 404),
        ("marker=abc", 400),
        ("sort_key=driver_info", 400),
        ("sort_key=colour", 400),
        ("sort_dir=up", 400),
        ("detail=maybe", 400),
        ("detail=true&fields=uuid", 400),
        ("maintenance=perhaps", 400),
        ("instance_uuid=abc", 400),
        ("provision_state=flying", 400),
        ("colour=red", 400),
        ("", 200),
        ("limit=1&limit=2", 400),
    ],
)
def test_lists_check_their_arguments(api: Client, query: str, status: int) -> None:
    assert api.get(f"/v1/nodes?{query}").status == status


def test_refused_names_come_with_those_that_are_possible(api: Client) -> None:
    field = api.get("/v1/nodes?fields=colour").text
    assert "fields: there is no field 'colour'. Known here: uuid, " in field
    assert "instance_name" in field
    old = {"X-OpenStack-Ironic-API-Version": "1.8"}
    assert "instance_name" not in api.get("/v1/nodes?fields=colour", headers=old).text
    sort = api.get("/v1/nodes?sort_key=extra").text
    assert "sort_key: 'extra' cannot be sorted by. Possible are: id, uuid, " in sort
    assert "extra," not in sort
    assert "Known here: default_" in api.get("/v1/drivers?fields=colour").text


def test_a_filter_by_a_chassis_that_is_not_there_is_told_so(api: Client) -> None:
    chassis = api.post("/v1/chassis", {}).json["uuid"]
    assert api.get(f"/v1/nodes?chassis_uuid={chassis}").json["nodes"] == []
    assert api.get(f"/v1/nodes?chassis_uuid={uuid.uuid4()}").status == 404


def test_health_is_shown_from_its_version_on(api: Client, add_node: AddNode) -> None:
    path = f"/v1/nodes/{add_node(health='Warning')['uuid']}"
    assert api.at("1.109").get(path).json["health"] == "Warning"
    assert "health" not in api.at("1.108").get(path).json


def test_a_filter_by_a_fault_wants_one_that_exists(api: Client, add_node: AddNode) -> None:
    broken = add_node(fault="clean failure")
    add_node()
    (found,) = api.get("/v1/nodes?fault=clean%20failure").json["nodes"]
    assert found["uuid"] == broken["uuid"]
    refused = api.get("/v1/nodes?fault=boredom")
    assert refused.status == 400
    assert "rescue abort failure" in refused.text


def test_empty_names_of_fields_and_an_empty_sort_key_ask_for_nothing(
    api: Client, add_node: AddNode
) -> None:
    node = add_node()
    for path in ("/v1/nodes", f"/v1/nodes/{node['uuid']}"):
        for text, names in ((",uuid,", {"uuid", "links"}), ("", {"links"})):
            found = api.get(f"{path}?fields={text}").json
            assert set(found["nodes"][0] if "nodes" in found else found) == names
    assert api.get("/v1/nodes?sort_key=").status == 200


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/v1/batches", marks=pytest.mark.feature("batches")),
        pytest.param("/v1/erasures", marks=pytest.mark.feature("erasures")),
        "/v1/holds",
    ],
)
def test_list_without_links_refuses_an_empty_choice_of_fields(api: Client, path: str) -> None:
    refused = api.get(f"{path}?fields=,")
    assert (refused.status, "fields: names no field" in refused.text) == (400, True), refused.text


@pytest.mark.parametrize(
    "path",
    [
        *("nodes/n1", "nodes/n1/runs/current", "runs/x"),
        pytest.param("batches/x", marks=pytest.mark.feature("batches")),
    ],
)
def test_refused_argument_comes_with_those_of_a_wait(
    api: Client, add_node: AddNode, path: str
) -> None:
    add_node(name="n1")
    refused = api.get(f"/v1/{path}?colour=red")
    assert refused.status == 400
    assert "Known here: fields, until, wait." in refused.text


def test_children_are_listed_by_their_parent_whatever_else_is_asked(
    api: Client, add_node: AddNode
) -> None:
    parent = add_node()
    child = add_node(parent_node=parent["uuid"])
    for more in ("", "&include_children=false", "&include_children=true"):
        found = api.get(f"/v1/nodes?parent_node={parent['uuid']}{more}").json["nodes"]
        assert [each["uuid"] for each in found] == [child["uuid"]]


# What is below a node or a portgroup is its own alone: lists go on after nothing else.

ABSENT = "00000000-5a0c-4a3f-8a0a-6d1d0b0a9c77"
MINE, FOREIGN = fleet_fixture.uuid_of(1), fleet_fixture.uuid_of(6)


def _assert_hidden(callers: Callers, path: str, own: str, foreign: str) -> None:
    """Whether there is such a row elsewhere is not to be learnt, however the list is sorted."""
    reader = callers("reader", OWNER)
    for sort in ("", "&sort_dir=desc", "&sort_dir=asc"):
        hidden, none = (reader.get(f"{path}?marker={one}{sort}") for one in (foreign, ABSENT))
        assert (hidden.status, none.status) == (404, 404)
        assert hidden.text == none.text.replace(ABSENT, foreign)
        assert reader.get(f"{path}?marker={own}{sort}").status == 200


@pytest.mark.parametrize(
    ("kind", "first"),
    [("ports", 41), ("portgroups", 51), ("volume/connectors", 61), ("volume/targets", 71)],
)
def test_row_of_another_node_is_an_unknown_marker(
    callers: Callers, database: session.Database, kind: str, first: int
) -> None:
    fleet_fixture.build(callers("admin"), database)
    numbers = (fleet_fixture.uuid_of(first), fleet_fixture.uuid_of(first + 1))
    _assert_hidden(callers, f"/v1/nodes/{MINE}/{kind}", *numbers)


def test_a_run_of_another_node_is_no_marker(callers: Callers, database: session.Database) -> None:
    fleet_fixture.build(callers("admin"), database)
    own, foreign = (add_run(database, node) for node in (MINE, FOREIGN))
    _assert_hidden(callers, f"/v1/nodes/{MINE}/runs", own, foreign)


def test_a_run_of_another_node_is_as_one_that_is_not_there(
    callers: Callers, database: session.Database
) -> None:
    fleet_fixture.build(callers("admin"), database)
    foreign = add_run(database, FOREIGN)
    reader, place = callers("reader", OWNER), f"/v1/nodes/{MINE}/runs"
    for form in (str, str.upper, lambda uuid: uuid.replace("-", "")):
        hidden, none = (reader.get(f"{place}/{form(one)}") for one in (foreign, ABSENT))
        assert (hidden.status, none.status) == (404, 404)
        assert hidden.text == none.text.replace(ABSENT, foreign)


def test_a_port_of_another_portgroup_is_no_marker(
    callers: Callers, database: session.Database
) -> None:
    admin = callers("admin")
    fleet_fixture.build(admin, database)
    for port, group in ((41, 51), (42, 52)):
        patch = [op("add", "/portgroup_uuid", fleet_fixture.uuid_of(group))]
        joined = admin.patch(f"/v1/ports/{fleet_fixture.uuid_of(port)}", patch)
        assert joined.status == 200, joined.text
    place = f"/v1/portgroups/{fleet_fixture.uuid_of(51)}/ports"
    _assert_hidden(callers, place, fleet_fixture.uuid_of(41), fleet_fixture.uuid_of(42))
