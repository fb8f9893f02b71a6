"""Files of the network, cached on this machine: one download for all users.

The content of a URL may change, so each use asks its server, which answers "not modified" to a
matching tag (RFC 9110, 13.1). A partial download never gets a file's name. The least recently used
files are removed when [conductor]image_cache_size is reached, except those in use (`holding`). A
signed address differs each time, so an image with a checksum is known by the checksum and the
address without its query. A download with another checksum never gets that name, as the query may
lead to another file; and the server is still asked whether this signature gives access. Machines
that boot from a file have names of their own for it (``published.place``).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import http.client
import json
import os
import pathlib
import re
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import BinaryIO

from ironic_lite import errors
from ironic_lite.core import config, networks
from ironic_lite.core.json_types import Json
from ironic_lite.images import checksums, once, reach, sources

CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 60.0
MOST_SECONDS = 3600.0
"""Seconds that one download may take, redirections and headers included."""
_MIB = 1024 * 1024
_TAGS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
_ADDRESS = "address"
"""File beside them with the hash of the address, which may contain a key."""
_STAMP = "file"
"""File beside the tags with the inode and size of the tagged file."""
_LENGTH = re.compile(r"[0-9]{1,18}")

TURNS = once.Turns()
"""Locks by the path of the cached file."""
_TRIES = 3  # a file removed just after it was found is fetched again


class _Held(threading.local):
    """The files held by a thread, None outside `holding`."""

    files: contextlib.ExitStack | None = None


_HELD = _Held()


@contextlib.contextmanager
def holding() -> Iterator[None]:
    """Keep the files this thread fetches until the end, even if others need room.

    It uses locks of the system (flock(2)): conductors of one machine may share a state_path, and
    the locks of a dead one are gone.
    """
    if _HELD.files is not None:
        yield
        return
    with contextlib.ExitStack() as files:
        _HELD.files = files
        try:
            yield
        finally:
            _HELD.files = None


def fetch(
    url: str, path: str = "url", *, checksum: checksums.Checksum | None = None
) -> pathlib.Path:
    """Return a local file with the content of a URL; it must not be written to.

    :param url: http, https or file; for a file, its real path is returned.
    :param path: where the URL stands, for sentences. A URL of an option, ``[group]name``, may be
        any file of this machine; other URLs must lie in file_url_allowed_paths.
    :param checksum: the expected checksum, if known; the caller verifies it.
    :raises errors.InvalidParameter: it is no such URL, or may not be followed.
    :raises errors.DownloadFailed: it cannot be fetched, or is larger than
        [conductor]image_cache_size.
    :raises errors.ImageUnusable: it is cached by its checksum, and has another one.
    :raises errors.LocalFileError: a file is missing, or cannot be read.
    :raises errors.DiskFull: there is no room for it.
    """
    source = sources.read(url, path)
    if source.file is not None:
        return _local_file(_allowed_path(source.file, path))
    check(source, path)
    known_by = checksum if "?" in source.url else None
    kept = place(source, known_by)
    with TURNS.take(kept, source.url):
        for _ in range(_TRIES):
            file = _refresh_file(source, kept, known_by)
            if _hold_file(file):
                return file
    raise errors.DownloadFailed(url=source.shown, reason="other files need the room")


def place(source: sources.Source, known_by: checksums.Checksum | None = None) -> pathlib.Path:
    """Return the path in the cache for an address, whether it exists or not.

    :param known_by: the checksum, if it replaces the query.
    """
    bare = source.url.partition("?")[0]
    named = source.url if known_by is None else f"{bare} {known_by.value}"
    return config.state_path() / "downloads" / _text_hash(named)


def _text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _hold_file(file: pathlib.Path) -> bool:
    """Hold a file if this thread holds files; False if it has been removed meanwhile."""
    if _HELD.files is None:
        return True
    try:
        opened = _HELD.files.enter_context(file.open("rb"))
        fcntl.flock(opened, fcntl.LOCK_SH)
        return os.path.samestat(os.fstat(opened.fileno()), file.stat())
    except FileNotFoundError:
        return False


def check(source: sources.Source, path: str) -> None:
    """Refuse a URL that may not be followed, without following it.

    :raises errors.InvalidParameter: naming ``path``.
    """
    if source.file is None:
        sources.refuse_closed(source, _blocked_networks(), path)
    else:
        _allowed_path(source.file, path)


def _allowed_path(file: pathlib.Path, path: str) -> pathlib.Path:
    """Return the real path of a local file; links are followed once, as they change.

    :raises errors.InvalidParameter: it must not be read.
    """
    if path.startswith("["):
        return pathlib.Path(os.path.realpath(file))
    return sources.within(file, config.CONF.conductor.file_url_allowed_paths, path)


def _blocked_networks() -> Sequence[networks.Network]:
    return networks.parse(config.CONF.conductor.image_blocked_networks)


def _local_file(file: pathlib.Path) -> pathlib.Path:
    try:
        # Opening a device may have an effect, and opening a pipe waits for a writer.
        if not stat.S_ISREG(file.stat().st_mode):
            raise errors.LocalFileError(path=str(file), reason="it is not a regular file")
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            opened.read(1)
    except OSError as why:
        raise errors.LocalFileError(path=str(file), reason=why.strerror or str(why)) from None
    return file


def _refresh_file(
    source: sources.Source, file: pathlib.Path, known_by: checksums.Checksum | None
) -> pathlib.Path:
    tags = _server_tags(file, source)
    headers = {_TAGS[name]: value for name, value in tags.items()}
    end = time.monotonic() + MOST_SECONDS
    terms = reach.Terms(
        blocked=_blocked_networks(),
        tls=reach.trusted(config.CONF.webserver_verify_ca),
        connect=CONNECT_SECONDS,
        silence=SILENCE_SECONDS,
        seconds=MOST_SECONDS,
        size=_cache_limit(),
    )
    try:
        with reach.get(source.url, terms, headers | {"Accept-Encoding": "identity"}) as answer:
            if answer.status == HTTPStatus.NOT_MODIFIED and file.exists():
                _note_use(file)
                return file
            if answer.status != HTTPStatus.OK:
                reason = f"its server answers {answer.status} {answer.reason}"
                status = int(answer.status)
                raise errors.DownloadFailed(url=source.shown, reason=reason, http_status=status)
            _store_image(source, answer, file, known_by)
    except reach.FetchFailed as why:
        over = f"it took longer than {MOST_SECONDS:g} s" if time.monotonic() >= end else None
        raise errors.DownloadFailed(url=source.shown, reason=over or str(why)) from None
    return file


def _note_use(file: pathlib.Path) -> None:
    """Record that a file was used just now, in its time of access, for `tidy`.

    Its time of change stays, because digests that are remembered for a file depend on it, and so do
    the ETags of its other names, which machines may be reading.
    """
    with contextlib.suppress(FileNotFoundError):  # removed for its room just now
        os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))


def _server_tags(file: pathlib.Path, source: sources.Source) -> dict[str, str]:
    """Return the server's tags of the cached file, {} without one.

    Tags of another address that differs only in its query may be about another file. Then only a
    strong tag (RFC 9110, 8.8.3) can be used.
    """
    try:
        known = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    # A file cut short by a power failure, or written by another conductor, is not the expected one.
    usable = isinstance(known, dict) and known.get(_STAMP) == _file_stamp(file)
    found = {name: str(known[name]) for name in _TAGS if name in known} if usable else {}
    if usable and known.get(_ADDRESS) != _text_hash(source.url):
        found = {n: tag for n, tag in found.items() if n == "ETag" and not tag.startswith("W/")}
    return found


def _file_stamp(file: pathlib.Path) -> list[int] | None:
    try:
        about = file.stat()
    except FileNotFoundError:
        return None
    return [about.st_ino, about.st_size]


def _store_image(
    source: sources.Source,
    answer: http.client.HTTPResponse,
    file: pathlib.Path,
    known_by: checksums.Checksum | None,
) -> None:
    tags: Json = {n: answer.headers[n] for n in _TAGS if n in answer.headers}
    tags[_ADDRESS] = _text_hash(source.url)
    with _make_room_on_full_disk(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
        made = pathlib.Path(name)
        try:
            with os.fdopen(handle, "wb") as out:
                _copy_answer(source, answer, out, most=_most_bytes(source, answer, file.parent))
                # Its folder is closed; machines may get it under another name.
                os.fchmod(out.fileno(), 0o644)
            if known_by is not None:
                known_by.demand(checksums.digest(made, known_by.algorithm), source.shown)
            tags[_STAMP] = _file_stamp(made)
            file.with_suffix(".json").unlink(missing_ok=True)
            made.replace(file)
            file.with_suffix(".json").write_text(json.dumps(tags), encoding="utf-8")
        finally:
            made.unlink(missing_ok=True)


def _most_bytes(
    source: sources.Source, answer: http.client.HTTPResponse, folder: pathlib.Path
) -> int:
    """Return the limit of a response in bytes; make room for it in the cache."""
    most = _cache_limit()
    promised = int(_promised_length(answer) or 0)
    if promised > most:
        raise _too_large(source, most)
    tidy(folder, most - promised)
    return most


def _cache_limit() -> int:
    return int(config.CONF.conductor.image_cache_size) * _MIB


def _promised_length(answer: http.client.HTTPResponse) -> str | None:
    found: str | None = answer.headers.get("Content-Length")
    return found if found is not None and _LENGTH.fullmatch(found) else None


def _too_large(source: sources.Source, most: int) -> errors.DownloadFailed:
    reason = f"it is larger than {most // _MIB} MiB, [conductor]image_cache_size"
    return errors.DownloadFailed(url=source.shown, reason=reason)


def tidy(folder: pathlib.Path, most: int) -> None:
    """Remove the least recently used files, until at most ``most`` bytes remain.

    :raises OSError: the folder cannot be read.
    """
    known = []
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another thread removes, too
            if file.suffix != ".json" and not file.name.startswith("."):
                about = file.stat()
                known.append((about.st_atime, about.st_size, file))
    total = sum(size for _, size, _ in known)
    for _, size, file in sorted(known):
        if total <= most:
            return
        if _remove_unheld(file):
            total -= size


def _remove_unheld(file: pathlib.Path) -> bool:
    """Remove a file that is not held; return whether it is gone."""
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.with_suffix(".json").unlink(missing_ok=True)
            file.unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def _copy_answer(
    source: sources.Source, answer: http.client.HTTPResponse, out: BinaryIO, *, most: int
) -> None:
    size = 0
    packed = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if packed not in {"", "identity"}:
        # Unpacked, it may be any size; packed, it is not what its owner means.
        reason = f"its server sends it as {packed[:32]!r} though asked not to (RFC 9110, 12.5.3)"
        raise errors.DownloadFailed(url=source.shown, reason=reason)
    for chunk in reach.parts(answer):
        size += len(chunk)
        if size > most:
            raise _too_large(source, most)
        out.write(chunk)


@contextlib.contextmanager
def _make_room_on_full_disk(file: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as why:
        if why.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise errors.DiskFull(path=str(file)) from None
        raise errors.LocalFileError(path=str(file), reason=why.strerror or str(why)) from None
