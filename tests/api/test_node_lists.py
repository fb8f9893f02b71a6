"""Lists of nodes: pages, filters, and what a list refuses."""

from __future__ import annotations

import uuid

import pytest
from oslo_config import cfg

from ironic_lite.db import session
from tests.api.client import Client
from tests.api.conftest import HOST, AddNode, add_conductor

NOBODY = "00000000-0000-4000-8000-00000000dead"


def test_pages_walk_through_all_nodes(api: Client, add_node: AddNode) -> None:
    added = [add_node()["uuid"] for _ in range(5)]
    path, walked, pages = "/v1/nodes?limit=2&fields=uuid", [], 0
    while path:
        answer = api.get(path).json
        walked += [node["uuid"] for node in answer["nodes"]]
        path = answer.get("next", "").removeprefix("http://localhost:6385")
        pages += 1
    assert walked == added
    assert pages == 3


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
        "instance_name=web",
    ):
        found = [node["uuid"] for node in api.get(f"/v1/nodes?{query}").json["nodes"]]
        assert found == [special], query
    for query in ("associated=no", "maintenance=f", "retired=off", "sharded=0"):
        found = [node["uuid"] for node in api.get(f"/v1/nodes?{query}").json["nodes"]]
        assert found == [plain], query


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
        ("limit=1&limit=2", 200),
    ],
)
def test_lists_check_their_arguments(api: Client, query: str, status: int) -> None:
    assert api.get(f"/v1/nodes?{query}").status == status
