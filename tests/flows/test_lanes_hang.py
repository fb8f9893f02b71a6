"""A driver that hangs while a sweep asks it holds up nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ironic_lite.conductor.watch import node_queue
from ironic_lite.records import Node
from tests.support.conductor_fixture import wait_for


class Asked:
    """Nodes that were asked; those in ``hangs`` keep their thread until ``opened``."""

    def __init__(self, *hangs: str) -> None:
        self.hangs = hangs
        self.names: list[str] = []
        self.opened = threading.Event()

    def __call__(self, node: Node) -> None:
        self.names.append(node.uuid)
        if node.uuid in self.hangs:
            self.opened.wait(60)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setattr(node_queue, "BORNE", 0.2)
    found = Asked("a", "b")
    yield found
    found.opened.set()


def nodes(names: str) -> list[Node]:
    return [Node({"uuid": name}) for name in names]


def test_a_sweep_leaves_threads_behind_that_hang(asked: Asked) -> None:
    hanging: set[str] = set()
    halted = threading.Event()
    for _ in range(2):
        node_queue.go_through(iter(nodes("abcde")), asked, most=2, halted=halted, hanging=hanging)
    assert sorted(asked.names) == ["a", "b", *"ccddee"]
    assert hanging == {"a", "b"}
    asked.opened.set()
    wait_for(lambda: not hanging)
    node_queue.go_through(iter(nodes("a")), asked, most=2, halted=halted, hanging=hanging)
    assert asked.names[-1] == "a"


def test_a_lane_replaces_threads_that_hang(asked: Asked) -> None:
    lane = node_queue.BackgroundQueue(asked, most=2, halted=threading.Event())
    for node in nodes("ab"):
        lane.put(node)
    wait_for(lambda: len(asked.names) == 2)
    threading.Event().wait(node_queue.BORNE)
    for node in nodes("abc"):
        lane.put(node)
    wait_for(lambda: asked.names[2:] == ["c"])
