"""``ironic-lite-conductor``: the process that drives the machines."""

from __future__ import annotations

from ironic_lite.core import threads
from ironic_lite.core.options import Configuration

threads.native()  # before anything imports an oslo library

import logging  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402

from ironic_lite import errors, features  # noqa: E402
from ironic_lite.checks import start  # noqa: E402
from ironic_lite.cmd import entry, supervise  # noqa: E402
from ironic_lite.conductor.service import ConductorService  # noqa: E402
from ironic_lite.core import notify  # noqa: E402
from ironic_lite.db.tables import migrate, reencryption  # noqa: E402
from ironic_lite.drivers.boot import network as boot_network  # noqa: E402
from ironic_lite.drivers.registry import Registry, Settings  # noqa: E402
from ironic_lite.rpc import transport  # noqa: E402

PROG = "ironic-lite-conductor"
ABOUT = (
    "Drive machines on behalf of ironic-lite-api, over [DEFAULT]transport_url and with the same "
    "[database]connection. Each conductor needs a [DEFAULT]host of its own. It stops on SIGTERM, "
    "after running work has ended or [conductor]graceful_shutdown_timeout is over. On SIGUSR2 "
    "running work may take [conductor]drain_shutdown_timeout. A second signal ends the wait."
)
_REST = 3600.0
"""Seconds the main thread rests at most."""
_DISPLACED = (
    "Another process has taken the name of conductor {host} while this one was away. Give each "
    "conductor a [DEFAULT]host of its own"
)


def serve(conf: Configuration) -> int:
    """Run [conductor]processes conductors until SIGTERM or SIGINT; return the exit status.

    Raises as `conduct`.
    """
    if conf.conductor.processes == 1:
        return conduct(conf, reload=supervise.reload(conf, PROG))
    start.check(conf)
    up = supervise.flags(conf)

    def announce() -> None:
        with notify.extending("registering"):
            supervise.wait_for_flags(up)
        notify.ready(f"{len(up)} conductors are registered")

    working = supervise.children(conf, registered=up)
    files = supervise.file_servers(conf)
    reload = supervise.reload(conf, PROG, followers=[*working, *files])
    return supervise.supervise(working, files, reload=reload, announce=announce)


def conduct(
    conf: Configuration,
    *,
    prepared: Callable[[], object] = lambda: None,
    registered: Callable[[], object] = lambda: None,
    reload: entry.Reload | None = None,
) -> int:
    """Run one conductor until SIGTERM or SIGINT; return the exit status.

    :param prepared: returns once the database has been migrated; drivers are loaded meanwhile.
    :param registered: called once the conductor answers calls and the API can find it.
    :param reload: what SIGHUP asks for.
    :raises config.ConfigError: drivers, loaders, database or transport cannot be used.
    :raises errors.Error: the database is away, has no tables, or tables of another release, or
        needs other keys; or another process has taken this conductor's name.
    """
    stop, displaced = supervise.StopRequest(), threading.Event()
    registry = _load_drivers(conf)
    with stop.at_once():
        prepared()
    database = start.open_database(conf)
    with start.quiet():
        messaging = transport.get()
        migrate.check(database)
    reencryption.check(database)

    def give_way() -> None:
        displaced.set()
        os.kill(os.getpid(), signal.SIGTERM)

    work = features.work(conf)
    service = ConductorService(conf, database, registry, messaging, give_way, extensions=work)
    with stop.at_once(), notify.extending("registering"):
        service.claim()
        service.announce()
    registered()
    notify.ready(f"conductor {conf.host} is registered")
    with notify.extending():
        service.begin()
    drain = stop.wait(notify.pause(_REST), notify.alive, reload) is supervise.DRAIN
    notify.stopping()
    _end_wait_at_signal(stop, service)
    with notify.extending():
        finished = service.stop(conf.conductor.drain_shutdown_timeout if drain else None)
    database.close()
    if displaced.is_set():
        raise errors.Error(_DISPLACED.format(host=conf.host))
    return 0 if finished else entry.EXIT_FAULT


def _load_drivers(conf: Configuration) -> Registry:
    """Load the drivers, and write the boot files that are not of one node."""
    registry = Registry.load(Settings.read(conf))
    boot_network.place_common_files()
    return registry


def _end_wait_at_signal(stop: supervise.StopRequest, service: ConductorService) -> None:
    """End the wait for running work after a second signal."""

    def end_wait() -> None:
        stop.wait()
        service.stop_waiting()

    threading.Thread(target=end_wait, name="stop-waiting", daemon=True).start()


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    status = entry.run(PROG, ABOUT, serve, argv)
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    os._exit(status)  # a worker that does not end must not keep the process alive


if __name__ == "__main__":
    main()
