"""What nobody waits for any more is not begun, and what somebody waits for always is."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, ClassVar

import pytest

from ironic_lite import clock, errors
from ironic_lite.context import Context
from ironic_lite.rpc import client, patience, sending
from ironic_lite.rpc.patience import Note, Senders, Wait
from ironic_lite.rpc.waiting import Waiting
from tests.rpc import stage
from tests.rpc.conftest import Serve

Connect = Callable[[str], client.Client]
Spawn = Callable[[str, str], "subprocess.Popen[str]"]

# -- by which clock ----------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0.0, -7200.0, 7200.0])
def test_what_the_clocks_differ_by_does_not_count(ahead: float) -> None:
    senders = Senders()
    assert senders.age(Note("a", sent=100, limit=60), 100 + ahead) is None
    assert senders.age(Note("a", 100.25, 60, asked=100 + ahead), 100.25 + ahead) == 0.25
    assert senders.age(Note("a", 110, 60), 110 + ahead) == 0
    assert senders.age(Note("a", 110, 60), 115 + ahead) == 5
    assert senders.age(Note("b", 110, 60), 115 + ahead) is None, "another clock"


def test_the_fastest_call_is_what_others_are_measured_by() -> None:
    senders = Senders()
    senders.age(Note("a", 0.0, 60, asked=0), 0.4)
    assert senders.age(Note("a", 10, 60), 10.01) == 0
    assert senders.age(Note("a", 20, 60), 22.01) == pytest.approx(2)


def test_a_slow_answer_teaches_nothing_of_the_sender_s_clock() -> None:
    senders = Senders()
    assert senders.age(Note("a", 0, 60, asked=0), 1.2) == 1.2
    assert senders.age(Note("a", 2, 60), 2) is None


def test_what_is_known_of_a_clock_grows_old() -> None:
    senders = Senders()
    senders.age(Note("a", 0, 60, asked=0), 0)
    assert senders.age(Note("a", patience.GOOD_FOR, 60), patience.GOOD_FOR) == 0
    assert senders.age(Note("a", patience.GOOD_FOR + 1, 60), patience.GOOD_FOR + 1) is None


def test_an_answer_to_another_life_of_the_machine_is_none() -> None:
    assert Senders().age(Note("a", 0, 60, asked=5000), 20) is None


def test_senders_are_forgotten_beyond_a_bound() -> None:
    senders = Senders()
    for number in range(patience._SENDERS + 1):
        senders.age(Note(str(number), 0, 60, asked=0), 0)
    assert senders.age(Note("0", 1, 60), 1) is None
    assert senders.age(Note("1", 1, 60), 1) == 0


# -- for how long ------------------------------------------------------------------------------


def wait(*, age: float | None = 0.0, silence: float = 2, limit: float = 60) -> Wait:
    return Wait(silence=silence, limit=limit, age=age, now=0)


@pytest.mark.parametrize(
    ("one", "at", "lasts"),
    [
        (wait(), 0, True),
        (wait(age=None), 0, False),
        (wait(), 1.7, True),
        (wait(), 1.9, False),
        (wait(age=1), 0.9, False),
        (wait(silence=math.inf), 59, True),
        (wait(silence=math.inf), 60, False),
        (wait(silence=math.inf, age=50), 11, False),
    ],
)
def test_a_caller_waits_until_its_time_is_over_or_nothing_is_heard(
    one: Wait, at: float, lasts: bool
) -> None:
    assert one.lasts(at) is lasts


def test_signs_of_life_keep_a_caller_until_one_comes_too_late() -> None:
    one = wait()
    for moment in range(1, 10):
        one.sign(moment)
        assert one.lasts(moment)
    one.sign(12)
    assert not one.lasts(12), "it has given up before this sign"


@pytest.mark.parametrize(
    "found", [None, 5, "x", [], {}, {"sender": "a", "sent": "now", "limit": 1, "asked": None}]
)
def test_a_note_that_cannot_be_read_is_none(found: Any) -> None:
    assert Note.of({patience.KEY: found}) is None


class Late:
    """A call that its conductor has asked for just now, and its signs of life."""

    message: ClassVar[dict[str, str]] = {"method": "note"}
    client_timeout = 2.0

    def __init__(self) -> None:
        note = Note("a", clock.steady(), 60, asked=clock.steady())
        self.ctxt = {patience.KEY: dataclasses.asdict(note)}
        self.signs = 0

    def heartbeat(self) -> None:
        self.signs += 1


@pytest.mark.parametrize(("waited", "signs"), [(0.8, 0), (1.0, 1)])
def test_a_call_that_is_begun_late_gives_a_sign_before_the_first_of_the_library(
    monkeypatch: pytest.MonkeyPatch, waited: float, signs: int
) -> None:
    now = [100.0]
    monkeypatch.setattr(clock, "steady", lambda: now[0])
    some, call = Waiting("one"), Late()
    some.add(call)
    now[0] += waited
    assert some.begin(call)
    assert call.signs == signs


# -- over both transports ----------------------------------------------------------------------


def test_what_waited_for_a_thread_until_its_caller_gave_up_is_not_begun(
    one_thread: None,
    url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
) -> None:
    endpoint, caller = stage.Endpoint(), connect(url)
    serve(url, "one", endpoint)
    caller.call(ctxt, "who", host="one")
    with futures.ThreadPoolExecutor(1) as pool:
        pool.submit(caller.call, ctxt, "held", host="one")
        stage.until(lambda: endpoint.seen)
        with pytest.raises(errors.NoConductor):
            caller.call(ctxt, "note", host="one", timeout=0.3, word="late")
        endpoint.gate.set()
        caller.call(ctxt, "note", host="one", word="next")
    assert caller.call(ctxt, "noted", host="one") == ["next"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers behind a broker take nobody for dead who says nothing."""
    monkeypatch.setattr(client, "_MONITOR_SECONDS", 3600)


