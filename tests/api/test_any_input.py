"""Whatever is sent, to any path and in whatever headers, nobody gets a 5xx."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ironic_lite.domain import fields, verbs
from tests.support.api_rows import AddNode
from tests.support.wsgi_client import Client, Response, call, environment

# Whatever is sent to ports, chassis, templates, traits, the agent's endpoints: never a 5xx.

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


# Whatever is sent anywhere below /v1/nodes, and in whatever headers, nobody gets a 5xx.

NODE_NAMES = [*fields.by_name(fields.NODE), *verbs.BODY_KEYS]
NODE_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["fake-hardware", "power on", "://", "a" * 5000, "\x00", "true"])
    | st.sampled_from(list(verbs.BY_TARGET))
)
KEYS = st.text(max_size=8) | st.sampled_from([*NODE_NAMES, "interface", "step", "args", "priority"])
NODE_JSON = st.recursive(
    NODE_SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
NODE_BODIES = NODE_JSON | st.dictionaries(st.sampled_from(NODE_NAMES), NODE_JSON, max_size=5)
NODE_PATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "replace", "remove"]),
            "path": st.builds(
                "/{}{}".format,
                st.sampled_from(NODE_NAMES),
                st.sampled_from(["", "/a", "/a/b", "/0", "/-", "/a~1b", "/é"])
                | st.text(max_size=6),
            ),
        },
        optional={"value": NODE_JSON},
    ),
    max_size=4,
)
VERSIONS = st.sampled_from([1, 4, 15, 37, 69, 98, 115])
NODE_ANY = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def node(add_node: AddNode) -> dict[str, Any]:
    return add_node(name="target", provision_state="manageable", extra={"a": {"b": [1]}})


def check_answer(answer: Response) -> None:
    """A refusal has one of the three forms, and every answer its request id."""
    assert answer.status < 500, answer.body
    assert answer.headers["x-openstack-request-id"].startswith("req-")
    if answer.status >= 400:
        said = answer.fault
        assert {"faultcode", "faultstring"} <= set(said) or {"code", "title"} <= set(said)


@NODE_ANY
@given(NODE_BODIES, VERSIONS)
def test_any_node_is_enrolled_or_refused(api: Client, body: Any, version: int) -> None:
    check_answer(api.at(version).request("POST", "/v1/nodes", body))


@NODE_ANY
@given(NODE_PATCHES | NODE_JSON, VERSIONS, st.sampled_from(["", "?reset_interfaces=1", "?x=1"]))
def test_any_patch_of_a_node_is_taken_or_refused(
    api: Client, node: dict[str, Any], patch: Any, version: int, query: str
) -> None:
    check_answer(api.at(version).request("PATCH", f"/v1/nodes/{node['uuid']}{query}", patch))


@NODE_ANY
@given(
    st.sampled_from(["states/provision", "states/power", "maintenance", "management/boot_device"]),
    NODE_BODIES,
    VERSIONS,
)
def test_any_order_is_taken_or_refused(
    api: Client, node: dict[str, Any], below: str, body: Any, version: int
) -> None:
    check_answer(api.at(version).request("PUT", f"/v1/nodes/{node['uuid']}/{below}", body))


@NODE_ANY
@given(st.sampled_from(list(verbs.BY_TARGET)), NODE_BODIES, VERSIONS)
def test_any_body_of_a_verb_is_taken_or_refused_and_changes_nothing(
    api: Client, node: dict[str, Any], target: str, body: Any, version: int
) -> None:
    sent = {**(body if isinstance(body, dict) else {"clean_steps": body}), "target": target}
    check_answer(api.at(version).put(f"/v1/nodes/{node['uuid']}/states/provision", sent))
    assert api.get(f"/v1/nodes/{node['uuid']}").json["updated_at"] is None


@NODE_ANY
@given(
    st.sampled_from(["GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "X"]),
    st.lists(
        st.sampled_from(["v1", "nodes", "detail", "states", "traits", ""]) | st.text(), max_size=5
    ),
    st.text(),
)
def test_any_address_is_known_or_not(
    api: Client, method: str, words: list[str], query: str
) -> None:
    environ = environment(method, "/")
    environ["PATH_INFO"] = "/" + "/".join(words).encode(errors="replace").decode("latin-1")
    environ["QUERY_STRING"] = query.encode(errors="replace").decode("latin-1")
    answer = call(api.app, environ)
    assert answer.status < 500
    if method != "HEAD":
        check_answer(answer)


@NODE_ANY
@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("HTTP_X_OPENSTACK_IRONIC_API_VERSION", "HTTP_OPENSTACK_API_VERSION", "HTTP_HOST"),
                *("HTTP_X_OPENSTACK_REQUEST_ID", "HTTP_ACCEPT", "CONTENT_TYPE", "CONTENT_LENGTH"),
                *("HTTP_TRANSFER_ENCODING", "SCRIPT_NAME", "HTTP_X_FORWARDED_HOST"),
            ]
        ),
        st.text(st.characters(max_codepoint=255), max_size=30)
        | st.sampled_from(["1.1", "baremetal 1.9", "latest", "application/json", "chunked", "5"]),
    ),
    st.sampled_from(["GET", "POST"]),
)
def test_any_headers_are_understood_or_refused(
    api: Client, headers: dict[str, str], method: str
) -> None:
    environ = environment(method, "/v1/nodes", b'{"driver": "fake-hardware"}')
    check_answer(call(api.app, {**environ, **headers}))


@NODE_ANY
@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("fields", "detail", "limit", "marker", "sort_key", "sort_dir", "instance_uuid"),
                *("associated", "maintenance", "provision_state", "driver", "conductor", "shard"),
                *("description_contains", "sharded", "parent_node", "conductor_group", "fault"),
            ]
        ),
        st.text(max_size=10) | st.sampled_from(["true", "1", *fields.by_name(fields.NODE)]),
    ),
    VERSIONS,
)
def test_any_list_is_given_or_refused(
    api: Client, node: dict[str, Any], arguments: dict[str, str], version: int
) -> None:
    environ = environment("GET", "/v1/nodes")
    environ["HTTP_X_OPENSTACK_IRONIC_API_VERSION"] = f"1.{version}"
    pairs = (f"{name}={text}" for name, text in arguments.items())
    environ["QUERY_STRING"] = "&".join(pairs).encode(errors="replace").decode("latin-1")
    check_answer(call(api.app, environ))


@NODE_ANY
@given(st.binary(max_size=60) | NODE_JSON.map(orjson.dumps).map(lambda body: body[:-1]))
def test_any_bytes_below_a_node_are_taken_or_refused(
    api: Client, node: dict[str, Any], body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    check_answer(api.post("/v1/nodes", body=body, headers=headers))
    check_answer(api.patch(f"/v1/nodes/{node['uuid']}", body=body, headers=headers))
