"""Batches when their conductor dies, and with several conductors: each node runs once."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock, options
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from ironic_lite.drivers.registry import Registry
from ironic_lite.features.batches import rows as batches_rows
from ironic_lite.features.batches import rules, work
from ironic_lite.features.batches.work import Aborts, Starts
from ironic_lite.rpc import contract, stub
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for
from tests.support.statements import count_statements

pytestmark = [
    pytest.mark.feature("batches"),
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
    ),
]
Build = Callable[..., ConductorFixture]
SHORT: dict[str, Any] = {"conductor__heartbeat_timeout": 2, "conductor__heartbeat_interval": 1}
BATCH = "b0000000-0000-4000-8000-000000000000"
OPTIONS = {"on_failures": "pause", "between_waves": "go on"}


def begin(
    rig: ConductorFixture,
    nodes: list[str],
    waves: list[int],
    concurrency: int,
    *,
    uuid: str = BATCH,
    request: dict[str, Any] | None = None,
    was: str = "enroll",
    **values: Any,
) -> None:
    """Add a batch that manages these nodes, as the API does.

    :param values: columns of the rows of its nodes.
    """
    places = [wave for wave, size in enumerate(waves) for _ in range(size)]
    row = {
        **dict.fromkeys(batches_rows.COLUMNS[1:]),
        "uuid": uuid,
        "state": "running",
        "request": request or {"target": "manage"},
        "options": {**OPTIONS, "waves": waves, "concurrency": concurrency},
        "wave": 0,
        "max_failures": 0,
        "forgiven": 0,
        "abort_runs": False,
        "context": rig.who.as_dict(),
        "created_at": clock.now(),
    }
    members = [
        {
            **dict.fromkeys(batches_rows.NODE_COLUMNS[1:]),
            "batch_uuid": uuid,
            "place": place,
            "node_uuid": node,
            "open_uuid": node,
            "wave": wave,
            "state": "pending",
            "was": was,
            "tries": 0,
            **values,
        }
        for place, (node, wave) in enumerate(zip(nodes, places, strict=True))
    ]
    rig.database.write(lambda conn: batches_rows.add(conn, row, members))


def counts(database: Database) -> dict[str, int]:
    found = database.read(lambda conn: batches_rows.counts(conn, BATCH))
    return {name: number for name, number in rules.by_state(found).items() if number}


def rows(database: Database) -> list[dict[str, Any]]:
    """Return the rows of the batch's nodes, in their order."""
    of_batch = models.batch_nodes.select().where(models.batch_nodes.c.batch_uuid == BATCH)
    ordered = of_batch.order_by(models.batch_nodes.c.place)
    return database.read(lambda conn: [dict(row) for row in conn.execute(ordered).mappings()])


def add_run(rig: ConductorFixture, node: str, uuid: str = "", **values: Any) -> None:
    """Add a run of a node, and name it in the node's row of a batch."""
    uuid = uuid or str(uuid4())
    members = models.batch_nodes
    of_node = members.update().where(members.c.node_uuid == node)

    def write(conn: Any) -> None:
        conn.execute(models.runs.insert(), {"uuid": uuid, "node_uuid": node, **values})
        conn.execute(of_node.values(run_uuid=uuid))

    rig.database.write(write)


def statements(rig: ConductorFixture) -> int:
    """Return the number of statements of a look at the batches."""
    with count_statements(rig.database) as sent:
        rig.sweep("batches")
    return len(sent)


def lose(database: Database, host: str) -> None:
    """Have a conductor be lost."""
    gone = models.conductors.update().where(models.conductors.c.hostname == host)
    database.write(lambda conn: conn.execute(gone, {"online": False}))


def ended(database: Database) -> bool:
    row = database.read(lambda conn: batches_rows.get(conn, BATCH))
    return row["ended_at"] is not None


def finish(rig: ConductorFixture, count: int) -> None:
    """Sweep until the batch has ended; all nodes are done."""

    def swept() -> bool:
        # No pause between tries, so the limit of tries, which is an hour of pauses, has no meaning.
        early = models.batch_nodes.update().values(not_before=None, tries=0)
        rig.database.write(lambda conn: conn.execute(early))
        for name in ("orphans", "batches"):
            rig.sweep(name)
        return ended(rig.database)

    def left() -> list[dict[str, Any]]:
        return [row for row in rows(rig.database) if row["state"] != "done"]

    wait_for(swept, left)
    assert (counts(rig.database), left()) == ({"done": count}, [])


