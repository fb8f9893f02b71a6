"""Replies to requests for files below a folder: file, byte range and headers.

A file is opened first, and everything said of it is asked of its descriptor, because files are
replaced while they are served. This module reads no content.
"""

from __future__ import annotations

import contextlib
import dataclasses
import email.utils
import errno
import os
import pathlib
import re
import stat
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, BinaryIO

_RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})")
_METHODS = frozenset({"GET", "HEAD"})
_TRIES = 3  # the target of a link may be replaced between its reading and its opening


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A reply: status, headers, and an open file, at the bytes to send; the caller closes it."""

    status: HTTPStatus
    headers: Mapping[str, str]
    file: BinaryIO | None = None
    size: int = 0


def answer(root: pathlib.Path, method: str, target: str, headers: Mapping[str, str]) -> Reply:
    """Return the reply to a request (RFC 9110, 13 and 14).

    :param root: the real path of the folder.
    :param target: as in the request line.
    :param headers: of the request, with names in lower case.
    """
    if method not in _METHODS:
        return _empty_reply(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})
    file = _open_public_file(root, target)
    if file is None:
        return _empty_reply(HTTPStatus.NOT_FOUND, {})
    reply = _file_reply(file, method, headers)
    if reply.file is None:
        file.close()
    return reply


def _file_reply(file: BinaryIO, method: str, headers: Mapping[str, str]) -> Reply:
    about = os.fstat(file.fileno())
    tag = f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"'
    known = {
        "ETag": tag,
        "Last-Modified": email.utils.formatdate(about.st_mtime, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    if _is_known(headers, tag, about.st_mtime):
        return Reply(HTTPStatus.NOT_MODIFIED, known)
    known["Content-Type"] = _content_type(file.name)
    asked = headers.get("range") if _range_applies(headers.get("if-range"), known) else None
    part = _requested_part(asked, about.st_size)
    start, end = part or (0, about.st_size)
    status = HTTPStatus.OK
    if part is not None:
        if start >= end:
            beyond = {"Content-Range": f"bytes */{about.st_size}"}
            return _empty_reply(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, beyond)
        status = HTTPStatus.PARTIAL_CONTENT
        known["Content-Range"] = f"bytes {start}-{end - 1}/{about.st_size}"
    known["Content-Length"] = str(end - start)
    file.seek(start)
    return Reply(status, known, file if method == "GET" else None, end - start)


def _empty_reply(status: HTTPStatus, headers: Mapping[str, str]) -> Reply:
    return Reply(status, {**headers, "Content-Length": "0"})


def _open_public_file(root: pathlib.Path, target: str) -> BinaryIO | None:
    """Return the open file of a target, None if the target is not public.

    The target of a link must be below ``root``. Names that begin with a dot are not public.
    """
    try:
        path = urllib.parse.urlsplit(target).path if "://" in target else target.partition("?")[0]
    except ValueError:  # the host of an absolute URL is malformed
        return None
    parts = urllib.parse.unquote(path, errors="replace").removeprefix("/").split("/")
    if "\0" in "".join(parts) or any(not part or part.startswith(".") for part in parts):
        return None
    for _ in range(_TRIES):
        try:
            found = pathlib.Path(os.path.realpath(root.joinpath(*parts)))
            return _open_below(root, found.relative_to(root))
        except ValueError:  # it is elsewhere
            return None
        except OSError as why:
            if why.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                return None
    return None


def _open_below(root: pathlib.Path, path: pathlib.Path) -> BinaryIO | None:
    """Return an open regular file, None for another kind.

    :param path: below ``root``; a link that was put into it meanwhile is not followed.
    :raises OSError: it is missing, unreadable, or has a link.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as opened:
        folder = os.open(root, flags | os.O_DIRECTORY)
        opened.callback(os.close, folder)
        for part in path.parts[:-1]:
            folder = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
            opened.callback(os.close, folder)

        def is_file(name: str | int, **more: Any) -> bool:
            return stat.S_ISREG(os.stat(name, **more).st_mode)

        # Opening a device may have an effect, and opening a pipe waits for a writer.
        if not is_file(path.name or ".", dir_fd=folder, follow_symlinks=False):
            return None
        file = open(  # noqa: SIM115  # the caller closes it
            path.name,
            "rb",
            buffering=0,
            opener=lambda name, _: os.open(name, flags | os.O_NONBLOCK, dir_fd=folder),
        )
    if is_file(file.fileno()):
        return file
    file.close()
    return None


def _content_type(name: str) -> str:
    return (
        "text/plain" if pathlib.Path(name).suffix in {".ipxe", ""} else "application/octet-stream"
    )


def _is_known(headers: Mapping[str, str], tag: str, changed: float) -> bool:
    """Return whether the client already has this version of the file."""
    tags = headers.get("if-none-match")
    if tags is not None:
        given = {one.strip().removeprefix("W/") for one in tags.split(",")}
        return tag in given or "*" in given
    since = _read_date(headers.get("if-modified-since"))
    return since is not None and int(changed) <= since


def _range_applies(condition: str | None, known: Mapping[str, str]) -> bool:
    """Return whether the range is for the current file version (RFC 9110, 13.1.5)."""
    return condition is None or condition in {known["ETag"], known["Last-Modified"]}


def _read_date(text: str | None) -> float | None:
    try:
        return None if text is None else email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _requested_part(asked: str | None, size: int) -> tuple[int, int] | None:
    """Return start and end of the requested part; None for the whole file.

    A header that cannot be parsed, or names several ranges, is ignored (RFC 9110, 14.2).
    """
    found = _RANGE.fullmatch(asked.strip()) if asked else None
    if found is None or not (found["first"] or found["last"]):
        return None
    if not found["first"]:
        return max(0, size - int(found["last"])), size
    first = int(found["first"])
    last = int(found["last"]) if found["last"] else size - 1
    if found["last"] and last < first:
        return None
    return first, min(last + 1, size)
