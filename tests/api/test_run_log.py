"""GET /v1/nodes/{node}/runs/{run}/log: rights, runs of other nodes, order, bounds."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from typing import TypeVar

import pytest

from ironic_lite.api.resources import run_logs as documents
from ironic_lite.api.watching.blocking import BlockingWatches
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events, retention, run_logs, runs
from ironic_lite.db.tables import models
from ironic_lite.domain import run_log
from tests.support.api_rows import AddNode
from tests.support.callers import Callers
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

T = TypeVar("T")


def add_run(database: Database, node: str, state: str = "failed", **more: object) -> str:
    """Add a run with an event each second and a line between them; return its UUID."""
    run, now = str(uuid.uuid4()), clock.now()
    row = {
        "uuid": run,
        "node_uuid": node,
        "verb": "clean",
        "state": state,
        "started_at": now,
        "ended_at": None if state == "running" else now,
        **more,
    }

    def write(conn: Connection) -> None:
        runs.insert(conn, row)
        for second in range(3):
            at = now + datetime.timedelta(seconds=second)
            event = {"at": at, "node_uuid": node, "run_uuid": run, "kind": "step_started"}
            events.add(conn, [{**event, "data": {"step": f"deploy.s{second}"}}])
            text = run_log.line(at, run_log.BMC, f"GET /redfish/v1/{second} 200 0.010 s")
            run_logs.append(conn, run, at=at, text=text)

    database.write(write)
    return run


def texts(body: bytes) -> list[str]:
    return [line[28:] for line in body.decode().splitlines()]


EXPECTED = [
    one
    for second in range(3)
    for one in (
        f"run      deploy.s{second} begins",
        f"bmc      GET /redfish/v1/{second} 200 0.010 s",
    )
]


def test_log_joins_events_and_lines_by_time(
    api: Client, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"])
    add_run(database, add_node(name="n2")["uuid"])
    with count_statements(database) as sent:
        answer = api.get(f"/v1/nodes/n1/runs/{run}/log")
    assert (answer.status, texts(answer.body)) == (200, EXPECTED)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert len(sent) == 4, sent


@pytest.mark.parametrize("version", ["1.1", "latest"])
def test_every_version_has_the_log(
    api: Client, add_node: AddNode, database: Database, version: str
) -> None:
    run = add_run(database, add_node()["uuid"])
    node = api.get("/v1/nodes").json["nodes"][0]["uuid"]
    assert api.at(version).get(f"/v1/nodes/{node}/runs/{run}/log").status == 200


def test_current_is_the_active_or_the_newest_run(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1")["uuid"]
    assert api.get("/v1/nodes/n1/runs/current/log").status == 404
    add_run(database, node)
    assert texts(api.get("/v1/nodes/n1/runs/current/log").body) == EXPECTED


def test_run_of_another_node_is_not_found(
    api: Client, add_node: AddNode, database: Database
) -> None:
    add_node(name="n1")
    run = add_run(database, add_node(name="n2")["uuid"])
    for ident in (run, str(uuid.uuid4()), "nonsense", run.upper()):
        assert api.get(f"/v1/nodes/n1/runs/{ident}/log").status == 404
    assert api.get(f"/v1/nodes/n2/runs/{run.upper()}/log").status == 200
    assert api.get(f"/v1/nodes/nobody/runs/{run}/log").status == 404


@pytest.mark.parametrize("query", ["follow=perhaps", "tail=3", "wait=5"])
def test_malformed_query_is_refused(
    api: Client, add_node: AddNode, database: Database, query: str
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"])
    answer = api.get(f"/v1/nodes/n1/runs/{run}/log?{query}")
    assert (answer.status, query.partition("=")[0] in answer.text) == (400, True)


def test_owner_sees_the_log_and_the_lessee_does_not(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1", owner="p-owner", lessee="p-lessee")["uuid"])
    path = f"/v1/nodes/n1/runs/{run}/log"
    seen = {
        "system reader": callers("reader").get(path).status,
        "owner": callers("reader", "p-owner").get(path).status,
        "lessee": callers("admin", "p-lessee").get(path).status,
        "stranger": callers("admin", "p-stranger").get(path).status,
    }
    assert seen == {"system reader": 200, "owner": 200, "lessee": 404, "stranger": 404}
    followed = callers("admin", "p-lessee").get(f"{path}?follow=true").status
    assert followed == 404


def test_log_goes_with_its_run(api: Client, add_node: AddNode, database: Database) -> None:
    node = add_node(name="n1")["uuid"]
    run, later = add_run(database, node), clock.after(60)

    def remove(conn: Connection) -> None:
        excess = retention.Excess(entries=0, others=0, runs=1 << 40)
        assert retention.remove_runs(conn, node, excess, before=later, limit=9) == 1
        assert run_logs.rows(conn, run) == []
        run_logs.append(conn, run, at=later, text="too late")
        assert run_logs.rows(conn, run) == []

    database.write(remove)
    assert api.get(f"/v1/nodes/n1/runs/{run}/log").status == 404


def test_tail_is_the_end_of_the_stored_lines(
    api: Client, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"])
    row = database.read(lambda conn: runs.get(conn, run))
    with count_statements(database) as sent:
        found = documents.tail(database, row, 2)
    stored = [one for one in EXPECTED if one.startswith("bmc")]
    assert [line[28:] for line in found] == stored[-2:]
    assert len(sent) == 1, sent
    assert len(documents.tail(database, row, 99)) == len(stored)


def test_log_of_very_many_events_lacks_the_middle(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(name="n1")["uuid"]
    run, now = add_run(database, node), clock.now()
    row = {"at": now, "node_uuid": node, "run_uuid": run, "kind": "step_started"}
    many = [{**row, "data": {"step": f"deploy.m{n}"}} for n in range(3 * documents.MOST_EVENTS)]
    database.write(lambda conn: events.add(conn, many))
    text = api.get(f"/v1/nodes/n1/runs/{run}/log").body.decode()
    assert text.count("\n") == 2 * documents.MOST_EVENTS + 3 + 1
    assert "(events left out here)" in text
    assert "deploy.s0 begins" in text
    assert f"deploy.m{len(many) - 1} begins" in text


def test_stream_of_an_ended_run_is_its_log(
    api: Client, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"])
    waiting = Client(BlockingWatches(api.app, api.app.answer, lambda: None))  # type: ignore
    answer = waiting.get(f"/v1/nodes/n1/runs/{run}/log?follow=true")
    assert texts(answer.body) == EXPECTED
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_reader_returns_each_line_once(api: Client, add_node: AddNode, database: Database) -> None:
    node = add_node(name="n1")["uuid"]
    run = add_run(database, node, "running")
    reader = documents.Reader(database, database.read(lambda conn: runs.get(conn, run)))
    first = reader.piece()
    assert (texts(first.text.encode()), first.last) == (EXPECTED, False)
    assert reader.piece() == ("", False)
    database.write(lambda c: run_logs.append(c, run, at=clock.now(), text="one more"))
    assert reader.piece() == ("one more\n", False)
    late = {"at": clock.now(), "node_uuid": node, "run_uuid": run, "kind": "overdue"}
    database.write(lambda conn: events.add(conn, [{**late, "data": {"step": "deploy.s2"}}]))
    again = reader.piece()
    assert texts(again.text.encode()) == ["run      deploy.s2 takes longer than usual"]
    ended = {"state": "done", "ended_at": clock.now()}
    database.write(lambda conn: runs.update(conn, run, ended))
    assert reader.piece() == ("", True)


class Repeated:
    """A database whose every read is repeated, as after the loss of its connection."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return the result of the second try."""

        def twice(conn: Connection) -> T:
            work(conn)
            return work(conn)

        return self._database.read(twice)


def test_reader_loses_no_line_if_a_read_is_repeated(
    api: Client, add_node: AddNode, database: Database
) -> None:
    run = add_run(database, add_node(name="n1")["uuid"], "running")
    row = database.read(lambda conn: runs.get(conn, run))
    reader = documents.Reader(Repeated(database), row)  # type: ignore[arg-type]  # only reads
    assert texts(reader.piece().text.encode()) == EXPECTED
    assert reader.piece() == ("", False)


def test_event_that_becomes_visible_late_is_read(
    api: Client, add_node: AddNode, database: Database
) -> None:
    """A sweep's transaction may end after that of a later event."""
    run = add_run(database, add_node(name="n1")["uuid"], "running")
    step = models.events.c.data["step"].as_string()

    def place(where: str | None) -> None:
        change = models.events.update().where(step == "deploy.s1").values(run_uuid=where)
        database.write(lambda conn: conn.execute(change))

    place(None)
    reader = documents.Reader(database, database.read(lambda conn: runs.get(conn, run)))
    assert "deploy.s1" not in reader.text()
    place(run)
    assert texts(reader.text().encode()) == ["run      deploy.s1 begins"]
    assert reader.text() == ""
