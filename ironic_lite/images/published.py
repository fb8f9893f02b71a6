"""HTTP files for machines and BMCs below ``[deploy]http_root``, whole or absent.

Names that hold secrets of one machine must be unguessable; `secret_name` makes them. Their folders
can be entered by a web server, but not listed by other users of this machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import itertools
import os
import pathlib
import re
import secrets
import stat
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import JsonView
from ironic_lite.core.options import DeployOptions
from ironic_lite.images import checksums, local_files

_NAME_BYTES = 16
MEDIA, IMAGES = "media", "images"
"""Folders below `root` whose files have secret names."""
_FOLDER_MODE, _CLOSED_MODE = 0o755, 0o711
_PRIVATE_MODE = 0o700
_LISTED, _OTHERS_READ = 0o044, 0o004
_FILE_MODE = 0o644
_TRIES = 3
_COPYING = local_files.KeyedLock()
"""Locks by the path of the shared copy."""


def root() -> pathlib.Path:
    """Return the folder, created if missing; the web server must be able to read it.

    :raises errors.LocalFileError: it cannot be made.
    """
    return reached(folder())


def folder() -> pathlib.Path:
    """Return the same folder without creating it."""
    return local_files.http_root()


def reached(place: pathlib.Path) -> pathlib.Path:
    """Return a folder, created with its parents if missing.

    :raises errors.LocalFileError: it cannot be made.
    """
    with _translate_file_errors(place):
        closed = place.name in (MEDIA, IMAGES) and place.parent == folder()
        place.mkdir(mode=_CLOSED_MODE if closed else _FOLDER_MODE, parents=True, exist_ok=True)
        about = place.stat()
        if closed and about.st_mode & _LISTED and about.st_uid == os.geteuid():
            place.chmod(about.st_mode & 0o7777 & ~_LISTED)  # made by an older release
    return place


def url(name: str, driver_info: JsonView | None = None) -> str:
    """Return the URL of a file.

    :param name: its path below `root`.
    :param driver_info: of the node whose BMC fetches it; None if a machine fetches it.
    :raises errors.MissingParameter: no option gives the address.
    """
    return f"{base(driver_info)}/{name}"


def base(driver_info: JsonView | None = None) -> str:
    """Return the URL of `root`, see `url`."""
    conf = config.CONF.deploy
    found = conf.http_url or own_url(conf)
    if driver_info is not None:
        found = driver_info.get("external_http_url") or conf.external_http_url or found
    if not found:
        raise errors.MissingParameter(
            "Missing option [deploy]http_url: the URL at which machines and BMCs find the files "
            "of [deploy]http_root; or set [deploy]http_port for the conductor to serve them",
            path="[deploy]http_url",
        )
    return str(found).rstrip("/")


def host(address: str) -> str:
    """Return the host of a URL, without brackets."""
    return urllib.parse.urlsplit(address).hostname or ""


def own_url(conf: DeployOptions) -> str | None:
    """Return the URL of the conductor's own file server, None if it does not serve."""
    if conf.http_port is None:
        return None
    scheme = "https" if conf.http_ssl_cert_file else "http"
    host = str(conf.http_host).strip("[]")
    return (
        f"{scheme}://[{host}]:{conf.http_port}"
        if ":" in host
        else (f"{scheme}://{host}:{conf.http_port}")
    )


def secret_name(stem: str, suffix: str) -> str:
    """Return an unguessable name, ``<stem>-<random><suffix>``."""
    return f"{stem}-{secrets.token_urlsafe(_NAME_BYTES)}{suffix}"


