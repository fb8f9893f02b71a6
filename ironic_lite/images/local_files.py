"""Files of this machine: opened safely, made once, and kept within the room on the disk."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import io
import os
import pathlib
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import BinaryIO, Generic, NamedTuple, TypeVar

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.slots import Newest

# Opening files that another user may replace meanwhile, by a pipe or a device.

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK opens a pipe without waiting for a writer."""


def open_regular(path: pathlib.Path, *, follow: bool = True) -> io.BufferedReader:
    """Return an open regular file; the caller closes it.

    :param follow: follow a symbolic link.
    :raises OSError: it is missing, unreadable or special, or a link that is not followed.
    """
    file = open(os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW)), "rb")  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_regular(path: pathlib.Path, most: int = -1) -> bytes:
    """Return the content of a regular file, or its first ``most`` bytes. Raises as `opened`."""
    with open_regular(path) as file:
        return file.read(most)


# Work on whole files, done once for all threads that need its result.


@contextlib.contextmanager
def explained(file: pathlib.Path) -> Iterator[None]:
    """Raise an error of a file as an error of this service.

    :raises errors.DiskFull: there is no room for the file.
    :raises errors.LocalFileError: another error.
    """
    try:
        yield
    except OSError as why:
        if why.errno in FULL:
            raise errors.DiskFull(path=str(file)) from None
        path = str(why.filename or file)
        raise errors.LocalFileError(path=path, reason=why.strerror or str(why)) from None


T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class _Waiters:
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    waiters: int = 0
    failures: dict[Hashable, errors.Error] = dataclasses.field(default_factory=dict)


class KeyedLock:
    """A lock per key, for one thread at a time; unused keys are forgotten."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turns: dict[Hashable, _Waiters] = {}

    @contextlib.contextmanager
    def take(self, key: Hashable, way: Hashable = None) -> Iterator[None]:
        """Hold a key for the block.

        A thread that waited while another one failed in the same way fails with the same error at
        once. A server that is silent for a minute would otherwise block the tenth thread for ten
        minutes.

        :param way: distinguishes work for this key that may fail differently.
        :raises errors.Error: of the thread before.
        """
        turn = self._enter_turn(key)
        try:
            with turn.lock:
                if way in turn.failures:
                    raise turn.failures[way]
                try:
                    yield
                except errors.Error as why:
                    turn.failures[way] = why
                    raise
        finally:
            self._leave_turn(key)

    def waiters(self, key: Hashable) -> int:
        """Return how many threads hold a key or wait for it."""
        with self._guard:
            turn = self._turns.get(key)
            return turn.waiters if turn else 0

    def _enter_turn(self, key: Hashable) -> _Waiters:
        with self._guard:
            turn = self._turns.setdefault(key, _Waiters())
            turn.waiters += 1
            return turn

    def _leave_turn(self, key: Hashable) -> None:
        with self._guard:
            turn = self._turns[key]
            turn.waiters -= 1
            if not turn.waiters:
                del self._turns[key]


class Once(Generic[T]):
    """Remembers results; a thread that needs a pending result waits for it.

    :param most: how many results are remembered; the least recently used go first.
    """

    def __init__(self, most: int) -> None:
        self._guard = threading.Lock()
        self._known: Newest[Hashable, T] = Newest(most)
        self.turns = KeyedLock()

    def get(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return the result of ``work`` for this key; its errors are not remembered."""
        with self.turns.take(key):
            with self._guard:
                if key in self._known:
                    self._known.move_to_end(key)
                    return self._known[key]
            found = work()
            with self._guard:
                self._known[key] = found
            return found


# Room for files: the limit of a folder, the space of its disk, and what can be removed for it.
#
# A file is idle if no machine can be fetching it and no thread uses it: its inode has no second
# name, and nobody holds its lock (flock(2)). Removing a file with a second name would free nothing.
# A new file gets its blocks before its content, so that the system counts running downloads of all
# processes, and a disk without room refuses them at once.

