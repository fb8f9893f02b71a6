"""Malformed requests: each is a 4xx in Ironic's form that names the fault, and changes nothing."""

from __future__ import annotations

import io
import json
from typing import Any

import orjson
import pytest

from ironic_lite.api.http import request
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, Response, call, environment

JSON = "application/json"
NODE = b'{"driver": "fake-hardware"}'
KIB = 1024


def send(api: Client, method: str, path: str, body: bytes, content_type: str | None) -> Response:
    return api.request(method, path, body=body, headers={"Content-Type": content_type or ""})


def nested(levels: int) -> bytes:
    return b'{"extra":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


# what is wrong: (body, content type, status, what the answer names)
BODIES: dict[str, tuple[bytes, str | None, int, str]] = {
    "cut off": (b'{"driver": ', JSON, 400, "line 1 column"),
    "not JSON": (b"driver=fake-hardware", JSON, 400, "line 1 column 1"),
    "two values": (b"{} {}", JSON, 400, "line 1 column 4"),
    "a trailing comma": (b'{"driver": "x",}', JSON, 400, "comma"),
    "NaN": (b'{"extra": {"a": NaN}}', JSON, 400, "line 1 column 17"),
    "a number beyond all": (b'{"extra": {"a": 1e999}}', JSON, 400, "infinity"),
    "not UTF-8": (b'{"driver": "\xff"}', JSON, 400, "UTF-8"),
    "UTF-16": ('{"driver": "x"}'.encode("utf-16"), JSON, 400, "UTF-8"),
    "half a character": (b'{"driver": "\\ud800"}', JSON, 400, "surrogate"),
    "a raw control character": (b'{"driver": "\x01"}', JSON, 400, "control character"),
    "a NUL in a value": (b'{"extra": {"a": [1, "\\u0000"]}}', JSON, 400, "/extra/a/1"),
    "a NUL in a key": (b'{"extra": {"\\u0000": 1}}', JSON, 400, "/extra"),
    "26 levels": (nested(26), JSON, 400, "25 levels"),
    "100000 levels": (b"[" * 100_000, JSON, 400, "25 levels"),
    "100000 closed levels": (nested(100_000), JSON, 400, "25 levels"),
    "form data": (b"a=b", "application/x-www-form-urlencoded", 400, "Content-Type"),
    "XML": (b"<node/>", "text/xml", 400, "Content-Type"),
    "no content type": (NODE, None, 400, "Content-Type"),
    "a content type of nonsense": (NODE, ";;;", 400, "Content-Type"),
    "another charset": (NODE, "application/json; charset=latin-1", 400, "latin-1"),
    "just too large": (b'{"a":"' + b"x" * (1024 * KIB) + b'"}', JSON, 413, "1024 KiB"),
    "ten megabytes": (b'{"a":"' + b"x" * 10_000_000 + b'"}', JSON, 413, "1024 KiB"),
    "a string": (b'"node"', JSON, 400, "object"),
    "null": (b"null", JSON, 400, "object"),
}


@pytest.mark.parametrize("case", BODIES)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_malformed_body_is_refused(
    case: str, method: str, api: Client, add_node: AddNode, database: session.Database
) -> None:
    node = add_node()
    body, content_type, status, named = BODIES[case]
    path = "/v1/nodes" if method == "POST" else f"/v1/nodes/{node['uuid']}"
    if method == "PATCH" and named == "object":
        named = "list"
    answer = send(api, method, path, body, content_type)
    assert (answer.status, named in answer.text) == (status, True), answer.text
    assert answer.fault["faultcode"] == "Client"
    wrapped = "error_message" in answer.json
    assert wrapped == ("levels" not in named and "KiB" not in named)
    kept = database.read(lambda conn: nodes.page(conn, columns=None))
    assert kept == [node]


