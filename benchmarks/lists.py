"""CPU cost of a list of 1000 nodes, against a bare fetch of the same columns as JSON.

Both run in this process, without a server, because the cost of serving a megabyte would hide the
difference.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import contextlib  # noqa: E402  threads.native() must run before any oslo library is imported
import functools  # noqa: E402
import sys  # noqa: E402

from benchmarks import bare, harness  # noqa: E402
from benchmarks.figures import Figure, in_turns, report, size  # noqa: E402
from ironic_lite.api import middleware  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.rpc import client, transport  # noqa: E402
from tests.support import whole_api, wsgi_client  # noqa: E402
from tests.support.service import short_folder  # noqa: E402

NODES = size(1000, smoke=10)
BUDGET = 1.5
CASES = (
    ("default fields", "/v1/nodes", bare.BRIEF, 20),
    ("detail", "/v1/nodes/detail", bare.ALL, 5),
)


def body_of(application: middleware.Wsgi, path: str) -> bytes:
    """Return the body of a GET.

    :raises RuntimeError: it is not 200.
    """
    started: list[str] = []
    parts = application(
        wsgi_client.environment("GET", path), lambda status, *_: started.append(status)
    )
    body = b"".join(parts)
    if started != ["200 OK"]:
        raise RuntimeError(f"{path}: {started} {body[:500]!r}")
    return body


def main() -> int:
    """Measure and print; return the exit status."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    figures = []
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        harness.fill(opened, NODES)
        rpc = client.RpcClient(transport.build(f"local://{folder}/rpc"))
        application = whole_api.build(opened, rpc, config.CONF)
        for name, path, fields, count in CASES:
            statement, columns = bare.page(fields, NODES), bare.columns(fields)
            ours, theirs = in_turns(
                functools.partial(body_of, application, path),
                functools.partial(bare.fetch, opened, statement, columns),
                count=count,
                rounds=11,
            )
            figures += [
                Figure(f"list {NODES} nodes, {name}: CPU", ours, "ms"),
                Figure("the same columns by Core and orjson", theirs, "ms"),
                Figure("ratio", ours / theirs, "x", BUDGET),
            ]
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
