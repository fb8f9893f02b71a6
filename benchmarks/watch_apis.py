"""Latency of waits and events at two API processes on one PostgreSQL.

The server is started for the benchmark. Without PostgreSQL, the benchmark prints NOT MEASURED.
"""

from __future__ import annotations

import contextlib
import sys

from benchmarks import harness, wait_latency
from benchmarks.figures import Figure, report
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import migrate
from tests.support import private_servers

APIS = 2


def main() -> int:
    """Measure and print; return the exit status."""
    with harness.folder() as folder, contextlib.ExitStack() as stack:
        folder.chmod(0o755)  # the server runs as another user
        try:
            server = stack.enter_context(private_servers.database("postgresql", folder))
        except private_servers.Lacking as why:
            print(f"NOT MEASURED: two APIs on PostgreSQL: {why}")
            return 0
        url = server.url(server.port)
        opened = stack.enter_context(contextlib.closing(session.open_database(url)))
        migrate.upgrade(opened)
        row = harness.node(0)
        opened.write(lambda conn: nodes.insert(conn, row))
        apis = [stack.enter_context(harness.api(folder, f"api-{n}", url)) for n in range(APIS)]
        ports, node = [one.port for one in apis], row["uuid"]
        figures: list[Figure] = []
        for measure in (wait_latency.waits, wait_latency.polls, wait_latency.streams):
            figures += measure(ports, opened, node)
        figures.append(wait_latency.after_silence(ports, opened, node))
        return report(figures)


if __name__ == "__main__":
    sys.exit(main())
