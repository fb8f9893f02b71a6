"""Time and steps of a clean after a failure, with ``retry`` and from the first step again.

A clean has five steps, and the fourth fails once. The agent is unmodified, and its steps are those
of a hardware manager of the tests. After the repair, ``retry`` continues the run; without it, the
operator moves the node to manageable and cleans it again from the first step.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from benchmarks.figures import Figure, not_measured, report, size
from tests.support import http_nodes, machine_room

Json = dict[str, Any]
ROUNDS = size(3, smoke=1)
SECONDS = size(3, smoke=1)
"""Length of each step that does not fail."""
_LENGTH = {"seconds": {"description": "length of the step", "required": False}}
_NAMES = ("scrub", "paint", "scrub", "break_down", "scrub")
STEPS = tuple((name, {} if name == "break_down" else {"seconds": SECONDS}) for name in _NAMES)


def _agent_step(name: str) -> Json:
    arguments = {} if name == "break_down" else {"argsinfo": _LENGTH}
    return {
        "step": name,
        "interface": "deploy",
        "priority": 0,
        "reboot_requested": False,
        "abortable": True,
        **arguments,
    }


CLEAN: list[Json] = [{"interface": "deploy", "step": name, "args": args} for name, args in STEPS]


def _retry(room: machine_room.Room, node: str) -> None:
    room.ask(node, "retry")


def _clean_again(room: machine_room.Room, node: str) -> None:
    room.up.provision(node, "manage", "manageable")
    room.up.ask("DELETE", f"/v1/nodes/{node}/maintenance")
    room.ask(node, "clean", clean_steps=CLEAN)


WAYS: Mapping[str, Callable[[machine_room.Room, str], None]] = {
    "retry": _retry,
    "again": _clean_again,
}


def _measure(room: machine_room.Room, number: int, way: str) -> tuple[float, int]:
    """Return the seconds from the repair to the end of the clean, and the steps that ran again.

    :raises RuntimeError: the steps that ran are not those of the way.
    """
    agent = room.rack[number].agent
    agent.steps = {"clean": [_agent_step(name) for name in dict.fromkeys(_NAMES)]}
    node = room.enrol(number)
    room.ask(node, "clean", clean_steps=CLEAN)
    room.reaches(node, "clean failed")
    if agent.ran() != list(_NAMES[:4]):
        raise RuntimeError(f"{agent.ran()} ran before the failure")
    agent.forget()
    agent.flag("repaired")
    begin = time.perf_counter()
    WAYS[way](room, node)
    http_nodes.reaches(room.up, "manageable", node=node)
    spent = time.perf_counter() - begin
    ran = agent.ran()
    if ran != list(_NAMES[3:] if way == "retry" else _NAMES):
        raise RuntimeError(f"{way}: {ran} ran after the repair")
    return spent, len(ran) - 1  # the last step had not run before


def main() -> int:
    """Measure and print; return the exit status."""
    found: dict[str, list[tuple[float, int]]] = {way: [] for way in WAYS}
    try:
        with machine_room.serve(ROUNDS * len(WAYS)) as room:
            for number in range(ROUNDS * len(WAYS)):
                way = list(WAYS)[number % len(WAYS)]
                found[way].append(_measure(room, number, way))
    except pytest.skip.Exception as error:
        return not_measured(error)
    seconds = {way: statistics.median(one[0] for one in each) for way, each in found.items()}
    steps = {way: each[0][1] for way, each in found.items()}
    return report(
        [
            Figure("from the repair to the end of the clean, retry: wall", seconds["retry"], "s"),
            Figure("... steps that ran again", steps["retry"], "", 1),
            Figure("... from the first step again: wall", seconds["again"], "s"),
            Figure("... steps that ran again", steps["again"]),
            Figure("retry compared with it", seconds["retry"] / seconds["again"], "x", 1),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
