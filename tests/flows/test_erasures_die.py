"""A conductor dies around an erasing step: the record and the end of the step are one commit."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.db.tables import models
from tests.flows.test_death import MANUAL
from tests.support.conductor_fixture import ConductorFixture, listed
from tests.support.crashes import Scene, Stage, rests

pytestmark = pytest.mark.feature("erasures")

ERASING = ["deploy.erase_devices", "bios.factory_reset"]
DISK = {"name": "/dev/sda", "serial": "S1", "result": "erased", "level": "clear"}
BAD = {"name": "/dev/sdb", "serial": "S2", "result": "failed", "why": "exit 5"}
CALL = (*MANUAL[:2], {"clean_steps": listed(*ERASING)})
CASES = {
    "good": Scene(*CALL, "manageable", ERASING, {"fake_erasures": [DISK]}),
    "waits": Scene(
        *CALL, "manageable", ERASING, {"fake_erasures": [DISK], "fake_async_steps": ["*"]}
    ),
    "bad": Scene(*CALL, "clean failed", ERASING, {"fake_erasures": [DISK, BAD]}),
}


def check(rig: ConductorFixture, node: str) -> list[str]:
    """Check records against steps; return the results of the records."""

    def read(conn: sa.Connection) -> list[Any]:
        chosen = models.erasures.c.node_uuid == node
        return list(conn.execute(sa.select(models.erasures).where(chosen)))

    found = rig.database.read(read)
    ended = [
        step["state"]
        for run in rig.runs(node)
        for step in run["steps"]
        if step["step"] == "erase_devices" and step["state"] in ("done", "failed")
    ]
    assert len(found) == len(ended)
    results = [row.result for row in found]
    proven = "complete" in results
    assert (rig.get(node)["data_state"] == "clean") is proven
    return results


@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_records_and_ends_of_steps_are_one_commit(stage: Stage, name: str, what: str) -> None:
    case, seen = CASES[name], set()
    for moment in stage.moments(what):
        node = moment.die(case.begin, case.ask)
        check(moment.rig, node)
        rig = moment.heir()
        assert rests(rig, node)["provision_state"] in (case.before, case.end)
        seen |= set(check(rig, node))
    assert seen == {"partial" if name == "bad" else "complete"}
