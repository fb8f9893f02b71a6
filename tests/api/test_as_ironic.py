"""Answers that real Ironic 39 gave beside ours: status codes below versions, odd names, old paths.

`make compare` asks both anew.
"""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine import session
from tests.support.api_rows import AddNode
from tests.support.callers import OWNER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, op

ABSENT = "00000099-0000-4000-8000-000000000000"
ODD = ("malformed:uuid", "52:54:00:00:00:01", "a%20b", "%C3%BC", "x" * 256)


def test_an_allocation_is_not_changed_below_1_57(api: Client) -> None:
    assert api.at(56).patch(f"/v1/allocations/{ABSENT}", []).status == 405
    assert api.at(57).patch(f"/v1/allocations/{ABSENT}", []).status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "traits", 406),
        ("PUT", "traits", 405),
        ("PUT", "traits/CUSTOM_A", 405),
        ("DELETE", "traits", 404),
        ("DELETE", "traits/CUSTOM_A", 404),
    ],
)
def test_traits_below_their_version(
    api: Client, add_node: AddNode, method: str, path: str, status: int
) -> None:
    node = add_node()
    assert api.at(36).request(method, f"/v1/nodes/{node['uuid']}/{path}", {}).status == status


def test_writes_to_places_that_no_state_has_are_405(api: Client, add_node: AddNode) -> None:
    place = f"/v1/nodes/{add_node()['uuid']}/states/target_raid_config"
    assert api.put(place, {}).status == 405
    assert api.get(place).status == 404


def test_target_raid_config_below_its_version(api: Client, add_node: AddNode) -> None:
    node = add_node(name="rack1")
    old = api.at(1)
    assert old.put("/v1/nodes/rack1/states/raid", {}).status == 404
    assert old.put(f"/v1/nodes/{node['uuid']}/states/raid", {}).status == 406


def test_names_cannot_be_validated_below_1_5(
    api: Client, add_node: AddNode, recorder: Recorder
) -> None:
    add_node(name="rack1")
    recorder.answers["validate_driver_interfaces"] = {}
    assert api.at(4).get("/v1/nodes/validate?node=rack1").status == 406
    assert api.at(5).get("/v1/nodes/validate?node=rack1").status == 200


def test_allocation_of_a_node_that_is_not_there(api: Client) -> None:
    assert api.get(f"/v1/nodes/{ABSENT}/allocation").status == 400
    assert api.delete(f"/v1/nodes/{ABSENT}/allocation").status == 404


@pytest.mark.parametrize("word", ODD)
def test_identifier_that_is_no_uuid_and_no_name_is_400(api: Client, word: str) -> None:
    path = f"/v1/nodes/{word}"
    for answer in (api.get(path), api.patch(path, [op("add", "/extra/a", 1)]), api.delete(path)):
        assert answer.status == 400, answer.text
    assert api.at(1).get(f"/v1/nodes/{word}").status == 400


def test_ports_are_found_by_name_in_all_versions_and_removed_by_uuid(
    api: Client, add_node: AddNode
) -> None:
    body = {"node_uuid": add_node()["uuid"], "address": "52:54:00:00:00:01", "name": "p"}
    assert api.post("/v1/ports", body).status == 201
    assert api.at(1).get("/v1/ports/p").status == 200
    assert api.at(1).patch("/v1/ports/p", [op("add", "/extra/a", 1)]).status == 200
    assert api.delete("/v1/ports/p").status == 400


# -- the spelling of the first clients ---------------------------------------------------------


@pytest.mark.parametrize("version", [1, 115])
@pytest.mark.parametrize("form", ["/{}", "?node_ident={}"])
def test_paths_of_the_first_clients(
    api: Client, add_node: AddNode, recorder: Recorder, form: str, version: int
) -> None:
    recorder.answers["get_boot_device"] = {"boot_device": "pxe", "persistent": None}
    node, old = add_node(), api.at(version)
    asked = form.format(node["uuid"])
    same = {
        "states": f"/v1/nodes/{node['uuid']}/states",
        "states/console": f"/v1/nodes/{node['uuid']}/states/console",
        "management/boot_device": f"/v1/nodes/{node['uuid']}/management/boot_device",
    }
    for path, now in same.items():
        answer = old.get(f"/v1/nodes/{path}{asked}")
        assert (answer.status, answer.json) == (200, old.get(now).json)
        assert old.get(f"/v1/nodes/{path}{form.format(ABSENT)}").status == 404
    assert old.put(f"/v1/nodes/maintenance{asked}", {"reason": "r"}).status == 202
    assert api.get(f"/v1/nodes/{node['uuid']}").json["maintenance_reason"] == "r"
    assert old.delete(f"/v1/nodes/maintenance{asked}").status == 202
    assert not api.get(f"/v1/nodes/{node['uuid']}").json["maintenance"]