def heir_after(
    build: Build,
    database: Database,
    start: Callable[[ConductorFixture], object],
    commits: int,
    *,
    elsewhere: bool,
    calls: str | None = None,
) -> ConductorFixture:
    """Let a conductor start a batch and die after so many saves; return the next one.

    :param calls: the conductor group of another conductor, which stays alive.
    """
    life = crashes.Life()
    if calls is not None:
        build(DEFAULT__host="edge", conductor__conductor_group=calls, **SHORT)
    rig = build(crashes.database(database, life), DEFAULT__host="mortal", **SHORT)
    rig.database = database
    start(rig)
    life.arm(commit=commits)
    with contextlib.suppress(crashes.Died):
        for _ in range(20):
            rig.sweep("batches")
            rig.service.runtime.workers.wait_idle(60)
    assert life.dead, "the batch has fewer saves"
    rig.bury()
    heir = build(database, DEFAULT__host="heir" if elsewhere else "mortal", **SHORT)
    if elsewhere:
        lose(database, "mortal")
    return heir


@pytest.mark.parametrize("elsewhere", [True, False], ids=["another goes on", "itself goes on"])
@pytest.mark.parametrize("commits", range(1, 11))
def test_death_after_each_save(
    build: Build, sqlite_database: Database, commits: int, elsewhere: bool
) -> None:
    nodes: list[str] = []

    def start(rig: ConductorFixture) -> None:
        nodes.extend(rig.node("enroll") for _ in range(3))
        begin(rig, nodes, [1, 2], 2)

    heir = heir_after(build, sqlite_database, start, commits, elsewhere=elsewhere)
    finish(heir, 3)
    for node in nodes:
        assert heir.get(node)["provision_state"] == "manageable"
        assert len(heir.runs(node)) == 1


@pytest.mark.parametrize("elsewhere", [True, False], ids=["another goes on", "itself goes on"])
@pytest.mark.parametrize("commits", range(1, 8))
def test_death_of_the_owner_after_each_save_while_another_conductor_has_the_nodes(
    build: Build, sqlite_database: Database, commits: int, elsewhere: bool
) -> None:
    nodes: list[str] = []

    def start(rig: ConductorFixture) -> None:
        nodes.extend(rig.node("enroll", conductor_group="edge") for _ in range(3))
        begin(rig, nodes, [1, 2], 2)

    heir = heir_after(build, sqlite_database, start, commits, elsewhere=elsewhere, calls="edge")
    finish(heir, 3)
    for node in nodes:
        assert heir.get(node)["provision_state"] == "manageable"
        assert len(heir.runs(node)) == 1


@pytest.mark.parametrize("elsewhere", [True, False], ids=["another goes on", "itself goes on"])
@pytest.mark.parametrize("commits", range(1, 8))
def test_power_order_ends_after_a_death(
    build: Build, sqlite_database: Database, commits: int, elsewhere: bool
) -> None:
    """An order whose conductor died is done, or failed as interrupted; it is not under way."""
    nodes: list[str] = []

    def start(rig: ConductorFixture) -> None:
        nodes.extend(rig.node("manageable") for _ in range(2))
        begin(rig, nodes, [2], 2, request={"power": "power on"}, was="manageable")

    heir = heir_after(build, sqlite_database, start, commits, elsewhere=elsewhere)

    def swept() -> bool:
        for name in ("orphans", "batches"):
            heir.sweep(name)
        found = counts(sqlite_database)
        return not found.get("starting") and not found.get("running")

    wait_for(swept, lambda: counts(sqlite_database))
    found = rows(sqlite_database)
    assert {row["state"] for row in found} <= {"done", "failed", "pending"}
    assert all(row["error"]["code"] == "Interrupted" for row in found if row["state"] == "failed")
    assert [heir.get(node)["target_power_state"] for node in nodes] == [None, None]


def test_claimed_node_without_a_conductor_is_pending_again(rig: ConductorFixture) -> None:
    node = rig.node("enroll", conductor_group="edge")
    ident = rules.request_id(BATCH, node)
    begin(rig, [node], [1], 1, state="starting", host="dead", request_id=ident)
    rig.sweep("batches")
    (found,) = rows(rig.database)
    assert (found["state"], found["error"]["code"]) == ("pending", "NoValidHost")
    assert rig.get(node)["provision_state"] == "enroll"


