"""``ironic-lite-dbsync export-ironic``: changes here go back into databases of real Ironics."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.db import copy
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import models
from tests.db import test_import_ironic as moves
from tests.db.test_import_ironic import digest, dump, found_rows, imported, known
from tests.move_in.ironics import VERSIONS
from tests.move_in.source import SECRETS
from tests.support import configurations, database_servers, whole_api
from tests.support.api_rows import HOST, add_conductor
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("move_in")
exports = pytest.importorskip("ironic_lite.features.move_in.exports")
dbsync = pytest.importorskip("ironic_lite.features.move_in.dbsync")
rows = pytest.importorskip("ironic_lite.features.move_in.rows")
rules = pytest.importorskip("ironic_lite.features.move_in.rules")
sources = pytest.importorskip("ironic_lite.features.move_in.source")

__all__ = ["known"]

NEWEST = VERSIONS[-1]
Open = Callable[..., Database]
Confirm = Callable[[Connection], None]
NEW, PORT, GROUP, TEMPLATE, BOOK, CHASSIS = (str(uuid.UUID(int=number)) for number in range(1, 7))
MADE_HERE = "word-made-here"


def exported(
    database: Database,
    url: str,
    *,
    write: bool = True,
    confirm: Confirm = lambda _conn: None,
    ident: str | None = None,
) -> Any:
    """Export to a database of Ironic; return what was found."""
    origin = database.read(lambda conn: rows.origin(conn, ident))
    with (
        contextlib.closing(sources.open_database(database, url, write=write)) as there,
        copy.snapshot(database) as here,
    ):
        given = confirm if write else None
        return there.write(lambda conn: dbsync.carry(there, conn, here, origin, given), once=True)


def findings(made: Any, kind: str) -> list[str]:
    """Return the texts of a kind."""
    return [
        f"{one['path']}: {one['text']} {one['names']}"
        for one in made.report.documents()
        if one["kind"] == kind
    ]


def _plain(value: Any) -> Any:
    """Return a time as Ironic's MariaDB has it, and nothing for what is empty."""
    if value in ({}, []):
        return None
    return value.replace(microsecond=0) if isinstance(value, datetime.datetime) else value


