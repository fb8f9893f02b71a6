"""Permitted image sources: the only module that decides on addresses.

Clients that may change a node write ``image_source`` and similar fields. This service fetches them,
or an agent inside the operator's network does. So schemes are few, local files lie in named
folders, and networks can be blocked; ``reach`` checks the latter at each connection, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import http.client
import os
import pathlib
import ssl
import time
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.core import bounded_http, certificate_files, config, networks

SCHEMES = ("http", "https", "file")
REGISTRY = "oci"
"""Scheme of images in registries, which `registry` reads."""


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


def read_source(given: object, path: str) -> Source:
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
    if scheme == REGISTRY:
        raise _wrong_source(path, "oci:// is for instance_info/image_source")
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


def file_within(file: pathlib.Path, roots: Iterable[str], path: str) -> pathlib.Path:
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


# GET requests that avoid blocked networks and always end in time.
#
# The checked address is the one connected to, so a name with changing addresses gains nothing.
# Proxies of the environment are not used, because they would connect for us. Redirections are
# checked alike.

MOST_REDIRECTS = 5
_HEADERS = 1024 * 1024
"""Bytes of a response besides its body: http.client allows 100 lines of 64 KiB."""
_CHUNK = 256 * 1024
_TURNS = frozenset(
    {
        HTTPStatus.MOVED_PERMANENTLY,
        HTTPStatus.FOUND,
        HTTPStatus.SEE_OTHER,
        HTTPStatus.TEMPORARY_REDIRECT,
        HTTPStatus.PERMANENT_REDIRECT,
    }
)


class FetchFailed(Exception):
    """A missing or incomplete response; the text gives the reason without the address."""


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """Limits of a request.

    ``blocked``: networks that it must not connect to. ``tls``: the trusted certificates, of
    `trusted`. ``connect``, ``silence``: seconds until connected, and without a byte; the headers of
    a response come within ``silence``, too. ``seconds``: for everything together. ``size``: bytes
    of a response. ``trusted``: hosts, with all below them, to which redirections carry a login.
    """

    blocked: Sequence[networks.Network]
    tls: ssl.SSLContext
    connect: float
    silence: float
    seconds: float
    size: int
    trusted: Collection[str] = ()

    def trusts(self, url: str) -> bool:
        """Return whether a redirection to this URL may carry the login."""
        where = urllib.parse.urlsplit(url)
        host = (where.hostname or "").lower()
        known = (one.strip().lower() for one in self.trusted)
        return where.scheme == "https" and any(
            one and (host == one or host.endswith(f".{one}")) for one in known
        )

    def judge(self, address: str) -> None:
        """Refuse an IP address of a blocked network.

        :raises bounded_http.AddressRefused: naming the network.
        """
        net = networks.containing(address, self.blocked)
        if net is not None:
            raise bounded_http.AddressRefused(
                f"{address} is in {net}, closed by [conductor]image_blocked_networks"
            )


@contextlib.contextmanager
def get(url: str, terms: Terms, headers: Mapping[str, str]) -> Iterator[http.client.HTTPResponse]:
    """Yield the response at the end of a URL's redirections; its body is unread.

    :param url: http or https; user and password in it are sent to its host only.
    :raises FetchFailed: no response came.
    """
    end = time.monotonic() + terms.seconds
    sent = {"Accept": "*/*", "User-Agent": "ironic-lite", "Connection": "close", **headers}
    sent |= _login_header(url)
    for _ in range(MOST_REDIRECTS + 1):
        with contextlib.ExitStack() as opened:
            with _translate_fetch_errors():
                answer = _open_answer(opened, url, terms, sent, end)
            target = answer.headers.get("Location")
            if answer.status not in _TURNS or not target:
                yield answer
                return
            # The body of a redirection is not read, as it may have any size.
            there = _redirection_target(url, target)
        if _url_origin(there) != _url_origin(url) and not terms.trusts(there):
            sent = {name: value for name, value in sent.items() if name.lower() != "authorization"}
        url = there
    raise FetchFailed(f"it redirects more than {MOST_REDIRECTS} times")


def parts(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body of a response as it arrives, still compressed.

    :raises FetchFailed: it broke off.
    """
    with _translate_fetch_errors():
        yield from bounded_http.parts(answer, _CHUNK)


