"""Replies to requests for files below a folder: file, byte range and headers.

This module looks at files, but reads none.
"""

from __future__ import annotations

import dataclasses
import email.utils
import os
import pathlib
import re
import stat
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus

_RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})")
_METHODS = frozenset({"GET", "HEAD"})


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A reply: status, headers, and the bytes of a file that follow them."""

    status: HTTPStatus
    headers: Mapping[str, str]
    file: pathlib.Path | None = None
    start: int = 0
    size: int = 0


def answer(root: pathlib.Path, method: str, target: str, headers: Mapping[str, str]) -> Reply:
    """Return the reply to a request (RFC 9110, 13 and 14).

    :param root: the real path of the folder.
    :param target: as in the request line.
    :param headers: of the request, with names in lower case.
    """
    if method not in _METHODS:
        return _empty_reply(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})
    found = _public_file(root, target)
    if found is None:
        return _empty_reply(HTTPStatus.NOT_FOUND, {})
    file, about = found
    tag = f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"'
    known = {
        "ETag": tag,
        "Last-Modified": email.utils.formatdate(about.st_mtime, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    if _is_known(headers, tag, about.st_mtime):
        return Reply(HTTPStatus.NOT_MODIFIED, known)
    known["Content-Type"] = _content_type(file)
    asked = headers.get("range") if _range_applies(headers.get("if-range"), known) else None
    part = _requested_part(asked, about.st_size)
    if part is None:
        return _file_reply(HTTPStatus.OK, known, method, file, (0, about.st_size))
    start, end = part
    if start >= end:
        beyond = {"Content-Range": f"bytes */{about.st_size}"}
        return _empty_reply(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, beyond)
    known["Content-Range"] = f"bytes {start}-{end - 1}/{about.st_size}"
    return _file_reply(HTTPStatus.PARTIAL_CONTENT, known, method, file, (start, end))


def _file_reply(
    status: HTTPStatus,
    headers: Mapping[str, str],
    method: str,
    file: pathlib.Path,
    part: tuple[int, int],
) -> Reply:
    start, end = part
    given = {**headers, "Content-Length": str(end - start)}
    return Reply(status, given, file if method == "GET" else None, start, end - start)


def _empty_reply(status: HTTPStatus, headers: Mapping[str, str]) -> Reply:
    return Reply(status, {**headers, "Content-Length": "0"})


def _public_file(root: pathlib.Path, target: str) -> tuple[pathlib.Path, os.stat_result] | None:
    """Return the file of a target, None if the target is not public.

    The target of a link must be below ``root``. Names that begin with a dot are not public.
    """
    path = urllib.parse.urlsplit(target).path if "://" in target else target.partition("?")[0]
    parts = urllib.parse.unquote(path, errors="replace").removeprefix("/").split("/")
    if "\0" in "".join(parts) or any(not part or part.startswith(".") for part in parts):
        return None
    try:
        found = pathlib.Path(os.path.realpath(root.joinpath(*parts)))
        about = found.stat()
        usable = stat.S_ISREG(about.st_mode) and found.is_relative_to(root)
        return (found, about) if usable and os.access(found, os.R_OK) else None
    except (OSError, ValueError):
        return None


def _content_type(file: pathlib.Path) -> str:
    return "text/plain" if file.suffix in {".ipxe", ""} else "application/octet-stream"


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
