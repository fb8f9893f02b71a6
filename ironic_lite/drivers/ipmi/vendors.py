"""Who made a machine, as its BMC says."""

from __future__ import annotations

import re

from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import tool

NOTE = "ipmi_vendor"
"""Where the maker's name is kept; an empty one if the BMC gives none."""

_NAME = re.compile(r"^Manufacturer Name[ \t]*:[ \t]*(\S.*?)\s*$", re.MULTILINE)


def detect(task: base.Task) -> str | None:
    """Ask the BMC, and keep the answer: the name in lower case, None if it gives none.

    :raises errors.HardwareError: see `tool.run`.
    """
    found = parse(tool.run(task, ("mc", "info")))
    task.keep(NOTE, found or "")
    return found


def known(task: base.Task) -> str | None:
    """Return the name in properties/vendor, or the one kept; ask only if there is none."""
    told = (task.node.properties or {}).get("vendor")
    if told:
        return str(told)
    kept = task.recall(NOTE)
    return detect(task) if kept is None else str(kept) or None


def parse(answer: str) -> str | None:
    """Return the maker's name in an answer to ``mc info``, in lower case.

    Without a list of makers, or for one not in it, ipmitool says ``Unknown``.
    """
    found = _NAME.search(answer)
    if found is None or found[1].lower().startswith("unknown"):
        return None
    return found[1].lower()
