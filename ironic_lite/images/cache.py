"""Files of the network, kept on this machine: one download for all who want the same.

What a URL leads to may change, so its server is asked each time; it answers "not modified" to who
says what he has (RFC 9110, 13.1). What could not be fetched whole never takes a file's name. What
was used longest ago is removed when [conductor]image_cache_size is reached, but for what is being
worked with (`holding`). A signed address is another one each time: what has a checksum is known by
it and the address without what follows ``?``. What does not add up to it never takes that name, as
the query may lead to another file; and the server is still asked whether this signature may have
it. Machines that boot from it have names of their own for it
(``published.place``).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, BinaryIO

import requests
import urllib3.exceptions

from ironic_lite import config, errors
from ironic_lite.images import checksums, once, reach, sources

CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 60.0
MOST_SECONDS = 3600.0
"""What one download may take, redirections and headers included."""
_MIB = 1024 * 1024
_CHUNK = 1024 * 1024
_TAGS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
_ADDRESS = "address"
"""Beside them: the hash of the address that led there, which may have a key in it."""
_STAMP = "file"
"""Beside the tags: which file they were said of, as inode and size."""
_LENGTH = re.compile(r"[0-9]{1,18}")

TURNS = once.Turns()
"""By the file in which what is fetched is kept."""
_TRIES = 3  # a file that was removed just when it was found is fetched again


class _Held(threading.local):
    """What a thread holds, None outside `holding`."""

    files: contextlib.ExitStack | None = None


_HELD = _Held()


@contextlib.contextmanager
def holding() -> Iterator[None]:
    """Keep what this thread fetches until the end, whatever others need room for.

    Locks of the system do it (flock(2)): conductors of one machine may share a state_path, and
    those of one that dies are gone.
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
    """Return a local file with what a URL leads to. Nobody may write to it.

    :param url: http, https or file; of a file its real path is returned.
    :param path: where the URL stands, for sentences. What stands in an option, ``[group]name``, may
        be any file of this machine; what others wrote must lie in file_url_allowed_paths.
    :param checksum: what the file must add up to, if that is known; the caller looks at it.
    :raises errors.InvalidParameter: it is no such URL, or may not be followed.
    :raises errors.DownloadFailed: it cannot be had, or is larger than [conductor]image_cache_size.
    :raises errors.ImageUnusable: it is known by its checksum, and adds up to another.
    :raises errors.LocalFileError: a file that is not there, or cannot be read.
    :raises errors.DiskFull: there is no room for it.
    """
    source = sources.read(url, path)
    if source.file is not None:
        return _local(_allowed(source.file, path))
    check(source, path)
    known_by = checksum if "?" in source.url else None
    kept = place(source, known_by)
    with TURNS.take(kept, source.url):
        for _ in range(_TRIES):
            file = _refresh(source, kept, known_by)
            if _hold(file):
                return file
    raise errors.DownloadFailed(url=source.shown, reason="others need the room for it")


def place(source: sources.Source, known_by: checksums.Checksum | None = None) -> pathlib.Path:
    """Return where what an address leads to is kept, there or not.

    :param known_by: what it adds up to, if that stands for what follows ``?``.
    """
    bare = source.url.partition("?")[0]
    named = source.url if known_by is None else f"{bare} {known_by.value}"
    return config.state_path() / "downloads" / _hash(named)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _hold(file: pathlib.Path) -> bool:
    """Hold a file if this thread does that; False if it has been removed meanwhile."""
    if _HELD.files is None:
        return True
    try:
        opened = _HELD.files.enter_context(file.open("rb"))
        fcntl.flock(opened, fcntl.LOCK_SH)
        return os.path.samestat(os.fstat(opened.fileno()), file.stat())
    except FileNotFoundError:
        return False


def check(source: sources.Source, path: str) -> None:
    """Refuse what may not be followed, without following it.

    :raises errors.InvalidParameter: naming ``path``.
    """
    if source.file is None:
        sources.refuse_closed(source, _blocked(), path)
    else:
        _allowed(source.file, path)


def _allowed(file: pathlib.Path, path: str) -> pathlib.Path:
    """Return where a local file is, links followed once and for all: they may lead elsewhere soon.

    :raises errors.InvalidParameter: it is not to be read.
    """
    if path.startswith("["):
        return pathlib.Path(os.path.realpath(file))
    return sources.within(file, config.CONF.conductor.file_url_allowed_paths, path)


def _blocked() -> Sequence[sources.Network]:
    return sources.networks(config.CONF.conductor.image_blocked_networks)


def _local(file: pathlib.Path) -> pathlib.Path:
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as why:
        raise errors.LocalFileError(path=str(file), reason=why.strerror or str(why)) from None
    return file


