"""Batches on each kind of database: what a look finds, and claims by two conductors at once."""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events, limits, runs
from ironic_lite.db.tables import models
from ironic_lite.features.batches import rows as batches_rows
from ironic_lite.features.batches import rules
from ironic_lite.features.batches.rules import NodeState
from tests.support import conductor_fixture
from tests.support.at_once import at_once
from tests.support.conductor_fixture import ConductorFixture, wait_for
from tests.support.database_rows import add_node, get_node, insert_run, new_uuid
from tests.support.statements import count_statements

pytestmark = pytest.mark.feature("batches")

REQUEST = {"target": "manage"}
Row = dict[str, Any]


def add_batch(
    database: Database, nodes: list[str], members: Row | None = None, **values: Any
) -> str:
    """Add a batch of nodes in one wave; return its UUID.

    :param members: columns of the rows of its nodes.
    """
    batch = new_uuid()
    options = {"waves": [len(nodes)], "concurrency": 3}
    options |= {"on_failures": "pause", "between_waves": "go on"}
    row = {
        **dict.fromkeys(batches_rows.COLUMNS[1:]),
        "uuid": batch,
        "state": "running",
        "request": REQUEST,
        "options": options,
        **dict.fromkeys(("wave", "max_failures", "forgiven"), 0),
        "abort_runs": False,
        "context": {"request_id": "req-1"},
        "created_at": clock.now(),
        **values,
    }
    rows = [
        {
            **dict.fromkeys(batches_rows.NODE_COLUMNS[1:]),
            "batch_uuid": batch,
            "place": place,
            "node_uuid": node,
            "open_uuid": node,
            "wave": 0,
            "state": "pending",
            "was": "enroll",
            "tries": 0,
            **(members or {}),
        }
        for place, node in enumerate(nodes)
    ]
    database.write(lambda conn: batches_rows.add(conn, row, rows))
    return batch


def add_run(database: Database, node: str, state: str, step: str = "") -> str:
    """Add a run of a node, perhaps with a step."""
    ident = new_uuid()
    row = {"uuid": ident, "node_uuid": node, "verb": "clean", "state": state}
    database.write(lambda conn: insert_run(conn, {**row, "started_at": clock.now()}))
    if step:
        about = {"run_uuid": ident, "ordinal": 0, "kind": "clean", "interface": "deploy"}
        database.write(lambda conn: runs.insert_steps(conn, [{**about, "step": step}]))
    return ident


def change(database: Database, batch: str, node: str, **values: Any) -> bool:
    """Change a node in any state."""
    work = functools.partial(
        batches_rows.change_node, batch=batch, node=node, values=values, states=list(NodeState)
    )
    return database.write(work)


def test_ended_runs_are_found_up_to_the_limit(database: Database) -> None:
    nodes = [add_node(database) for _ in range(5)]
    batch = add_batch(database, nodes, {"state": "running"})
    states = ("running", "done", "failed", "aborted")
    known = {
        node: add_run(database, node, state) for node, state in zip(nodes, states, strict=False)
    }
    known[nodes[4]] = new_uuid()  # a run that was removed
    for node, run in known.items():
        change(database, batch, node, run_uuid=run)
    look = functools.partial(batches_rows.ended_runs, uuids=[batch, new_uuid()], limit=10)
    found = {row["node_uuid"]: row["state"] for row in database.read(look)}
    assert found == dict(zip(nodes[1:], ("done", "failed", "aborted", None), strict=True))
    assert len(database.read(functools.partial(look, limit=2))) == 2
    assert database.read(functools.partial(look, uuids=[new_uuid()])) == []


def test_ended_power_changes_are_found_with_their_events(database: Database) -> None:
    about: dict[str, Row] = {
        "ended": {"target_power_state": None},
        "living": {"target_power_state": "power on", "reservation": "a", "lock_token": "t"},
        "dead": {"target_power_state": "power on", "reservation": "z", "lock_token": "t"},
        "unlocked": {"target_power_state": "power on"},
    }
    nodes = {name: add_node(database, **values) for name, values in about.items()}
    nodes["removed"] = new_uuid()
    batch = add_batch(
        database, list(nodes.values()), {"state": "running", "request_id": "req-power"}
    )
    told = {"at": clock.now(), "node_uuid": nodes["ended"], "kind": "power"}
    rows = [
        {**told, "event": "fail", "request_id": "req-another"},
        {**told, "event": "start", "request_id": "req-power"},
        {**told, "event": "end", "request_id": "req-power"},
    ]
    database.write(lambda conn: events.add(conn, rows))
    found = database.read(lambda conn: batches_rows.ended_power(conn, [batch], ["a"], limit=9))
    named = {uuid_: name for name, uuid_ in nodes.items()}
    assert {named[row["node_uuid"]] for row in found} == {"ended", "dead", "unlocked", "removed"}
    ends = database.read(lambda conn: batches_rows.power_ends(conn, found))
    assert {named[node]: row["event"] for (node, _), row in ends.items()} == {"ended": "end"}


