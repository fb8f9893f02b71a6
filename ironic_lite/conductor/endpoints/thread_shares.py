"""Shares of the threads that answer calls, for calls that wait for a machine."""

from __future__ import annotations

import threading
from typing import Any

from ironic_lite.conductor.work.workers import Holder, Shares
from ironic_lite.drivers import silence
from ironic_lite.rpc.stub import Call, Send

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
        self._shares = Shares(threads, "threads", self._percent, silence.SILENT)

    def __call__(self, call: Call, send: Send) -> Any:
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
