"""What holds for every request: paths, ids, links, errors, versions, and Pecan's part in it."""

from __future__ import annotations

import inspect
import logging
import re
from typing import Any

import pecan
import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api import app
from ironic_lite.api.http import expose, request
from ironic_lite.core import context, metrics
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from ironic_lite.domain import versions
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, environment
from tests.support.wsgi_client import call as call_wsgi

# What holds for every request: paths, ids, links, error bodies, and the last resort.

REQUEST_ID = re.compile(r"req-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def test_every_answer_carries_one_request_id_twice(api: Client) -> None:
    for answer in (
        api.get("/"),
        api.get("/v1/nodes"),
        api.get("/v1/nothing"),
        api.at("nonsense").get("/v1/nodes"),
        api.post("/v1/nodes", {"driver": 5}),
        api.request("BREW", "/v1/nodes"),
    ):
        assert REQUEST_ID.fullmatch(answer.headers["x-openstack-request-id"])
        assert answer.headers["openstack-request-id"] == answer.headers["x-openstack-request-id"]


def test_the_request_id_goes_to_the_conductor(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    theirs = "req-00000000-0000-4000-8000-000000000000"
    answer = api.put(
        f"/v1/nodes/{add_node()['uuid']}/states/provision",
        {"target": "manage"},
        headers={"X-OpenStack-Request-ID": theirs},
    )
    seen = recorder.contexts[0]
    assert seen.request_id == answer.headers["x-openstack-request-id"] != theirs
    assert seen.global_request_id == theirs


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/", "/nodes", "/nodes/"])
def test_v1_and_one_trailing_slash_may_be_left_out(api: Client, path: str) -> None:
    answer = api.get(path)
    assert (answer.status, answer.json) == (200, {"nodes": []})


WAY = "GET /v1/openapi.json lists all paths."


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/v1//nodes", "The path has // in it."),
        ("/v1/nodes//", "The path has // in it."),
        ("//", "The path has // in it."),
        ("/v2/nodes", "There is no 'v2' at this place of the path."),
        ("/v1/v1/nodes", "There is no 'v1' at this place of the path."),
        ("/v1/nothing", "There is no 'nothing' at this place of the path."),
        ("/v1/" + "x" * 9000, f"There is no '{'x' * 64}' at this place of the path."),
        ("/nodes/a/b/c/d", "There is no 'b' at this place of the path."),
        ("/v1/nodes/__class__/__init__", "There is no '__init__' at this place of the path."),
        ("/v1/nodes/x/../y", "There is no '..' at this place of the path."),
    ],
    ids=lambda value: value[:30],
)
def test_other_paths_are_not_found_in_the_form_of_routing(
    api: Client, path: str, where: str
) -> None:
    answer = api.get(path)
    assert answer.status == 404
    assert answer.fault == {"code": 404, "title": "Not Found", "description": f"{where} {WAY}"}


def test_half_a_path_is_told_how_it_goes_on(api: Client) -> None:
    answer = api.get("/v1/nodes/x/management")
    assert answer.status == 404
    told = "Nothing answers at this path. Below it there is: boot_device, indicators, inject_nmi."
    assert answer.text == told


def test_a_path_of_newer_versions_is_told_which(api: Client) -> None:
    for method in ("GET", "HEAD"):
        answer = api.at(51).request(method, "/v1/allocations")
        assert answer.status == 404
    answer = api.at(51).get("/v1/allocations")
    assert answer.text == "GET /allocations needs API version 1.52 or newer."


def test_a_method_that_is_not_there_is_told_which_are(api: Client, add_node: AddNode) -> None:
    node = add_node()
    for method, path, allow in [
        ("PUT", "/v1/nodes", "GET, POST"),
        ("PUT", f"/v1/nodes/{node['uuid']}", "DELETE, GET, PATCH"),
        ("HEAD", f"/v1/nodes/{node['uuid']}", "DELETE, GET, PATCH"),
        ("OPTIONS", "/v1", "GET, HEAD"),
        ("DELETE", "/", "GET, HEAD"),
        ("get", "/v1/nodes", "GET, POST"),
    ]:
        answer = api.request(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, allow)
        if method == "HEAD":
            assert answer.body == b""
        else:
            said = f"This path has no {method}. It has {allow}."
            assert answer.fault == {"code": 405, "title": "Method Not Allowed", "description": said}


