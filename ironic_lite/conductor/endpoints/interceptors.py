"""Interceptors of endpoint calls: repetitions, shares of threads, a deadline, no secrets."""

from __future__ import annotations

import threading
from typing import Any

from ironic_lite import errors
from ironic_lite.conductor.engine.workers import Holder, Shares
from ironic_lite.core import log_lines
from ironic_lite.domain import failures
from ironic_lite.drivers import deadline
from ironic_lite.rpc.stub import RpcCall, Send

ASKING = frozenset(
    {
        "get_boot_device",
        "get_console_information",
        "get_indicator_state",
        "get_supported_boot_devices",
        "get_supported_indicators",
        "get_virtual_media",
        "examine_node",
        "inject_nmi",
        "plan_provision",
        "set_boot_device",
        "set_indicator_state",
        "validate_driver_interfaces",
        "vendor_passthru",
    }
)
"""Methods that ask the machine while their caller waits; all others leave that to workers."""


class ThreadShares:
    """An interceptor that refuses a call to a machine if its share of the threads is full.

    The shares are those of workers: silent machines and each project have a part of the threads.

    :param percent: share of one project; see `Shares`.
    """

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._shares: Shares | None = None
        self._holders: list[Holder] = []
        self._guard = threading.Lock()

    def limit(self, threads: int) -> None:
        """Limit calls to the shares of so many threads; before, there is no limit."""
        self._shares = Shares(threads, "threads", self._percent, deadline.SILENT)

    def __call__(self, call: RpcCall, send: Send) -> Any:
        """Carry out a call, if its share is not full.

        :raises errors.NoFreeWorker: the share is full; nothing has begun.
        """
        shares = self._shares
        if shares is None or call.method not in ASKING:
            return send(call)
        owners = call.context.owners
        holder = Holder(call.args["node_uuid"], owners[1] if owners is not None else None)
        with self._guard:
            refusal = shares.refusal(self._holders, holder)
            if refusal is not None:
                raise refusal
            self._holders.append(holder)
        try:
            return send(call)
        finally:
            with self._guard:
                self._holders.remove(holder)


class OncePerRequest:
    """An interceptor that refuses a request of a batch while it is being carried out here.

    The owner of a batch repeats a request whose outcome it does not know, and a driver may hang in
    the first one.
    """

    def __init__(self) -> None:
        self._under_way: set[str] = set()
        self._guard = threading.Lock()

    def __call__(self, call: RpcCall, send: Send) -> Any:
        """Carry out a call.

        :raises errors.Unavailable: the same request is under way.
        """
        ident = call.context.request_id
        if not call.context.background:
            return send(call)
        with self._guard:
            if ident in self._under_way:
                raise errors.Unavailable("The conductor is still carrying out this request.")
            self._under_way.add(ident)
        try:
            return send(call)
        finally:
            with self._guard:
                self._under_way.remove(ident)


class WithDeadline:
    """An interceptor that limits the time of a method, and of the drivers it calls.

    The caller of a slow or silent machine then gets the machine's error instead of an RPC time-out.
    Work handed to a worker has the configured time-outs.
    """

    def __init__(self, seconds: float) -> None:
        """Limit each call to ``seconds``."""
        self._seconds = seconds

    def __call__(self, call: RpcCall, send: Send) -> Any:
        """Carry out a call within the limit."""
        with deadline.until(self._seconds):
            return send(call)


class WithoutSecrets:
    """An interceptor that hides secrets in the error of a call, and in the lines it logs.

    These are the secrets of all nodes that the call has read.
    """

    def __call__(self, call: RpcCall, send: Send) -> Any:
        """Carry out a call.

        :raises errors.Error: that of the call, with ``******`` in the place of each secret.
        """
        with log_lines.hiding():
            try:
                return send(call)
            except errors.Error as why:
                failures.hide(why, log_lines.hidden)
                raise
