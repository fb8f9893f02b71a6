"""One database of the three kinds: opening, reading, writing, and its errors.

Callers pass a function of a connection to `Database.read` or `Database.write`; query modules
(``db.queries.nodes`` ...) are such functions. They do no network or hardware I/O.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import pathlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import config, log_lines
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine import answer_limit, encryption, fair_lock, faults, prepared, sqlite
from ironic_lite.db.engine.faults import DatabaseFault

LOG = logging.getLogger(__name__)

Connection = sa.Connection
T = TypeVar("T")

# Retries of a transaction that loses against others, with growing random pauses. The pauses take
# about three seconds together. `Database.write` also ends the retries when its time is over.
_ATTEMPTS = 9
_FIRST_PAUSE = 0.01  # seconds
_LONGEST_PAUSE = 1.0

_DRIVERS = {
    "sqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
_EXTRAS = {"psycopg": "postgresql", "pymysql": "mysql"}
_SILENCE = 5
"""Seconds after the limit of a statement until a server that has not ended it counts as silent."""
_IDLE_TRANSACTION = 5
"""Seconds after which the server ends a session that is idle in a transaction."""
_BEGIN = {"postgresql": "BEGIN ISOLATION LEVEL READ COMMITTED", "mysql": "BEGIN"}
"""Begins writes; without it the server commits each statement, and a read sends nothing else.

