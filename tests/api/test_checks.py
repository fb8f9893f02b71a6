"""Remembered verdicts are those of the library's own enforcer, and follow changed files."""

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

from ironic_lite.api import policy
from ironic_lite.api.policy import checks, enforcer
from ironic_lite.core import config

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


def fresh(conf: cfg.ConfigOpts) -> Any:
    """Return the library's enforcer, with more rules than ours."""
    made = enforcer.build(conf)
    made.register_defaults([library.RuleDefault(name, check) for name, check in OTHERS.items()])
    made.load_rules()
    return made


@pytest.fixture
def plain() -> Iterator[cfg.ConfigOpts]:
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    yield conf
    conf.clear()


def callers() -> Iterator[dict[str, Any]]:
    for roles, project, system, domain in itertools.product(
        ROLES, PROJECTS, (None, "all"), (None, "d")
    ):
        caller = {"roles": list(roles), "project_id": project, "user_id": "u", "domain_id": domain}
        yield {**caller, "system_scope": system, "system": system, "is_public_api": not roles}


def owned() -> Iterator[dict[str, str]]:
    for owner, lessee in itertools.product(PROJECTS, PROJECTS):
        given = {"node.owner": owner, "node.lessee": lessee, "allocation.owner": owner}
        yield {name: value for name, value in given.items() if value}


def test_every_verdict_is_the_librarys(plain: cfg.ConfigOpts) -> None:
    judge, verdicts = fresh(plain), checks.Verdicts(plain, fresh)
    names = [rule.name for rule in policy.TABLE] + list(OTHERS)
    asked = [(who, owners) for who in callers() for owners in owned()]
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(str(judge.rules[name]), []).append(name)
    assert max(map(len, alike.values())) < len(asked) / 7
    seen = set()
    for number, (text, group) in enumerate(alike.items()):
        # Rules of one text take turns; each seventh question, as all of them take a minute.
        turns = itertools.cycle(group)
        for name, (who, owners) in zip(turns, asked[number % 7 :: 7], strict=False):
            own = {key: value for key, value in who.items() if value is not None}
            wanted = bool(judge.enforce(name, {**own, "answer": "yes", **owners}, dict(who)))
            for _ in range(2):  # computed, and remembered
                caller = checks.Caller(dict(who), {"answer": "yes"})
                assert verdicts.passes(name, owners, caller) is wanted, (name, who, owners)
            seen.add((text, wanted))
    decided = {text for text, _ in seen if {(text, True), (text, False)} <= seen}
    assert sum(len(alike[text]) for text in decided) > 100


def test_a_rule_that_is_not_there_is_passed_by_nobody(plain: cfg.ConfigOpts) -> None:
    who = {"roles": ["admin"], "system": "all", "project_id": None}
    verdicts = checks.Verdicts(plain, enforcer.build)
    assert not verdicts.passes("baremetal:no:such", {}, checks.Caller(who, {}))
    assert not verdicts.has("baremetal:no:such")
    assert verdicts.has("baremetal:node:get")


class Counted(library.Check):
    """A rule of a plug-in that lets in the user u, and counts how often it is asked."""

    asked = 0

    def __call__(self, target: Any, creds: Any, enforcer: Any, name: Any = None) -> bool:
        type(self).asked += 1
        return bool(creds["user_id"] == "u")


@pytest.fixture
def counted(plain: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch) -> checks.Verdicts:
    monkeypatch.setattr(Counted, "asked", 0)

    def build(conf: cfg.ConfigOpts) -> Any:
        made = enforcer.build(conf)
        made.set_rules({"own:counted": Counted("counted", "x")}, overwrite=False)
        return made

    return checks.Verdicts(plain, build)


def test_a_rule_is_asked_once_for_a_caller_and_owners(counted: checks.Verdicts) -> None:
    callers = [{"user_id": "u", "roles": ["a"]}, {"user_id": "v", "roles": ["a"]}]
    owners = [{}, {"node.owner": "p"}, {"node.lessee": "p"}]
    for _ in range(3):
        for who, what in itertools.product(callers, owners):
            caller = checks.Caller(dict(who), {})
            assert counted.passes("own:counted", what, caller) is (who["user_id"] == "u")
    assert Counted.asked == len(callers) * len(owners)


