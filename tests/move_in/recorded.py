"""Sources of an import without Ironic: a recorded database, and fleets of any size made of it."""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import json
import pathlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from tests.compare.contents import uuid_of

Json = dict[str, Any]

DUMPS = pathlib.Path(__file__).parent / "dumps"
RECORDED = tuple(sorted(one.stem.removeprefix("ironic-") for one in DUMPS.glob("ironic-*.sql")))
"""Versions of Ironic whose database has been recorded."""
PORTS, TRAITS, ENTRIES = 2, 4, 20
"""Ports, traits and entries of the history of a node in a fleet."""
INVENTORY = 20_000
"""Bytes of its inventory."""
_BATCH = 500


_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}


def engine_of(url: str | sa.URL) -> sa.Engine:
    """Return an engine for a database of Ironic, with the drivers of our extras."""
    made = sa.make_url(url)
    kind = made.get_backend_name().replace("mariadb", "mysql")
    driver = _DRIVERS.get(kind, made.drivername)
    return sa.create_engine(made.set(drivername=driver), poolclass=sa.NullPool)


def recorded_file(version: str, path: pathlib.Path) -> pathlib.Path:
    """Write the recorded database of a version as an SQLite file; return the path."""
    text = (DUMPS / f"ironic-{version}.sql").read_text(encoding="utf-8")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(text)
    return path


def copy(file: pathlib.Path, target: sa.Engine) -> None:
    """Create the tables of an SQLite file in another database, with their rows."""
    source = engine_of(f"sqlite:///{file}")
    metadata = sa.MetaData()

    @sa.event.listens_for(metadata, "column_reflect")
    def generic(_inspector: object, _table: object, column: Any) -> None:
        column["type"] = column["type"].as_generic()
        column["default"] = None

    metadata.reflect(source)
    metadata.create_all(target)
    with source.connect() as reader, target.begin() as writer:
        for table in metadata.sorted_tables:
            rows = [dict(row) for row in reader.execute(sa.select(table)).mappings()]
            if rows:
                writer.execute(sa.insert(table), rows)
            if rows and "id" in table.c and target.dialect.name == "postgresql":
                last = f"setval(pg_get_serial_sequence('{table.name}', 'id'), max(id))"
                writer.execute(sa.text(f"SELECT {last} FROM {table.name}"))


def add_fleet(engine: sa.Engine, nodes: int) -> None:
    """Add machines in all states to a recorded database, each with the same details."""
    metadata = sa.MetaData()
    metadata.reflect(engine)
    tables = metadata.tables
    with engine.begin() as conn:
        kinds = [dict(row) for row in conn.execute(sa.select(tables["nodes"])).mappings()]
        port = _row(conn, tables["ports"], node_id=kinds[0]["id"])
        entry = _row(conn, tables["node_history"], node_id=kinds[0]["id"])
        for table, rows in (
            ("nodes", (_node(kinds[number % len(kinds)], number) for number in range(nodes))),
            ("ports", _each(nodes, PORTS, port, _port)),
            ("node_traits", _each(nodes, TRAITS, {}, _trait)),
            ("node_history", _each(nodes, ENTRIES, entry, _entry)),
            ("node_inventory", _each(nodes, 1, {"version": "1.0"}, _inventory)),
        ):
            _insert(conn, tables[table], rows)


def multiply(engine: sa.Engine, nodes: int) -> None:
    """Add nodes to a database, each a copy of one that is there, with all that belongs to it.

    The copies are named ``m0``, ``m1`` and so on, are off, and have the driver of the first node.
    """
    metadata = sa.MetaData()
    metadata.reflect(engine)
    known = metadata.tables["nodes"]
    serial = itertools.count(5_000_000)
    with engine.begin() as conn:
        kinds = [dict(row) for row in conn.execute(sa.select(known).order_by("id")).mappings()]
        driven = {key: kinds[0][key] for key in kinds[0] if key.endswith("_interface")}
        driven |= {key: kinds[0][key] for key in ("driver", "driver_info")}
        ids: dict[int, list[int]] = {kind["id"]: [] for kind in kinds}
        for number in range(nodes):
            kind = kinds[number % len(kinds)]
            more = {**driven, "name": f"m{number}", "power_state": "power off"}
            made = conn.execute(sa.insert(known), _copied(kind, next(serial), more))
            ids[kind["id"]].append(_key(made))
        groups: dict[tuple[int, int | None], int] = {}
        for table in metadata.sorted_tables:
            if "node_id" in table.c:
                _multiply_rows(conn, table, ids, groups, serial)
        held = metadata.tables["allocations"].c
        mine = sa.select(held.id).where(held.node_id == known.c.id).limit(1).scalar_subquery()
        used = known.c.allocation_id.is_not(None)
        conn.execute(sa.update(known).where(used).values(allocation_id=mine))


