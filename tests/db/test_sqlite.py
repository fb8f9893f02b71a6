"""A SQLite file: taken away while it is in use, kept connections, and the size of its log."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine import session, sqlite
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from tests.support import private_servers
from tests.support.database_rows import add_node, get_node


def _path(database: Database) -> pathlib.Path:
    return pathlib.Path(str(database.url.database))


def _write(conn: Connection) -> None:
    conn.exec_driver_sql("INSERT INTO alembic_version VALUES ('x')")


def _count(conn: Connection) -> int:
    return int(
        conn.execute(
            sa.text("SELECT count(*) FROM alembic_version WHERE version_num = 'x'")
        ).scalar_one()
    )


def test_a_removed_file_is_neither_written_nor_made_anew(sqlite_database: Database) -> None:
    path = _path(sqlite_database)
    assert sqlite_database.read(_count) == 0
    away = path.rename(path.with_name("away"))
    for work in (sqlite_database.read, sqlite_database.write):
        with pytest.raises(errors.Unavailable, match=r"has been removed .* Put it back"):
            work(_write)
    assert not path.exists()
    away.rename(path)
    sqlite_database.write(_write)
    assert sqlite_database.read(_count) == 1


def test_file_that_is_away_at_the_start_of_a_process_is_not_created(
    sqlite_database: Database,
) -> None:
    path = _path(sqlite_database)
    sqlite_database.write(_write)
    sqlite_database.close()
    away = path.rename(path.with_name("away"))
    with contextlib.closing(
        session.open_database(f"sqlite:///{path}", sqlite_create=False)
    ) as late:
        with pytest.raises(errors.Unavailable, match="unable to open database file"):
            late.read(_count)
        assert not path.exists()
        away.rename(path)
        assert late.read(_count) == 1


def test_a_replaced_file_is_not_written(sqlite_database: Database) -> None:
    path = _path(sqlite_database)
    sqlite_database.write(_write)
    away = path.rename(path.with_name("away"))
    path.write_bytes(b"")
    with pytest.raises(errors.Unavailable, match="has been replaced while it was in use"):
        sqlite_database.write(_write)
    assert path.read_bytes() == b""
    away.rename(path)
    assert sqlite_database.read(_count) == 1


def test_a_connection_made_while_the_file_is_away_makes_no_new_one(
    sqlite_database: Database,
) -> None:
    """It may be made just after the look at the path: nothing else keeps it from that."""
    path = _path(sqlite_database)
    sqlite_database.write(_write)
    sqlite_database.close()
    away = path.rename(path.with_name("away"))
    with pytest.raises(sa.exc.OperationalError):
        sqlite_database.engine.connect()
    assert not path.exists()
    away.rename(path)
    assert sqlite_database.read(_count) == 1


def _beside(database: Database, suffix: str) -> pathlib.Path:
    return pathlib.Path(f"{_path(database)}{suffix}")


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
def test_database_whose_log_was_taken_away_is_not_used(
    sqlite_database: Database, suffix: str, replaced: bool
) -> None:
    """Its rows would be lost with the process, and other processes would not see them."""
    sqlite_database.write(_write)
    path = _beside(sqlite_database, suffix)
    away = path.rename(path.with_name("away"))
    if replaced:
        path.write_bytes(away.read_bytes())
    said = "replaced" if replaced else "removed"
    for work in (sqlite_database.read, sqlite_database.write):
        with pytest.raises(errors.Unavailable, match=f"{suffix} has been {said} .* in order"):
            work(_write)
    away.rename(path)
    assert sqlite_database.read(_count) == 1


def _fill(conn: Connection) -> None:
    conn.exec_driver_sql("CREATE TABLE filler (text TEXT)")
    conn.exec_driver_sql("INSERT INTO filler VALUES (hex(zeroblob(1000000)))")


@pytest.mark.parametrize("left", [0, 100, 5000])
@pytest.mark.parametrize("emptied", [False, True])
def test_database_whose_log_was_cut_is_not_used(
    sqlite_database: Database, left: int, emptied: bool
) -> None:
    sqlite_database.write(_fill)
    sqlite_database.write(_write)
    if emptied:  # the rows are in the file, but a crash would lose those of the next frames
        sqlite_database.read(lambda conn: conn.exec_driver_sql("PRAGMA wal_checkpoint").all())
    sqlite_database.read(_count)
    os.truncate(_beside(sqlite_database, "-wal"), left)
    for work in (sqlite_database.read, sqlite_database.write):
        with pytest.raises(errors.Unavailable, match="-wal has been cut while it was in use"):
            work(_write)


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_file_that_was_cut_stays_refused_although_another_process_fills_it(
    sqlite_database: Database, suffix: str
) -> None:
    sqlite_database.write(_write)
    sqlite_database.read(lambda conn: conn.exec_driver_sql("PRAGMA wal_checkpoint").all())
    sqlite_database.write(_fill)
    sqlite_database.read(_count)
    path = _beside(sqlite_database, suffix)
    size = path.stat().st_size
    os.truncate(path, size // 2 if not suffix else 0)
    for _ in range(2):
        for work in (sqlite_database.read, sqlite_database.write):
            with pytest.raises(errors.Unavailable, match=r"been cut .* in use\. Stop every"):
                work(_write)
        os.truncate(path, size + 4096)  # as a writer beyond the end does


@pytest.mark.parametrize("in_log", [False, True])
def test_database_whose_file_was_cut_is_not_used(sqlite_database: Database, in_log: bool) -> None:
    path = _path(sqlite_database)
    sqlite_database.write(_write)
    if not in_log:
        sqlite_database.read(lambda conn: conn.exec_driver_sql("PRAGMA wal_checkpoint").all())
    sqlite_database.read(_count)
    os.truncate(path, path.stat().st_size // 2)
    for _ in range(2):
        with pytest.raises(errors.Unavailable, match=r"sqlite has been cut while it was in use"):
            sqlite_database.write(_write)


def _other_program(database: Database, *statements: str) -> None:
    """Run statements as an administrator does, in a process of its own."""
    program = "import sqlite3, sys\nconn = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    program += "for each in sys.argv[2:]:\n    conn.execute(each).fetchall()\n"
    command = [sys.executable, "-c", program, str(_path(database)), *statements]
    subprocess.run(command, check=True, timeout=60)


def test_pages_that_are_only_in_the_log_are_no_fault(sqlite_database: Database) -> None:
    path = _path(sqlite_database)
    sqlite_database.write(_write)
    before = path.stat().st_size
    sqlite_database.write(_fill)
    assert path.stat().st_size == before
    assert sqlite_database.read(_count) == 1


def test_checkpoint_and_vacuum_of_another_program_are_no_faults(sqlite_database: Database) -> None:
    path, log = _path(sqlite_database), _beside(sqlite_database, "-wal")
    sqlite_database.write(_fill)
    sqlite_database.read(_count)
    _other_program(sqlite_database, "PRAGMA wal_checkpoint(TRUNCATE)")
    assert log.stat().st_size == 0
    assert sqlite_database.read(_count) == 0
    before = path.stat().st_size
    _other_program(
        sqlite_database, "DROP TABLE filler", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"
    )
    assert path.stat().st_size < before
    sqlite_database.write(_write)
    assert sqlite_database.read(_count) == 1


@pytest.mark.parametrize(
    ("code", "cut"),
    [
        (sqlite3.SQLITE_IOERR_READ, True),
        (sqlite3.SQLITE_IOERR_SHORT_READ, True),
        (sqlite3.SQLITE_CORRUPT, True),
        (sqlite3.SQLITE_NOTADB, True),
        (sqlite3.SQLITE_IOERR_NOMEM, False),
        (sqlite3.SQLITE_IOERR_SHMOPEN, False),
        (sqlite3.SQLITE_IOERR_LOCK, False),
    ],
)
def test_results_of_a_short_file_alone_are_a_cut(
    tmp_path: pathlib.Path, code: int, cut: bool
) -> None:
    path = tmp_path / "some.sqlite"
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(f"{path}{suffix}").write_bytes(b"x" * 8192)
    file = sqlite.OpenFile(str(path))
    file.remember(None, None)
    os.truncate(path, 4096)

    def fail(_pragmas: Sequence[str]) -> list[Any]:
        why = sqlite3.OperationalError("disk I/O error")
        why.sqlite_errorcode = code
        raise why

    with pytest.raises(errors.Unavailable if cut else sqlite3.OperationalError):
        file.confirm(fail)
    kept = pytest.raises(errors.Unavailable, match="cut") if cut else contextlib.nullcontext()
    with kept:
        file.confirm(lambda _pragmas: [(4096,), (1,)])


def test_full_disk_after_a_checkpoint_is_no_cut(tmp_path: pathlib.Path) -> None:
    """The look at a log that has become smaller writes its frames into the file."""
    with contextlib.ExitStack() as made:
        try:
            made.enter_context(private_servers.small_disk(tmp_path, 8))
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        file = tmp_path / "small.sqlite"
        create = "CREATE TABLE alembic_version (version_num TEXT)"
        database = made.enter_context(
            contextlib.closing(session.open_database(f"sqlite:///{file}"))
        )
        database.write(lambda conn: conn.exec_driver_sql(create))
        database.write(_fill)
        database.read(_count)
        _other_program(
            database,
            "PRAGMA wal_checkpoint(TRUNCATE)",
            "INSERT INTO filler VALUES (hex(zeroblob(200000)))",
        )
        with contextlib.suppress(OSError), (tmp_path / "ballast").open("wb", buffering=0) as out:
            while out.write(b"x" * 4096):
                pass
        for _ in range(2):
            assert database.read(_count) == 0
        (tmp_path / "ballast").unlink()
        database.write(_write)
        assert database.read(_count) == 1


def test_log_of_closed_connections_may_go(sqlite_database: Database) -> None:
    sqlite_database.write(_write)
    sqlite_database.close()
    assert not _beside(sqlite_database, "-wal").exists()
    assert sqlite_database.read(_count) == 1


def test_rows_in_a_removed_log_are_kept_by_an_orderly_stop(sqlite_database: Database) -> None:
    sqlite_database.write(_write)
    _beside(sqlite_database, "-wal").unlink()
    with pytest.raises(errors.Unavailable):
        sqlite_database.read(_count)
    sqlite_database.close()
    assert sqlite_database.read(_count) == 1


def _driver_connection(conn: Connection) -> int:
    return id(conn.connection.dbapi_connection)


def test_small_reads_share_a_connection_and_see_each_commit(sqlite_database: Database) -> None:
    first = add_node(sqlite_database)

    def begin(conn: Connection) -> int:
        # A result that is not read to its end, as after an error.
        conn.execute(sa.select(models.nodes.c.uuid)).fetchone()
        return _driver_connection(conn)

    used = {sqlite_database.read(begin)}
    second = add_node(sqlite_database)
    for node in (first, second):
        assert get_node(sqlite_database, node)["uuid"] == node
        used.add(sqlite_database.read(_driver_connection))
    assert len(used) == 1


def test_connection_of_a_failed_read_is_of_further_use(sqlite_database: Database) -> None:
    node = add_node(sqlite_database)
    for _ in range(5):
        with pytest.raises(errors.NodeNotFound):
            get_node(sqlite_database, "absent")
        with pytest.raises(sa.exc.OperationalError):
            sqlite_database.read(lambda conn: conn.execute(sa.text("SELECT * FROM absent")))
        assert get_node(sqlite_database, node)["uuid"] == node


def test_kept_connections_leave_the_only_one_to_a_writer(sqlite_database: Database) -> None:
    url = sqlite_database.url
    database = session.open_database(url, max_pool_size=1, max_overflow=0, pool_timeout=1)
    with contextlib.closing(database):
        node = add_node(database)
        assert get_node(database, node)["uuid"] == node
        assert add_node(database)


def test_close_closes_kept_connections(sqlite_database: Database) -> None:
    used: list[Connection] = []
    sqlite_database.read(used.append)
    assert not used[0].closed
    sqlite_database.close()
    assert used[0].closed
    assert get_node(sqlite_database, add_node(sqlite_database))


_ROWS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 9) "
    "SELECT n.x, version_num FROM n, alembic_version"
)


def test_log_stays_small_although_there_is_always_a_read_under_way(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOG_BYTES", 256 * 1024)
    node, ended = add_node(sqlite_database), threading.Event()
    log = pathlib.Path(f"{sqlite_database.url.database}-wal")

    def read(conn: Connection) -> None:
        found = conn.exec_driver_sql(_ROWS)
        found.fetchone()
        time.sleep(0.02)
        found.close()

    with contextlib.closing(session.open_database(sqlite_database.url)) as database:

        def read_on() -> None:
            while not ended.is_set():
                database.read(read)

        readers = [threading.Thread(target=read_on) for _ in range(4)]
        for reader in readers:
            reader.start()
        largest = 0
        try:
            for number in range(400):
                text = {"description": f"{number:08000}"}
                database.write(
                    lambda conn, text=text, number=number: nodes.edit(  # type: ignore[misc]
                        conn, node, text, generation=number
                    )
                )
                largest = max(largest, log.stat().st_size)
        finally:
            ended.set()
            for reader in readers:
                reader.join()
    assert largest < 1024 * 1024


def test_full_disk_is_reported_with_advice(sqlite_database: Database) -> None:
    def fill(conn: Connection) -> None:
        conn.exec_driver_sql("PRAGMA max_page_count = 1")  # SQLite raises it to the present size
        conn.exec_driver_sql("CREATE TABLE filler AS SELECT zeroblob(1000000)")

    with pytest.raises(errors.Unavailable, match=r"has no space left .*full\)\. Free space"):
        sqlite_database.write(fill)


@pytest.mark.parametrize("name", ["a%20b%41", "{x}$$HOME", "what?x=1#b", "%(x)s"])
def test_state_path_of_any_characters_holds_the_database(tmp_path: pathlib.Path, name: str) -> None:
    folder = tmp_path / name.replace("$$", "$")
    file = tmp_path / "test.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/{name}\nhost = t\n")
    command = [sys.executable, "-m", "ironic_lite.cmd.dbsync", "--config-file", str(file)]
    done = subprocess.run(
        [*command, "upgrade"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [one.name for one in folder.iterdir()] == ["ironic-lite.sqlite"]


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give files away")
def test_tables_made_by_root_belong_to_the_owner_of_the_folder(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    os.chown(folder, 65534, 65534)
    file = tmp_path / "test.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {folder}\nhost = t\n")
    command = [sys.executable, "-m", "ironic_lite.cmd.dbsync", "--config-file", str(file)]
    done = subprocess.run(
        [*command, "upgrade"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {one.stat().st_uid for one in folder.iterdir()} == {65534}


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give files away")
def test_links_and_other_files_of_root_stay_with_root(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    file = tmp_path / "test.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {folder}\nhost = t\n")
    command = [sys.executable, "-m", "ironic_lite.cmd.dbsync", "--config-file", str(file)]
    for _ in range(2):
        done = subprocess.run(
            [*command, "upgrade"], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        made = folder / "ironic-lite.sqlite"
        if made.stat().st_nlink == 1:
            os.link(made, tmp_path / "elsewhere")
            (folder / "ironic-lite.sqlite.backup").write_text("of root")
            os.chown(folder, 65534, 65534)
    assert {one.stat().st_uid for one in (tmp_path / "elsewhere", *folder.iterdir())} == {0}
