"""The events of requests: each route that changes something writes one, or has a reason."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ironic_lite.core import options
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from tests.support import configurations, whole_api
from tests.support.operator import Operator

Json = dict[str, Any]
TAKEN = ("POST", "PUT", "PATCH", "DELETE")
STEP = {"interface": "management", "step": "reset_bmc", "args": {}, "order": 1}
RULE = {"actions": [{"op": "set-attribute", "args": {"path": "/description", "value": "x"}}]}
WEBHOOK = {"url": "https://receiver.example/", "kinds": ["overdue"]}


class Asked(NamedTuple):
    """A request that changes something, and the kinds of the events that it writes."""

    path: str
    kinds: tuple[str, ...]
    body: Any = None


class World:
    """Resources for the requests; each call makes a new one."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.api = operator.api

    def made(self, path: str, **body: Any) -> Json:
        answer = self.api.post(f"/v1/{path}", body)
        assert answer.status == 201, answer.text
        return dict(answer.json)

    def node(self, state: str = "manageable", **fields: Any) -> str:
        return self.operator.enroll(state, **fields)

    def chassis(self) -> str:
        return str(self.made("chassis")["uuid"])

    def template(self) -> str:
        name = f"CUSTOM_{uuid.uuid4().hex[:8].upper()}"
        step = {"interface": "deploy", "step": "deploy", "args": {}, "priority": 0}
        return str(self.made("deploy_templates", name=name, steps=[step])["uuid"])

    def runbook(self) -> str:
        name = f"CUSTOM_{uuid.uuid4().hex[:8].upper()}"
        made = str(self.made("runbooks", name=name, steps=[STEP])["uuid"])
        body = {"traits": ["CUSTOM_OLD"]}
        assert self.api.put(f"/v1/runbooks/{made}/traits", body).status == 204
        return made

    def rule(self) -> str:
        return str(self.made("inspection_rules", **RULE)["uuid"])

    def webhook(self) -> str:
        return str(self.made("webhooks", **WEBHOOK)["uuid"])

    def port(self) -> str:
        address = "52:54:00:" + ":".join(f"{byte:02x}" for byte in uuid.uuid4().bytes[:3])
        return str(self.made("ports", node_uuid=self.node(), address=address)["uuid"])

    def portgroup(self) -> str:
        return str(self.made("portgroups", node_uuid=self.node())["uuid"])

    def connector(self) -> str:
        body = {"node_uuid": self.off(), "type": "iqn", "connector_id": uuid.uuid4().hex}
        return str(self.made("volume/connectors", **body)["uuid"])

    def target(self) -> str:
        return str(self.made("volume/targets", **self.of_target())["uuid"])

    def of_target(self) -> Json:
        about = {"volume_type": "iscsi", "boot_index": 0, "volume_id": uuid.uuid4().hex}
        return {"node_uuid": self.off(), **about}

    def off(self) -> str:
        node = self.node()
        answer = self.api.put(f"/v1/nodes/{node}/states/power", {"target": "power off"})
        assert answer.status == 202, answer.text
        self.operator.rig.settled(node)
        return node

    def maintained(self) -> str:
        node = self.node()
        assert self.api.put(f"/v1/nodes/{node}/maintenance").status == 202
        return node

    def allocation(self) -> str:
        self.node("available", resource_class="big")
        made = self.made("allocations", resource_class="big")
        self.operator.rig.service.runtime.workers.wait_idle(60)
        return str(made["uuid"])

    def batch(self) -> str:
        body = {"nodes": [self.node()], "request": {"target": "inspect"}}
        return str(self.made("batches", **body)["uuid"])

    def ended_batch(self) -> str:
        batch = self.batch()
        answer = self.api.put(f"/v1/batches/{batch}/state", {"target": "abort"})
        assert answer.status == 200, answer.text
        self.operator.sweep()
        return batch

    def with_vif(self) -> str:
        node = self.node()
        assert self.api.post(f"/v1/nodes/{node}/vifs", {"id": "vif-1"}).status == 204
        return node

    def hold(self) -> tuple[str, str]:
        node = self.node()
        return node, self.made(f"nodes/{node}/holds", kind="freeze", reason="look")["uuid"]

    def run(self) -> tuple[str, str]:
        """Return a node whose run waits, and the run."""
        node = self.node()
        slow = {"driver_info__fake_async_steps": ["*"], "driver_info__fake_step_seconds": 3600}
        assert self.operator.patches(node, **slow).status == 200
        steps = [{"interface": "management", "step": "reset_bmc"}] * 2
        assert self.operator.asks(node, "clean", clean_steps=steps).status == 202
        assert self.operator.rig.service.runtime.workers.wait_idle(60)
        return node, self.api.get(f"/v1/nodes/{node}/runs/current").json["uuid"]

    def stopped(self) -> tuple[str, str]:
        node, run = self.run()
        answer = self.api.put(f"/v1/nodes/{node}/runs/{run}/stop", {"how": "hold"})
        assert answer.status == 202, answer.text
        return node, run

    def allocated(self) -> str:
        allocation = self.allocation()
        return str(self.api.get(f"/v1/allocations/{allocation}").json["node_uuid"])

    def network_event(self) -> Json:
        address = self.api.get(f"/v1/ports/{self.port()}").json["address"]
        about = {"event": "network.bind_port", "port_id": str(uuid.uuid4()), "status": "ACTIVE"}
        return {"events": [{**about, "mac_address": address}]}


