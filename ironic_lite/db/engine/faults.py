"""Classification of database errors: retry, reconnect, or give up.

The three drivers report the same faults in three forms; this module makes one `DatabaseFault` each.
"""

from __future__ import annotations

import enum
import re
import sqlite3
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import RowView


class DatabaseFault(enum.Enum):
    """The consequence of a database error."""

    CONTENTION = enum.auto()  # another transaction was faster: repeat the whole transaction
    DISCONNECTED = enum.auto()  # this connection is dead: try another one
    AWAY = enum.auto()  # no connection, no time: the caller has to retry later
    FULL = enum.auto()  # no space on the disk: the operator has to act
    REFUSED = enum.auto()  # the account lacks a right: the operator has to act
    READ_ONLY = enum.auto()  # the server is read-only: another may be the primary now
    VALUE = enum.auto()  # the database cannot store this value
    DUPLICATE = enum.auto()  # a unique value is taken
    REFERENCE = enum.auto()  # a referenced row is missing, or a row is still referenced
    OTHER = enum.auto()  # an internal fault


_LATER = "Retry later."
MESSAGES: Mapping[DatabaseFault, tuple[str, str]] = {
    DatabaseFault.CONTENTION: ("is too busy", _LATER),
    DatabaseFault.DISCONNECTED: ("does not answer", _LATER),
    DatabaseFault.AWAY: (
        "does not answer",
        "Retry later; if that does not help, check the database and [database]connection.",
    ),
    DatabaseFault.FULL: ("has no space left", "Free space on its disk, then retry."),
    DatabaseFault.REFUSED: (
        "refuses this to the account of [database]connection",
        "Give that account all rights on the database.",
    ),
    DatabaseFault.READ_ONLY: ("takes no changes", _LATER),
}
"""Messages of the faults that clients see, and the advice for each."""

# SQLSTATE classes and codes, see PostgreSQL's appendix "Error Codes".
_POSTGRESQL: Mapping[str, DatabaseFault] = {
    "40001": DatabaseFault.CONTENTION,  # serialization failure
    "40P01": DatabaseFault.CONTENTION,  # deadlock
    "55P03": DatabaseFault.CONTENTION,  # lock time-out
    "23505": DatabaseFault.DUPLICATE,
    "23503": DatabaseFault.REFERENCE,
    "25006": DatabaseFault.READ_ONLY,
    "25P03": DatabaseFault.DISCONNECTED,  # this process was stopped within a transaction
    "42501": DatabaseFault.REFUSED,
    "53100": DatabaseFault.FULL,
    "57014": DatabaseFault.AWAY,  # statement time-out
}
_POSTGRESQL_CLASSES: Mapping[str, DatabaseFault] = {
    "08": DatabaseFault.AWAY,  # connection exceptions
    "22": DatabaseFault.VALUE,  # data exceptions
    "28": DatabaseFault.REFUSED,  # no such user, wrong password
    "53": DatabaseFault.AWAY,  # out of connections, memory
    "57": DatabaseFault.AWAY,  # shutting down, starting up
    "58": DatabaseFault.AWAY,  # I/O errors
}
# Numbers of MariaDB's and MySQL's error lists.
_MYSQL: Mapping[int, DatabaseFault] = {
    1205: DatabaseFault.CONTENTION,  # lock wait time-out
    1213: DatabaseFault.CONTENTION,  # deadlock
    1020: DatabaseFault.CONTENTION,  # record changed since it was read (snapshot isolation)
    1062: DatabaseFault.DUPLICATE,
    1451: DatabaseFault.REFERENCE,
    1452: DatabaseFault.REFERENCE,
    1264: DatabaseFault.VALUE,  # number out of range
    1366: DatabaseFault.VALUE,  # not of this character set or type
    1406: DatabaseFault.VALUE,  # too long
    4025: DatabaseFault.VALUE,  # a check failed, such as json_valid
    1021: DatabaseFault.FULL,
    1114: DatabaseFault.FULL,  # a tablespace cannot grow
    1040: DatabaseFault.AWAY,  # too many connections
    1203: DatabaseFault.AWAY,  # too many connections of this account
    1226: DatabaseFault.AWAY,  # the account's own limit, of connections or of statements
    1044: DatabaseFault.REFUSED,  # access denied
    1045: DatabaseFault.REFUSED,
    1047: DatabaseFault.AWAY,  # a node of Galera that has left its cluster
    1049: DatabaseFault.AWAY,  # no such database
    1053: DatabaseFault.DISCONNECTED,  # MySQL is shutting down
    1142: DatabaseFault.REFUSED,  # this command is denied on the table
    1227: DatabaseFault.REFUSED,  # a right is missing
    1290: DatabaseFault.READ_ONLY,
    1317: DatabaseFault.AWAY,  # interrupted
    1792: DatabaseFault.READ_ONLY,  # a transaction that may only read
    1836: DatabaseFault.READ_ONLY,
    1969: DatabaseFault.AWAY,  # statement time-out
    2003: DatabaseFault.AWAY,  # cannot connect
    2006: DatabaseFault.AWAY,
    2013: DatabaseFault.AWAY,
    3024: DatabaseFault.AWAY,  # statement time-out of MySQL
}
# Primary result codes of SQLite; the higher bits only refine them.
_SQLITE: Mapping[int, DatabaseFault] = {
    5: DatabaseFault.CONTENTION,  # busy
    6: DatabaseFault.CONTENTION,  # locked
    3: DatabaseFault.REFUSED,  # access permission denied
    8: DatabaseFault.REFUSED,  # read only
    10: DatabaseFault.AWAY,  # I/O error
    13: DatabaseFault.FULL,
    14: DatabaseFault.AWAY,  # cannot open
    18: DatabaseFault.VALUE,  # too big
    23: DatabaseFault.REFUSED,  # not authorized
    26: DatabaseFault.AWAY,  # not a database
}
_SQLITE_CONSTRAINTS: Mapping[int, DatabaseFault] = {
    787: DatabaseFault.REFERENCE,
    1555: DatabaseFault.DUPLICATE,  # primary key
    2067: DatabaseFault.DUPLICATE,  # unique
}
DRIVER_ERRORS = (sa.exc.DBAPIError, sa.exc.TimeoutError, sqlite3.Error)


