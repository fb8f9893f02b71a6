"""Lists of runs and of ended steps, and what is computed from them."""

from __future__ import annotations

import datetime
import functools
import pathlib
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.cmd import end_runs
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import allocations, events, fleet_runs, holds, runs, step_durations
from ironic_lite.db.queries.step_durations import UsualTimes
from ironic_lite.db.tables import models
from ironic_lite.domain import states
from ironic_lite.domain.holds import MOST
from ironic_lite.domain.states import Kind
from ironic_lite.domain.step_times import Sample
from ironic_lite.features.statistics import rows as statistics_rows
from ironic_lite.features.statistics.rules import Ended
from tests.db import test_allocations
from tests.support import prefork, service
from tests.support.conductor_fixture import configure
from tests.support.database_rows import NOON, add_node, get_node, insert_run, lock_node, new_uuid
from tests.support.statements import count_statements

# Lists of runs of all nodes: order, pages, and the indexes that the databases enter.

NODES, RUNS = 100, 300
COLUMNS = ("uuid", "node_uuid", "node_name", "verb", "state", "error", "started_at")
OWNER = "p-small"
CAUSE = "c41f0be9a7d2"


@pytest.fixture
def fleet(database: Database) -> Database:
    """A database with thirty thousand runs, of which one in a hundred has failed."""
    nodes = [
        {
            "uuid": str(uuid.uuid4()),
            "name": f"n{number}",
            "driver": "redfish",
            "provision_state": "available",
            "created_at": NOON,
            "owner": OWNER if number < 3 else "p-large",
        }
        for number in range(NODES)
    ]
    runs = [
        {
            "uuid": str(uuid.uuid4()),
            "node_uuid": node["uuid"],
            "owner": node["owner"],
            "verb": "clean",
            "request_id": "req-1",
            "started_at": NOON + datetime.timedelta(minutes=number * NODES + place),
            "state": "failed" if (failed := (place + number) % 100 == 0) else "done",
            "code": "BmcUnreachable" if failed else None,
            "cause": CAUSE if failed else None,
        }
        for number in range(RUNS)
        for place, node in enumerate(nodes)
    ]

    def write(conn: Connection) -> None:
        conn.execute(models.nodes.insert(), nodes)
        conn.execute(models.runs.insert(), runs)

    database.write(write)
    _analyze(database)
    return database


def _analyze(database: Database) -> None:
    words = {"mysql": "ANALYZE TABLE runs, nodes", "mariadb": "ANALYZE TABLE runs, nodes"}

    def work(conn: Connection) -> None:
        conn.execute(sa.text(words.get(conn.dialect.name, "ANALYZE")))

    database.write(work)


def page(database: Database, **where: Any) -> list[dict[str, Any]]:
    """Return a page of the list."""
    more = {name: where.pop(name) for name in ("marker_id", "limit", "direction") if name in where}
    return database.read(lambda conn: fleet_runs.page(conn, columns=COLUMNS, where=where, **more))


SINCE = NOON + datetime.timedelta(minutes=(RUNS - 1) * NODES)
ASKED: dict[str, dict[str, Any]] = {
    "newest": {},
    "oldest": {"direction": "asc"},
    "failed": {"state": ["failed"]},
    "failed since": {"state": ["failed"], "since": SINCE},
    "since": {"since": SINCE},
    "before": {"before": SINCE},
    "code": {"code": ["BmcUnreachable"]},
    "cause": {"cause": [CAUSE]},
    "causes": {"cause": [CAUSE, "0" * 12]},
    "driver": {"driver": ["redfish"]},
    "owner": {"of_owner": OWNER},
    "latest": {"latest": True},
    "latest failed": {"latest": True, "state": ["failed", "aborted"]},
    "latest of owner": {"latest": True, "of_owner": OWNER},
    "retry": {"retry_of": str(uuid.uuid4())},
}


def test_no_list_reads_the_whole_table(fleet: Database) -> None:
    whole = {}
    for asked, where in ASKED.items():
        plan = _plan(fleet, where)
        print(f"-- {asked}", *plan, sep="\n")
        if found := [line for line in plan if _reads_all(fleet.kind, line)]:
            whole[asked] = found
    assert whole == {}


