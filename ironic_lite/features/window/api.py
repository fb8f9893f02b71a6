"""The window: a web interface below ``/ui/``, served from memory by the API process."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import importlib.resources
import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus

from ironic_lite.api.http import request
from ironic_lite.api.http.request import Environ, StartResponse
from ironic_lite.api.service import Extension
from ironic_lite.core.options import Configuration

# The files of the window, read once and served from memory: as they are, by gzip, and by Brotli,
# which `make window` has written beside the built ones.
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
_SCRIPT = "main.js"
_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSES": "text/plain; charset=utf-8",
}
_FOLDERS = ("built", "page")
"""Folders of the served files; ``make window`` builds the first from the sources of a checkout."""
_FORMS = {"br": ("br",), "gzip": ("gzip", "*")}
"""Compressed forms by the coding, the smallest first, and the names in Accept-Encoding."""
_IMPORTED = re.compile(r'(?:from|import)"\./([^"]+)"')
_METHODS = frozenset({"GET", "HEAD"})
_HASH_DIGITS = 12
_KEPT = "public, max-age=31536000, immutable"
_REVALIDATED = "no-cache"


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """One file: its bytes, its compressed forms by coding, its headers."""

    raw: bytes
    forms: Mapping[str, bytes]
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
        for coding, names in _FORMS.items():
            if coding in self.forms and request.takes_coding(environ, *names):
                headers, body = (*headers, ("Content-Encoding", coding)), self.forms[coding]
                break
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
    everything = dict(sorted(contents()))
    found = {name: data for name, data in everything.items() if _suffix(name) in _KINDS}
    digest = hashlib.sha256()
    for name, data in found.items():
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    name_of_all = digest.hexdigest()[:_HASH_DIGITS]
    tag = f'W/"{name_of_all}"'
    document = _file(_DOCUMENT, _linked(found, name_of_all), _REVALIDATED, tag)
    answers: dict[str, File | IndexPage] = {
        f"{ROOT}/a/{name_of_all}/{name}": _file(
            name, data, _KEPT, brotli=everything.get(f"{name}.br")
        )
        for name, data in found.items()
        if name != _DOCUMENT
    }
    # Two keys, because the answer for an event loop is looked up by the path as it came.
    answers[ROOT] = answers[f"{ROOT}/"] = IndexPage(document)
    return Window(name_of_all, answers)


def contents() -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each file, of those that end in ``.br`` compressed by Brotli."""
    window = importlib.resources.files("ironic_lite.features.window")
    for folder in _FOLDERS:
        for path in window.joinpath(folder).iterdir():
            yield path.name, path.read_bytes()


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]


def modules(found: Mapping[str, bytes], name: str) -> list[str]:
    """Return the names of a script and of all that it imports at once, in that order."""
    names = [name]
    for each in names:
        imported = _IMPORTED.findall(found[each].decode())
        names += [other for other in dict.fromkeys(imported) if other not in names]
    return names


def _linked(found: Mapping[str, bytes], name_of_all: str) -> bytes:
    """Return the document with the hash and a preload link for each module that it needs."""
    folder = f"a/{name_of_all}/"
    links = "\n".join(
        f'<link rel="modulepreload" href="{folder}{name}">' for name in modules(found, _SCRIPT)
    )
    text = found[_DOCUMENT].decode().replace("<!-- modules -->", links)
    return text.replace("{files}/", folder).encode()


def _file(
    name: str, data: bytes, caching: str, tag: str = "", *, brotli: bytes | None = None
) -> File:
    headers = (
        ("Content-Type", _KINDS[_suffix(name)]),
        ("Cache-Control", caching),
        ("Vary", "Accept-Encoding"),
        *((("ETag", tag),) if tag else ()),
        *HEADERS,
    )
    forms = {"gzip": gzip.compress(data, 9, mtime=0)} | ({"br": brotli} if brotli else {})
    return File(data, forms, headers, tag)


def _names_tag(condition: str, tag: str) -> bool:
    """Return whether ``If-None-Match`` names a tag; comparison is weak (RFC 9110, 13.1.2)."""
    named = {one.strip().removeprefix("W/") for one in condition.split(",")}
    return "*" in named or tag.removeprefix("W/") in named


def _hash(conf: Configuration) -> str | None:
    return load().hash if conf.api.enable_window else None


EXTENSION = Extension(files=table, window=_hash)
