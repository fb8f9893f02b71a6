"""Terms of nodes on each database: their order, their index, and one transaction with a source."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database, call_followers
from ironic_lite.db.queries import nodes, reports, runs
from ironic_lite.db.tables import models
from ironic_lite.features.search import rows
from tests.support.conductor_fixture import wait_for
from tests.support.database_rows import add_node, get_node, lock_node, new_uuid

pytestmark = pytest.mark.feature("search")

NOON = datetime.datetime(2026, 1, 31, 12)


@pytest.fixture(autouse=True)
def following(database: Database) -> Iterator[None]:
    """Let writes keep terms."""
    rows.attach(database.engine)
    yield


def settle(database: Database) -> None:
    """Make the terms of all changes."""
    some = database.read(lambda conn: rows.changes(conn, 1000))
    database.write(lambda conn: rows.settle(conn, some))


def values(database: Database, text: str, limit: int = 100, **more: Any) -> list[str]:
    """Return the values that a query finds, in their order."""
    given: dict[str, Any] = {"project": None, "readable": {}, **more}
    settle(database)
    hits, _ = database.read(lambda conn: rows.search(conn, [text], limit=limit, **given))
    return [hit.value for hit in hits]


def waiting(database: Database) -> list[str]:
    """Return the nodes whose terms are not made."""
    return [change.uuid for change in database.read(lambda conn: rows.changes(conn, 10))]


def test_terms_are_ordered_by_code_points(database: Database) -> None:
    for name in ("ab-2", "ab", "Abz", "ab 1", "abé", "ab😀"):
        add_node(database, description=name)
    assert values(database, "ab") == ["ab", "ab 1", "ab-2", "Abz", "abé", "ab😀"]
    assert values(database, "ab😀") == ["ab😀"]
    assert values(database, "abe") == []
    assert values(database, "ab%") == values(database, "ab_") == values(database, "ab\\") == []


def test_each_write_of_a_node_moves_its_terms(database: Database) -> None:
    node = add_node(database, name="old-1", extra={"rack": "r1"}, owner="team-a")
    edited = get_node(database, node)["generation"]
    change = {"name": "new-1", "extra": {"rack": "r2"}}
    database.write(lambda conn: nodes.edit(conn, node, change, generation=edited))
    assert (values(database, "old-1"), values(database, "r1")) == ([], [])
    assert values(database, "new-1") + values(database, "r2") == ["new-1", "r2"]
    assert values(database, "team-a") == ["team-a"]
    assert lock_node(database, node, "t-1")
    saved = {"properties": {"vendor": "Acme"}}
    database.write(lambda conn: nodes.save(conn, node, saved, token="t-1"))
    assert values(database, "acme") == ["Acme"]
    at = clock.now()
    begun = {"properties": {"vendor": "Bolt"}}
    database.write(
        lambda conn: runs.save_unless_stopped(conn, node, begun, token="t-1", at=at, known=None)
    )
    assert values(database, "acme") == []
    assert values(database, "bolt") == ["Bolt"]
    database.write(lambda conn: nodes.delete(conn, node, token="t-1"))
    assert values(database, "team-a") == values(database, "bolt") == []


def test_transaction_that_fails_leaves_the_terms(database: Database) -> None:
    node = add_node(database, name="old-1")

    def fail(conn: Connection) -> None:
        nodes.edit(conn, node, {"name": "new-1"}, generation=0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.write(fail)
    assert (values(database, "new-1"), values(database, "old-1")) == ([], ["old-1"])


def test_inventory_is_replaced(database: Database) -> None:
    node = add_node(database)
    for serial in ("SN-1", "SN-2"):
        found = {"system_vendor": {"serial_number": serial}}
        database.write(lambda conn, f=found: reports.put_inventory(conn, node, f, {}, at=NOON))  # type: ignore[misc]
    assert values(database, "sn") == ["SN-2"]


def test_serial_numbers_are_those_of_nodes_that_the_caller_may_read(database: Database) -> None:
    machines = [add_node(database, owner=owner) for owner in ("ann", "ben")]
    bare = add_node(database, owner="ann", properties={"serial_number": "SN9"})
    for number, node in enumerate(machines):
        content = {"system_vendor": {"serial_number": f"SN{number} b"}, "disks": [{"serial": "D"}]}
        database.write(
            lambda conn, node=node, content=content: reports.put_inventory(  # type: ignore[misc]
                conn, node, content, {}, at=NOON
            )
        )
    settle(database)

    def found(sides: rows.Sides | None) -> dict[str, str]:
        asked = [*machines, bare, new_uuid()]
        return database.read(lambda conn: rows.serials(conn, asked, sides))

    assert found(None) == {machines[0]: "SN0 b", machines[1]: "SN1 b"}
    assert found({"owner": "ann", "lessee": None}) == {machines[0]: "SN0 b"}
    assert found({"owner": None, "lessee": "ann"}) == found({"owner": None, "lessee": None}) == {}


def test_many_terms_are_written(database: Database) -> None:
    extra = {f"key-{n}": " ".join(f"{n:02d}{m:02d}" for m in range(13)) for n in range(14)}
    add_node(database, extra=extra)
    assert len(values(database, "1212")) == 1
    assert len(values(database, "00")) == 1


def test_sides_choose_nodes_of_a_project(database: Database) -> None:
    for owner, lessee in (("a", "b"), ("b", "a"), ("c", "c")):
        address = {"redfish_address": f"bmc-{owner}{lessee}"}
        add_node(database, owner=owner, lessee=lessee, name=f"n-{owner}", driver_info=address)
    own = {"driver_info": {"owner": "a", "lessee": None}}
    assert values(database, "bmc-", project="a", readable=own) == ["bmc-ab"]
    assert values(database, "n-", project="a", readable=own) == ["n-a", "n-b"]
    nothing = {"driver_info": {"owner": None, "lessee": None}}
    assert values(database, "bmc-", project="a", readable=nothing) == []
    assert len(values(database, "bmc-")) == 3


def test_repair_is_of_all_sources(database: Database) -> None:
    node = add_node(database, name="old-1", extra={"rack": "r1"})
    other = add_node(database, name="old-2")
    settle(database)
    mine = models.nodes.c.uuid == node
    changed = models.nodes.update().where(mine).values(name="new-1", updated_at=clock.now())
    database.write(lambda conn: conn.execute(changed))
    differing = [database.read(lambda c, n=n: rows.differ(c, n)) for n in (node, other, "gone")]  # type: ignore[misc]
    assert differing == [True, False, False]
    for one in (node, "gone"):
        database.write(lambda conn, one=one: rows.repair(conn, one))  # type: ignore[misc]
    assert database.read(lambda conn: rows.differ(conn, node)) is False
    assert values(database, "new-1") == ["new-1"]
    assert values(database, "old") == ["old-2"]


def test_change_that_comes_while_terms_are_made_is_kept(database: Database) -> None:
    node = add_node(database, name="one-1")
    some = database.read(lambda conn: rows.changes(conn, 10))
    found = {"system_vendor": {"serial_number": "SN-9"}}
    database.write(lambda conn: reports.put_inventory(conn, node, found, {}, at=NOON))
    database.write(lambda conn: rows.settle(conn, some))
    assert len(database.read(lambda conn: rows.changes(conn, 10))) == 1
    assert values(database, "sn-9") == ["SN-9"]


def test_change_of_another_column_is_not_noted(database: Database) -> None:
    node = add_node(database)
    settle(database)
    database.write(lambda conn: nodes.edit(conn, node, {"resource_class": "x"}, generation=0))
    assert database.read(lambda conn: rows.changes(conn, 10)) == []


def test_threads_that_settle_together_leave_the_right_terms(database: Database) -> None:
    made = [add_node(database, name=f"t-{number}") for number in range(6)]

    def change(conn: Connection, node: str, owner: str) -> None:
        mine = models.nodes.c.uuid == node
        conn.execute(models.nodes.update().where(mine).values(owner=owner))
        call_followers(conn, node, {"owner": owner})

    def work(number: int) -> None:
        for turn in range(5):
            node, owner = made[(number + turn) % len(made)], f"team-{number}-{turn}"
            database.write(partial(change, node=node, owner=owner))
            settle(database)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    settle(database)
    assert not any(database.read(lambda c, n=n: rows.differ(c, n)) for n in made)  # type: ignore[misc]
    assert database.read(lambda conn: rows.changes(conn, 10)) == []


@pytest.mark.parametrize(
    "extra",
    [
        {"a" * 121: "x1", "a" * 121 + " b": "x1"},
        {"a": ["İ" + "a" * 61 + " y", "İ" + "a" * 61]},
        {"a": ["b" * 63 + " c", "b" * 63]},
    ],
)
def test_cut_texts_are_not_equal_for_a_database(database: Database, extra: Any) -> None:
    add_node(database, extra=extra, name="cut-1")
    assert values(database, "cut-1") == ["cut-1"]
    assert waiting(database) == []


def test_id_that_is_given_again_is_another_change(database: Database) -> None:
    add_node(database, name="one-1")
    some = database.read(lambda conn: rows.changes(conn, 10))
    settle(database)
    other = add_node(database, name="two-1")
    again = models.search_changes.update().values(id=some[0].id)  # as SQLite gives it
    database.write(lambda conn: conn.execute(again))
    database.write(lambda conn: rows.settle(conn, some))
    assert waiting(database) == [other]


@pytest.mark.parametrize("side", ["owner", "lessee"])
def test_new_owner_never_finds_old_terms(database: Database, side: str) -> None:
    given: Any = {side: "team-a", "extra": {"rack": "secret-a"}}
    node = add_node(database, name="n-1", **given)
    assert values(database, "secret", project="team-a") == ["secret-a"]
    change = {side: "team-b", "extra": {"rack": "public-b"}}
    database.write(lambda conn: nodes.edit(conn, node, change, generation=0))

    def found(text: str) -> list[str]:
        readable: dict[str, rows.Sides] = {}
        given: Any = {"limit": 9, "project": "team-b", "readable": readable}
        hits, _ = database.read(lambda conn: rows.search(conn, [text], **given))
        return [hit.value for hit in hits]

    assert found("secret") == []  # before the terms are made again
    settle(database)
    assert found("secret") == []
    assert found("public") == ["public-b"]


def test_each_hit_counts_once(database: Database) -> None:
    add_node(database, description="gpu gpu-2 gpu-3 gpu-4", name="a-1")

    def search(text: str, limit: int) -> tuple[int, bool]:
        given: Any = {"limit": limit, "project": None, "readable": {}}
        hits, more = database.read(lambda conn: rows.search(conn, [text], **given))
        return len(hits), more

    settle(database)
    assert search("gpu", 1) == (1, False)
    add_node(
        database, extra={"k": [" ".join(f"w{n:02d}" for n in range(m, m + 16)) for m in (0, 16)]}
    )
    for number in range(5):
        add_node(database, name=f"w9-{number}")
    settle(database)
    assert search("w", 100) == (7, False)
    assert search("w", 7) == (7, False)
    assert search("w", 6) == (6, True)


def test_equal_values_are_first_and_the_order_is_total(database: Database) -> None:
    uuids = [f"{n}0000000-0000-4000-8000-000000000000" for n in range(4)]
    for uuid, description in zip(uuids, ("a gpu", "gpu", "gpu-1", "gpu"), strict=True):
        add_node(database, uuid=uuid, description=description)
    settle(database)
    given: Any = {"limit": 9, "project": None, "readable": {}}
    hits, _ = database.read(lambda conn: rows.search(conn, ["gpu"], **given))
    assert [(hit.value, hit.uuid[0]) for hit in hits] == [
        ("gpu", "1"),
        ("gpu", "3"),
        ("a gpu", "0"),
        ("gpu-1", "2"),
    ]


def test_whole_uuid_is_first(database: Database) -> None:
    wanted = "90000000-0000-4000-8000-000000000000"
    add_node(database, extra={"parent": wanted})
    add_node(database, uuid=wanted)
    settle(database)
    given: Any = {"limit": 1, "project": None, "readable": {}}
    hits, more = database.read(lambda conn: rows.search(conn, [wanted], **given))
    assert ([hit.field for hit in hits], more) == (["uuid"], True)


def test_search_uses_the_index(database: Database) -> None:
    """A plan of three nodes proves nothing on the servers, so only SQLite is asked."""
    if database.kind != "sqlite":
        pytest.skip("a plan of few rows does not show an index")
    limited: dict[str, rows.Sides] = {"inventory": {"owner": "a", "lessee": None}}

    def plans(project: str | None) -> list[str]:
        texts = []
        for statement, given in rows.statements("ab", project, limited):
            sql = statement.compile(database.engine)
            named = sql.construct_params({**given, "limit_": 5})
            values = [named[name] for name in sql.positiontup or ()]
            explain = f"EXPLAIN QUERY PLAN {sql}"
            texts.append(
                database.read(
                    lambda conn, e=explain, v=values: str(  # type: ignore[misc]
                        conn.exec_driver_sql(e, tuple(v)).all()
                    )
                )
            )
        return texts

    for plan in (*plans(None)[:2], *plans("a")[:2]):
        assert "ix_search_terms_term" in plan
    for plan in plans("a")[2:] + plans(None)[2:]:
        assert "SCAN" not in plan


def is_visible(conn: Connection) -> bool:
    """Vacuum again, and tell whether an index alone may answer: a snapshot elsewhere forbids it."""
    conn.exec_driver_sql("VACUUM ANALYZE search_terms")
    sql = "SELECT relallvisible >= relpages FROM pg_class WHERE relname = 'search_terms'"
    return bool(conn.exec_driver_sql(sql).scalar_one())


def test_terms_of_other_projects_are_passed_by_in_the_index(database: Database) -> None:
    def add(conn: Connection) -> None:
        for number in range(300):
            name = f"rack-{number:03d}"
            row = {"uuid": new_uuid(), "name": name, "owner": "b", "created_at": NOON}
            conn.execute(models.nodes.insert(), {**row, "driver": "x", "provision_state": "active"})
            term = {"node_uuid": row["uuid"], "field": "name", "term": name, "value": name}
            conn.execute(models.search_terms.insert(), {**term, "owner": "b"})

    database.write(add)
    limited: dict[str, rows.Sides] = {"inventory": {"owner": "a", "lessee": None}}

    # Statistics and options by which a server takes so few rows for many.
    prepare = {
        "sqlite": (),
        "postgresql": ("SET enable_seqscan = off", "SET enable_bitmapscan = off"),
        "mysql": ("ANALYZE TABLE search_terms",),
    }
    explain = "EXPLAIN QUERY PLAN" if database.kind == "sqlite" else "EXPLAIN"
    alone = {
        "sqlite": "USING COVERING INDEX ix",
        "postgresql": "Index Only Scan",
        "mysql": "Using index",
    }
    engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        for text in prepare[database.kind]:
            conn.exec_driver_sql(text)
        if database.kind == "postgresql":
            wait_for(lambda: is_visible(conn))
        for statement, given in rows.statements("rack", "a", limited)[:2]:
            sql = statement.compile(database.engine)
            named = sql.construct_params({**given, "limit_": 40})
            values: Any = tuple(named[name] for name in sql.positiontup or ()) or named
            plan = str(conn.exec_driver_sql(f"{explain} {sql}", values).all())
            assert "ix_search_terms_term" in plan, plan
            assert alone[database.kind] in plan, plan
        conn.detach()  # has these options


def test_terms_of_a_former_owner_do_not_hide_the_next_ones(database: Database) -> None:
    made = [add_node(database, name=f"n-{number:02d}", owner="a") for number in range(60)]
    settle(database)
    moved = models.nodes.update().where(models.nodes.c.uuid.in_(made[:50])).values(owner="b")
    database.write(lambda conn: conn.execute(moved))
    for project in ("a", None):
        given: Any = {"limit": 4, "project": project, "readable": {}}
        hits, more = database.read(lambda conn, g=given: rows.search(conn, ["n-"], **g))  # type: ignore[misc]
        assert ([hit.value for hit in hits], more) == (["n-50", "n-51", "n-52", "n-53"], True)
        given["limit"] = 10
        hits, more = database.read(lambda conn, g=given: rows.search(conn, ["n-"], **g))  # type: ignore[misc]
        assert (len(hits), more) == (10, False)
