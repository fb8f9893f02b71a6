"""Errors of a batch's nodes, as callers with different rights see them."""

from __future__ import annotations

import functools

from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import models
from tests.support.api_rows import AddNode
from tests.support.callers import Callers

ERROR = {"code": "TimedOut", "text": "the disk of ann"}


def fail(conn: Connection, project: str) -> None:
    """Let all nodes of all batches fail; the newest batch is of this project."""
    # The clients of this folder have roles and projects, but send requests as nobody.
    mine = models.batches.update().where(models.batches.c.project.is_(None))
    conn.execute(mine.values(project=project))
    values = {"state": "failed", "error": ERROR, "open_uuid": None}
    conn.execute(models.batch_nodes.update().values(values))


def test_lessee_sees_the_code_of_an_error_and_its_owner_the_text(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    add_node(name="n1", owner="p-owner", lessee="p-lessee", provision_state="active")
    told = {}
    for project in ("p-owner", "p-lessee"):
        api = callers("admin", project)
        answer = api.post("/v1/batches", {"nodes": ["n1"], "request": {"target": "rebuild"}})
        assert answer.status == 201, answer.text
        database.write(functools.partial(fail, project=project))
        listed = api.get(f"/v1/batches/{answer.json['uuid']}/nodes")
        assert listed.status == 200, listed.text
        (shown,) = listed.json["nodes"]
        told[project] = shown["error"]
    assert told["p-owner"] == ERROR
    assert told["p-lessee"] == {"code": "TimedOut", "text": "See the runs of the node."}
