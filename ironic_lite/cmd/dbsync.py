"""``ironic-lite-dbsync``: create and upgrade the database."""

from __future__ import annotations

from typing import Any

from ironic_lite.core import threads

threads.native()  # before anything imports an oslo library

import contextlib  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402
import sys  # noqa: E402
from argparse import ArgumentTypeError  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402

from oslo_config import cfg  # noqa: E402

from ironic_lite import errors, features, membership  # noqa: E402
from ironic_lite.checks import start  # noqa: E402
from ironic_lite.cmd import entry  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.db import copy  # noqa: E402
from ironic_lite.db.engine import session  # noqa: E402
from ironic_lite.db.engine.session import Database  # noqa: E402
from ironic_lite.db.queries import conductors  # noqa: E402
from ironic_lite.db.tables import migrate, reencryption  # noqa: E402

PROG = "ironic-lite-dbsync"


_LONGEST_REASON = 255
EXIT_MORE = 1
"""Exit status if --max-count was reached and rows are left, as in Ironic's program."""


def _upgrade_schema(conf: cfg.ConfigOpts, database: Database) -> int:
    migrate.upgrade(database, conf.command.revision)
    print(migrate.revision(database))
    return 0


def _print_revision(conf: cfg.ConfigOpts, database: Database) -> int:
    print(migrate.revision(database) or "none")
    return 0


def _print_version(conf: cfg.ConfigOpts, database: Database) -> int:
    print(f"program {config.version()}, newest schema {migrate.head()}")
    print(f"this database {migrate.revision(database) or 'none'}")
    return 0


def _print_history(conf: cfg.ConfigOpts, database: Database) -> int:
    current = migrate.revision(database)
    for revision, text in migrate.history():
        print(f"{'*' if revision == current else ' '} {revision}  {text}")
    return 0


def online(conf: Any, database: Database) -> int:
    migrate.check(database)
    outcomes = migrate.migrate_data(database, conf.command.max_count)
    for one in outcomes:
        print(f"{one.name}: {one.done} of {one.found} rows rewritten")
    left = database.read(migrate.unmigrated_rows)
    print(f"{sum(left.values())} rows are left" if left else "Nothing is left to do.")
    return EXIT_MORE if left else 0


def _reencrypt_rows(conf: cfg.ConfigOpts, database: Database) -> int:
    migrate.check(database)
    for one in reencryption.run(database):
        print(f"{one.table}: {one.done} of {one.found} rows rewritten")
    return 0


def _end_runs(conf: cfg.ConfigOpts, database: Database) -> int:
    migrate.check(database)
    end_runs = entry.load("ironic_lite.cmd.end_runs")  # it loads the conductor
    act: Callable[[Any, Database, bool, str | None], int] = end_runs.run
    return act(conf, database, conf.command.yes, conf.command.hold)


def _end_holds(conf: Any, database: Database) -> int:
    migrate.check(database)
    given = {
        "owner": conf.command.owner,
        "conductor_group": None if conf.command.group is None else conf.command.group.lower(),
        "uuid": conf.command.nodes or None,
    }
    where = {name: value for name, value in given.items() if value is not None}
    if len(where) + conf.command.all != 1:
        print(f"{PROG} end_holds: name nodes, or --owner, --group or --all", file=sys.stderr)
        return entry.EXIT_CONFIG
    end_runs = entry.load("ironic_lite.cmd.end_runs")  # it loads the conductor
    act: Callable[[Database, Any, str], int] = end_runs.end_holds
    return act(database, where, conf.command.reason)


def _forget_conductor(conf: Any, database: Database) -> int:
    migrate.check(database)
    host, seconds = conf.command.hostname, conf.conductor.heartbeat_timeout
    living = membership.living_hosts(
        lambda: [database.read(lambda conn: conductors.get(conn, host))], seconds
    )
    row = database.read(lambda conn: conductors.get(conn, host))
    if living or not database.write(lambda conn: conductors.forget(conn, row)):
        raise errors.Conflict(
            f"Conductor {host} is alive. Stop it first. A conductor that was killed counts as "
            f"alive for [conductor]heartbeat_timeout seconds ({seconds}) after its last heartbeat."
        )
    print(f"Conductor {host} is forgotten.")
    return 0


