"""The document of the API is made from the tables, is whole, and is true.

`test_every_answer_is_as_the_document_says` sends what schemathesis makes of the document to API and
conductor in one process: a few requests to each route. ``make fuzz`` sends many more.
"""

from __future__ import annotations

import ast
import os
import pathlib
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ironic_lite.api import controllers, openapi, policy
from ironic_lite.api.http import expose
from ironic_lite.api.openapi import parts, resource_name
from ironic_lite.api.resources import patches, queries
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import fields
from tests.support import table_rows, whole_api
from tests.support.in_process import InProcess
from tests.support.wsgi_client import Client

Json = dict[str, Any]

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
"""Requests to each route."""
FAKE = {f"{kind}_interface": "fake" for kind in fields.INTERFACE_KINDS} | {
    "network_interface": "noop",
    "storage_interface": "noop",
}
ROWS = whole_api.ROWS


@pytest.fixture(scope="module")
def told() -> Json:
    """The document."""
    return openapi.document(ROWS, *whole_api.ANSWERS)


def test_every_route_is_described_and_nothing_else(told: Json) -> None:
    routed = {(route.method, route.path) for route, _ in ROWS}
    described = {
        (method.upper(), path.removeprefix("/v1") or "/" if path != "/" else "")
        for path, methods in told["paths"].items()
        for method in methods
    }
    assert described == routed


def test_each_route_has_a_name_of_its_own_and_its_rule(told: Json) -> None:
    known = [one for methods in told["paths"].values() for one in methods.values()]
    names = [one["operationId"] for one in known]
    assert len(names) == len(set(names))
    assert all(one["summary"] for one in known)
    assert {one["x-policy"] for one in known if "x-policy" in one} <= policy.BY_NAME.keys()


def test_every_schema_is_one(told: Json) -> None:
    def schemas(value: Any) -> Iterator[Json]:
        if isinstance(value, dict):
            for key, one in value.items():
                if key == "schema":
                    yield one
                yield from schemas(one)
        elif isinstance(value, list):
            for one in value:
                yield from schemas(one)

    found = [*schemas(told), *told["components"]["schemas"].values()]
    assert len(found) > len(ROWS)
    for one in found:
        jsonschema.Draft202012Validator.check_schema(one)


def test_versions_and_types_are_those_of_the_tables(told: Json) -> None:
    node = told["components"]["schemas"]["Nodes"]["properties"]
    assert {field.name for field in fields.NODE} < node.keys()
    assert node["retired"] == {"type": ["boolean", "null"], "x-since": "1.61"}
    assert node["uuid"] == {"type": ["string", "null"]}
    listed = {one.get("name"): one for one in told["paths"]["/v1/nodes"]["get"]["parameters"]}
    assert {one.name for one in queries.NODES.filters} < listed.keys()
    assert listed["shard"]["x-since"] == "1.82"
    power = told["paths"]["/v1/nodes/{ident}/states/power"]["put"]
    taken = power["requestBody"]["content"]["application/json"]["schema"]
    assert (taken["required"], set(taken["properties"])) == (["target"], {"target", "timeout"})


@pytest.mark.feature("batches")
def test_changes_of_a_batch_take_if_match(told: Json) -> None:
    batch, state = (told["paths"][f"/v1/batches/{{ident}}{below}"] for below in ("", "/state"))
    match = {"$ref": "#/components/parameters/IfMatch"}
    for change in (batch["delete"], state["put"]):
        assert match in change["parameters"]
        assert "412" in change["responses"]
    assert match not in batch["get"]["parameters"]


def test_a_route_that_no_table_describes_is_refused_and_says_how_to_describe_it() -> None:
    class Odd(expose.Controller):
        @expose.expose("GET", "/oddities")
        def index(self, request: Any) -> Json:
            """Return something."""
            return {}

    with pytest.raises(openapi.Undescribed, match=r"GET /oddities .* by a row of `api\.openapi"):
        openapi.document(Odd.exposed())


def test_rows_of_answers_are_of_routes_that_are_there() -> None:
    from ironic_lite.api.openapi import answers  # noqa: PLC0415

    routed = {f"{route.method} {route.path}" for route, _ in ROWS}
    assert set(answers.ROUTES) - routed == set()


