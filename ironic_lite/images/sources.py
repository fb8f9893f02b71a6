"""Where images may come from: the one place that decides which addresses are followed.

``image_source`` and its like are written by whoever may change a node, and fetched by this service
or by an agent inside the operator's network. So schemes are few, local files lie in named folders,
and networks can be closed; ``reach`` holds that at each connection, too, whatever a name or a
redirection leads to.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import os
import pathlib
import urllib.parse
from collections.abc import Iterable, Sequence

from ironic_lite import errors

SCHEMES = ("http", "https", "file")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")


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
    """Return what an address says.

    :param given: an absolute URL of ``SCHEMES``.
    :param path: where it stands, such as ``instance_info/image_source``.
    :raises errors.InvalidParameter: naming ``path``.
    """
    if not isinstance(given, str) or not given:
        raise _wrong(path, "must be a URL of " + ", ".join(SCHEMES))
    if any(ch.isspace() or not ch.isprintable() for ch in given):
        raise _wrong(path, "must have no spaces and no control characters; write them as %20")
    try:
        parts = urllib.parse.urlsplit(given)
        port = parts.port
    except ValueError as why:
        raise _wrong(path, f"is no URL: {why}") from None
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES:
        raise _wrong(path, f"must begin with one of {', '.join(s + '://' for s in SCHEMES)}")
    name = urllib.parse.unquote(parts.path.rpartition("/")[2])
    if scheme == "file":
        return Source(given, scheme, name, _local(parts, path))
    if not parts.hostname or port == 0:
        raise _wrong(path, "needs a host, and no port 0")
    return Source(given, scheme, name)


def _local(parts: urllib.parse.SplitResult, path: str) -> pathlib.Path:
    if parts.netloc not in ("", "localhost"):
        raise _wrong(path, "a file URL has no host: file:///folder/name")
    if parts.query or parts.fragment:
        raise _wrong(path, "a file URL ends with the file's name")
    local = urllib.parse.unquote(parts.path)
    if not local.startswith("/") or "\0" in local or local.endswith("/"):
        raise _wrong(path, "must name a file by its absolute path: file:///folder/name")
    return pathlib.Path(local)


def within(file: pathlib.Path, roots: Iterable[str], path: str) -> pathlib.Path:
    """Return where a local file really is, links followed, if that is in one of ``roots``.

    Whether it is there is not told apart from whether it may be read: nobody learns from here which
    files there are.

    :raises errors.InvalidParameter: it is in none of them, naming ``path``.
    """
    real = pathlib.Path(os.path.realpath(file))
    if any(real.is_relative_to(os.path.realpath(root)) for root in roots):
        return real
    reason = "is in none of the folders of [conductor]file_url_allowed_paths"
    raise _wrong(path, reason)


@functools.lru_cache(maxsize=32)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks that a list of options names.

    :raises ValueError: one of them is none.
    """
    return _networks(tuple(text.strip() for text in texts if text.strip()))


def closed(address: str, blocked: Sequence[Network]) -> Network | None:
    """Return which of the blocked networks an IP address lies in, None if in none.

    An IPv6 address that stands for an IPv4 one (RFC 4291 2.5.5.2; RFC 6052 2.1, for a translator
    of the network) is that one.

    :raises ValueError: it is no IP address.
    """
    found: Address = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        within = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _TRANSLATED else None
        found = found.ipv4_mapped or within or found
    return next((net for net in blocked if found.version == net.version and found in net), None)


def refuse_closed(source: Source, blocked: Sequence[Network], path: str) -> None:
    """Refuse an address whose host is written as an IP address of a blocked network.

    Names are looked up when they are connected to, see ``reach``.

    :raises errors.InvalidParameter: naming ``path``.
    """
    host = urllib.parse.urlsplit(source.url).hostname
    try:
        net = closed(host or "", blocked)
    except ValueError:
        return
    if net is not None:
        raise _wrong(path, f"leads into {net}, closed by [conductor]image_blocked_networks")


def _wrong(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)
