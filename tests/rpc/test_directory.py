"""The directory of local://: who may use it, what is in it, what is swept out."""

from __future__ import annotations

import os
import pathlib
import socket
import stat
from collections.abc import Callable

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.rpc import client, server, transport
from ironic_lite.rpc.local import addresses
from tests.support import rpc_conductor
from tests.support.rpc_conductor import Serve

Connect = Callable[[str], client.Client]


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
        verdicts[owner] = addresses.untrusted_reason(os.stat_result(found), user=1000)
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
    room = addresses.LONGEST - len(f"{folder}//12345678@one")
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
    assert len({addresses.member(name) for name in names}) == len(names)


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
    assert one.wait(10)
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
        addresses.Directory(f"{folder}/rpc").claim("channel", "one")


@pytest.mark.parametrize("url", ["local://host/path", "local://host"])
def test_a_url_with_a_host_is_refused(url: str) -> None:
    with pytest.raises(config.ConfigError, match="three slashes"):
        transport.build(url)
