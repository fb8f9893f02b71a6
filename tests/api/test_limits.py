"""Limits of requests, of the rows of one project, and of the requests from one source."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.http import limits, refusals, request
from ironic_lite.api.resources import crud
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Database
from ironic_lite.rpc.stub import RpcCall, Send
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, As, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.resource_families import FAMILIES, store_allocations
from tests.support.wsgi_client import Client, Response, op

# Too much at once: what waits for one thing leaves the rest alone, and nobody waits for ever.

FEW = 2
HEARTBEAT = {"callback_url": "https://192.0.2.1:9999", "agent_version": "1", "agent_token": "t"}
JSON_OF_CLEAN = {"target": "clean", "clean_steps": [{"interface": "power", "step": "cycle"}]}


class Hanging:
    """A conductor that answers nothing before it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.inside = threading.Semaphore(0)

    def __call__(self, **_: Any) -> Any:
        self.inside.release()
        assert self.go.wait(60)
        return {}


@pytest.fixture
def hanging(recorder: Recorder) -> Iterator[Hanging]:
    """What all methods of the conductor do that the tests call."""
    found = Hanging()
    for method in ("start_verb", "heartbeat", "get_boot_device"):
        recorder.answers[method] = found
    yield found
    found.go.set()


@pytest.fixture
def small(
    database: Database, recorder: Recorder, conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> Client:
    """An API with few places, where nobody waits long for one."""
    for option in ("max_changes", "max_agent_requests", "max_questions"):
        conf.set_override(option, FEW, group="api")
    monkeypatch.setattr(limits, "PATIENCE", 0.01)
    return Client(whole_api.build(database, recorder, conf))


Ask = Callable[[], Response]


@pytest.fixture
def asks(small: Client, add_node: AddNode) -> dict[str, Ask]:
    """One request for each room, all about nodes."""
    node = add_node(provision_state="manageable")["uuid"]
    path = f"/v1/nodes/{node}"
    return {
        limits.READS: lambda: small.get(path),
        limits.CHANGES: lambda: small.put(f"{path}/states/provision", JSON_OF_CLEAN),
        limits.AGENTS: lambda: small.post(f"/v1/heartbeat/{node}", HEARTBEAT),
        limits.QUESTIONS: lambda: small.get(f"{path}/management/boot_device"),
    }


@pytest.mark.parametrize("crowded", [limits.CHANGES, limits.AGENTS, limits.QUESTIONS])
def test_a_full_room_refuses_and_leaves_the_others_alone(
    asks: dict[str, Ask], hanging: Hanging, crowded: str
) -> None:
    with futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(asks[crowded]) for _ in range(FEW)]
        for _ in range(FEW):
            assert hanging.inside.acquire(timeout=60)
        refused = asks[crowded]()
        assert (refused.status, refused.headers["connection"]) == (503, "close")
        assert 5 <= int(refused.headers["retry-after"]) <= 10
        assert "retry later" in refused.text
        assert asks[limits.READS]().status == 200
        others = [pool.submit(asks[name]) for name in asks if name not in (crowded, limits.READS)]
        for _ in others:
            assert hanging.inside.acquire(timeout=60)
        hanging.go.set()
        assert {each.result(60).status for each in waiting + others} <= {200, 202}
    assert asks[crowded]().status in (200, 202)


def test_reads_have_their_bound_as_well(
    small: Client, conf: cfg.ConfigOpts, database: Database, recorder: Recorder
) -> None:
    conf.set_override("max_reads", 1, group="api")
    places = limits.ConcurrencyLimits(conf, patience=0.01)
    with places.enter(limits.READS):
        with pytest.raises(errors.TooManyRequests, match="max_reads"), places.enter(limits.READS):
            pass
        with places.enter(limits.QUESTIONS), places.enter(limits.CHANGES):
            pass
    with places.enter(limits.READS):
        pass


def test_one_project_leaves_questions_to_others(conf: cfg.ConfigOpts) -> None:
    conf.set_override("max_questions", 4, group="api")
    places = limits.ConcurrencyLimits(conf, patience=0.01)
    hanging = Hanging()

    def ask(project: str | None, room: str, send: Send = lambda _: "answer") -> object:
        call = RpcCall("get_boot_device", Context("req-1", project=project), {})
        with places.enter(room):
            return places.limit_question(call, send)

    with futures.ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask, "p", limits.READS, lambda _: hanging()) for _ in range(2)]
        for _ in waiting:
            assert hanging.inside.acquire(timeout=60)
        with pytest.raises(errors.TooManyRequests, match="2 of one project"):
            ask("p", limits.READS)
        assert ask("p", limits.CHANGES) == "answer"
        assert ask("q", limits.READS) == ask(None, limits.READS) == "answer"
        hanging.go.set()
        for one in waiting:
            one.result(60)
    assert ask("p", limits.READS) == "answer"


