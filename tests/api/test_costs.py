"""What requests cost: SQL statements, and memory after their answers."""

from __future__ import annotations

import collections
import gc
import itertools
import logging
import os
import pathlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
import pytest
from oslo_config import cfg

from ironic_lite.api import middleware, openapi
from ironic_lite.api.openapi import resource_name
from ironic_lite.api.openapi.parts import LINKS
from ironic_lite.api.resources import queries
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models, reencryption
from ironic_lite.domain import fields
from tests.support import every_route, whole_api
from tests.support.api_rows import AddNode
from tests.support.callers import Callers
from tests.support.conductor_recorder import Recorder
from tests.support.in_process import InProcess
from tests.support.statements import count_statements
from tests.support.table_rows import OWNER, fill, table_of
from tests.support.wsgi_client import Client, environment

# How many SQL statements an operation costs, its conductor's among them: they shall not creep up.
#
# Each number is a budget of ``benchmarks/README.rst`` or what has been reached below it.

FAKE = {f"{kind}_interface": "fake" for kind in fields.INTERFACE_KINDS} | {
    "network_interface": "noop",
    "storage_interface": "noop",
}


@pytest.fixture
def whole(sqlite_database: Database) -> Iterator[InProcess]:
    """API and conductor, with a conductor registered and known."""
    service = InProcess(sqlite_database)
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


def without_search(sent: Sequence[str]) -> list[str]:
    """Return statements without the one by which the search, if it is on, notes a change."""
    noted = [one for one in sent if one.startswith("INSERT INTO search_changes")]
    assert len(noted) <= 1
    return [one for one in sent if one not in noted]


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
    assert len(without_search(sent)) <= 3, sent


def test_a_node_is_enrolled_by_two(whole: InProcess) -> None:
    body = {"driver": "fake-hardware", "uuid": str(uuid.uuid4())}
    sent = whole.sent(lambda api: api.post("/v1/nodes", body), 201)
    assert len(without_search(sent)) <= 2, sent


def test_a_port_is_created_by_three(whole: InProcess, node: str) -> None:
    body = {"node_uuid": node, "address": "52:54:00:00:00:01"}
    sent = whole.sent(lambda api: api.post("/v1/ports", body), 201)
    assert len(sent) <= 3, sent


def test_a_refused_verb_costs_one_read(whole: InProcess, node: str) -> None:
    path = f"/v1/nodes/{node}/states/provision"
    sent = whole.sent(lambda api: api.put(path, {"target": "rebuild"}), 400)
    assert len(sent) == 1, sent


def test_power_is_changed_by_eleven(whole: InProcess, node: str) -> None:
    path = f"/v1/nodes/{node}/states/power"
    sent = whole.sent(lambda api: api.put(path, {"target": "power off"}), 202)
    # One asks whether this request has been carried out before. Two read the children: while the
    # client waits, and before they are switched off.
    assert len(sent) <= 11, sent


def test_a_whole_manual_clean_with_one_step_takes_fourteen(whole: InProcess, node: str) -> None:
    sent = whole.cleaned(node, 1)
    # The log of a run that takes long is written more than once.
    logs = sum(statement.startswith("INSERT INTO run_logs") for statement in sent)
    assert len(sent) - max(0, logs - 1) <= 14, sent


def test_each_further_clean_step_takes_three(whole: InProcess, node: str) -> None:
    whole.cleaned(node, 1)
    few, many = len(whole.cleaned(node, 2)), len(whole.cleaned(node, 10))
    assert many - few <= 8 * 3


@pytest.mark.feature("erasures")
def test_each_further_erasing_step_takes_eight(whole: InProcess) -> None:
    disk = {"name": "/dev/sda", "serial": "S1", "result": "erased", "level": "clear"}
    node = whole.rig.node(**FAKE, driver_info={"fake_erasures": [disk]})

    def sent(steps: int) -> int:
        found = whole.cleaned(node, steps, "deploy.erase_devices")
        # The search follows a node in a thread of its own.
        return sum(
            "search_" not in one and "nodes.extra, nodes.instance_name" not in one for one in found
        )

    sent(1)
    assert sent(10) - sent(2) <= 8 * 8


