"""Detection of a machine's vendor by its BMC."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import tool

NOTE = "ipmi_vendor"
"""Key of the vendor's name; empty if the BMC reports none."""

IDS: Mapping[int, str] = {
    11: "hewlett-packard",
    42: "sun microsystems",
    343: "intel corporation",
    674: "dell inc.",
    2011: "huawei technologies co., ltd",
    5771: "cisco systems, inc.",
    7244: "quanta computer inc.",
    10368: "fujitsu limited",
    10876: "super micro computer inc.",
    15370: "giga-byte technology co., ltd",
    19046: "lenovo",
    20301: "ibm",
    47196: "hewlett packard enterprise",
    47488: "super micro computer inc.",
}
"""Names of vendors by their number at IANA, for an ipmitool without its list of numbers."""

_ID = re.compile(r"^Manufacturer ID[ \t]*:[ \t]*(\d+)", re.MULTILINE)
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

    For an unlisted vendor, or without a list of vendors, ipmitool prints ``Unknown``; the number of
    the vendor tells then. Version 1.8.19 of many distributions comes without the list.
    """
    found, number = _NAME.search(answer), _ID.search(answer)
    if found is not None and not found[1].lower().startswith("unknown"):
        return found[1].lower()
    return IDS.get(int(number[1])) if number else None