Switching autocommit on for each read would take longer than the read's statement.
"""
_READERS = 4  # one of so many connections is never a writer's
_KEPT = 2
"""Connections kept outside the pool; more uses at once are rare, with one interpreter."""
_LOW_WRITERS = 3
"""Writers of low priority at once. More of them keep the interpreter no busier, but a client then
waits for it behind all of them, at each of its statements, and they need connections that the pool
does not keep. Fewer would leave the interpreter idle while a database on another machine commits.
"""


_FOLLOWERS = "ironic_lite_followers"
"""The execution option of an engine with its followers, by name."""

Follower = Callable[[Connection, str, RowView], None]
"""Called by the transaction that writes columns of a node, or its ``inventory``, with the UUID."""


def followers(bind: sa.Engine | Connection) -> dict[str, Follower]:
    """Return the followers of an engine, or of a connection; features add theirs by name."""
    found: dict[str, Follower] = bind.get_execution_options().get(_FOLLOWERS, {})
    return found


def call_followers(conn: Connection, node: str, values: RowView) -> None:
    """Call each follower after a write; see `Follower`."""
    for follow in followers(conn).values():
        follow(conn, node, values)


def write_node(
    conn: Connection, statement: prepared.Write, node: str, values: RowView, guard: RowView
) -> int:
    """Write columns of a node, and call each follower; return the number of rows.

    Every statement that writes other columns than those of locks and power passes here.

    :param guard: parameters of the statement, and columns that followers do not read.
    """
    count = statement.execute(conn, {**values, **guard})
    if count:
        call_followers(conn, node, values)
    return count


class Transactions(Protocol):
    """Reads and writes of a database, which is all that a conductor's work needs."""

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return the result of ``work``, which reads over one connection."""

    def write(self, work: Callable[[Connection], T], *, once: bool = False) -> T:
        """Return the result of ``work`` after the commit of its one transaction."""


class Database:
    """A database and its pool of connections.

    Threads may share it; processes may not: make it after a fork, never before.

    :ivar kind: ``sqlite``, ``postgresql`` or ``mysql`` (MariaDB too).
    """

    def __init__(self, url: sa.URL, engine: sa.Engine, options: Row) -> None:
        self.url = url
        self.engine = engine
        self.options = options
        self.kind = "mysql" if engine.dialect.name == "mariadb" else engine.dialect.name
        # SQLite has one writer at a time. Threads that queue here continue at once; SQLite's own
        # busy handler polls with long pauses, and is not fair.
        self._turn = fair_lock.FairLock()
        self._complaints = log_lines.LogThrottle()
        self._turn_timeout: float = options["sqlite_busy_timeout"]
        self._retry_seconds: float = (
            self._turn_timeout
            if self.kind == "sqlite"
            else options["statement_timeout"] or float("inf")
        )
        # Waiting writers must leave connections for readers.
        whole = options["max_pool_size"] + options["max_overflow"]
        writers = max(1, whole - whole // _READERS)
        self._writers = fair_lock.FairLock(writers, min(writers, _LOW_WRITERS))
        self._writers_timeout: float = options["pool_timeout"]
        self._kept = prepared.KeptConnections(
            engine,
            min(_KEPT, whole // _READERS),
            # A file needs no check of age.
            None if self.kind == "sqlite" else options["connection_recycle_time"],
        )
        self._file: sqlite.OpenFile | None = None
        if self.kind == "sqlite":
            self._log = sqlite.WriteAheadLog(str(url.database))
            self._file = sqlite.OpenFile(str(url.database))
            sa.event.listen(engine, "connect", self._file.remember)
            sa.event.listen(engine, "close", self._file.forget)

    def __repr__(self) -> str:
        return f"<Database {self.name}>"

    @property
    def name(self) -> str:
        """The URL without password and options, for messages."""
        shown = self.url.set(query={}).render_as_string(hide_password=True)
        return shown.replace("file%3A//", "")  # of a path as a URI

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return the result of ``work``, which reads over one connection.

        Each statement sees the rows committed when it starts. A dead connection (after a restart of
        the server) is replaced once, so ``work`` may run twice.

        :raises errors.Unavailable: the database is away, or refuses this to our account.
        """
        try:
            return self._once(work)
        except faults.DRIVER_ERRORS as error:
            fault = faults.classify(error)
            if faults.silence(error) or fault not in (
                DatabaseFault.DISCONNECTED,
                DatabaseFault.CONTENTION,
            ):
                raise self._error_for_callers(error) from error
            if fault is DatabaseFault.DISCONNECTED:
                self._kept.close()
        try:
            return self._once(work)
        except faults.DRIVER_ERRORS as error:
            raise self._error_for_callers(error) from error

    def write(self, work: Callable[[Connection], T], *, once: bool = False) -> T:
        """Return the result of ``work`` after the commit of its one transaction.

        A transaction that ends in a deadlock, a serialization failure or a lock timeout is rolled
        back and repeated, up to nine times with random pauses, until [database]sqlite_busy_timeout
        or [database]statement_timeout is over; one whose connection dies before the commit, once.
        So ``work`` must be repeatable: only statements.

        :param once: never repeat, for work that the database cannot roll back.
        :raises errors.Unavailable: the database is away, or too busy for too long. If the
            connection died during the commit, the fact ``doubtful`` says that the change may be
            made.
        :raises errors.InvalidRequest: the database cannot store a value.
        """
        left = {DatabaseFault.CONTENTION: _ATTEMPTS - 1, DatabaseFault.DISCONNECTED: 1}
        end = time.monotonic() + self._retry_seconds
        while True:
            progress: list[str] = []
            try:
                with self._write_turn(), self._complaints:
                    return self._once(functools.partial(self._in_transaction, work, progress))
            except faults.DRIVER_ERRORS as error:
                fault = faults.classify(error)
                if "commit" in progress and fault is DatabaseFault.DISCONNECTED:
                    raise self._error_for_callers(
                        error, "; the change may have been made or not"
                    ) from error
                late = fault is DatabaseFault.CONTENTION and time.monotonic() >= end
                if once or late or faults.silence(error) or not left.get(fault):
                    raise self._error_for_callers(error) from error
                left[fault] -= 1
                if fault is DatabaseFault.DISCONNECTED:
                    self._kept.close()
            if fault is DatabaseFault.CONTENTION:
                tried = _ATTEMPTS - left[fault]
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**tried)))

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        self.engine.dispose()
        self._kept.close()

    # -- inside ------------------------------------------------------------------------------

    def _once(self, work: Callable[[Connection], T]) -> T:
        """Return the result of ``work`` over one connection, without a repetition."""
        if self._file is not None:
            self._file.confirm(self._pragmas)
        conn = self._kept.take()
        try:
            found = work(conn)
        except BaseException:
            with contextlib.suppress(sa.exc.DBAPIError):
                conn.close()
            raise
        # The work is complete, even if the connection dies before its return.
        with contextlib.suppress(sa.exc.DBAPIError):
            self._kept.give(conn)
        return found

    def _pragmas(self, statements: Sequence[str]) -> list[Any]:
        """Return the first row of each pragma, over one connection."""
        conn = self._kept.take()
        try:
            return [conn.exec_driver_sql(each).first() for each in statements]
        finally:
            self._kept.give(conn)

    def _in_transaction(
        self, work: Callable[[Connection], T], progress: list[str], conn: Connection
    ) -> T:
        transaction = conn.begin()
        try:
            if self.kind == "sqlite":
                # Not BEGIN, because a transaction that reads first and then writes fails at
                # once if another has written in between, despite the busy timeout.
                _driver_connection(conn).execute("BEGIN IMMEDIATE")
            else:
                prepared.command(conn, _BEGIN[self.kind])
            result = work(conn)
            progress.append("commit")
            transaction.commit()
            if self.kind == "sqlite":
                self._log.shorten(_driver_connection(conn))
            return result
        except BaseException as why:
            if self.kind == "mysql" and not conn.invalidated:
                _roll_back(conn)  # SQLAlchemy sends nothing, see _engine_options
            if transaction.is_active or not conn.invalidated:
                transaction.rollback()
            if faults.read_only(why):
                conn.invalidate()
                self.close()  # an old primary: new connections reach the new one
            raise

    @contextlib.contextmanager
    def _write_turn(self) -> Iterator[None]:
        alone = self.kind == "sqlite"
        places = self._turn if alone else self._writers
        timeout = self._turn_timeout if alone else self._writers_timeout
        if not places.acquire(timeout=timeout):
            raise errors.Unavailable(
                f"The database {self.name} is busy: no turn to write within {timeout:g} s. Retry "
                "later."
            )
        try:
            yield
        finally:
            places.release()

    def _error_for_callers(self, error: Exception, more: str = "") -> Exception:
        """Return the error to raise for ``error``: one of ours if a client can act on it."""
        fault, why = faults.classify(error), faults.reason(error)
        if fault is DatabaseFault.VALUE:
            return errors.InvalidRequest(f"The database cannot store a value: {why}")
        if fault in faults.MESSAGES:
            if self._complaints.new(why):
                LOG.warning("Database %s: %s", self.name, why)
            what, advice = faults.MESSAGES[fault]
            said = f"The database {self.name} {what} ({why}){more}. {advice}"
            return errors.Unavailable(said, url=self.name, doubtful=bool(more))
        return error


