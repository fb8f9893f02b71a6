"""What the RSGI application makes of a request: its WSGI environment, and bounds by address."""

from __future__ import annotations

import asyncio
import threading
import types
from collections.abc import AsyncIterator
from typing import Any

import pytest
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]  # exported, but not marked so
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api import middleware, rsgi
from ironic_lite.api.policy.access import Access
from ironic_lite.api.traffic import body_reader, source_limit
from ironic_lite.api.wire import request
from ironic_lite.api.wire.later import Stream, Suspension
from ironic_lite.db.engine.session import Database
from ironic_lite.feed.events import Filter
from ironic_lite.feed.tail import Tail


class Headers:
    """Headers as granian has them: values that are not ASCII are among no items."""

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self._pairs = pairs

    def keys(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self._pairs))

    def items(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self._pairs if value.isascii()]


def scope(*headers: tuple[str, str], **more: Any) -> Any:
    plain = {
        "method": "GET",
        "path": "/v1/nodes",
        "query_string": "",
        "server": "127.0.0.1:6385",
        "client": "192.0.2.1:4321",
        "http_version": "1.1",
        "scheme": "http",
        "authority": None,
    }
    return types.SimpleNamespace(**{**plain, **more}, headers=Headers(*headers))


def test_a_header_that_comes_twice_is_joined() -> None:
    found = rsgi.environment(scope(("if-match", '"1"'), ("if-match", '"2"')))
    assert found["HTTP_IF_MATCH"] == '"1","2"'


def test_a_condition_that_is_no_text_is_not_left_out() -> None:
    found = rsgi.environment(scope(("if-match", "é"), ("host", "x")))
    assert (found["HTTP_IF_MATCH"], found["HTTP_HOST"]) == ("\ufffd", "x")


def test_a_name_with_an_underscore_stands_for_no_other_header() -> None:
    found = rsgi.environment(scope(("x_forwarded_for", "192.0.2.9"), ("content-type", "a/b")))
    assert "HTTP_X_FORWARDED_FOR" not in found
    assert found["CONTENT_TYPE"] == "a/b"


def test_a_target_in_absolute_form_names_the_host() -> None:
    assert rsgi.environment(scope(("host", "a"), authority="b:1"))["HTTP_HOST"] == "b:1"


@pytest.mark.parametrize(
    ("client", "address"),
    [("192.0.2.1:4321", "192.0.2.1"), ("[2001:db8::1]:4321", "2001:db8::1"), ("", "")],
)
def test_the_address_of_a_client_has_no_port(client: str, address: str) -> None:
    assert rsgi.environment(scope(client=client))["REMOTE_ADDR"] == address


def test_text_is_bytes_in_latin_1_as_wsgi_has_it() -> None:
    found = rsgi.environment(scope(path="/v1/nodes/é", query_string="a=é"))
    assert found["PATH_INFO"].encode("latin-1").decode() == "/v1/nodes/é"
    assert found["QUERY_STRING"].encode("latin-1").decode() == "a=é"


@pytest.fixture
def limit(conf: cfg.ConfigOpts) -> source_limit.SourceLimit:
    conf.set_override("max_requests_per_address", 2, group="api")
    return source_limit.SourceLimit(conf)


def test_requests_of_one_address_are_bounded_and_others_are_not(
    limit: source_limit.SourceLimit,
) -> None:
    one, other = {"REMOTE_ADDR": "192.0.2.1"}, {"REMOTE_ADDR": "192.0.2.2"}
    held = [limit.enter(one) for _ in range(2)]
    with pytest.raises(errors.TooManyRequests, match="max_requests_per_address"):
        limit.enter(one)
    assert limit.enter(other)
    limit.leave(held[0])
    assert limit.enter(one)
    for _ in range(3):
        assert limit.enter({"REMOTE_ADDR": ""}) == ""  # a Unix socket


def test_behind_a_proxy_the_address_that_it_has_seen_counts(conf: cfg.ConfigOpts) -> None:
    conf.set_override("max_requests_per_address", 1, group="api")
    conf.set_override("enable_proxy_headers_parsing", True, group="api")
    limit = source_limit.SourceLimit(conf)
    for last in ("192.0.2.7", "192.0.2.8"):
        seen = f"198.51.100.1, {last}"
        assert limit.enter({"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": seen}) == last


