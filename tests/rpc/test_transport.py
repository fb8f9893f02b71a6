"""Which transport a configuration means, what oslo.messaging asks, and the directory of local://."""

from __future__ import annotations

import inspect
import os
import pathlib
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import oslo_messaging
import pytest
from oslo_messaging._drivers import base, common

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.rpc import client, contract, encoding, server, transport
from ironic_lite.rpc.encoding import Serializer
from ironic_lite.rpc.sockets import frames
from ironic_lite.rpc.sockets import local as local_transport
from ironic_lite.rpc.sockets import server as socket_server
from ironic_lite.rpc.sockets.local import LocalDriver
from tests.support import rpc_conductor
from tests.support.rpc_conductor import Serve

# Which transport a configuration means, and what the processes load for it.


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
    assert client.RpcClient(transport.get()).call(ctxt, "who", host="one") == "one"
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
    plain = oslo_messaging.get_rpc_client(
        transport.build(local).bus,
        oslo_messaging.Target(exchange=contract.EXCHANGE, topic=contract.TOPIC, server="one"),
        serializer=Serializer(encode=False),
    )
    assert plain.call(ctxt, "who") == "one"
    assert set(threading.enumerate()) > before
    one.stop()
    assert one.wait(rpc_conductor.SECONDS)
    rpc_conductor.until(lambda: set(threading.enumerate()) <= before)


def test_a_broker_that_is_away_is_no_conductor_and_not_an_endless_wait(ctxt: Context) -> None:
    caller = client.RpcClient(transport.build("rabbit://guest:guest@127.0.0.1:1/"))
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

    caller = client.RpcClient(transport.build("rabbit://guest:guest@127.0.0.1:1/"))
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
from ironic_lite.rpc import client, transport
config.CONF([], default_config_files=[], default_config_dirs=[])
transport._PATIENCE = 0.5
url = "rabbit://guest:guest@127.0.0.1:{silent.getsockname()[1]}/"
caller = client.RpcClient(transport.build(url))
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
from ironic_lite.rpc import transport
from tests.support.thread_limit import no_new_threads
import oslo_messaging
config.CONF([], default_config_files=[], default_config_dirs=[])
transport._PATIENCE = 0.5
url = "rabbit://guest:guest@127.0.0.1:{silent.getsockname()[1]}/"
first = transport.Opening(transport.build(url))
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
caller = client.RpcClient(transport.build("local://{folder}/rpc"))
assert caller.call(context.internal("test"), "who", host="one") == "one"
one.stop()
assert one.wait(60)
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


# What oslo.messaging asks of a driver, and what becomes of exceptions on their way.


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (base.BaseDriver, LocalDriver),
        (base.Listener, socket_server.Listener),
        (base.RpcIncomingMessage, socket_server.Incoming),
    ],
)
def test_our_classes_have_the_methods_and_arguments_of_oslo_messaging_s(
    theirs: type, ours: type
) -> None:
    """Fails when a new oslo.messaging asks more of a driver than ours has."""
    for name, method in inspect.getmembers(theirs, inspect.isfunction):
        if not name.startswith("_"):
            asked = [*inspect.signature(method).parameters]
            assert [*inspect.signature(getattr(ours, name)).parameters] == asked, name


def test_our_messages_have_the_attributes_of_oslo_messaging_s() -> None:
    class Plain(base.RpcIncomingMessage):  # type: ignore[misc]
        def requeue(self) -> None: ...
        def reply(self, reply: object = None, failure: object = None) -> None: ...
        def heartbeat(self) -> None: ...

    ours, peer = socket.socketpair()
    with ours, peer:
        line = socket_server.Line(ours, 100)
        made = socket_server.Incoming(line, {"id": 1, "ctxt": {}, "msg": {}})
        assert vars(Plain({}, {})).keys() <= vars(made).keys()


# -- exceptions --------------------------------------------------------------------------------


def raised(error: Exception) -> frames.Raised:
    try:
        raise error
    except Exception as why:
        return type(why), why, why.__traceback__


