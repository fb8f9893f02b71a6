"""CPU cost of a power read, against the same GET by the library requests alone.

Both open a connection for each request, as BMCs need it, and parse the answer as JSON.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import logging  # noqa: E402  threads.native() must run before any oslo library is imported
import sys  # noqa: E402
from typing import Any  # noqa: E402

import requests  # noqa: E402

from benchmarks import bmc, harness  # noqa: E402
from benchmarks.figures import Figure, report, rivals  # noqa: E402
from benchmarks.power_sync import conductor, node  # noqa: E402
from ironic_lite.core import context  # noqa: E402
from ironic_lite.db.tables import migrate, models  # noqa: E402
from ironic_lite.records import Node  # noqa: E402

READS = 100
BUDGET = 2.0


def main() -> int:
    """Measure and print; return the exit status."""
    with harness.folder() as folder, bmc.fleet(seconds=0.0) as (port, _):
        logging.disable(logging.ERROR)
        opened = harness.database(folder)
        migrate.upgrade(opened)
        tasks = conductor(folder, opened).tasks
        address = f"http://{bmc.address(0)}:{port}"
        row: dict[str, Any] = dict.fromkeys(models.columns(models.nodes)) | node(0, address)
        who = context.internal("bench")

        def read() -> None:
            task = tasks.view(who, Node.of(row))
            task.driver.power.validate(task)
            if task.driver.power.get_power_state(task) != "power on":
                raise RuntimeError("not read")

        session = requests.Session()
        session.trust_env = False  # it would look for proxies and passwords at each request
        session.headers["Connection"] = "close"
        session.auth = (bmc.USER, bmc.PASSWORD)

        def bare() -> None:
            answer = session.get(address + bmc.SYSTEM, timeout=(10, 60))
            if answer.json()["PowerState"] != "On":
                raise RuntimeError("not read")

        ours, theirs = rivals(read, bare, count=READS)
    return report(
        [
            Figure("power read, by driver and task: CPU", ours, "ms"),
            Figure("GET and json() by requests: CPU", theirs, "ms"),
            Figure("ratio", ours / theirs, "x", BUDGET),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
