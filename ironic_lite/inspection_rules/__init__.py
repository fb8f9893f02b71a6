"""Rules that are applied to what an inspection has found: conditions, and actions if they hold.

A pure core without I/O: the calls that rules ask for are made by whoever runs them. ``templates``
fill in texts such as ``{inventory[cpu][count]}``; ``conditions`` and ``actions`` are tables of
operations by name, each with its arguments; ``checks`` refuses what neither table knows; ``engine``
runs rules over a `Subject` and leaves in it what they have changed, for whoever asked to write
down. ``built_in`` reads rules out of a file.
"""

from __future__ import annotations

from ironic_lite.inspection_rules.built_in import parse
from ironic_lite.inspection_rules.calls import Call
from ironic_lite.inspection_rules.checks import check
from ironic_lite.inspection_rules.engine import run
from ironic_lite.inspection_rules.subject import PHASES, Subject

__all__ = ["PHASES", "Call", "Subject", "check", "parse", "run"]
