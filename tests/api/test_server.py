"""The server of the API: its application, its address and its threads."""

from __future__ import annotations

import asyncio
import functools
import socket
import sys
import threading
import types
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]  # exported, but not marked so
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api import middleware, server
from ironic_lite.api.http import limits, listen_socket, request
from ironic_lite.api.http.request import Stream, Suspension
from ironic_lite.api.policy.access import Access
from ironic_lite.db.engine.session import Database
from ironic_lite.feed import Filter, Tail

# What the RSGI application makes of a request: its WSGI environment, and bounds by address.


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
    found = server.request_environment(scope(("if-match", '"1"'), ("if-match", '"2"')))
    assert found["HTTP_IF_MATCH"] == '"1","2"'


def test_a_condition_that_is_no_text_is_not_left_out() -> None:
    found = server.request_environment(scope(("if-match", "é"), ("host", "x")))
    assert (found["HTTP_IF_MATCH"], found["HTTP_HOST"]) == ("\ufffd", "x")


def test_a_name_with_an_underscore_stands_for_no_other_header() -> None:
    found = server.request_environment(
        scope(("x_forwarded_for", "192.0.2.9"), ("content-type", "a/b"))
    )
    assert "HTTP_X_FORWARDED_FOR" not in found
    assert found["CONTENT_TYPE"] == "a/b"


def test_a_target_in_absolute_form_names_the_host() -> None:
    assert server.request_environment(scope(("host", "a"), authority="b:1"))["HTTP_HOST"] == "b:1"


@pytest.mark.parametrize(
    ("client", "address"),
    [("192.0.2.1:4321", "192.0.2.1"), ("[2001:db8::1]:4321", "2001:db8::1"), ("", "unix")],
)
def test_the_address_of_a_client_has_no_port(client: str, address: str) -> None:
    assert server.request_environment(scope(client=client))["REMOTE_ADDR"] == address


def test_text_is_bytes_in_latin_1_as_wsgi_has_it() -> None:
    found = server.request_environment(scope(path="/v1/nodes/é", query_string="a=é"))
    assert found["PATH_INFO"].encode("latin-1").decode() == "/v1/nodes/é"
    assert found["QUERY_STRING"].encode("latin-1").decode() == "a=é"


@pytest.fixture
def limit(conf: cfg.ConfigOpts) -> limits.SourceLimit:
    conf.set_override("max_requests_per_address", 2, group="api")
    return limits.SourceLimit(conf)


def test_requests_of_one_address_are_bounded_and_others_are_not(
    limit: limits.SourceLimit,
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
    limit = limits.SourceLimit(conf)
    for last in ("192.0.2.7", "192.0.2.8"):
        seen = f"198.51.100.1, {last}"
        assert limit.enter({"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": seen}) == last


def test_the_addresses_of_one_ipv6_network_are_bounded_together(
    limit: limits.SourceLimit,
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

    bodies = limits.BodyReader()

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
        application, found, tasks = server.EventLoopApplication(front, conf, tail), [], []
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
        application, found, tasks = server.EventLoopApplication(front, conf, tail), [], []
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
        front.bodies = limits.BodyReader(seconds=0.01)
        tail: Any = None
        application, found = server.EventLoopApplication(front, conf, tail), []
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
        application = server.EventLoopApplication(front, conf, Tail(sqlite_database))
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
        application = server.EventLoopApplication(front, conf, Tail(sqlite_database))
        protocol: Any = LeftProtocol()
        await asyncio.wait_for(application.__rsgi__(scope(path="/v1/events"), protocol), 60)
        await application.end_watches()
        await application.close()

    asyncio.run(ask())


# The address of the API: free, or somebody else's.

HOST = "127.0.0.1"


def taken(settings: Any) -> listen_socket.ListenAddress:
    with listen_socket.reserve(settings) as keeper:
        return keeper.address


def conf(port: int, host: str = HOST) -> Any:
    return types.SimpleNamespace(api=types.SimpleNamespace(host=host, port=port, unix_socket=None))


def shared(host: str, family: socket.AddressFamily, port: int = 0) -> socket.socket:
    """Return a listener as granian opens it."""
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, port))
    made.listen()
    return made


@pytest.mark.parametrize(
    ("host", "family"), [(HOST, socket.AF_INET), ("::1", socket.AF_INET6)], ids=["IPv4", "IPv6"]
)
def test_a_listener_that_shares_its_port_is_found(host: str, family: socket.AddressFamily) -> None:
    with shared(host, family) as other:
        port = other.getsockname()[1]
        with pytest.raises(errors.OpenError, match="already in use; stop the other program, or"):
            taken(conf(port, host))
    assert taken(conf(port, host)) == (host, port)


