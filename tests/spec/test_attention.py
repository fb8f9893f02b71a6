"""Failures of one cause through the whole service: one line, one filter, one batch."""

from __future__ import annotations

import os

import pytest

from ironic_lite.features.attention import api as attention_api
from tests.spec.test_batches import look, sweep
from tests.support.operator import Json, Operator

pytestmark = pytest.mark.feature("attention", "batches", "events")

COUNT = int(os.environ.get("ATTENTION_NODES", "12"))
"""Nodes that fail; 300 take a minute."""
ERASE = [{"interface": "deploy", "step": "erase_devices"}]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_api, "KEPT_SECONDS", 0.0)


def test_failures_of_one_cause_are_one_line_one_filter_and_one_batch(operator: Operator) -> None:
    nodes = []
    for number in range(COUNT):
        why = f"disk sd{'bcdef'[number % 5]}: read-only, sector {number}"
        fault = {"deploy.erase_devices": why}
        nodes.append(operator.enroll(name=f"n{number}", fake_fail_steps=fault))
    for node in nodes:
        shown = operator.provision(node, "clean", clean_steps=ERASE)
        assert shown["provision_state"] == "clean failed"
    [cause] = operator.api.get("/v1/attention").json["causes"]
    assert (cause["nodes"], cause["silenced"]) == (COUNT, 0)
    assert cause["text"] == "disk sd#: read-only, sector #"
    listed = operator.api.get(f"{cause['href']}&limit=1000").json["nodes"]
    assert sorted(one["uuid"] for one in listed) == sorted(nodes)
    runs = operator.api.get(f"/v1/runs?cause={cause['cause']}&limit=1000").json["runs"]
    assert {run["node_uuid"] for run in runs} == set(nodes)
    for node in nodes:
        moves = operator.api.get(f"/v1/events?since=0&node={node}&kind=provision").json["events"]
        assert [one["data"].get("cause") for one in moves if one["data"]][-1] == cause["cause"]

    for node in nodes[:3]:
        path = f"/v1/nodes/{node}/maintenance"
        assert operator.api.put(path, {"reason": "a disk is on its way"}).status == 202
    for node in nodes[3:5]:
        body = {"kind": "hardware", "reason": "a disk is on its way"}
        assert operator.api.post(f"/v1/nodes/{node}/holds", body).status == 201
    shown = operator.api.get("/v1/attention").json
    assert shown["needs_human"] == COUNT - 5
    assert shown["silenced"] == {"maintenance": 3, "held": 2}
    assert (shown["causes"][0]["nodes"], shown["causes"][0]["silenced"]) == (COUNT - 5, 5)

    for node in nodes:
        assert operator.patches(node, driver_info__fake_fail_steps={}).status == 200
    for node in nodes[:3]:
        assert operator.api.delete(f"/v1/nodes/{node}/maintenance").status == 202
    asked: Json = {"nodes": {"cause": cause["cause"], "held": False}, "expect": COUNT - 2}
    asked |= {"request": {"target": "retry"}, "concurrency": 6}
    batch = operator.api.post("/v1/batches", asked)
    assert batch.status == 201, batch.text
    sweep(operator, 2 + COUNT // 4)
    assert look(operator, batch.json)["counts"]["done"] == COUNT - 2
    shown = operator.api.get("/v1/attention").json
    assert (shown["needs_human"], shown["silenced"]["held"], shown["status"]) == (0, 2, "ok")
    assert operator.api.get(f"/v1/nodes?cause={cause['cause']}").json["nodes"] != []
