"""A site in which each fault of machines happens: every node comes to its expected end."""

from __future__ import annotations

import subprocess

from tests.support import service

LIMIT = 900.0
"""Seconds; an idle machine needs 120, because silent agents are waited for."""


def test_each_faulty_machine_comes_to_its_end() -> None:
    done = subprocess.run(
        ("make", "site", "NODES=20", "SCENARIO=faults"),
        cwd=service.ROOT,
        env=service.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "20 of 20 ends as expected" in done.stdout