# A list of a hundred rows costs as many statements as one of a single row: every list there is.
#
# The lists are those of the table of routes, as the document of the API has them; their rows are
# made by the tables of the database. A new list is measured as soon as it has a route. Each is
# asked for by anybody, where nobody has to log in, and by somebody whom rules bind.

MANY = 100
MOST = 2
"""Statements of a list: one for whose rows they are, and one for the rows."""
PARENTS = {
    "nodes": "node_uuid",
    "chassis": "chassis_uuid",
    "portgroups": "portgroup_uuid",
    "batches": "batch_uuid",
}
ASKED_OF_CONDUCTORS = {
    *("/nodes/{ident}/cleaning/steps", "/nodes/{ident}/management/boot_device/supported"),
    *("/nodes/{ident}/management/indicators", "/nodes/{ident}/management/indicators/{component}"),
    *("/nodes/{ident}/vmedia", "/nodes/{ident}/vifs", "/doctor"),
}
FOLLOWED = {"/events"}
"""Lists whose statements `test_watch` counts."""
KEPT = {"/attention", "/doctor", "/stats/nodes", "/stats/steps"}
"""Answers that a process makes once in a while, for all requests."""
BOUNDED = {"/search", "/webhooks", "/webhooks/{ident}/failed"}
"""Lists of at most a hundred rows, whose own tests count their statements."""
OF_ONE_ROW = {
    *("", "/runbooks/{ident}/traits", "/drivers/{name}", "/conductors/{hostname}/counters"),
    *("/nodes/{ident}/why", "/whoami"),
}
"""Lists that are a value of one row, or of the code."""
"""First word of a path, and the column by which the rows below belong to one of those."""


def answers() -> Iterator[tuple[str, Any]]:
    """Give the path of every GET, and the schema of its answer."""
    for each in whole_api.CONTROLLERS:
        for route, handler in each.exposed():
            if route.method == "GET":
                (told,) = openapi.document([(route, handler)], *whole_api.ANSWERS)["paths"].values()
                content = told["get"]["responses"]["200"].get("content", {})
                yield route.path, content.get("application/json", {}).get("schema", {})


def holds_a_list(schema: Any) -> bool:
    """Tell whether an answer is a list, or has one that is not of links."""
    parts = [schema, *schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    return any(one.get("type") == "array" and one != LINKS for one in parts) or any(
        holds_a_list(one) for one in schema.get("anyOf", ())
    )


ANSWERS = dict(answers())
LISTS = sorted(path for path, schema in ANSWERS.items() if "next" in schema.get("properties", {}))
OTHERS: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    # path: of which table it lists rows, and what makes them its own
    "/drivers": (
        "hardware_interfaces",
        lambda n: {"conductor_id": 1, "hardware_type": f"type-{n}", "interface_type": "power"},
    ),
    "/shards": ("nodes", lambda n: {"shard": f"shard-{n}"}),
    "/nodes/{ident}/children": ("nodes", lambda _: {"parent_node": PARENT}),
    "/nodes/{ident}/traits": ("node_traits", lambda n: {"node_uuid": PARENT, "trait": f"T_{n}"}),
}
PARENT = "6e0b0a1e-1d6b-4f0a-9d4e-0123456789ab"


@pytest.mark.feature(
    *("attention", "batches", "doctor", "erasures", "events", "search", "statistics"),
    *("webhooks", "why"),
)
def test_all_lists_are_known() -> None:
    found = {path for path, schema in ANSWERS.items() if holds_a_list(schema)}
    others = OTHERS.keys() | ASKED_OF_CONDUCTORS | OF_ONE_ROW | FOLLOWED | KEPT | BOUNDED
    assert found == {*LISTS} | others


@pytest.fixture(params=["anybody", "by rules"])
def asking(
    request: pytest.FixtureRequest, api: Client, callers: Callers
) -> Callable[[str], Client]:
    """Return who asks for a path: the owner of all, or who sees all where no owner may."""

    def of(path: str) -> Client:
        if request.param == "anybody":
            return api
        owner = callers("admin", OWNER)
        return callers("reader") if owner.get(path).status in {403, 404} else owner

    return of


