"""GET /v1/stats/nodes: numbers of the nodes that the caller may list."""

from __future__ import annotations

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.features.statistics import api as statistics_api
from ironic_lite.features.statistics.api import NodeCounts
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("statistics")


@pytest.fixture
def fleet(add_node: AddNode) -> None:
    """Five nodes, one of them a child."""
    gpu = {"resource_class": "gpu", "owner": OWNER}
    parent = add_node(name="a", provision_state="active", **gpu)
    add_node(name="b", provision_state="active", maintenance=True, lessee=LESSEE, **gpu)
    add_node(name="c", provision_state="active", resource_class="cpu")
    add_node(name="d", provision_state="clean failed", data_state="dirty", fault="clean failure")
    add_node(name="e", provision_state="active", parent_node=parent["uuid"])


@pytest.mark.usefixtures("fleet")
def test_nodes_are_counted_by_a_field(api: Client) -> None:
    answer = api.get("/v1/stats/nodes?by=provision_state")
    assert answer.json == {
        "by": ["provision_state"],
        "of": 4,
        "counts": [
            {"provision_state": "active", "count": 3},
            {"provision_state": "clean failed", "count": 1},
        ],
    }


@pytest.mark.usefixtures("fleet")
def test_nodes_are_counted_by_several_fields(api: Client) -> None:
    counts = api.get("/v1/stats/nodes?by=maintenance,resource_class,provision_state").json["counts"]
    active = {"provision_state": "active", "count": 1}
    assert len(counts) == 4
    assert {"maintenance": True, "resource_class": "gpu", **active} in counts
    assert {"maintenance": False, "resource_class": "cpu", **active} in counts


@pytest.mark.usefixtures("fleet")
def test_unset_fields_have_the_values_that_a_node_shows(api: Client) -> None:
    counts = api.get("/v1/stats/nodes?by=fault,data_state,conductor_group").json["counts"]
    assert counts == [
        {"fault": None, "data_state": "unknown", "conductor_group": "", "count": 3},
        {"fault": "clean failure", "data_state": "dirty", "conductor_group": "", "count": 1},
    ]


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    "query",
    [
        *("resource_class=gpu", "maintenance=true", "provision_state=active,clean failed"),
        *("data_state=dirty", "include_children=true", f"project={OWNER}", "held=false"),
        *("fault=clean failure", "associated=false", "sharded=true", "shard=a,b"),
    ],
)
def test_filters_are_those_of_the_list(api: Client, query: str) -> None:
    listed = api.get(f"/v1/nodes?{query}").json["nodes"]
    assert api.get(f"/v1/stats/nodes?by=driver&{query}").json["of"] == len(listed)


@pytest.mark.parametrize("name", statistics_api.FIELDS)
def test_each_field_counts(api: Client, add_node: AddNode, name: str) -> None:
    add_node()
    (count,) = api.get(f"/v1/stats/nodes?by={name}").json["counts"]
    assert set(count) == {name, "count"}
    assert count["count"] == 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "by: must be one to 3 of: provision_state"),
        ("by=", "by: must be one to 3 of"),
        ("by=name", "by: must be one to 3 of"),
        ("by=driver,fault,shard,retired", "by: must be one to 3 of"),
        ("by=driver&conductor=c1", "conductor: is computed for each node"),
        ("by=driver&limit=5", "limit"),
        ("by=driver&maintenance=perhaps", "maintenance"),
        ("by=driver&provision_state=gone", "provision_state"),
    ],
)
def test_invalid_argument_is_refused(api: Client, query: str, said: str) -> None:
    answer = api.get(f"/v1/stats/nodes?{query}")
    assert answer.status == 400
    assert said in answer.text


def test_field_newer_than_the_request_is_refused(api: Client) -> None:
    api.version = "1.41"
    assert api.get("/v1/stats/nodes?by=fault").status == 406
    assert api.get("/v1/stats/nodes?by=provision_state&fault=clean failure").status == 406
    assert api.get("/v1/stats/nodes?by=provision_state").json["of"] == 0


def test_too_many_groups_are_refused(
    api: Client, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_api, "MOST_GROUPS", 3)
    for number in range(3):
        add_node(resource_class=f"class-{number}")
    assert api.get("/v1/stats/nodes?by=resource_class").json["of"] == 3
    add_node(resource_class="class-3")
    answer = api.get("/v1/stats/nodes?by=resource_class&retired=false")
    assert answer.status == 400
    assert "by: makes more than 3 groups; name fewer fields, or add a filter" in answer.text


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("role", "project", "count"),
    [("reader", None, 4), ("admin", OWNER, 2), ("reader", LESSEE, 1), ("admin", STRANGER, 0)],
)
def test_callers_count_the_nodes_that_they_may_list(
    callers: Callers, role: str, project: str | None, count: int
) -> None:
    caller = callers(role, project)
    assert len(caller.get("/v1/nodes").json["nodes"]) == count
    assert caller.get("/v1/stats/nodes?by=driver").json["of"] == count


def test_nodes_of_another_project_are_not_counted(callers: Callers) -> None:
    other = callers("reader", OWNER).get(f"/v1/stats/nodes?by=driver&project={STRANGER}")
    assert other.status == 403


@pytest.mark.usefixtures("fleet")
def test_counts_are_one_statement_and_kept_for_two_seconds(
    database: Database, add_node: AddNode
) -> None:
    now = [1000.0]
    counts = NodeCounts(database, now=lambda: now[0])
    with count_statements(database) as sent:
        assert counts.document(("driver",), {})["of"] == 4
    assert len(sent) == 1
    add_node()
    now[0] += statistics_api.COUNTS_KEPT_SECONDS - 0.1
    with count_statements(database) as sent:
        assert counts.document(("driver",), {})["of"] == 4
    assert not sent
    assert counts.document(("driver",), {"project": OWNER})["of"] == 2
    now[0] += 0.1
    assert counts.document(("driver",), {})["of"] == 5
