"""CPU cost of a power read, against the same GET by the library requests alone.

Both open a connection for each request, as BMCs need it, and parse the response as JSON.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import logging  # noqa: E402  threads.native() must run before any oslo library is imported
import sys  # noqa: E402
from typing import Any  # noqa: E402

import requests  # noqa: E402

from benchmarks import bmc, harness  # noqa: E402
from benchmarks.figures import Figure, in_turns, report  # noqa: E402
from benchmarks.power_sync import conductor, node  # noqa: E402
from ironic_lite.core import context  # noqa: E402
from ironic_lite.db.tables import migrate, models  # noqa: E402
from ironic_lite.records import Node  # noqa: E402
from tests.support.service import short_folder  # noqa: E402

READS = 100
BUDGET = 2.0


def main() -> int:
    """Measure and print; return the exit status."""
    with short_folder() as folder, bmc.fleet(seconds=0.0) as (port, _):
        logging.disable(logging.ERROR)
        opened = harness.database(folder)
        migrate.upgrade(opened)
        tasks = conductor(folder, opened).tasks
        address = f"http://{bmc.address(0)}:{port}"
        row: dict[str, Any] = dict.fromkeys(models.columns(models.nodes)) | node(0, address)
        caller = context.internal("bench")

        def read() -> None:
            task = tasks.view(caller, Node.of(row))
            task.driver.power.validate(task)
            if task.driver.power.get_power_state(task) != "power on":
                raise RuntimeError("the power is not on")

        session = requests.Session()
        session.trust_env = False  # as it would read proxies and passwords for each request
        session.headers["Connection"] = "close"
        session.auth = (bmc.USER, bmc.PASSWORD)

        def bare() -> None:
            response = session.get(address + bmc.SYSTEM, timeout=(10, 60))
            if response.json()["PowerState"] != "On":
                raise RuntimeError("the power is not on")

        ours, theirs = in_turns(read, bare, count=READS)
    return report(
        [
            Figure("power read, by driver and task: CPU", ours, "ms"),
            Figure("GET and json() by requests: CPU", theirs, "ms"),
            Figure("ratio", ours / theirs, "x", BUDGET),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