def test_a_verdict_is_forgotten_after_a_while(
    counted: checks.Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = checks.Caller({"user_id": "u", "roles": []}, {})
    monkeypatch.setattr(checks, "KEPT", 0.0)
    assert all(counted.passes("own:counted", {}, caller) for _ in range(3))
    assert Counted.asked == 3


def test_verdicts_of_many_callers_are_bounded(
    counted: checks.Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_MOST", 10)
    for number in range(25):
        caller = checks.Caller({"user_id": f"u{number}", "roles": []}, {})
        assert not counted.passes("own:counted", {}, caller)
        assert counted.remembered <= 10


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    """A policy file that lets in who is first."""
    found = tmp_path / "policy.yaml"
    found.write_text('"baremetal:node:get": "role:first"\n')
    return found


@pytest.fixture
def rules(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[checks.Verdicts]:
    """The rules with that file, which is looked at each time."""
    monkeypatch.setattr(checks, "FRESH", 0.0)
    conf = cfg.ConfigOpts()
    config.register(conf)
    place = file.with_name("service.conf")
    place.write_text(f"[oslo_policy]\npolicy_file = {file}\n")
    conf([], default_config_files=[str(place)], default_config_dirs=[])
    yield checks.Verdicts(conf, enforcer.build)
    conf.clear()


def change(file: pathlib.Path, text: str, seconds: int) -> None:
    file.write_text(text)
    os.utime(file, (time.time() + seconds, time.time() + seconds))


def passing(rules: checks.Verdicts) -> list[str]:
    """Return which of two may see a node."""
    callers = {
        role: checks.Caller({"roles": [role], "project_id": "p"}, {})
        for role in ("first", "second")
    }
    return [role for role, who in callers.items() if rules.passes("baremetal:node:get", {}, who)]


def test_a_changed_file_is_followed(rules: checks.Verdicts, file: pathlib.Path) -> None:
    assert passing(rules) == ["first"]
    change(file, '"baremetal:node:get": "role:second"\n', 5)
    assert passing(rules) == ["second"]


@pytest.mark.parametrize("text", ['"baremetal:node:get": [\n', "no rules\n", "- a\n", "a: 7\n"])
def test_a_file_that_was_broken_changes_nothing(
    rules: checks.Verdicts, file: pathlib.Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert passing(rules) == ["first"]
    change(file, text, 5)
    assert passing(rules) == ["first"]
    assert "policy file cannot be used" in caplog.text
    change(file, '"baremetal:node:get": "role:second"\n', 10)
    assert passing(rules) == ["second"]


@pytest.mark.parametrize(
    "text",
    ['"a": "rule:a"\n', '"a": "rule:b"\n"b": "role:x or rule:a"\n', '"a": "rule:none"\n'],
    ids=["itself", "in turn", "none"],
)
def test_rules_that_lead_nowhere_change_nothing(
    rules: checks.Verdicts, file: pathlib.Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They end the service at its start; here the next to ask for them would fail."""
    assert passing(rules) == ["first"]
    change(file, f'"baremetal:node:get": "rule:a"\n{text}', 5)
    assert passing(rules) == ["first"]
    assert "policy file cannot be used" in caplog.text
    assert passing(rules) == ["first"]
    change(file, '"baremetal:node:get": "role:second"\n', 10)
    assert passing(rules) == ["second"]


def test_a_broken_file_takes_no_rules_of_others_away(
    rules: checks.Verdicts, file: pathlib.Path
) -> None:
    """The library drops all rules before it reads a folder, and stops at what is broken."""
    admin = checks.Caller({"roles": ["admin"], "system_scope": "all"}, {})
    broken, last = (file.with_name("policy.d") / f"{name}.yaml" for name in "ab")
    last.parent.mkdir()
    last.write_text('"baremetal:chassis:create": "!"\n')
    assert not rules.passes("baremetal:chassis:create", {}, admin)
    broken.write_text("no rules\n")
    for _ in range(2):
        assert not rules.passes("baremetal:chassis:create", {}, admin)
        assert passing(rules) == ["first"]
    change(broken, '"baremetal:node:get": "role:second"\n', 5)
    assert passing(rules) == ["second"]
    assert not rules.passes("baremetal:chassis:create", {}, admin)


def test_a_file_that_has_gone_changes_nothing(rules: checks.Verdicts, file: pathlib.Path) -> None:
    """An editor may be about to write it anew; the defaults let in others."""
    assert passing(rules) == ["first"]
    file.unlink()
    assert passing(rules) == ["first"]
    change(file, '"baremetal:node:get": "role:second"\n', 5)
    assert passing(rules) == ["second"]


def test_a_broken_file_is_told_of_once(
    rules: checks.Verdicts, file: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(file, "no rules\n", 5)
    for _ in range(3):
        assert passing(rules) == ["first"]
    assert caplog.text.count("policy file cannot be used") == 1
