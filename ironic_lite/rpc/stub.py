"""Typed calls of conductors, and the interceptors that each call passes.

`connect` makes an object with the methods of `contract.Conductor` from one function that sends a
call. Interceptors stand around this function, the outermost first. A call of an API process passes:

1. ``api.service.Failover`` chooses the conductor, and the next one if nothing listens there.
2. ``api.http.limits.ConcurrencyLimits.limit_question`` holds a second slot for a read.
3. ``rpc.client.RpcClient.send`` sends the call with its deadline, and raises the conductor's error.

In the conductor it then passes:

4. ``rpc.server.Dispatcher`` refuses it if its caller has gone, and sends keepalives.
5. ``conductor.endpoints.interceptors.ThreadShares`` refuses it if many wait for machines.
6. ``conductor.endpoints.interceptors.WithDeadline`` limits the time of requests to machines.
7. ``conductor.endpoints.interceptors.WithoutSecrets`` hides secrets in its error.
8. ``conductor.endpoints.interceptors.OncePerRequest`` refuses a batch's request if
   it is under way.
9. ``conductor.service.Endpoints`` has the method, which implements the contract.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.rpc import contract


class RpcCall(NamedTuple):
    """A call of one method of the contract.

    ``host`` None means any living conductor; ``timeout`` None means the configured seconds.
    """

    method: str
    context: Context
    args: Json
    host: str | None = None
    timeout: float | None = None


Send = Callable[[RpcCall], Any]
"""Carries out a call and returns its result."""

Interceptor = Callable[[RpcCall, Send], Any]
"""Carries out a call by the given function, with something before, after or around it."""


def connect(
    send: Send, *interceptors: Interceptor, host: str | None = None, timeout: float | None = None
) -> contract.Conductor:
    """Return a conductor whose methods pass the interceptors in order, then ``send``."""
    for one in reversed(interceptors):
        send = _wrap_send(one, send)
    return typing.cast(contract.Conductor, _Stub(send, host, timeout))


def to(conductor: contract.Conductor) -> Send:
    """Return the function that calls a conductor of this process."""

    def send(call: RpcCall) -> Any:
        return getattr(conductor, call.method)(call.context, **call.args)

    return send


def _wrap_send(interceptor: Interceptor, send: Send) -> Send:
    return lambda call: interceptor(call, send)


class _Stub:
    """The methods of the contract, each with its signature and docstring; see below."""

    __slots__ = ("_host", "_send", "_timeout")

    def __init__(self, send: Send, host: str | None, timeout: float | None) -> None:
        self._send = send
        self._host = host
        self._timeout = timeout


def _stub_method(name: str, declared: Callable[..., object]) -> Callable[..., Any]:
    @functools.wraps(declared)
    def call(stub: _Stub, context: Context, /, **args: object) -> Any:
        return stub._send(RpcCall(name, context, args, stub._host, stub._timeout))

    return call


METHODS = {
    name: declared
    for name, declared in vars(contract.Conductor).items()
    if inspect.isfunction(declared) and not name.startswith("_")
}
"""The methods of the contract, as declared."""

for _name, _declared in METHODS.items():
    setattr(_Stub, _name, _stub_method(_name, _declared))
