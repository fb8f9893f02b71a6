"""Collection of a ramdisk's logs into files of the conductor, before the ramdisk ends."""

from __future__ import annotations

import base64
import logging
import pathlib
import sys

from ironic_lite import errors
from ironic_lite.core import clock, config, run_lines
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import journal
from ironic_lite.drivers.agent.client import Client
from ironic_lite.images import room

LOG = logging.getLogger(__name__)

_UNKEPT = (errors.DiskFull, errors.LocalFileError, ValueError)
"""Errors for which logs are not kept."""


def failed(task: base.Task) -> None:
    """Collect the logs after a failure, unless they are never wanted.

    An agent that has been silent for long is skipped, because that was the failure.
    """
    agent = task.agent
    if agent is None or config.CONF.agent.deploy_logs_collect == "never":
        return
    limit = float(config.CONF.api.ramdisk_heartbeat_timeout)
    if clock.lived(agent.heard_at) <= limit:
        collect(task)


def ended(task: base.Task) -> None:
    """Collect the logs at the end of a run; after a success only if always wanted."""
    if task.failing:
        failed(task)
    elif config.CONF.agent.deploy_logs_collect == "always":
        collect(task)


def collect(task: base.Task) -> pathlib.Path | None:
    """Collect the logs of the running agent into a file, and return its path.

    An agent without logs or a full disk raises nothing and is only logged, because the earlier
    failure matters more.
    """
    if task.agent is None:
        return None
    try:
        value = Client(task).call("log.collect_system_logs", {})
        packed = base64.b64decode(value.get("system_logs") or "", validate=True)
        path = _write_logs(task, packed)
    except (errors.HardwareError, *_UNKEPT, TypeError) as why:
        LOG.warning("Node %s: cannot keep the logs of its ramdisk: %s", task.node.uuid, why)
        return None
    LOG.info("Node %s: logs of its ramdisk written to %s", task.node.uuid, path)
    return path


def sent(task: base.Task, packed: object, *, failed: bool) -> None:
    """Store logs that a ramdisk has sent by itself, if they are wanted.

    :param packed: a tar archive, compressed by gzip, in base64; other values are ignored.
    :param failed: whether the run has failed.
    """
    wanted = config.CONF.agent.deploy_logs_collect
    if not isinstance(packed, str) or wanted == "never" or (wanted != "always" and not failed):
        return
    try:
        path = _write_logs(task, base64.b64decode(packed, validate=True))
    except _UNKEPT as why:
        LOG.warning("Node %s: cannot keep the logs of its ramdisk: %s", task.node.uuid, why)
    else:
        LOG.info("Node %s: logs of its ramdisk written to %s", task.node.uuid, path)


def _write_logs(task: base.Task, packed: bytes) -> pathlib.Path:
    """Write a file that only this user can read, because it may have secrets of the machine.

    The end of its journal goes into the log of the run, where secrets are masked.

    :raises errors.DiskFull, errors.LocalFileError: it cannot be written; nothing is left of it.
    """
    for line in journal.tail(packed):  # also if the disk is full
        run_lines.note("ramdisk", line)
    folder = room.agent_logs()
    stamp = clock.now().strftime("%Y-%m-%d-%H-%M-%S-%f")
    path = folder / f"{task.node.uuid}_{stamp}.tar.gz"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with room.new_file(folder) as (file, made):
            # The last free space of a disk is for the database, which may be on it, too.
            room.reserve(file, len(packed), folder, sys.maxsize)
            file.write(packed)
            file.flush()
            made.replace(path)
    except OSError as why:
        if why.errno in room.FULL:
            raise errors.DiskFull(path=str(path)) from None
        raise errors.LocalFileError(path=str(path), reason=why.strerror or str(why)) from None
    return path
