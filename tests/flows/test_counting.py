"""A conductor tells what it has counted with each sign of life, and sends nothing more for it."""

from __future__ import annotations

import pytest

from ironic_lite import counters
from ironic_lite.db import conductors
from tests.flows.rig import Rig
from tests.statements import count_statements


def test_the_sign_of_life_carries_the_counts(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    made = counters.Counters()
    made.note("ipmi", "power", counters.OK, 0.1)
    monkeypatch.setattr(counters, "BMCS", made)
    with count_statements(rig.database) as sent:
        rig.service._keepalive.beat()
    assert len(sent) == 1, str(sent)
    told = rig.database.read(lambda conn: conductors.counters(conn, "here"))
    assert made.snapshot().items() <= told["counters"].items()  # beside what this process counts
