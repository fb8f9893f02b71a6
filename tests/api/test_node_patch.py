"""PATCH of nodes and maintenance: one write that loses nobody's change."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.db.engine import session
from ironic_lite.db.queries import events, nodes
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client


def replace(path: str, value: Any) -> list[dict[str, Any]]:
    return [{"op": "replace", "path": path, "value": value}]


def add(path: str, value: Any) -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": value}]


def test_a_change_is_written_shown_and_told(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    node = add_node(driver_info={"redfish_password": "old"})
    patch = replace("/driver_info/redfish_password", "hunter2")
    answer = api.patch(f"/v1/nodes/{node['uuid']}", patch)
    assert answer.status == 200
    assert answer.json["driver_info"] == {"redfish_password": "******"}
    assert answer.json == api.get(f"/v1/nodes/{node['uuid']}").json
    stored = database.read(lambda conn: nodes.get(conn, node["uuid"]))
    assert stored["driver_info"] == {"redfish_password": "hunter2"}
    assert stored["generation"] == node["generation"] + 1
    (told,) = database.read(lambda conn: events.page(conn, node_uuid=node["uuid"]))
    assert told["kind"] == "node_updated"
    assert "driver_info" in (told["data"] or {})["fields"]
    assert "hunter2" not in str(told)
    assert told["request_id"] == answer.headers["x-openstack-request-id"]


@pytest.mark.parametrize(
    ("capabilities", "status"),
    [
        ("cpu_vt:true,boot_mode:bios", 400),
        ("boot_mode: BIOS ", 400),
        ('{"boot_mode": "bios"}', 400),
        ({"boot_mode": "bios"}, 400),
        ("boot_mode:uefi", 200),
        ("boot_mode", 200),
        ('{"a":' + "[" * 100_000, 200),
    ],
)
def test_nodes_do_not_get_a_forbidden_boot_mode(
    api: Client, conf: cfg.ConfigOpts, add_node: AddNode, capabilities: Any, status: int
) -> None:
    conf.set_override("disallowed_enrollment_boot_modes", ["bios"], "api")
    body = {"driver": "fake-hardware", "properties": {"capabilities": capabilities}}
    path = f"/v1/nodes/{add_node()['uuid']}"
    answers = (
        api.post("/v1/nodes", body),
        api.patch(path, add("/properties/capabilities", capabilities)),
        api.patch(f"/v1/nodes/{add_node()['uuid']}", replace("/properties", body["properties"])),
    )
    assert [one.status for one in answers] == [201 if status == 200 else 400, status, status]
    if status == 400:
        said = "properties/capabilities: boot_mode bios is not allowed by [api]disallowed_enroll"
        assert all(said in one.text for one in answers)
        assert api.get(path).json["properties"] == {}


def test_node_keeps_its_boot_mode_when_that_is_forbidden(
    api: Client, conf: cfg.ConfigOpts, add_node: AddNode
) -> None:
    conf.set_override("disallowed_enrollment_boot_modes", ["bios"], "api")
    path = f"/v1/nodes/{add_node(properties={'capabilities': 'boot_mode:bios'})['uuid']}"
    assert api.patch(path, add("/properties/cpus", 4)).status == 200


def test_patch_without_a_change_writes_nothing(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    node = add_node(name="still", extra={"a": 1})
    for patch in ([], replace("/extra/a", 1), replace("/name", "still")):
        assert api.patch("/v1/nodes/still", patch).status == 200
    assert database.read(lambda conn: nodes.get(conn, "still")) == node


def test_the_conductor_is_asked_only_about_what_it_knows(
    api: Client, add_node: AddNode, recorder: Recorder
) -> None:
    node = add_node(power_interface="fake", driver_info={"a": 1})
    path = f"/v1/nodes/{node['uuid']}"
    api.patch(path, add("/properties/cpus", 4))
    assert recorder.calls == []
    api.patch(path, replace("/driver_info/a", 2))
    ((method, asked),) = recorder.calls
    assert method == "check_node"
    assert asked["driver_info"] == {"a": 2}
    assert asked["interfaces"]["power"] == "fake"


def test_a_new_driver_may_bring_new_interfaces(
    api: Client, add_node: AddNode, recorder: Recorder
) -> None:
    node = add_node(power_interface="steam", deploy_interface="fake")
    path = f"/v1/nodes/{node['uuid']}"
    patch = replace("/driver", "redfish")
    assert api.patch(path, patch).json["power_interface"] == "steam"
    patch = replace("/driver", "fake-hardware") + replace("/boot_interface", "pxe")
    shown = api.patch(f"{path}?reset_interfaces=True", patch).json
    assert (shown["power_interface"], shown["boot_interface"]) == ("fake", "pxe")
    assert recorder.calls[-1][1]["interfaces"]["power"] is None


def test_reset_interfaces_needs_a_new_driver_and_1_45(api: Client, add_node: AddNode) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}?reset_interfaces=true"
    assert api.patch(path, add("/extra/a", 1)).status == 400
    assert api.at(44).patch(path, replace("/driver", "redfish")).status == 406
    assert api.patch(path.replace("true", "perhaps"), replace("/driver", "redfish")).status == 400


def test_a_refused_interface_changes_nothing(
    api: Client, add_node: AddNode, recorder: Recorder, database: session.Database
) -> None:
    node = add_node()
    recorder.answers["check_node"] = errors.InvalidParameter(path="driver_info/x", reason="no")
    answer = api.patch(f"/v1/nodes/{node['uuid']}", replace("/driver_info", {"x": 1}))
    assert (answer.status, answer.text) == (400, "driver_info/x: no")
    assert database.read(lambda conn: nodes.get(conn, node["uuid"])) == node


def test_a_locked_node_is_left_alone(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    node = add_node(name="busy", reservation="other-host")
    for answer in (
        api.patch("/v1/nodes/busy", add("/extra/a", 1)),
        api.put("/v1/nodes/busy/maintenance", {"reason": "r"}),
        api.patch("/v1/nodes/busy", replace("/retired", True)),
    ):
        assert answer.status == 409
        assert "other-host" in answer.text
    assert database.read(lambda conn: nodes.get(conn, "busy")) == node


class Others:
    """They change a node while the API asks a conductor about it, so many times."""

    def __init__(self, database: session.Database, node: str, times: int) -> None:
        self.times = times
        self._database = database
        self._node = node

    def __call__(self, **_: Any) -> dict[str, str]:
        """Take the place of the conductor's ``check_node``."""
        if self.times:
            self.times -= 1
            self._database.write(self._change)
        return {}

    def _change(self, conn: session.Connection) -> None:
        row = nodes.get(conn, self._node, ("extra", "generation"))
        extra = {**(row["extra"] or {}), f"theirs-{self.times}": self.times}
        nodes.edit(conn, self._node, {"extra": extra}, generation=row["generation"])


