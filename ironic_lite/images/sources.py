"""Permitted image sources: the only module that decides on addresses.

Clients that may change a node write ``image_source`` and similar fields. This service fetches them,
or an agent inside the operator's network does. So schemes are few, local files lie in named
folders, and networks can be blocked; ``reach`` checks the latter at each connection, too.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import urllib.parse
from collections.abc import Iterable, Sequence

from ironic_lite import errors
from ironic_lite.core import networks

SCHEMES = ("http", "https", "file")


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """An address that may be followed.

    ``url`` is as given; ``name`` the last part of its path, "" without one; ``file`` the local path
    of a ``file`` URL, None for the others.
    """

    url: str
    scheme: str
    name: str
    file: pathlib.Path | None = None

    @property
    def shown(self) -> str:
        """The address without user, password and query, for sentences."""
        parts = urllib.parse.urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))


def read(given: object, path: str) -> Source:
    """Return the parsed address.

    :param given: an absolute URL of ``SCHEMES``.
    :param path: where it stands, such as ``instance_info/image_source``.
    :raises errors.InvalidParameter: naming ``path``.
    """
    if not isinstance(given, str) or not given:
        raise _wrong_source(path, "must be a URL of " + ", ".join(SCHEMES))
    if any(ch.isspace() or not ch.isprintable() for ch in given):
        raise _wrong_source(
            path, "must have no spaces and no control characters; write them as %20"
        )
    try:
        parts = urllib.parse.urlsplit(given)
        port = parts.port
    except ValueError as why:
        raise _wrong_source(path, f"is no URL: {why}") from None
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES:
        raise _wrong_source(path, f"must begin with one of {', '.join(s + '://' for s in SCHEMES)}")
    name = urllib.parse.unquote(parts.path.rpartition("/")[2])
    if scheme == "file":
        return Source(given, scheme, name, _local_path(parts, path))
    if not parts.hostname or port == 0:
        raise _wrong_source(path, "needs a host, and no port 0")
    return Source(given, scheme, name)


def _local_path(parts: urllib.parse.SplitResult, path: str) -> pathlib.Path:
    if parts.netloc not in ("", "localhost"):
        raise _wrong_source(path, "a file URL has no host: file:///folder/name")
    if parts.query or parts.fragment:
        raise _wrong_source(path, "a file URL ends with the file's name")
    local = urllib.parse.unquote(parts.path)
    if not local.startswith("/") or "\0" in local or local.endswith("/"):
        raise _wrong_source(path, "must name a file by its absolute path: file:///folder/name")
    return pathlib.Path(local)


def within(file: pathlib.Path, roots: Iterable[str], path: str) -> pathlib.Path:
    """Return the real path of a local file, if it is in one of ``roots``.

    The error is the same for missing and unreadable files, so that it does not reveal which files
    exist.

    :raises errors.InvalidParameter: it is in none of them, naming ``path``.
    """
    real = pathlib.Path(os.path.realpath(file))
    if any(real.is_relative_to(os.path.realpath(root)) for root in roots):
        return real
    reason = "is in none of the folders of [conductor]file_url_allowed_paths"
    raise _wrong_source(path, reason)


def refuse_closed(source: Source, blocked: Sequence[networks.Network], path: str) -> None:
    """Refuse an address whose host is written as an IP address of a blocked network.

    ``reach`` checks the addresses of names when it connects.

    :raises errors.InvalidParameter: naming ``path``.
    """
    host = urllib.parse.urlsplit(source.url).hostname
    try:
        net = networks.containing(host or "", blocked)
    except ValueError:
        return
    if net is not None:
        raise _wrong_source(path, f"leads into {net}, closed by [conductor]image_blocked_networks")


def _wrong_source(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)
