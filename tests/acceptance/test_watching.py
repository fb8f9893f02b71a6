"""Those who watch the service see all its processes: counts are summed up, lines name requests."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest
import requests
import sqlalchemy as sa
from prometheus_client import parser

from tests.support import private_servers, service
from tests.support.webhook_receiver import Receiver

pytestmark = pytest.mark.feature("events", "webhooks")

MANY = 40


def value(text: str, name: str, **labels: str) -> float:
    """Return one sample; 0 if it is not there."""
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"ironic_lite_{name}" and labels.items() <= sample.labels.items():
                return float(sample.value)
    return 0.0


def test_several_processes_are_watched_as_one() -> None:
    with service.service("[api]\nworkers = 2\n[conductor]\nheartbeat_interval = 1\n") as found:
        program = found.start()
        found.up()

        def scraped() -> str:
            return requests.get(f"{found.url}/metrics", timeout=60).text

        def listed() -> float:
            labels = {"method": "GET", "route": "/chassis", "code": "200"}
            return value(scraped(), "http_requests_total", **labels)

        for _ in range(MANY):  # each by a connection of its own, which either process may accept
            requests.get(f"{found.url}/v1/chassis", timeout=60).raise_for_status()
        assert {listed() for _ in range(10)} == {MANY}
        # A process that dies takes nothing along, and its successor counts on.
        before = program.pids(service.API_UP)
        os.kill(before[0], signal.SIGKILL)
        service.until(lambda: len(program.pids(service.API_UP)) > len(before), "another process")
        assert {listed() for _ in range(10)} == {MANY}

        found.create("watched")
        path = f"{found.url}/v1/nodes/watched/states/provision"
        answer = requests.put(path, json={"target": "manage"}, timeout=60)
        found.settled("watched", "manageable")
        request = answer.headers["X-OpenStack-Request-Id"]
        # The line of a change is written after the change can be read.
        service.until(lambda: "verifying -> manageable" in program.said(), "the line of the end")
        lines = [line for line in program.said().splitlines() if f"[{request} -]" in line]
        (conductor,) = program.pids(service.CONDUCTOR_UP)
        assert re.search(
            rf" {conductor} INFO .*verifying -> manageable, run .* after", "\n".join(lines)
        )
        # The API tells of it as well: what was asked, by whom, and what it answered.
        said = next(line for line in lines if " ironic_lite.api." in line)
        assert re.search(
            r"'PUT /v1/nodes/watched/states/provision' from 127\.\S+: 202 in \d+\.", said
        )

        def told() -> Any:
            text = scraped()
            labels = {"verb": "manage", "result": "done", "conductor": "tester"}
            return text if value(text, "runs_total", **labels) == 1 else None

        text = str(service.until(told, "the conductor's counts"))
        assert value(text, "steps_total", kind="verify", result="done") >= 1
        assert value(text, "workers", state="most") > value(text, "workers", state="busy")
        assert value(text, "conductor_up", conductor="tester") == 1
        served = {"method": "start_verb", "result": "ok"}
        assert value(text, "rpc_served_total", **served) == 1
        assert value(text, "nodes", provision_state="manageable", maintenance="false") == 1
        assert requests.get(f"{found.url}/readyz", timeout=60).status_code == 200


LOCKED = 13.0
"""Seconds of a backup's lock: longer than MariaDB's marks need to mature."""
LOCKS = (
    (("FLUSH TABLES WITH READ LOCK",), "UNLOCK TABLES"),
    (
        (
            "BACKUP STAGE START",
            "BACKUP STAGE FLUSH",
            "BACKUP STAGE BLOCK_DDL",
            "BACKUP STAGE BLOCK_COMMIT",
        ),
        "BACKUP STAGE END",
    ),
)
HOOKS = "[webhooks]\nallow_http = true\nallowed_networks = 127.0.0.0/8\n"


@pytest.fixture
def maria() -> Iterator[sa.URL]:
    """The URL of the administrator of a MariaDB server that a test may lock."""
    with contextlib.ExitStack() as made:
        try:
            folder = made.enter_context(service.short_folder())
            folder.chmod(0o755)
            server = made.enter_context(private_servers.database("mysql", folder))
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED on mysql: {why}")
        yield sa.make_url(server.url(server.port)).set(username="root", database="mysql")


def session(url: sa.URL) -> sa.Connection:
    return sa.create_engine(url.set(drivername="mariadb+pymysql"), poolclass=sa.NullPool).connect()


def run(conn: sa.Connection, *statements: str) -> None:
    for statement in statements:
        conn.exec_driver_sql(statement)


def test_backup_locks_lose_no_event(maria: sa.URL) -> None:
    """A transaction waits in its COMMIT, below an event that pages, streams and hooks have seen.

    The account has rights on its own database alone: it sees neither transactions nor locks.
    """
    own = maria.set(username="own", database="own")
    settings = f"{HOOKS}[database]\nconnection = {own.render_as_string()}\n"
    with contextlib.ExitStack() as made:
        admin = made.enter_context(session(maria))
        run(admin, "CREATE DATABASE own", "CREATE USER own", "GRANT ALL ON own.* TO own")
        # Left last, when all that its threads wait for has ended.
        pool = made.enter_context(futures.ThreadPoolExecutor())
        found = made.enter_context(service.service(settings, migrated=False))
        receiver = made.enter_context(Receiver().serving())
        found.start()
        found.up()
        hook = {"url": receiver.url, "since": "0"}
        assert found.ask("POST", "/v1/webhooks", hook).status_code == 201
        stream = made.enter_context(
            requests.get(f"{found.url}/v1/events?since=0&follow=true", stream=True, timeout=60)
        )
        streamed: list[int] = []
        paged: list[int] = []

        def follow() -> None:
            for line in stream.iter_lines():
                event = json.loads(line)
                if "kind" in event:
                    streamed.append(int(event["cursor"]))

        def read_pages() -> int:
            page = found.get(f"/v1/events?since={paged[-1] if paged else 0}")
            paged.extend(int(event["cursor"]) for event in page["events"])
            return len(page["events"])

        pool.submit(follow)
        for number, (locks, unlock) in enumerate(LOCKS):
            node = found.create(f"before-{number}")
            slow = made.enter_context(session(own))
            run(
                slow,
                "BEGIN",
                "INSERT INTO events (at, node_uuid, kind, event)"
                f" VALUES (now(), '{node}', 'power', 'slow')",
            )
            last = found.create(f"behind-{number}")
            run(admin, *locks)
            commit = pool.submit(run, slow, "COMMIT")
            end = time.monotonic() + LOCKED
            while time.monotonic() < end:
                read_pages()
                time.sleep(0.5)
            assert not commit.done()
            assert last not in str(receiver.got)
            run(admin, unlock)
            commit.result(60)
        with session(own) as conn:
            written = set(conn.exec_driver_sql("SELECT id FROM events").scalars())
        service.until(lambda: not read_pages() and len(paged) >= len(written), "the pages")
        service.until(lambda: len(streamed) >= len(written), "the stream")
        service.until(lambda: len(set(receiver.cursors())) >= len(written), "the webhook")
        assert paged == streamed == sorted(written)
        assert sorted(set(receiver.cursors())) == sorted(written)
        assert (
            value(requests.get(f"{found.url}/metrics", timeout=60).text, "events_gaps_total") == 0
        )