def test_of_two_changes_at_once_none_is_lost(
    api: Client, add_node: AddNode, recorder: Recorder, database: session.Database
) -> None:
    node = add_node()
    recorder.answers["check_node"] = Others(database, node["uuid"], 2)
    patch = [*add("/driver_info/a", 1), *add("/extra/ours", True)]
    answer = api.patch(f"/v1/nodes/{node['uuid']}", patch)
    assert answer.status == 200
    assert answer.json["extra"] == {"theirs-1": 1, "theirs-0": 0, "ours": True}
    assert answer.json == api.get(f"/v1/nodes/{node['uuid']}").json
    told = database.read(lambda conn: events.page(conn, node_uuid=node["uuid"]))
    assert len(told) == 1, "what has been tried, and not done, is told nowhere"


def test_patch_that_is_overtaken_again_and_again_is_refused(
    api: Client, add_node: AddNode, recorder: Recorder, database: session.Database
) -> None:
    node = add_node()
    recorder.answers["check_node"] = Others(database, node["uuid"], 1000)
    answer = api.patch(f"/v1/nodes/{node['uuid']}", add("/driver_info/a", 1))
    assert answer.status == 409
    assert "changed meanwhile" in answer.text
    assert "retry" in answer.text
    assert api.get(f"/v1/nodes/{node['uuid']}").json["driver_info"] == {}


# -- a change that is bound to what its caller has read (RFC 9110, 13.1.1) -------------------


def test_the_tag_of_a_node_counts_its_changes(api: Client, add_node: AddNode) -> None:
    made = api.post("/v1/nodes", {"driver": "fake-hardware", "name": "rack1"})
    tags = [made.headers["etag"], api.get("/v1/nodes/rack1").headers["etag"]]
    tags.append(api.patch("/v1/nodes/rack1", add("/extra/a", 1)).headers["etag"])
    tags.append(api.patch("/v1/nodes/rack1", add("/extra/a", 1)).headers["etag"])
    api.put("/v1/nodes/rack1/traits/CUSTOM_A")
    tags.append(api.get("/v1/nodes/rack1?fields=name").headers["etag"])
    assert tags == ['"0"', '"0"', '"1"', '"1"', '"2"']


