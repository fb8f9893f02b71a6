"""The rules of ``policy`` in oslo.policy, with the overrides of a policy file.

Imported only by [api]auth_strategy = keystone and by the programs oslopolicy-*.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import oslo_policy.policy
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import opts

from ironic_lite.api import policy
from ironic_lite.api.policy.access import Access
from ironic_lite.core import config
from ironic_lite.core.json_types import Json, JsonView

# Cached verdicts of oslo.policy, each computed once for the same caller and owners.
#
# ``Enforcer.enforce`` inspects the signature of each part of a rule and looks for policy files at
# each call. This takes up to a third of a millisecond for a rule, and a GET of a node checks six
# rules; without a cache such a GET takes twice the time. A verdict depends on the rules, the caller
# and the owners, so the cache key contains all values of these that a rule may name.
#
# The enforcer of a `_Loaded` never changes. Changed policy files are read into a new enforcer,
# which replaces the old one if the files are valid.

LOG = logging.getLogger(__name__)

FRESH = 1.0
"""Seconds until a changed policy file is noticed."""
KEPT = 10.0
"""Seconds that a verdict is cached; a rule may call another service (``http:``)."""
_MOST = 4096
"""Largest number of cached verdicts."""

Key = tuple[Any, ...]
_File = tuple[str, int, int, int]


class Caller:
    """The caller of one request, with the values that rules may name.

    :param creds: values of the caller.
    :param common: further values that rules may name as parts of the target.
    """

    __slots__ = ("creds", "key", "plain")

    def __init__(self, creds: Json, common: JsonView) -> None:
        if creds.get("system_scope"):
            creds["system"] = creds["system_scope"]  # the older name, which rules use
        self.creds = creds
        own = {name: value for name, value in creds.items() if value is not None}
        self.plain = {**common, **own}
        self.key: Key = (*creds, *map(_hashable_value, creds.values()))


class _Loaded:
    """An enforcer that does not reload files, and its cached verdicts."""

    __slots__ = ("_until", "enforcer", "known")

    def __init__(self, enforcer: Any) -> None:
        enforcer.set_rules(enforcer.rules, use_conf=False)
        self.enforcer = enforcer
        self.known: dict[Key, bool] = {}
        self._until = 0.0

    def passes(self, name: str, owners: Mapping[str, str], caller: Caller) -> bool:
        key = (name, *owners.items(), caller.key)
        found = self.known.get(key)
        now = time.monotonic()
        if found is not None and now < self._until:
            return found
        if now >= self._until or len(self.known) >= _MOST:
            self.known, self._until = {}, now + KEPT
        target = {**caller.plain, **owners}
        # A copy, because the enforcer changes the dictionary.
        found = bool(self.enforcer.enforce(name, target, dict(caller.creds)))
        self.known[key] = found
        return found


class Verdicts:
    """The rules of a configuration, shared by all threads.

    :param build: makes an enforcer from the current policy files.
    :raises config.ConfigError: raised by ``build`` for invalid files.
    """

    def __init__(self, conf: cfg.ConfigOpts, build: Callable[[cfg.ConfigOpts], object]) -> None:
        self._conf = conf
        self._build = build
        for group, options in opts.list_opts():
            conf.register_opts(options, group=group)
        self._file_stamps = _file_stamps(
            conf
        )  # before the files are read, because they may change meanwhile
        self._loaded = _Loaded(build(conf))
        self._loading = threading.Lock()
        self._looked = time.monotonic()

    def passes(self, name: str, owners: Mapping[str, str], caller: Caller) -> bool:
        """Return the verdict of ``Enforcer.enforce`` on this rule, these owners and this caller."""
        self._refresh_if_due()
        return self._loaded.passes(name, owners, caller)

    @property
    def remembered(self) -> int:
        """The number of cached verdicts."""
        return len(self._loaded.known)

    def has(self, name: str) -> bool:
        """Return whether the table or a policy file has a rule of this name."""
        self._refresh_if_due()
        return name in self._loaded.enforcer.rules

    def _refresh_if_due(self) -> None:
        """Look for changed files once in `FRESH` seconds, in one thread; others do not wait."""
        if time.monotonic() - self._looked < FRESH or not self._loading.acquire(blocking=False):
            return
        try:
            files = _file_stamps(self._conf)
            if files != self._file_stamps:
                before, self._file_stamps = self._file_stamps, files
                self._load_rules(gone=_main_file(before) is not None and _main_file(files) is None)
        finally:
            self._looked = time.monotonic()
            self._loading.release()

    def _load_rules(self, *, gone: bool) -> None:
        try:
            if gone:  # an editor may be replacing the file, and the defaults may allow more
                raise config.ConfigError(reason=f"{self._conf.oslo_policy.policy_file} is gone")
            self._loaded = _Loaded(self._build(self._conf))
        except config.ConfigError as why:
            text = "A changed policy file cannot be used; the previous rules stay in force: %s"
            LOG.error(text, why)


def _main_file(files: tuple[_File | None, ...]) -> _File | None:
    return files[0]


def _file_stamps(conf: cfg.ConfigOpts) -> tuple[_File | None, ...]:
    """Return the stamps of the policy files, which change with them; the main file comes first."""
    chosen = conf.oslo_policy
    found = [_file_stamp(conf.find_file(chosen.policy_file))]
    for folder in filter(None, map(conf.find_file, chosen.policy_dirs)):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        found += [_file_stamp(os.path.join(folder, name)) for name in names if name[0] != "."]
    return tuple(found)


def _file_stamp(path: str | None) -> _File | None:
    try:
        seen = os.stat(path) if path else None
    except OSError:
        return None
    return None if seen is None else (str(path), seen.st_mtime_ns, seen.st_size, seen.st_ino)


def _hashable_value(value: object) -> Any:
    """Return a value of a caller, such as the list of roles, in hashable form."""
    return tuple(value) if isinstance(value, list) else value


_OURS = ("--config-file", "--config-dir")


def default_rules() -> list[Any]:
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


def parsed_check(text: Any) -> str:
    """Return the check of a policy file as the library has understood it."""
    return str(oslo_policy.policy.Rules.from_dict({"": text})[""])


def build_enforcer(conf: cfg.ConfigOpts) -> Any:
    """Return the enforcer of a configuration.

    :raises config.ConfigError: the policy file is invalid.
    """
    found = oslo_policy.policy.Enforcer(conf)
    found.register_defaults(default_rules())
    try:
        found.load_rules()
        found.check_rules(raise_on_violation=True)
    except Exception as why:  # whatever a parser may raise
        raise config.ConfigError(
            reason=f"[oslo_policy]policy_file: {conf.oslo_policy.policy_file}: {why}"
        ) from None
    return found


def enforcer_for_scripts() -> Any:
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
    return build_enforcer(cfg.CONF)


class AccessFactory:
    """Make the `Access` of each caller, backed by one enforcer."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._rules = Verdicts(conf, build_enforcer)
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
        caller = Caller(values, self._common)

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