# -- opening ---------------------------------------------------------------------------------


_OPTIONS = (
    *("max_pool_size", "max_overflow", "pool_timeout", "connection_recycle_time"),
    *("connect_timeout", "statement_timeout", "sqlite_busy_timeout", "encryption_keys"),
)


def configured(conf: Configuration, *, create: bool = False) -> Database:
    """Return the configured database; see `open_database`.

    :param conf: a loaded ``oslo_config.cfg.ConfigOpts``.
    :param create: create a missing SQLite file. Only the programs that create tables do this: while
        the file is moved away, a process that starts would use an empty one.
    """
    options = {name: conf.database[name] for name in _OPTIONS}
    if not conf.database.connection:
        config.state_path(conf)
    return open_database(configured_url(conf), sqlite_create=create, **options)


def configured_url(conf: Configuration) -> str | sa.URL:
    """Return the URL of the configured database."""
    if url := conf.database.connection:
        return str(url)
    # Not as text, in which a %20 or a ? of the path has another meaning.
    file = pathlib.Path(conf.state_path) / "ironic-lite.sqlite"
    return sa.URL.create("sqlite", database=str(file))


def open_database(
    url: str | sa.URL,
    *,
    max_pool_size: int = 10,
    max_overflow: int = 50,
    pool_timeout: float = 30,
    connection_recycle_time: float = 3600,
    connect_timeout: float = 10,
    statement_timeout: float = 30,
    idle_timeout: int = _IDLE_TRANSACTION,
    sqlite_busy_timeout: float = 10,
    sqlite_foreign_keys: bool = True,
    sqlite_create: bool = True,
    encryption_keys: Sequence[str] = (),
) -> Database:
    """Return a database; it connects at the first use.

    :param url: SQLAlchemy URL; without a driver, psycopg and PyMySQL are taken.
    :param statement_timeout: seconds for one statement on PostgreSQL and MariaDB, 0 for no limit.
        The other parameters are those of ``[database]``, all times in seconds.
    :param idle_timeout: seconds for which a transaction there may be idle, 0 for no limit.
    :param sqlite_foreign_keys: False for migrations only. SQLite changes a table by copying it and
        dropping the old one, which would delete the rows that refer to it.
    :param sqlite_create: create a missing file, readable by its owner only.
    :raises config.ConfigError: the URL cannot be used, or its driver is not installed. An unknown
        option in the URL is reported by the first use.
    """
    options = dict(locals())
    del options["url"]
    address = _database_address(url)
    kind = address.get_backend_name()
    engine = _new_engine(address, kind, options)
    prepared.attach(engine)
    engine.update_execution_options(**{_FOLLOWERS: {}})
    if kind == "sqlite":
        sa.event.listen(engine, "do_connect", sqlite.open_existing)
        log = "mode" not in address.query
        prepare = sqlite.prepare(sqlite_busy_timeout, foreign_keys=sqlite_foreign_keys, log=log)
        sa.event.listen(engine, "connect", prepare)
        if sqlite_create:
            sqlite.keep_private(str(address.database))
    elif kind in ("mysql", "mariadb"):
        sa.event.listen(engine, "connect", _prepare_mysql(statement_timeout, idle_timeout))
    sa.event.listen(engine, "do_connect", functools.partial(_connect_driver, statement_timeout))
    return Database(address, engine, options)


