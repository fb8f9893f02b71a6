"""The caller's end of RPC: typed calls, which raise the conductor's errors.

::

    client = RpcClient(transport.get())
    client.conductor("host-1").start_verb(context, node_uuid=uuid, event="manage", body={})
"""

from __future__ import annotations

import logging
import uuid
from typing import Any

import oslo_messaging

from ironic_lite import errors
from ironic_lite.core import clock, config, metrics
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.rpc import contract, deadlines, encoding, stub, transport
from ironic_lite.rpc.encoding import Serializer
from ironic_lite.rpc.sockets import frames

LOG = logging.getLogger(__name__)

MONITOR_SECONDS = 4
"""Keepalive limit behind a broker: this long without a keepalive means a dead conductor. The
conductor sends one each half of that."""

_BYTES_PER_SECOND = 8 * 1024 * 1024
"""Speed of a slow broker; a conductor sends no keepalive before it has the whole message."""

_ENVELOPE = 64 * 1024
"""Bytes for the context, names, and the reply's address, which accompany the arguments."""

_MOST_GROWTH = 4
"""Largest factor by which JSON grows in the envelope of a broker's message."""

_BROKER_OPTION = "[DEFAULT]broker_message_limit_mib, and the broker's own limit behind it,"

_RETRIES = 2
"""Reconnections to a lost broker before the caller gets an error."""

_PUNCTUAL = 0.5
"""Seconds by which a call may end early and still count as having waited its full time."""

_LEAST = 0.001
"""Least time-out in seconds, because 0 would mean no limit."""

ASKED = 4
"""Most sends of a call whose conductor asks each time whether the caller still waits."""

_BROKER_AWAY = (
    "The message broker between API and conductors does not answer. Check it, and "
    "[DEFAULT]transport_url; retry when it is back."
)

_UNKNOWN = frozenset({"NoSuchMethod", "UnsupportedVersion"})


