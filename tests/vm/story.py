"""What happened when: lines with the seconds since the start, and what is told of them. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SIGNS: Mapping[str, str] = {
    r"BdsDxe: starting": "firmware starts a loader",
    r"Booting from (DVD|Hard Disk|ROM|0000)": "firmware starts a loader",
    r"ISOLINUX \d": "isolinux runs",
    r"PXELINUX \d": "pxelinux runs",
    r"Welcome to GRUB!|GRUB loading": "GRUB runs",
    r"iPXE initialising devices": "iPXE runs",
    r"Linux version ": "kernel runs",
    r"ironic-python-agent\[\d+\]": "agent speaks",
}
"""What a machine prints on its serial line -> what that means."""

Json = dict[str, Any]


@dataclasses.dataclass
class Story:
    """Lines in the order in which things happened.

    :param now: returns seconds since the start.
    :param tell: is given each line.
    """

    now: Callable[[], float]
    tell: Callable[[str], None]
    lines: list[str] = dataclasses.field(default_factory=list)
    _node: str = ""
    _heard: int = 0
    _sign: str = ""

    def say(self, text: str) -> None:
        """Add a line."""
        line = f"{self.now():7.1f} s  {text}"
        self.lines.append(line)
        self.tell(line)

    def node(self, document: Json) -> None:
        """Add where the node stands, if that is new."""
        found = standing(document)
        if found != self._node:
            self._node = found
            self.say(found)

    def serial(self, text: str) -> None:
        """Add what the serial line tells that has not been told, and once what is told again.

        :param text: all that was printed, from the beginning.
        """
        for at, meaning in signs(text, self._heard):
            self._heard = at
            if meaning != self._sign:
                self.say(f"    machine: {meaning}")
            self._sign = meaning


def standing(node: Json) -> str:
    """Return state, power and step of a node in a line."""
    step = node.get("clean_step") or node.get("deploy_step") or {}
    name = f", {step['interface']}.{step['step']}" if step else ""
    return f"{node['provision_state']}, {node['power_state']}{name}"


def signs(text: str, after: int) -> list[tuple[int, str]]:
    """Return ``(end, meaning)`` of all signs that end behind a place in a text."""
    found = [
        (match.end(), meaning)
        for sign, meaning in SIGNS.items()
        for match in re.finditer(sign, text)
        if match.end() > after
    ]
    return sorted(found)


def of_runs(runs: Sequence[Json]) -> list[str]:
    """Return what the service itself has recorded of its runs: verbs, steps, how long each took."""
    lines = []
    for run in runs:
        lines.append(f"{run['verb']}: {run['state']}, {run['duration_seconds']:.1f} s")
        for step in run["steps"]:
            name = f"{step['interface']}.{step['step']}"
            took = step.get("duration_seconds")
            shown = "" if took is None else f"{took:8.1f} s"
            lines.append(f"    {name:40} {step['state']:8} {shown}")
    return lines
