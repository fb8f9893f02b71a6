"""Detection of a machine's vendor by its BMC."""

from __future__ import annotations

import re

from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import tool

NOTE = "ipmi_vendor"
"""Key of the vendor's name; empty if the BMC reports none."""

_NAME = re.compile(r"^Manufacturer Name[ \t]*:[ \t]*(\S.*?)\s*$", re.MULTILINE)


def detect(task: base.Task) -> str | None:
    """Ask the BMC and store the answer: the vendor in lower case, None if it reports none.

    :raises errors.HardwareError: see `tool.run`.
    """
    found = parse(tool.run(task, ("mc", "info")))
    task.keep(NOTE, found or "")
    return found


def known(task: base.Task) -> str | None:
    """Return the name in properties/vendor, or the stored one; ask the BMC if both are missing."""
    told = (task.node.properties or {}).get("vendor")
    if told:
        return str(told)
    kept = task.recall(NOTE)
    return detect(task) if kept is None else str(kept) or None


def parse(answer: str) -> str | None:
    """Return the vendor's name in an answer to ``mc info``, in lower case.

    For an unlisted vendor, or without a list of vendors, ipmitool prints ``Unknown``.
    """
    found = _NAME.search(answer)
    if found is None or found[1].lower().startswith("unknown"):
        return None
    return found[1].lower()
