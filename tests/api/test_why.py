"""GET /v1/nodes/{node}/why: its rights, and the refusals of callers with few rights."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Recorder

CALLERS: dict[tuple[str, str | None], int] = {
    ("reader", None): 200,
    ("service", None): 200,
    ("reader", OWNER): 200,
    ("manager", OWNER): 200,
    ("service", OWNER): 200,
    ("admin", LESSEE): 403,
    ("reader", LESSEE): 403,
    ("service", LESSEE): 404,
    ("admin", STRANGER): 404,
}


@pytest.fixture
def node(add_node: AddNode) -> dict[str, Any]:
    return add_node(
        owner=OWNER,
        lessee=LESSEE,
        provision_state="clean failed",
        last_error="conductor-7 said no",
        retired=True,
    )


@pytest.mark.parametrize("role, project", CALLERS)
def test_owners_and_readers_of_the_system_see_it(
    callers: Callers, node: dict[str, Any], role: str, project: str | None
) -> None:
    path = f"/v1/nodes/{node['uuid']}/why"
    answer = callers(role, project).get(path)
    assert answer.status == CALLERS[role, project], answer.text
    if answer.status != 200:
        assert "conductor-7" not in answer.text


@pytest.mark.parametrize("role, project", [key for key, status in CALLERS.items() if status == 200])
def test_refusals_are_those_of_the_same_caller(
    callers: Callers, node: dict[str, Any], role: str, project: str | None
) -> None:
    caller = callers(role, project)
    told = caller.get(f"/v1/nodes/{node['uuid']}/why").json["verbs"]
    assert {one["target"] for one in told} == {"manage", "provide", "available", "retry"}
    for verb in told:
        if verb["target"] == "retry":
            continue  # the conductor, which is recorded here, knows the run
        path = f"/v1/nodes/{node['uuid']}/states/provision"
        answer = caller.put(path, {"target": verb["target"]})
        refused = verb["refused"]
        assert (answer.status == 202) is (refused is None)
        assert refused is None or refused["text"] == answer.text, verb
    mere_reader = role == "reader"
    assert all((one["refused"] or {}).get("code") == "Forbidden" for one in told) is mere_reader


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "why", None), ("POST", "plan", {"target": "manage"})],
)
def test_tag_of_the_node_binds_the_request_that_follows(  # noqa: PLR0917  # the facts of a row
    callers: Callers,
    recorder: Recorder,
    node: dict[str, Any],
    method: str,
    path: str,
    body: Any,
) -> None:
    recorder.answers["plan_provision"] = {
        **{"faults": [], "steps": [], "ramdisk": False, "restarts": 0, "destroys": []},
        **{"complete": True, "incomplete": None},
    }
    caller, place = callers("admin"), f"/v1/nodes/{node['uuid']}"
    change = [{"op": "add", "path": "/extra/x", "value": 1}]
    answer = caller.request(method, f"{place}/{path}", body)
    assert answer.headers["etag"] == caller.get(place).headers["etag"]
    seen = {"If-Match": answer.headers["etag"]}
    assert caller.patch(place, change, headers=seen).status == 200
    assert caller.patch(place, change, headers=seen).status == 412
    again = caller.request(method, f"{place}/{path}", body)
    assert again.headers["etag"] == caller.get(place).headers["etag"] != seen["If-Match"]


def test_lists_and_documents_of_nodes_do_not_change(callers: Callers, node: dict[str, Any]) -> None:
    shown = callers("admin").get(f"/v1/nodes/{node['uuid']}").json
    assert not {"locked_at", "lock_note", "why"} & shown.keys()
