"""Data migrations in small parts, while the service runs.

A schema migration (``alembic/versions``) changes tables, and is quick. A change of many rows is a
`Change` here. The release that brings it reads rows of both forms and writes the new one. Operators
rewrite the remaining rows by ``ironic-lite-dbsync online_data_migrations``, at any time before the
release that supports only the new form. ``before`` names that release's schema migration, which
refuses to begin while rows of the old form remain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection, Database

PART = 50
"""Rows of one transaction: few enough that other writers do not wait for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One data migration.

    :ivar name: shown to operators: ``snake_case``.
    :ivar before: the schema revision that needs it done.
    :ivar left: returns the number of rows of the old form; one statement over an index.
    :ivar act: rewrites at most so many rows, and returns their number; only statements.
    """

    name: str
    before: str
    left: Callable[[Connection], int]
    act: Callable[[Connection, int], int]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one change: rows of the old form, and rewritten rows."""

    name: str
    found: int
    done: int


CHANGES: tuple[Change, ...] = ()
"""All data migrations; empty, because all releases so far write the same form."""


def run(database: Database, most: int | None = None) -> list[Outcome]:
    """Run all changes, in their order, part by part.

    :param most: rows in all at which to stop, None for no limit.
    :raises errors.Unavailable: the database is away; finished parts stay.
    """
    outcomes = []
    for change in CHANGES:
        found = database.read(change.left)
        done = _run_change(database, change, most)
        if most is not None:
            most -= done
        outcomes.append(Outcome(change.name, found, done))
    return outcomes


def _run_change(database: Database, change: Change, most: int | None) -> int:
    done = 0
    while most is None or done < most:
        size = PART if most is None else min(PART, most - done)
        changed = database.write(lambda conn, size=size: change.act(conn, size))  # type: ignore[misc]
        done += changed
        if changed < size:
            break
    return done


def left(conn: Connection) -> dict[str, int]:
    """Return the number of old rows of each change that has some."""
    counts = {change.name: change.left(conn) for change in CHANGES}
    return {name: count for name, count in counts.items() if count}


def refuse(conn: Connection, found: str | None, wanted: str) -> None:
    """Check that a schema migration finds no rows of a form unknown to its release.

    :param found: the revision before, None for an empty database.
    :param wanted: the revision after.
    :raises errors.Error: naming the changes to run first; nothing has changed.
    """
    needed = [each for each in CHANGES if found is not None and found < each.before <= wanted]
    open_ = {each.name: each.left(conn) for each in needed}
    if any(open_.values()):
        rows = ", ".join(f"{name}: {count}" for name, count in open_.items() if count)
        raise errors.Error(
            f"Rows of an older form are left in the database ({rows}): run ironic-lite-dbsync "
            "online_data_migrations of the release before, then upgrade."
        )
