"""Events of resources without a node: their caller, their readers, and what they do not contain."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import middleware
from ironic_lite.api.http import request
from ironic_lite.api.policy import enforcement
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Database
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.callers import OWNER, STRANGER, Callers, Known
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("events", "webhooks")

STEP = {"interface": "management", "step": "reset_bmc", "args": {}, "order": 1}


class Named(Known):
    """Takes the user and the project of the context from the headers, too."""

    def __call__(self, environ: request.Environ, request_id: str) -> Context:
        user, project = environ.get("HTTP_X_USER_ID"), environ.get("HTTP_X_PROJECT_ID")
        return dataclasses.replace(
            super().__call__(environ, request_id), user=user, project=project
        )


@pytest.fixture
def named(
    database: Database,
    recorder: Recorder,
    conf: cfg.ConfigOpts,
    asker: enforcement.AccessFactory,
) -> Callers:
    inner = whole_api.routed(database, recorder, conf)
    return Callers(middleware.RequestMiddleware(inner, conf, Named(asker)))


def told(client: Client, more: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/v1/events?since=0{more}")
    assert answer.status == 200, answer.text
    return list(answer.json["events"])


def test_event_names_the_resource_and_its_caller(named: Callers) -> None:
    made = named("manager", OWNER).post("/v1/runbooks", {"name": "CUSTOM_A", "steps": [STEP]})
    assert made.status == 201, made.text
    (event,) = told(named("admin"))
    assert event["data"] == {"runbook": made.json["uuid"], "name": "CUSTOM_A"}
    assert (event["requester"], event["project"]) == ("somebody", OWNER)
    assert event["request_id"] == made.headers["x-openstack-request-id"]
    assert (event["node"], event["name"], event["kind"]) == (None, None, "runbook_created")


def test_owner_reads_the_events_of_its_runbook_alone(named: Callers) -> None:
    runbook = {"name": "CUSTOM_A", "steps": [STEP]}
    assert named("manager", OWNER).post("/v1/runbooks", runbook).status == 201
    assert named("admin").post("/v1/chassis", {}).status == 201
    assert named("manager", OWNER).delete("/v1/runbooks/CUSTOM_A").status == 204
    assert [one["kind"] for one in told(named("reader", OWNER))] == [
        "runbook_created",
        "runbook_deleted",
    ]
    assert told(named("reader", STRANGER)) == []
    assert len(told(named("admin"))) == 3


def test_resource_with_the_uuid_of_a_node_has_no_events_of_the_node(
    named: Callers, add_node: AddNode
) -> None:
    node = add_node(owner=OWNER)["uuid"]
    assert named("admin").post("/v1/chassis", {"uuid": node}).status == 201
    assert told(named("reader", OWNER)) == told(named("admin"), f"&node={node}") == []
    assert told(named("admin"))[0]["data"] == {"chassis": node}


def test_event_of_a_webhook_has_neither_its_url_nor_its_secret(named: Callers) -> None:
    admin, path = named("admin"), "https://hooks.example/T0K3N"
    made = admin.post("/v1/webhooks", {"url": path})
    assert made.status == 201, made.text
    patch = [
        {"op": "replace", "path": "/url", "value": f"{path}/2"},
        {"op": "remove", "path": "/secret"},
    ]
    changed = admin.patch(f"/v1/webhooks/{made.json['uuid']}", patch)
    assert changed.status == 200, changed.text
    found = told(admin)
    assert [one["data"] for one in found] == [
        {"webhook": made.json["uuid"]},
        {"webhook": made.json["uuid"], "changed": ["secret", "url"]},
    ]
    shown = str(found)
    assert "T0K3N" not in shown
    assert made.json["secret"] not in shown
    assert changed.json["secret"] not in shown


def test_change_that_changes_nothing_writes_no_event(named: Callers) -> None:
    admin = named("admin")
    made = admin.post("/v1/chassis", {"extra": {"a": 1}}).json["uuid"]
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert admin.patch(f"/v1/chassis/{made}", patch).status == 200
    assert [one["kind"] for one in told(admin)] == ["chassis_created"]


def test_refused_change_writes_no_event(named: Callers) -> None:
    admin = named("admin")
    assert admin.delete(f"/v1/chassis/{uuid.uuid4()}").status == 404
    assert admin.delete("/v1/runbooks/absent").status == 404
    assert told(admin) == []
