"""A broker that stands still: callers get their error before their own time is over."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable, Iterator
from concurrent import futures

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.rpc import client, transport
from tests.support import private_servers, rpc_conductor
from tests.support.service import family

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


@contextlib.contextmanager
def standing_still(server: private_servers.RabbitMQ) -> Iterator[None]:
    """Stop all processes of the broker for the length of the block."""
    processes = family(server.pid)
    try:
        for one in processes:
            one.suspend()
        yield
    finally:
        for one in processes:
            one.resume()


def test_callers_of_a_hung_broker_get_503_within_their_time(
    broker: private_servers.RabbitMQ,
    spawn: Callable[[str, str], rpc_conductor.Process],
    connect: Callable[[str], client.Client],
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
