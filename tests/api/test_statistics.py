"""GET /v1/stats/steps: groups of ended steps, for readers of the system."""

from __future__ import annotations

import datetime
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import runs
from ironic_lite.db.tables import models
from ironic_lite.features.statistics import api as statistics_api
from ironic_lite.features.statistics.api import StepStatistics
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.database_rows import insert_run
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("statistics")

NOON = datetime.datetime(2026, 1, 31, 12)
FAILED = {"code": "CleanStepFailed", "text": "no", "cause": {"code": "BmcUnreachable"}}


def add_steps(database: Database, node: str, *seconds: float, **values: Any) -> None:
    """Add a run with a step for each duration."""
    run = str(uuid.uuid4())
    row = {"uuid": run, "node_uuid": node, "verb": "clean", "state": "done", "started_at": NOON}
    step = {"run_uuid": run, "kind": "clean", "interface": "deploy", "step": "erase_devices"}
    rows = [
        {
            **step,
            "ordinal": at,
            "state": "done",
            "started_at": NOON,
            "ended_at": NOON + datetime.timedelta(seconds=each),
            **values,
        }
        for at, each in enumerate(seconds)
    ]
    database.write(lambda conn: insert_run(conn, row))
    database.write(lambda conn: runs.insert_steps(conn, rows))


@pytest.fixture
def node(add_node: AddNode) -> str:
    """The UUID of a node of the class gpu."""
    return str(add_node(name="metal-7", resource_class="gpu")["uuid"])


def test_steps_are_grouped(api: Client, database: Database, node: str) -> None:
    add_steps(database, node, *range(1, 11))
    add_steps(database, node, 900, state="failed", error=FAILED)
    add_steps(database, node, 5, step="burnin_cpu")
    answer = api.get("/v1/stats/steps").json
    assert answer["of"] == 12
    assert answer["from"] == "2026-01-31T12:00:01+00:00"
    assert [group["step"] for group in answer["steps"]] == ["burnin_cpu", "erase_devices"]
    assert answer["steps"][1] == {
        "interface": "deploy",
        "step": "erase_devices",
        "kind": "clean",
        "driver": "fake-hardware",
        "resource_class": "gpu",
        "count": 11,
        "failed": 1,
        "aborted": 0,
        "codes": {"BmcUnreachable": 1},
        "p50": 5,
        "p90": 9,
        "p99": 10,
        "longest": 10,
    }


def test_service_without_steps_has_no_statistics(api: Client) -> None:
    assert api.get("/v1/stats/steps").json == {"steps": [], "of": 0, "from": None}


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("step=deploy.erase_devices", 3),
        ("step=deploy.erase", 0),
        ("driver=fake-hardware&resource_class=gpu", 3),
        ("driver=redfish", 0),
        ("resource_class=cpu", 0),
        ("since=2026-01-31T12:00:02Z", 2),
        ("since=2026-01-31T13:00:02%2B01:00", 2),
        ("since=2026-01-31T13:00:02+01:00", 2),
        ("since=2026-01-31", 3),
        ("since=PT1H", 0),
    ],
)
def test_arguments_choose_groups(
    api: Client, database: Database, node: str, query: str, count: int
) -> None:
    add_steps(database, node, 1, 2, 3)
    found = api.get(f"/v1/stats/steps?{query}").json["steps"]
    assert sum(group["count"] for group in found) == count


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("step=erase_devices", "step: 'erase_devices' is not of the form interface.step"),
        ("since=yesterday", "since: 'yesterday' is not a time of ISO 8601"),
        ("since=0001-01-01T00:00:00%2B23:00", "since: '0001-01-01T00:00:00+23:00' is not a time"),
        ("limit=5", "limit"),
    ],
)
def test_invalid_argument_is_refused(api: Client, query: str, said: str) -> None:
    answer = api.get(f"/v1/stats/steps?{query}")
    assert answer.status == 400
    assert said in answer.text


@pytest.mark.parametrize(
    ("role", "project", "status"),
    [
        ("reader", None, 200),
        ("admin", None, 200),
        ("reader", OWNER, 403),
        ("admin", OWNER, 403),
        ("manager", LESSEE, 403),
        ("admin", STRANGER, 403),
    ],
)
def test_readers_of_the_system_alone_see_statistics(
    callers: Callers, role: str, project: str | None, status: int
) -> None:
    assert callers(role, project).get("/v1/stats/steps").status == status


def test_steps_are_read_once_a_minute(database: Database, node: str) -> None:
    now = [1000.0]
    statistics = StepStatistics(database, now=lambda: now[0])
    add_steps(database, node, 1, 2, 3)
    assert statistics.document(None)["of"] == 3
    add_steps(database, node, 4)
    now[0] += statistics_api.KEPT_SECONDS - 1
    with count_statements(database) as sent:
        assert statistics.document(None)["of"] == 3
    assert len(sent) == 0
    now[0] += 1
    assert statistics.document(None)["of"] == 4


class Slow:
    """A database whose reads end when the test says so."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.reads = 0
        self.reading, self.go_on = threading.Event(), threading.Event()

    def read(self, work: Callable[[Any], Any]) -> Any:
        self.reads += 1
        self.reading.set()
        assert self.go_on.wait(60)
        return self._inner.read(work)


def test_second_request_is_refused_while_the_first_one_reads(database: Database) -> None:
    slow: Any = Slow(database)
    statistics = StepStatistics(slow)
    thread = threading.Thread(target=statistics.document, args=(None,))
    thread.start()
    assert slow.reading.wait(60)
    with pytest.raises(errors.Unavailable, match="retry in a moment"):
        statistics.document(None)
    slow.go_on.set()
    thread.join(60)
    assert statistics.document(None)["of"] == 0
    assert slow.reads == 1


def test_requests_group_the_steps_beside_each_other(database: Database, node: str) -> None:
    """The comparison of a moment waits in one request, and another one is answered."""
    add_steps(database, node, 1, 2, 3)
    statistics = StepStatistics(database)
    assert statistics.document(None)["of"] == 3
    grouping, go_on = threading.Event(), threading.Event()

    class Moment(datetime.datetime):
        def __sub__(self, other: Any) -> Any:
            grouping.set()
            assert go_on.wait(60)
            return super().__sub__(other)

    slow = threading.Thread(target=statistics.document, args=(Moment(2026, 1, 31),))
    slow.start()
    try:
        assert grouping.wait(60)
        assert statistics.document(None)["of"] == 3
    finally:
        go_on.set()
        slow.join(60)


def test_many_steps_are_grouped_in_time(database: Database, node: str) -> None:
    """A generous limit for half of all that is read; the aim is a second for 100 000."""
    most = 50_000
    runs_of = [str(uuid.uuid4()) for _ in range(most // 10)]
    row = {"node_uuid": node, "verb": "clean", "state": "done", "started_at": NOON}
    step = {"kind": "clean", "interface": "deploy", "step": "x", "state": "done", "attempt": 1}
    times = {"started_at": NOON, "ended_at": NOON + datetime.timedelta(seconds=9)}
    steps = [
        {**step, **times, "run_uuid": run, "ordinal": at} for run in runs_of for at in range(10)
    ]
    many = [{**row, "uuid": run} for run in runs_of]
    database.write(lambda conn: conn.execute(models.runs.insert(), many))
    database.write(lambda conn: conn.execute(models.run_steps.insert(), steps))
    begun = time.process_time()
    found = StepStatistics(database).document(None)
    assert time.process_time() - begun < 5
    assert (found["of"], found["steps"][0]["count"]) == (most, most)
