"""Disk images in registries of containers (OCI distribution specification 1.1).

``oci://HOST/REPOSITORY:TAG`` leads to a manifest, or to an index of manifests for several machines.
The manifest of a disk image names one layer by its digest, and the layer is the image. A tag may be
moved, so a deployment resolves it once and uses digests from then on. Requests have the limits of
all downloads, see `download`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import hashlib
import http.client
import ipaddress
import json
import pathlib
import re
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core import bounded_http, config
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.options import NOT_BUILT
from ironic_lite.images import cache, checksums, download, local_files

# References: oci://HOST[:PORT]/REPOSITORY[:TAG|@ALGORITHM:HEX].

_PREFIX = f"{download.REGISTRY}://"
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_LONGEST_REPOSITORY = 255
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"(?P<kind>sha256|sha512):(?P<value>[0-9a-f]+)")
_LATEST = "latest"
_HUB, _HUB_HOST = "docker.io", "registry-1.docker.io"
_HUB_KEYS = (_HUB, "index.docker.io", "https://index.docker.io/v1/")


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """An image of a registry; ``host`` has the port, if one was given.

    ``at`` is a tag, or a digest with its algorithm.
    """

    host: str
    repository: str
    at: str

    @property
    def tagged(self) -> bool:
        """Return whether it names a tag, which may be moved."""
        return _DIGEST.fullmatch(self.at) is None

    @property
    def shown(self) -> str:
        """The whole reference, which contains no secret."""
        return f"{_PREFIX}{self.host}/{self.repository}{':' if self.tagged else '@'}{self.at}"

    @property
    def source(self) -> download.Source:
        """The reference as the address of an image."""
        return download.Source(self.shown, download.REGISTRY, self.repository.rpartition("/")[2])

    def pinned(self, digest: str) -> Reference:
        """Return the reference to a manifest of this repository by its digest."""
        return dataclasses.replace(self, at=digest)

    def url(self, scheme: str, place: str) -> str:
        """Return the URL of a part of the repository, such as ``tags/list``."""
        host = _HUB_HOST if self.host == _HUB else self.host
        return f"{scheme}://{host}/v2/{self.repository}/{place}"


def is_reference(given: object) -> bool:
    """Return whether an address is meant for a registry."""
    return isinstance(given, str) and given.lower().startswith(_PREFIX)


def read_reference(given: str, path: str) -> Reference:
    """Return the parsed reference.

    :param path: where it stands, such as ``instance_info/image_source``.
    :raises errors.InvalidParameter: naming ``path``.
    """
    host, slash, rest = given[len(_PREFIX) :].partition("/")
    if "@" in host:
        raise _wrong(path, "must have no login: use image_pull_secret")
    name, at, digest = rest.partition("@")
    name, colon, tag = name.partition(":")
    if not _is_host(host):
        raise _wrong(path, f"needs a host after {_PREFIX}, and a port from 1 to 65535 if any")
    if not slash or not _REPOSITORY.fullmatch(name) or len(name) > _LONGEST_REPOSITORY:
        raise _wrong(
            path,
            "names no repository: parts of a-z, 0-9 and single separators (. _ -), with / between "
            f"them and {_LONGEST_REPOSITORY} characters at most",
        )
    if at and colon:
        raise _wrong(path, "must end with a tag or a digest, not with both")
    if at and not _is_digest(digest):
        raise _wrong(path, "must end with @sha256: and 64 digits, or @sha512: and 128 digits")
    if colon and not _TAG.fullmatch(tag):
        raise _wrong(path, "ends with an invalid tag: letters, digits and _ . - up to 128")
    return Reference(host.lower(), name, digest or tag or _LATEST)


def _is_host(host: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(f"//{host}")
        if host.startswith("["):
            ipaddress.IPv6Address(parts.hostname or "")
        return _HOST.fullmatch(host) is not None and parts.port != 0
    except ValueError:
        return False


def _is_digest(text: object) -> bool:
    found = _DIGEST.fullmatch(text) if isinstance(text, str) else None
    return found is not None and len(found["value"]) == checksums.LENGTHS[found["kind"]]


def digest_checksum(digest: str) -> checksums.Checksum:
    """Return a digest as the checksum that it is."""
    kind, _, value = digest.partition(":")
    return checksums.Checksum(kind, value)


def _wrong(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)


# Logins: a secret of the node or of an option, and the registries that get it.

SECRET = "image_pull_secret"
"""Key of instance_info and driver_info: ``user:password``, or a token."""
_SECRET_BYTES = 16 * 1024
_FILE_BYTES = 1024 * 1024
_FILE = "[oci]authentication_config"


@dataclasses.dataclass(frozen=True, slots=True)
class RegistryLogin:
    """A user and password, or a token as password of no user; ``place`` is where it stands."""

    user: str
    password: str = dataclasses.field(repr=False)
    place: str

    @property
    def header(self) -> str:
        """The header Authorization of HTTP."""
        return bounded_http.basic_login(self.user, self.password)


def read_secret(value: str) -> str:
    """Read an image_pull_secret.

    :raises ValueError: it is unusable; the text does not quote it.
    """
    if not value.isprintable():
        raise ValueError("must be one line of text: user:password, or a token")
    if len(value.encode()) > _SECRET_BYTES:
        raise ValueError(f"must have at most {_SECRET_BYTES} bytes")
    return value


def find_login(reference: Reference, given: Mapping[str, str]) -> RegistryLogin | None:
    """Return the login for a registry, None without one.

    :param given: secrets of the node by place; they go before those of options.
    :raises errors.LocalFileError: [oci]authentication_config cannot be used.
    """
    for place, secret in given.items():
        return _split_login(secret, place)
    host = urllib.parse.urlsplit(reference.url("https", "")).hostname or ""
    server = cache.server_login(host)
    if server is not None:
        return RegistryLogin(*server, "[deploy]image_server_user")
    path = config.CONF.oci.authentication_config
    return _login_of_file(reference.host, pathlib.Path(path)) if path else None


def _split_login(secret: str, place: str) -> RegistryLogin:
    user, colon, password = secret.partition(":")
    return RegistryLogin(user, password, place) if colon else RegistryLogin("", secret, place)


def _login_of_file(host: str, file: pathlib.Path) -> RegistryLogin | None:
    """Return the login for a registry in a file of Docker's form."""
    try:
        content = local_files.read_regular(file, _FILE_BYTES + 1)
    except OSError as why:
        reason = f"{_FILE}: {why.strerror or why}"
        raise errors.LocalFileError(path=str(file), reason=reason) from None
    try:
        if len(content) > _FILE_BYTES:
            raise ValueError
        auths = json.loads(content)["auths"]
        keys = _HUB_KEYS if host == _HUB else (host, re.sub(r":[0-9]+$", "", host))
        found = next((auths[key] for key in keys if key in auths), None)
        auth = found and found.get("auth")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        form = 'is not {"auths": {"HOST": {"auth": "..."}}}, or larger than 1 MiB'
        raise errors.LocalFileError(path=str(file), reason=f"{_FILE} {form}") from None
    if not isinstance(auth, str) or not auth:
        return None
    with contextlib.suppress(binascii.Error, ValueError):
        text = base64.b64decode(auth, validate=True).decode()
        if ":" in text:
            return _split_login(text, _FILE)
    return RegistryLogin("", auth, _FILE)


