"""A renewed certificate is served without a restart, and what is served is what is reported."""

from __future__ import annotations

import os
import pathlib
import shutil
import threading
from collections.abc import Iterator

import pytest
import requests

from ironic_lite.core import certificate_files
from tests.support import certificates, service
from tests.support.service import Service

pytestmark = pytest.mark.feature("doctor")


@pytest.fixture
def served(tmp_path: pathlib.Path) -> Iterator[tuple[Service, pathlib.Path, pathlib.Path]]:
    certificate, key = certificates.write(tmp_path, 100)
    more = f"[api]\nworkers = 2\nssl_cert_file = {certificate}\nssl_key_file = {key}\n"
    with service.service(more, "https") as found:
        found.session.verify = False
        found.start("ironic-lite")
        found.up()
        yield found, certificate, key


class Client(threading.Thread):
    """A client that opens a connection for each of its requests, until it is stopped."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._over = threading.Event()
        self.answered = self.refused = 0
        self.faults: list[str] = []

    def run(self) -> None:
        while not self._over.wait(0.05):
            try:
                requests.get(self._url, verify=False, timeout=60).raise_for_status()
            except requests.ConnectionError:
                self.refused += 1  # in the handshake: nothing was sent
            except requests.RequestException as why:
                self.faults.append(str(why))
            else:
                self.answered += 1

    def stop(self) -> None:
        self._over.set()
        self.join(service.PATIENCE)


def put(source: pathlib.Path, target: pathlib.Path) -> None:
    """Replace a file as programs that renew certificates do: at once."""
    new = target.with_suffix(".new")
    shutil.copy(source, new)
    os.replace(new, target)


def serial(path: pathlib.Path) -> str:
    return certificate_files.serial_number(path.read_bytes())


def findings(found: Service) -> dict[str, str]:
    """Return what the API's check of certificates says, by status."""
    return {
        one["status"]: one["text"]
        for one in found.get("/v1/doctor")["checks"]
        if one["where"].startswith("API") and one["name"] == "certificate"
    }


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_renewed_certificate_of_the_api_is_served_while_requests_are_answered(
    served: tuple[Service, pathlib.Path, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    found, certificate, key = served
    (tmp_path / "new").mkdir()
    new = certificates.write(tmp_path / "new", 200)
    client = Client(f"{found.url}/v1/nodes")
    client.start()

    put(new[0], certificate)
    put(new[1], key)
    wanted = serial(new[0])

    def all_new() -> bool:
        return all(certificates.served_serial(found.port) == wanted for _ in range(12))

    service.until(all_new, "the new certificate of both workers")
    client.stop()
    assert client.faults == []
    assert client.refused <= 2  # a worker that stops drops the handshakes under way
    assert client.answered > 0
    # A worker that ends still answers on the connections it has.
    service.until(lambda: set(findings(found)) == {"ok"}, "the findings of new workers")
    text = found.ask("GET", "/metrics").text
    line = next(one for one in text.splitlines() if one.startswith("ironic_lite_certificate_not"))
    assert 'option="[api]ssl_cert_file"' in line
    assert float(line.rpartition(" ")[2]) > 0

    # A certificate without its key is not served; the doctor says so.
    (tmp_path / "other").mkdir()
    other = certificates.write(tmp_path / "other", 300)
    put(other[0], certificate)
    program = found.running()[0]
    service.until(lambda: "stays in use until the files change" in program.said(), "a warning")
    assert certificates.served_serial(found.port) == wanted
    word = f"serial number {serial(other[0])}"
    service.until(lambda: word in findings(found).get("failed", ""), "a finding")
