"""A conductor that records its calls, and returns or raises what the test has set."""

from __future__ import annotations

import inspect
from typing import Any

from ironic_lite.core.context import Context
from ironic_lite.domain import fields
from ironic_lite.rpc import stub


class Recorder:
    """Stands for every conductor of a fleet.

    ``calls`` are (method, arguments by name) in order; ``hosts`` whom each went to,
    ``contexts`` for whom. ``answers``
    maps a method to what it returns, to an exception it raises, or to a function of its arguments.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.hosts: list[str | None] = []
        self.contexts: list[Context] = []
        self.answers: dict[str, Any] = {"check_node": _chosen, "examine": [], "examine_node": []}

    def send(self, call: stub.RpcCall) -> Any:
        """Write a call down, and give the answer of the test."""
        inspect.signature(stub.METHODS[call.method]).bind(self, call.context, **call.args)
        self.calls.append((call.method, call.args))
        self.hosts.append(call.host)
        self.contexts.append(call.context)
        answer = self.answers.get(call.method)
        if isinstance(answer, Exception):
            raise answer
        return answer(**call.args) if callable(answer) else answer


def _chosen(driver: str, interfaces: dict[str, str | None], driver_info: Any) -> dict[str, str]:
    return {kind: interfaces[kind] or "fake" for kind in fields.INTERFACE_KINDS}


class Ear:
    """Stands for the notifier: ``heard`` is each event, with what it is about as it is then."""

    on = True

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def tell(self, _who: Any, events: list[dict[str, Any]], about: dict[str, Any]) -> None:
        """Take what the API tells."""
        self.heard += [(event, dict(about)) for event in events]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the recorded events, in order."""
        return [str(event["kind"]) for event, _ in self.heard]
