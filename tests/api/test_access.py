"""What callers of each kind may do, by Ironic's default rules and oslo.policy itself."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import middleware, policy
from ironic_lite.api.http import expose
from ironic_lite.api.policy import enforcement
from ironic_lite.core import clock, config
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes, ports
from ironic_lite.domain import fields
from tests.api.test_policy import _routes
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, As, Callers, Known
from tests.support.conductor_recorder import Recorder
from tests.support.resource_families import FAMILIES
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response

NOBODY, ELSE = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
RAID = {"interface": "raid", "step": "delete_configuration", "args": {}, "order": 1}


@pytest.fixture
def node(add_node: AddNode) -> dict[str, Any]:
    return add_node(
        name="theirs",
        owner=OWNER,
        lessee=LESSEE,
        last_error="conductor-7 said no",
        reservation=None,
        driver_info={"address": "10.0.0.1"},
        driver_internal_info={"agent_url": "http://10.0.0.2"},
        instance_info={"a": "b"},
        provision_state="manageable",
    )


# -- who sees what ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "project", "status"),
    [
        ("reader", None, 200),
        ("service", None, 200),
        ("reader", OWNER, 200),
        ("reader", LESSEE, 200),
        ("service", OWNER, 200),
        ("service", LESSEE, 404),
        ("admin", STRANGER, 404),
        ("reader", STRANGER, 404),
    ],
)
@pytest.mark.parametrize("by", ["uuid", "name"])
def test_a_node_of_others_is_not_there(  # noqa: PLR0917  # the facts of a row
    callers: Callers, node: dict[str, Any], role: str, project: str | None, status: int, by: str
) -> None:
    api = callers(role, project)
    answer = api.get(f"/v1/nodes/{node[by]}")
    assert answer.status == status
    if status == 404:
        other = str(uuid.uuid4()) if by == "uuid" else "none"
        missing = api.get(f"/v1/nodes/{other}")
        assert answer.text == missing.text.replace(other, node[by])
    else:
        assert answer.json["uuid"] == node["uuid"]


def test_system_reader_sees_nodes_without_an_owner(callers: Callers, add_node: AddNode) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}"
    assert callers("reader").get(path).status == 200
    assert callers("admin", OWNER).get(path).status == 404


@pytest.mark.parametrize(
    ("role", "project", "names"),
    [
        ("reader", None, {"theirs", "leased", "free"}),
        ("reader", OWNER, {"theirs"}),
        ("admin", LESSEE, {"theirs", "leased"}),
        ("reader", STRANGER, set()),
    ],
)
@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/detail", "/v1/nodes?fields=name"])
def test_lists_hold_what_the_caller_may_see(  # noqa: PLR0917  # the facts of a row
    callers: Callers,
    add_node: AddNode,
    node: dict[str, Any],
    role: str,
    project: str | None,
    names: set[str],
    path: str,
) -> None:
    add_node(name="leased", lessee=LESSEE)
    add_node(name="free")
    answer = callers(role, project).get(path)
    assert answer.status == 200
    assert {each["name"] for each in answer.json["nodes"]} == names


@pytest.mark.parametrize("kind", ["nodes", "ports", "portgroups", "volume/targets", "runbooks"])
def test_caller_without_a_right_to_list_gets_403_before_other_errors(
    callers: Callers, kind: str
) -> None:
    nobody = As(callers.application, {"X-Roles": "", "X-Project-Id": OWNER})
    for query in ("", "?limit=-1", "?fields=none", "?sort_key=none", f"?marker={NOBODY}"):
        assert nobody.get(f"/v1/{kind}{query}").status == 403
    assert callers("reader", OWNER).get(f"/v1/{kind}?limit=-1").status == 400


def test_a_name_of_others_that_ends_like_a_file_hides_none(
    callers: Callers, add_node: AddNode
) -> None:
    add_node(name="rack1.json", owner=STRANGER)
    mine = add_node(name="rack1", owner=OWNER)
    answer = callers("reader", OWNER).at(90).get("/v1/nodes/rack1.json")
    assert (answer.status, answer.json.get("uuid")) == (200, mine["uuid"])
    assert callers("reader").at(90).get("/v1/nodes/rack1.json").json["name"] == "rack1.json"


def test_a_list_cannot_be_asked_for_another_project(callers: Callers, node: dict[str, Any]) -> None:
    assert callers("admin", STRANGER).get(f"/v1/nodes?project={OWNER}").status == 403
    assert callers("admin", STRANGER).get(f"/v1/nodes?owner={OWNER}").json["nodes"] == []
    assert len(callers("reader").get(f"/v1/nodes?project={OWNER}").json["nodes"]) == 1


def test_pages_of_a_narrowed_list_go_on(callers: Callers, add_node: AddNode) -> None:
    for place in range(6):
        add_node(name=f"n{place}", owner=OWNER if place % 2 else STRANGER)
    api, found = callers("reader", OWNER), []
    link: str | None = "/v1/nodes?limit=1"
    while link:
        answer = api.get(link).json
        found += [each["name"] for each in answer["nodes"]]
        link = answer.get("next", "").partition("//")[2].partition("/")[2]
        link = f"/{link}" if link else None
    assert found == ["n1", "n3", "n5"]


_KINDS = {
    "nodes": {"driver": "fake-hardware"},
    **{
        FAMILIES[kind].path: FAMILIES[kind].values(0)
        for kind in ("port", "portgroup", "target", "allocation", "runbook")
    },
}


@pytest.mark.parametrize("sort", ["", "&sort_key=uuid", "&sort_dir=desc"])
@pytest.mark.parametrize("kind", list(_KINDS))
def test_row_of_another_project_is_an_unknown_marker(
    callers: Callers, add_node: AddNode, kind: str, sort: str
) -> None:
    """Nor are what comes after it, and that nothing does, told apart from an unknown UUID."""
    about = {"resource_class": "big", "instance_uuid": NOBODY, "provision_state": "active"}
    node = add_node(owner=OWNER, maintenance=True, **about)["uuid"]
    owned = {"allocations": {"owner": OWNER, "node": node}}
    owned |= {name: {"owner": OWNER} for name in ("nodes", "runbooks")}
    body = {**owned.get(kind, {"node_uuid": node}), **_KINDS[kind]}
    made = callers("admin").post(f"/v1/{kind}", body)
    assert made.status == 201, made.text
    marker = made.json["uuid"]

    stranger = callers("admin", STRANGER)
    for more in (f"marker={marker}{sort}", f"marker={marker}{sort}&limit=1"):
        hidden = stranger.get(f"/v1/{kind}?{more}")
        none = stranger.get(f"/v1/{kind}?{more.replace(marker, ELSE)}")
        assert (hidden.status, none.status) == (404, 404)
        assert hidden.text == none.text.replace(ELSE, marker)
        for api in (callers("reader", OWNER), callers("reader")):
            assert api.get(f"/v1/{kind}?{more}").status == 200


# -- what of a node is hidden ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "project", "hidden"),
    [
        ("reader", None, False),
        ("reader", OWNER, False),
        ("admin", LESSEE, True),
        ("reader", LESSEE, True),
    ],
)
def test_lessees_do_not_see_what_is_behind_the_node(
    callers: Callers, node: dict[str, Any], role: str, project: str | None, hidden: bool
) -> None:
    api, place = callers(role, project), f"/v1/nodes/{node['uuid']}"
    documents = [
        api.get(place).json,
        api.get("/v1/nodes/detail").json["nodes"][0],
        api.get(f"{place}?fields=last_error,driver_info,driver_internal_info").json,
        api.at(30).get(place).json,
    ]
    for shown in documents:
        for name, whole in (
            ("last_error", "conductor-7 said no"),
            ("driver_info", {"address": "10.0.0.1"}),
            ("driver_internal_info", {"agent_url": "http://10.0.0.2"}),
        ):
            if hidden:
                assert f"baremetal:node:get:{name}" in str(shown[name])
                assert "10.0.0" not in str(shown[name])
            else:
                assert shown[name] == whole
    assert set(documents[2]) == {"last_error", "driver_info", "driver_internal_info", "links"}
    assert "owner" not in documents[3]
    states = api.get(f"{place}/states").json
    assert (states["last_error"] == "conductor-7 said no") is not hidden
    assert "owner" not in states


def test_lock_holder_is_hidden_from_lessees(callers: Callers, add_node: AddNode) -> None:
    held = add_node(owner=OWNER, lessee=LESSEE, reservation="conductor-7")
    shown = callers("reader", LESSEE).get(f"/v1/nodes/{held['uuid']}").json
    assert "conductor-7" not in str(shown["reservation"])
    assert (
        callers("reader", OWNER).get(f"/v1/nodes/{held['uuid']}").json["reservation"]
        == "conductor-7"
    )


# -- what they may change --------------------------------------------------------------------

ROLES = {
    "admin": ("admin", None),
    "member": ("member", None),
    "reader": ("reader", None),
    "owner-admin": ("admin", OWNER),
    "owner-member": ("member", OWNER),
    "owner-reader": ("reader", OWNER),
    "lessee-admin": ("admin", LESSEE),
    "lessee-member": ("member", LESSEE),
    "lessee-reader": ("reader", LESSEE),
}
SYSTEM_MEMBERS = {"admin", "member"}
OWNERS = {"owner-admin", "owner-member"}


FIELDS: list[tuple[str, Any, set[str]]] = [
    ("/extra/x", 1, SYSTEM_MEMBERS | OWNERS | {"lessee-admin", "lessee-member"}),
    ("/description", "d", SYSTEM_MEMBERS | OWNERS | {"lessee-admin", "lessee-member"}),
    ("/instance_info/x", 1, SYSTEM_MEMBERS | OWNERS | {"lessee-admin"}),
    ("/instance_name", "x", SYSTEM_MEMBERS | OWNERS | {"lessee-admin"}),
    ("/driver_info/x", 1, SYSTEM_MEMBERS | OWNERS),
    ("/name", "other", SYSTEM_MEMBERS | OWNERS),
    ("/lessee", "x", SYSTEM_MEMBERS | OWNERS),
    ("/retired", True, SYSTEM_MEMBERS | OWNERS),
    ("/retired_reason", None, SYSTEM_MEMBERS | OWNERS),
    ("/network_data", {}, SYSTEM_MEMBERS | OWNERS),
    ("/power_interface", "fake", SYSTEM_MEMBERS | {"owner-admin"}),
    ("/driver", "redfish", SYSTEM_MEMBERS | {"owner-admin"}),
    ("/owner", "x", SYSTEM_MEMBERS),
    ("/conductor_group", "", SYSTEM_MEMBERS),
    ("/shard", "x", {"admin"}),
    ("/disable_power_off", True, {"admin"}),
    ("/automated_clean", False, {"admin"}),
    ("/automated_clean", "False", {"admin"}),
    ("/automated_clean", True, SYSTEM_MEMBERS | OWNERS | {"lessee-admin", "lessee-member"}),
    ("/maintenance", True, SYSTEM_MEMBERS | OWNERS | {"lessee-admin"}),
    ("/maintenance", "false", SYSTEM_MEMBERS | OWNERS | {"lessee-admin"}),
]


def test_each_field_has_its_rule(callers: Callers, add_node: AddNode) -> None:
    wrong = []
    for path, value, may in FIELDS:
        did = set()
        for name, (role, project) in ROLES.items():
            row = add_node(owner=OWNER, lessee=LESSEE)
            patch = [{"op": "add", "path": path, "value": name if path == "/name" else value}]
            status = callers(role, project).patch(f"/v1/nodes/{row['uuid']}", patch).status
            assert status in {200, 403}
            did |= {name} if status == 200 else set()
        wrong += [(path, value, did)] if did != may else []
    assert not wrong


SAMPLES: dict[str, Any] = {
    "automated_clean": False,
    "boot_mode": "uefi",
    "chassis_uuid": NOBODY,
    "console_enabled": True,
    "disable_power_off": True,
    "instance_uuid": NOBODY,
    "maintenance": True,
    "network_data": {"links": [], "networks": [], "services": []},
    "protected": True,
    "retired": True,
    "secure_boot": True,
}
ROUTES: dict[str, tuple[str, Any]] = {
    "maintenance": ("maintenance", {}),
    "boot_mode": ("states/boot_mode", {"target": "uefi"}),
    "secure_boot": ("states/secure_boot", {"target": True}),
    "console_enabled": ("states/console", {"enabled": True}),
}
"""Fields with a route of their own -> its path below the node, and its body."""
COVERED = {"uuid", "driver", "owner"}
"""Fields that the right to enroll a node covers."""


def _sample(field: fields.Field) -> Any:
    if field.name in SAMPLES:
        return SAMPLES[field.name]
    if field.name.endswith("_interface"):
        return "fake"
    return {"x": 1} if field.type is fields.Type.OBJECT else "x"


@pytest.mark.parametrize("name", ["owner-admin", "lessee-admin", "lessee-member"])
def test_field_has_one_rule_on_every_route(callers: Callers, add_node: AddNode, name: str) -> None:
    role, project = ROLES[name]
    caller, enrolls = callers(role, project), name == "owner-admin"
    wrong = []
    for field in fields.NODE:
        if not (field.creatable or field.patchable) or field.name in COVERED:
            continue
        value, found = _sample(field), {}
        row = add_node(owner=OWNER, lessee=LESSEE, provision_state="manageable")
        path = f"/v1/nodes/{row['uuid']}"
        if field.patchable:
            patch = [{"op": "add", "path": f"/{field.name}", "value": value}]
            found["PATCH"] = caller.patch(path, patch)
        if field.creatable and enrolls:
            body = {"driver": "fake-hardware", "lessee": LESSEE, field.name: value}
            found["POST"] = caller.post("/v1/nodes", body)
        if field.name in ROUTES:
            below, asked = ROUTES[field.name]
            found["PUT"] = caller.put(f"{path}/{below}", asked)
        refused = {method: answer.status == 403 for method, answer in found.items()}
        wrong += [(field.name, refused)] if len(set(refused.values())) > 1 else []
    assert not wrong


def test_one_field_too_many_is_refused_whole(
    callers: Callers, node: dict[str, Any], database: session.Database
) -> None:
    patch = [
        {"op": "add", "path": "/extra/x", "value": 1},
        {"op": "replace", "path": "/owner", "value": LESSEE},
    ]
    answer = callers("admin", LESSEE).patch(f"/v1/nodes/{node['uuid']}", patch)
    assert answer.status == 403
    assert "baremetal:node:update:owner" in answer.text
    assert database.read(lambda conn: nodes.get(conn, node["uuid"])) == node


def test_an_active_node_keeps_its_owner(callers: Callers, add_node: AddNode) -> None:
    row = add_node(owner=OWNER, provision_state="active")
    patch = [{"op": "replace", "path": "/owner", "value": STRANGER}]
    assert callers("member").patch(f"/v1/nodes/{row['uuid']}", patch).status == 409
    assert callers("admin").patch(f"/v1/nodes/{row['uuid']}", patch).status == 200


@pytest.mark.parametrize(
    "patch", [{}, None, [1], [{"op": "add"}], [{"path": 7}], [{"path": "x"}]], ids=repr
)
def test_strangers_learn_nothing_from_a_malformed_patch(
    callers: Callers, node: dict[str, Any], patch: Any
) -> None:
    path = f"/v1/nodes/{node['uuid']}"
    absent = f"/v1/nodes/{NOBODY}"
    for caller in (callers("admin", STRANGER), callers("reader", LESSEE)):
        # As in Ironic, the form of a patch is checked before its node is looked for.
        assert caller.patch(path, patch).status == 400
        assert caller.patch(path, patch).body == caller.patch(absent, patch).body


MALFORMED: list[tuple[str, str, Any]] = [
    ("PUT", "states/boot_mode", {"target": "steam"}),
    ("PUT", "states/power", {"target": "sideways"}),
    ("PUT", "states/provision", {"target": "nowhere"}),
]


@pytest.mark.parametrize(("method", "path", "body"), MALFORMED, ids=repr)
def test_rights_are_checked_before_a_body(
    callers: Callers, node: dict[str, Any], method: str, path: str, body: Any
) -> None:
    where = f"/v1/nodes/{node['uuid']}/{path}"
    assert callers("admin", STRANGER).request(method, where, body).status == 404
    assert callers("reader", LESSEE).request(method, where, body).status == 403
    assert callers("admin").request(method, where, body).status == 400


MISTYPED: list[tuple[str, str, Any]] = [
    ("PUT", "maintenance", {"nonsense": 1}),
    ("PUT", "states/raid", [1]),
    ("PUT", "states/boot_mode", {}),
    ("PUT", "states/secure_boot", {"target": "perhaps"}),
]


@pytest.mark.parametrize(("method", "path", "body"), MISTYPED, ids=repr)
def test_arguments_are_read_before_rights_are_checked(
    callers: Callers, node: dict[str, Any], method: str, path: str, body: Any
) -> None:
    for caller in (callers("admin", STRANGER), callers("reader", LESSEE), callers("admin")):
        found = caller.request(method, f"/v1/nodes/{node['uuid']}/{path}", body)
        absent = caller.request(method, f"/v1/nodes/{NOBODY}/{path}", body)
        assert (found.status, absent.status) == (400, 400)
        assert found.body == absent.body


# -- enrolling and forgetting ----------------------------------------------------------------


def test_project_that_enrolls_a_node_owns_it(callers: Callers, conf: cfg.ConfigOpts) -> None:
    body = {"driver": "fake-hardware"}
    mine = callers("admin", OWNER).post("/v1/nodes", body)
    assert (mine.status, mine.json["owner"]) == (201, OWNER)
    other = callers("admin", OWNER).post("/v1/nodes", {**body, "owner": STRANGER})
    assert other.status == 400
    assert callers("member", OWNER).post("/v1/nodes", body).status == 403
    assert callers("member").post("/v1/nodes", body).status == 403
    system = callers("admin").post("/v1/nodes", {**body, "owner": STRANGER})
    assert (system.status, system.json["owner"]) == (201, STRANGER)

    conf.set_override("project_admin_can_manage_own_nodes", False, "api")
    assert callers("admin", OWNER).post("/v1/nodes", body).status == 403
    assert callers("admin").post("/v1/nodes", body).status == 201


def test_forgetting(callers: Callers, node: dict[str, Any], conf: cfg.ConfigOpts) -> None:
    path = f"/v1/nodes/{node['uuid']}"
    assert callers("admin", STRANGER).delete(path).status == 404
    for role, project in (("admin", LESSEE), ("member", OWNER), ("member", None)):
        assert callers(role, project).delete(path).status == 403
    assert callers("admin", OWNER).delete(path).status == 204
    conf.set_override("project_admin_can_manage_own_nodes", False, "api")
    assert callers("admin", OWNER).delete(path).status == 403
    assert callers("admin").delete(path).status == 204


def test_a_parent_is_named_by_those_who_may_change_it_and_has_one_owner(
    callers: Callers, add_node: AddNode
) -> None:
    foreign, own = add_node(owner=STRANGER)["uuid"], add_node(owner=OWNER)["uuid"]
    body = {"driver": "fake-hardware", "owner": OWNER}
    project, system = callers("admin", OWNER), callers("admin")
    patched = [{"op": "add", "path": "/parent_node", "value": own}]
    refused = [project.post("/v1/nodes", {**body, "parent_node": p}) for p in (foreign, NOBODY)]
    refused.append(project.patch(f"/v1/nodes/{own}", patched))
    assert {answer.status for answer in refused} == {403}
    assert len({answer.text for answer in refused}) == 1
    for parent, status in ((foreign, 400), (NOBODY, 400), (own, 201)):
        assert system.post("/v1/nodes", {**body, "parent_node": parent}).status == status


def test_children_of_others_are_left_out(
    callers: Callers, add_node: AddNode, node: dict[str, Any]
) -> None:
    mine = add_node(parent_node=node["uuid"], lessee=LESSEE)["uuid"]
    other = add_node(parent_node=node["uuid"], owner=OWNER)["uuid"]
    path = f"/v1/nodes/{node['uuid']}/children"
    assert callers("reader", LESSEE).get(path).json["children"] == [mine]
    assert callers("reader", OWNER).get(path).json["children"] == [other]
    assert callers("reader").get(path).json["children"] == [mine, other]
    assert callers("reader", STRANGER).get(path).status == 404


# -- what hangs below ------------------------------------------------------------------------


@pytest.fixture
def port(database: session.Database, node: dict[str, Any]) -> dict[str, Any]:
    row = {
        "uuid": str(uuid.uuid4()),
        "node_uuid": node["uuid"],
        "address": "52:54:00:00:00:01",
        "created_at": clock.now(),
    }
    database.write(lambda conn: ports.insert(conn, row))
    return row


def test_ports_follow_their_node(callers: Callers, port: dict[str, Any], add_node: AddNode) -> None:
    path = f"/v1/ports/{port['uuid']}"
    stranger, lessee, owner = (callers("admin", each) for each in (STRANGER, LESSEE, OWNER))
    for refused in (
        stranger.get(path),
        stranger.get(f"/v1/nodes/{port['node_uuid']}/ports"),
        stranger.get(f"/v1/ports?node={port['node_uuid']}"),
        stranger.patch(path, [{"op": "add", "path": "/extra/x", "value": 1}]),
        stranger.delete(path),
    ):
        assert refused.status == 404
    for place in ("/v1/ports", "/v1/ports/detail", f"/v1/ports?address={port['address']}"):
        assert stranger.get(place).json["ports"] == []
        assert len(lessee.get(place).json["ports"]) == 1
    assert lessee.get(path).status == 200
    assert lessee.patch(path, [{"op": "add", "path": "/extra/x", "value": 1}]).status == 403
    assert lessee.delete(path).status == 403
    assert owner.patch(path, [{"op": "add", "path": "/extra/x", "value": 1}]).status == 200
    mine = add_node(owner=STRANGER)["uuid"]
    moved = [{"op": "replace", "path": "/node_uuid", "value": mine}]
    assert owner.patch(path, moved).status == 400
    assert owner.delete(path).status == 204


_NAMED: dict[str, dict[str, Any]] = {
    "ports": {"address": "52:54:00:00:00:08"},
    "portgroups": {},
    "allocations": {"resource_class": "big", "owner": OWNER, "node": "theirs"},
    "runbooks": {"owner": OWNER, "steps": [RAID]},
}


@pytest.mark.parametrize("family", list(_NAMED))
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_caller_does_not_learn_that_a_foreign_name_exists(
    callers: Callers, add_node: AddNode, family: str, method: str
) -> None:
    about = {"owner": OWNER, "resource_class": "big", "instance_uuid": NOBODY}
    where = add_node(name="theirs", provision_state="active", maintenance=True, **about)["uuid"]
    body = {"name": "secret", **_NAMED[family]}
    if family.startswith("port"):
        body["node_uuid"] = where
    made = callers("admin").post(f"/v1/{family}", body)
    assert made.status == 201, made.text
    patch = [{"op": "add", "path": "/extra/x", "value": 1}] if method == "PATCH" else None
    stranger = callers("admin", STRANGER)
    hidden, none = (
        stranger.request(method, f"/v1/{family}/{name}", patch) for name in ("secret", "nobody")
    )
    status = 400 if (family, method) == ("ports", "DELETE") else 404  # ports go by their UUID
    assert (hidden.status, none.status) == (status, status)
    assert hidden.text == none.text.replace("nobody", "secret")
    assert callers("admin").get(f"/v1/{family}/secret").json["extra"] == {}


def test_ports_are_added_to_own_nodes(callers: Callers, node: dict[str, Any]) -> None:
    body = {"node_uuid": node["uuid"], "address": "52:54:00:00:00:09"}
    refused = callers("admin", STRANGER).post("/v1/ports", body)
    other = {**body, "node_uuid": NOBODY}
    missing = callers("admin", STRANGER).post("/v1/ports", other)
    assert refused.status == missing.status == 403
    assert refused.text == missing.text
    assert callers("member", OWNER).post("/v1/ports", body).status == 403
    assert callers("manager", OWNER).post("/v1/ports", body).status == 201


def test_portgroups_of_others_are_told_apart_from_none_by_nobody(
    callers: Callers, node: dict[str, Any], port: dict[str, Any], add_node: AddNode
) -> None:
    made = callers("admin").post("/v1/portgroups", {"node_uuid": add_node()["uuid"]})
    foreign, path = made.json["uuid"], f"/v1/ports/{port['uuid']}"
    body = {"node_uuid": node["uuid"], "address": "52:54:00:00:00:0c"}
    manager, answers = callers("manager", OWNER), []
    for group in (foreign, NOBODY):
        patch = [{"op": "add", "path": "/portgroup_uuid", "value": group}]
        asked = manager.post("/v1/ports", {**body, "portgroup_uuid": group})
        answers.append([asked, manager.patch(path, patch)])
    for hidden, none in zip(*answers, strict=True):
        assert (hidden.status, none.status) == (400, 400)
        assert hidden.text == none.text.replace(NOBODY, foreign)


@pytest.mark.parametrize(
    ("role", "project", "status"),
    [("member", OWNER, 202), ("member", LESSEE, 403), ("manager", LESSEE, 202)],
)
def test_verbs_are_for_owners_and_managers_of_the_lessee(  # noqa: PLR0917  # the facts of a row
    callers: Callers,
    recorder: Recorder,
    node: dict[str, Any],
    role: str,
    project: str,
    status: int,
) -> None:
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    body = {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
    assert callers(role, project).put(path, body).status == status
    assert len(recorder.calls) == (status == 202)


# -- all routes ------------------------------------------------------------------------------

_WORDS = {
    "{component}": "chassis",
    "{indicator}": "led",
    "{trait}": "CUSTOM_A",
    "{setting}": "BootMode",
    "{entry}": NOBODY,
    "{run}": "current",
    "{vif}": "a-vif",
    "{device_types}": "cdrom",
}
_BODIES: dict[tuple[str, str], Any] = {
    ("PUT", "/nodes/{ident}/states/provision"): {"target": "provide"},
    ("PUT", "/nodes/{ident}/states/power"): {"target": "power on"},
    ("PUT", "/nodes/{ident}/states/boot_mode"): {"target": "uefi"},
    ("PUT", "/nodes/{ident}/states/secure_boot"): {"target": True},
    ("PUT", "/nodes/{ident}/data_state"): {"data_state": "dirty", "reason": "r"},
    ("POST", "/nodes/{ident}/holds"): {"kind": "freeze", "reason": "r"},
    ("PUT", "/nodes/{ident}/runs/{run}/stop"): {"how": "hold"},
    ("PUT", "/nodes/{ident}/states/console"): {"enabled": True},
    ("PUT", "/nodes/states/console/{node_ident}"): {"enabled": True},
    ("PUT", "/nodes/{ident}/management/boot_device"): {"boot_device": "pxe"},
    ("PUT", "/nodes/management/boot_device/{node_ident}"): {"boot_device": "pxe"},
    ("PUT", "/nodes/{ident}/traits"): {"traits": ["CUSTOM_A"]},
    ("PUT", "/nodes/{ident}/traits/{trait}"): None,
    ("PUT", "/runbooks/{ident}/traits"): {"traits": ["CUSTOM_A"]},
    ("PUT", "/runbooks/{ident}/traits/{trait}"): None,
    ("POST", "/nodes/{ident}/vifs"): {"id": "a-vif"},
    ("POST", "/deploy_templates"): {
        "name": "CUSTOM_A",
        "steps": [{"interface": "bios", "step": "reset", "args": {}, "priority": 1}],
    },
    ("POST", "/inspection_rules"): {
        "actions": [{"op": "set-attribute", "args": {"path": "/extra/x", "value": 1}}]
    },
    ("POST", "/events"): {
        "events": [
            {
                "event": "network.bind_port",
                "port_id": NOBODY,
                "mac_address": "52:54:00:00:00:07",
                "status": "ACTIVE",
            }
        ]
    },
    ("POST", "/nodes/{ident}/vmedia"): {"device_type": "cdrom", "image_url": "http://x/y"},
}


_THEIR_OWN = {("POST", "/nodes"), ("POST", "/allocations"), ("POST", "/runbooks")}
_THEIR_OWN |= {("POST", "/batches")}
"""What anybody may add, who then owns it."""

_BELONGINGS = {
    f"/{family.path}": family.values(7) for family in FAMILIES.values() if family.of_node
}


def _ask(api: Client, route: expose.Route, ident: str, node: str) -> Response:
    place = route.path.replace("{ident}", ident)
    if place.endswith("indicators/{component}") and route.method == "PUT":
        place = place.replace("{component}", "led@chassis")
    for word, value in _WORDS.items():
        place = place.replace(word, value)
    queries = {"/nodes/validate": f"?node={ident}", "/stats/nodes": "?by=provision_state"}
    queries["/search"] = "?q=ab"
    query = queries.get(route.path, "")
    place = place.replace("{node_ident}", ident)
    if any(name == "node_ident" for name, _, _ in route.arguments):
        query = f"?node_ident={ident}"
    if place.endswith("vendor_passthru"):
        query = "?method=x"
    body: Any = {} if route.method in {"POST", "PUT", "PATCH"} else None
    if route.method == "PATCH" and "vendor_passthru" not in route.path:
        body = [{"op": "add", "path": "/extra/x", "value": 1}]
    if route.path in _BELONGINGS and body is not None:
        body = {"node_uuid": node, **_BELONGINGS[route.path]}
    if "indicators" in route.path and body is not None:
        body = {"state": "on"}
    body = _BODIES.get((route.method, route.path), body)
    return api.request(route.method, f"/v1{place}{query}", body)


def _fault(rule: policy.Rule, route: expose.Route, answer: Response) -> bool:
    """Tell whether this is not what a stranger has to be answered."""
    if (route.method, route.path) in _THEIR_OWN:
        return answer.status != 400  # the body is empty
    if route.method == "POST" and route.path in _BELONGINGS:
        return answer.status != 403
    if route.path.endswith("/volume"):
        return answer.status != 403  # no project's
    if (route.method, route.path) == ("GET", "/nodes/{ident}/allocation"):
        return answer.status != 400 or "could not be found" not in answer.text
    if rule.lists and "{" not in route.path:
        return answer.status != 200 or [] not in answer.json.values()
    about_the_caller = rule.name == "baremetal:whoami:get"
    return answer.status not in ({200} if about_the_caller else {403, 404})


def test_no_route_tells_or_does_anything_for_a_stranger(
    callers: Callers, recorder: Recorder, database: session.Database, port: dict[str, Any]
) -> None:
    node, api, wrong = port["node_uuid"], callers("admin", STRANGER), []
    guarded = [(each, policy.guard(each.method, each.path)) for each in _routes()]
    callers("admin").get("/v1/search?q=ab")  # makes the terms of the new node, once
    with count_statements(database) as sent:
        for route, rule in guarded:
            if rule is None or rule.public:
                continue
            ident = port["uuid"] if route.path.startswith("/ports/") else node
            answer = _ask(api, route, ident, node)
            other = _ask(api, route, NOBODY, NOBODY)
            if route.path == "/attention":  # has the time of each answer
                assert (answer.json["of"], answer.json["causes"]) == (0, [])
                continue
            same = answer.body == other.body.replace(NOBODY.encode(), ident.encode())
            if not same or answer.status != other.status or _fault(rule, route, answer):
                wrong.append((route.method, route.path, answer.status, answer.body))

    assert wrong == [], wrong
    assert recorder.calls == []
    assert not [each for each in sent if not each.lstrip().upper().startswith("SELECT")]


# -- what it costs ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "project"), [("admin", None), ("admin", OWNER), ("admin", LESSEE)]
)
def test_rules_cost_no_statements(
    callers: Callers, database: session.Database, node: dict[str, Any], role: str, project: str
) -> None:
    api, path = callers(role, project), f"/v1/nodes/{node['uuid']}"
    patch = [{"op": "add", "path": "/extra/x", "value": 1}]
    asks: list[tuple[int, Callable[[], Response]]] = [
        (1, lambda: api.get(path)),
        (1, lambda: api.get("/v1/nodes/detail")),
        (3, lambda: api.patch(path, patch)),
    ]
    for most, ask in asks:
        ask()
        with count_statements(database) as sent:
            assert ask().status == 200
        assert len(sent) <= most, str(sent)


# -- a policy file ---------------------------------------------------------------------------


def test_a_policy_file_overrides_the_defaults(
    database: session.Database,
    recorder: Recorder,
    conf: cfg.ConfigOpts,
    node: dict[str, Any],
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        '"baremetal:node:set_power_state": "role:admin and system_scope:all"\n'
        '"baremetal:driver:ipa_lookup": "!"\n'
    )
    enforcement.build_enforcer(conf)  # registers the option
    conf.set_override("policy_file", str(file), "oslo_policy")
    inner = whole_api.routed(database, recorder, conf)
    callers = Callers(
        middleware.RequestMiddleware(inner, conf, Known(enforcement.AccessFactory(conf)))
    )
    path = f"/v1/nodes/{node['uuid']}/states/power"
    assert callers("admin", OWNER).put(path, {"target": "power on"}).status == 403
    assert callers("admin").put(path, {"target": "power on"}).status == 202

    assert Client(callers.application).get("/v1/lookup?node_uuid=" + NOBODY).status == 403

    file.write_text('"baremetal:node:get": "rule:none_such"\n')
    with pytest.raises(config.ConfigError, match="policy_file"):
        enforcement.build_enforcer(conf)


def test_a_ramdisk_needs_no_token_unless_the_policy_says_so(
    callers: Callers, node: dict[str, Any]
) -> None:
    api = Client(callers.application)
    assert api.get("/v1").status == 200
    beat = api.post(
        f"/v1/heartbeat/{node['uuid']}", {"callback_url": "http://x", "agent_token": "t"}
    )
    assert beat.status == 400  # by its handler


@pytest.mark.parametrize("leased", [LESSEE, STRANGER, None])
@pytest.mark.parametrize(
    "way", ["request", pytest.param("batch", marks=pytest.mark.feature("batches"))]
)
def test_steps_for_children_need_the_rights_on_each_child(
    callers: Callers, add_node: AddNode, leased: str | None, way: str
) -> None:
    parent = add_node(owner=OWNER, lessee=LESSEE, provision_state="manageable")["uuid"]
    child = add_node(owner=OWNER, lessee=leased, parent_node=parent)["uuid"]
    step = {"interface": "power", "step": "power_on", "execute_on_child_nodes": True}
    body = {"target": "clean", "clean_steps": [step]}
    path = f"/v1/nodes/{parent}/states/provision"
    for project, allowed in ((LESSEE, leased == LESSEE), (OWNER, True), (None, True)):
        api = callers("admin", project)
        if way == "request":
            answer = api.put(path, body)
        else:
            answer = api.post("/v1/batches?plan=true", {"nodes": [parent], "request": body})
        assert (answer.status == 403) is not allowed, answer.text
        assert allowed or child not in answer.text
    other = {**step, "limit_child_node_execution": [parent]}
    answer = callers("admin", LESSEE).put(path, {"target": "clean", "clean_steps": [other]})
    assert answer.status != 403, answer.text


@pytest.mark.feature("why")
@pytest.mark.parametrize(
    ("role", "project", "hidden"),
    [("reader", OWNER, False), ("admin", LESSEE, True), ("reader", LESSEE, True)],
)
def test_reason_of_maintenance_is_hidden_with_the_error_that_it_repeats(
    callers: Callers, add_node: AddNode, role: str, project: str, hidden: bool
) -> None:
    said = "conductor-7 said no"
    about = {"last_error": said, "maintenance": True, "maintenance_reason": said}
    node = add_node(name="theirs", owner=OWNER, lessee=LESSEE, fault="power failure", **about)
    api, place = callers(role, project), f"/v1/nodes/{node['uuid']}"
    wanted = "fields=last_error,maintenance_reason"
    paths = (
        place,
        "/v1/nodes/detail",
        f"{place}?{wanted}",
        f"/v1/nodes?{wanted}",
        f"/v1/nodes?{wanted}&maintenance=true",
        f"{place}/states",
        f"{place}/why",
        "/v1/nodes?associated=false&detail=true",
    )
    for path in paths:
        answer = api.get(path)
        assert answer.status in (200, 403), answer.text
        shown = answer.body.decode()
        assert (said in shown) is not hidden, path
