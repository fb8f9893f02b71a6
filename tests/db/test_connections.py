"""Opening a database, losing it, and finding it again."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.db.engine import answer_limit, faults, session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes, server_health, sweeps
from ironic_lite.db.tables import migrate, models
from tests.chaos import proxy
from tests.emulators import redfish
from tests.support import database_rows, database_servers, private_servers
from tests.support.database_rows import add_node, get_node

_WHO = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}
_KILL = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}


def end_connection(database: Database, conn: Connection) -> None:
    """Have the server close the connection behind ``conn``."""
    number = conn.execute(sa.text(_WHO[database.kind])).scalar()
    database_servers.admin(database.kind, _KILL[database.kind].format(number))


def test_a_read_after_the_server_closed_the_connection_succeeds(server_database: Database) -> None:
    node = add_node(server_database)
    server_database.read(lambda conn: end_connection(server_database, conn))
    assert get_node(server_database, node)["uuid"] == node


def test_a_write_after_the_server_closed_all_connections_succeeds(
    server_database: Database,
) -> None:
    together = threading.Barrier(3)

    def hold(conn: Connection) -> None:
        together.wait(timeout=30)
        end_connection(server_database, conn)

    threads = [threading.Thread(target=server_database.read, args=(hold,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    node = add_node(server_database)
    assert get_node(server_database, node)["uuid"] == node


def test_a_write_that_loses_its_connection_is_done_exactly_once(server_database: Database) -> None:
    node = add_node(server_database)
    once = iter([True])

    def work(conn: Connection) -> None:
        nodes.edit(conn, node, {"name": "new"}, generation=0)
        if next(once, False):
            end_connection(server_database, conn)
            nodes.get(conn, node)

    server_database.write(work)
    assert get_node(server_database, node)["generation"] == 1


_SHORT = {
    "postgresql": "SET idle_in_transaction_session_timeout = 50",
    "mysql": "SET SESSION idle_write_transaction_timeout = 1",
}


def test_transaction_that_the_server_ended_while_we_were_stopped_is_repeated(
    server_database: Database,
) -> None:
    """The time for which we were stopped is no silence of the server."""
    node = add_node(server_database)
    tries: list[int] = []

    def write(conn: Connection) -> None:
        tries.append(1)
        if len(tries) == 1:
            conn.execute(sa.text(_SHORT[server_database.kind]))
        nodes.edit(conn, node, {"description": f"try {len(tries)}"}, generation=0)
        if len(tries) == 1:
            time.sleep(3)  # longer than the server waits
        nodes.get(conn, node)

    hasty: Any = {"connect_timeout": 1}
    with contextlib.closing(session.open_database(server_database.url, **hasty)) as database:
        database.write(write)
    assert get_node(server_database, node)["description"] == "try 2"
    assert len(tries) == 2


def test_end_of_an_idle_transaction_is_the_end_of_its_connection() -> None:
    """The message may arrive before the driver sees that the connection is closed."""
    ended = psycopg.errors.IdleInTransactionSessionTimeout("terminating connection")
    error = sa.exc.InternalError("SELECT 1", {}, ended)
    assert faults.classify(error) is faults.DatabaseFault.DISCONNECTED


def test_a_connection_lost_in_mid_commit_is_not_guessed_about(server_database: Database) -> None:
    node = add_node(server_database)
    tries: list[int] = []

    def work(conn: Connection) -> None:
        tries.append(1)
        nodes.edit(conn, node, {"name": "new"}, generation=0)
        end_connection(server_database, conn)

    with pytest.raises(errors.Unavailable, match="may have been made or not") as caught:
        server_database.write(work)
    assert caught.value.facts["doubtful"] is True
    assert tries == [1]
    assert get_node(server_database, node)["name"] is None


def test_a_server_that_takes_no_changes_any_more_is_left(server_database: Database) -> None:
    """As an old primary is, when another one has been made the primary behind the address."""
    only_read = {
        "postgresql": "SET default_transaction_read_only = on",
        "mysql": "SET SESSION TRANSACTION READ ONLY",
    }

    def turn(first: Connection) -> None:
        first.exec_driver_sql(only_read[server_database.kind])
        server_database.read(lambda second: second.exec_driver_sql(only_read[server_database.kind]))

    server_database.read(turn)
    with pytest.raises(errors.Unavailable, match="takes no changes") as caught:
        add_node(server_database)
    assert not caught.value.facts["doubtful"]
    node = add_node(server_database)
    assert get_node(server_database, node)["uuid"] == node


def test_a_statement_that_takes_too_long_is_ended(server_database: Database) -> None:
    url, sleep = server_database.url, {"postgresql": "pg_sleep(60)", "mysql": "sleep(60)"}
    hasty = session.open_database(url, statement_timeout=0.2)
    slow = sa.text(f"SELECT {sleep[server_database.kind]}, uuid FROM nodes")
    add_node(server_database)
    with pytest.raises(errors.Unavailable):
        hasty.read(lambda conn: conn.execute(slow).all())
    hasty.close()


def test_server_that_falls_silent_is_away_after_the_limit_of_a_statement(
    server_database: Database,
) -> None:
    """Its kernel acknowledges what we send, so no time-out of TCP helps."""
    usual = {"postgresql": 5432, "mysql": 3306}
    with proxy.before(server_database.url.port or usual[server_database.kind]) as way:
        url = server_database.url.set(host="127.0.0.1", port=way.port)
        limits: Any = {"statement_timeout": 1, "connect_timeout": 2}
        with contextlib.closing(session.open_database(url, **limits)) as database:
            add_node(database)
            for work in (database.read, database.write):
                with way.stalled():
                    began = time.monotonic()
                    with pytest.raises(errors.Unavailable, match="does not answer"):
                        work(lambda conn: conn.exec_driver_sql("SELECT 1").all())
                    assert time.monotonic() - began < 30, "one limit, not one for each retry"
                assert add_node(database)


def test_driver_still_runs_each_operation_through_the_limited_wait() -> None:
    """A release of psycopg that changes `Connection.wait` must fail here, without a server."""
    ready = b"R" + struct.pack("!ii", 8, 0) + b"Z" + struct.pack("!i", 5) + b"I"

    def serve() -> None:
        with contextlib.suppress(TimeoutError), listener.accept()[0] as line:
            line.settimeout(30)
            line.recv(1 << 12)  # the startup message
            line.sendall(ready)
            while line.recv(1 << 12):  # statements, which it never answers
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        limited = answer_limit.connection_class(psycopg, 0.5)
        where = {"host": "127.0.0.1", "port": listener.getsockname()[1], "user": "me"}
        conn = limited.connect(**where, dbname="x", sslmode="disable", gssencmode="disable")
        with pytest.raises(psycopg.OperationalError, match="no answer within"):
            conn.execute("SELECT 1")
        assert conn.closed
        server.join(timeout=30)
        assert not server.is_alive()


def test_a_pool_without_a_free_connection_says_so(database: Database) -> None:
    small = session.open_database(database.url, max_pool_size=1, max_overflow=0, pool_timeout=0.05)

    def work(_conn: Connection) -> None:
        with pytest.raises(errors.Unavailable, match="Retry later"):
            small.read(lambda conn: sweeps.count_in(conn, ["active"]))

    small.read(work)
    small.close()


# -- a database that is not there ------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mariadb"])
def test_a_server_that_is_away_is_unavailable_and_its_password_stays_secret(scheme: str) -> None:
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        database = session.open_database(
            f"{scheme}://me:s3cret@127.0.0.1:{port}/things?connect_timeout=2"
        )
        for use in (database.read, database.write):
            with pytest.raises(errors.Unavailable) as caught:
                use(lambda conn: sweeps.count_in(conn, []))
            assert "s3cret" not in caught.value.message + repr(caught.value.facts)
            assert f"127.0.0.1:{port}/things does not answer" in caught.value.message
        assert "s3cret" not in repr(database)


@pytest.mark.parametrize("kind", database_servers.SERVERS)
def test_a_database_that_does_not_exist_is_named(kind: str) -> None:
    with database_servers.own_database(kind, "gone") as url:
        database = session.open_database(url)
        assert database.read(lambda conn: conn.execute(sa.text("SELECT 1")).scalar()) == 1
        database.close()
    with pytest.raises(errors.Unavailable, match=r"_gone.* check .*\[database\]connection"):
        database.read(lambda conn: conn.execute(sa.text("SELECT 1")).scalar())


_PRIVATE = {"postgresql": "SELECT 1 FROM pg_authid", "mysql": "SELECT 1 FROM mysql.global_priv"}


def test_an_account_without_rights_is_told_so(server_database: Database) -> None:
    with pytest.raises(errors.Unavailable, match="Give that account all rights"):
        ask(server_database, _PRIVATE[server_database.kind])
        pytest.skip("NOT TESTED: the account of the tests may do everything.")


def test_a_file_that_may_only_be_read_is_told_so(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE t (a)")
    database = session.open_database(f"sqlite:///file:{path}?mode=ro&uri=true")
    with pytest.raises(errors.Unavailable, match=r"readonly .* Give that account all rights"):
        database.write(lambda conn: conn.execute(sa.text("INSERT INTO t VALUES (1)")))
    database.close()


def test_a_missing_folder_is_named(tmp_path: pathlib.Path) -> None:
    database = session.open_database(f"sqlite:///{tmp_path}/no/such/file")
    with pytest.raises(errors.Unavailable, match=r"no/such/file does not answer \(unable to open"):
        database.read(lambda conn: sweeps.count_in(conn, []))


def test_a_file_that_is_no_database_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("This is a text file and nothing else.\n" * 200)
    database = session.open_database(f"sqlite:///{path}")
    with pytest.raises(errors.Unavailable, match="not a database"):
        database.read(lambda conn: sweeps.count_in(conn, []))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "not a database URL"),
        ("nonsense", "not a database URL"),
        ("postgresql://me:s3cret@host:port/name", "not a database URL"),
        ("oracle://x/y", "oracle is not one of sqlite, postgresql[+]psycopg"),
        ("postgresql+nosuch://x/y", "postgresql[+]nosuch is not one of"),
        ("postgresql+psycopg2://x/y", "postgresql[+]psycopg2 is not one of"),
        ("sqlite+aiosqlite:////x/y", "sqlite[+]aiosqlite is not one of"),
        ("sqlite://", "SQLite needs a file"),
        ("sqlite:///:memory:", "SQLite needs a file"),
        ("sqlite:////x/y?timeout=s3cret", "no usable value"),
        ("postgresql://me:s3cret@host", "names no database"),
        ("mysql://me:s3cret@host/", "names no database"),
        ("mysql://me:to@s3cret/place@host/name", "write an @ of the password as %40"),
        ("postgresql://me:to@s3cret@host/name", "write an @ of the password as %40"),
        ("mysql://me@host/name?connect_timeout=soon", "no usable value"),
    ],
)
def test_a_url_of_no_use_is_a_fault_of_the_configuration(url: str, said: str) -> None:
    with pytest.raises(config.ConfigError, match=rf"^\[database\]connection: .*{said}") as caught:
        session.open_database(url)
    assert "me:s3cret" not in caught.value.message
    assert "s3cret/place" not in caught.value.message
    assert "s3cret@host" not in caught.value.message


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mariadb"])
def test_an_option_that_the_driver_does_not_know_is_named_at_the_first_use(scheme: str) -> None:
    database = session.open_database(f"{scheme}://me@127.0.0.1:1/things?frobnicate=1")
    for use in (database.read, database.write):
        with pytest.raises(config.ConfigError, match=r"^\[database\]connection: .*frobnicate"):
            use(lambda conn: sweeps.count_in(conn, []))


@pytest.mark.parametrize("charset", ["utf8mb4", "utf8", "latin1"])
def test_text_is_stored_whatever_charset_the_url_has(charset: str) -> None:
    with database_servers.own_database("mysql", "charset") as url:
        database = session.open_database(f"{url}?charset={charset}")
        migrate.upgrade(database)
        node = add_node(database, name="\N{GRINNING FACE}")
        assert get_node(database, node)["name"] == "\N{GRINNING FACE}"
        database.close()


# -- how it is opened ------------------------------------------------------------------------


def ask(database: Database, statement: str) -> Any:
    """Return one value."""
    return database.read(lambda conn: conn.execute(sa.text(statement)).scalar())


def test_sqlite_is_opened_for_several_processes(sqlite_database: Database) -> None:
    with contextlib.closing(session.open_database(sqlite_database.url)) as database:
        assert ask(database, "PRAGMA journal_mode") == "wal"
        assert ask(database, "PRAGMA synchronous") == 1
        assert ask(database, "PRAGMA busy_timeout") == 10000
        assert ask(database, "PRAGMA foreign_keys") == 1


def test_a_new_sqlite_file_is_readable_by_its_owner_only(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new.sqlite"
    mask = os.umask(0)
    try:
        session.open_database(f"sqlite:///{path}").close()
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


_TRY_LOCK = """
import fcntl, sys
with open(sys.argv[1], "rb+") as opened:
    try:
        fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("locked")
