"""Too much at once: what waits for one thing leaves the rest alone, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api import app
from ironic_lite.api.traffic import limits
from ironic_lite.api.wire import refusals
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Database
from ironic_lite.rpc.stub import Call, Send
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, Response

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
    for method in ("do_node_clean", "heartbeat", "get_boot_device"):
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
    return Client(app.build(database, recorder, conf))


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
        with places.asking(), places.enter(limits.CHANGES):
            pass
    with places.enter(limits.READS):
        pass


def test_one_project_leaves_questions_to_others(conf: cfg.ConfigOpts) -> None:
    conf.set_override("max_questions", 4, group="api")
    places = limits.ConcurrencyLimits(conf, patience=0.01)
    hanging = Hanging()

    def ask(project: str | None, room: str, send: Send = lambda _: "answer") -> object:
        call = Call("get_boot_device", Context("req-1", project=project), {})
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
