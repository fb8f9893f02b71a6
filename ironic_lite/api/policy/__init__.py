"""Policy: one table of access rules, with Ironic's names and defaults (its RBAC since 2021).

The operations in the row of a rule are the routes that it guards; each route has one rule. `guard`
finds the rule of a route by method and path. Rules without operations are checked by name where
the route is not enough. ``enforcement`` registers the rules with oslo.policy, and ``access`` checks
them.

To guard a new route, write its ``METHOD /path`` into the row of its rule. Features add their rules.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from ironic_lite.api.policy import node_rules
from ironic_lite.api.policy.node_rules import (
    ADMIN,
    ALLOCATES,
    ALLOCATION,
    ANY_READER,
    ANYONE,
    BATCH,
    BOTH,
    LOGGED_IN,
    MEMBER,
    NODE,
    READER,
    RUNBOOK,
    RUNBOOKS,
    SYSTEM,
    VENDOR_METHODS,
    VENDOR_PLACES,
    Rule,
    any_of,
    of,
    rule,
)

# Rules of resources that do not belong to nodes; ``node_rules`` has the others. These first ones
# are rules that other rules or policy files of older deployments refer to.
NAMED_CHECKS = (
    Rule(
        "service_role",
        "role:service and project_name:%(config.service_project_name)s",
        "The service role in the project of services, where options raise it to system scope.",
    ),
    Rule("public_api", "is_public_api:True", "For older policy files: routes without login."),
    Rule("admin_api", "role:admin or role:administrator", "For older policy files."),
    Rule(
        "is_member",
        "(project_domain_id:default or project_domain_id:None) and "
        "(project_name:demo or project_name:baremetal)",
        "For older policy files.",
    ),
    Rule(
        "is_observer",
        "rule:is_member and (role:observer or role:baremetal_observer)",
        "For older policy files.",
    ),
    Rule(
        "is_admin",
        "rule:admin_api or (rule:is_member and role:baremetal_admin)",
        "For older policy files.",
    ),
    Rule("is_node_owner", "project_id:%(node.owner)s", "For older policy files."),
    Rule("is_node_lessee", "project_id:%(node.lessee)s", "For older policy files."),
    Rule("is_allocation_owner", "project_id:%(allocation.owner)s", "For older policy files."),
)


_OTHERS = (
    rule("shards:get", READER, "List the shards.", "GET /shards"),
    rule(
        "chassis:get",
        READER,
        "Show chassis.",
        "GET /chassis",
        "GET /chassis/detail",
        "GET /chassis/{ident}",
        "GET /chassis/{ident}/nodes",
        "GET /chassis/{ident}/nodes/detail",
        scope=SYSTEM,
    ),
    rule("chassis:create", ADMIN, "Add chassis.", "POST /chassis", scope=SYSTEM),
    rule("chassis:update", MEMBER, "Change chassis.", "PATCH /chassis/{ident}", scope=SYSTEM),
    rule("chassis:delete", ADMIN, "Remove chassis.", "DELETE /chassis/{ident}", scope=SYSTEM),
    rule(
        "driver:get",
        READER,
        "Show hardware types.",
        "GET /drivers",
        "GET /drivers/{name}",
        scope=SYSTEM,
    ),
    rule(
        "driver:get_properties",
        READER,
        "Show the keys of driver_info that a hardware type reads.",
        "GET /drivers/{name}/properties",
        "GET /drivers/{name}/properties/detail",
        scope=SYSTEM,
    ),
    rule(
        "driver:get_raid_logical_disk_properties",
        READER,
        "Show the keys of target_raid_config that a hardware type reads.",
        "GET /drivers/{name}/raid/logical_disk_properties",
        scope=SYSTEM,
    ),
    rule(
        "driver:vendor_passthru",
        ADMIN,
        "Call a vendor method of a hardware type.",
        "GET /drivers/{name}/vendor_passthru/methods",
        *(f"{verb} /drivers/{{name}}{place}" for verb in VENDOR_METHODS for place in VENDOR_PLACES),
        scope=SYSTEM,
    ),
    rule(
        "conductor:get",
        READER,
        "Show conductors.",
        "GET /conductors",
        "GET /conductors/{hostname}",
        "GET /conductors/{hostname}/counters",
    ),
    rule("events:post", ADMIN, "Report external events.", "POST /events", scope=SYSTEM),
    rule(
        "deploy_template:get",
        READER,
        "Show deploy templates.",
        "GET /deploy_templates",
        "GET /deploy_templates/{ident}",
    ),
    rule("deploy_template:create", ADMIN, "Add deploy templates.", "POST /deploy_templates"),
    rule(
        "deploy_template:update",
        ADMIN,
        "Change deploy templates.",
        "PATCH /deploy_templates/{ident}",
    ),
    rule(
        "deploy_template:delete",
        ADMIN,
        "Remove deploy templates.",
        "DELETE /deploy_templates/{ident}",
    ),
    rule(
        "inspection_rule:get", READER, "Show an inspection rule.", "GET /inspection_rules/{ident}"
    ),
    rule("inspection_rule:list_all", READER, "List inspection rules.", "GET /inspection_rules"),
    rule("inspection_rule:create", ADMIN, "Add inspection rules.", "POST /inspection_rules"),
    rule(
        "inspection_rule:update",
        ADMIN,
        "Change inspection rules.",
        "PATCH /inspection_rules/{ident}",
    ),
    rule(
        "inspection_rule:delete",
        ADMIN,
        "Remove inspection rules.",
        "DELETE /inspection_rules",
        "DELETE /inspection_rules/{ident}",
    ),
)

_ALLOCATIONS = (
    rule(
        "allocation:get",
        any_of(READER, of("reader", "allocation.owner")),
        "Show an allocation.",
        "GET /allocations/{ident}",
        "GET /nodes/{ident}/allocation",
        about=ALLOCATION,
    ),
    rule("allocation:list", ANY_READER, "List the own project's allocations.", "GET /allocations"),
    rule("allocation:list_all", READER, "List all allocations."),
    rule(
        "allocation:create",
        any_of(MEMBER, "role:member"),
        "Request an allocation.",
        "POST /allocations",
    ),
    rule("allocation:create_restricted", MEMBER, "Request an allocation with a named owner."),
    rule(
        "allocation:update",
        ALLOCATES,
        "Change allocations.",
        "PATCH /allocations/{ident}",
        about=ALLOCATION,
    ),
    rule(
        "allocation:delete",
        ALLOCATES,
        "Delete allocations.",
        "DELETE /allocations/{ident}",
        "DELETE /nodes/{ident}/allocation",
        about=ALLOCATION,
    ),
)

_RUNBOOK_RULES = (
    rule(
        "runbook:get",
        any_of(READER, of("reader", "runbook.owner"), "role:service"),
        "Show a runbook.",
        "GET /runbooks/{ident}",
        "GET /runbooks/{ident}/traits",
        about=RUNBOOK,
    ),
    rule(
        "runbook:list",
        ANY_READER,
        "List public runbooks and those of the own project.",
        "GET /runbooks",
    ),
    rule("runbook:list_all", READER, "List all runbooks."),
    rule(
        "runbook:create",
        any_of(MEMBER, "role:manager", "role:service"),
        "Add runbooks.",
        "POST /runbooks",
    ),
    rule(
        "runbook:update",
        RUNBOOKS,
        "Change runbooks.",
        "PATCH /runbooks/{ident}",
        *(
            f"{verb} /runbooks/{{ident}}/traits{one}"
            for verb in ("PUT", "DELETE")
            for one in ("", "/{trait}")
        ),
        about=RUNBOOK,
    ),
    rule("runbook:delete", RUNBOOKS, "Remove runbooks.", "DELETE /runbooks/{ident}", about=RUNBOOK),
    rule("runbook:update:public", MEMBER, "Make runbooks public.", about=RUNBOOK),
    rule("runbook:update:owner", MEMBER, "Change the owner of runbooks.", about=RUNBOOK),
    rule("runbook:use", RUNBOOKS, "Run a runbook on a node.", about=RUNBOOK),
)

_PUBLIC = (
    rule(
        "node:ipa_heartbeat",
        ANYONE,
        "Send the heartbeat of a ramdisk.",
        "POST /heartbeat",
        "POST /heartbeat/{ident}",
    ),
    rule("driver:ipa_lookup", ANYONE, "Look up the node of a ramdisk.", "GET /lookup"),
    rule(
        "driver:ipa_continue_inspection",
        ANYONE,
        "Send the inspection report of a ramdisk.",
        "POST /continue_inspection",
    ),
)


OWN_OTHER_RULES = (
    rule("whoami:get", LOGGED_IN, "Show who one is, and which rules one passes.", "GET /whoami"),
    rule("metrics:get", READER, "Read the metrics of the whole service at /metrics."),
    rule("hold:list", ANY_READER, "List holds of the own project's nodes.", "GET /holds"),
    rule("hold:list_all", READER, "List the holds of all nodes."),
    rule(
        "hold:many",
        MEMBER,
        "Set and end holds of many nodes, and those of the kind observe.",
        "POST /holds",
        "POST /holds/end",
    ),
    rule("run:list", ANY_READER, "List runs of the own project's nodes.", "GET /runs"),
    rule("run:list_all", READER, "List the runs of all nodes."),
    # Ironic needs no login for these routes either.
    rule(
        "root:get",
        ANYONE,
        "See the versions of the API.",
        "GET ",
        "GET /",
        "HEAD ",
        "HEAD /",
        "GET /openapi",
        "GET /openapi.json",
    ),
)
"""Rules that Ironic does not have."""

OTHER_RULES = (*_OTHERS, *_ALLOCATIONS, *_RUNBOOK_RULES, *_PUBLIC, *OWN_OTHER_RULES)


TABLE: list[Rule] = [
    *NAMED_CHECKS,
    *node_rules.NODE_RULES,
    *node_rules.RULES_BELOW_NODES,
    *OTHER_RULES,
]
OWN: list[Rule] = [*node_rules.OWN_NODE_RULES, *OWN_OTHER_RULES]
"""The rules that Ironic does not have."""
BY_NAME: dict[str, Rule] = {rule.name: rule for rule in TABLE}

METRICS = "baremetal:metrics:get"
"""The rule of /metrics, which is not a route."""

_STEP = "baremetal:step:execute"
_WORD = re.compile(r"\{\w+\}")


def add(rules: Iterable[Rule]) -> None:
    """Add the rules of a feature, unless they have been added."""
    new = [rule for rule in rules if rule.name not in BY_NAME]
    TABLE.extend(new)
    OWN.extend(new)
    BY_NAME.update({rule.name: rule for rule in new})
    _GUARDS.update(_rules_by_operation(TABLE))
    _public_paths.cache_clear()


def guard(method: str, path: str) -> Rule | None:
    """Return the rule of a route (``Route.path``), or None if no row names the route."""
    return _GUARDS.get(_without_names(f"{method} {path}"))


def of_steps(steps: object) -> tuple[str, ...]:
    """Return the names, each once, of the rules that a policy file may define for these steps.

    :param steps: the list as received; a malformed list is refused elsewhere.
    """
    listed = steps if isinstance(steps, list) else []
    named = (
        f"{_STEP}:{step.get('interface')}.{step.get('step')}"
        for step in listed
        if isinstance(step, dict)
    )
    return tuple(dict.fromkeys(named))


def public(path: str) -> bool:
    """Return whether a path, as ``Call.path``, is served without a login."""
    return _public_paths().fullmatch(path) is not None


def _without_names(operation: str) -> str:
    return _WORD.sub("{}", operation)


def _rules_by_operation(table: Iterable[Rule]) -> dict[str, Rule]:
    """Return operation -> rule. Raises RuntimeError for an operation with two rules."""
    found: dict[str, Rule] = {}
    for known in table:
        for operation in map(_without_names, known.operations):
            if operation in found:
                raise RuntimeError(f"{operation} is also guarded by {found[operation].name}")
            found[operation] = known
    return found


_GUARDS = _rules_by_operation(TABLE)


@functools.cache
def _public_paths() -> re.Pattern[str]:
    return re.compile(
        "|".join(
            re.escape(operation.partition(" ")[2]).replace(r"\{\}", "[^/]+")
            for operation, rule in _GUARDS.items()
            if rule.public
        )
    )