@pytest.mark.parametrize("wanted", ['"0"', "*", '"7", "0"'])
def test_a_change_of_what_was_read_is_made(api: Client, add_node: AddNode, wanted: str) -> None:
    add_node(name="rack1")
    answer = api.patch("/v1/nodes/rack1", add("/extra/a", 1), headers={"If-Match": wanted})
    assert (answer.status, answer.headers["etag"]) == (200, '"1"')


@pytest.mark.parametrize("wanted", ['"0"', 'W/"1"', "1", "nonsense"])
def test_a_change_of_what_is_no_more_changes_nothing(
    api: Client, add_node: AddNode, recorder: Recorder, database: session.Database, wanted: str
) -> None:
    add_node(name="rack1", generation=1)
    before = database.read(lambda conn: nodes.get(conn, "rack1", with_traits=True))
    headers = {"If-Match": wanted}
    for method, path, body in (
        ("PATCH", "", add("/extra/a", 1)),
        ("DELETE", "", None),
        ("PUT", "/states/provision", {"target": "manage"}),
        ("PUT", "/states/power", {"target": "power on"}),
        ("PUT", "/maintenance", {"reason": "broken"}),
        ("PUT", "/traits/CUSTOM_A", None),
    ):
        answer = api.request(method, f"/v1/nodes/rack1{path}", body, headers=headers)
        assert answer.status == 412, path
        assert 'its ETag is "1" now' in answer.text
    assert recorder.calls == []
    assert database.read(lambda conn: nodes.get(conn, "rack1", with_traits=True)) == before


@pytest.mark.parametrize("wanted", ["", " ", ","])
def test_condition_without_a_tag_is_refused(api: Client, add_node: AddNode, wanted: str) -> None:
    add_node(name="rack1")
    answer = api.patch("/v1/nodes/rack1", add("/extra/a", 1), headers={"If-Match": wanted})
    assert (answer.status, "If-Match: names no entity tag" in answer.text) == (400, True)
    assert api.get("/v1/nodes/rack1").json["extra"] == {}


def test_etag_and_change_are_checked_in_one_write(
    api: Client, add_node: AddNode, recorder: Recorder, database: session.Database
) -> None:
    node = add_node()
    recorder.answers["check_node"] = Others(database, node["uuid"], 1)
    patch, headers = add("/driver_info/a", 1), {"If-Match": '"0"'}
    assert api.patch(f"/v1/nodes/{node['uuid']}", patch, headers=headers).status == 412
    assert api.get(f"/v1/nodes/{node['uuid']}").json["driver_info"] == {}


def test_a_node_on_its_way_is_left_alone_but_may_be_retired(api: Client, add_node: AddNode) -> None:
    add_node(name="going", provision_state="clean wait", target_provision_state="available")
    assert api.patch("/v1/nodes/going", add("/extra/a", 1)).status == 409
    assert api.patch("/v1/nodes/going", replace("/retired", True)).status == 200  # S4.4


def test_references_are_checked(api: Client, add_node: AddNode) -> None:
    add_node(name="child")
    parent = add_node(name="parent")
    nobody = "00000000-0000-4000-8000-00000000dead"
    assert api.patch("/v1/nodes/child", replace("/chassis_uuid", nobody)).status == 400
    assert api.patch("/v1/nodes/child", replace("/parent_node", nobody)).status == 400
    shown = api.patch("/v1/nodes/child", replace("/parent_node", "parent")).json
    assert shown["parent_node"] == parent["uuid"]
    assert api.patch("/v1/nodes/child", replace("/conductor_group", "mars")).status == 400
    assert api.patch("/v1/nodes/child", replace("/name", "parent")).status == 409


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_ring_of_parents_is_refused(api: Client, add_node: AddNode, size: int) -> None:
    names = [f"node-{n}" for n in range(size)]
    for name, parent in zip(names, [None, *names], strict=False):
        add_node(name=name)
        if parent is not None:
            assert api.patch(f"/v1/nodes/{name}", replace("/parent_node", parent)).status == 200
    before = api.get("/v1/nodes/node-0").json
    for ident in (names[-1], api.get(f"/v1/nodes/{names[-1]}").json["uuid"].upper()):
        refused = api.patch("/v1/nodes/node-0", replace("/parent_node", ident))
        assert (refused.status, "parent_node" in refused.text) == (400, True)
    assert api.get("/v1/nodes/node-0").json == before
    add_node(name="top")
    assert api.patch("/v1/nodes/node-0", replace("/parent_node", "top")).status == 200


