"""The window: a web interface below ``/ui/``, served from memory by the API process."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import importlib.resources
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus

from ironic_lite.api.http import request
from ironic_lite.api.http.request import Environ, StartResponse
from ironic_lite.api.service import Extension
from ironic_lite.core.options import Configuration

# The files of the window, read and compressed once, and served from memory.
#
# ``/ui/`` is the document, which browsers revalidate by its ``ETag``. All other files are below
# ``/ui/a/{hash}/``, where the hash covers every byte of the window, so browsers may keep them for a
# year. The files hold no data of the service and need no login.

ROOT = "/ui"
HEADERS = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "clipboard-write=(self)"),
)
_DOCUMENT = "index.html"
_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSES": "text/plain; charset=utf-8",
}
_FOLDERS = (
    ("built", "", frozenset({"js", "css"})),
    ("page", "", frozenset({"html", "svg"})),
    ("page/vendor", "vendor/", frozenset({"js", "LICENSES"})),
)
"""Folders of the served files, their address, and the kinds that are served.

``make window`` builds those in ``built`` from the modules and the style sheet of a checkout.
"""
_METHODS = frozenset({"GET", "HEAD"})
_HASH_DIGITS = 12
_KEPT = "public, max-age=31536000, immutable"
_REVALIDATED = "no-cache"


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """One file: its bytes, compressed bytes and headers."""

    raw: bytes
    packed: bytes
    headers: tuple[tuple[str, str], ...]
    tag: str = ""

    guarded = False
    immediate = True

    def takes(self, method: str) -> bool:
        """Return whether this method is answered."""
        return method in _METHODS

    def answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request that `middleware` has opened."""
        environ[request.CALL].route = f"{ROOT}/"
        if self.tag and _names_tag(environ.get("HTTP_IF_NONE_MATCH") or "", self.tag):
            return request.send(environ, start_response, HTTPStatus.NOT_MODIFIED, b"", self.headers)
        headers, body = self.headers, self.raw
        if request.takes_gzip(environ):
            headers, body = (*headers, ("Content-Encoding", "gzip")), self.packed
        return request.send(environ, start_response, HTTPStatus.OK, body, headers)


@dataclasses.dataclass(frozen=True, slots=True)
class IndexPage:
    """``/ui/``, the document; ``/ui`` leads there by a relative address, as a proxy needs."""

    document: File

    guarded = False
    immediate = True

    def takes(self, method: str) -> bool:
        """Return whether this method is answered."""
        return method in _METHODS

    def answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request that `middleware` has opened."""
        if str(environ["PATH_INFO"]).endswith("/"):
            return self.document.answer(environ, start_response)
        environ[request.CALL].route = f"{ROOT}/"
        headers = (("Location", "ui/"), ("Content-Type", "text/plain"), *HEADERS)
        return request.send(
            environ, start_response, HTTPStatus.PERMANENT_REDIRECT, b"See ui/\n", headers
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """The window of this release: the hash of all its bytes, and its answers by path."""

    hash: str
    answers: Mapping[str, File | IndexPage]


def table(conf: Configuration) -> Mapping[str, File | IndexPage]:
    """Return the answers by path: none if ``[api]enable_window`` is false."""
    return load().answers if conf.api.enable_window else {}


@functools.cache
def load() -> Window:
    """Read, hash and compress all files."""
    found = dict(sorted(contents()))
    digest = hashlib.sha256()
    for name, data in found.items():
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    name_of_all = digest.hexdigest()[:_HASH_DIGITS]
    tag = f'W/"{name_of_all}"'
    document = _file(_DOCUMENT, _linked(found, name_of_all), _REVALIDATED, tag)
    answers: dict[str, File | IndexPage] = {
        f"{ROOT}/a/{name_of_all}/{name}": _file(name, data, _KEPT)
        for name, data in found.items()
        if name != _DOCUMENT
    }
    # Two keys, because the answer for an event loop is looked up by the path as it came.
    answers[ROOT] = answers[f"{ROOT}/"] = IndexPage(document)
    return Window(name_of_all, answers)


def contents() -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each served file."""
    window = importlib.resources.files("ironic_lite.features.window")
    for folder, above, kinds in _FOLDERS:
        for path in window.joinpath(folder).iterdir():
            if _suffix(path.name) in kinds:
                yield above + path.name, path.read_bytes()


def _suffix(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[2]


def _linked(found: Mapping[str, bytes], name_of_all: str) -> bytes:
    """Return the document with the hash and a preload link for each module."""
    folder = f"a/{name_of_all}/"
    modules = "\n".join(
        f'<link rel="modulepreload" href="{folder}{name}">'
        for name in found
        if _suffix(name) == "js"
    )
    text = found[_DOCUMENT].decode().replace("<!-- modules -->", modules)
    return text.replace("{files}/", folder).encode()


def _file(name: str, data: bytes, caching: str, tag: str = "") -> File:
    headers = (
        ("Content-Type", _KINDS[_suffix(name)]),
        ("Cache-Control", caching),
        ("Vary", "Accept-Encoding"),
        *((("ETag", tag),) if tag else ()),
        *HEADERS,
    )
    return File(data, gzip.compress(data, 9, mtime=0), headers, tag)


def _names_tag(condition: str, tag: str) -> bool:
    """Return whether ``If-None-Match`` names a tag; comparison is weak (RFC 9110, 13.1.2)."""
    named = {one.strip().removeprefix("W/") for one in condition.split(",")}
    return "*" in named or tag.removeprefix("W/") in named


def _hash(conf: Configuration) -> str | None:
    return load().hash if conf.api.enable_window else None


EXTENSION = Extension(files=table, window=_hash)
