"""Durations come from ``ironic_lite.core.clock``, which does not jump when a clock is set."""

from __future__ import annotations

import pathlib
import re

import ironic_lite

HERE = pathlib.Path(ironic_lite.__file__).parent
OWN = {"clock.py"}
WALL = re.compile(r"time\.time\(|utcnow\(|datetime\.now\(|clock\.after\(-|func\.now\(")
"""A clock on the wall, or the time before now by it: use ``clock.ago``, ``lived`` or ``over``."""


def test_durations_are_not_measured_by_the_wall_clock() -> None:
    found = [
        f"{path.relative_to(HERE)}:{number}: {line.strip()}"
        for path in sorted(HERE.rglob("*.py"))
        if path.name not in OWN
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if WALL.search(line)
    ]
    assert found == []