@pytest.mark.parametrize(
    ("operation", "refusals"),
    {
        "GET /v1/nodes": {400, 401, 403, 404, 406, 500, 503},
        "GET /v1/drivers": {400, 401, 403, 406, 500, 503},
        "POST /v1/nodes": {400, 401, 403, 406, 408, 409, 413, 422, 429, 500, 503},
        "DELETE /v1/nodes/{ident}": {400, 401, 403, 404, 406, 409, 412, 422, 429, 500, 503},
        "PUT /v1/nodes/states/console/{node_ident}": {
            *(400, 401, 403, 404, 406, 408, 409, 412, 413, 422, 424, 429, 500, 503),
        },
        "GET /v1/shards": {400, 401, 403, 404, 406, 500, 503},
        "GET /v1": {400, 403, 406, 500, 503},
        "GET /v1/lookup": {400, 403, 404, 406, 409, 429, 500, 503},
    }.items(),
)
def test_a_route_tells_the_refusals_that_it_can_come_to(
    told: Json, operation: str, refusals: set[int]
) -> None:
    """That no other comes is seen to by the client of all these tests."""
    method, path = operation.split()
    found = {int(code) for code in told["paths"][path][method.lower()]["responses"]}
    assert {code for code in found if code >= HTTPStatus.BAD_REQUEST} == refusals


def test_an_answer_that_is_not_there_yet_is_of_one_route(told: Json) -> None:
    later = {
        path
        for path, methods in told["paths"].items()
        if "202" in methods.get("get", {"responses": ()})["responses"]
    }
    assert {path for path in later if "vendor_passthru" not in path} == {
        "/v1/nodes/{ident}/cleaning/steps"
    }


def test_answers_and_headers_of_preferences_are_described(told: Json) -> None:
    responses = told["paths"]["/v1/nodes/{ident}/states/provision"]["put"]["responses"]
    run = {"application/json": {"schema": {"$ref": "#/components/schemas/Run"}}}
    assert (responses["200"]["content"], responses["202"]["x-preferred-content"]) == (run, run)
    assert {"Link", "Preference-Applied"} == responses["202"]["headers"].keys()
    assert "424" in responses
    shared = told["components"]["responses"]
    headers = {code: set(shared[f"Refused{code}"]["headers"]) for code in (409, 424, 503, 504)}
    assert headers == {
        409: {"Retry-After", "Preference-Applied"},
        424: {"Link", "Preference-Applied"},
        503: {"Retry-After", "Preference-Applied"},
        504: {"Retry-After"},
    }
    methods = [one for path in told["paths"].values() for one in path.values()]
    heeding = [
        one for one in methods if {"$ref": "#/components/parameters/Prefer"} in one["parameters"]
    ]
    shown = [any("headers" in answer for answer in one["responses"].values()) for one in heeding]
    assert len(heeding) > 30
    assert all(shown)


def test_refused_plan_is_a_plan_or_the_fault_of_a_reused_key(told: Json, api: Client) -> None:
    described = told["paths"]["/v1/nodes/{ident}/plan"]["post"]["responses"]["422"]
    kinds = described["content"]["application/json"]["schema"]["anyOf"]
    assert kinds[1] == {"$ref": "#/components/schemas/Fault"}
    key = {"Idempotency-Key": "one"}
    assert api.request("POST", "/v1/nodes", {"driver": "fake-hardware"}, headers=key).status == 201
    (node,) = api.get("/v1/nodes").json["nodes"]
    path = f"/v1/nodes/{node['uuid']}/plan"
    answer = api.request("POST", path, {"target": "manage"}, headers=key)
    assert (answer.status, "error_message" in answer.json) == (422, True)
    assert "accepted" in kinds[0]["required"]


def test_every_status_that_the_api_refuses_with_is_told() -> None:
    folder = pathlib.Path(controllers.__file__).parents[1]
    named = {
        HTTPStatus[node.attr]
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in HTTPStatus.__members__
    }
    refusals = {one for one in named if one >= HTTPStatus.BAD_REQUEST}
    # A method that a path does not have is none that is described; a plan with faults has a body.
    refusals -= {HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.UNPROCESSABLE_ENTITY}
    assert refusals <= {*parts.statuses()}


def test_documented_patch_is_one_that_the_api_reads(told: Json) -> None:
    sent = told["paths"]["/v1/nodes/{ident}"]["patch"]["requestBody"]["content"]
    known = sent["application/json"]["schema"]["items"]["properties"]
    every = [dict.fromkeys(known, 1) | {"op": op, "path": "/extra/a"} for op in known["op"]["enum"]]
    assert [one.op for one in patches.check_form(every, version=1)] == known["op"]["enum"]