@pytest.mark.parametrize("path", OTHERS)
def test_a_list_without_pages_costs_the_same_however_many_rows_it_has(
    asking: Callable[[str], Client], database: Database, path: str
) -> None:
    name, own = OTHERS[path]
    table = models.metadata.tables[name]
    fill(database, models.nodes, 1, {"uuid": PARENT})
    place = f"/v1{path}".replace("{ident}", PARENT)
    found = []
    for numbers in (range(1), range(1, MANY)):
        for number in numbers:
            fill(database, table, 1, own(number))
        api = asking(place)
        api.get(place)
        with count_statements(database) as sent:
            answer = api.get(place)
        assert answer.status == 200, answer.body
        found.append((len(_rows(answer.json)), len(sent)))
    (fewer, cheap), (more, dear) = found
    assert (more - fewer, dear) == (MANY - 1, cheap)
    assert dear <= MOST


@pytest.mark.parametrize("path", LISTS)
def test_a_list_costs_the_same_however_many_rows_it_has(
    asking: Callable[[str], Client], database: Database, path: str
) -> None:
    name = resource_name(path)
    assert name is not None
    resource = queries.RESOURCES[name]
    table = table_of(name)
    assert table is not None, (
        f"{name} has a table of another name: write it into TABLES of tests.support.table_rows"
    )
    parent = _parent(database, path)
    place = "/v1" + path.replace("{ident}", str(parent))
    api = asking(place)
    asked = [place]
    if not path.endswith("/detail"):
        asked.append(f"{place}?fields={','.join(one.name for one in resource.table)}")
    costs = []
    for count in (1, MANY - 1):
        known = {_owner(path): parent} if parent else {}
        if path == "/erasures":  # rows without a foreign key to their node
            (node,) = fill(database, models.nodes, 1, {})
            known = {"node_uuid": node["uuid"]}
        fill(database, table, count, known)
        for one in asked:
            api.get(one)  # what is read once and kept
        for one in asked:
            with count_statements(database) as sent:
                answer = api.get(one)
            assert answer.status == 200, answer.body
            costs.append((one, len(_rows(answer.json)), list(sent)))
    few, many = costs[: len(asked)], costs[len(asked) :]
    for (one, fewer, cheap), (_, more, dear) in zip(few, many, strict=True):
        assert more - fewer == MANY - 1, f"{one} shows {fewer} and {more} rows"
        assert len(dear) == len(cheap), f"{one} costs {len(cheap)} and then {len(dear)}: {dear}"
        # Who is bound by rules may see a portgroup whose node he may see, which is read as well.
        most = MOST + path.startswith("/portgroups/{ident}")
        assert len(dear) <= most + ("serial" in one), dear  # serial numbers are beside the nodes


def _rows(body: dict[str, Any]) -> list[Any]:
    return next(value for name, value in body.items() if name != "next")


def _owner(path: str) -> str:
    return PARENTS[path.split("/")[1]]


def _parent(database: Database, path: str) -> str | None:
    """Put in whose rows are listed; None for a list of all."""
    if "{ident}" not in path:
        return None
    (row,) = fill(database, models.metadata.tables[path.split("/")[1]], 1, {})
    return str(row["uuid"])


# No request outlives its answer: neither its objects nor its memory wait for the collector.

MIB = 1024 * 1024
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM = pathlib.Path("/proc") / str(os.getpid()) / "statm"


class _Forgotten(list[Any]):
    def append(self, _: Any) -> None:
        """Keep nothing."""