def _plan(database: Database, where: dict[str, Any]) -> list[str]:
    """Return the lines of the plan of a list."""
    lines: list[str] = []

    def before(
        conn: Any, cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> None:
        if statement.startswith("SELECT") and "FROM runs" in statement and not lines:
            word = "EXPLAIN QUERY PLAN" if conn.dialect.name == "sqlite" else "EXPLAIN"
            cursor.execute(f"{word} {statement}", parameters)
            lines.extend(str(tuple(row)) for row in cursor.fetchall())

    def ask(conn: Connection) -> None:
        more = {name: word for name, word in where.items() if name == "direction"}
        kept = {name: word for name, word in where.items() if name != "direction"}
        fleet_runs.page(conn, columns=COLUMNS, where=kept, limit=20, **more)

    engine = database.read(lambda conn: conn.engine)
    sa.event.listen(engine, "before_cursor_execute", before)
    try:
        database.read(ask)
    finally:
        sa.event.remove(engine, "before_cursor_execute", before)
    return lines


def _reads_all(kind: str, line: str) -> bool:
    """Return whether a line of a plan reads all runs without an index."""
    if kind == "sqlite":
        return "SCAN runs" in line and "USING" not in line
    if kind == "postgresql":
        return "Seq Scan on runs" in line
    return "'runs'" in line and "'ALL'" in line


def test_pages_and_latest_runs_are_whole(fleet: Database) -> None:
    seen: list[dict[str, Any]] = []
    marker = None
    while found := page(fleet, state=["failed"], marker_id=marker, limit=50):
        seen += found
        marker = found[-1]["uuid"]
    starts = [run["started_at"] for run in seen]
    assert starts == sorted(starts, reverse=True)
    assert len({run["uuid"] for run in seen}) == len(seen) == NODES * RUNS // 100
    found = page(fleet, latest=True, limit=1000)
    assert len({run["node_uuid"] for run in found}) == len(found) == NODES
    assert min(run["started_at"] for run in found) >= SINCE
    failed = page(fleet, latest=True, state=["failed", "aborted"], limit=1000)
    assert len(failed) == NODES // 100
    assert {run["node_name"] for run in page(fleet, latest=True, of_owner=OWNER)} == {
        "n0",
        "n1",
        "n2",
    }


# ``ironic-lite-dbsync end_runs`` on each database, and as a program.

ENDED = {
    "verifying": "enroll",
    "inspecting": "inspect failed",
    "inspect wait": "inspect failed",
    "cleaning": "clean failed",
    "clean wait": "clean failed",
    "clean hold": "clean failed",
    "deploying": "deploy failed",
    "wait call-back": "deploy failed",
    "deploy hold": "deploy failed",
    "deleting": "error",
    "adopting": "adopt failed",
    "rescuing": "rescue failed",
    "rescue wait": "rescue failed",
    "unrescuing": "unrescue failed",
    "servicing": "service failed",
    "service wait": "service failed",
    "service hold": "service failed",
}


@pytest.mark.parametrize("locked", [True, False])
def test_every_state_of_work_ends_in_its_fail_state(database: Database, locked: bool) -> None:
    working = states.of_kind(Kind.BUSY, Kind.WAIT, Kind.HELD)
    assert set(ENDED) == {str(state) for state in working}
    added = {
        state: add_node(
            database,
            provision_state=state,
            power_state="power off",
            driver_info={},
            driver_internal_info={},
            instance_info={},
            properties={},
            extra={},
        )
        for state in ENDED
    }
    timed = add_node(database, provision_state="clean failed", wake_at=clock.after(3600))
    if locked:
        assert all(lock_node(database, node, node) for node in added.values())
    assert end_runs.run(configure(), database, True) == 0
    found = {state: get_node(database, node) for state, node in added.items()}
    assert {state: row["provision_state"] for state, row in found.items()} == ENDED
    assert all("The database was restored" in row["last_error"] for row in found.values())
    assert {(row["lock_token"], row["power_state"]) for row in found.values()} == {(None, None)}
    assert get_node(database, timed)["wake_at"] is None


def test_allocations_in_search_of_a_node_end(database: Database) -> None:
    searching = test_allocations.add(database)
    found = test_allocations.add(database, state="active")
    assert end_runs.run(configure(), database, True) == 0
    row = database.read(lambda conn: allocations.get(conn, searching))
    assert row["state"] == "error"
    assert "The database was restored" in row["last_error"]
    assert database.read(lambda conn: allocations.get(conn, found))["state"] == "active"


def test_every_node_is_held_before_its_run_ends(database: Database) -> None:
    """Active and rescued ones as well: since the backup another tenant may have the machine."""
    states_of = ("enroll", "available", "active", "rescue", "clean wait", "clean failed")
    added = [add_node(database, provision_state=state) for state in states_of]
    for _ in range(2):  # a repetition adds no second hold
        assert end_runs.run(configure(), database, True, "restore of 3 May") == 0
    for node in added:
        (hold,) = database.read(functools.partial(holds.in_force, node_uuid=node, project=None))
        assert (hold.kind, hold.reason) == ("freeze", "restore of 3 May")
        assert hold.created_by == "restore of the database"
        kinds = [
            one["kind"] for one in database.read(functools.partial(events.page, node_uuid=node))
        ]
        assert kinds.count("hold_added") == 1
        assert kinds[0] == "hold_added", "before the end of the run"


@pytest.mark.parametrize("chosen", ["owner", "group", "list", "all"])
def test_holds_of_a_restore_end_together(database: Database, chosen: str) -> None:
    named = add_node(database, name="r1", owner="p1", conductor_group="rack-7")
    other, free = add_node(database), add_node(database)
    row = {**dict.fromkeys(holds.COLUMNS[1:]), "node_uuid": named, "kind": "freeze"}
    row |= {"reason": "mine", "blocks": "verbs", "created_at": clock.now(), "uuid": new_uuid()}
    database.write(lambda conn: holds.add(conn, row))
    assert end_runs.run(configure(), database, True, "restore") == 0
    choices: dict[str, dict[str, Any]] = {
        "owner": {"owner": "p1"},
        "group": {"conductor_group": "rack-7"},
        "list": {"uuid": ["r1"]},
        "all": {},
    }
    with pytest.raises(errors.NodeNotFound):
        end_runs.end_holds(database, {"uuid": ["r1", "r2"]}, "compared")
    assert end_runs.end_holds(database, choices[chosen], "compared") == 0
    held = {
        node: [
            hold.reason
            for hold in database.read(
                functools.partial(holds.in_force, node_uuid=node, project=None)
            )
        ]
        for node in (named, other, free)
    }
    rest = [] if chosen == "all" else ["restore"]
    assert held == {named: ["mine"], other: rest, free: rest}
    written = database.read(functools.partial(events.page, node_uuid=named))
    assert written[-1]["kind"] == "hold_ended"
    assert (written[-1]["data"] or {})["reason"] == "compared"


def test_node_with_many_holds_is_frozen_as_well(database: Database) -> None:
    node = add_node(database)
    row = {**dict.fromkeys(holds.COLUMNS[1:]), "node_uuid": node, "kind": "hardware"}
    row |= {"reason": "fan", "blocks": "use", "created_at": clock.now()}
    many = [{**row, "uuid": new_uuid()} for _ in range(MOST)]
    database.write(lambda conn: holds.add_all(conn, many))
    assert end_runs.run(configure(), database, True, "restore") == 0
    found = database.read(lambda conn: holds.in_force(conn, node, None))
    assert [hold.kind for hold in found] == [*["hardware"] * MOST, "freeze"]


def test_program_lists_and_ends_runs(sqlite_database: Database, tmp_path: pathlib.Path) -> None:
    node = add_node(sqlite_database, provision_state="clean wait")
    path = tmp_path / "ironic-lite.conf"
    path.write_text(f"[database]\nconnection = {sqlite_database.url}\n")

    def run(*words: str) -> str:
        program = str(service.SCRIPTS / "ironic-lite-dbsync")
        command = [program, "--config-file", str(path), *words]
        done = prefork.run(command, env=service.environment(), timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = run("end_runs")
    assert f"node {node}: clean wait: becomes clean failed\n" in said
    assert (
        "1 nodes, 0 batches, 0 allocations. Nothing was changed. Repeat the command with --yes"
        in said
    )
    assert get_node(sqlite_database, node)["provision_state"] == "clean wait"
    assert "Done: 1 nodes, 0 batches, 0 allocations." in run("end_runs", "--yes")
    assert get_node(sqlite_database, node)["provision_state"] == "clean failed"
    assert "0 nodes, 0 batches, 0 allocations." in run("end_runs", "--hold", "restore")
    held = sqlite_database.read(lambda conn: holds.in_force(conn, node, None))
    assert held == [], "nothing is changed without --yes"
    run("end_runs", "--hold", "restore", "--yes")
    (hold,) = sqlite_database.read(lambda conn: holds.in_force(conn, node, None))
    assert hold.reason == "restore"
    assert run("end_holds", "--all", "--reason", "compared") == "1 holds have ended.\n"
    refused = prefork.run(
        [str(service.SCRIPTS / "ironic-lite-dbsync"), "end_runs", "--hold", " "],
        env=service.environment(),
        timeout=60,
    )
    assert refused.returncode == 2
    assert "a reason has 1 to 255 printable characters" in refused.stderr


# The steps that statistics are made of: those that have ended, the newest ones, in pages.

pytestmark = pytest.mark.feature("statistics")

END = NOON + datetime.timedelta(seconds=90)


def add_steps(database: Database, node: str, *rows: dict[str, Any]) -> None:
    run = new_uuid()
    row = {"uuid": run, "node_uuid": node, "verb": "clean", "state": "done", "started_at": NOON}
    common = {"run_uuid": run, "kind": "clean", "interface": "raid", "step": "create"}
    times = {"state": "done", "started_at": NOON, "ended_at": END}
    steps = [{**common, **times, "ordinal": at, **each} for at, each in enumerate(rows)]

    def work(conn: Any) -> None:
        insert_run(conn, row)
        for step in steps:
            runs.insert_steps(conn, [step])

    database.write(work)


def read_ended(database: Database) -> list[Ended]:
    return database.read(lambda conn: list(statistics_rows.newest(conn)))


def test_steps_that_have_ended_are_read_with_their_machine(database: Database) -> None:
    node = add_node(database, driver="redfish", resource_class="gpu")
    cause = {"code": "AgentUnreachable", "text": "x"}
    add_steps(
        database,
        node,
        {},
        {"state": "failed", "error": {"code": "CleanStepFailed", "cause": cause}},
        {"state": "failed", "error": {"code": "TimedOut"}},
        {"state": "failed", "error": {"code": "TimedOut", "cause": None}},
        {"state": "aborted", "error": {"code": "Aborted"}},
        {"state": "skipped", "started_at": None, "ended_at": None},
        {"state": "running", "ended_at": None},
        {"done_in": new_uuid()},
    )
    found = read_ended(database)
    assert {(*row[:3], *row[4:6], *row[7:]) for row in found} == {
        ("raid", "create", "clean", NOON, END, "redfish", "gpu")
    }
    assert sorted((row[3], str(row[6])) for row in found) == [
        ("aborted", "None"),
        ("done", "None"),
        ("failed", "AgentUnreachable"),
        ("failed", "TimedOut"),
        ("failed", "TimedOut"),
    ]


def test_no_steps_are_read_from_an_empty_table(database: Database) -> None:
    assert read_ended(database) == []


def test_newest_steps_are_read_once_each_in_pages(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_rows, "_PAGE", 7)
    monkeypatch.setattr(statistics_rows, "NEWEST", 30)
    node = add_node(database)
    pending = {"state": "pending", "started_at": None, "ended_at": None}
    add_steps(database, node, *({"step": f"s{at}"} if at % 3 else pending for at in range(60)))
    expected = [f"s{at}" for at in range(60) if at % 3][-30:]
    assert sorted(row[1] for row in read_ended(database)) == sorted(expected)


# The samples of usual durations: the newest steps that ended well, read once in a while.

NAME = ("deploy", "erase_devices")
STEP = dict(zip(("interface", "step"), NAME, strict=True))
NARROWEST = ("step", "driver", "resource_class")


def add_done_steps(database: Database, node: str, *seconds: float, **values: Any) -> None:
    """Add a run with one done step for each duration."""
    run = new_uuid()
    row = {"uuid": run, "node_uuid": node, "verb": "clean", "state": "done", "started_at": NOON}
    rows = [
        {
            **STEP,
            "run_uuid": run,
            "kind": "clean",
            "ordinal": ordinal,
            "state": "done",
            "started_at": NOON,
            "ended_at": NOON + datetime.timedelta(seconds=one),
            **values,
        }
        for ordinal, one in enumerate(seconds)
    ]

    def work(conn: Any) -> None:
        insert_run(conn, row)
        runs.insert_steps(conn, rows)

    database.write(work)


def read_samples(database: Database) -> list[Sample]:
    return database.read(lambda conn: step_durations.samples(conn, [NAME]))[NAME]


def test_samples_are_steps_of_this_name_that_ended_well(database: Database) -> None:
    node = add_node(database, driver="redfish", resource_class="gpu")
    add_done_steps(database, node, 10.5)
    add_done_steps(database, node, 11, state="failed")
    add_done_steps(database, node, 12, state="skipped", started_at=None, ended_at=None)
    add_done_steps(database, node, 13, interface="raid")
    add_done_steps(database, node, 14, step="erase_devices_metadata")
    add_done_steps(database, node, 15, state="waiting", ended_at=None)
    add_done_steps(database, node, 16, done_in=new_uuid())  # a retry has kept it
    add_done_steps(database, add_node(database, driver="ipmi", resource_class=None), 20)
    assert sorted(read_samples(database)) == [
        Sample(10.5, "redfish", "gpu"),
        Sample(20, "ipmi", None),
    ]


def test_samples_are_the_newest(database: Database) -> None:
    node = add_node(database)
    add_done_steps(database, node, *range(step_durations.MOST_SAMPLES + 50))
    assert sorted(one.seconds for one in read_samples(database)) == list(
        range(50, step_durations.MOST_SAMPLES + 50)
    )


def test_samples_are_found_behind_steps_that_have_not_ended(database: Database) -> None:
    node = add_node(database)
    add_done_steps(database, node, 7)
    add_done_steps(database, node, *([1] * 300), state="pending", started_at=None, ended_at=None)
    assert [one.seconds for one in read_samples(database)] == [7]


def test_samples_of_a_step_are_read_once_in_five_minutes(sqlite_database: Database) -> None:
    database = sqlite_database
    now = [1000.0]
    times = UsualTimes(database, now=lambda: now[0])
    node = add_node(database)
    add_done_steps(database, node, 1, 2, 3, 4, 5)
    with count_statements(database) as first:
        assert times.of(*NAME, "fake-hardware", None) == (3, 5, 5, NARROWEST)
    assert len(first) == 1
    add_done_steps(database, node, 6, 7)
    now[0] += step_durations.FRESH_SECONDS - 1
    with count_statements(database) as second:
        assert times.of(*NAME, "redfish", "gpu") == (3, 5, 5, ("step",))
    assert len(second) == 0
    now[0] += 2
    assert times.of(*NAME, "fake-hardware", None) == (4, 7, 7, NARROWEST)


def test_few_samples_are_read_again_after_a_second(sqlite_database: Database) -> None:
    now = [1000.0]
    times = UsualTimes(sqlite_database, now=lambda: now[0])
    node = add_node(sqlite_database)
    add_done_steps(sqlite_database, node, 1, 2, 3, 4)
    assert times.of(*NAME, "fake-hardware", None) is None
    add_done_steps(sqlite_database, node, 5)
    assert times.of(*NAME, "fake-hardware", None) is None
    now[0] += step_durations.FRESH_SECONDS_IF_FEW
    assert times.of(*NAME, "fake-hardware", None) == (3, 5, 5, NARROWEST)


def test_samples_of_many_names_are_read_by_one_statement(database: Database) -> None:
    node = add_node(database)
    add_done_steps(database, node, 1, 2, 3, 4, 5)
    add_done_steps(database, node, 6, 7, 8, 9, 10, step="create")
    times = UsualTimes(database, now=lambda: 0.0)
    unknown = [("raid", f"step_{number}") for number in range(48)]
    wanted = [NAME, *unknown, ("deploy", "create"), ("power", "wait")]
    with count_statements(database) as sent:
        found = times.of_all(wanted, "fake-hardware", None)
    assert len(sent) == 1, sent
    assert found == {
        **dict.fromkeys(wanted),
        NAME: (3, 5, 5, NARROWEST),
        ("deploy", "create"): (8, 10, 5, NARROWEST),
    }
    with count_statements(database) as again:
        assert times.of_all(wanted, "fake-hardware", None) == found
    assert len(again) == 0
    more = [("raid", f"other_{number}") for number in range(120)]
    with count_statements(database) as three:
        times.of_all(more, None, None)
    assert len(three) == 3


def test_absence_of_samples_is_kept_for_half_a_minute(sqlite_database: Database) -> None:
    now = [1000.0]
    times = UsualTimes(sqlite_database, now=lambda: now[0])
    node = add_node(sqlite_database)
    assert times.of(*NAME, "fake-hardware", None) is None
    add_done_steps(sqlite_database, node, 1, 2, 3, 4, 5)
    now[0] += step_durations.FRESH_SECONDS_IF_NONE - 1
    with count_statements(sqlite_database) as sent:
        assert times.of(*NAME, "fake-hardware", None) is None
    assert len(sent) == 0
    now[0] += 1
    assert times.of(*NAME, "fake-hardware", None) == (3, 5, 5, NARROWEST)


def test_usual_times_of_unknown_steps_are_kept_within_a_bound(sqlite_database: Database) -> None:
    times = UsualTimes(sqlite_database, now=lambda: 0.0)
    for number in range(300):
        assert times.of("deploy", f"step_{number}", None, None) is None
    with count_statements(sqlite_database) as found:
        times.of("deploy", "step_299", None, None)
        times.of("deploy", "step_0", None, None)
    assert len(found) == 1
