"""What a policy file adds: rules for single steps, and what those of older deployments refer to."""

from __future__ import annotations

import functools
import pathlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import app, middleware
from ironic_lite.api.policy import enforcer
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import batches, runs
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, Callers, Known
from tests.support.conductor_recorder import Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, op

ERASE = {"interface": "deploy", "step": "erase_devices"}
OTHER = {"interface": "deploy", "step": "erase_devices_metadata"}
RULE = "baremetal:step:execute:deploy.erase_devices"

Ruled = Callable[[str], Callers]


@pytest.fixture
def ruled(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts, tmp_path: pathlib.Path
) -> Ruled:
    """Build clients that are bound by the defaults and these lines of a policy file."""

    def build(lines: str) -> Callers:
        file = tmp_path / "policy.yaml"
        file.write_text(lines)
        enforcer.build(conf)  # registers the option
        conf.set_override("policy_file", str(file), "oslo_policy")
        inner = app.routed(database, recorder, conf)
        return Callers(
            middleware.RequestMiddleware(inner, conf, Known(enforcer.AccessFactory(conf)))
        )

    return build


@pytest.mark.parametrize(
    ("state", "body"),
    [
        ("manageable", {"target": "clean", "clean_steps": [OTHER, ERASE]}),
        ("active", {"target": "service", "service_steps": [ERASE]}),
        ("available", {"target": "active", "deploy_steps": [{**ERASE, "priority": 1, "args": {}}]}),
    ],
    ids=["clean", "service", "deploy"],
)
def test_a_step_with_a_rule_is_for_who_passes_it(
    ruled: Ruled, recorder: Recorder, add_node: AddNode, state: str, body: dict[str, Any]
) -> None:
    callers = ruled(f'"{RULE}": "role:admin and project_id:%(node.owner)s"\n')
    node = add_node(owner=OWNER, lessee=LESSEE, provision_state=state)["uuid"]
    path = f"/v1/nodes/{node}/states/provision"
    for role, project in (("member", OWNER), ("admin", LESSEE), ("admin", None)):
        answer = callers(role, project).put(path, body)
        assert answer.status == 403
        assert RULE in answer.text
    assert recorder.calls == []
    assert callers("admin", OWNER).put(path, body).status == 202


@pytest.mark.parametrize(
    ("stored", "status"),
    [({"requested": True}, 403), ({"requested": False}, 202), ({"runbook": "b"}, 202)],
    ids=["by an operator", "by drivers", "by a runbook"],
)
def test_retry_needs_the_rules_of_steps_that_an_operator_has_chosen(
    ruled: Ruled,
    database: session.Database,
    add_node: AddNode,
    stored: dict[str, Any],
    status: int,
) -> None:
    callers = ruled(f'"{RULE}": "role:admin and project_id:%(node.owner)s"\n')
    node = add_node(owner=OWNER, provision_state="clean failed")["uuid"]
    run = {"uuid": str(uuid.uuid4()), "node_uuid": node, "verb": "provide", "state": "failed"}
    listed = {"kind": "clean", "steps": [ERASE], **stored}
    row = {**run, "started_at": clock.now(), "listed": listed}
    step = {"run_uuid": run["uuid"], "ordinal": 0, "kind": "clean", **ERASE}
    database.write(lambda conn: runs.insert(conn, row))
    database.write(lambda conn: runs.insert_steps(conn, [step]))
    answer = callers("member", OWNER).put(f"/v1/nodes/{node}/states/provision", {"target": "retry"})
    assert answer.status == status, answer.text


def test_batch_of_retries_names_the_node_whose_steps_are_refused(
    ruled: Ruled, database: session.Database, add_node: AddNode
) -> None:
    callers = ruled(f'"{RULE}": "role:admin and project_id:%(node.owner)s"\n')
    nodes = [add_node(owner=OWNER, provision_state="clean failed")["uuid"] for _ in range(3)]
    known = {}
    for node, listed in zip(nodes, (OTHER, ERASE, OTHER), strict=True):
        known[node] = str(uuid.uuid4())
        about = {"verb": "clean", "state": "failed", "started_at": clock.now()}
        row = {**about, "uuid": known[node], "node_uuid": node, "listed": {"requested": True}}
        step = {"run_uuid": known[node], "ordinal": 0, "kind": "clean", **listed}
        database.write(functools.partial(runs.insert, values=row))
        database.write(functools.partial(runs.insert_steps, rows=[step]))
    body: dict[str, Any] = {"nodes": nodes, "request": {"target": "retry"}}
    with count_statements(database) as sent:
        answer = callers("member", OWNER).post("/v1/batches", body)
    assert (answer.status, nodes[1] in answer.text) == (403, True), answer.text
    assert RULE in answer.text
    assert len(sent) <= 6, "a statement for each node"
    made = callers("member", OWNER).post("/v1/batches", {**body, "nodes": nodes[::2]})
    assert made.status == 201, made.text
    columns = batches.NODE_COLUMNS
    rows = database.read(lambda conn: batches.NODES.page(conn, columns=columns, limit=9))
    assert {row["node_uuid"]: row["retry_of"] for row in rows} == {
        node: known[node] for node in nodes[::2]
    }


