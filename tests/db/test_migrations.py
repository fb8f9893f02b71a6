"""Migrations, `ironic-lite-dbsync`, and rows that are rewritten while the service runs."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import re
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import autogenerate
from alembic.migration import MigrationContext

from ironic_lite import errors, membership
from ironic_lite.cmd import dbsync
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import conductors
from ironic_lite.db.tables import migrate, models
from tests.support import database_servers, prefork, service
from tests.support.database_rows import NOON, add_node, get_node, new_uuid

# Migrations: from nothing and from a filled database to what the models say, and never back.

# -- models equal migrations -----------------------------------------------------------------


def _default(text: Any) -> str | None:
    """Return a server default as all databases would say it."""
    if text is None:
        return None
    plain = str(text).split("::")[0].strip("'()\"").lower()
    return {"false": "0", "true": "1"}.get(plain, plain)


def _differs(
    _context: Any, _mine: Any, _theirs: Any, there: str | None, _default_here: Any, here: str | None
) -> bool:
    return _default(there) != _default(here)


def _differences(conn: Connection) -> list[Any]:
    options = {"compare_type": True, "compare_server_default": _differs}
    context = MigrationContext.configure(conn, opts=options)
    return list(autogenerate.compare_metadata(context, models.metadata))


def _shape(conn: Connection) -> dict[str, Any]:
    """Return also what compare_metadata does not look at: collations, what follows deletes."""
    inspector = sa.inspect(conn)
    return {
        table: {
            "columns": [
                (
                    column["name"],
                    repr(column["type"]),
                    column["nullable"],
                    _default(column["default"]),
                    getattr(column["type"], "collation", None),
                )
                for column in inspector.get_columns(table)
            ],
            "primary": inspector.get_pk_constraint(table)["constrained_columns"],
            "foreign": sorted(str(key) for key in inspector.get_foreign_keys(table)),
            "unique": sorted(str(key) for key in inspector.get_unique_constraints(table)),
            "indexes": sorted(str(index) for index in inspector.get_indexes(table)),
        }
        for table in inspector.get_table_names()
        if table != "alembic_version"
    }


def test_migrations_make_what_the_models_say(empty_database: Database) -> None:
    migrate.upgrade(empty_database)
    assert empty_database.read(_differences) == []
    migrated = empty_database.read(_shape)
    assert set(migrated) == set(models.metadata.tables)
    with empty_database.engine.begin() as conn:
        models.metadata.drop_all(conn)
        models.metadata.create_all(conn)
    assert migrated == empty_database.read(_shape)


def test_a_migration_does_not_follow_the_models() -> None:
    for path in (migrate.FOLDER / "versions").glob("*.py"):
        assert "import ironic_lite" not in path.read_text()
        assert "from ironic_lite" not in path.read_text()


# -- up --------------------------------------------------------------------------------------


def test_an_empty_database_is_refused_until_it_is_upgraded(empty_database: Database) -> None:
    assert migrate.revision(empty_database) is None
    with pytest.raises(errors.Error, match="no tables yet: run ironic-lite-dbsync upgrade"):
        migrate.check(empty_database)
    assert migrate.upgrade(empty_database) == migrate.head()
    migrate.check(empty_database)
    assert migrate.revision(empty_database) == migrate.head()


def _fill(conn: Connection) -> None:
    """Fill a database as a release with fewer columns would have."""
    at = NOON.isoformat(sep=" ")
    chassis, node, run = new_uuid(), new_uuid(), new_uuid()
    for statement in (
        f"INSERT INTO chassis (uuid, created_at) VALUES ('{chassis}', '{at}')",
        "INSERT INTO nodes (uuid, name, driver, provision_state, chassis_uuid, driver_info, "
        f"created_at) VALUES ('{node}', 'old-1', 'redfish', 'active', '{chassis}', "
        f"'{{\"a\": \"😀\"}}', '{at}')",
        f"INSERT INTO node_traits (node_uuid, trait) VALUES ('{node}', 'CUSTOM_OLD')",
        "INSERT INTO ports (uuid, address, node_uuid, created_at) VALUES "
        f"('{new_uuid()}', '52:54:00:00:00:01', '{node}', '{at}')",
        "INSERT INTO runs (uuid, node_uuid, verb, state, started_at) VALUES "
        f"('{run}', '{node}', 'deploy', 'done', '{at}')",
        "INSERT INTO run_steps (run_uuid, ordinal, kind, interface, step, state) VALUES "
        f"('{run}', 0, 'deploy', 'deploy', 'deploy', 'done')",
        f"INSERT INTO events (at, node_uuid, kind) VALUES ('{at}', '{node}', 'provision')",
        f"INSERT INTO conductors (hostname, created_at) VALUES ('host-1', '{at}')",
        "INSERT INTO hardware_interfaces (conductor_id, hardware_type, interface_type, "
        "interface_name) SELECT id, 'redfish', 'power', 'redfish' FROM conductors",
    ):
        conn.exec_driver_sql(statement)


def test_a_filled_database_keeps_its_rows(
    empty_database: Database, scratch: Callable[..., None]
) -> None:
    migrate.upgrade(empty_database)
    empty_database.write(_fill)
    before = empty_database.read(_counts)
    scratch("never")
    migrate.upgrade(empty_database)
    assert migrate.upgrade(empty_database) == migrate.head()
    row = get_node(empty_database, "old-1")
    assert (row["driver_info"], row["created_at"]) == ({"a": "😀"}, NOON)
    # S4.2: a node that no statement has told of retirement is not retired.
    assert (row["retired"], row["retired_reason"]) == (False, None)
    assert (row["generation"], row["conductor_group"]) == (0, "")
    # The migration inserts the rows of the table `marks`.
    assert before["marks"] == 3
    assert empty_database.read(_counts) == before


def test_state_of_the_development_is_refused_with_the_commit_to_upgrade_by(
    empty_database: Database,
) -> None:
    def fill(conn: Connection) -> None:
        conn.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        conn.exec_driver_sql("INSERT INTO alembic_version VALUES ('0014')")
        conn.exec_driver_sql("CREATE TABLE nodes (id INTEGER)")

    empty_database.write(fill)
    for use in (migrate.check, migrate.upgrade):
        with pytest.raises(errors.Error, match=r"revision 0014\).* of commit [0-9a-f]{12}"):
            use(empty_database)
    assert migrate.revision(empty_database) == "0014"


def test_several_processes_may_upgrade_at_once(
    empty_database: Database, tmp_path: pathlib.Path
) -> None:
    conf = tmp_path / "ironic-lite.conf"
    url = empty_database.url.render_as_string(hide_password=False)
    conf.write_text(f"[database]\nconnection = {url}\n")
    others = [conf] * 4
    with ThreadPoolExecutor(len(others)) as pool:
        found = list(pool.map(_upgrade_in_a_process, others))
    assert found == [migrate.head()] * len(others)
    migrate.check(empty_database)


def _upgrade_in_a_process(conf: pathlib.Path) -> str:
    program = str(service.SCRIPTS / "ironic-lite-dbsync")
    command = [program, "--config-file", str(conf), "upgrade"]
    done = prefork.run(command, env=service.environment(), timeout=120)
    return done.stdout.strip() or done.stderr


_SCRATCH = """
import sqlalchemy as sa
from alembic import op