def test_a_heartbeat_may_name_its_node_in_the_body(
    api: Client, add_node: AddNode, recorder: Recorder
) -> None:
    body: dict[str, Any] = {
        "callback_url": "https://192.0.2.1:9999",
        "agent_version": "9",
        "agent_token": "t",
    }
    node = add_node(provision_state="clean wait")
    assert api.post("/v1/heartbeat", {**body, "node_ident": node["uuid"]}).status == 202
    assert recorder.calls[-1][0] == "heartbeat"
    assert recorder.calls[-1][1]["node_uuid"] == node["uuid"]
    assert api.post("/v1/heartbeat", body).status == 400
    recorder.answers["heartbeat"] = errors.NodeLocked(node="n", host="h")
    assert api.post("/v1/heartbeat", {**body, "node_ident": node["uuid"]}).status == 409


# -- single answers -------------------------------------------------------------------------------


def test_empty_bodies(api: Client, add_node: AddNode, recorder: Recorder) -> None:
    node = add_node()
    assert api.post("/v1/chassis").status == 201
    assert api.put(f"/v1/nodes/{node['uuid']}/states/raid").status == 204
    assert recorder.calls[-1][1]["target_raid_config"] == {}
    assert api.put(f"/v1/nodes/{node['uuid']}/states/raid", []).status == 400


def test_a_virtual_drive_may_stand_in_the_path(
    api: Client, add_node: AddNode, recorder: Recorder
) -> None:
    place = f"/v1/nodes/{add_node()['uuid']}/vmedia"
    assert api.delete(f"{place}/cdrom").status == 204
    assert recorder.calls[-1][1]["device_types"] == ["cdrom"]
    assert api.delete(f"{place}/drawer").status == 400


@pytest.mark.parametrize("kind", ["nodes", "ports", "portgroups"])
def test_no_shard_is_called_nothing(api: Client, add_node: AddNode, kind: str) -> None:
    add_node()
    assert api.get(f"/v1/{kind}?shard=").json == {kind: []}


def test_indicators_are_there_in_every_version(
    api: Client, add_node: AddNode, recorder: Recorder
) -> None:
    recorder.answers["get_supported_indicators"] = {}
    place = f"/v1/nodes/{add_node()['uuid']}/management/indicators"
    assert api.at(1).get(place).status == 200
    assert api.at(1).put(f"{place}/led@system", {"state": "on"}).status == 204


def test_projects_do_not_see_the_documents_that_lead_to_volumes(
    callers: Callers, add_node: AddNode, database: session.Database
) -> None:
    del database
    node = add_node(owner=OWNER)
    for path in ("/v1/volume", f"/v1/nodes/{node['uuid']}/volume"):
        assert callers("member", OWNER).get(path).status == 403
        assert callers("reader").get(path).status == 200


@pytest.mark.parametrize("word", ["malformed:uuid", "a%20b"])
@pytest.mark.parametrize("path", ["", "/states/power", "/vifs", "/nothing", "/bios/x"])
def test_a_malformed_node_is_400_for_every_method(api: Client, word: str, path: str) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        for place in (f"/v1/nodes/{word}{path}", f"/v1/portgroups/{word}{path}"):
            assert api.request(method, place, {}).status == 400, (method, place)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "", 400),
        ("POST", "/ports", 400),
        ("PATCH", "/ports/detail", 400),
        ("DELETE", "/vifs", 400),
        ("DELETE", "/validate", 404),
        ("PUT", "/management/indicators", 400),
        ("PUT", "/ports", 405),
        ("PUT", "", 405),
    ],
)
def test_methods_that_a_path_does_not_have(
    api: Client, add_node: AddNode, method: str, path: str, status: int
) -> None:
    node = add_node()
    assert api.request(method, f"/v1/nodes/{node['uuid']}{path}", {}).status == status


def test_a_malformed_request_is_reported_before_a_missing_node(api: Client) -> None:
    for method, path, body in (
        ("PUT", f"/v1/nodes/{ABSENT}/states/boot_mode", {}),
        ("PUT", f"/v1/nodes/{ABSENT}/states/console", {"enabled": "x"}),
        ("PUT", f"/v1/nodes/{ABSENT}/states/raid", []),
        ("POST", f"/v1/nodes/{ABSENT}/vendor_passthru", {}),
        ("PATCH", f"/v1/nodes/{ABSENT}", {}),
        ("PATCH", f"/v1/ports/{ABSENT}", [{"op": "copy", "path": "/a", "from": "/b"}]),
    ):
        assert api.request(method, path, body).status == 400, path


def test_version_of_boot_modes_is_checked_before_arguments(api: Client, add_node: AddNode) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/states/boot_mode"
    assert api.at(75).put(path, {}).status == 404
    assert api.at(76).put(path, {}).status == 400


def test_a_locked_node_refuses_writes_that_change_nothing(api: Client, add_node: AddNode) -> None:
    node = add_node(reservation="elsewhere")
    assert api.patch(f"/v1/nodes/{node['uuid']}", []).status == 409
    assert api.delete(f"/v1/nodes/{node['uuid']}/maintenance").status == 409
