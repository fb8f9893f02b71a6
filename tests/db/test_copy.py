"""``ironic-lite-dbsync copy``: all rows into an empty database of another kind."""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row
from ironic_lite.db import copy
from ironic_lite.db.engine import encryption, session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import conductors, events
from ironic_lite.db.tables import models
from tests.support import database_servers, docs_pages, prefork, service, webhook_receiver
from tests.support.database_rows import NOON, add_node

Open = Callable[..., Database]
KEY = "pJfbVZ7gJ4e0CnnhbZ8Gx0lM5sHC8Zx9VtNTLe4zTqU="
SECRET = "planted-password"


def _value(column: sa.Column[Any], number: int) -> Any:
    """Return a value of a column, other for each number; every second one of those is NULL."""
    if column.foreign_keys:
        (key,) = column.foreign_keys
        return _value(key.column, number)
    if column.nullable and number % 2:
        return None
    values: dict[type, Any] = {
        datetime.datetime: NOON + datetime.timedelta(microseconds=number),
        dict: {"näme": "😀", "deep": [number, 1.5, None, True, "a\\u0000b", 2**53]},
        bool: number % 2 == 0,
        int: 7 * number + 1,
        float: number + 0.5,
        str: f"{number}é{SECRET}"[: getattr(column.type, "length", None) or 40],
    }
    return values[dict if _is_json(column) else column.type.python_type]


def _is_json(column: sa.Column[Any]) -> bool:
    return isinstance(column.type, sa.JSON | encryption.EncryptedJSON)


def fill(database: Database, count: int = 4) -> None:
    """Write rows of every table, with keys of every form, and a hole after the last event."""

    def write(conn: Connection) -> None:
        conn.execute(models.marks.delete())
        for table in models.metadata.sorted_tables:
            rows = [
                {column.name: _value(column, number) for column in table.columns}
                for number in range(count)
            ]
            conn.execute(table.insert(), rows)
        conn.execute(models.marks.update().values(name="trimmed", value=900).where(_FIRST))
        conn.execute(models.conductors.update().values(online=False))

    database.write(write)


_FIRST = models.marks.c.name.like("0%")


def rows(database: Database) -> dict[str, list[Row]]:
    """Return all rows, encrypted values as they are stored."""
    tables = [copy.as_stored(each, sa.MetaData()) for each in models.metadata.sorted_tables]

    def read(conn: Connection) -> dict[str, list[Row]]:
        return {
            table.name: sorted(map(dict, conn.execute(sa.select(table)).mappings()), key=str)
            for table in tables
        }

    return database.read(read)


def new_event(database: Database) -> int:
    """Write an event; return its id."""
    row = {"at": clock.now(), "node_uuid": "n", "kind": "power"}

    def write(conn: Connection) -> int:
        conn.execute(models.events.insert(), row)
        return events.head(conn)

    return database.write(write)


@pytest.fixture
def source(open_empty: Open) -> Database:
    """A filled database whose secrets are encrypted."""
    found = open_empty("sqlite", KEY)
    fill(found)
    return found


def test_rows_of_all_tables_go_through_all_databases(source: Database, open_empty: Open) -> None:
    wanted = rows(source)
    assert "$fernet" in str(wanted["nodes"])
    assert all(len(found) == 4 for found in wanted.values())
    last = source
    for kind in ("postgresql", "mysql", "sqlite"):
        target = open_empty(kind, KEY)
        with contextlib.closing(copy.open_source(target, last.url)) as read:
            assert copy.copy(read, target, check=True) == dict.fromkeys(wanted, 4)
            assert target.read(events.head) == 0
            assert copy.copy(read, target, check=False) == dict.fromkeys(wanted, 4)
        assert rows(target) == wanted
        last = target
    # No id of a removed event is given again, nor one of a row that is there.
    assert new_event(last) == 901


@pytest.mark.parametrize("kind", database_servers.KINDS)
@pytest.mark.parametrize("trimmed", [0, 50])
def test_ids_go_on_above_those_of_removed_rows(
    kind: str, trimmed: int, source: Database, open_empty: Open
) -> None:
    target = open_empty(kind, KEY)
    mark = models.marks.update().where(models.marks.c.name == "trimmed").values(value=trimmed)
    source.write(lambda conn: conn.execute(mark))
    with contextlib.closing(copy.open_source(target, source.url)) as read:
        copy.copy(read, target, check=False)
    add_node(target, name="new")
    ids = target.read(lambda conn: conn.execute(sa.select(models.nodes.c.id)).scalars().all())
    found = (new_event(target), max(ids))
    wanted = (max(trimmed, 22) + 1, 23)
    if kind == "mysql":  # its counters never go back, and other tests have used this database
        assert all(one >= least for one, least in zip(found, wanted, strict=True))
    else:
        assert found == wanted


