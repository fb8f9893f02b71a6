"""How many SQL statements an operation costs, its conductor's among them: they shall not creep up.

Each number is a budget of ``benchmarks/README.rst`` or what has been reached below it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.domain import fields
from tests.support.in_process import InProcess

FAKE = {f"{kind}_interface": "fake" for kind in fields.INTERFACE_KINDS} | {
    "network_interface": "noop",
    "storage_interface": "noop",
}


@pytest.fixture
def whole(sqlite_database: Database) -> Iterator[InProcess]:
    """API and conductor, with a conductor registered and known."""
    service = InProcess(sqlite_database)
    service.stop_clocks()
    yield service
    service.close()


@pytest.fixture
def node(whole: InProcess) -> str:
    """The UUID of a manageable node."""
    return whole.rig.node(**FAKE)


@pytest.mark.parametrize("version", ["1.1", "1.36", "latest"])
def test_a_node_is_read_by_one_statement(whole: InProcess, node: str, version: str) -> None:
    sent = whole.sent(lambda api: api.at(version).get(f"/v1/nodes/{node}"))
    assert len(sent) == 1, sent


@pytest.mark.parametrize("path", ["/states", "/traits", "/ports", "?fields=name,conductor,traits"])
def test_rows_of_a_node_are_read_by_two_statements_at_most(
    whole: InProcess, node: str, path: str
) -> None:
    sent = whole.sent(lambda api: api.get(f"/v1/nodes/{node}{path}"))
    assert len(sent) <= 2, sent


@pytest.mark.parametrize(
    ("path", "budget"),
    [
        ("/v1/nodes", 1),
        ("/v1/nodes?limit=2", 1),
        ("/v1/nodes?provision_state=manageable&sort_key=name", 1),
        ("/v1/nodes?fields=uuid,conductor", 1),
        ("/v1/nodes/detail", 1),
        ("/v1/nodes/detail?limit=2", 1),
        ("/v1/ports", 1),
        ("/v1/ports/detail", 1),
        ("/v1/chassis", 1),
        ("/v1/conductors", 1),
    ],
)
def test_a_page_is_read_by_one_statement_however_many_rows_it_has(
    whole: InProcess, path: str, budget: int
) -> None:
    for number in range(7):
        whole.rig.node(**FAKE)
        port = {"node_uuid": whole.rig.node(), "address": f"52:54:00:00:00:0{number}"}
        assert whole.api.post("/v1/ports", port).status == 201
    sent = whole.sent(lambda api: api.get(path))
    assert len(sent) <= budget, sent


def test_a_page_after_a_marker_is_read_by_one_statement(whole: InProcess) -> None:
    first, *_ = (whole.rig.node(**FAKE) for _ in range(5))
    sent = whole.sent(lambda api: api.get(f"/v1/nodes?marker={first}"))
    assert len(sent) == 1, sent


@pytest.mark.parametrize(
    "patch",
    [
        {"op": "replace", "path": "/description", "value": "rack 7"},
        {"op": "add", "path": "/extra/a", "value": 1},
        {"op": "replace", "path": "/driver_info", "value": {"a": "b"}},
        {"op": "replace", "path": "/maintenance", "value": True},
    ],
    ids=lambda patch: str(patch["path"]),
)
def test_a_node_is_patched_by_three(whole: InProcess, node: str, patch: dict[str, object]) -> None:
    sent = whole.sent(lambda api: api.patch(f"/v1/nodes/{node}", [patch]))
    assert len(sent) <= 3, sent


def test_a_node_is_enrolled_by_two(whole: InProcess) -> None:
    body = {"driver": "fake-hardware", "uuid": str(uuid.uuid4())}
    sent = whole.sent(lambda api: api.post("/v1/nodes", body), 201)
    assert len(sent) <= 2, sent


def test_a_port_is_created_by_three(whole: InProcess, node: str) -> None:
    body = {"node_uuid": node, "address": "52:54:00:00:00:01"}
    sent = whole.sent(lambda api: api.post("/v1/ports", body), 201)
    assert len(sent) <= 3, sent


def test_a_refused_verb_costs_one_read(whole: InProcess, node: str) -> None:
    path = f"/v1/nodes/{node}/states/provision"
    sent = whole.sent(lambda api: api.put(path, {"target": "rebuild"}), 400)
    assert len(sent) == 1, sent


def test_power_is_changed_by_twelve(whole: InProcess, node: str) -> None:
    path = f"/v1/nodes/{node}/states/power"
    sent = whole.sent(lambda api: api.put(path, {"target": "power off"}), 202)
    # One asks whether this request has been carried out before, another reads holds. Two read the
    # children: while the client waits, and before they are switched off.
    assert len(sent) <= 12, sent


def test_a_whole_manual_clean_with_one_step_takes_thirteen(whole: InProcess, node: str) -> None:
    sent = whole.cleaned(node, 1)
    # The log of a run that takes long is written more than once.
    logs = sum(statement.startswith("INSERT INTO run_logs") for statement in sent)
    assert len(sent) - max(0, logs - 1) <= 13, sent


def test_each_further_clean_step_takes_three(whole: InProcess, node: str) -> None:
    whole.cleaned(node, 1)
    few, many = len(whole.cleaned(node, 2)), len(whole.cleaned(node, 10))
    assert many - few <= 8 * 3
