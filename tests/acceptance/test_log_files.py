"""Log files are rotated as the example for logrotate does, while all processes write."""

from __future__ import annotations

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator

import pytest
import requests

from tests.support import service
from tests.support.service import Service

EXAMPLE = service.ROOT / "etc/ironic-lite/examples/logrotate.conf"
ROTATIONS = 6


@pytest.fixture
def logging() -> Iterator[tuple[Service, pathlib.Path]]:
    """The whole service with two workers of the API, which log to a file."""
    with service.service("[api]\nworkers = 2\n") as found:
        folder = found.folder / "log"
        folder.mkdir()
        log = folder / "ironic-lite.log"
        found.start("ironic-lite", "--log-file", str(log))
        service.until(lambda: found.ask("GET", "/readyz").ok, "the service")
        yield found, log


class Clients:
    """Clients that send requests, each with a path of its own, until they are stopped."""

    def __init__(self, url: str, count: int = 4) -> None:
        self.paths: set[str] = set()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(url, number)) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, url: str, client: int) -> None:
        number = 0
        while not self._over.is_set():
            path, number = f"/v1/none-{client}-{number}", number + 1
            requests.post(f"{url}{path}", timeout=service.PATIENCE)
            self.paths.add(path)

    def stop(self) -> set[str]:
        self._over.set()
        for thread in self._threads:
            thread.join()
        return self.paths


def texts(log: pathlib.Path) -> Iterator[str]:
    for path in log.parent.iterdir():
        raw = path.read_bytes()
        yield (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def test_rotation_by_the_example_loses_no_line(logging: tuple[Service, pathlib.Path]) -> None:
    found, log = logging
    text = EXAMPLE.read_text(encoding="utf-8").replace("/var/log/ironic-lite", str(log.parent))
    text = re.sub(" ironic-lite ironic-lite$", "", text, flags=re.MULTILINE)
    settings = found.folder / "logrotate.conf"
    settings.write_text(re.sub("^ +su$", "", text, flags=re.MULTILINE), encoding="utf-8")
    settings.chmod(0o600)
    program = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")

    def rotate(number: int) -> None:
        if program is None:  # what it does by these settings
            log.rename(log.with_suffix(f".log.{number}"))
            os.close(os.open(log, os.O_CREAT | os.O_WRONLY, 0o640))
            return
        state = found.folder / "logrotate.state"
        command = [program, "--force", "--state", str(state), str(settings)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    clients = Clients(found.url)
    try:
        for number in range(ROTATIONS):
            before = len(clients.paths)
            service.until(lambda: len(clients.paths) > before + 50, "requests")  # noqa: B023
            rotate(number)
    finally:
        paths = clients.stop()
    assert len([*log.parent.iterdir()]) > ROTATIONS
    logged = set(re.findall(r"'POST (/v1/none-\S+)'", "".join(texts(log))))
    assert paths - logged == set()
    assert log.stat().st_mode & 0o777 == 0o640
