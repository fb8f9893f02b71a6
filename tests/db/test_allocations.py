"""Allocations: which nodes suit, by one statement; and that two never get one node."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock, context
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import allocations, nodes
from ironic_lite.db.tables import models
from ironic_lite.domain import allocations as allocation_rules
from ironic_lite.domain.allocations import AllocationState, Tally
from tests.support.database_rows import new_uuid
from tests.support.statements import count_statements

WHO = context.internal("test")
FREE = {"resource_class": "big", "power_state": "power off", "provision_state": "available"}
ANY: dict[str, Any] = {
    "resource_class": "big",
    "traits": None,
    "candidate_nodes": None,
    "owner": None,
}


def node(database: Database, *traits: str, **values: Any) -> str:
    """Insert a node that is free, unless told otherwise."""
    row = {"uuid": new_uuid(), "driver": "fake-hardware", **FREE, **values}

    def write(conn: Connection) -> None:
        nodes.insert(conn, row)
        for trait in traits:
            conn.execute(models.traits.insert(), {"node_uuid": row["uuid"], "trait": trait})

    database.write(write)
    return str(row["uuid"])


def add(database: Database, **values: Any) -> str:
    """Insert an allocation that looks for a node."""
    row = {"uuid": new_uuid(), "state": "allocating", "conductor": "one", **values}
    database.write(lambda conn: allocations.insert(conn, row))
    return str(row["uuid"])


def offered(database: Database, **wanted: Any) -> set[str]:
    """Return the nodes that suit."""
    with count_statements(database) as sent:
        found = database.read(lambda conn: allocations.offers(conn, {**ANY, **wanted}))
    assert len(sent) == 1
    return {offer.uuid for offer in found}


def test_only_free_nodes_suit(database: Database) -> None:
    free = node(database)
    node(database, resource_class="small")
    node(database, provision_state="manageable")
    node(database, power_state=None)
    node(database, maintenance=True)
    node(database, instance_uuid=new_uuid())
    node(database, retired=True)
    assert offered(database) == {free}
    assert offered(database, resource_class="none") == set()


def test_traits_candidates_and_owners_narrow_the_choice(database: Database) -> None:
    plain = node(database)
    one = node(database, "CUSTOM_A", owner="me")
    two = node(database, "CUSTOM_A", "CUSTOM_B", "CUSTOM_C", lessee="me")
    assert offered(database) == {plain, one, two}
    assert offered(database, traits=["CUSTOM_A"]) == {one, two}
    assert offered(database, traits=["CUSTOM_A", "CUSTOM_B", "CUSTOM_A"]) == {two}
    assert offered(database, candidate_nodes=[plain, two, new_uuid()]) == {plain, two}
    assert offered(database, owner="me") == {one, two}
    assert offered(database, owner="you") == set()
    every = {"traits": ["CUSTOM_A"], "candidate_nodes": [one], "owner": "me"}
    assert offered(database, **every) == {one}


def test_an_offer_says_what_the_choice_needs(database: Database) -> None:
    uuid = node(database, "CUSTOM_A", "CUSTOM_B", name="web")
    (offer,) = database.read(lambda conn: allocations.offers(conn, ANY))
    assert offer == (uuid, "web", 0, False, 2)
    expires = clock.after(60)
    database.write(lambda c: nodes.lock(c, uuid, host="here", token="t", expires=expires))
    (offer,) = database.read(lambda conn: allocations.offers(conn, ANY))
    assert offer.locked is True


def test_a_tally_counts_down_the_conditions(database: Database) -> None:
    node(database, "CUSTOM_A", owner="me")
    node(database, owner="me")
    node(database, maintenance=True, owner="me")
    node(database)

    def tally(**wanted: Any) -> Tally:
        return database.read(lambda conn: allocations.tally(conn, {**ANY, **wanted}))

    assert tally() == (4, 4, 3, 3)
    assert tally(owner="me", traits=["CUSTOM_A"]) == (4, 3, 2, 1)
    assert tally(candidate_nodes=[new_uuid()]) == (4, 0, 0, 0)
    assert tally(resource_class="none") == (0, 0, 0, 0)


def test_nodes_are_known_by_uuid_and_by_name(database: Database) -> None:
    first, second = node(database, name="web"), node(database)
    idents = ["web", second.upper(), "WEB", new_uuid()]
    found = database.read(lambda conn: allocations.uuids_of(conn, idents))
    assert found == {"web": first, second.upper(): second}


def test_allocation_is_found_by_its_node(database: Database) -> None:
    where = node(database)
    uuid = add(database, node_uuid=where, traits=["CUSTOM_A"])
    assert database.read(lambda conn: allocations.get(conn, uuid))["traits"] == ["CUSTOM_A"]
    assert database.read(lambda conn: allocations.of_node(conn, where))["uuid"] == uuid
    with pytest.raises(errors.AllocationNotFound, match="for node"):
        database.read(lambda conn: allocations.of_node(conn, uuid))


def test_a_node_that_goes_takes_its_allocation_along(database: Database) -> None:
    where = node(database)
    uuid = add(database, node_uuid=where)
    gone = models.nodes.delete().where(models.nodes.c.uuid == where)
    database.write(lambda conn: conn.execute(gone))
    with pytest.raises(errors.AllocationNotFound):
        database.read(lambda conn: allocations.get(conn, uuid))


def test_a_search_is_taken_over_once_and_ends_once(database: Database) -> None:
    uuid = add(database)

    def take_over(before: str, after: str) -> bool:
        return database.write(
            lambda conn: allocations.take_over(conn, uuid, before=before, after=after)
        )

    assert take_over("other", "two") is False
    assert take_over("one", "two") is True
    assert take_over("one", "three") is False
    assert database.read(allocations.unsettled) == [{"uuid": uuid, "conductor": "two"}]

    def settle(state: AllocationState, **values: Any) -> bool:
        return database.write(lambda conn: allocations.settle(conn, WHO, uuid, state, **values))

    assert settle(AllocationState.ERROR, last_error="x") is True
    assert settle(AllocationState.ACTIVE) is False
    assert take_over("two", "three") is False
    assert database.read(allocations.unsettled) == []
    row = database.read(lambda conn: allocations.get(conn, uuid))
    assert (row["state"], row["last_error"]) == ("error", "x")


def test_two_at_once_never_get_one_node(database: Database) -> None:
    """Each tries every node, in the same order: as bad as it can be."""
    count = 12
    for _ in range(count // 2):
        node(database)
    wanted = [add(database) for _ in range(count)]
    offers = database.read(lambda conn: allocations.offers(conn, ANY))

    def take(uuid: str) -> str | None:
        for offer in offers:

            def write(conn: Connection, offer: allocation_rules.NodeOffer = offer) -> None:
                assert allocations.settle(
                    conn, WHO, uuid, AllocationState.ACTIVE, node_uuid=offer.uuid
                )
                columns = allocation_rules.taken(
                    {"instance_info": {}}, {"uuid": uuid, "traits": None}
                )
                nodes.edit(conn, offer.uuid, columns, generation=offer.generation)

            try:
                database.write(write)
            except errors.Conflict:
                continue
            return offer.uuid
        return None

    work: Callable[[str], str | None] = take
    with ThreadPoolExecutor(count) as pool:
        got = [uuid for uuid in pool.map(work, wanted) if uuid is not None]
    assert sorted(got) == sorted(offer.uuid for offer in offers)
    for uuid in got:
        row = database.read(functools.partial(nodes.get, ident=uuid))
        own = database.read(functools.partial(allocations.of_node, node_uuid=uuid))
        assert row["instance_uuid"] == row["allocation_uuid"] == own["uuid"]
        assert own["state"] == "active"
    assert len(database.read(allocations.unsettled)) == count - len(got)
