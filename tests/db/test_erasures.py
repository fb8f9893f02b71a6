"""Erasure records on each database: one transaction with their step, chains and filters."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import allocations, nodes
from ironic_lite.db.tables import models
from ironic_lite.features.erasures import rows as erasures_rows
from tests.flows.test_erasures_end import BAD, DISK, ERASE, Refusing, records
from tests.support import conductor_fixture
from tests.support.conductor_fixture import listed
from tests.support.database_rows import NOON, add_node, new_uuid

pytestmark = pytest.mark.feature("erasures")

Json = dict[str, Any]
ODD = "größe ディスク 😀"


def add(database: Database, node: str, *serials: str, **values: Any) -> str:
    """Insert a record of a node and return its UUID."""
    row: Json = {
        "uuid": new_uuid(),
        "node_uuid": node,
        "node_name": None,
        "run_uuid": None,
        "at": NOON,
        "result": "complete",
        "level": "clear",
        "serials": list(serials),
        "statement": "{}",
        "signature": None,
        "key": None,
        "sha256": "0" * 64,
        **values,
    }
    database.write(lambda conn: erasures_rows.add(conn, row))
    return str(row["uuid"])


def found(database: Database, **where: Any) -> list[str]:
    """Return the UUIDs of the records of a filter, the oldest first."""
    rows = database.read(lambda conn: erasures_rows.page(conn, columns=("uuid",), where=where))
    return [row["uuid"] for row in rows]


@pytest.mark.parametrize("disks", [[DISK], [DISK, BAD]], ids=["done", "failed"])
def test_record_and_end_of_its_step_are_one_transaction(
    database: Database, disks: list[Json]
) -> None:
    """Each write of a clean is rolled back in turn."""
    for n in itertools.count(1):
        refusing = Refusing(database, n)
        rig = conductor_fixture.build(cast(Database, refusing))
        rig.database = database
        node = rig.node(fake_erasures=disks)
        rig.ask("clean", node, clean_steps=listed(ERASE))
        assert rig.service.runtime.workers.wait_idle(60)
        rig.bury()
        begun = [step for step in rig.run(node)["steps"] if step["started_at"] is not None]
        assert all(step["state"] in ("done", "failed") for step in begun)
        results = [one["result"] for one in records(rig, node)]
        assert len(results) == len(begun)
        assert (rig.get(node)["data_state"] == "clean") is ("complete" in results)
        if refusing.left > 0:
            assert results == ["partial" if BAD in disks else "complete"]
            break
    assert n > 2


def test_chain_names_the_bytes_of_the_record_before(database: Database) -> None:
    rig = conductor_fixture.build(database)
    disks = [{**DISK, "serial": ODD, "model": ODD}]
    node, other = (rig.node(fake_erasures=disks, name=name) for name in (ODD, None))
    for one in (node, node, other, node):
        rig.clean(one, ERASE)
    rig.bury()
    chosen = sa.select(models.erasures.c.statement, models.erasures.c.sha256)
    chosen = chosen.where(models.erasures.c.node_uuid == node).order_by(models.erasures.c.id)
    rows = database.read(lambda conn: conn.execute(chosen).all())
    digests = [hashlib.sha256(text.encode()).hexdigest() for text, _ in rows]
    assert digests == [digest for _, digest in rows]
    told = [json.loads(text) for text, _ in rows]
    previous = [None, *(f"sha256:{one}" for one in digests[:-1])]
    assert [one["previous"] for one in told] == previous
    assert {one["node"]["name"] for one in told} == {ODD}
    assert len(found(database, serial=ODD)) == 4


def test_filters_choose_records(database: Database) -> None:
    mine = add_node(database, owner="p1")
    first = add(database, mine, "S1", "S2")
    later = NOON + datetime.timedelta(seconds=1)
    second = add(database, mine, "S2", result="partial", at=later)
    gone = add(database, new_uuid(), "s1", result="failed")
    assert found(database) == [first, second, gone]
    assert found(database, node_uuid=mine) == [first, second]
    assert found(database, serial="S1") == [first]
    assert found(database, serial="S2") == [first, second]
    assert found(database, serial="S") == []
    assert found(database, result="partial") == [second]
    assert found(database, result="unknown") == []
    assert found(database, since=later) == [second]
    assert found(database, serial="S2", result="complete", node_uuid=mine) == [first]
    assert found(database, of_owner="p1") == [first, second]
    assert found(database, of_owner="p2") == []
    database.read(lambda conn: erasures_rows.get(conn, first, owner="p1"))
    with pytest.raises(errors.NotFound):
        database.read(lambda conn: erasures_rows.get(conn, first, owner="p2"))


def test_public_key_is_added_once_by_conductors_that_start_together(database: Database) -> None:
    def publish(_: int) -> None:
        database.write(lambda conn: erasures_rows.publish_key(conn, "k-1", "PEM", NOON))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(publish, range(8)))
    assert database.read(lambda conn: erasures_rows.public_key(conn, "k-1")) == "PEM"
    with pytest.raises(errors.NotFound):
        database.read(lambda conn: erasures_rows.public_key(conn, "k-2"))


def test_filter_by_data_state_has_nodes_that_were_never_judged(database: Database) -> None:
    states = {one: add_node(database, data_state=one) for one in ("clean", "dirty")}
    fresh = add_node(database)

    def listed_in(state: str) -> list[str]:
        def ask(conn: Connection) -> list[Json]:
            return nodes.page(conn, columns=("uuid",), where={"data_state": state}, limit=10)

        return [row["uuid"] for row in database.read(ask)]

    assert listed_in("unknown") == [fresh]
    assert {state: listed_in(state) for state in states} == {
        state: [node] for state, node in states.items()
    }


def test_allocation_that_needs_proof_passes_other_nodes_by(database: Database) -> None:
    free = {"resource_class": "big", "power_state": "power off", "provision_state": "available"}
    clean = add_node(database, data_state="clean", **free)
    for state in ("dirty", "unknown"):
        add_node(database, data_state=state, **free)
    asked = {"resource_class": "big", "traits": None, "candidate_nodes": None, "owner": None}

    def offered(**more: Any) -> list[str]:
        wanted = {**asked, **more}
        return [one.uuid for one in database.read(lambda conn: allocations.offers(conn, wanted))]

    assert offered(clean_data=True) == [clean]
    assert len(offered(clean_data=False)) == 3
