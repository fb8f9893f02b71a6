"""A conductor that writes down what it is asked, and answers what the test has set."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from ironic_lite.core.context import Context
from ironic_lite.domain import fields
from ironic_lite.rpc import interface


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
        self.answers: dict[str, Any] = {"check_node": _chosen}

    def conductor(self, host: str | None, *, timeout: float | None = None) -> interface.Conductor:
        """Return the stand-in; the host is written down with the call."""
        return typing.cast(interface.Conductor, _Conductor(self, host))


class _Conductor:
    def __init__(self, recorder: Recorder, host: str | None) -> None:
        self._recorder = recorder
        self._host = host

    def __getattr__(self, name: str) -> Callable[..., Any]:
        contract = inspect.signature(getattr(interface.Conductor, name))

        def call(context: Context, **arguments: Any) -> Any:
            contract.bind(self, context, **arguments)
            self._recorder.calls.append((name, arguments))
            self._recorder.hosts.append(self._host)
            self._recorder.contexts.append(context)
            answer = self._recorder.answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer(**arguments) if callable(answer) else answer

        return call


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
        """What has happened, in its order."""
        return [str(event["kind"]) for event, _ in self.heard]
