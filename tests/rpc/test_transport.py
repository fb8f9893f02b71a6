"""Which transport a configuration means, and what the processes load for it."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import oslo_messaging
import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.rpc import client, interface, server, transport
from ironic_lite.rpc.serializer import Serializer
from tests.support import rpc_conductor


@pytest.fixture
def state(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    config.CONF.set_override("state_path", str(folder))
    yield folder
    config.CONF.clear_override("state_path")


def _set(url: str) -> None:
    transport.configured()
    config.CONF.set_override("transport_url", url)


@pytest.fixture(autouse=True)
def unset() -> Iterator[None]:
    yield
    transport.configured()
    config.CONF.clear_override("transport_url")
    transport.get.cache_clear()


@pytest.mark.parametrize("url", [None, "local://", "local:///"])
def test_the_sockets_are_in_the_state_path_by_default(
    state: pathlib.Path, ctxt: Context, url: str | None
) -> None:
    if url:
        _set(url)
    one = server.Server(transport.get(), "one", rpc_conductor.Endpoint("one"))
    one.start()
    assert len(list((state / "rpc").glob("*@one"))) == 1
    assert client.Client(transport.get()).call(ctxt, "who", host="one") == "one"
    one.stop()
    assert one.wait(rpc_conductor.SECONDS)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rabbit//me:s3cret@host", "No scheme specified"),
        ("rabbit://me:s3cret@host:port/", "not a URL such as rabbit://"),
        ("rabbit://me:s3c/ret@host/", "not a URL such as rabbit://"),
        ("rabbit://me:s3cret@[::1/", "not a URL such as rabbit://"),
        ("pigeon://me:s3cret@host/", "Failed to load transport driver"),
        ("kafka://me:s3cret@host/", "No module named"),
        ("local://me:s3cret@host/x", "takes a directory and no host"),
    ],
)
def test_a_url_of_no_use_is_one_line_without_its_password(url: str, said: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        transport.build(url)
    line = caught.value.message
    assert line.startswith("[DEFAULT]transport_url: ")
    assert said in line
    assert "s3c" not in line
    assert "\n" not in line


def test_transport_url_says_where_else(state: pathlib.Path) -> None:
    _set(f"local://{state}/else%20where")
    one = server.Server(transport.get(), "one", rpc_conductor.Endpoint("one"))
    one.start()
    assert len(list((state / "else where").glob("*@one"))) == 1
    one.stop()
    assert one.wait(rpc_conductor.SECONDS)


def test_a_process_has_one_transport(state: pathlib.Path) -> None:
    assert transport.get() is transport.get()
    assert transport.get().brokerless


@pytest.mark.parametrize("url", ["nonsense", "pigeon://post", "://"])
def test_a_transport_that_is_none_is_a_configuration_error(url: str) -> None:
    _set(url)
    with pytest.raises(config.ConfigError, match="transport_url"):
        transport.build()


def test_a_server_that_has_stopped_leaves_no_thread(local: str, ctxt: Context) -> None:
    before = set(threading.enumerate())
    one = server.Server(transport.build(local), "one", rpc_conductor.Endpoint("one"))
    one.start()
    monitored = oslo_messaging.get_rpc_client(
        transport.build(local).bus,
        oslo_messaging.Target(exchange=interface.EXCHANGE, topic=interface.TOPIC, server="one"),
        serializer=Serializer(encode=False),
        call_monitor_timeout=2,
    )
    assert monitored.call(ctxt, "who") == "one"
    assert set(threading.enumerate()) > before
    one.stop()
    assert one.wait(rpc_conductor.SECONDS)
    rpc_conductor.until(lambda: set(threading.enumerate()) <= before)


def test_a_broker_that_is_away_is_no_conductor_and_not_an_endless_wait(ctxt: Context) -> None:
    caller = client.Client(transport.build("rabbit://guest:guest@127.0.0.1:1/"))
    for attempt in (caller.cast, caller.call):
        with pytest.raises(errors.NoConductor) as caught:
            attempt(ctxt, "who", host="one")
        assert "broker" in caught.value.facts["reason"]
    with pytest.raises(errors.NoConductor):
        caller.fanout(ctxt, "who")


@pytest.mark.parametrize(
    "why",
    [OSError("Server unexpectedly closed connection"), ConnectionResetError(), TimeoutError()],
)
def test_a_broker_that_hangs_up_in_the_middle_is_no_conductor(
    ctxt: Context, monkeypatch: pytest.MonkeyPatch, why: OSError
) -> None:
    def hang_up(*_args: object, **_facts: object) -> None:
        raise why

    caller = client.Client(transport.build("rabbit://guest:guest@127.0.0.1:1/"))
    monkeypatch.setattr(caller, "_check_broker", hang_up)
    for attempt in (caller.cast, caller.call):
        with pytest.raises(errors.NoConductor) as caught:
            attempt(ctxt, "who", host="one")
        assert "broker" in caught.value.message


def _python(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_broker_that_says_nothing_is_no_conductor_and_not_an_endless_wait() -> None:
    # In a process of its own: the library tries such a broker for ever.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = _python(f"""
