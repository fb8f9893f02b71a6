"""The limit of each answer of PostgreSQL, for servers that fall silent.

psycopg documents no limit of an answer, and TCP's ``tcp_user_timeout`` does not help: the kernel of
a stopped server still acknowledges what is sent. A statement's own limit is kept by the server. So
this module overrides ``psycopg.Connection.wait``, which is public but not documented: it runs the
generator of each operation, and sends a false value into it when the socket was not ready for an
interval. ``setup.cfg`` excludes the next minor release, which may change this;
``tests/db/test_connections.py`` tests it without a server.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")


@functools.cache
def connection_class(driver: Any, seconds: float) -> Any:
    """Return psycopg's class of connections with a limit for each answer of the server.

    The operation that reaches the limit raises ``OperationalError``, and closes the connection.

    :param driver: the module ``psycopg``, an optional dependency.
    """

    class LimitedConnection(driver.Connection):  # type: ignore[misc]
        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            return super().wait(self._limited(gen), *args, **options)

        def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
            end = time.monotonic() + seconds
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if not ready and time.monotonic() >= end:
                        self.close()  # so that SQLAlchemy replaces the connection
                        raise driver.OperationalError(f"timed out: no answer within {seconds:g} s")
                    wanted = gen.send(ready)
            except StopIteration as end_of_work:
                result: T = end_of_work.value
                return result

    return LimitedConnection
