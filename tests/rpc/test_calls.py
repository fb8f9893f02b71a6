"""What a caller and a conductor see of each other, the same on all transports."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.rpc import client, contract
from tests.support import rpc_conductor
from tests.support.rpc_conductor import MAYFLY, NOBODY, ONE, TWO, VICTIM, Serve

Connect = Callable[[str], client.RpcClient]
Spawn = Callable[[str, str], rpc_conductor.Process]


@pytest.fixture
def endpoint() -> rpc_conductor.Endpoint:
    return rpc_conductor.Endpoint()


@pytest.fixture
def caller(
    url: str, serve: Serve, connect: Connect, endpoint: rpc_conductor.Endpoint
) -> client.RpcClient:
    """A client; a conductor called ONE lives."""
    serve(url, ONE, endpoint)
    return connect(url)


def test_a_typed_call_returns_what_the_method_returned(
    caller: client.RpcClient, ctxt: Context, endpoint: rpc_conductor.Endpoint
) -> None:
    steps = caller.conductor(ONE).get_clean_steps(ctxt, node_uuid="n1")
    assert steps == [{"step": "erase_devices", "priority": 10}]
    assert endpoint.seen == [("get_clean_steps", "n1")]


def test_an_argument_may_be_called_timeout(
    caller: client.RpcClient, ctxt: Context, endpoint: rpc_conductor.Endpoint
) -> None:
    caller.conductor(ONE, timeout=5).change_node_power_state(
        ctxt, node_uuid="n1", target="power on", timeout=7
    )
    assert endpoint.seen == [("power on", 7)]


def test_the_casts_of_the_contract_do_not_wait_for_the_method(
    caller: client.RpcClient, ctxt: Context, endpoint: rpc_conductor.Endpoint
) -> None:
    caller.conductor(ONE).continue_node_clean(ctxt, node_uuid="n1")
    rpc_conductor.until(lambda: endpoint.seen == [("continue_node_clean", "n1")])


def test_the_context_arrives_as_it_was(caller: client.RpcClient, ctxt: Context) -> None:
    assert caller.call(ctxt, "context_of", host=ONE) == {
        "type": "Context",
        **json.loads(json.dumps(ctxt.as_dict())),
    }


@pytest.mark.parametrize(
    "word", [None, True, 0, -(2**63), 1.5, "", "söme → text \U0001f600", [], {"a": [{"b": None}]}]
)
def test_plain_json_arrives_as_it_was(caller: client.RpcClient, ctxt: Context, word: Any) -> None:
    assert caller.call(ctxt, "echo", host=ONE, word=word) == word


def test_a_datetime_arrives_as_an_iso_string(caller: client.RpcClient, ctxt: Context) -> None:
    assert caller.call(ctxt, "moment", host=ONE) == {"at": "2030-01-02T03:04:05+00:00"}


def test_a_call_without_host_reaches_one_of_them_and_a_fanout_all(
    shared: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    ends = {name: rpc_conductor.Endpoint(name) for name in (ONE, TWO)}
    for name, end in ends.items():
        serve(shared, name, end)
    caller = connect(shared)
    assert {caller.call(ctxt, "who", host=None) for _ in range(10)} == {ONE, TWO}
    assert [caller.call(ctxt, "who", host=name) for name in (TWO, ONE)] == [TWO, ONE]
    caller.fanout(ctxt, "note", word=1)
    rpc_conductor.until(lambda: all(end.seen == [("note", 1)] for end in ends.values()))


def test_an_error_of_ours_comes_back_as_itself(
    caller: client.RpcClient, ctxt: Context, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(errors.NodeLocked) as caught:
        caller.call(ctxt, "refuse", host=ONE, node_uuid="n1")
    assert type(caught.value) is errors.NodeLocked
    assert caught.value.facts == {"node": "n1", "host": ONE}
    assert str(caught.value) == errors.NodeLocked(node="n1", host=ONE).message
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("method", ["break_down", "leave"])
def test_an_unexpected_exception_is_logged_once_and_tells_the_caller_nothing(
    caller: client.RpcClient, ctxt: Context, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with pytest.raises(errors.Error) as caught:
        caller.call(ctxt, method, host=ONE)
    assert type(caught.value) is errors.Error
    assert "sesame" not in repr(caught.value.as_data())
    assert "req-1" in caught.value.message
    logged = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(logged) == 1
    assert logged[0].exc_info is not None


@pytest.mark.parametrize("method", ["not_there", "seen"])
def test_a_method_the_conductor_lacks_is_named_with_host_and_version(
    caller: client.RpcClient, ctxt: Context, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with pytest.raises(errors.UnknownMethod) as caught:
        caller.call(ctxt, method, host=ONE)
    assert caught.value.facts == {"host": ONE, "method": method, "version": contract.VERSION}
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_a_private_method_cannot_be_called(caller: client.RpcClient, ctxt: Context) -> None:
    with pytest.raises(errors.UnknownMethod):
        caller.call(ctxt, "_secret", host=ONE)


def test_an_argument_the_conductor_lacks_is_named(caller: client.RpcClient, ctxt: Context) -> None:
    with pytest.raises(errors.UnknownMethod, match="surprise"):
        caller.call(ctxt, "echo", host=ONE, word=1, surprise=2)


def test_a_result_without_json_form_is_an_error_at_once(
    caller: client.RpcClient, ctxt: Context
) -> None:
    with pytest.raises(errors.Error) as caught:
        caller.call(ctxt, "unsayable", host=ONE)
    assert type(caught.value) is errors.Error


def test_arguments_nested_too_deeply_are_an_invalid_request(
    caller: client.RpcClient, ctxt: Context
) -> None:
    deep: list[Any] = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(errors.InvalidRequest):
        caller.call(ctxt, "echo", host=ONE, word=deep)


def test_a_request_beyond_the_limit_is_too_large(
    url: str, serve: Serve, connect: Connect, ctxt: Context, one_mib: Callable[[], None]
) -> None:
    serve(url, ONE, rpc_conductor.Endpoint())
    one_mib()
    caller = connect(url)
    with pytest.raises(errors.TooLarge, match="1 MiB") as caught:
        caller.call(ctxt, "echo", host=ONE, word="x" * 2**20)
    assert caught.value.facts == {"limit": 1024}
    with pytest.raises(errors.TooLarge):
        caller.cast(ctxt, "note", host=ONE, word="x" * 2**20)
    assert caller.call(ctxt, "echo", host=ONE, word="small") == "small"


@pytest.fixture
def broker_limit() -> Iterator[Callable[[int], None]]:
    """Set the limit, in MiB, of the clients that are made after the call."""
    yield lambda mib: config.CONF.set_override("broker_message_limit_mib", mib)
    config.CONF.clear_override("broker_message_limit_mib")


@pytest.mark.parametrize(
    ("word", "fits"),
    [("x" * 900_000, True), ("x" * 2**20, False), ('"' * 300_000, False), ("é" * 200_000, False)],
    ids=["letters", "too many", "quotes", "another alphabet"],
)
def test_a_request_that_a_broker_would_not_take_is_not_sent(
    rabbit_url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    broker_limit: Callable[[int], None],
    *,
    word: str,
    fits: bool,
) -> None:
    endpoint = rpc_conductor.Endpoint()
    serve(rabbit_url, ONE, endpoint)
    broker_limit(1)
    caller = connect(rabbit_url)
    if fits:
        assert caller.call(ctxt, "length", host=ONE, word=word) == len(word)
        return
    with pytest.raises(errors.TooLarge, match="broker_message_limit_mib") as caught:
        caller.call(ctxt, "length", host=ONE, word=word)
    assert (caught.value.status, caught.value.facts) == (413, {"limit": 1024})


def test_a_body_of_64_mib_passes(
    url: str,
    serve: Serve,
    connect: Connect,
    ctxt: Context,
    broker_limit: Callable[[int], None],
) -> None:
    serve(url, ONE, rpc_conductor.Endpoint())
    broker_limit(128)
    caller = connect(url)
    word = "x" * (64 * 2**20)
    assert caller.call(ctxt, "length", host=ONE, word=word) == len(word)


def test_a_conductor_that_never_was_there_is_no_conductor(
    caller: client.RpcClient, ctxt: Context
) -> None:
    for attempt in (caller.call, caller.cast):
        with pytest.raises(errors.NoConductor) as caught:
            attempt(ctxt, "who", host=NOBODY)
        assert caught.value.facts["host"] == NOBODY
        assert caught.value.facts["reason"]


def test_a_call_that_takes_longer_than_its_time_out_is_no_conductor(
    caller: client.RpcClient, ctxt: Context, endpoint: rpc_conductor.Endpoint
) -> None:
    with pytest.raises(errors.NoConductor, match=ONE) as caught:
        caller.call(ctxt, "held", host=ONE, timeout=1)
    assert type(caught.value) is errors.NoConductor, "it has given signs of life"
    endpoint.gate.set()
    # The late answer must not reach the next call.
    assert caller.call(ctxt, "echo", host=ONE, word=1) == 1


def test_a_conductor_killed_during_a_call_is_no_conductor_long_before_the_time_out(
    url: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    process = spawn(url, VICTIM)
    caller = connect(url)
    assert caller.call(ctxt, "who", host=VICTIM) == VICTIM
    killer = _kill_when_busy(process, caller, ctxt)
    with pytest.raises(errors.ConductorUnresponsive, match=VICTIM):
        caller.call(ctxt, "held", host=VICTIM, timeout=3600)
    killer()
    process.wait()
    # Behind a broker its queue is still there: the next message may be taken by its next life.
    brokered = url.startswith("rabbit")
    gone = errors.ConductorUnresponsive if brokered else errors.ConductorNotListening
    with pytest.raises(gone, match=VICTIM):
        caller.call(ctxt, "who", host=VICTIM, timeout=3600)


def test_the_next_life_of_a_conductor_does_not_begin_what_was_sent_to_the_one_before(
    url: str, spawn: Spawn, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    process, caller = spawn(url, MAYFLY), connect(url)
    assert caller.call(ctxt, "who", host=MAYFLY) == MAYFLY
    process.kill()
    process.wait()
    for _ in range(2):
        with pytest.raises(errors.NoConductor):
            caller.call(ctxt, "note", host=MAYFLY, word="too late")
    again = rpc_conductor.Endpoint(MAYFLY)
    serve(url, MAYFLY, again)
    assert caller.call(ctxt, "who", host=MAYFLY) == MAYFLY
    assert again.seen == []


def _kill_when_busy(
    process: rpc_conductor.Process, caller: client.RpcClient, ctxt: Context
) -> Callable[[], None]:
    """Kill the conductor as soon as its method `held` runs."""

    def watch() -> None:
        rpc_conductor.until(lambda: caller.call(ctxt, "busy", host=VICTIM))
        process.kill()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread.join
