"""A registry of images (OCI distribution specification 1.1), with logins as registries have them.

``login`` is "token" (a Bearer token of ``/token``, for which the login is asked), "basic", or None.
It keeps what it was asked: ``asked`` has method-less paths, ``headers`` the Authorization of each.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import pathlib
import secrets
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
CONTAINER = "application/vnd.oci.image.config.v1+json"
USER, PASSWORD = "robot", "pull-secret-7f3a9c"
_TLS_HELLO = b"\x16"


def digest(content: bytes, kind: str = "sha256") -> str:
    """Return the digest of a content."""
    return f"{kind}:{hashlib.new(kind, content).hexdigest()}"


class Registry:
    """The content and habits of a registry; tests change them while it serves."""

    def __init__(self, login: str | None) -> None:
        self.login = login
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.asked: list[str] = []
        self.headers: list[str | None] = []
        self.tokens: dict[str, str] = {}
        self.expires: int | None = 300
        self.pair = f"{USER}:{PASSWORD}"
        self.limited = 0
        """Requests that are answered 429 before the next is served."""
        self.limited_tokens = 0
        """Requests for tokens that are answered 429."""
        self.denied = False
        self.revoke_in: int | None = None
        """Requests for layers after which tokens of then are not accepted any more."""
        self.cdn: str | None = None
        """The URL to which layers are redirected, with their digest at its end."""
        self.realm: str | None = None
        self.challenge: str | None = None
        self.address = ""
        self.url = ""

    @property
    def secret(self) -> str:
        """The login as image_pull_secret."""
        return self.pair

    def source(self, repository: str = "team/image", tag: str = "1") -> str:
        """Return the reference to an image."""
        return f"oci://{self.address}/{repository}:{tag}"

    def put_blob(self, content: bytes, media: str, **more: Any) -> dict[str, Any]:
        """Keep a layer, and return its descriptor."""
        known = digest(content)
        self.blobs[known] = content
        return {"mediaType": media, "digest": known, "size": len(content), **more}

    def put_manifest(
        self, repository: str, tag: str | None, document: Mapping[str, Any], kind: str = "sha256"
    ) -> dict[str, Any]:
        """Keep a manifest or an index, and return its descriptor."""
        content = json.dumps(document).encode()
        media = str(document["mediaType"])
        known = digest(content, kind)
        self.manifests[repository, known] = media, content
        if tag is not None:
            self.manifests[repository, tag] = media, content
        return {"mediaType": media, "digest": known, "size": len(content)}

    def put_disk(
        self,
        content: bytes,
        *,
        repository: str = "team/image",
        tag: str | None = "1",
        media: str = "application/octet-stream",
        annotations: Mapping[str, str] | None = None,
        title: str = "disk.img",
    ) -> dict[str, Any]:
        """Keep a disk image as an artifact; return the descriptor of its manifest."""
        layer = self.put_blob(content, media, annotations={"org.opencontainers.image.title": title})
        return self.put_manifest(
            repository,
            tag,
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": self.put_blob(b"{}", EMPTY),
                "layers": [layer],
                "annotations": dict(annotations or {}),
            },
        )

    def put_index(
        self,
        disks: Mapping[tuple[str, str], bytes],
        *,
        repository: str = "team/image",
        tag: str = "1",
        media: str = "application/octet-stream",
    ) -> dict[str, Any]:
        """Keep an index of disk images by architecture and disktype."""
        entries = []
        for (arch, disktype), content in disks.items():
            found = self.put_disk(content, repository=repository, tag=None, media=media)
            entry: dict[str, Any] = {**found, "platform": {"architecture": arch, "os": "linux"}}
            if disktype:
                entry["annotations"] = {"disktype": disktype}
            entries.append(entry)
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        return self.put_manifest(repository, tag, index)


class _Handler(http.server.BaseHTTPRequestHandler):
    registry: Registry

    def handle_one_request(self) -> None:
        first = b""
        with contextlib.suppress(OSError):
            first = self.connection.recv(1, socket.MSG_PEEK) if self._plain else b""
        if first == _TLS_HELLO:
            self.wfile.write(b"HTTP/1.0 400 Bad Request\r\n\r\nthis is not TLS\n")
            self.close_connection = True
            return
        super().handle_one_request()

    @property
    def _plain(self) -> bool:
        return not isinstance(self.connection, ssl.SSLSocket)

    def do_GET(self) -> None:
        about, where = self.registry, urllib.parse.urlsplit(self.path)
        header = self.headers.get("Authorization")
        about.asked.append(self.path)
        about.headers.append(header)
        if about.limited:
            about.limited -= 1
            self._answer(429, {"Retry-After": "1"}, self._error("TOOMANYREQUESTS"))
        elif where.path == "/token" and about.limited_tokens:
            about.limited_tokens -= 1
            self._answer(429, {"Retry-After": "1"}, self._error("TOOMANYREQUESTS"))
        elif where.path == "/token":
            self._token(dict(urllib.parse.parse_qsl(where.query)), header)
        else:
            self._repository(where, header)

    def _token(self, query: Mapping[str, str], header: str | None) -> None:
        about = self.registry
        if header != f"Basic {base64.b64encode(about.pair.encode()).decode()}":
            self._answer(401, {}, self._error("UNAUTHORIZED"))
            return
        made = f"tok-{secrets.token_hex(24)}"
        about.tokens[made] = query.get("scope", "")
        document: dict[str, Any] = {"token": made}
        if about.expires is not None:
            document["expires_in"] = about.expires
        self._answer(200, {}, json.dumps(document).encode())

    def _repository(self, where: urllib.parse.SplitResult, header: str | None) -> None:
        about = self.registry
        _, _, rest = where.path.partition("/v2/")
        name, kind, at = rest, "", ""
        for one in ("manifests", "blobs", "tags"):
            if f"/{one}/" in rest:
                name, _, at = rest.partition(f"/{one}/")
                kind = one
        if not self._permitted(name, kind, header):
            asks = {
                "token": f'Bearer realm="{about.realm or about.url + "/token"}",service="tests",'
                f'scope="repository:{name}:pull"',
                "basic": 'Basic realm="tests"',
            }[about.login or "basic"]
            said = about.challenge or asks
            self._answer(401, {"WWW-Authenticate": said}, self._error("UNAUTHORIZED"))
        elif about.denied:
            self._answer(403, {}, self._error("DENIED"))
        elif kind == "tags":
            most = int(dict(urllib.parse.parse_qsl(where.query)).get("n", "1000"))
            tags = sorted(tag for repo, tag in about.manifests if repo == name and ":" not in tag)
            self._answer(200, {}, json.dumps({"name": name, "tags": tags[:most]}).encode())
        elif kind == "manifests":
            self._manifest(name, at)
        elif kind == "blobs" and at in about.blobs:
            self._blob(at)
        else:
            self._answer(404, {}, self._error("BLOB_UNKNOWN"))

    def _permitted(self, name: str, kind: str, header: str | None) -> bool:
        about = self.registry
        if about.login is None:
            return True
        if about.login == "basic":
            return header == f"Basic {base64.b64encode(about.pair.encode()).decode()}"
        token = (header or "").removeprefix("Bearer ")
        if kind == "blobs" and about.revoke_in is not None:
            about.revoke_in -= 1
            if about.revoke_in < 0:
                about.tokens.clear()
                about.revoke_in = None
        return about.tokens.get(token) == f"repository:{name}:pull"

    def _manifest(self, name: str, at: str) -> None:
        found = self.registry.manifests.get((name, at))
        if found is None or found[0] not in self.headers.get("Accept", ""):
            self._answer(404, {}, self._error("MANIFEST_UNKNOWN"))
            return
        media, content = found
        more = {"Content-Type": media, "Docker-Content-Digest": digest(content)}
        if at.startswith("sha512:"):
            more["Docker-Content-Digest"] = at
        self._answer(200, more, content)

    def _blob(self, at: str) -> None:
        if self.registry.cdn is not None:
            self._answer(307, {"Location": f"{self.registry.cdn}{at}"}, b"")
            return
        self._answer(200, {"ETag": f'"{at}"'}, self.registry.blobs[at])

    def _error(self, code: str) -> bytes:
        return json.dumps({"errors": [{"code": code, "message": "words of tests"}]}).encode()

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve(
    login: str | None = "token", certificate: tuple[pathlib.Path, pathlib.Path] | None = None
) -> Iterator[Registry]:
    """Serve a registry for the length of the block.

    :param certificate: files of a certificate and its key: then it is https.
    """
    found = Registry(login)

    class Handler(_Handler):
        registry = found
        timeout = 20

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificate is not None:
        scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    found.address = f"127.0.0.1:{server.server_address[1]}"
    found.url = f"{scheme}://{found.address}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
