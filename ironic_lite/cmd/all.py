"""``ironic-lite``: everything on this machine; migrates the database, runs API and conductor."""

from __future__ import annotations

from ironic_lite import threads

threads.native()  # before anything imports an oslo library

import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

from ironic_lite.cmd import api, conductor, entry, processes  # noqa: E402
from ironic_lite.db import migrate, session  # noqa: E402

PROG = "ironic-lite"


def _migrate(conf: Any) -> int:
    """Bring the schema up to date; its tools are big and used once, hence the own process."""
    database = session.configured(conf)
    migrate.upgrade(database)
    database.close()
    return 0


def _body(conf: Any) -> int:
    status = processes.run(processes.Child("database upgrade", lambda: _migrate(conf)))
    if status:
        return status
    # On the way down the API is stopped first: then nobody hands the conductor new work.
    children = [
        processes.Child("API", lambda: api.serve(conf)),
        processes.Child("conductor", lambda: conductor.serve(conf)),
    ]
    return processes.supervise(children)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    sys.exit(entry.run(PROG, "Run the whole service on this machine.", _body, argv))


if __name__ == "__main__":
    main()
