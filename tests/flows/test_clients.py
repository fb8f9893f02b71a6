"""Clients as other people wrote them, against the resources that stand beside nodes."""

from __future__ import annotations

import json
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from tests.support.conductor_fixture import wait_for
from tests.support.operator import Operator
from tests.support.real_socket import baremetal, listening

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import openstack

Json = dict[str, Any]


@pytest.fixture
def operator(sqlite_database: Database) -> Iterator[Operator]:
    started = Operator(sqlite_database, conductor__hash_ring_reset_interval=0)
    yield started
    started.close()


@pytest.fixture
def url(operator: Operator) -> Iterator[str]:
    """Where the operator's service listens."""
    with listening(operator) as found:
        yield found


@pytest.fixture
def cloud(url: str) -> Any:
    """The bare-metal proxy of openstacksdk."""
    return openstack.connect(
        auth_type="none", endpoint=url, baremetal_endpoint_override=url, load_yaml_config=False
    ).baremetal


def said(url: str, *words: str) -> Any:
    """Run a command that works, and return the JSON it prints."""
    shows = "delete" not in words and "unset" not in words and "set" not in words
    done = baremetal(url, *words, *(("-f", "json") if shows else ()))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if shows else done.stdout


def available(operator: Operator, **fields: Any) -> str:
    return operator.enroll("available", resource_class="big", **fields)


def test_openstacksdk_allocates(operator: Operator, cloud: Any) -> None:
    node = available(operator, name="machine-1")
    made = cloud.create_allocation(resource_class="big", name="web-1", candidate_nodes=[node])
    found = cloud.wait_for_allocation(made, timeout=10)
    assert (found.state, found.node_id, found.name) == ("active", node, "web-1")
    assert [one.id for one in cloud.allocations(resource_class="big")] == [made.id]
    assert cloud.get_node(node).allocation_id == made.id
    assert cloud.update_allocation(made, name="web-2", extra={"a": 1}).name == "web-2"
    cloud.delete_allocation("web-2")
    assert cloud.get_node(node).allocation_id is None
    failing = cloud.create_allocation(resource_class="none")
    with pytest.raises(openstack.exceptions.ResourceFailure, match="no node has the resource"):
        cloud.wait_for_allocation(failing, timeout=10)


def test_the_command_line_allocates(operator: Operator, url: str) -> None:
    node = available(operator, name="machine-1")
    words = ("--resource-class", "big", "--name", "web-1", "--wait", "10")
    made = said(url, "allocation", "create", *words, "--extra", "a=1")
    assert made["node_uuid"] == node
    assert said(url, "allocation", "list", "--node", "machine-1")[0]["name"] == "web-1"
    assert said(url, "allocation", "show", "web-1")["uuid"] == made["uuid"]
    said(url, "allocation", "set", "--name", "web-2", "web-1")
    said(url, "allocation", "delete", "web-2")
    assert wait_for(lambda: operator.shows(node)["allocation_uuid"] is None)


# -- runbooks --------------------------------------------------------------------------------

STEPS = [
    {"interface": "deploy", "step": "erase_devices", "args": {}, "order": 2},
    {"interface": "management", "step": "reset_bmc", "args": {}, "order": 1},
]


def traited(operator: Operator, state: str) -> str:
    node = operator.enroll(state)
    assert operator.api.put(f"/v1/nodes/{node}/traits/CUSTOM_A").status == 204
    return node


def done(operator: Operator, node: str, state: str) -> list[str]:
    """Return the steps of the node's newest run, once it rests."""
    operator.rig.reaches(node, state)
    return [f"{one['interface']}.{one['step']}" for one in operator.rig.run(node)["steps"]]


def test_openstacksdk_cleans_by_a_runbook(operator: Operator, cloud: Any) -> None:
    node = traited(operator, "manageable")
    book = cloud.create_runbook(name="CUSTOM_A", steps=STEPS)
    assert [one.name for one in cloud.runbooks()] == ["CUSTOM_A"]
    assert cloud.update_runbook(book, extra={"a": 1}).extra == {"a": 1}
    operator.api.put("/v1/runbooks/CUSTOM_A/traits/CUSTOM_A")
    assert operator.asks(node, "clean", runbook=book.id).status == 202  # the library cannot
    steps = done(operator, node, "manageable")
    assert steps == ["management.reset_bmc", "deploy.erase_devices"]
    cloud.delete_runbook(book)
    assert list(cloud.runbooks()) == []


def test_the_command_line_serves_by_a_runbook(
    operator: Operator, url: str, tmp_path: pathlib.Path
) -> None:
    node = traited(operator, "active")
    listed = tmp_path / "steps.json"
    steps = [{"interface": "vendor", "step": "log_passthrough", "args": {}, "order": 1}]
    listed.write_text(json.dumps(steps))
    made = said(url, "runbook", "create", "--name", "CUSTOM_A", "--steps", str(listed))
    assert made["steps"] == steps
    assert said(url, "runbook", "list")[0]["name"] == "CUSTOM_A"
    said(url, "runbook", "set", "CUSTOM_A", "--extra", "a=1")
    operator.api.put("/v1/runbooks/CUSTOM_A/traits/CUSTOM_A")
    done_ = baremetal(url, "node", "service", node, "--runbook", "CUSTOM_A")
    assert done_.returncode == 0, done_.stderr
    assert done(operator, node, "active") == ["vendor.log_passthrough"]
    said(url, "runbook", "delete", "CUSTOM_A")


# -- inspection rules ------------------------------------------------------------------------

ACTIONS = [{"op": "set-attribute", "args": {"path": "/extra/ruled", "value": 1}}]


def test_openstacksdk_makes_inspection_rules(operator: Operator, cloud: Any) -> None:
    made = cloud.create_inspection_rule(actions=ACTIONS, description="why", priority=3)
    assert [one.id for one in cloud.inspection_rules()] == [made.id]
    assert cloud.update_inspection_rule(made, priority=4).priority == 4
    node = operator.enroll("manageable")
    operator.provision(node, "inspect")
    assert operator.shows(node)["extra"] == {"ruled": 1}
    cloud.delete_inspection_rule(made)
    assert list(cloud.inspection_rules()) == []


def test_the_command_line_makes_inspection_rules(url: str) -> None:
    made = said(url, "inspection", "rule", "create", "--actions", json.dumps(ACTIONS))
    assert made["actions"] == ACTIONS
    assert said(url, "inspection", "rule", "list")[0]["uuid"] == made["uuid"]
    said(url, "inspection", "rule", "delete", made["uuid"])
