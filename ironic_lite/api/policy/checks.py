"""Checks of oslo.policy without looking up how each takes its arguments.

``Enforcer.enforce`` inspects the signature of each part of a rule, and looks for policy files, each
time: that costs more than all else that a request does. Here a rule's tree is copied once: what
joins parts (and, or, not, rule) calls them. What decides (role, a comparison, a plug-in) stays the
library's, and so does the reading of files, once in a second.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from oslo_policy import policy

LOG = logging.getLogger(__name__)

Check = Callable[[Mapping[str, Any], Any, Any, str | None], bool]
"""Takes what is done to, who does it, the enforcer, and the name of the rule."""

_WITH_NAME = 4
FRESH = 1.0
"""Seconds in which a changed policy file may not be noticed."""


class Trees:
    """The copies of an enforcer's rules; a rule that was loaded anew is copied anew."""

    def __init__(self, enforcer: Any) -> None:
        self._enforcer = enforcer
        # While one thread loads, the library's own are incomplete: a file's may be there, and those
        # of the next, which say otherwise, not yet.
        self._rules = enforcer.rules
        self._copies: dict[str, tuple[Any, Check]] = {}
        self._loading = threading.Lock()
        self._loaded = float("-inf")

    def passes(self, name: str, target: Mapping[str, Any], who: Mapping[str, Any]) -> bool:
        """Tell what ``Enforcer.enforce`` would.

        :param who: what the rules may name of the caller; ``system`` tells the scope ``all``.
        """
        self._refresh()
        registered = self._enforcer.registered_rules.get(name)
        scopes = registered.scope_types if registered else None
        if scopes and _scope(who) not in scopes:
            return False
        return bool(self.find(name)(target, who, self._enforcer, name))

    def has(self, name: str) -> bool:
        """Tell whether there is a rule of this name, in the table or in a policy file."""
        self._refresh()
        return name in self._rules

    def _refresh(self) -> None:
        """Let the library look for changed files now and then; one thread does, others go on."""
        if time.monotonic() - self._loaded < FRESH or not self._loading.acquire(blocking=False):
            return
        try:
            self._enforcer.load_rules()
            if self._enforcer.rules is not self._rules:
                self._enforcer.check_rules(raise_on_violation=True)
                self._rules = self._enforcer.rules
        except Exception:  # whatever a parser may raise
            # Of several files, those before the broken one have taken the place of all by now.
            self._enforcer.rules = self._rules
            LOG.exception("A changed policy file cannot be used; the rules stay as they were")
        finally:
            self._loaded = time.monotonic()
            self._loading.release()

    def find(self, name: str) -> Check:
        """Return the copy of a rule; one that nobody passes, if there is no such rule."""
        try:
            rule = self._rules[name]
        except KeyError:
            return _nobody
        known = self._copies.get(name)
        if known is None or known[0] is not rule:
            known = self._copies[name] = rule, self._copy(rule)
        return known[1]

    def _copy(self, rule: Any) -> Check:
        # By the very class: a plug-in's heir of one of these may mean something else.
        kind = type(rule)
        if kind is policy.AndCheck:
            return _joined(all, [self._copy(each) for each in rule.rules])
        if kind is policy.OrCheck:
            return _joined(any, [self._copy(each) for each in rule.rules])
        if kind is policy.NotCheck:
            inner = self._copy(rule.rule)
            return lambda *asked: not inner(*asked)
        if kind is policy.RuleCheck:
            return self._named(rule.match)
        takes = len(inspect.getfullargspec(rule.__call__).args) - 1
        found: Check = rule
        return found if takes >= _WITH_NAME else lambda *asked: bool(rule(*asked[:-1]))

    def _named(self, name: str) -> Check:
        """Return what looks for a rule when it is asked: it may be loaded anew, or come later."""

        def ask(target: Mapping[str, Any], who: Any, enforcer: Any, current: str | None) -> bool:
            return self.find(name)(target, who, enforcer, current)

        return ask


def _joined(how: Callable[[Any], bool], parts: list[Check]) -> Check:
    return lambda *asked: how(part(*asked) for part in parts)


def _scope(who: Mapping[str, Any]) -> str:
    """Return the scope of a caller's token, as oslo.policy tells it."""
    if who.get("system"):
        return "system"
    return "domain" if who.get("domain_id") else "project"


def _nobody(*_asked: object) -> bool:
    return False
