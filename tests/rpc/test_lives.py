"""Processes and threads without a broker: deaths, forks, crowds, stops; and all signs of life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent import futures

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.rpc import client, server, transport
from tests.support import rpc_conductor
from tests.support.rpc_conductor import ONE, VICTIM, Serve
from tests.support.thread_limit import no_new_threads

Connect = Callable[[str], client.RpcClient]
Spawn = Callable[[str, str], "rpc_conductor.Process"]


# -- crowds ------------------------------------------------------------------------------------


def test_64_callers_at_once_get_each_their_own_answers(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    caller = connect(brokerless)
    together = threading.Barrier(64)

    def many(me: int) -> bool:
        together.wait(rpc_conductor.SECONDS)
        words = [f"{me}-{turn}" for turn in range(20)]
        return all(caller.call(ctxt, "echo", host=ONE, word=word) == word for word in words)

    with futures.ThreadPoolExecutor(64) as pool:
        assert all(pool.map(many, range(64)))


def test_a_slow_call_does_not_block_others(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint = rpc_conductor.Endpoint()
    serve(brokerless, ONE, endpoint)
    caller = connect(brokerless)
    with futures.ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(caller.call, ctxt, "held", host=ONE) for _ in range(8)]
        rpc_conductor.until(lambda: len(endpoint.seen) == 8)
        assert caller.call(ctxt, "who", host=ONE) == ONE
        assert not any(one.done() for one in slow)
        endpoint.gate.set()
        assert [one.result(rpc_conductor.SECONDS) for one in slow] == ["released"] * 8


def test_calls_one_after_the_other_use_one_connection(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    caller = connect(brokerless)
    caller.call(ctxt, "who", host=ONE)
    sockets = _sockets()
    for _ in range(50):
        caller.call(ctxt, "who", host=ONE)
    assert _sockets() == sockets


def _sockets() -> int:
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return sum(link.startswith("socket:") for link in links)


def test_an_idle_server_sleeps(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    before = set(threading.enumerate())
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    connect(brokerless).call(ctxt, "who", host=ONE)
    listener, *pool = sorted(
        set(threading.enumerate()) - before, key=lambda thread: thread.name != "rpc-listener"
    )

    def switches(*some: threading.Thread) -> int:
        return sum(_switches(thread) for thread in some)

    asleep = threading.Event()
    first, others = switches(listener), switches(*pool)
    asleep.wait(1.2)
    assert switches(listener) - first <= 2
    # oslo.messaging's pool looks once a second whether it is to end.
    assert switches(*pool) - others <= 4 * len(pool)


def _switches(thread: threading.Thread) -> int:
    with open(f"/proc/self/task/{thread.native_id}/status", encoding="ascii") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["voluntary_ctxt_switches"])


def test_a_call_that_finds_no_free_thread_is_refused_in_seconds_and_never_begun(
    one_thread: None, rabbit_url: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint, caller = rpc_conductor.Endpoint(), connect(rabbit_url)
    serve(rabbit_url, ONE, endpoint)
    with futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(caller.call, ctxt, "held", host=ONE)
        rpc_conductor.until(lambda: endpoint.seen)
        with pytest.raises(errors.ConductorUnresponsive):
            caller.call(ctxt, "note", host=ONE, word="late")
        assert not first.done(), "it hears that the conductor lives"
        endpoint.gate.set()
        assert first.result(rpc_conductor.SECONDS) == "released"
    caller.call(ctxt, "note", host=ONE, word="next")
    assert caller.call(ctxt, "noted", host=ONE) == ["next"]


# -- deaths ------------------------------------------------------------------------------------


def test_calls_in_flight_end_the_moment_their_conductor_is_killed(
    brokerless: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    process = spawn(brokerless, VICTIM)
    caller = connect(brokerless)
    with futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(caller.call, ctxt, "held", host=VICTIM) for _ in range(4)]
        rpc_conductor.until(lambda: caller.call(ctxt, "busy", host=VICTIM, calls=4))
        process.kill()
        for call in calls:
            why = call.exception(rpc_conductor.SECONDS)
            assert isinstance(why, errors.ConductorUnresponsive), "it may have begun"
            assert why.facts["host"] == VICTIM
            assert "localhost" in why.facts["reason"]


def test_a_child_forked_by_the_conductor_does_not_hide_its_death(
    brokerless: str, connect: Connect, ctxt: Context
) -> None:
    script = (
        "from tests.support import rpc_conductor\n"
        "from ironic_lite.core import config\n"
        "from ironic_lite.rpc import server, transport\n"
        "import os, signal, sys\n"
        "config.CONF([], default_config_files=[], default_config_dirs=[])\n"
        "class Forking(rpc_conductor.Endpoint):\n"
        "    def fork(self, context):\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            signal.pause()\n"
        "        return child\n"
        f"server.Server(transport.build({brokerless!r}), {ONE!r}, Forking()).start()\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    caller = connect(brokerless)
    child = caller.call(ctxt, "fork", host=ONE)
    try:
        with futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(caller.call, ctxt, "held", host=ONE)
            rpc_conductor.until(lambda: caller.call(ctxt, "busy", host=ONE))
            process.kill()
            process.wait()
            assert isinstance(call.exception(rpc_conductor.SECONDS), errors.NoConductor)
        with pytest.raises(errors.NoConductor):
            caller.call(ctxt, "who", host=ONE)
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_a_caller_that_hangs_up_does_not_disturb_the_server(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    endpoint = rpc_conductor.Endpoint()
    serve(brokerless, ONE, endpoint)
    caller = connect(brokerless)
    for _ in range(3):
        with pytest.raises(errors.NoConductor):
            caller.call(ctxt, "held", host=ONE, timeout=0.05)
    endpoint.gate.set()
    assert caller.call(ctxt, "who", host=ONE) == ONE


# -- forks -------------------------------------------------------------------------------------


def test_parent_and_forked_children_call_with_one_client(
    brokerless: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    spawn(brokerless, ONE)
    caller = connect(brokerless)
    assert caller.call(ctxt, "echo", host=ONE, word="before") == "before"
    children = [_fork(lambda: _echo_many(caller, ctxt)) for _ in range(3)]
    _echo_many(caller, ctxt)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert caller.call(ctxt, "echo", host=ONE, word="after") == "after"


def _echo_many(caller: client.RpcClient, ctxt: Context) -> None:
    for turn in range(100):
        word = f"{os.getpid()}-{turn}"
        assert caller.call(ctxt, "echo", host=ONE, word=word) == word


def _fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def test_a_child_can_call_while_other_threads_of_the_parent_do(
    local: str, spawn: Spawn, connect: Connect, ctxt: Context
) -> None:
    spawn(local, ONE)
    caller = connect(local)
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            caller.call(ctxt, "who", host=ONE)

    with futures.ThreadPoolExecutor(4) as pool:
        busy = [pool.submit(go_on) for _ in range(4)]
        children = [_fork(lambda: _echo_many(caller, ctxt)) for _ in range(5)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        over.set()
        assert [one.result(rpc_conductor.SECONDS) for one in busy] == [None] * 4
    assert codes == [0] * 5


# -- stops -------------------------------------------------------------------------------------


def test_a_stopping_server_takes_no_new_calls_and_finishes_those_it_has(
    brokerless: str, connect: Connect, ctxt: Context
) -> None:
    endpoint = rpc_conductor.Endpoint()
    one = server.Server(transport.build(brokerless), ONE, endpoint)
    one.start()
    caller = connect(brokerless)
    caller.call(ctxt, "who", host=ONE)
    with futures.ThreadPoolExecutor(2) as pool:
        call = pool.submit(caller.call, ctxt, "held", host=ONE)
        rpc_conductor.until(lambda: endpoint.seen)
        one.stop()
        with pytest.raises(errors.NoConductor):
            caller.call(ctxt, "who", host=ONE)
        endpoint.gate.set()
        assert call.result(rpc_conductor.SECONDS) == "released"
        assert one.wait(rpc_conductor.SECONDS)


def test_a_server_that_never_started_or_could_not_is_stopped_at_once(local: str) -> None:
    never = server.Server(transport.build(local), ONE, rpc_conductor.Endpoint())
    never.stop()
    assert never.wait(rpc_conductor.SECONDS)
    long = server.Server(
        transport.build(f"local:///tmp/{'x' * 200}"), ONE, rpc_conductor.Endpoint()
    )
    with pytest.raises(config.ConfigError):
        long.start()
    long.stop()
    assert long.wait(rpc_conductor.SECONDS)


def test_a_call_that_does_not_end_is_cut_off_after_the_bound(
    brokerless: str, connect: Connect, ctxt: Context, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = rpc_conductor.Endpoint()
    one = server.Server(transport.build(brokerless), ONE, endpoint)
    one.start()
    caller = connect(brokerless)
    with futures.ThreadPoolExecutor(2) as pool:
        call = pool.submit(caller.call, ctxt, "held", host=ONE)
        rpc_conductor.until(lambda: endpoint.seen)
        one.stop()
        assert one.wait(0.05) is False
        assert isinstance(call.exception(rpc_conductor.SECONDS), errors.NoConductor)
    assert "held" in caplog.text
    endpoint.gate.set()


def test_stop_in_a_system_without_threads_gives_up_running_calls(
    brokerless: str, connect: Connect, ctxt: Context
) -> None:
    endpoint = rpc_conductor.Endpoint()
    one = server.Server(transport.build(brokerless), ONE, endpoint)
    one.start()
    caller = connect(brokerless)
    with futures.ThreadPoolExecutor(2) as pool:
        call = pool.submit(caller.call, ctxt, "held", host=ONE)
        rpc_conductor.until(lambda: endpoint.seen)
        one.stop()
        with no_new_threads():
            assert one.wait(rpc_conductor.SECONDS) is False
        assert isinstance(call.exception(rpc_conductor.SECONDS), errors.NoConductor)
        endpoint.gate.set()
    assert one.wait(rpc_conductor.SECONDS)
