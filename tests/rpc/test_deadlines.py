"""What nobody waits for any more is not begun, and what somebody waits for always is."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, ClassVar

import psutil
import pytest

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.context import Context
from ironic_lite.rpc import client, deadlines, encoding, server, transport
from ironic_lite.rpc.deadlines import CallDeadline, ClockOffsets
from ironic_lite.rpc.server import Admission
from ironic_lite.rpc.sockets import client as socket_client
from tests.support import private_servers, rpc_conductor
from tests.support.rpc_conductor import ONE, TWO, Serve
from tests.support.service import family

Connect = Callable[[str], client.RpcClient]
Spawn = Callable[[str, str], "rpc_conductor.Process"]

# -- by which clock ----------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0.0, -7200.0, 7200.0])
def test_offset_of_the_clocks_does_not_count(ahead: float) -> None:
    senders = ClockOffsets()
    assert senders.age(CallDeadline("a", sent=100, limit=60), 100 + ahead) is None
    assert senders.age(CallDeadline("a", 100.25, 60, asked=100 + ahead), 100.25 + ahead) == 0.25
    assert senders.age(CallDeadline("a", 110, 60), 110 + ahead) == 0
    assert senders.age(CallDeadline("a", 110, 60), 115 + ahead) == 5
    assert senders.age(CallDeadline("b", 110, 60), 115 + ahead) is None, "another clock"


def test_the_fastest_call_is_what_others_are_measured_by() -> None:
    senders = ClockOffsets()
    senders.age(CallDeadline("a", 0.0, 60, asked=0), 0.4)
    assert senders.age(CallDeadline("a", 10, 60), 10.01) == 0
    assert senders.age(CallDeadline("a", 20, 60), 22.01) == pytest.approx(2)


def test_a_slow_answer_teaches_nothing_of_the_sender_s_clock() -> None:
    senders = ClockOffsets()
    assert senders.age(CallDeadline("a", 0, 60, asked=0), 1.2) == 1.2
    assert senders.age(CallDeadline("a", 2, 60), 2) is None


def test_clock_offset_expires() -> None:
    senders = ClockOffsets()
    senders.age(CallDeadline("a", 0, 60, asked=0), 0)
    assert senders.age(CallDeadline("a", deadlines.GOOD_FOR, 60), deadlines.GOOD_FOR) == 0
    assert (
        senders.age(CallDeadline("a", deadlines.GOOD_FOR + 1, 60), deadlines.GOOD_FOR + 1) is None
    )


def test_an_answer_to_another_life_of_the_machine_is_none() -> None:
    assert ClockOffsets().age(CallDeadline("a", 0, 60, asked=5000), 20) is None


def test_senders_are_forgotten_beyond_a_bound() -> None:
    senders = ClockOffsets()
    for number in range(deadlines.SENDERS + 1):
        senders.age(CallDeadline(str(number), 0, 60, asked=0), 0)
    assert senders.age(CallDeadline("0", 1, 60), 1) is None
    assert senders.age(CallDeadline("1", 1, 60), 1) == 0


# -- for how long ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "silence", "limit", "waits"),
    [
        (0, 2, 60, True),
        (None, 2, 60, False),
        (1.7, 2, 60, True),
        (1.9, 2, 60, False),
        (59, math.inf, 60, True),
        (60, math.inf, 60, False),
    ],
)
def test_a_caller_waits_until_its_time_is_over_or_nothing_is_heard(
    age: float | None, silence: float, limit: float, waits: bool
) -> None:
    assert deadlines.waits(age, silence=silence, limit=limit) is waits


@pytest.mark.parametrize(
    "found", [None, 5, "x", [], {}, {"sender": "a", "sent": "now", "limit": 1, "asked": None}]
)
def test_a_note_that_cannot_be_read_is_none(found: Any) -> None:
    assert CallDeadline.of({deadlines.KEY: found}) is None


class Late:
    """A call that its conductor has asked for, and its signs of life."""

    message: ClassVar[dict[str, str]] = {"method": "note"}
    client_timeout = 2.0

    def __init__(self) -> None:
        note = CallDeadline("a", clock.steady(), 60, asked=clock.steady())
        self.ctxt = {deadlines.KEY: dataclasses.asdict(note)}
        self.signs = 0

    def heartbeat(self) -> None:
        self.signs += 1


@pytest.mark.parametrize(("waited", "signs"), [(0.8, 0), (1.0, 1)])
def test_a_call_that_is_begun_late_gives_a_sign_at_once(
    monkeypatch: pytest.MonkeyPatch, waited: float, signs: int
) -> None:
    now = [100.0]
    monkeypatch.setattr(clock, "steady", lambda: now[0])
    call = Late()
    now[0] += waited
    Admission("one").admit(call)
    assert call.signs == signs


def test_a_call_that_was_under_way_too_long_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(clock, "steady", lambda: now[0])
    call = Late()
    now[0] += 1.9
    with pytest.raises(encoding.Again) as caught:
        Admission("one").admit(call)
    assert caught.value.kwargs == {"host": "one", "at": now[0]}


# -- over both transports ----------------------------------------------------------------------


def test_call_whose_caller_gave_up_while_it_queued_is_not_begun(
    one_thread: None,
    url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
) -> None:
    endpoint, caller = rpc_conductor.Endpoint(), connect(url)
    serve(url, ONE, endpoint)
    caller.call(ctxt, "who", host=ONE)
    with futures.ThreadPoolExecutor(1) as pool:
        pool.submit(caller.call, ctxt, "held", host=ONE)
        rpc_conductor.until(lambda: endpoint.seen)
        with pytest.raises(errors.NoConductor):
            caller.call(ctxt, "note", host=ONE, timeout=0.3, word="late")
        endpoint.gate.set()
        caller.call(ctxt, "note", host=ONE, word="next")
    assert caller.call(ctxt, "noted", host=ONE) == ["next"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers behind a broker take nobody for dead who says nothing."""
    monkeypatch.setattr(client, "MONITOR_SECONDS", 3600)


