"""Whatever is sent anywhere below /v1/nodes, and in whatever headers, nobody gets a 5xx."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ironic_lite.domain import fields, verbs
from tests.support.api_rows import AddNode
from tests.support.wsgi_client import Client, Response, call, environment

NAMES = [*fields.by_name(fields.NODE), *verbs.BODY_KEYS]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["fake-hardware", "power on", "://", "a" * 5000, "\x00", "true"])
    | st.sampled_from(list(verbs.BY_TARGET))
)
KEYS = st.text(max_size=8) | st.sampled_from([*NAMES, "interface", "step", "args", "priority"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
BODIES = JSON | st.dictionaries(st.sampled_from(NAMES), JSON, max_size=5)
PATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "replace", "remove"]),
            "path": st.builds(
                "/{}{}".format,
                st.sampled_from(NAMES),
                st.sampled_from(["", "/a", "/a/b", "/0", "/-", "/a~1b", "/é"])
                | st.text(max_size=6),
            ),
        },
        optional={"value": JSON},
    ),
    max_size=4,
)
VERSIONS = st.sampled_from([1, 4, 15, 37, 69, 98, 115])
ANY = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def node(add_node: AddNode) -> dict[str, Any]:
    return add_node(name="target", provision_state="manageable", extra={"a": {"b": [1]}})


def check(answer: Response) -> None:
    """A refusal has one of the three forms, and every answer its request id."""
    assert answer.status < 500, answer.body
    assert answer.headers["x-openstack-request-id"].startswith("req-")
    if answer.status >= 400:
        said = answer.fault
        assert {"faultcode", "faultstring"} <= set(said) or {"code", "title"} <= set(said)


@ANY
@given(BODIES, VERSIONS)
def test_any_node_is_enrolled_or_refused(api: Client, body: Any, version: int) -> None:
    check(api.at(version).request("POST", "/v1/nodes", body))


@ANY
@given(PATCHES | JSON, VERSIONS, st.sampled_from(["", "?reset_interfaces=1", "?x=1"]))
def test_any_patch_is_taken_or_refused(
    api: Client, node: dict[str, Any], patch: Any, version: int, query: str
) -> None:
    check(api.at(version).request("PATCH", f"/v1/nodes/{node['uuid']}{query}", patch))


@ANY
@given(
    st.sampled_from(["states/provision", "states/power", "maintenance", "management/boot_device"]),
    BODIES,
    VERSIONS,
)
def test_any_order_is_taken_or_refused(
    api: Client, node: dict[str, Any], below: str, body: Any, version: int
) -> None:
    check(api.at(version).request("PUT", f"/v1/nodes/{node['uuid']}/{below}", body))


@ANY
@given(st.sampled_from(list(verbs.BY_TARGET)), BODIES, VERSIONS)
def test_any_body_of_a_verb_is_taken_or_refused_and_changes_nothing(
    api: Client, node: dict[str, Any], target: str, body: Any, version: int
) -> None:
    sent = {**(body if isinstance(body, dict) else {"clean_steps": body}), "target": target}
    check(api.at(version).put(f"/v1/nodes/{node['uuid']}/states/provision", sent))
    assert api.get(f"/v1/nodes/{node['uuid']}").json["updated_at"] is None


@ANY
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
        check(answer)


@ANY
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
    check(call(api.app, {**environ, **headers}))


@ANY
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
    check(call(api.app, environ))


@ANY
@given(st.binary(max_size=60) | JSON.map(orjson.dumps).map(lambda body: body[:-1]))
def test_any_bytes_are_taken_or_refused(api: Client, node: dict[str, Any], body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    check(api.post("/v1/nodes", body=body, headers=headers))
    check(api.patch(f"/v1/nodes/{node['uuid']}", body=body, headers=headers))