def test_the_addresses_of_one_ipv6_network_are_bounded_together(
    limit: source_limit.SourceLimit,
) -> None:
    held = [limit.enter({"REMOTE_ADDR": f"2001:db8::{number}"}) for number in (1, 2)]
    with pytest.raises(errors.TooManyRequests, match="max_requests_per_address"):
        limit.enter({"REMOTE_ADDR": "2001:db8::3"})
    assert limit.enter({"REMOTE_ADDR": "2001:db8:0:1::3"})
    for place in held:
        limit.leave(place)
    assert limit.enter({"REMOTE_ADDR": "2001:db8::3"})


class Front:
    """Answers with the name of its thread."""

    bodies = body_reader.Reader()

    def immediate(self, environ: dict[str, Any]) -> bool:
        return bool(environ["PATH_INFO"] == "/livez")

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        environ[request.CALL] = types.SimpleNamespace(later=None)
        start_response("200 OK", [])
        return [threading.current_thread().name.encode()]


class Protocol:
    """Takes one answer, from any thread, and passes it to the event loop at once."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def response_bytes(self, _status: int, _headers: Any, body: bytes) -> None:
        loop = self.answered.get_loop()
        loop.call_soon_threadsafe(self.answered.set_result, body.decode())


def test_a_probe_takes_no_thread_and_an_answered_request_no_place(conf: cfg.ConfigOpts) -> None:
    conf.set_override("max_requests_per_address", 1, group="api")

    async def ask(paths: list[str]) -> list[str]:
        front: Any = Front()
        tail: Any = None
        application, found, tasks = rsgi.Application(front, conf, tail), [], []
        for path in paths:
            protocol: Any = Protocol()
            coroutine = application.__rsgi__(scope(path=path), protocol)
            tasks.append(asyncio.ensure_future(coroutine))
            found.append(await asyncio.wait_for(protocol.answered, 60))
        await application.close()
        assert all(task.done() for task in tasks)
        return found

    paths = ["/livez", "/v1/nodes", "/v1/nodes", "/livez"]
    main = threading.current_thread().name.partition("-")[0]
    found = [name.partition("-")[0] for name in asyncio.run(ask(paths))]
    assert found == [main, "request", "request", main]


class HeadFront(Front):
    """Answers with the name of the thread that has admitted the head, and of its own."""

    def __init__(self, *, at_once: bool) -> None:
        self.admits_at_once = at_once

    def admit(self, environ: dict[str, Any]) -> int:
        environ[request.CALL] = types.SimpleNamespace(later=None)
        environ["admitted"] = threading.current_thread().name
        return 0

    def answer(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [f"{environ['admitted']} {threading.current_thread().name}".encode()]


@pytest.mark.parametrize("at_once", [True, False])
def test_head_is_admitted_by_the_event_loop_if_that_waits_for_nothing(
    conf: cfg.ConfigOpts, at_once: bool
) -> None:
    conf.set_override("max_requests_per_address", 1, group="api")

    async def ask() -> list[list[str]]:
        front: Any = HeadFront(at_once=at_once)
        tail: Any = None
        application, found, tasks = rsgi.Application(front, conf, tail), [], []
        for _ in range(2):  # the second takes the place of the first
            protocol: Any = Protocol()
            head = scope(("content-length", "0"), method="POST")
            tasks.append(asyncio.ensure_future(application.__rsgi__(head, protocol)))
            names = await asyncio.wait_for(protocol.answered, 60)
            found.append([name.partition("-")[0] for name in names.split()])
        await application.close()
        assert all(task.done() for task in tasks)
        return found

    main = threading.current_thread().name.partition("-")[0]
    assert asyncio.run(ask()) == [[main if at_once else "request", "request"]] * 2


@pytest.mark.parametrize(("way", "at_once"), [("noauth", True), ("http_basic", False)])
def test_only_a_head_without_a_login_is_admitted_at_once(
    conf: cfg.ConfigOpts, way: str, at_once: bool
) -> None:
    conf.set_override("auth_strategy", way, group="api")
    inner: Any = None
    assert middleware.RequestMiddleware(inner, conf).admits_at_once is at_once


class BodyProtocol(Protocol):
    """Has a body; takes an answer without a body, too."""

    def __init__(self, body: bytes | None) -> None:
        super().__init__()
        self._body = body

    async def __call__(self) -> bytes:
        if self._body is None:
            raise ProtocolClosed
        if not self._body:
            await asyncio.Event().wait()
        return self._body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield await self()

    def response_bytes(self, status: int, headers: Any, body: bytes) -> None:
        super().response_bytes(status, headers, str(status).encode())


class BodyFront:
    """Takes one KiB without a login."""

    def admit(self, _environ: dict[str, Any]) -> int:
        return 1


@pytest.mark.parametrize(
    ("body", "length", "status"),
    [(None, "10", "400"), (b"", "10", "408"), (b"x" * 2000, "2000", "413")],
    ids=["disconnect", "late", "large"],
)
def test_refused_body_leaves_the_place_of_its_address(
    conf: cfg.ConfigOpts, body: bytes | None, length: str, status: str
) -> None:
    conf.set_override("max_requests_per_address", 1, group="api")

    async def ask() -> list[str]:
        inner: Any = BodyFront()
        front = middleware.RequestMiddleware(inner, conf)
        assert front.admits_at_once
        front.bodies = body_reader.Reader(seconds=0.01)
        tail: Any = None
        application, found = rsgi.Application(front, conf, tail), []
        for _ in range(2):
            protocol: Any = BodyProtocol(body)
            headers = ("content-length", length), ("host", "127.0.0.1:6385")
            await application.__rsgi__(scope(*headers, method="POST"), protocol)
            found.append(await asyncio.wait_for(protocol.answered, 60))
        await application.close()
        return found

    assert asyncio.run(ask()) == [status] * 2


ACCESS = Access()


class BusyFront(Front):
    """Suspends the first call; then answers in turn: 503 suspended, 503, 200."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.calls += 1
        status, later = [
            ("202 Accepted", Suspension(30)),
            ("503 Service Unavailable", Suspension(0.5)),
            ("503 Service Unavailable", None),
            ("200 OK", None),
        ][min(self.calls, 3)]
        if later is not None:
            environ[request.CALL].later = later
        start_response(status, [])
        return [status.encode()]

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        environ[request.CALL] = types.SimpleNamespace(
            later=None, waited=False, accepted=True, access=ACCESS
        )
        environ[request.CALL].later = Suspension(0.5)
        start_response("202 Accepted", [])
        return [b"202 Accepted"]