revision = "{number}"
down_revision = "{before}"


def upgrade() -> None:
    with op.batch_alter_table("nodes", recreate="{recreate}") as batch:
        batch.add_column(sa.Column("scratch", sa.String(10)))
    {more}
"""


@pytest.fixture
def scratch(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., None]]:
    """A function that adds a migration to a copy of all, which makes the table of nodes anew."""
    before = migrate.head()
    folder = tmp_path / "migrations"
    shutil.copytree(migrate.FOLDER, folder)
    monkeypatch.setattr(migrate, "FOLDER", folder)

    def add(recreate: str, more: str = "") -> None:
        number = f"{int(before) + 1:04}"
        text = _SCRATCH.format(number=number, before=before, recreate=recreate, more=more)
        (folder / "versions" / f"{number}_scratch.py").write_text(text)
        migrate.history.cache_clear()

    yield add
    monkeypatch.undo()
    migrate.history.cache_clear()


def _counts(conn: Connection) -> dict[str, int]:
    return {
        name: conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        for name, table in models.metadata.tables.items()
    }


def test_a_table_made_anew_keeps_the_rows_that_refer_to_it(
    empty_database: Database, scratch: Callable[..., None]
) -> None:
    migrate.upgrade(empty_database)
    empty_database.write(_fill)
    before = empty_database.read(_counts)
    assert min(before[name] for name in ("ports", "node_traits", "runs", "run_steps")) == 1

    scratch("always" if empty_database.kind == "sqlite" else "never")
    migrate.upgrade(empty_database)
    assert empty_database.read(_counts) == before
    assert "scratch" in {
        each["name"]
        for each in empty_database.read(lambda conn: sa.inspect(conn).get_columns("nodes"))
    }
    # What refers to a node is held to it as ever.
    empty_database.write(lambda conn: conn.exec_driver_sql("DELETE FROM nodes") and None)
    after = empty_database.read(_counts)
    assert (after["ports"], after["node_traits"], after["runs"]) == (0, 0, 0)


def test_a_migration_that_loses_what_others_refer_to_changes_nothing(
    sqlite_database: Database, scratch: Callable[..., None]
) -> None:
    node = add_node(sqlite_database, name="held")
    port = "INSERT INTO ports (uuid, address, node_uuid, created_at) VALUES (?, ?, ?, ?)"
    values = (new_uuid(), "52:54:00:00:00:01", node, NOON.isoformat(sep=" "))
    sqlite_database.write(lambda conn: conn.exec_driver_sql(port, values) and None)
    before = migrate.revision(sqlite_database)
    scratch("always", "op.execute('DELETE FROM nodes')")
    with pytest.raises(errors.Error, match="ports of nodes"):
        migrate.upgrade(sqlite_database)
    assert migrate.revision(sqlite_database) == before
    assert get_node(sqlite_database, "held")["uuid"] == node


def test_a_failed_upgrade_leaves_nothing_behind(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    if empty_database.kind == "mysql":
        pytest.skip("MariaDB commits every statement that changes tables")
    broken = tmp_path / "broken"
    (broken / "versions").mkdir(parents=True)
    (broken / "env.py").write_text((migrate.FOLDER / "env.py").read_text())
    for path in (migrate.FOLDER / "versions").glob("*.py"):
        text = path.read_text()
        if path.name.startswith("0030_"):
            text = text.replace("    _create_conductors()\n", "    raise RuntimeError('broken')\n")
        (broken / "versions" / path.name).write_text(text)
    monkeypatch.setattr(migrate, "FOLDER", broken)
    with pytest.raises(RuntimeError, match="broken"):
        migrate.upgrade(empty_database)
    monkeypatch.undo()
    assert migrate.revision(empty_database) is None
    assert empty_database.read(lambda conn: sa.inspect(conn).get_table_names()) == []
    migrate.upgrade(empty_database)


class Died(Exception):
    """Stands for the death of a process."""


def _upgrade_and_die(database: Database, after: int) -> bool:
    """Upgrade, and die after so many changes; return whether it came that far."""
    left = after

    def die(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal left
        if re.match(r"\s*(CREATE|DROP|ALTER|INSERT|UPDATE) ", statement):
            left -= 1
            if not left:
                raise Died

    sa.event.listen(sa.Engine, "after_cursor_execute", die)
    try:
        migrate.upgrade(database)
    except Died:
        return True
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", die)
    return False


def test_an_upgrade_that_died_on_mariadb_goes_on() -> None:
    """It dies again and again, each time a little later."""
    with (
        database_servers.own_database("mysql", "broken") as url,
        contextlib.closing(session.open_database(url)) as database,
    ):
        deaths = list(itertools.takewhile(lambda n: _upgrade_and_die(database, n), range(1, 99, 3)))
        assert len(deaths) > 10
        assert migrate.upgrade(database) == migrate.head()
        assert database.read(_differences) == []
        assert not database.read(migrate.was_interrupted)


def test_upgrade_that_died_after_each_write_of_rows_continues() -> None:
    """Each INSERT of a migration, and each UPDATE of the revision, is the last one once."""
    died: set[str] = set()

    def die(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if re.match(r"\s*(INSERT|UPDATE) ", statement) and statement not in died:
            died.add(statement)
            raise Died

    def upgrade_and_die(database: Database) -> bool:
        try:
            migrate.upgrade(database)
        except Died:
            return True
        return False

    sa.event.listen(sa.Engine, "after_cursor_execute", die)
    try:
        with (
            database_servers.own_database("mysql", "broken") as url,
            contextlib.closing(session.open_database(url)) as database,
        ):
            while upgrade_and_die(database):
                pass
            assert len(died) > len(migrate.history())
            assert migrate.revision(database) == migrate.head()
            assert database.read(_differences) == []
            marks = database.read(lambda conn: conn.execute(sa.select(models.marks)).all())
            assert len(marks) == 3
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", die)


def test_an_upgrade_that_died_at_its_very_end_is_tidied_up() -> None:
    with (
        database_servers.own_database("mysql", "broken") as url,
        contextlib.closing(session.open_database(url)) as database,
    ):
        migrate.upgrade(database)
        with database.engine.begin() as conn:
            conn.exec_driver_sql(f"CREATE TABLE {migrate.UPGRADE_MARK.name} (since DATETIME)")
        assert migrate.upgrade(database) == migrate.head()
        assert not database.read(migrate.was_interrupted)


def test_a_database_of_somebody_else_is_refused_and_left_alone(empty_database: Database) -> None:
    with empty_database.engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE nodes (theirs INTEGER)")
    for _ in range(2):
        with pytest.raises(errors.Error, match=r"\(nodes\): name an empty database"):
            migrate.upgrade(empty_database)
    assert empty_database.read(lambda conn: sa.inspect(conn).get_table_names()) == ["nodes"]


def test_newest_schema_accepts_rows_of_an_older_release(
    empty_database: Database,
) -> None:
    """Its processes go on while the new ones are started: an upgrade only adds."""
    migrate.upgrade(empty_database)
    empty_database.write(_fill)
    assert get_node(empty_database, "old-1")["provision_state"] == "active"


# -- never back ------------------------------------------------------------------------------


def test_a_database_of_a_newer_release_is_refused_and_left_alone(empty_database: Database) -> None:
    migrate.upgrade(empty_database)
    node = add_node(empty_database)
    stamp = sa.text("UPDATE alembic_version SET version_num = '9999'")
    empty_database.write(lambda conn: conn.execute(stamp))
    for use in (migrate.check, migrate.upgrade):
        with pytest.raises(errors.Error, match=r"newer release \(revision 9999.*upgrade ironic_l"):
            use(empty_database)
    assert migrate.revision(empty_database) == "9999"
    assert get_node(empty_database, node)["uuid"] == node


@pytest.mark.parametrize(
    ("table", "owner"), [("conductor_hardware_interfaces", "Ironic"), ("shelf", "another program")]
)
def test_database_of_another_program_is_named_and_left_alone(
    empty_database: Database, table: str, owner: str
) -> None:
    def fill(conn: Connection) -> None:
        conn.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        conn.exec_driver_sql("INSERT INTO alembic_version VALUES ('01f21d5e5195')")
        conn.exec_driver_sql(f"CREATE TABLE {table} (id INTEGER)")

    empty_database.write(fill)
    for use in (migrate.check, migrate.upgrade):
        with pytest.raises(errors.Error, match=f"belongs to {owner} .*database of ironic_lite"):
            use(empty_database)
    assert migrate.revision(empty_database) == "01f21d5e5195"


def test_a_database_of_an_older_release_is_told_to_upgrade(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = migrate.Revision("0999", "from the future")
    known = (*migrate.history(), newest)
    monkeypatch.setattr(migrate, "history", lambda: known)
    with pytest.raises(errors.Error, match=r"older release .*run ironic-lite-dbsync upgrade"):
        migrate.check(sqlite_database)


def test_an_unknown_revision_is_refused(empty_database: Database) -> None:
    with pytest.raises(errors.InvalidParameter, match="'nonsense' is not one of 0030"):
        migrate.upgrade(empty_database, "nonsense")
    assert migrate.revision(empty_database) is None


def test_discoveries_under_way_get_the_time_of_their_node(empty_database: Database) -> None:
    migrate.upgrade(empty_database, "0032")
    run = {"run_uuid": new_uuid(), "created_at": NOON}
    add_node(empty_database, name="discovered", provision_state="enroll", **run)
    add_node(empty_database, name="enrolled", provision_state="enroll", created_at=NOON)
    add_node(empty_database, name="cleaned", provision_state="cleaning", **run)
    migrate.upgrade(empty_database)
    times = {
        name: get_node(empty_database, name)["provision_updated_at"]
        for name in ("discovered", "enrolled", "cleaned")
    }
    assert times == {"discovered": NOON, "enrolled": None, "cleaned": None}


# -- what is known without loading alembic ---------------------------------------------------


def test_file_names_say_what_the_migrations_say() -> None:
    previous = None
    for path in sorted((migrate.FOLDER / "versions").glob("*.py")):
        found = re.findall(r'^(?:down_)?revision = "?(\w+)"?$', path.read_text(), re.MULTILINE)
        assert path.name.startswith(f"{found[0]}_")
        assert found[1] == str(previous)
        previous = found[0]
    assert migrate.head() == previous
    assert migrate.history()[0] == ("0030", "first release")


def test_checking_a_ready_database_loads_no_migration_tool(sqlite_database: Database) -> None:
    code = (
        "import sys; from ironic_lite.db.tables import migrate; "
        "from ironic_lite.db.engine import session; "
        "database = session.open_database(sys.argv[1]); "
        "migrate.check(database); migrate.upgrade(database); "
        "sys.exit('alembic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(sqlite_database.url)], check=False, timeout=60
    )
    assert done.returncode == 0


# ``ironic-lite-dbsync`` and a missing SQLite file.


def run(path: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program with a configured file."""
    settings = path.with_suffix(".conf")
    settings.write_text(f"[database]\nconnection = sqlite:///{path}\n")
    program = str(service.SCRIPTS / "ironic-lite-dbsync")
    command = [program, "--config-file", str(settings), *words]
    return prefork.run(command, env=service.environment(), timeout=60)


