"""A server gets bytes no client of ours would send; a client gets an answer it does not take."""

from __future__ import annotations

import contextlib
import pathlib
import socket
from collections.abc import Callable, Iterator

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.rpc import client
from ironic_lite.rpc.sockets import frames, options
from tests.support import direct_rpc, rpc_conductor
from tests.support.rpc_conductor import ONE, Serve

Connect = Callable[[str], client.Client]
HEADER = frames.HEADER

GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "ones": b"\xff" * 4096,
    "nuls": b"\0" * 4096,
    "not json": HEADER.pack(3) + b"{{{",
    "not utf-8": HEADER.pack(4) + b'"\xff\xfe"',
    "a list": HEADER.pack(2) + b"[]",
    "an empty object": HEADER.pack(2) + b"{}",
    "wrong types": frames.encode({"id": "1", "ctxt": [], "msg": None}, 999),
    "a message without method": frames.encode({"id": 1, "ctxt": {}, "msg": {}}, 999),
    "a context without request id": frames.encode(
        {"id": 1, "ctxt": {"user": 1}, "msg": {"method": "who", "args": {}}, "reply": True}, 999
    ),
    "a method that is no text": frames.encode(
        {"id": 1, "ctxt": {}, "msg": {"method": 7, "args": []}, "reply": True}, 999
    ),
    "a monitor that is no number": frames.encode(
        {"id": 1, "ctxt": {}, "msg": {"method": "who"}, "reply": True, "monitor": "x"}, 999
    ),
    "half a frame": HEADER.pack(1000) + b"{",
    "half a length": b"\0\0",
    "nothing": b"",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_the_server_lives_on_after(
    *, what: str, brokerless: str, raw: Raw, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    caller = connect(brokerless)
    for _ in range(3):
        with raw() as line:
            line.sendall(GARBAGE[what])
        assert caller.call(ctxt, "echo", host=ONE, word=what) == what


def test_the_sender_of_garbage_is_told_and_hung_up(brokerless: str, raw: Raw, serve: Serve) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    with raw() as line:
        line.sendall(GARBAGE["http"])
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := line.recv(4096):
                said += chunk
    (body,) = frames.Reader(2**20).feed(said)
    assert "frame_limit_mib" in body["refused"]["reason"]


def test_a_client_that_sends_slowly_does_not_delay_others(
    brokerless: str, raw: Raw, serve: Serve, connect: Connect, ctxt: Context
) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    request = {"id": 1, "ctxt": ctxt.as_dict(), "msg": {"method": "who"}, "reply": True}
    frame = frames.encode(request, 2**20)
    with raw() as line:
        for byte in frame:
            line.sendall(bytes([byte]))
            if byte % 8 == 0:
                assert connect(brokerless).call(ctxt, "who", host=ONE) == ONE
        (body,) = frames.Reader(2**20).feed(line.recv(4096))
    assert body == {"id": 1, "result": ONE}


def test_a_server_with_a_lower_limit_refuses_and_goes_on(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context, one_mib: Callable[[], None]
) -> None:
    caller = connect(brokerless)
    one_mib()
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    for size in (2, 40):
        with pytest.raises(errors.TooLarge, match="1 MiB"):
            caller.call(ctxt, "echo", host=ONE, word="x" * (size * 2**20))
    assert caller.call(ctxt, "who", host=ONE) == ONE


def test_an_answer_beyond_the_server_s_limit_is_too_large(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context, one_mib: Callable[[], None]
) -> None:
    caller = connect(brokerless)
    one_mib()
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    with pytest.raises(errors.TooLarge, match="answer"):
        caller.call(ctxt, "large", host=ONE, size=2 * 2**20)
    assert caller.call(ctxt, "who", host=ONE) == ONE


def test_an_answer_beyond_the_client_s_limit_is_too_large(
    brokerless: str, serve: Serve, connect: Connect, ctxt: Context, one_mib: Callable[[], None]
) -> None:
    serve(brokerless, ONE, rpc_conductor.Endpoint())
    one_mib()
    caller = connect(brokerless)
    with pytest.raises(errors.TooLarge, match="answer"):
        caller.call(ctxt, "large", host=ONE, size=2 * 2**20)
    assert caller.call(ctxt, "who", host=ONE) == ONE


def test_the_default_limit_has_room_for_a_config_drive_of_64_mib() -> None:
    assert options.frame_limit(config.CONF) > 64 * 2**20


Raw = Callable[[], contextlib.AbstractContextManager[socket.socket]]
"""Connects to the conductor ONE with the means of the standard library."""


@pytest.fixture
def raw(brokerless: str, folder: pathlib.Path, request: pytest.FixtureRequest) -> Raw:
    if brokerless != direct_rpc.URL:
        return lambda: _unix(folder)
    options = request.getfixturevalue("direct_options")
    return lambda: direct_rpc.connected(options, ONE)


@contextlib.contextmanager
def _unix(folder: pathlib.Path) -> Iterator[socket.socket]:
    (path,) = (folder / "rpc").glob(f"*@{ONE}")
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(rpc_conductor.SECONDS)
        line.connect(str(path))
        yield line
