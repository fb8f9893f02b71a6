"""A small fleet of several owners, with a resource of each kind, for `tests/api/rights.json`."""

from __future__ import annotations

from typing import Any

from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import allocations
from ironic_lite.db.tables import models
from tests.support.callers import LESSEE, OWNER, STRANGER, As

Json = dict[str, Any]
STEP = {"interface": "deploy", "step": "erase_devices", "args": {}, "order": 1}
ACTION = {"op": "set-attribute", "args": {"path": "driver", "value": "x"}}


def uuid_of(number: int) -> str:
    """Return the UUID that stands for a number in `tests/api/rights.json`."""
    return f"{number:08d}-0000-4000-8000-000000000000"


NODES = (
    # number, name, owner, lessee, state
    (1, "own", OWNER, LESSEE, "manageable"),
    (2, "own2", OWNER, None, "active"),
    (3, "mix", STRANGER, LESSEE, "active"),
    (4, "free", None, None, "active"),
    (5, "cross", OWNER, None, "active"),
    (6, "strange", STRANGER, None, "manageable"),
)
ALLOCATIONS = (
    # number, name, owner, number of its node
    (21, "a-own", OWNER, 2),
    (22, "a-str", STRANGER, 5),
    (23, "a-none", None, 4),
    (24, "a-les", LESSEE, 3),
    (25, "a-wait", OWNER, None),
)
RUNBOOKS = (
    # number, name, owner, public
    (31, "CUSTOM_RB_OWN", OWNER, False),
    (32, "CUSTOM_RB_PUB", None, True),
    (33, "CUSTOM_RB_STR", STRANGER, False),
    (34, "CUSTOM_RB_NONE", None, False),
    (35, "CUSTOM_RB_LES", LESSEE, False),
)
BELOW = ("own", "strange", "free", "mix")
"""The nodes that have something of each kind; their numbers follow 41, 51, 61, 71."""


def build(admin: As, database: session.Database) -> None:
    """Make it all, by the API where that can."""
    _post(admin, "chassis", {"uuid": uuid_of(81)})
    for number, name, owner, lessee, _ in NODES:
        about = {"owner": owner, "lessee": lessee, "resource_class": "rc"}
        _post(admin, "nodes", {"uuid": uuid_of(number), "name": name, **about})
    for place, name in enumerate(BELOW, 1):
        _furnish(admin, place, name)
    for number, name, owner, public in RUNBOOKS:
        ident = uuid_of(number)
        told = {"name": name, "steps": [STEP], "owner": owner, "public": public}
        _post(admin, "runbooks", {"uuid": ident, **told})
        traits = {"traits": [name, "CUSTOM_ANY"]}
        assert admin.put(f"/v1/runbooks/{ident}/traits", traits).status == 204
    template = {"interface": "deploy", "step": "x", "args": {}, "priority": 10}
    _post(
        admin, "deploy_templates", {"uuid": uuid_of(82), "name": "CUSTOM_DT", "steps": [template]}
    )
    _post(admin, "inspection_rules", {"uuid": uuid_of(83), "actions": [ACTION]})
    database.write(_settle)


def _post(admin: As, kind: str, body: Json) -> None:
    more = {"driver": "fake-hardware"} if kind == "nodes" else {}
    answer = admin.post(f"/v1/{kind}", {**more, **body})
    assert answer.status == 201, answer.text


def _furnish(admin: As, place: int, name: str) -> None:
    node = {"node_uuid": uuid_of(next(row[0] for row in NODES if row[1] == name))}
    port = {"address": f"52:54:00:00:00:0{place}", "name": f"port-{name}"}
    target = {"volume_type": "iscsi", "volume_id": f"v-{name}", "boot_index": 0}
    connector = {"type": "iqn", "connector_id": f"c-{name}"}
    _post(admin, "ports", {"uuid": uuid_of(40 + place), **node, **port})
    _post(admin, "portgroups", {"uuid": uuid_of(50 + place), **node, "name": f"pg-{name}"})
    _post(admin, "volume/connectors", {"uuid": uuid_of(60 + place), **node, **connector})
    _post(admin, "volume/targets", {"uuid": uuid_of(70 + place), **node, **target})


def _settle(conn: session.Connection) -> None:
    """Bring the nodes where they are, which no request can."""

    def edit(number: int, **values: Any) -> None:
        mine = models.nodes.c.uuid == uuid_of(number)
        conn.execute(models.nodes.update().where(mine).values(**values))

    for number, _, _, _, state in NODES:
        edit(number, provision_state=state, power_state="power off")
    blank = dict.fromkeys(name for name in allocations.COLUMNS if name != "id")
    for number, name, owner, node in ALLOCATIONS:
        told = {"uuid": uuid_of(number), "name": name, "owner": owner, "resource_class": "rc"}
        where = {"node_uuid": node and uuid_of(node), "state": "active" if node else "allocating"}
        more = {"extra": {}, "created_at": clock.now()}
        allocations.insert(conn, {**blank, **told, **where, **more})
        if node:
            edit(node, allocation_uuid=uuid_of(number), instance_uuid=uuid_of(number))
    now, own = clock.now(), uuid_of(1)
    conn.execute(models.traits.insert().values(node_uuid=own, trait="CUSTOM_ANY"))
    setting = {"node_uuid": own, "name": "x", "value": "y", "created_at": now}
    conn.execute(models.bios_settings.insert().values(**setting))
    found: Json = {"node_uuid": own, "inventory": {}, "plugin_data": {}, "created_at": now}
    conn.execute(models.inventories.insert().values(**found))