def register(database: Database, host: str, age: float, *, online: bool = True) -> int:
    def write(conn: Connection) -> int:
        at = clock.after(-age)
        made = conductors.register(conn, host=host, group="", version=None, now=at)
        row = {"hardware_type": "fake-hardware", "interface_type": "power", "is_default": True}
        conductors.set_interfaces(conn, made, [{**row, "interface_name": "fake", "methods": None}])
        conductors.touch(conn, host=host, now=at, online=online)
        return made

    return database.write(write)


def test_retired_conductor_is_forgotten(database: Database, tmp_path: pathlib.Path) -> None:
    register(database, "dead", 1000)
    register(database, "signed-off", 1, online=False)
    register(database, "alive", 1)
    register(database, "locked", 1000)
    node = add_node(database, reservation="locked")
    settings = tmp_path / "ironic-lite.conf"
    url = database.url.render_as_string(hide_password=False)
    settings.write_text(f"[database]\nconnection = {url}\n")

    def forget(host: str) -> subprocess.CompletedProcess[str]:
        program = str(service.SCRIPTS / "ironic-lite-dbsync")
        command = [program, "--config-file", str(settings), "forget_conductor", host]
        return prefork.run(command, env=service.environment(), timeout=60)

    for host in ("dead", "signed-off"):
        done = forget(host)
        assert (done.returncode, done.stdout) == (0, f"Conductor {host} is forgotten.\n")
    said = {
        "dead": "could not be found",
        "alive": "Conductor alive is alive. Stop it first.",
        "locked": f"Conductor locked holds the locks of nodes: {node}.",
    }
    for host, text in said.items():
        done = forget(host)
        assert done.returncode == 1
        assert text in done.stderr
    left = database.read(conductors.all)
    assert [row["hostname"] for row in left] == ["alive", "locked"]
    interfaces = database.read(conductors.interfaces)
    assert {row["hostname"] for row in interfaces} == {"alive", "locked"}


