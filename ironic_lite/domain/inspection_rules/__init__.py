"""Rules on the results of an inspection: conditions, and actions if they hold.

A pure core without I/O: the caller makes the calls that rules request. ``templates`` fill in texts
such as ``{inventory[cpu][count]}``; ``conditions`` and ``actions`` are tables of operations by
name, each with its arguments; ``checks`` refuses unknown ones; ``engine`` runs rules over a
`Subject`, which records the changes for the caller to save. ``built_in`` reads rules out of a file.
"""

from __future__ import annotations

from ironic_lite.domain.inspection_rules.built_in import parse
from ironic_lite.domain.inspection_rules.calls import Call
from ironic_lite.domain.inspection_rules.checks import check
from ironic_lite.domain.inspection_rules.engine import run
from ironic_lite.domain.inspection_rules.subject import PHASES, Subject

__all__ = ["PHASES", "Call", "Subject", "check", "parse", "run"]
