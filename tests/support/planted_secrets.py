"""Put secrets into every field and every body that clients can fill freely.

The places come from the tables of fields and of routes, so `test_planted_secrets` fails for a new
field, column or route into which no secret is put.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ironic_lite.api.resources import queries
from ironic_lite.domain import fields
from tests.support.operator import Operator

Json = dict[str, Any]
Place = tuple[str, str]
"""Collection and field, as paths have them."""

STEP = {"interface": "deploy", "step": "erase_devices"}
MAC = "52:54:00:00:00:01"
FREE = (fields.Type.OBJECT, fields.Type.LIST)


class Planter:
    """Makes secrets, and knows each by where it lies."""

    def __init__(self) -> None:
        self.made: dict[str, Place] = {}

    def __call__(self, collection: str, field: str) -> str:
        text = f"pLaNtEd{len(self.made):04}x"
        self.made[text] = (collection, field)
        return text

    def tree(self, collection: str, field: str) -> Json:
        """Return an object with secrets under usual names at several depths."""

        def new() -> str:
            return self(collection, field)

        return {
            "password": new(),
            "ipmi_password": new(),
            "deeper": {"api_key": new(), "list": [{"auth_token": new()}, [{"secret": new()}]]},
            "whole_secret": {"any": new()},
            "url": f"https://user:{new()}@example.org/file",
            "settings": [{"name": "AdminPassword", "value": new()}],
            "patches": [{"path": "/driver_info/redfish_password", "value": new()}],
            "snmp_priv_key": new(),
        }

    def found(self, text: str) -> set[Place]:
        """Return where the secrets that are in a text were planted."""
        return {place for secret, place in self.made.items() if secret in text}


# -- families ----------------------------------------------------------------------------------


def families() -> Iterator[tuple[str, tuple[fields.Field, ...]]]:
    """Give each collection that can be written, with its fields."""
    for name, resource in queries.RESOURCES.items():
        written = isinstance(resource, queries.Resource) and any(
            one.creatable or one.patchable for one in resource.table
        )
        if written:
            head, _, tail = name.lower().partition("_")
            yield f"volume/{tail}" if head == "volume" else name.lower(), resource.table


def free(table: tuple[fields.Field, ...]) -> tuple[str, ...]:
    """Return the names of the fields that hold what callers like, or lists of it."""
    return tuple(one.name for one in table if one.type in FREE and (one.creatable or one.patchable))


CLOSED = {
    ("allocations", "traits"),
    ("allocations", "candidate_nodes"),
}
"""Lists of words of a closed form: a secret in them is refused."""

Shape = Callable[[Json], Any]


def _whole(tree: Json) -> Json:
    return tree


def _deeper(tree: Json) -> Json:
    return {"more": tree}


_SHAPES: Mapping[Place, Shape] = {
    ("nodes", "network_data"): lambda tree: {
        "links": [],
        "networks": [],
        "services": [{"type": "dns", "address": "192.0.2.53", **tree}],
    },
    ("ports", "local_link_connection"): lambda tree: {
        "switch_id": MAC,
        "port_id": "1",
        "switch_info": tree,
    },
    ("deploy_templates", "steps"): lambda tree: [{**STEP, "priority": 0, "args": tree}],
    ("runbooks", "steps"): lambda tree: [{**STEP, "order": 1, "args": tree}],
    ("inspection_rules", "actions"): lambda tree: [
        {"op": "set-attribute", "args": {"path": "driver_info/ruled", "value": tree}},
        {
            "op": "set-attribute",
            "args": {"path": "driver_info/redfish_password", "value": tree["password"]},
        },
        {"op": "set-plugin-data", "args": {"path": "ruled/token", "value": tree["ipmi_password"]}},
        {
            "op": "set-attribute",
            "args": ["driver_info/ipmi_password", tree["whole_secret"]["any"]],
        },
    ],
    ("inspection_rules", "conditions"): lambda tree: [
        {"op": "ne", "args": {"values": [tree, {"password": tree["password"]}]}}
    ],
}


def body(planter: Planter, collection: str, names: tuple[str, ...], needed: Json) -> Json:
    """Return the body of a POST with a secret in each of these fields."""
    made = dict(needed)
    for name in names:
        place = (collection, name)
        if place not in CLOSED:
            tree = planter.tree(*place)
            made[name] = _SHAPES.get(place, _whole)(tree)
    return made


def needs(node: str) -> Mapping[str, Json]:
    """Return what a POST of each collection must have besides."""
    below = {"node_uuid": node}
    return {
        "chassis": {},
        "nodes": {"driver": "fake-hardware"},
        "ports": {**below, "address": MAC},
        "portgroups": below,
        "volume/connectors": {**below, "type": "iqn", "connector_id": "iqn.1"},
        "volume/targets": {
            **below,
            "volume_type": "iscsi",
            "boot_index": 0,
            "volume_id": "v-1",
        },
        "deploy_templates": {"name": "CUSTOM_T"},
        "runbooks": {"name": "CUSTOM_R"},
        "allocations": {"resource_class": "none"},
        "inspection_rules": {},
    }


def plant(operator: Operator, planter: Planter) -> dict[str, str]:
    """Make one of everything, with secrets; returns the UUID of each by its collection."""
    known = dict(families())
    first = body(planter, "nodes", free(known["nodes"]), needs("")["nodes"])
    first["instance_info"]["image_url"] = planter("nodes", "instance_info")
    node = operator.enroll("enroll", resource_class="metal", **first)
    ids = {"nodes": node}
    for collection, table in known.items():
        if collection != "nodes":
            sent = body(planter, collection, free(table), needs(node)[collection])
            answer = operator.api.post(f"/v1/{collection}", sent)
            assert answer.status == 201, (collection, answer.text)
            ids[collection] = answer.json["uuid"]
    return ids


def change(operator: Operator, planter: Planter, ids: Mapping[str, str]) -> None:
    """Change every field of everything, rightly and wrongly."""
    for collection, table in families():
        path = f"/v1/{collection}/{ids[collection]}"
        for one in table:
            place = (collection, one.name)
            if one.patchable and one.type in FREE and place not in CLOSED:
                value = _SHAPES.get(place, _deeper)(planter.tree(*place))
                right = [{"op": "replace", "path": f"/{one.name}", "value": value}]
                answer = operator.api.patch(path, right)
                assert answer.status == 200, (place, answer.text)
            for wrong in _wrong(one.name, planter(*place)):
                operator.api.patch(path, wrong)
                operator.api.post(f"/v1/{collection}", wrong)
                operator.api.post(
                    f"/v1/{collection}", {**needs(ids["nodes"])[collection], **_first(wrong)}
                )


def _wrong(name: str, secret: str) -> list[Any]:
    return [
        {name: {"password": secret}},
        {name: [{"password": secret}], "password": secret},
        [{"op": "add", "path": f"/{name}/password/x/y", "value": secret}],
        [{"op": "replace", "path": f"/{name}", "value": {"password": [secret]}}],
        [{"op": "add", "path": f"/{name}/a", "value": 1, "password": secret}],
        [{"op": secret, "path": f"/{name}/a", "value": 1}],
        {"password": secret},
    ]


def _first(wrong: Any) -> Json:
    return wrong if isinstance(wrong, dict) else {}
