"""haproxy with the shipped configuration, before APIs of a test."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.service import HOST, ROOT

CONFIGURATION = ROOT / "etc" / "ironic-lite" / "examples" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin")
NEEDED = pytest.mark.skipif(
    HAPROXY is None, reason="NOT TESTED: haproxy is not installed; apt-get install haproxy"
)
_TLS = " ssl verify required ca-file /etc/haproxy/api-ca.pem"


def configured(
    port: int,
    apis: Sequence[str],
    certificate: pathlib.Path,
    authority: pathlib.Path | None = None,
    changes: Mapping[str, str] | None = None,
) -> str:
    """Return the shipped file with addresses of a test.

    :param apis: host and port of each API.
    :param certificate: of the balancer, with its key.
    :param authority: which signs the certificates of the APIs; None if they have none.
    :param changes: further texts of the file, and what replaces them.
    """
    text = CONFIGURATION.read_text(encoding="utf-8")
    tls = _TLS.replace("/etc/haproxy/api-ca.pem", str(authority)) if authority else ""
    for old, new, count in (
        (
            "bind :6385 ssl crt /etc/haproxy/metal.pem",
            f"bind {HOST}:{port} ssl crt {certificate}",
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
) -> Iterator[int]:
    """Run haproxy with `configured`; give its port."""
    port, settings, both = free_port(), folder / "haproxy.cfg", folder / "balancer.pem"
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
