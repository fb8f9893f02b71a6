"""``ironic-lite-api``: the HTTP API, in as many processes as [api]workers says."""

from __future__ import annotations

from ironic_lite import threads

threads.native()  # before anything imports an oslo library

import functools  # noqa: E402
import logging  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

from ironic_lite import metrics  # noqa: E402
from ironic_lite.api.traffic import listening  # noqa: E402
from ironic_lite.cmd import checks, entry, processes  # noqa: E402

LOG = logging.getLogger(__name__)
PROG = "ironic-lite-api"
ABOUT = (
    "Serve the HTTP API. It needs a database that ironic-lite-dbsync has made, and conductors "
    "(ironic-lite-conductor) that it reaches by [DEFAULT]transport_url. It stops on SIGTERM, when "
    "the requests in hand are answered."
)
_STOP_SECONDS = 30.0
"""How long requests may take when we stop."""


def opened(conf: Any) -> socket.socket:
    """Return the socket of the API.

    :raises config.ConfigError: address or certificate cannot be used.
    """
    listening.check_tls(conf)
    return listening.listen(conf)


def workers(conf: Any, door: socket.socket) -> list[processes.Child]:
    """Return the processes that serve the API, not started yet.

    :raises config.ConfigError: [api]auth_strategy cannot be followed.
    """
    # Loaded here, once for all of them: a wrong configuration has been found by now.
    server = entry.load("ironic_lite.api.server")
    server.check(conf)

    count = conf.api.workers
    # Whichever of them Prometheus asks tells what all of them have counted.
    boards = metrics.Pool(count) if count > 1 else None

    def body(number: int) -> int:
        LOG.info("Listening on %s", listening.url(conf, door))
        if boards is not None:
            metrics.BOARD.share(boards, number)
        server.serve(conf, door)
        return 0

    names = ["API"] if count == 1 else [f"API {number + 1}" for number in range(count)]
    # An orphan finishes the requests in hand; the port is free at once.
    return [
        processes.Child(
            name,
            functools.partial(body, number),
            stop_seconds=_STOP_SECONDS,
            orphaned=signal.SIGTERM,
            stop_signal=server.farewell.CLOSE,
        )
        for number, name in enumerate(names)
    ]


def serve(conf: Any) -> int:
    """Run the API until SIGTERM or SIGINT; returns the exit status.

    :raises config.ConfigError: address, certificate, database or transport cannot be used.
    :raises errors.Error: the database is not there, or not of this release.
    """
    with opened(conf) as door:
        checks.run(conf)
        return processes.supervise(workers(conf, door), closing=door.close)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    sys.exit(entry.run(PROG, ABOUT, serve, argv))


if __name__ == "__main__":
    main()