from ironic_lite.core import threads
threads.native()
import os, threading
from ironic_lite.core import config, context; from ironic_lite import errors
from ironic_lite.rpc import client, opening, transport
config.CONF([], default_config_files=[], default_config_dirs=[])
opening._PATIENCE = 0.5
url = "rabbit://guest:guest@127.0.0.1:{silent.getsockname()[1]}/"
caller = client.Client(transport.build(url))
for attempt in (caller.call, caller.cast):
    try:
        attempt(context.internal("test"), "who", host="one")
    except errors.NoConductor as why:
        print(why.facts["reason"])
print([one.name for one in threading.enumerate()].count("rpc-opening"), flush=True)
os._exit(0)
""")
    assert said.splitlines() == ["the message broker takes no connection"] * 2 + ["1"]


def test_first_connection_without_a_thread_is_made_by_the_next_call() -> None:
    # In a process of its own, as above.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = _python(f"""
from ironic_lite.core import threads
threads.native()
import os, threading
from ironic_lite.core import config
from ironic_lite.rpc import opening, transport
from tests.support.thread_limit import no_new_threads
import oslo_messaging
config.CONF([], default_config_files=[], default_config_dirs=[])
opening._PATIENCE = 0.5
url = "rabbit://guest:guest@127.0.0.1:{silent.getsockname()[1]}/"
first = opening.Opening(transport.build(url))
def wait():
    try:
        first.wait()
    except oslo_messaging.MessageDeliveryFailure as why:
        print(why)
with no_new_threads():
    wait()
wait()
print([one.name for one in threading.enumerate()].count("rpc-opening"), flush=True)
os._exit(0)
""")
    assert said.splitlines() == [
        "can't start new thread",
        "the message broker takes no connection",
        "1",
    ]


def test_no_eventlet_and_no_broker_library_is_ever_imported(folder: pathlib.Path) -> None:
    loaded = _python(f"""
from ironic_lite.core import threads
threads.native()
threads.native()
import sys
from ironic_lite.core import config, context
from ironic_lite.rpc import client, server, transport
from tests.support import rpc_conductor
config.CONF([], default_config_files=[], default_config_dirs=[])
one = server.Server(transport.build("local://{folder}/rpc"), "one", rpc_conductor.Endpoint("one"))
one.start()
caller = client.Client(transport.build("local://{folder}/rpc"))
assert caller.call(context.internal("test"), "who", host="one") == "one"
one.stop()
assert one.wait(10)
assert sys.modules["eventlet"] is None
unwanted = ("eventlet.", "greenlet", "kombu", "amqp", "sqlalchemy", "pecan", "prometheus")
print([name for name in sys.modules if name.startswith(unwanted)])
""")
    assert loaded == "[]"


def test_the_public_choice_of_threads_alone_still_lets_eventlet_in() -> None:
    """If this fails, the libraries have improved: `threads.native` can do without its entry."""
    loaded = _python("""
import warnings
warnings.simplefilter("ignore")
from oslo_service import backend
backend.init_backend(backend.BackendType.THREADING)
import oslo_messaging, sys
print("eventlet.hubs" in sys.modules)
""")
    assert loaded == "True"


def test_native_threads_leave_a_program_alone_that_has_loaded_eventlet() -> None:
    assert (
        _python("""
import warnings
warnings.simplefilter("ignore")
import eventlet
from ironic_lite.core import threads
threads.native()
threads.native()
import oslo_messaging, sys
print(sys.modules["eventlet"] is eventlet)
""")
        == "True"
    )


def test_native_threads_leave_a_program_alone_that_has_chosen_a_backend() -> None:
    assert (
        _python("""
import warnings
warnings.simplefilter("ignore")
from oslo_service import backend
backend.init_backend(backend.BackendType.EVENTLET)
from ironic_lite.core import threads
threads.native()
print(backend.get_backend_type().value)
""")
        == "eventlet"
    )
