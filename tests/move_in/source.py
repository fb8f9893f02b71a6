"""Contents of an Ironic that moves: 14 nodes in all resting states, and an object of every kind.

Its API creates what it can; the rest is written into its tables while it is stopped. Columns that
a release does not have are left out, so one description serves all releases.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from tests.compare.contents import uuid_of
from tests.move_in import ironics
from tests.move_in.ironics import CONDUCTOR, Ironic

Json = dict[str, Any]

SECRETS: Mapping[str, str] = {
    # A place that contains a secret: the word in it.
    "nodes.driver_info": "pLaNtEd-bmc-word",
    "nodes.instance_info": "pLaNtEd-image-word",
    "nodes.instance_info.rescue_password": "pLaNtEd-rescue-word",
    "nodes.driver_internal_info": "pLaNtEd-agent-word",
    "volume_targets.properties": "pLaNtEd-chap-word",
    "deploy_template_steps.args": "pLaNtEd-template-word",
    "runbook_steps.args": "pLaNtEd-runbook-word",
    "inspection_rules.actions": "pLaNtEd-rule-word",
    "bios_settings.value": "pLaNtEd-bios-word",
}
OWNER = "0123456789abcdef0123456789abcdef"
CHASSIS = uuid_of(500)
ALLOCATED, BACKFILLED, IN_ERROR, SEARCHING = (uuid_of(number) for number in range(601, 605))


class Planned(NamedTuple):
    """A node: the verbs that lead to its state, and columns that are written afterwards."""

    number: int
    verbs: tuple[str, ...]
    columns: Json

    @property
    def name(self) -> str:
        """Its name."""
        return f"r7-{self.number:02}"

    @property
    def uuid(self) -> str:
        """Its UUID."""
        return uuid_of(self.number)


def _failed(state: str, target: str | None, text: str, **more: Any) -> Json:
    return {"provision_state": state, "target_provision_state": target, "last_error": text, **more}


_UP = ("manage", "provide", "active")
NODES = (
    Planned(1, (), {"description": "Größe: eine Höheneinheit", "network_data": None}),
    Planned(2, ("manage", "inspect"), {"maintenance": True, "maintenance_reason": "new fan"}),
    Planned(3, ("manage", "provide"), {"shard": "s1", "automated_clean": False}),
    Planned(4, _UP, {"protected": True, "protected_reason": "database", "secure_boot": True}),
    Planned(5, (*_UP, "rescue"), {"boot_mode": "uefi"}),
    Planned(6, ("manage", "provide"), {"lessee": OWNER, "instance_name": "mail-1"}),
    Planned(
        7,
        ("manage",),
        _failed(
            *("clean failed", "available", "Timeout reached while cleaning the node."),
            maintenance=True,
            fault="clean failure",
            maintenance_reason="cleaning",
        ),
    ),
    Planned(8, ("manage", "provide"), _failed("deploy failed", "active", "No image.")),
    Planned(9, ("manage",), _failed("inspect failed", "manageable", "Timeout")),
    Planned(10, (), _failed("adopt failed", "active", "No image source.")),
    Planned(11, _UP, _failed("rescue failed", "rescue", "No ramdisk.")),
    Planned(12, _UP, _failed("unrescue failed", "active", "No power.")),
    Planned(13, _UP, _failed("service failed", "active", "A step failed.")),
    Planned(
        14,
        ("manage",),
        _failed("error", None, "Undeploy failed.", retired=True, retired_reason="old"),
    ),
)
BMCS: Mapping[str, tuple[str, Json]] = {
    # Nodes that get another driver than fake-hardware: the driver and their driver_info.
    **{
        f"r7-{number:02}": (
            "redfish",
            {
                "redfish_address": f"https://192.0.2.{number}",
                "redfish_system_id": "/redfish/v1/Systems/1",
                "redfish_username": "root",
                "redfish_password": SECRETS["nodes.driver_info"],
                "redfish_verify_ca": False,
            },
        )
        for number in (2, 3, 4, 7, 8, 9)
    },
    **{
        f"r7-{number:02}": (
            "ipmi",
            {
                "ipmi_address": f"192.0.2.{number}",
                "ipmi_username": "root",
                "ipmi_password": SECRETS["nodes.driver_info"],
                "ipmi_cipher_suite": 3,
            },
        )
        for number in (5, 11, 14)
    },
}
USED = (4, 5, 6, 8, 11, 12, 13)
"""Numbers of nodes with an instance."""
AGENT = "r7-04"
"""The node whose machine boots a real agent, in `journey`."""
POWERED = tuple(name for name in BMCS if int(name[-2:]) in USED and name != AGENT)
"""Nodes that are on. Machines of the fake hardware are off until a driver switches them on."""
_INTERFACES: Mapping[str, Json] = {
    "redfish": {
        **dict.fromkeys(("bios", "firmware", "management", "power", "vendor"), "redfish"),
        **{"boot": "redfish-virtual-media", "console": "no-console", "rescue": "no-rescue"},
        **{"deploy": "direct", "inspect": "agent", "raid": "agent"},
    },
    "ipmi": {
        **dict.fromkeys(("management", "power", "vendor"), "ipmitool"),
        **{"bios": "no-bios", "firmware": "no-firmware", "boot": "ipxe", "console": "no-console"},
        **{"deploy": "direct", "inspect": "agent", "raid": "no-raid", "rescue": "agent"},
    },
}
_STABLE = {"manage": "manageable", "inspect": "manageable", "provide": "available"}
_STABLE |= {"active": "active", "rescue": "rescue"}


def ports(number: int) -> list[tuple[str, str]]:
    """Return UUID and address of the ports of a node."""
    return [
        (uuid_of(1000 + 10 * number + nic), f"52:54:00:07:{number:02x}:{nic:02x}") for nic in (0, 1)
    ]


# -- by the API ----------------------------------------------------------------------------------


def fill(ironic: Ironic, bmcs: Mapping[str, tuple[str, Json]] = BMCS) -> None:
    """Put all into an Ironic with an empty schema; afterwards it is stopped.

    :param bmcs: the nodes that have a BMC: their driver and driver_info.
    """
    ironic.start()
    try:
        _fill_by_api(ironic)
    finally:
        ironic.stop()
    with ironic.engine.begin() as conn:
        _fill_by_sql(Tables(ironic.version, conn), bmcs)


def _fill_by_api(ironic: Ironic) -> None:
    ironic.send("POST", "/v1/chassis", {"uuid": CHASSIS, "description": "Rack 7"})
    _create_definitions(ironic)
    for node in NODES:
        _create_node(ironic, node)
    for verb in ("manage", "inspect", "provide", "active", "rescue"):
        wanted = [node for node in NODES if verb in node.verbs]
        body: Json = {"target": verb}
        if verb == "rescue":
            body["rescue_password"] = SECRETS["nodes.instance_info.rescue_password"]
        for node in wanted:
            ironic.send("PUT", f"/v1/nodes/{node.uuid}/states/provision", body)
        for node in wanted:
            ironic.reaches(f"/v1/nodes/{node.uuid}", "provision_state", _STABLE[verb])
        if verb == "provide":
            _allocate(ironic)
    used = {"uuid": BACKFILLED, "name": "backfilled", "node": uuid_of(4), "resource_class": "metal"}
    ironic.send("POST", "/v1/allocations", used)


def _create_node(ironic: Ironic, node: Planned) -> None:
    image = f"https://user:{SECRETS['nodes.instance_info']}@images.example.org/debian.raw"
    ironic.send(
        "POST",
        "/v1/nodes",
        {
            **{"uuid": node.uuid, "name": node.name, "driver": "fake-hardware"},
            **{"resource_class": "metal", "chassis_uuid": CHASSIS},
            "extra": {"rack": 7, "unit": node.number},
            "properties": {"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"},
            "driver_info": {"bmc_password": SECRETS["nodes.driver_info"], "note": "ü"},
            "instance_info": {
                **{"image_source": image, "image_checksum": "0" * 64, "root_gb": 10},
                "configdrive": "https://config.example.org/drive",
            },
        },
    )
    path = f"/v1/nodes/{node.uuid}"
    traits = ["CUSTOM_RACK_7", f"CUSTOM_UNIT_{node.number}", "HW_CPU_X86_VMX", "CUSTOM_RB"]
    ironic.send("PUT", f"{path}/traits", {"traits": traits})
    group = uuid_of(2000 + node.number)
    body = {"uuid": group, "name": f"{node.name}-bond", "node_uuid": node.uuid}
    if node.number in (4, 6):
        more = {"mode": "802.3ad", "properties": {"miimon": 100}, "extra": {"a": [1, None]}}
        address = {"address": f"52:54:00:08:{node.number:02x}:00"}
        ironic.send("POST", "/v1/portgroups", {**body, **more, **address})
    for nic, (ident, address_of) in enumerate(ports(node.number)):
        port: Json = {
            **{"uuid": ident, "address": address_of, "node_uuid": node.uuid},
            **{"pxe_enabled": nic == 0, "physical_network": "physnet1", "extra": {"nic": nic}},
        }
        if node.number == 4:
            switch = {"switch_id": "52:54:00:00:00:ff", "port_id": f"Eth1/{nic}"}
            port |= {"portgroup_uuid": group, "name": f"{node.name}-nic{nic}"}
            port["local_link_connection"] = {**switch, "switch_info": "leaf-7"}
        ironic.send("POST", "/v1/ports", port)
    if node.number in (3, 4, 8):
        _create_volumes(ironic, node)


def _create_volumes(ironic: Ironic, node: Planned) -> None:
    below = {"node_uuid": node.uuid}
    iqn = {"type": "iqn", "connector_id": f"iqn.2026-01.org.example:{node.name}"}
    connector = {"uuid": uuid_of(3000 + node.number), **below, **iqn, "extra": {"c": 1}}
    ironic.send("POST", "/v1/volume/connectors", connector)
    chap = {
        **{"target_portal": "192.0.2.200:3260", "target_lun": 1, "auth_method": "CHAP"},
        **{"auth_username": "u", "auth_password": SECRETS["volume_targets.properties"]},
    }
    volume = {"volume_type": "iscsi", "volume_id": f"v-{node.number}", "boot_index": 0}
    target = {"uuid": uuid_of(4000 + node.number), **below, **volume, "properties": chap}
    ironic.send("POST", "/v1/volume/targets", target)


def _create_definitions(ironic: Ironic) -> None:
    first = {"interface": "deploy", "step": "deploy"}
    word = {"admin_password": SECRETS["deploy_template_steps.args"]}
    steps = [
        {**first, "args": {"settings": word}, "priority": 80},
        {"interface": "bios", "step": "apply_configuration", "args": word, "priority": 150},
    ]
    template = {"uuid": uuid_of(701), "name": "CUSTOM_RACK_7", "steps": steps, "extra": {"t": 1}}
    ironic.send("POST", "/v1/deploy_templates", template)
    if ironic.newest >= 92:
        word = {"password": SECRETS["runbook_steps.args"]}
        step = {"interface": "deploy", "step": "erase_devices_metadata", "args": word, "order": 1}
        book: Json = {"uuid": uuid_of(711), "name": "CUSTOM_RB", "steps": [step]}
        ironic.send("POST", "/v1/runbooks", {**book, "public": False})
    if ironic.newest >= 112:
        traits = {"traits": ["CUSTOM_RB", "CUSTOM_RACK_7"]}
        ironic.send("PUT", "/v1/runbooks/CUSTOM_RB/traits", traits)
    if ironic.newest >= 96:
        matches = {"value": "{inventory[system_vendor][manufacturer]}", "regex": "Del"}
        value = SECRETS["inspection_rules.actions"]
        rule: Json = {
            **{"uuid": uuid_of(721), "description": "Dell", "priority": 10, "sensitive": True},
            "conditions": [{"op": "matches", "args": matches}],
            "actions": [
                {
                    "op": "set-attribute",
                    "args": {"path": "/driver_info/redfish_password", "value": value},
                }
            ],
        }
        ironic.send("POST", "/v1/inspection_rules", rule)
        plain = {"op": "set-attribute", "args": {"path": "/properties/vendor", "value": "x"}}
        second = {"uuid": uuid_of(722), "conditions": [], "actions": [plain]}
        ironic.send("POST", "/v1/inspection_rules", second)


def _allocate(ironic: Ironic) -> None:
    node = f"/v1/nodes/{uuid_of(6)}"
    ironic.send("PUT", f"{node}/states/power", {"target": "power off"})
    ironic.reaches(node, "power_state", "power off")
    wanted: Json = {"resource_class": "metal", "traits": ["CUSTOM_UNIT_6"]}
    one = {"uuid": ALLOCATED, "name": "mail", "candidate_nodes": [uuid_of(6)], **wanted}
    ironic.send("POST", "/v1/allocations", {**one, "extra": {"a": "b"}})
    found = ironic.reaches(f"/v1/allocations/{ALLOCATED}", "state", "active", "error")
    if found["state"] != "active":
        raise RuntimeError(f"Ironic {ironic.version}: {found}")
    for ident, name in ((IN_ERROR, "too-large"), (SEARCHING, "searching")):
        body = {"uuid": ident, "name": name, "resource_class": "huge"}
        ironic.send("POST", "/v1/allocations", body)
        ironic.reaches(f"/v1/allocations/{ident}", "state", "error")
    ironic.send("PUT", f"{node}/states/provision", {"target": "active"})
    ironic.reaches(node, "provision_state", "active")


# -- by SQL --------------------------------------------------------------------------------------


class Tables:
    """The tables of a stopped Ironic."""

    def __init__(self, version: str, conn: sa.Connection) -> None:
        self._conn = conn
        self._metadata = sa.MetaData()
        self._metadata.reflect(conn)
        self._objects = ironics.facts(version).objects

    def has(self, table: str) -> bool:
        """Return whether the release has a table."""
        return table in self._metadata.tables

    def _known(self, table: str, values: Json) -> Json:
        columns = self._metadata.tables[table].columns
        return {
            key: json.dumps(value) if isinstance(value, dict | list) else value
            for key, value in values.items()
            if key in columns
        }

    def insert(self, table: str, kind: str, rows: Sequence[Json]) -> None:
        """Insert rows of a kind of objects, as its newest version."""
        if not self.has(table) or not rows:
            return
        more = {"version": self._objects.get(kind), "created_at": _at(0)}
        for row in rows:
            known = self._known(table, {**more, **row})
            self._conn.execute(sa.insert(self._metadata.tables[table]).values(known))

    def update(self, table: str, key: str, value: object, values: Json) -> None:
        """Change the rows with a value in a column."""
        known = self._known(table, values) if self.has(table) else {}
        if known:
            found = self._metadata.tables[table]
            self._conn.execute(sa.update(found).where(found.c[key] == value).values(known))

    def rows(self, table: str) -> Iterator[Json]:
        """Yield the rows of a table."""
        found = self._conn.execute(sa.select(self._metadata.tables[table]))
        yield from (dict(row) for row in found.mappings())


def _at(minutes: int) -> datetime.datetime:
    """Return a time that is the same in each recording."""
    return datetime.datetime(2026, 3, 1, 12) + datetime.timedelta(minutes=minutes)


def _fill_by_sql(tables: Tables, bmcs: Mapping[str, tuple[str, Json]]) -> None:
    stored = {str(row["uuid"]): row for row in tables.rows("nodes")}
    for node in NODES:
        _change_node(tables, node, stored[node.uuid], bmcs.get(node.name))
        _add_details(tables, node, int(stored[node.uuid]["id"]))
    searching: Json = {"state": "allocating", "last_error": None, "candidate_nodes": []}
    tables.update("allocations", "uuid", SEARCHING, searching)
    tables.update("ports", "uuid", ports(4)[0][0], {"internal_info": {"note": "kept"}})
    tables.update(
        *("ports", "uuid", ports(3)[1][0]),
        {
            **{"description": "second card", "vendor": "example", "category": "data"},
            **{"available_for_dynamic_portgroup": False, "is_smartnic": True},
        },
    )
    tables.update(
        *("portgroups", "uuid", uuid_of(2004)),
        {"physical_network": "physnet1", "category": "data", "dynamic_portgroup": True},
    )
    told = {"owner": OWNER, "description": "metadata alone", "extra": {"r": 1}}
    tables.update("runbooks", "name", "CUSTOM_RB", told)
    tables.update("nodes", "uuid", uuid_of(9), {"parent_node": uuid_of(8)})


def driven(driver: str, info: Json) -> Json:
    """Return the columns of a node that has a BMC."""
    names = {f"{kind}_interface": name for kind, name in _INTERFACES[driver].items()}
    return {"driver": driver, "driver_info": info, **names}


def _change_node(tables: Tables, node: Planned, row: Json, bmc: tuple[str, Json] | None) -> None:
    used = node.number in USED
    ipmi = bmc is not None and bmc[0] == "ipmi"
    values: Json = {
        "owner": OWNER,
        "health": "OK" if bmc else None,
        "disable_power_off": ipmi,
        "power_state": "power on" if node.name in POWERED else "power off",
        "raid_config": {"logical_disks": [{"size_gb": 100, "raid_level": "1"}]},
        **node.columns,
    }
    if bmc is not None:
        values |= driven(*bmc)
    if used:
        values["instance_uuid"] = row["instance_uuid"] or uuid_of(900 + node.number)
        notes = {
            **{"is_whole_disk_image": True, "root_uuid_or_disk_id": f"0x{node.number:08x}"},
            **{"deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000"},
            **{"agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0"},
            "agent_secret_token": SECRETS["nodes.driver_internal_info"],
        }
        old = json.loads(row["driver_internal_info"] or "{}")
        values["driver_internal_info"] = {**old, **notes}
    if node.number == 5:
        word = SECRETS["nodes.instance_info.rescue_password"]
        old = json.loads(row["instance_info"] or "{}")
        hashed = {"hashed_rescue_password": "$6$salt$hash"}
        values["instance_info"] = {**old, "rescue_password": word, **hashed}
    tables.update("nodes", "uuid", node.uuid, values)


def _add_details(tables: Tables, node: Planned, ident: int) -> None:
    below = {"node_id": ident}
    tables.insert(
        *("node_history", "NodeHistory"),
        [
            {
                **{"uuid": uuid_of(100_000 + 100 * node.number + entry), **below},
                **{"conductor": CONDUCTOR, "created_at": _at(entry), "severity": "ERROR"},
                **{"event_type": "provisioning", "event": f"Entry {entry} of {node.name}: größer"},
                **{"user": "operator", "project": OWNER, "state": "clean failed"},
                **{"target_provision_state": "available", "duration_seconds": 60 + entry},
            }
            for entry in range(4)
        ],
    )
    tables.insert("node_tags", "", [{**below, "tag": "old"}] if node.number == 1 else [])
    if node.number in (2, 3, 4):
        tables.insert("node_inventory", "NodeInventory", [{**below, **_inventory(node)}])
        tables.insert("bios_settings", "BIOSSetting", [{**below, **one} for one in _bios()])
        tables.insert(
            *("firmware_information", "FirmwareComponent"),
            [{**below, **_firmware(name)} for name in ("bios", "bmc")],
        )


def _inventory(node: Planned) -> Json:
    cards = enumerate(ports(node.number))
    interfaces = [{"name": f"eth{nic}", "mac_address": address} for nic, (_, address) in cards]
    cpu = {"count": 32, "architecture": "x86_64", "flags": ["vmx", "aes"]}
    disks = [{"name": "/dev/nvme0n1", "size": 960_197_124_096, "serial": f"S{node.number:05}"}]
    system = {"manufacturer": "Dell Inc.", "product_name": "R660", "serial_number": "X"}
    inventory = {"interfaces": interfaces, "cpu": cpu, "disks": disks, "system_vendor": system}
    return {"inventory_data": inventory, "plugin_data": {"lldp_raw": {"eth0": [[1, "04"]]}}}


def _bios() -> list[Json]:
    word = SECRETS["bios_settings.value"]
    return [
        {
            **{"name": "ProcVirtualization", "value": "Enabled", "attribute_type": "Enumeration"},
            **{"allowable_values": ["Enabled", "Disabled"], "read_only": False},
            "reset_required": True,
        },
        {
            **{"name": "NumCores", "value": "16", "attribute_type": "Integer", "lower_bound": 0},
            **{"upper_bound": 64, "read_only": False, "unique": False},
        },
        {
            **{"name": "SetupPassword", "value": word, "attribute_type": "Password"},
            **{"min_length": 0, "max_length": 32},
        },
        {"name": "AssetTag", "value": None, "attribute_type": "String", "max_length": 63},
    ]


def _firmware(name: str) -> Json:
    return {
        **{"component": name, "initial_version": "1.0", "current_version": "1.1"},
        **{"last_version_flashed": "1.1", "vendor": "Dell", "model": "R660", "serial_number": "X"},
    }
