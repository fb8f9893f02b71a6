"""Checks of the database: reached, of this release, writable, with the same time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Protocol

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database, Transactions
from ironic_lite.db.queries import server_health
from ironic_lite.db.tables import migrate, reencryption
from ironic_lite.domain.examination import Check, Status, Verdict, failed, passed, warning

SLOW_SECONDS = 0.5
"""A read of one value that takes longer slows every request down."""
CLOCK_SECONDS, WRONG_CLOCK_SECONDS = 2.0, 60.0
"""Difference of two clocks that is reported, and that is a fault."""
_TIME_ADVICE = "Synchronize the clocks of all machines of the service, such as by chrony (NTP)."


class WithTransactions(Protocol):
    """A subject that reads and writes the database."""

    @property
    def database(self) -> Transactions:
        """The database, of this process."""


class WithDatabase(Protocol):
    """A subject with the whole database object."""

    @property
    def database(self) -> Database:
        """The database, of this process."""


def find_server(subject: WithDatabase) -> Iterator[Verdict]:
    """Read one value; report the product and the time of a round trip."""
    begun = time.monotonic()
    version = subject.database.read(server_health.version)
    first = time.monotonic()
    subject.database.read(server_health.version)
    seconds = time.monotonic() - first
    text = f"{version} answers in {seconds * 1000:.0f} ms ({(first - begun) * 1000:.0f} ms with a "
    text += "new connection)"
    if seconds > SLOW_SECONDS:
        yield warning(text, "Find out why the database, or the network to it, is slow.")
    else:
        yield passed(text)


def find_tables(subject: WithDatabase) -> Iterator[Verdict]:
    """Compare the schema with this release."""
    found = subject.database
    try:
        migrate.check(found)
    except errors.Error as why:
        yield failed(why.message, "")
    else:
        yield passed(f"revision {migrate.head()}, as this release requires")


def find_old_rows(subject: WithDatabase) -> Iterator[Verdict]:
    """Count the rows of an older form, if there are any."""
    left = subject.database.read(migrate.unmigrated_rows)
    if left:
        rows = ", ".join(f"{name}: {count}" for name, count in left.items())
        advice = "Run ironic-lite-dbsync online_data_migrations before the next upgrade."
        yield warning(f"rows of an older form are left ({rows})", advice)


def find_schema(subject: WithDatabase) -> Iterator[Verdict]:
    """Compare the schema, and the form of its rows, with this release."""
    (tables,) = find_tables(subject)
    old = find_old_rows(subject) if tables.status is Status.OK else ()
    yield from list(old) or [tables]


def find_keys(subject: WithDatabase) -> Iterator[Verdict]:
    """Compare the encryption keys of this process with those that rows need."""
    missing = reencryption.missing_keys(subject.database)
    if missing:
        yield failed(errors.KeyMissing(key=", ".join(missing)).message, "")
    else:
        yield passed("this process has every key that stored values need")


def find_write(subject: WithTransactions) -> Iterator[Verdict]:
    """Write and remove a row."""
    name = f"doctor-{uuid.uuid4().hex[:20]}"
    begun = time.monotonic()
    subject.database.write(lambda conn: server_health.try_write(conn, name))
    yield passed(f"a row was written and removed in {(time.monotonic() - begun) * 1000:.0f} ms")


def find_clock(subject: WithTransactions) -> Iterator[Verdict]:
    """Compare this machine's clock with the database server's."""
    before = clock.now()
    theirs = subject.database.read(server_health.present_time)
    after = clock.now()
    if theirs is None:
        yield passed("SQLite has no clock of its own")
        return
    yield check_clock((theirs - (before + (after - before) / 2)).total_seconds())


def check_clock(apart: float) -> Verdict:
    """Return the verdict about a clock.

    :param apart: seconds by which the database's clock is ahead.
    """
    text = f"{abs(apart):.2f} s {'behind' if apart > 0 else 'ahead of'} the database's clock"
    if abs(apart) >= WRONG_CLOCK_SECONDS:
        return failed(text, _TIME_ADVICE)
    if abs(apart) >= CLOCK_SECONDS:
        return warning(text, _TIME_ADVICE)
    return passed(text)


SERVER: Check[WithDatabase] = Check(
    "database",
    "The database answers: product, version, time of a round trip.",
    find_server,
    "Start the database, or correct [database]connection.",
)
SCHEMA: Check[WithDatabase] = Check(
    "schema",
    "The tables are those of this release, and no rows of an older form are left.",
    find_schema,
    "Run ironic-lite-dbsync upgrade with the release that all processes have.",
    needs=("database",),
)
KEYS: Check[WithDatabase] = Check(
    "encryption_keys",
    "This process has the keys of all encrypted values.",
    find_keys,
    "Add the missing key to [database]encryption_keys of this process.",
    needs=("database", "schema"),
)
WRITE: Check[WithTransactions] = Check(
    "write",
    "A row can be written to the database, and removed again.",
    find_write,
    "Free space on the disk of the database, and let its user write.",
    needs=("database", "schema"),
)
CLOCK: Check[WithTransactions] = Check(
    "clock",
    "The clock of this machine differs from the database's by less than "
    f"{CLOCK_SECONDS:g} s ({WRONG_CLOCK_SECONDS:g} s: failed).",
    find_clock,
    _TIME_ADVICE,
    needs=("database",),
)
