"""Clients as other people wrote them, against the resources that stand beside nodes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.db.session import Database
from tests.flows.rig import wait_for
from tests.spec.operator import Operator
from tests.spec.wire import baremetal, listening

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
