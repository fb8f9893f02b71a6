"""haproxy with the shipped configuration, before APIs of a test."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import requests

from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.service import API_UP, HOST, ROOT, Program, Service, until

CONFIGURATION = ROOT / "etc" / "ironic-lite" / "examples" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin")
NEEDED = pytest.mark.skipif(
    HAPROXY is None, reason="NOT TESTED: haproxy is not installed; apt-get install haproxy"
)
_TLS = " ssl verify required ca-file /etc/haproxy/api-ca.pem"


def configured(
    port: int,
    apis: Sequence[str],
    certificate: pathlib.Path | None,
    authority: pathlib.Path | None = None,
    changes: Mapping[str, str] | None = None,
) -> str:
    """Return the shipped file with addresses of a test.

    :param apis: host and port of each API.
    :param certificate: of the balancer, with its key; None: clients use no TLS.
    :param authority: which signs the certificates of the APIs; None if they have none.
    :param changes: further texts of the file, and what replaces them.
    """
    text = CONFIGURATION.read_text(encoding="utf-8")
    tls = _TLS.replace("/etc/haproxy/api-ca.pem", str(authority)) if authority else ""
    outside = f" ssl crt {certificate} ssl-min-ver TLSv1.2" if certificate else ""
    for old, new, count in (
        (
            "bind :6385 ssl crt /etc/haproxy/metal.pem ssl-min-ver TLSv1.2",
            f"bind {HOST}:{port}{outside}",
            1,
        ),
        (_TLS, tls, 1),
        ("one.example.org:6385", apis[0], 2),
        ("two.example.org:6385", apis[1], 2),
        *((old, new, 1) for old, new in (changes or {}).items()),
    ):
        assert text.count(old) == count, old
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def run(
    folder: pathlib.Path,
    apis: Sequence[str],
    authority: pathlib.Path | None = None,
    changes: Mapping[str, str] | None = None,
    *,
    tls: bool = True,
) -> Iterator[int]:
    """Run haproxy with `configured`; give its port.

    :param tls: clients use TLS.
    """
    port, settings = free_port(), folder / "haproxy.cfg"
    both = folder / "balancer.pem" if tls else None
    if both is not None:
        certificate, key = Authority(folder, "clients").issue("balancer", HOST)
        both.write_bytes(certificate.read_bytes() + key.read_bytes())
    settings.write_text(configured(port, apis, both, authority, changes), encoding="utf-8")
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(
            [str(HAPROXY), "-db", "-f", str(settings)], stdout=log, stderr=log
        )
    try:
        yield port
    finally:
        process.kill()
        process.wait(60)
        print((folder / "haproxy.log").read_text(errors="replace")[-3000:])


def own(answer: requests.Response) -> bool:
    """Return whether an answer is of haproxy itself, not of an API."""
    return "X-OpenStack-Request-Id" not in answer.headers


@contextlib.contextmanager
def before(found: Service) -> Iterator[list[Program]]:
    """Start two APIs of a service, which its requests reach by haproxy; give the APIs.

    No answer may be of haproxy itself. Without haproxy there is one API, and no balancer.
    """
    if HAPROXY is None:
        yield [found.start("ironic-lite-api")]
        return
    other, ports = found.folder / "other-api.conf", (found.port, free_port())
    other.write_text(f"[api]\nport = {ports[1]}\n", encoding="utf-8")
    apis = [
        found.start("ironic-lite-api"),
        found.start("ironic-lite-api", "--config-file", str(other)),
    ]
    for api in apis:
        until(lambda api=api: api.pids(API_UP), api.log.name)  # type: ignore[misc]
    foreign: list[str] = []

    def note(answer: requests.Response, **_: Any) -> None:
        if own(answer):
            foreign.append(f"{answer.request.method} {answer.url}: {answer.status_code}")

    with run(found.folder, [f"{HOST}:{port}" for port in ports], tls=False) as port:
        found.url = f"http://{HOST}:{port}"
        until(lambda: found.ask("GET", "/livez").ok, "haproxy")
        found.session.hooks["response"].append(note)
        yield apis
        assert foreign == []