class RpcClient:
    """Calls conductors; one object serves all threads of a process."""

    def __init__(self, messaging: transport.Messaging) -> None:
        """Store ``messaging``, which comes from `transport.build`.

        :raises config.ConfigError: [DEFAULT]pin_release_version names an unknown release.
        """
        brokerless = messaging.brokerless
        self._rpc = oslo_messaging.get_rpc_client(
            messaging.bus,
            oslo_messaging.Target(exchange=contract.EXCHANGE, topic=contract.TOPIC),
            serializer=Serializer(encode=not brokerless),
            retry=_RETRIES,
            # A broker then reports at once that a conductor of that name never existed.
            transport_options=oslo_messaging.TransportOptions(at_least_once=True),
        )
        # Transports without a broker have their own limit, on whole frames.
        self._limit = None if brokerless else frames.frame_limit(config.CONF)
        self._broker_limit = int(config.CONF.broker_message_limit_mib) * frames.MIB
        self._usual: dict[str | None, Any] = {}
        self._limiter = deadlines.SendLimiter()
        self._sender = uuid.uuid4().hex
        self._patience = float(messaging.bus.conf.rpc_response_timeout)
        self._opening = None if brokerless else transport.Opening(messaging)
        self._pin = contract.pinned_release(config.CONF)

    def conductor(self, host: str | None, *, timeout: float | None = None) -> contract.Conductor:
        """Return the conductor ``host``, or any living one if None.

        Its methods take their arguments by name, and raise the errors of `call`.
        """
        return stub.connect(self.send, host=host, timeout=timeout)

    def send(self, call: stub.RpcCall) -> Any:
        """Carry out a call; those in ``contract.CASTS`` return None once the message is sent."""
        method, context, args, host, timeout = call
        if method in contract.CASTS:
            self._cast_to_conductor(self._rpc.prepare(server=host), host, method, context, args)
            return None
        return self._ask(method, host, timeout, context, **args)

    def call(
        self,
        context: Context,
        method: str,
        /,
        *,
        host: str | None,
        timeout: float | None = None,
        **args: object,
    ) -> Any:
        """Call a method and return its result as plain JSON, see `encoding`.

        ``timeout`` in seconds, by default [DEFAULT]rpc_response_timeout. No argument of a contract
        may be called ``ctxt`` or ``method``, because oslo.messaging uses these names itself.

        :raises errors.Error: the error of the method: same class, text and facts.
        :raises errors.ConductorNotListening: no conductor of that name received the message.
        :raises errors.ConductorUnresponsive: it died or sent no keepalive; it may have begun.
        :raises errors.NoConductor: it lives but has not answered in time, or the broker is away.
        :raises errors.UnknownMethod: the conductor is older than the caller.
        :raises errors.Pinned: [DEFAULT]pin_release_version excludes the method; nothing was sent.
        :raises errors.TooLarge: arguments or result exceed frame_limit_mib, or arguments exceed the
            broker's limit.
        :raises errors.InvalidRequest: arguments are nested too deeply to be sent.
        """
        return self._ask(method, host, timeout, context, **args)

    def cast(self, context: Context, method: str, /, *, host: str | None, **args: object) -> None:
        """Send a call without waiting. Raises as `call`, not the method's errors."""
        self._cast_to_conductor(self._rpc.prepare(server=host), host, method, context, args)

    def fanout(self, context: Context, method: str, /, **args: object) -> None:
        """Send a call to every living conductor without waiting; there may be none."""
        self._cast_to_conductor(self._rpc.prepare(fanout=True), "all", method, context, args)

    def _ask(
        self,
        method: str,
        host: str | None,
        timeout: float | None,
        context: Context,
        /,
        **args: object,
    ) -> Any:
        args = contract.arguments_for(method, args, self._pin)
        watch, outcome = metrics.Watch(), "ok"
        try:
            if self._limit is None:
                return self._prepared_client(host, timeout).call(context, method, **args)
            silence = MONITOR_SECONDS + self._checked_size(args, self._limit) // _BYTES_PER_SECOND
            self._check_broker()
            monitored = self._rpc.prepare(server=host, call_monitor_timeout=silence)
            return self._until_begun(monitored, timeout or self._patience, context, method, args)
        except Exception as why:
            error = _translate_error(why, host, method)
            left = (timeout or self._patience) - watch.seconds > _PUNCTUAL
            if left and isinstance(why, oslo_messaging.MessagingTimeout):
                # The limit that passed was that of keepalives, not the caller's.
                reason = f"no keepalive from it while it was to answer {method}"
                error = errors.ConductorUnresponsive(host=host or "any", reason=reason)
            outcome = "no answer" if isinstance(error, errors.NoConductor) else "error"
            raise error from None
        finally:
            metrics.BOARD.count("rpc_calls_total", method, outcome)
            metrics.BOARD.observe("rpc_call_seconds", watch.seconds, method)

    def _prepared_client(self, host: str | None, timeout: float | None) -> Any:
        """Return an RPC client for a conductor; the default client is built once."""
        if timeout is not None:
            return self._rpc.prepare(server=host, timeout=timeout)
        if (found := self._usual.get(host)) is None:
            found = self._usual[host] = self._rpc.prepare(server=host)
        return found

    def _until_begun(
        self, monitored: Any, limit: float, context: Context, method: str, args: Json
    ) -> Any:
        """Call a conductor behind a broker; repeat the call if the conductor asks."""
        watch, asked, host = metrics.Watch(), None, monitored.target.server
        for _ in range(ASKED):
            if (left := limit - watch.seconds) <= 0:
                break
            try:
                with self._limiter.place(host, left):
                    left = max(limit - watch.seconds, _LEAST)
                    note = deadlines.CallDeadline(self._sender, clock.steady(), left, asked)
                    prepared = monitored.prepare(server=host, timeout=left)
                    return prepared.call(deadlines.DeadlineContext(context, note), method, **args)
            except encoding.Again as why:
                host, asked = why.kwargs["host"], why.kwargs["at"]
        who = host or "any"
        text = f"The conductor {who} receives calls too late and has not begun this one; retry."
        raise errors.NoConductor(text, host=who, reason=f"{method} was not begun")

    def _cast_to_conductor(
        self, prepared: Any, host: str | None, method: str, context: Context, args: Json
    ) -> None:
        args = contract.arguments_for(method, args, self._pin)
        try:
            if self._limit is not None:
                self._checked_size(args, self._limit)
            self._check_broker()
            prepared.cast(context, method, **args)
        except Exception as why:
            raise _translate_error(why, host, method) from None

    def _check_broker(self) -> None:
        """Check once that a broker answers; without one, the first call would never end."""
        if (first := self._opening) is not None:
            first.wait()
            self._opening = None

    def _checked_size(self, args: Json, limit: int) -> int:
        """Refuse a message over the limit, for which a broker would close the channel."""
        size = len(encoding.dumps(args))
        if size > limit:
            raise frames.FrameTooLarge(size, limit)
        if size * _MOST_GROWTH + _ENVELOPE > self._broker_limit:
            sent = encoding.enveloped(args) + _ENVELOPE
            if sent > self._broker_limit:
                raise frames.FrameTooLarge(sent, self._broker_limit, option=_BROKER_OPTION)
        return size


def _translate_error(why: Exception, host: str | None, method: str) -> Exception:
    """Return the service's error for ``why``, or ``why`` itself for a caller's bug."""
    who = host or "any"
    error = why
    match why:
        case encoding.Failure():
            error = encoding.unpack(why)
        case frames.FrameTooLarge():
            error = errors.TooLarge(f"Conductor {who}: {why}.", limit=why.limit // 1024)
        case oslo_messaging.MessagingTimeout():
            error = errors.NoConductor(host=who, reason=f"no answer to {method} in time")
        case oslo_messaging.MessageUndeliverable() | frames.PeerAbsent() | frames.PeerLost():
            # A broker without such a queue may have had it, and a conductor that received the
            # message, at the first send: the library repeats sends that a lost connection held.
            absent = isinstance(why, frames.PeerAbsent)
            kind = errors.ConductorNotListening if absent else errors.ConductorUnresponsive
            error = kind(host=who, reason=str(why) or "no queue of that name")
        case Exception() if transport.of_broker(why):
            error = errors.NoConductor(_BROKER_AWAY, host=who, reason=str(why))
        case oslo_messaging.RemoteError(exc_type=name) if name in _UNKNOWN:
            error = errors.UnknownMethod(host=who, method=method, version="another")
        case oslo_messaging.MessagingException():
            LOG.error("RPC method %s of conductor %s failed: %s", method, who, why)
            error = errors.Error(
                f"Conductor {who} failed to answer {method}; the logs of both sides have details."
            )
        case TypeError() if "ecursion" in str(why):
            error = errors.InvalidRequest("The request is nested too deeply.")
    return error