# Challenges: what a registry asks for in WWW-Authenticate (RFC 9110, 11.6.1).

_PARAMETER = re.compile(r"([A-Za-z0-9_-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,\"]+))\s*,?\s*")
_CHALLENGE = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?:\s*,\s*|\s+|$)(?!=)")
_WORD = re.compile(r"[^\s,]*[\s,]*")
_LONGEST_CHALLENGE = 8 * 1024


def read_challenges(header: str) -> dict[str, dict[str, str]]:
    """Return the parameters of each scheme, such as ``bearer``, in lower case."""
    found: dict[str, dict[str, str]] = {}
    text, at, current = header[:_LONGEST_CHALLENGE], 0, None
    while at < len(text):
        if current is not None and (pair := _PARAMETER.match(text, at)):
            value = pair[3] if pair[2] is None else re.sub(r"\\(.)", r"\1", pair[2])
            current.setdefault(pair[1].lower(), value)
            at = pair.end()
        elif scheme := _CHALLENGE.match(text, at):
            current = found.setdefault(scheme["name"].lower(), {})
            at = scheme.end()
        elif word := _WORD.match(text, at):
            at = max(word.end(), at + 1)
    return found


# The choice among the manifests of an index.

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of registries for architectures of ours; some registries use ours."""
FORMATS = {"raw": "raw", "applehv": "raw", "qcow2": "qcow2", "qemu": "qcow2"}
"""Formats by the annotation ``disktype``."""
_BY_AGENT = ("raw", "applehv", "qcow2", "qemu")
_BY_CONDUCTOR = ("qcow2", "qemu", "raw", "applehv")
CONTAINER = f"it is a container. {NOT_BUILT['deploy']['bootc'].removesuffix('.')}"
_CONTAINER_CONFIGS = frozenset(
    {
        "application/vnd.oci.image.config.v1+json",
        "application/vnd.docker.container.image.v1+json",
    }
)
_PACKINGS = ("gzip", "zstd")
_OTHER_PACKINGS = re.compile(r"[+./](?:x-)?(xz|lzma|bzip2|lz4|zip|brotli|compress)$")
PACKED_NAMES = (".gz", ".xz", ".zst", ".bz2", ".lz4", ".zip")
"""Ends of the names of compressed files."""


class Entry(NamedTuple):
    """A manifest of an index; ``arch`` and ``disktype`` are "" if unsaid."""

    digest: str
    arch: str
    disktype: str

    @property
    def shown(self) -> str:
        """Its platform and type, for sentences."""
        return f"{self.arch or 'any'}/{self.disktype or 'unknown'}"


def read_entries(document: JsonView) -> list[Entry]:
    """Return the usable entries of an index."""
    found = []
    for one in _items(document.get("manifests")):
        digest = one.get("digest")
        if _is_digest(digest):
            arch = _text(_object(one.get("platform")).get("architecture"))
            disktype = _text(_object(one.get("annotations")).get("disktype"))
            found.append(Entry(str(digest), arch, disktype))
    return found


def choose(entries: Sequence[Entry], arch: str, *, served: bool) -> list[Entry]:
    """Return the entries for a machine, the preferred one first.

    :param arch: ``cpu_arch`` of the node, "" if unknown.
    :param served: whether the conductor downloads the image; then small ones are preferred, else
        those that the agent writes while they arrive.
    """
    order = _BY_CONDUCTOR if served else _BY_AGENT
    wanted = {arch, MACHINES.get(arch, arch)} | {
        ours for ours, theirs in MACHINES.items() if theirs == arch
    }
    fitting = [
        one
        for one in entries
        if (not arch or not one.arch or one.arch in wanted)
        and (not one.disktype or one.disktype in order)
    ]
    return sorted(
        fitting, key=lambda one: order.index(one.disktype) if one.disktype else len(order)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """The layer that is a disk image.

    ``manifest`` is the reference to its manifest, by digest. ``packed`` is its compression.
    ``basic``: its registry takes no token, only the login itself.
    """

    manifest: Reference
    digest: str
    size: int
    disktype: str = ""
    packed: str = ""
    basic: bool = False

    @property
    def format(self) -> str | None:
        """The format of the image, as far as its annotation says it."""
        return FORMATS.get(self.disktype)

    def as_note(self) -> Json:
        """Return the layer as JSON, without what is unsaid."""
        note = {"manifest": self.manifest.shown, "layer": self.digest, "size": self.size}
        return note | {name: told for name in _UNSAID if (told := getattr(self, name))}

    @classmethod
    def of_note(cls, note: JsonView) -> Layer:
        """Return the layer of `as_note`."""
        manifest = read_reference(note["manifest"], "driver_internal_info/oci_image")
        said = {name: note[name] for name in _UNSAID if name in note}
        return cls(manifest, note["layer"], note["size"], **said)


_UNSAID = ("disktype", "packed", "basic")


def read_layer(document: JsonView, manifest: Reference, disktype: str) -> Layer | None:
    """Return the layer of a disk image, None if the manifest is of a container.

    :param disktype: of the index; "" takes that of the manifest.
    :raises errors.ImageUnusable: the layer cannot become a disk.
    """
    said = disktype or _text(_object(document.get("annotations")).get("disktype"))
    layers = list(_items(document.get("layers")))
    kind = _object(document.get("config")).get("mediaType")
    artifact = bool(document.get("artifactType")) or bool(said)
    if len(layers) != 1 or (kind in _CONTAINER_CONFIGS and not artifact):
        return None
    (layer,) = layers
    digest, size = layer.get("digest"), layer.get("size")
    if not _is_digest(digest) or isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise _unusable(manifest, "its manifest names a layer without a digest or size")
    media = _text(layer.get("mediaType")).lower()
    packed = next((name for name in _PACKINGS if media.endswith(name)), "")
    title = _text(_object(layer.get("annotations")).get("org.opencontainers.image.title"))
    other = _OTHER_PACKINGS.search(media)
    if other:
        raise _unusable(manifest, f"its layer is compressed with {other[1]}; use zstd or gzip")
    if not packed and title.lower().endswith(PACKED_NAMES):
        raise _unusable(
            manifest,
            f"its layer is the compressed file {title[:128]!r}, but of the type {media[:128]!r}: "
            "push it as application/zstd or application/gzip, or unpacked",
        )
    return Layer(manifest, str(digest), size, said, packed)


def _unusable(reference: Reference, reason: str) -> errors.ImageUnusable:
    return errors.ImageUnusable(image=reference.shown, reason=reason)


def _items(value: object) -> Iterator[JsonView]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())


def _object(value: object) -> JsonView:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value[:256] if isinstance(value, str) and value.isprintable() else ""


# Requests to a registry.

MANIFEST_BYTES, _MOST_ENTRIES = 4 * 1024 * 1024, 1000
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_ANSWER_BYTES = 256 * 1024
_TOKEN_SECONDS, _LONGEST_TOKEN_SECONDS = 60.0, 3600.0
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
_CODE = re.compile(r"[A-Z][A-Z_]{0,63}")
_TAGS_NAMED, _MOST_TRIED = 10, 16
_MOST_WAITS, _LONGEST_WAIT = 5, 60.0
SECONDS = 60.0
"""Time limit of one request for a manifest or token."""
_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"}
)
_NO_TLS_HINT = "it speaks no TLS ([oci]permit_fallback_to_http_transport is false)"


class _Tokens:
    """Tokens in memory, by registry, repository and login, until they expire."""

    _MOST = 256

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: dict[tuple[str, ...], tuple[str, float]] = {}

    def get(self, key: tuple[str, ...]) -> str | None:
        with self._guard:
            header, until = self._known.get(key, (None, 0.0))
            return header if time.monotonic() < until else None

    def keep(self, key: tuple[str, ...], header: str, seconds: float) -> None:
        with self._guard:
            now = time.monotonic()
            living = [(k, held) for k, held in self._known.items() if held[1] > now]
            self._known = dict(living[-self._MOST + 1 :])
            self._known[key] = header, now + seconds

    def drop(self, key: tuple[str, ...]) -> None:
        with self._guard:
            self._known.pop(key, None)


_TOKENS = _Tokens()


class RegistryClient:
    """Requests for one repository with one login, or without any.

    Methods raise ``errors.DownloadFailed`` with registry, repository, tag, status and the code of
    the registry.
    """

    def __init__(
        self,
        reference: Reference,
        login: RegistryLogin | None,
        *,
        pause: Callable[[float], object] | None = None,
        seconds: float | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        :param pause: waits for a registry with a limit of requests; None reports the limit.
        :param seconds: time limit of all requests; None limits each of them alone.
        """
        self._reference, self._login, self._pause = reference, login, pause
        self._until = None if seconds is None else time.monotonic() + seconds
        self._scheme = "https"
        self._header: str | None = None
        self._waits = 0
        secret = hashlib.sha256(login.header.encode()).hexdigest() if login else ""
        self._key = reference.host, reference.repository, secret
        self.basic = False
        """True once the registry has asked for the login itself, instead of a token."""

    def resolve(self, arch: str, *, served: bool) -> Layer:
        """Return the layer for a machine, see `choose`.

        :raises errors.ImageUnusable: the registry has no disk image for it.
        """
        document, digest = self.manifest(self._reference)
        if "manifests" not in document:
            found = read_layer(document, self._reference.pinned(digest), "")
            if found is None:
                raise _unusable(self._reference, CONTAINER)
            return dataclasses.replace(found, basic=self.basic)
        entries = read_entries(document)
        fitting = choose(entries, arch, served=served)
        for entry in fitting[:_MOST_TRIED]:
            pinned = self._reference.pinned(entry.digest)
            found = read_layer(self.manifest(pinned)[0], pinned, entry.disktype)
            if found is not None:
                return dataclasses.replace(found, basic=self.basic)
        if fitting:
            raise _unusable(self._reference, CONTAINER)
        has = ", ".join(dict.fromkeys(one.shown for one in entries[:32])) or "nothing"
        reason = f"no disk image for {arch or 'any machine'}; it has {has}"
        raise _unusable(self._reference, reason)

    def manifest(self, reference: Reference) -> tuple[Json, str]:
        """Return a manifest or an index, and its digest.

        :raises errors.ImageUnusable: it is not JSON, or differs from its digest.
        """
        place = f"manifests/{reference.at}"
        with self._answer(place, {"Accept": _ACCEPT}, MANIFEST_BYTES, reference) as answer:
            body = self._body(answer, MANIFEST_BYTES, reference)
            said = str(answer.headers.get("Docker-Content-Digest", ""))
        digest = said if _is_digest(said) else f"sha256:{hashlib.sha256(body).hexdigest()}"
        digest = digest if reference.tagged else reference.at
        checksum = digest_checksum(digest)
        checksum.demand(hashlib.new(checksum.algorithm, body).hexdigest(), reference.shown)
        try:
            document = bounded_http.json_value(body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise _unusable(reference, "its manifest is not JSON")
        lists = (document.get(name) for name in ("manifests", "layers"))
        if any(isinstance(one, list) and len(one) > _MOST_ENTRIES for one in lists):
            raise _unusable(reference, f"its manifest has more than {_MOST_ENTRIES} entries")
        return document, digest

    def authorize(self) -> str | None:
        """Return the header Authorization for the layers, None if the registry asks for no login.

        A token is new, so it lasts as long as the registry allows.
        """
        _TOKENS.drop(self._key)
        self._header = None
        self.manifest(self._reference)
        return self._header

    def blob_url(self, digest: str) -> str:
        """Return the URL of a layer, after `authorize`."""
        return self._reference.url(self._scheme, f"blobs/{digest}")

    # -- requests --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _answer(
        self, place: str, headers: Mapping[str, str], size: int, reference: Reference
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield the answer 200 to a request for a part of the repository; log in if asked to."""
        self._header = self._header or _TOKENS.get(self._key)
        logged_in = False
        while True:
            login = {"Authorization": self._header} if self._header else {}
            with contextlib.ExitStack() as opened:
                answer = self._get(opened, place, {**headers, **login}, size, reference)
                status = int(answer.status)
                if status == HTTPStatus.OK:
                    yield answer
                    return
                challenge = ", ".join(answer.headers.get_all("WWW-Authenticate") or ())
                code, after = self._code(answer), answer.headers.get("Retry-After", "")
            if status == HTTPStatus.UNAUTHORIZED and not logged_in:
                logged_in = True
                self._log_in(read_challenges(challenge), reference)
            elif status == HTTPStatus.TOO_MANY_REQUESTS and self._may_wait(after):
                continue
            else:
                raise self._refused(status, code, reference)

    def _get(
        self,
        opened: contextlib.ExitStack,
        place: str,
        headers: Mapping[str, str],
        size: int,
        reference: Reference,
    ) -> http.client.HTTPResponse:
        """Return an answer, by http if the registry speaks no TLS and an option permits it."""
        try:
            return self._open(opened, place, headers, size)
        except download.FetchFailed as why:
            without_tls = self._scheme == "https" and _speaks_no_tls(why)
            reason = _NO_TLS_HINT if without_tls else str(why)
            if not (without_tls and config.CONF.oci.permit_fallback_to_http_transport):
                raise self._failed(reason, reference) from None
        self._scheme = "http"
        return self._get(opened, place, headers, size, reference)

    def _open(
        self, opened: contextlib.ExitStack, place: str, headers: Mapping[str, str], size: int
    ) -> http.client.HTTPResponse:
        url = self._reference.url(self._scheme, place)
        return opened.enter_context(download.get(url, self._terms(size), headers))

    def _terms(self, size: int) -> download.Terms:
        """Return the limits of the next request.

        :raises download.FetchFailed: the time of all requests is over.
        """
        left = SECONDS if self._until is None else self._until - time.monotonic()
        if left <= 0:
            raise download.FetchFailed("its requests take too long together")
        return access_terms(size, min(left, SECONDS))

    def _body(self, answer: http.client.HTTPResponse, most: int, reference: Reference) -> bytes:
        try:
            return bounded_http.content(answer, most)
        except (OSError, http.client.HTTPException) as why:
            reason = (
                str(why)
                if isinstance(why, bounded_http.AnswerTooLarge)
                else "the connection ended early"
            )
            raise self._failed(f"its answer cannot be read: {reason}", reference) from None

    def _code(self, answer: http.client.HTTPResponse) -> str:
        """Return the first error code of a registry, "" without one; its words are not quoted."""
        try:
            document = bounded_http.json_value(bounded_http.content(answer, _ANSWER_BYTES))
        except (OSError, http.client.HTTPException, ValueError):
            return ""
        first = next(_items(_object(document).get("errors")), {})
        code = first.get("code")
        return code if isinstance(code, str) and _CODE.fullmatch(code) else ""

    def _may_wait(self, after: str) -> bool:
        """Wait as a registry asks; return False if it was waited for too often."""
        if self._pause is None or self._waits >= _MOST_WAITS:
            return False
        self._waits += 1
        seconds = float(after) if re.fullmatch(r"[0-9]{1,6}", after) else 2.0**self._waits
        self._pause(min(seconds, _LONGEST_WAIT))
        return True

    # -- logins ----------------------------------------------------------------------------------

    def _log_in(self, asked: Mapping[str, Mapping[str, str]], reference: Reference) -> None:
        if "bearer" in asked:
            self._header = self._new_token(asked["bearer"], reference)
        elif "basic" in asked and self._login is not None:
            self.basic = True
            self._header = self._login.header
        elif "basic" in asked:
            raise self._refused(HTTPStatus.UNAUTHORIZED, "", reference)
        else:
            raise self._failed("it asks for a login of an unknown kind (401)", reference)

    def _new_token(self, asked: Mapping[str, str], reference: Reference) -> str:
        """Return a new token to pull from this repository alone."""
        realm = asked.get("realm", "")
        try:
            scheme = urllib.parse.urlsplit(realm).scheme.lower() if realm.isprintable() else ""
        except ValueError:
            scheme = ""
        if scheme != "https" and not (scheme == "http" and self._scheme == "http"):
            raise self._failed("it names no https address for tokens (realm)", reference)
        wanted = {"scope": f"repository:{reference.repository}:pull"}
        if asked.get("service"):
            wanted["service"] = asked["service"]
        url = f"{realm}{'&' if '?' in realm else '?'}{urllib.parse.urlencode(wanted)}"
        headers = {"Authorization": self._login.header} if self._login else {}
        place = "its server of tokens"
        try:
            with download.get(url, self._terms(_ANSWER_BYTES), headers) as answer:
                status = int(answer.status)
                after = answer.headers.get("Retry-After", "")
                body = self._body(answer, _ANSWER_BYTES, reference)
        except download.FetchFailed as why:
            raise self._failed(f"{place}: {why}", reference) from None
        if status == HTTPStatus.TOO_MANY_REQUESTS and self._may_wait(after):
            return self._new_token(asked, reference)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise self._refused(status, "", reference)
        try:
            document = _object(bounded_http.json_value(body))
        except ValueError:
            document = {}
        token = document.get("token") or document.get("access_token")
        if status != HTTPStatus.OK or not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise self._failed(f"{place} answers {status} without a token", reference)
        seconds = document.get("expires_in")
        known = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        lasts = float(seconds or 0) if known else _TOKEN_SECONDS
        header = f"Bearer {token}"
        _TOKENS.keep(self._key, header, min(max(0.0, lasts), _LONGEST_TOKEN_SECONDS))
        return header

    # -- errors ----------------------------------------------------------------------------------

    def _refused(self, status: int, code: str, reference: Reference) -> errors.DownloadFailed:
        said = " ".join(filter(None, (f"the registry answers {status}", code)))
        if status == HTTPStatus.UNAUTHORIZED and self._login is not None:
            said = f"the registry refuses the login of {self._login.place} (401)"
        elif status == HTTPStatus.UNAUTHORIZED:
            said = f"the registry asks for a login (401): set instance_info/{SECRET}"
        elif status == HTTPStatus.NOT_FOUND and reference.tagged:
            tags = self._first_tags()
            said += f"; its first tags are {', '.join(tags)}" if tags else ""
        return self._failed(said, reference, status)

    def _first_tags(self) -> list[str]:
        login = {"Authorization": self._header} if self._header else {}
        try:
            place = f"tags/list?n={_TAGS_NAMED}"
            with contextlib.ExitStack() as opened:
                answer = self._open(opened, place, login, _ANSWER_BYTES)
                document = bounded_http.json_value(bounded_http.content(answer, _ANSWER_BYTES))
        except (download.FetchFailed, OSError, http.client.HTTPException, ValueError):
            return []
        tags = _object(document).get("tags")
        given = tags if isinstance(tags, list) else []
        return [tag for tag in given if isinstance(tag, str) and _TAG.fullmatch(tag)][:_TAGS_NAMED]

    def _failed(
        self, reason: str, reference: Reference, status: int | None = None
    ) -> errors.DownloadFailed:
        more: Json = {} if status is None else {"http_status": status}
        return errors.DownloadFailed(url=reference.shown, reason=reason, **more)


def layer_access(authorization: str | None, layer: Layer) -> cache.FileAccess:
    """Return the way to fetch a layer."""
    oci = config.CONF.oci
    packed = digest_checksum(layer.digest) if layer.packed else None
    trusted = oci.secure_cdn_registries
    return cache.FileAccess(authorization, oci.verify_ca, trusted, layer.packed, packed)


def access_terms(size: int, seconds: float) -> download.Terms:
    """Return the limits of a request to a registry."""
    oci = config.CONF.oci
    return cache.terms(size, seconds, verify_ca=oci.verify_ca, trusted=oci.secure_cdn_registries)


def _speaks_no_tls(why: download.FetchFailed) -> bool:
    """Return whether a connection failed because its peer answered without TLS."""
    cause = why.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError) or not isinstance(cause, ssl.SSLError):
        return False
    return isinstance(cause, ssl.SSLEOFError) or cause.reason in _NO_TLS