# Refusals: exit status 2, one line, and nothing is written.


def run(
    tmp_path: pathlib.Path, target: Database, *words: str, key: str = KEY
) -> subprocess.CompletedProcess[str]:
    """Run the program for a configured target."""
    settings = tmp_path / "target.conf"
    url = target.url.render_as_string(hide_password=False)
    settings.write_text(f"[database]\nconnection = {url}\nencryption_keys = {key}\n")
    command = [str(service.SCRIPTS / "ironic-lite-dbsync"), "--config-file", str(settings)]
    return prefork.run([*command, "copy", *words], env=service.environment(), timeout=120)


def refusal(tmp_path: pathlib.Path, target: Database, *words: str, **more: str) -> str:
    """Return the one line of a command that must be refused, and has written nothing."""
    before = rows(target)
    done = run(tmp_path, target, *words, **more)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert SECRET not in done.stderr
    assert "ironic_lite:ironic_lite" not in done.stderr
    assert rows(target) == before
    return done.stderr


def test_command_copies_from_a_url_or_a_file(
    database: Database, source: Database, tmp_path: pathlib.Path
) -> None:
    other = tmp_path / "other.conf"
    other.write_text(f"[DEFAULT]\nhost = x\n[database]\nconnection = {source.url}\n")
    done = run(tmp_path, database, "--from", str(source.url), "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("Repeat the command without --check to do this.\n")
    done = run(tmp_path, database, "--from", str(other))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nnodes: 4 rows\n" in done.stdout
    assert rows(database) == rows(source)
    assert "is not empty (" in (said := refusal(tmp_path, database, "--from", str(source.url)))
    assert "nodes: 4, " in said


def test_databases_that_do_not_fit_are_refused(
    sqlite_database: Database, source: Database, tmp_path: pathlib.Path
) -> None:
    def refused(words: str, **more: str) -> str:
        return refusal(tmp_path, sqlite_database, "--from", words, **more)

    assert "/missing.sqlite does not exist" in refused(f"sqlite:///{tmp_path}/missing.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()
    assert "missing.conf" in refused(str(tmp_path / "missing.conf"))
    assert "oracle is not one of" in refused(f"oracle://u:{SECRET}@h/d")
    away = refused(f"postgresql://u:{SECRET}@127.0.0.1:9/d")
    assert "The source postgresql+psycopg://u:***@127.0.0.1:9/d cannot be read" in away
    text = tmp_path / "text.sqlite"
    text.write_text("no database" * 1000)
    assert "not a database" in refused(f"sqlite:///{text}")
    (tmp_path / "empty.sqlite").touch()
    assert "has no tables yet" in refused(f"sqlite:///{tmp_path}/empty.sqlite")
    assert "[database]encryption_keys" in refused(str(source.url), key="none")
    old = sa.text("UPDATE alembic_version SET version_num = '0001'")
    source.write(lambda conn: conn.execute(old))
    assert "is of a state before the first release (revision 0001)" in refused(str(source.url))
    alien = sa.text("UPDATE alembic_version SET version_num = '9fb44677ef15'")
    source.write(lambda conn: conn.execute(alien))
    assert "belongs to another program" in refused(str(source.url))


def test_living_conductor_of_the_source_is_refused(
    sqlite_database: Database, source: Database, tmp_path: pathlib.Path
) -> None:
    def register(conn: Connection) -> None:
        now = clock.now()
        conductors.register(conn, host="c9", group="", version=None, now=now)
        conductors.touch(conn, host="c9", now=now)

    source.write(register)
    said = refusal(tmp_path, sqlite_database, "--from", str(source.url))
    assert "Conductors are alive: c9. Stop all conductors before you copy." in said


def test_journal_of_a_killed_process_is_refused(
    sqlite_database: Database, source: Database, tmp_path: pathlib.Path
) -> None:
    path = str(source.url.database)
    source.close()
    code = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute('PRAGMA journal_mode=DELETE'); c.execute('PRAGMA cache_size=1');"
        "c.execute('UPDATE nodes SET extra = zeroblob(100000)'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=False)
    assert pathlib.Path(f"{path}-journal").stat().st_size > 0
    before = pathlib.Path(path).read_bytes()
    said = refusal(tmp_path, sqlite_database, "--from", f"sqlite:///{path}")
    assert "A killed process has left it so: start and stop ironic-lite on it once" in said
    assert pathlib.Path(path).read_bytes() == before


@pytest.mark.parametrize("kind", database_servers.KINDS)
def test_source_that_changes_meanwhile_is_refused(
    kind: str, source: Database, open_empty: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy sees the rows of one moment, and notices that they are old."""
    middle = open_empty(kind, KEY)
    with contextlib.closing(copy.open_source(middle, source.url)) as read:
        copy.copy(read, middle, check=False)
    target = open_empty("sqlite", KEY)
    seen: list[int] = []
    whole = copy.write_rows

    def write_rows(conn: Connection, table: sa.Table, found: Any) -> int:
        if table.name == "chassis":
            change = models.nodes.update().values(name=None, generation=99)
            middle.write(lambda other: other.execute(change))
        if table.name == "nodes":
            found = list(found)
            seen.extend(row["generation"] for row in found)
        return whole(conn, table, found)

    monkeypatch.setattr(copy, "write_rows", write_rows)
    with (
        contextlib.closing(copy.open_source(target, middle.url)) as read,
        pytest.raises(errors.Conflict, match="changed while it was copied; stop its API"),
    ):
        copy.copy(read, target, check=False)
    assert sorted(seen) == [1, 8, 15, 22]
    assert target.read(events.head) == 0


def test_row_that_the_target_cannot_hold_is_refused(
    server_database: Database, source: Database, tmp_path: pathlib.Path
) -> None:
    wrong = models.nodes.update().values(owner="x" * 300)
    source.write(lambda conn: conn.execute(wrong))
    said = refusal(tmp_path, server_database, "--from", str(source.url))
    assert "The table nodes does not take one of its rows 1 to 4: " in said


# The page, and a service that goes on at each place.

_COMMANDS = re.compile(r"^   # (ironic-lite-dbsync .*)$", re.MULTILINE)


def test_commands_of_the_page_move_a_database(tmp_path: pathlib.Path, open_empty: Open) -> None:
    source = open_empty("sqlite")
    fill(source)
    new, old = tmp_path / "new.conf", tmp_path / "ironic-lite.conf"
    new.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/new.sqlite\n")
    old.write_text(f"[database]\nconnection = {source.url}\n")
    page = (docs_pages.DOCS / "database.rst").read_text(encoding="utf-8")
    part = page.partition("\nMove to another database\n")[2]
    commands = _COMMANDS.findall(part.partition("\nImport Ironic's database\n")[0])
    assert [command.split()[3] for command in commands] == ["upgrade", "copy", "copy"]
    for command in commands:
        named = command.replace("new.conf", str(new))
        named = named.replace("/etc/ironic-lite/ironic-lite.conf", str(old))
        words = shlex.split(named)
        words[0] = str(service.SCRIPTS / words[0])
        done = prefork.run(words, env=service.environment(), timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
    url = f"sqlite:///{tmp_path}/new.sqlite"
    with contextlib.closing(session.open_database(url)) as target:
        assert rows(target) == rows(source)


_LIVE = """\
heartbeat_interval = 1
heartbeat_timeout = 3
[fake]
step_seconds = 3000
[webhooks]
allow_http = true
allowed_networks = 127.0.0.0/8
[database]
encryption_keys = {key}
connection = {url}
"""


def _copies(tmp_path: pathlib.Path, target: Database, source: str) -> bool:
    return run(tmp_path, target, "--from", source).returncode == 0


def _sent(receiver: webhook_receiver.Receiver) -> list[Any]:
    return [event for _, body in receiver.got for event in json.loads(body)["data"]["events"]]


@pytest.mark.feature("events", "webhooks")
def test_service_goes_on_at_each_place(tmp_path: pathlib.Path, open_empty: Open) -> None:
    kinds = ("sqlite", "postgresql", "mysql", "sqlite")
    source, *places = (open_empty(kind, KEY) for kind in kinds)
    url = source.url.render_as_string(hide_password=False)
    with (
        webhook_receiver.Receiver().serving() as receiver,
        service.service(_LIVE.format(key=KEY, url=url)) as found,
    ):
        found.start()
        found.up()
        hook = found.ask("POST", "/v1/webhooks", {"url": receiver.url, "since": "0"}).json()
        found.create("r1")
        found.again(step_seconds=0)
        found.provision("r1", "manage", "manageable")
        found.again(step_seconds=3000)
        steps = [{"interface": "deploy", "step": "erase_devices"}]
        clean = {"target": "clean", "clean_steps": steps}
        assert found.ask("PUT", "/v1/nodes/r1/states/provision", clean).ok
        for number, target in enumerate(places, 2):
            service.until(lambda: found.get("/v1/nodes/r1")["clean_step"], "the clean")
            for program in found.running():
                program.clear()
            # The killed conductor counts as alive for a time.
            copies = functools.partial(_copies, tmp_path, target, str(found.settings))
            service.until(copies, "the copy")
            assert rows(target) == rows(source)
            last = target is places[-1]
            url = target.url.render_as_string(hide_password=False)
            found.again(connection=url, step_seconds=0 if last else 3000)
            found.create(f"r{number}")
            source = target
        found.settled("r1", "manageable")
        # A kill may leave an id that no event has, and a list of events waits for it a while.
        nodes = {"r1", "r2", "r3", "r4"}
        service.until(lambda: nodes <= {each["name"] for each in _sent(receiver)}, "the last event")
        place, last = f"/v1/webhooks/{hook['uuid']}", _sent(receiver)[-1]["cursor"]
        service.until(lambda: int(found.get(place)["cursor"]) >= int(last), "its position")
    sent = _sent(receiver)
    first = {event["cursor"]: event for event in sent}
    cursors = list(map(int, first))
    assert cursors == sorted(cursors)
    # A delivery that a kill interrupts is repeated, but never with another event of that id.
    assert all(first[event["cursor"]] == event for event in sent)


# Deaths, a full disk, and many rows.

_DEATHS = """
import contextlib, os, signal, sys
from ironic_lite.db import copy
from ironic_lite.db.engine import session
from ironic_lite.db.tables import models
whole, (source, target) = copy.write_rows, sys.argv[1:]
for name in [each.name for each in models.metadata.sorted_tables] + ["commit"]:
    if not (child := os.fork()):
        def write_rows(conn, table, rows):
            if table.name == name:
                rows = list(rows)
                whole(conn, table, rows[:2])
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(conn, table, rows)
        def die(conn):
            os.kill(os.getpid(), signal.SIGKILL)
        copy.write_rows = write_rows
        if name == "commit":
            copy._continue_ids = die
        opened = session.open_database(target)
        copy.copy(copy.open_source(opened, source), opened, check=False)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, name
    with contextlib.closing(session.open_database(target)) as found:
        found.read(copy._refuse_filled)
    print(name)
"""


def test_death_at_each_table_leaves_the_target_empty(
    database: Database, open_empty: Open, tmp_path: pathlib.Path
) -> None:
    source = open_empty("sqlite")
    fill(source)
    before = rows(database)
    urls = [each.url.render_as_string(hide_password=False) for each in (source, database)]
    done = subprocess.run(
        [sys.executable, "-c", _DEATHS, *urls], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == len(models.metadata.sorted_tables) + 1
    assert rows(database) == before
    assert run(tmp_path, database, "--from", urls[0]).returncode == 0
    assert rows(database) == rows(source)


def test_full_disk_leaves_the_target_empty(
    open_empty: Open, source: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = copy.write_rows

    def write_rows(conn: Connection, table: sa.Table, found: Any) -> int:
        if table.name == "nodes":
            pages = conn.exec_driver_sql("PRAGMA page_count").scalar_one()
            conn.exec_driver_sql(f"PRAGMA max_page_count={pages}")
            found = [{**row, "extra": {"x": "y" * 100_000}} for row in found]
        return whole(conn, table, found)

    monkeypatch.setattr(copy, "write_rows", write_rows)
    target = open_empty("sqlite", KEY)
    with (
        contextlib.closing(copy.open_source(target, source.url)) as read,
        pytest.raises(errors.Unavailable, match="has no space left"),
    ):
        copy.copy(read, target, check=False)
    assert target.read(events.head) == 0


def test_statements_are_bounded() -> None:
    small: Row = {"x": "y"}
    large: Row = {"x": "y" * 375_000}
    made = [*itertools.repeat(small, 1001), *itertools.repeat(large, 5)]
    found = [len(batch) for batch in copy.batches(made)]
    assert found == [500, 500, 3, 2, 1]


def test_memory_does_not_grow_with_the_rows(database: Database, open_empty: Open) -> None:
    source = open_empty("sqlite")
    row = {"at": NOON, "node_uuid": "n", "kind": "power", "data": {"x": "y" * 500}}
    for _ in range(20):
        source.write(lambda conn: conn.execute(models.events.insert(), [row] * 1000))
    with contextlib.closing(copy.open_source(database, source.url)) as read:
        tracemalloc.start()
        try:
            assert copy.copy(read, database, check=False)["events"] == 20_000
            _now, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 12 * 1024 * 1024
