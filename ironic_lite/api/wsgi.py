"""The API for any WSGI server: ``ironic_lite.api.wsgi:application``.

Configuration comes from the files that ``ironic-lite-api`` reads, or from the paths in the
environment variables IRONIC_LITE_CONFIG_FILES and IRONIC_LITE_CONFIG_DIRS, separated as in PATH.
The first request opens database and RPC, so a server may load this module before it forks workers.
"""

from __future__ import annotations

from ironic_lite.core import threads
from ironic_lite.core.configuration import Configuration

threads.native()  # before anything imports an oslo library

import atexit  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from collections.abc import Iterable  # noqa: E402

from oslo_config import cfg  # noqa: E402

from ironic_lite import errors  # noqa: E402
from ironic_lite.api import app, middleware  # noqa: E402
from ironic_lite.api.auth import identify  # noqa: E402
from ironic_lite.api.health import probes  # noqa: E402
from ironic_lite.api.watching.blocking import BlockingWatches  # noqa: E402
from ironic_lite.api.window import files  # noqa: E402
from ironic_lite.api.wire.request import Environ, StartResponse  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.db.engine import session  # noqa: E402
from ironic_lite.db.tables import migrate  # noqa: E402
from ironic_lite.rpc import client, transport  # noqa: E402

FILES = "IRONIC_LITE_CONFIG_FILES"
DIRS = "IRONIC_LITE_CONFIG_DIRS"


class Late:
    """The routed part of the API, built by the first request of this process.

    A failure to build is the answer to that request; the next request tries again.
    """

    def __init__(self, conf: Configuration) -> None:
        self._conf = conf
        self._building = threading.Lock()
        self._inner: app.Application | None = None

    def admit(self, environ: Environ) -> int:
        """Route a request that `middleware` has opened; see `app.Application.admit`."""
        return self.open().admit(environ)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer an admitted request."""
        answer: Iterable[bytes] = self.open()(environ, start_response)
        return answer

    def open(self) -> app.Application:
        """Return the application, built if missing; a worker may call this early."""
        if self._inner is None:
            with self._building:
                if self._inner is None:
                    self._inner = self._build_application()
        return self._inner

    def _build_application(self) -> app.Application:
        database = session.configured(self._conf)
        migrate.check(database)
        told = app.listening(database, self._conf)
        atexit.register(told.close)
        return app.routed(database, client.Client(transport.get()), self._conf, told)


def arguments(environ: dict[str, str]) -> list[str]:
    """Return the command line arguments that the environment variables mean."""
    found = []
    for name, option in ((FILES, "--config-file"), (DIRS, "--config-dir")):
        for path in filter(None, environ.get(name, "").split(os.pathsep)):
            found += [option, path]
    return found


def _load_configuration() -> tuple[cfg.ConfigOpts, identify.Identify]:
    try:
        conf = config.load(config.API, arguments(dict(os.environ)))
        return conf, identify.way(conf)
    except errors.Error as why:
        print(f"{config.API}: {why}", file=sys.stderr)
        raise SystemExit(2 if isinstance(why, config.ConfigError) else 1) from None


_CONF, _WAY = _load_configuration()
late = Late(_CONF)
_DIRECT = {**probes.table(_CONF, lambda: late.open().service), **files.table(_CONF)}
_REQUESTS = middleware.RequestMiddleware(late, _CONF, _WAY, _DIRECT)
application = BlockingWatches(_REQUESTS, _REQUESTS.answer, lambda: late.open().service.tail)
