"""What both services hold when they are compared, and the bodies of requests that they take."""

from __future__ import annotations

from typing import Any

from tests.compare.identity import OWNER
from tests.compare.services import ELSEWHERE, Compared

Json = dict[str, Any]


def uuid_of(number: int) -> str:
    """Return the UUID of the thing with a number."""
    return f"{number:08d}-0000-4000-8000-000000000000"


CHASSIS, PORT, PORTGROUP, CONNECTOR, TARGET = (uuid_of(number) for number in range(21, 26))
TEMPLATE, RUNBOOK, RULE, ALLOCATION = (uuid_of(number) for number in range(31, 35))
ABSENT = uuid_of(99)
NODES: dict[str, tuple[str, Json]] = {
    # name: UUID, columns that no request sets
    "n-free": (uuid_of(1), {"provision_state": "manageable"}),
    "n-new": (uuid_of(2), {"provision_state": "enroll"}),
    "n-ready": (uuid_of(3), {"provision_state": "available"}),
    "n-used": (uuid_of(4), {"provision_state": "active"}),
    "n-busy": (uuid_of(5), {"provision_state": "manageable", "reservation": ELSEWHERE}),
    "n-broken": (
        uuid_of(6),
        {"provision_state": "clean failed", "maintenance": 1, "fault": "clean failure"},
    ),
}
STEP = {"interface": "deploy", "step": "erase_devices", "args": {}, "order": 1}
DEPLOY_STEP = {"interface": "deploy", "step": "deploy", "args": {}, "priority": 0}
ACTION = {"op": "set-attribute", "args": {"path": "/properties/x", "value": "y"}}
PORT_EVENT = {"port_id": ABSENT, "mac_address": "52:54:00:00:00:01", "status": "ACTIVE"}
EXTRA = [{"op": "add", "path": "/extra/a", "value": 1}]


def fill(service: Compared) -> None:
    """Put it all into a service."""
    service.send("POST", "/v1/chassis", {"uuid": CHASSIS})
    for name, (ident, _) in NODES.items():
        body = {"uuid": ident, "name": name, "driver": "fake-hardware", "owner": OWNER}
        more = {"resource_class": "rc", "properties": {"cpu_arch": "x86_64"}}
        service.send("POST", "/v1/nodes", {**body, **more, "chassis_uuid": CHASSIS})
        service.send("PUT", f"/v1/nodes/{ident}/traits", {"traits": ["CUSTOM_A", "CUSTOM_RB"]})
    own = {"node_uuid": NODES["n-free"][0]}
    port = {"address": "52:54:00:00:00:01", "name": "port-1"}
    service.send("POST", "/v1/portgroups", {"uuid": PORTGROUP, "name": "group-1", **own})
    service.send("POST", "/v1/ports", {"uuid": PORT, **own, **port})
    connector = {"type": "iqn", "connector_id": "c"}
    service.send("POST", "/v1/volume/connectors", {"uuid": CONNECTOR, **own, **connector})
    target = {"volume_type": "iscsi", "volume_id": "v", "boot_index": 0}
    service.send("POST", "/v1/volume/targets", {"uuid": TARGET, **own, **target})
    template = {"name": "CUSTOM_DT", "steps": [{**DEPLOY_STEP, "priority": 10}]}
    service.send("POST", "/v1/deploy_templates", {"uuid": TEMPLATE, **template})
    book = {"name": "CUSTOM_RB", "steps": [STEP]}
    service.send("POST", "/v1/runbooks", {"uuid": RUNBOOK, **book})
    service.send(
        "POST", "/v1/inspection_rules", {"uuid": RULE, "conditions": [], "actions": [ACTION]}
    )
    for ident, columns in NODES.values():
        service.edit(ident, power_state="power off", **columns)
    used = {"node": NODES["n-used"][0], "resource_class": "rc", "name": "alloc-1"}
    service.send("POST", "/v1/allocations", {"uuid": ALLOCATION, **used})
    service.keep()


