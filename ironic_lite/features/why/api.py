"""The explanation of a node's state: GET /v1/nodes/{node}/why.

Ironic does not have it: every version of this API does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.controllers import node_holds, provisioning
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy import NODE
from ironic_lite.api.policy.access import OWNERS, target
from ironic_lite.api.policy.node_rules import OWNER_SEES, node_rule
from ironic_lite.api.resources import bmc_orders, guards, node_lookup, run_documents
from ironic_lite.api.resources.recent import Recent
from ironic_lite.api.service import Extension, Service
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries import conductors
from ironic_lite.domain import (
    activities,
    failures,
    fields,
    holds,
    node_locks,
    retries,
    states,
    step_lists,
    verbs,
    vocabulary,
)
from ironic_lite.domain.activities import StepActivity
from ironic_lite.domain.erasure_records import DataState
from ironic_lite.domain.failures import NodeFailure
from ironic_lite.domain.holds import Hold
from ironic_lite.domain.run_stops import Stop
from ironic_lite.domain.states import Kind, State
from ironic_lite.domain.steps import title
from ironic_lite.domain.verb_refusals import VerbRequest
from ironic_lite.features.why import rows, rules
from ironic_lite.features.why.rules import OrderOffer
from ironic_lite.records import Event, Run, RunStep

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

# The orders outside of verbs that a node takes, each with the refusal that a caller would get.

ORDER_COLUMNS = tuple(
    dict.fromkeys(
        (
            *node_locks.COLUMNS,
            *("driver", "management_interface", "console_interface", "disable_power_off", "held"),
            *verbs.DELETION_COLUMNS,
        )
    )
)
"""Columns of a node that the checks read."""
_KEPT_SECONDS = 60.0

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
        bmc_orders.BOOT_SINCE,
        vocabulary.BOOT_MODES,
        "management",
        "set_boot_mode",
    ),
    Order(
        "secure_boot",
        "PUT /nodes/{ident}/states/secure_boot",
        bmc_orders.BOOT_SINCE,
        (True, False),
        "management",
        "set_secure_boot_state",
    ),
    Order(
        "vmedia",
        "POST /nodes/{ident}/vmedia",
        bmc_orders.MEDIA_SINCE,
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
        bmc_orders.NMI_SINCE,
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


class NodeOrders:
    """Finds the orders that a node takes; one object serves all threads of a process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._methods: Recent[Methods] = Recent(_KEPT_SECONDS, 1)

    def offers(
        self, request: Request, node: JsonView, held: Sequence[Hold]
    ) -> Iterator[OrderOffer]:
        """Yield each order of the request's version, with the refusal that this caller would get.

        :param node: with `ORDER_COLUMNS` and its owners.
        """
        for order in ORDERS:
            if order.since <= request.version:
                targets, refusal = self._possible(request, order, node, held)
                yield OrderOffer(order.name, targets, refusal)

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
        bmc_orders.check_power_target(request.version, goal)
        bmc_orders.check_power_state(node, goal)
        _refuse_held(node, held, holds.POWER, goal)

    def _refusals(
        self, request: Request, order: Order, node: JsonView, held: Sequence[Hold]
    ) -> Iterator[errors.Error]:
        found = (
            _caught(self._check_right, request, order, node),
            _caught(bmc_orders.check_rest, order.name, node),
            _caught(self._check_driver, order, node),
            _caught(self._check_removal, node, held) if order.name == "delete" else None,
            _caught(_refuse_held, node, held, holds.ORDER, order.name) if order.kind else None,
            _caught(guards.check_unlocked, node),
        )
        yield from filter(None, found)

    def _check_right(self, request: Request, order: Order, node: JsonView) -> None:
        method, _, path = order.route.partition(" ")
        rule = policy.guard(method, path)
        names = (
            bmc_orders.removal_rules(self._service)
            if order.name == "delete"
            else (rule and rule.name,)
        )
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


# Read the facts that explain a node's state: at most four statements, one more if it is held.
#
# One more reads the last refused ramdisk of a node that waits.
#
# The methods of interfaces are read once a minute, by one more.

