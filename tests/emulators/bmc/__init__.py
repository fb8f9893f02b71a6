"""A BMC of our own for what no emulator offers: volumes, tasks, BIOS settings, firmware, sessions.

    with bmc.serve(make="dell", users={"root": "secret"}) as machine:
        node(driver_info=machine.driver_info)
        machine.habits.task_polls = 3                 # how it behaves: `Habits`
        machine["Volumes"]["Members"]                 # what it has: by the end of a path
        machine.tricks["GET /redfish/v1/*"] = bmc.says(500)    # what it does instead of the truth
        machine.changes()                             # what it was told

The documents are written after DMTF's schemas; nothing in them comes from a real machine.
"""

from __future__ import annotations

from tests.emulators.bmc.habits import Habits
from tests.emulators.bmc.machine import Machine
from tests.emulators.bmc.server import (
    Handler,
    Reply,
    Request,
    Trick,
    babbles,
    cuts_short,
    drips,
    drips_body,
    ends_early,
    hangs_up,
    says,
    says_first,
    silent,
    speaks_html,
    thinks,
)

__all__ = [
    "Habits",
    "Handler",
    "Machine",
    "Reply",
    "Request",
    "Trick",
    "babbles",
    "cuts_short",
    "drips",
    "drips_body",
    "ends_early",
    "hangs_up",
    "says",
    "says_first",
    "serve",
    "silent",
    "speaks_html",
    "thinks",
]

serve = Machine
"""Returns a machine to be entered: ``with serve(...) as machine``."""
