"""CPU cost of a list of 1000 nodes, against a bare fetch of the same columns as JSON.

Both run in this process, without a server, because the cost of serving a megabyte would hide the
difference.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import functools  # noqa: E402  threads.native() must run before any oslo library is imported
import sys  # noqa: E402

from benchmarks import bare, harness  # noqa: E402
from benchmarks.figures import Figure, report, rivals  # noqa: E402
from ironic_lite.api import app, middleware  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.rpc import client, transport  # noqa: E402
from tests.support import wsgi_client  # noqa: E402

NODES = 1000
BUDGET = 1.5
CASES = (
    ("default fields", "/v1/nodes", bare.BRIEF, 20),
    ("detail", "/v1/nodes/detail", bare.EVERY, 5),
)


def asked(application: middleware.Wsgi, path: str) -> bytes:
    """Return the body of a GET."""
    started: list[str] = []
    answer = application(
        wsgi_client.environment("GET", path), lambda status, *_: started.append(status)
    )
    body = b"".join(answer)
    if started != ["200 OK"]:
        raise RuntimeError(f"{path}: {started} {body[:500]!r}")
    return body


def main() -> int:
    """Measure and print; return the exit status."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    figures = []
    with harness.folder() as folder:
        opened = harness.database(folder)
        harness.fill(opened, NODES)
        rpc = client.Client(transport.build(f"local://{folder}/rpc"))
        application = app.build(opened, rpc, config.CONF)
        for what, path, names, count in CASES:
            statement, columns = bare.many(names, NODES), bare.columns(names)
            ours, theirs = rivals(
                functools.partial(asked, application, path),
                functools.partial(bare.fetch, opened, statement, columns),
                count=count,
                rounds=11,
            )
            figures += [
                Figure(f"list {NODES} nodes, {what}: CPU", ours, "ms"),
                Figure("the same columns by Core and orjson", theirs, "ms"),
                Figure("ratio", ours / theirs, "x", BUDGET),
            ]
        opened.close()
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
