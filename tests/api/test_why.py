"""GET /v1/nodes/{node}/why: its rights, and the refusals of callers with few rights."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from ironic_lite.features.why import api as why_api
from tests.support import whole_api
from tests.support.api_rows import AddNode, add_conductor
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("why")

PLANNED = {
    **{"faults": [], "steps": [], "ramdisk": False, "restarts": 0, "destroys": []},
    **{"complete": True, "incomplete": None},
}

CALLERS: dict[tuple[str, str | None], int] = {
    ("reader", None): 200,
    ("service", None): 200,
    ("reader", OWNER): 200,
    ("manager", OWNER): 200,
    ("service", OWNER): 200,
    ("admin", LESSEE): 403,
    ("reader", LESSEE): 403,
    ("service", LESSEE): 404,
    ("admin", STRANGER): 404,
}


@pytest.fixture
def node(add_node: AddNode) -> dict[str, Any]:
    return add_node(
        owner=OWNER,
        lessee=LESSEE,
        provision_state="clean failed",
        last_error="conductor-7 said no",
        retired=True,
    )


@pytest.mark.parametrize("role, project", CALLERS)
def test_owners_and_readers_of_the_system_see_it(
    callers: Callers, node: dict[str, Any], role: str, project: str | None
) -> None:
    path = f"/v1/nodes/{node['uuid']}/why"
    answer = callers(role, project).get(path)
    assert answer.status == CALLERS[role, project], answer.text
    if answer.status != 200:
        assert "conductor-7" not in answer.text


@pytest.mark.parametrize("role, project", [key for key, status in CALLERS.items() if status == 200])
def test_refusals_are_those_of_the_same_caller(
    callers: Callers, node: dict[str, Any], role: str, project: str | None
) -> None:
    caller = callers(role, project)
    told = caller.get(f"/v1/nodes/{node['uuid']}/why").json["verbs"]
    assert {one["target"] for one in told} == {"manage", "provide", "available", "retry"}
    for verb in told:
        if verb["target"] == "retry":
            continue  # the conductor, which is recorded here, knows the run
        path = f"/v1/nodes/{node['uuid']}/states/provision"
        answer = caller.put(path, {"target": verb["target"]})
        refused = verb["refused"]
        assert (answer.status == 202) is (refused is None)
        assert refused is None or refused["text"] == answer.text, verb
    mere_reader = role == "reader"
    assert all((one["refused"] or {}).get("code") == "Forbidden" for one in told) is mere_reader


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "why", None), ("POST", "plan", {"target": "manage"})],
)
def test_tag_of_the_node_binds_the_request_that_follows(  # noqa: PLR0917  # the facts of a row
    callers: Callers,
    recorder: Recorder,
    node: dict[str, Any],
    method: str,
    path: str,
    body: Any,
) -> None:
    recorder.answers["plan_provision"] = PLANNED
    caller, place = callers("admin"), f"/v1/nodes/{node['uuid']}"
    change = [{"op": "add", "path": "/extra/x", "value": 1}]
    answer = caller.request(method, f"{place}/{path}", body)
    assert answer.headers["etag"] == caller.get(place).headers["etag"]
    seen = {"If-Match": answer.headers["etag"]}
    assert caller.patch(place, change, headers=seen).status == 200
    assert caller.patch(place, change, headers=seen).status == 412
    again = caller.request(method, f"{place}/{path}", body)
    assert again.headers["etag"] == caller.get(place).headers["etag"] != seen["If-Match"]


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ({"deploy_interface": "direct"}, None),
        (
            {"deploy_interface": "autodetect", "provision_state": "available"},
            {"own": "autodetect", "used": "direct"},
        ),
        (
            {
                "deploy_interface": "ramdisk",
                "provision_state": "wait call-back",
                "driver_internal_info": {"original_deploy_interface": "autodetect"},
            },
            {"own": "autodetect", "used": "ramdisk"},
        ),
    ],
)
def test_both_deploy_interfaces_are_named(
    callers: Callers,
    recorder: Recorder,
    add_node: AddNode,
    columns: dict[str, Any],
    shown: dict[str, Any] | None,
) -> None:
    recorder.answers["plan_provision"] = PLANNED
    path = f"/v1/nodes/{add_node(**columns)['uuid']}"
    why = callers("admin").get(f"{path}/why").json
    assert why["deploy_interface"] == shown
    said = "It uses the deploy interface ramdisk, chosen by autodetect." in why["says"]
    assert said is (shown is not None and shown["used"] == "ramdisk")
    plan = callers("admin").request("POST", f"{path}/plan", {"target": "deleted"}).json
    assert plan["deploy_interface"] == shown


def test_lists_and_documents_of_nodes_do_not_change(callers: Callers, node: dict[str, Any]) -> None:
    shown = callers("admin").get(f"/v1/nodes/{node['uuid']}").json
    assert not {"locked_at", "lock_note", "why"} & shown.keys()


# -- orders ----------------------------------------------------------------------------------


def orders_of(caller: Client, node: dict[str, Any]) -> dict[str, Any]:
    """Return the orders of a node by name."""
    found = caller.get(f"/v1/nodes/{node['uuid']}/why").json["orders"]
    return {one["order"]: one for one in found}


def code_of(order: dict[str, Any]) -> str | None:
    """Return the code of an order's refusal."""
    return order["refused"] and str(order["refused"]["code"])