MIB = 1024 * 1024
SHARED = ".shared"
"""Folder of the copies that `published` makes of files on another file system, see there."""
UNFINISHED = ".new-"
"""Prefix of the names of unfinished files; their writers hold their locks."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a disk without room for bytes or inodes."""

_SPARE_SHARE, _SPARE_MOST = 50, 256 * MIB
"""Free space left for others: one part of so many of the disk, and its limit in bytes."""
_DEAD_SECONDS = 60.0
"""Age from which an unfinished file without a lock has no writer."""
_COPY_BYTES = 64 * MIB
_NOT_ALLOCATED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})

_GUARD = threading.RLock()


class LimitReached(Exception):
    """The files in use and the new one exceed the limit of a folder; the text gives the sizes."""


class _Kept(NamedTuple):
    """A file: when it was last used, the bytes and inode that its removal frees."""

    used: float
    size: int
    file: pathlib.Path


def downloads() -> pathlib.Path:
    """Return the folder of fetched files."""
    return config.state_path() / "downloads"


def bases() -> pathlib.Path:
    """Return the folder of the media that nodes' media are made from."""
    return config.state_path() / "media-bases"


def http_root() -> pathlib.Path:
    """Return the folder of files for machines and BMCs, see `published`."""
    given = config.CONF.deploy.http_root
    return pathlib.Path(given) if given else config.state_path() / "http"


def agent_logs() -> pathlib.Path:
    """Return the folder of the logs that ramdisks have sent."""
    settings = config.CONF.agent
    local = settings.deploy_logs_storage_backend == "local" and settings.deploy_logs_local_path
    return pathlib.Path(local or f"{config.CONF.state_path}/agent-logs")


@contextlib.contextmanager
def new_file(folder: pathlib.Path) -> Iterator[tuple[BinaryIO, pathlib.Path]]:
    """Yield a new file, open and locked, with its temporary path; it is removed at the end.

    The caller gives it its final name.

    :raises OSError: it cannot be made, also after idle files were removed.
    """

    def make() -> tuple[BinaryIO, pathlib.Path]:
        with _GUARD:
            handle, name = tempfile.mkstemp(dir=folder, prefix=UNFINISHED)
            fcntl.flock(handle, fcntl.LOCK_EX)
            return os.fdopen(handle, "w+b"), pathlib.Path(name)

    out, made = once_more(folder, make)
    try:
        with out:
            yield out, made
    finally:
        made.unlink(missing_ok=True)


def reserve(out: BinaryIO, size: int, folder: pathlib.Path, limit: int) -> None:
    """Give a new file of a folder its blocks, after idle files were removed as far as necessary.

    :param size: its coming size in bytes.
    :param limit: bytes of all files of the folder.
    :raises LimitReached: the folder has no such room even without its idle files.
    :raises OSError: the disk has none; nothing was removed in vain if the system tells its size.
    """
    with _GUARD:
        more = size - os.fstat(out.fileno()).st_size
        if more <= 0:
            return
        _keep_limit(folder, limit, more)
        _free_disk(folder, more)
        once_more(folder, lambda: _allocate(out, size), more)


def once_more(folder: pathlib.Path, act: Callable[[], T], size: int = 1) -> T:
    """Return the result of ``act``; on a full disk, remove idle files and try once more.

    :param size: bytes that the act needs.
    :raises OSError: of the act; errors of a full disk only if nothing more could be removed, or
        the second try failed.
    """
    try:
        return act()
    except OSError as why:
        if why.errno not in FULL or not evict(folder, size):
            raise
    return act()


def evict(folder: pathlib.Path, size: int) -> int:
    """Remove idle files of a folder's disk, least recently used first; return the freed bytes.

    :param size: bytes to be freed; at least one file goes.
    """
    with _GUARD:
        freed = 0
        for kept in _idle_files(_evictable_files(folder)):
            if freed >= size:
                break
            freed += kept.size if _remove_idle(kept.file) else 0
        return freed