def test_claimed_node_without_a_conductor_keeps_its_run(rig: ConductorFixture) -> None:
    node = rig.node("enroll")
    ident = rules.request_id(BATCH, node)
    begin(rig, [node], [1], 1, state="starting", host="dead", request_id=ident)
    who = dataclasses.replace(rig.who, request_id=ident)
    run = rig.endpoints.start_verb(who, node_uuid=node, event="manage", body={})
    rig.settled(node)
    rig.edit(node, conductor_group="edge")
    rig.sweep("batches")
    assert [(row["state"], row["run_uuid"]) for row in rows(rig.database)] == [("running", run)]


def test_claimed_node_that_has_moved_is_started_by_its_owner(build: Build) -> None:
    rig, _edge = build(), build(DEFAULT__host="edge", conductor__conductor_group="edge")
    node = rig.node("enroll", conductor_group="edge")
    ident = rules.request_id(BATCH, node)
    begin(rig, [node], [1], 1, state="starting", host="here", request_id=ident, tries=1)
    rig.sweep("batches")
    rig.reaches(node, "manageable")
    assert [(row["state"], row["tries"]) for row in rows(rig.database)] == [("running", 1)]


def test_claim_of_a_conductor_that_owns_the_batch_no_more_is_taken(build: Build) -> None:
    """The former owner lives, and may still write what has become of its request."""
    rig, edge = build(), build(DEFAULT__host="edge")
    node = rig.node("enroll")
    ident = rules.request_id(BATCH, node)
    begin(rig, [node], [1], 1, state="starting", host="edge", request_id=ident, tries=1)
    (claimed,) = rows(rig.database)
    edge.sweep("batches")
    assert counts(rig.database) == {"starting": 1}
    rig.sweep("batches")
    assert counts(rig.database) == {"running": 1}
    late = Starts(edge.tasks, edge.service.peers)
    late.start(BATCH, [claimed])
    finish(rig, 1)
    assert len(rig.runs(node)) == 1


@pytest.mark.parametrize("received", [True, False])
def test_request_without_an_answer_is_sent_again(build: Build, received: bool) -> None:
    rig, edge = build(), build(DEFAULT__host="edge", conductor__conductor_group="edge")
    node = rig.node("enroll", conductor_group="edge")
    begin(rig, [node], [1], 1)
    send, asked = rig.service.peers.send, list[str]()

    def lose_answer(call: stub.RpcCall) -> Any:
        asked.append(call.method)
        if received:
            send(call)
        raise errors.ConductorUnresponsive(host="edge", reason="no keepalive")

    rig.service.peers.send = lose_answer
    rig.sweep("batches")
    assert counts(rig.database) == {"running" if received else "starting": 1}
    rig.sweep("batches")
    rig.service.peers.send = send
    assert len(asked) == (1 if received else 2)
    finish(rig, 1)
    assert len(edge.runs(node)) == 1


@pytest.mark.parametrize("state", ["aborted", "paused"])
@pytest.mark.parametrize("request_", [{"target": "inspect"}, {"power": "power on"}], ids=str)
def test_request_under_way_begins_nothing_after_the_end_of_its_claim(
    build: Build, request_: dict[str, Any], state: str
) -> None:
    """Its conductor hangs in a check; meanwhile the owner gives it up, and the batch stops."""
    checks = HangingChecks()
    rig = build()
    edge = build(registry=checks.registry, DEFAULT__host="edge", conductor__conductor_group="edge")
    node = rig.node("manageable", conductor_group="edge")
    checks.nodes = {node}
    begin(rig, [node], [1], 1, request=request_, was="manageable")
    send, late, refusals = rig.service.peers.send, list[threading.Thread](), list[errors.Error]()

    def send_late(call: stub.RpcCall) -> None:
        try:
            send(call)
        except errors.Error as why:
            refusals.append(why)

    def lose_answer(call: stub.RpcCall) -> Any:
        late.append(threading.Thread(target=send_late, args=(call,)))
        late[0].start()
        wait_for(lambda: edge.service.runtime.workers.busy)
        raise errors.ConductorUnresponsive(host="edge", reason="no keepalive")

    rig.service.peers.send = lose_answer
    rig.sweep("batches")
    assert counts(rig.database) == {"starting": 1}
    rig.database.write(lambda conn: batches_rows.update(conn, BATCH, {"state": state}))
    rig.sweep("batches")
    assert counts(rig.database) == {"skipped" if state == "aborted" else "pending": 1}
    checks.opened.set()
    late[0].join(60)
    assert [why.code for why in refusals] == ["Unavailable"]
    found = edge.settled(node)
    assert (found["provision_state"], found["target_power_state"]) == ("manageable", None)
    assert edge.events(node) == []