class LivingProtocol(Protocol):
    """Its client stays."""

    async def client_disconnect(self) -> None:
        await asyncio.Event().wait()


def test_waiting_request_is_not_ended_because_the_service_is_busy(
    conf: cfg.ConfigOpts, sqlite_database: Database
) -> None:
    async def ask() -> tuple[str, int]:
        front: Any = BusyFront()
        application = rsgi.Application(front, conf, Tail(sqlite_database))
        protocol: Any = LivingProtocol()
        task = asyncio.ensure_future(application.__rsgi__(scope(path="/v1/nodes"), protocol))
        found = await asyncio.wait_for(protocol.answered, 60)
        await task
        await application.end_watches()
        await application.close()
        return found, front.calls

    # The second answer is right if this machine has stopped for half a second.
    assert asyncio.run(ask()) in {("200 OK", 3), ("503 Service Unavailable", 2)}


class StreamFront(Front):
    """Answers with a stream of events."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        later = Stream(0, Filter())
        environ[request.CALL] = types.SimpleNamespace(
            later=later, waited=False, accepted=True, access=ACCESS
        )
        start_response("200 OK", [])
        return []


class LeftProtocol(LivingProtocol):
    """Its client has left, which the first line notices."""

    async def send_bytes(self, _chunk: bytes) -> None:
        raise ProtocolClosed

    def response_stream(self, _status: int, _headers: Any) -> LeftProtocol:
        return self


def test_stream_whose_client_has_left_ends_without_an_error(
    conf: cfg.ConfigOpts, sqlite_database: Database
) -> None:
    async def ask() -> None:
        front: Any = StreamFront()
        application = rsgi.Application(front, conf, Tail(sqlite_database))
        protocol: Any = LeftProtocol()
        await asyncio.wait_for(application.__rsgi__(scope(path="/v1/events"), protocol), 60)
        await application.end_watches()
        await application.close()

    asyncio.run(ask())
