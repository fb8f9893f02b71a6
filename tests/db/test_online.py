"""Rows rewritten while the service runs, by a change of this file's own: there is none yet."""

from __future__ import annotations

import pathlib
import types
from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.cmd import dbsync
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import migrate, models, online_migrations
from tests.support import prefork, service
from tests.support.database_rows import add_node, get_node

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


CAPITALS = online_migrations.Change("capitals", "0999", _left, _rewrite)


@pytest.fixture
def capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that keeps descriptions in capitals."""
    monkeypatch.setattr(online_migrations, "CHANGES", (CAPITALS,))
    monkeypatch.setattr(online_migrations, "PART", 2)


@pytest.mark.usefixtures("capitals")
def test_rows_are_rewritten_part_by_part_and_nothing_else(database: Database) -> None:
    old = [add_node(database, description=OLD) for _ in range(5)]
    other = add_node(database, description="another")
    assert online_migrations.run(database, 3) == [online_migrations.Outcome("capitals", 5, 3)]
    assert database.read(online_migrations.left) == {"capitals": 2}
    assert online_migrations.run(database) == [online_migrations.Outcome("capitals", 2, 2)]
    assert online_migrations.run(database) == [online_migrations.Outcome("capitals", 0, 0)]
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
    online_migrations.run(sqlite_database)
    sqlite_database.read(lambda conn: online_migrations.refuse(conn, known[-2].number, "0999"))
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