def test_request_of_the_former_caller_begins_nothing_after_a_resume(build: Build) -> None:
    checks = HangingChecks()
    rig = build()
    group = {"DEFAULT__host": "edge", "conductor__conductor_group": "edge"}
    edge = build(registry=checks.registry, **group)
    node = rig.node("manageable", conductor_group="edge")
    checks.nodes = {node}
    begin(rig, [node], [1], 1, request={"target": "inspect"}, was="manageable")
    late = threading.Thread(target=rig.sweep, args=("batches",))
    late.start()
    wait_for(lambda: edge.service.runtime.workers.busy)
    resumed = {"context": {"request_id": "req-ben", "user": "ben"}}
    rig.database.write(lambda conn: batches_rows.update(conn, BATCH, resumed))
    checks.opened.set()
    late.join(60)
    assert edge.events(node) == []
    finish(rig, 1)
    assert [run["requester"] for run in edge.runs(node)] == ["ben"]


def test_run_whose_result_cannot_be_saved_fails_in_its_batch(build: Build) -> None:
    """The fail state is saved by another task of the same request, which needs no claim."""

    def around(_kind: str, name: str, call: Any) -> Any:
        if name == "inspect_hardware":
            call.args[0].node.properties = {"found": object()}
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node("manageable")
    begin(rig, [node], [1], 1, request={"target": "inspect"}, was="manageable")
    rig.sweep("batches")
    rig.reaches(node, "inspect failed")
    rig.sweep("batches")
    assert counts(rig.database) == {"failed": 1}


def test_node_whose_conductor_does_not_listen_is_tried_later(build: Build) -> None:
    rig, edge = build(), build(DEFAULT__host="edge", conductor__conductor_group="edge")
    nodes = [rig.node("enroll", conductor_group="edge"), rig.node("enroll")]
    begin(rig, nodes, [2], 2)
    edge.service.runtime.draining.set()
    rig.sweep("batches")
    first, second = rows(rig.database)
    assert (first["state"], first["error"]["code"]) == ("pending", "ConductorNotListening")
    assert second["state"] == "running"
    edge.service.runtime.draining.clear()
    finish(rig, 2)


def test_batch_sends_no_requests_while_many_have_no_answer(build: Build) -> None:
    rig, _edge = build(), build(DEFAULT__host="edge", conductor__conductor_group="edge")
    nodes = [rig.node("enroll", conductor_group="edge") for _ in range(24)]
    begin(rig, nodes, [24], 24)
    send = rig.service.peers.send

    def lose_call(_call: stub.RpcCall) -> Any:
        raise errors.ConductorUnresponsive(host="edge", reason="no keepalive")

    rig.service.peers.send = lose_call
    for _ in range(3):
        rig.sweep("batches")
    assert counts(rig.database) == {"starting": 16, "pending": 8}, "those of the first claim"
    rig.service.peers.send = send
    finish(rig, 24)


def test_conductor_carries_out_a_request_of_a_batch_once_at_a_time(build: Build) -> None:
    """The check of the first request hangs, and the owner of the batch repeats it."""
    checks = HangingChecks()
    rig = build(registry=checks.registry)
    node = rig.node("manageable")
    checks.nodes = {node}
    who = dataclasses.replace(rig.who, background=True)
    own = rig.service.peers.own
    inspect = functools.partial(
        own.start_verb, who, node_uuid=node, event="inspect", body={"target": "inspect"}
    )
    first = threading.Thread(target=inspect)
    first.start()
    wait_for(lambda: rig.service.runtime.workers.busy)
    with pytest.raises(errors.Unavailable, match="still carrying out"):
        inspect()
    checks.opened.set()
    first.join(60)
    rig.settled(node)
    assert len(rig.runs(node)) == 1


@pytest.mark.parametrize("reservation", ["dead", None])
def test_power_order_that_nobody_ends_has_failed(
    rig: ConductorFixture, reservation: str | None
) -> None:
    lock: dict[str, Any] = {"reservation": reservation, "lock_token": reservation and "t"}
    group = "edge" if reservation else ""
    node = rig.node(target_power_state="power on", conductor_group=group, **lock)
    request = {"power": "power on"}
    begin(rig, [node], [1], 1, request=request, state="running", request_id="req-lost")
    rig.sweep("batches")
    (found,) = rows(rig.database)
    assert (found["state"], found["error"]["code"]) == ("failed", "Interrupted")
    rig.sweep("batches")
    assert ended(rig.database) or counts(rig.database) == {"failed": 1}