def test_the_document_is_served_at_every_version(api: Client, told: Json) -> None:
    for version in (None, "1.1", "1.90", "latest"):
        answer = Client(api.app, version).get("/v1/openapi.json")
        assert (answer.status, answer.json["info"]) == (200, told["info"])


# -- what schemathesis makes of it -----------------------------------------------------------


class Machines:
    """A service with something of each kind, and what may stand for it in paths."""

    def __init__(self, database: Database) -> None:
        self.whole = InProcess(database)
        states = ("manageable", "available", "active", "enroll", "clean failed")
        make = self.whole.rig.node
        nodes = [make(name=f"n{n}", provision_state=s, **FAKE) for n, s in enumerate(states)]
        self.known: dict[str, list[str]] = {"NODES": [*nodes, "n0"], "DRIVERS": ["fake-hardware"]}
        for name, resource in queries.RESOURCES.items():
            table = table_rows.table_of(name) if isinstance(resource, queries.Resource) else None
            if table is None or name in self.known:
                continue
            below = {"node_uuid": nodes[0]} if "node_uuid" in table.c else {}
            (row,) = table_rows.fill(database, table, 1, below)
            key = next((one for one in ("uuid", "hostname", "name") if one in row), None)
            self.known[name] = [str(row[key])] if key is not None else []

    def of(self, path: str) -> list[str]:
        """Return what may stand for the first ``{...}`` of a path."""
        place = path.partition("{")[0].removeprefix("/v1").rstrip("/")
        name = "DRIVERS" if place == "/drivers" else resource_name(place)
        return self.known.get(name or "", [])


def _requests(operation: Any, machines: Machines) -> st.SearchStrategy[Any]:
    """Return what is sent: of most requests the first name is of something there is, and most
    speak the newest version and are bound to no tag, or they would all be refused alike.
    """
    places = re.findall(r"\{(\w+)\}", operation.path)
    first = places[0] if places else ""
    names = machines.of(operation.path) if first else []

    def aim(drawn: tuple[Any, str | None, bool]) -> Any:
        case, name, newest = drawn
        if name is not None:
            case.path_parameters[first] = name
        if newest and case.headers:
            case.headers.pop("X-OpenStack-Ironic-API-Version", None)
            case.headers.pop("If-Match", None)
        if newest and "q" in case.query:
            case.query["q"] = "n0"  # a search that finds something
        # Streams need the server: tests/api/test_watch.py and test_run_logs_and_times.py.
        case.query.pop("follow", None)
        return case

    name = st.sampled_from([*names, *names, None]) if names else st.none()
    return st.tuples(operation.as_strategy(), name, st.sampled_from([True, True, False])).map(aim)


def test_every_answer_is_as_the_document_says(sqlite_database: Database) -> None:
    # Only the worker that runs this test loads the library, which takes half a second.
    import schemathesis  # noqa: PLC0415
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415
    from schemathesis.core.result import Ok  # noqa: PLC0415
    from schemathesis.specs.openapi import checks as conformance  # noqa: PLC0415

    checks = [
        not_a_server_error,
        conformance.status_code_conformance,
        conformance.content_type_conformance,
        conformance.response_headers_conformance,
        conformance.response_schema_conformance,
    ]
    machines = Machines(sqlite_database)
    schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", machines.whole.api.app)
    wrong: dict[tuple[str, int], str] = {}
    statuses: set[int] = set()
    operations: list[Any] = []
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operations.append(found.ok())

    def send(operation: Any) -> None:
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize="FUZZ_EXAMPLES" not in os.environ,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=_requests(operation, machines))
        def each(case: Any) -> None:
            answer = case.call()
            statuses.add(answer.status_code)
            # A wait that ends too early is answered by 504, which the document has.
            asked = checks[1:] if answer.status_code == HTTPStatus.GATEWAY_TIMEOUT else checks
            try:
                case.validate_response(answer, checks=asked)
            except BaseExceptionGroup as why:
                text = "\n".join(str(one) for one in why.exceptions)
                shown = f"{text}\n{case.as_curl_command()}"
                wrong.setdefault((operation.label, answer.status_code), shown)

        each()

    # What may be forgotten is forgotten last.
    for operation in sorted(operations, key=lambda one: one.method.upper() == "DELETE"):
        send(operation)
    assert machines.whole.rig.service.runtime.workers.wait_idle(60)
    machines.whole.close()
    assert not wrong, "\n\n".join(f"{label} {code}: {why}" for (label, code), why in wrong.items())
    assert {200, 201, 202, 204, 400, 404, 406} <= statuses