@pytest.fixture
def recorder() -> Recorder:
    """A conductor that does not keep what it was asked."""
    found = Recorder()
    found.calls, found.hosts, found.contexts = _Forgotten(), _Forgotten(), _Forgotten()
    return found


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage collector, and nothing left for it that is older; no log, which tests keep."""
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


def _resident() -> float:
    """Return the memory of this process in MiB."""
    return int(_STATM.read_text().split()[1]) * _PAGE / MIB


def _send(application: middleware.Wsgi, method: str, path: str, body: bytes) -> int:
    environ = environment(method, path, body)
    environ["CONTENT_TYPE"] = "application/json"
    told: list[str] = []
    b"".join(application(environ, lambda status, _headers: told.append(status)))
    return int(told[0].split()[0])


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "header", ["X-OpenStack-Ironic-API-Version", "OpenStack-API-Version", "Host"]
)
def test_headers_are_not_remembered_with_all_their_length(api: Client, header: str) -> None:
    """As many as fit into a cache: 64 KiB each."""
    end = "1.81,compute 2.1" if header.startswith("O") else "1.81"
    for _ in range(10):
        api.get("/v1", headers={header: "baremetal " + end})
    before = _resident()
    for place in range(300):
        name = f"compute {place}{'0' * 60_000},baremetal 1.81" if "S" in header else ""
        api.get("/v1", headers={header: name or f"{place}{'a' * 60_000}"})
    assert _resident() - before < 6


@pytest.mark.usefixtures("uncollected")
def test_fields_and_addresses_are_not_remembered_with_all_their_length(
    api: Client, add_node: AddNode
) -> None:
    node = add_node()["uuid"]
    chosen = ["uuid,name,", "name,uuid,", "driver,uuid,", "uuid,driver,"]

    def ask(place: int) -> None:
        names = chosen[place % 4] * (3000 + place)
        assert api.get(f"/v1/nodes?fields={names[:-1]}").status == 200
        url = f"http://10.0.0.1:9999/{place}{'a' * 40_000}"
        beat = {"callback_url": url, "agent_token": "x", "agent_version": "1"}
        assert api.post(f"/v1/heartbeat/{node}", beat).status == 400

    for place in range(10):
        ask(place)
    before = _resident()
    for place in range(200):
        ask(place)
    assert _resident() - before < 6


@pytest.fixture
def requests(add_node: AddNode, conf: cfg.ConfigOpts) -> list[every_route.Request]:
    """A thousand requests over every route; nothing is removed for the next one."""
    conf.set_override("ramdisk_refusals_per_minute", 0, "api")
    node = add_node(name="known", provision_state="manageable")["uuid"]
    some = every_route.requests({"ident": node, "node_ident": node})
    kept = [one for one in some if not (one[0] == "DELETE" and one[1].endswith(node))]
    return list(itertools.islice(itertools.cycle(kept), max(1000, len(kept))))


@pytest.mark.usefixtures("uncollected")
def test_reference_counting_alone_frees_a_thousand_requests_of_every_route(
    application: middleware.Wsgi, requests: list[every_route.Request]
) -> None:
    large = orjson.dumps({"filling": "x" * 200_000, "more": [{"a": 1.5}] * 2000})
    own = [
        (method, path, large if body and place % 3 == 0 else body)
        for place, (method, path, body) in enumerate(requests)
    ]
    for one in own:  # what is made once: statements, plans, connections
        _send(application, *one)
    gc.collect()
    objects, memory, told = len(gc.get_objects()), _resident(), collections.Counter[int]()
    for one in own:
        told[_send(application, *one)] += 1
    grown, more = len(gc.get_objects()) - objects, _resident() - memory
    left = gc.collect()
    assert left == 0, f"{left} objects of the requests were in cycles"
    assert grown < len(own), f"{grown} objects more than before"
    assert more < 16, f"{more} MiB more after 60 MiB of bodies"
    assert told.keys() >= {200, 202, 204, 400, 404}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(("target", "status"), [("active", 202), ("nonsense", 400)])
def test_memory_of_bodies_of_16_mib_returns(
    application: middleware.Wsgi, add_node: AddNode, target: str, status: int
) -> None:
    node = add_node(provision_state="available")["uuid"]
    body = orjson.dumps({"target": target, "configdrive": "H4sI" * 4 * MIB})
    path = f"/v1/nodes/{node}/states/provision"
    assert _send(application, "PUT", path, body) == status
    before = _resident()
    for _ in range(4):
        assert _send(application, "PUT", path, body) == status
    assert _resident() - before < 8, "one of them is larger"


@pytest.mark.usefixtures("uncollected")
def test_reference_counting_frees_the_examination_of_keys(sqlite_database: Database) -> None:
    """The doctor examines at most every ten seconds, so not with each request above."""
    for _ in range(2):
        reencryption.missing_keys(sqlite_database)
        left = gc.collect()
    assert left == 0
