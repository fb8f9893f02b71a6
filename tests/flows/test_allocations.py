"""Conductors look for nodes: races for the last one, locked nodes, and deaths in mid-search."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.allocations import AllocationRecovery
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import allocations, nodes
from ironic_lite.db.tables import models
from tests.support.conductor_fixture import ConductorFixture, wait_for
from tests.support.crashes import Stage, idle
from tests.support.database_rows import new_uuid

Build = Callable[..., ConductorFixture]
Json = dict[str, Any]


def free(rig: ConductorFixture, *traits: str, **values: Any) -> str:
    """Add a node that may be taken."""
    about = {"resource_class": "big", "power_state": "power off", **values}
    uuid = rig.node("available", **about)
    rows = [{"node_uuid": uuid, "trait": trait} for trait in traits]
    if rows:
        rig.database.write(lambda conn: conn.execute(models.traits.insert(), rows))
    return uuid


def ask(rig: ConductorFixture, **values: Any) -> str:
    """Ask the conductor for a node, as the API does."""
    about = {"uuid": new_uuid(), "resource_class": "big", **values}
    about["created_at"] = clock.now().isoformat()
    rig.endpoints.create_allocation(rig.who, allocation=about)
    return str(about["uuid"])


def got(rig: ConductorFixture, uuid: str) -> Json:
    """Return an allocation that does not look any more."""

    def settled() -> Json | None:
        row = rig.database.read(lambda conn: allocations.get(conn, uuid))
        return row if row["state"] != "allocating" else None

    found: Json = wait_for(settled)
    return found


def consistent(rig: ConductorFixture, uuids: list[str]) -> list[str]:
    """Return the nodes that these allocations have, each of one, and each of which says so."""
    rows = [got(rig, uuid) for uuid in uuids]
    taken = [row["node_uuid"] for row in rows if row["state"] == "active"]
    assert len(set(taken)) == len(taken)
    for row in rows:
        if row["state"] == "active":
            node = rig.get(row["node_uuid"])
            assert (node["instance_uuid"], node["allocation_uuid"]) == (row["uuid"], row["uuid"])
        else:
            assert (row["node_uuid"], row["last_error"] is not None) == (None, True)
    return taken


# -- finding ---------------------------------------------------------------------------------


def test_a_node_is_found_and_says_whose_it_is(rig: ConductorFixture) -> None:
    plain = free(rig)
    special = free(rig, "CUSTOM_A", "CUSTOM_B", instance_info={"kept": 1, "traits": ["OLD"]})
    first = ask(rig, traits=["CUSTOM_A"], name="web")
    assert consistent(rig, [first]) == [special]
    row = got(rig, first)
    assert (row["state"], row["last_error"], row["conductor"]) == ("active", None, "here")
    assert rig.get(special)["instance_info"] == {"kept": 1, "traits": ["CUSTOM_A"]}
    (event,) = rig.events(special, "node_updated")
    assert event["data"]["fields"] == ["allocation_uuid", "instance_info", "instance_uuid"]
    changes = {one.pop("path"): one for one in event["data"]["changes"]}
    assert changes == {
        "allocation_uuid": {"old": None, "new": first},
        "instance_uuid": {"old": None, "new": first},
        "instance_info/traits": {"old": ["OLD"], "new": ["CUSTOM_A"]},
    }
    assert (event["requester"], event["conductor"]) == ("tester", "here")
    assert consistent(rig, [ask(rig)]) == [plain]
    third = got(rig, ask(rig))
    assert third["state"] == "error"
    assert "no available nodes match the resource class big: of 2" in third["last_error"]


def test_plain_nodes_are_taken_before_special_ones(rig: ConductorFixture) -> None:
    free(rig, "CUSTOM_GPU")
    plain = {free(rig) for _ in range(4)}
    assert set(consistent(rig, [ask(rig) for _ in range(4)])) == plain


def test_a_second_of_the_same_name_is_refused(rig: ConductorFixture) -> None:
    first = ask(rig, name="web")
    got(rig, first)
    with pytest.raises(errors.Duplicate, match="name web"):
        ask(rig, name="web")
    assert wait_for(lambda: not rig.endpoints.allocator.under_way)
    assert wait_for(lambda: rig.service.runtime.workers.busy == 0)


def test_an_instance_of_another_node_gets_none(rig: ConductorFixture) -> None:
    uuid = new_uuid()
    rig.node("active", instance_uuid=uuid)
    free(rig)
    row = got(rig, ask(rig, uuid=uuid))
    assert row["state"] == "error"
    assert f"instance_uuid {uuid} already exists" in row["last_error"]


def test_a_full_pool_refuses_and_nothing_is_kept(build: Build) -> None:
    rig = build(conductor__workers_pool_size=4)
    for _ in range(4):
        rig.service.runtime.workers.claim(reserved=True)
    with pytest.raises(errors.NoFreeWorker):
        ask(rig)
    assert rig.database.read(allocations.unsettled) == []


# -- races -----------------------------------------------------------------------------------


def test_two_conductors_never_give_one_node_twice(build: Build) -> None:
    rigs = [build(DEFAULT__host=f"host-{n}") for n in range(2)]
    made = {free(rigs[0]) for _ in range(6)}
    start, asked = threading.Barrier(10), []

    def work(n: int) -> None:
        start.wait(10)
        asked.append(ask(rigs[n % 2]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(consistent(rigs[0], asked)) == made


def test_patch_between_search_and_claim_keeps_the_node(
    build: Build, sqlite_database: Database
) -> None:
    """A PATCH comes between the look and the taking: the next node will do."""
    rig = build()
    first, second = free(rig), free(rig, "CUSTOM_A")
    inner = rig.service.runtime.database
    thief = new_uuid()

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def write(self, work: Any, **more: Any) -> Any:
            if rig.get(first)["instance_uuid"] is None and rig.database.read(allocations.unsettled):
                rig.edit(first, instance_uuid=thief)
            return inner.write(work, **more)

    object.__setattr__(rig.service.runtime, "database", Slow())
    assert consistent(rig, [ask(rig)]) == [second]
    assert rig.get(first)["instance_uuid"] == thief


def test_a_locked_node_is_waited_for(build: Build) -> None:
    rig = build(conductor__node_locked_retry_interval=0.02, conductor__node_locked_retry_attempts=5)
    node = free(rig)
    with rig.tasks.lock(rig.who, node):
        row = got(rig, ask(rig))
        assert row["state"] == "error"
        assert "could not reserve any of 1 suitable nodes" in row["last_error"]
    rig.service.runtime.conf.set_override("node_locked_retry_attempts", 1000, "conductor")
    with rig.tasks.lock(rig.who, node):
        uuid = ask(rig)
        assert uuid in rig.endpoints.allocator.under_way
    assert consistent(rig, [uuid]) == [node]


def test_allocation_removed_while_it_searches_takes_no_node(build: Build) -> None:
    rig = build(conductor__node_locked_retry_interval=0.02)
    rig.service.runtime.conf.set_override("node_locked_retry_attempts", 1000, "conductor")
    node = free(rig)
    with rig.tasks.lock(rig.who, node):
        uuid = ask(rig)
        rig.database.write(lambda conn: allocations.delete(conn, uuid))
    assert wait_for(lambda: not rig.endpoints.allocator.under_way)
    assert rig.get(node)["instance_uuid"] is None


# -- the end of a node's instance ------------------------------------------------------------


def test_undeploying_removes_the_allocation(rig: ConductorFixture) -> None:
    node = free(rig)
    uuid = ask(rig)
    got(rig, uuid)
    assert rig.call("deploy", node)["provision_state"] == "active"
    assert rig.call("delete", node)["provision_state"] == "available"
    row = rig.get(node)
    assert (row["allocation_uuid"], row["instance_uuid"]) == (None, None)
    with pytest.raises(errors.AllocationNotFound):
        rig.database.read(lambda conn: allocations.get(conn, uuid))
    assert consistent(rig, [ask(rig)]) == [node]


def test_deleting_a_node_removes_its_allocation(rig: ConductorFixture) -> None:
    node = free(rig)
    uuid = ask(rig)
    got(rig, uuid)
    rig.edit(node, maintenance=True)
    rig.endpoints.destroy_node(rig.who, node_uuid=node)
    with pytest.raises(errors.AllocationNotFound):
        rig.database.read(lambda conn: allocations.get(conn, uuid))


# -- deaths ----------------------------------------------------------------------------------


def sweep(rig: ConductorFixture) -> None:
    AllocationRecovery(rig.tasks, rig.service.ownership, rig.endpoints.allocator).sweep()


@pytest.mark.parametrize("host", ["there", "here"], ids=["another goes on", "itself goes on"])
def test_no_search_is_lost_and_none_ends_twice(stages: Callable[..., Stage], host: str) -> None:
    """The conductor dies when it has taken the search, or when it has given the node."""
    for moment in stages(dead="offline").moments("commit", least=2):
        accepted = []

        def search(rig: ConductorFixture, _node: str) -> None:
            accepted.append(ask(rig, uuid=uuid))  # noqa: B023

        uuid = new_uuid()
        heir, node = moment.play(free, search, host, idle)
        assert bool(accepted) == (moment.number > 1)
        sweep(heir)
        assert consistent(heir, [uuid]) == [node]
        assert got(heir, uuid)["conductor"] == ("here" if accepted else host)
        assert len(heir.events(node, "node_updated")) == 1
        sweep(heir)
        assert consistent(heir, [uuid]) == [node]


def test_a_search_of_the_living_is_left_alone(build: Build, sqlite_database: Database) -> None:
    rig, other = build(DEFAULT__host="one"), build(DEFAULT__host="two")
    rig.service.runtime.conf.set_override("node_locked_retry_attempts", 1000, "conductor")
    rig.service.runtime.conf.set_override("node_locked_retry_interval", 0.02, "conductor")
    node = free(rig)
    with rig.tasks.lock(rig.who, node):
        uuid = ask(rig)
        sweep(other)
        sweep(rig)
        assert other.endpoints.allocator.under_way == frozenset()
        row = sqlite_database.read(lambda conn: allocations.get(conn, uuid))
        assert (row["state"], row["conductor"]) == ("allocating", "one")
    assert consistent(rig, [uuid]) == [node]


def test_a_conductor_that_stops_leaves_its_searches(build: Build) -> None:
    rig = build(DEFAULT__host="one", conductor__node_locked_retry_interval=30)
    node = free(rig)
    with rig.tasks.lock(rig.who, node):
        uuid = ask(rig)
        assert wait_for(lambda: rig.service.runtime.workers.busy == 1)
        rig.service.stop(0.01)
    heir = build(DEFAULT__host="two")
    free_again = models.nodes.update().values(nodes.FREE)
    heir.database.write(lambda conn: conn.execute(free_again))
    sweep(heir)
    assert consistent(heir, [uuid]) == [node]
    assert got(heir, uuid)["conductor"] == "two"


def test_secret_in_the_reason_of_a_failure_is_masked(rig: ConductorFixture) -> None:
    row = got(rig, ask(rig, resource_class="big; password=hunter22"))
    assert "password=******" in row["last_error"]
    assert "hunter22" not in row["last_error"]
