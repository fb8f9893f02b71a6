"""The clean steps that the last agent of a node has listed."""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import agent_steps, nodes
from ironic_lite.db.tables import models
from ironic_lite.records import StepsByInterface
from tests.support.database_rows import NOON, add_node, lock_node, new_uuid

STEPS: StepsByInterface = {
    "deploy": [{"interface": "deploy", "step": "brûler", "priority": 1.5}],
    "raid": [],
}


def test_steps_are_kept_replaced_and_gone_with_their_node(database: Database) -> None:
    node, other = add_node(database), add_node(database)
    assert database.read(lambda conn: agent_steps.get(conn, node)) is None
    database.write(lambda conn: agent_steps.put(conn, node, STEPS, at=NOON))
    database.write(lambda conn: agent_steps.put(conn, other, {}, at=NOON))
    assert database.read(lambda conn: agent_steps.get(conn, node)) == STEPS
    later = NOON + datetime.timedelta(hours=1)
    database.write(lambda conn: agent_steps.put(conn, node, {"raid": []}, at=later))
    assert database.read(lambda conn: agent_steps.get(conn, node)) == {"raid": []}
    # Nothing listed is something else than not known.
    assert database.read(lambda conn: agent_steps.get(conn, other)) == {}
    table = models.agent_steps
    rows = database.read(lambda conn: conn.execute(sa.select(table.c.refreshed_at)).all())
    assert sorted(row[0] for row in rows) == [NOON, later]
    token = new_uuid()
    assert lock_node(database, node, token)
    database.write(lambda conn: nodes.delete(conn, node, token=token))
    assert database.read(lambda conn: agent_steps.get(conn, node)) is None
