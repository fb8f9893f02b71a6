"""The order of checks: versions, rights, form, resources, rights of owners, values, locks.

A request with one fault gets the answer of real Ironic 39, which `make compare` recorded.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_rows import AddNode, set_node
from tests.support.callers import OWNER, As, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

ABSENT = "00000099-0000-4000-8000-000000000000"
NODE = "00000001-0000-4000-8000-000000000000"
LOCKED = "00000005-0000-4000-8000-000000000000"
STEP = {"interface": "deploy", "step": "erase_devices", "args": {}, "order": 1}
NEW = 115
EXTRA = [{"op": "add", "path": "/extra/a", "value": 1}]
UUID = [{"op": "replace", "path": "/uuid", "value": ABSENT}]
UNKNOWN = [{"op": "add", "path": "/unknown", "value": 1}]

Row = tuple[str, int, str, str, Any, int]


@pytest.fixture
def ask(callers: Callers, add_node: AddNode, database: Any, recorder: Recorder) -> Any:
    """A function that sends a request as a caller, in a filled database."""
    recorder.answers["get_boot_device"] = {"boot_device": "pxe", "persistent": None}
    admin = callers("admin")
    free = add_node(uuid=NODE, name="n-free", owner=OWNER, provision_state="manageable")
    locked = add_node(uuid=LOCKED, owner=OWNER, provision_state="manageable")
    set_node(database, locked, reservation="elsewhere")
    port = {"node_uuid": free["uuid"], "address": "52:54:00:00:00:01"}
    assert admin.post("/v1/ports", port).status == 201
    assert admin.post("/v1/portgroups", {"node_uuid": NODE}).status == 201
    book = {"name": "CUSTOM_RB", "steps": [STEP]}
    assert admin.post("/v1/runbooks", book).status == 201
    own = {"node": NODE, "resource_class": "rc", "name": "a", "owner": OWNER}
    set_node(database, free, provision_state="active", resource_class="rc")
    assert admin.post("/v1/allocations", own).status == 201
    known: dict[str, As] = {
        "admin": admin,
        "reader": callers("reader"),
        "member": callers("member"),
        "owner-reader": callers("reader", OWNER),
        "owner-member": callers("member", OWNER),
        "norole": As(callers.application, {"X-Roles": "nothing", "X-Project-Id": OWNER}),
    }

    def send(who: str, version: int, method: str, path: str, body: Any) -> int:
        raw = {"body": body, "headers": {"Content-Type": "application/json"}}
        more: dict[str, Any] = raw if isinstance(body, bytes) else {"json": body}
        return known[who].at(version).request(method, f"/v1{path}", **more).status

    return send


QUERIES: tuple[Row, ...] = (
    # rights before the form of a query
    ("owner-reader", 1, "GET", "/chassis?unknown=1", None, 403),
    ("owner-reader", 1, "GET", "/chassis?marker=malformed:uuid", None, 403),
    ("owner-reader", 1, "GET", "/chassis?limit=x", None, 403),
    ("owner-reader", 1, "GET", "/chassis?sort_dir=x", None, 403),
    ("owner-reader", 1, "GET", "/chassis?fields=nothing", None, 403),
    ("owner-reader", 1, "GET", "/chassis?fields=uuid", None, 403),
    ("owner-reader", 1, "GET", "/chassis/detail?fields=uuid", None, 403),
    ("owner-reader", 1, "GET", f"/chassis/{ABSENT}?unknown=1", None, 403),
    ("owner-reader", NEW, "GET", f"/chassis/{ABSENT}?fields=nothing", None, 403),
    ("owner-reader", 49, "GET", "/conductors?unknown=1", None, 403),
    ("owner-reader", 49, "GET", "/conductors/compared?fields=uuid", None, 403),
    ("owner-reader", 55, "GET", "/deploy_templates?limit=x", None, 403),
    ("owner-reader", 55, "GET", f"/deploy_templates/{ABSENT}?unknown=1", None, 403),
    ("owner-reader", 1, "GET", "/drivers?unknown=1", None, 403),
    ("owner-reader", NEW, "GET", "/drivers/fake-hardware?fields=uuid", None, 403),
    ("owner-reader", 96, "GET", "/inspection_rules?sort_dir=x", None, 403),
    ("owner-reader", 96, "GET", f"/inspection_rules/{ABSENT}?unknown=1", None, 403),
    ("owner-reader", 92, "GET", "/runbooks/CUSTOM_RB?unknown=1", None, 400),
    ("owner-reader", 92, "GET", "/runbooks/CUSTOM_RB?fields=nothing", None, 400),
    # versions before rights
    ("owner-reader", 52, "GET", "/allocations?owner=other", None, 406),
    ("owner-reader", NEW, "GET", "/allocations?owner=", None, 403),
    ("reader", 1, "PUT", f"/nodes/{NODE}/states/boot_mode", {"target": "uefi"}, 404),
    ("reader", 75, "PUT", f"/nodes/{NODE}/states/secure_boot", {"target": True}, 404),
    ("admin", 1, "PUT", f"/nodes/{NODE}/states/secure_boot", {"target": True}, 404),
    # versions of routes before the form of a query; versions of arguments are a part of it
    ("admin", 1, "GET", "/chassis?fields=nothing", None, 406),
    ("admin", 1, "GET", "/chassis?fields=uuid", None, 406),
    ("admin", 1, "GET", "/ports?portgroup=a%20b", None, 406),
    ("admin", 1, "GET", "/lookup?unknown=1", None, 404),
    ("admin", 1, "GET", f"/lookup?node_uuid={ABSENT}", None, 404),
    # the version of detail before that of fields
    ("admin", 5, "GET", "/nodes?detail=true&fields=uuid", None, 400),
    ("admin", 42, "GET", "/nodes?detail=true&fields=uuid", None, 400),
    # versions of names
    ("admin", 4, "GET", "/ports?node=n-free", None, 406),
    ("admin", 4, "GET", f"/ports?node={ABSENT}", None, 404),
    ("admin", 4, "GET", "/nodes/validate", None, 404),
    ("admin", 5, "GET", "/nodes/validate", None, 400),
    # traits below their version
    ("admin", 36, "GET", f"/nodes/{ABSENT}/traits", None, 406),
    ("admin", 4, "GET", "/nodes/n-free/traits", None, 406),
    ("admin", 36, "GET", f"/nodes/{NODE}/traits?unknown=1", None, 406),
    ("admin", 36, "GET", f"/nodes/{NODE}/traits", None, 406),
    # values of single arguments
    ("admin", 52, "GET", "/allocations?detail=true", None, 400),
    ("owner-reader", 52, "GET", "/allocations?detail=true", None, 400),
    ("admin", NEW, "GET", "/conductors?marker=malformed:uuid", None, 400),
    ("admin", NEW, "GET", "/conductors?marker=host:1", None, 404),
    ("admin", NEW, "GET", "/deploy_templates?marker=malformed:uuid", None, 400),
    ("admin", NEW, "GET", f"/deploy_templates?marker={ABSENT}", None, 404),
    ("admin", NEW, "GET", "/runbooks?marker=malformed:uuid", None, 400),
    ("admin", NEW, "GET", "/inspection_rules?marker=malformed:uuid", None, 404),
    ("admin", NEW, "GET", "/nodes?conductor_group=a%20b", None, 200),
    ("admin", NEW, "GET", "/ports?conductor_groups=a%20b", None, 200),
    ("admin", 1, "GET", "/ports?conductor_groups=x", None, 200),
    # what is found before an argument is read
    ("admin", NEW, "GET", f"/nodes/{LOCKED}/allocation?fields=nothing", None, 404),
    ("admin", NEW, "GET", f"/nodes/{LOCKED}/allocation?unknown=1", None, 400),
    ("norole", NEW, "GET", f"/nodes/{NODE}/management/indicators/nothing", None, 400),
    ("admin", NEW, "GET", f"/nodes/{NODE}/management/indicators/nothing", None, 400),
    # locks
    ("admin", 1, "GET", f"/nodes/{LOCKED}/management/boot_device", None, 409),
    ("admin", 1, "GET", f"/nodes/management/boot_device/{LOCKED}", None, 409),
    ("admin", 1, "GET", f"/nodes/management/boot_device?node_ident={LOCKED}", None, 409),
    ("admin", NEW, "GET", f"/nodes/{NODE}/management/boot_device", None, 200),
    # documents that need no node
    ("admin", 32, "GET", f"/nodes/{ABSENT}/volume", None, 200),
    ("admin", 32, "GET", "/nodes/no-such-name/volume", None, 200),
)
BODIES: tuple[Row, ...] = (
    # rights before the form of a body
    ("norole", NEW, "POST", "/allocations", [], 403),
    ("norole", NEW, "POST", "/allocations", None, 403),
    ("owner-member", NEW, "POST", "/chassis", [], 403),
    ("member", NEW, "POST", "/chassis", {}, 403),
    ("reader", NEW, "POST", "/deploy_templates", None, 403),
    ("reader", NEW, "POST", "/inspection_rules", [], 403),
    ("member", NEW, "POST", "/events", {"events": []}, 403),
    ("member", NEW, "POST", "/nodes", [], 400),
    ("owner-reader", NEW, "POST", "/nodes", None, 400),
    ("owner-reader", NEW, "POST", "/nodes", {"driver": "fake-hardware"}, 403),
    ("reader", NEW, "POST", "/runbooks", [], 403),
    ("reader", NEW, "PATCH", f"/deploy_templates/{ABSENT}", UNKNOWN, 403),
    ("reader", NEW, "PATCH", f"/deploy_templates/{ABSENT}", EXTRA, 403),
    # rights before the node that a body names
    ("owner-member", NEW, "POST", "/portgroups", {"node_uuid": ABSENT}, 403),
    ("norole", NEW, "POST", "/portgroups", {"node_uuid": NODE}, 403),
    ("reader", NEW, "POST", "/ports", {"node_uuid": ABSENT, "address": "52:54:00:00:00:09"}, 403),
    ("admin", NEW, "POST", "/portgroups", {"node_uuid": ABSENT}, 400),
    # fields that PATCH cannot change before a missing resource
    ("admin", NEW, "PATCH", "/nodes/no-such-name", UUID, 400),
    ("admin", NEW, "PATCH", "/ports/no-such-name", UUID, 400),
    ("admin", NEW, "PATCH", "/runbooks/no-such-name", UNKNOWN, 400),
    ("admin", NEW, "PATCH", f"/deploy_templates/{ABSENT}", UUID, 400),
    ("admin", NEW, "PATCH", f"/chassis/{ABSENT}", UNKNOWN, 400),
    ("admin", NEW, "PATCH", f"/chassis/{ABSENT}", UUID, 400),
    ("admin", NEW, "PATCH", "/portgroups/no-such-name", UNKNOWN, 400),
    # unknown arguments and null before a missing node
    ("admin", NEW, "PUT", f"/nodes/{ABSENT}/maintenance", {"unknown": 1}, 400),
    ("admin", NEW, "PUT", f"/nodes/{ABSENT}/maintenance", {"reason": {"a": 5}}, 400),
    ("admin", NEW, "PUT", f"/nodes/maintenance/{ABSENT}", {"unknown": 1}, 400),
    ("admin", NEW, "PUT", f"/nodes/{ABSENT}/management/inject_nmi", {"unknown": 1}, 400),
    ("admin", NEW, "PUT", f"/nodes/{ABSENT}/management/inject_nmi", b"{", 400),
    ("admin", NEW, "PUT", f"/nodes/{ABSENT}/management/boot_device", {"boot_device": None}, 400),
    ("admin", NEW, "PUT", f"/nodes/{ABSENT}/states/power", {"target": None}, 400),
    ("admin", NEW, "PUT", f"/nodes/{NODE}/states/power", {"target": None}, 400),
    ("admin", NEW, "PUT", f"/nodes/{ABSENT}/states/power", {}, 400),
    ("admin", NEW, "PUT", f"/nodes/{ABSENT}/states/provision", {"target": ""}, 400),
    ("admin", NEW, "PUT", f"/nodes/{NODE}/states/provision", {"target": ""}, 400),
    ("admin", NEW, "PUT", f"/nodes/{ABSENT}/states/secure_boot", {"target": None}, 400),
    ("admin", NEW, "POST", f"/nodes/{ABSENT}/vifs", b"null", 400),
    ("admin", NEW, "POST", f"/nodes/{ABSENT}/vifs", None, 400),
    # missing traits before resource and the right of its owner
    ("reader", NEW, "PUT", f"/nodes/{NODE}/traits", None, 400),
    ("reader", NEW, "PUT", f"/nodes/{NODE}/traits", [], 400),
    ("admin", 37, "PUT", f"/nodes/{ABSENT}/traits", {}, 400),
    ("admin", NEW, "PUT", f"/nodes/{NODE}/traits", {}, 400),
    ("admin", NEW, "PUT", "/runbooks/no-such-name/traits", None, 404),
    ("reader", NEW, "PUT", "/runbooks/CUSTOM_RB/traits", None, 403),
    ("admin", NEW, "PUT", "/runbooks/CUSTOM_RB/traits", None, 400),
    # the right of the owner before values
    ("reader", NEW, "PUT", f"/nodes/{NODE}/management/indicators/system/led", {"state": "ON"}, 403),
    ("reader", NEW, "POST", f"/nodes/{NODE}/vmedia", {"device_type": "x", "image_url": "x"}, 403),
    ("reader", NEW, "DELETE", f"/nodes/{NODE}/vmedia/tape", None, 403),
    ("admin", NEW, "DELETE", f"/nodes/{NODE}/vmedia/tape", None, 400),
    # the body of a vendor's method before the hardware type
    ("admin", 1, "POST", "/drivers/nobody/vendor_passthru/first_method", "text", 400),
    ("admin", 1, "POST", "/drivers/fake-hardware/vendor_passthru/first_method", "text", 400),
    ("owner-reader", 1, "POST", "/drivers/nobody/vendor_passthru/first_method", {}, 403),
    # the values of a RAID configuration before the lock
    ("admin", NEW, "PUT", f"/nodes/{LOCKED}/states/raid", {"logical_disks": []}, 400),
    ("admin", NEW, "PUT", f"/nodes/{NODE}/states/raid", {"logical_disks": []}, 400),
    ("admin", NEW, "PUT", f"/nodes/{LOCKED}/states/raid", b"null", 400),
    # versions before form
    ("admin", 21, "POST", "/heartbeat/a%20b", {"callback_url": "http://127.0.0.1:9"}, 404),
    ("admin", 21, "POST", f"/heartbeat/{NODE}", {"callback_url": "http://127.0.0.1:9"}, 404),
    ("admin", 5, "POST", "/continue_inspection", {"inventory": {"interfaces": []}}, 400),
    # values
    ("admin", NEW, "POST", "/chassis", b"null", 400),
    (
        *("admin", NEW, "POST", "/volume/connectors"),
        *({"node_uuid": NODE, "type": "iqn", "connector_id": ""}, 201),
    ),
    (
        *("admin", NEW, "POST", "/volume/targets"),
        *({"node_uuid": NODE, "volume_type": "", "volume_id": "", "boot_index": 3}, 201),
    ),
    ("admin", NEW, "POST", "/ports", {"node_uuid": LOCKED, "address": "52:54:00:00:00:09"}, 201),
    # methods that a path does not have
    ("admin", NEW, "DELETE", "/chassis/a%20b/nodes/detail", None, 400),
    ("admin", NEW, "DELETE", f"/chassis/{ABSENT}/nodes/detail", None, 404),
    ("admin", NEW, "DELETE", "/deploy_templates", None, 400),
    ("admin", NEW, "DELETE", "/portgroups/detail", None, 404),
    ("admin", 22, "DELETE", "/portgroups/detail", None, 404),
    ("admin", 22, "POST", "/portgroups/detail", {}, 404),
    ("admin", 22, "PATCH", "/portgroups/detail", [], 404),
    ("admin", 22, "DELETE", "/portgroups", None, 404),
)


def _name(row: Row) -> str:
    who, version, method, path, body, status = row
    return f"{who} 1.{version} {method} {path} {body} {status}"


@pytest.mark.parametrize("row", QUERIES, ids=_name)
def test_order_of_checks_of_a_query(ask: Any, row: Row) -> None:
    assert ask(*row[:5]) == row[5]


@pytest.mark.parametrize("row", BODIES, ids=_name)
def test_order_of_checks_of_a_body(ask: Any, row: Row) -> None:
    assert ask(*row[:5]) == row[5]


@pytest.mark.parametrize(
    "query", ["ports?shard=", "ports?conductor_groups=", "ports?description_contains="]
)
def test_an_empty_filter_of_ports_filters_nothing(ask: Any, api: Client, query: str) -> None:
    del ask
    assert len(api.get(f"/v1/{query}").json["ports"]) == 1


@pytest.mark.parametrize("query", ["shard=", "conductor_groups="])
def test_an_empty_filter_of_portgroups_filters_nothing(ask: Any, api: Client, query: str) -> None:
    del ask
    assert len(api.get(f"/v1/portgroups?{query}").json["portgroups"]) == 1


def test_an_empty_filter_by_conductor_filters_nothing(ask: Any, api: Client) -> None:
    del ask
    assert len(api.get("/v1/nodes?conductor=").json["nodes"]) == 2
    assert api.get("/v1/nodes?shard=").json["nodes"] == []


def test_a_reader_of_a_locked_boot_device_waits_for_the_lock(
    ask: Any, api: Client, database: Any, recorder: Recorder
) -> None:
    del ask
    path = f"/v1/nodes/{LOCKED}/management/boot_device"
    assert api.get(path).status == 409
    assert "get_boot_device" not in [name for name, _ in recorder.calls]
    set_node(database, {"uuid": LOCKED}, reservation=None)
    assert api.get(path).status == 200
