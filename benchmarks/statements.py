"""Number of SQL statements per operation; ``tests/api/test_statements.py`` checks more."""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import logging  # noqa: E402  threads.native() must run before any oslo library is imported
import sys  # noqa: E402

from benchmarks import harness  # noqa: E402
from benchmarks.figures import Figure, report  # noqa: E402
from tests.support.in_process import InProcess  # noqa: E402

NODES = 20


def main() -> int:
    """Count and print; return the exit status."""
    with harness.folder() as folder:
        opened = harness.database(folder)
        uuids = harness.fill(opened, NODES)
        whole = InProcess(opened)
        whole.stop_clocks()
        logging.disable()
        node = f"/v1/nodes/{uuids[0]}"
        patch = [{"op": "replace", "path": "/extra/rack", "value": "r99"}]
        one, many = len(whole.cleaned(uuids[0], 1)), len(whole.cleaned(uuids[0], 11))
        figures = [
            Figure("GET a node", len(whole.sent(lambda api: api.get(node))), "", 1),
            Figure(
                "list, default fields", len(whole.sent(lambda api: api.get("/v1/nodes"))), "", 1
            ),
            Figure("list, detail", len(whole.sent(lambda api: api.get("/v1/nodes/detail"))), "", 2),
            Figure("PATCH a node", len(whole.sent(lambda api: api.patch(node, patch))), "", 3),
            Figure("manual clean with one step, API and conductor", one, "", 13),
            Figure("each further step", (many - one) / 10, "", 3),
        ]
        whole.close()
        opened.close()
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