def test_heartbeat_ahead_of_the_clock_is_watched(database: Database) -> None:
    """A clock that was ahead by years has written it, or a living conductor whose clock is."""
    register(database, "dead", -2 * 8760 * 3600)

    def read() -> list[Row]:
        return database.read(conductors.all)

    assert membership.living_hosts(read, 2) == []
    begun, beats = time.monotonic(), itertools.count()

    def beat() -> list[Row]:
        register(database, "ahead", -8760 * 3600 - next(beats))
        return read()

    assert "ahead" in membership.living_hosts(beat, 3600)
    assert time.monotonic() - begun < 60
    register(database, "here", 0)
    assert "here" in membership.living_hosts(read, 3600)


def test_conductor_that_starts_meanwhile_is_not_forgotten(database: Database) -> None:
    register(database, "one", 1000)
    row = database.read(lambda conn: conductors.get(conn, "one"))
    register(database, "one", 0)
    assert not database.write(lambda conn: conductors.forget(conn, row))
    assert database.read(lambda conn: conductors.get(conn, "one"))["online"]
    interfaces = database.read(conductors.interfaces)
    assert {one["hostname"] for one in interfaces} == {"one"}


@pytest.mark.parametrize("command", ["version", "history", "reencrypt", "end_runs"])
def test_command_that_makes_no_tables_creates_no_file(tmp_path: pathlib.Path, command: str) -> None:
    path = tmp_path / "moved.sqlite"
    done = run(path, command)
    assert done.returncode == 1
    assert f"the file {path} does not exist" in done.stderr
    assert not path.exists()


