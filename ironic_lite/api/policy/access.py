"""Rights of the caller of one request, checked by the rules of ``policy``.

The router enters the rule of the route. A rule without an object is checked at once. A rule about
an object is checked when the owner of the object is known. The function that reads the object
(`node_lookup.fetch` for nodes) also reads its owner and has it checked first, so that the check
costs no statement. A request whose object was never checked is refused.

The response is 404 for an object that the caller may not see, and 403 for an object that the
caller may see but not use in this way.
"""

from __future__ import annotations

import datetime
import logging
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row, RowView

LOG = logging.getLogger(__name__)

Target = Mapping[str, str]
Ask = Callable[[str, Target], bool]
"""Return whether the caller passes the rule of this name for an object with these owners."""

OWNERS = ("owner", "lessee")
REDACTED: Mapping[str, tuple[str, bool]] = {
    "last_error": ("last_error", False),
    "maintenance_reason": ("last_error", False),  # which it repeats after a failure
    "reservation": ("reservation", False),
    "driver_internal_info": ("driver_internal_info", True),
    "driver_info": ("driver_info", True),
}
"""Fields of a node that a rule hides -> the field in the rule's name; whether it is an object."""


class Access:
    """The rights of one caller for one request.

    :param ask: checks a rule; None allows everything.
    :param project: the caller's project, to which lists are narrowed.
    :param system: whether the caller's token has system scope.
    :param there: returns whether a rule exists; the rules of the table always exist.
    :param roles: the caller's roles.
    :param key: equal for callers for whom all rules give equal results.
    """

    __slots__ = (
        *("_ask", "_pending", "_rule", "_there", "_verdicts"),
        *("expires_at", "key", "name", "project", "roles", "system"),
    )

    def __init__(
        self,
        ask: Ask | None = None,
        project: str | None = None,
        *,
        system: bool = False,
        there: Callable[[str], bool] = policy.BY_NAME.__contains__,
        roles: Sequence[str] = (),
        key: Hashable = None,
    ) -> None:
        self._ask = ask
        self._there = there
        self._verdicts: dict[tuple[str, ...], bool] = {}
        self._pending = False
        self._rule: policy.Rule | None = None
        self.project = project
        self.system = system
        self.roles = tuple(roles)
        self.key = key
        self.expires_at: str | None = None
        """When the caller's token expires, in ISO 8601; None without a token."""
        self.name: str | None = None
        """The name of the token's user, which several users may have; None without a token."""

    @property
    def login_seconds(self) -> float:
        """The seconds until the caller's token expires; infinite without a token."""
        if self.expires_at is None:
            return math.inf
        end = datetime.datetime.fromisoformat(self.expires_at)
        utc = end.astimezone(datetime.UTC).replace(tzinfo=None)
        return (utc - clock.now()).total_seconds()

    @property
    def limited(self) -> bool:
        """True if rules limit this caller."""
        return self._ask is not None

    @property
    def counted_project(self) -> str | None:
        """The project whose limits hold for this caller; None for the system and other logins."""
        return self.project if self.limited and not self.system else None

    def allows(self, name: str, target: Target | None = None) -> bool:
        """Return whether the caller passes a rule; ``target`` as from `target`."""
        return self._ask is None or self._ask(name, target or {})

    def written(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names that have a rule, in the table or in a policy file."""
        return () if self._ask is None else tuple(filter(self._there, names))

    def demand(self, name: str, target: Target | None = None) -> None:
        """Check one more rule.

        :raises errors.Forbidden: the caller does not pass it.
        """
        if not self.allows(name, target):
            raise errors.Forbidden(what=name)

    # -- rule of the route -------------------------------------------------------------------

    def enter(self, rule: policy.Rule | None) -> None:
        """Begin a request that ``rule`` guards; None refuses every caller.

        :raises errors.Forbidden: the caller does not pass a rule of a list, or one without object.
        """
        if self._ask is None:
            return
        self._rule = rule
        if rule is None:
            LOG.error("A route has no rule in ironic_lite.api.policy; the request is refused")
            raise errors.Forbidden(what="a route without a rule")
        self._pending = bool(rule.about) or rule.lists
        if rule.lists:
            self._only_project(rule.name)
        elif not self._pending:
            self.demand(rule.name)

    def leave(self) -> None:
        """End a request.

        :raises errors.Forbidden: the object of the rule was never checked.
        """
        if self._pending and self._rule is not None:
            LOG.error(
                "Rule %s was never checked for an object; the request is refused", self._rule.name
            )
            raise errors.Forbidden(what=self._rule.name)

    def settle(self) -> None:
        """Record that other rules have checked the object of the route's rule."""
        if self._ask is not None:
            self._pending = False

    # -- rules about objects -----------------------------------------------------------------

    def node(
        self, row: Row, missing: errors.Error, *names: str, enough: Callable[..., bool] = all
    ) -> None:
        """Check the operation on a node or on a sub-resource of it, as `owned`.

        :param row: with owner and lessee of the node.
        """
        self.owned(policy.NODE, row, missing, names, enough)

    def owned(
        self,
        kind: str,
        row: Row,
        missing: errors.Error,
        names: Sequence[str] = (),
        enough: Callable[..., bool] = all,
    ) -> None:
        """Check the operation on an object by its owner.

        :param kind: of `policy`: node, allocation, runbook.
        :param row: with ``owner``, and ``lessee`` if the kind has one. Callers who may see their
            own objects may also see a ``public`` one.
        :param missing: the error of a missing object, raised if the caller may not see this one.
        :param names: rules to pass; without names, the rule of the route if it is about this kind.
        :param enough: ``any`` if one passed rule suffices.
        :raises errors.Forbidden: the caller may see the object, but a rule forbids the operation.
        """
        if self._ask is None or (self._rule is not None and self._rule.public):
            return
        owners = target(kind, row)
        shown = target(kind, {**row, "owner": self.project}) if row.get("public") else owners
        if not self._passes_rule(f"baremetal:{kind}:get", shown):
            raise missing
        rule = self._rule
        if rule is not None and rule.about == kind:
            names = names or (rule.name,)
            self._pending = False
        failed = [name for name in names if not self._passes_rule(name, owners)]
        if failed and not enough(name not in failed for name in names):
            raise errors.Forbidden(what=failed[0])

    def _passes_rule(self, name: str, owners: Target) -> bool:
        """Check a rule, once for each combination of owners."""
        key = (name, *(f"{kind}={owner}" for kind, owner in owners.items()))
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = self.allows(name, owners)
        return found

    # -- rules of lists ----------------------------------------------------------------------

    def only(self, asked: str | None = None, *, kind: str | None = None) -> str | None:
        """Return the only project whose objects the caller may list, or None for all.

        :param asked: the project of the request's own filter, which must be the same.
        :param kind: ``node`` and so on, for a list on a route with another rule.
        :raises errors.Forbidden: the caller may list nothing, or not the project ``asked``.
        """
        if self._ask is None:
            return None
        name = f"baremetal:{kind}:list" if kind or self._rule is None else self._rule.name
        if self._rule is not None and self._rule.lists:
            self._pending = False
        project = self._only_project(name)
        if project is not None and asked and asked != project:
            raise errors.Forbidden(what=f"{name}_all")
        return project

    def _only_project(self, name: str) -> str | None:
        """Return the only project whose objects a rule lets the caller list, or None for all.

        :raises errors.Forbidden: the caller may list nothing.
        """
        if self._passes_rule(f"{name}_all", {}):
            return None
        if not self.project:
            raise errors.Forbidden(what=f"{name}_all")
        if not self._passes_rule(name, {}):
            raise errors.Forbidden(what=name)
        return self.project

    def own_sides(self, name: str) -> dict[str, str | None] | None:
        """Return what a rule lets the caller read of rows with owner and lessee of their time.

        :param name: of a rule about nodes.
        :return: the caller's project under owner and lessee, None for a side that does not suffice;
            None if the rule needs neither.
        """
        if self._ask is None or self._passes_rule(name, {}):
            return None
        return {
            side: self.project
            if self.project and self._passes_rule(name, {f"{policy.NODE}.{side}": self.project})
            else None
            for side in OWNERS
        }

    def reads(self, name: str, row: RowView) -> bool:
        """Return whether the caller passes a rule about nodes for a row with owner and lessee."""
        return self._ask is None or self._passes_rule(name, target(policy.NODE, row))

    def hidden(self, owner: str | None) -> frozenset[str]:
        """Return the fields that the caller may not see of a project's nodes; None: of all."""
        if self.allows("baremetal:node:get:filter_threshold"):
            return frozenset()
        row = {"owner": owner}
        shown = {
            rule: self.reads(f"baremetal:node:get:{rule}", row) for rule, _ in REDACTED.values()
        }
        return frozenset(name for name, (rule, _) in REDACTED.items() if not shown[rule])

    def redactor(self) -> Callable[[Row], None] | None:
        """Return a function that hides fields of a node that the caller may not see, or None.

        The function needs a row with owner and lessee.
        """
        if self._ask is None or self.allows("baremetal:node:get:filter_threshold"):
            return None

        def redact(row: Row) -> None:
            owners = target(policy.NODE, row)
            for name, (field, is_object) in REDACTED.items():
                rule = f"baremetal:node:get:{field}"
                if row.get(name) and not self._passes_rule(rule, owners):
                    text = f"** Redacted - requires {rule} permission. **"
                    row[name] = {"content": text} if is_object else text

        return redact


def target(kind: str, row: RowView) -> dict[str, str]:
    """Return the owners of an object under the names that rules use.

    A missing owner is left out, because None would match a token without a project.
    """
    return {f"{kind}.{name}": row[name] for name in OWNERS if row.get(name)}
