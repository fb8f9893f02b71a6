"""The table of rules: every route has one, and each is in the language of oslo.policy."""

from __future__ import annotations

from collections import Counter

from oslo_policy import policy as oslo_policy

from ironic_lite.api import controllers, policy
from ironic_lite.api.wire import routes
from ironic_lite.api.wire.expose import _ROUTE


def _routes() -> list[routes.Route]:
    found = []
    for each in controllers.ALL:
        methods = (getattr(each, name) for name in vars(each))
        found += [getattr(method, _ROUTE) for method in methods if hasattr(method, _ROUTE)]
    return found


def test_every_route_has_a_rule() -> None:
    without = [
        f"{route.method} {route.path}"
        for route in _routes()
        if policy.guard(route.method, route.path) is None
    ]

    assert not without, (
        f"write them into the row of their rule in ironic_lite/api/policy: {without}"
    )


def test_only_these_paths_ask_for_no_login() -> None:
    public = {route.path for route in _routes() if policy.public(route.path)}

    documents = {"", "/", "/openapi", "/openapi.json"}
    assert public == documents | {
        *("/lookup", "/heartbeat", "/heartbeat/{ident}", "/continue_inspection"),
        "/erasures/keys/{key}",
    }
    assert policy.public("/heartbeat/5e4d")
    assert not policy.public("/heartbeat/5e4d/x")
    assert not policy.public("/nodes")


def test_names_are_unique_and_checks_can_be_read() -> None:
    count = Counter(rule.name for rule in policy.TABLE)
    assert max(count.values()) == 1

    for rule in policy.TABLE:
        oslo_policy.RuleDefault(rule.name, rule.check, scope_types=list(rule.scope))
        if "%(node." in rule.check and rule.name.startswith("baremetal"):
            assert rule.about == policy.NODE, rule.name


def test_list_rules_have_a_rule_for_all_rows() -> None:
    for rule in policy.TABLE:
        if rule.lists:
            assert f"{rule.name}_all" in policy.BY_NAME
