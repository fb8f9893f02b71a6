"""Inspection rules out of a file: its form is checked to the last key, and it is read as needed."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.work.builtin_rules import BuiltinRules
from ironic_lite.core import config
from ironic_lite.domain import inspection_rules

Json = dict[str, Any]
LOG = {"op": "log", "args": {"msg": "x"}}
TEXT = """
- description: all of them
  priority: -5
  conditions:
    - {op: "!is-empty", args: {value: "{inventory[bmc_address]}"}, loop: [1], multiple: all}
  actions:
    - op: set-attribute
      args: {path: /driver_info/redfish_address, value: "https://{inventory[bmc_address]}"}
- uuid: mine
  sensitive: true
  actions: [{op: log, args: {msg: x}}]
"""
PUT = "- {{actions: [{{op: set-attribute, args: {{path: extra/x, value: {}}}}}]}}"


def written(path: pathlib.Path, text: str) -> BuiltinRules:
    path.write_text(text, encoding="utf-8")
    return BuiltinRules(str(path))


def test_rules_are_as_requests_would_make_them(tmp_path: pathlib.Path) -> None:
    first, second = written(tmp_path / "rules.yaml", TEXT).rules()
    assert (first["uuid"], first["priority"]) == ("00000000-0000-0000-0000-000000000000", -5)
    assert (first["sensitive"], first["phase"]) == (False, "main")
    assert first["conditions"][0]["multiple"] == "all"
    assert (second["uuid"], second["sensitive"], second["priority"]) == ("mine", True, 0)
    assert second["actions"] == [LOG]


def test_a_file_that_has_changed_is_read_again_and_only_then(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rules.yaml"
    book = written(path, TEXT)
    known = book.rules("main")
    assert book.rules("main")[0] is known[0]
    path.write_text("[]", encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert book.rules("main") == []


@pytest.mark.parametrize(
    ("value", "found"), [("2026-01-02", "2026-01-02"), ("{1: {2.5: x}}", {"1": {"2.5": "x"}})]
)
def test_yaml_values_without_a_json_type_are_kept_as_text(
    tmp_path: pathlib.Path, value: str, found: Any
) -> None:
    (rule,) = written(tmp_path / "rules.yaml", PUT.format(value)).rules()
    assert rule["actions"][0]["args"]["value"] == found


@pytest.mark.parametrize("path", [None, ""])
def test_without_a_file_there_are_no_rules(path: str | None) -> None:
    book = BuiltinRules(path)
    book.check()
    assert book.rules("main") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "is no YAML"),
        ("\0", "is no YAML"),
        ("a: 1", "must be a list of rules"),
        ("", "must be a list of rules"),
        ("- {actions: [{op: nope, args: {}}]}", "0/actions/0/op: 'nope' is not one of"),
        (PUT.format("!!set {a}"), "has a value that JSON cannot represent"),
        (PUT.format("&a [*a]"), "has a value that JSON cannot represent"),
        (PUT.format("9" * 20), "has a value that JSON cannot represent"),
    ],
    ids=[
        *("no file", "no YAML", "no text", "an object", "nothing", "a bad rule"),
        *("a set", "a list within itself", "a number of more than 64 bits"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: pathlib.Path, text: str | None, said: str
) -> None:
    path = tmp_path / "rules.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(errors.LocalFileError) as why:
        BuiltinRules(str(path)).rules()
    assert str(path) in why.value.message
    assert said in why.value.message
    with pytest.raises(config.ConfigError, match=r"^\[inspection_rules\]built_in_rules: "):
        BuiltinRules(str(path)).check()


BAD: dict[str, tuple[Any, str]] = {
    "a rule of text": ("x", "0"),
    "no actions": ({}, "0/actions"),
    "actions of none": ({"actions": []}, "0/actions"),
    "a scope": ({"actions": [LOG], "scope": "x"}, "0/scope"),
    "a priority of text": ({"actions": [LOG], "priority": "5"}, "0/priority"),
    "a priority that is true": ({"actions": [LOG], "priority": True}, "0/priority"),
    "another phase": ({"actions": [LOG], "phase": "early"}, "0/phase"),
    "sensitive by a word": ({"actions": [LOG], "sensitive": "yes"}, "0/sensitive"),
    "an action of text": ({"actions": ["log"]}, "0/actions/0"),
    "an action without arguments": ({"actions": [{"op": "log"}]}, "0/actions/0/args"),
    "arguments of text": ({"actions": [{**LOG, "args": "x"}]}, "0/actions/0/args"),
    "a loop of text": ({"actions": [{**LOG, "loop": "x"}]}, "0/actions/0/loop"),
    "multiple of an action": ({"actions": [{**LOG, "multiple": "any"}]}, "0/actions/0/multiple"),
    "an argument too many": (
        {"actions": [{"op": "log", "args": {"msg": "x", "y": 1}}]},
        "0/actions/0/args/y",
    ),
    "conditions of text": ({"actions": [LOG], "conditions": "x"}, "0/conditions"),
    "a bad multiple": (
        {"actions": [LOG], "conditions": [{"op": "eq", "args": [[1]], "multiple": "one"}]},
        "0/conditions/0/multiple",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_rule_is_refused_by_the_path_of_its_fault(case: str) -> None:
    rule, path = BAD[case]
    with pytest.raises(errors.InvalidParameter) as why:
        inspection_rules.parse([rule])
    assert why.value.facts["path"] == path
