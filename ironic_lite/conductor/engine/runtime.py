"""Objects shared by all work in one conductor: name, identity, database, drivers, workers."""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import logging
import os
import pathlib
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from typing import IO, NamedTuple, Protocol

import orjson

from ironic_lite import errors
from ironic_lite.conductor.engine.locks import Fence
from ironic_lite.conductor.engine.workers import Workers
from ironic_lite.core import clock, config
from ironic_lite.core.evidence_key import KeyFile
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import ConductorOptions, Configuration
from ironic_lite.db.engine.session import Transactions
from ironic_lite.db.queries import conductors
from ironic_lite.domain import inspection_rules
from ironic_lite.domain.steps import Priority
from ironic_lite.drivers.registry import Registry
from ironic_lite.rpc import notifier
from ironic_lite.rpc.notifier import Notifier

# Identity of a conductor process, distinguishing it from others with its name.
#
# A name belongs to one process. Each process takes a random id when it starts and writes it into
# its row. A file in ``state_path``, locked as long as the process lives, holds the ids of the last
# lives on this machine. A row with one of these ids was left by a dead process, so a restart waits
# for nothing. Any other row that looks alive is watched for a while first.

LOG = logging.getLogger(__name__)

_KEPT_IDS = 3  # ids of earlier lives; a life may have ended before writing its row
_DYING_SECONDS = 2.0  # seconds until a killed process has ended
_LOOK_PAUSE = 0.1  # seconds
_WATCHED_INTERVALS = 1.5  # renewal intervals for which another row is watched


class ProcessLife:
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
            known = file.read().split()[-_KEPT_IDS:]
            file.truncate(0)
            file.write("".join(f"{one}\n" for one in (*known, self.id)))
            file.flush()
        except OSError as why:
            raise errors.Error(f"{place} cannot be written: {why.strerror}") from why
        self.before, self._file = frozenset(known), file

    def name_is_ours(
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
        seconds = settings.heartbeat_interval * _WATCHED_INTERVALS
        LOG.info(
            "A conductor named %s recently ran elsewhere: watching its row for %g s", host, seconds
        )
        end = time.monotonic() + seconds
        while time.monotonic() < end and not stopping.wait(_LOOK_PAUSE):
            if database.read(lambda conn: conductors.life(conn, host)) not in (found, None):
                raise errors.Error(
                    f"Another conductor named {host} is alive: its row in the database changes. "
                    "Give each conductor a [DEFAULT]host of its own, or stop the other one first."
                )
        return False


def _lock_name(file: IO[str], host: str) -> None:
    end = time.monotonic() + _DYING_SECONDS
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
            time.sleep(_LOOK_PAUSE)


class _RulesOfFile(NamedTuple):
    stamp: tuple[int, int, int]
    rules: list[Json]


class BuiltinRules:
    """The rules of one file.

    :param path: of the YAML or JSON file; None or empty: there are no built-in rules.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._read: _RulesOfFile | None = None

    def check(self) -> None:
        """Read the file, so that its faults are reported before an inspection.

        :raises config.ConfigError: the file cannot be read, or its content is invalid.
        """
        try:
            self.rules()
        except errors.LocalFileError as why:
            raise config.ConfigError(reason=f"[inspection_rules]built_in_rules: {why}") from None

    def rules(self, phase: str | None = None) -> list[Json]:
        """Return the rules, or those of one phase, in the order of the file.

        :raises errors.LocalFileError: the file cannot be read, or its content is invalid.
        """
        if not self._path:
            return []
        try:
            about = os.stat(self._path)
            stamp = (about.st_mtime_ns, about.st_size, about.st_ino)
            if self._read is None or self._read.stamp != stamp:
                self._read = _RulesOfFile(
                    stamp, _parse_rules(pathlib.Path(self._path).read_bytes())
                )
        except OSError as why:
            reason = why.strerror or str(why)
            raise errors.LocalFileError(path=self._path, reason=reason) from None
        except errors.InvalidParameter as why:
            raise errors.LocalFileError(path=self._path, reason=why.message) from None
        return [rule for rule in self._read.rules if phase in (None, rule["phase"])]


def _parse_rules(text: bytes) -> list[Json]:
    import yaml  # noqa: PLC0415  # few have such a file, and all would keep it in memory

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as why:
        reason = " ".join(str(why).split())[:200]
        raise errors.InvalidParameter(path="file", reason=f"is no YAML: {reason}") from None
    try:
        # Nodes store JSON: a date becomes text; a value without a JSON form is refused now.
        plain = orjson.loads(orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS))
    except TypeError as why:
        reason = f"has a value that JSON cannot represent: {why}"
        raise errors.InvalidParameter(path="file", reason=reason) from None
    return inspection_rules.parse(plain)


class Wakeup:
    """A signal from the ends of runs and power changes to the sweep of batches.

    :ivar armed: True while a batch is open; signals are dropped otherwise, so that no sweep is
        started in vain.
    """

    def __init__(self) -> None:
        self.armed = False
        self._event = threading.Event()

    def signal(self) -> None:
        """Start the sweep soon, if it has work."""
        if self.armed:
            self._event.set()

    def end(self) -> None:
        """End the waiting, because the service stops."""
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait for a signal, at most so long; the signal is used up."""
        self._event.wait(seconds)
        self._event.clear()


class TimerTable(Protocol):
    """Remembers when each waiting node is due."""

    def set(self, node_uuid: str, when: datetime.datetime) -> None:
        """Have the node polled at ``when`` (naive UTC)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Runtime:
    """The shared objects of one conductor.

    ``conf`` is the oslo.config object with our groups; ``clean_priorities`` and
    ``verify_priorities`` map ``interface.step`` to the priority the operator configured (S2.5).
    ``fence`` stores the time of the last lease renewal. ``notifier`` receives committed events
    (S5.29). ``rulebook`` has the inspection rules of the configuration. ``evidence_key`` signs
    erasure records. ``boot`` identifies this
    process among others with its name. ``draining`` is set when the service begins to stop, after
    which no new work begins. ``stopping`` is set when running work has had its time and must leave
    its nodes. ``run_ends`` gets a signal when a run or a power change has ended.

    Features add listeners. ``erased`` and ``inspected`` are called before the save that ends a step
    of that kind. ``moved`` is called when nodes have another owner or lessee, with their UUIDs and
    the time. ``begun`` is called by the first save of a request that no client waits for, and
    raises an error if it must not begin any more.
    """

    host: str
    conf: Configuration
    database: Transactions
    registry: Registry
    workers: Workers
    timers: TimerTable
    fence: Fence
    clean_priorities: Mapping[str, Priority] = dataclasses.field(default_factory=dict)
    verify_priorities: Mapping[str, Priority] = dataclasses.field(default_factory=dict)
    notifier: Notifier = notifier.OFF
    rulebook: BuiltinRules = dataclasses.field(default_factory=lambda: BuiltinRules(None))
    evidence_key: KeyFile = dataclasses.field(default_factory=lambda: KeyFile(None))
    boot: ProcessLife = dataclasses.field(default_factory=ProcessLife)
    draining: threading.Event = dataclasses.field(default_factory=threading.Event)
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)
    run_ends: Wakeup = dataclasses.field(default_factory=Wakeup)
    erased: list[Callable[..., None]] = dataclasses.field(default_factory=list)
    inspected: list[Callable[..., None]] = dataclasses.field(default_factory=list)
    moved: list[Callable[..., None]] = dataclasses.field(default_factory=list)
    begun: list[Callable[..., None]] = dataclasses.field(default_factory=list)
