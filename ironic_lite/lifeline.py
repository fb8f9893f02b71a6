"""Child processes that do not outlive their parent, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with(parent: int, number: signal.Signals) -> None:
    """Have the kernel send ``number`` to this process when ``parent`` is gone (Linux alone).

    If it is gone already, this process ends here.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)