def test_power_order_under_way_is_left_alone(build: Build) -> None:
    rig = build()
    build(DEFAULT__host="there", conductor__conductor_group="edge")
    lock = {"reservation": "there", "lock_token": "t"}
    node = rig.node(target_power_state="power on", conductor_group="edge", **lock)
    request = {"power": "power on"}
    begin(rig, [node], [1], 1, request=request, state="running", request_id="req-1")
    rig.sweep("batches")
    assert counts(rig.database) == {"running": 1}


@pytest.mark.parametrize("request_", [{"target": "manage"}, {"power": "power on"}], ids=str)
def test_end_of_a_run_starts_the_next_node_at_once(build: Build, request_: dict[str, Any]) -> None:
    """The sweep of batches would run by itself after a quarter of an hour at least."""
    rig = build(conductor__batch_interval=3600)
    nodes = [rig.node("enroll") for _ in range(3)]
    begin(rig, nodes, [3], 1, request=request_)
    rig.sweep("batches")
    wait_for(lambda: ended(rig.database), lambda: counts(rig.database))
    assert counts(rig.database) == {"done": 3}


def test_end_of_a_run_starts_no_sweep_without_an_open_batch(build: Build) -> None:
    rig = build(conductor__batch_interval=3600)
    rig.sweep("batches")
    with count_statements(rig.database) as sent:
        rig.act("manage", rig.node("enroll"))
        time.sleep(0.5)
    assert [one for one in sent if "batches" in one] == []


def test_conductor_that_owns_no_batch_reads_no_nodes(build: Build) -> None:
    owner, other = build(), build(DEFAULT__host="edge")
    nodes = [owner.node("enroll") for _ in range(6)]
    begin(owner, nodes, [6], 6)
    with count_statements(other.database) as sent:
        other.sweep("batches")
    assert [one for one in sent if "batch_nodes" in one] == []
    assert counts(owner.database) == {"pending": 6}
    owner.sweep("batches")
    assert counts(owner.database) == {"running": 6}


def test_open_batch_waits_while_the_feature_is_off_and_then_goes_on(build: Build) -> None:
    first = build()
    begin(first, [first.node("enroll") for _ in range(4)], [4], 1)
    first.sweep("batches")
    assert first.service.runtime.workers.wait_idle(60)
    first.bury()
    left = [one for one in options.FEATURES if one != "batches"]
    without = build(features__enabled=left)
    assert not [name for name in without.service.sweeps.plan if "batches" in name]
    node = rows(without.database)[3]["node_uuid"]
    late = dataclasses.replace(without.who, background=True, owners=(node, None, None))
    with pytest.raises(errors.FeatureOff):  # the owner of the batch has the feature on
        without.endpoints.start_verb(late, node_uuid=node, event="manage", body={})
    assert without.get(node)["provision_state"] == "enroll"
    assert counts(without.database) == {"pending": 3, "running": 1}
    without.bury()
    finish(build(), 4)


@pytest.mark.parametrize(("ahead", "state"), [(30, "pending"), (3600, "done")])
def test_wrong_clock_postpones_no_node_by_more_than_the_longest_pause(
    rig: ConductorFixture, ahead: float, state: str
) -> None:
    begin(rig, [rig.node("enroll")], [1], 1, not_before=clock.after(ahead), tries=1)
    for _ in range(2):
        rig.sweep("batches")
        rig.service.runtime.workers.wait_idle(60)
    assert counts(rig.database) == {state: 1}


def test_retry_of_a_batch_that_names_no_runs_is_skipped(rig: ConductorFixture) -> None:
    """Rows of batches that were made before migration 0023 name no run."""
    node = rig.node("manageable", fake_fail_steps={"bios.factory_reset": "checksum"})
    rig.clean(node, "bios.factory_reset")
    begin(rig, [node], [1], 1, request={"target": "retry"}, was="clean failed")
    rig.sweep("batches")
    (found,) = rows(rig.database)
    assert (found["state"], found["error"]["code"]) == ("skipped", "StateChanged")
    assert "begin another batch" in found["error"]["text"]
    assert len(rig.runs(node)) == 1


@pytest.mark.parametrize(("cleans", "asked"), [(True, 1), (False, 0)])
def test_abort_asks_no_stop_of_a_deletion_without_cleaning(
    rig: ConductorFixture, cleans: bool, asked: int
) -> None:
    run = str(uuid4())
    node = rig.node("deleting", run_uuid=run, automated_clean=cleans)
    begin(rig, [node], [1], 1, state="running")
    add_run(rig, node, run, state="running", verb="deleted", started_at=clock.now())
    aborts = Aborts(rig.tasks, rig.service.peers)
    for _ in range(2):
        aborts.sweep([BATCH])
    assert len(rig.events(node, "stop_requested")) == asked
    assert (rig.get(node)["run_stop"] is not None) is cleans