def trim(folder: pathlib.Path, limit: int) -> None:
    """Remove idle files of a folder until its files have at most ``limit`` bytes, if possible."""
    with _GUARD:
        files = _files_of(folder)
        over = sum(kept.size for kept in files) - limit
        for kept in _idle_files(files) if over > 0 else ():
            if over <= 0:
                return
            over -= kept.size if _remove_idle(kept.file) else 0


def copy(source: BinaryIO, target: BinaryIO) -> None:
    """Copy a whole file; some file systems share its blocks (copy_file_range(2))."""
    left = os.fstat(source.fileno()).st_size
    source.seek(0)
    try:
        while left:
            done = os.copy_file_range(source.fileno(), target.fileno(), min(left, _COPY_BYTES))
            if not done:
                break
            left -= done
    except OSError as why:
        if why.errno not in {errno.EXDEV, *_NOT_ALLOCATED}:
            raise
    if left:
        source.seek(0)
        target.seek(0)
        shutil.copyfileobj(source, target, MIB)


def _allocate(out: BinaryIO, size: int) -> None:
    try:
        os.posix_fallocate(out.fileno(), 0, size)
    except OSError as why:
        if why.errno not in _NOT_ALLOCATED:  # this file system counts blocks when they are written
            raise


def _keep_limit(folder: pathlib.Path, limit: int, more: int) -> None:
    files = _files_of(folder)
    over = sum(kept.size for kept in files) + more - limit
    if over <= 0:
        return
    idle = list(_idle_files(files))
    if sum(kept.size for kept in idle) < over:
        used = sum(kept.size for kept in files) - sum(kept.size for kept in idle)
        raise LimitReached(
            f"it needs {_mib(more)}, and files in use take {_mib(used)} of {_mib(limit)}"
        )
    trim(folder, limit - more)


def _free_disk(folder: pathlib.Path, more: int) -> None:
    """Remove idle files if the disk has too little space for others besides ``more`` bytes."""
    disk = os.statvfs(folder)
    spare = min(_SPARE_MOST, disk.f_blocks * disk.f_frsize // _SPARE_SHARE)
    lack = more + spare - disk.f_bavail * disk.f_frsize
    if lack <= 0:
        return
    idle = list(_idle_files(_evictable_files(folder)))
    if sum(kept.size for kept in idle) < lack:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    evict(folder, lack)


def _mib(size: int) -> str:
    return f"{-(-size // MIB)} MiB"


def _evictable_files(folder: pathlib.Path) -> list[_Kept]:
    """Return the files on a folder's disk that may be removed while they are idle."""
    shared = (http_root() / SHARED, pathlib.Path(config.CONF.pxe.tftp_root) / SHARED)
    device = folder.stat().st_dev
    found = []
    for place in (downloads(), bases(), *shared):
        with contextlib.suppress(OSError):
            if place.stat().st_dev == device:
                found += _files_of(place)
    return found


def _files_of(folder: pathlib.Path) -> list[_Kept]:
    found = []
    with contextlib.suppress(FileNotFoundError):
        for file in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process removes, too
                if file.suffix != ".json":
                    about = file.lstat()
                    found.append(_Kept(about.st_atime, about.st_size, file))
    return found


def _idle_files(files: Iterable[_Kept]) -> Iterator[_Kept]:
    """Yield the idle ones, least recently used first."""
    return (kept for kept in sorted(files) if _with_lock(kept.file, lambda: None))


def _remove_idle(file: pathlib.Path) -> bool:
    def remove() -> None:
        file.with_suffix(".json").unlink(missing_ok=True)
        file.unlink(missing_ok=True)

    return _with_lock(file, remove)


def _with_lock(file: pathlib.Path, act: Callable[[], None]) -> bool:
    """Act while nobody uses a file; return False if it is in use, gone, or another user's."""
    try:
        with file.open("rb") as opened:
            about = os.fstat(opened.fileno())
            fresh = clock.lived_since(about.st_mtime) < _DEAD_SECONDS
            if about.st_nlink > 1 or (fresh and file.name.startswith(UNFINISHED)):
                return False
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            act()
    except OSError:
        return False
    return True
