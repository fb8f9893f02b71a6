"""Raw IPMI commands, for vendor-specific functions of a BMC."""

from __future__ import annotations

import logging
import re

from ironic_lite import errors
from ironic_lite.core import log_lines
from ironic_lite.core.json_types import JsonView
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.ipmi import hardware, management, tool

LOG = logging.getLogger(__name__)

_BYTE = re.compile(r"0[xX][0-9A-Fa-f]{1,2}|0|[1-9][0-9]{0,2}")
_LEAST_BYTES, _MOST_BYTES = 2, 256
_BYTE_MAX = 255
_RAW = {"raw_bytes": base.Arg("Network function, command and data, as 0x00 0x08 0x03", True)}


class IpmiVendor(hardware.IpmiInterface, base.Vendor):
    """The vendor interface ``ipmitool``."""

    def check_passthru(self, task: base.Task, name: str, call: base.Call) -> None:
        """Reject invalid arguments while the client still waits.

        :raises errors.MissingParameter, errors.InvalidParameter: naming the argument.
        """
        tool.settings(task)
        if name == "send_raw":
            _raw_bytes(call.info.get("raw_bytes"))
        if name == "bmc_reset":
            _is_warm(call.info)

    @base.passthru(
        async_call=True,
        description="Send raw_bytes to the BMC; its answer is written to the conductor's log.",
    )
    @base.clean_step(priority=0, requires_ramdisk=False, argsinfo=_RAW)
    @base.deploy_step(priority=0, argsinfo=_RAW)
    @base.service_step(requires_ramdisk=False, argsinfo=_RAW)
    def send_raw(
        self, task: base.Task, call: base.Call | None = None, *, raw_bytes: object = None
    ) -> None:
        """Send bytes to the BMC, and log its answer.

        As a step it is refused, unless [api]disallow_clean_steps and similar options are changed.

        :raises errors.MissingParameter, errors.InvalidParameter: ``raw_bytes`` is invalid.
        """
        words = _raw_bytes(raw_bytes if call is None else call.info.get("raw_bytes"))
        answer = tool.run(task, ("raw", *words), once=True)
        LOG.info(
            "Node %s: the raw command %s was answered with %s",
            task.node.uuid,
            " ".join(words),
            " ".join(answer.split()) or "no bytes",
            extra=log_lines.OMITTED,
        )

    @base.passthru(
        async_call=True,
        description="Restart the BMC: warm, or cold if the key warm is false. The machine runs on.",
    )
    def bmc_reset(self, task: base.Task, call: base.Call) -> None:
        """Tell the BMC to restart, without waiting for it.

        :raises errors.InvalidParameter: ``warm`` is neither true nor false.
        """
        management.reset(task, warm=_is_warm(call.info))


def _raw_bytes(text: object) -> list[str]:
    """Return the bytes as ipmitool accepts them.

    :raises errors.MissingParameter, errors.InvalidParameter: naming ``raw_bytes``.
    """
    if text is None or text == "":
        raise errors.MissingParameter(path="raw_bytes")
    words = text.split() if isinstance(text, str) else []
    good = all(_BYTE.fullmatch(word) and int(word, 0) <= _BYTE_MAX for word in words)
    if not (good and _LEAST_BYTES <= len(words) <= _MOST_BYTES):
        reason = "must be network function, command and data as bytes, such as 0x00 0x08 0x03 0x08"
        raise errors.InvalidParameter(path="raw_bytes", reason=reason)
    return words


def _is_warm(values: JsonView) -> bool:
    try:
        return settings.flag(values.get("warm", True))
    except ValueError as why:
        raise errors.InvalidParameter(path="warm", reason=str(why)) from None
