"""Debian's docker-registry as a process, with a server of tokens as its sites have them."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import http.server
import json
import pathlib
import secrets
import shutil
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import NameOID

from tests.emulators.registry import EMPTY, INDEX, MANIFEST, PASSWORD, USER
from tests.support.ports import free_port

PATIENCE = 60.0
_SERVICE, _ISSUER = "tests-registry", "tests-tokens"
_CONFIG = """
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: 127.0.0.1:{port}}}
auth:
  token:
    realm: {realm}/token
    service: {service}
    issuer: {issuer}
    rootcertbundle: {folder}/tokens.pem
"""


def program() -> str:
    """Return the path of the registry; without it the test is skipped and says so."""
    found = shutil.which("docker-registry")
    if found is None:
        pytest.skip("NOT TESTED: no docker-registry; scripts/programs.sh installs it")
    return found


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Signer:
    """Signs tokens (JWT, ES256) with a certificate that a registry trusts."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _ISSUER)])
        now = datetime.datetime.now(datetime.UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .sign(self._key, hashes.SHA256())
        )
        pem = self._certificate.public_bytes(serialization.Encoding.PEM)
        (folder / "tokens.pem").write_bytes(pem)

    def token(self, scope: str) -> str:
        """Return a token for ``repository:NAME:ACTIONS``."""
        der = self._certificate.public_bytes(serialization.Encoding.DER)
        head = {"typ": "JWT", "alg": "ES256", "x5c": [base64.b64encode(der).decode()]}
        kind, _, rest = scope.partition(":")
        name, _, actions = rest.rpartition(":")
        now = int(time.time())
        access = {"type": kind, "name": name, "actions": actions.split(",")}
        claims = {
            **{"iss": _ISSUER, "sub": USER, "aud": _SERVICE, "jti": secrets.token_hex(8)},
            **{"iat": now - 10, "nbf": now - 10, "exp": now + 300, "access": [access]},
        }
        text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        first, second = utils.decode_dss_signature(
            self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256()))
        )
        return f"{text}.{_encoded(first.to_bytes(32, 'big') + second.to_bytes(32, 'big'))}"


class DockerRegistry:
    """The running registry; ``tokens`` are all that were made."""

    def __init__(self, url: str, signer: Signer, tokens: list[str]) -> None:
        self.url = url
        self.address = url.removeprefix("http://")
        self.secret = f"{USER}:{PASSWORD}"
        self.tokens = tokens
        self.signer = signer
        self._session = requests.Session()
        self._session.trust_env = False

    def close(self) -> None:
        """Close the connections of pushes."""
        self._session.close()

    def _push(self, method: str, url: str, name: str, **more: Any) -> requests.Response:
        token = self.signer.token(f"repository:{name}:pull,push")
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        answer = self._session.request(method, url, headers=headers, timeout=PATIENCE, **more)
        assert answer.ok, answer.text
        return answer

    def put_blob(self, name: str, content: bytes, media: str) -> dict[str, Any]:
        """Push a layer, and return its descriptor."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        place = self._push("POST", f"{self.url}/v2/{name}/blobs/uploads/", name)
        url = urllib.parse.urljoin(self.url, place.headers["Location"])
        url += f"{'&' if '?' in url else '?'}digest={urllib.parse.quote(digest)}"
        self._push("PUT", url, name, data=content)
        return {"mediaType": media, "digest": digest, "size": len(content)}

    def put_manifest(self, name: str, at: str | None, document: dict[str, Any]) -> dict[str, Any]:
        """Push a manifest or an index, and return its descriptor."""
        content = json.dumps(document).encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        url = f"{self.url}/v2/{name}/manifests/{at or digest}"
        media = str(document["mediaType"])
        self._push("PUT", url, name, data=content, headers={"Content-Type": media})
        return {"mediaType": media, "digest": digest, "size": len(content)}

    def put_disks(self, name: str, tag: str, disks: dict[str, bytes]) -> None:
        """Push an index of raw disks by architecture."""
        entries = []
        for arch, content in disks.items():
            document = {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": self.put_blob(name, b"{}", EMPTY),
                "layers": [self.put_blob(name, content, "application/octet-stream")],
            }
            about = {"platform": {"architecture": arch, "os": "linux"}}
            more = {"annotations": {"disktype": "raw"}}
            entries.append({**self.put_manifest(name, None, document), **about, **more})
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        self.put_manifest(name, tag, index)


@contextlib.contextmanager
def serve(folder: pathlib.Path) -> Iterator[DockerRegistry]:
    """Serve a registry whose token server asks for `DockerRegistry.secret`."""
    path, signer = program(), Signer(folder)
    tokens: list[str] = []
    wanted = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
            right = self.headers.get("Authorization") == wanted
            document: dict[str, Any] = {"errors": [{"code": "UNAUTHORIZED"}]}
            if right:
                tokens.append(signer.token(query["scope"]))
                document = {"token": tokens[-1], "expires_in": 300}
            body = json.dumps(document).encode()
            self.send_response(200 if right else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    port = free_port()
    settings = folder / "registry.yml"
    realm = f"http://127.0.0.1:{server.server_address[1]}"
    about = {"service": _SERVICE, "issuer": _ISSUER, "realm": realm, "port": port}
    settings.write_text(_CONFIG.format(folder=folder, **about), encoding="utf-8")
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([path, "serve", str(settings)], stdout=log, stderr=log)
        found = DockerRegistry(f"http://127.0.0.1:{port}", signer, tokens)
        try:
            _wait_until_up(found.url)
            yield found
        finally:
            found.close()
            process.terminate()
            process.wait(PATIENCE)
            server.shutdown()
            server.server_close()
            thread.join()


def _wait_until_up(url: str) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(requests.ConnectionError):
            if requests.get(f"{url}/v2/", timeout=PATIENCE).status_code == 401:
                return
        time.sleep(0.05)
    raise AssertionError("docker-registry does not answer")
