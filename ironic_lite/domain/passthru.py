"""Vendor passthru: marks on the methods of a vendor interface, and their calls.

The decorators only mark, as those of steps do: they attach a ``PassthruRoute`` and return the
method unchanged. ``collect`` finds the routes of an interface, ``pick`` that of a call. Drivers
import these names from ``ironic_lite.drivers.base``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView

Method = TypeVar("Method", bound=Callable[..., Any])
VERBS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH")
NODE: Final = "node"
DRIVER: Final = "driver"
_ROUTE = "__ironic_lite_passthru__"


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call: its HTTP method in capitals, and the JSON object of its body or {}."""

    verb: str
    info: JsonView


@dataclasses.dataclass(frozen=True, slots=True)
class PassthruRoute:
    """The decorator's record about a method.

    ``scope`` is ``NODE`` or ``DRIVER``; ``lock`` says that a call holds the node's lock.
    """

    scope: str
    verbs: tuple[str, ...]
    async_call: bool = False
    description: str = ""
    attach: bool = False
    lock: bool = True


def passthru(
    *,
    methods: Sequence[str] = ("POST",),
    async_call: bool = False,
    description: str = "",
    attach: bool = False,
    lock: bool = True,
) -> Callable[[Method], Method]:
    """Mark ``method(self, task, call)`` as one that clients may name.

    :param methods: the HTTP methods it takes, of ``VERBS``.
    :param async_call: True answers 202 at once, and a worker runs it; its result is then lost.
        False: the client waits, so it must be quick.
    :param description: its purpose, for the list of methods.
    :param attach: True sends the returned text as a file rather than as JSON.
    :param lock: False if it only reads, and may run beside other work on the node; its changes to
        the node are then lost.
    :raises errors.InvalidParameter: at import, when a parameter is not as described.
    """
    if async_call and not lock:
        raise errors.InvalidParameter(path="lock", reason="an asynchronous call needs the lock")
    return _marking_decorator(
        PassthruRoute(NODE, _verbs_of(methods), async_call, description, attach, lock)
    )


def driver_passthru(
    *,
    methods: Sequence[str] = ("POST",),
    async_call: bool = False,
    description: str = "",
    attach: bool = False,
) -> Callable[[Method], Method]:
    """Mark ``method(self, call)``, which is not about a single node; see ``passthru``."""
    return _marking_decorator(
        PassthruRoute(DRIVER, _verbs_of(methods), async_call, description, attach, False)
    )


def collect(implementation: object, scope: str) -> dict[str, PassthruRoute]:
    """Return the methods of one scope marked on an implementation, by name.

    :param implementation: the vendor interface (or its class).
    :param scope: ``NODE`` or ``DRIVER``.
    """
    # Looked up on the class, as steps are, so that no property is run.
    owner = implementation if isinstance(implementation, type) else type(implementation)
    routes = {
        name: getattr(getattr(owner, name, None), _ROUTE, None) for name in sorted(dir(owner))
    }
    return {name: route for name, route in routes.items() if route and route.scope == scope}


def pick(implementation: object, scope: str, name: str, verb: str) -> PassthruRoute:
    """Return the route that serves a call.

    :raises errors.InvalidParameter: naming ``method``: it is unknown, or does not take this HTTP
        method.
    """
    routes = collect(implementation, scope)
    if name not in routes:
        known = ", ".join(routes) or "none"
        reason = f"there is no vendor method {name!r}; this driver has: {known}"
        raise errors.InvalidParameter(path="method", reason=reason)
    if verb not in routes[name].verbs:
        taken = ", ".join(routes[name].verbs)
        reason = f"the vendor method {name} does not take {verb}, only {taken}"
        raise errors.InvalidParameter(path="method", reason=reason)
    return routes[name]


def _marking_decorator(route: PassthruRoute) -> Callable[[Method], Method]:
    def record(method: Method) -> Method:
        setattr(method, _ROUTE, route)
        return method

    return record


def _verbs_of(methods: Sequence[str]) -> tuple[str, ...]:
    unknown = [verb for verb in methods if verb not in VERBS]
    if isinstance(methods, str) or unknown or not methods:
        reason = f"{methods!r} is not a list of {', '.join(VERBS)}"
        raise errors.InvalidParameter(path="methods", reason=reason)
    return tuple(methods)
