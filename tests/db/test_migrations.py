"""Migrations: from nothing and from a filled database to what the models say, and never back."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import autogenerate
from alembic.migration import MigrationContext

from ironic_lite import errors
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import migrate, models, partial_upgrade
from tests.support import database_servers, prefork, service
from tests.support.database_rows import NOON, add_node, get_node, new_uuid

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


def _fill_0001(conn: Connection) -> None:
    """Fill a database as the first release would have, by statements of its own time."""
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


def test_a_filled_database_keeps_its_rows(empty_database: Database) -> None:
    migrate.upgrade(empty_database, "0001")
    empty_database.write(_fill_0001)
    old = set(empty_database.read(_shape))
    migrate.upgrade(empty_database)
    assert migrate.upgrade(empty_database) == migrate.head()
    row = get_node(empty_database, "old-1")
    assert (row["driver_info"], row["created_at"]) == ({"a": "😀"}, NOON)
    # S4.2: nodes from before the field are not retired.
    assert (row["retired"], row["retired_reason"]) == (False, None)
    assert (row["generation"], row["conductor_group"]) == (0, "")

    def count(conn: Connection) -> dict[str, int]:
        tables = models.metadata.tables.values()
        return {
            table.name: conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in tables
        }

    expected = {name: int(name in old) for name in models.metadata.tables}
    # Migrations insert the rows of the table `marks`.
    assert empty_database.read(count) == {**expected, "marks": 3}


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
    migrate.upgrade(empty_database, "0001")
    empty_database.write(_fill_0001)
    migrate.upgrade(empty_database)
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
        if path.name.startswith("0001_"):
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
        assert len(deaths) > 10  # in each migration
        assert migrate.upgrade(database) == migrate.head()
        assert database.read(_differences) == []
        assert not database.read(partial_upgrade.broken_off)


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
            conn.exec_driver_sql(f"CREATE TABLE {partial_upgrade.MARK.name} (since DATETIME)")
        assert migrate.upgrade(database) == migrate.head()
        assert not database.read(partial_upgrade.broken_off)


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
    empty_database.write(_fill_0001)
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
    with pytest.raises(errors.InvalidParameter, match="'nonsense' is not one of 0001"):
        migrate.upgrade(empty_database, "nonsense")
    assert migrate.revision(empty_database) is None


# -- what is known without loading alembic ---------------------------------------------------


def test_file_names_say_what_the_migrations_say() -> None:
    previous = None
    for path in sorted((migrate.FOLDER / "versions").glob("*.py")):
        found = re.findall(r'^(?:down_)?revision = "?(\w+)"?$', path.read_text(), re.MULTILINE)
        assert path.name.startswith(f"{found[0]}_")
        assert found[1] == str(previous)
        previous = found[0]
    assert migrate.head() == previous
    assert migrate.history()[0] == ("0001", "first release")


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