def _copy_rows(conf: Any, database: Database) -> int:
    url, check = conf.command.source, conf.command.check
    if "://" not in url:  # a file, so that no list of processes shows a password
        found, _ = config.judge_files([pathlib.Path(url)])
        url = session.configured_url(found)
    with contextlib.closing(copy.open_source(database, url)) as source:
        seconds = conf.conductor.heartbeat_timeout
        membership.refuse_living(lambda: source.read(conductors.all), seconds, "you copy")
        counts = copy.copy(source, database, check=check)
    for name, count in counts.items():
        print(f"{name}: {count} rows")
    print(
        "Nothing was written. Repeat the command without --check to do this."
        if check
        else "All rows are copied. Change [database]connection where it names the old database."
    )
    return 0


_COMMANDS: dict[str, tuple[Callable[[Any, Database], int], str]] = {
    "upgrade": (_upgrade_schema, "upgrade the schema to a revision (default: the newest)"),
    "revision": (_print_revision, "print the revision of this database"),
    "version": (_print_version, "print program and schema versions"),
    "history": (_print_history, "list all revisions, with a mark at the current one"),
    "reencrypt": (
        _reencrypt_rows,
        "encrypt secrets with the first of the keys, while the service runs",
    ),
    "online_data_migrations": (online, "rewrite rows of an older form, while the service runs"),
    "forget_conductor": (
        _forget_conductor,
        "remove a conductor that was renamed or retired from all lists, while the service runs",
    ),
    "copy": (
        _copy_rows,
        "copy all rows of another database of this service, which is stopped, into this empty one",
    ),
    "end_holds": (
        _end_holds,
        "end the holds that end_runs --hold has set, on some or all nodes, while the service runs",
    ),
    "end_runs": (
        _end_runs,
        "after a restore and before conductors start: list the runs that they would continue; "
        "--yes ends them without a look at the machines",
    ),
}


def _read_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _read_reason(text: str) -> str:
    reason = text.strip()
    if not 1 <= len(reason) <= _LONGEST_REASON or not reason.isprintable():
        raise ArgumentTypeError(f"a reason has 1 to {_LONGEST_REASON} printable characters")
    return reason


def _add_commands(commands: Any) -> None:
    for name, (act, about) in _COMMANDS.items():
        parser = commands.add_parser(name, help=about, description=about)
        parser.set_defaults(act=act)
        if name == "upgrade":
            parser.add_argument("--revision", default="head", help="last revision to apply")
        if name == "online_data_migrations":
            parser.add_argument(
                "--max-count", type=_read_count, help="number of rows to rewrite (default: all)"
            )
        if name == "forget_conductor":
            parser.add_argument("hostname", help="name of the conductor, its [DEFAULT]host")
        if name == "copy":
            parser.add_argument(
                "--from",
                dest="source",
                required=True,
                metavar="URL|FILE",
                help="the other database, or its ironic-lite.conf",
            )
            parser.add_argument("--check", action="store_true", help="check, and write nothing")
        if name == "end_holds":
            parser.add_argument("nodes", nargs="*", help="names or UUIDs of nodes")
            parser.add_argument("--owner", help="nodes of this project")
            parser.add_argument("--group", help="nodes of this conductor group")
            parser.add_argument("--all", action="store_true", help="all nodes")
            parser.add_argument(
                "--reason", type=_read_reason, required=True, help="why the holds end"
            )
        if name == "end_runs":
            parser.add_argument(
                "--yes", action="store_true", help="end the runs (default: only list them)"
            )
            parser.add_argument(
                "--hold",
                type=_read_reason,
                metavar="REASON",
                help="freeze every node, as other tenants may have the machines since the backup",
            )
    features.add_database_commands(commands)


def _give_files(conf: Any) -> None:
    """Give the files that root has made to the owner of the state path, the service's user.

    That user may have put a link to another file there, which must stay as it is.
    """
    if conf.database.connection or os.geteuid() != 0:
        return
    folder = config.state_path(conf)
    owner = folder.stat()
    for name in ("ironic-lite.sqlite", "ironic-lite.sqlite-wal", "ironic-lite.sqlite-shm"):
        path = folder / name
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_nlink == 1:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _run_command(conf: cfg.ConfigOpts) -> int:
    create = conf.command.name == "upgrade"
    try:
        with (
            start.quiet(),
            contextlib.closing(start.open_database(conf, create=create)) as database,
        ):
            status: int = conf.command.act(conf, database)
    except errors.Error as why:
        if conf.command.name in _COMMANDS.keys() - {"copy"}:
            raise
        entry.refuse(PROG, why)
        return entry.EXIT_CONFIG
    if create:
        _give_files(conf)
    return status


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    command = cfg.SubCommandOpt(
        "command", title="Commands", help="The command to run.", handler=_add_commands
    )
    sys.exit(
        entry.run(PROG, "Create and upgrade the database.", _run_command, argv, cli_opts=[command])
    )


if __name__ == "__main__":
    main()
