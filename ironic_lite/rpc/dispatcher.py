"""The run of a call in a conductor: admission, method, result or error.

Errors of the service return unchanged. Any other exception is logged here, once, and the caller
gets a plain 500.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import logging
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_messaging import dispatcher

from ironic_lite import errors
from ironic_lite.core import context as contexts
from ironic_lite.core import metrics
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.rpc import failures
from ironic_lite.rpc.deadlines.admission import Admission
from ironic_lite.rpc.deadlines.call_keepalives import CallKeepalives

LOG = logging.getLogger(__name__)


class Dispatcher(dispatcher.DispatcherBase):  # type: ignore[misc]
    """Dispatches the messages of one server; one object serves all its threads.

    oslo.messaging's own dispatcher supports versions and namespaces, which the contract does not
    use. It starts a thread for each call, which takes a tenth of a call over ``local://``.
    """

    def __init__(
        self, host: str, endpoint: object, version: str, encode: Callable[[Any], object] | None
    ) -> None:
        """Call the public methods of ``endpoint``.

        :param host: the name of the server.
        :param version: reported to callers of a method that the endpoint lacks.
        :param encode: converts a result to plain JSON types, None if the transport does.
        """
        self._host = host
        self._endpoint = endpoint
        self._version = version
        self._encode = encode
        self.admission = Admission(host)
        self._signs = CallKeepalives()
        self._tickets = itertools.count()
        self._running: dict[int, str] = {}

    @property
    def running(self) -> list[str]:
        """The names of the running methods."""
        return list(self._running.values())

    def dispatch(self, incoming: Any) -> Any:
        """Run the method that a message names, and return its result.

        :param incoming: a message as in oslo.messaging's guide for drivers.
        :raises oslo_messaging.ExpectedException: contains a `failures.Failure`, or a
            `failures.Again` if the method was not begun.
        """
        try:
            self.admission.admit(incoming)
            name, method = self._find_method(incoming.message)
            with self._signs.during(incoming) if incoming.client_timeout else _NOTHING:
                context = Context.from_dict(incoming.ctxt)
                return self._carry_out(name, method, context, incoming.message.get("args", {}))
        except (failures.Failure, failures.Again):
            raise oslo_messaging.ExpectedException from None

    def end(self) -> None:
        """Stop sending keepalives to callers."""
        self._signs.end()

    def _find_method(self, message: Json) -> tuple[str, Callable[..., Any]]:
        name = str(message.get("method"))
        method = None if name.startswith("_") else getattr(self._endpoint, name, None)
        if not callable(method):
            unknown = errors.UnknownMethod(host=self._host, method=name, version=self._version)
            raise failures.pack(unknown)
        return name, method

    def _carry_out(
        self, name: str, method: Callable[..., object], context: Context, arguments: Json
    ) -> Any:
        ticket, watch, outcome = next(self._tickets), metrics.Watch(), "fault"
        self._running[ticket] = name
        contexts.enter(context)
        try:
            result = method(context, **arguments)
            encoded = self._encode(result) if self._encode else result
            outcome = "ok"
            return encoded
        except errors.Error as why:
            outcome = "error"
            raise failures.pack(why) from None
        except (Exception, SystemExit) as why:
            if isinstance(why, TypeError) and not _fits_signature(method, context, arguments):
                raise failures.pack(self._unknown_method(name, why)) from None
            LOG.exception(
                "RPC method %s failed unexpectedly in request %s", name, context.request_id
            )
            raise failures.pack(self._call_fault(name, context)) from None
        finally:
            del self._running[ticket]
            contexts.enter(None)
            metrics.BOARD.count("rpc_served_total", name, outcome)
            metrics.BOARD.observe("rpc_served_seconds", watch.seconds, name)

    def _unknown_method(self, name: str, why: TypeError) -> errors.UnknownMethod:
        """Return the error for a caller of another version with different arguments."""
        return errors.UnknownMethod(
            f"Conductor {self._host} does not accept these arguments of the method {name}: {why} "
            f"(its RPC API version is {self._version}); run the same version on both sides.",
            host=self._host,
            method=name,
            version=self._version,
        )

    def _call_fault(self, name: str, context: Context) -> errors.Error:
        """Return an error that names the log; the fault itself may contain secrets."""
        return errors.Error(
            f"Conductor {self._host} failed unexpectedly in {name}; its log has the details "
            f"under request {context.request_id}.",
            host=self._host,
            method=name,
        )


_NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


def _fits_signature(method: Callable[..., object], context: Context, arguments: Json) -> bool:
    try:
        inspect.signature(method).bind(context, **arguments)
    except TypeError:
        return False
    return True