def _multiply_rows(
    conn: sa.Connection,
    table: sa.Table,
    ids: Mapping[int, list[int]],
    groups: dict[tuple[int, int | None], int],
    serial: Iterator[int],
) -> None:
    """Copy the rows of nodes to the copies of these nodes.

    :param groups: copies of port groups, by the copy of their node and the group.
    """
    found = conn.execute(sa.select(table).where(table.c.node_id.in_(list(ids)))).mappings()
    copies = []
    for row in [dict(one) for one in found]:
        for node in ids[row["node_id"]]:
            more: Json = {"node_id": node}
            if "portgroup_id" in row:
                more["portgroup_id"] = groups.get((node, row["portgroup_id"]))
            copy = _copied(row, next(serial), more)
            if table.name == "portgroups":
                groups[node, row["id"]] = _key(conn.execute(sa.insert(table), copy))
            else:
                copies.append(copy)
    _insert(conn, table, copies)


def _key(made: sa.CursorResult[Any]) -> int:
    return int((made.inserted_primary_key or (0,))[0])


def _copied(row: Json, number: int, more: Json) -> Json:
    """Return a row with own values in unique columns."""
    own: Json = {key: value for key, value in row.items() if key != "id"}
    if "uuid" in row:
        own["uuid"] = uuid_of(number)
        own |= {"name": f"{row['name']}-{number}"} if row.get("name") else {}
    if row.get("address"):
        own["address"] = ":".join(("52", "56", *(f"{number >> s & 255:02x}" for s in _SHIFTS)))
    if row.get("instance_uuid"):
        own["instance_uuid"] = uuid_of(10_000_000 + number)
    if row.get("connector_id"):
        own["connector_id"] = f"{row['connector_id']}:{number}"
    return {**own, **more}


_SHIFTS = (24, 16, 8, 0)


def _row(conn: sa.Connection, table: sa.Table, **values: object) -> Json:
    found = sa.select(table).filter_by(**values).limit(1)
    return dict(conn.execute(found).mappings().one())


def _insert(conn: sa.Connection, table: sa.Table, rows: Iterable[Json]) -> None:
    left = iter(rows)
    while batch := list(itertools.islice(left, _BATCH)):
        conn.execute(sa.insert(table), batch)


_BASE = 1000
"""The id before that of a fleet's first node."""


def _node(kind: Json, number: int) -> Json:
    used = kind["instance_uuid"] and uuid_of(3_000_000 + number)
    return {
        **kind,
        **{"id": _BASE + number, "uuid": uuid_of(1_000_000 + number), "name": f"m{number}"},
        **{"instance_uuid": used, "allocation_id": None, "parent_node": None},
    }


def _each(nodes: int, count: int, first: Json, made: Callable[[int, int], Json]) -> Iterator[Json]:
    for number in range(nodes * count):
        node, place = divmod(number, count)
        yield {**first, "node_id": _BASE + node, **made(number, place)}


def _port(number: int, _place: int) -> Json:
    octets = [f"{number >> shift & 255:02x}" for shift in (16, 8, 0)]
    return {
        **{"id": _BASE + number, "uuid": uuid_of(2_000_000 + number), "name": None},
        "address": ":".join(("52", "54", "10", *octets)),
    }


def _trait(_number: int, place: int) -> Json:
    return {"trait": f"CUSTOM_T{place}", "version": "1.0"}


def _entry(number: int, place: int) -> Json:
    at = datetime.datetime(2026, 3, 1) + datetime.timedelta(minutes=place)
    ids = {"id": _BASE + number, "uuid": uuid_of(10_000_000 + number)}
    return {**ids, "created_at": at, "event": f"Entry {place}: the node was cleaned"}


@functools.cache
def _disks() -> str:
    disk = {"name": "/dev/nvme0n1", "size": 960_197_124_096, "by_path": "/dev/disk/by-path/pci"}
    disks = [{**disk, "serial": f"NODE-{place:03}"} for place in range(INVENTORY // 105)]
    return json.dumps({"disks": disks, "cpu": {"count": 64}})


def _inventory(number: int, _place: int) -> Json:
    return {
        "id": _BASE + number,
        "inventory_data": _disks().replace("NODE", f"S{number:06}"),
        "plugin_data": json.dumps({"valid_interfaces": {}}),
    }
