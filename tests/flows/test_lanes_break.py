"""Threads of the power comparison outlive whatever a driver raises, and so do the sweeps."""

from __future__ import annotations

import itertools
import threading
import time
import types
from typing import cast

from ironic_lite.conductor.watch import node_queue
from ironic_lite.conductor.watch.sweeps import Sweep, Sweeps
from ironic_lite.conductor.work.wakeup import Wakeup
from ironic_lite.records import Node
from tests.support.conductor_fixture import wait_for


def node(name: str) -> Node:
    """Return what lanes need of a node: they ask for its name only."""
    return cast(Node, types.SimpleNamespace(uuid=name))


def test_a_lane_goes_on_after_an_exit() -> None:
    asked: list[str] = []

    def act(node: Node) -> None:
        asked.append(node.uuid)
        raise SystemExit

    lane = node_queue.BackgroundQueue(act, most=1, halted=threading.Event())
    for name in ("a", "b"):
        lane.put(node(name))
        assert lane.wait_idle(10)
    assert asked == ["a", "b"]


def test_a_queue_is_worked_through_after_an_exit() -> None:
    asked: list[str] = []

    def act(node: Node) -> None:
        asked.append(node.uuid)
        raise SystemExit

    queue = iter([node(name) for name in "abc"])
    node_queue.go_through(queue, act, most=1, halted=threading.Event())
    assert asked == ["a", "b", "c"]


def test_a_sweep_runs_again_after_an_exit() -> None:
    halted, times = threading.Event(), iter(range(3))

    def act() -> None:
        if next(times) == 2:
            halted.set()
        raise SystemExit

    Sweeps(halted, [Sweep("test", 0.001, act)]).start()
    assert halted.wait(10)


def test_a_sweep_that_is_signalled_all_the_time_rests_four_times_as_long_as_it_runs() -> None:
    halted, wakeup = threading.Event(), Wakeup()
    wakeup.armed = True
    spans: list[tuple[float, float]] = []

    def act() -> None:
        began = time.monotonic()
        time.sleep(0.3)
        wakeup.signal()
        spans.append((began, time.monotonic()))
        if len(spans) == 3:
            halted.set()

    wakeup.signal()
    Sweeps(halted, [Sweep("a slow one", 3600, act, wakeup)]).start()
    assert halted.wait(60)
    wait_for(lambda: len(spans) == 3)
    for (began, ended), (following, _) in itertools.pairwise(spans):
        assert following - ended >= 4 * (ended - began) - 0.01
