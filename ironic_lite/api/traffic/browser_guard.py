"""Refuse requests that a page of another site makes a browser send.

A browser lends its login, or its place on the network, to requests of any page. Two checks keep
such pages out; other clients than browsers always pass them.

- Cross-site requests: ``Sec-Fetch-Site`` (W3C Fetch Metadata), or ``Origin`` (RFC 6454, 7) if the
  browser does not send that header, as over plain HTTP. Read-only requests may come from any page,
  because the browser does not show their answers to other sites.
- DNS rebinding: a page whose name resolves to this machine for a moment is of the same site as the
  API and reads its answers. If no login is needed, ``Host`` must be a name of this API.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import socket
import urllib.parse
from collections.abc import Iterable
from http import HTTPStatus

from ironic_lite.api.wire import refusals
from ironic_lite.api.wire.request import Environ
from ironic_lite.core.configuration import Configuration

_READING = frozenset({"GET", "HEAD"})
_VENDOR = "/vendor_passthru"  # here a GET may change something, too
_OWN_SITE = frozenset({"same-origin", "none"})
_PORTS = {"http": 80, "https": 443}
_LONGEST = 255  # characters of a name (RFC 1035, 2.3.4), and of a remembered header
_SHOWN = 64
_LOCAL = "localhost"
_HOST = re.compile(r"(?P<name>[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


class BrowserGuard:
    """The checks of one configuration; one object serves all threads."""

    def __init__(self, conf: Configuration) -> None:
        api = conf.api
        self._proxied = bool(api.enable_proxy_headers_parsing)
        self._endpoint = _host_and_port(api.public_endpoint or "")
        alone = api.auth_strategy == "noauth"
        open_to_all = api.allow_unauthenticated_bind and not api.allowed_hosts
        self._checks_host = alone and not open_to_all
        self._suffixes, self._names = _allowed_hosts(conf)
        self._known = functools.lru_cache(maxsize=256)(self._is_ours)

    def check(self, environ: Environ) -> None:
        """Check a request.

        :raises refusals.Refusal: 403 for a page of another site, or for a foreign host name.
        """
        if environ["REQUEST_METHOD"] not in _READING or _VENDOR in (environ.get("PATH_INFO") or ""):
            self._check_site(environ)
        if self._checks_host:
            self._check_host(environ.get("HTTP_HOST"))

    def _check_site(self, environ: Environ) -> None:
        site = environ.get("HTTP_SEC_FETCH_SITE")
        if site is not None:
            if site not in _OWN_SITE:
                raise _request_refused(
                    f"A browser sent this for a page of another site ({_shortened_text(site)})."
                )
            return
        origin = environ.get("HTTP_ORIGIN")
        if origin is None:
            return
        scheme = origin.partition(":")[0].lower()
        host = environ.get("HTTP_HOST") or ""
        if self._proxied:
            told = str(environ.get("HTTP_X_FORWARDED_HOST") or "")
            host = told.partition(",")[0].strip() or host
        asked = _host_and_port(origin)
        # Behind a proxy that ends TLS, only the browser knows the scheme and so the port.
        if asked is None or asked not in {_host_and_port(f"{scheme}://{host}"), self._endpoint}:
            raise _request_refused(
                f"A browser sent this for a page of {_shortened_text(origin)}, which is not the "
                "address of this API. If a proxy stands between, [api]public_endpoint must name "
                "its address."
            )

    def _check_host(self, host: str | None) -> None:
        """Refuse foreign names; without a Host header (HTTP/1.0), accept the request."""
        if not host or (len(host) <= _LONGEST and self._known(host)):
            return
        raise _request_refused(
            f"The Host header, {_shortened_text(host)}, is not a name of this API, which asks for "
            "no login. [api]allowed_hosts lists the names besides IP addresses and localhost."
        )

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].lower().strip("[]").removesuffix(".")
        if _is_address(name) or name in self._names or name.endswith(f".{_LOCAL}"):
            return True
        return f".{name}".endswith(self._suffixes)


def _allowed_hosts(conf: Configuration) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the suffixes and names allowed in Host; "" is a suffix of all names."""
    listed = [name.lower() for name in conf.api.allowed_hosts]
    suffixes = ["" if name == "*" else name for name in listed if name == "*" or name[0] == "."]
    own = socket.gethostname().lower()
    places = (conf.api.public_endpoint, conf.service_catalog.endpoint_override)
    told = (_host_and_port(place or "") for place in places)
    names: Iterable[str] = (
        *(_LOCAL, conf.api.host.lower(), own, own.partition(".")[0]),
        *(place[0] for place in told if place is not None),
        *listed,
    )
    return tuple(suffixes), frozenset(names)


def _host_and_port(url: str) -> tuple[str, int | None] | None:
    """Return host and port of a URL or origin, None without host (origin ``null``)."""
    if len(url) > _LONGEST:
        return None
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    host = (parts.hostname or "").removesuffix(".")
    return (host, port) if host else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shortened_text(text: str) -> str:
    return ascii(text[:_SHOWN])


def _request_refused(text: str) -> refusals.Refusal:
    return refusals.handled(HTTPStatus.FORBIDDEN, text)
