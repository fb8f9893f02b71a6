"""/v1/imports, and what the doctor and metrics say of nodes that are only observed."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.domain.holds import OBSERVE
from tests.support.callers import OWNER, Callers
from tests.support.database_rows import add_hold, add_import, add_node
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("move_in")

FINDINGS = [{"kind": "loss", "resource": "nodes", "path": "tags", "nodes": 2}]
UNREAD: dict[str, Any] = {"power_state": None, "provision_state": "active"}


@pytest.fixture
def imports(database: Database) -> list[str]:
    """Two imports: one with three nodes, of which two are observed; one without nodes."""
    first = add_import(database, findings=FINDINGS, maps={"paths": [["/a", "/b"]]}, by="ann")
    for number, power in enumerate((None, "power on", None)):
        values = {"power_state": power, "provision_state": "active", "name": f"r7-{number}"}
        node = add_node(database, import_uuid=first, owner=OWNER, **values)
        if number < 2:
            add_hold(database, node, OBSERVE)
    return [first, add_import(database, trial=True)]


def test_imports_are_listed_with_the_numbers_of_their_nodes(
    api: Client, imports: list[str]
) -> None:
    found = api.get("/v1/imports").json["imports"]
    assert [one["uuid"] for one in found] == imports[::-1]
    assert [one["trial"] for one in found] == [True, False]
    numbers = [[one[name] for name in ("nodes", "observed", "unread")] for one in found]
    assert numbers == [[0, 0, 0], [3, 2, 1]]
    assert found[1]["release"] == "35 (2026.1)"
    assert not {"findings", "maps", "left_out", "marks", "id"} & found[1].keys()
    (newest,) = api.get("/v1/imports?limit=1&fields=uuid").json["imports"]
    assert newest == {"uuid": imports[1]}
    (oldest,) = api.get(f"/v1/imports?marker={imports[1]}&fields=unread,by").json["imports"]
    assert oldest == {"unread": 1, "by": "ann"}


def test_import_is_shown_with_its_findings(api: Client, imports: list[str]) -> None:
    found = api.get(f"/v1/imports/{imports[0]}").json
    assert (found["findings"], found["maps"]) == (FINDINGS, {"paths": [["/a", "/b"]]})
    assert (found["nodes"], found["observed"], found["unread"]) == (3, 2, 1)
    assert "id" not in found
    chosen = api.get(f"/v1/imports/{imports[0].upper()}?fields=by,observed").json
    assert chosen == {"by": "ann", "observed": 2}


def test_other_requests_are_refused(api: Client, imports: list[str]) -> None:
    for path in ("/v1/imports/x", f"/v1/imports/{uuid.uuid4()}", f"/v1/imports?marker={OWNER}"):
        assert api.get(path).status in {400, 404}, path
    for query in ("fields=findings", "fields=id", "sort_key=nodes", "state=x", "limit=x"):
        assert api.get(f"/v1/imports?{query}").status == 400, query
    for query in ("fields=id", "detail=true"):
        assert api.get(f"/v1/imports/{imports[0]}?{query}").status == 400, query
    for method in ("POST", "DELETE", "PATCH"):
        assert api.request(method, f"/v1/imports/{imports[0]}", {}).status == 405


def test_readers_of_the_system_alone_see_imports(callers: Callers, imports: list[str]) -> None:
    paths = ("/v1/imports", f"/v1/imports/{imports[0]}", "/v1/imports/x")
    assert [callers("reader").get(path).status for path in paths] == [200, 200, 404]
    for role in ("admin", "reader"):
        answers = [callers(role, OWNER).get(path) for path in paths]
        assert {answer.status for answer in answers} == {403}


def test_metrics_count_observed_nodes(api: Client, imports: list[str]) -> None:
    text = api.get("/metrics").body.decode()
    assert 'ironic_lite_observed_nodes{power="read"} 1.0' in text
    assert 'ironic_lite_observed_nodes{power="unread"} 1.0' in text
    assert 'ironic_lite_holds{kind="observe"} 2.0' in text


@pytest.mark.feature("doctor")
def test_doctor_names_observed_nodes_that_have_not_answered(
    api: Client, database: Database
) -> None:
    def found() -> dict[str, Any]:
        (one,) = (one for one in api.get("/v1/doctor").json["checks"] if one["name"] == "imports")
        return dict(one)

    before = clock.now() - datetime.timedelta(days=3)
    for number in range(12):
        node = add_node(database, name=f"r7-{number:02}", **UNREAD)
        add_hold(database, node, OBSERVE, created_at=before)
    one = found()
    names = ", ".join(f"r7-{number:02}" for number in range(10))
    assert one["status"] == "warning"
    assert one["text"] == (
        "of 12 nodes that are only observed, the first for 3 days, 12 have not answered: "
        f"{names}, ..."
    )
    assert "/v1/doctor?node=" in one["do"]


@pytest.mark.feature("doctor")
@pytest.mark.parametrize("observed", [True, False])
def test_doctor_is_content_with_observed_nodes_that_have_answered(
    api: Client, database: Database, observed: bool
) -> None:
    if observed:
        node = add_node(database, power_state="power on", provision_state="active")
        add_hold(database, node, OBSERVE)
    checks = api.get("/v1/doctor").json["checks"]
    (one,) = (one for one in checks if one["name"] == "imports")
    assert one["status"] == "ok"
    assert one["text"].startswith("1 nodes are only obs" if observed else "no node is only obs")