def test_a_conductor_that_stood_still_begins_nothing_for_callers_who_have_given_up(
    url: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    process, caller = spawn(url, "one"), connect(url)
    caller.call(ctxt, "note", host="one", word="before")
    stage.stop(process)
    with pytest.raises(errors.NoConductor):
        caller.call(ctxt, "note", host="one", timeout=4, word="late")
    process.send_signal(signal.SIGCONT)
    caller.call(ctxt, "note", host="one", word="after")
    assert caller.call(ctxt, "noted", host="one") == ["before", "after"]


def test_a_conductor_that_stood_still_carries_out_what_is_still_waited_for(
    patient: None, url: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    process, caller = spawn(url, "one"), connect(url)
    caller.call(ctxt, "note", host="one", word="before")
    stage.stop(process)
    with futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(caller.call, ctxt, "note", host="one", word="waited for")
        futures.wait([call], 2)
        assert not call.done()
        process.send_signal(signal.SIGCONT)
        call.result(stage.SECONDS)
    assert caller.call(ctxt, "noted", host="one") == ["before", "waited for"]


@pytest.mark.parametrize("after", [0, 2], ids=["at once", "behind signs of life"])
def test_a_caller_that_stood_still_reads_its_answer_before_it_gives_up(
    url: str, serve: Serve, after: int
) -> None:
    endpoint, seconds = stage.Endpoint(), after + 2
    serve(url, "one", endpoint)
    other = stage.Caller(url, "held", timeout=seconds)
    try:
        other.go()
        stage.until(lambda: endpoint.seen)
        stage.stop(other.process)
        stood = clock.steady()
        stage.until(lambda: clock.steady() - stood > after)
        endpoint.gate.set()
        stage.until(lambda: clock.steady() - stood > seconds + 1)
        other.process.send_signal(signal.SIGCONT)
        assert other.said() == "released"
    finally:
        other.kill()


def test_a_caller_that_was_killed_is_not_served_any_more(
    one_thread: None,
    local: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
) -> None:
    endpoint, caller = stage.Endpoint(), connect(local)
    one = serve(local, "one", endpoint)
    other = stage.Caller(local, "note", word="late")
    with futures.ThreadPoolExecutor(1) as pool:
        pool.submit(caller.call, ctxt, "held", host="one")
        stage.until(lambda: endpoint.seen)
        other.go()
        stage.until(lambda: len(one._server.waiting._calls) == 1)
        other.kill()
        endpoint.gate.set()
    assert caller.call(ctxt, "noted", host="one") == []


# -- behind a broker ---------------------------------------------------------------------------


def test_a_conductor_asks_a_new_caller_once(
    rabbit_url: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint, caller = stage.Endpoint(), connect(rabbit_url)
    one = serve(rabbit_url, "one", endpoint)
    came = _counted(one)
    for word in range(3):
        caller.call(ctxt, "note", host="one", word=word)
    assert came == [False, True, True, True]
    assert endpoint.seen == [("note", 0), ("note", 1), ("note", 2)]


def _counted(one: Any) -> list[bool]:
    """Return a list that grows by whether each message is carried out, False if it is asked for."""
    waiting, came = one._server.waiting, list[bool]()
    begin, ask = waiting.begin, waiting._ask

    def began(call: Any) -> bool:
        if not begin(call):
            return False
        came.append(True)
        return True

    def asked(*args: Any) -> None:
        came.append(False)  # before its caller can say it again
        ask(*args)

    waiting.begin, waiting._ask = began, asked
    return came


def test_a_clock_that_was_set_costs_one_more_message_and_nothing_else(
    rabbit_url: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint, caller = stage.Endpoint(), connect(rabbit_url)
    one = serve(rabbit_url, "one", endpoint)
    caller.call(ctxt, "note", host="one", word=0)
    senders = one._server.waiting._senders
    (sender,) = senders._ahead
    senders._ahead[sender] = (senders._ahead[sender][0] - 100, senders._ahead[sender][1])
    came = _counted(one)
    for word in (1, 2):
        caller.call(ctxt, "note", host="one", word=word)
    assert came == [False, True, True]
    assert endpoint.seen == [("note", 0), ("note", 1), ("note", 2)]


def test_a_call_for_any_conductor_is_said_again_to_the_one_that_asks(
    rabbit_url: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    ends = [stage.Endpoint(name) for name in ("one", "two", "three")]
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
    endpoint, caller = stage.Endpoint(), connect(rabbit_url)
    came = _counted(serve(rabbit_url, "one", endpoint))
    monkeypatch.setattr(patience, "_WAY", 3600)
    with pytest.raises(errors.NoConductor, match="one takes calls too late"):
        caller.call(ctxt, "note", host="one", word=1)
    assert came == [False] * client._ASKED
    assert endpoint.seen == []


def test_casts_and_callers_of_an_older_release_are_never_asked(
    rabbit_url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint, caller = stage.Endpoint(), connect(rabbit_url)
    serve(rabbit_url, "one", endpoint)
    caller.cast(ctxt, "note", host="one", word="cast")
    monkeypatch.setattr(patience.Noted, "as_dict", lambda noted: noted.context.as_dict())
    monkeypatch.setattr(patience, "_WAY", 3600)
    caller.call(ctxt, "note", host="one", word="call")
    stage.until(lambda: len(endpoint.seen) == 2)
    assert {word for _, word in endpoint.seen} == {"cast", "call"}


def test_a_call_of_which_nothing_is_known_is_asked_for_while_all_threads_are_at_work(
    one_thread: None,
    rabbit_url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
) -> None:
    endpoint, caller = stage.Endpoint(), connect(rabbit_url)
    one = serve(rabbit_url, "one", endpoint)
    caller.call(ctxt, "who", host="one")
    stranger, asked = connect(rabbit_url), threading.Event()
    ask = one._server.waiting._ask

    def seen(*args: Any) -> None:
        ask(*args)
        asked.set()

    one._server.waiting._ask = seen
    with futures.ThreadPoolExecutor(2) as pool:
        pool.submit(caller.call, ctxt, "held", host="one")
        stage.until(lambda: endpoint.seen)
        call = pool.submit(stranger.call, ctxt, "note", host="one", word="once")
        assert asked.wait(stage.SECONDS)
        endpoint.gate.set()
        call.result(stage.SECONDS)
    assert caller.call(ctxt, "noted", host="one") == ["once"]


# -- in a crowd --------------------------------------------------------------------------------


def test_calls_that_wait_for_their_turn_are_not_under_way_yet(
    rabbit_url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint, caller = stage.Endpoint(), connect(rabbit_url)
    came = _counted(serve(rabbit_url, "one", endpoint))
    caller.call(ctxt, "who", host="one")
    monkeypatch.setattr(sending, "PATIENCE", stage.SECONDS)
    with contextlib.ExitStack() as turns, futures.ThreadPoolExecutor(1) as pool:
        for _ in range(sending.MOST):
            assert caller._turns._free.acquire(timeout=stage.SECONDS)
            turns.callback(caller._turns._free.release)
        call = pool.submit(caller.call, ctxt, "note", host="one", word="waited")
        futures.wait([call], 2 * client._MONITOR_SECONDS)
        assert endpoint.seen == []
        turns.close()
        call.result(stage.SECONDS)
    assert came == [False, True, True], "nobody asks for it"


def test_a_turn_ends_when_the_message_is_at_the_broker(
    rabbit_url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "PATIENCE", 2 * stage.SECONDS)
    endpoint, caller = stage.Endpoint(), connect(rabbit_url)
    serve(rabbit_url, "one", endpoint)
    many = sending.MOST + 2
    with futures.ThreadPoolExecutor(many) as pool:
        calls = [pool.submit(caller.call, ctxt, "held", host="one") for _ in range(many)]
        stage.until(lambda: len(endpoint.seen) == many)
        assert caller.call(ctxt, "who", host="one") == "one"
        endpoint.gate.set()
        assert [one.result(stage.SECONDS) for one in calls] == ["released"] * many
    free = [caller._turns._free.acquire(blocking=False) for _ in range(sending.MOST + 1)]
    assert free == [True] * sending.MOST + [False], "each turn was given back once"


@pytest.mark.parametrize(("left", "waits"), [(1.0, 1.0), (60.0, sending.PATIENCE)])
def test_nobody_waits_for_a_turn_longer_than_for_the_call(
    monkeypatch: pytest.MonkeyPatch, left: float, waits: float
) -> None:
    turns, waited = sending.Turns(), list[float]()

    def acquire(timeout: float) -> bool:
        waited.append(timeout)
        return False

    monkeypatch.setattr(turns._free, "acquire", acquire)
    with turns.turn(left):
        assert waited == [waits]


def test_whoever_gets_no_turn_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST", 0)
    monkeypatch.setattr(sending, "PATIENCE", 0)
    turns = sending.Turns()
    with turns.turn(60):
        turns.sent()
    assert not turns._free.acquire(blocking=False)