def patient(database: Database, url: str | sa.URL | None = None, **changed: Any) -> Database:
    """Return a database whose statements and transactions may take any time, opened like another.

    :param url: its own URL, None for that of ``database``.
    :param changed: parameters of `open_database` that differ from those of ``database``.
    """
    unlimited = {"statement_timeout": 0, "idle_timeout": 0, "sqlite_create": False}
    return open_database(url or database.url, **{**database.options, **unlimited, **changed})


def _new_engine(address: sa.URL, kind: str, options: Row) -> sa.Engine:
    try:
        return sa.create_engine(
            address,
            **encryption.engine_options(encryption.Keys(options["encryption_keys"])),
            pool_size=options["max_pool_size"],
            max_overflow=options["max_overflow"],
            pool_timeout=options["pool_timeout"],
            pool_recycle=int(options["connection_recycle_time"]),
            pool_use_lifo=True,
            hide_parameters=True,  # the text of an error must not show a node's secrets
            **_engine_options(kind, options),
        )
    except ValueError as error:
        raise _bad_url(f"a parameter after the ? has no usable value: {error}") from error
    except ModuleNotFoundError as error:
        extra = _EXTRAS[address.get_driver_name()]
        raise _bad_url(
            f"the driver {error.name} is not installed; pip install ironic_lite[{extra}]"
        ) from error


def _bad_url(reason: str) -> config.ConfigError:
    return config.ConfigError(reason=f"[database]connection: {reason}")


def _database_address(url: str | sa.URL) -> sa.URL:
    try:
        address = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        # The messages of these errors would show a part of the URL, perhaps of the password.
        raise _bad_url("not a database URL such as sqlite:////path/file") from None
    address = address.set(drivername=_DRIVERS.get(address.drivername, address.drivername))
    if address.drivername not in {*_DRIVERS.values(), "sqlite+pysqlite"}:
        known = ", ".join(dict.fromkeys(_DRIVERS.values()))
        raise _bad_url(f"{address.drivername} is not one of {known}")
    if address.get_backend_name() == "sqlite":
        if address.database in (None, "", ":memory:"):
            raise _bad_url("SQLite needs a file: several processes share it")
    elif not address.database and "service" not in address.query:
        raise _bad_url("names no database: it ends like postgresql://user:password@host/name")
    elif "@" in f"{address.host}{address.database}":
        # An @ or / here is part of the password, and would be shown.
        raise _bad_url("write an @ of the password as %40 and a / of it as %2F")
    return address


