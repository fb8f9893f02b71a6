"""Lines of runs on each database: order, removal, and runs that are gone."""

from __future__ import annotations

import uuid

import pytest

from ironic_lite.conductor.work import run_log as work
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import run_logs, runs
from tests.support.database_rows import add_node
from tests.support.statements import count_statements


@pytest.fixture
def run(database: Database) -> str:
    """The UUID of a run."""
    node, known = add_node(database), str(uuid.uuid4())
    row = {"uuid": known, "node_uuid": node, "verb": "clean", "state": "running"}
    database.write(lambda conn: runs.insert(conn, {**row, "started_at": clock.now()}))
    return known


def append(database: Database, run: str, *texts: str) -> None:
    def write(conn: Connection) -> None:
        for text in texts:
            run_logs.append(conn, run, at=clock.now(), text=text)

    database.write(write)


def texts(database: Database, run: str) -> list[str]:
    return [row.text for row in database.read(lambda conn: run_logs.rows(conn, run))]


def test_rows_come_in_the_order_of_writing(database: Database, run: str) -> None:
    append(database, run, "one", "tw\u00f6\n2", "three \U0001f600")
    assert texts(database, run) == ["one", "tw\u00f6\n2", "three \U0001f600"]
    found = database.read(lambda conn: run_logs.rows(conn, run))
    later = database.read(lambda conn: run_logs.rows(conn, run, after=found[1].id))
    assert later == found[2:]
    newest = database.read(lambda conn: run_logs.newest(conn, run, limit=2))
    assert newest == found[1:]


def test_row_holds_more_than_64_kib(database: Database, run: str) -> None:
    append(database, run, "\u00e9" * 100_000)
    assert texts(database, run) == ["\u00e9" * 100_000]


def test_unknown_run_gets_no_row(database: Database, run: str) -> None:
    append(database, str(uuid.uuid4()), "nowhere")
    assert texts(database, run) == []


def test_middle_is_replaced_by_one_row(database: Database, run: str) -> None:
    append(database, run, *"abcde")
    found = database.read(lambda conn: run_logs.rows(conn, run))
    ids = [row.id for row in found[1:4]]
    database.write(lambda conn: run_logs.replace(conn, ids, "gone"))
    assert texts(database, run) == ["a", "gone", "e"]


def test_first_write_of_a_process_reads_no_text(database: Database, run: str) -> None:
    append(database, run, "\u00e9" * 50_000, "a\\n'b" * 10_000)
    with count_statements(database) as sent:
        size = database.read(lambda conn: work.Sizes().limit(conn, run, 1))
    assert size == 100_000 + 50_000
    assert len(sent) == 1
    assert "sum(" in sent[0], sent


def test_log_above_the_limit_is_shortened(database: Database, run: str) -> None:
    sizes = work.Sizes()
    for number in range(30):
        text = f"{number} " + "x" * 20_000

        def write(conn: Connection, text: str = text) -> int:
            run_logs.append(conn, run, at=clock.now(), text=text)
            return sizes.limit(conn, run, len(text))

        sizes.know(run, database.write(write))
    found = texts(database, run)
    assert sum(map(len, found)) <= work.LIMIT
    assert (found[0][:2], found[-1][:3]) == ("0 ", "29 ")
    gaps = [text for text in found if "left out here" in text]
    assert len(gaps) == 1
    gone = 30 * 20_002 - sum(len(text) for text in found if text not in gaps)
    (kib,) = [int(word) for word in gaps[0].replace("(", " ").split() if word.isdigit()]
    assert abs(gone // 1024 - kib) < 10
