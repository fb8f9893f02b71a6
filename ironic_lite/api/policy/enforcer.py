"""The rules of ``policy`` in oslo.policy, with the overrides of a policy file.

Imported only by [api]auth_strategy = keystone and by the programs oslopolicy-*.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

import oslo_policy.policy
from oslo_config import cfg
from oslo_context.context import RequestContext

from ironic_lite.api import policy
from ironic_lite.api.policy import checks
from ironic_lite.api.policy.access import Access
from ironic_lite.core import config
from ironic_lite.core.json_types import Json

LOG = logging.getLogger(__name__)

_OURS = ("--config-file", "--config-dir")


def rules() -> list[Any]:
    """Return the default rules, for the entry point oslo.policy.policies."""
    return [_default_rule(each) for each in policy.TABLE]


def _default_rule(row: policy.Rule) -> Any:
    scope = None if row.public or not row.name.startswith("baremetal:") else list(row.scope)
    if not row.operations:
        return oslo_policy.policy.RuleDefault(
            row.name, row.check, description=row.says, scope_types=scope
        )
    operations: list[Any] = []
    for operation in row.operations:
        method, _, path = operation.partition(" ")
        operations.append({"method": method, "path": f"/v1{path}" if path else "/"})
    return oslo_policy.policy.DocumentedRuleDefault(
        row.name, row.check, row.says, operations, scope_types=scope
    )


def build(conf: cfg.ConfigOpts) -> Any:
    """Return the enforcer of a configuration.

    :raises config.ConfigError: the policy file is invalid.
    """
    found = oslo_policy.policy.Enforcer(conf)
    found.register_defaults(rules())
    try:
        found.load_rules()
        found.check_rules(raise_on_violation=True)
    except Exception as why:  # whatever a parser may raise
        raise config.ConfigError(
            reason=f"[oslo_policy]policy_file: {conf.oslo_policy.policy_file}: {why}"
        ) from None
    return found


def for_scripts() -> Any:
    """Return the enforcer of the command line, for the entry point oslo.policy.enforcer.

    The programs read their own options and leave ``--config-file`` and ``--config-dir`` to us.
    """
    words, ours = iter(sys.argv[1:]), []
    for word in words:
        if word in _OURS:
            ours += [word, next(words, "")]
        elif word.startswith(tuple(f"{each}=" for each in _OURS)):
            ours.append(word)
    # The programs read the global configuration afterwards; their own options are parsed by now.
    config.CONF(ours, project=config.PROJECT, prog=config.API)
    return build(cfg.CONF)


class AccessFactory:
    """Make the `Access` of each caller, backed by one enforcer."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._rules = checks.Verdicts(conf, build)
        elevated = conf.rbac_service_role_elevated_access
        name = conf.rbac_service_project_name if elevated else None
        self._common = {"config.service_project_name": name} if name else {}

    def access(self, environ: Json) -> Access:
        """Return the rights of the caller whose token the middleware has validated."""
        who = RequestContext.from_environ(environ, overwrite=False)
        return self._access_of({**who.to_policy_values(), "project_name": who.project_name})

    def anonymous(self) -> Access:
        """Return the rights of a caller without a token."""
        return self._access_of({"roles": [], "is_public_api": True})

    def _access_of(self, values: Json) -> Access:
        caller = checks.Caller(values, self._common)

        def ask(name: str, owners: Mapping[str, str]) -> bool:
            found = self._rules.passes(name, owners, caller)
            LOG.debug("Rule %s: %s", name, "passed" if found else "not passed")
            return found

        system = values.get("system_scope") == "all"
        return Access(
            ask,
            values.get("project_id"),
            system=system,
            there=self._rules.has,
            roles=values["roles"],
            key=caller.key,
        )