def renamed(path: str, kind: str, field: str = "name", value: Any = "CUSTOM_NEW") -> Asked:
    patch = [{"op": "add", "path": f"/{field}", "value": value}]
    return Asked(path, (kind,), patch)


MANAGED = ("management", "management")
EXTRA: tuple[str, Any] = ("extra", {"a": 1})
ROUTES: dict[str, Callable[[World], Asked]] = {
    "POST /nodes": lambda w: Asked("nodes", ("node_created",), {"driver": "fake-hardware"}),
    "PATCH /nodes/{ident}": lambda w: renamed(f"nodes/{w.node()}", "node_updated", value="new"),
    "DELETE /nodes/{ident}": lambda w: Asked(f"nodes/{w.node()}", ("node_deleted",)),
    "PUT /nodes/{ident}/maintenance": lambda w: Asked(
        f"nodes/{w.node()}/maintenance", ("node_updated",)
    ),
    "DELETE /nodes/{ident}/maintenance": lambda w: Asked(
        f"nodes/{w.maintained()}/maintenance", ("node_updated",)
    ),
    "PUT /nodes/{ident}/states/power": lambda w: Asked(
        f"nodes/{w.off()}/states/power", ("power", "power", "power"), {"target": "power on"}
    ),
    "PUT /nodes/{ident}/states/provision": lambda w: Asked(
        f"nodes/{w.node()}/states/provision",
        ("provision",),
        {"target": "provide"},
    ),
    "PUT /nodes/{ident}/states/console": lambda w: Asked(
        f"nodes/{w.node()}/states/console", MANAGED, {"enabled": True}
    ),
    "PUT /nodes/{ident}/states/boot_mode": lambda w: Asked(
        f"nodes/{w.node()}/states/boot_mode", MANAGED, {"target": "bios"}
    ),
    "PUT /nodes/{ident}/states/secure_boot": lambda w: Asked(
        f"nodes/{w.node()}/states/secure_boot", MANAGED, {"target": True}
    ),
    "PUT /nodes/{ident}/states/raid": lambda w: Asked(
        f"nodes/{w.node()}/states/raid",
        ("management",),
        {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]},
    ),
    "PUT /nodes/{ident}/management/boot_device": lambda w: Asked(
        f"nodes/{w.node()}/management/boot_device", ("management",), {"boot_device": "pxe"}
    ),
    "PUT /nodes/{ident}/management/inject_nmi": lambda w: Asked(
        f"nodes/{w.node()}/management/inject_nmi", ("management",), {}
    ),
    "PUT /nodes/{ident}/management/indicators/{component}/{indicator}": lambda w: Asked(
        f"nodes/{w.node()}/management/indicators/system/led", ("management",), {"state": "on"}
    ),
    "POST /nodes/{ident}/vmedia": lambda w: Asked(
        f"nodes/{w.node()}/vmedia",
        MANAGED,
        {"device_type": "cdrom", "image_url": "http://192.0.2.1/a.iso"},
    ),
    "DELETE /nodes/{ident}/vmedia": lambda w: Asked(f"nodes/{w.node()}/vmedia", MANAGED),
    "DELETE /nodes/{ident}/vmedia/{device_types}": lambda w: Asked(
        f"nodes/{w.node()}/vmedia/cdrom", MANAGED
    ),
    "POST /nodes/{ident}/vendor_passthru/{method}": lambda w: Asked(
        f"nodes/{w.node()}/vendor_passthru/remember", ("management",), {"value": 1}
    ),
    "DELETE /nodes/{ident}/vendor_passthru/{method}": lambda w: Asked(
        f"nodes/{w.node()}/vendor_passthru/remember", ("management",)
    ),
    "PUT /nodes/{ident}/traits": lambda w: Asked(
        f"nodes/{w.node()}/traits", ("traits_updated",), {"traits": ["CUSTOM_A"]}
    ),
    "DELETE /nodes/{ident}/traits": lambda w: Asked(
        f"nodes/{w.node()}/traits", ("traits_updated",)
    ),
    "PUT /nodes/{ident}/traits/{trait}": lambda w: Asked(
        f"nodes/{w.node()}/traits/CUSTOM_A", ("traits_updated",)
    ),
    "POST /nodes/{ident}/holds": lambda w: Asked(
        f"nodes/{w.node()}/holds", ("hold_added",), {"kind": "freeze", "reason": "look"}
    ),
    "POST /holds": lambda w: Asked(
        "holds", ("hold_added",), {"kind": "observe", "reason": "look", "nodes": [w.node()]}
    ),
    "POST /holds/end": lambda w: Asked(
        "holds/end", ("hold_ended",), {"kind": "freeze", "reason": "x", "nodes": [w.hold()[0]]}
    ),
    "PUT /nodes/{ident}/data_state": lambda w: Asked(
        f"nodes/{w.node()}/data_state", ("data_state",), {"data_state": "dirty", "reason": "seen"}
    ),
    "POST /ports": lambda w: Asked(
        "ports", ("port_created",), {"node_uuid": w.node(), "address": "52:54:00:00:00:01"}
    ),
    "PATCH /ports/{ident}": lambda w: renamed(f"ports/{w.port()}", "port_updated", *EXTRA),
    "DELETE /ports/{ident}": lambda w: Asked(f"ports/{w.port()}", ("port_deleted",)),
    "POST /portgroups": lambda w: Asked(
        "portgroups", ("portgroup_created",), {"node_uuid": w.node()}
    ),
    "PATCH /portgroups/{ident}": lambda w: renamed(
        f"portgroups/{w.portgroup()}", "portgroup_updated", *EXTRA
    ),
    "DELETE /portgroups/{ident}": lambda w: Asked(
        f"portgroups/{w.portgroup()}", ("portgroup_deleted",)
    ),
    "POST /volume/connectors": lambda w: Asked(
        "volume/connectors",
        ("volume_connector_created",),
        {"node_uuid": w.off(), "type": "iqn", "connector_id": "iqn.2030-01.org:a"},
    ),
    "PATCH /volume/connectors/{ident}": lambda w: renamed(
        f"volume/connectors/{w.connector()}", "volume_connector_updated", *EXTRA
    ),
    "DELETE /volume/connectors/{ident}": lambda w: Asked(
        f"volume/connectors/{w.connector()}", ("volume_connector_deleted",)
    ),
    "POST /volume/targets": lambda w: Asked(
        "volume/targets", ("volume_target_created",), w.of_target()
    ),
    "PATCH /volume/targets/{ident}": lambda w: renamed(
        f"volume/targets/{w.target()}", "volume_target_updated", *EXTRA
    ),
    "DELETE /volume/targets/{ident}": lambda w: Asked(
        f"volume/targets/{w.target()}", ("volume_target_deleted",)
    ),
    "POST /webhooks": lambda w: Asked("webhooks", ("webhook_created",), WEBHOOK),
    "PATCH /webhooks/{ident}": lambda w: renamed(
        f"webhooks/{w.webhook()}", "webhook_updated", "kinds", ["provision"]
    ),
    "POST /webhooks/{ident}/replay": lambda w: Asked(
        f"webhooks/{w.webhook()}/replay", ("webhook_updated",), {"since": "0"}
    ),
    "DELETE /webhooks/{ident}": lambda w: Asked(f"webhooks/{w.webhook()}", ("webhook_deleted",)),
    "POST /chassis": lambda w: Asked("chassis", ("chassis_created",), {}),
    "PATCH /chassis/{ident}": lambda w: renamed(
        f"chassis/{w.chassis()}", "chassis_updated", *EXTRA
    ),
    "DELETE /chassis/{ident}": lambda w: Asked(f"chassis/{w.chassis()}", ("chassis_deleted",)),
    "POST /deploy_templates": lambda w: Asked(
        "deploy_templates",
        ("deploy_template_created",),
        {
            "name": "CUSTOM_T",
            "steps": [{"interface": "deploy", "step": "deploy", "args": {}, "priority": 0}],
        },
    ),
    "PATCH /deploy_templates/{ident}": lambda w: renamed(
        f"deploy_templates/{w.template()}", "deploy_template_updated"
    ),
    "DELETE /deploy_templates/{ident}": lambda w: Asked(
        f"deploy_templates/{w.template()}", ("deploy_template_deleted",)
    ),
    "POST /inspection_rules": lambda w: Asked(
        "inspection_rules", ("inspection_rule_created",), RULE
    ),
    "PATCH /inspection_rules/{ident}": lambda w: renamed(
        f"inspection_rules/{w.rule()}", "inspection_rule_updated", "description", "new"
    ),
    "DELETE /inspection_rules/{ident}": lambda w: Asked(
        f"inspection_rules/{w.rule()}", ("inspection_rule_deleted",)
    ),
    "DELETE /inspection_rules": lambda w: Asked(
        "inspection_rules", ("inspection_rule_deleted",) * len((w.rule(), w.rule()))
    ),
    "POST /runbooks": lambda w: Asked(
        "runbooks", ("runbook_created",), {"name": "CUSTOM_R", "steps": [STEP]}
    ),
    "PATCH /runbooks/{ident}": lambda w: renamed(f"runbooks/{w.runbook()}", "runbook_updated"),
    "DELETE /runbooks/{ident}": lambda w: Asked(f"runbooks/{w.runbook()}", ("runbook_deleted",)),
    "PUT /runbooks/{ident}/traits": lambda w: Asked(
        f"runbooks/{w.runbook()}/traits", ("runbook_updated",), {"traits": ["CUSTOM_A"]}
    ),
    "DELETE /runbooks/{ident}/traits": lambda w: Asked(
        f"runbooks/{w.runbook()}/traits", ("runbook_updated",)
    ),
    "PUT /runbooks/{ident}/traits/{trait}": lambda w: Asked(
        f"runbooks/{w.runbook()}/traits/CUSTOM_A", ("runbook_updated",)
    ),
    "DELETE /runbooks/{ident}/traits/{trait}": lambda w: Asked(
        f"runbooks/{w.runbook()}/traits/CUSTOM_OLD", ("runbook_updated",)
    ),
    "POST /allocations": lambda w: Asked(
        "allocations", ("allocation_created", "allocation_updated"), {"resource_class": "absent"}
    ),
    "PATCH /allocations/{ident}": lambda w: renamed(
        f"allocations/{w.allocation()}", "allocation_updated", *EXTRA
    ),
    "DELETE /allocations/{ident}": lambda w: Asked(
        f"allocations/{w.allocation()}", ("node_updated", "allocation_deleted")
    ),
    "POST /batches": lambda w: Asked(
        "batches", ("batch_started",), {"nodes": [w.node()], "request": {"target": "inspect"}}
    ),
    "PUT /batches/{ident}/state": lambda w: Asked(
        f"batches/{w.batch()}/state", ("batch_paused",), {"target": "pause"}
    ),
}
ROUTES |= {
    "PUT /nodes/maintenance": lambda w: Asked(
        f"nodes/maintenance?node_ident={w.node()}", ("node_updated",)
    ),
    "DELETE /nodes/maintenance": lambda w: Asked(
        f"nodes/maintenance?node_ident={w.maintained()}", ("node_updated",)
    ),
    "POST /nodes/{ident}/vifs": lambda w: Asked(
        f"nodes/{w.node()}/vifs", ("management",), {"id": "vif-1"}
    ),
    "DELETE /nodes/{ident}/vifs/{vif}": lambda w: Asked(
        f"nodes/{w.with_vif()}/vifs/vif-1", ("management",)
    ),
    "DELETE /nodes/{ident}/holds/{hold}": lambda w: Asked(
        "nodes/{}/holds/{}".format(*w.hold()), ("hold_ended",), None
    ),
    "PUT /nodes/{ident}/runs/{run}/stop": lambda w: Asked(
        "nodes/{}/runs/{}/stop".format(*w.run()), ("stop_requested",), {"how": "hold"}
    ),
    "DELETE /nodes/{ident}/runs/{run}/stop": lambda w: Asked(
        "nodes/{}/runs/{}/stop".format(*w.stopped()), ("stop_withdrawn",)
    ),
    "DELETE /nodes/{ident}/allocation": lambda w: Asked(
        f"nodes/{w.allocated()}/allocation", ("node_updated", "allocation_deleted")
    ),
    "DELETE /batches/{ident}": lambda w: Asked(f"batches/{w.ended_batch()}", ("batch_deleted",)),
    "POST /events": lambda w: Asked("events", ("network",), w.network_event()),
}
# Ironic's POST /events stays without the feature of that name.
_OFF = {*options.FEATURES} - {*configurations.FEATURES} - {"events"}
ROUTES = {route: row for route, row in ROUTES.items() if route.split("/")[1] not in _OFF}
SAME = "another path of the same change"
FORWARDED = "the same as POST with another HTTP method of the vendor method"
WITHOUT: dict[str, str] = {
    "PUT /nodes/states/console/{node_ident}": SAME,
    "PUT /nodes/maintenance/{node_ident}": SAME,
    "DELETE /nodes/maintenance/{node_ident}": SAME,
    "PUT /nodes/management/boot_device/{node_ident}": SAME,
    "PUT /nodes/{ident}/management/indicators/{component}": SAME,
    "DELETE /nodes/{ident}/traits/{trait}": SAME,
    "PUT /nodes/{ident}/management/boot_device/supported": "is refused",
    **{
        f"{method} /nodes/{{ident}}/vendor_passthru": "is refused without a vendor method"
        for method in TAKEN
    },
    **{f"{method} /nodes/{{ident}}/vendor_passthru/{{method}}": FORWARDED for method in TAKEN[1:3]},
    **{
        f"{method} /drivers/{{name}}/vendor_passthru{more}": "changes nothing of the service"
        for method in TAKEN
        for more in ("", "/{method}")
    },
    "POST /nodes/{ident}/plan": "changes nothing",
    "POST /heartbeat": "the work of the run has events",
    "POST /heartbeat/{ident}": "the work of the run has events",
    "POST /continue_inspection": "the work of the run has events",
}


