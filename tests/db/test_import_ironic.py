"""``ironic-lite-dbsync import-ironic``: recorded databases of real Ironics, into three kinds."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import conductors, events, holds
from ironic_lite.db.tables import models
from ironic_lite.domain import fields, history
from ironic_lite.drivers.registry import Registry, Settings
from tests.move_in.ironics import VERSIONS
from tests.move_in.source import SECRETS
from tests.support import database_servers, prefork, private_servers, service

pytestmark = pytest.mark.feature("move_in")
imports = pytest.importorskip("ironic_lite.features.move_in.imports")
names = pytest.importorskip("ironic_lite.features.move_in.names")
checks = pytest.importorskip("ironic_lite.features.move_in.checks")
rules = pytest.importorskip("ironic_lite.features.move_in.rules")
sources = pytest.importorskip("ironic_lite.features.move_in.source")
tables = pytest.importorskip("ironic_lite.features.move_in.tables")
dbsync = pytest.importorskip("ironic_lite.features.move_in.dbsync")

KEY = "pJfbVZ7gJ4e0CnnhbZ8Gx0lM5sHC8Zx9VtNTLe4zTqU="
DUMPS = pathlib.Path(__file__).parents[1] / "move_in/dumps"
NEWEST = VERSIONS[-1]
INTERFACES = {
    **{"boot": "fake,redfish-virtual-media,ipxe,pxe", "deploy": "fake,direct,ramdisk"},
    **dict.fromkeys(("management", "power"), "fake,redfish,ipmitool"),
    **{"bios": "fake,redfish,no-bios", "console": "fake,no-console"},
    **{"firmware": "fake,redfish,no-firmware", "inspect": "fake,agent,no-inspect"},
    **{"raid": "fake,agent,no-raid", "rescue": "fake,agent,no-rescue"},
    **{"vendor": "fake,redfish,ipmitool,no-vendor", "network": "noop", "storage": "noop"},
}
TYPES = "fake-hardware,redfish,ipmi"
_FOLDERS = checks.KnownFolders(("/var/lib/ironic",), "/etc/ironic-lite/ca")
Open = Callable[..., Database]
Urls = Callable[[str], str]


@pytest.fixture(scope="module")
def known() -> Any:
    settings = Settings(
        hardware_types=TYPES.split(","),
        interfaces={kind: listed.split(",") for kind, listed in INTERFACES.items()},
    )
    return names.NameTable(Registry.load(settings))


def dump(folder: pathlib.Path, version: str = NEWEST, *more: str) -> pathlib.Path:
    """Make the database of a release; further statements change it."""
    path = folder / f"ironic-{version}.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.executescript((DUMPS / f"ironic-{version}.sql").read_text())
        for statement in more:
            made.execute(statement)
        made.commit()
    return path


@contextlib.contextmanager
def opened(target: Database, url: str) -> Iterator[Any]:
    with (
        contextlib.closing(sources.open_database(target, url)) as there,
        sources.open_snapshot(there) as snapshot,
    ):
        yield snapshot


def imported(target: Database, url: str, known: Any, **asked: Any) -> Any:
    """Import a database; the import is refused or written."""
    request = imports.ImportRequest(**asked)
    with opened(target, url) as snapshot:
        made = imports.Import(snapshot, request, known, checks.NodeChecks(_FOLDERS))
        imports.perform(target, made, check=request.check)
    return made


def counts(database: Database) -> dict[str, int]:
    """Return the number of rows of each table."""
    query = sa.select(
        *(
            sa.select(sa.func.count()).select_from(table).scalar_subquery().label(name)
            for name, table in models.metadata.tables.items()
        )
    )
    return database.read(lambda conn: dict(conn.execute(query).mappings().one()))


def found_rows(database: Database, table: sa.Table) -> list[Json]:
    return database.read(
        lambda conn: [dict(row) for row in conn.execute(sa.select(table)).mappings()]
    )


def _our_rows(database: Database, table: Any) -> list[Json]:
    found = found_rows(database, models.metadata.tables[table.ours])
    if table.name == "node_history":
        found = [row for row in found if row["kind"] == history.OF_IRONIC]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_each_release_are_here_and_have_no_changes(
    version: str, database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{dump(tmp_path, version)}"
    made = imported(database, url, known)
    assert not made.refuses
    assert made.report.counts["nodes"]["written"] == 14
    move = made.move._replace(
        ids={
            name: {uuid: one for one, uuid in found.items()}
            for name, found in made.move.uuids.items()
        }
    )
    with opened(database, url) as snapshot:
        for table in tables.TABLES.values():
            if table.ours is None or not table.of_head(snapshot.head):
                continue
            ours = _our_rows(database, table)
            theirs = [row.values for row in snapshot.rows(table.name)]
            assert len(ours) == len(theirs), table.name
            by_key = {_key(table, row): row for row in ours}
            for row in theirs:
                here = by_key[_key(table, tables.translate(table, row, move))]
                assert tables.changes(table, row, here, move) == {}, table.name
    (row,) = found_rows(database, models.imports)
    assert (row["release"], row["left_out"], row["trial"]) == (made.release, [], False)
    assert {node["import_uuid"] for node in found_rows(database, models.nodes)} == {row["uuid"]}


def _key(table: Any, row: Json) -> Any:
    """Return what names a row here."""
    if table.name == "node_history":
        return row["node_uuid"], row["at"], row["data"]["error"], row["data"]["event_type"]
    if "uuid" in row:
        return row["uuid"]
    second = {"node_traits": "trait", "bios_settings": "name", "firmware_information": "component"}
    return row["node_uuid"], row.get(second.get(table.name, ""))


@pytest.mark.parametrize("kind", database_servers.SERVERS)
def test_source_on_a_server_gives_the_same_rows(
    kind: str, open_empty: Open, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path)
    first, second = open_empty("sqlite"), open_empty("sqlite")
    imported(first, f"sqlite:///{path}", known)
    with database_servers.own_database(kind, "ironic") as url:
        load(path, url)
        made = imported(second, url, known)
        assert made.report.counts["nodes"]["written"] == 14
    for table in (models.nodes, models.ports, models.bios_settings, models.allocations):
        rows = [
            [{**_in_seconds(row), "id": 0, "import_uuid": ""} for row in found_rows(one, table)]
            for one in (first, second)
        ]
        assert sorted(rows[0], key=str) == sorted(rows[1], key=str)


_ACCOUNTS: dict[str, tuple[str, str, str]] = {
    # creates an account, lets it read, removes it
    "postgresql": (
        *("CREATE ROLE {} LOGIN PASSWORD 'secret'",),
        *("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}", "DROP ROLE {}"),
    ),
    "mysql": (
        *("CREATE USER {} IDENTIFIED BY 'secret'",),
        *("GRANT SELECT ON `{database}`.* TO {}", "DROP USER {}"),
    ),
}


@pytest.mark.parametrize("kind", database_servers.SERVERS)
def test_account_that_may_only_read_is_enough(
    kind: str, sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    create, grant, drop = _ACCOUNTS[kind]
    with contextlib.ExitStack() as opened_:
        account = f"reader_{os.getpid()}"
        database_servers.admin(kind, create.format(account))
        opened_.callback(database_servers.admin, kind, drop.format(account))
        url = opened_.enter_context(database_servers.own_database(kind, "ironic"))
        load(dump(tmp_path), url)
        whole = sa.make_url(url)
        with contextlib.closing(session.open_database(url)) as owner:
            right = grant.format(account, database=whole.database)
            owner.write(lambda conn: conn.exec_driver_sql(right))
        login = whole.set(username=account, password="secret")
        read = login.render_as_string(hide_password=False)
        with contextlib.closing(sources.open_database(sqlite_database, read, write=True)) as there:
            assert dbsync.check_conductors(there, imports.ImportRequest(), stopped=False) == []
            with pytest.raises(errors.Unavailable, match="refuses this"):
                there.write(lambda conn: conn.execute(sa.text("DELETE FROM nodes")))
        made = imported(sqlite_database, read, known)
        assert made.report.counts["nodes"]["written"] == 14


def _in_seconds(row: Json) -> Json:
    """Return a row with times as MariaDB has them there."""
    return {
        name: value.replace(microsecond=0) if isinstance(value, datetime.datetime) else value
        for name, value in row.items()
    }


_TYPES: dict[str, Any] = {
    **{"number": sa.BigInteger, "text": sa.Text, "flag": sa.Boolean, "JSON": sa.Text},
    "time": sa.DateTime,
}


def load(path: pathlib.Path, url: str) -> None:
    """Copy a recorded database to a server, with columns as Ironic has them there."""
    head = rules.HEADS[-1]
    metadata = sa.MetaData()
    engine = database_servers.transactional(session.open_database(url, idle_timeout=0))
    with contextlib.closing(sqlite3.connect(path)) as read, engine.begin() as conn:
        for table in tables.TABLES.values():
            columns = [
                sa.Column(one.name, _TYPES[one.form.value], primary_key=one.name == "id")
                for one in table.of_head(head)
            ]
            made = sa.Table(table.name, metadata, *columns, mariadb_charset="utf8mb4")
            made.create(conn)
            listed = ", ".join(f'"{one.name}"' for one in columns)
            for row in read.execute(f"SELECT {listed} FROM {table.name}"):
                values = {
                    one.name: _value(one, value) for one, value in zip(columns, row, strict=True)
                }
                conn.execute(made.insert(), values)
            if conn.dialect.name == "postgresql" and "id" in made.c:
                query = f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), max(id))"
                conn.execute(sa.text(f"{query} FROM {table.name}"))
        conn.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        conn.execute(sa.text(f"INSERT INTO alembic_version VALUES ('{head}')"))


def _value(column: sa.Column[Any], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(column.type, sa.DateTime):
        return datetime.datetime.fromisoformat(value).replace(microsecond=0)
    return bool(value) if isinstance(column.type, sa.Boolean) else value


# What an import adds.


def test_nodes_are_held_and_their_history_says_so(
    database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{dump(tmp_path)}"
    made = imported(database, url, known, by="joe", history=2)
    (node,) = [row for row in found_rows(database, models.nodes) if row["name"] == "r7-04"]
    (hold,) = database.read(lambda conn: holds.in_force(conn, node["uuid"], None))
    assert (hold.kind, hold.created_by) == ("observe", "joe")
    assert hold.reason == (
        "imported from Ironic 39 (2026.2); it is only looked at until it is released"
    )
    assert [str(one) for one in hold.blocks] == ["verbs", "power", "machine", "forget"]
    found = [row for row in found_rows(database, models.events) if row["node_uuid"] == node["uuid"]]
    assert [row["kind"] for row in found] == ["imported", "ironic_history", "ironic_history"]
    assert found[0]["data"]["import"] == made.uuid
    assert found[1]["at"] < found[0]["at"]
    feed = database.read(lambda conn: events.feed_page(conn, after=0, upto=10_000, limit=10_000))
    assert {row["kind"] for row in feed} == {"imported"}


@pytest.mark.feature("search")
def test_search_finds_imported_nodes_at_once(
    database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    search = pytest.importorskip("ironic_lite.features.search.rows")
    imported(database, f"sqlite:///{dump(tmp_path)}", known)
    some = database.read(lambda conn: search.changes(conn, 100))
    assert len(some) == 14
    database.write(lambda conn: search.settle(conn, some))
    (hit, *_), _ = database.read(
        lambda conn: search.search(conn, ["r7-03"], limit=5, project=None, readable={})
    )
    assert (hit.name, hit.field) == ("r7-03", "name")


def test_trial_has_its_own_kind_and_leaves_out_nodes_in_motion(
    database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path, NEWEST, *_MOTION)
    made = imported(database, f"sqlite:///{path}", known, trial=True)
    assert not made.refuses
    assert made.left_out == 1
    kinds = {row["kind"] for row in found_rows(database, models.holds)}
    assert kinds == {"trial"}
    (row,) = found_rows(database, models.imports)
    assert row["trial"] is True
    assert [one["name"] for one in row["left_out"]] == ["r7-03"]
    held = {one["node_uuid"] for one in found_rows(database, models.ports)}
    assert row["left_out"][0]["uuid"] not in held


_MOTION = (
    "UPDATE nodes SET provision_state = 'clean wait', target_provision_state = 'available', "
    "reservation = 'c1' WHERE name = 'r7-03'",
)


def test_work_is_ended_if_asked(database: Database, known: Any, tmp_path: pathlib.Path) -> None:
    path = dump(tmp_path, NEWEST, *_MOTION)
    assert imported(database, f"sqlite:///{path}", known).refuses
    made = imported(database, f"sqlite:///{path}", known, end=True)
    assert not made.refuses
    (node,) = [row for row in found_rows(database, models.nodes) if row["name"] == "r7-03"]
    assert (node["provision_state"], node["fault"]) == ("clean failed", "clean failure")
    assert node["maintenance"] is True
    assert "whose conductor c1 was stopped" in node["last_error"]
    assert node["reservation"] is None


def test_groups_move_one_after_the_other(
    database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    some = "UPDATE nodes SET conductor_group = 'Rack-A' WHERE name IN ('r7-01', 'r7-04')"
    url = f"sqlite:///{dump(tmp_path, NEWEST, some)}"
    first = imported(database, url, known, groups=("rack-a",))
    assert first.report.counts["nodes"] == {"read": 2, "written": 2}
    second = imported(database, url, known, groups=("",))
    assert not second.refuses, second.report.documents()
    assert second.report.counts["nodes"]["written"] == 12
    assert second.report.counts["deploy_templates"]["written"] == 0
    assert len(found_rows(database, models.deploy_templates)) == 1
    assert len(found_rows(database, models.imports)) == 2


def test_chosen_nodes_alone_are_imported(
    database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{dump(tmp_path)}"
    made = imported(database, url, known, nodes=("r7-01", "r7-04"))
    assert made.report.counts["nodes"]["written"] == 2
    assert {row["name"] for row in found_rows(database, models.nodes)} == {"r7-01", "r7-04"}
    here = {row["uuid"] for row in found_rows(database, models.nodes)}
    assert {row["node_uuid"] for row in found_rows(database, models.traits)} == here


def test_refused_nodes_are_left_out_if_asked(
    database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    wrong = (
        "UPDATE nodes SET driver = 'ilo' WHERE name = 'r7-01'",
        "UPDATE nodes SET extra = '{' WHERE name = 'r7-02'",
        "UPDATE ports SET name = 'x' || hex(zeroblob(200)) WHERE id = 5",
        "UPDATE nodes SET network_interface = 'neutron' WHERE name = 'r7-14'",
    )
    url = f"sqlite:///{dump(tmp_path, NEWEST, *wrong)}"
    before = counts(database)
    made = imported(database, url, known)
    assert made.refuses
    assert counts(database) == before
    found = {(one["path"], one["text"], one["do"]) for one in made.report.documents()}
    told = " ".join(" ".join(one) for one in found)
    assert "--map driver:ilo=redfish" in told
    assert "--map network:neutron=noop" in told
    assert ("extra", "is no JSON", "Correct it there, or use --leave-out.") in found
    assert "has 401 characters, and may have 255 here" in told
    made = imported(database, url, known, leave_out=True)
    assert (made.refuses, made.left_out) == (False, 4)
    assert made.report.counts["nodes"]["written"] == 10
    here = {row["uuid"] for row in found_rows(database, models.nodes)}
    assert {row["node_uuid"] for row in found_rows(database, models.ports)} <= here


def test_maps_take_what_would_be_refused(
    database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    statement = (
        "UPDATE nodes SET driver = 'ilo', network_interface = 'neutron', boot_interface = "
        "'ilo-virtual-media', power_interface = 'ilo', management_interface = 'ilo', "
        "bios_interface = 'ilo', vendor_interface = 'ilo', raid_interface = 'ilo5', "
        "inspect_interface = 'inspector', console_interface = 'ilo', driver_info = "
        """'{"ilo_address": "10.0.0.1", "ilo_password": "p"}' WHERE name = 'r7-01'"""
    )
    url = f"sqlite:///{dump(tmp_path, NEWEST, statement)}"
    maps = rules.Maps(
        {"driver": {"ilo": "redfish"}, "network": {"neutron": "noop"}, "boot": {"odd": "pxe"}}
    )
    made = imported(database, url, known, maps=maps)
    assert not made.refuses, made.report.documents()
    (node,) = [row for row in found_rows(database, models.nodes) if row["name"] == "r7-01"]
    assert (node["driver"], node["network_interface"]) == ("redfish", "noop")
    assert (node["power_interface"], node["inspect_interface"]) == ("redfish", "agent")
    assert node["driver_info"] == {"redfish_address": "https://10.0.0.1", "redfish_password": "p"}
    kinds = {(one["kind"], one["path"]) for one in made.report.documents()}
    assert {("mapped", "driver"), ("mapped", "network_interface")} <= kinds
    assert ("default", "power_interface") in kinds
    told = " ".join(one["text"] for one in made.report.documents())
    assert "--map boot:odd: no node there has this name" in told


_LATE = (
    "UPDATE ports SET name = 'x' || hex(zeroblob(200)) WHERE id = 28",  # of the last node
    "UPDATE nodes SET parent_node = (SELECT uuid FROM nodes WHERE id = 14) WHERE id = 13",
    "UPDATE allocations SET node_id = 14 WHERE id = 1",
    "UPDATE nodes SET allocation_id = 1 WHERE id = 14",
)
"""A node is refused by a port, so that another one has no parent."""


def test_nodes_that_are_refused_late_are_counted_with_all_their_rows(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{dump(tmp_path, NEWEST, *_LATE)}"
    refused = imported(sqlite_database, url, known).report
    assert refused.counts["nodes"] == {"read": 14, "written": 12, "refused": 2}
    for name, found in refused.counts.items():
        one = dict.fromkeys(("written", "refused", "left_out"), 0) | found
        assert one["read"] == one["written"] + one["refused"] + one["left_out"], name
        assert one["left_out"] == int(name == "node_tags"), name
    assert (refused.counts["ports"]["refused"], refused.counts["allocations"]["refused"]) == (4, 1)
    checked = imported(sqlite_database, url, known, leave_out=True, check=True).report
    done = imported(sqlite_database, url, known, leave_out=True).report
    assert checked.table_counts() == done.table_counts()
    assert (checked.secrets, checked.documents(None)) == (done.secrets, done.documents(None))
    assert done.counts["nodes"] == {"read": 14, "written": 12, "left_out": 2}
    names = {row["name"] for row in found_rows(sqlite_database, models.allocations)}
    assert names == {"too-large", "searching", "backfilled"}


def test_check_that_is_repeated_finds_the_same(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{dump(tmp_path, NEWEST, *_LATE)}"
    request = imports.ImportRequest()
    with opened(sqlite_database, url) as snapshot:
        made = imports.Import(snapshot, request, known, checks.NodeChecks(_FOLDERS))
        found = []
        for _ in range(2):  # a transaction whose connection has died is tried again
            sqlite_database.read(made.check)
            found.append((made.report.table_counts(), made.report.secrets, made.left_out))
    assert found[0] == found[1]


def test_node_without_a_hardware_type_has_one_finding(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{dump(tmp_path, NEWEST, 'UPDATE nodes SET driver = NULL WHERE id = 1')}"
    made = imported(sqlite_database, url, known)
    assert [one["text"] for one in made.report.documents() if one["kind"] == "refused"] == [
        "has no hardware type"
    ]


def test_inspected_nodes_without_an_inventory_are_named(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    statement = "UPDATE nodes SET inspection_finished_at = created_at WHERE name < 'r7-06'"
    url = f"sqlite:///{dump(tmp_path, NEWEST, statement)}"
    made = imported(sqlite_database, url, known, check=True)
    (found,) = (one for one in made.report.documents() if one["path"] == "inventory")
    assert (found["kind"], found["names"]) == ("info", ["r7-01", "r7-05"])


def test_mapped_paths_are_named_and_maps_that_fit_nothing(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    info = '{"redfish_verify_ca": "/etc/ironic/ca/a.pem", "redfish_password": "/etc/ironic/ca/b"}'
    statement = f"UPDATE nodes SET driver_info = '{info}' WHERE id = 3"
    url = f"sqlite:///{dump(tmp_path, NEWEST, statement)}"
    paths = (("/etc/ironic/ca", "/etc/ironic-lite/ca"), ("/srv/a", "/srv/b"))
    made = imported(sqlite_database, url, known, maps=rules.Maps({}, paths), check=True)
    told = made.report.documents()
    (found,) = (one for one in told if (one["kind"], one["resource"]) == ("mapped", "node"))
    assert (found["path"], found["names"]) == ("driver_info/redfish_verify_ca", ["r7-03"])
    assert found["text"] == "the path /etc/ironic/ca becomes /etc/ironic-lite/ca"
    assert [one["text"] for one in told if one["resource"] == "import"] == [
        "--map path:/srv/a: no path there begins so"
    ]


def test_lines_for_the_configuration_are_printed_whole(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    some = (
        "UPDATE nodes SET driver = 'idrac' WHERE id = 1",
        "UPDATE nodes SET console_interface = 'ipmitool-socat' WHERE driver = 'ipmi'",
    )
    url = f"sqlite:///{dump(tmp_path, NEWEST, *some)}"
    lines = {
        one["path"]: one["do"]
        for one in imported(sqlite_database, url, known, check=True).report.documents()
        if one["resource"] == "option"
    }
    assert lines["[DEFAULT]enabled_hardware_types"] == (
        "Write: enabled_hardware_types = fake-hardware,idrac,ipmi,redfish"
    )
    assert lines["[DEFAULT]enabled_console_interfaces"] == (
        "Write: enabled_console_interfaces = fake,ipmitool-socat,no-console"
    )


@pytest.mark.parametrize("kind", ["network", "storage", "deploy"])
def test_mapped_hardware_type_replaces_no_network_storage_or_deploy_interface(
    kind: str, known: Any
) -> None:
    place = fields.INTERFACE_KINDS.index(kind)
    given = tuple("plug-in" if one == place else None for one in range(len(fields.INTERFACE_KINDS)))
    judged = known.judge("redfish", given, True)
    assert judged.interfaces[place] == "plug-in"
    (found,) = (one for one in judged.findings if one.path == f"{kind}_interface")
    assert (found.kind, found.text) == ("refused", f"{kind} interface plug-in is unknown here")


def test_rules_that_are_not_taken_are_named_without_their_secrets(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    word = SECRETS["inspection_rules.actions"]
    action = f'[{{"op": "set-attribute", "args": {{"path": 5, "value": "{word}"}}}}]'
    some = (
        f"UPDATE inspection_rules SET actions = '{action}' WHERE id = 1",
        "UPDATE inspection_rules SET scope = 'rack-7' WHERE id = 2",
    )
    made = imported(sqlite_database, f"sqlite:///{dump(tmp_path, NEWEST, *some)}", known)
    assert not made.refuses
    assert made.report.counts["inspection_rules"] == {"read": 2, "left_out": 2}
    assert found_rows(sqlite_database, models.inspection_rules) == []
    (row,) = found_rows(sqlite_database, models.imports)
    assert len(row["selection"]["not_taken"]) == 2
    assert word not in json.dumps(made.report.documents(None))


def test_second_import_names_the_first(
    database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{dump(tmp_path)}"
    imported(database, url, known, by="joe")
    before = counts(database)
    again = imported(database, url, known)
    assert again.refuses
    assert counts(database) == before
    told = " ".join(one["text"] for one in again.report.documents())
    assert "one with this uuid is here, imported by joe at 20" in told


# The command.


def run(
    tmp_path: pathlib.Path,
    target: Database,
    *words: str,
    key: str = KEY,
    command: str = "import-ironic",
    more: str = "",
    wrap: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a command of the program for a configured target."""
    settings = tmp_path / "target.conf"
    url = target.url.render_as_string(hide_password=False)
    listed = "\n".join(f"enabled_{kind}_interfaces = {some}" for kind, some in INTERFACES.items())
    settings.write_text(
        f"[DEFAULT]\nenabled_hardware_types = {TYPES}\n{listed}\n{more}\n"
        f"[database]\nconnection = {url}\nencryption_keys = {key}\n"
    )
    program = [str(service.SCRIPTS / "ironic-lite-dbsync"), "--config-file", str(settings)]
    program += [command, *words]
    if not wrap:
        return prefork.run(program, env=service.environment(), timeout=120)
    return subprocess.run(
        [*wrap, *program],
        env=service.environment(),
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )


