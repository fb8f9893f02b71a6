"""sushy, loaded when code uses the first of its names.

sushy and requests take 6 MiB and 0.1 s of each start, and a conductor without Redfish machines uses
neither. Import this module as ``from ironic_lite.drivers.redfish.bmc import library as sushy``. A
base class, or another use while a module is loaded, would load sushy at each start.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module("sushy"), name)
