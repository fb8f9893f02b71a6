"""What oslo.messaging asks of a driver, and what becomes of exceptions on their way."""

from __future__ import annotations

import inspect
import socket

import oslo_messaging
import pytest
from oslo_messaging._drivers import base, common

from ironic_lite import errors
from ironic_lite.rpc import failures, transport
from ironic_lite.rpc.local import LocalDriver
from ironic_lite.rpc.sockets import incoming, listener, remote


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (base.BaseDriver, LocalDriver),
        (base.Listener, listener.Listener),
        (base.RpcIncomingMessage, incoming.Incoming),
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
        line = incoming.Line(ours, 100)
        made = incoming.Incoming(line, {"id": 1, "ctxt": {}, "msg": {}})
        assert vars(Plain({}, {})).keys() <= vars(made).keys()


# -- exceptions --------------------------------------------------------------------------------


def raised(error: Exception) -> remote.Raised:
    try:
        raise error
    except Exception as why:
        return type(why), why, why.__traceback__


@pytest.mark.parametrize(
    "error",
    [
        failures.pack(errors.NodeLocked(node="n", host="h")),
        failures.Again(host="one", at=1.5),
        oslo_messaging.NoSuchMethod("x"),
        ValueError("x"),
    ],
)
def test_an_exception_is_written_as_oslo_messaging_writes_it(error: Exception) -> None:
    """Fails when the form changes; API and conductor of two releases share it."""
    modules = [*transport.REMOTE_MODULES]
    for text, load in (
        (remote.dump(raised(error)), common.deserialize_remote_exception),
        (common.serialize_remote_exception(raised(error)), remote.load),
    ):
        found = load(text, modules)
        if type(error).__module__ in modules:
            assert isinstance(found, type(error))
            assert found.kwargs == error.kwargs  # type: ignore[attr-defined]
        else:
            assert type(error).__name__ in repr(type(found)) + str(found)


@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("builtins", "print"), (failures.__name__, "unpack")]
)
def test_only_exceptions_of_the_modules_allowed_are_rebuilt(module: str, name: str) -> None:
    text = f'{{"class": "{name}", "module": "{module}", "message": "m", "args": ["true"]}}'
    found = remote.load(text, transport.REMOTE_MODULES)
    assert isinstance(found, oslo_messaging.RemoteError)
    assert (found.exc_type, found.value) == (name, "m")


def test_an_exception_without_json_form_crosses_as_its_message() -> None:
    found = remote.load(remote.dump(raised(ValueError(object))), ())
    assert isinstance(found, oslo_messaging.RemoteError)
    assert "object" in str(found.value)
