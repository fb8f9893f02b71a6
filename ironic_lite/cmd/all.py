"""``ironic-lite``: everything on this machine; migrates the database, runs API and conductor."""

from __future__ import annotations

from ironic_lite import threads

threads.native()  # before anything imports an oslo library

import gc  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

from ironic_lite.cmd import api, checks, entry, processes  # noqa: E402
from ironic_lite.db import migrate, resealing  # noqa: E402

PROG = "ironic-lite"
ABOUT = (
    "Run the whole service on this machine: API and conductor, as child processes that are started "
    "again if they die. The database is made or upgraded first. Without a configuration file, "
    "everything is kept in one folder, [DEFAULT]state_path, and the API answers on "
    "http://127.0.0.1:6385. It stops on SIGTERM or Ctrl-C, when running work has ended."
)
_END_SECONDS = 30.0
"""What stopping takes a conductor beside the wait for running work, at the most."""


def _prepare(conf: Any) -> int:
    """Bring the database up to date, and find out whether the conductor could start.

    In a process of its own, because the tools of a migration are big and used once, and because
    drivers are anybody's code.
    """
    with checks.quiet():
        database = checks.database(conf)
        migrate.upgrade(database)
        resealing.check(database)
        database.close()
        checks.claim(conf)
        # The conductor loads them again, and then says what is odd about them.
        registry = entry.load("ironic_lite.drivers.registry")
        registry.Registry.load(registry.Settings.read(conf))
    return 0


def _body(conf: Any) -> int:
    with api.opened(conf) as door:
        preparation = processes.Child(PROG, lambda: _prepare(conf), orphaned=None)
        preparation.start()
        # This is loaded meanwhile, and before the fork: so all workers share the memory.
        serving = api.workers(conf, door)
        status = processes.run(preparation)
        if status:
            return status

        def conduct() -> int:
            door.close()
            # Loaded here, while the API answers already: there is one conductor, it shares nothing.
            served: int = entry.load("ironic_lite.cmd.conductor").serve(conf)
            return served

        settings = conf.conductor
        working = processes.Child(
            "conductor",
            conduct,
            stop_seconds=_patience(settings.graceful_shutdown_timeout),
            drain_seconds=_patience(settings.drain_shutdown_timeout),
        )
        # On the way down the API is stopped first: then nobody hands the conductor new work.
        return processes.supervise(serving, [working], closing=door.close)


def _patience(seconds: float) -> float | None:
    """Return how long the conductor may take to stop whose work may take so long; None is for
    ever.
    """
    return seconds + _END_SECONDS if seconds else None


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    gc.disable()  # until the processes that stay have been forked
    sys.exit(entry.run(PROG, ABOUT, _body, argv))


if __name__ == "__main__":
    main()