def test_batch_leaves_the_reserve_of_workers_to_callers(build: Build) -> None:
    rig = build(conductor__workers_pool_size=10, conductor__reserved_workers_pool_percentage=20)
    workers = rig.service.runtime.workers
    for _ in range(7):
        workers.claim()
    nodes = [rig.node("enroll", fake_step_seconds=1) for _ in range(4)]
    begin(rig, nodes, [4], 4)
    rig.sweep("batches")
    assert counts(rig.database) == {"running": 1, "pending": 3}
    met = [row["error"]["code"] for row in rows(rig.database) if row["error"]]
    assert met == ["NoFreeWorker"] * 3
    for _ in range(7):
        workers.leave()
    finish(rig, 4)


def test_sweep_records_a_bounded_number_of_results(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_LOOK", 2)
    nodes = [rig.node("enroll") for _ in range(3)]
    begin(rig, nodes, [3], 3, state="running")
    run: dict[str, Any] = {"state": "done", "verb": "manage", "started_at": clock.now()}
    for node in nodes:
        add_run(rig, node, **run)
    rig.sweep("batches")
    assert counts(rig.database) == {"running": 1, "done": 2}
    rig.sweep("batches")
    assert counts(rig.database) == {"done": 3}


def test_removed_nodes_are_skipped(rig: ConductorFixture) -> None:
    begin(rig, [str(uuid4()) for _ in range(4)], [4], 4)
    rig.sweep("batches")
    assert counts(rig.database) == {"skipped": 4}


def test_owner_of_a_batch_records_the_results_of_all_nodes(build: Build) -> None:
    rig, edge = build(), build(DEFAULT__host="edge", conductor__conductor_group="edge")
    of_edge, of_rig = rig.node("enroll", conductor_group="edge"), rig.node("enroll")
    nodes = [of_edge, of_rig, str(uuid4())]
    begin(rig, nodes, [3], 3, state="running", run_uuid=str(uuid4()))
    run: dict[str, Any] = {"state": "done", "verb": "manage", "started_at": clock.now()}
    for node in nodes[:2]:
        add_run(rig, node, **run)
    edge.sweep("batches")
    assert counts(rig.database) == {"running": 3}
    rig.sweep("batches")
    assert [row["state"] for row in rows(rig.database)] == ["done", "done", "failed"]


def test_owner_of_a_batch_aborts_the_run_of_another_conductor(build: Build) -> None:
    rig, edge = build(), build(DEFAULT__host="edge", conductor__conductor_group="edge")
    run = str(uuid4())
    node = rig.node("inspect wait", run_uuid=run, conductor_group="edge")
    begin(rig, [node], [1], 1, state="running")
    add_run(rig, node, run, state="running", verb="inspect", started_at=clock.now())
    aborts = Aborts(rig.tasks, rig.service.peers)
    aborts.sweep([BATCH])
    edge.reaches(node, "inspect failed")


def test_conductor_that_does_not_listen_is_asked_for_one_abort_of_many(build: Build) -> None:
    """Each call of a machine that is cut off takes seconds, in which no batch goes on."""
    rig, _edge = build(), build(DEFAULT__host="edge", conductor__conductor_group="edge")
    nodes = []
    for _ in range(9):
        run = str(uuid4())
        nodes.append(rig.node("inspect wait", run_uuid=run, conductor_group="edge"))
    begin(rig, nodes, [9], 9, state="running")
    for node in nodes:
        run = rig.get(node)["run_uuid"]
        add_run(rig, node, run, state="running", verb="inspect", started_at=clock.now())
    asked = list[str]()

    def lose_call(call: stub.RpcCall) -> Any:
        asked.append(call.method)
        raise errors.ConductorNotListening(host="edge", reason="cut off")

    rig.service.peers.send = lose_call
    aborts = Aborts(rig.tasks, rig.service.peers)
    aborts.sweep([BATCH])
    assert asked == ["start_verb"]


class Refusing:
    """A conductor that refuses each abort."""

    def __init__(self, why: errors.Error) -> None:
        self.why, self.asked = why, 0

    def start_verb(self, context: Context, *, node_uuid: str, event: str, body: object) -> str:
        del context, node_uuid, event, body
        self.asked += 1
        raise self.why


@pytest.mark.parametrize(
    ("why", "times"),
    [
        (errors.NodeHeld("held"), 1),
        (errors.InvalidState("no"), 1),
        (errors.NodeLocked("locked"), 2),
        (errors.Unavailable("away"), 2),
    ],
    ids=lambda value: getattr(value, "code", None),
)
def test_refused_abort_is_repeated_if_the_refusal_may_pass(
    rig: ConductorFixture, why: errors.Error, times: int
) -> None:
    run = str(uuid4())
    node = rig.node("inspect wait", run_uuid=run)
    begin(rig, [node], [1], 1, state="running")
    add_run(rig, node, run, state="running", verb="inspect", started_at=clock.now())
    conductor = Refusing(why)
    rig.service.peers.own = cast(contract.Conductor, conductor)
    aborts = Aborts(rig.tasks, rig.service.peers)
    for _ in range(2):
        aborts.sweep([BATCH])
    assert conductor.asked == times


def test_sweep_has_as_many_statements_for_many_nodes_as_for_few(build: Build) -> None:
    """Other conductors, more batches and more nodes under way cost a look no statement more."""
    rig = build(conductor__hash_ring_reset_interval=3600)
    rig.service.ownership.members()
    assert statements(rig) == 1
    sent = []
    requests: list[dict[str, Any]] = [{"target": "clean", "clean_steps": []}, {"power": "reboot"}]
    abort = models.batches.update().values(state="aborted", abort_runs=True)
    for number, size in enumerate((1, 20)):
        for kind, request in enumerate(requests):
            uuid = f"b000000{kind}-0000-4000-8000-00000000000{number}"
            runs = [None if kind else str(uuid4()) for _ in range(size)]
            about = {"lock_token": "t", "reservation": "here"}
            about |= {"target_power_state": "power on"} if kind else {}
            nodes = [rig.node("cleaning", run_uuid=run, **about) for run in runs]
            state: dict[str, Any] = {"state": "running", "request_id": f"req-{uuid}"}
            begin(rig, nodes, [size], size, uuid=uuid, request=request, **state)
            rig.database.write(lambda conn: conn.execute(abort))
            for node, run in zip(nodes, runs, strict=True):
                if run is not None:
                    now = clock.now()
                    add_run(rig, node, run, state="running", verb="clean", started_at=now)
        rig.sweep("batches")  # asks for the aborts
        sent.append(statements(rig))
    assert sent[0] == sent[1] <= 7, sent


class HangingChecks:
    """Drivers whose check of the power settings hangs for some nodes."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.opened = threading.Event()
        wrapped = crashes.Drivers(drivers(), self._around, more=("validate",))
        self.registry = cast(Registry, wrapped)

    def _around(self, kind: str, name: str, call: Any) -> Any:
        if (kind, name) == ("power", "validate") and call.args[0].node.uuid in self.nodes:
            self.opened.wait(60)
        return call()


def test_check_that_hangs_keeps_no_other_node_of_a_batch_from_its_result(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "HANG_SECONDS", 0.1)
    checks = HangingChecks()
    rig = build(registry=checks.registry)
    nodes = [rig.node("available") for _ in range(3)]
    checks.nodes = {nodes[0]}
    begin(rig, nodes, [3], 2, request={"target": "inspect"}, was="manageable")
    rig.edit(nodes[0], provision_state="manageable")
    rig.edit(nodes[1], provision_state="manageable")
    rig.edit(nodes[2], provision_state="manageable")

    def others_done() -> bool:
        rig.sweep("batches")
        return [row["state"] for row in rows(rig.database)] == ["starting", "done", "done"]

    wait_for(others_done, lambda: counts(rig.database))
    checks.opened.set()
    finish(rig, 3)
    assert len(rig.runs(nodes[0])) == 1


def test_batches_send_no_requests_while_many_hang(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "HANG_SECONDS", 1.0)
    checks = HangingChecks()
    rig = build(registry=checks.registry)
    nodes = [rig.node("manageable") for _ in range(24)]
    checks.nodes = set(nodes[:-1])
    begin(rig, nodes, [24], 24, request={"target": "inspect"}, was="manageable")
    for _ in range(3):
        rig.sweep("batches")
    # Seven that hang do not yet block, and eight may be under way when the eighth is noticed.
    assert 8 <= rig.service.runtime.workers.busy <= 15
    assert "running" not in counts(rig.database)
    checks.opened.set()
    finish(rig, 24)


def test_conductor_that_begins_to_stop_claims_no_more_nodes(build: Build) -> None:
    begun, rigs = set[str](), list[ConductorFixture]()

    def around(kind: str, name: str, call: Any) -> Any:
        if (kind, name) == ("power", "validate"):
            begun.add(call.args[0].node.uuid)
            if len(begun) == 16:  # all of the first claim
                rigs[0].service.runtime.draining.set()
        return call()

    wrapped = crashes.Drivers(drivers(), around, more=("validate",))
    rig = build(registry=cast(Registry, wrapped))
    rigs.append(rig)
    nodes = [rig.node("manageable") for _ in range(24)]
    begin(rig, nodes, [24], 24, request={"target": "inspect"}, was="manageable")
    rig.sweep("batches")
    assert rig.service.runtime.draining.is_set()
    assert counts(rig.database).get("pending") == 8, "those beyond the first claim"


@pytest.mark.parametrize("conductors", [2, 3])
@pytest.mark.parametrize("owners", ["one", "all"])
def test_batch_of_several_conductors(
    build: Build,
    sqlite_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    conductors: int,
    owners: str,
) -> None:
    """The last conductor joins in the middle of a wave, and takes over some of the nodes.

    For a moment, several may take themselves for the owner of the batch.
    """
    if owners == "all":
        monkeypatch.setattr(Ownership, "share", lambda _self, some: list(some))
    # Without pauses, a conductor that has registered and does not listen yet takes many tries.
    monkeypatch.setattr(rules, "pause_seconds", lambda _tries: 0)
    monkeypatch.setattr(rules, "MOST_TRIES", 10**9)
    rigs = [build(DEFAULT__host=f"c{number}") for number in range(conductors - 1)]
    nodes = [rigs[0].node("enroll", fake_step_seconds=0) for _ in range(24)]
    begin(rigs[0], nodes, [4, 20], 3)
    most: list[int] = []
    over = threading.Event()

    def sweep(rig: ConductorFixture) -> None:
        while not over.is_set():
            rig.sweep("batches")
            found = counts(sqlite_database)
            most.append(found.get("starting", 0) + found.get("running", 0))

    threads = [threading.Thread(target=functools.partial(sweep, rig)) for rig in rigs]
    for one in threads:
        one.start()
    try:
        wait_for(lambda: counts(sqlite_database).get("done", 0) >= 5, "five nodes are done")
        last = build(DEFAULT__host="last")
        threads.append(threading.Thread(target=functools.partial(sweep, last)))
        threads[-1].start()
        wait_for(lambda: ended(sqlite_database), lambda: counts(sqlite_database))
    finally:
        over.set()
        for one in threads:
            one.join(20)
    assert counts(sqlite_database) == {"done": 24}
    assert max(most) <= 3
    found: Any = [rigs[0].runs(node) for node in nodes]
    assert [len(runs) for runs in found] == [1] * 24
    first = max(runs[0]["ended_at"] for runs in found[:4])
    assert all(runs[0]["started_at"] >= first for runs in found[4:]), "a wave waits for the other"


def test_node_that_changes_hands_is_refused_under_its_lock(rig: ConductorFixture) -> None:
    node = rig.node("manageable", lessee="p-b")
    who = dataclasses.replace(rig.who, owners=(node, None, "p-a"))
    with pytest.raises(errors.RightsLost, match="the lessee was p-a and is p-b"):
        rig.endpoints.start_verb(who, node_uuid=node, event="provide", body={})
    with pytest.raises(errors.RightsLost):
        rig.endpoints.change_node_power_state(who, node_uuid=node, target="power on")
    with pytest.raises(errors.RightsLost):
        rig.endpoints.destroy_node(who, node_uuid=node)
    assert rig.get(node)["provision_state"] == "manageable"
    assert rig.runs(node) == []


def test_batch_of_a_removed_user_starts_no_more_nodes(build: Build, tmp_path: pathlib.Path) -> None:
    users = tmp_path / "htpasswd"
    users.write_text("ann:$2y$\n")
    options = {"api__auth_strategy": "http_basic", "DEFAULT__http_basic_auth_user_file": str(users)}
    rig = build(**options)
    nodes = [rig.node("enroll") for _ in range(3)]
    begin(rig, nodes, [3], 1, was="enroll")
    of_ann = {"request_id": "req-ann", "user": "ann"}
    rig.database.write(lambda conn: batches_rows.update(conn, BATCH, {"context": of_ann}))
    rig.sweep("batches")
    rig.reaches(nodes[0], "manageable")
    users.write_text("ben:$2y$\n")
    rig.sweep("batches")
    rig.sweep("batches")
    found = [(row["state"], (row["error"] or {}).get("code")) for row in rows(rig.database)]
    assert found == [("done", None), ("skipped", "RightsLost"), ("skipped", "RightsLost")]
    assert [rig.runs(node) for node in nodes[1:]] == [[], []]
