"""Whatever is sent to ports, chassis, templates, traits, the agent's endpoints: never a 5xx."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ironic_lite.domain import fields
from tests.support.api_rows import AddNode
from tests.support.wsgi_client import Client, call, environment

MAC = "52:54:00:12:34:56"
NAMES = [
    *fields.by_name(fields.PORT),
    *(
        "steps",
        "node_ident",
        "traits",
        "callback_url",
        "agent_token",
        "agent_version",
        "agent_status",
    ),
]
STEP = {"interface": "bios", "step": "x", "args": {}, "priority": 1}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from([MAC, "CUSTOM_A", "https://a", "a" * 300, "\x00"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=10,
)
# Nearly a step, so that some get through.
STEPS = st.lists(
    st.fixed_dictionaries({key: st.just(value) | JSON for key, value in STEP.items()})
    | st.just(STEP),
    max_size=2,
)
TEMPLATES = st.fixed_dictionaries(
    {"name": st.just("CUSTOM_X") | JSON, "steps": STEPS | JSON}, optional={"extra": JSON}
)
BODIES = st.dictionaries(st.sampled_from(NAMES), JSON, max_size=5) | TEMPLATES | JSON
BELOW = ["steps/-", "steps/0", "steps/1", "steps/0/args", "steps/0/args/a", "steps/0/priority"]
PATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "replace", "remove", "test"]),
            "path": st.sampled_from([f"/{name}" for name in (*NAMES, *BELOW)])
            | st.text(max_size=12),
        },
        optional={"value": JSON | STEPS | st.just(STEP)},
    ),
    max_size=3,
)
ANY = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def places(api: Client, add_node: AddNode) -> dict[str, str]:
    node = add_node(provision_state="manageable")
    port = api.post("/v1/ports", {"node_uuid": node["uuid"], "address": MAC}).json
    chassis = api.post("/v1/chassis", {}).json
    template = api.post("/v1/deploy_templates", {"name": "CUSTOM_A", "steps": [STEP]}).json
    return {
        "port": f"/v1/ports/{port['uuid']}",
        "one chassis": f"/v1/chassis/{chassis['uuid']}",
        "template": f"/v1/deploy_templates/{template['uuid']}",
        "traits": f"/v1/nodes/{node['uuid']}/traits",
        "heartbeat": f"/v1/heartbeat/{node['uuid']}",
    }


def check(answer: Any) -> None:
    assert answer.status < 500, answer.body
    if answer.status >= 400:
        assert answer.fault


@ANY
@given(
    st.sampled_from(["ports", "chassis", "deploy_templates", "traits", "heartbeat"]),
    BODIES,
    st.sampled_from([1, 115]),
)
def test_any_body_is_taken_or_refused(
    api: Client, places: dict[str, str], where: str, body: Any, version: int
) -> None:
    method = "PUT" if where == "traits" else "POST"
    check(api.at(version).request(method, places.get(where, f"/v1/{where}"), body))


@ANY
@given(st.sampled_from(["port", "one chassis", "template"]), PATCHES)
def test_any_patch_is_taken_or_refused(
    api: Client, places: dict[str, str], where: str, patch: Any
) -> None:
    check(api.patch(places[where], patch))


@ANY
@given(
    st.sampled_from(["ports", "chassis", "deploy_templates", "drivers", "conductors", "lookup"]),
    st.dictionaries(
        st.sampled_from(
            [
                *("fields", "detail", "limit", "marker", "sort_key", "sort_dir", "address", "node"),
                *("node_uuid", "shard", "conductor_groups", "type", "addresses"),
            ]
        ),
        st.text(max_size=10) | st.sampled_from([MAC, "true", "1", "uuid", "name,links", "desc"]),
    ),
)
def test_any_question_is_answered_or_refused(
    api: Client, where: str, arguments: dict[str, str]
) -> None:
    environ = environment("GET", f"/v1/{where}")
    pairs = (f"{name}={text}" for name, text in arguments.items())
    environ["QUERY_STRING"] = "&".join(pairs).encode(errors="replace").decode("latin-1")
    check(call(api.app, environ))


@ANY
@given(
    st.sampled_from(
        ["ports", "chassis", "deploy_templates", "nodes/x/ports", "drivers", "conductors"]
    ),
    st.text(),
)
def test_any_ident_is_known_or_not(api: Client, where: str, ident: str) -> None:
    environ = environment("GET", f"/v1/{where}/")
    environ["PATH_INFO"] += ident.encode(errors="replace").decode("latin-1")
    check(call(api.app, environ))


@ANY
@given(st.binary(max_size=40) | JSON.map(orjson.dumps).map(lambda body: body[:-1]))
def test_any_bytes_are_taken_or_refused(api: Client, body: bytes) -> None:
    check(api.post("/v1/ports", body=body, headers={"Content-Type": "application/json"}))
