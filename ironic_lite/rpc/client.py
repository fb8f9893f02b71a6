"""The API's end of RPC: typed calls of a conductor, whose errors come back as they were raised.

::

    client = Client(transport.get())
    client.conductor("host-1").do_node_clean(context, node_uuid=uuid, clean_steps=[])
"""

from __future__ import annotations

import functools
import logging
import typing
import uuid
from collections.abc import Callable
from typing import Any

import oslo_messaging

from ironic_lite import clock, config, errors, metrics
from ironic_lite.context import Context
from ironic_lite.rpc import encoding, failures, interface, patience, pins, sending, transport
from ironic_lite.rpc.local import faults, options
from ironic_lite.rpc.serializer import Serializer

LOG = logging.getLogger(__name__)

_MONITOR_SECONDS = 2
"""Behind a broker nobody sees a conductor die; this long without a sign of life means it has."""

_BYTES_PER_SECOND = 8 * 1024 * 1024
"""What a slow broker moves; a conductor gives no sign of life before it has the whole message."""

_ENVELOPE = 64 * 1024
"""Bytes for what goes along with the arguments: the context, names, and the reply's address."""

_MOST_GROWTH = 4
"""How often longer JSON may be in the envelope of a broker's message."""

_BROKER_OPTION = "[DEFAULT]broker_message_limit_mib, and the broker's own limit behind it,"

_RETRIES = 2
"""How often a lost broker is tried again before the caller hears of it."""

_PUNCTUAL = 0.5
"""Seconds by which a call may end before its time is over, and yet have waited for all of it."""

_LEAST = 0.001
"""Seconds; a time-out of none would mean that there is no limit."""

_ASKED = 4
"""How often a call is sent, if its conductor asks each time whether anybody still waits for it."""

_BROKER_AWAY = (
    "The message broker between API and conductors does not answer. Check it, and "
    "[DEFAULT]transport_url; retry when it is back."
)

_UNKNOWN = frozenset({"NoSuchMethod", "UnsupportedVersion"})


class Client:
    """Calls conductors; one serves all threads of a process."""

    def __init__(self, messaging: Any) -> None:
        """``messaging`` is a transport of `transport.build`.

        :raises config.ConfigError: [DEFAULT]pin_release_version names a release that never was.
        """
        local = transport.is_local(messaging)
        self._rpc = oslo_messaging.get_rpc_client(
            messaging,
            oslo_messaging.Target(exchange=interface.EXCHANGE, topic=interface.TOPIC),
            serializer=Serializer(encode=not local),
            retry=_RETRIES,
            # A broker then says so at once if a conductor of that name never was there.
            transport_options=oslo_messaging.TransportOptions(at_least_once=True),
        )
        # local:// has its own limit, on whole frames.
        self._limit = None if local else options.frame_limit(config.CONF)
        self._broker_limit = int(config.CONF.broker_message_limit_mib) * options.MIB
        self._messaging = messaging
        self._turns = sending.Turns()
        self._sender = uuid.uuid4().hex
        self._patience = float(messaging.conf.rpc_response_timeout)
        self._connected = local
        self._pin = pins.pinned(config.CONF)

    def conductor(self, host: str | None, *, timeout: float | None = None) -> interface.Conductor:
        """Return a stand-in of the conductor ``host``, or of any living one if None.

        Its methods are those of the contract, take their arguments by name, and raise what `call`
        raises. Those in ``interface.CASTS`` are cast: they return None when the message is sent.
        """
        return typing.cast(interface.Conductor, _StandIn(self, host, timeout))

    def call(
        self,
        context: Context,
        method: str,
        /,
        *,
        host: str | None,
        timeout: float | None = None,
        **args: Any,
    ) -> Any:
        """Call a method and return its result as plain JSON; see `encoding` for what may cross.

        ``timeout`` in seconds, by default [DEFAULT]rpc_response_timeout. No argument of a contract
        may be called ``ctxt`` or ``method``: oslo.messaging takes these for its own.

        :raises errors.Error: what the method raised: same class, text and facts.
        :raises errors.ConductorAbsent: nobody of that name listens: the message was not taken.
        :raises errors.ConductorSilent: it died or gave no sign of life, and may have begun.
        :raises errors.NoConductor: it lives and has not answered in time, or the broker is away.
        :raises errors.UnknownMethod: the conductor is older than the caller.
        :raises errors.Pinned: it may be, as [DEFAULT]pin_release_version says; nothing was sent.
        :raises errors.TooLarge: arguments or result are beyond frame_limit_mib, or arguments are
            more than the broker takes.
        :raises errors.InvalidRequest: arguments are nested too deeply to be sent.
        """
        return self._ask(method, host, timeout, context, **args)

    def cast(self, context: Context, method: str, /, *, host: str | None, **args: Any) -> None:
        """Ask for a method and do not wait for it. Raises as `call`, not of the method."""
        self._tell(self._rpc.prepare(server=host), host, method, context, args)

    def fanout(self, context: Context, method: str, /, **args: Any) -> None:
        """Ask every living conductor for a method and do not wait; nobody living is no error."""
        self._tell(self._rpc.prepare(fanout=True), "all", method, context, args)

    def _ask(
        self,
        method: str,
        host: str | None,
        timeout: float | None,
        context: Context,
        /,
        **args: Any,
    ) -> Any:
        args = pins.fitted(method, args, self._pin)
        watch, outcome = metrics.Watch(), "ok"
        try:
            if self._limit is None:
                changed: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
                return self._rpc.prepare(server=host, **changed).call(context, method, **args)
            silence = _MONITOR_SECONDS + self._checked_size(args, self._limit) // _BYTES_PER_SECOND
            self._connect()
            monitored = self._rpc.prepare(server=host, call_monitor_timeout=silence)
            return self._until_begun(monitored, timeout or self._patience, context, method, args)
        except Exception as why:
            error = _translated(why, host, method)
            left = (timeout or self._patience) - watch.seconds > _PUNCTUAL
            if left and isinstance(why, oslo_messaging.MessagingTimeout):
                # It was the signs of life that were missed.
                reason = f"no sign of life from it while it was to answer {method}"
                error = errors.ConductorSilent(host=host or "any", reason=reason)
            outcome = "no answer" if isinstance(error, errors.NoConductor) else "error"
            raise error from None
        finally:
            metrics.BOARD.count("rpc_calls_total", method, outcome)
            metrics.BOARD.observe("rpc_call_seconds", watch.seconds, method)

    def _until_begun(
        self, monitored: Any, limit: float, context: Context, method: str, args: dict[str, Any]
    ) -> Any:
        """Call a conductor behind a broker; say it again to one that is not sure who waits."""
        watch, asked, host = metrics.Watch(), None, monitored.target.server
        for _ in range(_ASKED):
            if (left := limit - watch.seconds) <= 0:
                break
            try:
                with self._turns.turn(left):
                    left = max(limit - watch.seconds, _LEAST)
                    note = patience.Note(self._sender, clock.steady(), left, asked)
                    prepared = monitored.prepare(server=host, timeout=left)
                    return prepared.call(patience.Noted(context, note), method, **args)
            except failures.Again as why:
                host, asked = why.kwargs["host"], why.kwargs["at"]
        who = host or "any"
        text = f"The conductor {who} takes calls too late and has begun nothing of this one; retry."
        raise errors.NoConductor(text, host=who, reason=f"{method} was not begun")

    def _tell(
        self, prepared: Any, host: str | None, method: str, context: Context, args: dict[str, Any]
    ) -> None:
        args = pins.fitted(method, args, self._pin)
        try:
            if self._limit is not None:
                self._checked_size(args, self._limit)
            self._connect()
            prepared.cast(context, method, **args)
        except Exception as why:
            raise _translated(why, host, method) from None

    def _connect(self) -> None:
        """Make sure once that there is a broker: without, the first call would wait for ever."""
        if not self._connected:
            if not transport.broker_answers(self._messaging):
                raise oslo_messaging.MessageDeliveryFailure("the message broker does not answer")
            transport.watch_waits(self._messaging, self._turns.sent)
            self._connected = True

    def _checked_size(self, args: dict[str, Any], limit: int) -> int:
        """Refuse a message that would not get through: a broker closes the channel over it."""
        size = len(encoding.dumps(args))
        if size > limit:
            raise faults.FrameTooLarge(size, limit)
        if size * _MOST_GROWTH + _ENVELOPE > self._broker_limit:
            sent = encoding.enveloped(args) + _ENVELOPE
            if sent > self._broker_limit:
                raise faults.FrameTooLarge(sent, self._broker_limit, option=_BROKER_OPTION)
        return size


