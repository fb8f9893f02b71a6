"""Copied rules decide as the library's own enforcer does, and follow changed files."""

from __future__ import annotations

import itertools
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg
from oslo_policy import policy as library

from ironic_lite import config
from ironic_lite.api import policy
from ironic_lite.api.policy import checks, enforcer

ROLES = (
    (),
    ("reader",),
    ("member",),
    ("manager",),
    ("admin",),
    ("service",),
    ("OBSERVER", "Admin"),
)
PROJECTS = (None, "p1", "p2")
OTHERS: dict[str, str] = {
    "own:strange": "not role:admin and ('yes':%(answer)s or rule:is_member)",
    "own:missing": "rule:no_such_rule",
    "own:everybody": "@",
    "own:nobody": "!",
    "own:endless": "role:admin or (role:reader and not (project_id:p1 and not role:member))",
}


@pytest.fixture
def found() -> Any:
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    made = enforcer.build(conf)
    made.register_defaults([library.RuleDefault(name, check) for name, check in OTHERS.items()])
    made.load_rules()
    return made


def callers() -> Iterator[dict[str, Any]]:
    for roles, project, system, domain in itertools.product(
        ROLES, PROJECTS, (None, "all"), (None, "d")
    ):
        caller = {"roles": list(roles), "project_id": project, "user_id": "u", "domain_id": domain}
        yield {**caller, "system_scope": system, "system": system, "is_public_api": not roles}


def targets(caller: dict[str, Any]) -> Iterator[dict[str, Any]]:
    own = {name: value for name, value in caller.items() if value is not None}
    for owner, lessee in itertools.product(PROJECTS, PROJECTS):
        given = {"node.owner": owner, "node.lessee": lessee, "allocation.owner": owner}
        yield {**own, **{name: value for name, value in given.items() if value}, "answer": "yes"}


def test_every_rule_decides_as_the_library_does(found: Any) -> None:
    trees = checks.Trees(found)
    names = [rule.name for rule in policy.TABLE] + list(OTHERS)
    asked = [(who, what) for who in callers() for what in targets(who)]
    seen = set()
    for number, name in enumerate(names):
        for who, what in asked[number % 7 :: 7]:  # each seventh: all of them take a minute
            wanted = bool(found.enforce(name, what, dict(who)))
            assert trees.passes(name, what, who) is wanted, (name, who, what)
            seen.add((name, wanted))
    decided = {name for name, _ in seen if {(name, True), (name, False)} <= seen}
    assert len(decided) > 100


def test_a_rule_that_is_not_there_is_passed_by_nobody(found: Any) -> None:
    who = {"roles": ["admin"], "system": "all", "project_id": None}
    assert not checks.Trees(found).passes("baremetal:no:such", {}, who)


def test_a_plugin_of_the_old_kind_is_asked_without_the_name(found: Any) -> None:
    class Old(library.Check):
        def __call__(self, target: Any, creds: Any, enforcer: Any) -> bool:  # type: ignore[override]
            return bool(creds["user_id"] == "u" and enforcer is found and target == {"a": "b"})

    found.rules["own:new"] = library.RuleDefault("own:new", "not role:admin").check
    parts = [Old("old", "x"), library.RuleCheck("rule", "own:new")]
    found.rules["own:old"] = library.AndCheck(parts)
    trees = checks.Trees(found)
    assert trees.passes("own:old", {"a": "b"}, {"user_id": "u", "roles": []})
    assert not trees.passes("own:old", {"a": "b"}, {"user_id": "v", "roles": []})


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    """A policy file that lets in who is first."""
    found = tmp_path / "policy.yaml"
    found.write_text('"baremetal:node:get": "role:first"\n')
    return found


@pytest.fixture
def trees(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[checks.Trees]:
    """The rules with that file, which is looked at each time."""
    monkeypatch.setattr(checks, "FRESH", 0.0)
    conf = cfg.ConfigOpts()
    config.register(conf)
    place = file.with_name("service.conf")
    place.write_text(f"[oslo_policy]\npolicy_file = {file}\n")
    conf([], default_config_files=[str(place)], default_config_dirs=[])
    yield checks.Trees(enforcer.build(conf))
    conf.clear()


def change(file: pathlib.Path, text: str, seconds: int) -> None:
    file.write_text(text)
    os.utime(file, (time.time() + seconds, time.time() + seconds))


def passing(trees: checks.Trees) -> list[str]:
    """Return which of two may see a node."""
    callers = {role: {"roles": [role], "project_id": "p"} for role in ("first", "second")}
    return [role for role, who in callers.items() if trees.passes("baremetal:node:get", {}, who)]


def test_a_changed_file_is_followed(trees: checks.Trees, file: pathlib.Path) -> None:
    assert passing(trees) == ["first"]
    change(file, '"baremetal:node:get": "role:second"\n', 5)
    assert passing(trees) == ["second"]


@pytest.mark.parametrize("text", ['"baremetal:node:get": [\n', "no rules\n", "- a\n", "a: 7\n"])
def test_a_file_that_was_broken_changes_nothing(
    trees: checks.Trees, file: pathlib.Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert passing(trees) == ["first"]
    change(file, text, 5)
    assert passing(trees) == ["first"]
    assert "policy file cannot be used" in caplog.text
    change(file, '"baremetal:node:get": "role:second"\n', 10)
    assert passing(trees) == ["second"]


@pytest.mark.parametrize(
    "text",
    ['"a": "rule:a"\n', '"a": "rule:b"\n"b": "role:x or rule:a"\n', '"a": "rule:none"\n'],
    ids=["itself", "in turn", "none"],
)
def test_rules_that_lead_nowhere_change_nothing(
    trees: checks.Trees, file: pathlib.Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They end the service at its start; here the next to ask for them would fail."""
    assert passing(trees) == ["first"]
    change(file, f'"baremetal:node:get": "rule:a"\n{text}', 5)
    assert passing(trees) == ["first"]
    assert "policy file cannot be used" in caplog.text
    assert passing(trees) == ["first"]
    change(file, '"baremetal:node:get": "role:second"\n', 10)
    assert passing(trees) == ["second"]


def test_a_broken_file_takes_no_rules_of_others_away(
    trees: checks.Trees, file: pathlib.Path
) -> None:
    """The library drops all rules before it reads a folder, and stops at what is broken."""
    admin = {"roles": ["admin"], "system_scope": "all", "system": "all"}
    broken, last = (file.with_name("policy.d") / f"{name}.yaml" for name in "ab")
    last.parent.mkdir()
    last.write_text('"baremetal:chassis:create": "!"\n')
    assert not trees.passes("baremetal:chassis:create", {}, admin)
    broken.write_text("no rules\n")
    for _ in range(2):
        assert not trees.passes("baremetal:chassis:create", {}, admin)
        assert passing(trees) == ["first"]
    change(broken, '"baremetal:node:get": "role:second"\n', 5)
    assert passing(trees) == ["second"]
    assert not trees.passes("baremetal:chassis:create", {}, admin)
