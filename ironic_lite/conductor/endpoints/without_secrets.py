"""Errors of endpoint calls without secrets, because machines repeat what was sent to them."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.core import run_lines
from ironic_lite.domain import causes
from ironic_lite.rpc.stub import Call, Send


class WithoutSecrets:
    """An interceptor that hides secrets in the error of a call, and in the lines it logs.

    These are the secrets of all nodes that the call has read.
    """

    def __call__(self, call: Call, send: Send) -> Any:
        """Carry out a call.

        :raises errors.Error: that of the call, with ``******`` in the place of each secret.
        """
        with run_lines.hiding():
            try:
                return send(call)
            except errors.Error as why:
                causes.hide(why, run_lines.hidden)
                raise
