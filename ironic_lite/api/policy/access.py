"""What the caller of one request may do, asked of the rules of ``policy``.

The router opens the rule of the route. A rule that is about nothing is asked there and then. One
that is about an object waits until its owner is known, which costs no statement of its own: whoever
reads the object (`idents.fetch` for nodes) reads its owner along and has it judged before anything
else is done with it. What nobody has judged in the end is refused.

An object that the caller may not see is not found; one they see, but may not do this with, is
forbidden.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.api import policy

LOG = logging.getLogger(__name__)

Row = dict[str, Any]
Target = Mapping[str, str]
Ask = Callable[[str, Target], bool]
"""Tells whether the caller passes the rule of this name for an object with these owners."""

OWNERS = ("owner", "lessee")
REDACTED: Mapping[str, bool] = {
    "last_error": False,
    "reservation": False,
    "driver_internal_info": True,
    "driver_info": True,
}
"""What of a node has a rule of its own to be seen, and whether it is an object."""


class Access:
    """The rights of one caller for one request.

    :param ask: None: everything is allowed.
    :param project: the caller's, by which lists are narrowed.
    :param system: whether the caller speaks for the whole system.
    :param there: tells whether there is a rule of a name; those of the table always are.
    """

    __slots__ = ("_ask", "_known", "_pending", "_rule", "_there", "project", "system")

    def __init__(
        self,
        ask: Ask | None = None,
        project: str | None = None,
        *,
        system: bool = False,
        there: Callable[[str], bool] = policy.BY_NAME.__contains__,
    ) -> None:
        self._ask = ask
        self._there = there
        self._known: dict[tuple[str, ...], bool] = {}
        self._pending = False
        self._rule: policy.Rule | None = None
        self.project = project
        self.system = system

    @property
    def limited(self) -> bool:
        """Whether there are rules to be asked at all."""
        return self._ask is not None

    def allows(self, name: str, target: Target | None = None) -> bool:
        """Tell whether the caller passes a rule; ``target`` as from `target`."""
        return self._ask is None or self._ask(name, target or {})

    def written(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the names that there is a rule for: a policy file may have more rules."""
        return () if self._ask is None else tuple(filter(self._there, names))

    def demand(self, name: str, target: Target | None = None) -> None:
        """Ask one more rule.

        :raises errors.Forbidden: the caller does not pass it.
        """
        if not self.allows(name, target):
            raise errors.Forbidden(what=name)

    # -- of the route ------------------------------------------------------------------------

    def enter(self, rule: policy.Rule | None) -> None:
        """Begin a request that ``rule`` guards; None is passed by nobody.

        :raises errors.Forbidden: the rule is about nothing, or of a list, and the caller does not
            pass it.
        """
        if self._ask is None:
            return
        self._rule = rule
        if rule is None:
            LOG.error("A route has no rule in ironic_lite.api.policy, and is closed to everybody")
            raise errors.Forbidden(what="a route without a rule")
        self._pending = bool(rule.about) or rule.lists
        if rule.lists:
            self._bound(rule.name)
        elif not self._pending:
            self.demand(rule.name)

    def leave(self) -> None:
        """End a request.

        :raises errors.Forbidden: what the rule is about was never judged.
        """
        if self._pending and self._rule is not None:
            LOG.error("Rule %s was asked of nothing: its answer is withheld", self._rule.name)
            raise errors.Forbidden(what=self._rule.name)

    def settle(self) -> None:
        """Say that what the route's rule is about has been judged by other rules."""
        if self._ask is not None:
            self._pending = False

    # -- of objects --------------------------------------------------------------------------

    def node(
        self, row: Row, missing: errors.Error, *names: str, enough: Callable[..., bool] = all
    ) -> None:
        """Judge what is asked of a node, or of what hangs below it, as `owned`.

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
        """Judge what is asked of an object by who owns it.

        :param kind: of `policy`: node, allocation, runbook.
        :param row: with ``owner``, and ``lessee`` if it can have one; one that is ``public`` may be
            seen by whoever may see their own.
        :param missing: raised to a caller who may not see the object: what is raised, too, if there
            is no such object.
        :param names: of rules; none for that of the route, if it is about this kind.
        :param enough: ``any`` if one of the rules is.
        :raises errors.Forbidden: the caller may see it, but not do this.
        """
        if self._ask is None or (self._rule is not None and self._rule.public):
            return
        owners = target(kind, row)
        shown = target(kind, {**row, "owner": self.project}) if row.get("public") else owners
        if not self._passes(f"baremetal:{kind}:get", shown):
            raise missing
        rule = self._rule
        if rule is not None and rule.about == kind:
            names = names or (rule.name,)
            self._pending = False
        failed = [name for name in names if not self._passes(name, owners)]
        if failed and not enough(name not in failed for name in names):
            raise errors.Forbidden(what=failed[0])

    def _passes(self, name: str, owners: Target) -> bool:
        """Ask a rule, each for each pair of owners once."""
        key = (name, *(f"{kind}={owner}" for kind, owner in owners.items()))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.allows(name, owners)
        return found

    # -- of lists ----------------------------------------------------------------------------

    def only(self, asked: str | None = None, *, kind: str | None = None) -> str | None:
        """Return the project whose objects alone the caller may list, None for no such bound.

        :param asked: the project of the request's own filter, which must be that.
        :param kind: ``node`` and so on, for a list below a route with another rule.
        :raises errors.Forbidden: the caller may list nothing, or not those of ``asked``.
        """
        if self._ask is None:
            return None
        name = f"baremetal:{kind}:list" if kind or self._rule is None else self._rule.name
        if self._rule is not None and self._rule.lists:
            self._pending = False
        project = self._bound(name)
        if project is not None and asked and asked != project:
            raise errors.Forbidden(what=f"{name}_all")
        return project

    def _bound(self, name: str) -> str | None:
        """Return the project whose objects alone the caller may list by a rule, None for all.

        :raises errors.Forbidden: the caller may list nothing.
        """
        if self._passes(f"{name}_all", {}):
            return None
        if not self.project:
            raise errors.Forbidden(what=f"{name}_all")
        if not self._passes(name, {}):
            raise errors.Forbidden(what=name)
        return self.project

    def redactor(self) -> Callable[[Row], None] | None:
        """Return what hides in a row of a node what its reader may not see; None: nothing.

        The row needs owner and lessee beside what is hidden.
        """
        if self._ask is None or self.allows("baremetal:node:get:filter_threshold"):
            return None

        def redact(row: Row) -> None:
            owners = target(policy.NODE, row)
            for name, is_object in REDACTED.items():
                rule = f"baremetal:node:get:{name}"
                if row.get(name) and not self._passes(rule, owners):
                    text = f"** Redacted - requires {rule} permission. **"
                    row[name] = {"content": text} if is_object else text

        return redact


def target(kind: str, row: Row) -> dict[str, str]:
    """Return the owners of an object as rules name them.

    An owner that is not there is left out: as None it would be the project of a token without one.
    """
    return {f"{kind}.{name}": row[name] for name in OWNERS if row.get(name)}