def test_upgrade_creates_a_missing_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new.sqlite"
    assert run(path, "upgrade").returncode == 0
    assert path.exists()


# Rows rewritten while the service runs, by a change of this file's own: there is none yet.

OLD, NEW = "kept in capitals", "KEPT IN CAPITALS"
_NODE = models.nodes.c
_IS_OLD = _NODE.description == OLD


def _left(conn: Connection) -> int:
    count = sa.select(sa.func.count()).select_from(models.nodes).where(_IS_OLD)
    return int(conn.execute(count).scalar_one())


def _rewrite(conn: Connection, most: int) -> int:
    found = conn.execute(sa.select(_NODE.uuid).where(_IS_OLD).limit(most)).scalars().all()
    change = models.nodes.update().where(_NODE.uuid.in_(found), _IS_OLD).values(description=NEW)
    return conn.execute(change).rowcount


CAPITALS = migrate.DataMigration("capitals", "0999", _left, _rewrite)


@pytest.fixture
def capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that keeps descriptions in capitals."""
    monkeypatch.setattr(migrate, "DATA_MIGRATIONS", (CAPITALS,))
    monkeypatch.setattr(migrate, "ROWS_AT_ONCE", 2)


@pytest.mark.usefixtures("capitals")
def test_rows_are_rewritten_part_by_part_and_nothing_else(database: Database) -> None:
    old = [add_node(database, description=OLD) for _ in range(5)]
    other = add_node(database, description="another")
    assert migrate.migrate_data(database, 3) == [migrate.MigratedRows("capitals", 5, 3)]
    assert database.read(migrate.unmigrated_rows) == {"capitals": 2}
    assert migrate.migrate_data(database) == [migrate.MigratedRows("capitals", 2, 2)]
    assert migrate.migrate_data(database) == [migrate.MigratedRows("capitals", 0, 0)]
    assert {get_node(database, node)["description"] for node in old} == {NEW}
    assert get_node(database, other)["description"] == "another"


@pytest.mark.usefixtures("capitals")
def test_an_upgrade_that_needs_them_refuses_to_begin(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node(sqlite_database, description=OLD)
    known = (*migrate.history(), migrate.Revision("0999", "from the future"))
    monkeypatch.setattr(migrate, "history", lambda: known)
    with pytest.raises(errors.Error, match=r"\(capitals: 1\): run .* online_data_migrations"):
        migrate.upgrade(sqlite_database)
    assert migrate.revision(sqlite_database) == known[-2].number
    migrate.migrate_data(sqlite_database)
    sqlite_database.read(lambda conn: migrate.refuse_unmigrated(conn, known[-2].number, "0999"))
    assert get_node(sqlite_database, node)["description"] == NEW


@pytest.mark.usefixtures("capitals")
def test_the_command_says_what_is_left(
    sqlite_database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        add_node(sqlite_database, description=OLD)

    def command(most: int | None) -> int:
        conf = types.SimpleNamespace(command=types.SimpleNamespace(max_count=most))
        return dbsync.online(conf, sqlite_database)

    assert command(2) == dbsync.EXIT_MORE
    assert capsys.readouterr().out == "capitals: 2 of 3 rows rewritten\n1 rows are left\n"
    assert command(None) == 0
    assert capsys.readouterr().out == "capitals: 1 of 1 rows rewritten\nNothing is left to do.\n"


@pytest.mark.parametrize(
    ("words", "status", "said"), [((), 0, "Nothing is left"), (("--max-count", "0"), 2, "above 0")]
)
def test_the_program(
    sqlite_database: Database, tmp_path: pathlib.Path, words: Sequence[str], status: int, said: str
) -> None:
    path = tmp_path / "ironic-lite.conf"
    path.write_text(f"[database]\nconnection = {sqlite_database.url}\n")
    program = str(service.SCRIPTS / "ironic-lite-dbsync")
    command = [program, "--config-file", str(path), "online_data_migrations", *words]
    done = prefork.run(command, env=service.environment(), timeout=60)
    assert done.returncode == status, done.stderr
    assert said in done.stdout + done.stderr
