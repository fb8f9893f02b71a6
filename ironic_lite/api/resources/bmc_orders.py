"""Orders for a node outside of verbs, and the checks of their requests that need no conductor.

The routes and ``why.orders`` use the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy import NODE
from ironic_lite.api.policy.access import target
from ironic_lite.api.resources import guards
from ironic_lite.api.resources.recent import Recent
from ironic_lite.api.service import Service
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.queries import conductors
from ironic_lite.domain import failures, holds, node_locks, verbs, vocabulary
from ironic_lite.domain.holds import Hold
from ironic_lite.domain.states import State, check_at_rest

BOOT_SINCE = 76
NMI_SINCE = 29
MEDIA_SINCE = 89
COLUMNS = tuple(
    dict.fromkeys(
        (
            *node_locks.COLUMNS,
            *("driver", "management_interface", "console_interface", "disable_power_off", "held"),
            *verbs.DELETION_COLUMNS,
        )
    )
)
"""Columns of a node that the checks read."""

_POWERS_OFF = frozenset({"power off", "soft power off"})
_NO_POWER = frozenset({State.CLEANING, State.CLEANWAIT})  # S2.22
_WHAT = {
    "boot_mode": "its boot mode",
    "secure_boot": "its secure boot",
    "vmedia": "its virtual media",
}
_KEPT_SECONDS = 60.0
_FORGET = ("baremetal:node:delete", "baremetal:node:delete:self_owned_node")

Methods = dict[tuple[str, str, str], frozenset[str]]
"""Hardware type, kind and name of an interface -> the methods of the contract that it has."""


class Order(NamedTuple):
    """An order: its route, its targets, and what it needs of the driver.

    ``method`` is the method of the contract's interface ``kind`` that carries it out.
    """

    name: str
    route: str
    since: int = 1
    targets: tuple[str | bool, ...] = ()
    kind: str = ""
    method: str = ""


ORDERS = (
    Order("power", "PUT /nodes/{ident}/states/power", 1, tuple(vocabulary.POWER_TARGETS)),
    Order(
        "boot_device",
        "PUT /nodes/{ident}/management/boot_device",
        kind="management",
        method="set_boot_device",
    ),
    Order(
        "boot_mode",
        "PUT /nodes/{ident}/states/boot_mode",
        BOOT_SINCE,
        vocabulary.BOOT_MODES,
        "management",
        "set_boot_mode",
    ),
    Order(
        "secure_boot",
        "PUT /nodes/{ident}/states/secure_boot",
        BOOT_SINCE,
        (True, False),
        "management",
        "set_secure_boot_state",
    ),
    Order(
        "vmedia",
        "POST /nodes/{ident}/vmedia",
        MEDIA_SINCE,
        vocabulary.VIRTUAL_MEDIA,
        "management",
        "attach_virtual_media",
    ),
    Order(
        "indicators",
        "PUT /nodes/{ident}/management/indicators/{component}/{indicator}",
        1,
        vocabulary.INDICATOR_STATES,
        "management",
        "set_indicator_state",
    ),
    Order(
        "nmi",
        "PUT /nodes/{ident}/management/inject_nmi",
        NMI_SINCE,
        kind="management",
        method="inject_nmi",
    ),
    Order(
        "console",
        "PUT /nodes/{ident}/states/console",
        1,
        (True, False),
        "console",
        "start_console",
    ),
    Order("maintenance", "PUT /nodes/{ident}/maintenance"),
    Order("delete", "DELETE /nodes/{ident}"),
)


# -- checks ----------------------------------------------------------------------------------


def check_rest(order: str, node: JsonView) -> None:
    """Refuse an order that would disturb the work on a node.

    :param node: with uuid and provision_state.
    :raises errors.Conflict: the node is not in a stable state.
    """
    if order in _WHAT:
        check_at_rest(State(node["provision_state"]), _WHAT[order], node=node["uuid"])


def check_power_target(version: int, goal: str) -> None:
    """Refuse a power target that the version does not have.

    :raises errors.NotAcceptable: it is newer; unknown targets pass.
    """
    since = vocabulary.POWER_TARGETS.get(goal)
    if since is not None and version < since:
        raise errors.NotAcceptable(what=f"The target {goal}", since=since)


def check_power_state(node: JsonView, goal: str) -> None:
    """Refuse a power target by the state and the settings of a node.

    :raises errors.InvalidState, errors.Conflict:
    """
    state = State(node["provision_state"])
    if state in _NO_POWER:
        raise errors.InvalidState(verb=goal, node=node["uuid"], state=state.value)
    if goal in _POWERS_OFF and node["disable_power_off"]:
        reason = "it must not be powered off (disable_power_off is true)"
        raise errors.Conflict(node=node["uuid"], reason=reason)


def removal_rules(service: Service) -> tuple[str, ...]:
    """Return the rules of which one lets a caller delete a node."""
    own = service.conf.api.project_admin_can_manage_own_nodes
    return _FORGET if own else _FORGET[:1]


# -- the orders of one node ------------------------------------------------------------------


class NodeOrders:
    """Finds the orders that a node takes; one object serves all threads of a process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._methods: Recent[Methods] = Recent(_KEPT_SECONDS, 1)

    def offers(
        self, request: Request, node: JsonView, held: Sequence[Hold]
    ) -> Iterator[failures.OrderOffer]:
        """Yield each order of the request's version, with the refusal that this caller would get.

        :param node: with `COLUMNS` and its owners.
        """
        for order in ORDERS:
            if order.since <= request.version:
                targets, refusal = self._possible(request, order, node, held)
                yield failures.OrderOffer(order.name, targets, refusal)

    def _possible(
        self, request: Request, order: Order, node: JsonView, held: Sequence[Hold]
    ) -> tuple[tuple[str | bool, ...], errors.Error | None]:
        """Return the targets that are possible, and the refusal if the order is not."""
        refusal = next(self._refusals(request, order, node, held), None)
        if refusal is not None or order.name != "power":
            return order.targets, refusal
        found = {
            goal: _caught(self._check_power, request, node, goal, held)
            for goal in vocabulary.POWER_TARGETS
        }
        possible = tuple(goal for goal, why in found.items() if why is None)
        return (possible, None) if possible else (order.targets, next(iter(found.values())))

    def _check_power(
        self, request: Request, node: JsonView, goal: str, held: Sequence[Hold]
    ) -> None:
        check_power_target(request.version, goal)
        check_power_state(node, goal)
        _refuse_held(node, held, holds.POWER, goal)

    def _refusals(
        self, request: Request, order: Order, node: JsonView, held: Sequence[Hold]
    ) -> Iterator[errors.Error]:
        found = (
            _caught(self._check_right, request, order, node),
            _caught(check_rest, order.name, node),
            _caught(self._check_driver, order, node),
            _caught(self._check_removal, node, held) if order.name == "delete" else None,
            _caught(_refuse_held, node, held, holds.ORDER, order.name) if order.kind else None,
            _caught(guards.check_unlocked, node),
        )
        yield from filter(None, found)

    def _check_right(self, request: Request, order: Order, node: JsonView) -> None:
        method, _, path = order.route.partition(" ")
        rule = policy.guard(method, path)
        names = removal_rules(self._service) if order.name == "delete" else (rule and rule.name,)
        owners = target(NODE, dict(node))
        if not any(request.access.allows(str(name), owners) for name in names):
            raise errors.Forbidden(what=names[0])

    def _check_driver(self, order: Order, node: JsonView) -> None:
        """Refuse an order that the node's interface does not carry out."""
        if not order.kind:
            return
        name = node[f"{order.kind}_interface"]
        known = self._methods.of("", self._read_methods).get((node["driver"], order.kind, name))
        if known is not None and order.method not in known:
            raise errors.UnsupportedDriverExtension(driver=node["driver"], extension=order.method)

    def _check_removal(self, node: JsonView, held: Sequence[Hold]) -> None:
        _refuse_held(node, held, holds.REMOVAL, holds.REMOVAL)
        conf = self._service.conf.conductor
        verbs.check_deletion(node, available=conf.allow_deleting_available_nodes)

    def _read_methods(self) -> Methods:
        """Return the methods that any conductor has.

        An interface is left out if one of its conductors reports no methods, because this
        conductor may have each of them.
        """
        found: dict[tuple[str, str, str], set[str]] = {}
        unknown: set[tuple[str, str, str]] = set()
        for row in self._service.database.read(conductors.interfaces):
            key = (row["hardware_type"], row["interface_type"], row["interface_name"])
            if row["methods"] is None:
                unknown.add(key)
            else:
                found.setdefault(key, set()).update(row["methods"].split(","))
        return {key: frozenset(some) for key, some in found.items() if key not in unknown}


def _refuse_held(node: JsonView, held: Sequence[Hold], operation: str, said: str) -> None:
    why = holds.refusal(node["uuid"], held, operation, said)
    if why is not None:
        raise why


def _caught(check: Callable[..., object], *given: Any) -> errors.Error | None:
    """Return the refusal that a check raises."""
    try:
        check(*given)
    except errors.Error as why:
        return why
    return None