_READ = "baremetal:node:why:get"


class Why(expose.Controller):
    """The explanation of a node's state."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._orders = NodeOrders(service)
        self._read = service.database.read

    @expose.expose("GET", "/nodes/{ident}/why")
    def show(self, request: Request, ident: str) -> Json:
        """Return what the node does or waits for, why it failed, and what it takes."""
        conf = self.service.conf
        checked = (*provisioning.CHECKED_COLUMNS, *ORDER_COLUMNS, *OWNERS, "generation")
        columns = tuple(dict.fromkeys((*rules.COLUMNS, *checked, *masking.TEXT_FIELDS)))
        node = _masked(node_lookup.fetch(self.service, request, ident, columns))
        node_lookup.add_tag(request, node)
        run, steps = self._read(lambda conn: rows.newest_with_steps(conn, node["uuid"]))
        held = node_holds.of(self.service, request, node)
        offers = tuple(self._offers(request, node, run, steps, held))
        if run is not None and not run_documents.visible(request, run, _READ):
            run, steps = None, []  # of an earlier owner, and so like one that was removed
        elif run is not None and not request.access.reads(_READ, run):
            stop = Stop.read(node["run_stop"], run["uuid"])
            node["run_stop"] = stop and stop.without_reason.text
        failure = failures.failure_of(node, run, None)
        operation, earlier = self._operation(request, node, failure)
        facts = {
            name: read(self.service, request, node)
            for each in self.service.extensions
            for name, read in each.facts.items()
        }
        return rules.document(
            rules.Facts(
                node=node,
                run=run,
                steps=steps,
                log=self._log(failure),
                operation=operation,
                earlier=earlier,
                overdue=self._overdue(node, run, steps),
                refused=self._refused(node),
                held=held,
                batch=facts.get("batch"),
                offers=offers,
                orders=tuple(self._orders.offers(request, node, held)),
                settings=conf.conductor,
                deploy=fields.deploy_interfaces(node, conf.autodetect_deploy_interfaces),
                now=clock.now(),
            )
        )

    def _log(self, failure: NodeFailure | None) -> list[str]:
        """Return the newest lines that drivers have stored for a run that failed."""
        if failure is None or failure.run is None:
            return []
        run = failure.run
        return self._read(lambda conn: rows.log_tail(conn, run, failures.LINES))

    def _operation(
        self, request: Request, node: Json, failure: NodeFailure | None
    ) -> tuple[Event | None, Run | None]:
        """Return the event of the operation that has set last_error, and its run, if it was one."""
        if failure is None or failure.run is not None:
            return None, None
        for event, run in self._read(lambda conn: rows.failures(conn, node["uuid"])):
            told = (event["data"] or {}).get("error") == node["last_error"]
            if told and request.access.reads(_READ, event):
                mine = run is not None and request.access.reads(_READ, run)
                return event, run if mine else None
        return None, None

    def _refused(self, node: Json) -> Event | None:
        """Return the last ramdisk that was refused since the node waits."""
        if states.kind(State(node["provision_state"])) is not Kind.WAIT:
            return None
        since = node["provision_updated_at"] or node["created_at"]
        return self._read(lambda conn: rows.refused_agent(conn, node["uuid"], since))

    def _overdue(self, node: Json, run: Run | None, steps: list[RunStep]) -> Json | None:
        """Return the step under way if it takes unusually long."""
        under_way = [step for step in steps if step["state"] in ("running", "waiting")][:1]
        if run is None or not under_way:
            return None
        return run_documents.RunTimes(self.service, run, under_way, node).overdue

    def _offers(
        self,
        request: Request,
        node: Json,
        run: Run | None,
        steps: list[RunStep],
        held: Sequence[Hold],
    ) -> Iterator[failures.VerbOffer]:
        """Yield each verb that the state offers, with the refusal that this caller would get."""
        state = State(node["provision_state"])
        goal, retired = node["target_provision_state"], bool(node["retired"])
        needed = provisioning.needed_rules({}, request.access)
        for name in verbs.offered(state, request.version):
            verb = verbs.BY_TARGET[name]
            asked = VerbRequest(verb, {}, node, request.version, self.service.conf, held)
            refusals = [*_forbidden(request, node, needed), *provisioning.node_refusals(asked)]
            if verb.event == "retry":
                refusals += _refusals_of_retry(request, node, run, steps)
            ends_first = _ends_first(node) if verb.event == "abort" else None
            leads_to = verbs.leads_to(verb, state, target=goal, retired=retired)
            yield failures.VerbOffer(name, leads_to, ends_first, next(iter(refusals), None))


def _masked(node: Json) -> Json:
    """Return a node with its texts masked, as the errors of its runs and events are."""
    hide = masking.mask_of_node(node, prose=True)
    texts = ("last_error", "maintenance_reason")
    return {**node, **{name: node[name] and hide(node[name]) for name in texts}}


def _refusals_of_retry(
    request: Request, node: Json, run: Run | None, steps: list[RunStep]
) -> Iterator[errors.Error]:
    """Yield the refusals of a retry by the rules of its steps, and by its run."""
    activity = activities.of(node["provision_state"])
    kind = activity.kind if isinstance(activity, StepActivity) else ""
    if run is not None:
        chosen = provisioning.rules_of_steps(run, steps, request.access)
        yield from _forbidden(request, node, chosen)
    try:
        if run is not None:
            retries.refuse_others(run, node, request.access.counted_project)
        retries.of_run(run, steps, state=node["provision_state"], kind=str(kind))
    except errors.NothingToRetry as why:
        yield why


def _forbidden(request: Request, node: Json, names: Iterable[str]) -> Iterator[errors.Error]:
    owners = target(NODE, node)
    for name in names:
        if not request.access.allows(name, owners):
            yield errors.Forbidden(what=name)


def _ends_first(node: Json) -> str | None:
    """Return the step that an abort does not interrupt."""
    step = activities.step_under_way(node)
    waits = states.kind(State(node["provision_state"])) is Kind.WAIT
    if not waits or step is None or step_lists.interruptible(step):
        return None
    return title(step)


_OBJECTS = (
    *("lock", "run", "waits_for", "failure", "maintenance", "batch", "overdue"),
    "deploy_interface",
)

_OBJECT_OR_NULL: Json = {"type": ["object", "null"]}


def _answers() -> Mapping[str, Schemas]:
    from ironic_lite.api.openapi.answers import (  # noqa: PLC0415
        OBJECT,
        TEXT,
        TEXT_OR_NULL,
    )
    from ironic_lite.api.openapi.parts import Schemas, object_with_all  # noqa: PLC0415

    offered = object_with_all(
        target={"enum": [verb.target for verb in verbs.TABLE]},
        leads_to=TEXT,
        after=TEXT_OR_NULL,
        refused=_OBJECT_OR_NULL,
    )
    why = object_with_all(
        node=TEXT,
        name=TEXT_OR_NULL,
        provision_state=TEXT,
        kind={"enum": [kind.value for kind in states.Kind]},
        since={"type": ["string", "null"], "format": "date-time"},
        says=TEXT,
        do=TEXT_OR_NULL,
        **dict.fromkeys(_OBJECTS, _OBJECT_OR_NULL),
        holds={"type": "array", "items": OBJECT},
        data_state={"enum": [str(state) for state in DataState]},
        verbs={"type": "array", "items": offered},
        orders={
            "type": "array",
            "items": object_with_all(
                order={"enum": [order.name for order in ORDERS]},
                targets={"type": "array", "items": {"type": ["string", "boolean"]}},
                refused=_OBJECT_OR_NULL,
            ),
        },
    )
    return {"GET /nodes/{ident}/why": Schemas(why)}


EXTENSION = Extension(
    (Why,),
    (
        node_rule(
            "why:get",
            OWNER_SEES,
            "See why a node is in its state, with its last error and its last run.",
            "GET ./why",
        ),
    ),
    _answers,
)