@pytest.mark.parametrize("path", ["states/provision", "states/power", "maintenance"])
@pytest.mark.parametrize("case", ["cut off", "26 levels", "XML", "a NUL in a value", "a string"])
def test_a_malformed_order_is_refused(
    case: str, path: str, api: Client, add_node: AddNode, recorder: Recorder
) -> None:
    node = add_node()
    body, content_type, _, _ = BODIES[case]
    answer = send(api, "PUT", f"/v1/nodes/{node['uuid']}/{path}", body, content_type)
    assert answer.status == 400
    assert not recorder.calls
    assert api.get(f"/v1/nodes/{node['uuid']}").json["updated_at"] is None


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json;charset=UTF-8",
        'application/json; charset="utf-8"',
        "application/json-patch+json",
    ],
)
def test_json_may_be_called_by_its_names(api: Client, content_type: str) -> None:
    assert send(api, "POST", "/v1/nodes", NODE, content_type).status == 201


def test_25_levels_and_any_text_are_fine(api: Client) -> None:
    extra: dict[str, Any] = {
        "brackets": "[{" * 100,
        "nul": "\\u0000",
        "other": "\u0001 é 🦊 \u2028",
    }
    body = {"driver": "fake-hardware", "extra": extra}
    answer = api.post("/v1/nodes", body)
    assert (answer.status, answer.json["extra"]) == (201, extra)
    deep = orjson.loads(nested(25))
    answer = api.post(
        "/v1/nodes", {"driver": "fake-hardware", **deep, "extra": {"a": deep["extra"]}}
    )
    assert answer.status == 400
    assert api.post("/v1/nodes", {"driver": "fake-hardware", "extra": {"a": {}}}).status == 201


@pytest.mark.parametrize(
    ("length", "chunked", "status"),
    [("abc", False, 400), ("-1", False, 400), ("1e3", False, 400), ("", True, 413)],
)
def test_a_length_is_checked_and_not_needed(
    api: Client, length: str, chunked: bool, status: int
) -> None:
    environ = environment("POST", "/v1/nodes")
    environ["wsgi.input"] = io.BytesIO(b"[" + b" " * (1100 * KIB))
    environ["CONTENT_LENGTH"] = length
    environ["CONTENT_TYPE"] = JSON
    if chunked:
        environ["HTTP_TRANSFER_ENCODING"] = "chunked"
    assert call(api.app, environ).status == status


def test_a_chunked_body_is_taken_piece_by_piece(api: Client) -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 1, 3))

    environ = environment("POST", "/v1/nodes")
    environ.update({"CONTENT_TYPE": JSON, "HTTP_TRANSFER_ENCODING": "chunked"})
    environ["wsgi.input"] = Trickle(NODE)
    assert call(api.app, environ).status == 201


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("fields=%FF", "UTF-8"),
        ("a=%00", "NUL"),
        ("&".join(f"a{n}=1" for n in range(300)), "200"),
        ("fields=\xff", "UTF-8"),
    ],
)
def test_a_malformed_query_is_refused(api: Client, query: str, named: str) -> None:
    environ = environment("GET", "/v1/nodes")
    environ["QUERY_STRING"] = query
    answer = call(api.app, environ)
    assert (answer.status, named in answer.text) == (400, True), answer.text


@pytest.mark.parametrize(
    "query", ["limit={}", "sort_key={}", "sort_dir={}", "fields={}", "provision_state={}", "{}=1"]
)
def test_refusal_repeats_the_start_of_a_long_value(api: Client, query: str) -> None:
    answer = api.get(f"/v1/nodes?{query.format('z' * 8000)}")
    assert (answer.status, "zzz" in answer.text, "z" * 257 in answer.text) == (400, True, False)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/nodes/\xff", 400),
        ("/v1/nodes/a\x00b", 400),
        ("/v1/nodes/\xc3\xa9", 400),
        ("/v1/nodes/" + "n" * 10_000, 400),
        ("/v1/nodes/a b", 400),
        ("/v1/nodes/'; drop table nodes; --", 400),
        ("*", 404),
    ],
)
def test_a_malformed_path_is_refused(api: Client, path: str, status: int) -> None:
    environ = environment("GET", "/")
    environ["PATH_INFO"] = path
    assert call(api.app, environ).status == status


