"""``ironic-lite-conductor``: the worker that drives the machines."""

from __future__ import annotations

from ironic_lite import threads

threads.native()  # before anything imports an oslo library

import logging  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

from ironic_lite.cmd import entry  # noqa: E402
from ironic_lite.conductor.service import Service  # noqa: E402
from ironic_lite.db import migrate, session  # noqa: E402
from ironic_lite.drivers.registry import Registry, Settings  # noqa: E402
from ironic_lite.rpc import transport  # noqa: E402

LOG = logging.getLogger(__name__)
PROG = "ironic-lite-conductor"
_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def serve(conf: Any) -> int:
    """Run one conductor until SIGTERM or SIGINT; returns the exit status.

    :raises config.ConfigError: drivers, database or transport cannot be used as configured.
    """
    # Blocked before any thread starts, so that every thread inherits it and only the wait below
    # takes them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    database = session.configured(conf)
    migrate.check(database)
    service = Service(conf, database, Registry.load(Settings.read(conf)), transport.get())
    service.start()
    signal.sigwait(_SIGNALS)
    finished = service.stop()
    database.close()
    return 0 if finished else entry.EXIT_FAULT


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    status = entry.run(PROG, "Drive machines on behalf of ironic-lite-api.", serve, argv)
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    os._exit(status)  # a worker that would not end must not keep the process


if __name__ == "__main__":
    main()
