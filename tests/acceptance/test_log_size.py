"""The log of programs whose broker refuses them for hours stays small."""

from __future__ import annotations

import collections
import re
import subprocess
import time

from tests.support import rabbit, service

MOST_BYTES = 60_000
"""Bytes of a program's log without a virtual host: each statement once, some with a traceback."""
AWAY_SECONDS = 12.0
STATEMENT = re.compile(r" (?:ERROR|WARNING|INFO) (\S+) ")


def test_deleted_virtual_host_fills_no_log() -> None:
    with rabbit.own_url() as broker, service.service() as found:
        text = found.settings.read_text(encoding="utf-8")
        with_broker = text.replace("[DEFAULT]\n", f"[DEFAULT]\ntransport_url = {broker}\n")
        found.settings.write_text(with_broker, encoding="utf-8")
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        programs = [found.start("ironic-lite-api"), found.start("ironic-lite-conductor")]
        service.until(lambda: found.ask("GET", "/readyz").ok, "the service")
        before = [len(one.said()) for one in programs]
        host = broker.rpartition("/")[2]
        subprocess.run(["rabbitmqctl", "delete_vhost", host], check=True, capture_output=True)
        service.until(lambda: not found.ask("GET", "/readyz").ok, "its end")
        end = time.monotonic() + AWAY_SECONDS
        while time.monotonic() < end:
            assert found.ask("GET", "/readyz").status_code == 503
            time.sleep(1)
        for program, known in zip(programs, before, strict=True):
            added = program.said()[known:]
            print(len(added), collections.Counter(STATEMENT.findall(added)))
            assert len(added) <= MOST_BYTES, added[:3000]
