"""Vendor passthru over HTTP: handed on unread, answered as the vendor's method does."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def told(result: Any, *, async_call: bool = False, attach: bool = False) -> dict[str, Any]:
    """Return what a conductor says of a call."""
    return {"return": result, "async": async_call, "attach": attach}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("path", ["?method=reset", "/reset"])
def test_a_call_on_a_node_is_handed_on(
    api: Client, recorder: Recorder, add_node: AddNode, verb: str, path: str
) -> None:
    node = add_node(name="n1")
    recorder.answers["vendor_passthru"] = told({"done": [1]})
    body = {"warm": True, "method": "of the body"}
    answer = api.at(1).request(verb, f"/v1/nodes/{node['uuid']}/vendor_passthru{path}", body)
    assert (answer.status, answer.json) == (200, {"done": [1]})
    call = {"vendor_method": "reset", "http_method": verb, "info": body}
    assert recorder.calls == [("vendor_passthru", {"node_uuid": node["uuid"], **call})]
    assert recorder.hosts == [HOST]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("path", ["?method=reset", "/reset"])
def test_a_call_on_a_driver_is_handed_on(
    api: Client, recorder: Recorder, verb: str, path: str
) -> None:
    recorder.answers["driver_vendor_passthru"] = told(True)
    answer = api.request(verb, f"/v1/drivers/redfish/vendor_passthru{path}")
    assert (answer.status, answer.json) == (200, True)
    call = {"vendor_method": "reset", "http_method": verb, "info": {}}
    assert recorder.calls == [("driver_vendor_passthru", {"driver": "redfish", **call})]
    assert recorder.hosts == [HOST]


@pytest.mark.parametrize("below", ["nodes/{node}", "drivers/fake-hardware"])
def test_the_answer_says_how_the_method_was_called(
    api: Client, recorder: Recorder, add_node: AddNode, below: str
) -> None:
    path = f"/v1/{below.format(node=add_node()['uuid'])}/vendor_passthru?method=x"
    method = "vendor_passthru" if below.startswith("nodes") else "driver_vendor_passthru"
    for answer, status, body, kind in (
        (told(None, async_call=True), 202, b"", None),
        (told(None), 200, b"null", "application/json"),
        (told(0), 200, b"0", "application/json"),
        (told("a\nb", attach=True), 200, b"a\nb", "text/plain; charset=utf-8"),
        (told({"a": 1}, attach=True), 200, b'{"a":1}', "application/json"),
        (told("", attach=True), 204, b"", None),
    ):
        recorder.answers[method] = answer
        found = api.post(path, {})
        assert (found.status, found.body) == (status, body)
        assert body == b"" or found.headers.get("content-type") == kind
        if kind is not None:
            nosniff = "nosniff" if kind.startswith("text/plain") else None
            assert found.headers.get("x-content-type-options") == nosniff


@pytest.mark.parametrize(
    "call",
    [
        ("", {}, "method"),
        ("?method=", {}, "method"),
        ("?method=x&more=1", {}, "more"),
        ("?method=x", [], "body"),
        ("?method=x", "text", "body"),
        ("?method=x", 5, "body"),
    ],
)
@pytest.mark.parametrize("below", ["nodes/{node}", "drivers/fake-hardware"])
def test_a_bad_call_is_named_and_goes_nowhere(
    api: Client, recorder: Recorder, add_node: AddNode, below: str, call: tuple[str, Any, str]
) -> None:
    query, body, named = call
    path = f"/v1/{below.format(node=add_node()['uuid'])}/vendor_passthru{query}"
    answer = api.post(path, body)
    assert (answer.status, named in answer.text, recorder.calls) == (400, True, [])


def test_bodies_are_bounded_and_must_be_json(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/vendor_passthru?method=x"
    plain = {"Content-Type": "application/json"}
    for verb in ("POST", "DELETE"):
        assert api.request(verb, path, body=b"{", headers=plain).status == 400
        assert api.request(verb, path, {"a": "x" * 2**20}).status == 413
    assert recorder.calls == []


def test_methods_are_listed(api: Client, recorder: Recorder, add_node: AddNode) -> None:
    facts = {"reset": {"http_methods": ["POST"], "async": False, "description": "Reset."}}
    recorder.answers["get_node_vendor_passthru_methods"] = facts
    recorder.answers["get_driver_vendor_passthru_methods"] = {}
    node = add_node()
    answer = api.at(1).get(f"/v1/nodes/{node['uuid']}/vendor_passthru/methods")
    assert (answer.status, answer.json) == (200, facts)
    answer = api.at(1).get("/v1/drivers/fake-hardware/vendor_passthru/methods")
    assert (answer.status, answer.json) == (200, {})
    answers = {"async": True, "return": None, "attach": False}
    recorder.answers["vendor_passthru"] = answers
    assert api.post(f"/v1/nodes/{node['uuid']}/vendor_passthru/methods", {}).status == 202


def test_vendor_method_of_an_unknown_node_or_driver_is_404(api: Client, recorder: Recorder) -> None:
    for path in ("nodes/nobody", "drivers/toaster"):
        for below in ("?method=x", "/methods", "/x"):
            assert api.get(f"/v1/{path}/vendor_passthru{below}").status == 404
    assert recorder.calls == []


def test_call_that_the_vendor_refuses_is_400(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    refusal = errors.InvalidParameter(path="method", reason="does not take GET, only POST")
    recorder.answers["vendor_passthru"] = refusal
    answer = api.get(f"/v1/nodes/{add_node()['uuid']}/vendor_passthru?method=x")
    assert (answer.status, "only POST" in answer.text) == (400, True)
