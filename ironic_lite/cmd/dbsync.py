"""``ironic-lite-dbsync``: make and upgrade the database."""

from __future__ import annotations

from ironic_lite import threads

threads.native()  # before anything imports an oslo library

import contextlib  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from typing import Any  # noqa: E402

from oslo_config import cfg  # noqa: E402

from ironic_lite import config  # noqa: E402
from ironic_lite.cmd import checks, entry  # noqa: E402
from ironic_lite.db import migrate  # noqa: E402
from ironic_lite.db.session import Database  # noqa: E402

PROG = "ironic-lite-dbsync"


def _upgrade(conf: Any, database: Database) -> None:
    migrate.upgrade(database, conf.command.revision)
    print(migrate.revision(database))


def _revision(conf: Any, database: Database) -> None:
    print(migrate.revision(database) or "none")


def _version(conf: Any, database: Database) -> None:
    print(f"program {config.version()}, newest schema {migrate.head()}")
    print(f"this database {migrate.revision(database) or 'none'}")


def _history(conf: Any, database: Database) -> None:
    current = migrate.revision(database)
    for revision, text in migrate.history():
        print(f"{'*' if revision == current else ' '} {revision}  {text}")


_COMMANDS: dict[str, tuple[Callable[[Any, Database], None], str]] = {
    "upgrade": (_upgrade, "bring the schema to a revision (default: the newest)"),
    "revision": (_revision, "print the revision of this database"),
    "version": (_version, "print program and schema versions"),
    "history": (_history, "list all revisions, the present one marked"),
}


def _add_commands(commands: Any) -> None:
    for name, (act, about) in _COMMANDS.items():
        parser = commands.add_parser(name, help=about, description=about)
        parser.set_defaults(act=act)
        if name == "upgrade":
            parser.add_argument("--revision", default="head", help="where to stop")


def _body(conf: Any) -> int:
    with checks.quiet(), contextlib.closing(checks.database(conf)) as database:
        conf.command.act(conf, database)
    return 0


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    command = cfg.SubCommandOpt(
        "command", title="Commands", help="What to do.", handler=_add_commands
    )
    sys.exit(entry.run(PROG, "Make and upgrade the database.", _body, argv, cli_opts=[command]))


if __name__ == "__main__":
    main()