def classify(error: Exception) -> DatabaseFault:
    """Return the fault that an error of SQLAlchemy or a driver means."""
    if isinstance(error, sa.exc.TimeoutError):
        return DatabaseFault.AWAY  # no connection of the pool became free in time
    if isinstance(error, sa.exc.DBAPIError):
        if error.connection_invalidated:
            return DatabaseFault.DISCONNECTED
        found = _of_driver(error.orig)
        if found is DatabaseFault.OTHER and isinstance(error, sa.exc.DataError):
            return DatabaseFault.VALUE
        return found
    return _of_driver(error)


def read_only(error: BaseException) -> bool:
    """Return whether the error means a read-only server, such as an old primary."""
    return isinstance(error, DRIVER_ERRORS) and classify(error) is DatabaseFault.READ_ONLY


def silence(error: Exception) -> bool:
    """Return whether the server has not answered in time; a repetition may take as long.

    The drivers, and the kernel's time-out of TCP, have no other sign of it in common.
    """
    return "timed out" in reason(error)


def _of_driver(error: Any) -> DatabaseFault:
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) or 0
        return _SQLITE_CONSTRAINTS.get(code) or _SQLITE.get(code & 0xFF, DatabaseFault.OTHER)
    number = error.args[0] if getattr(error, "args", None) else None
    if isinstance(number, int):  # PyMySQL
        return _MYSQL.get(number, DatabaseFault.OTHER)
    if hasattr(error, "sqlstate"):  # psycopg
        state = error.sqlstate
        if state is None:  # it reached no server
            names = {one.__name__ for one in type(error).__mro__}
            return DatabaseFault.AWAY if "OperationalError" in names else DatabaseFault.OTHER
        return _POSTGRESQL.get(state) or _POSTGRESQL_CLASSES.get(state[:2], DatabaseFault.OTHER)
    return DatabaseFault.OTHER


def reason(error: Exception) -> str:
    """Return the driver's first line.

    Statement and parameters are left out, because they may be secret.
    """
    cause: Any = getattr(error, "orig", None) or error
    if len(getattr(cause, "args", ())) > 1 and isinstance(cause.args[0], int):
        cause = cause.args[1]  # PyMySQL: (number, text)
    # SQLite shows a text that is not UTF-8, which may be a secret.
    lines = str(cause).partition(" with text ")[0].strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


# -- unique values ---------------------------------------------------------------------------

_KEY_IN_TEXT = (
    re.compile(r"UNIQUE constraint failed: \w+\.(?P<column>\w+)"),  # SQLite
    re.compile(r"for key '(?:\w+\.)?(?P<name>\w+)'"),  # MariaDB, MySQL
)


def _taken_column(error: sa.exc.IntegrityError, table: sa.Table) -> str | None:
    """Return the column whose unique value is taken."""
    name = getattr(getattr(error.orig, "diag", None), "constraint_name", None)
    for pattern in _KEY_IN_TEXT if name is None else ():
        if match := pattern.search(str(error.orig)):
            if "column" in match.groupdict():
                return match["column"]
            name = match["name"]
    prefix = f"uq_{table.name}_"
    return name.removeprefix(prefix) if name and name.startswith(prefix) else None


def refused(
    error: sa.exc.IntegrityError,
    table: sa.Table,
    what: str,
    values: RowView,
    missing: Exception,
) -> Exception:
    """Return the error for an integrity error of an INSERT or UPDATE.

    :param what: the resource's name in a sentence, such as ``node``.
    :param values: the written values, for the duplicate value.
    :param missing: the error for a missing or still referenced row.
    :returns: ``errors.Duplicate`` with facts what, key, value; ``missing``; or ``error`` itself.
    """
    fault = classify(error)
    if fault is DatabaseFault.REFERENCE:
        return missing
    if fault is DatabaseFault.DUPLICATE:
        key = _taken_column(error, table) or "key"
        value = values.get(key)
        said = f"An {what} with {key} {value} already exists." if what[0] in "aeiou" else None
        return errors.Duplicate(said, what=what, key=key, value=value)
    return error
