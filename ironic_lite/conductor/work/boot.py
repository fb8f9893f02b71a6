"""Identity of a conductor process, distinguishing it from others with its name.

A name belongs to one process. Each process takes a random id when it starts and writes it into its
row. A file in ``state_path``, locked as long as the process lives, holds the ids of the last lives
on this machine. A row with one of these ids was left by a dead process, so a restart waits for
nothing. Any other row that looks alive is watched for a while first.
"""

from __future__ import annotations

import fcntl
import logging
import pathlib
import threading
import time
import urllib.parse
import uuid
from typing import IO

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.configuration import ConductorOptions
from ironic_lite.db.engine.session import Transactions
from ironic_lite.db.queries import conductors

LOG = logging.getLogger(__name__)

_KEPT = 3  # ids of earlier lives; a life may have ended before writing its row
_DYING = 2.0  # seconds until a killed process has ended
_LOOK = 0.1  # seconds
_BEATS = 1.5  # renewal intervals for which another row is watched


class Boot:
    """The id of this process.

    :ivar before: ids of earlier lives that have certainly ended.
    """

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.before: frozenset[str] = frozenset()
        self._file: IO[str] | None = None

    def claim(self, host: str, folder: pathlib.Path) -> None:
        """Lock this name on this machine until the process ends.

        :raises errors.Error: another process has the name, or the file cannot be written.
        """
        place = folder / "conductors" / urllib.parse.quote(host, safe="")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            file = place.open("a+", encoding="ascii")
            _lock_name(file, host)
            file.seek(0)
            known = file.read().split()[-_KEPT:]
            file.truncate(0)
            file.write("".join(f"{one}\n" for one in (*known, self.id)))
            file.flush()
        except OSError as why:
            raise errors.Error(f"{place} cannot be written: {why.strerror}") from why
        self.before, self._file = frozenset(known), file

    def alone(
        self,
        database: Transactions,
        host: str,
        settings: ConductorOptions,
        stopping: threading.Event,
    ) -> bool:
        """Return whether no other living process can have this name.

        If this is uncertain, a row that looks alive is watched for a while. A row of an earlier
        life on this machine needs no wait.

        :param settings: the options of ``[conductor]``.
        :raises errors.Error: another process with this name lives.
        """
        found = database.read(lambda conn: conductors.life(conn, host))
        if found is None or found.boot in self.before:
            return True
        recent = clock.lived(found.updated_at) < settings.heartbeat_timeout
        if not (found.online and recent):
            return False
        seconds = settings.heartbeat_interval * _BEATS
        LOG.info(
            "A conductor named %s recently ran elsewhere: watching its row for %g s", host, seconds
        )
        end = time.monotonic() + seconds
        while time.monotonic() < end and not stopping.wait(_LOOK):
            if database.read(lambda conn: conductors.life(conn, host)) not in (found, None):
                raise errors.Error(
                    f"Another conductor named {host} is alive: its row in the database changes. "
                    "Give each conductor a [DEFAULT]host of its own, or stop the other one first."
                )
        return False


def _lock_name(file: IO[str], host: str) -> None:
    end = time.monotonic() + _DYING
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise errors.Error(
                    f"Another conductor named {host} runs on this machine: it has {file.name} "
                    "locked. Give each conductor a [DEFAULT]host of its own, or stop the other "
                    "one first."
                ) from None
            time.sleep(_LOOK)