def test_old_connections_do_not_keep_an_address() -> None:
    with shared(HOST, socket.AF_INET) as other:
        port = other.getsockname()[1]
        client = socket.create_connection((HOST, port))
        server, _ = other.accept()
        server.close()  # ours ends first: the port stays in TIME_WAIT
        client.recv(1)
        client.close()
    assert taken(conf(port)) == (HOST, port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(errors.OpenError, match=r"cannot listen on 192\.0\.2\.1"):
        taken(conf(0, "192.0.2.1"))


def test_a_name_and_port_0_are_resolved() -> None:
    host, port = taken(conf(0, "localhost"))
    assert host in {HOST, "::1"}
    assert port > 0


@pytest.mark.parametrize(
    ("host", "family"), [(HOST, socket.AF_INET), ("::1", socket.AF_INET6)], ids=["IPv4", "IPv6"]
)
def test_an_address_is_kept_before_anything_listens_there(
    host: str, family: socket.AddressFamily
) -> None:
    with listen_socket.reserve(conf(0, host)) as keeper:
        port = keeper.address[1]
        for _ in range(2):
            with pytest.raises(errors.OpenError, match="Address already in use"):
                listen_socket.reserve(conf(port, host))
            with shared(host, family, port):  # our own processes come and go
                with pytest.raises(errors.OpenError, match="Address already in use"):
                    listen_socket.reserve(conf(port, host))
                socket.create_connection((host, port)).close()


# The threads of requests: results, errors, bounds, and threads that nobody needs.

T = TypeVar("T")
PATIENCE = 60.0


def run(work: Callable[[server.ThreadPool], Awaitable[T]], most: int = 4, idle: float = 600.0) -> T:
    async def main() -> T:
        pool = server.ThreadPool(most, idle_seconds=idle)
        try:
            return await work(pool)
        finally:
            pool.close()

    return asyncio.run(main())


def test_results_and_errors_come_back() -> None:
    def fail() -> None:
        raise ValueError("told")

    async def work(pool: server.ThreadPool) -> list[int]:
        with pytest.raises(ValueError, match="told"):
            await pool.run(fail)
        numbers = (functools.partial(int, n) for n in range(1000))
        return await asyncio.gather(*map(pool.run, numbers))

    assert run(work) == list(range(1000))


def test_no_result_is_lost_when_threads_end_at_the_same_moment() -> None:
    async def caller(pool: server.ThreadPool) -> None:
        for _ in range(300):
            await asyncio.wait_for(pool.run(int), PATIENCE)

    async def work(pool: server.ThreadPool) -> None:
        await asyncio.gather(*(caller(pool) for _ in range(16)))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        run(work, most=16)
    finally:
        sys.setswitchinterval(before)


def test_calls_beyond_the_bound_wait() -> None:
    go, begun = threading.Event(), threading.Semaphore(0)

    def block() -> str:
        begun.release()
        assert go.wait(PATIENCE)
        return threading.current_thread().name

    async def work(pool: server.ThreadPool) -> int:
        calls = [asyncio.create_task(pool.run(block)) for _ in range(10)]
        for _ in range(2):
            assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE)
        assert pool.threads == 2
        assert not begun.acquire(timeout=0.1)
        go.set()
        return len(set(await asyncio.gather(*calls)))

    assert run(work, most=2) == 2


def test_one_thread_is_enough_for_calls_one_after_the_other() -> None:
    async def work(pool: server.ThreadPool) -> int:
        for _ in range(100):
            await pool.run(int)
        return pool.threads

    assert run(work) == 1


def test_threads_that_nobody_needs_end() -> None:
    barrier = threading.Barrier(4)

    async def work(pool: server.ThreadPool) -> None:
        before = threading.active_count()
        await asyncio.gather(*(pool.run(lambda: barrier.wait(PATIENCE)) for _ in range(4)))
        assert pool.threads == 4
        end = asyncio.get_running_loop().time() + PATIENCE
        while threading.active_count() > before:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.02)
        assert await pool.run(lambda: "again") == "again"

    run(work, idle=0.05)


def test_a_call_that_is_given_up_frees_its_thread() -> None:
    go = threading.Event()

    async def work(pool: server.ThreadPool) -> str:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.run(lambda: go.wait(PATIENCE)), 0.05)
        go.set()
        return await pool.run(lambda: "served")

    assert run(work, most=1) == "served"


def test_calls_are_served_when_threads_could_not_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, allowed = threading.Thread.start, [False, True, False]

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("request-") and not (not allowed or allowed.pop(0)):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)

    async def work(pool: server.ThreadPool) -> None:
        with pytest.raises(errors.Unavailable):
            await pool.run(int)
        # One thread serves both.
        assert not any(await asyncio.gather(pool.run(int), pool.run(int)))
        assert pool.threads == 1
        while pool.threads:
            await asyncio.sleep(0.02)
        for _ in range(3):
            assert await asyncio.wait_for(pool.run(int), PATIENCE) == 0

    run(work, idle=0.05)


def test_result_of_a_finishing_call_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that begin to wait or to stream return one."""
    monkeypatch.setattr(server, "LATEST", 600.0)

    async def work(pool: server.ThreadPool) -> str:
        return await asyncio.wait_for(pool.finish(lambda: "later"), PATIENCE)

    assert run(work) == "later"


def test_a_late_result_comes_with_the_next_call_or_by_itself() -> None:
    async def work(pool: server.ThreadPool) -> None:
        done = threading.Event()
        late = asyncio.ensure_future(pool.finish(done.set))
        await asyncio.sleep(0)
        assert await pool.run(lambda: done.wait(PATIENCE))
        await late
        called: list[int] = []
        for number in range(3):
            await pool.finish(functools.partial(called.append, number))
        assert called == [0, 1, 2]
        with pytest.raises(ValueError, match="invalid literal"):
            await pool.finish(lambda: int("x"))
        assert pool.threads == 1

    run(work, most=1)