def test_a_step_without_a_rule_is_for_who_may_name_steps(ruled: Ruled, add_node: AddNode) -> None:
    callers = ruled(f'"{RULE}": "!"\n')
    node = add_node(owner=OWNER, provision_state="manageable")["uuid"]
    body = {"target": "clean", "clean_steps": [OTHER]}
    path = f"/v1/nodes/{node}/states/provision"
    assert callers("member", OWNER).put(path, body).status == 202
    malformed: tuple[Any, ...] = ([OTHER, 1], {"deploy": ERASE}, [{"step": ["x"]}])
    for steps, status in (([ERASE, 1], 403), *((each, 400) for each in malformed)):
        assert callers("member", OWNER).put(path, {**body, "clean_steps": steps}).status == status


def test_a_runbook_holds_what_its_writer_may_ask_for(
    ruled: Ruled, recorder: Recorder, add_node: AddNode
) -> None:
    callers = ruled(f'"{RULE}": "role:admin"\n')
    erase, other = ({**step, "args": {}, "order": 1} for step in (ERASE, OTHER))
    manager, admin = callers("manager", OWNER), callers("admin", OWNER)
    place, body = "/v1/runbooks", {"name": "CUSTOM_A", "steps": [erase]}

    refused = manager.post(place, body)
    assert (refused.status, RULE in refused.text) == (403, True)
    made = manager.post(place, {**body, "steps": [other]})
    assert made.status == 201
    path = f"{place}/{made.json['uuid']}"
    patch = [op("replace", "/steps/0/step", "erase_devices")]
    assert manager.patch(path, patch).status == 403
    assert manager.patch(path, [op("add", "/extra/a", 1)]).status == 200
    assert admin.patch(path, patch).status == 200
    assert manager.patch(path, [op("add", "/extra/a", 2)]).status == 200

    assert admin.put(f"{path}/traits", {"traits": ["CUSTOM_A"]}).status == 204
    node = add_node(owner=OWNER, provision_state="manageable")["uuid"]
    assert admin.put(f"/v1/nodes/{node}/traits/CUSTOM_A").status == 204
    asked = {"target": "clean", "runbook": "CUSTOM_A"}
    assert manager.put(f"/v1/nodes/{node}/states/provision", asked).status == 202


def test_a_deploy_template_holds_what_its_writer_may_ask_for(ruled: Ruled) -> None:
    templates = '"baremetal:deploy_template:create": "role:member"\n'
    templates += '"baremetal:deploy_template:update": "role:member"\n'
    callers = ruled(f'"{RULE}": "role:admin"\n{templates}')
    erase, other = ({**step, "args": {}, "priority": 1} for step in (ERASE, OTHER))
    member, admin = callers("member"), callers("admin")
    place, body = "/v1/deploy_templates", {"name": "CUSTOM_A", "steps": [erase]}

    refused = member.post(place, body)
    assert (refused.status, RULE in refused.text) == (403, True)
    made = member.post(place, {**body, "steps": [other]})
    assert made.status == 201, made.text
    path = f"{place}/{made.json['uuid']}"
    patch = [op("replace", "/steps/0/step", "erase_devices")]
    assert member.patch(path, patch).status == 403
    assert member.patch(path, [op("add", "/extra/a", 1)]).status == 200
    assert admin.patch(path, patch).status == 200
    assert member.patch(path, [op("add", "/extra/a", 2)]).status == 200


def test_older_files_may_speak_of_public_routes(ruled: Ruled) -> None:
    callers = ruled('"baremetal:driver:ipa_lookup": "rule:public_api"\n')
    missing = "/v1/lookup?node_uuid=9d5f0a6e-0000-4000-8000-000000000000"
    assert Client(callers.application).get(missing).status == 404