def table_rows(database: Database) -> dict[str, list[Json]]:
    """Return all rows that a move carries, without what each import gives anew."""
    own = {"id", "import_uuid", "generation", "data_state", "data_state_at", "data_state_by"}
    own |= {"power_state"}  # an import takes it of machines that are not watched
    tables = (
        *(models.chassis, models.nodes, models.traits, models.portgroups, models.ports),
        *(models.volume_connectors, models.volume_targets, models.bios_settings),
        *(models.firmware_components, models.inventories, models.allocations),
        *(models.deploy_templates, models.runbooks, models.inspection_rules),
    )
    return {
        table.name: sorted(
            (
                {name: _plain(value) for name, value in row.items() if name not in own}
                for row in found_rows(database, table)
            ),
            key=str,
        )
        for table in tables
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_export_right_after_an_import_changes_nothing(
    version: str, sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path, version)
    before = digest(path)
    assert not imported(sqlite_database, f"sqlite:///{path}", known).refuses
    made = exported(sqlite_database, f"sqlite:///{path}")
    assert made.empty
    assert made.report.documents() == []
    assert digest(path) == before
    assert not pathlib.Path(f"{path}-wal").exists()


# Changes through the API.


def api_of(database: Database) -> Client:
    """Return a client of the API, with a conductor that only records."""
    add_conductor(database, HOST)
    conf = configurations.shared({"conductor__node_locked_retry_interval": 0})
    return Client(whole_api.build(database, Recorder(), conf))


def _patch(path: str, **values: object) -> tuple[str, str, Any]:
    document = [
        {"op": "add", "path": f"/{name}", "value": value}
        if value is not None
        else {"op": "remove", "path": f"/{name}"}
        for name, value in values.items()
    ]
    return ("PATCH", path, document)


def _step(**more: object) -> Json:
    return {"interface": "deploy", "step": "deploy", "args": {"word": MADE_HERE}, **more}


_NODE = {"uuid": NEW, "name": "new-1", "driver": "fake-hardware", "chassis_uuid": CHASSIS}
_NEW_BOOK = [
    ("POST", "/v1/runbooks", {"uuid": BOOK, "name": "CUSTOM_B", "steps": [_step(order=1)]})
]
CHANGES: list[list[tuple[str, str, Any]]] = [
    [_patch("/v1/nodes/r7-03", **{"driver_info/redfish_password": MADE_HERE, "extra": {"a": [1]}})],
    [_patch("/v1/nodes/r7-10", name="other"), _patch("/v1/nodes/r7-09", name="r7-10")],
    [_patch("/v1/nodes/r7-02", description="größer", owner="team-7", chassis_uuid=None)],
    [("PUT", "/v1/nodes/r7-04/maintenance", {"reason": "disk"})],
    [("DELETE", "/v1/nodes/r7-07/maintenance", None)],
    [("PUT", "/v1/nodes/r7-08/traits", {"traits": ["CUSTOM_NEW", "CUSTOM_RACK_7"]})],
    [("DELETE", "/v1/nodes/r7-11/traits", None)],
    [
        ("POST", "/v1/chassis", {"uuid": CHASSIS, "description": "new rack"}),
        ("POST", "/v1/nodes", {**_NODE, "driver_info": {"fake_password": MADE_HERE}}),
        (
            *("POST", "/v1/portgroups"),
            {"uuid": GROUP, "node_uuid": NEW, "name": "g", "address": "02:00:00:00:00:01"},
        ),
        (
            *("POST", "/v1/ports"),
            {
                "uuid": PORT,
                "node_uuid": NEW,
                "address": "02:00:00:00:00:02",
                "portgroup_uuid": GROUP,
            },
        ),
        ("PUT", f"/v1/nodes/{NEW}/traits", {"traits": ["CUSTOM_NEW"]}),
    ],
    [("DELETE", "/v1/ports/00001010-0000-4000-8000-000000000000", None)],
    [_patch("/v1/ports/00001020-0000-4000-8000-000000000000", address="02:00:00:00:00:03")],
    [_patch("/v1/deploy_templates/CUSTOM_RACK_7", steps=[_step(priority=7)])],
    [
        (
            *("POST", "/v1/deploy_templates"),
            {"uuid": TEMPLATE, "name": "CUSTOM_T", "steps": [_step(priority=1)]},
        )
    ],
    [_patch("/v1/runbooks/CUSTOM_RB", description="erase", owner=None)],
    _NEW_BOOK,
    [("DELETE", "/v1/inspection_rules/00000722-0000-4000-8000-000000000000", None)],
    [("DELETE", "/v1/allocations/too-large", None)],
]
"""Requests that belong together."""


def change(database: Database, groups: list[list[tuple[str, str, Any]]]) -> None:
    """Send requests; each must succeed."""
    client = api_of(database)
    for method, path, body in (one for group in groups for one in group):
        answer = client.request(method, path, body)
        assert answer.status < 300, (method, path, answer.json)
    nodes = models.nodes
    real = nodes.update().where(nodes.c.uuid == NEW)
    both = dict.fromkeys(("network_interface", "storage_interface"), "noop")
    database.write(lambda conn: conn.execute(real.values(both)))


def forget(database: Database, name: str) -> None:
    """Delete a node with all that belongs to it, as the API does, and a volume target."""
    targets, node = models.volume_targets, models.nodes.c.name == name
    volume = targets.c.uuid == "00004003-0000-4000-8000-000000000000"

    def write(conn: Connection) -> None:
        conn.execute(models.nodes.delete().where(node))
        conn.execute(targets.delete().where(volume))  # the API asks for a machine that is off

    database.write(write)


def here(database: Database, *statements: Any) -> None:
    """Change rows of this service."""
    database.write(lambda conn: [conn.execute(one) for one in statements])


@contextlib.contextmanager
def ironic_on(kind: str, path: pathlib.Path) -> Iterator[str]:
    """Yield the URL of a recorded database on a kind of database."""
    if kind == "sqlite":
        yield f"sqlite:///{path}"
        return
    with database_servers.own_database(kind, "ironic") as url:
        moves.load(path, url)
        yield url


@pytest.mark.parametrize("kind", database_servers.KINDS)
def test_all_changes_are_there_at_the_next_import(
    kind: str, open_empty: Open, known: Any, tmp_path: pathlib.Path
) -> None:
    first, second = open_empty("sqlite", moves.KEY), open_empty("sqlite")
    with ironic_on(kind, dump(tmp_path)) as url:
        assert not imported(first, url, known).refuses
        change(first, CHANGES)
        forget(first, "r7-14")
        made = exported(first, url)
        assert findings(made, "refused") == []
        assert not made.empty
        assert made.secrets >= 4
        assert made.report.counts["nodes"]["removed"] == 1
        assert made.report.counts["nodes"]["added"] == 1
        assert not imported(second, url, known).refuses
        wanted, found = table_rows(first), table_rows(second)
        for name in wanted:
            assert found[name] == wanted[name], name
        assert exported(second, url, write=False).empty


_TEXTS = ("a", "größer", "\U00004e16\U0001f600", "x" * 200, "'\\\"", None)
_VALUES: tuple[Any, ...] = (1, True, 1.5, None, "", [], {}, {"b": [None, {"c": "ä"}]}, "file:///a")
_TEXT_FIELDS = ("description", "owner", "lessee", "resource_class", "shard", "conductor_group")
_OBJECT_FIELDS = ("extra", "properties", "driver_info", "instance_info")
_FLAGS = ("automated_clean", "protected", "retired", "disable_power_off", "secure_boot")


def random_request(chance: random.Random, database: Database) -> tuple[str, str, Any]:
    """Return a request that changes something; the service may refuse it."""
    one = {
        name: chance.choice([row["uuid"] for row in found_rows(database, table)] or [NEW])
        for name, table in models.metadata.tables.items()
        if "uuid" in table.c and name in _CHANGED
    }
    made, word = str(uuid.UUID(int=chance.getrandbits(128))), f"CUSTOM_{chance.randrange(20)}"
    mac = f"02:00:00:00:00:{chance.randrange(60):02x}"
    text, value, key = chance.choice(_TEXTS), chance.choice(_VALUES), chance.choice("abc")
    node, chassis = one["nodes"], chance.choice([one["chassis"], None])
    owned = {"uuid": made, "node_uuid": node, "extra": {key: value}}
    group = chance.choice([one["portgroups"], None])
    steps = [_step(priority=chance.randrange(3)) for _ in range(chance.randrange(1, 4))]
    orders = [_step(order=place, args={key: value}) for place in range(chance.randrange(1, 4))]
    rule = {"actions": [{"op": "fail", "args": {"msg": word}}], "conditions": []}
    found = {
        "nodes": [
            ("POST", "", {"uuid": made, "driver": "fake-hardware", "extra": {key: value}}),
            *(_patch("", **{name: text}) for name in _TEXT_FIELDS),
            *(_patch("", **{f"{name}/{key}": value}) for name in _OBJECT_FIELDS),
            *(_patch("", **{name: chance.choice([True, False])}) for name in _FLAGS),
            *(_patch("", name=word), _patch("", chassis_uuid=chassis)),
            _patch("", instance_uuid=chance.choice([made, None])),
            ("PUT", "/maintenance", {"reason": word}),
            ("DELETE", "/maintenance", None),
            *(("PUT", "/traits", {"traits": [word, "CUSTOM_RACK_7"]}), ("DELETE", "/traits", None)),
        ],
        "ports": [
            ("POST", "", {**owned, "address": mac}),
            *(_patch("", address=mac), _patch("", node_uuid=node), _patch("", name=text)),
            *(_patch("", portgroup_uuid=group), _patch("", pxe_enabled=False)),
            ("DELETE", "", None),
        ],
        "portgroups": [
            ("POST", "", {**owned, "address": mac, "mode": "802.3ad"}),
            *(_patch("", name=word), _patch("", **{f"properties/{key}": value})),
            ("DELETE", "", None),
        ],
        "chassis": [
            ("POST", "", {"uuid": made, "description": word}),
            *(_patch("", description=text), ("DELETE", "", None)),
        ],
        "deploy_templates": [
            ("POST", "", {"uuid": made, "name": word, "steps": steps}),
            *(_patch("", steps=steps), _patch("", name=word), ("DELETE", "", None)),
        ],
        "runbooks": [
            ("POST", "", {"uuid": made, "name": word, "steps": orders}),
            *(_patch("", steps=orders), _patch("", public=True), ("DELETE", "", None)),
        ],
        "inspection_rules": [
            ("POST", "", {"uuid": made, "priority": 3, **rule}),
            *(_patch("", description=word), ("DELETE", "", None)),
        ],
        "allocations": [
            _patch("", name=word),
            _patch("", extra={key: value}),
            ("DELETE", "", None),
        ],
    }
    family = chance.choice(["nodes", *found])
    method, path, body = chance.choice(found[family])
    return method, f"/v1/{family}{'' if method == 'POST' else '/' + one[family]}{path}", body


_CHANGED = frozenset(
    {
        *("nodes", "ports", "portgroups", "chassis", "deploy_templates", "runbooks"),
        *("inspection_rules", "allocations"),
    }
)


def random_rows(chance: random.Random, database: Database) -> None:
    """Change what no request changes: states, readings, allocations, and a node that goes."""
    nodes = found_rows(database, models.nodes)
    parents = {row["parent_node"] for row in nodes}
    gone = chance.choice([row for row in nodes if row["uuid"] not in parents])
    forget(database, gone["name"])
    free = [row for row in nodes if row["allocation_uuid"] is None and row is not gone]
    some = chance.sample(free, 5)
    state = chance.choice(["available", "active", "manageable", "enroll", "clean failed"])
    moved = {"provision_state": state, "target_provision_state": None}
    made, now = str(uuid.UUID(int=chance.getrandbits(128))), clock.now()
    times = {"created_at": now, "updated_at": now}
    allocation = {
        **{"uuid": made, "node_uuid": some[2]["uuid"], "state": "active", "name": made},
        **{"traits": [], "candidate_nodes": [], "extra": {}, "resource_class": "x", **times},
    }
    here(
        database,
        set_of(some[1], **moved),
        models.allocations.insert().values(allocation),
        set_of(some[2], allocation_uuid=made, instance_uuid=made),
        models.bios_settings.delete().where(models.bios_settings.c.node_uuid == some[3]["uuid"]),
        *(
            models.bios_settings.insert().values(
                node_uuid=some[3]["uuid"], name=name, value="b", **times
            )
            for name in ("ProcTurbo", "A")
        ),
        models.inventories.delete().where(models.inventories.c.node_uuid == some[4]["uuid"]),
        models.inventories.insert().values(
            node_uuid=some[4]["uuid"], inventory={"cpu": chance.random()}, plugin_data={}, **times
        ),
    )


def set_of(node: Json, **values: object) -> Any:
    """Return the statement that changes a node."""
    return models.nodes.update().where(models.nodes.c.uuid == node["uuid"]).values(**values)


def _differing(found: list[Json], wanted: list[Json]) -> list[Any]:
    """Return the values that differ, of rows in the same order."""
    pairs = list(zip(found, wanted, strict=False))
    return [
        (name, one[name], other[name])
        for one, other in pairs
        for name in one
        if one[name] != other[name]
    ]


EXAMPLES = int(os.environ.get("EXPORT_EXAMPLES", "3"))
REQUESTS = 60


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_random_changes_are_there_at_the_next_import(
    seed: int, open_empty: Open, known: Any, tmp_path: pathlib.Path
) -> None:
    chance = random.Random(seed)
    first, second = open_empty("sqlite"), open_empty("sqlite")
    with ironic_on(chance.choice(database_servers.KINDS), dump(tmp_path)) as url:
        imported(first, url, known)
        before = {row["uuid"] for row in found_rows(first, models.nodes)}
        client = api_of(first)
        sent: list[tuple[int, Any]] = []
        for _ in range(REQUESTS):
            request = random_request(chance, first)
            sent.append((client.request(*request).status, request))
        assert max(status for status, _ in sent) < 500, sent
        assert sum(status < 300 for status, _ in sent) > REQUESTS / 4, sent
        new = models.nodes.update().where(models.nodes.c.uuid.not_in(before))
        here(first, new.values({f"{kind}_interface": "fake" for kind in moves.INTERFACES}))
        here(first, new.values(network_interface="noop", storage_interface="noop"))
        random_rows(chance, first)
        assert findings(exported(first, url), "refused") == []
        assert findings(imported(second, url, known), "refused") == []
        wanted, found = table_rows(first), table_rows(second)
        for name in wanted:
            assert found[name] == wanted[name], (_differing(found[name], wanted[name]), sent)
        assert exported(second, url, write=False).empty


def test_history_since_the_import_goes_back(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path)
    imported(sqlite_database, f"sqlite:///{path}", known)
    (node,) = [row for row in found_rows(sqlite_database, models.nodes) if row["name"] == "r7-03"]
    (origin,) = found_rows(sqlite_database, models.imports)
    event = {
        **{"at": origin["at"], "node_uuid": node["uuid"], "kind": "provision", "event": "fail"},
        **{"before": "cleaning", "after": "clean failed", "requester": "u" * 200},
        "data": {"error": "ä" * 40_000, "state": "clean failed", "seconds": 5, "project": "p"},
    }
    sqlite_database.write(lambda conn: conn.execute(models.events.insert(), event))
    made = exported(sqlite_database, f"sqlite:///{path}")
    assert made.entries == 1
    with contextlib.closing(sqlite3.connect(path)) as there:
        query = "SELECT * FROM node_history WHERE node_id = 3 ORDER BY id DESC LIMIT 1"
        there.row_factory = sqlite3.Row
        found = dict(there.execute(query).fetchone())
    assert (found["user"], found["state"], found["version"]) == ("u" * 64, "clean failed", "1.3")
    assert (found["severity"], found["duration_seconds"]) == ("ERROR", 5)
    assert 65_530 < len(found["event"].encode()) <= 65_535


def test_what_ironic_has_no_place_for_is_named(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{dump(tmp_path, VERSIONS[0])}"
    imported(sqlite_database, url, known)
    change(sqlite_database, [_NEW_BOOK])
    values = {"health": "Warning", "data_state": "clean"}
    wanted = models.nodes.c.name == "r7-01"
    update = models.nodes.update().where(wanted).values(**values)
    sqlite_database.write(lambda conn: conn.execute(update))
    made = exported(sqlite_database, url)
    assert made.empty
    assert sorted(findings(made, "loss")) == [
        ": 1 data states stay here, because Ironic has no place for them ['data states']",
        ": Ironic 24.1 to 26.0 (2024.1) has no table for it ['CUSTOM_B']",
        "health: Ironic 24.1 to 26.0 (2024.1) has no such column ['r7-01']",
    ]


def test_traits_of_runbooks_before_36_are_named(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path, "29.0.6")
    imported(sqlite_database, f"sqlite:///{path}", known)
    here(sqlite_database, models.runbooks.update().values(traits=["CUSTOM_RB", "CUSTOM_X"]))
    before = digest(path)
    (told,) = findings(exported(sqlite_database, f"sqlite:///{path}"), "loss")
    assert "29 (2025.1) takes the name of a runbook as its only trait" in told
    assert digest(path) == before


def test_left_out_nodes_are_not_touched(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path, NEWEST, "UPDATE nodes SET driver = 'snmp' WHERE name = 'r7-01'")
    before = digest(path)
    imported(sqlite_database, f"sqlite:///{path}", known, leave_out=True)
    assert exported(sqlite_database, f"sqlite:///{path}").empty
    assert digest(path) == before
    left = next(row for row in found_rows(sqlite_database, models.imports))["left_out"][0]
    body = {"uuid": left["uuid"], "driver": "fake-hardware"}
    change(sqlite_database, [[("POST", "/v1/nodes", body)]])
    made = exported(sqlite_database, f"sqlite:///{path}")
    assert made.empty
    assert "the import has left it out" in findings(made, "loss")[0]
    assert digest(path) == before


def test_maps_are_undone(sqlite_database: Database, known: Any, tmp_path: pathlib.Path) -> None:
    statement = (
        "UPDATE nodes SET driver = 'ilo', network_interface = 'neutron', power_interface = 'ilo', "
        """driver_info = '{"ilo_address": "10.0.0.1", "ilo_password": "p"}' WHERE id = 1"""
    )
    path = dump(tmp_path, NEWEST, statement)
    maps = rules.Maps({"driver": {"ilo": "redfish"}, "network": {"neutron": "noop"}})
    made = imported(sqlite_database, f"sqlite:///{path}", known, maps=maps)
    assert not made.refuses, made.report.documents()
    assert exported(sqlite_database, f"sqlite:///{path}", write=False).empty
    info = {"redfish_address": "https://10.0.0.1", "redfish_password": MADE_HERE}
    one = models.nodes.c.name == "r7-01"
    update = models.nodes.update().where(one).values(driver_info=info)
    sqlite_database.write(lambda conn: conn.execute(update))
    made = exported(sqlite_database, f"sqlite:///{path}")
    assert [(one.table, set(one.values)) for one in made.changes] == [("nodes", {"driver_info"})]
    with contextlib.closing(sqlite3.connect(path)) as there:
        query = "SELECT driver, network_interface, power_interface, driver_info FROM nodes"
        *names, text = there.execute(f"{query} WHERE id = 1").fetchone()
    assert names == ["ilo", "neutron", "ilo"]
    assert json.loads(text) == {"ilo_address": "10.0.0.1", "ilo_password": MADE_HERE}


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ({}, {}),
        ({"extra": {"a": 1}}, {"extra": {"a": 1}}),
        ({"power_interface": "fake"}, {"power_interface": "fake"}),
    ],
    ids=["nothing", "another field", "an interface"],
)
def test_unset_interfaces_stay_unset_when_defaults_change(
    values: Json,
    written: Json,
    sqlite_database: Database,
    known: Any,
    tmp_path: pathlib.Path,
) -> None:
    unset = ", ".join(f"{kind}_interface = NULL" for kind in moves.INTERFACES)
    path = dump(tmp_path, NEWEST, f"UPDATE nodes SET driver = 'redfish', {unset} WHERE id = 1")
    assert not imported(sqlite_database, f"sqlite:///{path}", known).refuses
    if values:
        update = models.nodes.update().where(models.nodes.c.name == "r7-01").values(**values)
        sqlite_database.write(lambda conn: conn.execute(update))
    output = tmp_path / "report.json"
    defaults = "default_deploy_interface = ramdisk\ndefault_power_interface = ipmitool\n"
    words = ("--to", f"sqlite:///{path}", "--check", "--output", str(output))
    done = run(
        tmp_path, sqlite_database, *words, more=f"{defaults}default_inspect_interface = fake"
    )
    assert done.returncode == 0, done.stderr
    changed = {"nodes": {"changed": 1, "added": 0, "removed": 0}} if written else {}
    assert json.loads(output.read_text())["counts"] == changed
    made = exported(sqlite_database, f"sqlite:///{path}")
    assert [one.values for one in made.changes] == ([written] if written else [])