def report_methods(database: Database, kind: str, methods: str) -> None:
    """Let conductors that have reported no methods of an interface report these."""
    table = models.hardware_interfaces
    mine = table.c.interface_type == kind
    unknown = table.update().where(mine, table.c.methods.is_(None))
    database.write(lambda conn: conn.execute(unknown.values(methods=methods)))


def test_orders_of_a_free_node_are_possible(api: Client, add_node: AddNode) -> None:
    orders = orders_of(api, add_node(provision_state="manageable"))
    assert all(one["refused"] is None for one in orders.values())
    assert list(orders) == [order.name for order in why_api.ORDERS]
    assert orders["boot_mode"]["targets"] == ["bios", "uefi"]
    assert orders["secure_boot"]["targets"] == [True, False]
    assert orders["delete"]["targets"] == []


def test_order_that_the_driver_lacks_is_refused(
    api: Client, database: Database, add_node: AddNode
) -> None:
    report_methods(database, "management", "set_boot_device,inject_nmi")
    node = add_node(provision_state="manageable", management_interface="fake")
    orders = orders_of(api, node)
    refused = {name for name, one in orders.items() if one["refused"]}
    assert refused == {"boot_mode", "secure_boot", "vmedia", "indicators"}
    text = errors.UnsupportedDriverExtension(driver="fake-hardware", extension="set_boot_mode")
    assert orders["boot_mode"]["refused"] == {
        "code": "UnsupportedDriverExtension",
        "text": text.message,
    }


@pytest.mark.parametrize("first", ["conductor-0", "conductor-2"])
@pytest.mark.parametrize(
    ("methods", "refused"), [("set_boot_mode", {"secure_boot", "nmi"}), (None, set[str]())]
)
def test_order_that_any_conductor_may_carry_out_is_not_refused(  # noqa: PLR0917  # two tables
    api: Client,
    database: Database,
    add_node: AddNode,
    first: str,
    methods: str | None,
    refused: set[str],
) -> None:
    report_methods(database, "management", "set_boot_device")
    add_conductor(database, first)
    if methods is not None:
        report_methods(database, "management", methods)
    orders = orders_of(api, add_node(provision_state="manageable", management_interface="fake"))
    found = {name for name, one in orders.items() if one["refused"]}
    assert found & {"boot_device", "boot_mode", "secure_boot", "nmi"} == refused


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        (
            {"provision_state": "cleaning"},
            {
                **dict.fromkeys(("boot_mode", "secure_boot", "vmedia", "delete"), "Conflict"),
                "power": "InvalidState",
            },
        ),
        ({"provision_state": "available", "protected": True}, {"delete": "NodeProtected"}),
        ({"provision_state": "active"}, {"delete": "Conflict"}),
        ({"provision_state": "active", "maintenance": True}, {}),
        (
            {"reservation": "conductor-1", "provision_state": "manageable"},
            {order.name: "NodeLocked" for order in why_api.ORDERS if order.name != "power"},
        ),
    ],
)
def test_orders_are_refused_as_their_requests_are(
    api: Client, add_node: AddNode, values: dict[str, Any], refused: dict[str, str]
) -> None:
    orders = orders_of(api, add_node(**values))
    found = {name: code_of(one) for name, one in orders.items() if one["refused"]}
    assert refused.items() <= found.items()
    assert set(found) <= {*refused, "power"}


def test_power_has_the_targets_that_the_node_takes(api: Client, add_node: AddNode) -> None:
    node = add_node(provision_state="active", disable_power_off=True)
    power = orders_of(api, node)["power"]
    assert power["targets"] == ["power on", "rebooting", "soft rebooting"]
    assert power["refused"] is None
    body = {"kind": "freeze", "reason": "case 7"}
    assert api.post(f"/v1/nodes/{node['uuid']}/holds", body).status == 201
    power = orders_of(api, node)["power"]
    answer = api.put(f"/v1/nodes/{node['uuid']}/states/power", {"target": "power on"})
    assert code_of(power) == "NodeHeld"
    assert answer.status == 409


@pytest.mark.parametrize(("role", "project"), [("reader", None), ("reader", OWNER)])
def test_readers_may_order_nothing(
    callers: Callers, node: dict[str, Any], role: str, project: str | None
) -> None:
    orders = orders_of(callers(role, project), node)
    assert {code_of(one) for one in orders.values()} == {"Forbidden"}


@pytest.mark.parametrize("order", why_api.ORDERS, ids=lambda order: order.name)
def test_order_has_a_route_with_a_rule(order: why_api.Order) -> None:
    method, _, path = order.route.partition(" ")
    assert policy.guard(method, path) is not None
    routes = [route for each in whole_api.CONTROLLERS for route, _ in each.exposed()]
    (found,) = (route for route in routes if (route.method, route.path) == (method, path))
    assert found.since == order.since


def test_orders_newer_than_the_request_are_left_out(api: Client, add_node: AddNode) -> None:
    api.version = "1.28"
    node = add_node(provision_state="manageable")
    assert not {"nmi", "vmedia", "boot_mode", "secure_boot"} & set(orders_of(api, node))