def digest(path: pathlib.Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_command_reports_and_no_secret_is_in_clear(
    open_empty: Open, tmp_path: pathlib.Path
) -> None:
    target = open_empty("sqlite", KEY)
    path = dump(tmp_path)
    before = digest(path)
    settings = tmp_path / "ironic.conf"
    settings.write_text(f"[database]\nconnection = sqlite:///{path}\n")
    empty = counts(target)
    checked = run(tmp_path, target, "--from", str(settings), "--check")
    assert (checked.returncode, checked.stderr) == (1, "")
    assert checked.stdout.splitlines()[-1] == (
        "Nothing was written. The import would write 14 nodes, exit status 1."
    )
    assert counts(target) == empty
    output = tmp_path / "report.json"
    words = ("--from", str(settings), "-f", "json", "--output", str(output))
    done = run(tmp_path, target, *words)
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    assert (document["release"], document["exit"]) == ("39 (2026.2)", 1)
    assert document["secrets"]["values"] > 40
    assert document["counts"]["nodes"] == {
        **{"read": 14, "written": 14},
        **{"refused": 0, "left_out": 0},
    }
    assert output.stat().st_mode & 0o777 == 0o600
    target.close()
    files = [tmp_path / one for one in (pathlib.Path(str(target.url.database)).name,)]
    texts = [checked.stdout, done.stdout, output.read_text()]
    for word in SECRETS.values():
        assert not any(word in text for text in texts)
        assert not any(word.encode() in one.read_bytes() for one in files)
    assert digest(path) == before
    (node,) = [row for row in found_rows(target, models.nodes) if row["name"] == "r7-02"]
    assert node["driver_info"]["redfish_password"] == SECRETS["nodes.driver_info"]


_REVISION = "UPDATE alembic_version SET version_num = '{}'"
_REFUSED: list[tuple[str, tuple[str, ...], tuple[str, ...], str]] = [
    # name, statements on the source, words of the command, what is said
    ("head", (_REVISION.format("abc"),), (), "revision abc is of no Ironic release"),
    ("column", ("ALTER TABLE ports DROP COLUMN vendor",), (), "column ports.vendor of revision"),
    ("table", ("DROP TABLE runbook_traits",), (), "table runbook_traits of revision"),
    ("no Ironic", ("DROP TABLE alembic_version",), (), "Name the one of [database]connection"),
    ("node", (), ("--nodes", "r7-99"), "Ironic has no node r7-99"),
    ("group", (), ("--group", "g"), "Ironic has no node in g"),
    ("conductor", ("UPDATE conductors SET online = 1",), (), "conductor c1 is up, or was killed"),
    ("map", (), ("--map", "driver:ilo=nothing"), "nothing is no driver of this service"),
    ("kind", (), ("--map", "colour:a=b"), "is no KIND:OLD=NEW"),
    ("motion", _MOTION, (), "in clean wait, reserved by c1; wait until it has ended, or use --end"),
    ("ilo", ("UPDATE nodes SET driver = 'ilo'",), (), "Add --map driver:ilo=redfish."),
    ("snmp", ("UPDATE nodes SET driver = 'snmp'",), (), "hardware type snmp: "),
    ("driver", ("UPDATE nodes SET driver = NULL",), (), "has no hardware type"),
    ("state", ("UPDATE nodes SET provision_state = 'odd'",), (), "provision state odd is unknown"),
    ("nul", ("UPDATE nodes SET description = 'a' || char(0)",), (), "has a NUL character"),
    (
        "parent",
        ("UPDATE nodes SET parent_node = 'x'",),
        (),
        "its parent is neither imported nor here",
    ),
    ("template", ("UPDATE deploy_templates SET extra = '['",), (), "extra (1): is no JSON"),
]


@pytest.mark.parametrize(
    ("statements", "words", "said"), [one[1:] for one in _REFUSED], ids=[one[0] for one in _REFUSED]
)
def test_refusals_change_neither_side(
    statements: tuple[str, ...],
    words: tuple[str, ...],
    said: str,
    sqlite_database: Database,
    tmp_path: pathlib.Path,
) -> None:
    path = dump(tmp_path, NEWEST, *statements)
    before = digest(path), counts(sqlite_database)
    done = run(tmp_path, sqlite_database, "--from", f"sqlite:///{path}", *words)
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert (digest(path), counts(sqlite_database)) == before


def test_stopped_conductors_are_believed(sqlite_database: Database, tmp_path: pathlib.Path) -> None:
    path = dump(tmp_path, NEWEST, "UPDATE conductors SET online = 1")
    words = ("--from", f"sqlite:///{path}")
    checked = run(tmp_path, sqlite_database, *words, "--check")
    assert checked.returncode == 1
    assert "conductor c1 is up, or was killed" in checked.stdout
    done = run(tmp_path, sqlite_database, *words, "--conductors-stopped")
    assert done.returncode == 1
    assert done.stdout.endswith("are here, and only looked at until their release.\n")


@pytest.mark.parametrize("kind", database_servers.SERVERS)
def test_conductors_that_start_during_the_second_look_are_seen(
    kind: str, sqlite_database: Database, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path, NEWEST, "UPDATE conductors SET online = 1")
    with (
        database_servers.own_database(kind, "ironic") as url,
        contextlib.closing(sources.open_database(sqlite_database, url, write=True)) as there,
    ):
        load(path, url)
        request = imports.ImportRequest()
        mapped = sources.table_of("conductors", rules.HEADS[-1])
        row = {"hostname": "c2", "conductor_group": "", "online": True, "updated_at": clock.now()}

        def start() -> None:
            there.write(lambda conn: conn.execute(mapped.insert(), row))

        look = dbsync.check_conductors
        assert look(there, request, stopped=False, wait=lambda: None) == []  # it was killed
        with pytest.raises(errors.Conflict, match="conductor c2 is up") as refusal:
            look(there, request, stopped=False, wait=start)
        assert "c1" not in str(refusal.value)


@pytest.mark.parametrize("command", ["run", "run_export"])
def test_unexpected_error_is_one_line_without_its_text(
    command: str, sqlite_database: Database
) -> None:
    no_conf = SimpleNamespace(features=SimpleNamespace(enabled=["move_in"]), command=None)
    with pytest.raises(errors.Error, match="Stopped by an unexpected AttributeError in line "):
        getattr(dbsync, command)(no_conf, sqlite_database)
    with pytest.raises(errors.Error) as raised, dbsync.nothing_written():
        json.loads('"Panse').get(1)
    said = str(raised.value)
    assert said.startswith("Stopped by an unexpected JSONDecodeError in line ")
    assert "Nothing was written. Please report this line" in said
    assert "Panse" not in said


def test_full_disk_in_the_middle_changes_neither_side(
    sqlite_database: Database, tmp_path: pathlib.Path
) -> None:
    large = """UPDATE nodes SET extra = '{"a": "' || hex(zeroblob(400000)) || '"}'"""
    path = dump(tmp_path, NEWEST, large)
    disk = tmp_path / "disk"
    disk.mkdir()
    file = disk / "ironic-lite.sqlite"
    sqlite_database.close()
    with contextlib.ExitStack() as opened_:
        try:
            opened_.enter_context(private_servers.small_disk(disk, 8))
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        shutil.copy(str(sqlite_database.url.database), file)
        target = session.open_database(f"sqlite:///{file}")
        opened_.callback(target.close)
        before = digest(path), counts(target)
        done = run(tmp_path, target, "--from", f"sqlite:///{path}")
        assert (done.returncode, done.stdout) == (2, "")
        assert "has no space left" in done.stderr
        assert done.stderr.endswith("Free space on its disk, then retry. Nothing was written.\n")
        assert (digest(path), counts(target)) == before


def test_report_that_cannot_be_printed_undoes_nothing(
    sqlite_database: Database, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path, NEWEST, "UPDATE nodes SET name = 'größer', driver = 'ilo' WHERE id = 1")
    words = ("--from", f"sqlite:///{path}", "--leave-out")
    ascii_only = ("env", "PYTHONIOENCODING=ascii")
    checked = run(tmp_path, sqlite_database, *words, "--check", wrap=ascii_only)
    assert (checked.returncode, checked.stderr) == (1, "")
    assert r"gr\xf6\xdfer" in checked.stdout
    no_space = ("sh", "-c", 'exec "$@" > /dev/full', "sh")
    done = run(tmp_path, sqlite_database, *words, wrap=no_space)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["The report cannot be printed: No space left on device"]
    assert len(found_rows(sqlite_database, models.imports)) == 1


def test_our_own_database_is_no_source(
    sqlite_database: Database, open_empty: Open, tmp_path: pathlib.Path
) -> None:
    other = open_empty("sqlite")
    done = run(tmp_path, sqlite_database, "--from", str(other.url))
    assert done.returncode == 2
    assert "use ironic-lite-dbsync copy" in done.stderr


def test_living_conductor_here_is_refused(
    sqlite_database: Database, tmp_path: pathlib.Path
) -> None:
    def register(conn: Any) -> None:
        now = clock.now()
        conductors.register(conn, host="c9", group="", version=None, now=now)
        conductors.touch(conn, host="c9", now=now)

    sqlite_database.write(register)
    done = run(tmp_path, sqlite_database, "--from", f"sqlite:///{dump(tmp_path)}")
    assert done.returncode == 2
    assert "Conductors are alive: c9. Stop all conductors before you import." in done.stderr


def test_journal_of_a_killed_ironic_is_refused(
    sqlite_database: Database, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path)
    code = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute('PRAGMA cache_size=1');"
        "c.execute('UPDATE nodes SET extra = zeroblob(100000)'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert pathlib.Path(f"{path}-journal").stat().st_size > 0
    before = digest(path), counts(sqlite_database)
    done = run(tmp_path, sqlite_database, "--from", f"sqlite:///{path}")
    assert done.returncode == 2
    assert "start and stop Ironic on it once" in done.stderr
    assert (digest(path), counts(sqlite_database)) == before


def test_history_of_zero_entries_is_all(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    path = dump(tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as there:
        (every,) = there.execute("SELECT count(*) FROM node_history").fetchone()
    made = imported(sqlite_database, f"sqlite:///{path}", known, history=0)
    assert made.report.counts["node_history"]["written"] == every > 0


def test_steps_that_cannot_be_read_refuse_their_template(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    spoilt = "UPDATE deploy_template_steps SET args = '{'"
    url = f"sqlite:///{dump(tmp_path, NEWEST, spoilt)}"
    made = imported(sqlite_database, url, known)
    assert made.refuses
    (found,) = (one for one in made.report.documents(None) if one["path"] == "steps/args")
    assert (found["kind"], found["resource"]) == ("refused", "deploy template")
    left = imported(sqlite_database, url, known, leave_out=True)
    assert not left.refuses
    assert found_rows(sqlite_database, models.deploy_templates) == []
    (row,) = found_rows(sqlite_database, models.imports)
    assert len(row["selection"]["not_taken"]) == left.report.counts["deploy_templates"]["left_out"]


def test_secrets_are_in_no_error_of_a_broken_source(
    sqlite_database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    spoilt = "UPDATE nodes SET driver_info = CAST(X'7B2250616E7365203A20FF' AS TEXT)"
    with pytest.raises(Exception, match="UTF-8") as refusal:
        imported(sqlite_database, f"sqlite:///{dump(tmp_path, NEWEST, spoilt)}", known)
    assert "Panse" not in str(refusal.value)
    conf = tmp_path / "ironic.conf"
    conf.write_text("[database]\nconnection : \nPanse\n")
    with pytest.raises(config.ConfigError) as unread:
        sources.open_database(sqlite_database, str(conf))
    assert "Panse" not in str(unread.value)


def test_report_is_private_and_is_opened_before_the_work(
    sqlite_database: Database, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "report.json"
    file.write_text("old")
    file.chmod(0o644)
    source = f"sqlite:///{dump(tmp_path)}"
    done = run(tmp_path, sqlite_database, "--from", source, "--check", "--output", str(file))
    assert done.returncode in (0, 1, 2)
    assert (file.stat().st_mode & 0o777, json.loads(file.read_text())["release"][:2]) == (
        0o600,
        "39",
    )
    before = counts(sqlite_database)
    done = run(tmp_path, sqlite_database, "--from", source, "--output", str(tmp_path / "no/file"))
    assert (done.returncode, counts(sqlite_database)) == (2, before)


# Deaths.

_DEATHS = """
import contextlib, os, signal, sys
from ironic_lite.db import copy
from ironic_lite.db.engine import session
from ironic_lite.db.tables import models
from ironic_lite.features.move_in import imports, rows
from tests.db import test_import_ironic as here
whole, (source, target) = copy.write_rows, sys.argv[1:]
with contextlib.closing(session.open_database(target)) as found:
    before = here.counts(found)
known = here.names.NameTable(here.Registry.load(here.Settings(
    hardware_types=here.TYPES.split(","),
    interfaces={kind: one.split(",") for kind, one in here.INTERFACES.items()},
)))
order = ["chassis", "deploy_templates", "runbooks", "inspection_rules", "nodes", "holds", "events",
    "search_changes", "allocations", "node_traits", "portgroups", "ports", "volume_connectors",
    "volume_targets", "bios_settings", "firmware_components", "inventories", "imports"]
for name in order:
    if not (child := os.fork()):
        def write_rows(conn, table, rows):
            if table.name == name:
                whole(conn, table, list(rows)[:2])
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(conn, table, rows)
        def die(conn, row):
            os.kill(os.getpid(), signal.SIGKILL)
        copy.write_rows = write_rows
        if name == "imports":
            rows.add = die
        opened = session.open_database(target)
        here.imported(opened, source, known)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, name
    with contextlib.closing(session.open_database(target)) as found:
        assert here.counts(found) == before, name
    print(name)
"""


def test_death_at_each_table_leaves_the_target_as_it_was(
    database: Database, known: Any, tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{dump(tmp_path)}"
    target = database.url.render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-c", _DEATHS, url, target], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 18
    assert not imported(database, url, known).refuses
    assert len(found_rows(database, models.nodes)) == 14
