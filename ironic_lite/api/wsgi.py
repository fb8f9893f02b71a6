"""The API for any WSGI server: ``ironic_lite.api.wsgi:application``.

Configuration comes from the files that ``ironic-lite-api`` reads, or from those that the
environment names: IRONIC_LITE_CONFIG_FILES and IRONIC_LITE_CONFIG_DIRS, several separated as in
PATH. Database and RPC are opened by the first request, so a server may load this module before it
forks its workers.
"""

from __future__ import annotations

from ironic_lite import threads

threads.native()  # before anything imports an oslo library

import atexit  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from collections.abc import Iterable  # noqa: E402

from oslo_config import cfg  # noqa: E402

from ironic_lite import config  # noqa: E402
from ironic_lite.api import app, front  # noqa: E402
from ironic_lite.api.health import probes  # noqa: E402
from ironic_lite.api.login import identify  # noqa: E402
from ironic_lite.api.wire.exchange import Environ, StartResponse  # noqa: E402
from ironic_lite.db import migrate, session  # noqa: E402
from ironic_lite.rpc import client, transport  # noqa: E402

FILES = "IRONIC_LITE_CONFIG_FILES"
DIRS = "IRONIC_LITE_CONFIG_DIRS"


class Late:
    """The routed part of the API, built when the first request of this process needs it.

    What goes wrong then is answered to that request, and tried again by the next.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._building = threading.Lock()
        self._inner: app.Application | None = None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request that `front` has opened."""
        answer: Iterable[bytes] = self.open()(environ, start_response)
        return answer

    def open(self) -> app.Application:
        """Build it if it is not there yet; a worker may call this to be ready early."""
        if self._inner is None:
            with self._building:
                if self._inner is None:
                    self._inner = self._build()
        return self._inner

    def _build(self) -> app.Application:
        database = session.configured(self._conf)
        migrate.check(database)
        told = app.listening(database, self._conf)
        atexit.register(told.close)
        return app.routed(database, client.Client(transport.get()), self._conf, told)


def arguments(environ: dict[str, str]) -> list[str]:
    """Return the command line that the environment stands for."""
    found = []
    for name, option in ((FILES, "--config-file"), (DIRS, "--config-dir")):
        for path in filter(None, environ.get(name, "").split(os.pathsep)):
            found += [option, path]
    return found


def _load() -> tuple[cfg.ConfigOpts, identify.Identify]:
    try:
        conf = config.load(config.API, arguments(dict(os.environ)))
        return conf, identify.way(conf)
    except config.ConfigError as why:
        print(f"{config.API}: {why}", file=sys.stderr)
        raise SystemExit(2) from None


_CONF, _WAY = _load()
late = Late(_CONF)
application = front.Front(late, _CONF, _WAY, probes.table(_CONF, lambda: late.open().service))
