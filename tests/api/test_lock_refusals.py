"""Refusals of the API because of a node's lock: they name its work, and when to try again."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from tests.support.api_rows import AddNode
from tests.support.wsgi_client import Client

RUN = "0f7bd4bb-2b0c-4fa2-9f2f-6ac3c9a1a1b5"
LOCK = {
    "reservation": "conductor-7",
    "lock_token": "token",
    "locked_at": datetime.datetime(2026, 11, 22, 10, 11, 12),
    "lock_note": "req-9 ann",
}
BUSY = {
    "provision_state": "cleaning",
    "run_uuid": RUN,
    "clean_step": {"interface": "deploy", "step": "erase_devices"},
}
PATCH = [{"op": "add", "path": "/extra/a", "value": 1}]
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "node": ("PATCH", "", PATCH),
    "maintenance": ("PUT", "/maintenance", {"reason": "fan"}),
    "trait": ("PUT", "/traits/CUSTOM_A", None),
    "boot device": ("GET", "/management/boot_device", None),
    "impossible verb": ("PUT", "/states/provision", {"target": "unhold"}),
    "unknown verb": ("PUT", "/states/provision", {"target": "explode"}),
}


def ask(api: Client, node: dict[str, Any], what: str) -> Any:
    method, path, body = REQUESTS[what]
    return api.request(method, f"/v1/nodes/{node['uuid']}{path}", body)


@pytest.mark.parametrize("what", REQUESTS)
def test_refusal_names_run_and_step(what: str, api: Client, add_node: AddNode) -> None:
    answer = ask(api, add_node(**LOCK, **BUSY), what)
    assert answer.status == 409, answer.text
    assert "is locked by host conductor-7" in answer.text
    held = f"It is held since 2026-11-22 10:11:12 UTC for the run {RUN}, step deploy.erase_devices."
    assert held in answer.text
    assert 5 <= int(answer.headers["retry-after"]) <= 10


def test_refusal_names_the_sweep(api: Client, add_node: AddNode) -> None:
    answer = ask(api, add_node(**{**LOCK, "lock_note": "conductor:power sync"}), "node")
    assert answer.status == 409
    assert answer.text.endswith("It is held since 2026-11-22 10:11:12 UTC for the power sync.")
    assert int(answer.headers["retry-after"]) in (1, 2)


def test_port_of_a_locked_node_is_refused_with_the_reason(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    node = add_node()
    body = {"node_uuid": node["uuid"], "address": "52:54:00:00:00:01"}
    port = api.post("/v1/ports", body).json["uuid"]
    database.write(lambda conn: nodes.edit(conn, node["uuid"], LOCK, generation=0))
    answer = api.patch(f"/v1/ports/{port}", [{"op": "add", "path": "/extra/a", "value": 1}])
    assert answer.status == 409
    assert answer.text.endswith("for the request req-9.")