"""


def test_opening_a_sqlite_file_again_keeps_the_locks_of_its_connections(
    sqlite_database: Database,
) -> None:
    """Else the next process to close the database deletes the log that we still read and write."""
    path = str(sqlite_database.url.database)

    def work(conn: Connection) -> str:
        conn.execute(sa.text("SELECT 1 FROM nodes")).all()
        session.open_database(sqlite_database.url).close()
        attempt = (sys.executable, "-c", _TRY_LOCK, path)
        return subprocess.run(attempt, capture_output=True, text=True, check=True).stdout.strip()

    assert sqlite_database.read(work) == "locked"


def test_servers_read_what_is_committed(server_database: Database) -> None:
    name = {"postgresql": "SHOW transaction_isolation", "mysql": "SELECT @@tx_isolation"}
    shown = []

    def work(conn: Connection) -> None:
        shown.append(conn.execute(sa.text(name[server_database.kind])).scalar())

    server_database.write(work)
    assert str(shown[0]).lower().replace("-", " ") == "read committed"


def test_kept_connection_is_used_until_it_is_too_old(server_database: Database) -> None:
    who = _WHO[server_database.kind]
    assert ask(server_database, who) == ask(server_database, who)
    with contextlib.closing(
        session.open_database(server_database.url, connection_recycle_time=0)
    ) as short:
        assert ask(short, who) != ask(short, who)


def test_connection_in_use_while_the_database_is_closed_is_not_kept(
    server_database: Database,
) -> None:
    who = _WHO[server_database.kind]

    def work(conn: Connection) -> Any:
        server_database.close()  # as another thread does, when the server has become read-only
        return conn.execute(sa.text(who)).scalar()

    used = server_database.read(work)
    assert ask(server_database, who) != used


def test_read_sends_no_rollback_and_a_failed_write_sends_one() -> None:
    with (
        database_servers.own_database("mysql", "rollback") as url,
        contextlib.closing(session.open_database(url)) as database,
    ):
        admin = "CREATE TABLE numbers (number INT) ENGINE=InnoDB"
        database.write(lambda conn: conn.exec_driver_sql(admin))

        def fail(conn: Connection) -> None:
            conn.exec_driver_sql("INSERT INTO numbers VALUES (1)")
            raise errors.Error("on purpose")

        count = "SELECT count(*) FROM numbers"
        rollbacks = (
            "SELECT variable_value FROM information_schema.session_status "
            "WHERE variable_name = 'COM_ROLLBACK'"
        )
        assert ask(database, count) == 0
        assert ask(database, rollbacks) == "0"
        with pytest.raises(errors.Error, match="on purpose"):
            database.write(fail)
        assert ask(database, count) == 0
        assert ask(database, rollbacks) == "1"


def test_write_whose_rollback_fails_is_not_committed_by_the_next_write() -> None:
    with (
        database_servers.own_database("mysql", "rollback") as url,
        contextlib.closing(session.open_database(url)) as database,
    ):
        admin = "CREATE TABLE numbers (number INT) ENGINE=InnoDB"
        database.write(lambda conn: conn.exec_driver_sql(admin))

        def add(conn: Connection, number: int) -> None:
            conn.exec_driver_sql(f"INSERT INTO numbers VALUES ({number})")

        def fail(conn: Connection) -> None:
            add(conn, 1)
            raise errors.Error("on purpose")

        def refuse(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement == "ROLLBACK":
                raise pymysql.err.OperationalError(1047, "WSREP has not yet prepared node")

        sa.event.listen(database.engine, "before_cursor_execute", refuse)
        with pytest.raises(errors.Error, match="on purpose"):
            database.write(fail)
        sa.event.remove(database.engine, "before_cursor_execute", refuse)
        database.write(lambda conn: add(conn, 2))
        assert ask(database, "SELECT group_concat(number) FROM numbers") == "2"


def test_table_that_cannot_grow_is_reported_as_missing_space() -> None:
    """As a tablespace of InnoDB without space, whose errors are not those of a full disk."""
    with (
        database_servers.own_database("mysql", "full") as url,
        contextlib.closing(session.open_database(url)) as database,
    ):

        def make(conn: Connection) -> None:
            conn.exec_driver_sql("SET SESSION max_heap_table_size = 16384")
            conn.exec_driver_sql("CREATE TABLE small (text CHAR(200)) ENGINE=MEMORY")

        def fill(conn: Connection) -> None:
            conn.exec_driver_sql("INSERT INTO small SELECT 'text' FROM seq_1_to_100000")

        database.write(make)
        with pytest.raises(errors.Unavailable, match="has no space left"):
            database.write(fill)


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (1047, faults.DatabaseFault.AWAY),
        (1053, faults.DatabaseFault.DISCONNECTED),
        (1114, faults.DatabaseFault.FULL),
        (1203, faults.DatabaseFault.AWAY),
        (1226, faults.DatabaseFault.AWAY),
    ],
)
def test_faults_of_a_mysql_server_are_not_those_of_a_statement(
    number: int, fault: faults.DatabaseFault
) -> None:
    error = sa.exc.OperationalError("SELECT 1", {}, pymysql.err.OperationalError(number, "text"))
    assert faults.classify(error) is fault


def test_times_of_servers_are_utc_and_limits_are_set(server_database: Database) -> None:
    if server_database.kind == "postgresql":
        assert ask(server_database, "SHOW timezone") == "UTC"
        assert ask(server_database, "SHOW statement_timeout") == "30s"
        assert ask(server_database, "SHOW lock_timeout") == "5s"
    else:
        assert ask(server_database, "SELECT @@session.time_zone") == "+00:00"
        assert ask(server_database, "SELECT @@session.max_statement_time") == 30
        assert ask(server_database, "SELECT @@session.innodb_lock_wait_timeout") == 5


def test_a_server_that_keeps_silent_while_we_connect_is_away() -> None:
    """psycopg has a class of its own for this; without a server there is no SQLSTATE."""
    why = psycopg.errors.ConnectionTimeout("connection timeout expired")
    assert why.sqlstate is None
    assert faults.classify(why) is faults.DatabaseFault.AWAY
    assert faults.classify(psycopg.InterfaceError("a bug")) is faults.DatabaseFault.OTHER


# Connections to servers over TLS, by what the URL says: to servers of our own, on free ports.


class _Tls(private_servers.Server):
    """A server with a certificate that is its own authority."""

    def _keys(self) -> tuple[str, str]:
        found = []
        for name in ("bmc.pem", "bmc.key"):
            path = self.folder / name
            if not path.exists():
                shutil.copy(self.folder.parent / name, path)
                path.chmod(0o600)
                if self._user is not None:
                    shutil.chown(path, self._user)
            found.append(str(path))
        return found[0], found[1]


class PostgreSQL(private_servers.PostgreSQL, _Tls):
    """PostgreSQL that speaks TLS, if it is asked to."""

    used = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    verified = "?sslmode=verify-full&sslrootcert={}"

    def command(self) -> list[str]:
        """Return what starts it."""
        certificate, key = self._keys()
        more = {"ssl": "on", "ssl_cert_file": certificate, "ssl_key_file": key}
        words = [word for name, value in more.items() for word in ("-c", f"{name}={value}")]
        return [*super().command(), *words]


class MariaDB(private_servers.MariaDB, _Tls):
    """MariaDB that speaks TLS, if it is asked to."""

    used = "SELECT variable_value <> '' FROM information_schema.session_status "
    used += "WHERE variable_name = 'Ssl_cipher'"
    verified = "?ssl_ca={}&ssl_check_hostname=true"

    def command(self) -> list[str]:
        """Return what starts it."""
        certificate, key = self._keys()
        return [*super().command(), f"--ssl-cert={certificate}", f"--ssl-key={key}"]


@pytest.fixture(params=[PostgreSQL, MariaDB], ids=["postgresql", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[PostgreSQL | MariaDB]:
    with tempfile.TemporaryDirectory(prefix="tls-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        redfish.certificate(folder)
        try:
            found = request.param(folder)
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        try:
            yield found
        finally:
            found.stop()


def test_the_url_turns_tls_on_and_has_it_verified(server: PostgreSQL | MariaDB) -> None:
    plain = server.url(server.port)
    own = plain + server.verified.format(server.folder.parent / "bmc.pem")
    with contextlib.closing(session.open_database(own)) as database:
        assert database.read(lambda conn: conn.execute(sa.text(server.used)).scalar())

    stranger = server.folder.parent / "stranger"
    stranger.mkdir()
    redfish.certificate(stranger)
    wrong = plain + server.verified.format(stranger / "bmc.pem")
    with contextlib.closing(session.open_database(wrong)) as database:
        with pytest.raises(errors.Unavailable) as refusal:
            database.read(lambda conn: conn.execute(sa.text("SELECT 1")))
        assert "certificate" in refusal.value.message.lower()


# Questions about the database server, on each of them.

PRODUCTS = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mysql": "MariaDB"}


def test_version_names_the_product(database: Database) -> None:
    product, version = database.read(server_health.version).split()
    assert product == PRODUCTS[database.kind]
    assert version[0].isdigit()


def test_time_of_a_server_is_in_utc(database: Database) -> None:
    found = database.read(server_health.present_time)
    if database.kind == "sqlite":
        assert found is None
    else:
        assert found is not None
        assert found.tzinfo is None
        assert abs((found - clock.now()).total_seconds()) < 60


def test_write_leaves_no_row(database: Database) -> None:
    before = database.read(lambda conn: conn.execute(sa.select(models.marks)).all())
    for _ in range(2):
        database.write(lambda conn: server_health.try_write(conn, "doctor-1"))
    assert database.read(lambda conn: conn.execute(sa.select(models.marks)).all()) == before


def test_nodes_are_counted_by_group_and_hardware_type(database: Database) -> None:
    for group, driver in (("", "ipmi"), ("b", "redfish"), ("b", "redfish"), ("b", "ipmi")):
        database_rows.add_node(database, conductor_group=group, driver=driver)
    found = database.read(server_health.node_groups)
    assert found == [("", "ipmi", 1), ("b", "ipmi", 1), ("b", "redfish", 2)]
