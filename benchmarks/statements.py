"""Number of SQL statements per operation; ``tests/api/test_costs.py`` checks more."""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import contextlib  # noqa: E402  threads.native() must run before any oslo library is imported
import logging  # noqa: E402
import sys  # noqa: E402

from benchmarks import harness  # noqa: E402
from benchmarks.figures import Figure, report  # noqa: E402
from tests.support.in_process import InProcess  # noqa: E402
from tests.support.service import short_folder  # noqa: E402

NODES = 20


def count(service: InProcess, node: str) -> list[Figure]:
    """Return the numbers of statements for operations on a node."""
    path = f"/v1/nodes/{node}"
    patch = [{"op": "replace", "path": "/extra/rack", "value": "r99"}]
    requests = {
        "GET a node": (service.sent(lambda api: api.get(path)), 1),
        "list, default fields": (service.sent(lambda api: api.get("/v1/nodes")), 1),
        "list, detail": (service.sent(lambda api: api.get("/v1/nodes/detail")), 2),
        # The fourth writes the terms by which the value is found.
        "PATCH a node": (service.sent(lambda api: api.patch(path, patch)), 4),
    }
    one, many = len(service.cleaned(node, 1)), len(service.cleaned(node, 11))
    return [
        *(Figure(name, len(sent), "", budget) for name, (sent, budget) in requests.items()),
        Figure("manual clean with one step, API and conductor", one, "", 14),
        Figure("each further step", (many - one) / 10, "", 3),
    ]


def main() -> int:
    """Count and print; return the exit status."""
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        node = harness.fill(opened, NODES)[0]
        with contextlib.closing(InProcess(opened)) as service:
            logging.disable()
            found = count(service, node)
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