def test_depth_is_measured_in_levels() -> None:
    assert not request.is_deeper("text", 0)
    assert request.is_deeper([], 0)
    assert not request.is_deeper([1, {"a": 1}], 2)
    assert request.is_deeper([1, {"a": [1]}], 2)


# -- the mask of secrets ---------------------------------------------------------------------

MASK = "******"
_STEP = {"interface": "deploy", "step": "erase_devices", "args": {"password": MASK}}
_RULE_ACTION = {
    "op": "set-attribute",
    "args": {"path": "/driver_info/ipmi_password", "value": MASK},
}
_BATCH = {"target": "clean", "clean_steps": [_STEP], "nodes": ["{node}"]}


@pytest.mark.parametrize(
    ("request_line", "body", "place"),
    [
        (
            "POST /v1/nodes",
            {"driver": "fake-hardware", "driver_info": {"redfish_password": MASK}},
            "driver_info/redfish_password",
        ),
        (
            "POST /v1/nodes",
            {"driver": "fake-hardware", "instance_info": {"image_url": MASK}},
            "instance_info/image_url",
        ),
        (
            "POST /v1/nodes",
            {"driver": "fake-hardware", "driver_info": {"iso": f"http://ann:{MASK}@host/a"}},
            "driver_info/iso",
        ),
        (
            "POST /v1/volume/targets",
            {
                "node_uuid": "{node}",
                "volume_type": "iscsi",
                "volume_id": "v",
                "boot_index": 0,
                "properties": {"auth_password": MASK},
            },
            "properties/auth_password",
        ),
        (
            "POST /v1/deploy_templates",
            {"name": "CUSTOM_A", "steps": [{**_STEP, "priority": 1}]},
            "steps/0/args/password",
        ),
        (
            "POST /v1/runbooks",
            {"name": "CUSTOM_A", "steps": [{**_STEP, "order": 1}]},
            "steps/0/args/password",
        ),
        (
            "POST /v1/inspection_rules",
            {"actions": [_RULE_ACTION]},
            "actions/0/args/value",
        ),
        pytest.param(
            *("POST /v1/batches", _BATCH, "clean_steps/0/args/password"),
            marks=pytest.mark.feature("batches"),
        ),
        (
            "PUT /v1/nodes/{node}/states/provision",
            {"target": "clean", "clean_steps": [_STEP]},
            "clean_steps/0/args/password",
        ),
        (
            "PUT /v1/nodes/{node}/states/provision",
            {"target": "rescue", "rescue_password": MASK},
            "rescue_password",
        ),
        (
            "PUT /v1/nodes/{node}/vendor_passthru?method=first_method",
            {"settings": {"secret": MASK}},
            "settings/secret",
        ),
        (
            "PATCH /v1/nodes/{node}",
            [{"op": "add", "path": "/driver_info/ipmi_password", "value": MASK}],
            "0/value",
        ),
        (
            "PATCH /v1/nodes/{node}",
            [{"op": "replace", "path": "/driver_info", "value": {"ipmi_password": MASK}}],
            "driver_info/ipmi_password",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" in value else "",
)
def test_mask_of_a_secret_is_refused_by_its_path(
    api: Client, add_node: AddNode, request_line: str, body: Any, place: str
) -> None:
    method, path = request_line.split()
    node = add_node(provision_state="manageable", driver_info={"redfish_password": "kept"})
    text = json.dumps(body).replace("{node}", node["uuid"])
    before = api.get("/v1/nodes/detail").json
    answer = api.request(
        method,
        path.format(node=node["uuid"]),
        body=text.encode(),
        headers={"Content-Type": JSON},
    )
    assert (answer.status, f"{place}: holds {MASK}" in answer.text) == (400, True), answer.text
    assert api.get("/v1/nodes/detail").json == before


def test_mask_below_extra_is_stored_because_answers_show_extra_as_it_is(api: Client) -> None:
    body = {"driver": "fake-hardware", "extra": {"password": MASK}}
    assert api.post("/v1/nodes", body).json["extra"] == {"password": MASK}