@pytest.mark.parametrize(
    ("method", "path", "room"),
    [
        ("GET", "/nodes", limits.READS),
        ("HEAD", "/nodes", limits.READS),
        ("GET", "", limits.READS),
        ("GET", "/lookup", limits.AGENTS),
        ("POST", "/heartbeat/1", limits.AGENTS),
        ("POST", "/continue_inspection", limits.AGENTS),
        ("POST", "/nodes", limits.CHANGES),
        ("DELETE", "/nodes/1", limits.CHANGES),
        ("NONSENSE", "/nodes", limits.CHANGES),
    ],
)
def test_the_room_of_a_request(method: str, path: str, room: str) -> None:
    assert limits.room_of(method, path) == room


def _family(root: type[errors.Error]) -> Iterator[type[errors.Error]]:
    yield root
    for child in root.__subclasses__():
        yield from _family(child)


@pytest.mark.parametrize("kind", list(_family(errors.Unavailable)), ids=lambda kind: kind.__name__)
def test_each_503_says_when_to_come_back(kind: type[errors.Unavailable]) -> None:
    refusal = refusals.of(kind())
    seconds = int(dict(refusal.headers)["Retry-After"])
    assert (refusal.status, kind.retry_after <= seconds <= 2 * kind.retry_after) == (503, True)


def test_locked_node_answers_when_to_come_back() -> None:
    short = refusals.of(errors.NodeLocked(node="n", host="h"))
    assert int(dict(short.headers)["Retry-After"]) in (1, 2)
    long = refusals.of(errors.NodeLocked(node="n", host="h", run="r"))
    assert 5 <= int(dict(long.headers)["Retry-After"]) <= 10


def test_other_refusals_have_no_retry_header() -> None:
    assert refusals.of(errors.NodeProtected(node="n")).headers == ()


# What the callers of one project may add is limited; nobody else is affected.

MIB = 1024 * 1024
STEPS = [{"interface": "bios", "step": "factory_reset", "args": {}, "order": 1}]


BY_TABLE = {family.path.replace("/", "_"): family for family in FAMILIES.values()}


class Adding:
    """Adds resources of each table as a caller, each with another name."""

    def __init__(self, node: str) -> None:
        self._count = 0
        self._node = node

    def __call__(self, caller: As, table: str, **more: Any) -> Response:
        if table == "nodes":
            return caller.post("/v1/nodes", {"driver": "fake-hardware", **more})
        self._count += 1
        family = BY_TABLE[table]
        node = {"node_uuid": self._node} if family.of_node else {}
        return caller.post(family.place, {**node, **family.values(self._count), **more})


@pytest.fixture
def adding(database: Database, recorder: Recorder, add_node: AddNode) -> Adding:
    store_allocations(recorder, database)
    node = add_node(owner=OWNER, provision_state="manageable", power_state="power off")
    return Adding(node["uuid"])


OPTIONS = sorted({(table, limit.option) for table, limit in crud.PROJECT_LIMITS.items()})


@pytest.mark.parametrize(("table", "option"), OPTIONS)
def test_project_may_add_as_much_as_the_option_says(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, table: str, option: str
) -> None:
    mine = callers("admin", OWNER)
    there = 1 if table == "nodes" else 0  # the node of the fixture
    conf.set_override(option, 2 + there, "api")
    first, second, third = (adding(mine, table) for _ in range(3))
    assert (first.status, second.status) == (201, 201), (first.text, second.text)
    assert third.status == 409, third.text
    what = crud.PROJECT_LIMITS[table].what
    for word in (f"{2 + there} {what}", f"[api]{option}", "raise the option"):
        assert word in third.text
    assert adding(callers("admin"), table).status == 201
    if table in {"allocations", "runbooks", "nodes"}:
        assert adding(callers("admin", STRANGER), table).status == 201
    conf.set_override(option, 0, "api")
    assert adding(mine, table).status == 201


@pytest.mark.parametrize("table", ["nodes", "allocations", "runbooks"])
def test_room_is_free_again_after_a_deletion(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, table: str
) -> None:
    mine = callers("admin", OWNER)
    conf.set_override(crud.PROJECT_LIMITS[table].option, 2, "api")
    if table != "nodes":
        adding(mine, table)
    made = adding(mine, table)
    assert adding(mine, table).status == 409
    if table == "nodes":  # a conductor deletes nodes
        return
    assert mine.delete(f"/v1/{table}/{made.json['uuid']}").status == 204
    assert adding(mine, table).status == 201