def test_left_nodes_are_those_that_are_claimed_and_not_started(database: Database) -> None:
    nodes = {state: add_node(database) for state in ("pending", "starting", "running")}
    batch = add_batch(database, list(nodes.values()))
    for state, node in nodes.items():
        change(database, batch, node, state=state, host="lost")
    found = database.read(lambda conn: batches_rows.left_claims(conn, [batch, new_uuid()], limit=9))
    assert [row["node_uuid"] for row in found] == [nodes["starting"]]


def test_time_of_pauses_is_that_of_their_events(database: Database) -> None:
    begun, minute = clock.now(), datetime.timedelta(minutes=1)
    often, never, once, early = (new_uuid() for _ in range(4))
    told = {
        often: ["paused", "wave", "resumed", "paused", "paused", "resumed", "paused"],
        never: ["started", "wave"],
        once: ["resumed", "paused", "resumed"],
        early: ["paused"],
    }
    rows = [
        {"at": begun + place * minute, "node_uuid": batch, "kind": f"batch_{kind}"}
        for batch, kinds in told.items()
        for place, kind in enumerate(kinds)
    ]
    late = {"at": begun - minute, "node_uuid": early, "kind": "batch_resumed"}
    database.write(lambda conn: events.add(conn, [*rows, late]))
    with count_statements(database) as sent:
        found = database.read(
            lambda conn: batches_rows.paused_times(conn, [often, never, once, early])
        )
        assert database.read(lambda conn: batches_rows.paused_times(conn, [])) == {}
    assert len(sent) == 1
    assert found == {often: 4 * minute, once: minute, early: 0 * minute}


def test_pending_nodes_are_the_first_that_may_start(database: Database) -> None:
    nodes = [add_node(database) for _ in range(5)]
    batch = add_batch(database, [*nodes, new_uuid()])
    change(database, batch, nodes[1], state="done")
    for node, ahead in ((nodes[0], 30), (nodes[2], -1), (nodes[3], 3600)):
        change(database, batch, node, not_before=clock.after(ahead))

    def read(limit: int) -> list[int]:
        return database.read(
            lambda conn: [
                row["place"]
                for row in batches_rows.pending(conn, batch, 0, clock.now(), limit=limit)
            ]
        )

    assert read(9) == [2, 3, 4, 5]  # a time an hour ahead is that of a wrong clock
    assert read(2) == [2, 3]


def test_runs_under_way_are_those_of_their_nodes(database: Database) -> None:
    run = new_uuid()
    nodes = [add_node(database, run_uuid=run), add_node(database, run_uuid=new_uuid())]
    batch = add_batch(database, nodes, {"state": "running", "run_uuid": run})
    (found,) = database.read(lambda conn: batches_rows.abortable_runs(conn, [batch]))
    assert (found["node_uuid"], found["run_uuid"]) == (nodes[0], run)


def test_newest_runs_and_their_steps_are_read_for_many_nodes(database: Database) -> None:
    nodes = [add_node(database) for _ in range(3)]
    add_run(database, nodes[0], "done", "older")
    newest = {node: add_run(database, node, "failed", f"of_{node}") for node in nodes[:2]}
    found = database.read(lambda conn: batches_rows.newest_of(conn, nodes))
    assert {node: run["uuid"] for node, run in found.items()} == newest
    steps = database.read(lambda conn: batches_rows.steps_of(conn, list(newest.values())))
    assert {run: [step["step"] for step in some] for run, some in steps.items()} == {
        run: [f"of_{node}"] for node, run in newest.items()
    }


def test_events_of_a_batch_belong_to_its_project(database: Database) -> None:
    batch = add_batch(database, [add_node(database)], project="p-owner")
    told = {"at": clock.now(), "node_uuid": batch, "kind": "batch_started", "owner": "p-owner"}
    database.write(lambda conn: events.add(conn, [told]))
    last = database.read(events.head)
    for owner, count in (("p-owner", 1), ("p-else", 0)):
        found = database.read(
            functools.partial(events.feed_page, after=last - 1, upto=last, limit=9, owner=[owner])
        )
        assert [row["owner"] for row in found] == [owner] * count


