"""The processes of a conductor, as children of a supervisor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ironic_lite.cmd import entry, processes, signals
from ironic_lite.core import config
from ironic_lite.core.configuration import Configuration
from ironic_lite.membership import names

_END_SECONDS = 30.0
"""Most seconds a conductor takes to stop, beside its wait for running work."""
_FILES_SECONDS = 10.0
"""Most seconds the file server takes to stop."""


def children(
    conf: Configuration,
    *,
    prepared: Callable[[], object] = lambda: None,
    registered: processes.Flag | Sequence[processes.Flag],
) -> list[processes.Child]:
    """Return the processes of [conductor]processes, not yet started.

    Each is a conductor with a name, a lease and an address of its own, so the death of one concerns
    only its own nodes.

    :param prepared: as of ``cmd.conductor.conduct``.
    :param registered: set by each conductor once the API can find it: one for all, or of `flags`.

    :raises config.ConfigError: [DEFAULT]host is already the name of one process of several.
    """
    if conf.conductor.processes > 1 and names.machine(conf.host) != conf.host:
        reason = (
            f"[DEFAULT]host: {conf.host} has a colon; [conductor]processes needs a name without"
        )
        raise config.ConfigError(reason=reason)

    def conduct(host: str, flag: processes.Flag) -> int:
        conf.set_override("host", host)
        # Loaded here, unless the parent has loaded it for all.
        loaded = entry.load("ironic_lite.cmd.conductor")
        status: int = loaded.conduct(conf, prepared=prepared, registered=flag.set)
        return status

    settings = conf.conductor
    hosts = names.of_processes(conf.host, settings.processes)
    up = [registered] * len(hosts) if isinstance(registered, processes.Flag) else registered
    return [
        processes.Child(
            "conductor" if len(hosts) == 1 else f"conductor {host}",
            functools.partial(conduct, host, flag),
            stop_seconds=_stop_seconds(settings.graceful_shutdown_timeout),
            drain_seconds=_stop_seconds(settings.drain_shutdown_timeout),
        )
        for host, flag in zip(hosts, up, strict=True)
    ]


def flags(conf: Configuration) -> list[processes.Flag]:
    """Return for each process of [conductor]processes the flag that it sets once registered."""
    return [processes.Flag() for _ in range(conf.conductor.processes)]


def file_servers(conf: Configuration) -> list[processes.Child]:
    """Return the process that serves files for several conductors of a machine, if any.

    One conductor serves the files itself.
    """
    if conf.conductor.processes == 1 or conf.deploy.http_port is None:
        return []
    body = functools.partial(_serve_files, conf)
    return [processes.Child("file server", body, stop_seconds=_FILES_SECONDS)]


def _serve_files(conf: Configuration) -> int:
    stop = signals.StopRequest()
    server = entry.load("ironic_lite.conductor.fileserver").configured(conf)
    server.start()
    stop.wait()
    server.stop()
    return 0


def _stop_seconds(seconds: float) -> float | None:
    """Return the seconds a conductor may take to stop; None is no limit."""
    return seconds + _END_SECONDS if seconds else None