@pytest.mark.parametrize("size", ["large", "", "-1", -1, "4.0", [], {}])
@pytest.mark.parametrize("name", ["local_gb", "memory_mb"])
def test_sizes_are_numbers(api: Client, add_node: AddNode, name: str, size: Any) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}"
    answer = api.patch(path, add(f"/properties/{name}", size))
    assert (answer.status, f"properties/{name}" in answer.text) == (400, True)
    assert api.get(path).json["properties"] == {}


@pytest.mark.parametrize("size", [0, 40, "40", 40.5, None])
def test_a_size_may_be_digits_or_unknown(api: Client, add_node: AddNode, size: Any) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}"
    answer = api.patch(path, add("/properties/local_gb", size))
    assert answer.json["properties"] == {"local_gb": size}


@pytest.mark.parametrize("body", [None, {}, "text", 5, [[]], [{"op": "test", "path": "/name"}]])
def test_invalid_patch_is_400(api: Client, add_node: AddNode, body: Any) -> None:
    assert api.request("PATCH", f"/v1/nodes/{add_node()['uuid']}", body).status == 400


# -- maintenance -----------------------------------------------------------------------------


def test_maintenance_begins_and_ends(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    node = add_node(name="sick", fault="clean failure")
    answer = api.put("/v1/nodes/sick/maintenance", {"reason": "broken fan"})
    assert (answer.status, answer.body, "location" in answer.headers) == (202, b"", False)
    shown = api.get("/v1/nodes/sick").json
    assert (shown["maintenance"], shown["maintenance_reason"]) == (True, "broken fan")
    assert shown["fault"] == "clean failure"
    assert api.put("/v1/nodes/sick/maintenance").status == 202
    assert api.get("/v1/nodes/sick").json["maintenance_reason"] is None
    assert api.delete("/v1/nodes/sick/maintenance").status == 202
    shown = api.get("/v1/nodes/sick").json
    assert (shown["maintenance"], shown["maintenance_reason"]) == (False, None)
    assert shown["fault"] is None
    told = database.read(lambda conn: events.page(conn, node_uuid=node["uuid"]))
    assert [(row["data"] or {})["fields"] for row in told] == [
        ["maintenance", "maintenance_reason"],
        ["maintenance_reason"],
        ["fault", "maintenance"],
    ]


def test_maintenance_checks_its_body(api: Client, add_node: AddNode) -> None:
    add_node(name="sick")
    assert api.put("/v1/nodes/sick/maintenance", {"reason": 5}).status == 400
    assert api.put("/v1/nodes/sick/maintenance", {"because": "x"}).status == 400
    assert api.put("/v1/nodes/sick/maintenance", ["x"]).status == 400
    assert api.put("/v1/nodes/nobody/maintenance").status == 404


def test_a_node_without_a_name_can_lose_its_parent(api: Client, add_node: AddNode) -> None:
    parent = add_node()
    node = add_node(parent_node=parent["uuid"])
    path = f"/v1/nodes/{node['uuid']}"
    assert api.patch(path, [{"op": "remove", "path": "/parent_node"}]).status == 200
    assert api.get(path).json["parent_node"] is None
    assert api.patch(path, replace("/parent_node", node["uuid"])).status == 400


def test_network_data_is_whole_or_empty(api: Client, add_node: AddNode) -> None:
    node = add_node()
    path = f"/v1/nodes/{node['uuid']}"
    whole: dict[str, Any] = {"links": [], "networks": [], "services": []}
    assert api.patch(path, replace("/network_data", whole)).json["network_data"] == whole
    refused = api.patch(path, replace("/network_data", {"links": []}))
    assert refused.status == 400
    assert "network_data/networks: is required" in refused.text
    large = replace("/network_data", {**whole, "more": "x" * 64 * 1024})
    refused = api.patch(path, large)
    assert (refused.status, "network_data: has" in refused.text) == (400, True)
    assert api.get(path).json["network_data"] == whole
    assert api.patch(path, replace("/network_data", {})).json["network_data"] == {}