# What stands against it.

_NODE_ONE = models.nodes.update().where(models.nodes.c.name == "r7-01")
_REFUSED: list[tuple[str, str, Any, str]] = [
    # name, a statement on Ironic's database, one here, what is said
    (
        "changed there",
        "UPDATE nodes SET updated_at = '2030-01-01 00:00:00' WHERE id = 1",
        *(None, "updated_at: Ironic has changed it since the import: nodes.updated_at ['r7-01']"),
    ),
    (
        "new there",
        "INSERT INTO node_traits (node_id, trait) VALUES (1, 'CUSTOM_X')",
        *(None, "count of node_traits is 57, and was 56"),
    ),
    ("trait removed there", "DELETE FROM node_traits WHERE node_id = 1", None, "is 52, and was 56"),
    ("node removed there", "DELETE FROM nodes WHERE id = 9", None, "does not have this imported"),
    ("in motion", "", _NODE_ONE.values(provision_state="cleaning"), "in cleaning: it is not at"),
    ("reserved", "", _NODE_ONE.values(reservation="c7"), "in enroll, reserved by c7: it is not"),
    ("interface", "", _NODE_ONE.values(deploy_interface="odd"), "39 (2026.2) does not have odd"),
]


@pytest.mark.parametrize(
    ("statements", "said"), [(one[1:3], one[3]) for one in _REFUSED], ids=[n[0] for n in _REFUSED]
)
def test_refusals_leave_ironics_database_as_it_was(
    statements: tuple[str, Any],
    said: str,
    sqlite_database: Database,
    known: Any,
    tmp_path: pathlib.Path,
) -> None:
    there, here = statements
    path = dump(tmp_path)
    imported(sqlite_database, f"sqlite:///{path}", known)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(there or "SELECT 1")
        database.commit()
    update = models.nodes.update().where(models.nodes.c.name == "r7-02").values(name="renamed")
    sqlite_database.write(lambda conn: conn.execute(update))
    if here is not None:
        sqlite_database.write(lambda conn: conn.execute(here))
    before = digest(path)
    made = exported(sqlite_database, f"sqlite:///{path}")
    assert any(said in one for one in findings(made, "refused")), findings(made, "refused")
    assert digest(path) == before