def _open_answer(
    opened: contextlib.ExitStack,
    url: str,
    terms: Terms,
    headers: Mapping[str, str],
    end: float,
) -> http.client.HTTPResponse:
    where = urllib.parse.urlsplit(url)
    if where.scheme not in {"http", "https"} or not where.hostname:
        raise FetchFailed(_NO_URL)
    left = max(0.0, end - time.monotonic())
    limits = bounded_http.Limits(
        connect=min(terms.connect, left),
        whole=left,
        size=terms.size + _HEADERS,
        head=min(terms.silence, left),
        silence=terms.silence,
    )
    tls = terms.tls if where.scheme == "https" else None
    made = bounded_http.Connection(
        where.hostname, where.port, limits=limits, judge=terms.judge, tls=tls
    )
    connection = opened.enter_context(contextlib.closing(made))
    target = urllib.parse.urlunsplit(("", "", where.path or "/", where.query, ""))
    return opened.enter_context(connection.exchange("GET", target, headers))


def _redirection_target(url: str, target: str) -> str:
    """Return the target of a redirection.

    :raises FetchFailed: it is not a URL.
    """
    try:
        there = urllib.parse.urljoin(url, target)
        _url_origin(there)
    except ValueError:  # a bad port, or an unmatched bracket
        raise FetchFailed(_NO_URL) from None
    return there


_NO_URL = "it redirects to something other than a URL of http or https"


def _login_header(url: str) -> dict[str, str]:
    where = urllib.parse.urlsplit(url)
    if where.username is None:
        return {}
    login = (urllib.parse.unquote(part or "") for part in (where.username, where.password))
    return {"Authorization": bounded_http.basic_login(*login)}


def _url_origin(url: str) -> tuple[str, str | None, int | None]:
    where = urllib.parse.urlsplit(url)
    return where.scheme, where.hostname, where.port


@contextlib.contextmanager
def _translate_fetch_errors() -> Iterator[None]:
    """Raise errors of the exchange as `FetchFailed`."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as why:
        raise FetchFailed(_error_reason(why)) from why


def _error_reason(why: Exception) -> str:
    if isinstance(why, ssl.SSLCertVerificationError):
        hint = "[DEFAULT]webserver_verify_ca names the trusted certificates"
        return f"{why.verify_message}; {hint}"
    if isinstance(why, bounded_http.AnswerCutOff):
        return f"its server {why.told}"
    if isinstance(why, bounded_http.AddressRefused | bounded_http.ConnectTimeout):
        return str(why)
    if isinstance(why, TimeoutError):
        return "no complete answer in time"
    # Foreign messages may contain the address, which may have a password.
    words = why.strerror if isinstance(why, OSError) and why.errno else None
    return words.lower() if words else type(why).__name__


def trusted_tls(said: str) -> ssl.SSLContext:
    """Return TLS settings with the configured trusted certificates.

    :param said: ``[DEFAULT]webserver_verify_ca``: true, false, or a PEM file or folder.
    :raises errors.LocalFileError: the file of authorities is missing, or has no certificate.
    """
    conf = config.CONF
    limits = conf.webserver_tls_minimum_version, conf.webserver_tls_ciphers
    try:
        return _tls_context(said, certificate_files.state(*_authority_files(said)), *limits)
    except OSError:
        reason = "[DEFAULT]webserver_verify_ca is not there, or has no certificate"
        raise errors.LocalFileError(path=said, reason=reason) from None


def _authority_files(said: str) -> list[str]:
    if said.lower() in {"true", "false"}:
        return []
    if not os.path.isdir(said):
        return [said]
    return [said, *(os.path.join(said, name) for name in sorted(os.listdir(said)))]


@functools.lru_cache(maxsize=4)
def _tls_context(
    said: str, state: certificate_files.State, minimum: str, ciphers: str | None
) -> ssl.SSLContext:
    del state  # only a key of the cache
    context = bounded_http.tls_context()
    bounded_http.limit_tls(context, minimum, ciphers)
    if said.lower() == "true":
        context.load_verify_locations(cafile=bounded_http.PUBLIC_AUTHORITIES)
    elif said.lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif os.path.isdir(said):
        context.load_verify_locations(capath=said)
    else:
        context.load_verify_locations(cafile=said)
    return context