def _refresh(
    source: sources.Source, file: pathlib.Path, known_by: checksums.Checksum | None
) -> pathlib.Path:
    tags = _tags(file, source)
    headers = {_TAGS[name]: value for name, value in tags.items()}
    end = time.monotonic() + MOST_SECONDS
    try:
        with (
            reach.session(_blocked(), seconds=MOST_SECONDS, size=_limit()) as session,
            session.get(
                source.url,
                headers=headers | {"Accept-Encoding": "identity"},
                stream=True,
                verify=reach.believed(config.CONF.webserver_verify_ca),
                timeout=(CONNECT_SECONDS, SILENCE_SECONDS),
            ) as answer,
        ):
            if answer.status_code == HTTPStatus.NOT_MODIFIED and file.exists():
                os.utime(file)  # it was used just now
                return file
            if answer.status_code != HTTPStatus.OK:
                reason = f"its server answers {answer.status_code} {answer.reason}"
                raise errors.DownloadFailed(url=source.shown, reason=reason)
            _store(source, answer, file, known_by)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as why:
        over = f"it took longer than {MOST_SECONDS:g} s" if time.monotonic() >= end else None
        raise errors.DownloadFailed(url=source.shown, reason=over or reach.reason(why)) from None
    return file


def _tags(file: pathlib.Path, source: sources.Source) -> dict[str, str]:
    """Return what its server said of the file we have, {} if there is none.

    What was said of another address that is alike but for its query may be about another file: only
    what tells all files apart (RFC 9110, 8.8.3) is of use then.
    """
    try:
        known = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    # A file cut short by a power failure, or written by another conductor, is not the one meant.
    usable = isinstance(known, dict) and known.get(_STAMP) == _stamp(file)
    found = {name: str(known[name]) for name in _TAGS if name in known} if usable else {}
    if usable and known.get(_ADDRESS) != _hash(source.url):
        found = {n: tag for n, tag in found.items() if n == "ETag" and not tag.startswith("W/")}
    return found


def _stamp(file: pathlib.Path) -> list[int] | None:
    try:
        about = file.stat()
    except FileNotFoundError:
        return None
    return [about.st_ino, about.st_size]


def _store(
    source: sources.Source,
    answer: requests.Response,
    file: pathlib.Path,
    known_by: checksums.Checksum | None,
) -> None:
    tags: dict[str, Any] = {n: answer.headers[n] for n in _TAGS if n in answer.headers}
    tags[_ADDRESS] = _hash(source.url)
    with _room(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
        made = pathlib.Path(name)
        try:
            with os.fdopen(handle, "wb") as out:
                _copy(source, answer, out, most=_most(source, answer, file.parent))
                # Its folder is closed; by another name of its own it may be given to machines.
                os.fchmod(out.fileno(), 0o644)
            if known_by is not None:
                known_by.demand(checksums.digest(made, known_by.algorithm), source.shown)
            tags[_STAMP] = _stamp(made)
            file.with_suffix(".json").unlink(missing_ok=True)
            made.replace(file)
            file.with_suffix(".json").write_text(json.dumps(tags), encoding="utf-8")
        finally:
            made.unlink(missing_ok=True)


def _most(source: sources.Source, answer: requests.Response, folder: pathlib.Path) -> int:
    """Return how many bytes an answer may have; make room for it among what is there."""
    most = _limit()
    promised = int(_promised(answer) or 0)
    if promised > most:
        raise _too_large(source, most)
    tidy(folder, most - promised)
    return most


def _limit() -> int:
    return int(config.CONF.conductor.image_cache_size) * _MIB


def _promised(answer: requests.Response) -> str | None:
    found: str | None = answer.headers.get("Content-Length")
    return found if found is not None and _LENGTH.fullmatch(found) else None


def _too_large(source: sources.Source, most: int) -> errors.DownloadFailed:
    reason = f"it is larger than {most // _MIB} MiB, [conductor]image_cache_size"
    return errors.DownloadFailed(url=source.shown, reason=reason)


def tidy(folder: pathlib.Path, most: int) -> None:
    """Remove what was used longest ago, until no more than ``most`` bytes are there.

    :raises OSError: the folder cannot be read.
    """
    known = []
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another thread removes, too
            if file.suffix != ".json" and not file.name.startswith("."):
                about = file.stat()
                known.append((about.st_mtime, about.st_size, file))
    total = sum(size for _, size, _ in known)
    for _, size, file in sorted(known):
        if total <= most:
            return
        if _removed(file):
            total -= size


def _removed(file: pathlib.Path) -> bool:
    """Remove a file that nobody holds; tell whether it is gone."""
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


def _copy(source: sources.Source, answer: requests.Response, out: BinaryIO, *, most: int) -> None:
    size = 0
    promised = _promised(answer)
    packed = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if packed not in {"", "identity"}:
        # Unpacked, it may be any size; packed, it is not what its owner means.
        reason = f"its server sends it as {packed[:32]!r} though asked not to (RFC 9110, 12.5.3)"
        raise errors.DownloadFailed(url=source.shown, reason=reason)
    # What has arrived is read, not a whole chunk: a server may send a byte a minute.
    for chunk in iter(lambda: answer.raw.read1(_CHUNK, decode_content=False), b""):
        size += len(chunk)
        if size > most:
            raise _too_large(source, most)
        out.write(chunk)
    if promised is not None and int(promised) != size:
        reason = f"its server broke off after {size} of {promised} bytes"
        raise errors.DownloadFailed(url=source.shown, reason=reason)


@contextlib.contextmanager
def _room(file: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except requests.RequestException:  # an OSError, too, and not one of the disk
        raise
    except OSError as why:
        if why.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise errors.DiskFull(path=str(file)) from None
        raise errors.LocalFileError(path=str(file), reason=why.strerror or str(why)) from None
