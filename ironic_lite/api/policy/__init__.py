"""Policy: one table of access rules, with Ironic's names and defaults (its RBAC since 2021).

The operations in the row of a rule are the routes that it guards; each route has one rule. `guard`
finds the rule of a route by method and path. Rules without operations are checked by name where
the route is not enough. ``enforcer`` registers the rules with oslo.policy; ``access`` checks them.

To guard a new route, write its ``METHOD /path`` into the row of its rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ironic_lite.api.policy import below_nodes, of_nodes, of_others
from ironic_lite.api.policy.personas import (
    ALLOCATION,
    ANYONE,
    BATCH,
    BOTH,
    NODE,
    RUNBOOK,
    SYSTEM,
    Rule,
)

__all__ = [
    "ALLOCATION",
    "ANYONE",
    "BATCH",
    "BOTH",
    "BY_NAME",
    "METRICS",
    "NODE",
    "OWN",
    "RUNBOOK",
    "SYSTEM",
    "TABLE",
    "Rule",
    "guard",
    "of_steps",
    "public",
]

TABLE: tuple[Rule, ...] = (*of_others.NAMED, *of_nodes.RULES, *below_nodes.RULES, *of_others.RULES)
OWN: tuple[Rule, ...] = (*of_nodes.OWN, *of_others.OWN)
"""The rules that Ironic does not have."""
BY_NAME: Mapping[str, Rule] = {rule.name: rule for rule in TABLE}

METRICS = "baremetal:metrics:get"
"""The rule of /metrics, which is not a route."""

_STEP = "baremetal:step:execute"
_WORD = re.compile(r"\{\w+\}")


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
    return _PUBLIC_PATHS.fullmatch(path) is not None


def _without_names(operation: str) -> str:
    return _WORD.sub("{}", operation)


def _rules_by_operation(table: Iterable[Rule]) -> dict[str, Rule]:
    """Return operation -> rule. Raises RuntimeError for an operation with two rules."""
    found: dict[str, Rule] = {}
    for rule in table:
        for operation in map(_without_names, rule.operations):
            if operation in found:
                raise RuntimeError(f"{operation} is also guarded by {found[operation].name}")
            found[operation] = rule
    return found


_GUARDS = _rules_by_operation(TABLE)
_PUBLIC_PATHS = re.compile(
    "|".join(
        re.escape(operation.partition(" ")[2]).replace(r"\{\}", "[^/]+")
        for operation, rule in _GUARDS.items()
        if rule.public
    )
)