class _StandIn:
    """Looks like a conductor to the caller; every attribute is a method over there."""

    __slots__ = ("_client", "_host", "_timeout")

    def __init__(self, client: Client, host: str | None, timeout: float | None) -> None:
        self._client = client
        self._host = host
        self._timeout = timeout

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in interface.CASTS:
            return functools.partial(self._cast, name)
        return functools.partial(self._client._ask, name, self._host, self._timeout)

    def _cast(self, name: str, context: Context, /, **args: Any) -> None:
        self._client.cast(context, name, host=self._host, **args)


def _translated(why: Exception, host: str | None, method: str) -> Exception:
    """Return the error of ours that ``why`` means, or ``why`` itself: a bug of the caller."""
    who = host or "any"
    error = why
    match why:
        case failures.Failure():
            error = failures.unpack(why)
        case faults.FrameTooLarge():
            error = errors.TooLarge(f"Conductor {who}: {why}.", limit=why.limit // 1024)
        case oslo_messaging.MessagingTimeout():
            error = errors.NoConductor(host=who, reason=f"no answer to {method} in time")
        case oslo_messaging.MessageUndeliverable() | faults.PeerAbsent() | faults.PeerLost():
            # A broker that has no such queue may have had it, and a taker of the message, when it
            # was sent for the first time: the library sends again what a lost connection had.
            absent = isinstance(why, faults.PeerAbsent)
            kind = errors.ConductorAbsent if absent else errors.ConductorSilent
            error = kind(host=who, reason=str(why) or "no queue of that name")
        case Exception() if transport.of_broker(why):
            error = errors.NoConductor(_BROKER_AWAY, host=who, reason=str(why))
        case oslo_messaging.RemoteError(exc_type=name) if name in _UNKNOWN:
            error = errors.UnknownMethod(host=who, method=method, version="another")
        case oslo_messaging.MessagingException():
            LOG.error("RPC method %s of conductor %s failed: %s", method, who, why)
            error = errors.Error(
                f"Conductor {who} failed to answer {method}; the logs of both sides tell why."
            )
        case TypeError() if "ecursion" in str(why):
            error = errors.InvalidRequest("The request is nested too deeply.")
    return error