@pytest.fixture
def world(sqlite_database: Database) -> Iterator[World]:
    operator = Operator(sqlite_database)
    yield World(operator)
    operator.close()


def test_every_route_that_changes_something_has_a_row() -> None:
    routes = {
        f"{route.method} {route.path}"
        for controller in whole_api.CONTROLLERS
        for route, _ in controller.exposed()
        if route.method in TAKEN
    }
    assert routes == {*ROUTES, *WITHOUT}
    assert not ROUTES.keys() & WITHOUT.keys()


@pytest.mark.parametrize("route", ROUTES)
def test_a_request_writes_the_event_of_its_change(world: World, route: str) -> None:
    asked = ROUTES[route](world)
    # Workers of the requests before have ended, so that their events are not among these.
    assert world.operator.rig.service.runtime.workers.wait_idle(60)
    answer = world.api.request(route.split(maxsplit=1)[0], f"/v1/{asked.path}", asked.body)
    assert answer.status in (200, 201, 202, 204), answer.body
    assert world.operator.rig.service.runtime.workers.wait_idle(60)
    request = answer.headers["x-openstack-request-id"]
    with world.operator.whole.database.engine.connect() as conn:
        statement = models.events.select().order_by(models.events.c.id)
        rows = [row for row in conn.execute(statement).mappings() if row["request_id"] == request]
    kinds = tuple(row["kind"] for row in rows)
    assert kinds[: len(asked.kinds)] == asked.kinds
    assert kinds == asked.kinds or route == "PUT /nodes/{ident}/states/provision", kinds
