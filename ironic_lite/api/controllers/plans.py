"""Plans: what a verb would do to a node, without doing it.

Ironic does not have plans: every version of this API has them.
"""

from __future__ import annotations

import functools
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.resources import (
    node_holds,
    node_lookup,
    plans,
    provisioning,
    runbook_access,
    verb_checks,
)
from ironic_lite.api.validation import schemas, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core import metrics
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import verbs
from ironic_lite.domain.states import State

_RULE = "baremetal:node:plan"
_RUNS = "baremetal:node:runs:get"
_COLUMNS = (*verb_checks.COLUMNS, "resource_class", "target_provision_state", "generation")
_SECONDS = 10.0
"""Time limit of the conductor's part."""


class Plans(expose.Controller):
    """/v1/nodes/{node}/plan: a request for a verb, checked and planned."""

    @expose.expose(
        "POST", "/nodes/{ident}/plan", types.word, body=expose.WHOLE, limit=provisioning.BODY_LIMIT
    )
    def plan(self, request: Request, ident: str) -> Json:
        """Return the plan of a verb: 200 if the request would be accepted now, else 422.

        Nothing is changed, locked or asked of a machine. The body is that of
        ``PUT .../states/provision``.
        """
        if isinstance(request.json, dict) and not request.json.get("target"):
            node_lookup.fetch(self.service, request, ident, ("uuid",), rules=(_RULE,))
        body = schemas.provision(request.json)
        rules = provisioning.rules(body, request.access, first=_RULE)
        if body["target"] == "retry":
            rules = (*rules, _RUNS)  # the plan shows the steps of the failed run
        with_traits = "runbook" in body
        node = node_lookup.fetch(
            self.service, request, ident, _COLUMNS, with_traits=with_traits, rules=rules
        )
        if body["target"] == "retry":
            provisioning.demand_steps_of_retry(self.service, request, ident, node["uuid"])
        node_lookup.add_tag(request, node)
        found = self._plan(request, body, node)
        if not found["accepted"]:
            request.answer.status = HTTPStatus.UNPROCESSABLE_ENTITY
        metrics.BOARD.count("plans_total", str(found["accepted"]).lower())
        return found

    def _plan(self, request: Request, body: Json, node: JsonView) -> Json:
        target = body["target"]
        try:
            verb = verb_checks.verb(target, node, request.version)
        except (errors.InvalidState, errors.NodeLocked) as why:
            return plans.document(
                target, None, body=body, refusals=[why], planned=plans.unplanned(), usual={}
            )
        held = node_holds.of(self.service, request, node)
        asked = verb_checks.Asked(verb, body, node, request.version, self.service.conf, held)
        find = functools.partial(runbook_access.to_use, self.service, request)
        asked, refusals = verb_checks.refusals(asked, find)
        conductor = self.service.conductor_of(node, timeout=_SECONDS)
        planned = conductor.plan_provision(
            request.who, node_uuid=node["uuid"], target=target, body=plans.arguments(asked)
        )
        leads_to = _end_of(verb, node)
        usual = plans.durations(self.service.usual, node, planned["steps"])
        return plans.document(
            target, leads_to, body=body, refusals=refusals, planned=planned, usual=usual
        )


def _end_of(verb: verbs.Verb, node: JsonView) -> State | None:
    """Return the state in which the node rests after the verb; None if it cannot start."""
    state, goal = State(node["provision_state"]), node["target_provision_state"]
    if not verbs.possible(verb, state):
        return None
    return verbs.leads_to(verb, state, target=goal, retired=node["retired"])