@pytest.mark.parametrize(
    "error",
    [
        encoding.pack(errors.NodeLocked(node="n", host="h")),
        encoding.Again(host="one", at=1.5),
        oslo_messaging.NoSuchMethod("x"),
        ValueError("x"),
    ],
)
def test_an_exception_is_written_as_oslo_messaging_writes_it(error: Exception) -> None:
    """Fails when the form changes; API and conductor of two releases share it."""
    modules = [*transport.REMOTE_MODULES]
    for text, load in (
        (frames.dump_exception(raised(error)), common.deserialize_remote_exception),
        (common.serialize_remote_exception(raised(error)), frames.load_exception),
    ):
        found = load(text, modules)
        if type(error).__module__ in modules:
            assert isinstance(found, type(error))
            assert found.kwargs == error.kwargs  # type: ignore[attr-defined]
        else:
            assert type(error).__name__ in repr(type(found)) + str(found)


@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("builtins", "print"), (encoding.__name__, "unpack")]
)
def test_only_exceptions_of_the_modules_allowed_are_rebuilt(module: str, name: str) -> None:
    text = f'{{"class": "{name}", "module": "{module}", "message": "m", "args": ["true"]}}'
    found = frames.load_exception(text, transport.REMOTE_MODULES)
    assert isinstance(found, oslo_messaging.RemoteError)
    assert (found.exc_type, found.value) == (name, "m")


def test_an_exception_without_json_form_crosses_as_its_message() -> None:
    found = frames.load_exception(frames.dump_exception(raised(ValueError(object))), ())
    assert isinstance(found, oslo_messaging.RemoteError)
    assert "object" in str(found.value)


# The directory of local://: who may use it, what is in it, what is swept out.

Connect = Callable[[str], client.RpcClient]


def _sockets(folder: pathlib.Path) -> list[str]:
    return sorted(path.name.partition("@")[2] for path in (folder / "rpc").glob("*@*"))


def test_the_directory_is_made_for_this_user_alone(
    local: str, folder: pathlib.Path, serve: Serve
) -> None:
    serve(local, "one", rpc_conductor.Endpoint("one"))
    assert stat.S_IMODE((folder / "rpc").stat().st_mode) == 0o700
    assert _sockets(folder) == ["one"]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_others_may_write_is_refused_by_server_and_client(
    *, local: str, folder: pathlib.Path, serve: Serve, connect: Connect, ctxt: Context, mode: int
) -> None:
    (folder / "rpc").mkdir()
    (folder / "rpc").chmod(mode)
    with pytest.raises(config.ConfigError, match=rf"{folder}/rpc has mode {mode:04o}.*0700"):
        serve(local, "one", rpc_conductor.Endpoint("one"))
    with pytest.raises(config.ConfigError, match="0700"):
        connect(local).call(ctxt, "who", host="one")
    with pytest.raises(config.ConfigError, match="0700"):
        connect(local).call(ctxt, "who", host=None)


def test_a_file_in_place_of_the_directory_is_refused(
    local: str, folder: pathlib.Path, serve: Serve
) -> None:
    (folder / "rpc").touch()
    with pytest.raises(config.ConfigError, match=f"{folder}/rpc"):
        serve(local, "one", rpc_conductor.Endpoint("one"))


def test_the_directory_of_another_user_is_not_trusted(tmp_path: pathlib.Path) -> None:
    found = list(tmp_path.stat())
    found[stat.ST_MODE] = stat.S_IFDIR | 0o755
    verdicts = {}
    for owner in (0, 1000, 1001):
        found[stat.ST_UID] = owner
        verdicts[owner] = local_transport.untrusted_reason(os.stat_result(found), user=1000)
    assert verdicts[0] is None
    assert verdicts[1000] is None
    assert "belongs to user 1001" in str(verdicts[1001])


def test_a_path_too_long_for_a_socket_is_named_with_advice(
    folder: pathlib.Path, serve: Serve
) -> None:
    path = folder / ("x" * 90)
    with pytest.raises(config.ConfigError) as caught:
        serve(f"local://{path}", "one", rpc_conductor.Endpoint("one"))
    text = str(caught.value)
    assert str(path) in text
    assert "107" in text
    assert "transport_url = local:///" in text
    assert not path.exists()


