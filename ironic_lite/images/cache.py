"""Files of the network, cached on this machine: one download for all users.

The content of a URL may change, so each use asks its server, which answers "not modified" to a
matching tag (RFC 9110, 13.1). If the cached file has the wanted checksum, the head of the answer
suffices: the checksum identifies the bytes, but only the server decides who may have them. A
partial download never gets a file's name. The least recently used files are removed when
[conductor]image_cache_size is reached or the disk is full, except those in use (`holding`, `room`).
A signed address differs each time, so an image with a checksum is known by the checksum and the
address without its query. A download with another checksum never gets that name, as the query may
lead to another file. Machines that boot from a file have names of their own for it
(``published.place``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import http.client
import json
import logging
import os
import pathlib
import re
import stat
import threading
import time
import urllib.parse
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from http import HTTPStatus
from typing import Any, BinaryIO

from ironic_lite import errors
from ironic_lite.core import bounded_http, config, networks
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.images import checksums, download, local_files

LOG = logging.getLogger(__name__)

CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 60.0
MOST_SECONDS = 3600.0
"""Seconds that one download may take, redirections and headers included."""
_PIECE = local_files.MIB
"""Bytes reserved at a time for a download of unknown length."""
_TAGS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
_ADDRESS = "address"
"""File beside them with the hash of the address, which may contain a key."""
_STAMP = "file"
"""File beside the tags with the inode and size of the tagged file."""
_PACKED = "packed"
"""The digest of the compressed file that an unpacked one was made of."""
_LENGTH = re.compile(r"[0-9]{1,18}")
_WINDOW_BYTES = 128 * local_files.MIB
"""Memory that the decompression of zstd may take; that of zstd --long=27 and --ultra -22."""

TURNS = local_files.KeyedLock()
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


@dataclasses.dataclass(frozen=True, slots=True)
class FileAccess:
    """The way to ask for a file whose URL does not say all.

    ``authorization``: the header of this name, which may be a secret. ``verify_ca``: the trusted
    certificates instead of [DEFAULT]webserver_verify_ca; ``trusted``: as in `download.Terms`.
    ``packing``: the compression of the file, which is unpacked while it arrives; ``packed`` is its
    checksum before that.
    """

    authorization: str | None = dataclasses.field(default=None, repr=False)
    verify_ca: str | None = None
    trusted: Collection[str] = ()
    packing: str = ""
    packed: checksums.Checksum | None = None


_PLAIN = FileAccess()


def fetch(
    url: str,
    path: str = "url",
    *,
    checksum: checksums.Checksum | None = None,
    access: FileAccess = _PLAIN,
) -> pathlib.Path:
    """Return a local file with the content of a URL; it must not be written to.

    :param url: http, https or file; for a file, its real path is returned.
    :param path: where the URL stands, for sentences. A URL of an option, ``[group]name``, may be
        any file of this machine; other URLs must lie in file_url_allowed_paths.
    :param checksum: the expected checksum, if known; the caller verifies it.
    :param access: a login, and the compression; the file is then the unpacked one.
    :raises errors.InvalidParameter: it is no such URL, or may not be followed.
    :raises errors.DownloadFailed: it cannot be fetched, or is larger than
        [conductor]image_cache_size.
    :raises errors.ImageUnusable: it is cached by its checksum, and has another one; or it cannot be
        unpacked.
    :raises errors.LocalFileError: a file is missing, or cannot be read.
    :raises errors.DiskFull: there is no room for it.
    """
    source = download.read_source(url, path)
    if source.file is not None:
        return local_file(_allowed_path(source.file, path))
    check(source, path)
    known_by = checksum if "?" in source.url else None
    kept = place(source, known_by, access.packing)
    with TURNS.take(kept, (source.url, access.authorization)):
        for _ in range(_TRIES):
            file = _refresh_file(source, kept, checksum, access)
            if _hold_file(file):
                return file
    raise errors.DownloadFailed(url=source.shown, reason="other files need the room")


def place(
    source: download.Source, known_by: checksums.Checksum | None = None, packing: str = ""
) -> pathlib.Path:
    """Return the path in the cache for an address, whether it exists or not.

    :param known_by: the checksum, if it replaces the query.
    :param packing: the compression from which the file is unpacked.
    """
    bare = source.url.partition("?")[0]
    named = source.url if known_by is None else f"{bare} {known_by.value}"
    return local_files.downloads() / _text_hash(f"{named} {packing}" if packing else named)


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


def check(source: download.Source, path: str) -> None:
    """Refuse a URL that may not be followed, without following it.

    :raises errors.InvalidParameter: naming ``path``.
    """
    if source.file is None:
        download.refuse_closed(source, _blocked_networks(), path)
    else:
        _allowed_path(source.file, path)


def _allowed_path(file: pathlib.Path, path: str) -> pathlib.Path:
    """Return the real path of a local file; links are followed once, as they change.

    :raises errors.InvalidParameter: it must not be read.
    """
    if path.startswith("["):
        return pathlib.Path(os.path.realpath(file))
    return download.file_within(file, config.CONF.conductor.file_url_allowed_paths, path)


def _blocked_networks() -> Sequence[networks.Network]:
    return networks.parse(config.CONF.conductor.image_blocked_networks)


def terms(
    size: int, seconds: float, *, verify_ca: str | None = None, trusted: Collection[str] = ()
) -> download.Terms:
    """Return the limits of a download for tenants.

    :param size: bytes of the answer; ``seconds``: time limit of everything together.
    :param verify_ca: the trusted certificates instead of [DEFAULT]webserver_verify_ca.
    """
    return download.Terms(
        blocked=_blocked_networks(),
        tls=download.trusted_tls(verify_ca or config.CONF.webserver_verify_ca),
        connect=CONNECT_SECONDS,
        silence=min(SILENCE_SECONDS, seconds),
        seconds=seconds,
        size=size,
        trusted=trusted,
    )


def server_login(host: str) -> tuple[str, str] | None:
    """Return the user and password of [deploy]image_server_user for a host, None if it gets none.

    Tenants name the host, so it must be one of image_server_auth_hosts.
    """
    conf = config.CONF.deploy
    if conf.image_server_auth_strategy != "http_basic":
        return None
    known = (one.strip().lower() for one in conf.image_server_auth_hosts)
    named = host.lower().rstrip(".")
    fits = any(one and (named == one or (one[0] == "." and named.endswith(one))) for one in known)
    if not fits and not conf.image_server_auth_permit_unknown_hosts:
        return None
    return str(conf.image_server_user), str(conf.image_server_password)


def server_authorization(url: str) -> str | None:
    """Return the header Authorization for an image server, None without a login in options.

    A login in the URL goes before it.
    """
    where = urllib.parse.urlsplit(url)
    login = None if where.username is not None else server_login(where.hostname or "")
    return login and bounded_http.basic_login(*login)


def local_file(file: pathlib.Path) -> pathlib.Path:
    """Return a regular file that can be read.

    :raises errors.LocalFileError: it is missing, special, or unreadable.
    """
    with local_files.explained(file):
        # Opening a device may have an effect, and opening a pipe waits for a writer.
        if not stat.S_ISREG(file.stat().st_mode):
            raise errors.LocalFileError(path=str(file), reason="it is not a regular file")
        local_files.read_regular(file, 1)
    return file


def _refresh_file(
    source: download.Source,
    file: pathlib.Path,
    checksum: checksums.Checksum | None,
    access: FileAccess,
) -> pathlib.Path:
    known = _known_facts(file)
    headers = {_TAGS[name]: value for name, value in _server_tags(known, source).items()}
    headers["Accept-Encoding"] = "identity"
    authorization = access.authorization or server_authorization(source.url)
    if authorization is not None:
        headers["Authorization"] = authorization
    end = time.monotonic() + MOST_SECONDS
    limits = terms(_cache_limit(), MOST_SECONDS, verify_ca=access.verify_ca, trusted=access.trusted)
    try:
        with download.get(source.url, limits, headers) as answer:
            if answer.status == HTTPStatus.NOT_MODIFIED and file.exists():
                _note_use(file)
            elif answer.status != HTTPStatus.OK:
                reason = f"its server answers {answer.status} {answer.reason}"
                status = int(answer.status)
                raise errors.DownloadFailed(url=source.shown, reason=reason, http_status=status)
            elif _is_wanted(file, known, source, checksum, access.packed):
                _note_use(file)  # its server has granted the access; the body is left unread
            else:
                _store_image(source, answer, file, checksum, access)
    except download.FetchFailed as why:
        over = f"it took longer than {MOST_SECONDS:g} s" if time.monotonic() >= end else None
        reason = over or str(why)
        usable = access is _PLAIN and _usable_unasked(source)
        if not (usable and _is_wanted(file, known, source, checksum)):
            raise errors.DownloadFailed(url=source.shown, reason=reason) from None
        LOG.warning(
            "%s: %s. The cached file with its checksum is used without its server, as "
            "[conductor]use_cached_images_offline permits",
            source.shown,
            reason,
        )
        _note_use(file)
    return file


def _usable_unasked(source: download.Source) -> bool:
    """Return whether a file may be used though its server does not answer.

    A query may be a signature; a signature or login may have been revoked since.
    """
    where = urllib.parse.urlsplit(source.url)
    plain = not where.query and where.username is None
    return plain and bool(config.CONF.conductor.use_cached_images_offline)


def _is_wanted(
    file: pathlib.Path,
    known: JsonView,
    source: download.Source,
    checksum: checksums.Checksum | None,
    packed: checksums.Checksum | None = None,
) -> bool:
    """Return whether the cached file came from this very address and has the wanted digest.

    Another query may lead to another file, to which this request has no right.

    :param packed: the digest of the compressed file, if this one was unpacked from it.
    """
    if known.get(_ADDRESS) != _text_hash(source.url):
        return False
    if packed is not None:
        return bool(known.get(_PACKED) == packed.value)
    if checksum is None or checksum.algorithm not in checksums.STRONG:
        return False
    try:
        return checksum.matches(checksums.known_digest(file, checksum.algorithm))
    except OSError:  # removed for its room just now
        return False


def _note_use(file: pathlib.Path) -> None:
    """Record that a file was used just now, in its time of access, for `room`.

    Its time of change stays, because digests that are remembered for a file depend on it, and so do
    the ETags of its other names, which machines may be reading.
    """
    with contextlib.suppress(FileNotFoundError):  # removed for its room just now
        os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))


def _known_facts(file: pathlib.Path) -> JsonView:
    """Return the stored facts of the cached file, {} without one."""
    try:
        known = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    # A file cut short by a power failure, or written by another conductor, is not the expected one.
    usable = isinstance(known, dict) and known.get(_STAMP) == _file_stamp(file)
    return known if usable else {}


def _server_tags(known: JsonView, source: download.Source) -> dict[str, str]:
    """Return the server's tags of the cached file.

    Tags of another address that differs only in its query may be about another file. Then only a
    strong tag (RFC 9110, 8.8.3) can be used.
    """
    found = {name: str(known[name]) for name in _TAGS if name in known}
    if known.get(_ADDRESS) != _text_hash(source.url):
        found = {n: tag for n, tag in found.items() if n == "ETag" and not tag.startswith("W/")}
    return found


def _file_stamp(file: pathlib.Path) -> list[int] | None:
    try:
        about = file.stat()
    except FileNotFoundError:
        return None
    return [about.st_ino, about.st_size]


def _store_image(
    source: download.Source,
    answer: http.client.HTTPResponse,
    file: pathlib.Path,
    checksum: checksums.Checksum | None,
    access: FileAccess,
) -> None:
    tags: Json = {n: answer.headers[n] for n in _TAGS if n in answer.headers}
    tags[_ADDRESS] = _text_hash(source.url)
    if access.packed is not None:
        tags[_PACKED] = access.packed.value
    folder = file.parent
    with _translate_file_errors(source, file):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with local_files.new_file(folder) as (out, made):
            _copy_answer(source, answer, out, folder, access)
            # Its folder is closed; machines may get it under another name.
            os.fchmod(out.fileno(), 0o644)
            if checksum is not None and "?" in source.url:
                checksum.demand(checksums.digest(made, checksum.algorithm), source.shown)
            file.with_suffix(".json").unlink(missing_ok=True)
            if not _has_same_content(made, file):
                _keep_linked(file)
                made.replace(file)
            tags[_STAMP] = _file_stamp(file)
            local_files.once_more(folder, lambda: _write_facts(file, tags))


def _write_facts(file: pathlib.Path, tags: Json) -> None:
    file.with_suffix(".json").write_text(json.dumps(tags), encoding="utf-8")


def _has_same_content(made: pathlib.Path, file: pathlib.Path) -> bool:
    """Return whether a download repeats the cached file, which machines may share."""
    try:
        if made.stat().st_size != file.stat().st_size:
            return False
        return checksums.digest(made, "sha256") == checksums.known_digest(file, "sha256")
    except FileNotFoundError:
        return False


def _keep_linked(file: pathlib.Path) -> None:
    """Leave a name in the cache to an older version that machines still fetch.

    Without it the version would take room that nothing counts.
    """
    with contextlib.suppress(FileNotFoundError):
        about = file.stat()
        if about.st_nlink > 1:
            file.rename(file.with_name(f"{file.name}-{about.st_ino}"))


def _cache_limit() -> int:
    return int(config.CONF.conductor.image_cache_size) * local_files.MIB


def _promised_length(answer: http.client.HTTPResponse) -> int:
    """Return the length that a server announces, 0 without one."""
    found: str | None = answer.headers.get("Content-Length")
    return int(found) if found is not None and _LENGTH.fullmatch(found) else 0


def _too_large(source: download.Source) -> errors.DownloadFailed:
    most = _cache_limit() // local_files.MIB
    reason = f"it is larger than {most} MiB, [conductor]image_cache_size"
    return errors.DownloadFailed(url=source.shown, reason=reason)


def _copy_answer(
    source: download.Source,
    answer: http.client.HTTPResponse,
    out: BinaryIO,
    folder: pathlib.Path,
    access: FileAccess,
) -> None:
    packed = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if packed not in {"", "identity"}:
        # Unpacked, it may be any size; packed, it is not what its owner means.
        reason = f"its server sends it as {packed[:32]!r} though asked not to (RFC 9110, 12.5.3)"
        raise errors.DownloadFailed(url=source.shown, reason=reason)
    most, size, reserved = _cache_limit(), 0, _promised_length(answer)
    if reserved > most:
        raise _too_large(source)
    local_files.reserve(out, reserved, folder, most)
    received = download.parts(answer)
    for chunk in _unpacked(source, received, access) if access.packing else received:
        size += len(chunk)
        if size > most:
            raise _too_large(source)
        if size > reserved:
            reserved = min(size + _PIECE, most)
            local_files.reserve(out, reserved, folder, most)
        out.write(chunk)
    out.truncate(size)
    out.flush()


@contextlib.contextmanager
def _translate_file_errors(source: download.Source, file: pathlib.Path) -> Iterator[None]:
    try:
        with local_files.explained(file):
            yield
    except local_files.LimitReached as why:
        reason = f"{why}, [conductor]image_cache_size. Raise that option, or repeat it later"
        raise errors.DownloadFailed(url=source.shown, reason=reason) from None


# Compressed files, unpacked while they arrive: a few bytes of one may stand for gigabytes.


_BITE = 2048
"""Bytes that are unpacked at a time: zstd makes 64 MiB of them at most."""


def _unpacked(
    source: download.Source, received: Iterator[bytes], access: FileAccess
) -> Iterator[bytes]:
    """Yield the content of a compressed file in pieces of bounded size.

    :raises errors.ImageUnusable: it is not compressed so, is cut off, or its digest differs.
    :raises errors.LibraryMissing: zstandard is not installed.
    """
    assert access.packed is not None
    digest, (begin, broken) = hashlib.new(access.packed.algorithm), _frames(access.packing)
    frame = begin()
    try:
        for part in received:
            digest.update(part)
            for at in range(0, len(part), _BITE):
                left = part[at : at + _BITE]
                while left:
                    if not frame.eof:
                        yield frame.decompress(left)
                        left = frame.unused_data
                    elif left := left.lstrip(b"\0"):  # zeros may fill up the file
                        frame = begin()
    except broken as why:
        reason = f"its layer is not valid {access.packing}: {errors.clean(str(why))[:128]}"
        raise errors.ImageUnusable(image=source.shown, reason=reason) from None
    access.packed.demand(digest.hexdigest(), source.shown)
    if not frame.eof:
        reason = f"its layer was cut off before it was pushed: its {access.packing} has no end"
        raise errors.ImageUnusable(image=source.shown, reason=reason)


def _frames(packing: str) -> tuple[Callable[[], Any], type[Exception]]:
    """Return what begins to unpack a frame, of which a file may have several, and its error."""
    if packing == "gzip":
        return functools.partial(zlib.decompressobj, zlib.MAX_WBITS | 16), zlib.error
    try:
        import zstandard  # noqa: PLC0415  # of the extra oci
    except ImportError:
        raise errors.LibraryMissing(
            library="zstandard (the extra oci of ironic-lite)", purpose="unpacks zstd layers"
        ) from None
    unpack = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    return unpack.decompressobj, zstandard.ZstdError