@pytest.mark.parametrize("table", sorted(crud.PROJECT_LIMITS))
def test_large_rows_of_a_project_take_limited_room(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, table: str
) -> None:
    conf.set_override("project_max_mib", 1, "api")
    mine = callers("admin", OWNER)
    large = {"extra": {"text": "x" * (400 * 1024)}}
    first, second, third = (adding(mine, table, **large) for _ in range(3))
    assert (first.status, second.status) == (201, 201), (first.text, second.text)
    assert third.status == 409, third.text
    for word in ("1 MiB", "[api]project_max_mib", crud.PROJECT_LIMITS[table].what):
        assert word in third.text
    assert adding(mine, table, extra={"text": "x" * 1000}).status == 201
    assert adding(callers("admin"), table, **large).status == 201


def path_of(table: str) -> str:
    return f"/v1/{table.replace('volume_', 'volume/')}"


@pytest.mark.parametrize("table", sorted(crud.PROJECT_LIMITS))
def test_changes_are_limited_as_additions(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, table: str
) -> None:
    conf.set_override("project_max_mib", 1, "api")
    mine = callers("admin", OWNER)
    made = [adding(mine, table).json["uuid"] for _ in range(3)]

    def change(ident: str, kib: int, caller: As = mine) -> int:
        patch = [op("add", "/extra", {"text": "x" * (kib * 1024)})]
        answer = caller.patch(f"{path_of(table)}/{ident}", patch)
        assert answer.status in {200, 409}, answer.text
        return answer.status

    assert [change(ident, 400) for ident in made] == [200, 200, 409]
    assert [change(made[0], kib) for kib in (700, 400, 380, 1)] == [409, 200, 200, 200]
    assert change(made[2], 400) == 200
    assert change(made[0], 900, callers("admin")) == 200
    assert [change(made[0], kib) for kib in (901, 899)] == [409, 200]


def test_rows_of_other_owners_do_not_count(
    callers: Callers, add_node: AddNode, adding: Adding, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("project_max_nodes", 2, "api")
    for _ in range(3):
        add_node(owner=STRANGER)
    assert adding(callers("admin", OWNER), "nodes").status == 201


def test_limited_request_to_a_conductor_is_not_sent(
    callers: Callers, adding: Adding, conf: cfg.ConfigOpts, recorder: Recorder
) -> None:
    conf.set_override("project_max_allocations", 1, "api")
    member = callers("member", OWNER)
    assert [adding(member, "allocations").status for _ in range(2)] == [201, 409]
    assert [name for name, _ in recorder.calls] == ["create_allocation"]


def test_what_the_service_writes_counts_for_no_limit(
    callers: Callers, add_node: AddNode, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("project_max_mib", 1, "api")
    cached_steps = {"agent_cached_clean_steps": "x" * (600 * 1024)}
    node, _ = (add_node(owner=OWNER, driver_internal_info=cached_steps) for _ in range(2))
    patch = [op("add", "/extra", {"text": "x" * (20 * 1024)})]
    answer = callers("admin", OWNER).patch(f"/v1/nodes/{node['uuid']}", patch)
    assert answer.status == 200, answer.text


def test_changes_by_a_lessee_are_limited_by_the_nodes_that_it_leases(
    callers: Callers, add_node: AddNode, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("project_max_mib", 1, "api")
    lent = [add_node(owner=OWNER, lessee=LESSEE)["uuid"] for _ in range(3)]
    add_node(owner=OWNER, extra={"text": "x" * MIB})
    patch = [op("add", "/extra", {"text": "x" * (400 * 1024)})]
    answers = [callers("admin", LESSEE).patch(f"/v1/nodes/{node}", patch) for node in lent]
    assert [answer.status for answer in answers] == [200, 200, 409]
    assert f"Project {LESSEE} has nodes" in answers[2].text


# The address of a client, and the network that counts as one source.


@pytest.mark.parametrize(
    ("environ", "proxied", "address"),
    [
        ({"REMOTE_ADDR": "192.0.2.1"}, False, "192.0.2.1"),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "192.0.2.7"}, False, "192.0.2.1"),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "a, 192.0.2.7"}, True, "192.0.2.7"),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "a, "}, True, "192.0.2.1"),
        ({"REMOTE_ADDR": "", "HTTP_X_FORWARDED_FOR": "x" * 99}, True, "x" * 64),
        ({}, True, ""),
    ],
)
def test_a_trusted_proxy_names_the_address(
    environ: dict[str, str], proxied: bool, address: str
) -> None:
    assert request.client_address(environ, proxied=proxied) == address


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_an_address_has_its_network(address: str, network: str) -> None:
    assert request.client_network(address) == network
