"""``ironic-lite-api``: the HTTP API, in [api]workers processes."""

from __future__ import annotations

from ironic_lite.core import threads
from ironic_lite.core.options import Configuration

threads.native()  # before anything imports an oslo library

import functools  # noqa: E402
import logging  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from typing import Any  # noqa: E402

from ironic_lite import features  # noqa: E402
from ironic_lite.api.http import listen_socket  # noqa: E402
from ironic_lite.checks import start  # noqa: E402
from ironic_lite.cmd import entry, supervise  # noqa: E402
from ironic_lite.core import certificate_files, config, metrics, modules, notify  # noqa: E402

LOG = logging.getLogger(__name__)
PROG = "ironic-lite-api"
ABOUT = (
    "Serve the HTTP API. It needs a database created by ironic-lite-dbsync, and conductors "
    "(ironic-lite-conductor) that it reaches by [DEFAULT]transport_url. It stops on SIGTERM, after "
    "running requests are answered."
)
_STOP_SECONDS = 30.0
"""Seconds that requests may take during a stop."""


def reserve(conf: Configuration) -> listen_socket.ReservedAddress:
    """Reserve the address of the API; return what holds it.

    :raises config.ConfigError: the certificate cannot be used.
    :raises errors.OpenError: the address cannot be used at present.
    """
    listen_socket.check_tls(conf)
    return listen_socket.reserve(conf)


def workers(
    conf: Configuration,
    keeper: listen_socket.ReservedAddress,
    listening: Sequence[supervise.Flag],
    *,
    begin: Callable[[], object] = lambda: None,
) -> tuple[list[supervise.Child], supervise.Renewal]:
    """Return the processes that serve the API, not yet started, and what renews them.

    With TLS they are replaced when the certificate has changed.

    :param keeper: from `reserve`; this process keeps it open as long as it starts workers.
    :param listening: from `flags`.
    :param begin: called by each worker before it answers requests; may wait.
    :raises config.ConfigError: [api]auth_strategy cannot be used.
    """
    server, extensions = _load_server(conf), features.api(conf)
    there, count = keeper.address, config.api_workers(conf)
    # A worker answers Prometheus with the counts of all workers. Each of them has two boards, so
    # that it may count beside the worker that it replaces.
    boards = metrics.Pool(2 * count) if count > 1 else None
    page = server.health.ReadinessPage()

    def body(number: int) -> int:
        def report() -> None:
            begin()
            children[number].ready.set()
            _log_address(conf, there)

        keeper.close()  # a stopping orphan must not hold the address
        supervise.follow_log_level()
        if boards is not None:
            metrics.BOARD.share(boards, number + count * children[number].side)
        flag = listening[number].set
        server.serve(conf, there, begin=report, listening=flag, page=page, extensions=extensions)
        return 0

    # An orphan finishes its running requests; other processes may listen at once.
    children = [
        supervise.Child(
            "API" if count == 1 else f"API {number + 1}",
            functools.partial(body, number),
            stop_seconds=_STOP_SECONDS,
            orphaned=signal.SIGTERM,
        )
        for number in range(count)
    ]
    return children, _renewal(conf, children)


def _renewal(conf: Configuration, children: Sequence[supervise.Child]) -> supervise.Renewal:
    """Return what replaces the processes of the API, and does so for a changed certificate."""
    pair = listen_socket.certificate(conf)

    def renewed() -> bool:
        nonlocal pair
        named = listen_socket.certificate(conf)
        if pair is None or named is None or pair.files != named.files:
            pair = named  # a reload has replaced the processes
            return False
        return pair.renewed()

    return supervise.Renewal(children, renewed, certificate_files.LOOK_SECONDS)


def _load_server(conf: Configuration) -> Any:
    """Return the module of the server, loaded once for all workers."""
    with modules.left_out("genshi", "jinja2", "kajiki", "pygments"):
        server = entry.load("ironic_lite.api.server")
    server.check(conf)
    return server


def _log_address(conf: Configuration, there: listen_socket.ListenAddress) -> None:
    LOG.info("Listening on %s", listen_socket.url(conf, there))
    if there.path is None and conf.api.enable_window and "window" in features.enabled(conf):
        LOG.info("Window at %s/ui/", listen_socket.url(conf, there))


def flags(conf: Configuration) -> list[supervise.Flag]:
    """Return for each worker the flag that it sets once the address accepts connections."""
    return [supervise.Flag() for _ in range(config.api_workers(conf))]


def running_status(conf: Configuration, keeper: listen_socket.ReservedAddress) -> str:
    """Return the line that ``systemctl status`` shows of a running API."""
    return f"serving {listen_socket.url(conf, keeper.address)}"


def serve(conf: Configuration) -> int:
    """Run the API until SIGTERM or SIGINT; return the exit status.

    :raises config.ConfigError: address, certificate, database or transport cannot be used.
    :raises errors.Error: the database is missing, or not of this release.
    """
    keeper = reserve(conf)
    start.check(conf)
    listening = flags(conf)
    serving, renewal = workers(conf, keeper, listening)

    def announce() -> None:
        supervise.wait_for_flags(listening)
        notify.ready(running_status(conf, keeper))

    reload = supervise.reload(conf, PROG, renewal)
    status = supervise.supervise(serving, renewal=renewal, reload=reload, announce=announce)
    keeper.remove()
    return status


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    sys.exit(entry.run(PROG, ABOUT, serve, argv))


if __name__ == "__main__":
    main()
