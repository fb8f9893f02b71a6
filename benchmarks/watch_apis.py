"""Latency of waits and events at two API processes on one PostgreSQL.

The server is started for the benchmark. Without PostgreSQL, the benchmark prints NOT MEASURED.
"""

from __future__ import annotations

import contextlib
import sys

from benchmarks import harness, wait_latency
from benchmarks.figures import Figure, not_measured, report
from ironic_lite.db.engine import session
from tests.support import private_servers
from tests.support.service import short_folder

APIS = 2
MEASURES = (wait_latency.waits_for_node, wait_latency.waits_for_events, wait_latency.streams)


def main() -> int:
    """Measure and print; return the exit status."""
    with short_folder() as folder, contextlib.ExitStack() as stack:
        folder.chmod(0o755)  # the server runs as another user
        try:
            server = stack.enter_context(private_servers.database("postgresql", folder))
        except private_servers.Lacking as error:
            return not_measured(error)
        url = server.url(server.port)
        opened = stack.enter_context(contextlib.closing(session.open_database(url)))
        (node,) = harness.fill(opened, 1)
        apis = [stack.enter_context(harness.api(folder, url)) for _ in range(APIS)]
        ports = [each.port for each in apis]
        figures: list[Figure] = []
        for measure in MEASURES:
            figures += measure(ports, opened, node)
        figures.append(wait_latency.after_silence(ports, opened, node))
        return report(figures)


if __name__ == "__main__":
    sys.exit(main())
