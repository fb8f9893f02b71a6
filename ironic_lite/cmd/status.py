"""``ironic-lite-status``: obstacles to an upgrade, and the checks of the doctor."""

from __future__ import annotations

from ironic_lite.core import threads
from ironic_lite.core.configuration import Configuration

threads.native()  # before anything imports an oslo library

import contextlib  # noqa: E402
import enum  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from typing import Any  # noqa: E402

from oslo_config import cfg  # noqa: E402

from ironic_lite import errors  # noqa: E402
from ironic_lite.cmd import checks, doctor, entry  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.db.engine import encryption  # noqa: E402
from ironic_lite.db.engine.session import Database  # noqa: E402
from ironic_lite.db.queries import conductors  # noqa: E402
from ironic_lite.db.tables import migrate, online_migrations, reencryption  # noqa: E402
from ironic_lite.membership import members  # noqa: E402
from ironic_lite.rpc import pins  # noqa: E402

PROG = "ironic-lite-status"


class Result(enum.IntEnum):
    """The result of a check; the worst is the exit status, as in OpenStack."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


Said = tuple[Result, str]


def _check_schema(conf: Configuration, database: Database) -> Said:
    try:
        migrate.check(database)
    except errors.Error as why:
        return Result.FAILURE, why.message
    return Result.SUCCESS, f"revision {migrate.head()}, as this release requires"


def _check_rows(conf: Configuration, database: Database) -> Said:
    left = database.read(online_migrations.left)
    if left:
        rows = ", ".join(f"{name}: {count}" for name, count in left.items())
        advice = "run ironic-lite-dbsync online_data_migrations before the next upgrade"
        return Result.WARNING, f"rows of an older form are left ({rows}): {advice}"
    return Result.SUCCESS, "no row is of an older form"


def encryption_keys_in_use(conf: Configuration, database: Database) -> Said:
    keys, needed = encryption.keys_of(database.engine), database.read(reencryption.used)
    missing = keys.lacks(needed)
    if missing:
        return Result.FAILURE, errors.KeyMissing(key=", ".join(missing)).message
    older = sorted(needed - {keys.first, encryption.PLAIN})
    if older:
        known = ", ".join(older)
        return Result.SUCCESS, f"older ones are still needed ({known}) until all is reencrypted"
    return Result.SUCCESS, "all encrypted values use the first key, or nothing is encrypted"


def _check_conductors(conf: Configuration, database: Database) -> Said:
    here, living = config.version(), members.Membership(conf.conductor.heartbeat_timeout)
    others = {
        row["hostname"]: row["version"]
        for row in database.read(conductors.all)
        if living.lives(row) and row["version"] != here
    }
    if not others:
        return Result.SUCCESS, f"no conductor of another version than {here} is up"
    listed = ", ".join(f"{host} ({version})" for host, version in others.items())
    return Result.WARNING, f"conductors of another version than {here} are up: {listed}"


def _check_pin(conf: Configuration, database: Database) -> Said:
    pin, here = pins.pinned(conf), pins.release(config.version())
    if pin is None:
        return Result.SUCCESS, "no release is pinned"
    if _check_conductors(conf, database)[0] is Result.SUCCESS:
        return Result.WARNING, f"{pin} is pinned, but all conductors are of {here}: remove the pin"
    return Result.SUCCESS, f"{pin} is pinned while conductors are upgraded"


CHECKS: tuple[tuple[str, Callable[[Any, Database], Said]], ...] = (
    # The other checks need the tables that the first one checks.
    ("database schema", _check_schema),
    ("data migrations", _check_rows),
    ("encryption keys", encryption_keys_in_use),
    ("conductors", _check_conductors),
    ("pin_release_version", _check_pin),
)


def check(conf: Configuration, database: Database) -> int:
    """Print each check with its message; return the worst result.

    :raises errors.Unavailable: the database is away.
    """
    worst = Result.SUCCESS
    for name, ask in CHECKS:
        result, said = ask(conf, database)
        print(f"{result.name.capitalize():<8} {name}: {said}")
        worst = max(worst, result)
        if result is Result.FAILURE:
            break
    return int(worst)


def _add_commands(commands: Any) -> None:
    about = "checks before and after an upgrade"
    upgrade = commands.add_parser("upgrade", help=about, description=about)
    what = upgrade.add_subparsers(dest="what", required=True)
    what.add_parser("check", help="exit status 0: no problem; 1: a warning; 2: it would fail")
    about = "check what stops a program's start, without a start"
    starts = commands.add_parser("config", help=about, description=about)
    starts.add_argument(
        "--program",
        choices=tuple(doctor.STARTS_OF),
        help="only what this program needs (default: what all programs need)",
    )
    about = "examine this machine, the service and a node; works without the service, too"
    status = f"{about}. Exit status 0: all is well; 1: a warning; 2: a check has failed."
    doctor.add_arguments(commands.add_parser("doctor", help=about, description=status))


def _run_command(conf: Any) -> int:
    asked = conf.command
    if asked.name == "doctor":
        return doctor.run(conf, node=asked.node, url=asked.url, form=asked.form)
    if asked.name == "config":
        return _check_starts(conf)
    return _run_checks(conf)


def _check_starts(conf: Any) -> int:
    """Check the configuration of each program that this machine can start."""
    only, worst = conf.command.program, 0
    places = (conf.get_location(name) for name in ("config_file", "config_dir"))
    if any(one is not None and one.location is cfg.Locations.command_line for one in places):
        return doctor.run(conf, table=doctor.STARTS_OF.get(only, doctor.STARTS))
    common = config.files(config.PROJECT)
    apart = any(config.files(prog) != common for prog in doctor.STARTS_OF)
    # Without files of their own, all programs read the same ones.
    programs = doctor.STARTS_OF if apart or only else {config.PROJECT: doctor.STARTS}
    for prog, table in programs.items():
        if only not in (None, prog):
            continue
        config.load(prog, ["config"], create=False)
        worst = max(worst, doctor.run(conf, table=table, where=f"{doctor.WHERE}, {prog}"))
    return worst


def _run_checks(conf: Configuration) -> int:
    with checks.quiet(), contextlib.closing(checks.database(conf)) as database:
        return check(conf, database)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    command = cfg.SubCommandOpt(
        "command", title="Commands", help="The command to run.", handler=_add_commands
    )
    about = "Check an installation."
    sys.exit(entry.run(PROG, about, _run_command, argv, cli_opts=[command], create=False))


if __name__ == "__main__":
    main()
