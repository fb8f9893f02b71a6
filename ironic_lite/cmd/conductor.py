"""``ironic-lite-conductor``: the worker that drives the machines."""

from __future__ import annotations

from ironic_lite import threads

threads.native()  # before anything imports an oslo library

import logging  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

from ironic_lite.cmd import checks, entry, processes  # noqa: E402
from ironic_lite.conductor.service import Service  # noqa: E402
from ironic_lite.db import migrate, resealing  # noqa: E402
from ironic_lite.drivers.registry import Registry, Settings  # noqa: E402
from ironic_lite.rpc import transport  # noqa: E402

LOG = logging.getLogger(__name__)
PROG = "ironic-lite-conductor"
ABOUT = (
    "Drive machines on behalf of ironic-lite-api, over [DEFAULT]transport_url and with the same "
    "[database]connection. Each conductor needs a [DEFAULT]host of its own. It stops on SIGTERM, "
    "when running work has ended or [conductor]graceful_shutdown_timeout is over; on SIGUSR2 it "
    "gives running work [conductor]drain_shutdown_timeout. A second signal ends the wait."
)


def serve(conf: Any) -> int:
    """Run one conductor until SIGTERM or SIGINT; returns the exit status.

    :raises config.ConfigError: drivers, database or transport cannot be used as configured.
    :raises errors.Error: the database is away, has no tables, or those of another release, or needs
        other keys.
    """
    stop = processes.StopRequest()
    registry, database = Registry.load(Settings.read(conf)), checks.database(conf)
    with checks.quiet():
        messaging = transport.get()
        migrate.check(database)
    resealing.check(database)
    service = Service(conf, database, registry, messaging)
    with stop.at_once():
        service.announce()
    service.begin()
    drain = stop.wait() is processes.DRAIN
    threading.Thread(target=_hurry, args=(stop, service), name="hurry", daemon=True).start()
    finished = service.stop(conf.conductor.drain_shutdown_timeout if drain else None)
    database.close()
    return 0 if finished else entry.EXIT_FAULT


def _hurry(stop: processes.StopRequest, service: Service) -> None:
    """Whoever asks a second time does not want to wait."""
    stop.wait()
    service.hurry()


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    status = entry.run(PROG, ABOUT, serve, argv)
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    os._exit(status)  # a worker that would not end must not keep the process


if __name__ == "__main__":
    main()
