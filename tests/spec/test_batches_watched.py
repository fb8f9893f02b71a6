"""Batches as others see them: waits, events, metrics, and the explanation of a node."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.db.tables import models
from tests.support.operator import Json, Operator

pytestmark = pytest.mark.feature("batches")

CLEAN = {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
BROKEN = {"fake_fail_steps": {"deploy.erase_devices": "disk 3"}}


def begin(operator: Operator, nodes: list[str], request: Json, **more: Any) -> str:
    """Begin a batch and return its path."""
    answer = operator.api.post("/v1/batches", {"nodes": nodes, "request": request, **more})
    assert answer.status == 201, answer.text
    return f"/v1/batches/{answer.json['uuid']}"


def sweep(operator: Operator, times: int) -> None:
    """Let the conductor look at the batches, and wait for the work that it has begun."""
    for _ in range(times):
        operator.rig.sweep("batches")
        assert operator.rig.service.runtime.workers.wait_idle(60)


def paused(operator: Operator) -> tuple[str, list[str]]:
    """Return a batch that its canary has paused, and its nodes."""
    nodes = [operator.enroll("manageable") for _ in range(2)]
    operator.patches(nodes[0], driver_info=BROKEN)
    path = begin(operator, nodes, CLEAN, name="erase", waves=[1, "100%"])
    sweep(operator, 2)
    return path, nodes


@pytest.mark.parametrize(
    ("until", "status"), [("paused", 200), ("running,paused", 200), ("done", 424), ("ended", 424)]
)
def test_wait_for_a_batch_that_is_paused(operator: Operator, until: str, status: int) -> None:
    path, _nodes = paused(operator)
    answer = operator.api.get(f"{path}?wait=5&until={until}")
    assert answer.status == status, answer.text
    if status == 424:
        assert "is paused by failures" in answer.text


def test_wait_for_a_batch_that_runs_and_ends(operator: Operator) -> None:
    path = begin(operator, [operator.enroll("enroll")], {"target": "manage"})
    late = operator.api.get(f"{path}?wait=1&until=done")
    assert (late.status, late.headers["retry-after"]) == (504, "1")
    sweep(operator, 2)
    for until in ("done", "ended"):
        assert operator.api.get(f"{path}?wait=1&until={until}").json["state"] == "done"
    assert operator.api.get(f"{path}?wait=1&until=aborted").status == 424


def test_batch_shows_how_far_it_is(operator: Operator) -> None:
    nodes = [operator.enroll("enroll") for _ in range(4)]
    path = begin(operator, nodes, {"target": "manage"}, concurrency=2, max_failures="25%")
    assert operator.api.get(path).json["eta"] is None
    sweep(operator, 1)
    operator.rig.sweep("batches")
    shown = operator.api.get(path).json
    assert shown["counts"]["done"] == 2
    assert shown["failures_left"] == 1
    assert shown["eta"] > shown["created_at"]


def test_expected_end_of_a_batch_does_not_count_its_pauses(operator: Operator) -> None:
    nodes = [operator.enroll("enroll") for _ in range(2)]
    path = begin(operator, nodes, {"target": "manage"}, concurrency=1)
    operator.rig.sweep("batches")
    for target in ("pause", "resume", "pause"):
        assert operator.api.put(f"{path}/state", {"target": target}).status == 200
    assert operator.rig.service.runtime.workers.wait_idle(60)
    operator.rig.sweep("batches")
    hour, event = datetime.timedelta(hours=1), models.events
    paused = event.c.kind == "batch_paused"

    def write(conn: Any) -> None:
        """Let the batch have begun four hours ago, and its first pause an hour later."""
        conn.execute(models.batches.update(), {"created_at": clock.now() - 4 * hour})
        first = conn.execute(sa.select(sa.func.min(event.c.id)).where(paused)).scalar()
        conn.execute(event.update().where(event.c.id == first), {"at": clock.now() - 3 * hour})

    operator.rig.database.write(write)
    shown = operator.api.put(f"{path}/state", {"target": "resume"}).json
    assert (shown["counts"]["done"], shown["counts"]["pending"]) == (1, 1)
    for one in (shown, operator.api.get(path).json, operator.api.get("/v1/batches").json):
        eta = one["batches"][0]["eta"] if "batches" in one else one["eta"]
        left = datetime.datetime.fromisoformat(eta).replace(tzinfo=None) - clock.now()
        assert abs(left - hour) < hour / 2


@pytest.mark.feature("events")
def test_feed_tells_the_course_of_a_batch(operator: Operator) -> None:
    path, _nodes = paused(operator)
    for target in ("resume", "pause", "resume"):
        operator.api.put(f"{path}/state", {"target": target})
    sweep(operator, 3)
    assert operator.api.delete(path).status == 204
    kinds = "started,paused,resumed,wave,ended,deleted"
    chosen = ",".join(f"batch_{kind}" for kind in kinds.split(","))
    told = operator.api.get(f"/v1/events?since=0&kind={chosen}").json["events"]
    assert [one["kind"].removeprefix("batch_") for one in told] == [
        *("started", "paused", "resumed", "paused", "resumed", "wave", "ended", "deleted")
    ]
    assert {one["data"]["batch"] for one in told} == {path.rpartition("/")[2]}
    assert {one["node"] for one in told} == {None}
    assert told[-2]["data"]["counts"]["done"] == 1


@pytest.mark.feature("events")
def test_aborted_batch_is_told(operator: Operator) -> None:
    path, _nodes = paused(operator)
    operator.api.put(f"{path}/state", {"target": "abort"})
    told = operator.api.get("/v1/events?since=0&kind=batch_aborted").json["events"]
    assert [one["data"]["name"] for one in told] == ["erase"]


def test_metrics_count_open_batches_and_their_nodes(operator: Operator) -> None:
    paused(operator)
    begin(operator, [operator.enroll("enroll") for _ in range(3)], {"target": "manage"})
    found = operator.api.get("/metrics").body.decode().splitlines()
    assert 'ironic_lite_batches{state="paused"} 1.0' in found
    assert 'ironic_lite_batches{state="running"} 1.0' in found
    assert 'ironic_lite_batch_nodes{state="failed"} 1.0' in found
    assert 'ironic_lite_batch_nodes{state="pending"} 4.0' in found


@pytest.mark.feature("why")
def test_explanation_names_the_batch_of_a_node(operator: Operator) -> None:
    path, nodes = paused(operator)
    for node, result in zip(nodes, ("failed", "pending"), strict=True):
        why = operator.api.get(f"/v1/nodes/{node}/why").json
        assert path.endswith(why["batch"]["uuid"])
        about = {name: why["batch"][name] for name in ("state", "paused_by", "result")}
        assert about == {"state": "paused", "paused_by": "failures", "result": result}
    assert "in the batch" in why["says"]