def test_one_of_two_claims_of_a_node_at_once_is_made(database: Database) -> None:
    nodes = [add_node(database) for _ in range(10)]
    batch = add_batch(database, nodes)

    def claim(number: int) -> list[bool]:
        values = {"state": "starting", "host": f"c{number}"}
        return [
            database.write(
                functools.partial(
                    batches_rows.change_node,
                    batch=batch,
                    node=node,
                    values=values,
                    states=(NodeState.PENDING,),
                )
            )
            for node in nodes
        ]

    made = at_once(2, claim)
    assert [one + other for one, other in zip(*made, strict=True)] == [1] * 10


def test_limit_of_open_batches_holds_for_requests_at_once(database: Database) -> None:
    for _ in range(rules.MOST_OPEN - 1):
        add_batch(database, [new_uuid()])
    made = at_once(4, lambda _number: add_batch(database, [new_uuid()]))
    assert len([one for one in made if isinstance(one, errors.TooManyBatches)]) == 3, made
    assert database.read(batches_rows.count_open) == rules.MOST_OPEN


@pytest.mark.parametrize(
    ("project", "most", "whose"),
    [("p-%d", rules.MOST_OPEN_OF_PROJECTS, "of all projects"), ("p-0", 20, "of project p-0")],
)
def test_projects_leave_open_batches_to_the_system(
    database: Database, project: str, most: int, whose: str
) -> None:
    for number in range(most):
        name = project % (number % 8) if "%" in project else project
        add_batch(database, [new_uuid()], project=name)
    with pytest.raises(errors.TooManyBatches, match=f"{most} open batches {whose}"):
        add_batch(database, [new_uuid()], project=project.replace("%d", "9"))
    for _ in range(rules.MOST_OPEN - most):
        add_batch(database, [new_uuid()])
    for one in (None, "another"):
        with pytest.raises(errors.TooManyBatches, match=f"are {rules.MOST_OPEN} open batches,"):
            add_batch(database, [new_uuid()], project=one)


def test_limit_is_not_counted_without_the_row_that_additions_lock(database: Database) -> None:
    def add(conn: Connection) -> None:
        conn.execute(sa.delete(models.marks))  # rolled back with the refusal
        limits.lock(conn, "batches")

    with pytest.raises(sa.exc.NoResultFound):
        database.write(add)


def test_one_of_two_batches_at_once_gets_a_node(database: Database) -> None:
    node = add_node(database)
    found = at_once(2, lambda _number: add_batch(database, [add_node(database), node]))
    refused = [one for one in found if isinstance(one, errors.Conflict)]
    assert len(refused) == 1, found
    assert database.read(batches_rows.count_open) == 1


@pytest.fixture
def build(database: Database) -> Iterator[Callable[..., ConductorFixture]]:
    """A function that starts a conductor on the database."""
    rigs: list[ConductorFixture] = []
    with contextlib.ExitStack() as built:

        def make(host: str) -> ConductorFixture:
            rig = conductor_fixture.build(database, DEFAULT__host=host)
            rigs.append(rig)
            conductor_fixture.connect(rigs)
            built.callback(rig.service.runtime.workers.wait_idle, 10)
            built.callback(rig.bury)
            return rig

        yield make


def test_two_conductors_together_keep_the_concurrency(
    build: Callable[..., ConductorFixture], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment, both may take themselves for the owner of the batch."""
    monkeypatch.setattr(Ownership, "share", lambda _self, some: list(some))
    monkeypatch.setattr(rules, "pause_seconds", lambda _tries: 0)
    rigs = [build(f"c{number}") for number in range(2)]
    nodes = [rigs[0].node("enroll") for _ in range(12)]
    batch = add_batch(database, nodes)
    most: list[int] = []

    def sweep(number: int) -> None:
        while database.read(lambda conn: batches_rows.get(conn, batch))["ended_at"] is None:
            rigs[number].sweep("batches")
            counts = database.read(lambda conn: batches_rows.counts(conn, batch))
            states = (NodeState.STARTING, NodeState.RUNNING)
            most.append(sum(counts.get((0, state), 0) for state in states))

    at_once(2, sweep)
    wait_for(lambda: all(get_node(database, one)["reservation"] is None for one in nodes))
    assert max(most) <= 3
    assert [len(rigs[0].runs(node)) for node in nodes] == [1] * 12
    counts = database.read(lambda conn: batches_rows.counts(conn, batch))
    assert counts == {(0, "done"): 12}