def test_a_conductor_that_stood_still_begins_nothing_for_callers_who_have_given_up(
    url: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    process, caller = spawn(url, ONE), connect(url)
    caller.call(ctxt, "note", host=ONE, word="before")
    rpc_conductor.stop(process)
    with pytest.raises(errors.NoConductor):
        caller.call(ctxt, "note", host=ONE, timeout=4, word="late")
    process.send_signal(signal.SIGCONT)
    caller.call(ctxt, "note", host=ONE, word="after")
    assert caller.call(ctxt, "noted", host=ONE) == ["before", "after"]


@pytest.mark.parametrize("kept", [True, False], ids=["kept connection", "new connection"])
def test_conductor_that_hangs_has_received_nothing(
    kept: bool, brokerless: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    process, first = spawn(brokerless, ONE), connect(brokerless)
    first.call(ctxt, "note", host=ONE, word="before")
    caller = first if kept else connect(brokerless)
    rpc_conductor.stop(process)
    stopped = clock.steady()
    rpc_conductor.until(lambda: clock.steady() - stopped > socket_client.PROVEN_SECONDS)
    with pytest.raises(errors.ConductorNotListening):
        caller.call(ctxt, "note", host=ONE, timeout=rpc_conductor.SECONDS, word="late")
    process.send_signal(signal.SIGCONT)
    caller.call(ctxt, "note", host=ONE, word="after")
    assert caller.call(ctxt, "noted", host=ONE) == ["before", "after"]


def test_a_conductor_that_stood_still_carries_out_what_is_still_waited_for(
    patient: None, url: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    process, caller = spawn(url, ONE), connect(url)
    caller.call(ctxt, "note", host=ONE, word="before")
    rpc_conductor.stop(process)
    with futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(caller.call, ctxt, "note", host=ONE, word="waited for")
        futures.wait([call], 2)
        assert not call.done()
        process.send_signal(signal.SIGCONT)
        call.result(rpc_conductor.SECONDS)
    assert caller.call(ctxt, "noted", host=ONE) == ["before", "waited for"]


def test_a_caller_that_stood_still_gets_its_answer_or_hears_that_it_is_late(
    url: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint = rpc_conductor.Endpoint()
    serve(url, ONE, endpoint)
    other = rpc_conductor.Caller(url, "held", timeout=2)
    try:
        other.go()
        rpc_conductor.until(lambda: endpoint.seen)
        rpc_conductor.stop(other.process)
        stood = clock.steady()
        endpoint.gate.set()
        rpc_conductor.until(lambda: clock.steady() - stood > 3)
        other.process.send_signal(signal.SIGCONT)
        said = other.said()
        assert said == "released" or "NoConductor" in said or "ConductorUnresponsive" in said
    finally:
        other.kill()
    assert connect(url).call(ctxt, "who", host=ONE) == ONE


def test_a_caller_that_was_killed_is_not_served_any_more(
    one_thread: None,
    local: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
) -> None:
    endpoint, caller = rpc_conductor.Endpoint(), connect(local)
    one = serve(local, ONE, endpoint)
    other = rpc_conductor.Caller(local, "note", word="late")
    with futures.ThreadPoolExecutor(1) as pool:
        pool.submit(caller.call, ctxt, "held", host=ONE)
        rpc_conductor.until(lambda: endpoint.seen)
        other.go()
        lines = one._server.listener._lines
        rpc_conductor.until(lambda: sum(line.running for line in lines) == 2)
        other.kill()
        endpoint.gate.set()
    assert caller.call(ctxt, "noted", host=ONE) == []


# -- behind a broker ---------------------------------------------------------------------------


@pytest.fixture
def sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conductors learn of a sender's clock even from an answer that a busy machine has delayed."""
    monkeypatch.setattr(deadlines, "_SURE", rpc_conductor.SECONDS)


def test_a_conductor_asks_a_new_caller_once(
    sure: None, rabbit_url: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint, caller = rpc_conductor.Endpoint(), connect(rabbit_url)
    one = serve(rabbit_url, ONE, endpoint)
    came = _counted(one)
    for word in range(3):
        caller.call(ctxt, "note", host=ONE, word=word)
    assert came == [False, True, True, True]
    assert endpoint.seen == [("note", 0), ("note", 1), ("note", 2)]


def _counted(one: server.Server) -> list[bool]:
    """Return a list that grows by whether each message is carried out, False if it is asked for."""
    admission, came = one.dispatcher.admission, list[bool]()
    admit = admission.admit

    def counted(call: Any) -> None:
        came.append(False)
        admit(call)
        came[-1] = True

    admission.admit = counted  # type: ignore[method-assign]
    return came


def test_a_call_to_an_earlier_life_of_a_conductor_is_not_begun(
    rabbit_url: str, spawn: Spawn, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    process, caller = spawn(rabbit_url, ONE), connect(rabbit_url)
    caller.call(ctxt, "who", host=ONE)
    process.kill()
    process.wait()
    with pytest.raises(errors.ConductorUnresponsive):
        caller.call(ctxt, "note", host=ONE, word="late")
    endpoint = rpc_conductor.Endpoint()
    serve(rabbit_url, ONE, endpoint)
    caller.call(ctxt, "note", host=ONE, word="next")
    assert endpoint.seen == [("note", "next")]


def test_a_clock_that_was_set_costs_one_more_message_and_nothing_else(
    sure: None, rabbit_url: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint, caller = rpc_conductor.Endpoint(), connect(rabbit_url)
    one = serve(rabbit_url, ONE, endpoint)
    caller.call(ctxt, "note", host=ONE, word=0)
    senders = one.dispatcher.admission._senders
    (sender,) = senders._ahead
    senders._ahead[sender] = (senders._ahead[sender][0] - 100, senders._ahead[sender][1])
    came = _counted(one)
    for word in (1, 2):
        caller.call(ctxt, "note", host=ONE, word=word)
    assert came == [False, True, True]
    assert endpoint.seen == [("note", 0), ("note", 1), ("note", 2)]


def test_a_call_for_any_conductor_is_said_again_to_the_one_that_asks(
    rabbit_url: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    ends = [rpc_conductor.Endpoint(name) for name in (ONE, TWO, "three")]
    came = [_counted(serve(rabbit_url, end.name, end)) for end in ends]
    caller = connect(rabbit_url)
    caller.call(ctxt, "note", host=None, word=1)
    assert sorted(came) == [[], [], [False, True]]


def test_a_caller_that_is_asked_ever_again_hears_that_nothing_was_begun(
    rabbit_url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint, caller = rpc_conductor.Endpoint(), connect(rabbit_url)
    came = _counted(serve(rabbit_url, ONE, endpoint))
    monkeypatch.setattr(deadlines, "_WAY", 3600)
    with pytest.raises(errors.NoConductor, match=f"{ONE} receives calls too late"):
        caller.call(ctxt, "note", host=ONE, word=1)
    assert came == [False] * client.ASKED
    assert endpoint.seen == []


def test_casts_and_callers_of_an_older_release_are_never_asked(
    rabbit_url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint, caller = rpc_conductor.Endpoint(), connect(rabbit_url)
    serve(rabbit_url, ONE, endpoint)
    caller.cast(ctxt, "note", host=ONE, word="cast")
    monkeypatch.setattr(deadlines.DeadlineContext, "as_dict", lambda noted: noted.context.as_dict())
    monkeypatch.setattr(deadlines, "_WAY", 3600)
    caller.call(ctxt, "note", host=ONE, word="call")
    rpc_conductor.until(lambda: len(endpoint.seen) == 2)
    assert {word for _, word in endpoint.seen} == {"cast", "call"}


# -- in a crowd --------------------------------------------------------------------------------


def test_calls_that_wait_for_a_place_are_not_under_way_yet(
    *,
    sure: None,
    rabbit_url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines, "MOST_CALLS", 1)
    endpoint, caller = rpc_conductor.Endpoint(), connect(rabbit_url)
    came = _counted(serve(rabbit_url, ONE, endpoint))
    caller.call(ctxt, "who", host=ONE)
    with futures.ThreadPoolExecutor(2) as pool:
        held = pool.submit(caller.call, ctxt, "held", host=ONE)
        rpc_conductor.until(lambda: endpoint.seen)
        call = pool.submit(caller.call, ctxt, "note", host=ONE, word="waited")
        futures.wait([call], 1.5 * client.MONITOR_SECONDS)
        assert endpoint.seen == [("held", None)]
        endpoint.gate.set()
        assert held.result(rpc_conductor.SECONDS) == "released"
        call.result(rpc_conductor.SECONDS)
    assert came == [False, True, True, True], "nobody asks for the calls after the first"


def test_a_caller_without_a_place_is_told_503_in_its_time() -> None:
    limiter = deadlines.SendLimiter()
    with contextlib.ExitStack() as places:
        for _ in range(deadlines.MOST_CALLS):
            places.enter_context(limiter.place(ONE, 0))
        with pytest.raises(errors.NoConductor, match=f"{ONE} is busy"), limiter.place(ONE, 0.01):
            pass
        with limiter.place(TWO, 0), limiter.place(None, 0):
            pass
    with limiter.place(ONE, 0):
        pass


def test_600_callers_are_answered_and_none_is_carried_out_twice(
    rabbit_url: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint, caller = rpc_conductor.Endpoint(), connect(rabbit_url)
    serve(rabbit_url, ONE, endpoint)
    before = threading.active_count()
    with futures.ThreadPoolExecutor(600) as pool:
        calls = [pool.submit(caller.call, ctxt, "note", host=ONE, word=word) for word in range(600)]
        refused = [type(one.exception(60)) for one in calls if one.exception(60)]
    words = [word for _, word in endpoint.seen]
    assert len(words) == len(set(words)) >= 600 - len(refused)
    assert set(refused) <= {errors.NoConductor, errors.ConductorUnresponsive}
    # Both ends are in this process: the threads of calls, and one for each connection of either.
    assert threading.active_count() - before <= 3 * deadlines.MOST_CALLS + 10


# A broker that stands still: callers get their error before their own time is over.

CALLERS = 40
"""More than the 30 connections that the library has by default."""
SLACK = 5.0
"""Seconds that a loaded machine may add."""


@pytest.fixture
def broker(folder: pathlib.Path) -> Iterator[private_servers.RabbitMQ]:
    """A broker that only this test uses."""
    folder.chmod(0o755)  # it runs as a user of its own
    try:
        with private_servers.broker(folder) as server:
            yield server
    except private_servers.Lacking as why:
        pytest.skip(f"NOT TESTED: {why}")


def _stands_still(process: psutil.Process) -> bool:
    """Tell whether each thread has stopped; one that runs may still take and pass on a message."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")
    return {one.read_text().rpartition(")")[2].split()[0] for one in tasks} <= {"T", "Z"}


@contextlib.contextmanager
def standing_still(server: private_servers.RabbitMQ) -> Iterator[None]:
    """Stop all processes of the broker for the length of the block."""
    processes = family(server.pid)
    try:
        for one in processes:
            one.suspend()
        rpc_conductor.until(lambda: all(map(_stands_still, processes)), 10)
        yield
    finally:
        for one in processes:
            one.resume()


def test_callers_of_a_hung_broker_get_503_within_their_time(
    broker: private_servers.RabbitMQ,
    spawn: Callable[[str, str], rpc_conductor.Process],
    connect: Callable[[str], client.RpcClient],
    ctxt: Context,
) -> None:
    url = broker.url(broker.port)
    spawn(url, "one")
    caller = connect(url)
    limit = float(config.CONF.rpc_response_timeout)

    def call(_number: int) -> tuple[float, Exception | None]:
        begun = time.monotonic()
        try:
            caller.call(ctxt, "who", host="one")
        except errors.Error as why:
            return time.monotonic() - begun, why
        return time.monotonic() - begun, None

    with futures.ThreadPoolExecutor(CALLERS) as pool:
        assert not any(why for _, why in pool.map(call, range(CALLERS)))
        with standing_still(broker):
            found = list(pool.map(call, range(CALLERS)))
    assert {type(why) for _, why in found} == {errors.NoConductor}
    assert max(seconds for seconds, _ in found) < limit + SLACK
    rpc_conductor.until(lambda: call(0)[1] is None, limit)


def test_the_operator_s_options_of_the_broker_override_ours() -> None:
    url = "rabbit://guest:guest@127.0.0.1:1/"
    transport.build(url)
    options = config.CONF["oslo_messaging_rabbit"]
    assert (options.heartbeat_timeout_threshold, options.rpc_conn_pool_size) == (10, 64)
    config.CONF.set_override("heartbeat_timeout_threshold", 33, "oslo_messaging_rabbit")
    try:
        transport.build(url)
        assert options.heartbeat_timeout_threshold == 33
    finally:
        config.CONF.clear_override("heartbeat_timeout_threshold", "oslo_messaging_rabbit")
