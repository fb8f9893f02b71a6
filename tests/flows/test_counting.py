"""A conductor tells what it has counted with each sign of life, and sends nothing more for it."""

from __future__ import annotations

import pytest

from ironic_lite.core import bmc_metrics
from ironic_lite.db.queries import conductors
from tests.support.conductor_fixture import ConductorFixture
from tests.support.statements import count_statements


def test_the_sign_of_life_carries_the_counts(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bmc_metrics.Counters()
    made.note("ipmi", "power", bmc_metrics.OK, 0.1)
    monkeypatch.setattr(bmc_metrics, "BMCS", made)
    with count_statements(rig.database) as sent:
        rig.service.keepalive.beat()
    assert len(sent) == 1, str(sent)
    told = rig.database.read(lambda conn: conductors.counters(conn, "here"))
    counted = told["counters"] or {}
    assert made.snapshot().items() <= counted.items()  # beside what this process counts