def write(file: pathlib.Path, content: str | bytes) -> None:
    """Write a small file; concurrent readers get the previous one.

    :raises errors.LocalFileError, errors.DiskFull: it cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content

    def fill() -> None:
        with local_files.new_file(file.parent) as (out, made):
            out.write(data)
            os.fchmod(out.fileno(), _FILE_MODE)
            out.flush()
            made.replace(file)

    with _translate_file_errors(file):
        reached(file.parent)
        local_files.once_more(file.parent, fill, len(data))


def place(
    source: pathlib.Path,
    file: pathlib.Path,
    check: Callable[[pathlib.Path], object] | None = None,
) -> None:
    """Put a large file in place, as another name of the same file if possible.

    A file that cannot have one, because it is another user's or on another file system, is copied
    once for all nodes, into a closed folder of the target's file system.

    :param source: no symbolic link.
    :param check: called with the file before it gets its name; if it raises, nothing changes. A
        check of ``source`` does not suffice, because another thread may replace it meanwhile.
    :raises errors.LocalFileError, errors.DiskFull: it cannot be put there.
    """
    with _translate_file_errors(file):
        reached(file.parent)
        made = file.with_name(f"{local_files.UNFINISHED}{secrets.token_hex(8)}")
        try:
            _give_name(source, made, file)
            if check is not None:
                check(made)
            made.replace(file)
        finally:
            made.unlink(missing_ok=True)


def _give_name(source: pathlib.Path, made: pathlib.Path, file: pathlib.Path) -> None:
    """Make a name of a file, or of its copy that all nodes share."""
    if _link_file(source, made):
        return
    # The check before may have followed links to a permitted file; they are not followed again.
    with local_files.open_regular(source, follow=False) as opened:
        for _ in range(_TRIES):
            copy = _shared_copy(opened, file)
            with contextlib.suppress(FileNotFoundError):  # another thread needed its room
                if not _link_file(copy, made):
                    copy.replace(made)  # it has all names that it can have on this file system
                return
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(made))


def _shared_copy(source: BinaryIO, file: pathlib.Path) -> pathlib.Path:
    """Return the copy of a file on the file system of a published file, made if missing."""
    stamp = checksums.stamp_of(os.fstat(source.fileno()))
    root = folder() if file.is_relative_to(folder()) else pathlib.Path(config.CONF.pxe.tftp_root)
    copy = root / local_files.SHARED / hashlib.sha256(repr(stamp).encode()).hexdigest()
    with _COPYING.take(copy):
        if copy.exists():
            os.utime(copy, ns=(time.time_ns(), copy.stat().st_mtime_ns))
        else:
            copy.parent.mkdir(mode=_PRIVATE_MODE, parents=True, exist_ok=True)
            limit = int(config.CONF.conductor.image_cache_size) * local_files.MIB
            with local_files.new_file(copy.parent) as (out, made):
                local_files.reserve(out, os.fstat(source.fileno()).st_size, copy.parent, limit)
                local_files.copy(source, out)
                if checksums.stamp_of(os.fstat(source.fileno())) != stamp:
                    reason = "it was changed while it was copied"
                    raise errors.LocalFileError(path=source.name, reason=reason)
                os.fchmod(out.fileno(), _FILE_MODE)
                out.flush()
                made.replace(copy)
    return copy


def _link_file(source: pathlib.Path, made: pathlib.Path) -> bool:
    """Give a file a second name; False if impossible or unreadable for others."""
    about = source.lstat()
    if not about.st_mode & _OTHERS_READ or not stat.S_ISREG(about.st_mode):
        return False
    try:
        local_files.once_more(made.parent, lambda: os.link(source, made, follow_symlinks=False))
    except OSError as why:
        if why.errno in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP}:
            return False
        raise
    if not stat.S_ISREG(made.lstat().st_mode):  # the source was replaced after the first look
        made.unlink()
        return False
    return True


def remove(*files: pathlib.Path) -> None:
    """Remove files; missing ones are ignored.

    Their folders stay, because other threads may write there, and DHCP servers watch them.
    """
    for file in files:
        with _translate_file_errors(file):
            file.unlink(missing_ok=True)


def remove_folder(place: pathlib.Path) -> None:
    """Remove the folder of one node, if it is empty."""
    with contextlib.suppress(OSError):
        place.rmdir()


@contextlib.contextmanager
def _translate_file_errors(file: pathlib.Path) -> Iterator[None]:
    """Raise an error of a file as an error of this service."""
    try:
        with local_files.explained(file):
            yield
    except local_files.LimitReached as why:
        text = f"No room for {file}: {why}, [conductor]image_cache_size. Raise it, or repeat later."
        raise errors.DiskFull(text, path=str(file)) from None


# Published files of single nodes on disk: their node and age.
#
# A node that was deleted, or moved to another conductor, leaves files behind; a killed process
# leaves unfinished ones. The caller, who knows the nodes, decides about removal; a file that has
# changed since it was listed is kept.

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SECRET = re.compile(rf"(?P<node>{_UUID})-[\w-]{{22}}(?:\.\w+)?")  # of published.secret_name
_FOLDER = re.compile(_UUID)
_LED_TO = re.compile(rf"/(?P<node>{_UUID})/")
_SCRIPTS = "pxelinux.cfg"
_GRUB = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}\.conf")
_SCRIPT_BYTES = 16 * 1024
_COPY_SECONDS = 24 * 3600.0


@dataclasses.dataclass(frozen=True, slots=True)
class Left:
    """A file of a node, as it was when it was found.

    ``named``: its name is its node's secret, so the node shows whether it is still in use.
    """

    file: pathlib.Path
    node: str
    named: bool
    seen: tuple[int, int]


def of_nodes(before: float) -> list[Left]:
    """Return the files below ``[deploy]http_root`` and ``[pxe]tftp_root`` of one node each.

    :param before: seconds since the epoch; files written or named later are left out.
    """
    root, by_tftp = folder(), pathlib.Path(config.CONF.pxe.tftp_root)
    found = []
    paths = (place.glob(names) for place in {root, by_tftp} for names in ("*/*", "*.conf"))
    for file in _existing_files(itertools.chain.from_iterable(paths)):
        stamp = seen(file, before)
        whose = stamp and _owner_of_file(file)
        if stamp and whose:
            found.append(Left(file, *whose, stamp))
    return found


def unused(before: float) -> list[pathlib.Path]:
    """Return unfinished files not touched since ``before``, whose writer has died.

    Shared copies of files that no node has used for a day are among them.
    """
    root, by_tftp = folder(), pathlib.Path(config.CONF.pxe.tftp_root)
    places = [root, *(path for path in root.glob("*") if path.is_dir())]
    places += [
        local_files.downloads(),
        local_files.bases(),
        local_files.agent_logs(),
        by_tftp / local_files.SHARED,
    ]
    found = [file for place in places for file in place.glob(f"{local_files.UNFINISHED}*")]
    old = [file for file in _existing_files(found) if seen(file, before) is not None]
    copies = (
        file for place in (root, by_tftp) for file in (place / local_files.SHARED).glob("[!.]*")
    )
    return old + [file for file in _existing_files(copies) if _is_unused_copy(file, before)]


def _is_unused_copy(file: pathlib.Path, before: float) -> bool:
    with contextlib.suppress(FileNotFoundError):  # removed for its room just now
        return file.stat().st_nlink == 1 and seen(file, before - _COPY_SECONDS) is not None
    return False


def remove_left(left: Left) -> bool:
    """Remove a file unless it was replaced; return whether it was removed.

    :raises errors.LocalFileError: it cannot be removed.
    """
    if seen(left.file, float("inf")) != left.seen:
        return False
    remove(left.file)
    if left.file.parent.name == left.node:
        remove_folder(left.file.parent)
    return True


def _existing_files(paths: Iterable[pathlib.Path]) -> Iterator[pathlib.Path]:
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                yield path


def seen(file: pathlib.Path, before: float) -> tuple[int, int] | None:
    """Return an identity of a file's content, None if it is younger or gone."""
    try:
        about = file.stat()
    except OSError:
        return None
    # A link to a file that was fetched long ago is as old as its name.
    # By `lived`, because a clock that was ahead may have written the file.
    old = clock.lived_since(about.st_ctime) > clock.stamp() - before
    return (about.st_ino, about.st_ctime_ns) if old else None


def _owner_of_file(file: pathlib.Path) -> tuple[str, bool] | None:
    secret = _SECRET.fullmatch(file.name)
    if secret:
        return secret["node"], True
    folder = file.parent.name
    if _FOLDER.fullmatch(folder):
        return folder, False
    script = folder == _SCRIPTS or _GRUB.fullmatch(file.name)
    led = _LED_TO.search(_read_text(file)) if script else None
    return (led["node"], False) if led else None


def _read_text(file: pathlib.Path) -> str:
    try:
        return local_files.read_regular(file, _SCRIPT_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
