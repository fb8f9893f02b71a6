"""Transports, servers and clients for the tests of RPC; every one of them real."""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import pathlib  # noqa: E402  threads.native() must run before anything imports an oslo library
import shutil  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from typing import Any  # noqa: E402

import oslo_messaging  # noqa: E402
import pytest  # noqa: E402

from ironic_lite.core import config, context  # noqa: E402
from ironic_lite.rpc import client, server, transport  # noqa: E402
from ironic_lite.rpc.sockets import frames  # noqa: E402
from tests.support import direct_rpc, rabbit, rpc_conductor  # noqa: E402
from tests.support.rpc_conductor import Serve  # noqa: E402


@pytest.fixture(autouse=True)
def no_files() -> Iterator[None]:
    """Options have their defaults, whatever the machine has configured."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    yield
    config.CONF.clear()


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """A folder with a short path, as sockets need."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="rpc-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def local(folder: pathlib.Path) -> str:
    return f"local://{folder}/rpc"


@pytest.fixture(scope="session")
def rabbit_url() -> Iterator[str]:
    """The URL of a fresh virtual host of the RabbitMQ on this machine."""
    with rabbit.own_url() as url:
        yield url


@pytest.fixture(scope="session")
def direct_options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Options of [direct] with certificates for all conductors of the tests."""
    return direct_rpc.options(tmp_path_factory.mktemp("direct"))


@pytest.fixture
def direct(direct_options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of ``direct://``, which this process and its children may use.

    The names of conductors are addresses here: ONE, TWO and so on of `rpc_conductor`.
    """
    for name, value in direct_rpc.environment(direct_options).items():
        monkeypatch.setenv(name, value)
    return direct_rpc.URL


@pytest.fixture(params=["local", "direct", "rabbit_url"])
def url(request: pytest.FixtureRequest) -> str:
    """A transport URL; tests that ask for it run on all transports."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture(params=["local", "rabbit_url"])
def shared(request: pytest.FixtureRequest) -> str:
    """The URL of a transport with notifications, and calls without the name of a server."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture(params=["local", "direct"])
def brokerless(request: pytest.FixtureRequest) -> str:
    """A URL; tests that ask for it run on all transports without a broker."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def connect() -> Iterator[Callable[[str], client.RpcClient]]:
    """Make clients that are hung up at the end."""
    made = []

    def make(url: str) -> client.RpcClient:
        made.append(transport.build(url))
        return client.RpcClient(made[-1])

    yield make
    for one in made:
        one.cleanup()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers in this process, stopped at the end."""
    made: list[tuple[server.Server, rpc_conductor.Endpoint, Any]] = []

    def start(url: str, host: str, endpoint: rpc_conductor.Endpoint) -> server.Server:
        messaging = transport.build(url)
        one = server.Server(messaging, host, endpoint)
        one.start()
        made.append((one, endpoint, messaging))
        return one

    yield start
    for one, endpoint, messaging in made:
        endpoint.gate.set()
        one.stop()
        assert one.wait(20)
        messaging.cleanup()


@pytest.fixture
def spawn() -> Iterator[Callable[[str, str], rpc_conductor.Process]]:
    """Start servers in processes of their own; none is left at the end."""
    made: list[rpc_conductor.Process] = []

    def start(url: str, host: str) -> rpc_conductor.Process:
        process = rpc_conductor.Process("serve", url, host)
        made.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Servers carry out one call at a time."""
    target = oslo_messaging.Target(topic="any", server="any")
    fake = oslo_messaging.get_rpc_transport(config.CONF, url="fake:///")
    oslo_messaging.get_rpc_server(fake, target, [])  # registers the option
    config.CONF.set_override("executor_thread_pool_size", 1)
    yield
    config.CONF.clear_override("executor_thread_pool_size")


@pytest.fixture
def one_mib() -> Iterator[Callable[[], None]]:
    """Lower the frame limit to 1 MiB for the transports that are built after the call."""
    frames.frame_limit(config.CONF)
    yield lambda: config.CONF.set_override("frame_limit_mib", 1, group=frames.LIMIT_GROUP)
    config.CONF.clear_override("frame_limit_mib", group=frames.LIMIT_GROUP)


@pytest.fixture
def ctxt() -> context.Context:
    return context.Context("req-1", user="u", project="p", roles=("admin", "reader"))