def test_the_longest_path_that_fits_works(
    folder: pathlib.Path, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    room = local_transport.LONGEST - len(f"{folder}//12345678@one")
    url = f"local://{folder}/{'x' * room}"
    serve(url, "one", rpc_conductor.Endpoint("one"))
    assert connect(url).call(ctxt, "who", host="one") == "one"


@pytest.mark.parametrize("host", ["h" * 24, "h" * 250, "söme host/../x", "a@b", "a b", "~"])
def test_any_host_name_makes_a_working_address(
    local: str, serve: Serve, connect: Connect, ctxt: Context, host: str
) -> None:
    serve(local, host, rpc_conductor.Endpoint(host))
    assert connect(local).call(ctxt, "who", host=host) == host


def test_host_names_that_differ_have_addresses_that_differ() -> None:
    names = ["h" * 25, "h" * 26, "a/b", "a-b", "a b", "x" * 24, "x" * 15 + "~" + "0" * 8]
    assert len({local_transport.member_name(name) for name in names}) == len(names)


def test_the_sockets_of_dead_processes_are_swept_and_living_ones_kept(
    local: str, folder: pathlib.Path, spawn: Callable[..., rpc_conductor.Process], serve: Serve
) -> None:
    dead = spawn(local, "dead")
    spawn(local, "alive")
    dead.kill()
    dead.wait()
    (folder / "rpc" / "a@file").write_text("not a socket")
    assert _sockets(folder) == ["alive", "dead", "file"]
    serve(local, "one", rpc_conductor.Endpoint("one"))
    assert _sockets(folder) == ["alive", "file", "one"]


def test_a_killed_conductor_can_start_again_and_a_kept_client_finds_it(
    local: str, spawn: Callable[..., rpc_conductor.Process], connect: Connect, ctxt: Context
) -> None:
    caller = connect(local)
    first = spawn(local, "one")
    pid = caller.call(ctxt, "pid", host="one")
    first.kill()
    first.wait()
    with pytest.raises(errors.NoConductor):
        caller.call(ctxt, "pid", host="one")
    spawn(local, "one")
    assert caller.call(ctxt, "pid", host="one") != pid


def test_two_living_conductors_cannot_have_one_name(
    local: str, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    serve(local, "one", rpc_conductor.Endpoint("first"))
    second = server.Server(transport.build(local), "one", rpc_conductor.Endpoint("second"))
    with pytest.raises(errors.Unavailable, match=r"\[DEFAULT\]host"):
        second.start()  # perhaps the first is about to stop: another try may succeed
    assert connect(local).call(ctxt, "who", host="one") == "first"


def test_stopping_removes_the_socket_but_not_one_of_a_successor(
    local: str, folder: pathlib.Path
) -> None:
    one = server.Server(transport.build(local), "one", rpc_conductor.Endpoint("one"))
    one.start()
    (path,) = (folder / "rpc").glob("*@one")
    path.unlink()
    successor = socket.socket(socket.AF_UNIX)
    successor.bind(str(path))
    one.stop()
    assert one.wait(60)
    assert path.exists()
    successor.close()


def test_a_call_without_host_passes_over_the_dead(
    local: str,
    serve: Serve,
    spawn: Callable[..., rpc_conductor.Process],
    connect: Connect,
    ctxt: Context,
) -> None:
    dead = spawn(local, "dead")
    serve(local, "one", rpc_conductor.Endpoint("one"))
    dead.kill()
    dead.wait()
    caller = connect(local)
    assert [caller.call(ctxt, "who", host=None) for _ in range(4)] == ["one"] * 4
    caller.fanout(ctxt, "note", word=1)


def test_without_any_conductor_a_call_fails_and_a_fanout_does_not(
    local: str, folder: pathlib.Path, connect: Connect, ctxt: Context
) -> None:
    caller = connect(local)
    with pytest.raises(errors.NoConductor):
        caller.call(ctxt, "who", host=None)
    (folder / "rpc").mkdir(mode=0o700)
    with pytest.raises(errors.NoConductor):
        caller.call(ctxt, "who", host=None)
    caller.fanout(ctxt, "note", word=1)


def test_a_refusal_of_the_system_is_no_bad_configuration(folder: pathlib.Path) -> None:
    """A full disk, a lack of descriptors or of rights may pass: only then status 1 means retry."""
    (folder / "rpc").mkdir(mode=0o700)
    (folder / "rpc" / "lock").mkdir()
    with pytest.raises(errors.Unavailable, match=f"cannot listen at {folder}/rpc/channel@one: "):
        local_transport.Directory(f"{folder}/rpc").claim("channel", "one")


@pytest.mark.parametrize("url", ["local://host/path", "local://host"])
def test_a_url_with_a_host_is_refused(url: str) -> None:
    with pytest.raises(config.ConfigError, match="three slashes"):
        transport.build(url)