_STEP_THERE = "deploy_template_id = 1 AND interface = 'bios'"
_BOOK = _patch("/v1/runbooks/CUSTOM_RB", extra={"a": 1})


@pytest.mark.parametrize(
    "case",
    [
        (
            f"UPDATE deploy_template_steps SET priority = 9, updated_at = '2030-01-01' "
            f"WHERE {_STEP_THERE}",
            *(CHANGES[10], "updated_at of deploy_template_steps is 2030-01-01"),
        ),
        (
            f"DELETE FROM deploy_template_steps WHERE {_STEP_THERE}",
            *(CHANGES[10], "count of deploy_template_steps is 1, and was 2"),
        ),
        (
            "UPDATE runbook_steps SET id = 7",
            *([_BOOK], "id of runbook_steps is 7, and was 1"),
        ),
        (
            "INSERT INTO runbook_traits (runbook_id, trait) VALUES (1, 'CUSTOM_X')",
            *([_BOOK], "count of runbook_traits is 3, and was 2"),
        ),
    ],
)
def test_parts_that_ironic_has_changed_are_not_overwritten(
    case: tuple[str, Any, str], sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    statement, change_here, said = case
    path = dump(tmp_path)
    imported(sqlite_database, f"sqlite:///{path}", known)
    with contextlib.closing(sqlite3.connect(path)) as there:
        there.execute(statement)
        there.commit()
    change(sqlite_database, [change_here])
    before = digest(path)
    (told,) = findings(exported(sqlite_database, f"sqlite:///{path}"), "refused")
    assert said in told
    assert digest(path) == before


def test_what_mariadb_cannot_have_is_refused(
    open_empty: Open, known: Any, tmp_path: pathlib.Path
) -> None:
    database = open_empty("sqlite")
    with ironic_on("mysql", dump(tmp_path)) as url:
        imported(database, url, known)
        node = models.nodes.c.name
        same = models.nodes.update().where(node == "r7-01").values(name="R7-02")
        long = models.nodes.update().where(node == "r7-03").values(extra={"a": "x" * 70_000})
        wide = models.nodes.update().where(node == "r7-04").values(description="\U0001f600")
        here(database, same, long, wide)
        steps = [_step(priority=7, args={"a": "x" * 70_000})]
        change(database, [[_patch("/v1/deploy_templates/CUSTOM_RACK_7", steps=steps)]])
        narrow = "ALTER TABLE nodes MODIFY description TEXT CHARACTER SET utf8mb3"
        with contextlib.closing(sources.open_database(database, url, write=True)) as there:
            there.write(lambda conn: conn.exec_driver_sql(narrow))
        told = findings(exported(database, url), "refused")
    assert any("equals r7-02 in Ironic, whose database ignores case" in one for one in told), told
    assert any("and may have 65535 there ['r7-03']" in one for one in told), told
    assert any("and may have 65535 there ['CUSTOM_RACK_7']" in one for one in told), told
    assert any("characters of four bytes" in one and "r7-04" in one for one in told), told


# What could be lost or overwritten unseen.


def column(path: pathlib.Path, query: str) -> list[Any]:
    """Return the first column of rows of Ironic's database."""
    with contextlib.closing(sqlite3.connect(path)) as there:
        return [row[0] for row in there.execute(query)]


_LEAVE_OUT = "UPDATE nodes SET driver = 'snmp' WHERE name = 'r7-01'"


def test_allocation_that_was_not_taken_stays_there(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path)
    row = {"uuid": NEW, "name": "too-large", "state": "error", "resource_class": "other"}
    lists = {"traits": [], "candidate_nodes": [], "extra": {}, "created_at": clock.now()}
    here(sqlite_database, models.allocations.insert().values(**row, **lists))
    made = imported(sqlite_database, f"sqlite:///{path}", known, leave_out=True)
    assert any("another one with this name" in one for one in findings(made, "refused"))
    before = digest(path)
    made = exported(sqlite_database, f"sqlite:///{path}")
    assert made.empty
    assert digest(path) == before


def test_port_that_was_moved_outlives_its_old_node(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path)
    imported(sqlite_database, f"sqlite:///{path}", known)
    nodes = {row["name"]: row["uuid"] for row in found_rows(sqlite_database, models.nodes)}
    moved = models.ports.update().where(models.ports.c.node_uuid == nodes["r7-14"])
    here(sqlite_database, moved.values(node_uuid=nodes["r7-13"]))
    forget(sqlite_database, "r7-14")
    assert findings(exported(sqlite_database, f"sqlite:///{path}"), "refused") == []
    assert column(path, "SELECT id FROM ports WHERE node_id = 13") == [25, 26, 27, 28]
    assert column(path, "SELECT id FROM ports WHERE node_id IS NULL OR node_id = 14") == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "r7-01"}, "name: another object of Ironic has this name"),
        (
            {"instance_uuid": CHASSIS},
            "instance_uuid: another object of Ironic has this instance_uuid",
        ),
    ],
)
def test_new_node_with_a_value_of_a_left_out_one_is_refused(
    body: Json, said: str, sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    taken = f"UPDATE nodes SET instance_uuid = '{CHASSIS}' WHERE name = 'r7-01'"
    path = dump(tmp_path, NEWEST, _LEAVE_OUT, taken)
    imported(sqlite_database, f"sqlite:///{path}", known, leave_out=True)
    change(sqlite_database, [[("POST", "/v1/nodes", {"uuid": NEW, "driver": "fake-hardware"})]])
    here(sqlite_database, models.nodes.update().where(models.nodes.c.uuid == NEW).values(**body))
    before = digest(path)
    (told,) = findings(exported(sqlite_database, f"sqlite:///{path}"), "refused")
    assert told.startswith(said)
    assert digest(path) == before


def test_two_imports_of_one_ironic_go_back_one_after_the_other(
    open_empty: Open, known: Any, tmp_path: pathlib.Path
) -> None:
    first, second = open_empty("sqlite"), open_empty("sqlite")
    url = f"sqlite:///{dump(tmp_path)}"
    halves = (tuple(f"r7-{number:02}" for number in found) for found in (range(1, 8), range(8, 15)))
    origins = [imported(first, url, known, nodes=half).uuid for half in halves]
    change(first, [one for one in CHANGES if one is not CHANGES[-1]])
    for origin in origins:
        made = exported(first, url, ident=origin)
        assert findings(made, "refused") == []
        assert not made.empty
    assert not imported(second, url, known).refuses
    wanted, found = table_rows(first), table_rows(second)
    for name in wanted:
        if name != "allocations":  # those without a node come with a whole Ironic alone
            assert found[name] == wanted[name], (name, _differing(found[name], wanted[name]))


def test_chassis_with_left_out_nodes_stays_there(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path, NEWEST, _LEAVE_OUT)
    imported(sqlite_database, f"sqlite:///{path}", known, leave_out=True)
    outside = models.nodes.update().values(chassis_uuid=None)
    here(sqlite_database, outside, models.chassis.delete())
    made = exported(sqlite_database, f"sqlite:///{path}")
    assert any("nodes that were not imported are in it" in one for one in findings(made, "loss"))
    assert column(path, "SELECT name FROM nodes WHERE chassis_id = 1") == ["r7-01"]
    assert column(path, "SELECT id FROM chassis") == [1]


def test_objects_that_were_here_before_the_import_are_named(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path)
    change(sqlite_database, [*CHANGES[7:8], _NEW_BOOK])
    here(sqlite_database, models.conductors.delete())
    imported(sqlite_database, f"sqlite:///{path}", known)
    made = exported(sqlite_database, f"sqlite:///{path}")
    assert made.empty
    told = findings(made, "info")
    assert len(told) == 3
    assert all("it existed here before the import" in one for one in told), told


def test_key_without_a_way_back_is_refused(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    info = """{"ilo_address": "10.0.0.1", "ilo_password": "p"}"""
    ilo = f"UPDATE nodes SET driver = 'ilo', driver_info = '{info}' WHERE id = 2"
    path = dump(tmp_path, NEWEST, ilo)
    maps = rules.Maps({"driver": {"ilo": "redfish"}})
    assert not imported(sqlite_database, f"sqlite:///{path}", known, maps=maps).refuses
    new = {"redfish_address": "https://10.0.0.1", "redfish_system_id": "/redfish/v1/Systems/1"}
    node = models.nodes.update().where(models.nodes.c.name == "r7-02")
    here(sqlite_database, node.values(driver_info=new))
    before = digest(path)
    (told,) = findings(exported(sqlite_database, f"sqlite:///{path}"), "refused")
    assert told == "driver_info/redfish_system_id: ilo of Ironic does not have this key ['r7-02']"
    assert digest(path) == before


# Services that work meanwhile.


_LATE = (
    "UPDATE nodes SET description = 'late' WHERE id = 14",
    "DELETE FROM ports WHERE node_id = 14",
    "INSERT INTO node_traits (node_id, trait, version) VALUES (14, 'CUSTOM_LATE', '1.0')",
)
_IMPATIENT = {
    "sqlite": "PRAGMA busy_timeout = 0",
    "postgresql": "SET lock_timeout = 500",
    "mysql": "SET SESSION innodb_lock_wait_timeout = 1",
}


@pytest.mark.parametrize("kind", database_servers.KINDS)
def test_ironic_cannot_write_between_comparison_and_commit(
    kind: str, open_empty: Open, known: Any, tmp_path: pathlib.Path
) -> None:
    database = open_empty("sqlite")
    with ironic_on(kind, dump(tmp_path)) as url:
        imported(database, url, known)
        change(database, CHANGES[:1])
        engine = database_servers.transactional(sources.open_database(database, url, write=True))
        refused: list[str] = []
        waits: list[Any] = []

        def write(conn: Connection) -> None:
            if kind == "mysql":  # else it ends a connection whose rows wait for a minute
                waits.append(conn.exec_driver_sql("SELECT @@net_write_timeout").scalar())
            for statement in _LATE:
                with engine.connect() as other:
                    other.exec_driver_sql(_IMPATIENT[kind])
                    try:
                        other.exec_driver_sql(statement)
                    except sa.exc.DBAPIError as why:
                        refused.append(str(why))

        assert findings(exported(database, url, confirm=write), "refused") == []
        engine.dispose()
    assert len(refused) == len(_LATE), refused
    assert waits in ([], [3600])


@pytest.mark.parametrize("side", ["here", "there"])
def test_service_that_starts_during_an_export_refuses_it(
    side: str, sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path)
    imported(sqlite_database, f"sqlite:///{path}", known)
    change(sqlite_database, CHANGES[:1])
    before = digest(path)
    (imported_as,) = found_rows(sqlite_database, models.imports)
    with moves.opened(sqlite_database, f"sqlite:///{path}") as snapshot:
        looked = sources.conductors(snapshot.conn, snapshot.head)
    said = {"here": "has changed while it was exported", "there": "A conductor of Ironic was st"}

    with copy.snapshot(sqlite_database) as here:
        decide = dbsync.refusal_of_work(sqlite_database, here, imported_as["head"], looked)

        def confirm(conn: Connection) -> None:
            decide(conn)
            if side == "here":
                change(sqlite_database, CHANGES[1:2])
            else:
                conn.exec_driver_sql("UPDATE conductors SET online = 1")
            decide(conn)

        with pytest.raises(errors.Conflict, match=said[side]):
            exported(sqlite_database, f"sqlite:///{path}", confirm=confirm)
    assert digest(path) == before


# The command.


def run(tmp_path: pathlib.Path, target: Database, *words: str, more: str = "") -> Any:
    """Run the program."""
    return moves.run(tmp_path, target, *words, command="export-ironic", more=more)


def test_command_reports_checks_and_writes(open_empty: Open, tmp_path: pathlib.Path) -> None:
    target = open_empty("sqlite", moves.KEY)
    path = dump(tmp_path)
    before = digest(path)
    words = ("--to", f"sqlite:///{path}")
    nothing = run(tmp_path, target, *words, "--check")
    assert nothing.returncode == 2
    assert "There are 0 imports; nothing can be exported." in nothing.stderr
    assert moves.run(tmp_path, target, "--from", f"sqlite:///{path}").returncode == 1
    equal = run(tmp_path, target, *words, "--check")
    assert (equal.returncode, equal.stderr) == (0, "")
    assert equal.stdout.splitlines()[-1] == "nothing to carry back"
    assert run(tmp_path, target, *words, "--yes").returncode == 0
    assert digest(path) == before
    change(target, [CHANGES[0]])
    online = models.conductors.update().values(online=False)
    target.write(lambda conn: conn.execute(online))
    output = tmp_path / "report.json"
    checked = run(tmp_path, target, *words, "--check", "-f", "json", "--output", str(output))
    document = json.loads(checked.stdout)
    assert (document["exit"], document["written"], document["secrets"]) == (0, False, 1)
    assert document["counts"] == {"nodes": {"changed": 1, "added": 0, "removed": 0}}
    assert output.stat().st_mode & 0o777 == 0o600
    assert digest(path) == before
    done = run(tmp_path, target, *words, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 values with secrets, in clear" in done.stdout
    for text in (equal.stdout, checked.stdout, done.stdout, output.read_text()):
        assert not any(word in text for word in (MADE_HERE, *SECRETS.values()))
    assert MADE_HERE.encode() in path.read_bytes()
    again = run(tmp_path, target, *words, "--yes")
    assert (again.returncode, again.stdout.splitlines()[-1]) == (2, "Refused: nothing was written.")


_STATEMENTS: dict[str, tuple[str, str]] = {
    "UPDATE conductors SET online = 1": ("--yes", "conductor c1 is up, or was killed; stop it"),
    "UPDATE alembic_version SET version_num = '16990309ad9d'": (
        *("--yes", "is of Ironic 38, and was of 39 (2026.2) at the import."),
    ),
    "SELECT 1": ("-fjson", "one of the arguments --check --yes is required"),
}


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_command_refuses_before_it_looks_at_rows(
    statement: str, sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    word, said = _STATEMENTS[statement]
    path = dump(tmp_path)
    imported(sqlite_database, f"sqlite:///{path}", known)
    with contextlib.closing(sqlite3.connect(path)) as there:
        there.execute(statement)
        there.commit()
    before = digest(path)
    done = run(tmp_path, sqlite_database, "--to", f"sqlite:///{path}", word)
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert digest(path) == before


def test_trials_and_living_conductors_do_not_go_back(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path)
    made = imported(sqlite_database, f"sqlite:///{path}", known, trial=True)
    words = ("--to", f"sqlite:///{path}", "--check")
    done = run(tmp_path, sqlite_database, *words, "--import", made.uuid)
    assert done.returncode == 2
    assert "is a trial: Ironic has run since, so it cannot be exported." in done.stderr
    add_conductor(sqlite_database, HOST)
    done = run(tmp_path, sqlite_database, *words)
    assert done.returncode == 2
    assert "Stop all conductors before you export." in done.stderr


# Deaths.

_DEATHS = """
import os, signal, sys
from ironic_lite.db.engine import session
from ironic_lite.features.move_in import exports
from tests.db import test_export_ironic as here
from tests.db import test_import_ironic as moves
url, target = sys.argv[1:]
statement = exports._statement
with here.contextlib.closing(session.open_database(target)) as database:
    before = here.all_rows(database, url)
for name in sys.stdin.read().split():
    if not (child := os.fork()):
        def dying(change, head):
            if change.table == name:
                os.kill(os.getpid(), signal.SIGKILL)
            return statement(change, head)
        def die(_conn):
            os.kill(os.getpid(), signal.SIGKILL)
        exports._statement = dying
        here.exported(session.open_database(target), url, confirm=die)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, name
    with here.contextlib.closing(session.open_database(target)) as database:
        assert here.all_rows(database, url) == before, name
    print(name)
"""


def all_rows(database: Database, url: str) -> dict[str, list[Any]]:
    """Return all rows of Ironic's database."""
    with moves.opened(database, url) as snapshot:
        return {
            name: sorted((row.values for row in snapshot.rows(name)), key=str)
            for name, table in sources.TABLES.items()
            if table.of_head(snapshot.head)
        }


@pytest.mark.parametrize("kind", database_servers.KINDS)
def test_death_at_each_table_leaves_ironics_database_as_it_was(
    kind: str, open_empty: Open, known: Any, tmp_path: pathlib.Path
) -> None:
    database = open_empty("sqlite")
    with ironic_on(kind, dump(tmp_path)) as url:
        imported(database, url, known)
        change(database, CHANGES)
        forget(database, "r7-14")
        planned = exported(database, url, write=False)
        names = [*sorted({one.table for one in planned.changes}), "commit"]
        assert len(names) > 10
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                _DEATHS,
                url,
                database.url.render_as_string(hide_password=False),
            ],
            input="\n".join(names),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == names
        assert not exported(database, url).report.has("refused")