def test_monitors_may_ask_for_the_root_documents_without_their_bodies(api: Client) -> None:
    for path in ("/", "/v1", "/v1/"):
        whole, head = api.get(path), api.request("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        for name in ("content-type", "content-length"):
            assert head.headers[name] == whole.headers[name]


def test_a_query_cannot_change_the_method(api: Client, add_node: AddNode) -> None:
    node = add_node()
    assert api.get(f"/v1/nodes/{node['uuid']}?_method=DELETE").status == 400
    assert api.get(f"/v1/nodes/{node['uuid']}").status == 200


def test_json_at_the_end_of_a_path_is_dropped_for_old_versions_that_are_named(
    api: Client, add_node: AddNode
) -> None:
    add_node(name="plain")
    add_node(name="real.json")
    assert api.at(90).get("/v1/nodes/plain.json").json["name"] == "plain"
    assert api.at(91).get("/v1/nodes/plain.json").status == 404
    assert api.at(91).get("/v1/nodes/real.json").json["name"] == "real.json"
    assert api.get("/v1/nodes/real.json").json["name"] == "real.json"
    assert api.at(90).get("/v1/nodes.json").status == 200


# -- links -----------------------------------------------------------------------------------


def first_link(api: Client, **environ: str) -> str:
    """Ask for /v1 with these keys in the WSGI environment."""
    answer = call_wsgi(api.app, {**environment("GET", "/v1"), **environ})
    return str(answer.json["links"][0]["href"])


@pytest.fixture
def anywhere(database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts) -> Client:
    """An API that is served under any name."""
    conf.set_override("allow_unauthenticated_bind", True, "api")
    return Client(whole_api.build(database, recorder, conf))


def test_links_follow_the_host_that_was_asked(anywhere: Client) -> None:
    api = anywhere
    assert first_link(api, HTTP_HOST="metal.example.org") == "http://metal.example.org/v1/"
    assert first_link(api, HTTP_HOST="[::1]:6385") == "http://[::1]:6385/v1/"
    assert first_link(api, **{"wsgi.url_scheme": "https"}) == "https://localhost:6385/v1/"
    assert first_link(api, SCRIPT_NAME="/baremetal") == "http://localhost:6385/baremetal/v1/"


@pytest.mark.parametrize("host", ["", "a b", 'x"y', "évil", "a/b", "x@y", "h:port"])
def test_a_host_that_is_none_does_not_get_into_links(anywhere: Client, host: str) -> None:
    assert first_link(anywhere, HTTP_HOST=host) == "http://127.0.0.1:6385/v1/"


def test_links_follow_a_proxy_only_where_one_is_trusted(
    api: Client, database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    said = {
        "HTTP_X_FORWARDED_PROTO": "https",
        "HTTP_X_FORWARDED_HOST": "outside.example.org, inner",
        "HTTP_X_FORWARDED_PREFIX": "/metal",
    }
    assert first_link(api, **said) == "http://localhost:6385/v1/"
    conf.set_override("enable_proxy_headers_parsing", True, "api")
    trusting = Client(whole_api.build(database, recorder, conf))
    assert first_link(trusting, **said) == "https://outside.example.org/metal/v1/"


def test_links_follow_the_public_endpoint_above_all(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts, add_node: AddNode
) -> None:
    conf.set_override("public_endpoint", "https://metal.example.org/base/", "api")
    node = add_node()
    shown = Client(whole_api.build(database, recorder, conf)).get(f"/v1/nodes/{node['uuid']}").json
    assert shown["links"][0]["href"] == f"https://metal.example.org/base/v1/nodes/{node['uuid']}"
    assert shown["ports"][1] == {
        "href": f"https://metal.example.org/base/nodes/{node['uuid']}/ports",
        "rel": "bookmark",
    }


# -- errors ----------------------------------------------------------------------------------


def test_a_refusal_is_a_string_inside_a_string(api: Client) -> None:
    answer = api.get("/v1/nodes/nobody")
    assert answer.status == 404
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json) == ["error_message"]
    assert answer.fault == {
        "faultcode": "Client",
        "faultstring": "Node nobody could not be found.",
        "debuginfo": None,
    }


def test_an_unexpected_fault_shows_nothing_and_is_logged_once(
    api: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(nodes, "get", broken)
    with caplog.at_level(logging.ERROR):
        answer = api.get("/v1/nodes/somebody")
    assert answer.status == 500
    assert answer.fault["faultcode"] == "Server"
    assert "hunter2" not in answer.body.decode()
    assert "Traceback" not in answer.body.decode()
    assert answer.headers["x-openstack-request-id"] in caplog.text
    assert len(caplog.records) == 1


LINES = {
    # A request, the level of its line, and how that begins.
    "POST /v1/chassis": ("INFO", "'POST /v1/chassis' from 127.0.0.7: 201 in "),
    "POST /v1/x?token=hush": ("INFO", "'POST /v1/x' from 127.0.0.7: 404 in "),
    "PUT /a\nb": ("INFO", r"'PUT /a\nb' from 127.0.0.7: 404 in "),
    "GET /v1/nodes?limit=hush": ("DEBUG", "'GET /v1/nodes' from 127.0.0.7: 400 in "),
    "POST /v1/heartbeat/x": ("DEBUG", "'POST /v1/heartbeat/x' from 127.0.0.7: 400 in "),
    "GET /v1/broken": ("INFO", "'GET /v1/broken' from 127.0.0.7: 500 in "),
}


@pytest.mark.parametrize("asked", LINES)
def test_the_log_has_a_line_for_each_request_under_its_id(
    api: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, asked: str
) -> None:
    ids: list[context.Context | None] = []
    # Called beside the log.
    monkeypatch.setattr(metrics.BOARD, "count", lambda *_: ids.append(context.current()))
    if "broken" in asked:
        monkeypatch.setattr(expose.Table, "find", lambda *_: 1 / 0)
    method, _, path = asked.partition(" ")
    environ = environment(method, path, b"{}" if method == "POST" else b"")
    environ["CONTENT_TYPE"], environ["REMOTE_ADDR"] = "application/json", "127.0.0.7"
    with caplog.at_level(logging.DEBUG, request.__name__):
        answer = call_wsgi(api.app, environ)
    (line,) = [one for one in caplog.records if one.name == request.__name__]
    level, said = LINES[asked]
    assert (line.levelname, line.getMessage()[: len(said)]) == (level, said)
    assert "hush" not in caplog.text
    (who,) = ids
    assert who is not None
    assert who.request_id == answer.headers["x-openstack-request-id"]
    assert context.current() is None


def test_a_server_side_error_of_ours_says_what_it_is(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    recorder.answers["get_boot_device"] = errors.BmcUnreachable(address="bmc", reason="silence")
    answer = api.get(f"/v1/nodes/{add_node()['uuid']}/management/boot_device")
    assert answer.status == 500
    assert answer.fault["faultcode"] == "Server"
    assert "Cannot reach the BMC at bmc" in answer.text


def test_a_database_that_is_away_is_503(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise errors.Unavailable("The database does not answer. Retry later.")

    monkeypatch.setattr(nodes, "parts", away)
    answer = api.get("/v1/nodes")
    assert (answer.status, answer.text) == (503, "The database does not answer. Retry later.")


# Microversions: two headers, a range, and what none means.

MIN = "x-openstack-ironic-api-minimum-version"
MAX = "x-openstack-ironic-api-maximum-version"
USED = "x-openstack-ironic-api-version"


@pytest.mark.parametrize(
    ("ours", "standard", "minor", "explicit"),
    [
        (None, None, 115, False),
        ("1.1", None, 1, True),
        ("1.115", None, 115, True),
        ("latest", None, 115, True),
        ("LATEST", None, 115, True),
        (None, "baremetal 1.50", 50, True),
        (None, "baremetal latest", 115, True),
        (None, "compute 2.1, baremetal 1.7", 7, True),
        ("1.9", "baremetal 1.7", 7, True),
        ("1.9", "compute 2.1", 9, True),
        (None, "compute 2.1", 115, False),
        ("", None, 115, False),
        ("1.9", "", 9, True),
    ],
)
def test_the_headers_name_a_version(
    ours: str | None, standard: str | None, minor: int, explicit: bool
) -> None:
    assert versions.negotiate(ours, standard) == versions.Version(minor, explicit)


@pytest.mark.parametrize("value", ["1.0", "1.116", "2.1", "0.5", "1.999999999", "999999999.1"])
def test_a_version_out_of_range_is_told_the_range(api: Client, value: str) -> None:
    answer = api.at(value).get("/v1/nodes")
    assert answer.status == 406
    assert (answer.headers[MIN], answer.headers[MAX]) == ("1.1", "1.115")
    assert USED not in answer.headers
    assert answer.fault["code"] == 406
    assert answer.fault["title"] == "Not Acceptable"
    assert "[1.1, 1.115]" in answer.fault["description"]


@pytest.mark.parametrize(
    "value", ["1", "1.x", "one", "1.5.1", "-1.5", "1.\u0665", "9" * 40, "1." + "9" * 5000]
)
def test_an_unreadable_version_is_refused_without_version_headers(api: Client, value: str) -> None:
    answer = api.at(value).get("/v1/nodes")
    assert answer.status == 406
    assert not {MIN, MAX, USED} & set(answer.headers)
    assert "x-openstack-request-id" in answer.headers
    assert len(answer.body) < 1000


def test_the_version_used_is_on_every_answer(api: Client) -> None:
    for path in ("/v1", "/v1/nodes", "/v1/nodes/nobody", "/v1/nothing"):
        assert api.at(20).get(path).headers[USED] == "1.20"
        assert api.get(path).headers[USED] == "1.115"
        assert api.at("latest").get(path).headers[USED] == "1.115"


def test_the_operator_may_bring_back_ironics_default(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("default_version", "1.1", "api")
    old = Client(whole_api.build(database, recorder, conf))
    assert old.get("/v1/nodes").headers[USED] == "1.1"
    assert old.at(30).get("/v1/nodes").headers[USED] == "1.30"


def test_the_root_document_is_negotiated_like_everything_else(api: Client) -> None:
    for version, used in ((None, "1.115"), ("latest", "1.115"), ("1.5", "1.5")):
        answer = Client(api.app, version).get("/")
        assert (answer.status, answer.headers[USED]) == (200, used)
        assert answer.json["default_version"]["version"] == "1.115"
    answer = api.at("1.999").get("/")
    assert (answer.status, answer.headers[MAX]) == (406, "1.115")
    assert api.at("nonsense").get("/").status == 406


def test_v1_lists_what_the_version_has(api: Client) -> None:
    assert "conductors" not in api.at(48).get("/v1").json
    document = api.at(49).get("/v1/").json
    assert document["conductors"] == [
        {"href": "http://localhost:6385/v1/conductors/", "rel": "self"},
        {"href": "http://localhost:6385/conductors/", "rel": "bookmark"},
    ]
    assert document["version"]["min_version"] == "1.1"
    assert document["id"] == "v1"
    assert document["media_types"]["base"] == "application/json"


# Pecan's public interface: what the service gives it, and what it may ask for.


def test_pecan_calls_the_controller_by_the_method_that_is_replaced() -> None:
    stock = inspect.signature(pecan.Pecan.invoke_controller)
    ours = inspect.signature(app.Application.invoke_controller)
    assert list(ours.parameters) == list(stock.parameters)


def test_pecan_invokes_one_controller_for_each_request(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoked: list[str] = []
    ours = app.Application.invoke_controller

    def invoke(self: app.Application, controller: object, *rest: object) -> None:
        invoked.append(getattr(controller, "__qualname__", ""))
        ours(self, controller, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(app.Application, "invoke_controller", invoke)
    assert api.get("/v1/nodes").status == 200
    assert invoked == ["Root.index"]


@pytest.mark.parametrize("path", ["/v1/index", "/v1/_pecan", "/v1/__class__", "/v1/nodes/x/index"])
def test_no_word_of_a_path_reaches_an_attribute_of_a_controller(api: Client, path: str) -> None:
    assert api.get(path).status == 404


def test_pecan_has_no_hooks_that_would_not_be_called(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []
    ours = app.Application.invoke_controller

    def invoke(self: app.Application, controller: object, *rest: object) -> None:
        found.append(self.determine_hooks(controller))
        ours(self, controller, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(app.Application, "invoke_controller", invoke)
    assert api.get("/v1/nodes").status == 200
    assert found == [[]]


def test_pecan_reads_neither_query_nor_body_by_itself(api: Client) -> None:
    answer = api.request("POST", "/v1/nodes?self=1&request=2", body=b"{")
    assert answer.status == 400
    assert request.Request.GET.mixed() == {}