def _connect_driver(
    statement_timeout: float, dialect: sa.Dialect, _record: Any, args: Any, options: Any
) -> Any:
    """Make a connection; only here a driver reports an unknown option of the URL."""
    driver: Any = dialect.loaded_dbapi
    connect = driver.connect
    if dialect.driver == "psycopg" and statement_timeout:
        limit = statement_timeout + _SILENCE  # the server ends a slow statement first
        connect = answer_limit.connection_class(driver, limit).connect
    try:
        return connect(*args, **options)
    except (TypeError, ValueError, driver.ProgrammingError) as error:
        raise _bad_url(faults.reason(error)) from error


def _engine_options(kind: str, options: Row) -> Row:
    connect = max(1, int(options["connect_timeout"]))
    statement = int(options["statement_timeout"] * 1000)
    lock = min(5000, statement) or 5000  # milliseconds; waits longer than this are repeated instead
    if kind == "sqlite":
        # isolation_level None: the driver never begins a transaction itself; `Database` does.
        return {"connect_args": {"isolation_level": None, "check_same_thread": False}}
    if kind == "postgresql":
        settings = f"-c statement_timeout={statement} -c lock_timeout={lock} -c timezone=UTC"
        # No transaction of this service waits for anything but the database. A stopped process
        # must not hold back the cursors of followers, or its locks.
        settings += f" -c idle_in_transaction_session_timeout={options['idle_timeout'] * 1000}"
        return {
            "isolation_level": "AUTOCOMMIT",  # see _BEGIN
            "connect_args": {
                "connect_timeout": connect,
                "options": settings,
                "application_name": "ironic-lite",
                # The kernel notices a peer that vanished.
                "keepalives_idle": 30,
                "keepalives_interval": 10,
                "keepalives_count": 3,
                "tcp_user_timeout": max(statement, 30000) + 5000,
            },
        }
    # The server ends a slow statement first; the socket's timeout is for a silent server.
    network = int(options["statement_timeout"] + _SILENCE) if statement else None
    return {
        "isolation_level": "AUTOCOMMIT",
        "skip_autocommit_rollback": True,  # after a read, it would be a second round trip
        "connect_args": {
            "connect_timeout": connect,
            "read_timeout": network,
            "write_timeout": network,
            "charset": "utf8mb4",
            "init_command": f"SET SESSION innodb_lock_wait_timeout={lock // 1000 or 1}, "
            "group_concat_max_len=65536, time_zone='+00:00', "
            "sql_mode='STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
        },
    }


def _roll_back(conn: Connection) -> None:
    """Send ROLLBACK; if it fails, close the connection, and keep the error of the transaction."""
    try:
        prepared.command(conn, "ROLLBACK")
    except BaseException as failed:
        conn.invalidate(failed)  # the next BEGIN would commit what is open
        if not isinstance(failed, sa.exc.DBAPIError):
            raise


def _driver_connection(conn: Connection) -> Any:
    return conn.connection.dbapi_connection


def _prepare_mysql(statement_timeout: float, idle_timeout: int) -> Callable[[Any, Any], None]:
    def prepare(connection: Any, _record: Any) -> None:
        maria = "MariaDB" in connection.get_server_info()
        # MySQL's limit is in milliseconds, and for reads only.
        limit = (
            f"max_statement_time={statement_timeout:f}"
            if maria
            else f"max_execution_time={int(statement_timeout * 1000)}"
        )
        if maria:
            limit += f", idle_write_transaction_timeout={idle_timeout}"
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {limit}")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    return prepare
