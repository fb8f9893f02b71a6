"""PUT /v1/nodes/{node}/states/raid and what can be said there, by an API with a real conductor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.domain import raid
from ironic_lite.drivers.registry import Registry, Settings
from tests.support.conductor_fixture import configure
from tests.support.operator import Operator
from tests.support.wsgi_client import Response

ROOT = {"raid_level": "1", "size_gb": 100, "is_root_volume": True}
DATA = {"raid_level": "5", "size_gb": "MAX", "number_of_physical_disks": 3}
WANTED = {"logical_disks": [ROOT, DATA]}


def service(database: Database, **options: Any) -> Operator:
    """Start a service whose drivers are those of the options."""
    registry = Registry.load(Settings.read(configure(**options)))
    return Operator(database, registry=registry, **options)


@pytest.fixture
def operator(sqlite_database: Database) -> Iterator[Operator]:
    types = ["fake-hardware", "redfish"]
    found = service(sqlite_database, DEFAULT__enabled_hardware_types=types)
    yield found
    found.close()


def asks(operator: Operator, node: str, config: Any, version: int | None = None) -> Response:
    api = operator.api if version is None else operator.api.at(version)
    return api.put(f"/v1/nodes/{node}/states/raid", config)


def shown(operator: Operator, node: str) -> tuple[Any, Any]:
    states = operator.api.get(f"/v1/nodes/{node}/states").json
    return states["target_raid_config"], states["raid_config"]


@pytest.mark.parametrize("state", ["enroll", "manageable", "active"])
@pytest.mark.parametrize("version", [12, None])
def test_the_configuration_is_kept_and_taken_away(
    operator: Operator, state: str, version: int | None
) -> None:
    node = operator.enroll(state, name="metal")
    answer = asks(operator, "metal", WANTED, version)
    assert (answer.status, answer.body) == (204, b"")
    assert shown(operator, node) == (WANTED, {})
    assert operator.shows(node)["target_raid_config"] == WANTED
    assert asks(operator, node, {}, version).status == 204
    assert shown(operator, node) == ({}, {})


def test_the_configuration_is_built_by_the_clean_step_and_not_before(operator: Operator) -> None:
    node = operator.enroll()
    assert asks(operator, node, WANTED).status == 204
    args = {"create_nonroot_volumes": False, "delete_existing": True}
    step = {"interface": "raid", "step": "create_configuration", "args": args}
    row = operator.provision(node, "clean", clean_steps=[step])
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert row["raid_config"]["logical_disks"] == [ROOT]
    assert row["properties"] == {"local_gb": 100, "capabilities": "raid_level:1"}
    row = operator.clean(node, "raid.delete_configuration")
    assert (row["raid_config"], row["target_raid_config"]) == ({}, WANTED)


def test_building_without_a_configuration_builds_nothing(operator: Operator) -> None:
    row = operator.clean(operator.enroll(), "raid.create_configuration")
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert row["raid_config"] == {}


BAD: list[tuple[Any, str]] = [
    ([], "must be an object"),
    ("x", "must be an object"),
    ({"logical_disks": None}, "logical_disks: must be a list"),
    ({"logical_disks": []}, "logical_disks: must be a list"),
    ({"logical_disks": [ROOT], "vendor": 1}, "vendor: unknown key"),
    ({"logical_disk": [ROOT]}, "logical_disk: unknown key"),
    ({"logical_disks": [1]}, "logical_disks/0: must be an object"),
    ({"logical_disks": [{}]}, "logical_disks/0/raid_level: is required"),
    ({"logical_disks": [{**ROOT, "raid_level": "9"}]}, "logical_disks/0/raid_level: '9'"),
    ({"logical_disks": [{**ROOT, "size_gb": -5}]}, "logical_disks/0/size_gb: -5"),
    ({"logical_disks": [{**ROOT, "size_gb": "10"}]}, "logical_disks/0/size_gb: '10'"),
    ({"logical_disks": [ROOT, {**ROOT, "x": 1}]}, "logical_disks/1/x: unknown key"),
    ({"logical_disks": [ROOT, DATA, ROOT]}, "logical_disks/2/is_root_volume: there is a root"),
    ({"logical_disks": [{**ROOT, "physical_disks": ["a"]}]}, "logical_disks/0/controller: is req"),
    ({"logical_disks": [{**DATA, "disk_type": "tape"}]}, "logical_disks/0/disk_type: 'tape'"),
]


@pytest.mark.parametrize(("config", "reason"), BAD, ids=range(len(BAD)))
def test_invalid_raid_config_is_refused_by_its_path_and_changes_nothing(
    operator: Operator, config: Any, reason: str
) -> None:
    node = operator.enroll()
    assert asks(operator, node, WANTED).status == 204
    before = operator.rig.get(node)
    answer = asks(operator, node, config)
    assert answer.status == 400
    assert reason in answer.text
    assert operator.rig.get(node) == before


@pytest.mark.parametrize("body", [b"{", b"\xff", b"5"])
def test_body_that_is_no_json_object_is_refused(operator: Operator, body: bytes) -> None:
    node = operator.enroll()
    path = f"/v1/nodes/{node}/states/raid"
    headers = {"Content-Type": "application/json"}
    assert operator.api.request("PUT", path, body=body, headers=headers).status == 400


def test_a_node_without_raid_refuses_one_but_lets_it_be_taken_away(operator: Operator) -> None:
    node = operator.enroll(raid_interface="no-raid")
    answer = asks(operator, node, WANTED)
    assert answer.status == 404
    assert "does not support raid" in answer.text
    assert asks(operator, node, {}).status == 204


def test_the_validation_of_a_node_speaks_of_its_volumes(operator: Operator) -> None:
    node = operator.enroll()
    wrong = {"logical_disks": [{**ROOT, "raid_level": "9"}]}
    assert operator.api.get(f"/v1/nodes/{node}/validate").json["raid"] == {"result": True}
    operator.rig.edit(node, target_raid_config=wrong)  # as an interface of others may have let in
    said = operator.api.get(f"/v1/nodes/{node}/validate").json["raid"]
    assert said["result"] is False
    assert said["reason"].startswith("target_raid_config/logical_disks/0/raid_level: ")


def test_a_locked_node_is_left_alone(operator: Operator) -> None:
    node = operator.enroll()
    with operator.rig.tasks.lock(operator.rig.who, node):
        assert asks(operator, node, WANTED).status == 409
    assert shown(operator, node) == ({}, {})


def test_an_unknown_node_is_not_found_and_an_old_client_is_told_the_version(
    operator: Operator,
) -> None:
    assert asks(operator, "nobody", WANTED).status == 404
    node = operator.enroll()
    assert asks(operator, node, WANTED, 11).status == 406
    assert operator.api.at(11).get(f"/v1/nodes/{node}/states").status == 200
    assert "raid_config" not in operator.api.at(11).get(f"/v1/nodes/{node}/states").json


def test_a_patch_leads_to_the_right_place(operator: Operator) -> None:
    node = operator.enroll()
    answer = operator.patches(node, target_raid_config=WANTED)
    assert answer.status == 400
    assert shown(operator, node) == ({}, {})


# -- what can be said ------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["fake-hardware", "redfish"])
def test_the_properties_of_logical_disks_are_told(operator: Operator, driver: str) -> None:
    path = f"/v1/drivers/{driver}/raid/logical_disk_properties"
    answer = operator.api.get(path)
    assert answer.status == 200
    assert answer.json == raid.properties()
    assert operator.api.at(12).get(path).json == raid.properties()
    assert operator.api.at(11).get(path).status == 406


def test_an_unknown_driver_has_none(operator: Operator) -> None:
    answer = operator.api.get("/v1/drivers/nobody/raid/logical_disk_properties")
    assert answer.status == 404