IDENTS: dict[str, tuple[str, ...]] = {
    # the first word of a path: what stands for {ident} there that is
    "nodes": (NODES["n-free"][0], "n-free", NODES["n-used"][0], NODES["n-busy"][0]),
    "ports": (PORT, "port-1"),
    "portgroups": (PORTGROUP, "group-1"),
    "chassis": (CHASSIS,),
    "allocations": (ALLOCATION, "alloc-1"),
    "deploy_templates": (TEMPLATE, "CUSTOM_DT"),
    "runbooks": (RUNBOOK, "CUSTOM_RB"),
    "inspection_rules": (RULE,),
    "volume/connectors": (CONNECTOR,),
    "volume/targets": (TARGET,),
    "drivers": ("fake-hardware",),
    "conductors": ("compared",),
    "heartbeat": (NODES["n-free"][0],),
}
NOT_THERE = (ABSENT, "no-such-name")
MALFORMED = ("malformed:uuid", "52:54:00:00:00:01", "a%20b", "%C3%BC")
WORDS: dict[str, tuple[str, ...]] = {
    # other words of paths: some that are there, and some that are not
    "trait": ("CUSTOM_A", "CUSTOM_X", "bad%20trait"),
    "vif": (ABSENT, "vif-1", "bad%20vif"),
    "setting": ("virtualization", "nothing"),
    "entry": (ABSENT, "nothing"),
    "component": ("system", "led@system", "power@chassis", "nothing"),
    "indicator": ("led", "nothing"),
    "method": ("first_method", "second_method", "nothing"),
    "run": (ABSENT,),
    "hostname": ("compared", "nobody"),
    "name": ("fake-hardware", "nobody"),
}
_TARGETS = (
    *("manage", "provide", "active", "deleted", "inspect", "abort", "adopt", "nothing"),
    *("clean", "service", "rescue", "unrescue", "unhold", "rebuild", "deploy", "undeploy"),
)
BODIES: dict[str, tuple[Any, ...]] = {
    "POST /nodes": (
        {"driver": "fake-hardware"},
        {"driver": "fake-hardware", "name": "n-free"},
        {"driver": "nobody"},
        {"driver": "fake-hardware", "uuid": ABSENT, "extra": {"a": 1}, "owner": OWNER},
    ),
    "POST /ports": (
        {"node_uuid": NODES["n-free"][0], "address": "52:54:00:00:00:09"},
        {"node_uuid": ABSENT, "address": "52:54:00:00:00:09"},
        {"node_uuid": NODES["n-free"][0], "address": "52:54:00:00:00:01"},
        {"node_uuid": NODES["n-busy"][0], "address": "52:54:00:00:00:09"},
    ),
    "POST /portgroups": ({"node_uuid": NODES["n-free"][0]}, {"node_uuid": ABSENT}),
    "POST /chassis": ({}, {"description": "d"}, {"uuid": CHASSIS}),
    "POST /volume/connectors": (
        {"node_uuid": NODES["n-free"][0], "type": "wwnn", "connector_id": "x"},
        {"node_uuid": NODES["n-free"][0], "type": "iqn", "connector_id": "c"},
    ),
    "POST /volume/targets": (
        {"node_uuid": NODES["n-free"][0], "volume_type": "x", "volume_id": "x", "boot_index": 1},
        {"node_uuid": NODES["n-free"][0], "volume_type": "x", "volume_id": "x", "boot_index": 0},
    ),
    "POST /allocations": ({"resource_class": "rc"}, {"resource_class": "rc", "name": "alloc-1"}),
    "POST /deploy_templates": ({"name": "CUSTOM_N", "steps": [{**DEPLOY_STEP, "priority": 1}]},),
    "POST /runbooks": ({"name": "CUSTOM_N", "steps": [STEP]},),
    "POST /inspection_rules": ({"actions": [ACTION]}, {"actions": [ACTION], "uuid": RULE}),
    "POST /events": (
        {"events": [{**PORT_EVENT, "event": "network.bind_port"}]},
        {"events": []},
        {"events": [{"event": "network.bind_port"}]},
    ),
    "POST /heartbeat/{ident}": ({"callback_url": "http://127.0.0.1:9", "agent_token": "x"},),
    "POST /continue_inspection": ({"inventory": {"interfaces": []}},),
    "PUT /nodes/{ident}/states/power": (
        {"target": "power on"},
        {"target": "power off", "timeout": 10},
        {"target": "soft power off"},
        {"target": "nothing"},
    ),
    "PUT /nodes/{ident}/states/provision": (
        *({"target": target} for target in _TARGETS),
        {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]},
        {"target": "clean", "runbook": "CUSTOM_RB"},
        {"target": "rescue", "rescue_password": "sesame"},
        {"target": "service", "service_steps": [{"interface": "bios", "step": "x"}]},
        {"target": "manage", "configdrive": "x"},
    ),
    "PUT /nodes/{ident}/states/raid": (
        {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]},
        {"logical_disks": []},
    ),
    "PUT /nodes/{ident}/states/boot_mode": ({"target": "uefi"}, {"target": "x"}),
    "PUT /nodes/{ident}/states/secure_boot": ({"target": True}, {"target": "x"}),
    "PUT /nodes/{ident}/states/console": ({"enabled": True}, {"enabled": "x"}),
    "PUT /nodes/{ident}/maintenance": ({"reason": "r"}, {}),
    "PUT /nodes/{ident}/management/boot_device": (
        {"boot_device": "pxe"},
        {"boot_device": "pxe", "persistent": "x"},
        {"boot_device": "nothing"},
    ),
    "PUT /nodes/{ident}/management/inject_nmi": ({},),
    "PUT /nodes/{ident}/management/indicators/{component}": ({"state": "on"}, {"state": "x"}),
    "PUT /nodes/{ident}/traits": ({"traits": ["CUSTOM_X"]}, {"traits": ["bad"]}, {"traits": []}),
    "POST /nodes/{ident}/vifs": ({"id": ABSENT}, {"id": "vif-1"}, {"id": 5}),
    "POST /nodes/{ident}/vmedia": ({"device_type": "cdrom", "image_url": "http://127.0.0.1/x"},),
    "PUT /runbooks/{ident}/traits": ({"traits": ["CUSTOM_X"]},),
}
PATCHES: tuple[Any, ...] = (
    EXTRA,
    [],
    [{"op": "replace", "path": "/uuid", "value": ABSENT}],
    [{"op": "remove", "path": "/extra/none"}],
    [{"op": "add", "path": "/unknown", "value": 1}],
    [{"op": "replace", "path": "/name", "value": "other-name"}],
    [{"op": "replace", "path": "/name", "value": "bad name"}],
    [{"op": "replace", "path": "/description", "value": "d"}],
    [{"op": "copy", "path": "/extra/a", "from": "/extra/b"}],
    [{"op": "add", "path": "extra"}],
)
