"""``ironic-lite``: the whole service on one machine, with migration."""

from __future__ import annotations

from ironic_lite.core import threads
from ironic_lite.core.options import Configuration

threads.native()  # before anything imports an oslo library

import functools  # noqa: E402
import gc  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402

from ironic_lite.checks import start  # noqa: E402
from ironic_lite.cmd import api, entry, supervise  # noqa: E402
from ironic_lite.core import notify  # noqa: E402
from ironic_lite.db.tables import migrate, reencryption  # noqa: E402
from ironic_lite.rpc import transport  # noqa: E402

PROG = "ironic-lite"
ABOUT = (
    "Run the whole service on this machine: API and conductor, as child processes that are "
    "restarted if they die. The database is created or upgraded first. Without a configuration "
    "file, all data is in one folder, [DEFAULT]state_path, and the API answers at "
    "http://127.0.0.1:6385. The service stops on SIGTERM or Ctrl-C, after running work has ended."
)
_READY_SECONDS = 30.0
"""Seconds the API waits for its conductor; then it answers the requests that need none."""


def _prepare_start(conf: Configuration) -> int:
    """Migrate the database, and check that the conductor's name is free.

    This runs in a process of its own, because migration tools are large and used only once.
    """
    with start.quiet():
        database = start.open_database(conf, create=True)
        migrate.upgrade(database)
        reencryption.check(database)
        database.close()
        start.claim(conf)
    return 0


def _run_service(conf: Configuration) -> int:
    supervise.hold_signals()
    keeper = api.reserve(conf)
    with start.quiet():
        # Connects to nothing; the children share the modules, and the entry points of all packages.
        transport.build()
    preparation = supervise.Child(PROG, lambda: _prepare_start(conf))
    prepared, registered = supervise.Flag(), supervise.Flag()

    working = supervise.children(conf, prepared=prepared.wait, registered=registered)
    # All load their modules at the same time; the API's workers share the memory.
    preparation.start()
    for one in working:
        one.start()
    # A client with an answer may enroll at once, so the API waits for a conductor.
    begin, listening = functools.partial(registered.wait, _READY_SECONDS), api.flags(conf)
    serving, renewal = api.workers(conf, keeper, listening, begin=begin)
    files = supervise.file_servers(conf)
    reload = supervise.reload(conf, PROG, renewal, [*working, *files])
    with notify.extending("migrating the database"):
        status = supervise.run_child(preparation)
    if status:
        return status
    prepared.set()

    def announce() -> None:
        supervise.wait_for_flags(listening)
        if not registered.wait(0):
            notify.ready("no conductor is registered; the log has the reason")
            registered.wait()
        notify.ready(api.running_status(conf, keeper))

    # The API is stopped first, so that no new work reaches the conductor.
    status = supervise.supervise(
        serving, working, files, renewal=renewal, reload=reload, announce=announce
    )
    keeper.remove()
    return status


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    gc.disable()  # until the processes that stay have been forked
    sys.exit(entry.run(PROG, ABOUT, _run_service, argv))


if __name__ == "__main__":
    main()
