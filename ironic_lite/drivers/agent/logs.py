"""Collection of a ramdisk's logs into files of the conductor, before the ramdisk ends."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import itertools
import logging
import pathlib
import posixpath
import re
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from ironic_lite import errors
from ironic_lite.core import clock, config, log_lines, masking
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.client import AgentClient
from ironic_lite.images import local_files

LOG = logging.getLogger(__name__)

# The journal in the logs that a ramdisk sends; no I/O.

JOURNAL_BYTES = 64 * 1024
"""Bytes of the journal's end."""
_MOST_UNPACKED = 256 * 1024 * 1024
"""Bytes that an archive may have unpacked."""
_CHUNK = 256 * 1024
_GZIP = b"\x1f\x8b"
_NO_BASE64 = (ValueError, TypeError)
_JOURNALS = ("journal", "ironic-python-agent.log", "syslog", "messages", "dmesg")
"""Files that record what a ramdisk did, the best one first."""


def journal_tail(packed: bytes) -> list[str]:
    """Return the last lines of the journal in an archive; none if it cannot be read.

    :param packed: a tar archive, compressed by gzip.
    """
    found: dict[str, bytes] = {}
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked,
            tarfile.open(fileobj=_Bounded(unpacked), mode="r|") as archive,
        ):
            for member in archive:
                name = posixpath.basename(member.name)
                if not member.isfile() or name not in _JOURNALS:
                    continue
                if (file := archive.extractfile(member)) is not None:
                    found[name] = _end_of(file)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error):
        pass  # the lines before the damage count
    best = next((found[name] for name in _JOURNALS if found.get(name)), b"")
    return best.decode("utf-8", "replace").splitlines()


def _end_of(file: IO[bytes]) -> bytes:
    """Return the last lines of a file, without half a line at the beginning."""
    end = b""
    while chunk := file.read(_CHUNK):
        end = (end + chunk)[-JOURNAL_BYTES - 1 :]
    return end if len(end) <= JOURNAL_BYTES else end[-JOURNAL_BYTES:].partition(b"\n")[2]


# Secrets in the logs: the agent logs the arguments of its commands, such as logins for images.

_LONGEST_LINE = 1024 * 1024
_PIECE = re.compile(rb"[^\n\0]+")
_MAGIC = re.compile(rb"ustar")
_MAGIC_PLACE = 257
"""Bytes before it in the header of a member."""
_KEY_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY( BLOCK)?-----")
_KEY_END = b"-----END "
_KEY_LINES = 256
"""Most lines of a private key; a log may end within one."""


def without_secrets(packed: bytes, hide: Callable[[str], str]) -> bytes:
    """Return logs with their secrets masked, up to their first damage.

    Each line keeps its length, so an archive stays one without being taken apart. All lines of a
    private key in PEM are masked, also those of others between them.

    :param packed: logs, compressed by gzip or not.
    :param hide: masks a line.
    """

    left = 0  # lines that may belong to a key

    def masked(piece: re.Match[bytes]) -> bytes:
        nonlocal left
        text = piece[0].decode("utf-8", "surrogateescape")
        if _KEY_BEGIN.search(piece[0]):
            left = _KEY_LINES
        shown, size = masking.MASK if left else hide(text), len(piece[0])
        left = 0 if _KEY_END in piece[0] else max(0, left - 1)
        return shown.encode("utf-8", "surrogateescape")[:size].ljust(size)

    def parts(lines: io.BufferedIOBase) -> Iterator[bytes]:
        nonlocal left
        for part, is_member in _parts(lines):
            left = 0 if is_member else left
            yield _PIECE.sub(masked, part)

    made = io.BytesIO()
    if not packed.startswith(_GZIP):
        made.writelines(parts(io.BytesIO(packed)))
        return made.getvalue()
    with (
        contextlib.suppress(OSError, EOFError, zlib.error),
        gzip.GzipFile(fileobj=made, mode="wb") as kept,
        gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked,
    ):
        for part in parts(io.BufferedReader(_Bounded(unpacked))):
            kept.write(part)
    return made.getvalue()


def _parts(lines: io.BufferedIOBase) -> Iterator[tuple[bytes, bool]]:
    """Yield lines, also cut before each member of a tar archive, and whether one begins there.

    A member that fills its last block exactly has no zeros before the header of the next one.
    """
    at = 0
    while line := lines.readline(_LONGEST_LINE):
        headers = (found.start() - _MAGIC_PLACE for found in _MAGIC.finditer(line))
        begins = [one for one in headers if one >= 0 and (at + one) % tarfile.BLOCKSIZE == 0]
        for begin, end in itertools.pairwise((0, *begins, len(line))):
            yield line[begin:end], begin in begins
        at += len(line)


class _Bounded(io.RawIOBase):
    """The beginning of a file, so that a small archive cannot fill the memory or take for ever."""

    def __init__(self, inner: gzip.GzipFile) -> None:
        super().__init__()
        self._inner = inner
        self._left = _MOST_UNPACKED

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer; at the limit the file ends."""
        data = self._inner.read1(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)


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
    client = AgentClient(task)
    return _keep(task, lambda: client.call("log.collect_system_logs", {}).get("system_logs") or "")


def sent(task: base.Task, packed: object, *, failed: bool) -> None:
    """Store logs that a ramdisk has sent by itself, if they are wanted.

    :param packed: a tar archive, compressed by gzip, in base64; other values are ignored.
    :param failed: whether the run has failed.
    """
    wanted = config.CONF.agent.deploy_logs_collect
    if isinstance(packed, str) and (wanted == "always" or (failed and wanted != "never")):
        _keep(task, lambda: packed)


def _keep(task: base.Task, fetch: Callable[[], str]) -> pathlib.Path | None:
    """Write the logs that a call returns in base64; without them, log why."""
    try:
        path = _write_logs(task, base64.b64decode(fetch(), validate=True))
    except (errors.HardwareError, errors.DiskFull, errors.LocalFileError, *_NO_BASE64) as why:
        LOG.warning("Node %s: cannot keep the logs of its ramdisk: %s", task.node.uuid, why)
        return None
    LOG.info("Node %s: logs of its ramdisk written to %s", task.node.uuid, path)
    return path


def _write_logs(task: base.Task, packed: bytes) -> pathlib.Path:
    """Write a file that only this user can read, because it may still have secrets of the machine.

    The end of its journal goes into the log of the run.

    :raises errors.DiskFull, errors.LocalFileError: it cannot be written; nothing is left of it.
    """
    packed = without_secrets(packed, masking.mask_of_node(task.node))
    for line in journal_tail(packed):  # also if the disk is full
        log_lines.note_run_line("ramdisk", line)
    folder = local_files.agent_logs()
    stamp = clock.now().strftime("%Y-%m-%d-%H-%M-%S-%f")
    path = folder / f"{task.node.uuid}_{stamp}.tar.gz"
    with local_files.explained(path):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with local_files.new_file(folder) as (file, made):
            # The last free space of a disk is for the database, which may be on it, too.
            local_files.reserve(file, len(packed), folder, sys.maxsize)
            file.write(packed)
            file.flush()
            made.replace(path)
    return path
